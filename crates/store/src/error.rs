//! What can go wrong with a store, said so that the reader knows what to do.

use crate::open::server_of;
use crate::select::Selector;
use std::path::{Path, PathBuf};

/// Result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store call failed. [`StoreError::is_bad_use`] tells the caller's mistakes from the machine's.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk, the quota or the page limit is used up.
    #[error("no space left for {}{}", path.display(), room(*kept))]
    Full {
        /// The database.
        path: PathBuf,
        /// Trials of the run in hand that are safe.
        kept: u64,
    },
    /// A later Weir wrote the file.
    #[error(
        "{} has store version {found}, and this weir reads up to version {known}; use the weir that wrote it, or another database with --db", path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this build knows.
        known: u32,
    },
    /// The file is something else.
    #[error("{} is not a Weir database ({what}); name another with --db", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What was seen instead.
        what: String,
    },
    /// A page or row does not hold what it must.
    #[error("{} is damaged ({what}); {}", path.display(), saving(path))]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What was seen.
        what: String,
    },
    /// The file or its folder cannot be made or written.
    #[error("cannot open the store {}: {why}; name a file in a folder you may write to with --db", path.display())]
    Open {
        /// The database.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A reader asked for a file that is not there.
    #[error("there is no store at {} yet; `weir bench` makes one, or name another with --db", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// No home folder to put the default store in.
    #[error("no folder for the store: neither XDG_DATA_HOME nor HOME is set; name a file with --db")]
    NoFolder,
    /// Another process held the write lock too long.
    #[error("{} stayed locked by another process for {seconds} s; try again when it has finished", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// Another campaign is at this run.
    #[error("run {name} is being measured by another process; wait for it or stop it first")]
    RunInUse {
        /// The run's name.
        name: String,
    },
    /// A run with the identity of one that is here, and another content.
    #[error(
        "{} has run {name} ({uuid}) with another content, and neither goes on where the other stops: one of them was \
         changed; `weir verify {name}` checks the one that is there, and another database takes the other", path.display()
    )]
    OtherRun {
        /// The database.
        path: PathBuf,
        /// The name of the run that is there.
        name: String,
        /// The identity of both.
        uuid: String,
    },
    /// The run is another account's.
    #[error("run {uuid} is there already, and not this account's with this content")]
    OthersRun {
        /// Its identity.
        uuid: String,
    },
    /// An account has pushed what it may.
    #[error("the account's quota is used up: {what}")]
    Quota {
        /// How much it has, and may have.
        what: String,
    },
    /// An account that cannot be made, or is not there.
    #[error("account `{name}`: {why}")]
    BadAccount {
        /// Its name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A copy is to go where something is already.
    #[error("{} holds something already, and a whole store goes into an empty one alone; name another with --db", path.display())]
    NotEmpty {
        /// The database.
        path: PathBuf,
    },
    /// No run matches the selector.
    #[error("no run matches `{selector}` in {}; `weir runs` lists {}", path.display(), among(*runs))]
    NoSuchRun {
        /// What was asked for.
        selector: Selector,
        /// The database.
        path: PathBuf,
        /// Runs it holds.
        runs: u64,
    },
    /// Several runs match the selector.
    #[error("`{selector}` matches {} runs: {}; write more of the name", matches.len(), matches.join(", "))]
    Ambiguous {
        /// What was asked for.
        selector: Selector,
        /// The runs that match, newest first.
        matches: Vec<String>,
    },
    /// The name is taken or cannot be told from a selector.
    #[error("`{name}` cannot name a run: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An address of a server that says nothing, or something that cannot be done.
    #[error("{}: {why}; an address is postgres://USER@HOST/NAME, or postgres:///NAME over its socket", path.display())]
    BadAddress {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No answer from a server.
    #[error("cannot reach {} ({why}); start the server, or name another database with --db", path.display())]
    Unreachable {
        /// The database.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A server went away while it was used, and did not come back in time.
    #[error(
        "{} went away ({why}); the trials kept before are safe there: `weir bench --resume` goes on when it is back", path.display()
    )]
    Gone {
        /// The database.
        path: PathBuf,
        /// What was seen of it.
        why: String,
    },
    /// A server does not let us in, or does not do this for us.
    #[error("{} refuses: {why}", path.display())]
    Refused {
        /// The database.
        path: PathBuf,
        /// What the server said, and what to do about it.
        why: String,
    },
    /// This build speaks with no server.
    #[error("{}: this weir was built without PostgreSQL; `./x build --postgres` builds one with it", path.display())]
    NoPostgres {
        /// The database.
        path: PathBuf,
    },
    /// A value cannot be stored.
    #[error("{}: a value cannot be stored: {what}", path.display())]
    Unfit {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Anything else the database said.
    #[error("{}: {source}", path.display())]
    Engine {
        /// The database.
        path: PathBuf,
        /// Its own words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn saving(path: &Path) -> &'static str {
    match server_of(path) {
        Some(_) => "restore a backup, or save what can be read with `pg_dump`",
        None => "copy it away and save what can be read with `sqlite3 FILE .recover`, or restore a backup",
    }
}

/// What to do on a full disk: as a reader, or with a run in hand.
fn room(kept: u64) -> String {
    match kept {
        0 => ": free some and try again; reading takes some, too".to_owned(),
        kept => format!("; {kept} trials of this run are kept: free space and run `weir bench --resume`"),
    }
}

fn among(runs: u64) -> String {
    match runs {
        0 => "none, as nothing has been measured into it".to_owned(),
        1 => "the one there is".to_owned(),
        n => format!("the {n} there are"),
    }
}

impl StoreError {
    /// Whether the caller asked for something that is not there or not possible (exit code 2).
    pub fn is_bad_use(&self) -> bool {
        !matches!(
            self,
            Self::Full { .. }
                | Self::Busy { .. }
                | Self::Damaged { .. }
                | Self::Gone { .. }
                | Self::Unfit { .. }
                | Self::Engine { .. }
        )
    }
}

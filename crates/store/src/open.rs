//! Opening a store: which database is meant, and where it is without being named.

use crate::engine::Engine;
use crate::engine::sqlite::Sqlite;
use crate::error::{StoreError, StoreResult};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a call waits for another process's transaction.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// An open store. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Store {
    pub(crate) engine: Engine,
    /// The database for messages: a server's address without its password.
    pub(crate) path: PathBuf,
    /// The database as it was named.
    named: PathBuf,
}

/// Where the store is without `--db`: `$XDG_DATA_HOME/weir/weir.db`, else
/// `$HOME/.local/share/weir/weir.db` (XDG Base Directory Specification 0.8).
pub fn default_path() -> StoreResult<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable("XDG_DATA_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
        .map(|folder| folder.join("weir/weir.db"))
        .ok_or(StoreError::NoFolder)
}

/// The address of a PostgreSQL server, where a database is one: `postgres://USER@HOST/NAME`.
pub fn server_of(database: &Path) -> Option<&str> {
    let text = database.to_str()?;
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
}

/// A database for messages and suggested commands: the address of a server without its password.
pub fn without_password(database: &Path) -> PathBuf {
    let Some((scheme, rest)) = server_of(database).and_then(|text| text.split_once("://")) else {
        return database.to_owned();
    };
    // A password that is not written as one in an address may hold what ends the part with the host.
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let at = rest[..end].rfind('@').or_else(|| rest[..end].contains(':').then(|| rest.rfind('@')).flatten());
    let (who, rest) = at.map_or(("", rest), |at| (&rest[..at], &rest[at + 1..]));
    let who =
        who.split(':').next().filter(|who| !who.is_empty()).map_or_else(String::new, |who| format!("{who}@"));
    let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
    let kept: Vec<&str> = settings
        .split('&')
        .filter(|setting| !setting.is_empty() && !setting.starts_with("password="))
        .collect();
    let settings = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("{scheme}://{who}{place}{settings}").into()
}

impl Store {
    /// Opens a store to write to, making the file and its folder, or a server's tables, when they are not there.
    /// Without a path it is [`default_path`].
    pub fn open(path: Option<&Path>) -> StoreResult<Self> {
        let named = chosen(path)?;
        let engine = match server_of(&named) {
            Some(address) => server(address, true)?,
            None => Engine::Sqlite(Sqlite::open(&named)?),
        };
        Ok(Self { engine, path: without_password(&named), named })
    }

    /// Opens a store to read from; one that is not there is an error and is not made. Works in a
    /// folder that may not be written to.
    pub fn open_existing(path: Option<&Path>) -> StoreResult<Self> {
        let named = chosen(path)?;
        let engine = match server_of(&named) {
            Some(address) => server(address, false)?,
            None => Engine::Sqlite(Sqlite::open_existing(&named)?),
        };
        Ok(Self { engine, path: without_password(&named), named })
    }

    /// A store over a database that is open.
    #[cfg(feature = "central")]
    pub(crate) fn over(engine: Engine, named: &Path) -> Self {
        Self { engine, path: named.to_owned(), named: named.to_owned() }
    }

    /// The database for messages: a file, or the address of a server without its password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database as it was named, for another process.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// A file that goes with the store, as [`beside`].
    pub fn beside(&self, file: &str) -> PathBuf {
        beside(&self.named, file)
    }
}

/// A file that goes with a database: beside its file, or in the working folder where it is on a server.
pub fn beside(database: &Path, file: &str) -> PathBuf {
    if server_of(database).is_some() { PathBuf::from(file) } else { database.with_file_name(file) }
}

fn chosen(path: Option<&Path>) -> StoreResult<PathBuf> {
    path.map_or_else(default_path, |path| Ok(path.to_owned()))
}

#[cfg(feature = "postgres")]
fn server(address: &str, make: bool) -> StoreResult<Engine> {
    let place = without_password(Path::new(address));
    crate::engine::postgres::Postgres::open(address, &place, make)
        .map(|server| Engine::Postgres(Box::new(server)))
}

#[cfg(not(feature = "postgres"))]
fn server(address: &str, _make: bool) -> StoreResult<Engine> {
    Err(StoreError::NoPostgres { path: without_password(Path::new(address)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_has_a_password() {
        for (address, shown) in [
            ("postgres://me:secret@lab:5433/weir", "postgres://me@lab:5433/weir"),
            ("postgres://me:a@b@lab/weir", "postgres://me@lab/weir"),
            ("postgres://me:a/b?c@lab/weir", "postgres://me@lab/weir"),
            (
                "postgres://me@lab:5432/weir?application_name=a@b",
                "postgres://me@lab:5432/weir?application_name=a@b",
            ),
            ("postgresql:///weir?host=/tmp/x&password=secret", "postgresql:///weir?host=/tmp/x"),
            ("postgres://lab/weir?password=secret", "postgres://lab/weir"),
            ("/tmp/me:x@y/weir.db", "/tmp/me:x@y/weir.db"),
        ] {
            assert_eq!(without_password(Path::new(address)), Path::new(shown));
        }
    }
}

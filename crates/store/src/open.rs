//! Opening a store: its place, its migrations, its settings.

use crate::error::{StoreError, StoreResult};
use crate::lock::RunLock;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rusqlite_migration::{M, Migrations};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a call waits for another process's transaction.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// `PRAGMA application_id` of a Weir database: "Weir" in ASCII. The first migration sets it.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Weir");

/// One file a version, in order; a file once released is never changed.
const MIGRATIONS: &[M<'static>] = &[
    M::up(include_str!("../migrations/1-runs.sql")),
    M::up(include_str!("../migrations/2-truth.sql")).foreign_key_check(),
    M::up(include_str!("../migrations/3-provenance.sql")),
    M::up(include_str!("../migrations/4-placement.sql")),
    M::up(include_str!("../migrations/5-advice.sql")),
    M::up(include_str!("../migrations/6-imports.sql")),
];

/// The store version this build writes (`PRAGMA user_version`).
pub const VERSION: u32 = MIGRATIONS.len() as u32;

/// An open store. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) locks: BTreeMap<i64, RunLock>,
    /// The folder of a copy that is read in place of a file that may only be read. Dropped after the
    /// connection.
    _copy: Option<tempfile::TempDir>,
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

impl Store {
    /// Opens a store to write to, making the file and its folder when they are not there.
    /// Without a path it is [`default_path`].
    pub fn open(path: Option<&Path>) -> StoreResult<Self> {
        let path = chosen(path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|error| StoreError::Open { path: path.clone(), why: error.to_string() })?;
        }
        check_magic(&path)?;
        let connection = Connection::open(&path).map_err(|error| StoreError::of(&path, 0, error))?;
        Self::with(connection, path, true)
    }

    /// Opens a store to read from; one that is not there is an error and is not made. Works in a
    /// folder that may not be written to.
    pub fn open_existing(path: Option<&Path>) -> StoreResult<Self> {
        let path = chosen(path)?;
        if !path.exists() {
            return Err(StoreError::Missing { path });
        }
        match Self::open(Some(&path)) {
            Err(StoreError::Open { .. }) => {}
            other => return other,
        }
        // Without write access there is no shared-memory index, without which SQLite reads no write-ahead
        // log: what its last writer left there would be missing.
        if log_of(&path).metadata().is_ok_and(|log| log.len() > 0) {
            return Self::open_copy(path);
        }
        let mut uri = String::from("file:");
        for byte in std::path::absolute(&path).unwrap_or_else(|_| path.clone()).as_os_str().as_encoded_bytes()
        {
            match byte {
                b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
                byte => uri.push_str(&format!("%{byte:02X}")),
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(format!("{uri}?immutable=1"), flags)
            .map_err(|error| StoreError::of(&path, 0, error))?;
        match Self::with(connection, path.clone(), false) {
            // Of an older version: a copy can be raised.
            Err(StoreError::Open { .. }) => Self::open_copy(path),
            other => other,
        }
    }

    /// Opens a copy of a store that may only be read, with its write-ahead log, raised to this version.
    /// The copy is for reading, and goes with the store.
    fn open_copy(path: PathBuf) -> StoreResult<Self> {
        let refused = |error: std::io::Error| StoreError::Open {
            path: path.clone(),
            why: format!("it may only be read, and a copy of it cannot be made: {error}"),
        };
        let folder = tempfile::Builder::new().prefix("weir-store-").tempdir().map_err(refused)?;
        let copy = folder.path().join("weir.db");
        std::fs::copy(&path, &copy).map_err(refused)?;
        if log_of(&path).exists() {
            std::fs::copy(log_of(&path), log_of(&copy)).map_err(refused)?;
        }
        for file in [&copy, &log_of(&copy)].into_iter().filter(|file| file.exists()) {
            // A copy takes the rights of its original along.
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
        }
        let connection = Connection::open(&copy).map_err(|error| StoreError::of(&path, 0, error))?;
        let store = Self::with(connection, path, true)?;
        Ok(Self { _copy: Some(folder), ..store })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn with(mut connection: Connection, path: PathBuf, writable: bool) -> StoreResult<Self> {
        let found = prepare(&connection, writable).map_err(|error| StoreError::of(&path, 0, error))?;
        match found {
            Found::Foreign(what) => return Err(StoreError::NotADatabase { path, what }),
            Found::Version(found) if found > VERSION => {
                return Err(StoreError::Newer { path, found, known: VERSION });
            }
            Found::Version(found) if !writable && found < VERSION => {
                return Err(StoreError::Open {
                    path,
                    why: format!("its version {found} must be raised to {VERSION}, and it may only be read"),
                });
            }
            Found::Version(_) => {}
        }
        if writable {
            migrate(&mut connection).map_err(|error| StoreError::of(&path, 0, error))?;
        }
        Ok(Self { connection, path, locks: BTreeMap::new(), _copy: None })
    }
}

/// SQLite's write-ahead log of a database.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("-wal");
    path.with_file_name(name)
}

/// What kind of file it is.
enum Found {
    Version(u32),
    Foreign(String),
}

fn chosen(path: Option<&Path>) -> StoreResult<PathBuf> {
    path.map_or_else(default_path, |path| Ok(path.to_owned()))
}

/// A file that is not SQLite's must not be touched, not even by an attempt to open it.
fn check_magic(path: &Path) -> StoreResult<()> {
    use std::io::Read as _;
    if path.is_dir() {
        return Err(StoreError::NotADatabase { path: path.to_owned(), what: "it is a folder".to_owned() });
    }
    let Ok(mut file) = std::fs::File::open(path) else { return Ok(()) };
    let mut head = [0_u8; 16];
    match file.read_exact(&mut head) {
        Ok(()) if &head != b"SQLite format 3\0" => Err(StoreError::NotADatabase {
            path: path.to_owned(),
            what: "its first bytes are not SQLite's".to_owned(),
        }),
        Err(_) if file.metadata().is_ok_and(|data| data.len() > 0) => Err(StoreError::NotADatabase {
            path: path.to_owned(),
            what: "it is shorter than a database".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Sets the connection up and says what it found. Writes nothing to a file that is not ours.
fn prepare(connection: &Connection, writable: bool) -> rusqlite::Result<Found> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = number("user_version")?;
    let application = number("application_id")?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != i64::from(APPLICATION_ID) && (tables > 0 || application != 0) {
        return Ok(Found::Foreign("it is a database of another program".to_owned()));
    }
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    if writable && version <= VERSION {
        to_wal(connection)?;
        connection.pragma_update(None, "synchronous", "full")?;
    }
    Ok(Found::Version(version))
}

/// Switches to the write-ahead log. The switch does not wait for its turn by itself.
fn to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Raises the file to [`VERSION`]. Of two processes that find an old file at once, each raises it by
/// the steps that the other has not taken.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = |connection: &Connection| -> rusqlite::Result<u32> {
        connection.pragma_query_value(None, "user_version", |row| row.get(0))
    };
    // Immediate, so that the second process waits instead of failing half-way.
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    let migrations = Migrations::from_slice(MIGRATIONS);
    loop {
        let found = version(connection)?;
        if found == VERSION {
            return Ok(());
        }
        // Otherwise a table made anew would take along what refers to it.
        connection.pragma_update(None, "foreign_keys", false)?;
        let raised = migrations.to_latest(connection);
        connection.pragma_update(None, "foreign_keys", true)?;
        if let Err(error) = raised
            && version(connection)? == found
        {
            return Err(match error {
                rusqlite_migration::Error::RusqliteError { err, .. } => err,
                other => rusqlite::Error::ToSqlConversionFailure(Box::new(other)),
            });
        }
    }
}

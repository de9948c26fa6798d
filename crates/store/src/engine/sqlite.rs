//! SQLite: a file, with a write-ahead log, and a lock file for each run being measured.

use super::{Result, Row, Value};
use crate::error::{StoreError, StoreResult};
use crate::lock::RunLock;
use crate::migrations::{SQLITE as MIGRATIONS, VERSION};
use crate::open::BUSY_TIMEOUT;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi, params_from_iter};
use rusqlite_migration::Migrations;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `PRAGMA application_id` of a Weir database: "Weir" in ASCII. The first migration sets it.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Weir");

/// What a database begins with (SQLite's "Database File Format", 1.3.1).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Statements that stay prepared.
const PREPARED: usize = 64;

/// A database file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    pub(crate) connection: Connection,
    path: PathBuf,
    locks: BTreeMap<i64, RunLock>,
    /// The folder of a copy that is read in place of a file that may only be read. Dropped after the
    /// connection.
    _copy: Option<tempfile::TempDir>,
}

impl Sqlite {
    /// Opens a file to write to, making it and its folder when they are not there.
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|error| StoreError::Open { path: path.to_owned(), why: error.to_string() })?;
        }
        check_magic(path)?;
        let connection = Connection::open(path).map_err(|error| sorted(path.to_owned(), 0, error))?;
        Self::with(connection, path, true)
    }

    /// Opens a file to read from; one that is not there is an error and is not made. Works in a
    /// folder that may not be written to.
    pub(crate) fn open_existing(path: &Path) -> StoreResult<Self> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        match Self::open(path) {
            Err(StoreError::Open { .. }) => {}
            other => return other,
        }
        // Without write access there is no shared-memory index, without which SQLite reads no write-ahead
        // log: what its last writer left there would be missing.
        if log_of(path).metadata().is_ok_and(|log| log.len() > 0) {
            return Self::open_copy(path);
        }
        let mut uri = String::from("file:");
        for byte in
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).as_os_str().as_encoded_bytes()
        {
            match byte {
                b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
                byte => uri.push_str(&format!("%{byte:02X}")),
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(format!("{uri}?immutable=1"), flags)
            .map_err(|error| sorted(path.to_owned(), 0, error))?;
        match Self::with(connection, path, false) {
            // Of an older version: a copy can be raised.
            Err(StoreError::Open { .. }) => Self::open_copy(path),
            other => other,
        }
    }

    /// Opens a copy of a file, raised to this version; the file itself is not touched.
    #[cfg(feature = "central")]
    pub(crate) fn open_copy_of(path: &Path) -> StoreResult<Self> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        check_magic(path)?;
        Self::open_copy(path)
    }

    /// Opens a copy of a file that may only be read, with its write-ahead log, raised to this version.
    /// The copy is for reading, and goes with the store.
    fn open_copy(path: &Path) -> StoreResult<Self> {
        let refused = |error: std::io::Error| StoreError::Open {
            path: path.to_owned(),
            why: format!("it may only be read, and a copy of it cannot be made: {error}"),
        };
        let folder = tempfile::Builder::new().prefix("weir-store-").tempdir().map_err(refused)?;
        let copy = folder.path().join("weir.db");
        std::fs::copy(path, &copy).map_err(refused)?;
        if log_of(path).exists() {
            std::fs::copy(log_of(path), log_of(&copy)).map_err(refused)?;
        }
        for file in [&copy, &log_of(&copy)].into_iter().filter(|file| file.exists()) {
            // A copy takes the rights of its original along.
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
        }
        let connection = Connection::open(&copy).map_err(|error| sorted(path.to_owned(), 0, error))?;
        let store = Self::with(connection, path, true)?;
        Ok(Self { _copy: Some(folder), ..store })
    }

    fn with(mut connection: Connection, path: &Path, writable: bool) -> StoreResult<Self> {
        let path = path.to_owned();
        let found = prepare(&connection, writable).map_err(|error| sorted(path.clone(), 0, error))?;
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
            migrate(&mut connection).map_err(|error| sorted(path.clone(), 0, error))?;
        }
        connection.set_prepared_statement_cache_capacity(PREPARED);
        Ok(Self { connection, path, locks: BTreeMap::new(), _copy: None })
    }

    pub(super) fn execute(&self, sql: &str, values: &[Value]) -> Result<u64> {
        Ok(self.connection.prepare_cached(sql)?.execute(params_from_iter(values))? as u64)
    }

    pub(super) fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let columns: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut read = Vec::new();
        while let Some(row) = rows.next()? {
            let value = |place| row.get_ref(place).map_err(super::Fault::from).and_then(owned);
            read.push(Row::new(columns.clone(), (0..columns.len()).map(value).collect::<Result<_>>()?));
        }
        Ok(read)
    }

    pub(super) fn batch(&self, sql: &str) -> Result<()> {
        Ok(self.connection.execute_batch(sql)?)
    }

    pub(super) fn lock_run(&mut self, run: i64) -> StoreResult<bool> {
        if self.locks.contains_key(&run) {
            return Ok(true);
        }
        let lock = RunLock::take(&self.path, run)
            .map_err(|error| StoreError::Open { path: self.path.clone(), why: error.to_string() })?;
        let Some(lock) = lock else { return Ok(false) };
        self.locks.insert(run, lock);
        Ok(true)
    }

    pub(super) fn unlock_run(&mut self, run: i64) {
        self.locks.remove(&run);
    }

    pub(super) fn live(&self, runs: &[i64]) -> Vec<i64> {
        let held = |run: &&i64| self.locks.contains_key(run) || RunLock::is_held(&self.path, **run);
        runs.iter().filter(held).copied().collect()
    }
}

fn owned(value: ValueRef<'_>) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(
            std::str::from_utf8(text).map_err(|error| super::Fault::nonsense("of text", error))?.to_owned(),
        ),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
    })
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Sorts SQLite's errors by what the user can do about them.
pub(crate) fn sorted(path: PathBuf, kept: u64, source: rusqlite::Error) -> StoreError {
    // Readers need room as well, for what they share with writers beside the file.
    let no_room_to_share =
        source.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
    match source.sqlite_error_code() {
        _ if no_room_to_share => StoreError::Full { path, kept },
        Some(ErrorCode::DiskFull) => StoreError::Full { path, kept },
        Some(ErrorCode::NotADatabase) => {
            StoreError::NotADatabase { path, what: "its first bytes are not SQLite's".to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, what: source.to_string() },
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::Open { path, why: source.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy { path, seconds: BUSY_TIMEOUT.as_secs() }
        }
        _ => match source {
            rusqlite::Error::FromSqlConversionFailure(column, _, error) => {
                StoreError::Damaged { path, what: format!("column {column}: {error}") }
            }
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => StoreError::Damaged { path, what: source.to_string() },
            source => StoreError::Engine { path, source: source.into() },
        },
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

/// A file that is not SQLite's must not be touched, not even by an attempt to open it.
fn check_magic(path: &Path) -> StoreResult<()> {
    use std::io::Read as _;
    if path.is_dir() {
        return Err(StoreError::NotADatabase { path: path.to_owned(), what: "it is a folder".to_owned() });
    }
    let Ok(file) = std::fs::File::open(path) else { return Ok(()) };
    let mut head = Vec::new();
    // What cannot be read, SQLite says.
    let Ok(read) = file.take(MAGIC.len() as u64).read_to_end(&mut head) else { return Ok(()) };
    let what = match read {
        // Of a new file, which another process may fill from now on.
        0 => return Ok(()),
        _ if head == MAGIC => return Ok(()),
        _ if read < MAGIC.len() => "it is shorter than a database",
        _ => "its first bytes are not SQLite's",
    };
    Err(StoreError::NotADatabase { path: path.to_owned(), what: what.to_owned() })
}

/// Sets the connection up and says what it found. Writes nothing to a file that is not ours.
fn prepare(connection: &Connection, writable: bool) -> rusqlite::Result<Found> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let (version, application, tables) = identity(connection)?;
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

/// The version that a file says it has, the program that it says it is of, and how many tables and the like it has. They are of
/// one moment: between two of them another process may make the file ours.
fn identity(connection: &Connection) -> rusqlite::Result<(i64, i64, i64)> {
    let moment = connection.unchecked_transaction()?;
    let number = |name| moment.pragma_query_value(None, name, |row| row.get(0));
    let (version, application) = (number("user_version")?, number("application_id")?);
    let tables = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    moment.commit()?;
    Ok((version, application, tables))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_file_that_another_process_makes_ours_meanwhile_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            let path = folder.path().join(format!("{number}.db"));
            let is_made = AtomicBool::new(false);
            let look = || {
                while !is_made.load(Ordering::Relaxed) {
                    check_magic(&path).unwrap();
                    let connection = Connection::open(&path).unwrap();
                    if let Found::Foreign(what) = prepare(&connection, false).unwrap() {
                        panic!("{number}: {what}");
                    }
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(look);
                let made = Sqlite::open(&path);
                is_made.store(true, Ordering::Relaxed);
                made.unwrap();
            });
        }
    }

    #[test]
    fn a_full_disk_is_told_to_readers_as_well_and_speaks_of_trials_only_where_there_are_some() {
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        let said = |kept, code| sorted("weir.db".into(), kept, failed(code)).to_string();
        // What SQLite says where a reader finds no room for what it shares with writers.
        let reader = said(0, ffi::SQLITE_IOERR_SHMSIZE);
        assert_eq!(reader, "no space left for weir.db: free some and try again; reading takes some, too");
        assert_eq!(said(0, ffi::SQLITE_FULL), reader);
        let bench = said(7, ffi::SQLITE_FULL);
        assert!(bench.contains("7 trials of this run are kept") && bench.contains("--resume"), "{bench}");
        assert!(!said(0, ffi::SQLITE_IOERR_READ).contains("no space left"));
    }
}

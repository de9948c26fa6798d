//! The two databases behind a store, spoken to in one way.
//!
//! Statements are written once, in the SQL that both understand, with `?` or `?1` for parameters; rows come back with
//! their columns by name. What differs is in the two files beside this one: how a database is opened and raised to this
//! version, how a transaction begins, who holds a run, and what an error means.
//!
//! Whole numbers are 64 bits in both, truth is 0 or 1, and JSON is text: the same bytes come back, in the same order.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod sqlite;
mod value;

pub(crate) use value::{Row, Value, values};

use crate::error::{StoreError, StoreResult};
use std::path::Path;

/// Result of a statement.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said so.
    Sqlite(rusqlite::Error),
    /// PostgreSQL said so.
    #[cfg(feature = "postgres")]
    Postgres(::postgres::Error),
    /// A stored value means nothing.
    Nonsense {
        /// Its column.
        column: String,
        /// What is wrong with it.
        what: String,
    },
    /// A value cannot be stored.
    Unfit(String),
    /// A row that must be there is not.
    NoRow,
    /// While the connection was away another process took up a run that we had.
    #[cfg(feature = "postgres")]
    Taken(i64),
    /// What the work of a transaction refuses by itself, and a server that is there again and is not what it was.
    #[cfg(any(feature = "postgres", feature = "central"))]
    Store(Box<StoreError>),
}

impl Fault {
    /// A stored value that means nothing: reported as a damaged database with its column.
    pub(crate) fn nonsense(column: &str, what: impl ToString) -> Self {
        Self::Nonsense { column: column.to_owned(), what: what.to_string() }
    }

    /// A transaction that must not be, and why.
    #[cfg(feature = "central")]
    pub(crate) fn refused(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

#[cfg(feature = "postgres")]
impl From<::postgres::Error> for Fault {
    fn from(error: ::postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// One picture of all that is read.
    Reading,
    /// All of it or nothing.
    Writing,
}

/// An open database.
#[derive(Debug)]
pub(crate) enum Engine {
    /// A file.
    Sqlite(sqlite::Sqlite),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Postgres>),
}

impl Engine {
    /// Runs a statement; how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[Value]) -> Result<u64> {
        match self {
            Self::Sqlite(engine) => engine.execute(sql, values),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.execute(sql, values),
        }
    }

    /// Every row of a query.
    pub(crate) fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite(engine) => engine.query(sql, values),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.query(sql, values),
        }
    }

    /// The first row of a query, where there is one.
    pub(crate) fn first(&self, sql: &str, values: &[Value]) -> Result<Option<Row>> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// The one row of a query.
    pub(crate) fn one(&self, sql: &str, values: &[Value]) -> Result<Row> {
        self.first(sql, values)?.ok_or(Fault::NoRow)
    }

    /// Inserts a row of a table with numbered rows; its number. The statement is without `RETURNING`.
    pub(crate) fn insert(&self, sql: &str, values: &[Value]) -> Result<i64> {
        self.one(&format!("{sql} RETURNING id"), values)?.get("id")
    }

    /// As [`Engine::insert`]; nothing where another row has what only one may have. One that another process is about to
    /// insert is waited for.
    pub(crate) fn insert_new(&self, sql: &str, values: &[Value]) -> Result<Option<i64>> {
        let row = self.first(&format!("{sql} ON CONFLICT DO NOTHING RETURNING id"), values)?;
        row.map(|row| row.get("id")).transpose()
    }

    /// All of it or nothing; on the disk when this returns, where something was written. Where the connection with a server
    /// is lost meanwhile, the work is done again on a new one, unless the server has it already.
    pub(crate) fn transaction<T>(&self, purpose: For, work: impl Fn(&Self) -> Result<T>) -> Result<T> {
        match self {
            Self::Sqlite(_) => {
                self.batch(if purpose == For::Reading { "BEGIN" } else { "BEGIN IMMEDIATE" })?;
                let open = Open(self);
                let value = work(self)?;
                std::mem::forget(open);
                self.batch("COMMIT").inspect_err(|_| drop(self.batch("ROLLBACK")))?;
                Ok(value)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => postgres::transaction(self, server, purpose, &work),
        }
    }

    /// Reads; where the connection with a server is lost meanwhile, once more on a new one.
    pub(crate) fn read<T>(&self, work: impl Fn(&Self) -> Result<T>) -> Result<T> {
        match self {
            Self::Sqlite(_) => work(self),
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => postgres::read(self, server, &work),
        }
    }

    fn batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(engine) => engine.batch(sql),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.batch(sql),
        }
    }

    /// Has a table whose rows came with their numbers go on after the greatest of them.
    #[cfg(feature = "central")]
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "a server alone needs it"))]
    pub(crate) fn go_on_numbering(&self, table: &str) -> Result<()> {
        match self {
            // It looks for the greatest by itself, in every table.
            Self::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {
                let last = format!("(SELECT max(id) FROM {table})");
                let sequence = format!("CAST(pg_get_serial_sequence('{table}', 'id') AS regclass)");
                self.query(
                    &format!("SELECT setval({sequence}, coalesce({last}, 1), {last} IS NOT NULL) AS last"),
                    &[],
                )
                .map(drop)
            }
        }
    }

    /// Takes the lock on a run; false where another process has it. It is held until it is given back, or the process ends.
    pub(crate) fn lock_run(&mut self, run: i64) -> StoreResult<bool> {
        match self {
            Self::Sqlite(engine) => engine.lock_run(run),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.lock_run(run),
        }
    }

    /// Gives the lock on a run back.
    pub(crate) fn unlock_run(&mut self, run: i64) {
        match self {
            Self::Sqlite(engine) => engine.unlock_run(run),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.unlock_run(run),
        }
    }

    /// Which of these runs a living process is at, this one or another.
    pub(crate) fn live(&self, runs: &[i64]) -> Result<Vec<i64>> {
        match self {
            Self::Sqlite(engine) => Ok(engine.live(runs)),
            #[cfg(feature = "postgres")]
            Self::Postgres(engine) => engine.live(runs),
        }
    }

    /// What a fault means to whoever uses the store, with trials of the run in hand that are safe.
    pub(crate) fn sorted(place: &Path, kept: u64, fault: Fault) -> StoreError {
        let path = place.to_owned();
        match fault {
            Fault::Sqlite(error) => sqlite::sorted(path, kept, error),
            #[cfg(feature = "postgres")]
            Fault::Postgres(error) => postgres::sorted(path, kept, &error),
            Fault::Nonsense { column, what } => {
                StoreError::Damaged { path, what: format!("column {column}: {what}") }
            }
            Fault::NoRow => StoreError::Damaged { path, what: "a row that must be there is not".to_owned() },
            Fault::Unfit(what) => StoreError::Unfit { path, what },
            #[cfg(feature = "postgres")]
            Fault::Taken(run) => {
                StoreError::Gone { path, why: format!("and another process took up run {run} meanwhile") }
            }
            #[cfg(any(feature = "postgres", feature = "central"))]
            Fault::Store(error) => *error,
        }
    }
}

/// A transaction that ends without its end is taken back.
struct Open<'a>(&'a Engine);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // Where even that fails the connection is gone, and the transaction with it.
        let _ = self.0.batch("ROLLBACK");
    }
}

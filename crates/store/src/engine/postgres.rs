//! PostgreSQL: a server, with a lock of its own for each run being measured, which goes with the connection.
//!
//! A store has one connection and does one thing at a time on it. Each statement is prepared once.
//!
//! A connection may be lost between two trials, or in the middle of a transaction: the server is started anew, a network
//! is gone for a while. Then a new one is made ([`Postgres::reconnect`]), the locks are taken again, and the transaction is
//! done again, unless the server has it: each that writes leaves its number in the table `writers`.

mod address;
mod fault;
mod open;
mod password;

pub(crate) use fault::sorted;

use super::{Engine, Fault, For, Result, Row, Value};
use crate::error::{StoreError, StoreResult};
use ::postgres::types::private::BytesMut;
use ::postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use ::postgres::{Client, Config, SimpleQueryMessage, Statement};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// First key of our advisory locks: "Weir" in ASCII. The second is a run's number, or 0 while the schema is raised.
const LOCKS: i32 = i32::from_be_bytes(*b"Weir");

/// A server that went away is looked for so many times as long as one attempt may take.
const ATTEMPTS: u32 = 6;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks at a lock that another connection has: that of a process which was just killed is given back in a moment.
const LOOKS: usize = 3;

/// So often one transaction is begun anew.
const TRIES: u32 = 5;

/// A connection with a server.
pub(crate) struct Postgres {
    client: RefCell<Client>,
    statements: RefCell<BTreeMap<String, Statement>>,
    config: Config,
    path: PathBuf,
    locks: BTreeSet<i64>,
    /// This store, among all that write to the database.
    token: Uuid,
    /// Transactions begun.
    written: Cell<u64>,
    /// It was looked for in vain: the next call looks once.
    is_away: Cell<bool>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects with a server. `place` is the address without its password, for messages. A database that holds nothing
    /// becomes a store where `make` says so.
    pub(crate) fn open(address: &str, place: &Path, make: bool) -> StoreResult<Self> {
        let config = address::config(address, place)?;
        let client = open::open(&config, place, make)?;
        Ok(Self {
            client: RefCell::new(client),
            statements: RefCell::default(),
            config,
            path: place.to_owned(),
            locks: BTreeSet::new(),
            token: Uuid::now_v7(),
            written: Cell::new(0),
            is_away: Cell::new(false),
        })
    }

    pub(super) fn execute(&self, sql: &str, values: &[Value]) -> Result<u64> {
        let statement = self.prepared(sql)?;
        Ok(self.client.borrow_mut().execute(&statement, &parameters(values)?)?)
    }

    pub(super) fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let statement = self.prepared(sql)?;
        let columns: Arc<[String]> =
            statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let rows = self.client.borrow_mut().query(&statement, &parameters(values)?)?;
        let read = |row: &::postgres::Row| {
            let value = |place| owned(row, place);
            Ok(Row::new(columns.clone(), (0..columns.len()).map(value).collect::<Result<_>>()?))
        };
        rows.iter().map(read).collect()
    }

    pub(super) fn batch(&self, sql: &str) -> Result<()> {
        Ok(self.client.borrow_mut().batch_execute(sql)?)
    }

    pub(super) fn lock_run(&mut self, run: i64) -> StoreResult<bool> {
        if self.locks.contains(&run) {
            return Ok(true);
        }
        for pause in std::iter::repeat_n(PAUSE, LOOKS).chain([Duration::ZERO]) {
            let taken = repeated(self, || self.take(run));
            if taken.map_err(|fault| Engine::sorted(&self.path, 0, fault))? {
                self.locks.insert(run);
                return Ok(true);
            }
            std::thread::sleep(pause);
        }
        Ok(false)
    }

    pub(super) fn unlock_run(&mut self, run: i64) {
        if self.locks.remove(&run) {
            // Where the connection is gone, so is the lock.
            let _ =
                self.ask("SELECT pg_advisory_unlock(CAST(?1 AS INTEGER), CAST(?2 AS INTEGER)) AS told", run);
        }
    }

    pub(super) fn live(&self, runs: &[i64]) -> Result<Vec<i64>> {
        let sql = "SELECT CAST(objid AS BIGINT) AS run FROM pg_locks
                   WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND CAST(classid AS BIGINT) = ?1
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let held = self.query(sql, &[Value::Int(i64::from(LOCKS))])?;
        let held: BTreeSet<i64> = held.iter().map(|row| row.get("run")).collect::<Result<_>>()?;
        Ok(runs.iter().filter(|run| held.contains(run)).copied().collect())
    }

    /// Takes the lock on a run; false where another connection has it.
    fn take(&self, run: i64) -> Result<bool> {
        self.ask("SELECT pg_try_advisory_lock(CAST(?1 AS INTEGER), CAST(?2 AS INTEGER)) AS told", run)
    }

    fn ask(&self, sql: &str, run: i64) -> Result<bool> {
        let rows = self.query(sql, &[Value::Int(i64::from(LOCKS)), Value::Int(run)])?;
        rows.first().ok_or(Fault::NoRow)?.get("told")
    }

    fn prepared(&self, sql: &str) -> Result<Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.borrow_mut().prepare(&numbered(sql))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Connects again with a server that went away, and takes the locks again. It may be starting, and still think that
    /// the old connection lives: so it is asked for a while.
    fn reconnect(&self, lost: Fault) -> Result<()> {
        let patience = self.config.get_connect_timeout().copied().unwrap_or(address::PATIENCE) * ATTEMPTS;
        let until = Instant::now() + patience;
        let (place, seconds) = (self.path.display(), patience.as_secs());
        let again = self.is_away.replace(true);
        if !again {
            eprintln!("weir: {place} went away; looking for it for {seconds} s");
        }
        let mut last = lost;
        loop {
            match open::open(&self.config, &self.path, false) {
                Ok(client) => {
                    *self.client.borrow_mut() = client;
                    self.statements.borrow_mut().clear();
                    match self.locks.iter().find_map(|run| self.retake(*run).err()) {
                        None => {
                            self.is_away.set(false);
                            eprintln!("weir: {place} is there again");
                            return Ok(());
                        }
                        Some(fault) => last = fault,
                    }
                }
                Err(StoreError::Unreachable { .. } | StoreError::Gone { .. }) => {}
                // It is there, and is not what it was.
                Err(error) => return Err(Fault::Store(Box::new(error))),
            }
            if again || Instant::now() >= until {
                return Err(last);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn retake(&self, run: i64) -> Result<()> {
        if self.take(run)? { Ok(()) } else { Err(Fault::Taken(run)) }
    }

    /// Begins a transaction that writes, the `number`th of this store; false where the server has it already. One that
    /// an earlier connection was about to commit is waited for, as it holds the row of this store.
    fn begin_writing(&self, number: u64) -> Result<bool> {
        let sql = format!(
            "BEGIN; INSERT INTO writers (token, done) VALUES ('{}', {number})
             ON CONFLICT (token) DO UPDATE SET done = EXCLUDED.done, since = EXCLUDED.since
             WHERE writers.done < EXCLUDED.done RETURNING done",
            self.token
        );
        let answers = self.client.borrow_mut().simple_query(&sql)?;
        Ok(answers.iter().any(|answer| matches!(answer, SimpleQueryMessage::Row(_))))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Given back before the connection ends, which the server notices some time later: another process may follow.
        if !self.locks.is_empty() {
            let _ = self.batch("SELECT pg_advisory_unlock_all()");
        }
        if self.written.get() > 0 {
            let _ = self.batch(&format!(
                "DELETE FROM writers WHERE token = '{}' OR since < now() - INTERVAL '30 days'",
                self.token
            ));
        }
    }
}

/// Does something that changes nothing, again where the connection is lost meanwhile.
fn repeated<T>(server: &Postgres, work: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 1;
    loop {
        match work() {
            Err(Fault::Postgres(error)) if fault::is_lost(&error) && tries < TRIES => {
                server.reconnect(Fault::Postgres(error))?;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// Reads, again where the connection is lost meanwhile.
pub(super) fn read<T>(engine: &Engine, server: &Postgres, work: &dyn Fn(&Engine) -> Result<T>) -> Result<T> {
    repeated(server, || work(engine))
}

/// One transaction, done again where the connection is lost before its end.
pub(super) fn transaction<T>(
    engine: &Engine,
    server: &Postgres,
    purpose: For,
    work: &dyn Fn(&Engine) -> Result<T>,
) -> Result<T> {
    // Also one that fails has its number alone: it may have been committed all the same.
    server.written.update(|written| written + 1);
    let attempt = Attempt { number: server.written.get(), done: RefCell::new(None) };
    let mut tries = 1;
    loop {
        match attempt.make(engine, server, purpose, work) {
            Err(Fault::Postgres(error)) if fault::is_lost(&error) && tries < TRIES => {
                server.reconnect(Fault::Postgres(error))?;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// A transaction that may be begun several times and is committed once.
struct Attempt<T> {
    /// Its number among those of this store that write.
    number: u64,
    /// What it came to, where only the answer to its end was missing.
    done: RefCell<Option<T>>,
}

impl<T> Attempt<T> {
    fn make(
        &self,
        engine: &Engine,
        server: &Postgres,
        purpose: For,
        work: &dyn Fn(&Engine) -> Result<T>,
    ) -> Result<T> {
        let open = super::Open(engine);
        match purpose {
            For::Reading => server.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?,
            For::Writing if server.begin_writing(self.number)? => {}
            For::Writing => return self.done.take().ok_or(Fault::NoRow),
        }
        let value = work(engine)?;
        std::mem::forget(open);
        match server.batch("COMMIT") {
            Ok(()) => Ok(value),
            Err(fault) => {
                self.done.replace(Some(value));
                Err(fault)
            }
        }
    }
}

/// A statement with `$1` in place of `?1`, and of the first `?`.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 16);
    let mut next = 0;
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '?' {
            text.push(c);
            continue;
        }
        text.push('$');
        if rest.peek().is_none_or(|c| !c.is_ascii_digit()) {
            next += 1;
            text.push_str(&format!("{next}"));
        }
    }
    text
}

fn parameters(values: &[Value]) -> Result<Vec<&(dyn ToSql + Sync)>> {
    if values.iter().any(|value| matches!(value, Value::Text(text) if text.contains('\0'))) {
        return Err(Fault::Unfit("it has the character 0, which no text of PostgreSQL can hold".to_owned()));
    }
    Ok(values.iter().map(|value| value as &(dyn ToSql + Sync)).collect())
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Self::Int(number) => number.to_sql_checked(kind, out),
            Self::Real(number) => number.to_sql_checked(kind, out),
            Self::Text(text) => text.to_sql_checked(kind, out),
            Self::Blob(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn owned(row: &::postgres::Row, place: usize) -> Result<Value> {
    let kind = row.columns()[place].type_().clone();
    Ok(match kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(place)?.into(),
        Type::INT4 => row.try_get::<_, Option<i32>>(place)?.map(i64::from).into(),
        Type::BOOL => row.try_get::<_, Option<bool>>(place)?.into(),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(place)?.into(),
        Type::TEXT | Type::VARCHAR | Type::NAME => row.try_get::<_, Option<String>>(place)?.into(),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(place)?.into(),
        other => {
            return Err(Fault::nonsense(row.columns()[place].name(), format!("it has the type {other}")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn parameters_are_numbered_as_postgresql_has_them() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("?2, ?1, ?12"), "$2, $1, $12");
    }
}

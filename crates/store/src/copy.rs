//! A whole store into another one, of either engine: what backups are made of, and how a file becomes a database on a server.
//!
//! Rows are copied as they are, a run at a time, table by table: both engines have the same tables, columns and kinds of values.
//! The source is read in one transaction, so that what is written meanwhile is in the copy whole or not at all; the copy is one
//! transaction, too.
//!
//! Cost: the rows of one run in memory.

use crate::engine::sqlite::Sqlite;
use crate::engine::{Engine, Fault, For, Result, Row, values};
use crate::error::{StoreError, StoreResult};
use crate::open::Store;
use std::path::Path;

/// The tables, with the question that finds the rows of one run in each, in an order in which every row comes after those it
/// refers to. Tables of no run are copied whole, before all others.
const WHOLE: [&str; 2] = ["accounts", "tokens"];
const OF_RUN: [(&str, &str); 13] = [
    ("runs", "id = ?1"),
    ("environment", "run_id = ?1"),
    ("sessions", "run_id = ?1"),
    ("self_checks", "run_id = ?1"),
    ("advice", "run_id = ?1"),
    ("imports", "run_id = ?1"),
    ("shares", "run_id = ?1"),
    ("points", "run_id = ?1"),
    ("results", OF_POINTS),
    ("trials", OF_POINTS),
    ("directions", OF_TRIALS),
    ("latencies", OF_TRIALS),
    ("dut_readings", OF_TRIALS),
];
const OF_POINTS: &str = "point_id IN (SELECT id FROM points WHERE run_id = ?1)";
const OF_TRIALS: &str =
    "trial_id IN (SELECT trials.id FROM trials JOIN points ON points.id = point_id WHERE run_id = ?1)";
/// Tables that number their rows.
const NUMBERED: [&str; 6] = ["accounts", "tokens", "runs", "points", "results", "trials"];

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Runs.
    pub runs: u64,
    /// Trials.
    pub trials: u64,
    /// Accounts.
    pub accounts: u64,
    /// Rows of all tables.
    pub rows: u64,
}

impl Store {
    /// Copies everything into a store that holds nothing yet. All of it is there, on the disk, or nothing.
    pub fn copy_into(&self, to: &mut Self) -> StoreResult<Copied> {
        let path = to.path.clone();
        to.transact(None, |tx| {
            for table in WHOLE.into_iter().chain(OF_RUN.map(|(table, _)| table)) {
                if tx.first(&format!("SELECT 1 AS one FROM {table} LIMIT 1"), &[])?.is_some() {
                    return Err(Fault::refused(StoreError::NotEmpty { path: path.clone() }));
                }
            }
            // What is wrong with the source is no fault of the copy's.
            let read = self.engine.transaction(For::Reading, |source| {
                Copying { tx, path: &path, copied: Copied::default() }.all(source)
            });
            let copied = match read {
                Err(fault @ Fault::Store(_)) => return Err(fault),
                Err(fault) => return Err(Fault::refused(Engine::sorted(&self.path, 0, fault))),
                Ok(copied) => copied,
            };
            NUMBERED.into_iter().try_for_each(|table| tx.go_on_numbering(table))?;
            Ok(copied)
        })
    }

    /// Opens a copy of a file, raised to this version: the file itself is not touched. It is for reading.
    pub fn open_copy_of(file: &Path) -> StoreResult<Self> {
        let engine = Engine::Sqlite(Sqlite::open_copy_of(file)?);
        Ok(Self::over(engine, file))
    }
}

/// A copy that is being made.
struct Copying<'a> {
    tx: &'a Engine,
    /// What it is called in messages.
    path: &'a Path,
    copied: Copied,
}

impl Copying<'_> {
    fn all(mut self, source: &Engine) -> Result<Copied> {
        for table in WHOLE {
            let rows = source.query(&format!("SELECT * FROM {table} ORDER BY id"), &[])?;
            self.put(table, &rows)?;
        }
        for run in source.query("SELECT id FROM runs ORDER BY id", &[])? {
            let run: i64 = run.get("id")?;
            for (table, of_run) in OF_RUN {
                let rows = source.query(&format!("SELECT * FROM {table} WHERE {of_run}"), values![run])?;
                self.put(table, &rows)?;
            }
        }
        Ok(self.copied)
    }

    /// Inserts rows of a table. What the copy's database says of them is no word of the source's.
    fn put(&mut self, table: &str, rows: &[Row]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let columns = first.columns().join(", ");
        let marks = vec!["?"; first.columns().len()].join(", ");
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({marks})");
        for row in rows {
            let put = self.tx.execute(&sql, row.values());
            put.map_err(|fault| Fault::refused(Engine::sorted(self.path, 0, fault)))?;
        }
        let count = rows.len() as u64;
        self.copied.rows += count;
        match table {
            "runs" => self.copied.runs += count,
            "trials" => self.copied.trials += count,
            "accounts" => self.copied.accounts += count,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Some(&folder.path().join("weir.db"))).unwrap();
        let sql =
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
        let there: Vec<String> =
            store.engine.query(sql, &[]).unwrap().iter().map(|row| row.get("name").unwrap()).collect();
        let mut known: Vec<&str> = WHOLE.into_iter().chain(OF_RUN.map(|(table, _)| table)).collect();
        known.sort_unstable();
        assert_eq!(there, known, "a table that is new has a line in OF_RUN");
    }
}

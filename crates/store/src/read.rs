//! Reading runs back: summaries, selectors, whole runs.

use crate::error::{StoreError, StoreResult};
use crate::lock::RunLock;
use crate::open::Store;
use crate::rows;
use crate::select::Selector;
use crate::write::RunId;
use rusqlite::{Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::SelfCheck;
use weir_trial::run::{AdviceCheck, Point, Run, RunState};

/// One line of `weir runs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Number in its database.
    pub id: i64,
    /// The run's identity everywhere: a UUID (RFC 9562).
    #[serde(default)]
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// End of the last trial, milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<i64>,
    /// How far it came.
    pub state: RunState,
    /// Whether a living process is measuring it. `running` without it means that it was cut off.
    pub live: bool,
    /// Points begun.
    pub points: u32,
    /// Points that came to an end.
    pub finished: u32,
    /// Points that ended with an error.
    pub failed: u32,
    /// Trials kept.
    pub trials: u32,
    /// Network functions measured, in the plan's order.
    pub nfs: Vec<String>,
    /// Devices under test measured, in the plan's order.
    pub duts: Vec<String>,
}

/// Which points of a run are done, by their place in the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Ended with results.
    pub finished: Vec<u32>,
    /// Ended with an error: worth another attempt once its cause is mended.
    pub failed: Vec<u32>,
    /// Begun and cut off.
    pub unfinished: Vec<u32>,
}

impl Store {
    /// All runs, newest first.
    pub fn runs(&self) -> StoreResult<Vec<RunSummary>> {
        self.read(|store| {
            let mut query = store.connection.prepare(
                "SELECT id, name, started_ms, ended_ms, state,
                        (SELECT count(*) FROM points WHERE run_id = runs.id),
                        (SELECT count(*) FROM points WHERE run_id = runs.id AND finished = 1),
                        (SELECT count(*) FROM points WHERE run_id = runs.id AND error IS NOT NULL),
                        (SELECT count(*) FROM trials JOIN points ON points.id = point_id WHERE run_id = runs.id),
                        uuid
                 FROM runs ORDER BY id DESC",
            )?;
            query.query_map([], |row| store.summary(row))?.collect()
        })
    }

    /// The run a selector means.
    pub fn find(&self, selector: &Selector) -> StoreResult<RunId> {
        let runs: Vec<(i64, String, String)> = self.read(|store| {
            let mut query = store.connection.prepare("SELECT id, name, uuid FROM runs ORDER BY id DESC")?;
            query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })?;
        let missing = || StoreError::NoSuchRun {
            selector: selector.clone(),
            path: self.path.clone(),
            runs: runs.len() as u64,
        };
        let found = match selector {
            Selector::Last(back) => runs.get(*back as usize),
            Selector::Number(number) => runs.iter().find(|(id, ..)| id == number),
            Selector::Name(name) => {
                match runs.iter().find(|(_, known, uuid)| known == name || uuid == name) {
                    Some(exact) => Some(exact),
                    None => {
                        let matches: Vec<_> =
                            runs.iter().filter(|(_, known, _)| known.starts_with(name)).collect();
                        if matches.len() > 1 {
                            let matches = matches.into_iter().map(|(_, name, _)| name.clone()).collect();
                            return Err(StoreError::Ambiguous { selector: selector.clone(), matches });
                        }
                        matches.first().copied()
                    }
                }
            }
        };
        found.map(|(id, ..)| RunId(*id)).ok_or_else(missing)
    }

    /// A run's name.
    pub fn run_name(&self, run: RunId) -> StoreResult<String> {
        self.read(|store| {
            store.connection.query_row("SELECT name FROM runs WHERE id = ?", [run.0], |row| row.get(0))
        })
    }

    /// Which points are done; what the plan has beyond them was never begun.
    pub fn progress(&self, run: RunId) -> StoreResult<Progress> {
        self.read(|store| {
            let mut query = store.connection.prepare(
                "SELECT place, finished, error IS NOT NULL FROM points WHERE run_id = ? ORDER BY place",
            )?;
            let mut progress = Progress::default();
            let mut rows = query.query([run.0])?;
            while let Some(row) = rows.next()? {
                let list = match (row.get(1)?, row.get(2)?) {
                    (false, _) => &mut progress.unfinished,
                    (true, true) => &mut progress.failed,
                    (true, false) => &mut progress.finished,
                };
                list.push(row.get(0)?);
            }
            Ok(progress)
        })
    }

    /// What the tester can do over the run's wirings, as far as it was checked.
    pub fn self_checks(&self, run: RunId) -> StoreResult<Vec<SelfCheck>> {
        self.read(|store| rows::self_checks(&store.connection, run.0))
    }

    /// Advice made from a run that was checked, in order.
    pub fn advice(&self, run: RunId) -> StoreResult<Vec<AdviceCheck>> {
        self.read(|store| rows::advice(&store.connection, run.0))
    }

    /// A whole run, every trial and histogram in it.
    pub fn load(&self, run: RunId) -> StoreResult<Run> {
        self.read(|store| {
            // One transaction, so that a campaign writing meanwhile cannot tear the picture.
            let tx = store.connection.unchecked_transaction()?;
            let mut loaded = tx.query_row("SELECT * FROM runs WHERE id = ?", [run.0], rows::run)?;
            let mut environment = tx.prepare("SELECT name, value FROM environment WHERE run_id = ?")?;
            loaded.environment = environment
                .query_map([run.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            loaded.sessions = rows::sessions(&tx, run.0)?;
            loaded.self_checks = rows::self_checks(&tx, run.0)?;
            loaded.advice = rows::advice(&tx, run.0)?;
            let mut points = tx.prepare("SELECT * FROM points WHERE run_id = ? ORDER BY place")?;
            let points: Vec<(i64, Point)> =
                points.query_map([run.0], rows::point)?.collect::<Result<_, _>>()?;
            for (id, mut point) in points {
                point.results = rows::results(&tx, id)?;
                point.trials = rows::trials(&tx, id)?;
                loaded.points.push(point);
            }
            Ok(loaded)
        })
    }

    fn summary(&self, row: &Row<'_>) -> rusqlite::Result<RunSummary> {
        let id: i64 = row.get(0)?;
        let distinct = |column: &str| -> rusqlite::Result<Vec<String>> {
            let sql =
                format!("SELECT {column} FROM points WHERE run_id = ? GROUP BY {column} ORDER BY min(place)");
            self.connection.prepare_cached(&sql)?.query_map(params![id], |row| row.get(0))?.collect()
        };
        Ok(RunSummary {
            id,
            uuid: row.get(9)?,
            name: row.get(1)?,
            started_ms: row.get(2)?,
            ended_ms: row.get(3)?,
            state: rows::state(row, 4)?,
            live: self.locks.contains_key(&id) || RunLock::is_held(&self.path, id),
            points: row.get(5)?,
            finished: row.get(6)?,
            failed: row.get(7)?,
            trials: row.get(8)?,
            nfs: distinct("nf")?,
            duts: distinct("dut")?,
        })
    }

    pub(crate) fn read<T>(&self, work: impl FnOnce(&Self) -> rusqlite::Result<T>) -> StoreResult<T> {
        work(self).map_err(|error| StoreError::of(&self.path, 0, error))
    }
}

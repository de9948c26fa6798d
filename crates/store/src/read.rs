//! Reading runs back: summaries, selectors, whole runs.

use crate::engine::{Engine, For, Result, Row, values};
use crate::error::{StoreError, StoreResult};
use crate::open::Store;
use crate::rows::{self, Histograms};
use crate::select::Selector;
use crate::write::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_trial::SelfCheck;
use weir_trial::run::{AdviceCheck, PointKey, Run, RunState};

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
        self.read(|db| {
            let rows = db.query(
                "SELECT id, uuid, name, started_ms, ended_ms, state FROM runs ORDER BY id DESC",
                &[],
            )?;
            let mut runs: Vec<RunSummary> = rows.iter().map(summary).collect::<Result<_>>()?;
            let places: BTreeMap<i64, usize> =
                runs.iter().zip(0..).map(|(run, place)| (run.id, place)).collect();
            // A run may have begun between two of these questions.
            let mut of = |row: &Row, change: &mut dyn FnMut(&mut RunSummary) -> Result<()>| {
                let place = places.get(&row.get::<i64>("run_id")?).copied();
                place.and_then(|place| runs.get_mut(place)).map_or(Ok(()), change)
            };
            let points = "SELECT run_id, finished, error, nf, dut FROM points ORDER BY run_id, place";
            for row in db.query(points, &[])? {
                of(&row, &mut |run| count_point(run, &row))?;
            }
            let trials = "SELECT run_id, count(*) AS trials FROM trials JOIN points ON points.id = point_id
                          GROUP BY run_id";
            for row in db.query(trials, &[])? {
                of(&row, &mut |run| {
                    run.trials = row.get("trials")?;
                    Ok(())
                })?;
            }
            let live = db.live(&places.keys().copied().collect::<Vec<_>>())?;
            runs.iter_mut().for_each(|run| run.live = live.contains(&run.id));
            Ok(runs)
        })
    }

    /// The run a selector means.
    pub fn find(&self, selector: &Selector) -> StoreResult<RunId> {
        let found = self.read(|db| match selector {
            Selector::Last(back) => {
                db.query("SELECT id, name FROM runs ORDER BY id DESC LIMIT 1 OFFSET ?", values![*back])
            }
            Selector::Number(number) => db.query("SELECT id, name FROM runs WHERE id = ?", values![*number]),
            Selector::Name(name) => named(db, name),
        })?;
        match found.as_slice() {
            [run] => self.read(|_| run.get("id")).map(RunId),
            [] => {
                let runs =
                    self.read(|db| db.one("SELECT count(*) AS runs FROM runs", &[])?.get::<i64>("runs"))?;
                let (selector, path) = (selector.clone(), self.path.clone());
                Err(StoreError::NoSuchRun { selector, path, runs: runs.unsigned_abs() })
            }
            several => {
                let matches = self.read(|_| several.iter().map(|row| row.get("name")).collect())?;
                Err(StoreError::Ambiguous { selector: selector.clone(), matches })
            }
        }
    }

    /// A run's name.
    pub fn run_name(&self, run: RunId) -> StoreResult<String> {
        self.read(|db| db.one("SELECT name FROM runs WHERE id = ?", values![run.0])?.get("name"))
    }

    /// Which points are done; what the plan has beyond them was never begun.
    pub fn progress(&self, run: RunId) -> StoreResult<Progress> {
        self.read(|db| {
            let sql = "SELECT place, finished, error FROM points WHERE run_id = ? ORDER BY place";
            let mut progress = Progress::default();
            for row in db.query(sql, values![run.0])? {
                let failed = row.get::<Option<String>>("error")?.is_some();
                let list = match (row.get("finished")?, failed) {
                    (false, _) => &mut progress.unfinished,
                    (true, true) => &mut progress.failed,
                    (true, false) => &mut progress.finished,
                };
                list.push(row.get("place")?);
            }
            Ok(progress)
        })
    }

    /// What the tester can do over the run's wirings, as far as it was checked.
    pub fn self_checks(&self, run: RunId) -> StoreResult<Vec<SelfCheck>> {
        self.read(|db| rows::self_checks(db, run.0))
    }

    /// Advice made from a run that was checked, in order.
    pub fn advice(&self, run: RunId) -> StoreResult<Vec<AdviceCheck>> {
        self.read(|db| rows::advice(db, run.0))
    }

    /// A whole run, every trial and histogram in it.
    pub fn load(&self, run: RunId) -> StoreResult<Run> {
        // One transaction, so that a campaign writing meanwhile cannot tear the picture.
        self.read(|db| db.transaction(For::Reading, |tx| whole(tx, run.0)))
    }

    /// What a run says of the points that are wanted, for readers of many runs: without sessions, self-checks and advice, and
    /// without the histograms of its latencies, which are the most of what a run holds. Nothing where it has no such point; then
    /// its points' keys are all that was read.
    pub fn load_points(&self, run: RunId, wanted: &dyn Fn(&PointKey) -> bool) -> StoreResult<Option<Run>> {
        self.read(|db| db.transaction(For::Reading, |tx| some(tx, run.0, wanted)))
    }

    pub(crate) fn read<T>(&self, work: impl Fn(&Engine) -> Result<T>) -> StoreResult<T> {
        self.engine.read(work).map_err(|fault| Engine::sorted(&self.path, 0, fault))
    }
}

/// A run with its environment, and nothing else of it.
fn bare(tx: &Engine, run: i64) -> Result<Run> {
    let mut loaded = rows::run(&tx.one("SELECT * FROM runs WHERE id = ?", values![run])?)?;
    let environment = tx.query("SELECT name, value FROM environment WHERE run_id = ?", values![run])?;
    loaded.environment =
        environment.iter().map(|row| Ok((row.get("name")?, row.get("value")?))).collect::<Result<_>>()?;
    Ok(loaded)
}

fn some(tx: &Engine, run: i64, wanted: &dyn Fn(&PointKey) -> bool) -> Result<Option<Run>> {
    let mut points = Vec::new();
    for row in tx.query("SELECT * FROM points WHERE run_id = ? ORDER BY place", values![run])? {
        let (id, point) = rows::point(&row)?;
        if wanted(&point.key) {
            points.push((id, point));
        }
    }
    if points.is_empty() {
        return Ok(None);
    }
    let mut loaded = bare(tx, run)?;
    for (id, mut point) in points {
        point.results = rows::results(tx, id)?;
        point.trials = rows::trials(tx, id, Histograms::Left)?;
        loaded.points.push(point);
    }
    Ok(Some(loaded))
}

fn whole(tx: &Engine, run: i64) -> Result<Run> {
    let mut loaded = bare(tx, run)?;
    loaded.sessions = rows::sessions(tx, run)?;
    loaded.self_checks = rows::self_checks(tx, run)?;
    loaded.advice = rows::advice(tx, run)?;
    for row in tx.query("SELECT * FROM points WHERE run_id = ? ORDER BY place", values![run])? {
        let (id, mut point) = rows::point(&row)?;
        point.results = rows::results(tx, id)?;
        point.trials = rows::trials(tx, id, Histograms::Read)?;
        loaded.points.push(point);
    }
    Ok(loaded)
}

/// The run of this name or identity, else all whose names begin so, newest first. Each question has an index.
fn named(db: &Engine, name: &str) -> Result<Vec<Row>> {
    let exact = "SELECT id, name FROM runs WHERE name = ?1 OR uuid = ?1 ORDER BY id DESC LIMIT 1";
    if let Some(row) = db.first(exact, values![name])? {
        return Ok(vec![row]);
    }
    let beyond = format!("{name}\u{10ffff}");
    let sql = "SELECT id, name FROM runs WHERE name >= ? AND name < ? ORDER BY id DESC";
    db.query(sql, values![name, beyond])
}

fn summary(row: &Row) -> Result<RunSummary> {
    Ok(RunSummary {
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        name: row.get("name")?,
        started_ms: row.get("started_ms")?,
        ended_ms: row.get("ended_ms")?,
        state: rows::state(row)?,
        live: false,
        points: 0,
        finished: 0,
        failed: 0,
        trials: 0,
        nfs: Vec::new(),
        duts: Vec::new(),
    })
}

fn count_point(run: &mut RunSummary, row: &Row) -> Result<()> {
    run.points += 1;
    run.finished += u32::from(row.get::<bool>("finished")?);
    run.failed += u32::from(row.get::<Option<String>>("error")?.is_some());
    for (list, column) in [(&mut run.nfs, "nf"), (&mut run.duts, "dut")] {
        let name: String = row.get(column)?;
        if !list.contains(&name) {
            list.push(name);
        }
    }
    Ok(())
}

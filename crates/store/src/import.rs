//! Runs of other databases taken in.
//!
//! A run is known by its identity. Where it is here already, the fuller of the two stays: a run that was taken up again has
//! all trials of what it was before. Two runs of one identity of which neither continues the other are refused.

use crate::error::{StoreError, StoreResult};
use crate::lock::RunLock;
use crate::open::Store;
use crate::rows;
use crate::write::{RunId, taken};
use rusqlite::{OptionalExtension as _, Transaction, params};
use weir_trial::run::{Point, Run, RunState};

/// Where an imported run came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What it was called where it was measured.
    pub name: String,
    /// Address of its bundle.
    pub address: String,
    /// The signature of its bundle, as JSON.
    pub signature: Option<String>,
    /// When it came, milliseconds since 1970-01-01 UTC.
    pub imported_ms: i64,
    /// How much of it did not follow from its trials.
    pub differences: u32,
}

/// What became of a run that was to be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It was not here.
    Added(RunId),
    /// It is here already, just so.
    Known(RunId),
    /// It is here, and goes further than what was to be taken in.
    Older(RunId),
    /// It was here, and what was taken in goes further: it was replaced.
    Continued(RunId),
}

impl Imported {
    /// The run.
    pub fn run(&self) -> RunId {
        let (Self::Added(run) | Self::Known(run) | Self::Older(run) | Self::Continued(run)) = self;
        *run
    }
}

impl Store {
    /// Takes a run in, whole or not at all. Its number is chosen here, and its name where another run has it.
    pub fn import(&mut self, run: &Run, origin: &Origin) -> StoreResult<Imported> {
        let path = self.path.clone();
        let here = self.find_uuid(&run.uuid)?;
        let Some(id) = here else {
            return self.transact(None, |tx| {
                // Another process may have been quicker.
                match by_uuid(tx, &run.uuid)? {
                    Some(id) => Ok(Imported::Known(RunId(id))),
                    None => insert(tx, run, origin).map(|id| Imported::Added(RunId(id))),
                }
            });
        };
        let stored = self.load(id)?;
        let same = Run { id: stored.id, name: stored.name.clone(), ..run.clone() };
        if stored == same || continues(&stored, &same) {
            return Ok(if stored == same { Imported::Known(id) } else { Imported::Older(id) });
        }
        if !continues(&same, &stored) {
            return Err(StoreError::OtherRun { path, name: stored.name, uuid: stored.uuid });
        }
        if RunLock::is_held(&self.path, id.0) {
            return Err(StoreError::RunInUse { name: stored.name });
        }
        self.transact(Some(id), |tx| {
            tx.execute("DELETE FROM runs WHERE id = ?", [id.0])?;
            insert(tx, &Run { name: stored.name.clone(), ..run.clone() }, origin)
                .map(|id| Imported::Continued(RunId(id)))
        })
    }

    /// Where a run came from; nothing of one that was measured into this database.
    pub fn origin(&self, run: RunId) -> StoreResult<Option<Origin>> {
        self.read(|store| {
            let sql =
                "SELECT name, address, signature, imported_ms, differences FROM imports WHERE run_id = ?";
            let origin = |row: &rusqlite::Row<'_>| {
                Ok(Origin {
                    name: row.get("name")?,
                    address: row.get("address")?,
                    signature: row.get("signature")?,
                    imported_ms: row.get("imported_ms")?,
                    differences: row.get("differences")?,
                })
            };
            store.connection.query_row(sql, [run.0], origin).optional()
        })
    }

    fn find_uuid(&self, uuid: &str) -> StoreResult<Option<RunId>> {
        self.read(|store| by_uuid(&store.connection, uuid)).map(|id| id.map(RunId))
    }
}

fn by_uuid(db: &rusqlite::Connection, uuid: &str) -> rusqlite::Result<Option<i64>> {
    db.query_row("SELECT id FROM runs WHERE uuid = ?", [uuid], |row| row.get(0)).optional()
}

fn insert(tx: &Transaction<'_>, run: &Run, origin: &Origin) -> rusqlite::Result<i64> {
    let name = free(tx, &run.name)?;
    tx.execute(
        "INSERT INTO runs (schema, uuid, name, started_ms, ended_ms, state, plan, weir)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            run.schema,
            run.uuid,
            name,
            run.started_ms,
            run.ended_ms,
            rows::state_name(run.state),
            run.plan,
            run.weir
        ],
    )?;
    let id = tx.last_insert_rowid();
    rows::insert_environment(tx, id, &run.environment)?;
    run.sessions.iter().try_for_each(|session| rows::insert_session(tx, id, session))?;
    run.self_checks.iter().try_for_each(|check| rows::insert_self_check(tx, id, check))?;
    run.advice.iter().try_for_each(|check| rows::insert_advice(tx, id, check))?;
    run.points.iter().try_for_each(|point| insert_point(tx, id, point))?;
    tx.execute(
        "INSERT INTO imports (run_id, name, address, signature, imported_ms, differences)
         VALUES (?, ?, ?, ?, ?, ?)",
        params![id, origin.name, origin.address, origin.signature, origin.imported_ms, origin.differences],
    )?;
    Ok(id)
}

fn insert_point(tx: &Transaction<'_>, run: i64, point: &Point) -> rusqlite::Result<()> {
    let id = rows::insert_point(tx, run, point.index, &point.key)?;
    rows::update_configuration(tx, id, &point.configuration)?;
    rows::update_traffic(tx, id, &point.trace_hashes, point.seed)?;
    point.packets.iter().try_for_each(|check| rows::update_packets(tx, id, check))?;
    for (place, result) in point.results.iter().enumerate() {
        rows::insert_result(tx, id, place, result)?;
    }
    point.trials.iter().try_for_each(|trial| rows::insert_trial(tx, id, trial))?;
    rows::end_point(tx, id, point)
}

/// The name, or where another run has it, the name with a number behind.
fn free(tx: &Transaction<'_>, name: &str) -> rusqlite::Result<String> {
    let mut free = name.to_owned();
    let mut n = 2;
    while taken(tx, &free)? {
        free = format!("{name}-{n}");
        n += 1;
    }
    Ok(free)
}

/// Whether one state of a run is a later one than another: everything that was measured is there, and only what a run
/// that goes on may change was changed.
fn continues(later: &Run, earlier: &Run) -> bool {
    let same_beginning = (later.schema, later.started_ms, &later.plan, &later.weir, &later.environment)
        == (earlier.schema, earlier.started_ms, &earlier.plan, &earlier.weir, &earlier.environment);
    let goes_on = earlier.state != RunState::Finished || later.state == RunState::Finished;
    same_beginning
        && goes_on
        && later.sessions.starts_with(&earlier.sessions)
        && later.advice.starts_with(&earlier.advice)
        && earlier.points.iter().all(|point| {
            later.points.iter().any(|other| other.index == point.index && point_continues(other, point))
        })
}

/// A finished point is as it was; one that was cut off or failed may have been measured anew, its trials kept.
fn point_continues(later: &Point, earlier: &Point) -> bool {
    if earlier.finished && earlier.error.is_none() {
        return later == earlier;
    }
    let kept = earlier.trials.iter().zip(&later.trials).all(|(before, after)| {
        (before.sequence, before.purpose, before.started_ms)
            == (after.sequence, after.purpose, after.started_ms)
            && before.result == after.result
            && (!before.superseded || after.superseded)
    });
    kept && later.trials.len() >= earlier.trials.len()
}

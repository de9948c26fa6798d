//! Runs of other databases taken in.
//!
//! A run is known by its identity. Where it is here already, the fuller of the two stays: a run that was taken up again has
//! all trials of what it was before. Two runs of one identity of which neither continues the other are refused.

use crate::engine::{Engine, Result, values};
use crate::error::{StoreError, StoreResult};
use crate::open::Store;
use crate::rows;
use crate::share;
use crate::write::{RunId, insert_free};
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
        self.take_in(run, origin, &|_, _| Ok(()))
    }

    /// As [`Store::import`], and in the same transaction what goes along with a run that is added or brought up to date.
    pub(crate) fn take_in(
        &mut self,
        run: &Run,
        origin: &Origin,
        also: &dyn Fn(&Engine, i64) -> Result<()>,
    ) -> StoreResult<Imported> {
        let along = |tx: &Engine, id: Option<i64>| id.map_or(Ok(()), |id| also(tx, id)).map(|()| id);
        let Some(id) = self.find_uuid(&run.uuid)? else {
            return match self.transact(None, |tx| along(tx, insert(tx, run, origin)?))? {
                Some(id) => Ok(Imported::Added(RunId(id))),
                // Another process was quicker.
                None => self.take_in(run, origin, also),
            };
        };
        let stored = self.load(id)?;
        let same = Run { id: stored.id, name: stored.name.clone(), ..run.clone() };
        if stored == same || continues(&stored, &same) {
            return Ok(if stored == same { Imported::Known(id) } else { Imported::Older(id) });
        }
        if !continues(&same, &stored) {
            let path = self.path.clone();
            return Err(StoreError::OtherRun { path, name: stored.name, uuid: stored.uuid });
        }
        if self.read(|db| db.live(&[id.0]))?.contains(&id.0) || !self.engine.lock_run(id.0)? {
            return Err(StoreError::RunInUse { name: stored.name });
        }
        let replaced = self.transact(Some(id), |tx| {
            // Whose it is stays as it was, however it is brought up to date.
            let share = share::of(tx, id.0)?;
            tx.execute("DELETE FROM runs WHERE id = ?", values![id.0])?;
            let new = insert(tx, &Run { name: stored.name.clone(), ..run.clone() }, origin)?;
            if let (Some(new), Some(share)) = (new, share) {
                share::insert(tx, new, &share)?;
            }
            along(tx, new)
        });
        self.engine.unlock_run(id.0);
        match replaced? {
            Some(id) => Ok(Imported::Continued(RunId(id))),
            None => self.take_in(run, origin, also),
        }
    }

    /// Where a run came from; nothing of one that was measured into this database.
    pub fn origin(&self, run: RunId) -> StoreResult<Option<Origin>> {
        self.read(|db| {
            let sql =
                "SELECT name, address, signature, imported_ms, differences FROM imports WHERE run_id = ?";
            let Some(row) = db.first(sql, values![run.0])? else { return Ok(None) };
            Ok(Some(Origin {
                name: row.get("name")?,
                address: row.get("address")?,
                signature: row.get("signature")?,
                imported_ms: row.get("imported_ms")?,
                differences: row.get("differences")?,
            }))
        })
    }

    pub(crate) fn find_uuid(&self, uuid: &str) -> StoreResult<Option<RunId>> {
        self.read(|db| by_uuid(db, uuid)).map(|id| id.map(RunId))
    }
}

fn by_uuid(db: &Engine, uuid: &str) -> Result<Option<i64>> {
    db.first("SELECT id FROM runs WHERE uuid = ?", values![uuid])?.map(|row| row.get("id")).transpose()
}

/// Inserts a run under its name, or where another run has that, with a number behind; nothing where it is here.
fn insert(tx: &Engine, run: &Run, origin: &Origin) -> Result<Option<i64>> {
    let state = rows::state_name(run.state);
    let insert = |name: &str| {
        let sql = "INSERT INTO runs (schema, uuid, name, started_ms, ended_ms, state, plan, weir)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let Run { schema, started_ms, ended_ms, .. } = *run;
        tx.insert_new(
            sql,
            values![schema, &run.uuid, name, started_ms, ended_ms, state, &run.plan, &run.weir],
        )
    };
    let mut n = 1;
    let id = loop {
        let name = if n == 1 { run.name.clone() } else { format!("{}-{n}", run.name) };
        if let Some(id) = insert_free(tx, &name, insert)? {
            break id;
        }
        if by_uuid(tx, &run.uuid)?.is_some() {
            return Ok(None);
        }
        n += 1;
    };
    rows::insert_environment(tx, id, &run.environment)?;
    run.sessions.iter().try_for_each(|session| rows::insert_session(tx, id, session))?;
    run.self_checks.iter().try_for_each(|check| rows::insert_self_check(tx, id, check))?;
    run.advice.iter().try_for_each(|check| rows::insert_advice(tx, id, check))?;
    run.points.iter().try_for_each(|point| insert_point(tx, id, point))?;
    tx.execute(
        "INSERT INTO imports (run_id, name, address, signature, imported_ms, differences)
         VALUES (?, ?, ?, ?, ?, ?)",
        values![
            id,
            &origin.name,
            &origin.address,
            origin.signature.as_deref(),
            origin.imported_ms,
            origin.differences
        ],
    )?;
    Ok(Some(id))
}

fn insert_point(tx: &Engine, run: i64, point: &Point) -> Result<()> {
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

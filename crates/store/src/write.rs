//! Writing a run, one durable transaction a call.

use crate::engine::{Engine, Fault, For, Result, values};
use crate::error::{StoreError, StoreResult};
use crate::open::Store;
use crate::{name, rows};
use std::collections::BTreeMap;
use uuid::Uuid;
use weir_trial::run::{AdviceCheck, PointKey, PointResult, RunState, SCHEMA_VERSION, Session, StoredTrial};
use weir_trial::{PacketCheck, SelfCheck};

/// A run's number in its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// What is known when a campaign starts.
#[derive(Clone, Copy, Debug)]
pub struct NewRun<'a> {
    /// A name of the user's choice; without one the store picks a date and an animal.
    pub name: Option<&'a str>,
    /// Now, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// The whole plan, as TOML.
    pub plan: &'a str,
    /// Weir's version and commit.
    pub weir: &'a str,
    /// Facts of the machine, captured: name to value.
    pub environment: &'a BTreeMap<String, String>,
}

/// A point being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPoint {
    /// Row of the point.
    pub(crate) id: i64,
    pub(crate) run: RunId,
    /// [`StoredTrial::sequence`] of the next trial: above 0 where trials of a cut-off attempt are kept.
    pub next_sequence: u32,
}

/// How a point ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome<'a> {
    /// Version and configuration of the DUT as started.
    pub dut_version: Option<&'a str>,
    /// Why nothing could be measured, where so.
    pub error: Option<&'a str>,
    /// The verdicts of the methods.
    pub results: &'a [PointResult],
}

impl Store {
    /// Starts a run and takes its lock. [`Store::run_name`] says what it was called.
    pub fn begin_run(&mut self, new: NewRun<'_>) -> StoreResult<RunId> {
        if let Some((name, why)) = new.name.and_then(|name| Some((name, name::fault(name)?))) {
            return Err(StoreError::BadName { name: name.to_owned(), why });
        }
        let uuid = Uuid::now_v7();
        let environment: BTreeMap<String, String> =
            new.environment.iter().map(|(name, value)| (printed(name), printed(value))).collect();
        let id = self.transact(None, |tx| {
            let insert = |name: &str| {
                tx.insert_new(
                    "INSERT INTO runs (schema, uuid, name, started_ms, state, plan, weir)
                     VALUES (?, ?, ?, ?, 'running', ?, ?)",
                    values![SCHEMA_VERSION, uuid.to_string(), name, new.started_ms, new.plan, new.weir],
                )
            };
            let id = match new.name {
                Some(name) => insert_free(tx, name, insert)?,
                None => {
                    let mut names = (0..).map(|n| name::nth(new.started_ms, n, uuid));
                    loop {
                        let name = names.next().ok_or(Fault::NoRow)?;
                        if let Some(id) = insert_free(tx, &name, insert)? {
                            break Some(id);
                        }
                    }
                }
            };
            id.iter().try_for_each(|id| rows::insert_environment(tx, *id, &environment))?;
            Ok(id.map(RunId))
        })?;
        let Some(id) = id else {
            return Err(StoreError::BadName {
                name: new.name.unwrap_or_default().to_owned(),
                why: "another run has it already",
            });
        };
        self.lock(id)?;
        Ok(id)
    }

    /// Takes a run up again: locks it, keeps under which conditions, and marks it running. Then [`Store::add_point`] each point of
    /// its plan that [`Store::progress`] does not call finished.
    pub fn resume_run(&mut self, run: RunId, session: &Session) -> StoreResult<()> {
        self.lock(run)?;
        self.transact(Some(run), |tx| {
            rows::insert_session(tx, run.0, session)?;
            tx.execute("UPDATE runs SET state = 'running', ended_ms = NULL WHERE id = ?", values![run.0])
                .map(drop)
        })
    }

    /// Starts a point. One that was cut off is begun anew: its trials stay, marked superseded, and
    /// its results, if any, are dropped.
    pub fn add_point(&mut self, run: RunId, index: u32, key: &PointKey) -> StoreResult<OpenPoint> {
        self.transact(Some(run), |tx| {
            let sql = "SELECT id FROM points WHERE run_id = ? AND place = ?";
            let known = tx.first(sql, values![run.0, index])?;
            let Some(id) = known.map(|row| row.get::<i64>("id")).transpose()? else {
                let id = rows::insert_point(tx, run.0, index, key)?;
                return Ok(OpenPoint { id, run, next_sequence: 0 });
            };
            tx.execute("UPDATE trials SET superseded = 1 WHERE point_id = ?", values![id])?;
            tx.execute("DELETE FROM results WHERE point_id = ?", values![id])?;
            rows::update_point(tx, id, key)?;
            let sql = "SELECT coalesce(max(sequence) + 1, 0) AS next FROM trials WHERE point_id = ?";
            let next_sequence = tx.one(sql, values![id])?.get("next")?;
            Ok(OpenPoint { id, run, next_sequence })
        })
    }

    /// Keeps what the tester can do over a wiring of the run.
    pub fn add_self_check(&mut self, run: RunId, check: &SelfCheck) -> StoreResult<()> {
        self.transact(Some(run), |tx| rows::insert_self_check(tx, run.0, check))
    }

    /// Keeps what is known better about a wiring of the run in place of what was kept.
    pub fn replace_self_check(&mut self, run: RunId, old: &SelfCheck, new: &SelfCheck) -> StoreResult<()> {
        self.transact(Some(run), |tx| rows::replace_self_check(tx, run.0, old, new))
    }

    /// Keeps advice that was made from a run, with what its check came to.
    pub fn add_advice(&mut self, run: RunId, check: &AdviceCheck) -> StoreResult<()> {
        self.transact(Some(run), |tx| rows::insert_advice(tx, run.0, check))
    }

    /// Keeps what a point sends: hashes of its traces, one a direction, and the seed.
    pub fn set_traffic(&mut self, point: OpenPoint, hashes: &[String], seed: u64) -> StoreResult<()> {
        self.transact(Some(point.run), |tx| rows::update_traffic(tx, point.id, hashes, seed))
    }

    /// Keeps what configured a point's device: the name of each file, and its text.
    pub fn set_configuration(
        &mut self,
        point: OpenPoint,
        configuration: &BTreeMap<String, String>,
    ) -> StoreResult<()> {
        self.transact(Some(point.run), |tx| rows::update_configuration(tx, point.id, configuration))
    }

    /// Keeps what the untimed pass over a point's trace came to.
    pub fn set_packets(&mut self, point: OpenPoint, check: &PacketCheck) -> StoreResult<()> {
        self.transact(Some(point.run), |tx| rows::update_packets(tx, point.id, check))
    }

    /// Keeps a trial. When this returns, nothing but the loss of the disk loses it.
    pub fn add_trial(&mut self, point: OpenPoint, trial: &StoredTrial) -> StoreResult<()> {
        self.transact(Some(point.run), |tx| rows::insert_trial(tx, point.id, trial))
    }

    /// Ends a point with its results or its error.
    pub fn finish_point(&mut self, point: OpenPoint, outcome: Outcome<'_>) -> StoreResult<()> {
        self.transact(Some(point.run), |tx| {
            tx.execute("DELETE FROM results WHERE point_id = ?", values![point.id])?;
            for (place, result) in outcome.results.iter().enumerate() {
                rows::insert_result(tx, point.id, place, result)?;
            }
            tx.execute(
                "UPDATE points SET dut_version = ?, error = ?, finished = 1 WHERE id = ?",
                values![outcome.dut_version.map(printed), outcome.error.map(printed), point.id],
            )?;
            Ok(())
        })
    }

    /// Ends a run and gives its lock back.
    pub fn end_run(&mut self, run: RunId, state: RunState, ended_ms: i64) -> StoreResult<()> {
        self.transact(Some(run), |tx| {
            let state = rows::state_name(state);
            tx.execute(
                "UPDATE runs SET state = ?, ended_ms = ? WHERE id = ?",
                values![state, ended_ms, run.0],
            )
            .map(drop)
        })?;
        self.engine.unlock_run(run.0);
        Ok(())
    }

    /// Forgets a run with everything measured in it.
    pub fn remove_run(&mut self, run: RunId) -> StoreResult<()> {
        self.lock(run)?;
        self.transact(Some(run), |tx| tx.execute("DELETE FROM runs WHERE id = ?", values![run.0]).map(drop))?;
        self.engine.unlock_run(run.0);
        Ok(())
    }

    fn lock(&mut self, run: RunId) -> StoreResult<()> {
        match self.engine.lock_run(run.0)? {
            true => Ok(()),
            false => Err(StoreError::RunInUse { name: self.run_name(run)? }),
        }
    }

    /// One write transaction: all of it or nothing, on the disk when it returns.
    pub(crate) fn transact<T>(
        &mut self,
        run: Option<RunId>,
        work: impl Fn(&Engine) -> Result<T>,
    ) -> StoreResult<T> {
        let done = self.engine.transaction(For::Writing, work);
        done.map_err(|fault| Engine::sorted(&self.path, run.map_or(0, |run| self.kept(run)), fault))
    }

    /// Trials of a run that are safe; 0 where even that cannot be read.
    fn kept(&self, run: RunId) -> u64 {
        let sql = "SELECT count(*) AS kept FROM trials JOIN points ON points.id = point_id WHERE run_id = ?";
        let kept = self.engine.one(sql, values![run.0]).and_then(|row| row.get::<i64>("kept"));
        kept.map_or(0, i64::unsigned_abs)
    }
}

/// Inserts a run unless its name is taken. That is asked first, as on a server an attempt takes a number.
pub(crate) fn insert_free(
    tx: &Engine,
    name: &str,
    insert: impl Fn(&str) -> Result<Option<i64>>,
) -> Result<Option<i64>> {
    let taken = tx.first("SELECT id FROM runs WHERE name = ?", values![name])?.is_some();
    if taken { Ok(None) } else { insert(name) }
}

/// A text that a program or the kernel printed, in which the character 0 is nothing to keep.
fn printed(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selector;
    use weir_simulated::SimulatedDut;
    use weir_trial::run::Purpose;
    use weir_trial::{Nf, TrialSpec};
    use weir_units::{Bps, LineRate, Nanos, Pps};

    fn key() -> PointKey {
        PointKey {
            nf: Nf::L2Fwd,
            dut: "simulated".to_owned(),
            wiring: "fed".to_owned(),
            trace: "simple".to_owned(),
            size: "64".to_owned(),
            mean_frame_bytes: 64.0,
            directions: 1,
            placement: weir_trial::Placement::default(),
            huge_pages: false,
            line_rate: LineRate(Bps(10e9)),
        }
    }

    fn trial(sequence: u32) -> StoredTrial {
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(Nanos::PER_SECOND) };
        let result = SimulatedDut::default().start().run(spec);
        StoredTrial::new(sequence, Purpose::Search, 0, result)
    }

    /// Limits the pages of the file.
    fn limit(store: &Store, pages: i64) -> rusqlite::Result<()> {
        match &store.engine {
            Engine::Sqlite(engine) => engine.connection.pragma_update(None, "max_page_count", pages),
            #[cfg(feature = "postgres")]
            Engine::Postgres(_) => unreachable!("these stores are files"),
        }
    }

    /// Keeps trials until the store is full; how many it acknowledged, and its error.
    fn fill(store: &mut Store) -> (u64, StoreError) {
        let environment = BTreeMap::new();
        let new = NewRun { name: Some("full"), started_ms: 0, plan: "", weir: "", environment: &environment };
        let run = store.begin_run(new).unwrap();
        let point = store.add_point(run, 0, &key()).unwrap();
        for sequence in 0..100_000 {
            if let Err(error) = store.add_trial(point, &trial(sequence)) {
                return (u64::from(sequence), error);
            }
        }
        panic!("the store was never full");
    }

    fn check_full(acknowledged: u64, error: &StoreError) {
        assert!(matches!(error, StoreError::Full { kept, .. } if *kept == acknowledged), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("weir bench --resume") && text.contains(&format!("{acknowledged} trials")),
            "{text}"
        );
        assert!(acknowledged > 0 && !error.is_bad_use());
    }

    #[test]
    fn a_full_store_says_how_many_trials_are_kept_and_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(Some(&folder.path().join("weir.db"))).unwrap();
        limit(&store, 60).unwrap();
        let (acknowledged, error) = fill(&mut store);
        check_full(acknowledged, &error);
        let run = store.find(&Selector::Last(0)).unwrap();
        assert_eq!(store.load(run).unwrap().points[0].trials.len() as u64, acknowledged);
        // Room again: the campaign goes on where it stopped.
        limit(&store, 6000).unwrap();
        let point = store.add_point(run, 0, &key()).unwrap();
        assert_eq!(u64::from(point.next_sequence), acknowledged);
        store.add_trial(point, &trial(point.next_sequence)).unwrap();
    }

    #[test]
    fn a_full_disk_says_how_many_trials_are_kept_and_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"])
            .arg(folder.path())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("not root, or mounting is not allowed here: the page limit's test stands in");
            return;
        }
        let outcome = std::panic::catch_unwind(|| {
            let path = folder.path().join("weir.db");
            let mut store = Store::open(Some(&path)).unwrap();
            let (acknowledged, error) = fill(&mut store);
            drop(store);
            check_full(acknowledged, &error);
            let store = Store::open_existing(Some(&path)).unwrap();
            let run = store.find(&Selector::Last(0)).unwrap();
            assert_eq!(store.load(run).unwrap().points[0].trials.len() as u64, acknowledged);
        });
        let unmounted = std::process::Command::new("umount").arg(folder.path()).status();
        outcome.unwrap();
        assert!(unmounted.unwrap().success());
    }
}

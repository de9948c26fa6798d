//! Between a method and a rig: every finished trial is kept before the method sees it.

use crate::rig::{Rig, RigError};
use crate::runner::{CampaignError, Watcher};
use std::cell::{Cell, RefCell};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_methods::{GoalBounds, Next, Observer};
use weir_store::{OpenPoint, Store};
use weir_trial::run::{Purpose, StoredTrial};
use weir_trial::{Measurer, TrialResult, TrialSpec};
use weir_units::Nanos;

/// How often a trial is run when the tester itself spoils it.
const ATTEMPTS: u32 = 2;

/// Share of unsent packets from which the tester is overloaded rather than disturbed.
const OVERLOAD: f64 = 0.1;

/// What the observer tells the recorder: a method announces each trial before it asks for it.
#[derive(Debug)]
pub(crate) struct Shared {
    purpose: Cell<Purpose>,
    /// Sequence numbers of the latency trials, in order.
    latency_trials: RefCell<Vec<u32>>,
    /// Trials run, and those that the tester itself spoilt.
    trials: Cell<(u32, u32)>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            purpose: Cell::new(Purpose::WarmUp),
            latency_trials: RefCell::default(),
            trials: Cell::default(),
        }
    }
}

impl Shared {
    /// What to tell about a tester that was kept from its work; nothing where it was not.
    pub(crate) fn remark(&self) -> Option<String> {
        let (trials, spoilt) = self.trials.get();
        (spoilt > 0).then(|| {
            format!(
                "the tester fell behind its schedule in {spoilt} of {trials} trials, which were run again or count \
                 unsent packets as lost: its core was taken away, or is too slow for the load"
            )
        })
    }

    /// Sequence numbers of the latency trials since the last call.
    pub(crate) fn take_latency_trials(&self) -> Vec<u32> {
        self.latency_trials.take()
    }
}

/// A rig whose trials are kept.
pub(crate) struct Recorder<'a> {
    pub(crate) rig: &'a mut Rig,
    pub(crate) store: &'a mut Store,
    pub(crate) point: OpenPoint,
    /// Sequence number of the point's next trial.
    pub(crate) sequence: &'a mut u32,
    pub(crate) shared: &'a Shared,
}

impl Measurer for Recorder<'_> {
    type Error = CampaignError;

    /// Runs a trial, again when the tester itself spoilt it, and keeps every attempt.
    fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, CampaignError> {
        let began = Instant::now();
        for attempt in 1.. {
            let started_ms = now_ms();
            let mut result = self.rig.measure(spec).map_err(CampaignError::Rig)?;
            let spoilt = spoilt(&result);
            let again = attempt < ATTEMPTS && spoilt;
            let (trials, before) = self.shared.trials.get();
            self.shared.trials.set((trials + 1, before + u32::from(spoilt)));
            if !again {
                // Attempts that decide nothing cost time all the same.
                let whole = Nanos::from(began.elapsed());
                result.overhead = Nanos(whole.0.saturating_sub(result.elapsed.0));
            }
            let purpose = self.shared.purpose.get();
            let trial =
                StoredTrial { sequence: *self.sequence, purpose, started_ms, superseded: again, result };
            self.store.add_trial(self.point, &trial)?;
            *self.sequence += 1;
            if !again {
                if purpose == Purpose::Latency {
                    self.shared.latency_trials.borrow_mut().push(trial.sequence);
                }
                return Ok(trial.result);
            }
        }
        unreachable!("the last attempt is never repeated")
    }
}

/// Whether the tester was kept from sending (its core was taken away for a while), so that the
/// trial says more about the machine than about the DUT. A tester that could not send a good part
/// of the load was asked for too much: another attempt would end the same way.
fn spoilt(result: &TrialResult) -> bool {
    let total = result.total();
    let share = total.unsent as f64 / total.intended.max(1) as f64;
    total.unsent > 0 && share < OVERLOAD
}

/// Passes what a method tells on to the watcher.
pub(crate) struct Relay<'a> {
    pub(crate) watcher: &'a mut dyn Watcher,
    pub(crate) shared: &'a Shared,
}

impl Observer for Relay<'_> {
    fn next(&mut self, next: &Next) {
        self.shared.purpose.set(next.purpose);
        self.watcher.next(next);
    }

    fn trial(&mut self, purpose: Purpose, result: &TrialResult) {
        self.watcher.trial(purpose, result);
    }

    fn bounds(&mut self, bounds: &GoalBounds<'_>) {
        self.watcher.bounds(bounds);
    }
}

/// Milliseconds since 1970-01-01 UTC.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl From<RigError> for CampaignError {
    fn from(error: RigError) -> Self {
        Self::Rig(error)
    }
}

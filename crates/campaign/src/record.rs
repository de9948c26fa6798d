//! Between a method and a rig: every finished trial is kept before the method sees it.

use crate::limit::Tried;
use crate::rig::{Rig, RigError};
use crate::runner::{CampaignError, Watcher};
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_methods::{GoalBounds, Next, Observer};
use weir_store::{OpenPoint, Store};
use weir_trial::run::{Purpose, StoredTrial};
use weir_trial::verdict::Code;
use weir_trial::{ConnectionSpec, Control, KeptTrial, Measurer, TrialResult, TrialSpec};
use weir_units::Nanos;

/// Share of unsent packets from which the tester is overloaded rather than disturbed: another
/// attempt would end the same way.
const OVERLOAD: f64 = 0.1;

/// What a reader of a point must be told of its trials.
#[derive(Debug, Default)]
pub(crate) struct TrialNotes {
    /// Trials run, and those that were invalid.
    trials: (u32, u32),
    /// What the trials that decided say about the cause of their loss.
    tried: Vec<Tried>,
    /// What people are told: trials that stayed invalid or wrong by their gravest finding, and notes
    /// that are news, with their number and one that says it.
    kept: BTreeMap<Code, (u32, String)>,
}

impl TrialNotes {
    /// What to tell about trials that were not as they should be; nothing where all were.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let (trials, invalid) = self.trials;
        let again = (invalid > 0).then(|| {
            format!("{invalid} of {trials} trials were invalid: run again, or kept out of every ranking")
        });
        let found = self.kept.values().map(|(count, says)| format!("{count} of {trials} trials: {says}"));
        again.into_iter().chain(found).collect()
    }

    /// What the trials that decided since the last call say about the cause of their loss.
    pub(crate) fn take_tried(&mut self) -> Vec<Tried> {
        std::mem::take(&mut self.tried)
    }

    fn note(&mut self, trial: &StoredTrial) {
        let (trials, invalid) = &mut self.trials;
        *trials += 1;
        *invalid += u32::from(trial.verdict.is_worth_repeating());
        if trial.superseded {
            return;
        }
        self.tried.push(Tried::of(trial));
        let gravest = trial.verdict.findings.iter().take(usize::from(!trial.verdict.is_valid()));
        let notes = trial.verdict.findings.iter().filter(|finding| is_told(finding.code, trial.purpose));
        for finding in gravest.chain(notes) {
            self.kept.entry(finding.code).or_insert_with(|| (0, finding.says.clone())).0 += 1;
        }
    }
}

/// A rig whose trials are kept.
pub(crate) struct Recorder<'a> {
    pub(crate) rig: &'a mut Rig,
    pub(crate) store: &'a mut Store,
    pub(crate) point: OpenPoint,
    /// Sequence number of the point's next trial.
    pub(crate) sequence: &'a mut u32,
    pub(crate) notes: &'a mut TrialNotes,
}

impl Measurer for Recorder<'_> {
    type Error = CampaignError;

    fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, CampaignError> {
        self.keep(purpose, |rig| rig.measure(spec))
    }

    fn measure_under(
        &mut self,
        purpose: Purpose,
        spec: TrialSpec,
        control: Control,
    ) -> Result<KeptTrial, CampaignError> {
        self.keep(purpose, |rig| rig.measure_under(spec, Some(control)))
    }

    fn measure_connections(
        &mut self,
        purpose: Purpose,
        asked: ConnectionSpec,
    ) -> Result<KeptTrial, CampaignError> {
        self.keep(purpose, |rig| rig.measure_connections(asked))
    }

    fn rest(&mut self, time: Nanos) -> Result<(), CampaignError> {
        self.rig.rest(time).map_err(CampaignError::Rig)
    }
}

impl Recorder<'_> {
    /// Runs a trial, again when the machine or the tester spoilt it, and keeps every attempt.
    fn keep(
        &mut self,
        purpose: Purpose,
        measure: impl Fn(&mut Rig) -> Result<TrialResult, RigError>,
    ) -> Result<KeptTrial, CampaignError> {
        let began = Instant::now();
        for attempt in 1.. {
            let started_ms = now_ms();
            let result = measure(self.rig).map_err(CampaignError::Rig)?;
            let sequence = *self.sequence;
            let mut trial = StoredTrial::new(sequence, purpose, started_ms, result);
            // A device starts once: what was spoilt then cannot be measured again.
            let attempts = if self.rig.is_measured_once() { 1 } else { purpose.attempts() };
            trial.superseded =
                attempt < attempts && trial.verdict.is_worth_repeating() && !overloaded(&trial);
            if !trial.superseded {
                // Attempts that decide nothing cost time all the same.
                let whole = Nanos::from(began.elapsed());
                trial.result.overhead = Nanos(whole.0.saturating_sub(trial.result.elapsed.0));
            }
            self.store.add_trial(self.point, &trial)?;
            self.notes.note(&trial);
            *self.sequence += 1;
            if let Some(wrong) = wrong_packets(&trial) {
                return Err(CampaignError::WrongPackets(wrong));
            }
            if !trial.superseded {
                return Ok(KeptTrial { sequence, result: trial.result });
            }
        }
        unreachable!("the last attempt is never repeated")
    }
}

/// Whether people are told of a finding even where the trial is valid.
fn is_told(code: Code, purpose: Purpose) -> bool {
    match code {
        Code::Reordered | Code::Chatter | Code::WireChatter | Code::Forked => true,
        Code::Starved | Code::OneSided => true,
        Code::Lost => purpose.loss_is_news(),
        _ => false,
    }
}

/// What was wrong with the packets of a trial that were compared; nothing where all were right.
fn wrong_packets(trial: &StoredTrial) -> Option<String> {
    let finding = trial.verdict.findings.iter().find(|finding| finding.code == Code::WrongPackets)?;
    Some(finding.says.clone())
}

/// Whether the load itself was too much for the tester: unsent packets that count, without a cause
/// beside it.
fn overloaded(trial: &StoredTrial) -> bool {
    let counted = trial.result.counted();
    let disturbed = [Code::TesterPreempted, Code::TesterStolen, Code::ClockJump]
        .into_iter()
        .any(|code| trial.verdict.has(code));
    !disturbed && counted.unsent as f64 >= OVERLOAD * counted.intended().max(1) as f64
}

/// Passes what a method tells on to the watcher.
pub(crate) struct Relay<'a>(pub(crate) &'a mut dyn Watcher);

impl Observer for Relay<'_> {
    fn next(&mut self, next: &Next) {
        self.0.next(next);
    }

    fn trial(&mut self, purpose: Purpose, kept: &KeptTrial) {
        self.0.trial(kept.sequence, purpose, &kept.result);
    }

    fn bounds(&mut self, bounds: &GoalBounds<'_>) {
        self.0.bounds(bounds);
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

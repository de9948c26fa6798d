//! What limits a result, derived from the trials that failed: the device, the tester, the machine
//! under them, the greatest load asked for, or the time of the search.
//!
//! A bound that is missing says nothing about who failed. So every trial at the load that was too
//! much is asked for the cause of its loss, and the cause of most of them limits the result. Where
//! they blame the device, the ceiling of tester and wiring still has to be far enough away.

use crate::methods::{limited, limited_mut};
use std::collections::BTreeMap;
use weir_trial::run::{PointResult, Purpose, StoredTrial};
use weir_trial::verdict::{Code, Verdict, Weight};
use weir_trial::windows::WindowCounts;
use weir_trial::{Limit, Limiter, SelfCheck};
use weir_units::{Pps, Ratio};

/// From this share of the tester's ceiling on, a result says more about the tester than about the device.
pub(crate) const NEAR_CEILING: f64 = 0.9;
/// Loads nearer than this are the same load.
pub(crate) const SAME_LOAD: f64 = 1e-6;

/// What a trial says about the cause of its loss.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    purpose: Purpose,
    load: Pps,
    /// Where they count: without the windows that the machine spoilt.
    counts: WindowCounts,
    verdict: Verdict,
}

impl Tried {
    /// Of a trial that decided.
    pub(crate) fn of(trial: &StoredTrial) -> Self {
        Self {
            purpose: trial.purpose,
            load: trial.result.spec.load,
            counts: trial.result.counted(),
            verdict: trial.verdict.clone(),
        }
    }

    fn loss(&self) -> f64 {
        self.share(self.counts.lost())
    }

    fn share(&self, packets: u64) -> f64 {
        packets as f64 / self.counts.intended().max(1) as f64
    }

    /// Who caused a loss of more than `tolerated`; nothing where there was none.
    fn cause(&self, tolerated: Ratio) -> Option<Limiter> {
        if self.loss() <= tolerated.0 {
            return None;
        }
        let unsent = self.share(self.counts.unsent);
        let of_tester = self.loss() - unsent <= tolerated.0 || 2.0 * unsent > self.loss();
        let invalid = self.verdict.findings.iter().filter(|finding| finding.weight == Weight::Invalid);
        let mut invalid = invalid.map(|finding| finding.code).peekable();
        Some(match invalid.peek() {
            Some(Code::TesterStolen | Code::TesterPreempted | Code::DutStolen | Code::DutPreempted) => {
                Limiter::Machine
            }
            Some(Code::CountersDisagree | Code::CountsDoNotAddUp) if !of_tester => Limiter::Dut,
            Some(_) => Limiter::Tester,
            None if of_tester => Limiter::Tester,
            None => Limiter::Dut,
        })
    }

    /// What the verdict says of the cause, or the counts where it says nothing.
    fn says(&self, cause: Limiter) -> String {
        let told = self.verdict.findings.iter().find(|finding| match cause {
            Limiter::Dut => finding.code == Code::Lost,
            _ => finding.weight == Weight::Invalid || finding.code == Code::Unsent,
        });
        told.map_or_else(
            || format!("{} of {} packets were lost", self.counts.lost(), self.counts.intended()),
            |finding| finding.says.clone(),
        )
    }
}

/// What is known beside the result itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence<'a> {
    /// The check of the point's wiring.
    pub(crate) check: Option<&'a SelfCheck>,
    /// The trials that decided, of the same repeat.
    pub(crate) trials: &'a [Tried],
    /// What the line carries, over all directions.
    pub(crate) line: Pps,
    /// The greatest load that a search may offer, over all directions.
    pub(crate) max_load: Pps,
    /// Whether the packets come from inside the device (`fed`).
    pub(crate) fed: bool,
}

/// Says of results what limits them, and of delays what the bare wiring takes.
pub(crate) fn assign(results: &mut [PointResult], evidence: Evidence<'_>) {
    results.iter_mut().for_each(|result| limited_mut(result).limit(&evidence));
}

/// The load at which a ceiling must be known better: that of a result which comes near it, or passes it.
pub(crate) fn near_ceiling(check: &SelfCheck, results: &[PointResult]) -> Option<Pps> {
    let loads = results.iter().filter_map(|result| limited(result).near_ceiling(check));
    loads.map(|load| load.0).reduce(f64::max).map(Pps)
}

/// Whether a rate comes to this share of a ceiling.
pub(crate) fn near(check: &SelfCheck, rate: Pps, least: f64) -> bool {
    rate.0 >= check.ceiling.0 * least
}

impl Evidence<'_> {
    /// No load failed: the greatest one passed, or the time to try a greater one was not there.
    pub(crate) fn of_no_failure(&self, passed: Pps) -> Limit {
        let is = |greatest: Pps| passed.0 >= greatest.0 * (1.0 - SAME_LOAD);
        if self.line.0 > 0.0 && is(self.line) {
            let why = format!("{passed}, all that the line carries, passed");
            return Limit { by: Limiter::Line, why };
        }
        if is(self.max_load) {
            let why = format!("{passed}, the greatest load asked for, passed");
            return Limit { by: Limiter::Line, why };
        }
        let why = format!("no load failed: {passed} is the greatest that was tried long enough");
        Limit { by: Limiter::Time, why }
    }

    /// Of a rate that was found below a load that was too much. Nothing where no trial at that load
    /// is there to be asked, or the device is blamed and the wiring was not checked.
    pub(crate) fn of_failure(
        &self,
        rate: Option<Pps>,
        failed: Pps,
        tolerated: Ratio,
        purpose: Purpose,
    ) -> Option<Limit> {
        let there = |trial: &&Tried| {
            trial.purpose == purpose && (trial.load.0 - failed.0).abs() <= failed.0 * SAME_LOAD
        };
        let mut causes: BTreeMap<Limiter, Vec<&Tried>> = BTreeMap::new();
        let failed_there = self.trials.iter().filter(there).filter(|trial| trial.loss() > tolerated.0);
        let failed_there: Vec<&Tried> = failed_there.collect();
        // A disturbed trial proves nothing to a search; it is asked where there is no other.
        let decided = failed_there.iter().any(|trial| !trial.verdict.is_disturbed());
        for trial in failed_there.into_iter().filter(|trial| !decided || !trial.verdict.is_disturbed()) {
            if let Some(cause) = trial.cause(tolerated) {
                causes.entry(cause).or_default().push(trial);
            }
        }
        let all: usize = causes.values().map(Vec::len).sum();
        // Of two causes as frequent the one that is not the device: it may be faster.
        let (cause, trials) =
            causes.into_iter().max_by_key(|(by, trials)| (trials.len(), *by != Limiter::Dut))?;
        if cause == Limiter::Dut {
            return self.below_ceiling(rate?, trials[0], failed);
        }
        let (of, says) = (trials.len(), trials[0].says(cause));
        let why = format!("at {failed}, in {of} of {all} trials that failed: {says}");
        Some(Limit { by: cause, why })
    }

    /// The device lost the packets. Near its ceiling the tester may have lost them on the way.
    fn below_ceiling(&self, rate: Pps, failed: &Tried, load: Pps) -> Option<Limit> {
        let ceiling = self.check?.ceiling;
        let share = Ratio(rate.0 / ceiling.0.max(1.0));
        let alone = format!("{ceiling} that tester and wiring reach with nothing in between");
        Some(if share.0 > 1.0 {
            let why = format!("{rate} is above the {alone}: the ceiling is not known well enough");
            Limit { by: Limiter::Tester, why }
        } else if share.0 >= NEAR_CEILING {
            Limit { by: Limiter::Tester, why: format!("{rate} is {share} of the {alone}") }
        } else {
            let why = format!("at {load} {}; far below the {alone}", failed.says(Limiter::Dut));
            Limit { by: Limiter::Dut, why }
        })
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;

//! Whether a result may be ranked: what the verdicts on the trials it rests on say.
//!
//! A result rests on the trials that carry its number: a throughput on those at its lower bound, a
//! forwarded rate and the rest on all of theirs. One *wrong* trial spoils it: the DUT did something else than
//! its network function. *Invalid* trials spoil it when they are more than half of them; fewer are told.

use super::{Point, PointResult, StoredTrial};
use crate::verdict::Weight;

/// What speaks against a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Whether the result is invalid: shown, but never ranked.
    pub invalid: bool,
    /// Why, in words.
    pub why: String,
}

/// Why the rates of an emulated guest are ranked nowhere.
const EMULATED: &str =
    "its guests were emulated (TCG): what they forward is judged, how fast says nothing of guests under KVM";

impl Point {
    /// The trial of that number.
    pub fn trial(&self, sequence: u32) -> Option<&StoredTrial> {
        self.trials.binary_search_by_key(&sequence, |trial| trial.sequence).ok().map(|at| &self.trials[at])
    }

    /// The trials of these numbers, as far as they are there.
    pub(super) fn numbered(&self, trials: &[u32]) -> Vec<&StoredTrial> {
        trials.iter().filter_map(|number| self.trial(*number)).collect()
    }

    /// The trials that carry a result's number. Repeats of a measurement share those found by their
    /// load or purpose.
    pub fn rests_on(&self, result: &PointResult) -> Vec<&StoredTrial> {
        result.of_method().rests_on(self)
    }

    /// What speaks against a result; nothing where all its trials are as they should be.
    pub fn doubt(&self, result: &PointResult) -> Option<Doubt> {
        let of_method = result.of_method();
        if let Some(why) = of_method.says_invalid() {
            return Some(Doubt { invalid: true, why: why.to_owned() });
        }
        let trials = self.rests_on(result);
        let of = |weight: Weight| {
            trials.iter().filter(|trial| trial.verdict.worst() == Some(weight)).collect::<Vec<_>>()
        };
        let (wrong, invalid) = (of(Weight::Wrong), of(Weight::Invalid));
        let (bad, word) = if wrong.is_empty() { (&invalid, "invalid") } else { (&wrong, "wrong") };
        if wrong.is_empty() && self.key.placement.is_emulated() {
            return Some(Doubt { invalid: true, why: EMULATED.to_owned() });
        }
        let says = &bad.first()?.verdict.findings.first()?.says;
        let left_out = of_method.leaves_invalid_out() && invalid.len() < trials.len();
        Some(Doubt {
            invalid: !wrong.is_empty() || (invalid.len() * 2 > trials.len() && !left_out),
            why: format!("{} of {} trials {word}: {says}", bad.len(), trials.len()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{MrrResult, PointKey, Purpose, ThroughputResult};
    use crate::verdict::{Code, Finding, Verdict};
    use crate::{Nf, TrialResult, TrialSpec};
    use weir_units::{Bps, LineRate, Nanos, Pps};

    fn point(weights: &[Option<Weight>]) -> Point {
        let trials = weights.iter().zip(0..).map(|(weight, sequence)| {
            let spec = TrialSpec { load: Pps(1e6), duration: Nanos(Nanos::PER_SECOND) };
            let findings = weight.iter().map(|weight| Finding {
                code: Code::Foreign,
                weight: *weight,
                says: format!("finding {sequence}"),
            });
            StoredTrial {
                verdict: Verdict { findings: findings.collect() },
                ..StoredTrial::new(sequence, Purpose::Mrr, 0, TrialResult::new(spec))
            }
        });
        Point {
            index: 0,
            key: PointKey {
                nf: Nf::L2Fwd,
                dut: "nf".into(),
                wiring: "vhost".into(),
                trace: "tr3i".into(),
                size: "64".into(),
                mean_frame_bytes: 64.0,
                directions: 2,
                placement: crate::Placement::default(),
                huge_pages: false,
                line_rate: LineRate(Bps(10e9)),
            },
            dut_version: None,
            configuration: Default::default(),
            trace_hashes: Vec::new(),
            seed: 1,
            packets: None,
            error: None,
            finished: true,
            results: Vec::new(),
            trials: trials.collect(),
        }
    }

    fn mrr() -> PointResult {
        PointResult::Mrr(MrrResult {
            load: None,
            rates: Vec::new(),
            mean: Pps(1.0),
            deviation: Pps(0.0),
            cycles_per_packet: None,
            limit: None,
        })
    }

    #[test]
    fn one_wrong_trial_makes_a_result_invalid() {
        let doubt = point(&[None, Some(Weight::Wrong), None]).doubt(&mrr()).unwrap();
        assert!(doubt.invalid);
        assert_eq!(doubt.why, "1 of 3 trials wrong: finding 1");
    }

    #[test]
    fn a_few_invalid_trials_are_told_and_many_spoil_the_result() {
        let few = point(&[None, Some(Weight::Invalid), None]).doubt(&mrr()).unwrap();
        assert!(!few.invalid, "{few:?}");
        let many = point(&[None, Some(Weight::Invalid), Some(Weight::Invalid)]).doubt(&mrr()).unwrap();
        assert!(many.invalid, "{many:?}");
        assert_eq!(point(&[None, Some(Weight::Note)]).doubt(&mrr()), None);
    }

    #[test]
    fn what_emulated_guests_do_is_judged_and_how_fast_is_not_ranked() {
        let mut point = point(&[None, None]);
        let guest = |accel| Some(crate::Guest { accel, ..Default::default() });
        point.key.placement.guest = guest(crate::Accel::Tcg);
        let doubt = point.doubt(&mrr()).unwrap();
        assert!(doubt.invalid && doubt.why.contains("emulated (TCG)"), "{doubt:?}");
        point.key.placement.guest = guest(crate::Accel::Kvm);
        assert_eq!(point.doubt(&mrr()), None);
        point.key.placement.guest = guest(crate::Accel::Tcg);
        point.trials[0].verdict.findings =
            vec![Finding { code: Code::Foreign, weight: Weight::Wrong, says: "foreign".into() }];
        assert!(point.doubt(&mrr()).unwrap().why.contains("1 of 2 trials wrong"));
    }

    #[test]
    fn a_throughput_rests_on_its_lower_bound_only() {
        let mut point = point(&[Some(Weight::Wrong), None]);
        point.trials.iter_mut().for_each(|trial| trial.purpose = Purpose::Search);
        point.trials[0].result.spec.load = Pps(2e6);
        let found = PointResult::Throughput(ThroughputResult {
            goal: "ndr".into(),
            loss_ratio: weir_units::Ratio(0.0),
            throughput: Some(Pps(1e6)),
            lower: Some(Pps(1e6)),
            upper: Some(Pps(2e6)),
            irregular: None,
            estimate: None,
            trial_duration: Nanos(1),
            duration_sum: Nanos(1),
            trials: 2,
            limit: None,
        });
        assert_eq!(point.rests_on(&found).len(), 1);
        assert_eq!(point.doubt(&found), None);
    }
}

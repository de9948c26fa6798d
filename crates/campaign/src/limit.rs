//! Who limits a result: the device, the tester, or the load that was asked for.

use weir_trial::run::PointResult;
use weir_trial::{Limit, Limiter, SelfCheck};
use weir_units::{Pps, Ratio};

/// From this share of the tester's ceiling on, a result says more about the tester than about the device.
const NEAR_CEILING: f64 = 0.9;

/// What is known beside the result itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence<'a> {
    /// The check of the point's wiring.
    pub(crate) check: Option<&'a SelfCheck>,
    /// The least load at which the tester could not keep up ([`weir_trial::verdict::Code::Unsent`]).
    pub(crate) unsent_from: Option<Pps>,
    /// Whether the packets come from inside the device (`fed`).
    pub(crate) fed: bool,
}

/// Says of throughput and forwarded rates who limits them.
pub(crate) fn assign(results: &mut [PointResult], evidence: Evidence<'_>) {
    for result in results {
        match result {
            // Nothing failed for lack of time, so nothing is known to limit it.
            PointResult::Throughput { estimate: Some(_), limit, .. } => *limit = None,
            PointResult::Throughput { throughput: Some(rate), upper, limit, .. } => {
                *limit = match upper {
                    None => Some(Limit {
                        by: Limiter::Line,
                        why: "the greatest load asked for passed".to_owned(),
                    }),
                    Some(upper) => of_rate(*rate, Some(*upper), evidence),
                };
            }
            PointResult::Mrr { load: Some(load), mean, limit, .. } => {
                *limit = of_rate(*mean, Some(*load), evidence);
            }
            PointResult::LatencyCurve { saturation, limit, .. } => {
                *limit = saturation.lower.and_then(|rate| of_rate(rate, saturation.upper, evidence));
            }
            PointResult::Mrr { load: None, limit, .. } if evidence.fed => {
                let why = "its packets come from inside: no tester is at the wire".to_owned();
                *limit = Some(Limit { by: Limiter::Dut, why });
            }
            _ => {}
        }
    }
}

/// `failed` is the load that was too much.
fn of_rate(rate: Pps, failed: Option<Pps>, evidence: Evidence<'_>) -> Option<Limit> {
    if let (Some(from), Some(failed)) = (evidence.unsent_from, failed)
        && from.0 <= failed.0 * (1.0 + 1e-9)
    {
        let why = format!("it could not send {from}, less than or as much as the load that failed");
        return Some(Limit { by: Limiter::Tester, why });
    }
    let ceiling = evidence.check?.ceiling;
    let share = Ratio(rate.0 / ceiling.0.max(1.0));
    Some(if share.0 >= NEAR_CEILING {
        let why = format!(
            "{rate} is {share} of the {ceiling} that tester and wiring reach with nothing in between"
        );
        Limit { by: Limiter::Tester, why }
    } else {
        let why = format!("tester and wiring reach {ceiling} with nothing in between");
        Limit { by: Limiter::Dut, why }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::DirectionCounts;
    use weir_units::Nanos;

    fn check(ceiling: f64) -> SelfCheck {
        SelfCheck {
            wiring: "vhost".into(),
            size: "64".into(),
            mean_frame_bytes: 64.0,
            directions: 1,
            huge_pages: false,
            loop_of: "weir nf l2fwd".into(),
            ceiling: Pps(ceiling),
            floor_load: Pps(1e4),
            floor: None,
            counts: DirectionCounts::default(),
            findings: Vec::new(),
        }
    }

    fn mrr(load: Option<f64>, mean: f64) -> PointResult {
        PointResult::Mrr {
            load: load.map(Pps),
            rates: vec![Pps(mean)],
            mean: Pps(mean),
            deviation: Pps(0.0),
            cycles_per_packet: None,
            limit: None,
        }
    }

    fn throughput(rate: f64, upper: Option<f64>) -> PointResult {
        PointResult::Throughput {
            goal: "ndr".into(),
            loss_ratio: Ratio(0.0),
            throughput: Some(Pps(rate)),
            lower: Some(Pps(rate)),
            upper: upper.map(Pps),
            irregular: None,
            estimate: None,
            trial_duration: Nanos(1),
            duration_sum: Nanos(1),
            trials: 1,
            limit: None,
        }
    }

    fn by(mut result: PointResult, evidence: Evidence<'_>) -> Option<Limiter> {
        assign(std::slice::from_mut(&mut result), evidence);
        match result {
            PointResult::Throughput { limit, .. } | PointResult::Mrr { limit, .. } => {
                limit.map(|limit| limit.by)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn far_below_the_ceiling_the_device_is_the_limit_and_near_it_the_tester() {
        let check = check(10e6);
        let evidence = Evidence { check: Some(&check), ..Evidence::default() };
        assert_eq!(by(throughput(8.9e6, Some(9.1e6)), evidence), Some(Limiter::Dut));
        assert_eq!(by(throughput(9.1e6, Some(9.2e6)), evidence), Some(Limiter::Tester));
        assert_eq!(by(throughput(9.1e6, None), evidence), Some(Limiter::Line));
        assert_eq!(by(mrr(Some(20e6), 5e6), evidence), Some(Limiter::Dut));
    }

    #[test]
    fn a_load_the_tester_could_not_send_is_its_own_limit() {
        let check = check(10e6);
        let evidence = Evidence { check: Some(&check), unsent_from: Some(Pps(6e6)), ..Evidence::default() };
        assert_eq!(by(throughput(5e6, Some(6e6)), evidence), Some(Limiter::Tester));
        assert_eq!(by(throughput(5e6, Some(5.1e6)), evidence), Some(Limiter::Dut));
    }

    #[test]
    fn without_a_check_nothing_is_claimed_but_of_a_device_that_feeds_itself() {
        assert_eq!(by(throughput(5e6, Some(6e6)), Evidence::default()), None);
        assert_eq!(by(mrr(None, 50e6), Evidence { fed: true, ..Evidence::default() }), Some(Limiter::Dut));
    }
}

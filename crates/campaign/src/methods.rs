//! The methods of a plan at one point, in their order: throughput, forwarded rate, latency.

use crate::plan::{Plan, PointSpec};
use crate::record::{Recorder, Relay};
use crate::runner::CampaignError;
use weir_methods::latency::LoadBasis;
use weir_methods::mlrsearch::Search;
use weir_trial::run::{PointKey, PointResult};
use weir_units::WIRE_OVERHEAD_BYTES;

/// The methods of one point.
pub(crate) struct Methods<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) spec: &'a PointSpec,
    pub(crate) key: &'a PointKey,
    pub(crate) results: &'a mut Vec<PointResult>,
    pub(crate) remarks: &'a mut Vec<String>,
}

impl Methods<'_> {
    pub(crate) fn run(
        &mut self,
        recorder: &mut Recorder<'_>,
        relay: &mut Relay<'_>,
    ) -> Result<(), CampaignError> {
        let line = self.key.theoretical();
        let mut goals = Vec::new();
        let mut max_load = line;
        if let Some(throughput) = self.plan.throughput.as_ref().filter(|_| !self.spec.mrr_only) {
            let config = throughput.config(line);
            max_load = config.max_load;
            let outcome = Search::new(config)?.run(recorder, relay)?;
            self.results.extend(outcome.point_results());
            goals = outcome.goals;
        }
        if let Some(mrr) = &self.plan.mrr {
            let outcome = mrr.method(line).run(recorder, relay)?;
            self.results.push(outcome.point_result());
        }
        if let Some(latency) = self.plan.latency.as_ref().filter(|_| !self.spec.mrr_only) {
            let wire_bits = 8.0 * (self.key.mean_frame_bytes + f64::from(WIRE_OVERHEAD_BYTES));
            let basis = LoadBasis { goals: &goals, line, max_load, wire_bits };
            let points = latency.run(&basis, recorder, relay)?;
            let mut trials = recorder.shared.take_latency_trials().into_iter();
            for point in points {
                match &point.trial {
                    Ok(_) => self.results.extend(trials.next().and_then(|trial| point.point_result(trial))),
                    Err(error) => self.remarks.push(format!("latency at {error}")),
                }
            }
        }
        if self.results.is_empty() && !self.remarks.is_empty() {
            return Err(CampaignError::Point(self.remarks.join("; ")));
        }
        if self.results.is_empty() {
            let wiring = &self.spec.wiring;
            let only = format!("the plan has no method for the `{wiring}` wiring, which allows [mrr] only");
            return Err(CampaignError::Point(only));
        }
        Ok(())
    }
}

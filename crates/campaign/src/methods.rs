//! The methods of a plan at one point, in their order: throughput and forwarded rate first, for loads
//! may be shares of what they find; then what is measured at loads; the soak last.

use crate::plan::{Plan, PointSpec};
use crate::purse::Purse;
use crate::runner::CampaignError;
use weir_methods::Observer;
use weir_methods::back_to_back::LineAndThroughput;
use weir_methods::latency::LoadBasis;
use weir_methods::mlrsearch::{GoalOutcome, GoalState, Search};
use weir_traffic::trace::Sizes;
use weir_trial::Measurer;
use weir_trial::run::{PointKey, PointResult};
use weir_units::{Pps, WIRE_OVERHEAD_BYTES};

/// The methods of one point.
pub(crate) struct Methods<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) spec: &'a PointSpec,
    pub(crate) key: &'a PointKey,
    /// The time that all searches share; nothing where each has its own, as two devices in turns have.
    pub(crate) purse: Option<&'a mut Purse>,
    /// What the tester can do over the point's wiring, where that was measured.
    pub(crate) ceiling: Option<Pps>,
    pub(crate) results: &'a mut Vec<PointResult>,
    pub(crate) remarks: &'a mut Vec<String>,
}

/// What the searches found, for loads that are shares of it.
struct Basis {
    goals: Vec<GoalOutcome>,
    line: Pps,
    max_load: Pps,
    wire_bits: f64,
}

impl Basis {
    fn loads(&self) -> LoadBasis<'_> {
        LoadBasis { goals: &self.goals, line: self.line, max_load: self.max_load, wire_bits: self.wire_bits }
    }
}

impl Methods<'_> {
    pub(crate) fn run(
        &mut self,
        measurer: &mut impl Measurer<Error = CampaignError>,
        relay: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let plan = self.plan;
        let mut basis = Basis {
            goals: Vec::new(),
            line: self.key.theoretical(),
            max_load: self.key.theoretical(),
            wire_bits: 8.0 * (self.key.mean_frame_bytes + f64::from(WIRE_OVERHEAD_BYTES)),
        };
        if let Some(throughput) = plan.throughput.as_ref().filter(|_| !self.spec.mrr_only) {
            let mut config = throughput.config(basis.line);
            basis.max_load = config.max_load;
            config.first_load = self.ceiling;
            if let Some(purse) = &self.purse {
                config.budget = purse.allows(config.least_budget());
            }
            let outcome = Search::new(config)?.run(measurer, relay)?;
            if let Some(purse) = &mut self.purse {
                purse.take(outcome.spent);
            }
            self.results.extend(outcome.point_results());
            basis.goals = outcome.goals;
        }
        if let Some(mrr) = &plan.mrr {
            let outcome = mrr.method(basis.line).run(measurer, relay)?;
            self.results.push(outcome.point_result());
        }
        if !self.spec.mrr_only {
            self.latency(&basis, measurer, relay)?;
            self.curve(&basis, measurer, relay)?;
            self.frame_loss(&basis, measurer, relay)?;
            self.back_to_back(&basis, measurer, relay)?;
            self.soak(&basis, measurer, relay)?;
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

    fn latency(
        &mut self,
        basis: &Basis,
        measurer: &mut impl Measurer<Error = CampaignError>,
        relay: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let Some(latency) = &self.plan.latency else { return Ok(()) };
        for point in latency.run(&basis.loads(), measurer, relay)? {
            self.results.extend(point.point_result());
            if let Err(error) = &point.trial {
                self.remarks.push(format!("latency at {error}"));
            }
        }
        Ok(())
    }

    fn curve(
        &mut self,
        basis: &Basis,
        measurer: &mut impl Measurer<Error = CampaignError>,
        relay: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let Some(curve) = &self.plan.latency_curve else { return Ok(()) };
        let method = curve.method(basis.max_load, self.plan.stamped);
        let capacity = basis.goals.iter().filter_map(GoalOutcome::best_lower);
        let capacity = capacity.max_by(|a, b| a.0.total_cmp(&b.0));
        let outcome = method.run(capacity, measurer, relay)?;
        self.results.push(outcome.point_result());
        Ok(())
    }

    fn frame_loss(
        &mut self,
        basis: &Basis,
        measurer: &mut impl Measurer<Error = CampaignError>,
        relay: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let Some(frame_loss) = &self.plan.frame_loss else { return Ok(()) };
        let outcome = frame_loss.run(basis.line, measurer, relay)?;
        self.results.push(outcome.point_result());
        Ok(())
    }

    fn back_to_back(
        &mut self,
        basis: &Basis,
        measurer: &mut impl Measurer<Error = CampaignError>,
        relay: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let Some(bursts) = &self.plan.back_to_back else { return Ok(()) };
        if !matches!(self.spec.size, Sizes::Fixed(_)) {
            let size = self.spec.size;
            self.remarks.push(format!("back-to-back: {size} left out, RFC 9004 asks for frames of one size"));
            return Ok(());
        }
        // A search that was not let up to the line rate does not know what the device forwards.
        let cut_off = |outcome: &&GoalOutcome| {
            outcome.state == GoalState::MaxLoadPassed && basis.max_load.0 < basis.line.0
        };
        let goal = basis.goals.iter().find(|outcome| outcome.goal.name == bursts.goal);
        let throughput = goal.filter(|outcome| !cut_off(outcome)).and_then(|outcome| outcome.throughput);
        let outcome = bursts.run(LineAndThroughput { line: basis.line, throughput }, measurer, relay)?;
        self.results.push(outcome.point_result());
        Ok(())
    }

    fn soak(
        &mut self,
        basis: &Basis,
        measurer: &mut impl Measurer<Error = CampaignError>,
        relay: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let Some(soak) = &self.plan.soak else { return Ok(()) };
        match soak.load.resolve(&basis.loads()) {
            Err(error) => self.remarks.push(format!("soak at {error}")),
            Ok(load) => {
                let outcome = soak.run(load, measurer, relay)?;
                self.results.push(outcome.point_result());
            }
        }
        Ok(())
    }
}

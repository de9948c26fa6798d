//! The methods as plans ask for them: the list, and what is asked of each.
//!
//! A method's file here has its table in a plan with its checks, an estimate of its time, what it does at a
//! point, and who limits its results. `methods!` below has a line a method; the plan, its estimate, a point and
//! the limits go through that list and know no method by name.

mod back_to_back;
mod connections;
mod curve;
mod flow_mods;
mod frame_loss;
mod latency;
mod mrr;
mod soak;
mod throughput;

pub(crate) use back_to_back::BackToBackTable;
pub(crate) use connections::ConnectionsTable;
pub use curve::CurvePlan;
pub(crate) use curve::LatencyCurveTable;
pub(crate) use flow_mods::FlowModsTable;
pub(crate) use frame_loss::FrameLossTable;
pub(crate) use latency::LatencyTable;
pub use mrr::MrrPlan;
pub(crate) use mrr::MrrTable;
pub(crate) use soak::SoakTable;
pub use throughput::ThroughputPlan;
pub(crate) use throughput::{GoalTable, ThroughputTable, check_goals, overridden};

use crate::limit::Evidence;
use crate::plan::check::Checker;
use crate::plan::file::PlanFile;
use crate::plan::{Plan, PointSpec};
use crate::purse::Purse;
use crate::runner::CampaignError;
use weir_methods::back_to_back::BackToBack;
use weir_methods::connections::Connections;
use weir_methods::flow_mods::FlowMods;
use weir_methods::frame_loss::FrameLoss;
use weir_methods::latency::{LatencyAt, LoadBasis};
use weir_methods::mlrsearch::GoalOutcome;
use weir_methods::soak::Soak;
use weir_methods::{Observer, Remaining};
use weir_trial::run::{Method, PointKey, PointResult};
use weir_trial::{Measurer, SelfCheck};
use weir_units::{Nanos, Pps, Ratio, WIRE_OVERHEAD_BYTES};

/// A method as a plan asks for it.
pub(crate) trait PlannedMethod: Sized {
    /// Its table, as [`PlanFile`] has it.
    type Table;

    /// Checks the table.
    fn checked(checker: &mut Checker<'_>, table: Self::Table) -> Self;

    /// What it is called where a plan is summed up, and what it does.
    fn line(&self) -> (&'static str, String);

    /// Trials at one point, and their time; nothing where that cannot be known.
    fn estimate(&self, assumed: &Assumed) -> Option<Remaining>;

    /// The most time that it may take at a point, where the plan says so.
    fn budget(&self) -> Option<Nanos> {
        None
    }

    /// What a reader of its results must be told.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a tester has to be at the wire.
    fn needs_tester(&self) -> bool {
        true
    }

    /// Whether some packets have to carry stamps.
    fn needs_stamps(&self) -> bool {
        false
    }

    /// Measures a point.
    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError>;
}

/// A result that something limits.
pub(crate) trait Limited {
    /// Says who limits it, as far as that is derived for its method.
    fn limit(&mut self, _evidence: &Evidence<'_>) {}

    /// The load at which a ceiling must be known better, where the result comes near it or passes it.
    fn near_ceiling(&self, _check: &SelfCheck) -> Option<Pps> {
        None
    }
}

/// One of [`Planned`]'s plans.
pub trait OfPlanned {
    /// It, where it is that method's.
    fn of(planned: &Planned) -> Option<&Self>;
}

/// A table of a plan, to be checked in its turn.
type Asked = Box<dyn FnOnce(&mut Checker<'_>) -> Planned>;

/// From a line a method (variant, plan, key of the plan file) to [`Planned`] and everything that is asked of
/// whichever method it is. One that is in [`Method`] and not here does not compile.
macro_rules! methods {
    ($($method:ident: $plan:ident = $table:ident,)*) => {
        /// A method as a plan asks for it.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Planned {
            $(#[doc = concat!("The table `[", stringify!($table), "]`.")] $method($plan),)*
        }

        impl Planned {
            /// The method.
            pub fn method(&self) -> Method {
                match self { $(Self::$method(_) => Method::$method,)* }
            }

            /// What it is called where a plan is summed up, and what it does.
            pub fn line(&self) -> (&'static str, String) {
                match self { $(Self::$method(plan) => PlannedMethod::line(plan),)* }
            }

            /// What a reader of its results must be told.
            pub(crate) fn warnings(&self) -> Vec<String> {
                match self { $(Self::$method(plan) => PlannedMethod::warnings(plan),)* }
            }

            /// Trials at one point, and their time.
            pub(crate) fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
                match self { $(Self::$method(plan) => plan.estimate(assumed),)* }
            }

            /// The most time that it may take at a point, where the plan says so.
            pub(crate) fn budget(&self) -> Option<Nanos> {
                match self { $(Self::$method(plan) => plan.budget(),)* }
            }

            /// Whether a tester has to be at the wire.
            pub(crate) fn needs_tester(&self) -> bool {
                match self { $(Self::$method(plan) => plan.needs_tester(),)* }
            }

            /// Whether some packets have to carry stamps.
            pub(crate) fn needs_stamps(&self) -> bool {
                match self { $(Self::$method(plan) => plan.needs_stamps(),)* }
            }

            fn run(
                &self,
                at: &mut AtPoint<'_>,
                measurer: &mut impl Measurer<Error = CampaignError>,
                observer: &mut impl Observer,
            ) -> Result<(), CampaignError> {
                match self { $(Self::$method(plan) => PlannedMethod::run(plan, at, measurer, observer),)* }
            }
        }

        $(impl OfPlanned for $plan {
            fn of(planned: &Planned) -> Option<&Self> {
                match planned {
                    Planned::$method(plan) => Some(plan),
                    _ => None,
                }
            }
        })*

        /// A method's table, taken out of a plan file.
        fn table(method: Method, file: &mut PlanFile) -> Option<Asked> {
            match method {
                $(Method::$method => {
                    let table = file.$table.take()?;
                    Some(Box::new(move |checker| Planned::$method($plan::checked(checker, table))))
                })*
            }
        }

        /// A result that something limits.
        pub(crate) fn limited(result: &PointResult) -> &dyn Limited {
            match result { $(PointResult::$method(result) => result,)* }
        }

        /// The same, to say who does.
        pub(crate) fn limited_mut(result: &mut PointResult) -> &mut dyn Limited {
            match result { $(PointResult::$method(result) => result,)* }
        }
    };
}

methods! {
    Throughput: ThroughputPlan = throughput,
    Mrr: MrrPlan = mrr,
    Latency: LatencyAt = latency,
    LatencyCurve: CurvePlan = latency_curve,
    FrameLoss: FrameLoss = frame_loss,
    BackToBack: BackToBack = back_to_back,
    FlowMods: FlowMods = flow_mods,
    Connections: Connections = connections,
    Soak: Soak = soak,
}

/// The methods that a plan file asks for, in the order in which a point is measured.
pub(crate) fn asked(file: &mut PlanFile) -> Vec<Asked> {
    Method::ALL.into_iter().filter_map(|method| table(method, file)).collect()
}

/// What a plan's estimate assumes.
pub(crate) struct Assumed {
    /// What the line carries of the smallest frames.
    pub(crate) line: Pps,
    /// The greatest load of the search, or of the line.
    pub(crate) max_load: Pps,
    /// Whether a search finds where the device saturates.
    pub(crate) searched: bool,
    /// Share of the packets that are stamped.
    pub(crate) stamped: Ratio,
    /// Set-up and drain time of a trial.
    pub(crate) overhead: Nanos,
}

impl Assumed {
    /// So many trials of a length.
    pub(crate) fn trials(&self, trials: u32, duration: Nanos) -> Remaining {
        let each = duration.0.saturating_add(self.overhead.0);
        Remaining { trials, time: Nanos(each.saturating_mul(u64::from(trials))) }
    }

    /// Trials whose time is only that under load.
    pub(crate) fn with_overhead(&self, part: Remaining) -> Remaining {
        let spent = self.overhead.0.saturating_mul(u64::from(part.trials));
        Remaining { time: Nanos(part.time.0.saturating_add(spent)), ..part }
    }
}

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

/// A point being measured: what is there, and what the searches found, for loads that are shares of it.
pub(crate) struct AtPoint<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) spec: &'a PointSpec,
    pub(crate) purse: Option<&'a mut Purse>,
    pub(crate) ceiling: Option<Pps>,
    pub(crate) results: &'a mut Vec<PointResult>,
    pub(crate) remarks: &'a mut Vec<String>,
    pub(crate) goals: Vec<GoalOutcome>,
    pub(crate) line: Pps,
    pub(crate) max_load: Pps,
    wire_bits: f64,
}

impl AtPoint<'_> {
    /// What loads may be shares of.
    pub(crate) fn loads(&self) -> LoadBasis<'_> {
        let mrr = self.results.iter().rev().find_map(|result| match result {
            PointResult::Mrr(result) => Some(result.mean),
            _ => None,
        });
        let Self { line, max_load, wire_bits, .. } = *self;
        LoadBasis { goals: &self.goals, mrr, line, max_load, wire_bits }
    }
}

/// Whether a trial's packets can come through by both directions: answers to translated packets are not known before.
fn answered(spec: &PointSpec, method: Method) -> Result<(), String> {
    if spec.nf.translates().is_none() || spec.directions == 1 || method == Method::Connections {
        return Ok(());
    }
    let (nf, method) = (spec.nf, method.table());
    Err(format!(
        "{method}: {nf} drops what strangers send into port 1; write `directions = 1`, or measure [connections]"
    ))
}

impl Methods<'_> {
    pub(crate) fn run(
        &mut self,
        measurer: &mut impl Measurer<Error = CampaignError>,
        observer: &mut impl Observer,
    ) -> Result<(), CampaignError> {
        let line = self.key.theoretical();
        let mut at = AtPoint {
            plan: self.plan,
            spec: self.spec,
            purse: self.purse.as_deref_mut(),
            ceiling: self.ceiling,
            results: self.results,
            remarks: self.remarks,
            goals: Vec::new(),
            line,
            max_load: line,
            wire_bits: 8.0 * (self.key.mean_frame_bytes + f64::from(WIRE_OVERHEAD_BYTES)),
        };
        for planned in self.plan.measured_at(self.spec) {
            if let Err(why) = answered(self.spec, planned.method()) {
                at.remarks.push(why);
                continue;
            }
            planned.run(&mut at, measurer, observer)?;
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

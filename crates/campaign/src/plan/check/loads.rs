//! The methods that offer many loads, or one for long: curve, frame loss, bursts, soak.

use super::{Checker, Span, unit};
use crate::plan::file::{BackToBackTable, FrameLossTable, LatencyCurveTable, SoakTable};
use crate::plan::text::Text;
use crate::plan::{CurvePlan, ThroughputPlan};
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_methods::back_to_back::BackToBack;
use weir_methods::frame_loss::FrameLoss;
use weir_methods::latency::LoadSpec;
use weir_methods::soak::Soak;
use weir_traffic::Shape;
use weir_units::{Nanos, Pps, Ratio};

const SECOND: Nanos = Nanos(Nanos::PER_SECOND);
/// Most loads a decade, and most around saturation.
const MOST_LOADS: u32 = 100;
/// Most complete searches for a burst.
const MOST_SEARCHES: u32 = 1000;

impl Checker<'_> {
    /// Refuses a load that is a share of a goal nobody searches for.
    pub(super) fn known_goal(
        &mut self,
        key: &str,
        span: Span,
        load: &LoadSpec,
        throughput: Option<&ThroughputPlan>,
    ) {
        let goals = goal_names(throughput);
        let Some(goal) = load.goal().filter(|goal| self.whole && !goals.contains(goal)) else { return };
        let mut unknown = Diagnostic::unknown(span, "goal", goal, &goals);
        unknown.allowed.push(LoadSpec::LINE.to_owned());
        unknown.message =
            format!("`{key}`: {load} needs the goal `{goal}`, which [throughput] does not search for");
        self.found.push(unknown);
    }

    /// Refuses a table whose loads a capture's own rate would stand for.
    fn any_load(&mut self, name: &str, span: &Span, shape: Shape) {
        if shape == Shape::Recorded {
            let why = "shape `recorded` sends at the capture's own rate, whatever the load";
            self.refuse(span, format!("[{name}]: {why}; leave the table out, or choose another shape"));
        }
    }

    fn time(&mut self, key: &str, time: Option<Spanned<Text<Nanos>>>, default: Nanos) -> Nanos {
        let Some(time) = time else { return default };
        let length = unit(&time);
        if length.0 == 0 {
            self.refuse(&time.span(), format!("`{key}` is zero; write for example \"{default}\""));
        }
        length
    }

    fn count(&mut self, key: &str, number: Option<Spanned<u32>>, default: u32, range: (u32, u32)) -> u32 {
        match number {
            None => default,
            number => self.within(key, number, range.0, range.1),
        }
    }

    pub(super) fn latency_curve(&mut self, table: Spanned<LatencyCurveTable>, shape: Shape) -> CurvePlan {
        let whole = table.span();
        self.any_load("latency_curve", &whole, shape);
        let table = table.into_inner();
        let from = table.from.as_ref().map_or(Pps(100.0), unit);
        let to = table.to.as_ref().map(unit);
        if from.0 <= 0.0 {
            let span = table.from.as_ref().map_or(whole.clone(), Spanned::span);
            self.refuse(&span, "`from` is zero; write the least load, for example \"100pps\"");
        }
        if let Some(to) = table.to.as_ref().filter(|to| unit(to).0 <= from.0) {
            self.refuse(&to.span(), format!("`to` must be more than `from`, which is {from}"));
        }
        let loss_ratio = table.loss_ratio.as_ref().map_or(Ratio(0.001), unit);
        if let Some(ratio) = table.loss_ratio.as_ref().filter(|ratio| !(0.0..1.0).contains(&unit(ratio).0)) {
            self.refuse(&ratio.span(), "`loss_ratio` must be less than 100%");
        }
        let duration = self.duration(table.duration, SECOND);
        let place = table.longest.as_ref().map_or(whole, Spanned::span);
        let longest = self.time("longest", table.longest, Nanos(10 * SECOND.0).max(duration));
        if longest < duration {
            self.refuse(&place, format!("`longest` is shorter than `duration`, which is {duration}"));
        }
        CurvePlan {
            from,
            to,
            per_decade: self.count("per_decade", table.per_decade, 3, (1, MOST_LOADS)),
            dense: self.count("dense", table.dense, 12, (2, MOST_LOADS)),
            duration,
            samples: u64::from(self.count("samples", table.samples, 1000, (1, u32::MAX))),
            longest,
            loss_ratio,
        }
    }

    pub(super) fn frame_loss(&mut self, table: Spanned<FrameLossTable>, shape: Shape) -> FrameLoss {
        self.any_load("frame_loss", &table.span(), shape);
        let table = table.into_inner();
        let step = table.step.as_ref().map_or(FrameLoss::WIDEST_STEP, unit);
        let (least, most) = (FrameLoss::NARROWEST_STEP, FrameLoss::WIDEST_STEP);
        if let Some(text) = table.step.as_ref().filter(|_| !(least.0..=most.0).contains(&step.0)) {
            let rule = "RFC 2544, section 26.3, allows 10 % at most";
            self.refuse(&text.span(), format!("`step`: {step} is outside 1 % to 10 %; {rule}"));
        }
        FrameLoss { step, duration: self.duration(table.duration, Nanos(10 * SECOND.0)) }
    }

    pub(super) fn back_to_back(
        &mut self,
        table: Spanned<BackToBackTable>,
        throughput: Option<&ThroughputPlan>,
        shape: Shape,
    ) -> BackToBack {
        let whole = table.span();
        if shape != Shape::Constant {
            let cure = "leave `shape` out, or [back_to_back]";
            self.refuse(&whole, format!("[back_to_back]: a burst has the least gap between frames; {cure}"));
        }
        let table = table.into_inner();
        let goals = goal_names(throughput);
        let span = table.goal.as_ref().map_or(whole, Spanned::span);
        let goal = table.goal.map_or_else(|| "ndr".to_owned(), Spanned::into_inner);
        if self.whole && !goals.contains(&goal.as_str()) {
            let cure = "add it to `goals` of [throughput]";
            let mut unknown = Diagnostic::unknown(span, "goal", &goal, &goals);
            unknown.message = format!(
                "[back_to_back] corrects the burst by the throughput of the goal `{goal}` (RFC 9004): {cure}"
            );
            self.found.push(unknown);
        }
        BackToBack {
            goal,
            searches: self.count("searches", table.searches, 5, (1, MOST_SEARCHES)),
            step: u64::from(self.count("step", table.step, 10, (1, u32::MAX))),
            ceiling: self.time("ceiling", table.ceiling, BackToBack::RFC9004_CEILING),
            rest: table.rest.map_or(BackToBack::RFC9004_REST, |text| text.0),
        }
    }

    pub(super) fn soak(
        &mut self,
        table: Spanned<SoakTable>,
        throughput: Option<&ThroughputPlan>,
        shape: Shape,
    ) -> Soak {
        self.any_load("soak", &table.span(), shape);
        let table = table.into_inner();
        let span = table.load.span();
        let Text(load) = table.load.into_inner();
        self.known_goal("load", span, &load, throughput);
        let place = table.slice.as_ref().map(Spanned::span);
        let time = self.time("time", table.time, Nanos(600 * SECOND.0));
        let slice = self.time("slice", table.slice, Nanos(10 * SECOND.0).min(time));
        if let Some(place) = place.filter(|_| slice > time) {
            self.refuse(&place, format!("`slice` is longer than `time`, which is {time}"));
        }
        Soak { load, time, slice }
    }
}

fn goal_names(throughput: Option<&ThroughputPlan>) -> Vec<&str> {
    throughput.iter().flat_map(|plan| &plan.goals).map(|goal| goal.name.as_str()).collect()
}

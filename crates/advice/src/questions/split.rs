//! From which load on a device's traffic is to be split, before the knee of its delay.

use super::model::{Context, about, curve, rounded};
use super::unanswered;
use crate::answer::{Advice, Answer, Needed, Says};
use crate::delay::Curve;
use crate::evidence::Evidence;
use weir_trial::run::advice::{Prediction, Quantity, Question, Statistic};
use weir_units::{Interval, Nanos, Pps};

/// What is measured to know: a curve, and the capacity that it is held against.
const METHODS: &str = "[mrr]\ntrials = 5\n\n[latency_curve]\nfrom = \"10kpps\"\n";

pub(super) fn answers(context: &Context<'_, '_>) -> Vec<Answer> {
    let groups = context.groups(|_| {});
    let points = groups.iter().flat_map(|(_, group)| group.iter().copied());
    points.map(|evidence| of_point(context, evidence)).collect()
}

fn of_point(context: &Context<'_, '_>, evidence: &Evidence<'_>) -> Answer {
    let key = &evidence.point.key;
    let asked = &context.wanted.asked;
    let statistic = asked.delay.map_or(Statistic::P50, |goal| goal.statistic);
    let curve = match curve(evidence, statistic) {
        Ok(curve) => curve,
        Err(why) => {
            let mut axes = Vec::new();
            if key.wiring == "fed" {
                axes.push(super::axis("wiring", "\"vhost\""));
            }
            let needed = Needed { point: evidence.point.index, axes, methods: Some(METHODS.to_owned()) };
            return unanswered(Question::Split, key, why, Some(needed));
        }
    };
    let knee = curve.knee();
    let (most, why) = match asked.delay {
        None => (Some(knee), "the knee".to_owned()),
        Some(goal) => {
            let (expected, safe) = curve.below(goal.below.0 as f64);
            let expected =
                expected.map_or_else(|| "at no load".to_owned(), |load| format!("up to {}", Pps(load)));
            (
                safe,
                format!(
                    "{goal}, by the unfavourable end of the interval; the curve itself keeps it {expected}"
                ),
            )
        }
    };
    let Some(most) = most.map(rounded) else {
        let goal = asked.delay.map_or_else(String::new, |goal| goal.to_string());
        let least = curve.delay(curve.range.0).unwrap_or(0.0);
        let why = format!("{goal} is not sure at any load: {} is expected at the least", Nanos(least as u64));
        return unanswered(Question::Split, key, why, None);
    };
    let advice = advice(context, evidence, (&curve, most, knee, &why));
    Answer { question: Question::Split, about: about(key), says: Says::Advice(Box::new(advice)) }
}

fn advice(
    context: &Context<'_, '_>,
    evidence: &Evidence<'_>,
    (curve, most, knee, why): (&Curve, f64, f64, &str),
) -> Advice {
    let asked = &context.wanted.asked;
    let load = Pps(most);
    let copies = asked.load.map(|asked| (asked.0 / most).ceil().max(1.0));
    let of_load = match (asked.load, copies) {
        (Some(asked), Some(copies)) if copies > 1.0 => format!(": {asked} takes {copies} of them"),
        (Some(asked), _) => format!(": {asked} need not be"),
        (None, _) => String::new(),
    };
    let mut notes = vec![format!("up to there: {why}")];
    let spread = curve.known.scatter;
    notes.push(format!(
        "the knee of {} (greatest rate over delay) is at {}, {:.0} % of the capacity; the capacity scatters by {:.1} %",
        curve.statistic,
        Pps(knee),
        100.0 * knee / curve.known.capacity,
        100.0 * spread
    ));
    if curve.misses() {
        notes.push(
            "the delays lie farther from the curve than they scatter: the interval is as wide as they do"
                .to_owned(),
        );
    }
    let mut extrapolated = Vec::new();
    if most > curve.range.1 * 1.001 || most < curve.range.0 * 0.999 {
        let (least, greatest) = curve.range;
        extrapolated.push(format!(
            "{load} is outside of the loads measured ({} to {})",
            Pps(least),
            Pps(greatest)
        ));
    }
    let mut predictions = Vec::new();
    if let Some(value) = curve.delay(most) {
        let quantity = Quantity::Delay { load, statistic: curve.statistic };
        predictions.push(Prediction { quantity, value, interval: curve.interval(most) });
    }
    let most_lost = asked.loss.0;
    let interval = Some(Interval { low: 0.0, high: most_lost });
    predictions.push(Prediction { quantity: Quantity::Loss { load }, value: most_lost, interval });
    Advice {
        says: format!("split its traffic above {load}{of_load}"),
        meets: copies.map(|copies| copies <= 1.0),
        point: evidence.point.index,
        key: evidence.point.key.clone(),
        predictions,
        model: curve.says(),
        derived_from: vec![evidence.point.index],
        extrapolated,
        notes,
    }
}

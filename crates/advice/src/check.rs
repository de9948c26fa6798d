//! A prediction beside what was measured.

use crate::answer::Advice;
use crate::evidence::{Evidence, Kind, View};
use weir_trial::run::Run;
use weir_trial::run::advice::{Asked, CheckVerdict, Compared, Quantity};
use weir_units::Interval;

/// What a check came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Predictions and measurements.
    pub compared: Vec<Compared>,
    /// What it came to.
    pub verdict: CheckVerdict,
    /// Why.
    pub why: String,
}

/// Holds predictions against the run of one point that was made to check them.
pub fn hold(advice: &Advice, asked: &Asked, run: &Run) -> Checked {
    let view = View::of(run, asked.loss);
    let left_out = |quantity: &Quantity| {
        let reasons: Vec<&str> = view.left_out.iter().map(|(_, why)| why.as_str()).collect();
        let why = if reasons.is_empty() { "the check measured none".to_owned() } else { reasons.join("; ") };
        format!("{quantity}: {why}")
    };
    let Some(evidence) = view.evidence.first() else {
        let why = view.left_out.first().map_or("the check has no point", |(_, why)| why.as_str()).to_owned();
        return Checked { compared: Vec::new(), verdict: CheckVerdict::Undecided, why };
    };
    let mut compared = Vec::new();
    let (mut wrong, mut missing) = (Vec::new(), Vec::new());
    for prediction in &advice.predictions {
        match measured(&prediction.quantity, evidence) {
            None => missing.push(left_out(&prediction.quantity)),
            Some((measured, count)) => {
                let inside =
                    prediction.interval.map(|Interval { low, high }| (low..=high).contains(&measured));
                let row = Compared { predicted: prediction.clone(), measured, count, inside };
                match inside {
                    Some(false) => wrong.push(outside(&row)),
                    None => missing.push(format!("{}: no interval was told", prediction.quantity)),
                    Some(true) => {}
                }
                // What the model expects not to be met is no mistake of it.
                wrong.extend(unmet(&row, asked).filter(|_| advice.meets == Some(true)));
                compared.push(row);
            }
        }
    }
    let (verdict, why) = match (wrong.is_empty(), missing.is_empty()) {
        (false, _) => (CheckVerdict::Refuted, wrong.join("; ")),
        (true, false) => (CheckVerdict::Undecided, missing.join("; ")),
        (true, true) => (CheckVerdict::Confirmed, "all that was measured lies in its interval".to_owned()),
    };
    Checked { compared, verdict, why }
}

/// The mean of what was measured, and of how many.
fn measured(quantity: &Quantity, evidence: &Evidence<'_>) -> Option<(f64, u32)> {
    let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len() as f64, values.len() as u32);
    let at = |load: f64| evidence.delays.iter().filter(move |at| (at.load / load - 1.0).abs() < 1e-4);
    match quantity {
        Quantity::Forwarded => evidence.rates(&Kind::Forwarded).map(|rates| mean(&rates.values)),
        Quantity::Throughput { goal } => {
            evidence.rates(&Kind::Throughput(goal.clone())).map(|rates| mean(&rates.values))
        }
        Quantity::Delay { load, statistic } => {
            let delays: Vec<f64> = at(load.0).filter_map(|at| at.delay(*statistic)).collect();
            (!delays.is_empty()).then(|| mean(&delays))
        }
        Quantity::Loss { load } => {
            let losses: Vec<f64> = at(load.0).map(|at| at.loss).collect();
            (!losses.is_empty()).then(|| mean(&losses))
        }
    }
}

fn outside(row: &Compared) -> String {
    let (quantity, show) = (&row.predicted.quantity, |value| row.predicted.quantity.show(value));
    let Some(Interval { low, high }) = row.predicted.interval else { return String::new() };
    format!("{quantity}: {} is not within {} to {}", show(row.measured), show(low), show(high))
}

/// What was asked for and is not met by what was measured.
fn unmet(row: &Compared, asked: &Asked) -> Option<String> {
    let show = |value| row.predicted.quantity.show(value);
    match &row.predicted.quantity {
        Quantity::Delay { load, statistic } => {
            let goal =
                asked.delay.filter(|goal| goal.statistic == *statistic && asked.load == Some(*load))?;
            (row.measured >= goal.below.0 as f64)
                .then(|| format!("{statistic} at {load} is {}, not below {}", show(row.measured), goal.below))
        }
        Quantity::Forwarded | Quantity::Throughput { .. } => {
            let needed = asked.needed()?;
            (row.measured < needed)
                .then(|| format!("{} is less than the {} asked for", show(row.measured), show(needed)))
        }
        // Its interval says it.
        Quantity::Loss { .. } => None,
    }
}

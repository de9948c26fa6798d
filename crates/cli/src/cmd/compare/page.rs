//! A comparison as a run's page shows it.

use crate::cmd::rescore::plan_of;
use weir_methods::compare::words::{notes, place, summary, verdict};
use weir_methods::compare::{Comparison, Head, Row, Side, Verdict, compare};
use weir_report::{Ratio, Ratios};
use weir_trial::run::Run;

/// The comparisons of a page: of each run that was measured against a second device these two, and of several runs each
/// with the first.
pub(in crate::cmd) fn ratios(runs: &[Run]) -> Vec<Ratios> {
    let whole = |run| Side { run, dut: None };
    let alone = runs.len() == 1;
    let mut all: Vec<Ratios> = runs.iter().filter_map(|run| against(run, alone)).collect();
    if let [first, others @ ..] = runs {
        all.extend(others.iter().map(|other| drawn(&compare(whole(first), whole(other), None), alone)));
    }
    all
}

/// A run's two devices compared, where its plan names a second one.
fn against(run: &Run, alone: bool) -> Option<Ratios> {
    let plan = plan_of(run).ok()?;
    let ([dut], Some(other)) = (plan.duts.as_slice(), &plan.against) else { return None };
    let side = |dut| Side { run, dut: Some(dut) };
    Some(drawn(&compare(side(dut), side(other), None), alone))
}

/// A comparison; the page of one run `alone` need not say again which.
fn drawn(comparison: &Comparison, alone: bool) -> Ratios {
    let side = |head: &Head, other: &Head| match &head.dut {
        Some(dut) if alone => dut.clone(),
        Some(dut) if head.run == other.run => format!("{dut} in {}", head.run),
        Some(dut) => format!("{}/{dut}", head.run),
        None => head.run.clone(),
    };
    let (a, b) = (&comparison.a, &comparison.b);
    // Without rows the page says that nothing was compared.
    let came_to = if comparison.rows.is_empty() { Vec::new() } else { summary(comparison) };
    let notes = notes(comparison).into_iter().map(|note| note.trim_start_matches("note: ").to_owned());
    Ratios {
        a: side(a, b),
        b: side(b, a),
        rows: comparison.rows.iter().map(row).collect(),
        notes: came_to.into_iter().chain(notes).collect(),
    }
}

fn row(row: &Row) -> Ratio {
    Ratio {
        point: place(&row.key, row.other_dut.as_deref()).join(" · "),
        quantity: row.quantity.clone(),
        ratio: row.ratio,
        interval: row.interval.map(|interval| (interval.low, interval.high)),
        verdict: verdict(row),
        better: match row.verdict {
            Verdict::B => Some(true),
            Verdict::A => Some(false),
            _ => None,
        },
    }
}

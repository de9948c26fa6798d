//! Bundles beside one another: the rate of each, their sum, and how fairly they share.

use crate::cmd::layout::table;
use weir_trial::BundleRates;
use weir_trial::run::Point;
use weir_units::{Nanos, Pps, Spread};

/// The tables of a point; empty where it has one bundle.
pub(super) fn text(point: &Point, heading: &str) -> String {
    BundleRates::of(point).iter().map(|rates| one(rates, heading)).collect()
}

fn one(rates: &BundleRates, heading: &str) -> String {
    let row = |(number, bundle): (usize, &weir_trial::BundleRate)| {
        vec![
            number.to_string(),
            rate(&bundle.rate),
            format!("{:.1} %", 100.0 * bundle.share),
            format!("{:.3} %", 100.0 * bundle.loss),
            bundle.delay.map_or("–".to_owned(), |delay| Nanos(delay.max(0.0) as u64).to_string()),
        ]
    };
    let mut rows: Vec<Vec<String>> = (1..).zip(&rates.each).map(row).collect();
    rows.push(vec!["all".to_owned(), rate(&rates.sum), String::new(), String::new(), String::new()]);
    let columns = ["bundle", "forwarded", "its share", "lost", "mean delay"];
    let fairness = rates.fairness.as_ref().map_or(String::new(), |index| {
        let least = if rates.trials > 1 { format!(", least {:.4}", index.min) } else { String::new() };
        format!("fairness (Jain): {:.4}{least}; ", index.mean)
    });
    let trials = if rates.trials == 1 { "one trial".to_owned() } else { format!("{} trials", rates.trials) };
    let invalid = if rates.invalid { ", none of them valid: not to be ranked" } else { "" };
    let load = rates.load;
    format!(
        "{heading} · bundles, at {load} over all of them\n{}{fairness}over {trials}{invalid}\n\n",
        table(&columns, &[0, 1, 2, 3, 4], &rows)
    )
}

/// A mean, and the standard deviation where there is one.
fn rate(spread: &Spread) -> String {
    let deviation = spread.deviation.map_or(String::new(), |deviation| format!(" ± {}", Pps(deviation)));
    format!("{}{deviation}", Pps(spread.mean))
}

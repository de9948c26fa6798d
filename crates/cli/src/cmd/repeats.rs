//! Measurements repeated at a point, summed up in a line each.

use weir_trial::run::{PointResult, repeats};

/// A line for each number that was measured repeatedly: its median, the 95 % interval of its mean, how many.
pub(crate) fn lines(results: &[PointResult]) -> Vec<String> {
    let line = |summary: weir_trial::run::Repeats| {
        let spread = summary.spread;
        let interval = spread.interval?;
        Some(format!(
            "{:<8} {:>11} median of {} repeats · mean in [{}, {}] (95 %)",
            summary.name,
            summary.show(spread.median),
            spread.count,
            summary.show(interval.low),
            summary.show(interval.high)
        ))
    };
    repeats(results).into_iter().filter_map(line).collect()
}

//! What devices take of their cores, by frame size.

use super::size;
use crate::cmd::layout::table;
use weir_trial::run::{CpuUse, Run};
use weir_units::Spread;

/// A table of all points that tell; empty where none does.
pub(super) fn text(run: &Run) -> String {
    let rows: Vec<Vec<String>> = run
        .points
        .iter()
        .filter_map(|point| {
            let cpu = CpuUse::of(point, &run.environment)?;
            let most = if cpu.waits { "at most " } else { "" };
            Some(vec![
                point.index.to_string(),
                point.key.nf.to_string(),
                point.key.device(),
                size(&point.key),
                cpu.load.map_or("its own".to_owned(), |load| load.to_string()),
                with_interval(&cpu.cores, 2),
                cpu.cycles.map_or("-".to_owned(), |cycles| format!("{most}{}", with_interval(&cycles, 0))),
                cpu.cores.count.to_string(),
                CpuUse::counted(point).to_owned(),
            ])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let headings = ["#", "NF", "DUT", "size", "at", "cores in use", "cycles a packet", "trials", "counted"];
    format!("CPU time at the greatest load of each point\n{}\n", table(&headings, &[0, 3, 4, 7], &rows))
}

/// `0.52 [0.50, 0.54]`.
fn with_interval(spread: &Spread, decimals: usize) -> String {
    let interval = spread.interval.map_or(String::new(), |interval| {
        format!(" [{:.decimals$}, {:.decimals$}]", interval.low, interval.high)
    });
    format!("{:.decimals$}{interval}", spread.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_stands_with_its_interval() {
        let spread = Spread::of(&[0.5, 0.52, 0.51]).unwrap();
        assert_eq!(with_interval(&spread, 2), "0.51 [0.49, 0.53]");
        assert_eq!(with_interval(&Spread::of(&[812.4]).unwrap(), 0), "812");
    }
}

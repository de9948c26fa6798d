//! A history as a plot: what the report draws, from what the methods found.

use crate::cmd::stored::when;
use weir_methods::compare::{Unit, words};
use weir_methods::history::{Change, Group, Series, Value};
use weir_report::figure::Quantity;
use weir_report::{Level, Trend, TrendValue};

/// Letters of a commit below the axis.
const COMMIT: usize = 7;

/// The series as it is drawn: below the axis stands each commit where it first measured.
pub(in crate::cmd) fn trend(series: &Series) -> Trend {
    let greatest = series.values.iter().map(|value| value.greatest).fold(0.0, f64::max);
    let (quantity, (scale, unit)) = match series.unit {
        Unit::Pps if greatest >= 1e6 => (Quantity::Plain, (1e6, ", Mpps")),
        Unit::Pps if greatest >= 1e3 => (Quantity::Plain, (1e3, ", kpps")),
        Unit::Pps => (Quantity::Plain, (1.0, ", pps")),
        // Its ticks have units.
        Unit::Nanoseconds => (Quantity::Time, (1.0, "")),
        Unit::ChangesPerSecond | Unit::ConnectionsPerSecond => (Quantity::Plain, (1.0, " a second")),
    };
    let mut before = None;
    let value = |value: &Value| {
        let version = version(&value.weir);
        let name = (before.as_ref() != Some(&version)).then(|| version.clone());
        before = Some(version);
        TrendValue {
            name,
            value: value.value / scale,
            interval: (value.least / scale, value.greatest / scale),
            detail: detail(series, value),
        }
    };
    let values = series.values.iter().map(value).collect();
    let level = |group: &Group| Level {
        first: group.first,
        count: group.count,
        mean: group.mean / scale,
        change: series.change(group.first).map(Change::step),
    };
    Trend {
        title: format!("{}: {}", series.title(), series.quantity),
        label: format!("{}{unit}", series.quantity),
        quantity,
        provenance: provenance(series),
        values,
        levels: series.groups.iter().map(level).collect(),
    }
}

/// The commit in `weir 0.1.0 (212c42382ab2)`, shortened; the whole where it has none.
fn version(weir: &str) -> String {
    let commit = weir.rsplit_once('(').map(|(_, commit)| commit.trim_end_matches(')'));
    commit.unwrap_or(weir).chars().take(COMMIT).collect()
}

fn detail(series: &Series, value: &Value) -> String {
    let device = value.dut_version.as_deref().map_or_else(String::new, |version| format!("\n{version}"));
    format!(
        "{}: {}\n{} of {}, {} to {}\nmeasured by {}{device}",
        value.run,
        when(value.started_ms),
        words::value(series.unit, value.value),
        value.count,
        words::value(series.unit, value.least),
        words::value(series.unit, value.greatest),
        value.weir
    )
}

/// The first and the last run, and how many there are: all by name would be a page.
fn provenance(series: &Series) -> String {
    let machine = series.machine.as_deref().unwrap_or("a machine that is not told");
    let named = |value: &Value| format!("{} ({})", value.run, value.uuid);
    match series.values.as_slice() {
        [] => "no run".to_owned(),
        [one] => format!("run {} on {machine}", named(one)),
        [first, .., last] => {
            format!("{} runs from {} to {} on {machine}", series.values.len(), named(first), named(last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_by_their_commit_where_they_have_one() {
        assert_eq!(version("weir 0.1.0 (212c42382ab2)"), "212c423");
        assert_eq!(version("weir 0"), "weir 0");
    }
}

//! A comparison in words: what a cell of its table says, and the sentences below it. The terminal, Markdown and the web
//! page say the same.

use super::{Better, BoundVerdict, Comparison, MISS, Method, Of, Part, Row, TRIM, Unit, Verdict};
use crate::repeat::Interval;
use std::fmt::Write as _;
use weir_trial::run::{PointKey, changes};
use weir_units::{Nanos, Pps, Ratio};

/// How many facts differ, and how many of them can explain a gap.
pub fn environment(comparison: &Comparison) -> String {
    let differences = &comparison.environment;
    if differences.is_empty() {
        let same = comparison.a.run == comparison.b.run;
        return if same { "one run, so the same" } else { "nothing differs" }.to_owned();
    }
    let explains = differences.iter().filter(|difference| difference.explains).count();
    let (count, s) = (differences.len(), if differences.len() == 1 { "" } else { "s" });
    match explains {
        0 => format!("{count} difference{s}, none of which can explain a gap"),
        _ => format!("{count} difference{s}, {explains} of which can explain a gap"),
    }
}

/// The ratio B/A; `-` where there is none.
pub fn ratio(row: &Row) -> String {
    row.ratio.map_or_else(|| "-".to_owned(), times)
}

/// A ratio to three decimals, and one below a hundredth to two digits: 0.00027 is no 0.000.
fn times(ratio: f64) -> String {
    let decimals = if ratio > 0.0 && ratio < 0.01 { 1 - ratio.log10().floor() as i32 } else { 3 };
    format!("{ratio:.0$}", decimals.clamp(3, 12) as usize)
}

/// The interval of the ratio; `-` where there is none.
pub fn interval(row: &Row) -> String {
    row.interval
        .map_or_else(|| "-".to_owned(), |Interval { low, high }| format!("[{}, {}]", times(low), times(high)))
}

/// `10`, or `8 of 10` where two were spoilt.
pub fn count(part: Part) -> String {
    match part {
        Part { count, left_out: 0, .. } => count.to_string(),
        Part { count, left_out, .. } => format!("{count} of {}", count + left_out),
    }
}

/// Where it was measured: network function, device, wiring, trace and size. `other` is the device of the other side.
pub fn place(key: &PointKey, other: Option<&str>) -> [String; 5] {
    let dut = other.map_or_else(|| key.device(), |other| format!("{} → {other}", key.device()));
    let trace = key.trace.rsplit('/').next().unwrap_or_default().to_owned();
    let mut wiring = key.wiring.clone();
    if key.directions == 1 {
        wiring.push_str(", one way");
    }
    [key.nf.to_string(), dut, wiring, trace, key.frame()]
}

/// The centre of one side, with its unit; `-` where there is none.
pub fn number(unit: Unit, part: Part) -> String {
    part.centre.map_or_else(|| "-".to_owned(), |centre| value(unit, centre))
}

/// A number with its unit.
pub fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Pps => Pps(value).to_string(),
        Unit::Nanoseconds => Nanos(value.round().max(0.0) as u64).to_string(),
        Unit::ChangesPerSecond | Unit::ConnectionsPerSecond => changes(value),
    }
}

/// Who won, by how much; or why nobody did.
pub fn verdict(row: &Row) -> String {
    let won = |word: &str| {
        let Some(Interval { low, high }) = row.interval else { return format!("B {word}") };
        let (least, most) = (low.min(high) - 1.0, low.max(high) - 1.0);
        let (near, far) = if least.abs() < most.abs() { (least, most) } else { (most, least) };
        format!("B {word}, by {:.1} to {:.1} %", 100.0 * near.abs(), 100.0 * far.abs())
    };
    let delay = row.better == Better::Lower;
    match &row.verdict {
        Verdict::B => won(if delay { "sooner" } else { "faster" }),
        Verdict::A => won(if delay { "later" } else { "slower" }),
        Verdict::Equal => "no winner".to_owned(),
        Verdict::Chance => "no winner: of so many intervals one misses by chance".to_owned(),
        Verdict::Unknown(why) => format!("no winner: {why}, scatter unknown"),
        Verdict::NotRanked(why) => format!("not ranked: {why}"),
    }
}

/// What became of the bound.
pub fn judged(bound: BoundVerdict) -> String {
    match bound {
        BoundVerdict::Kept => "kept".to_owned(),
        BoundVerdict::Undecided => "undecided".to_owned(),
        BoundVerdict::Broken(sure) => format!("BROKEN, {} sure", sureness(sure)),
    }
}

/// What it came to, in sentences.
pub fn summary(comparison: &Comparison) -> Vec<String> {
    let rows = &comparison.rows;
    if rows.is_empty() {
        let cure = if comparison.a.dut.is_none() {
            "; to compare devices, write RUN/DEVICE on both sides"
        } else {
            ""
        };
        return vec![format!("Nothing was compared{cure}.")];
    }
    let count = |test: fn(&Verdict) -> bool| rows.iter().filter(|row| test(&row.verdict)).count();
    let better = count(|verdict| *verdict == Verdict::B);
    let worse = count(|verdict| *verdict == Verdict::A);
    let unranked = count(|verdict| matches!(verdict, Verdict::NotRanked(_)));
    let open = rows.len() - better - worse - unranked;
    let mut sentence = format!("B is better in {better}, worse in {worse} of {} rows", rows.len());
    if open > 0 {
        let _ = write!(sentence, "; no winner in {open}");
    }
    if unranked > 0 {
        let _ = write!(sentence, "; not ranked: {unranked}");
    }
    let mut lines = vec![format!("{sentence}.")];
    lines.extend(comparison.bound.map(|bound| of_bound(comparison, bound)));
    lines
}

/// How it was come by, and what it does not cover.
pub fn notes(comparison: &Comparison) -> Vec<String> {
    let rows = &comparison.rows;
    let has = |method: Method| rows.iter().any(|row| row.method == method);
    let mut lines = Vec::new();
    let mut methods = Vec::new();
    if has(Method::Yuen) {
        methods.push(format!("Yuen's t, {} cut at each end", percent(TRIM)));
    }
    if has(Method::Welch) {
        methods.push("Welch's t where a side has fewer than five numbers".to_owned());
    }
    if has(Method::Paired) {
        methods.push("Student's t on pairs of numbers taken in turns".to_owned());
    }
    if !methods.is_empty() {
        let miss = percent(MISS);
        lines.push(format!(
            "note: ratios of geometric means; intervals on logarithms by {}; winners by Holm's procedure at {miss}",
            methods.join("; ")
        ));
    }
    let won = |row: &&Row| matches!(row.verdict, Verdict::A | Verdict::B);
    if !comparison.alternated && rows.iter().filter(won).any(|row| row.of == Of::Trial) {
        lines.push(
            "note: trials of one start of each device do not show what differs from start to start; \
             --repeats 3 does, and `weir bench --against` measures two devices in turns"
                .to_owned(),
        );
    }
    if rows.iter().any(|row| row.a.left_out + row.b.left_out > 0) {
        lines.push("note: trials that the machine or the tester spoilt are left out (`8 of 10`)".to_owned());
    }
    if rows.iter().any(|row| row.method == Method::Bounds) {
        lines.push(
            "note: one search on a side gives bounds (the interval shown) but no scatter; measure with --repeats 3 or more"
                .to_owned(),
        );
    }
    lines
}

/// A share as a person writes it: `3 %`, `2.5 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent.fract().abs() < 1e-9 { 0 } else { 1 };
    format!("{percent:.decimals$} %")
}

/// `98.2 %`, and `more than 99.9 %` rather than a hundred.
fn sureness(sure: f64) -> String {
    if sure > 0.999 { "more than 99.9 %".to_owned() } else { format!("{:.1} %", 100.0 * sure) }
}

fn of_bound(comparison: &Comparison, bound: Ratio) -> String {
    let bound = percent(bound.0);
    let count = |test: fn(&BoundVerdict) -> bool| {
        comparison.rows.iter().filter(|row| row.bound.as_ref().is_some_and(test)).count()
    };
    let broken = count(|bound| matches!(bound, BoundVerdict::Broken(_)));
    let undecided = count(|bound| *bound == BoundVerdict::Undecided);
    let failed = comparison.only_a.iter().filter(|alone| alone.failed_in_b).count();
    let mut parts = Vec::new();
    if broken > 0 {
        parts.push(format!("BROKEN in {broken} of {} rows", comparison.rows.len()));
    }
    if failed > 0 {
        let points = if failed == 1 { "point" } else { "points" };
        parts.push(format!("BROKEN at {failed} {points} where B failed and A was measured"));
    }
    if parts.is_empty() {
        let kept = comparison.is_decided();
        parts.push(if kept { "not broken".to_owned() } else { "nothing could be judged".to_owned() });
    }
    if undecided > 0 {
        parts.push(format!("undecided in {undecided}"));
    }
    format!("Bound of {bound}: {}.", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ratios_keep_two_digits() {
        let shown = [1.0, 0.054, 0.01, 0.0099, 0.00027, 0.0, 1e-30, f64::INFINITY].map(times);
        assert_eq!(shown, ["1.000", "0.054", "0.010", "0.0099", "0.00027", "0.000", "0.000000000000", "inf"]);
    }
}

//! A comparison as a person reads it: on the terminal, or as GitHub's Markdown.

use crate::cmd::cells::size;
use crate::cmd::layout::table;
use crate::cmd::stored::when;
use std::fmt::Write as _;
use weir_methods::compare::{
    Alone, Better, BoundVerdict, Comparison, Head, MISS, Method, Of, Part, Row, TRIM, Unit, Verdict,
};
use weir_methods::repeat::Interval;
use weir_trial::run::changes;
use weir_units::{Nanos, Pps, Ratio};

/// Longest value of an environment's fact on the terminal, in letters.
const LONGEST: usize = 44;

/// Where the text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Aligned columns.
    Terminal,
    /// GitHub's tables.
    Markdown,
}

/// The whole comparison.
pub(super) fn text(comparison: &Comparison, form: Form) -> String {
    let mut text = match form {
        Form::Terminal => String::new(),
        Form::Markdown => "## Comparison\n\n".to_owned(),
    };
    let item = if form == Form::Markdown { "- " } else { "" };
    let _ = writeln!(text, "{item}A  {}", head(&comparison.a));
    let _ = writeln!(text, "{item}B  {}\n", head(&comparison.b));
    text.push_str(&environment(comparison, form));
    text.push_str(&rows(comparison, form));
    text.push_str(&alone("A", &comparison.only_a, form));
    text.push_str(&alone("B", &comparison.only_b, form));
    for line in summary(comparison).into_iter().chain(notes(comparison)) {
        let _ = writeln!(text, "{item}{line}");
    }
    text
}

fn head(head: &Head) -> String {
    let dut = head.dut.as_ref().map_or_else(String::new, |dut| format!("/{dut}"));
    let state = match head.state {
        weir_trial::run::RunState::Finished => "",
        _ => " · not finished",
    };
    format!("{}{dut} · {}{state}", head.run, when(head.started_ms))
}

fn environment(comparison: &Comparison, form: Form) -> String {
    let differences = &comparison.environment;
    if differences.is_empty() {
        let same = if comparison.a.run == comparison.b.run { "one run" } else { "nothing differs" };
        return format!("Environment: {same}{}.\n\n", if same == "one run" { ", so the same" } else { "" });
    }
    let explains = differences.iter().filter(|difference| difference.explains).count();
    let (count, s) = (differences.len(), if differences.len() == 1 { "" } else { "s" });
    let can = match explains {
        0 => "none of which can explain a gap".to_owned(),
        _ => format!("{explains} of which can explain a gap"),
    };
    let value = |value: &Option<String>| {
        let text = value.as_deref().unwrap_or("-");
        if form == Form::Terminal { shortened(text) } else { text.to_owned() }
    };
    let rows: Vec<Vec<String>> = differences
        .iter()
        .map(|difference| {
            let explains = if difference.explains { "yes" } else { "no" };
            let facts = [difference.fact.clone(), value(&difference.a), value(&difference.b)];
            facts.into_iter().chain([explains.to_owned(), difference.affects.clone()]).collect()
        })
        .collect();
    let headings = ["fact", "A", "B", "explains", "affects"];
    format!("Environment: {count} difference{s}, {can}.\n\n{}\n", drawn(&headings, &[], &rows, form))
}

/// The beginning and the end of a long value.
fn shortened(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= LONGEST {
        return text.to_owned();
    }
    let half = (LONGEST - 1) / 2;
    let part = |letters: &[char]| letters.iter().collect::<String>();
    format!("{}…{}", part(&letters[..half]), part(&letters[letters.len() - half..]))
}

fn drawn(headings: &[&str], right: &[usize], rows: &[Vec<String>], form: Form) -> String {
    if form == Form::Terminal {
        return table(headings, right, rows);
    }
    let line = |cells: Vec<String>| {
        let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", escaped.join(" | "))
    };
    let rule = (0..headings.len()).map(|column| if right.contains(&column) { "---:" } else { "---" });
    let mut text = line(headings.iter().map(|heading| (*heading).to_owned()).collect());
    text.push_str(&line(rule.map(str::to_owned).collect()));
    rows.iter().for_each(|row| text.push_str(&line(row.clone())));
    text
}

fn rows(comparison: &Comparison, form: Form) -> String {
    if comparison.rows.is_empty() {
        return "No point is in both sides with a result.\n\n".to_owned();
    }
    let bound = comparison.bound.map(|bound| format!("bound {}", percent(bound.0)));
    let mut headings = vec![
        "NF",
        "DUT",
        "wiring",
        "trace",
        "size",
        "what",
        "A",
        "B",
        "B/A",
        "95 % interval",
        "n",
        "verdict",
    ];
    headings.extend(bound.as_deref());
    let mut before: Option<&Row> = None;
    let mut lines = Vec::new();
    for row in &comparison.rows {
        let again = before.is_some_and(|before| before.key == row.key && before.other_dut == row.other_dut);
        let point = point(row).into_iter();
        // A point's further quantities stand under its first, without its name again.
        let mut cells: Vec<String> =
            point.map(|cell| if again && form == Form::Terminal { String::new() } else { cell }).collect();
        cells.extend([
            row.quantity.clone(),
            number(row.unit, row.a),
            number(row.unit, row.b),
            row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            row.interval
                .map_or_else(|| "-".to_owned(), |Interval { low, high }| format!("[{low:.3}, {high:.3}]")),
            format!("{} + {}", count(row.a), count(row.b)),
            verdict(row),
        ]);
        cells.extend(row.bound.map(judged));
        lines.push(cells);
        before = Some(row);
    }
    format!("{}\n", drawn(&headings, &[4, 6, 7, 8, 10], &lines, form))
}

/// `10`, or `8 of 10` where two were spoilt.
fn count(part: Part) -> String {
    match part {
        Part { count, left_out: 0, .. } => count.to_string(),
        Part { count, left_out, .. } => format!("{count} of {}", count + left_out),
    }
}

pub(super) fn point(row: &Row) -> [String; 5] {
    let key = &row.key;
    let dut =
        row.other_dut.as_ref().map_or_else(|| key.device(), |other| format!("{} → {other}", key.device()));
    let trace = key.trace.rsplit('/').next().unwrap_or_default().to_owned();
    let mut wiring = key.wiring.clone();
    if key.directions == 1 {
        wiring.push_str(", one way");
    }
    [key.nf.to_string(), dut, wiring, trace, size(key)]
}

fn number(unit: Unit, part: Part) -> String {
    match (part.centre, unit) {
        (None, _) => "-".to_owned(),
        (Some(centre), Unit::Pps) => Pps(centre).to_string(),
        (Some(centre), Unit::Nanoseconds) => Nanos(centre.round() as u64).to_string(),
        (Some(centre), Unit::ChangesPerSecond | Unit::ConnectionsPerSecond) => changes(centre),
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent.fract().abs() < 1e-9 { 0 } else { 1 };
    format!("{percent:.decimals$} %")
}

pub(super) fn verdict(row: &Row) -> String {
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

fn judged(bound: BoundVerdict) -> String {
    match bound {
        BoundVerdict::Kept => "kept".to_owned(),
        BoundVerdict::Undecided => "undecided".to_owned(),
        BoundVerdict::Broken(sure) => format!("BROKEN, {} sure", sureness(sure)),
    }
}

/// `98.2 %`, and `more than 99.9 %` rather than a hundred.
fn sureness(sure: f64) -> String {
    if sure > 0.999 { "more than 99.9 %".to_owned() } else { format!("{:.1} %", 100.0 * sure) }
}

fn alone(side: &str, points: &[Alone], form: Form) -> String {
    if points.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|Alone { key, why, .. }| {
            let trace = key.trace.rsplit('/').next().unwrap_or_default().to_owned();
            // The last words of a device that died take lines.
            let why = why.lines().next().unwrap_or_default().to_owned();
            vec![key.nf.to_string(), key.device(), key.wiring.clone(), trace, size(key), why]
        })
        .collect();
    let headings = ["NF", "DUT", "wiring", "trace", "size", "why not"];
    format!("Of {side}, not compared:\n\n{}\n", drawn(&headings, &[4], &rows, form))
}

/// What it came to, in sentences.
pub(super) fn summary(comparison: &Comparison) -> Vec<String> {
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

/// How it was come by, and what it does not cover.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
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

//! A history as a person reads it.

use crate::cmd::cells::size;
use crate::cmd::layout::{BAD, GOOD, paint, table};
use crate::cmd::stored::when;
use std::fmt::Write as _;
use weir_methods::compare::{Difference, words};
use weir_methods::history::{Change, Series};

/// Runs that are named where many are left out.
const NAMED: usize = 5;
/// Facts that are named beside a change in the list.
const FACTS: usize = 4;
/// Letters of a value that is named with a change.
const LETTERS: usize = 60;

fn trace(series: &Series) -> String {
    series.point.trace.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A line a series.
pub(super) fn list(all: &[Series], flag: &str) -> String {
    let row = |(number_of, series): (usize, &Series)| {
        let key = &series.point;
        let mut wiring = key.wiring.clone();
        if key.directions == 1 {
            wiring.push_str(", one way");
        }
        let now = series.groups.last().map_or("-".to_owned(), |group| words::value(series.unit, group.mean));
        let said = series.changes.last().map_or_else(String::new, |change| {
            let value = &series.values[change.at];
            let (since, unsure) = (&value.run, if change.confirmed { "" } else { " (one run so far)" });
            format!("{} since {since}{unsure}: {}", change.step(), short(&change.differences))
        });
        vec![
            number_of.to_string(),
            key.nf.to_string(),
            key.device(),
            wiring,
            trace(series),
            size(key),
            series.quantity.clone(),
            series.values.len().to_string(),
            series.left_out.len().to_string(),
            series.changes.len().to_string(),
            now,
            said,
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().enumerate().map(row).collect();
    let headings = [
        "#",
        "NF",
        "DUT",
        "wiring",
        "trace",
        "size",
        "what",
        "runs",
        "left out",
        "changes",
        "level now",
        "last change",
    ];
    let mut text = table(&headings, &[0, 5, 7, 8, 9, 10], &rows);
    let machines: std::collections::BTreeSet<_> = all.iter().map(|series| &series.machine).collect();
    if machines.len() > 1 {
        let _ =
            writeln!(text, "note: {} machines measured these; each has series of its own", machines.len());
    }
    let _ = writeln!(text, "\nNext: weir history --series 0{flag}");
    text
}

/// The facts that differ, in a few words.
fn short(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "nothing that was captured differs".to_owned();
    }
    let mut facts: Vec<&str> = differences.iter().take(FACTS).map(|one| one.fact.as_str()).collect();
    let more = format!("{} more", differences.len().saturating_sub(FACTS));
    if differences.len() > FACTS {
        facts.push(&more);
    }
    facts.join(", ")
}

/// One series, run by run.
pub(super) fn series(series: &Series) -> String {
    let machine = series.machine.as_deref().unwrap_or("not told");
    let mut text = format!("{}: {}\nmachine {machine}\n\n", series.title(), series.quantity);
    let row = |(place, value): (usize, &weir_methods::history::Value)| {
        let (low, high) = (words::value(series.unit, value.least), words::value(series.unit, value.greatest));
        vec![
            value.run.clone(),
            when(value.started_ms),
            value.weir.clone(),
            value.count.to_string(),
            words::value(series.unit, value.value),
            if value.count > 1 { format!("{low} to {high}") } else { "-".to_owned() },
            series.change(place).map(Change::step).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = series.values.iter().enumerate().map(row).collect();
    let headings = ["run", "started", "measured by", "n", "centre", "least to greatest", "change"];
    text.push_str(&table(&headings, &[3, 4], &rows));
    text.push_str(&levels(series));
    series.changes.iter().for_each(|change| text.push_str(&change_text(series, change)));
    text.push_str(&left_out(series));
    text
}

fn levels(series: &Series) -> String {
    let level = |group: &weir_methods::history::Group| group.said(series.unit);
    match series.groups.as_slice() {
        [] => "\nNo run has a number that counts.\n".to_owned(),
        [one] => format!("\nNo change: {}.\n", level(one)),
        several => {
            format!("\nLevels: {}.\n", several.iter().map(level).collect::<Vec<_>>().join(", then "))
        }
    }
}

fn change_text(series: &Series, change: &Change) -> String {
    let (style, word) = if change.improved { (GOOD, "better") } else { (BAD, "worse") };
    let value = &series.values[change.at];
    let before = &series.values[change.at - 1];
    let (percent, word, to, from) = (change.step(), paint(style, word), &value.run, &before.run);
    let mut text = format!("\n{percent} ({word}) from {from} to {to}");
    if !change.confirmed {
        text.push_str(", with one run on one side of it: perhaps an outlier");
    }
    if change.differences.is_empty() {
        text.push_str(": nothing that was captured and can explain it differs\n");
        return text;
    }
    text.push('\n');
    let said = |value: &Option<String>| match value {
        Some(text) if text.chars().count() > LETTERS => {
            format!("{}…", text.chars().take(LETTERS).collect::<String>())
        }
        Some(text) => text.clone(),
        None => "-".to_owned(),
    };
    let row = |one: &Difference| vec![one.fact.clone(), said(&one.a), said(&one.b), one.affects.clone()];
    let rows: Vec<Vec<String>> = change.differences.iter().map(row).collect();
    text.push_str(&table(&["fact", "before", "after", "affects"], &[], &rows));
    text
}

fn left_out(series: &Series) -> String {
    let mut text = String::new();
    let left = &series.left_out;
    for one in left.iter().take(NAMED) {
        let why = one.why.lines().next().unwrap_or_default();
        let _ = writeln!(text, "note: {} is left out: {why}", one.run);
    }
    if left.len() > NAMED {
        let _ = writeln!(text, "note: and {} more", left.len() - NAMED);
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

//! A comparison as a person reads it: on the terminal, or as GitHub's Markdown.

use crate::cmd::layout::table;
use crate::cmd::stored::when;
use std::fmt::Write as _;
use weir_methods::compare::{Alone, Comparison, Head, Row, words};

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
    for line in words::summary(comparison).into_iter().chain(words::notes(comparison)) {
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
    let said = words::environment(comparison);
    if differences.is_empty() {
        return format!("Environment: {said}.\n\n");
    }
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
    format!("Environment: {said}.\n\n{}\n", drawn(&headings, &[], &rows, form))
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
    let bound = comparison.bound.map(|bound| format!("bound {}", words::percent(bound.0)));
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
        let point = words::place(&row.key, row.other_dut.as_deref()).into_iter();
        // A point's further quantities stand under its first, without its name again.
        let mut cells: Vec<String> =
            point.map(|cell| if again && form == Form::Terminal { String::new() } else { cell }).collect();
        cells.extend([
            row.quantity.clone(),
            words::number(row.unit, row.a),
            words::number(row.unit, row.b),
            words::ratio(row),
            words::interval(row),
            format!("{} + {}", words::count(row.a), words::count(row.b)),
            words::verdict(row),
        ]);
        cells.extend(row.bound.map(words::judged));
        lines.push(cells);
        before = Some(row);
    }
    format!("{}\n", drawn(&headings, &[4, 6, 7, 8, 10], &lines, form))
}

fn alone(side: &str, points: &[Alone], form: Form) -> String {
    if points.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|Alone { key, why, .. }| {
            // The last words of a device that died take lines.
            let why = why.lines().next().unwrap_or_default().to_owned();
            words::place(key, None).into_iter().chain([why]).collect()
        })
        .collect();
    let headings = ["NF", "DUT", "wiring", "trace", "size", "why not"];
    format!("Of {side}, not compared:\n\n{}\n", drawn(&headings, &[4], &rows, form))
}

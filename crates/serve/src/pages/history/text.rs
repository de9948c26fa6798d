//! Series in words and tables, as `weir history` prints them.

use super::Asked;
use crate::catalogue::short;
use crate::pages::wide;
use crate::site::Site;
use maud::{Markup, html};
use weir_methods::compare::words;
use weir_methods::history::{Change, Series, Value};
use weir_report::shell_word;
use weir_units::utc;

/// Facts that are named beside a change in the list.
const FACTS: usize = 4;
/// Runs that are named where many are left out.
const LEFT_OUT: usize = 20;
/// Letters of a value that is named with a change.
const LETTERS: usize = 400;

/// A line a series.
pub(super) fn list(asked: &Asked, shown: &[Series], all: usize) -> Markup {
    html! {
        p { (all) " series; each is one quantity of one point on one machine. Last change: where the numbers moved to another level, and what differs between the runs around it."
            @if all > shown.len() { " The first " (shown.len()) " are listed: say more of the point to see others." } }
        (wide("Series", html! {
            table class="list history" {
                thead { tr {
                    @for head in ["Function", "Dataplane", "Wiring", "Trace", "Size", "What", "Machine"] { th scope="col" { (head) } }
                    @for head in ["Runs", "Left out", "Changes", "Level now"] { th scope="col" class="n" { (head) } }
                    th scope="col" { "Last change" }
                } }
                tbody { @for series in shown { (row(asked, series)) } }
            }
        }))
    }
}

fn row(asked: &Asked, series: &Series) -> Markup {
    let [nf, dut, wiring, trace, size] = words::place(&series.point, None);
    let now = series.groups.last().map_or("–".to_owned(), |group| words::value(series.unit, group.mean));
    html! {
        tr {
            @for cell in [nf, dut, wiring, trace, size] { td { (cell) } }
            th scope="row" { a href=(asked.of(series).address("/history")) { (series.quantity) } }
            td { (short(series.machine.as_deref().unwrap_or("not told"), 12)) }
            td class="n" { (series.values.len()) }
            td class="n" { (series.left_out.len()) }
            td class="n" { (series.changes.len()) }
            td class="n" { (now) }
            td { @if let Some(change) = series.changes.last() {
                span class=(class(change)) { (change.step()) } " since " (series.values[change.at].run)
                @if !change.confirmed { " (one run so far)" }
                ": " (differing(change))
            } }
        }
    }
}

/// The facts that differ, in a few words.
fn differing(change: &Change) -> String {
    let all = &change.differences;
    if all.is_empty() {
        return "nothing that was captured differs".to_owned();
    }
    let mut facts: Vec<String> = all.iter().take(FACTS).map(|one| one.fact.clone()).collect();
    if all.len() > FACTS {
        facts.push(format!("{} more", all.len() - FACTS));
    }
    facts.join(", ")
}

fn class(change: &Change) -> &'static str {
    if change.improved { "state good" } else { "state bad" }
}

/// One series, run by run.
pub(super) fn series(site: &Site, asked: &Asked, series: &Series) -> Markup {
    let plot = asked.of(series).address("/history.svg");
    html! {
        h2 { (series.title()) ": " (series.quantity) }
        p { "Machine " code { (series.machine.as_deref().unwrap_or("not told")) } ". " (levels(series)) }
        @if !series.values.is_empty() {
            div class="plot" tabindex="0" { img class="trend" src=(plot) alt=(format!("{} of {} runs over time; the table below has the numbers", series.quantity, series.values.len())); }
        }
        @for change in &series.changes { (changed(series, change)) }
        (values(series))
        (left_out(series))
        (super::take(site, asked, series))
    }
}

fn levels(series: &Series) -> String {
    let level = |group: &weir_methods::history::Group| group.said(series.unit);
    match series.groups.as_slice() {
        [] => "No run has a number that counts.".to_owned(),
        [one] => format!("No change: {}.", level(one)),
        several => format!("Levels: {}.", several.iter().map(level).collect::<Vec<_>>().join(", then ")),
    }
}

/// What changed, and what else changed then.
fn changed(series: &Series, change: &Change) -> Markup {
    let (before, after) = (&series.values[change.at - 1], &series.values[change.at]);
    let value =
        |value: &Option<String>| value.as_deref().map_or("–".to_owned(), |text| short(text, LETTERS));
    let word = if change.improved { "better" } else { "worse" };
    html! {
        section class="change" id=(format!("change-{}", change.at)) {
            h3 { span class=(class(change)) { (change.step()) ", " (word) } " from " (run(before)) " to " (run(after)) }
            @if !change.confirmed { p class="hint" { "One run alone stands on one side of it: perhaps an outlier." } }
            @if change.differences.is_empty() { p { "Nothing that was captured and can explain it differs between the two." } } @else {
                (wide("What differs", html! {
                    table class="facts" {
                        caption class="unseen" { "What differs between the last run before and the first after, as far as it can explain a change" }
                        thead { tr { @for head in ["Fact", "Before", "After", "Affects"] { th scope="col" { (head) } } } }
                        tbody { @for one in &change.differences {
                            tr { th scope="row" { (one.fact) } td { (value(&one.a)) } td { (value(&one.b)) } td { (one.affects) } }
                        } }
                    }
                }))
            }
        }
    }
}

fn run(value: &Value) -> Markup {
    html! { a href=(format!("/runs/{}", address(value))) { (short(&value.run, 60)) } }
}

fn address(value: &Value) -> &str {
    if value.uuid.is_empty() { &value.run } else { &value.uuid }
}

fn values(series: &Series) -> Markup {
    let number = |value: f64| words::value(series.unit, value);
    let device = |value: &Value| short(value.dut_version.as_deref().unwrap_or("–"), 60);
    // What is the same of every run is said once, above them.
    let same = |of: &dyn Fn(&Value) -> String| {
        let mut all = series.values.iter().map(of);
        let first = all.next()?;
        (series.values.len() > 1 && all.all(|other| other == first)).then_some(first)
    };
    let (by, on) = (same(&|value| value.weir.clone()), same(&device));
    html! {
        (wide("Runs", html! {
            table class="list" {
                caption {
                    "Each run counts once, by the centre of its numbers."
                    @if let Some(by) = &by { " All were measured by " (by) "." }
                    @if let Some(on) = &on { " The device: " (on) "." }
                }
                thead { tr {
                    th scope="col" { "Run" } th scope="col" { "Begun" }
                    @if by.is_none() { th scope="col" { "Measured by" } }
                    @if on.is_none() { th scope="col" { "Device" } }
                    @for head in ["n", "Centre", "Least to greatest", "Change"] { th scope="col" class="n" { (head) } }
                } }
                tbody { @for (place, value) in series.values.iter().enumerate() {
                    tr {
                        th scope="row" { (run(value)) }
                        td { (utc(value.started_ms, utc::MINUTE)) }
                        @if by.is_none() { td { (value.weir) } }
                        @if on.is_none() { td { (device(value)) } }
                        td class="n" { (value.count) }
                        td class="n" { (number(value.value)) }
                        td class="n" { @if value.count > 1 { (number(value.least)) " to " (number(value.greatest)) } @else { "–" } }
                        td class="n" { @if let Some(change) = series.change(place) { a href=(format!("#change-{place}")) class=(class(change)) { (change.step()) } } }
                    }
                } }
            }
        }))
    }
}

fn left_out(series: &Series) -> Markup {
    let left = &series.left_out;
    html! {
        @if !left.is_empty() {
            h3 { "Left out" }
            ul {
                @for one in left.iter().take(LEFT_OUT) { li { (one.run) ": " (one.why.lines().next().unwrap_or_default()) } }
                @if left.len() > LEFT_OUT { li { "and " (left.len() - LEFT_OUT) " more" } }
            }
        }
    }
}

/// The command that says the same.
pub(super) fn as_command(site: &Site, series: &Series) -> String {
    let key = &series.point;
    let mut text = "weir history".to_owned();
    for (option, value) in [
        ("nf", key.nf.to_string()),
        ("dut", key.device()),
        ("wiring", key.wiring.clone()),
        ("trace", key.trace.clone()),
        ("size", key.size.clone()),
        ("quantity", series.quantity.clone()),
    ] {
        text.push_str(&format!(" --{option} {}", shell_word(&value)));
    }
    text + &site.program.db_flag()
}

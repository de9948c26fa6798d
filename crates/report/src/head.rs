//! What was measured, when, on which machine, by which plan.

use crate::digest::Digest;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use weir_trial::run::{Run, RunState};

/// Name, time and state of every run.
pub(crate) fn runs(digest: &Digest<'_>) -> Markup {
    html! {
        dl class="runs" {
            @for (run, name) in digest.runs.iter().zip(&digest.run_names) {
                div {
                    dt { (name) }
                    dd {
                        span class=(format!("state {}", state_class(run.state))) { (state(run.state)) }
                        " · started " (date(run.started_ms))
                        @if let Some(end) = run.ended_ms { ", last trial ended " (date(end)) }
                        " · " (run.points.len()) @if run.points.len() == 1 { " point" } @else { " points" }
                        ", " (trials(run)) " trials · Weir " (run.weir)
                    }
                }
            }
        }
    }
}

fn trials(run: &Run) -> usize {
    run.points.iter().map(|point| point.trials.len()).sum()
}

fn state(state: RunState) -> &'static str {
    match state {
        RunState::Running => "not finished",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    }
}

fn state_class(state: RunState) -> &'static str {
    if state == RunState::Finished { "good" } else { "bad" }
}

/// Where the runs' machines differ: to be read before their numbers are compared.
pub(crate) fn differences(digest: &Digest<'_>) -> Markup {
    let differing: Vec<_> = facts(digest.runs).into_iter().filter(|(_, values)| differ(values)).collect();
    html! {
        @if digest.runs.len() > 1 {
            section id="differences" {
                h2 { "Where the runs' environments differ" }
                @if differing.is_empty() { p { "Nowhere: every captured fact is the same." } }
                @else { (fact_table(digest, &differing, "Facts that differ between the runs")) }
            }
        }
    }
}

/// What the tester itself can do over each wiring; nothing where it was not checked.
pub(crate) fn self_checks(digest: &Digest<'_>) -> Markup {
    let checks: Vec<_> = digest
        .runs
        .iter()
        .zip(&digest.run_names)
        .flat_map(|(run, name)| run.self_checks.iter().map(move |check| (name, check)))
        .collect();
    html! {
        @if !checks.is_empty() {
            section id="self-checks" {
                h2 { "What the tester can do" }
                p { "The generator looped onto itself over each wiring, at the frame size of the points, before anything \
                     was measured, and again at the load of a result that came near the ceiling. From 90\u{a0}% of the \
                     ceiling on a rate says more about the tester than about the device; no delay is less than the floor." }
                div class="scroll" tabindex="0" role="region" aria-label="Self-checks" { table {
                    thead { tr {
                        @if digest.runs.len() > 1 { th scope="col" { "Run" } }
                        @for head in ["Wiring", "Frame", "Directions"] { th scope="col" { (head) } }
                        @for head in ["Ceiling", "Floor, p50", "Jitter"] { th scope="col" class="n" { (head) } }
                        th scope="col" { "Found" }
                    } }
                    tbody { @for (name, check) in &checks {
                        tr class=[(!check.findings.is_empty()).then_some("suspect")] {
                            @if digest.runs.len() > 1 { td { (name) } }
                            td title=(check.loop_of) { (check.wiring) }
                            td { (check.size) }
                            td { (check.directions) }
                            td class="n" { (crate::units::rate(check.ceiling.0, check.mean_frame_bytes, true)) }
                            td class="n" { @match &check.floor { Some(floor) => (floor.percentiles[0]), None => "–" } }
                            td class="n" { @match check.jitter() { Some(jitter) => (jitter), None => "–" } }
                            td {
                                @if check.findings.is_empty() { "good" }
                                @for finding in &check.findings { p { (finding.says) } }
                            }
                        }
                    } }
                } }
            }
        }
    }
}

/// The machines, the devices and the plans, folded.
pub(crate) fn details(digest: &Digest<'_>) -> Markup {
    let facts: Vec<_> = facts(digest.runs).into_iter().collect();
    let versions: BTreeSet<(&str, &str)> = digest
        .entries
        .iter()
        .filter_map(|entry| Some((entry.point.key.dut.as_str(), entry.point.dut_version.as_deref()?)))
        .collect();
    html! {
        section id="details" {
            h2 { "How it was measured" }
            details class="table" {
                summary { "Environment" }
                @if facts.is_empty() { p { "No facts were captured." } }
                @else { (fact_table(digest, &facts, "Facts of the machine, captured at the start")) }
            }
            @if !versions.is_empty() {
                details class="table" {
                    summary { "Devices under test" }
                    div class="scroll" tabindex="0" role="region" aria-label="Devices under test" { table {
                        caption { "Version and configuration of each device, as started" }
                        thead { tr { th scope="col" { "Device" } th scope="col" { "Version and configuration" } } }
                        tbody { @for (dut, version) in &versions { tr { th scope="row" { (dut) } td { code { (version) } } } } }
                    } }
                }
            }
            @for (run, name) in digest.runs.iter().zip(&digest.run_names) {
                details { summary { "Plan of run " (name) } pre tabindex="0" { (run.plan) } }
            }
        }
    }
}

type Facts<'a> = BTreeMap<&'a str, Vec<Option<&'a str>>>;

/// Every fact, with its value in each run.
fn facts(runs: &[Run]) -> Facts<'_> {
    let names: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.environment.keys().map(String::as_str)).collect();
    names
        .into_iter()
        .map(|name| (name, runs.iter().map(|run| run.environment.get(name).map(String::as_str)).collect()))
        .collect()
}

fn differ(values: &[Option<&str>]) -> bool {
    values.windows(2).any(|pair| pair[0] != pair[1])
}

fn fact_table(digest: &Digest<'_>, facts: &[(&str, Vec<Option<&str>>)], caption: &str) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(caption) {
            table class="facts" {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "Fact" }
                    @for name in &digest.run_names { th scope="col" { (name) } }
                } }
                tbody {
                    @for (name, values) in facts {
                        tr class=[differ(values).then_some("suspect")] {
                            th scope="row" { (name) }
                            @for value in values { td { (value.unwrap_or("not captured")) } }
                        }
                    }
                }
            }
        }
    }
}

/// A moment in UTC, to the minute: `2026-11-21 12:45 UTC`.
pub(crate) fn date(milliseconds: i64) -> String {
    const DAY: i64 = 86_400_000;
    let (days, minutes) = (milliseconds.div_euclid(DAY), milliseconds.rem_euclid(DAY) / 60_000);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// A moment in UTC, to the second: `2026-11-21 12:45:09 UTC`.
pub(crate) fn clock(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1000).rem_euclid(60);
    date(milliseconds).replace(" UTC", &format!(":{seconds:02} UTC"))
}

/// The Gregorian date of a day counted from 1970-01-01. Years are taken to begin in March, so that
/// the leap day comes last and month lengths follow one formula.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    const MARCH_OF_YEAR_0: i64 = 719_468;
    let shifted = days.saturating_add(MARCH_OF_YEAR_0);
    let (cycle, day) = (shifted.div_euclid(DAYS_OF_400_YEARS), shifted.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + cycle * 400 + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_leap_days_and_before_1970() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_265_134_000), "2026-11-21 12:45 UTC");
        assert_eq!(clock(1_795_265_134_000), "2026-11-21 12:45:34 UTC");
        assert_eq!(date(-60_000), "1969-12-31 23:59 UTC");
        assert!(!date(i64::MAX).is_empty() && !date(i64::MIN).is_empty());
    }
}

//! What was measured, when, on which machine, by which plan.

use crate::digest::Digest;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use weir_trial::run::{Run, RunState};
use weir_units::utc;

/// Name, time and state of every run.
pub(crate) fn runs(digest: &Digest<'_>) -> Markup {
    html! {
        dl class="runs" {
            @for (run, name) in digest.runs.iter().zip(&digest.run_names) {
                div {
                    dt { (name) }
                    dd {
                        span class=(format!("state {}", state_class(run.state))) { (state(run.state)) }
                        " · started " (utc(run.started_ms, utc::MINUTE))
                        @if let Some(end) = run.ended_ms { ", last trial ended " (utc(end, utc::MINUTE)) }
                        " · " (run.points.len()) @if run.points.len() == 1 { " point" } @else { " points" }
                        ", " (trials(run)) " trials · " (run.weir)
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
                            td { (check.directions) @if check.pairs > 1 { " × " (check.pairs) " pairs of ports" } }
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

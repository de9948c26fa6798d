//! A point: what was measured there, its verdicts, and every trial, in the order in which they were run. Nothing is left out:
//! trials that decided nothing or were spoilt stand in their row, struck through, with the reason.

mod drawing;

use super::{Here, Page, address_of, command, load, page as framed, selector, wide};
use crate::answer::{Answer, Fault};
use crate::central::who::Who;
use crate::site::Site;
use axum::extract::{Path, State};
use maud::{Markup, html};
use std::sync::Arc;
use weir_trial::grouped;
use weir_trial::run::{Point, Run, StoredTrial};
use weir_trial::verdict::{Code, Finding};
use weir_units::{Nanos, utc};

/// The page.
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    who: Who,
    Path((name, place)): Path<(String, String)>,
) -> Page {
    let which = selector(&name)?;
    let wanted: u32 = place.parse().map_err(|_| {
        Fault::Missing(format!(
            "points are counted from 0; `{}` is none",
            crate::catalogue::short(&place, 40)
        ))
    })?;
    let shared = Arc::clone(&site);
    let draw = move |view: &weir_store::View<'_>| {
        let run =
            load(view, &[which])?.pop().ok_or_else(|| Fault::Missing(format!("run {name} went away")))?;
        let there = || match run.points.len() {
            0 => "it has none yet".to_owned(),
            points => format!("it has {points}, of which the last is {}", run.points[points - 1].index),
        };
        let found = run.points.iter().position(|point| point.index == wanted);
        let place = found
            .ok_or_else(|| Fault::Missing(format!("run {} has no point {wanted}; {}", run.name, there())))?;
        Ok(drawn(&shared, &run, place))
    };
    site.stores.read(who.viewer, draw).await
}

/// What a point is called: `0 · l2fwd · nf · vhost · tr3i · 64 B`.
pub(crate) fn name(point: &Point) -> String {
    let key = &point.key;
    let trace = key.trace.rsplit('/').next().unwrap_or_default();
    format!("{} · {} · {} · {} · {trace} · {}", point.index, key.nf, key.device(), key.wiring, key.frame())
}

fn drawn(site: &Site, run: &Run, place: usize) -> Answer {
    let point = &run.points[place];
    let at = format!("/runs/{}", address_of(run));
    let to = |place: usize| format!("{at}/points/{}", run.points[place].index);
    let main = html! {
        nav class="crumbs" aria-label="Where this is" { a href="/runs" { "Runs" } " › " a href=(at) { (run.name) } " › " span aria-current="page" { "Point " (point.index) } }
        h1 { "Point " (name(point)) }
        nav class="pages" aria-label="Points" {
            @if place > 0 { a href=(to(place - 1)) rel="prev" { "‹ Point before" } }
            @if place + 1 < run.points.len() { a href=(to(place + 1)) rel="next" { "Next point ›" } }
            a href=(super::history::of_point(run, point)) { "Its history" }
        }
        (verdicts(site, point))
        section id="trials" {
            h2 { "Every trial" }
            @if point.trials.is_empty() { p { "No trial was kept." } } @else {
                (drawing::draw(point))
                (trials(point))
            }
            p { "As a table for other programs: " a href=(format!("{at}/trials.csv")) { "CSV of all points" } " · "
                (command(&format!("weir export {} --csv{}", run.name, site.program.db_flag()))) }
        }
        (conditions(point))
    };
    framed(&format!("Point {} of {}", point.index, run.name), Here::Runs, &main)
}

fn verdicts(site: &Site, point: &Point) -> Markup {
    html! {
        section id="verdicts" {
            h2 { "Verdicts" }
            @if let Some(error) = &point.error { p class="warning" { "Not measured: " (error) } }
            @else if !point.finished { p class="warning" { "Not finished: what is below is what was kept." } }
            @if !point.results.is_empty() {
                ul class="verdicts" {
                    @for result in &point.results {
                        li {
                            code { (site.program.verdict(point, result)) }
                            @if let Some(limit) = result.limit() { span class="how" { "Limited by " (limit.by.name()) ": " (limit.why) } }
                            @if let Some(doubt) = point.doubt(result) {
                                span class="how" { @if doubt.invalid { strong { "INVALID, not to be ranked: " } } (doubt.why) }
                            }
                        }
                    }
                }
            }
            @if let Some(check) = &point.packets { p { "Before the first trial every packet was compared: " (check) "." } }
        }
    }
}

/// Columns that are left out where no trial has anything in them.
const CYCLES: &str = "Cycles/packet";
const REMARKS: &str = "Remarks";
const HEADS: [(&str, bool); 14] = [
    ("#", true),
    ("Purpose", false),
    ("Begun, UTC", false),
    ("Load", true),
    ("Lasted", true),
    ("Forwarded", true),
    ("Lost", true),
    ("Sent", true),
    ("Received", true),
    ("p50", true),
    ("p99", true),
    ("Greatest", true),
    (CYCLES, true),
    (REMARKS, false),
];

fn trials(point: &Point) -> Markup {
    let cycles = point.trials.iter().any(|trial| cycles(trial).is_some());
    let remarked = point.trials.iter().any(|trial| trial.superseded || remarks(trial).next().is_some());
    let heads = HEADS.into_iter().filter(|(head, _)| match *head {
        CYCLES => cycles,
        REMARKS => remarked,
        _ => true,
    });
    wide(
        "Every trial",
        html! {
            table class="trials" {
                caption { "In the order in which they were run. Lost: of the packets that the schedule called for. Percentiles are of the one-way delay. Struck through: it decides nothing." }
                thead { tr { @for (head, number) in heads { th scope="col" class=[number.then_some("n")] { (head) } } } }
                tbody { @for trial in &point.trials { (row(trial, cycles, remarked)) } }
            }
        },
    )
}

/// Cycles of the device a packet, where it says so.
fn cycles(trial: &StoredTrial) -> Option<f64> {
    trial.result.dut.as_ref().and_then(|dut| dut.cycles_per_packet)
}

/// What its row does not say already.
fn remarks(trial: &StoredTrial) -> impl Iterator<Item = &Finding> {
    let is_said = |finding: &&Finding| finding.code == Code::Lost && finding.says.ends_with(" were lost");
    trial.verdict.findings.iter().filter(move |finding| !is_said(finding))
}

fn row(trial: &StoredTrial, with_cycles: bool, remarked: bool) -> Markup {
    let (result, total) = (&trial.result, trial.result.total());
    let at_wire = !result.directions.is_empty();
    let delay = |pick: fn(&weir_trial::Latency) -> Option<Nanos>| {
        let delay = result.latency.as_ref().and_then(pick);
        delay.map_or_else(|| "–".to_owned(), |delay| delay.to_string())
    };
    let count = |count: u64| if at_wire { grouped(count) } else { "–".to_owned() };
    let void = trial.superseded || !trial.verdict.is_valid();
    html! {
        tr class=[void.then_some("void")] id=(format!("trial-{}", trial.sequence)) {
            td class="n" { (trial.sequence) }
            td { (trial.purpose.name()) }
            td { (utc(trial.started_ms, "%H:%M:%S")) }
            td class="n" { (result.spec.load) }
            td class="n" { (result.elapsed) }
            td class="n" { (result.forwarded_rate()) }
            td class="n" { @if at_wire { (result.loss_ratio()) } @else { "–" } }
            td class="n" { (count(total.sent)) }
            td class="n" { (count(total.received)) }
            td class="n" { (delay(|latency| Some(latency.percentiles[0]))) }
            td class="n" { (delay(|latency| latency.tells(2).then_some(latency.percentiles[2]))) }
            td class="n" { (delay(|latency| Some(latency.max))) }
            @if with_cycles { td class="n" { @match cycles(trial) { Some(cycles) => (format!("{cycles:.0}")), None => "–" } } }
            @if remarked {
                td class="remarks" {
                    @if trial.superseded { p { "of an attempt that was cut off" } }
                    @for finding in remarks(trial) { p title=(finding.code.name()) { (finding.says) } }
                }
            }
        }
    }
}

/// Under which conditions it was measured.
fn conditions(point: &Point) -> Markup {
    let key = &point.key;
    let pages = if key.huge_pages { "yes" } else { "no" };
    let facts = [
        ("Function", key.nf.to_string()),
        ("Device", key.device()),
        ("Its version", point.dut_version.clone().unwrap_or_else(|| "not told".to_owned())),
        ("Wiring", key.wiring.clone()),
        ("Trace", key.trace.clone()),
        ("Frame size", format!("{}, {:.1} bytes in the mean", key.frame(), key.mean_frame_bytes)),
        ("Directions", key.all_directions().to_string()),
        ("Huge pages", pages.to_owned()),
        ("Line rate", format!("{}, which carries {} in all", key.line_rate, key.theoretical())),
        ("Seed", point.seed.to_string()),
        ("Traces' hashes", point.trace_hashes.join(" ")),
    ];
    html! {
        section id="conditions" {
            h2 { "How it was measured" }
            (wide("How it was measured", html! {
                table class="facts" { tbody { @for (fact, value) in &facts { @if !value.is_empty() { tr { th scope="row" { (fact) } td { (value) } } } } } }
            }))
            @for (file, text) in &point.configuration {
                details { summary { "The device's " code { (file) } } pre tabindex="0" { (text) } }
            }
        }
    }
}

//! A run: the page that `weir report` writes, whole, with what can be done with the run beside it; and the run as files.

use super::{Here, Page, address_of, command, head, load, raw, selector, top};
use crate::answer::{Answer, Fault};
use crate::central::sessions::Session;
use crate::central::who::Who;
use crate::pages::figures;
use crate::site::Site;
use axum::extract::{Path, State};
use maud::{Markup, html};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_report::{Around, Form, PageOptions};
use weir_store::{Outline, View};
use weir_trial::run::{Run, RunState};
use weir_units::utc;

/// Points that are listed openly; more are folded.
const OPEN_POINTS: usize = 12;

/// The page.
pub(crate) async fn page(State(site): State<Arc<Site>>, who: Who, Path(name): Path<String>) -> Page {
    let which = selector(&name)?;
    let shared = Arc::clone(&site);
    let viewer = who.viewer;
    let draw = move |view: &View<'_>| {
        let id = view.find(&which)?;
        let outline = view.outline(id)?.ok_or_else(|| Fault::Missing(format!("run {name} went away")))?;
        // Its account has a page of its own, with a word in it that is the session's.
        let session = who.session.filter(|_| viewer.owns(outline.share.as_ref()));
        let key = format!("run {outline:?} {session:?}");
        if let Some(page) = shared.cache.get(&key) {
            return Ok(page);
        }
        let run = view.load(id)?;
        let page = Answer::page(drawn(&shared, run, &outline, session.as_ref()));
        if !outline.live {
            shared.cache.keep(key, &page);
        }
        Ok(page)
    };
    site.stores.read(viewer, draw).await
}

fn drawn(site: &Site, run: Run, outline: &Outline, session: Option<&Session>) -> String {
    let around = [
        raw(head()),
        raw(html! { (top(Here::Runs)) span id="main" tabindex="-1" {} }),
        raw(beside(site, &run, outline, session)),
    ];
    let runs = [run];
    let foot = |id: &str, forms: &[Form]| raw(figures::foot(site, &runs, id, forms));
    let around =
        Around { head: &around[0], top: &around[1], beside: &around[2], foot: Some(&foot), compares: false };
    let options = PageOptions { ratios: site.program.ratios(&runs), ..PageOptions::default() };
    weir_report::render_within(&runs, &options, &around)
}

/// Measuring, where that is allowed.
fn measure(run: &Run, outline: &Outline) -> Markup {
    let at = address_of(run);
    html! {
        @if run.state != RunState::Finished && !outline.live {
            li { a class="button" href=(format!("/start/resume?run={at}")) { "Go on with it" } }
        }
        li { a class="button" href=(format!("/start?run={at}")) { "Measure its plan" } }
    }
}

/// What can be done with the run.
fn beside(site: &Site, run: &Run, outline: &Outline, session: Option<&Session>) -> Markup {
    let (flag, name) = (site.program.db_flag(), &run.name);
    let at = format!("/runs/{}", address_of(run));
    let next = match (run.state, outline.live) {
        (RunState::Finished, _) => format!("weir show {name}{flag}"),
        (_, true) => format!("weir runs{flag}"),
        (_, false) => format!("weir bench --resume {name}{flag}"),
    };
    html! {
        div class="beside" {
            @if outline.live { p class="warning" { "It is being measured now: this is what there is so far. " a href=(at) { "Look again" } } }
            ul class="actions" {
                li { a class="button" href=(format!("{at}/run.json")) { "JSON" } }
                li { a class="button" href=(format!("{at}/trials.csv")) { "CSV of every trial" } }
                @if !outline.live { li { a class="button" href=(format!("{at}/bundle.weir")) { "Bundle" } } }
                li { a class="button" href=(format!("{at}/plan.toml")) { "Plan" } }
                li { a class="button" href=(format!("/figures?run={}", address_of(run))) { "Figures" } }
                (compare(run))
                @if site.start.is_some() { (measure(run, outline)) }
            }
            (points(run, &at))
            @if let Some(share) = &outline.share { (super::account::of_run(run, share, session)) }
            details class="cite" {
                summary { "Cite, copy, go on" }
                p { "As a command: " (command(&next)) }
                p { "As an address, in any copy of this store: " (command(&at)) }
                p { "In a text: " (command(&cited(run))) }
                pre tabindex="0" { (bibtex(run)) }
            }
        }
    }
}

/// The ways to its comparisons.
fn compare(run: &Run) -> Markup {
    let duts: BTreeSet<String> = run.points.iter().map(|point| point.key.device()).collect();
    let at = address_of(run);
    html! {
        @if duts.len() > 1 { li { a class="button" href=(format!("/compare?run={at}")) { "Compare its dataplanes" } } }
        li { a class="button" href=(format!("/compare?base={at}")) { "Compare with another run" } }
    }
}

fn points(run: &Run, at: &str) -> Markup {
    html! {
        @if !run.points.is_empty() {
            details class="points" open[run.points.len() <= OPEN_POINTS] {
                summary { "Points, each with every trial (" (run.points.len()) ")" }
                ul class="columns" {
                    @for point in &run.points {
                        li {
                            a href=(format!("{at}/points/{}", point.index)) { (super::point::name(point)) }
                            @if point.error.is_some() { span class="state bad" { " not measured" } }
                            @else if !point.finished { span class="state bad" { " not finished" } }
                        }
                    }
                }
            }
        }
    }
}

/// How a text names the run.
pub(crate) fn cited(run: &Run) -> String {
    let identity = if run.uuid.is_empty() { String::new() } else { format!(" ({})", run.uuid) };
    format!("Weir run {}{identity}, measured {} by {}", run.name, utc(run.started_ms, utc::DAY), run.weir)
}

/// An entry for BibTeX.
fn bibtex(run: &Run) -> String {
    let key: String = run.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let plain = |text: &str| -> String {
        text.chars()
            .flat_map(|c| {
                if "&%$#_".contains(c) {
                    vec!['\\', c]
                } else if "{}\\^~".contains(c) || c.is_control() {
                    vec!['-']
                } else {
                    vec![c]
                }
            })
            .collect()
    };
    format!(
        "@misc{{weir:{key},\n  title = {{Weir run {}}},\n  year = {{{}}},\n  note = {{UUID {}, measured {} by {}}}\n}}",
        plain(&run.name),
        utc(run.started_ms, "%Y"),
        if run.uuid.is_empty() { "none" } else { &run.uuid },
        utc(run.started_ms, utc::DAY),
        plain(&run.weir)
    )
}

/// The run as a file.
pub(crate) async fn file(
    State(site): State<Arc<Site>>,
    who: Who,
    Path((name, file)): Path<(String, String)>,
) -> Page {
    const FILES: [&str; 4] = ["run.json", "trials.csv", "bundle.weir", "plan.toml"];
    if !FILES.contains(&file.as_str()) {
        let there = FILES.join(", ");
        return Err(Fault::Missing(format!(
            "a run has no file `{}`; it has {there}",
            crate::catalogue::short(&file, 60)
        )));
    }
    let which = selector(&name)?;
    let program = Arc::clone(&site.program);
    let write = move |view: &View<'_>| {
        let run =
            load(view, &[which])?.pop().ok_or_else(|| Fault::Missing(format!("run {name} went away")))?;
        let called = run.name.clone();
        let broken = |why: String| Fault::Conflict(format!("run {called}: {why}"));
        match file.as_str() {
            "run.json" => {
                let text = run.to_json().map_err(|error| broken(error.to_string()))?;
                Ok(Answer::file("application/json", format!("{text}\n").into(), &format!("{called}.json")))
            }
            "trials.csv" => {
                let text = program.csv(&run).map_err(broken)?;
                Ok(Answer::file("text/csv; charset=utf-8", text.into(), &format!("{called}.csv")))
            }
            "plan.toml" => Ok(Answer::file("application/toml", run.plan.into(), &format!("{called}.toml"))),
            _ => {
                let id = weir_store::RunId(run.id);
                if view.outline(id)?.is_some_and(|outline| outline.live) {
                    return Err(Fault::Conflict(format!(
                        "run {called} is being measured; take its bundle when it has ended"
                    )));
                }
                let bytes = program.bundle(run, view.origin(id)?).map_err(broken)?;
                Ok(Answer::file("application/gzip", bytes, &format!("{called}.weir")))
            }
        }
    };
    site.stores.read(who.viewer, write).await
}

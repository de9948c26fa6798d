//! The list of runs, with its filters in its address.

use super::{Here, Page, command, page as framed, wide};
use crate::answer::{Answer, Fault};
use crate::catalogue::{Entry, Facet, Index, short, state};
use crate::central::who::Who;
use crate::filter::{Filter, Found, Sort};
use crate::site::Site;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Serialize;
use std::sync::Arc;
use weir_store::RunSummary;
use weir_units::{Nanos, utc};

/// Values of a facet that are offered: the most frequent ones, beside those chosen.
const OFFERED: usize = 100;
/// Version of the JSON, as of `weir runs --json`.
const SCHEMA_VERSION: u32 = 1;

/// The first page: all runs.
pub(crate) async fn first(site: State<Arc<Site>>, who: Who) -> Result<Response, Fault> {
    page(site, who, RawQuery(None)).await
}

/// The list.
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    who: Who,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let (filter, is_full) = Filter::read(&query.unwrap_or_default())?;
    if !is_full {
        // What a form left empty need not stand in an address that is passed on.
        return Ok(Redirect::to(&format!("/runs{}", filter.address())).into_response());
    }
    let index = site.index(&who).await?;
    let list = List { found: filter.find(&index), filter: &filter, index: &index, site: &site };
    Ok(list.page().into_response())
}

/// What `weir runs --json` prints, of the runs that are meant.
#[derive(Serialize)]
struct Runs {
    schema: u32,
    /// How many are meant, on all pages.
    total: usize,
    runs: Vec<RunSummary>,
}

/// The list for programs.
pub(crate) async fn json(State(site): State<Arc<Site>>, who: Who, RawQuery(query): RawQuery) -> Page {
    let (filter, _) = Filter::read(&query.unwrap_or_default())?;
    let index = site.index(&who).await?;
    let found = filter.find(&index);
    let shown = found.runs.iter().skip(filter.page.saturating_mul(filter.per())).take(filter.per());
    let runs = Runs {
        schema: SCHEMA_VERSION,
        total: found.runs.len(),
        runs: shown.map(|run| summary(run)).collect(),
    };
    let text = serde_json::to_string_pretty(&runs).map_err(|error| Fault::Broken(error.to_string()))?;
    Ok(Answer::text("application/json", format!("{text}\n")))
}

/// A run as `weir runs --json` has it.
pub(crate) fn summary(run: &Entry) -> RunSummary {
    let (outline, facts) = (run.outline.clone(), &run.facts);
    RunSummary {
        id: outline.id,
        uuid: outline.uuid,
        name: outline.name,
        started_ms: outline.started_ms,
        ended_ms: outline.ended_ms,
        state: outline.state,
        live: outline.live,
        points: facts.points,
        finished: facts.finished,
        failed: facts.failed,
        trials: facts.trials,
        nfs: facts.nfs.clone(),
        duts: facts.duts.clone(),
    }
}

/// What the page is made of.
struct List<'a> {
    found: Found,
    filter: &'a Filter,
    index: &'a Index,
    site: &'a Site,
}

impl List<'_> {
    fn page(&self) -> Answer {
        let (all, meant) = (self.index.runs.len(), self.found.runs.len());
        let main = html! {
            div class="heading" {
                h1 { "Runs" }
                p class="count" role="status" {
                    @if self.filter.is_all() { (counted(all)) } @else { (counted(meant)) " of " (all) }
                }
            }
            @if all == 0 { (self.nothing_yet()) } @else {
                (self.form())
                @if meant == 0 { p { "No run is so. " a href="/runs" { "All runs" } } } @else { (self.table()) (self.pages()) }
                (self.take())
            }
        };
        framed("Runs", Here::Runs, &main)
    }

    fn nothing_yet(&self) -> Markup {
        let flag = self.site.program.db_flag();
        html! {
            p { "Nothing has been measured into this store yet. A first look takes two minutes:" }
            p { (command(&format!("weir bench{flag}"))) }
            p { "Runs of other machines come in bundles:" }
            p { (command(&format!("weir import FILE{flag}"))) }
            @if self.site.start.is_some() { p { "Or " a href="/start" { "measure from this page" } "." } }
        }
    }

    fn form(&self) -> Markup {
        let filter = self.filter;
        let narrowed = !filter.is_all();
        html! {
            form class="filters" action="/runs" method="get" role="search" aria-label="Runs" {
                div class="search" {
                    label for="q" { "Search" }
                    input type="search" id="q" name="q" value=(filter.words) maxlength="200" autocomplete="off"
                        placeholder="otter  dut:ovs  size:64" title="All words must be found; dut:ovs looks at the dataplane alone" aria-keyshortcuts="/";
                    button { "Find" }
                    @if narrowed { a href="/runs" { "All runs" } }
                }
                details class="facets" open[filter.wanted.iter().any(|wanted| !wanted.is_empty()) || filter.from.is_some() || filter.to.is_some()] {
                    summary { "Filters" }
                    div class="grid" {
                        @for facet in Facet::ALL { (choice((self.index, &self.found), filter, facet)) }
                        (self.day("from", "From day", filter.from.as_deref()))
                        (self.day("to", "To day", filter.to.as_deref()))
                    }
                    button { "Apply" }
                }
                @if filter.sort != Sort::default() { input type="hidden" name="sort" value=(filter.sort.key()); }
                @if filter.turned { input type="hidden" name="order" value="turned"; }
                @if let Some(per) = filter.per { input type="hidden" name="per" value=(per); }
            }
            (self.chips())
        }
    }

    fn day(&self, name: &str, label: &str, value: Option<&str>) -> Markup {
        html! { label { span { (label) } input type="date" name=(name) value=[value]; } }
    }

    /// What narrows the list, each with a way to drop it.
    fn chips(&self) -> Markup {
        let without = |change: &dyn Fn(&mut Filter)| {
            let mut filter = Filter { page: 0, ..self.filter.clone() };
            change(&mut filter);
            format!("/runs{}", filter.address())
        };
        let mut chips: Vec<(String, String)> = Vec::new();
        for facet in Facet::ALL {
            for value in &self.filter.wanted[facet as usize] {
                let address = without(&|filter| filter.wanted[facet as usize].retain(|other| other != value));
                chips.push((format!("{}: {}", facet.label(), facet.shown(value)), address));
            }
        }
        for (name, day) in [("from", &self.filter.from), ("to", &self.filter.to)] {
            if let Some(day) = day {
                let address =
                    without(&|filter| if name == "from" { filter.from = None } else { filter.to = None });
                chips.push((format!("{name} {day}"), address));
            }
        }
        html! {
            @if !chips.is_empty() {
                ul class="chips" aria-label="The list is narrowed by" {
                    @for (text, address) in chips { li { a href=(address) title="Drop this filter" { (text) span aria-hidden="true" { " ×" } span class="unseen" { ", drop" } } } }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        let first = self.filter.page.saturating_mul(self.filter.per());
        let shown = self.found.runs.iter().skip(first).take(self.filter.per());
        html! {
            form action="/compare" method="get" class="pick" {
                (wide("Runs", html! {
                    table class="list" {
                        caption class="unseen" { "Runs; headings with links sort them" }
                        thead { tr {
                            th scope="col" { span class="unseen" { "Compare" } }
                            (self.head("Run", Sort::Name, false))
                            (self.head("Begun", Sort::Started, false))
                            (self.head("State", Sort::State, false))
                            th scope="col" { "Dataplanes" }
                            th scope="col" { "Functions" }
                            th scope="col" { "Wiring" }
                            th scope="col" { "Sizes" }
                            (self.head("Points", Sort::Points, true))
                            (self.head("Trials", Sort::Trials, true))
                            (self.head("Took", Sort::Took, true))
                            th scope="col" { "Machine" }
                        } }
                        tbody { @for run in shown { (row(run)) } }
                    }
                }))
                p class="picked" { button { "Compare those ticked" } " " span class="hint" { "The first is the baseline; one run alone is compared by its dataplanes." } }
            }
        }
    }

    fn head(&self, label: &str, sort: Sort, number: bool) -> Markup {
        let is_it = self.filter.sort == sort;
        let turned = is_it && !self.filter.turned;
        let address = Filter { sort, turned, page: 0, ..self.filter.clone() }.address();
        let falls = sort.falls() != self.filter.turned;
        let order = is_it.then_some(if falls { "descending" } else { "ascending" });
        html! {
            th scope="col" aria-sort=[order] class=[number.then_some("n")] {
                a href=(format!("/runs{address}")) { (label) @if is_it { span aria-hidden="true" { @if falls { " ↓" } @else { " ↑" } } } }
            }
        }
    }

    fn pages(&self) -> Markup {
        let pages = self.found.runs.len().div_ceil(self.filter.per());
        let to = |page: usize| format!("/runs{}", Filter { page, ..self.filter.clone() }.address());
        let page = self.filter.page;
        html! {
            @if pages > 1 || page > 0 {
                nav class="pages" aria-label="Pages of the list" {
                    @if page > 0 { a href=(to(0)) { "First" } a href=(to(page.min(pages) - 1)) rel="prev" { "‹ Newer" } }
                    span { "Page " (page + 1) " of " (pages) }
                    @if page + 1 < pages { a href=(to(page + 1)) rel="next" { "Older ›" } a href=(to(pages - 1)) { "Last" } }
                }
            }
        }
    }

    fn take(&self) -> Markup {
        let flag = self.site.program.db_flag();
        html! {
            p class="take" {
                a href=(format!("/history{}", Filter { sort: Sort::default(), turned: false, page: 0, per: None, ..self.filter.clone() }.address())) { "Their history" }
                " · " a href=(format!("/runs.json{}", self.filter.address())) { "This list as JSON" } " · on the terminal: "
                (command(&format!("weir runs{flag}")))
            }
        }
    }
}

/// One choice, with how many runs each value would leave.
pub(super) fn choice((index, found): (&Index, &Found), filter: &Filter, facet: Facet) -> Markup {
    let (values, counts) = (&index.values[facet as usize], &found.counts[facet as usize]);
    let chosen = &filter.wanted[facet as usize];
    let mut offered: Vec<(&str, u32)> = values
        .iter()
        .zip(counts)
        .map(|(value, count)| (&**value, *count))
        .filter(|(_, count)| *count > 0)
        .collect();
    offered.sort_by(|a, b| b.1.cmp(&a.1).then(natural(a.0).cmp(&natural(b.0))));
    let left_out = offered.len().saturating_sub(OFFERED);
    offered.truncate(OFFERED);
    offered.sort_by_key(|(value, _)| natural(value));
    // Several values stand in an address; the form offers one, and keeps the others.
    let (first, others) =
        chosen.split_first().map_or((None, &[][..]), |(first, others)| (Some(first), others));
    let is_there = first.is_none_or(|first| offered.iter().any(|(value, _)| value == first));
    html! {
        label {
            span { (facet.label()) }
            select name=(facet.key()) {
                option value="" selected[first.is_none()] { "any" }
                @if let Some(first) = first.filter(|_| !is_there) { option value=(first) selected { (facet.shown(first)) } }
                @for (value, count) in offered {
                    option value=(value) selected[first.is_some_and(|first| first == value)] { (facet.shown(value)) " (" (count) ")" }
                }
                @if left_out > 0 { option value="" disabled { (left_out) " more: search for " (facet.key()) ":WORD" } }
            }
        }
        @for other in others { input type="hidden" name=(facet.key()) value=(other); }
    }
}

fn row(run: &Entry) -> Markup {
    let (outline, facts) = (&run.outline, &run.facts);
    let state = state(outline);
    let id = format!("run-{}", outline.id);
    let environment = |name: &str| facts.environment.get(name).map_or("", String::as_str);
    let took = outline.ended_ms.map(|end| u64::try_from(end.saturating_sub(outline.started_ms)).unwrap_or(0));
    html! {
        tr {
            td { input type="checkbox" name="run" value=(run.address()) id=(id) aria-label=(format!("Compare {}", outline.name)); }
            th scope="row" { a href=(format!("/runs/{}", run.address())) { (short(&outline.name, 60)) } }
            td { time { (utc(outline.started_ms, "%Y-%m-%d %H:%M")) } }
            td { span class=(format!("state {}", if state == "finished" { "good" } else { "bad" })) { (state) } }
            td class="wrap" { (few(&facts.duts, 4)) }
            td class="wrap" { (few(&facts.nfs, 3)) }
            td class="wrap" { (few(&facts.wirings, 3)) }
            td class="wrap" { (few(&facts.sizes.iter().map(|size| Facet::Size.shown(size).replace(' ', "\u{a0}")).collect::<Vec<_>>(), 3)) }
            td class="n" { (facts.finished) "/" (facts.points) @if facts.failed > 0 { span class="state bad" { " " (facts.failed) " failed" } } }
            td class="n" { (facts.trials) }
            td class="n" { @if let Some(took) = took { (lasting(took)) } @else { "–" } }
            td class="wrap" title=(environment("machine.id")) { (short(environment("cpu.model"), 40)) }
        }
    }
}

/// `3 h 20 min`, to what matters.
fn lasting(ms: u64) -> String {
    let (seconds, minutes) = (ms / 1000, ms / 60_000);
    match minutes {
        _ if seconds < 1 => Nanos(ms * 1_000_000).to_string(),
        _ if seconds < 120 => format!("{seconds} s"),
        0..120 => format!("{minutes} min"),
        120..2880 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} d {} h", minutes / 1440, minutes / 60 % 24),
    }
}

/// The first of a list, and how many more there are.
fn few(values: &[String], most: usize) -> Markup {
    let more = values.len().saturating_sub(most);
    let shown: Vec<String> = values.iter().take(most).map(|value| short(value, 32)).collect();
    html! { (shown.join(", ")) @if more > 0 { span class="more" title=(values.join(", ")) { " +" (more) } } }
}

fn counted(runs: usize) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

/// Numbers by their value, before words.
fn natural(text: &str) -> (u64, String) {
    text.parse().map_or((u64::MAX, text.to_lowercase()), |number| (number, String::new()))
}

//! A point over time, by version and commit: what `weir history` says of the runs that the list's filters leave.
//!
//! The catalogue finds the runs in memory; of each the store then reads the wanted points alone, without histograms
//! ([`weir_store::View::load_points`]). What was made is kept while the runs are the same, and of each run its numbers
//! ([`crate::numbers`]), so that a run that is new costs its own reading.

mod address;
mod text;

use super::{Here, Page, command, page as framed, runs::choice};
use crate::answer::{Answer, Fault};
use crate::catalogue::{Entry, Facet, Index};
use crate::central::who::Who;
use crate::filter::Found;
use crate::numbers::KeptNumbers;
use crate::site::Site;
use address::Asked;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use weir_methods::history::{Document, History, KEY, RunNumbers, Series};
use weir_store::{RunId, View, Viewer};
use weir_trial::run::{Point, Run};

/// Most runs of which one history is made: their points are read for it.
const MOST_RUNS: usize = 2000;
/// Runs that are read in one go while nobody waits for them.
const AT_ONCE: usize = 16;
/// Series that are listed.
const MOST_LISTED: usize = 500;
/// What the form offers to narrow by.
const OFFERED: [Facet; 7] =
    [Facet::Nf, Facet::Dut, Facet::Wiring, Facet::Deployment, Facet::Trace, Facet::Size, Facet::Machine];

/// The page.
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    who: Who,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let query = query.unwrap_or_default();
    let (asked, is_full) = Asked::read(&query)?;
    if !is_full {
        // What a form left empty need not stand in an address that is passed on.
        return Ok(Redirect::to(&asked.address("/history")).into_response());
    }
    let index = site.index(&who).await?;
    let found = asked.filter.find(&index);
    if found.runs.len() > MOST_RUNS {
        let main = around(&asked, &index, &found, (&too_many(found.runs.len()), true));
        return Ok(framed("History", Here::History, &main).into_response());
    }
    let shared = Arc::clone(&site);
    let draw = move |document: Document, asked: &Asked, found: &Found| {
        let is_one = document.series.len() == 1;
        let main = match document.series.as_slice() {
            [] => {
                html! { p { @if index.runs.is_empty() { "There is no run in this store yet; " a href="/runs" { "how to get one" } "." } @else { "Nothing was measured yet that is wanted." } } p class="hint" { "One series has the same " (KEY) "." } }
            }
            [one] => text::series(&shared, asked, one),
            several => text::list(asked, &several[..several.len().min(MOST_LISTED)], several.len()),
        };
        Ok(framed("History", Here::History, &around(asked, &index, found, (&main, !is_one))))
    };
    Ok(made(&site, &who, "page", asked, found, draw).await?.into_response())
}

/// What `weir history --json` prints.
pub(crate) async fn json(State(site): State<Arc<Site>>, who: Who, RawQuery(query): RawQuery) -> Page {
    let (asked, found) = few(&site, &who, query).await?;
    let write = |document: Document, _: &Asked, _: &Found| {
        let text =
            serde_json::to_string_pretty(&document).map_err(|error| Fault::Broken(error.to_string()))?;
        Ok(Answer::text("application/json", format!("{text}\n")))
    };
    made(&site, &who, "json", asked, found, write).await
}

/// One series as a plot.
pub(crate) async fn plot(State(site): State<Arc<Site>>, who: Who, RawQuery(query): RawQuery) -> Page {
    let (asked, found) = few(&site, &who, query).await?;
    let shared = Arc::clone(&site);
    let write = move |document: Document, _: &Asked, _: &Found| match document.series.as_slice() {
        [one] => Ok(Answer::text("image/svg+xml", shared.program.trend(one).svg())),
        several => Err(Fault::Bad(format!(
            "a plot is of one series, and {} are left; say more of it, or name it with `series`",
            several.len()
        ))),
    };
    made(&site, &who, "svg", asked, found, write).await
}

/// What an address asks for, and its runs, of which there must not be too many.
async fn few(site: &Site, who: &Who, query: Option<String>) -> Result<(Asked, Found), Fault> {
    let (asked, _) = Asked::read(&query.unwrap_or_default())?;
    let index = site.index(who).await?;
    let found = asked.filter.find(&index);
    match found.runs.len() {
        runs if runs > MOST_RUNS => Err(Fault::Bad(format!(
            "{runs} runs are meant, and a history is made of {MOST_RUNS} at most; say more of them: nf, dut, trace, \
             size, machine, from, to"
        ))),
        _ => Ok((asked, found)),
    }
}

/// What is drawn of the history of some runs; what was drawn lately of the same runs is given again.
async fn made(
    site: &Arc<Site>,
    who: &Who,
    form: &str,
    asked: Asked,
    found: Found,
    draw: impl FnOnce(Document, &Asked, &Found) -> Result<Answer, Fault> + Send + 'static,
) -> Result<Answer, Fault> {
    let is_live = found.runs.iter().any(|run| run.outline.live);
    let key = format!("{form} {} {:x}", asked.address(""), identity(&found.runs));
    if let Some(answer) = site.histories.get(&key) {
        return Ok(answer);
    }
    let shared = Arc::clone(site);
    let make = move |view: &View<'_>| {
        // Whoever was waited for may have made it.
        if let Some(answer) = shared.histories.get(&key) {
            return Ok(answer);
        }
        let answer = draw(collected(view, &shared.numbers, &asked, &found)?, &asked, &found)?;
        if !is_live {
            shared.histories.keep(key, &answer);
        }
        Ok(answer)
    };
    site.stores.read(who.viewer, make).await
}

/// Tells runs apart, and what became of them.
fn identity(runs: &[Arc<Entry>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    runs.iter().for_each(|run| run.version().hash(&mut hasher));
    hasher.finish()
}

/// The series that are meant, from one run in memory at a time.
fn collected(view: &View<'_>, kept: &KeptNumbers, asked: &Asked, found: &Found) -> Result<Document, Fault> {
    let mut history = History::default();
    for run in &found.runs {
        if let Some(numbers) = numbers(view, kept, asked, run)? {
            history.take(&numbers);
        }
    }
    asked.narrow(history.document())
}

/// What a run says of the points that are meant: as it is kept, or read from the store.
fn numbers(
    view: &View<'_>,
    kept: &KeptNumbers,
    asked: &Asked,
    run: &Entry,
) -> Result<Option<Arc<RunNumbers>>, Fault> {
    let wanted = |key: &_| asked.wants(key);
    kept.of(run, &asked.points(), || {
        let loaded = view.load_points(RunId(run.outline.id), &wanted)?;
        Ok(loaded.map(|run| Arc::new(RunNumbers::of(&run, &wanted))))
    })
}

/// Reads what the history of all public runs is made of, a few runs at a time: of two thousand it takes half a minute,
/// for which the first who asks would wait.
pub(crate) async fn prepare(site: Arc<Site>) -> Result<(), Fault> {
    let index = site.catalogue.seen(&site.stores, Viewer::Anybody).await?;
    if index.runs.len() > MOST_RUNS {
        return Ok(()); // nobody has it of so many
    }
    for runs in index.runs.chunks(AT_ONCE) {
        let (runs, shared) = (runs.to_vec(), Arc::clone(&site));
        let read = move |view: &View<'_>| {
            let asked = Asked::default();
            runs.iter().try_for_each(|run| numbers(view, &shared.numbers, &asked, run).map(drop))
        };
        site.stores.read(Viewer::Anybody, read).await?;
    }
    Ok(())
}

fn too_many(runs: usize) -> Markup {
    html! {
        p class="warning" { (runs) " runs are meant, and a history is made of " (MOST_RUNS) " at most. Say more of the point, the machine or the time." }
    }
}

/// The form, and below it what was found; the form is folded where that is what was looked for.
fn around(asked: &Asked, index: &Index, found: &Found, (main, open): (&Markup, bool)) -> Markup {
    html! {
        h1 { "History" }
        form class="filters" action="/history" method="get" aria-label="History" { details class="facets" open[open] {
            summary { "Filters" }
            div class="grid" {
                @for facet in OFFERED { (choice((index, found), &asked.filter, facet)) }
                label { span { "From day" } input type="date" name="from" value=[&asked.filter.from]; }
                label { span { "To day" } input type="date" name="to" value=[&asked.filter.to]; }
                label { span { "Quantity" } input name="quantity" maxlength="100" value=[&asked.quantity] placeholder="forwarded rate"; }
            }
            (asked.others(&OFFERED))
            button { "Show" }
            @if !asked.filter.is_all() || asked.quantity.is_some() { " " a href="/history" { "All" } }
        } }
        (main)
    }
}

/// How a series is had elsewhere.
fn take(site: &Site, asked: &Asked, series: &Series) -> Markup {
    let one = asked.of(series);
    let address = one.address("/history");
    html! {
        details class="cite" open {
            summary { "Take it along" }
            p { "Files: " a href=(one.address("/history.svg")) { "SVG" } " · " a href=(one.address("/history.json")) { "JSON" } }
            p { "Command: " (command(&text::as_command(site, series))) }
            p { "Address: " span class="address" { (command(&address)) } }
        }
    }
}

/// Where the history of a run's point is.
pub(super) fn of_point(run: &Run, point: &Point) -> String {
    Asked::default().of_point(&point.key, run.environment.get("machine.id")).address("/history")
}

//! The form of a plan, checked as it is filled in.

use super::{NOTE, TO, allowed, asked, door, fields, from_our_pages, goes_on, inside, taken, word};
use crate::answer::{Answer, Fault};
use crate::pages::{Here, page as framed};
use crate::program::Checked;
use crate::site::Site;
use crate::start::Start;
use crate::start::form::{Field, Filled, MORE};
use crate::start::queue::Task;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::sync::Arc;
use weir_store::Viewer;

/// The field with the run's name; no key of plans has a space.
const RUN_NAME: &str = "run name";
/// Mistakes that are listed by their fields; the text below has all.
const MOST_MISTAKES: usize = 40;
/// The plan that the form begins with.
const USUAL: &str = "quick";

/// The form: empty, from a plan that comes with Weir (`?from=quick`), or from a run's (`?run=NAME`).
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let start = allowed(&site)?;
    let asked = match asked(start, &headers, ("/start", query)) {
        Ok(asked) => asked,
        Err(door) => return Ok(door.into_response()),
    };
    let text = match (asked.get("run"), asked.get("from")) {
        (Some(run), _) => {
            let which = crate::pages::selector(run)?;
            site.stores.read(Viewer::Anybody, move |view| Ok(view.load(view.find(&which)?)?.plan)).await?
        }
        (None, from) => {
            let name = from.map_or(USUAL, String::as_str);
            let plans = site.program.plans();
            let plan = plans.into_iter().find(|plan| plan.name == name);
            plan.ok_or_else(|| {
                Fault::Missing(format!("no plan `{}` comes with Weir", crate::catalogue::short(name, 60)))
            })?
            .text
        }
    };
    let filled = start.form.fill(&text);
    Ok(drawn(&site, start, &filled, None).into_response())
}

/// Takes the token.
pub(crate) async fn enter(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Fault> {
    let start = allowed(&site)?;
    from_our_pages(&headers)?;
    let fields = fields(&headers, &body)?;
    let to = goes_on(fields.get(TO));
    if !start.door.looks_at(fields.get("token").map_or("", String::as_str)).await? {
        return Ok(door(true, to).into_response());
    }
    let mut response = Redirect::to(to).into_response();
    let cookie =
        HeaderValue::try_from(start.door.cookie()).map_err(|error| Fault::Broken(error.to_string()))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// What is wrong with the form as it is filled in: a part of the page, for the script.
pub(crate) async fn check(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Answer, Fault> {
    inside(&site, &headers)?;
    from_our_pages(&headers)?;
    let filled = fields(&headers, &body)?;
    let shared = Arc::clone(&site);
    let checked = site.stores.work(move || Ok(looked_at(&shared, allowed(&shared)?, &filled))).await?;
    Ok(Answer::page(checked.0.into_string()))
}

/// The form was sent: to be checked, or to be measured.
pub(crate) async fn send(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Fault> {
    let (_, filled) = taken(&site, &headers, &body)?;
    let shared = Arc::clone(&site);
    let work = move || {
        let start = allowed(&shared)?;
        let (markup, good) = looked_at(&shared, start, &filled);
        if !good || filled.get("action").is_none_or(|action| action != "start") {
            return Ok(drawn(&shared, start, &filled, Some(markup)).into_response());
        }
        let name = filled.get(RUN_NAME).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let number = start.queue.add(Task::Plan { text: start.form.compose(&filled).text, name })?;
        Ok(Redirect::to(&format!("/start/jobs/{number}")).into_response())
    };
    site.stores.work(work).await
}

/// The verdict on what was filled in, and whether it can be measured.
fn looked_at(site: &Site, start: &Start, filled: &Filled) -> (Markup, bool) {
    let composed = start.form.compose(filled);
    let Checked { good, text, places } = site.program.check(&composed.text, start.queue.folder());
    let markup = html! {
        @if good { p class="state good" { "This plan can be measured." } }
        @else {
            p class="state bad" { "This plan cannot be used:" }
            ul {
                @for (line, what) in places.iter().take(MOST_MISTAKES) {
                    li { @match composed.field(*line) {
                        Some(field) => { a href=(format!("#{}", id(field))) { (field) } ": " (what) }
                        None => (what),
                    } }
                }
            }
        }
        pre tabindex="0" { (text) }
        details { summary { "The plan, as TOML" } pre tabindex="0" { (composed.text) } }
    };
    (markup, good)
}

fn drawn(site: &Site, start: &Start, filled: &Filled, checked: Option<Markup>) -> Answer {
    let checked = checked.unwrap_or_else(|| looked_at(site, start, filled).0);
    let (first, others): (Vec<&Field>, Vec<&Field>) = start.form.fields.iter().partition(|field| field.first);
    let is_filled = |field: &&&Field| filled.contains_key(&field.key);
    let main = html! {
        h1 { "Start a measurement" }
        p class="warning" { (NOTE) }
        p class="hint" { "A plan of this form has no folder of its own: captures, flow tables and programs are named by whole paths, on the server's machine." }
        p { "Begin with: "
            @for (place, plan) in site.program.plans().iter().enumerate() {
                @if place > 0 { " · " }
                a href=(format!("/start?from={}", plan.name)) title=(plan.about) { (plan.name) }
            }
        }
        (super::job::queue(start))
        form class="plan" action="/start" method="post" data-check="/start/check" {
            (word(start))
            h2 { "What" }
            p class="hint" { "Several values are separated by commas: every combination is measured." }
            div class="grid" { @for field in first { (input(&field.key, field, filled)) } }
            details open[others.iter().any(|field| is_filled(&field))] {
                summary { "More about devices, chains, cores and traffic" }
                div class="grid" { @for field in others { (input(&field.key, field, filled)) } }
            }
            h2 { "How" }
            @for table in &start.form.tables {
                fieldset class="table" {
                    legend { label title=(table.help) {
                        input type="checkbox" name=(table.key) value="on" checked[filled.contains_key(&table.key)] id=(id(&table.key));
                        " " code { (table.key) } " " span class="hint" { (table.help) }
                    } }
                    div class="grid" { @for field in &table.fields { (input(&format!("{}.{}", table.key, field.key), field, filled)) } }
                }
            }
            details open[filled.contains_key(MORE)] {
                summary { "Goals of your own, graphs of devices and what else a plan may hold, as TOML" }
                textarea name=(MORE) id=(id(MORE)) rows="8" spellcheck="false" aria-label="TOML" { (filled.get(MORE).map_or("", String::as_str)) }
            }
            label class="run-name" { "Name of the run " input name=(RUN_NAME) maxlength="100" value=[filled.get(RUN_NAME)] placeholder="a date and an animal"; }
            section id="checked" role="status" aria-live="polite" { (checked) }
            p class="row-of-buttons" { button name="action" value="check" { "Check" } " " button name="action" value="start" class="main" { "Measure" } }
        }
    };
    framed("Start", Here::Start, &main)
}

fn id(field: &str) -> String {
    format!("f-{field}")
}

fn input(name: &str, field: &Field, filled: &Filled) -> Markup {
    let (help, list) = (format!("{}-help", id(name)), format!("{}-list", id(name)));
    let value = filled.get(name).map_or("", String::as_str);
    html! {
        div class="field" {
            label for=(id(name)) { (field.key) }
            input id=(id(name)) name=(name) value=(value) maxlength="2000" spellcheck="false" autocomplete="off"
                aria-describedby=(help) list=[(!field.choices.is_empty()).then_some(&list)];
            @if !field.choices.is_empty() { datalist id=(list) { @for choice in &field.choices { option value=(choice) {} } } }
            details class="help" { summary { "?" span class="unseen" { " about " (field.key) } } p id=(help) { (field.help) } }
        }
    }
}

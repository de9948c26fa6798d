//! Measuring from the page: a plan as a form, the queue, a measurement while it goes on.

mod form;
mod job;

pub(crate) use form::{check, enter, page, send};
pub(crate) use job::{events, page as job, stop};

use super::{Here, page as framed};
use crate::answer::{Answer, Fault};
use crate::site::Site;
use crate::start::Start;
use crate::start::door::{FIELD, from_our_pages};
use crate::start::form::Filled;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::sync::Arc;
use weir_store::{Outline, Viewer};
use weir_trial::run::RunState;

/// What RFC 6815 asks of whoever measures.
const NOTE: &str = "Measure in an isolated lab only. RFC 6815 keeps tests of this kind off production networks: they load the \
                    ports of the plan to the utmost, and what shares these ports or cores suffers.";

/// What is there only with `--allow-runs`.
fn allowed(site: &Site) -> Result<&Start, Fault> {
    site.start.as_ref().ok_or_else(|| {
        Fault::Forbidden(
            "this server only reads; started with `weir serve --allow-runs` it measures, too".to_owned(),
        )
    })
}

/// What is there only for those who gave the token.
fn inside<'a>(site: &'a Site, headers: &HeaderMap) -> Result<&'a Start, Fault> {
    let start = allowed(site)?;
    if start.door.knows(headers) {
        return Ok(start);
    }
    Err(Fault::Forbidden("this takes the token that the server printed; give it at /start".to_owned()))
}

/// The fields of a form that was sent; of several of one name the last.
pub(super) fn fields(headers: &HeaderMap, body: &[u8]) -> Result<Filled, Fault> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/x-www-form-urlencoded") {
        return Err(Fault::Bad("a form is sent as application/x-www-form-urlencoded".to_owned()));
    }
    Ok(form_urlencoded::parse(body).into_owned().collect())
}

/// The fields of a form that may change something.
fn taken<'a>(site: &'a Site, headers: &HeaderMap, body: &[u8]) -> Result<(&'a Start, Filled), Fault> {
    let start = allowed(site)?;
    let fields = fields(headers, body)?;
    start.door.allows(headers, fields.get(FIELD).map_or("", String::as_str))?;
    Ok((start, fields))
}

/// The word that our forms send along.
fn word(start: &Start) -> Markup {
    html! { input type="hidden" name=(FIELD) value=(start.door.word()); }
}

/// What the address of a page asks of it; whoever has not given the token yet gets the door, and comes back by it.
fn asked(
    start: &Start,
    headers: &HeaderMap,
    (path, query): (&str, Option<String>),
) -> Result<Filled, Answer> {
    let query = query.unwrap_or_default();
    if start.door.knows(headers) {
        return Ok(form_urlencoded::parse(query.as_bytes()).into_owned().collect());
    }
    Err(door(false, &format!("{path}?{query}")))
}

/// Asks whether a run is to be taken up again: `/start/resume?run=NAME`.
pub(crate) async fn ask(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let start = allowed(&site)?;
    let asked = match asked(start, &headers, ("/start/resume", query)) {
        Ok(asked) => asked,
        Err(door) => return Ok(door.into_response()),
    };
    let run = unfinished(&site, &asked).await?.name;
    let main = html! {
        h1 { "Go on with run " (run) }
        p class="warning" { (NOTE) }
        p { "What was measured stays; the points that are missing are measured now, under the conditions of now." }
        (again(start, &run))
    };
    Ok(framed("Go on", Here::Start, &main).into_response())
}

/// The button that takes a run up again.
fn again(start: &Start, run: &str) -> Markup {
    html! {
        form action="/start/resume" method="post" {
            (word(start))
            input type="hidden" name="run" value=(run);
            button class="main" { "Go on with run " (run) }
        }
    }
}

/// Takes a run up again.
pub(crate) async fn resume(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Result<Response, Fault> {
    let (start, fields) = taken(&site, &headers, &body)?;
    let run = unfinished(&site, &fields).await?.name;
    let number = start.queue.add(crate::start::queue::Task::Resume { run })?;
    Ok(Redirect::to(&format!("/start/jobs/{number}")).into_response())
}

/// The run that a form names, which must be one that can be taken up again.
async fn unfinished(site: &Site, fields: &Filled) -> Result<Outline, Fault> {
    let which = super::selector(fields.get("run").map_or("", String::as_str))?;
    let find = move |view: &weir_store::View<'_>| {
        view.outline(view.find(&which)?)?.ok_or_else(|| Fault::Missing("the run went away".to_owned()))
    };
    let run = site.stores.read(Viewer::Anybody, find).await?;
    if run.state == RunState::Finished || run.live {
        let why = if run.live { "is being measured" } else { "is finished; nothing is left to go on with" };
        return Err(Fault::Conflict(format!("run {} {why}", run.name)));
    }
    Ok(run)
}

/// The field of the door's form that says where to go on.
const TO: &str = "to";

/// Where somebody goes on who gave the token: a page of ours that takes it.
fn goes_on(to: Option<&String>) -> &str {
    let is_ours = |to: &&str| {
        let rest = to.strip_prefix("/start").unwrap_or("x");
        (rest.is_empty() || rest.starts_with(['/', '?'])) && to.bytes().all(|byte| byte.is_ascii_graphic())
    };
    to.map(String::as_str).filter(is_ours).unwrap_or("/start")
}

/// Who has not given the token yet, and where they were going.
fn door(wrong: bool, to: &str) -> Answer {
    let main = html! {
        h1 { "Start a measurement" }
        p class="warning" { (NOTE) }
        p { "The server printed a token when it was started. Whoever has it may measure on this machine, as the user that the server runs as." }
        @if wrong { p class="state bad" role="alert" { "This is not the token." } }
        form class="inline" action="/start/enter" method="post" {
            // Whoever keeps passwords for a reader wants a name to keep them under.
            input type="text" name="username" value="weir" autocomplete="username" hidden;
            label for="token" { "Token" }
            input id="token" name="token" type="password" autocomplete="current-password" required maxlength="200";
            input type="hidden" name=(TO) value=(to);
            button { "Enter" }
        }
    };
    framed("Start", Here::Start, &main)
}

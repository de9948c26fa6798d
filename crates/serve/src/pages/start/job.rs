//! A measurement while it goes on: its lines as they come, how far it is, and its end.

use super::{again, inside, taken, word};
use crate::answer::Fault;
use crate::pages::{Here, page as framed};
use crate::site::Site;
use crate::start::Start;
use crate::start::queue::{Job, State as Came, Task};
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use weir_store::{Selector, View, Viewer};
use weir_units::utc;

/// How often progress is looked for in the store.
const LOOK: Duration = Duration::from_millis(1000);
/// How soon a line is shown: those that come meanwhile come with it.
const GATHER: Duration = Duration::from_millis(150);

/// The page.
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Path(number): Path<u64>,
) -> Result<Response, Fault> {
    let job = inside(&site, &headers)?.queue.job(number)?;
    let shown = shown(&site, &job).await?;
    let start = inside(&site, &headers)?;
    let events = (!job.is_over()).then(|| format!("/start/jobs/{number}/events"));
    let main = html! {
        // With scripts the lines come by themselves.
        @if !job.is_over() { noscript { p { a href=(format!("/start/jobs/{number}")) { "Look again" } } } }
        nav class="crumbs" aria-label="Where this is" { a href="/start" { "Start" } " › " span aria-current="page" { "Measurement " (number) } }
        h1 { "Measurement " (number) }
        // Above what grows: lines that come do not move it from under the pointer.
        @if !job.is_over() {
            form action=(format!("/start/jobs/{number}/stop")) method="post" class="stop" { (word(start)) button { "Stop; what was measured is kept" } }
        }
        div id="job" data-events=[events] { (shown) }
        @if let Some(run) = job.run.as_ref().filter(|_| job.is_over() && job.state != Came::Ended(Some(0))) { (again(start, run)) }
    };
    Ok(framed(&format!("Measurement {number}"), Here::Start, &main).into_response())
}

/// Stops it.
pub(crate) async fn stop(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Path(number): Path<u64>,
    body: Bytes,
) -> Result<Response, Fault> {
    let (start, _) = taken(&site, &headers, &body)?;
    start.queue.stop(number)?;
    Ok(Redirect::to(&format!("/start/jobs/{number}")).into_response())
}

/// What happens to it, as events (WHATWG HTML, section 9.2): the part of the page anew, and at its end `end`.
pub(crate) async fn events(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    Path(number): Path<u64>,
) -> Result<Response, Fault> {
    let start = inside(&site, &headers)?;
    start.queue.job(number)?;
    let changes = start.queue.watch();
    let watched = Watched { site: Arc::clone(&site), number, changes, last: String::new(), over: false };
    let stream = futures_util::stream::unfold(watched, |mut watched| async {
        let event = watched.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), watched))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A client that watches.
struct Watched {
    site: Arc<Site>,
    number: u64,
    changes: tokio::sync::watch::Receiver<u64>,
    last: String,
    over: bool,
}

impl Watched {
    /// The next event; nothing where there will be none.
    async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        loop {
            let job = self.site.start.as_ref()?.queue.job(self.number).ok()?;
            let shown = shown(&self.site, &job).await.ok()?.into_string();
            if job.is_over() {
                self.over = true;
                return Some(format!("{}event: end\ndata: over\n\n", event(&shown)));
            }
            if shown != self.last {
                self.last.clone_from(&shown);
                return Some(event(&shown));
            }
            tokio::select! {
                _ = self.changes.changed() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(LOOK) => {}
                () = self.site.stop.wait() => return None,
            }
        }
    }
}

/// A text as an event's data.
fn event(text: &str) -> String {
    let text = weir_report::shown(text.to_owned());
    let lines: String =
        text.split('\n').map(|line| format!("data: {}\n", line.trim_end_matches('\r'))).collect();
    format!("{lines}\n")
}

/// How far it is.
async fn shown(site: &Arc<Site>, job: &Job) -> Result<Markup, Fault> {
    let run = job.run.clone();
    let progress = move |view: &View<'_>| {
        let Some(run) = run else { return Ok(None) };
        let Ok(id) = view.find(&Selector::Name(run)) else { return Ok(None) };
        Ok(Some(view.facts(id)?))
    };
    let facts = if job.run.is_some() { site.stores.read(Viewer::Anybody, progress).await? } else { None };
    let (state, class) = said(job.state);
    let lines: Vec<&str> = job.lines.iter().map(String::as_str).collect();
    Ok(html! {
        p { span class=(format!("state {class}")) { (state) } " · " (task(job))
            @if let Some(began) = job.began_ms { " · begun " (utc(began, utc::SECOND)) }
            @if let Some(ended) = job.ended_ms { " · ended " (utc(ended, utc::SECOND)) }
        }
        @if let Some(run) = &job.run { p { "Run " a href=(format!("/runs/{run}")) { (run) } } }
        @if let Some(facts) = facts {
            @let all = job.points.unwrap_or(facts.points).max(1);
            p { progress max=(all) value=(facts.finished) aria-label="Points" {} " " (facts.finished) " of " (all) " points, " (facts.trials) " trials" @if facts.failed > 0 { ", " (facts.failed) " failed" } }
        }
        pre tabindex="0" class="lines" { (lines.join("\n")) }
    })
}

fn said(state: Came) -> (&'static str, &'static str) {
    match state {
        Came::Waiting => ("waits", ""),
        Came::Running => ("measuring", ""),
        Came::Ended(Some(0)) => ("done", "good"),
        Came::Ended(Some(1)) => ("ended: a point failed, or it was interrupted", "bad"),
        Came::Ended(Some(2)) => ("refused", "bad"),
        Came::Ended(_) => ("ended by itself", "bad"),
        Came::Stopped => ("stopped", "bad"),
    }
}

fn task(job: &Job) -> String {
    match &job.task {
        Task::Plan { name: Some(name), .. } => format!("a plan, as run {name}"),
        Task::Plan { name: None, .. } => "a plan".to_owned(),
        Task::Resume { run } => format!("going on with run {run}"),
    }
}

/// The queue, above the form.
pub(super) fn queue(start: &Start) -> Markup {
    let jobs = start.queue.jobs();
    html! {
        @if !jobs.is_empty() {
            h2 { "Queue" }
            (crate::pages::wide("Queue", html! {
                table { tbody { @for job in jobs.iter().take(20) {
                    @let (state, class) = said(job.state);
                    tr {
                        th scope="row" { a href=(format!("/start/jobs/{}", job.number)) { "Measurement " (job.number) } }
                        td { span class=(format!("state {class}")) { (state) } }
                        td { (job.run.clone().unwrap_or_else(|| task(job))) }
                        td { (utc(job.began_ms.unwrap_or(job.asked_ms), utc::MINUTE)) }
                    }
                } } }
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_several_lines_is_one_event() {
        assert_eq!(event("a\nevent: end\r\nb"), "data: a\ndata: event: end\ndata: b\n\n");
    }
}

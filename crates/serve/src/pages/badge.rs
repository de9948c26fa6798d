//! A point's result as a badge: a small picture for other pages.

use super::{Page, selector};
use crate::answer::{Answer, Fault};
use crate::catalogue::short;
use crate::central::who::Who;
use crate::site::Site;
use axum::extract::{Path, RawQuery, State};
use maud::{Markup, html};
use std::sync::Arc;
use weir_store::View;
use weir_trial::run::{Point, PointResult, Run};

/// Width of a letter, in units of the picture: the widest usual one.
const LETTER: usize = 7;
/// Most letters of a side.
const LETTERS: usize = 60;

/// `/badge/RUN/POINT.svg?result=NAME`: without a name the first result of the point.
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    who: Who,
    Path((name, file)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Page {
    let which = selector(&name)?;
    let point = file.strip_suffix(".svg").and_then(|point| point.parse::<u32>().ok());
    let point = point
        .ok_or_else(|| Fault::Missing("a badge is /badge/RUN/POINT.svg, points counted from 0".to_owned()))?;
    let query = query.unwrap_or_default();
    let mut wanted = None;
    for (key, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        match key.as_str() {
            "result" => wanted = Some(value),
            other => {
                return Err(Fault::Bad(format!("a badge knows `result=NAME` and no `{}`", short(other, 40))));
            }
        }
    }
    let shared = Arc::clone(&site);
    let draw = move |view: &View<'_>| {
        let run = view.load(view.find(&which)?)?;
        let found = run.points.iter().find(|found| found.index == point);
        let found = found.ok_or_else(|| Fault::Missing(format!("run {} has no point {point}", run.name)))?;
        let result = chosen(found, wanted.as_deref())?;
        Ok(Answer::text(
            "image/svg+xml",
            drawn(&run, found, result.map(|result| shared.program.verdict(found, result))),
        ))
    };
    site.stores.read(who.viewer, draw).await
}

/// The result that is meant.
fn chosen<'a>(point: &'a Point, wanted: Option<&str>) -> Result<Option<&'a PointResult>, Fault> {
    let Some(wanted) = wanted else { return Ok(point.results.first()) };
    let found = point.results.iter().find(|result| result.name() == wanted);
    let names = || point.results.iter().map(PointResult::name).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| {
        Fault::Missing(format!("the point has no result `{}`; it has {}", short(wanted, 40), names()))
    })
}

fn drawn(run: &Run, point: &Point, verdict: Option<String>) -> String {
    let key = &point.key;
    let left = short(&format!("{} {} {}", key.device(), key.nf, key.frame()), LETTERS);
    let verdict = verdict.unwrap_or_else(|| "not measured".to_owned());
    // On a terminal its words stand in columns.
    let right = short(&verdict.split_whitespace().collect::<Vec<_>>().join(" "), LETTERS);
    let [a, b] = [&left, &right].map(|text| LETTER * text.chars().count() + 2 * LETTER);
    let side = |x: usize, width: usize, fill: &str, text: &str| -> Markup {
        html! {
            rect x=(x) width=(width) height="20" fill=(fill) {}
            text x=(x + LETTER) y="14" fill="#fff" font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" { (text) }
        }
    };
    let label = format!("{left}: {right}, run {}", run.name);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(a + b) height="20" role="img" aria-label=(label) {
            title { (label) }
            (side(0, a, "#444", &left))
            (side(a, b, "#1c5d99", &right))
        }
    }
    .into_string()
}

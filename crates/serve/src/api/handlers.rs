//! What each address of the API does.

use super::answers::{Account, Became, Change, OneRun, Pushed, Runs, Server, Shared};
use super::{openapi as document, written};
use crate::answer::{Answer, Fault};
use crate::central::upload;
use crate::central::who::Who;
use crate::filter::Filter;
use crate::pages;
use crate::site::Site;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use weir_store::accounts::Scope;
use weir_store::{Imported, Visibility};

type Page = Result<Answer, Fault>;

fn json<T: serde::Serialize>(value: &T) -> Page {
    Ok(Answer::text("application/json", written(value)?))
}

pub(super) async fn server(State(site): State<Arc<Site>>) -> Page {
    let pushes = site.central.as_ref().map(|central| &central.options);
    json(&Server {
        weir: site.program.version(),
        push: pushes.is_some(),
        licence: pushes.map(|pushes| pushes.licence.clone()),
        bundle_bytes: pushes.map(|pushes| pushes.bundle_bytes),
    })
}

pub(super) async fn openapi(State(site): State<Arc<Site>>) -> Page {
    json(&document::document(&site.program.version()))
}

pub(super) async fn account(State(site): State<Arc<Site>>, who: Who) -> Page {
    let bearer = who.program(Scope::Read)?.clone();
    let account = site.stores.whole(move |store| Ok(store.account(bearer.account)?)).await?;
    let account = account.ok_or_else(|| Fault::Missing("the account went away".to_owned()))?;
    let bearer = who.program(Scope::Read)?;
    json(&Account {
        name: account.name,
        token: bearer.key.clone(),
        scope: bearer.scope,
        quota: account.quota,
        used: account.used,
    })
}

pub(super) async fn list(State(site): State<Arc<Site>>, who: Who, RawQuery(query): RawQuery) -> Page {
    let (filter, _) = Filter::read(&query.unwrap_or_default())?;
    let found = filter.find(&*site.index(&who).await?);
    let shown = found.runs.iter().skip(filter.page.saturating_mul(filter.per())).take(filter.per());
    let runs = shown.map(|run| OneRun::of(run, who.viewer)).collect();
    json(&Runs { total: found.runs.len(), runs })
}

pub(super) async fn one(State(site): State<Arc<Site>>, who: Who, Path(run): Path<String>) -> Page {
    json(&line(&site, &who, &run).await?)
}

/// A run in one line.
async fn line(site: &Arc<Site>, who: &Who, run: &str) -> Result<OneRun, Fault> {
    let (which, viewer) = (pages::selector(run)?, who.viewer);
    let entry = site.stores.read(viewer, move |view| crate::catalogue::one(view, view.find(&which)?));
    Ok(OneRun::of(&entry.await?, viewer))
}

pub(super) async fn file(site: State<Arc<Site>>, who: Who, path: Path<(String, String)>) -> Page {
    pages::run_file(site, who, path).await
}

pub(super) async fn compare(site: State<Arc<Site>>, who: Who, query: RawQuery) -> Page {
    pages::comparison(site, who, query).await
}

pub(super) async fn history(site: State<Arc<Site>>, who: Who, query: RawQuery) -> Page {
    pages::history_document(site, who, query).await
}

pub(super) async fn push(
    State(site): State<Arc<Site>>,
    who: Who,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    if site.central.is_none() {
        let why = "this server takes no runs; started with `weir serve --allow-push` it does";
        return Err(Fault::Forbidden(why.to_owned()));
    }
    let bearer = who.program(Scope::Push)?;
    is_of(&headers, &["application/gzip", "application/x-gzip", "application/octet-stream"])?;
    let visibility = visibility(&query.unwrap_or_default())?;
    let kept = upload::take(&site, bearer, visibility, &headers, body).await?;
    let (became, status) = match kept.imported {
        Imported::Added(_) => (Became::Added, StatusCode::CREATED),
        Imported::Known(_) => (Became::Known, StatusCode::OK),
        Imported::Older(_) => (Became::Older, StatusCode::OK),
        Imported::Continued(_) => (Became::Continued, StatusCode::OK),
    };
    let page = format!("/runs/{}", kept.uuid);
    let pushed = Pushed {
        name: kept.name,
        became,
        page: page.clone(),
        bundle: kept.address,
        shared: Shared::of(&kept.share, who.viewer),
        uuid: kept.uuid,
    };
    let mut response = (status, json(&pushed)?).into_response();
    if let Ok(page) = HeaderValue::try_from(page) {
        response.headers_mut().insert(header::LOCATION, page);
    }
    Ok(response)
}

/// Whether a body is of one of these kinds, where its kind is told.
fn is_of(headers: &HeaderMap, kinds: &[&str]) -> Result<(), Fault> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kinds.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
        return Ok(());
    }
    let kind = crate::catalogue::short(kind, 60);
    Err(Fault::Kind(format!(
        "the body is `{kind}`, and this takes {}; send the header Content-Type",
        kinds[0]
    )))
}

fn visibility(query: &str) -> Result<Option<Visibility>, Fault> {
    let mut found = None;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key != "visibility" {
            let key = crate::catalogue::short(&key, 40);
            return Err(Fault::Bad(format!("a push knows `visibility` and no `{key}`")));
        }
        let wrong = |error: weir_store::ParseVisibilityError| Fault::Bad(error.to_string());
        found = Some(value.parse().map_err(wrong)?);
    }
    Ok(found)
}

pub(super) async fn change(
    State(site): State<Arc<Site>>,
    who: Who,
    Path(run): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Page {
    let account = who.program(Scope::Push)?.account;
    is_of(&headers, &["application/json"])?;
    let Change { visibility } = serde_json::from_slice(&body)
        .map_err(|error| Fault::Bad(format!("the body is no JSON of a change: {error}")))?;
    pages::changed(&site, &who, &run, account, Some(visibility)).await?;
    json(&line(&site, &who, &run).await?)
}

pub(super) async fn remove(
    State(site): State<Arc<Site>>,
    who: Who,
    Path(run): Path<String>,
) -> Result<StatusCode, Fault> {
    let account = who.program(Scope::Push)?.account;
    pages::changed(&site, &who, &run, account, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

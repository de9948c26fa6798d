//! An account's page: a token is entered once, then its runs are there, and who may see each.

use super::start::fields;
use super::{Here, command, page as framed, selector, wide};
use crate::answer::{Answer, Fault};
use crate::catalogue::short;
use crate::central::sessions::Session;
use crate::central::who::{Who, entered};
use crate::central::{Central, who};
use crate::site::Site;
use crate::start::door::{FIELD, from_our_pages};
use crate::start::form::Filled;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::sync::Arc;
use weir_store::accounts::{Account, Bearer, Scope};
use weir_store::{Share, Visibility};
use weir_trial::run::Run;
use weir_units::utc;

/// Runs of an account that its page lists; the list of runs has all.
const LISTED: usize = 200;

/// What is there only with `--allow-push`.
fn central(site: &Site) -> Result<&Central, Fault> {
    site.central.as_ref().ok_or_else(|| {
        let why = "this server has no accounts; started with `weir serve --allow-push` it takes runs from those who have a token";
        Fault::Forbidden(why.to_owned())
    })
}

/// The page: a door for whoever is not known, else the account.
pub(crate) async fn page(State(site): State<Arc<Site>>, who: Who) -> Result<Answer, Fault> {
    let central = central(&site)?;
    let (Some(bearer), Some(session)) = (who.bearer.clone(), who.session.clone()) else {
        return Ok(door(central, None));
    };
    let number = bearer.account;
    let account = site.stores.whole(move |store| Ok(store.account(number)?)).await?;
    let account = account.ok_or_else(|| Fault::Missing("the account went away".to_owned()))?;
    let index = site.index(&who).await?;
    let own = index.runs.iter().filter(|run| who.viewer.owns(run.outline.share.as_ref()));
    let own: Vec<_> = own.take(LISTED).cloned().collect();
    let main = html! {
        h1 { "Account " (bearer.name) }
        (facts(central, &account, &bearer))
        h2 { "Runs" }
        @if own.is_empty() { p { "Nothing was pushed yet." } } @else {
            (wide("Runs of this account", html! {
                table class="list" {
                    thead { tr { @for head in ["Run", "Begun", "Pushed", "Seen by"] { th scope="col" { (head) } } th scope="col" class="n" { "Bytes" } } }
                    tbody { @for run in &own { @if let Some(share) = &run.outline.share {
                        tr {
                            th scope="row" { a href=(format!("/runs/{}", run.address())) { (short(&run.outline.name, 60)) } }
                            td { (utc(run.outline.started_ms, utc::MINUTE)) }
                            td { (utc(share.pushed_ms, utc::MINUTE)) }
                            td { (seen_by(share.visibility)) }
                            td class="n" { (share.bytes) }
                        }
                    } } }
                }
            }))
            p class="hint" { "On its own page each can be changed and deleted." }
        }
        form action="/account/leave" method="post" { (word(&session)) button { "Leave" } }
    };
    Ok(framed("Account", Here::Account, &main))
}

fn facts(central: &Central, account: &Account, bearer: &Bearer) -> Markup {
    let scope = match bearer.scope {
        Scope::Push => "push, change and delete",
        Scope::Read => "read",
    };
    let facts = [
        ("Runs", format!("{} of {}", account.used.runs, account.quota.runs)),
        ("Bytes, unpacked", format!("{} of {}", account.used.bytes, account.quota.bytes)),
        ("This token", format!("{}, may {scope}", bearer.key)),
        ("Licence of what is pushed", central.options.licence.clone()),
    ];
    html! {
        table class="facts" { tbody { @for (fact, value) in facts { tr { th scope="row" { (fact) } td { (value) } } } } }
        p { "To push a run: " (command("weir push ADDRESS RUN --token-file FILE")) }
    }
}

/// Who may see a run, in words.
pub(super) fn seen_by(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Public => "everybody",
        Visibility::Unlisted => "whoever has its address",
        Visibility::Private => "this account",
    }
}

fn word(session: &Session) -> Markup {
    html! { input type="hidden" name=(FIELD) value=(session.word); }
}

/// Where a token is entered.
fn door(central: &Central, wrong: Option<&str>) -> Answer {
    let main = html! {
        h1 { "Account" }
        p { "Runs are pushed to this server by those who have a token of its administrator. What they push is under this licence: " (central.options.licence) "." }
        @if let Some(why) = wrong { p class="state bad" role="alert" { (why) } }
        form class="inline" action="/account/enter" method="post" {
            input type="text" name="username" value="weir" autocomplete="username" hidden;
            label for="token" { "Token" }
            input id="token" name="token" type="password" autocomplete="current-password" required maxlength="200";
            button { "Enter" }
        }
        p class="hint" { "A cookie stands for the token then: for 12 hours, or until nothing was asked for an hour." }
    };
    framed("Account", Here::Account, &main)
}

/// Takes a token, and begins a session.
pub(crate) async fn enter(State(site): State<Arc<Site>>, request: Request) -> Result<Response, Fault> {
    let central = central(&site)?;
    let (parts, body) = request.into_parts();
    from_our_pages(&parts.headers)?;
    let body = axum::body::to_bytes(body, site.options.limits.body_bytes).await;
    let body = body.map_err(|_| Fault::Large("a form has 256 KiB at most".to_owned()))?;
    let fields = fields(&parts.headers, &body)?;
    let token = fields.get("token").map_or("", String::as_str).trim().to_owned();
    let address = who::address(site.options.proxied, &parts);
    let bearer = match entered(&site, central, address, &token).await {
        Ok(bearer) => bearer,
        Err(Fault::Unknown(_)) => {
            return Ok(
                door(central, Some("This is no token of this server, or it was revoked.")).into_response()
            );
        }
        Err(fault) => return Err(fault),
    };
    // Whoever had a session in this browser before has none now.
    central.sessions.end(&parts.headers);
    let cookie = central.sessions.begin(&bearer.key).map_err(Fault::Broken)?;
    with_cookie(Redirect::to("/account").into_response(), &cookie)
}

/// Ends the session.
pub(crate) async fn leave(
    State(site): State<Arc<Site>>,
    who: Who,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Fault> {
    let central = central(&site)?;
    from_our_pages(&headers)?;
    let fields = fields(&headers, &body)?;
    let is_ours = who.session.is_some_and(|session| fields.get(FIELD) == Some(&session.word));
    if !is_ours {
        return Ok(Redirect::to("/account").into_response());
    }
    with_cookie(Redirect::to("/account").into_response(), &central.sessions.end(&headers))
}

fn with_cookie(mut response: Response, cookie: &str) -> Result<Response, Fault> {
    let cookie = HeaderValue::try_from(cookie).map_err(|error| Fault::Broken(error.to_string()))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// What stands with a run that was pushed, and for its account the ways to change it.
pub(super) fn of_run(run: &Run, share: &Share, session: Option<&Session>) -> Markup {
    let at = format!("/runs/{}", super::address_of(run));
    html! {
        p class="share" {
            "Pushed by " strong { (share.by) } " on " (utc(share.pushed_ms, utc::DAY)) ". Licence: " (licence(&share.licence)) "."
            @if share.visibility != Visibility::Public { " Seen by " (seen_by(share.visibility)) "." }
        }
        @if let Some(session) = session {
            details class="share" {
                summary { "Who may see it" }
                form class="inline" action=(format!("{at}/visibility")) method="post" {
                    (word(session))
                    @for visibility in Visibility::ALL {
                        label { input type="radio" name="visibility" value=(visibility) checked[visibility == share.visibility]; " " (visibility) ": " (seen_by(visibility)) } " "
                    }
                    button { "Change" }
                }
                form class="inline" action=(format!("{at}/delete")) method="post" {
                    (word(session))
                    label { input type="checkbox" name="sure" value="yes" required; " Forget this run here, with all that was measured in it" } " "
                    button { "Delete" }
                }
            }
        }
    }
}

/// A licence, with its address as a link where it ends in one.
fn licence(text: &str) -> Markup {
    let link = text.rsplit([' ', ',']).next().filter(|link| link.starts_with("https://"));
    let name = link.map_or(text, |link| text[..text.len() - link.len()].trim_end_matches([' ', ',']));
    html! { @match link { Some(link) if !name.is_empty() => a rel="license" href=(link) { (name) }, _ => (text) } }
}

/// The account that sent a form of ours, and what is in it.
fn sent(site: &Site, who: &Who, headers: &HeaderMap, body: &[u8]) -> Result<(i64, Filled), Fault> {
    central(site)?;
    let fields = fields(headers, body)?;
    let account = who.form(headers, fields.get(FIELD).map_or("", String::as_str))?.account;
    Ok((account, fields))
}

/// Changes who may see a run.
pub(crate) async fn change(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    who: Who,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Fault> {
    let (account, fields) = sent(&site, &who, &headers, &body)?;
    let visibility = fields.get("visibility").map_or("", String::as_str);
    let visibility: Visibility = visibility
        .parse()
        .map_err(|error: weir_store::ParseVisibilityError| Fault::Bad(error.to_string()))?;
    changed(&site, &who, &name, account, Some(visibility)).await?;
    Ok(Redirect::to(&format!(
        "/runs/{}",
        form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>()
    ))
    .into_response())
}

/// Forgets a run.
pub(crate) async fn delete(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    who: Who,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Fault> {
    let (account, fields) = sent(&site, &who, &headers, &body)?;
    if fields.get("sure").is_none_or(|sure| sure != "yes") {
        return Err(Fault::Bad("tick that the run is to be forgotten, and send the form again".to_owned()));
    }
    changed(&site, &who, &name, account, None).await?;
    Ok(Redirect::to("/account").into_response())
}

/// Changes who may see a run of an account, or forgets it.
pub(crate) async fn changed(
    site: &Arc<Site>,
    who: &Who,
    name: &str,
    account: i64,
    visibility: Option<Visibility>,
) -> Result<(), Fault> {
    let (which, viewer) = (selector(name)?, who.viewer);
    let done = site.stores.write(move |store| {
        let run = store.view(viewer).find(&which)?;
        let done = match visibility {
            Some(visibility) => store.set_visibility(run, account, visibility)?,
            None => store.remove_shared(run, account)?,
        };
        if done { Ok(()) } else { Err(Fault::Forbidden("this run is another account's".to_owned())) }
    });
    done.await?;
    site.catalogue.forget();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_a_link_where_it_names_one_and_nothing_else_is() {
        let said = |text: &str| licence(text).into_string();
        assert_eq!(
            said(crate::central::LICENCE),
            "<a rel=\"license\" href=\"https://creativecommons.org/licenses/by/4.0/\">CC BY 4.0</a>"
        );
        assert_eq!(said("MIT"), "MIT");
        assert_eq!(said("x, javascript:alert(1)"), "x, javascript:alert(1)");
        assert_eq!(
            said("<b>, https://a.example/\"onload=x"),
            "<a rel=\"license\" href=\"https://a.example/&quot;onload=x\">&lt;b&gt;</a>"
        );
        assert_eq!(said("https://a.example/"), "https://a.example/");
    }
}

//! What holds for every request: whom it is meant for, how long it may take, what a browser may do with the answer, and that an
//! answer which the client has already is not sent again.

use crate::answer::{Fault, Policy, policy};
use crate::api;
use crate::central::who;
use crate::pages;
use crate::site::Site;
use crate::start::door::borne;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// What went wrong, for the page that says it.
#[derive(Clone, Debug)]
pub(crate) struct Failed(pub(crate) String);

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, what) = self.said();
        let mut response = (status, format!("{what}\n")).into_response();
        let again = match &self {
            Self::Often { seconds, .. } => Some(*seconds),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(2),
        };
        if let Some(seconds) = again {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Failed(what));
        response
    }
}

/// Answers a request, or says why not.
pub(crate) async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let headers = request.headers().clone();
    let response = match meant_for_us(&site, &request) {
        Err(fault) => fault.into_response(),
        Ok(()) => {
            match tokio::time::timeout(allowed(&site, &request), answered(&site, request, next)).await {
                Ok(response) => response,
                Err(_) => late(&site).into_response(),
            }
        }
    };
    let response = explained(response, &method, &headers, &path);
    let mut response = unless_known(response, &headers);
    secure(&site, &mut response, &headers, &path);
    response
}

/// How long an answer may take: a bundle comes before it, and is verified.
fn allowed(site: &Site, request: &Request) -> Duration {
    let limits = site.options.limits;
    let is_push =
        request.method() == Method::POST && request.uri().path().strip_prefix(api::BASE) == Some("/runs");
    if is_push && site.central.is_some() { limits.push } else { limits.answer }
}

/// Finds out who asks, and has the request answered. A token is looked at here first, where a wrong one waits: that of measuring where
/// there are no accounts, and at its own pages.
async fn answered(site: &Arc<Site>, request: Request, next: Next) -> Response {
    let is_measuring = site.central.is_none() || request.uri().path().starts_with("/start");
    if is_measuring
        && let (Some(start), Some(token)) = (&site.start, borne(request.headers()))
        && let Err(fault) = start.door.looks_at(token).await
    {
        return fault.into_response();
    }
    let (mut parts, body) = request.into_parts();
    match who::identify(site, &parts).await {
        Ok(known) => {
            parts.extensions.insert(known);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(fault) => fault.into_response(),
    }
}

fn late(site: &Site) -> Fault {
    let seconds = site.options.limits.answer.as_secs();
    Fault::Late(format!(
        "there was no answer within {seconds} s; the machine may be measuring: try again later"
    ))
}

/// Whether the name that the client asked for is one of ours.
fn meant_for_us(site: &Site, request: &Request) -> Result<(), Fault> {
    let refused = |name: &str| {
        Fault::Misdirected(format!(
            "this server does not answer to the name `{}`; ask for it by its address or as localhost, or start it with \
             `weir serve --host NAME`",
            crate::catalogue::short(name, 100)
        ))
    };
    let of_header = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    let names: Vec<&str> =
        request.uri().authority().map(|name| name.as_str()).into_iter().chain(of_header).collect();
    if names.is_empty() {
        return Err(Fault::Bad("the request has no header Host, which HTTP/1.1 asks for".to_owned()));
    }
    names
        .iter()
        .try_for_each(|name| if is_ours(&site.options.hosts, name) { Ok(()) } else { Err(refused(name)) })
}

/// An address is always ours: whoever rebinds a name to it asks by that name.
fn is_ours(hosts: &[String], host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => return inside.parse::<Ipv6Addr>().is_ok(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A fault as a page for browsers, and as the sentence itself for programs.
fn explained(response: Response, method: &Method, headers: &HeaderMap, path: &str) -> Response {
    let status = response.status();
    if status.is_success() || status.is_redirection() {
        return response;
    }
    let what = match response.extensions().get::<Failed>() {
        Some(Failed(what)) => what.clone(),
        None => by_itself(status, method, path),
    };
    let what = match status {
        // Where the database is, and what it says, is for whoever runs the server.
        StatusCode::INTERNAL_SERVER_ERROR => {
            eprintln!("weir: {method} {}: {what}", crate::catalogue::short(path, 100).escape_debug());
            "the server failed; its log says how".to_owned()
        }
        _ => what,
    };
    let reads_pages = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|kinds| kinds.to_str().is_ok_and(|kinds| kinds.contains("text/html")));
    let mut said = match reads_pages {
        _ if path.starts_with(api::BASE) => api::problem(status, &what).into_response(),
        true => pages::fault::page(status, &what).into_response(),
        false => (status, format!("{what}\n")).into_response(),
    };
    *said.status_mut() = status;
    said.headers_mut().remove(header::ETAG);
    said.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for name in [header::ALLOW, header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
        if let Some(value) = response.headers().get(&name) {
            said.headers_mut().insert(name, value.clone());
        }
    }
    if method == Method::HEAD {
        *said.body_mut() = Body::empty();
    }
    said
}

/// What the framework says without words.
fn by_itself(status: StatusCode, method: &Method, path: &str) -> String {
    let path = crate::catalogue::short(path, 100);
    match status {
        StatusCode::NOT_FOUND => format!("there is nothing at {path}"),
        StatusCode::METHOD_NOT_ALLOWED => {
            format!("{path} cannot be asked with {method}; the header Allow says how")
        }
        StatusCode::PAYLOAD_TOO_LARGE => "what was sent is larger than this server takes".to_owned(),
        status => status.to_string(),
    }
}

/// Nothing but the head where the client has just this answer (RFC 9110, section 13.1.2).
fn unless_known(mut response: Response, headers: &HeaderMap) -> Response {
    let Some(tag) = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()) else {
        return response;
    };
    let mut known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let is_it = |one: &str| matches!(one.trim(), "*") || one.trim().trim_start_matches("W/") == tag;
    if response.status() == StatusCode::OK && known.any(|tags| tags.split(',').any(is_it)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_TYPE);
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}

/// What a browser may do with an answer.
fn secure(site: &Site, response: &mut Response, asked: &HeaderMap, path: &str) {
    let policy =
        response.extensions().get::<Policy>().map_or_else(|| policy("", ""), |policy| policy.0.clone());
    let fixed = [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        // A badge is made for other pages; they get what everybody gets, as no cookie is sent along.
        (
            "cross-origin-resource-policy",
            if path.starts_with("/badge/") { "cross-origin" } else { "same-origin" },
        ),
    ];
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if site.options.is_secure() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    let Some(central) = &site.central else { return };
    // What one account sees is kept for nobody.
    headers.insert(header::VARY, HeaderValue::from_static("cookie, authorization"));
    let is_somebodys = asked.contains_key(header::AUTHORIZATION) || central.sessions.of(asked).is_some();
    let lasts =
        headers.get(header::CACHE_CONTROL).is_some_and(|cache| cache.as_bytes().starts_with(b"public"));
    if is_somebodys && !lasts {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_names_that_were_given_are_ours() {
        let hosts = ["lab.example".to_owned()];
        for name in
            ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "192.0.2.7", "Lab.Example:80"]
        {
            assert!(is_ours(&hosts, name), "{name}");
        }
        for name in [
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[x]",
            "lab.example.",
            "?",
        ] {
            assert!(!is_ours(&hosts, name), "{name}");
        }
    }
}

//! Who asks: nobody in particular, or an account, by the token that a program sends or the session of a browser.

use super::sessions::Session;
use super::{Central, now_ms, throttle};
use crate::answer::Fault;
use crate::site::Site;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use weir_store::Viewer;
use weir_store::accounts::{Bearer, Scope, TOKEN_PREFIX};

/// The address of the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Who asks. A handler that reads runs takes it from the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    /// What the store knows them as.
    pub(crate) viewer: Viewer,
    /// Whom their token stands for.
    pub(crate) bearer: Option<Bearer>,
    /// The session that they are known by; nothing of a program that sends its token.
    pub(crate) session: Option<Session>,
}

impl Who {
    /// The account that a program asks for, whose token may do that much. A session does not do: what it may, its pages do.
    pub(crate) fn program(&self, scope: Scope) -> Result<&Bearer, Fault> {
        match (&self.bearer, &self.session) {
            (Some(bearer), None) => may(bearer, scope),
            _ => Err(Fault::Unknown(
                "this takes a token: send the header `Authorization: Bearer TOKEN`".to_owned(),
            )),
        }
    }

    /// The account of a form that our own pages sent.
    pub(crate) fn form(&self, headers: &HeaderMap, word: &str) -> Result<&Bearer, Fault> {
        crate::start::door::from_our_pages(headers)?;
        let (Some(bearer), Some(session)) = (&self.bearer, &self.session) else {
            return Err(Fault::Forbidden("this takes an account; enter its token at /account".to_owned()));
        };
        if !crate::start::door::same(word, &session.word) {
            let why =
                "the form is of another time, or of another page; load its page again and send it from there";
            return Err(Fault::Forbidden(why.to_owned()));
        }
        may(bearer, Scope::Push)
    }
}

fn may(bearer: &Bearer, scope: Scope) -> Result<&Bearer, Fault> {
    if scope == Scope::Push && bearer.scope != Scope::Push {
        return Err(Fault::Forbidden(format!(
            "token {} may only read; `weir account token {}` makes one that may push",
            bearer.key, bearer.name
        )));
    }
    Ok(bearer)
}

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Finds out who asks. A token that is wrong is an error; a session that is over is nobody.
pub(crate) async fn identify(site: &Arc<Site>, parts: &Parts) -> Result<Who, Fault> {
    let Some(central) = &site.central else { return Ok(Who::default()) };
    // Measuring has a token of its own.
    if parts.uri.path().starts_with("/start") || parts.uri.path().starts_with("/static") {
        return Ok(Who::default());
    }
    if let Some(token) = bearer_token(&parts.headers) {
        let bearer = entered(site, central, address(site.options.proxied, parts), token).await?;
        return Ok(Who { viewer: Viewer::Account(bearer.account), bearer: Some(bearer), session: None });
    }
    let Some(session) = central.sessions.of(&parts.headers) else { return Ok(Who::default()) };
    let key = session.key.clone();
    let bearer = site.stores.whole(move |store| Ok(store.bearer_by_key(&key)?)).await?;
    Ok(match bearer {
        Some(bearer) => {
            Who { viewer: Viewer::Account(bearer.account), bearer: Some(bearer), session: Some(session) }
        }
        None => Who::default(),
    })
}

/// The token of a request. What a proxy in front asks of its readers (`Basic`) is none.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whom a token stands for that somebody gave; one that is wrong is answered slowly, and at last not at all.
pub(crate) async fn entered(
    site: &Arc<Site>,
    central: &Central,
    address: IpAddr,
    token: &str,
) -> Result<Bearer, Fault> {
    if let Some(wait) = central.throttle.refused(address) {
        return Err(Fault::Often {
            what: format!("too many wrong tokens came from {address}; try again in {} s", wait.as_secs() + 1),
            seconds: wait.as_secs() + 1,
        });
    }
    let given = token.to_owned();
    let bearer = match token.starts_with(TOKEN_PREFIX) {
        true => site.stores.whole(move |store| Ok(store.bearer(&given)?)).await?,
        false => None,
    };
    let Some(bearer) = bearer else {
        central.throttle.failed(address);
        tokio::time::sleep(throttle::PAUSE).await;
        let what =
            "the token is wrong, or was revoked; `weir account list` on the server has those that are good";
        return Err(Fault::Unknown(what.to_owned()));
    };
    let used = bearer.clone();
    // That it was used is worth knowing, and no reason to refuse anything.
    let _ = site.stores.write(move |store| Ok(store.used(&used, now_ms())?)).await;
    Ok(bearer)
}

/// Where a request comes from: the other end of its connection, or what our proxy says of it.
pub(crate) fn address(proxied: bool, parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
    if !proxied {
        return peer;
    }
    // The last address is what the proxy itself saw; those before it anybody may have written.
    let said =
        parts.headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).next_back();
    said.and_then(|said| said.rsplit(',').next()?.trim().parse().ok()).unwrap_or(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(lines: &[&str]) -> Parts {
        let mut request = axum::http::Request::builder().uri("/");
        for line in lines {
            request = request.header("x-forwarded-for", *line);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(Peer("192.0.2.9:1".parse().unwrap()));
        parts
    }

    #[test]
    fn an_address_is_believed_of_our_proxy_alone_and_only_what_it_saw_itself() {
        let (direct, behind) = (false, true);
        let of = |proxied, lines: &[&str]| address(proxied, &parts(lines)).to_string();
        assert_eq!(of(direct, &["198.51.100.1"]), "192.0.2.9");
        assert_eq!(of(behind, &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(of(behind, &["203.0.113.5, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(of(behind, &["203.0.113.5", "198.51.100.1"]), "198.51.100.1");
        assert_eq!(of(behind, &["nonsense"]), "192.0.2.9");
        assert_eq!(of(behind, &[]), "192.0.2.9");
    }
}

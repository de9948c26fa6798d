//! Who may measure: whoever has the token that the server printed when it was started.
//!
//! A browser gives the token once and has a cookie from then on, which no script reads and no other site makes it send
//! (`SameSite=Strict`). Each form carries a word that only our pages know, and a request that says it comes from another site is
//! refused: three fences against forged requests, of which one would do. Programs send `Authorization: Bearer TOKEN`.

use crate::answer::Fault;
use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The cookie's name.
const COOKIE: &str = "weir_runs";
/// The field of forms that holds the word.
pub(crate) const FIELD: &str = "word";

/// The token, and what is given in its place.
pub(crate) struct Door {
    token: String,
    session: String,
    word: String,
}

impl Door {
    /// A door with this token, else with a random one of 128 bits.
    pub(crate) fn new(token: Option<String>) -> Result<Self, String> {
        let random = || {
            let mut bytes = [0_u8; 16];
            let filled = SystemRandom::new().fill(&mut bytes);
            filled
                .map_err(|_| "the system gives no random numbers, of which the token is made".to_owned())?;
            Ok::<_, String>(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        };
        let token = token.map_or_else(random, Ok)?;
        Ok(Self { token, session: random()?, word: random()? })
    }

    /// The token, to be shown to whoever started the server.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The word for our forms.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// Whether this is the token.
    pub(crate) fn opens(&self, token: &str) -> bool {
        same(token.trim(), &self.token)
    }

    /// The cookie of whoever gave the token.
    pub(crate) fn cookie(&self) -> String {
        format!("{COOKIE}={}; Path=/start; HttpOnly; SameSite=Strict", self.session)
    }

    /// Whether a request comes from somebody who gave the token.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        self.bears(headers) || pairs.any(|(name, value)| name == COOKIE && same(value, &self.session))
    }

    fn bears(&self, headers: &HeaderMap) -> bool {
        let bearer =
            headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        bearer.is_some_and(|token| self.opens(token))
    }

    /// Whether a request may change something.
    pub(crate) fn allows(&self, headers: &HeaderMap, word: &str) -> Result<(), Fault> {
        from_our_pages(headers)?;
        if !self.knows(headers) {
            return Err(Fault::Forbidden(
                "measuring takes the token that the server printed; give it at /start".to_owned(),
            ));
        }
        if !self.bears(headers) && !same(word, &self.word) {
            let why =
                "the form is of another time, or of another page; load /start again and send it from there";
            return Err(Fault::Forbidden(why.to_owned()));
        }
        Ok(())
    }
}

/// Refuses what says that it comes from another site. Browsers say so truly; programs say nothing.
pub(crate) fn from_our_pages(headers: &HeaderMap) -> Result<(), Fault> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text("host").unwrap_or_default();
    let origin =
        text("origin").is_none_or(|origin| origin.split_once("://").is_some_and(|(_, name)| name == host));
    if site && origin {
        return Ok(());
    }
    Err(Fault::Forbidden("this was sent from a page of another site".to_owned()))
}

/// Whether two secrets are the same, without telling by the time it takes how far they are.
fn same(given: &str, secret: &str) -> bool {
    digest(&SHA256, given.as_bytes()).as_ref() == digest(&SHA256, secret.as_bytes()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn the_door_opens_for_the_token_and_for_our_own_forms_alone() {
        let door = Door::new(None).unwrap();
        assert!(door.opens(door.token()) && !door.opens("") && door.token().len() == 32);
        assert_ne!(door.token(), Door::new(None).unwrap().token());
        let cookie = door.cookie().split(';').next().unwrap().to_owned();
        let (with, word) = (("cookie", cookie.as_str()), door.word().to_owned());
        let host = ("host", "localhost:8080");
        let allows = |lines: &[(&'static str, &str)], word: &str| door.allows(&headers(lines), word).is_ok();
        assert!(allows(&[host, with], &word));
        assert!(allows(
            &[host, with, ("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")],
            &word
        ));
        assert!(allows(&[host, ("cookie", &format!("a=b; {cookie}"))], &word));
        assert!(allows(&[("authorization", &format!("Bearer {}", door.token()))], ""));
        assert!(!allows(&[host, with], ""), "a form of somebody else's");
        assert!(!allows(&[host], &word), "no cookie");
        assert!(!allows(&[host, ("cookie", "weir_runs=")], &word));
        assert!(!allows(&[host, with, ("origin", "http://evil.example")], &word));
        assert!(!allows(&[host, with, ("origin", "null")], &word));
        assert!(!allows(&[host, with, ("sec-fetch-site", "cross-site")], &word));
        assert!(!allows(&[("authorization", "Bearer x")], &word));
    }
}

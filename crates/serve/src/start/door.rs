//! Who may measure: whoever has the token that the server printed when it was started.
//!
//! A browser gives the token once and has a cookie from then on, which no script reads and no other site makes it send
//! (`SameSite=Strict`). Each form carries a word that only our pages know, and a request that says it comes from another site is
//! refused: three fences against forged requests, of which one would do. Programs send `Authorization: Bearer TOKEN`.
//!
//! Guesses: a wrong token is answered late, and while [`LOOKS`] are being looked at no other one is. So there are
//! `LOOKS / LATE` guesses a second at the most, over however many connections, and none of them keeps a reader waiting.

use crate::answer::Fault;
use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How late a wrong token is answered: a person who errs does not notice.
const LATE: Duration = Duration::from_millis(300);
/// Tokens that are looked at at a time.
const LOOKS: usize = 8;
/// What the cookie's name begins with; the port follows, as browsers send the cookies of one host to all of its ports.
const COOKIE: &str = "weir_runs_";
/// The field of forms that holds the word.
pub(crate) const FIELD: &str = "word";

/// The token, and what is given in its place.
pub(crate) struct Door {
    token: String,
    session: String,
    word: String,
    /// The cookie's name.
    cookie: String,
    /// Whether browsers reach the server over TLS.
    secure: bool,
    looks: Semaphore,
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
        let (session, word) = (random()?, random()?);
        Ok(Self {
            token,
            session,
            word,
            cookie: COOKIE.to_owned(),
            secure: false,
            looks: Semaphore::new(LOOKS),
        })
    }

    /// The door of the server at this port of its host, whose cookie is not that of another one there, over TLS or not.
    pub(crate) fn at(&mut self, port: u16, secure: bool) {
        self.cookie = format!("{COOKIE}{port}");
        self.secure = secure;
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
    fn opens(&self, token: &str) -> bool {
        same(token.trim(), &self.token)
    }

    /// Whether this is the token, for whoever comes with one; of a wrong one it is said late.
    pub(crate) async fn looks_at(&self, token: &str) -> Result<bool, Fault> {
        let _look = self.looks.try_acquire().map_err(|_| Fault::Often {
            what: "too many wrong tokens are being tried; try again in a moment".to_owned(),
            seconds: 2,
        })?;
        let opens = self.opens(token);
        if !opens {
            tokio::time::sleep(LATE).await;
        }
        Ok(opens)
    }

    /// The cookie of whoever gave the token.
    pub(crate) fn cookie(&self) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{}={}; Path=/start; HttpOnly; SameSite=Strict{secure}", self.cookie, self.session)
    }

    /// Whether a request comes from somebody who gave the token.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        self.bears(headers) || pairs.any(|(name, value)| name == self.cookie && same(value, &self.session))
    }

    fn bears(&self, headers: &HeaderMap) -> bool {
        borne(headers).is_some_and(|token| self.opens(token))
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

/// The token that a program sends.
pub(crate) fn borne(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
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
pub(crate) fn same(given: &str, secret: &str) -> bool {
    digest(&SHA256, given.as_bytes()).as_ref() == digest(&SHA256, secret.as_bytes()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::sync::Arc;
    use std::time::Instant;
    use tokio::task::JoinSet;

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
        assert!(!allows(&[host, ("cookie", "weir_runs_=")], &word));
        assert!(!allows(&[host, with, ("origin", "http://evil.example")], &word));
        assert!(!allows(&[host, with, ("origin", "null")], &word));
        assert!(!allows(&[host, with, ("sec-fetch-site", "cross-site")], &word));
        assert!(!allows(&[("authorization", "Bearer x")], &word));
    }

    #[test]
    fn two_servers_of_one_host_have_cookies_of_their_own() {
        let [mut one, mut other] = [(); 2].map(|()| Door::new(Some("a-token-of-both".to_owned())).unwrap());
        one.at(8080, false);
        other.at(8081, true);
        assert!(!one.cookie().contains("Secure") && other.cookie().ends_with("; Secure"));
        let pair = |door: &Door| door.cookie().split(';').next().unwrap().to_owned();
        let both = format!("{}; {}", pair(&one), pair(&other));
        assert!(pair(&one).starts_with("weir_runs_8080=") && pair(&other).starts_with("weir_runs_8081="));
        assert!(one.knows(&headers(&[("cookie", &both)])) && other.knows(&headers(&[("cookie", &both)])));
        assert!(!one.knows(&headers(&[("cookie", &pair(&other))])));
    }

    #[tokio::test]
    async fn guesses_are_answered_late_and_few_at_a_time() {
        let door = Arc::new(Door::new(Some("a-token-of-the-tests".to_owned())).unwrap());
        assert!(door.looks_at("a-token-of-the-tests").await.unwrap());
        let begun = Instant::now();
        let mut guesses = JoinSet::new();
        for _ in 0..20 {
            let door = Arc::clone(&door);
            guesses.spawn(async move { door.looks_at("guess").await });
        }
        let answers = guesses.join_all().await;
        assert!(begun.elapsed() >= LATE);
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(false))).count(), LOOKS);
        assert_eq!(
            answers.iter().filter(|answer| matches!(answer, Err(Fault::Often { .. }))).count(),
            20 - LOOKS
        );
        assert!(door.looks_at("a-token-of-the-tests").await.unwrap(), "and it opens again");
    }
}

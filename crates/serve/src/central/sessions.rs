//! Browsers that gave a token: a cookie stands for it from then on.
//!
//! A session is in memory, by the hash of its cookie, and names the token by its key: one that is revoked ends its sessions at
//! once, as each request looks. No script reads the cookie (`HttpOnly`), other sites do not have it sent along with forms and
//! pictures (`SameSite=Lax`), over TLS it is sent over nothing else (`Secure`, `__Host-`), and what changes something takes a word
//! that our own forms alone have. A server that is started anew has forgotten all sessions.

use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A session that nothing was asked in ends after this.
const IDLE: Duration = Duration::from_secs(3600);
/// Every session ends after this.
const WHOLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time, of all and of one token.
const MOST: usize = 10_000;
const MOST_OF_TOKEN: usize = 20;

/// What a cookie stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The key of the token.
    pub(crate) key: String,
    /// The word for forms.
    pub(crate) word: String,
}

struct Kept {
    session: Session,
    begun: Instant,
    seen: Instant,
}

impl Kept {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= WHOLE || now.saturating_duration_since(self.seen) >= IDLE
    }
}

type Hash = [u8; 32];

/// All sessions.
pub(crate) struct Sessions {
    secure: bool,
    kept: Mutex<HashMap<Hash, Kept>>,
}

impl Sessions {
    /// Sessions of a server that browsers reach over TLS, or not.
    pub(crate) fn new(secure: bool) -> Self {
        Self { secure, kept: Mutex::default() }
    }

    /// Begins one for a token; the header that gives its cookie.
    pub(crate) fn begin(&self, key: &str) -> Result<String, String> {
        self.begin_at(key, Instant::now())
    }

    /// The session of a request.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<Session> {
        self.of_at(headers, Instant::now())
    }

    /// Ends the session of a request; the header that takes its cookie away.
    pub(crate) fn end(&self, headers: &HeaderMap) -> String {
        if let Some(cookie) = self.cookie(headers) {
            self.kept().remove(&hash(cookie));
        }
        self.header("", Some(0))
    }

    fn begin_at(&self, key: &str, now: Instant) -> Result<String, String> {
        let (cookie, word) = (random()?, random()?);
        let session = Session { key: key.to_owned(), word };
        let mut kept = self.kept();
        kept.retain(|_, kept| !kept.is_over(now));
        while kept.values().filter(|kept| kept.session.key == key).count() >= MOST_OF_TOKEN {
            forget_oldest(&mut kept, |kept| kept.session.key == key);
        }
        if kept.len() >= MOST {
            forget_oldest(&mut kept, |_| true);
        }
        kept.insert(hash(&cookie), Kept { session, begun: now, seen: now });
        Ok(self.header(&cookie, None))
    }

    fn of_at(&self, headers: &HeaderMap, now: Instant) -> Option<Session> {
        let hash = hash(self.cookie(headers)?);
        let mut all = self.kept();
        let kept = all.get_mut(&hash)?;
        if kept.is_over(now) {
            all.remove(&hash);
            return None;
        }
        kept.seen = now;
        Some(kept.session.clone())
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Hash, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> &'static str {
        if self.secure { "__Host-weir_session" } else { "weir_session" }
    }

    fn header(&self, cookie: &str, age: Option<u32>) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        let age = age.map_or_else(String::new, |age| format!("; Max-Age={age}"));
        format!("{}={cookie}; Path=/; HttpOnly; SameSite=Lax{secure}{age}", self.name())
    }

    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name()).map(|(_, value)| value)
    }
}

fn forget_oldest(kept: &mut HashMap<Hash, Kept>, of: impl Fn(&Kept) -> bool) {
    let oldest =
        kept.iter().filter(|(_, kept)| of(kept)).min_by_key(|(_, kept)| kept.seen).map(|(hash, _)| *hash);
    oldest.and_then(|hash| kept.remove(&hash));
}

/// A hash, so that how long it takes to find a session tells nothing of its cookie.
fn hash(cookie: &str) -> Hash {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, cookie.as_bytes()).as_ref());
    bytes
}

/// 256 bits.
fn random() -> Result<String, String> {
    let mut bytes = [0_u8; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "the system gives no random numbers, of which sessions are made".to_owned())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, format!("other=1; {pair}").parse().unwrap())])
    }

    #[test]
    fn a_session_is_its_cookies_until_it_is_left_or_over() {
        let (sessions, begin) = (Sessions::new(false), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let cookie = sessions.begin_at("key", begin).unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Lax") && !cookie.contains("Secure"), "{cookie}");
        assert!(cookie.split(['=', ';']).nth(1).unwrap().len() == 64, "{cookie}");
        let of = |seconds| sessions.of_at(&asked(&cookie), after(seconds)).map(|session| session.key);
        assert_eq!(of(0).as_deref(), Some("key"));
        assert_eq!(sessions.of(&asked("weir_session=00")), None);
        assert_eq!(sessions.of(&HeaderMap::new()), None);
        assert!(of(3599).is_some() && of(3599 + 3599).is_some(), "it lives as it is used");
        assert_eq!(of(3599 + 3599 + 3600), None, "an hour in which nothing was asked");
        let cookie = sessions.begin_at("key", begin).unwrap();
        let of = |seconds| sessions.of_at(&asked(&cookie), after(seconds));
        assert!((0..=14).all(|turn| of(turn * 3000).is_some()));
        assert_eq!(of(12 * 3600), None, "twelve hours");
        let cookie = sessions.begin("key").unwrap();
        assert!(sessions.end(&asked(&cookie)).contains("Max-Age=0"));
        assert_eq!(sessions.of(&asked(&cookie)), None);
    }

    #[test]
    fn sessions_are_bounded_by_token_and_over_tls_the_cookie_says_so() {
        let sessions = Sessions::new(true);
        let first = sessions.begin("key").unwrap();
        assert!(
            first.starts_with("__Host-weir_session=")
                && first.contains("; Path=/; ")
                && first.ends_with("; Secure"),
            "{first}"
        );
        let other = sessions.begin("other").unwrap();
        let last = (0..MOST_OF_TOKEN).map(|_| sessions.begin("key").unwrap()).last().unwrap();
        assert_eq!(sessions.of(&asked(&first)), None, "the oldest of the token made room");
        assert!(sessions.of(&asked(&other)).is_some() && sessions.of(&asked(&last)).is_some());
    }
}

//! A server for several as the tests have it, and who is let in.

use crate::common::{Answer, Site, small, store};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_serve::{Limits, Options, Pushes};
use weir_store::accounts::{Amount, Scope};
use weir_store::bundle::{Seal, write};
use weir_store::{Store, Visibility};
use weir_trial::run::Run;

/// A server with two accounts, and the tokens of both, and one of the first that may only read.
pub(crate) struct Central {
    pub(crate) site: Site,
    pub(crate) database: PathBuf,
    pub(crate) mine: String,
    pub(crate) other: String,
    pub(crate) reader: String,
}

pub(crate) const MUCH: Amount = Amount { bytes: 1 << 40, runs: 1000 };

impl Central {
    /// With these runs in it, which nobody pushed.
    pub(crate) fn of(runs: &[Run]) -> Self {
        Self::with(runs, Pushes::default(), Limits { fresh: Duration::ZERO, ..Limits::default() })
    }

    pub(crate) fn with(runs: &[Run], pushes: Pushes, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = store(folder.path(), runs);
        Self::over(folder, database, pushes, limits)
    }

    /// Over a database that is there.
    pub(crate) fn over(folder: tempfile::TempDir, database: PathBuf, pushes: Pushes, limits: Limits) -> Self {
        let options = Options { pushes: Some(pushes), limits, ..Options::default() };
        Self::under(folder, database, options)
    }

    /// Over a database that is there, under all of these options.
    pub(crate) fn under(folder: tempfile::TempDir, database: PathBuf, options: Options) -> Self {
        let mut store = Store::open(Some(&database)).unwrap();
        let mine = store.add_account("mine", MUCH, 1).unwrap().text();
        let other = store.add_account("other", MUCH, 1).unwrap().text();
        let reader = store.add_token("mine", Scope::Read, 1).unwrap().text();
        let site = Site::under(folder, database.clone(), options);
        Self { site, database, mine, other, reader }
    }

    /// With nothing in it, behind a TLS proxy.
    fn proxied() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = store(folder.path(), &[]);
        let options = Options { pushes: Some(Pushes::default()), proxied: true, ..Options::default() };
        Self::under(folder, database, options)
    }

    /// A request of a program.
    pub(crate) fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &[u8]) -> Answer {
        let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{bearer}Content-Length: {length}\r\n\r\n",
            self.site.address
        );
        let mut stream = self.site.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses early may not read to the end.
        let _ = stream.write_all(body);
        Answer::read(stream)
    }

    /// Pushes a run, which must be taken.
    pub(crate) fn push(&self, token: &str, run: &Run, visibility: Visibility) {
        let answer =
            self.ask("POST", &format!("/api/v1/runs?visibility={visibility}"), Some(token), &bundle(run));
        assert!(matches!(answer.status, 200 | 201), "{}\n{}", answer.head, answer.body);
    }

    /// The header line of the cookie of whoever gave a token.
    pub(crate) fn enter(&self, token: &str) -> String {
        let entered = self.form("/account/enter", "", &format!("token={token}"));
        assert_eq!((entered.status, entered.header("location")), (303, Some("/account")), "{}", entered.body);
        let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        format!("Cookie: {cookie}\r\n")
    }

    /// A form as a browser sends it.
    pub(crate) fn form(&self, path: &str, lines: &str, body: &str) -> Answer {
        let (host, length) = (self.site.address, body.len());
        self.site.say(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nAccept: text/html\r\n{lines}\r\n{body}"
        ))
    }
}

/// A run as a bundle.
pub(crate) fn bundle(run: &Run) -> Vec<u8> {
    let run = Run { id: 0, ..run.clone() };
    write(&run, &serde_json::json!({}), Seal::None).unwrap().bytes
}

/// The word in the forms of a page.
fn word(page: &str) -> String {
    page.split("name=\"word\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[test]
fn a_server_that_was_not_asked_to_takes_no_runs_and_has_no_accounts() {
    let site = Site::of(&[small("otter", 1)]);
    for (method, path) in [("POST", "/api/v1/runs"), ("GET", "/account"), ("GET", "/api/v1/account")] {
        let answer = site.ask(method, path, "Content-Length: 0\r\nAuthorization: Bearer weir_0_0\r\n");
        assert!(matches!(answer.status, 401 | 403), "{path}: {} {}", answer.status, answer.body);
    }
    let page = site.get("/account");
    assert!(page.status == 403 && page.body.contains("weir serve --allow-push"), "{}", page.body);
    let said: serde_json::Value = serde_json::from_str(&site.get("/api/v1").page()).unwrap();
    assert_eq!((said["push"].as_bool(), said["licence"].as_str()), (Some(false), None));
}

#[test]
fn a_token_is_entered_once_and_a_cookie_stands_for_it_until_it_is_left_or_revoked() {
    let central = Central::of(&[small("otter", 1)]);
    let page = central.site.get("/account").page();
    assert!(page.contains("type=\"password\"") && page.contains("CC BY 4.0"), "{page}");
    let wrong = central.form("/account/enter", "", "token=weir_guess");
    assert!(
        wrong.status == 200
            && wrong.body.contains("This is no token")
            && wrong.header("set-cookie").is_none()
    );
    let entered = central.form("/account/enter", "", &format!("token={}", central.mine));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(
        cookie.contains("httponly") && cookie.contains("samesite=lax") && !cookie.contains("secure"),
        "{cookie}"
    );
    let cookie = central.enter(&central.mine);
    let page = central.site.ask("GET", "/account", &cookie);
    assert_eq!(page.header("cache-control"), Some("no-store"), "what an account sees is kept nowhere");
    let page = page.page();
    assert!(page.contains("Account mine") && page.contains("0 of 1000"), "{page}");
    // Another site's form, or one without the word, leaves it as it is.
    let word = word(&page);
    for (lines, body) in [
        (cookie.clone(), "word=0".to_owned()),
        (format!("{cookie}Origin: http://evil.example\r\n"), format!("word={word}")),
        (format!("{cookie}Sec-Fetch-Site: cross-site\r\n"), format!("word={word}")),
    ] {
        central.form("/account/leave", &lines, &body);
        assert!(central.site.ask("GET", "/account", &cookie).page().contains("Account mine"));
    }
    let left = central.form("/account/leave", &cookie, &format!("word={word}"));
    assert!(left.header("set-cookie").unwrap().contains("max-age=0"));
    assert!(central.site.ask("GET", "/account", &cookie).page().contains("type=\"password\""));
    // A token that is revoked ends its sessions at once.
    let cookie = central.enter(&central.mine);
    Store::open(Some(&central.database)).unwrap().revoke("mine", None, 9).unwrap();
    assert!(central.site.ask("GET", "/account", &cookie).page().contains("type=\"password\""));
}

#[test]
fn behind_tls_a_cookie_is_for_tls_alone_and_every_answer_says_so() {
    let central = Central::proxied();
    let entered = central.form("/account/enter", "", &format!("token={}", central.mine));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__host-weir_session=") && cookie.contains("; secure"), "{cookie}");
    assert_eq!(central.site.get("/runs").header("strict-transport-security"), Some("max-age=31536000"));
}

#[test]
fn tokens_that_are_wrong_revoked_or_may_not_are_refused_with_what_they_lack() {
    let central = Central::of(&[]);
    let bytes = bundle(&small("otter", 1));
    let push = |token: Option<&str>| central.ask("POST", "/api/v1/runs", token, &bytes);
    let none = push(None);
    assert_eq!((none.status, none.header("www-authenticate")), (401, Some("bearer")), "{}", none.body);
    assert_eq!(none.header("content-type"), Some("application/problem+json"));
    let begin = Instant::now();
    let wrong = push(Some(&central.mine.replace('a', "b").replace('0', "1")));
    assert_eq!(wrong.status, 401, "{}", wrong.body);
    assert!(begin.elapsed() >= Duration::from_millis(300), "a wrong token is answered slowly");
    let reader = push(Some(&central.reader));
    assert!(reader.status == 403 && reader.body.contains("may only read"), "{}", reader.body);
    // What a proxy asks of its readers is nobody's token, and no fault.
    assert_eq!(central.site.ask("GET", "/runs", "Authorization: Basic eDp5\r\n").status, 200);
    // A session is no token: what forms of other sites could send does nothing.
    let cookie = central.enter(&central.mine);
    let forged = central.site.ask("POST", "/api/v1/runs", &format!("{cookie}Content-Length: 0\r\n"));
    assert_eq!(forged.status, 401, "{}", forged.body);
    assert_eq!(push(Some(&central.mine)).status, 201);
    Store::open(Some(&central.database)).unwrap().revoke("mine", None, 9).unwrap();
    assert_eq!(push(Some(&central.mine)).status, 401);
}

#[test]
fn an_address_that_gives_wrong_tokens_is_refused_for_a_while_and_another_is_not() {
    let central = Central::proxied();
    let ask = |from: &str, token: &str| {
        let lines = format!("X-Forwarded-For: 203.0.113.9, {from}\r\nAuthorization: Bearer {token}\r\n");
        central.site.ask("GET", "/api/v1/account", &lines)
    };
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| assert_eq!(ask("192.0.2.1", "weir_x").status, 401));
        }
    });
    let refused = ask("192.0.2.1", &central.mine);
    assert_eq!(refused.status, 429, "{}", refused.body);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((30..=60).contains(&seconds), "{seconds}");
    assert_eq!(ask("192.0.2.2", &central.mine).status, 200);
}

//! Measuring from the page: who may, what is refused, and a measurement to its end. The real `weir bench` is driven by the tests
//! of the program (`crates/cli/tests/serve.rs`); here a script stands in its place.

use crate::common::{Answer, Site, small};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};
use weir_serve::{Limits, Options, Runs};
use weir_trial::run::Run;

pub(crate) const TOKEN: &str = "a-token-of-the-tests";

/// A site on which a script measures.
fn site(script: &str) -> Site {
    measuring(script, &[small("otter", 1)])
}

/// A site with these runs on which a script measures.
pub(crate) fn measuring(script: &str, runs: &[Run]) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("weir");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = crate::common::store(folder.path(), runs);
    let runs = Runs { program, database: Vec::new(), token: Some(TOKEN.to_owned()) };
    let limits = Limits { fresh: Duration::ZERO, ..Limits::default() };
    Site::under(folder, path, Options { runs: Some(runs), limits, ..Options::default() })
}

fn post(site: &Site, path: &str, lines: &str, body: &str) -> Answer {
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    let host = site.address;
    let length = body.len();
    site.say(&format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{kind}{lines}\r\n{body}"
    ))
}

/// The cookie of whoever gave the token, and the word of the forms.
fn entered(site: &Site) -> (String, String) {
    let entered = post(site, "/start/enter", "", &format!("token={TOKEN}"));
    assert_eq!((entered.status, entered.header("location")), (303, Some("/start")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let page = site.ask("GET", "/start", &cookie).page();
    let word = page.split("name=\"word\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    (cookie, format!("word={word}"))
}

fn until(site: &Site, path: &str, cookie: &str, says: &str) -> String {
    let begin = Instant::now();
    loop {
        let page = site.ask("GET", path, cookie).page();
        if page.contains(says) {
            return page;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "`{says}` does not come in {page}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_only_reads_measures_nothing() {
    let site = Site::of(&[small("otter", 1)]);
    for (method, path) in [("GET", "/start"), ("GET", "/start/jobs/1"), ("GET", "/start/jobs/1/events")] {
        let answer = site.ask(method, path, "");
        assert!(
            answer.status == 403 && answer.body.contains("weir serve --allow-runs"),
            "{path}: {}",
            answer.body
        );
    }
    for path in ["/start", "/start/enter", "/start/check", "/start/resume", "/start/jobs/1/stop"] {
        assert_eq!(post(&site, path, "", "token=x&word=x&action=start").status, 403, "{path}");
    }
}

#[test]
fn only_who_has_the_token_and_sends_our_own_form_may_measure() {
    let site = site("touch \"$0.ran\"; echo begun");
    let ran = || site.folder.path().join("weir.ran").exists();
    let wrong = post(&site, "/start/enter", "", "token=guess");
    assert!(
        wrong.status == 200 && wrong.body.contains("not the token") && wrong.header("set-cookie").is_none()
    );
    assert!(site.get("/start").page().contains("type=\"password\""));
    let (cookie, word) = entered(&site);
    let plan = "trace=tr3i&size=64&action=start";
    for (lines, body) in [
        (String::new(), format!("{word}&{plan}")),
        (cookie.clone(), plan.to_owned()),
        (cookie.clone(), format!("word=0&{plan}")),
        (format!("{cookie}Origin: http://evil.example\r\n"), format!("{word}&{plan}")),
        (format!("{cookie}Sec-Fetch-Site: cross-site\r\n"), format!("{word}&{plan}")),
        ("Authorization: Bearer guess\r\n".to_owned(), plan.to_owned()),
    ] {
        assert_eq!(post(&site, "/start", &lines, &body).status, 403, "{lines}{body}");
    }
    assert_eq!(site.ask("GET", "/start/jobs/1", "").status, 403);
    let text = site.say(&format!(
        "POST /start HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: text/plain\r\n{cookie}Content-Length: 5\r\n\r\nx=y=z",
        site.address
    ));
    assert_eq!(text.status, 400);
    assert_eq!(post(&site, "/start", &cookie, &format!("{word}&more={}", "x".repeat(300_000))).status, 413);
    assert!(!ran(), "nothing was measured");
    let program = post(&site, "/start", &format!("Authorization: Bearer {TOKEN}\r\n"), plan);
    assert_eq!((program.status, program.header("location")), (303, Some("/start/jobs/1")));
    until(&site, "/start/jobs/1", &cookie, "done");
    assert!(ran());
}

#[test]
fn a_form_is_checked_and_nonsense_is_said_at_its_field() {
    let site = site("echo never");
    let (cookie, word) = entered(&site);
    let checked =
        post(&site, "/start/check", &cookie, "size=bad&trace=tr3i&throughput=on&throughput.goals=ndr").page();
    assert!(
        checked.contains("cannot be used") && checked.contains("<a href=\"#f-size\">size</a>"),
        "{checked}"
    );
    assert!(checked.contains("[throughput]\ngoals = &quot;ndr&quot;"), "{checked}");
    let sent =
        post(&site, "/start", &cookie, &format!("{word}&size=bad&name=%3Cscript%3Ealert&action=start"))
            .page();
    assert!(sent.contains("cannot be used") && !sent.contains("<script>alert"), "a bad plan is not measured");
    assert!(sent.contains("value=\"&lt;script&gt;alert\""), "what was filled in stays");
    let good = post(&site, "/start", &cookie, &format!("{word}&size=64&action=check")).page();
    assert!(good.contains("can be measured"));
    assert_eq!(site.ask("GET", "/start/jobs/1", &cookie).status, 404, "nothing was begun");
    let from = site.ask("GET", "/start?from=quick", &cookie).page();
    assert!(
        from.contains("id=\"f-throughput.goals\" name=\"throughput.goals\" value=\"ndr, pdr\""),
        "{from}"
    );
    assert_eq!(site.ask("GET", "/start?from=none", &cookie).status, 404);
    let of_run = site.ask("GET", "/start?run=otter", &cookie).page();
    assert!(
        of_run.contains("functions = [&quot;l2fwd&quot;"),
        "a run's plan, and what this form has no field for as TOML"
    );
}

#[test]
fn a_measurement_is_watched_stopped_and_taken_up_again() {
    let site = site(
        "trap 'echo kept; exit 1' TERM; echo 'run otter: 3 points, about 1 min'; echo \"$@\"; while :; do sleep 0.02; done",
    );
    let (cookie, word) = entered(&site);
    let begun = post(&site, "/start", &cookie, &format!("{word}&size=64&run+name=-x+%3Cb%3E&action=start"));
    assert_eq!(begun.header("location"), Some("/start/jobs/1"));
    until(&site, "/start/jobs/1", &cookie, "3 of 3 points");
    let page = until(&site, "/start/jobs/1", &cookie, "--name=");
    assert!(
        page.contains("data-events=\"/start/jobs/1/events\"") && page.contains("--name=-x &lt;b&gt;"),
        "{page}"
    );
    post(&site, "/start", &cookie, &format!("{word}&size=64&action=start"));
    assert!(site.ask("GET", "/start/jobs/2", &cookie).page().contains("waits"), "one at a time");
    assert_eq!(post(&site, "/start/jobs/2/stop", &cookie, &word).status, 303);
    let events = std::thread::scope(|scope| {
        let events = scope.spawn(|| site.ask("GET", "/start/jobs/1/events", &cookie));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(post(&site, "/start/jobs/1/stop", &cookie, "").status, 403, "not without our form's word");
        assert_eq!(post(&site, "/start/jobs/1/stop", &cookie, &word).status, 303);
        events.join().unwrap()
    });
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert!(
        events.body.contains("measuring")
            && events.body.contains("kept")
            && events.body.contains("event: end"),
        "{}",
        events.body
    );
    let page = until(&site, "/start/jobs/1", &cookie, "stopped");
    assert!(page.contains("Go on with run otter"));
    let finished = post(&site, "/start/resume", &cookie, &format!("{word}&run=otter"));
    assert!(finished.status == 409 && finished.body.contains("is finished"), "{}", finished.body);
    let mut store = weir_store::Store::open(Some(&site.folder.path().join("weir.db"))).unwrap();
    let environment = Default::default();
    let new = weir_store::NewRun {
        name: Some("vole"),
        started_ms: 0,
        plan: "",
        weir: "",
        environment: &environment,
    };
    let run = store.begin_run(new).unwrap();
    store.end_run(run, weir_trial::run::RunState::Interrupted, 0).unwrap();
    let resumed = post(&site, "/start/resume", &cookie, &format!("{word}&run=vole"));
    assert_eq!(resumed.header("location"), Some("/start/jobs/3"));
    until(&site, "/start/jobs/3", &cookie, "bench --resume=vole");
    let begin = Instant::now();
    drop(site);
    assert!(begin.elapsed() < Duration::from_secs(20), "a server that ends interrupts what it measures");
}

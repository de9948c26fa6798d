//! A measurement from the browser: begun from a form, watched, stopped, taken up again, to its page; with scripts and without.

#[path = "../../../report/tests/browser/driver.rs"]
#[allow(dead_code, reason = "the report's tests use the rest")]
mod driver;

use super::{PLAN, TOKEN, measuring, sizes};
use crate::lab::{Lab, wait_for, wait_or_say};
use driver::Browser;
use serde_json::{Value, json};
use weir_testkit::{Need, needs};
use weir_trial::run::RunState;

/// Points of the run that is stopped: enough to be stopped in, and soon measured.
const POINTS: usize = 40;

/// Waits for a page of which this holds; in vain, it says what the page shows instead.
fn arrived(browser: &Browser, holds: &str) {
    let script = format!("return document.readyState === 'complete' && Boolean({holds})");
    let shown = || browser.run("return document.body.innerText", json!([]));
    wait_or_say(holds, || (browser.run(&script, json!([])) == Value::Bool(true)).then_some(()), shown);
}

/// How far the button that stops is from the top of the page.
fn button_that_stops(browser: &Browser) -> Value {
    let top = "return document.querySelector('form.stop button').getBoundingClientRect().top + scrollY";
    browser.run(top, json!([]))
}

/// Types into a field, as if by hand.
fn fill(browser: &Browser, name: &str, value: &str) {
    let script = "const field = document.getElementsByName(arguments[0])[0]; field.value = arguments[1]; \
                  field.dispatchEvent(new Event('input', { bubbles: true }))";
    browser.run(script, json!([name, value]));
}

#[test]
fn a_run_is_begun_watched_stopped_and_resumed_from_a_browser_to_its_page() {
    if !needs!(Need::Program("chromium", "chromium"), Need::Program("chromedriver", "chromium-driver")) {
        return;
    }
    let lab = Lab::new(PLAN);
    let run = lab.measure(0);
    let served = measuring(&lab);
    let browser = Browser::start(1280, 900);
    let go = |path: &str| {
        browser.run("location.assign(arguments[0])", json!([format!("http://{}{path}", served.address)]));
    };
    // From a run's page to the form with its plan, by the door.
    go(&format!("/runs/{}", run.uuid));
    arrived(&browser, "location.pathname.startsWith('/runs/')");
    browser.click(".actions a[href*='/start?run=']");
    arrived(&browser, "document.getElementById('token')");
    fill(&browser, "token", TOKEN);
    browser.click("main button");
    arrived(&browser, "location.search.startsWith('?run=') && document.querySelector('form.plan')");
    assert!(browser.text("main").contains("RFC 6815"));
    // It is checked as it is filled in, with the words of `weir plan check`.
    fill(&browser, "size", "64, enormous");
    arrived(&browser, "document.querySelector('#checked .bad + ul a')?.innerText === 'size'");
    assert!(browser.text("#checked").contains("`enormous`"), "{}", browser.text("#checked"));
    fill(&browser, "size", &sizes(POINTS));
    let checked = "document.querySelector('#checked .good') && document.querySelector('#checked').innerText";
    arrived(&browser, &format!("({checked})?.includes('points     {POINTS}')"));
    browser.click("button.main");
    arrived(&browser, "document.querySelector('form.stop button')");
    let at_first = button_that_stops(&browser);
    // Its progress comes by itself, and moves nothing that is to be clicked.
    arrived(&browser, "document.querySelector('#job progress')?.value > 2");
    assert_eq!(button_that_stops(&browser), at_first);
    browser.click("form.stop button");
    arrived(
        &browser,
        "document.querySelector('#job .state')?.innerText === 'stopped' && document.querySelector(\"form[action='/start/resume'] button\")",
    );
    let stopped = lab.stored().unwrap();
    assert_eq!(stopped.state, RunState::Interrupted);
    assert!(stopped.points.len() < POINTS, "it came to its end before it was stopped");
    browser.click("form[action='/start/resume'] button");
    arrived(&browser, "location.pathname.endsWith('/jobs/2')");
    arrived(&browser, "document.querySelector('#job .state')?.innerText === 'done'");
    browser.click("#job a[href^='/runs/']");
    arrived(&browser, "location.pathname.startsWith('/runs/')");
    assert_eq!(browser.text("h1"), format!("Run {}", stopped.name));
    let finished = lab.stored().unwrap();
    assert_eq!(
        (finished.name, finished.state, finished.points.len()),
        (stopped.name, RunState::Finished, POINTS)
    );
    let console = browser.console();
    assert!(console.is_empty(), "{console:?}");
    // Without scripts: the form's own buttons, and a page that is looked at again.
    browser.forbid_scripts();
    go(&format!("/start?run={}", run.uuid));
    arrived(&browser, "location.pathname === '/start' && document.querySelector('form.plan')");
    browser.click("button[value=check]");
    arrived(&browser, "location.search === '' && document.querySelector('#checked .good')");
    browser.click("button.main");
    arrived(&browser, "location.pathname.endsWith('/jobs/3')");
    wait_for("the end", || {
        go("/start/jobs/3");
        arrived(&browser, "document.querySelector('#job .state')");
        (browser.text("#job .state") == "done").then_some(())
    });
}

//! The site in a real browser: with and without scripts, on a wide screen and on a phone, by day and by night.

#[path = "../../report/tests/browser/driver.rs"]
#[allow(dead_code, reason = "the report's tests use the rest")]
mod driver;

use crate::common::{Site, run, small};
use driver::Browser;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Opens an address, and waits until it is there.
fn go(browser: &Browser, site: &Site, path: &str) {
    let address = format!("http://{}{path}", site.address);
    browser.run("location.assign(arguments[0])", json!([address]));
    arrived(browser, &format!("location.href === {}", Value::from(address)));
}

/// Waits for a page of which this holds.
fn arrived(browser: &Browser, holds: &str) {
    let begin = Instant::now();
    let script = format!("return document.readyState === 'complete' && ({holds})");
    while browser.run(&script, json!([])) != Value::Bool(true) {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited for {holds}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn quiet(browser: &Browser) {
    let console = browser.console();
    assert!(console.is_empty(), "the console holds {console:?}");
}

fn texts(browser: &Browser, selector: &str) -> Vec<String> {
    let script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.innerText)";
    let texts = browser.run(script, json!([selector]));
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().trim().to_owned()).collect()
}

fn three() -> Site {
    let mut otter = small("otter", 1);
    otter.points[0].key.dut = "ovs".to_owned();
    Site::of(&[otter, small("heron", 2), small("vole", 3)])
}

/// From the list over a filter to a comparison, as somebody does who came to look.
fn visit(browser: &Browser, site: &Site, scripts: bool) {
    go(browser, site, "/");
    assert_eq!(texts(browser, "table.list tbody th"), ["vole", "heron", "otter"]);
    browser.click(".facets summary");
    let choose = "const select = document.querySelector('select[name=dut]'); select.value = 'ovs'; \
                  if (arguments[0]) select.dispatchEvent(new Event('change', { bubbles: true }))";
    browser.run(choose, json!([scripts]));
    if !scripts {
        browser.click(".facets button");
    }
    arrived(browser, "location.search === '?dut=ovs'");
    assert_eq!(texts(browser, "table.list tbody th"), ["otter"]);
    browser.click(".chips a");
    arrived(browser, "location.search === ''");
    browser.click("#run-1");
    browser.click("#run-2");
    if scripts {
        assert_eq!(browser.text(".picked button"), "Compare 2 ticked");
    }
    browser.click(".picked button");
    arrived(browser, "location.pathname === '/compare'");
    assert_eq!(browser.text("h1"), "otter against heron", "the newer one stands first in the list");
    assert!(browser.text(".compared").contains("Environment: "));
    browser.click("td a[href*='base=']");
    arrived(browser, "document.querySelector('h1')?.innerText === 'heron against otter'");
    browser.click("tbody th a");
    arrived(browser, "location.pathname.startsWith('/runs/0')");
    assert_eq!(browser.text("h1"), "Run otter");
    browser.click(".points li a");
    arrived(browser, "location.pathname.endsWith('/points/0')");
    assert!(texts(browser, "table.trials tbody tr").len() > 10);
}

#[test]
fn a_visitor_filters_compares_and_reads_with_scripts_and_without() {
    let site = three();
    let browser = Browser::start(1280, 900);
    visit(&browser, &site, true);
    // Keys go through the list, tick and compare.
    go(&browser, &site, "/runs");
    browser.press("body", 'j');
    assert_eq!(browser.run("return document.activeElement.innerText", json!([])), "vole");
    browser.press("body", 'x');
    assert_eq!(browser.text(".picked button"), "Compare 1 ticked");
    browser.press("body", '/');
    assert_eq!(browser.run("return document.activeElement.id", json!([])), "q");
    quiet(&browser);
    browser.forbid_scripts();
    visit(&browser, &site, false);
    quiet(&browser);
}

/// What is wider than the screen, texts that cannot be told from what is behind them, and controls without a name.
const FAULTS: &str = "
    const faults = [];
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide > 0) {
        const limit = document.documentElement.clientWidth;
        const out = [...document.body.querySelectorAll('*')].filter((node) => !node.closest('.scroll, .plot, pre') && node.getBoundingClientRect().right > limit + 1);
        faults.push(`${wide} px wider than the screen: ${out.slice(0, 4).map((node) => node.outerHTML.slice(0, 90)).join(' | ')}`);
    }
    const colour = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, place) => sum + c * [.2126, .7152, .0722][place], 0);
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const [r, g, b, a = 1] = colour(getComputedStyle(node).backgroundColor);
            if (a > 0) return [r, g, b];
        }
        return [255, 255, 255];
    };
    for (const node of document.body.querySelectorAll('p, a, td, th, li, span, button, label, summary, h1, h2, code')) {
        if (!node.innerText?.trim() || !node.checkVisibility() || node.closest('svg, .unseen, .skip, button:disabled')) continue;
        const [front, back] = [light(colour(getComputedStyle(node).color)), light(behind(node))];
        const contrast = (Math.max(front, back) + .05) / (Math.min(front, back) + .05);
        if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(1)}: ${node.outerHTML.slice(0, 90)}`);
    }
    for (const node of document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a[href]')) {
        const name = node.innerText?.trim() || node.getAttribute('aria-label') || node.labels?.length;
        if (!name && node.checkVisibility()) faults.push(`no name: ${node.outerHTML.slice(0, 90)}`);
    }
    const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
    const twice = ids.filter((id, place) => ids.indexOf(id) !== place);
    if (twice.length) faults.push(`identifiers twice: ${twice.slice(0, 5)}`);
    if (document.querySelectorAll('h1').length !== 1 || !document.querySelector('main, #main')) faults.push('no heading or no main part');
    return faults.slice(0, 8)";

/// Whether there are intervals, and how many of them stand beyond the edge of their table.
const CUT_INTERVALS: &str = "
    const cells = [...document.querySelectorAll('td.interval')];
    const cut = cells.filter((cell) => cell.getBoundingClientRect().right > cell.closest('.scroll').getBoundingClientRect().right);
    return [cells.length > 0, cut.length]";

/// Gives the token, and begins a measurement.
fn enter(browser: &Browser, site: &Site) {
    go(browser, site, "/start");
    browser.run("document.getElementById('token').value = arguments[0]", json!([crate::start::TOKEN]));
    browser.run("document.querySelector('main form button').click()", json!([]));
    arrived(browser, "Boolean(document.querySelector('form.plan'))");
    browser.run("document.getElementsByName('size')[0].value = '64'", json!([]));
    browser.run("document.querySelector('button.main').click()", json!([]));
    arrived(browser, "location.pathname === '/start/jobs/1'");
}

/// The same without scripts, once by day and once by night.
fn look_without_scripts(browser: &Browser, site: &Site, pages: &[&str]) {
    browser.forbid_scripts();
    for (width, scheme) in [(390, "light"), (1280, "dark")] {
        set(browser, width, scheme);
        for path in pages {
            go(browser, site, path);
            assert_eq!(
                browser.run(FAULTS, json!([])),
                json!([]),
                "{path} at {width} px, {scheme}, no scripts"
            );
        }
    }
}

/// A screen of this width, by day or by night.
fn set(browser: &Browser, width: u32, scheme: &str) {
    let screen = json!({ "width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500 });
    browser.command("Emulation.setDeviceMetricsOverride", screen);
    let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    browser.command("Emulation.setEmulatedMedia", media);
}

#[test]
fn pages_fit_a_phone_and_a_wide_screen_and_can_be_read_by_day_and_by_night() {
    let runs = [run("2026-11-21-otter", 1, 1.0), small("heron", 2)];
    let site = crate::start::measuring("echo 'run heron: 3 points, about 1 min'; echo begun", &runs);
    let browser = Browser::start(1280, 900);
    let pages = [
        "/start",
        "/start?run=heron",
        "/start/jobs/1",
        "/runs",
        "/runs?dut=nf&size=64",
        "/runs/heron",
        "/runs/1/points/3",
        "/compare?base=1/nf&with=1/testpmd",
        "/figures?run=2",
        "/history",
        "/history?nf=l2fwd&size=64&dut=nf&wiring=vhost&machine=machine1&quantity=throughput+ndr",
        "/compare",
        "/nowhere",
    ];
    for (width, scheme) in [(1280, "light"), (390, "dark"), (390, "light"), (1280, "dark")] {
        set(&browser, width, scheme);
        if width == 390 && scheme == "dark" {
            enter(&browser, &site);
        }
        for path in pages {
            go(&browser, &site, path);
            let faults = browser.run(FAULTS, json!([]));
            assert_eq!(faults, json!([]), "{path} at {width} px, {scheme}");
            if width == 1280 && path.starts_with("/compare?") {
                assert_eq!(browser.run(CUT_INTERVALS, json!([])), json!([true, 0]), "intervals are cut off");
            }
        }
    }
    look_without_scripts(&browser, &site, &pages);
    // A table that is cut off says so by a shadow, and moves by keys.
    browser.command(
        "Emulation.setDeviceMetricsOverride",
        json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true }),
    );
    go(&browser, &site, "/runs");
    let cut = "const box = document.querySelector('.scroll'); const style = getComputedStyle(box); \
               return [box.scrollWidth > box.clientWidth, style.backgroundAttachment.includes('local'), box.tabIndex, style.overflowX]";
    assert_eq!(browser.run(cut, json!([])), json!([true, true, 0, "auto"]));
}

//! The page in a real browser, opened from a file: what a person sees, chooses and points at.

#[path = "../common/mod.rs"]
mod common;
mod driver;

use driver::Browser;
use serde_json::{Value, json};
use weir_report::{PageOptions, render};
use weir_trial::run::{PointResult, Run, SoakResult, ThroughputResult};
use weir_units::Pps;

/// Arrow right, as WebDriver writes keys.
const RIGHT: char = '\u{e014}';
const ESCAPE: char = '\u{e00c}';

fn otter() -> Run {
    common::run("2026-11-21-otter", 1, 1.0)
}

fn opened(runs: &[Run]) -> Browser {
    let browser = Browser::start(1300, 900);
    browser.open(&render(runs, &PageOptions::default()));
    browser.run("document.querySelectorAll('details').forEach((details) => details.open = true)", json!([]));
    browser
}

/// Throughput, lower and upper bound of the run's first point for its first goal.
fn first_found(run: &Run) -> (Pps, Pps, Pps) {
    match &run.points[0].results[0] {
        PointResult::Throughput(ThroughputResult {
            throughput: Some(rate),
            lower: Some(lower),
            upper: Some(upper),
            ..
        }) => (*rate, *lower, *upper),
        other => panic!("the example's first result is a throughput, not {other:?}"),
    }
}

/// The texts that the cells of a table's row show.
fn row(browser: &Browser, table: &str, row: usize) -> Vec<String> {
    let script = "return [...document.querySelector(arguments[0]).tBodies[0].rows[arguments[1]].cells].map((c) => c.innerText)";
    let cells = browser.run(script, json!([table, row]));
    cells.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().replace('\u{a0}', " ")).collect()
}

/// The texts of an SVG that can be seen.
fn drawn_texts(browser: &Browser, figure: &str, class: &str) -> Vec<String> {
    let script = "
        const shown = (node) => node.getClientRects().length > 0;
        const parts = (text) => text.children.length ? [...text.childNodes].filter((n) => n.nodeType === 3 || shown(n)) : [text];
        return [...document.querySelectorAll(`${arguments[0]} .plot ${arguments[1]}`)].filter(shown)
            .map((text) => parts(text).map((part) => part.textContent).join(''))";
    let texts = browser.run(script, json!([figure, class]));
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn assert_quiet(browser: &Browser) {
    let console = browser.console();
    assert!(console.is_empty(), "the console holds {console:?}");
    let fetched =
        browser.run("return performance.getEntriesByType('resource').map((r) => r.name)", json!([]));
    assert_eq!(fetched, json!([]), "the page fetched something");
}

#[test]
fn the_page_shows_its_numbers_and_its_plots() {
    let run = otter();
    let browser = opened(std::slice::from_ref(&run));
    assert_eq!(browser.text("h1"), "Run 2026-11-21-otter");
    let (rate, lower, upper) = first_found(&run);
    let mega = |pps: Pps| format!("{:.3}", pps.0 / 1e6);
    let cells = row(&browser, "#throughput-l2fwd-table", 0);
    assert_eq!(cells[..2], ["64 B", "nf · vhost"]);
    assert_eq!(cells[3..6], [mega(rate), mega(lower), mega(upper)]);
    assert_eq!(cells[8], "250 ms, under 60 s");
    assert!(browser.text("#findings").contains(&rate.to_string()), "the best rate stands on top");
    assert!(browser.text("#cautions").contains("RFC 6815"));

    let plots = browser.run(
        "return [...document.querySelectorAll('.plot > svg')].map((svg) => {
            const box = svg.getBoundingClientRect();
            const marks = [...svg.querySelectorAll('.mark')].filter((mark) => mark.getClientRects().length);
            const inside = marks.filter((mark) => {
                const at = mark.getBoundingClientRect();
                return at.left >= box.left && at.right <= box.right && at.top >= box.top && at.bottom <= box.bottom;
            });
            return { figure: svg.closest('figure').id, width: box.width, marks: marks.length, inside: inside.length };
        })",
        json!([]),
    );
    let plots = plots.as_array().unwrap();
    // Throughput, fed, delay, cycles, cores and losses of three functions, and a distribution for each size.
    assert_eq!(plots.len(), 3 * 6 + 3 * 8, "{plots:?}");
    for plot in plots {
        assert!(plot["width"].as_f64().unwrap() > 500.0 && plot["marks"].as_u64().unwrap() > 0, "{plot}");
        assert_eq!(plot["marks"], plot["inside"], "{plot}: every mark lies inside its drawing");
    }
    assert_quiet(&browser);
}

#[test]
fn another_unit_changes_axes_and_tables() {
    let run = otter();
    let browser = opened(std::slice::from_ref(&run));
    let (rate, ..) = first_found(&run);
    let axis = |browser: &Browser| drawn_texts(browser, "#throughput-l2fwd", ".y-axis");
    let ticks = |browser: &Browser| drawn_texts(browser, "#throughput-l2fwd", ".tick.end");
    assert_eq!(axis(&browser), ["Forwarded packets, Mpps"]);
    assert_eq!(ticks(&browser), ["0", "1", "2", "3"]);

    let bits = rate.0 * 8.0 * 64.0;
    let cases = [
        ("pps", "Forwarded packets, pps", "Throughput, pps", rate.0, 0),
        ("kpps", "Forwarded packets, kpps", "Throughput, kpps", rate.0 / 1e3, 1),
        ("mbps", "Forwarded bits, L2 with FCS, Mb/s", "Throughput, Mb/s", bits / 1e6, 1),
        ("gbps", "Forwarded bits, L2 with FCS, Gb/s", "Throughput, Gb/s", bits / 1e9, 3),
        (
            "l1",
            "Forwarded bits, L1 with wire overhead, Gb/s L1",
            "Throughput, Gb/s L1",
            rate.0 * 8.0 * 84.0 / 1e9,
            3,
        ),
    ];
    for (unit, label, heading, value, decimals) in cases {
        browser.click(&format!("label:has(#unit-{unit})"));
        assert_eq!(axis(&browser), [label]);
        assert_eq!(browser.text("#throughput-l2fwd-table th:nth-child(4)"), heading);
        let shown = row(&browser, "#throughput-l2fwd-table", 0)[3].replace('\u{202f}', "");
        assert_eq!(shown, format!("{value:.decimals$}"), "{unit}");
    }
    assert_eq!(ticks(&browser), ["0", "5", "10", "15", "20"], "ticks follow the unit");
    let address = browser.run("return location.search", json!([]));
    assert_eq!(address, "?unit=l1", "a copied address keeps the unit");
    assert_quiet(&browser);
}

#[test]
fn pointing_at_a_mark_tells_its_values() {
    let run = otter();
    let browser = opened(std::slice::from_ref(&run));
    let (rate, lower, upper) = first_found(&run);
    browser.point_at("#throughput-l2fwd .v-packets .series.k0 .mark");
    let tip = browser.text("#tip");
    assert!(tip.starts_with("nf · vhost · ndr · 64"), "{tip}");
    for text in
        [rate.to_string(), format!("[{lower}, {upper}]"), "14 trials".into(), "2\u{a0}×\u{a0}10G".into()]
    {
        assert!(tip.contains(&text), "`{text}` is missing in {tip}");
    }
    browser.point_at("#losses-l2fwd .stack");
    assert!(browser.text("#tip").contains("unsent by the tester"), "{}", browser.text("#tip"));

    let hidden = |browser: &Browser| browser.run("return document.getElementById('tip').hidden", json!([]));
    browser.press("#latency-l2fwd .plot > svg", RIGHT);
    let first = browser.text("#tip");
    assert!(first.contains("p99.99") && first.contains("64"), "{first}");
    browser.press("#latency-l2fwd .plot > svg", RIGHT);
    let second = browser.text("#tip");
    assert!(second.contains("128"), "{second}");
    browser.press("#latency-l2fwd .plot > svg", ESCAPE);
    assert_eq!(hidden(&browser), Value::Bool(true));
    assert_quiet(&browser);
}

#[test]
fn a_series_can_be_taken_out_of_its_plot_only() {
    let browser = opened(&[otter()]);
    let seen = |figure: &str| {
        let script = "return [...document.querySelectorAll(arguments[0])].filter((n) => n.getClientRects().length).length";
        browser.run(script, json!([format!("{figure} .series.k1 .mark")])).as_u64().unwrap()
    };
    let (here, there) = (seen("#throughput-l2fwd"), seen("#throughput-l3fwd-10"));
    assert!(here > 0 && there > 0);
    browser.click("#throughput-l2fwd .legend .t1");
    assert_eq!((seen("#throughput-l2fwd"), seen("#throughput-l3fwd-10")), (0, there));
    browser.click("#throughput-l2fwd .legend .t1");
    assert_eq!(seen("#throughput-l2fwd"), here);
}

#[test]
fn a_narrow_window_needs_no_scrolling_sideways() {
    let browser = Browser::start(500, 900);
    browser.open(&render(&[otter(), common::run("2026-11-21-heron", 2, 1.1)], &PageOptions::default()));
    let widths = browser.run("return [document.documentElement.scrollWidth, innerWidth]", json!([]));
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{widths}");
    assert_quiet(&browser);
}

#[test]
fn the_page_reads_without_scripts() {
    let run = otter();
    let browser = Browser::start(1300, 900);
    browser.forbid_scripts();
    browser.open(&render(std::slice::from_ref(&run), &PageOptions::default()));
    let touched = browser.run("return document.querySelectorAll('[data-tip]').length", json!([]));
    assert_eq!(touched, 0, "the page's script has run");
    let title = browser.run("return document.querySelector('.series .mark > title').textContent", json!([]));
    assert!(
        title.as_str().unwrap().starts_with("nf · vhost · ndr · 64"),
        "{title}: the browser's own tooltip"
    );
    let (rate, ..) = first_found(&run);
    assert!(browser.text("#findings").contains(&rate.to_string()));
    assert!(browser.text("#cautions").contains("2 points were not measured"));
    browser.click("#throughput-l2fwd summary");
    assert_eq!(row(&browser, "#throughput-l2fwd-table", 0)[3], format!("{:.3}", rate.0 / 1e6));
    browser.click("label:has(#unit-kpps)");
    assert_eq!(row(&browser, "#throughput-l2fwd-table", 0)[3], format!("{:.1}", rate.0 / 1e3));
    assert_eq!(drawn_texts(&browser, "#throughput-l2fwd", ".y-axis"), ["Forwarded packets, kpps"]);
}

#[test]
fn runs_without_points_still_open() {
    let browser = opened(&[common::empty()]);
    assert!(browser.text("main").contains("Nothing was measured"));
    assert_quiet(&browser);
}

#[test]
fn curves_are_drawn_with_their_knees_which_hide_with_their_device() {
    let run = common::curves("2026-11-21-heron", 2);
    let browser = opened(std::slice::from_ref(&run));
    let figure = "#curve-l2fwd-64-b";
    let labels = || drawn_texts(&browser, figure, ".marker text");
    let shown = labels();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].starts_with("knee ") && shown[0].ends_with("nf · vhost"), "{shown:?}");
    browser.click(&format!("{figure} .legend .t0"));
    assert_eq!(labels(), shown[1..], "a knee goes with the first line of its device");
    browser.click(&format!("{figure} .legend .t0"));

    let ticks = || drawn_texts(&browser, figure, ".tick.mid");
    assert_eq!(ticks(), ["100 pps", "1 kpps", "10 kpps", "100 kpps", "1 Mpps"]);
    browser.click("label:has(#unit-gbps)");
    assert_eq!(ticks().len(), 5, "loads stay in packets");
    browser.press(&format!("{figure} .plot > svg"), RIGHT);
    let tip = browser.text("#tip");
    assert!(tip.starts_with("nf · vhost · 100 pps") && tip.contains("p99.9"), "{tip}");

    let outside = browser.run(
        "return [...document.querySelectorAll('.plot > svg')].flatMap((svg) => {
            const box = svg.getBoundingClientRect();
            const parts = [...svg.querySelectorAll('.mark, .marker text')].filter((n) => n.getClientRects().length);
            return parts.filter((part) => {
                const at = part.getBoundingClientRect();
                return at.left < box.left || at.right > box.right || at.top < box.top || at.bottom > box.bottom;
            }).map((part) => `${svg.closest('figure').id}: ${part.textContent}`);
        })",
        json!([]),
    );
    assert_eq!(outside, json!([]), "every mark and every name lies inside its drawing");
    assert_quiet(&browser);
}

#[test]
fn losses_of_a_soak_are_marked_where_they_were_and_clean_slices_are_not() {
    let run = common::curves("2026-11-21-heron", 2);
    let browser = opened(std::slice::from_ref(&run));
    let soaks = run.points.iter().filter(|point| point.key.size == "64").flat_map(|point| &point.results);
    let lossy = soaks.filter_map(|result| match result {
        PointResult::Soak(SoakResult { found, .. }) => Some(found.lossy.len() as u64),
        _ => None,
    });
    let marks = browser.run(
        "return document.querySelectorAll('#soak-loss-l2fwd-64-b .mark').length - document.querySelectorAll('#soak-loss-l2fwd-64-b .legend .mark').length",
        json!([]),
    );
    assert_eq!(marks.as_u64(), Some(lossy.sum()));
    assert_eq!(drawn_texts(&browser, "#frame-loss-l2fwd", ".x-axis"), ["Load, of the line rate"]);
    assert!(row(&browser, "#bursts-l2fwd-table", 0).last().unwrap().starts_with("not valid"));
    assert_quiet(&browser);
}

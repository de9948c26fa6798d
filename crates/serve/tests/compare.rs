//! A comparison says on the page what it says on the terminal.

use crate::common::{Site, run, small};
use weir_methods::compare::{Comparison, Side, Verdict, compare, words};
use weir_units::Ratio;

/// Text as it stands in a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[test]
fn the_page_says_what_the_command_says_environments_first() {
    let runs = [run("otter", 1, 1.0), run("heron", 2, 0.8)];
    let site = Site::of(&runs);
    let stored: Vec<weir_trial::run::Run> = ["1", "2"]
        .map(|id| serde_json::from_str(&site.get(&format!("/runs/{id}/run.json")).page()).unwrap())
        .into();
    let sides = [0, 1].map(|place| Side { run: &stored[place], dut: None });
    let expected = compare(sides[0], sides[1], Some(Ratio(0.03)));
    assert!(expected.rows.iter().any(|row| row.verdict == Verdict::A) && !expected.environment.is_empty());

    let page = site.get("/compare?base=otter&with=heron&bound=3%25").page();
    let mut at = 0;
    let mut comes = |text: &str| {
        let text = escaped(text);
        at += page[at..].find(&text).unwrap_or_else(|| panic!("`{text}` does not come where it should"));
    };
    words::summary(&expected).iter().for_each(|line| comes(line));
    comes(&words::environment(&expected));
    for row in &expected.rows {
        comes(&words::ratio(row));
        comes(&words::interval(row));
        comes(&words::verdict(row));
        comes(&words::judged(row.bound.unwrap()));
    }
    words::notes(&expected).iter().for_each(|note| comes(note.strip_prefix("note: ").unwrap()));
    assert!(page[at..].contains("<figure"), "plots come below");
    assert_eq!(page.matches("Where the runs' environments differ").count(), 0, "nothing is said twice");
    assert!(!page.contains("<dl class=\"runs\">"), "nor its sides");
    let [_, dut, _, trace, _] = words::place(&expected.rows[0].key, None);
    let one = site.get(&format!("/compare?base=otter/{dut}&with=heron/{dut}")).page();
    let caption = one.split(" Everywhere: ").nth(1).and_then(|rest| rest.split("</caption>").next());
    assert!(caption.is_some_and(|said| said.contains(&format!("trace {trace}"))), "{caption:?}");
    assert!(page.contains("weir compare otter heron --bound 3% --db test.db"));
    assert!(
        page.contains(&format!("/compare?base={}&amp;with={}&amp;bound=3%25", runs[0].uuid, runs[1].uuid))
    );

    let json = site.get("/compare.json?base=otter&with=heron&bound=3%25").page();
    let said: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_value(&said).unwrap(), serde_json::to_value(&expected).unwrap());
}

#[test]
fn a_click_makes_another_side_the_baseline() {
    let runs = [small("otter", 1), small("heron", 2), small("vole", 3)];
    let site = Site::of(&runs);
    let [a, b, c] = [0, 1, 2].map(|place| runs[place].uuid.as_str());
    let page = site.get("/compare?base=otter&with=heron&with=@last").page();
    for address in [
        format!("/compare?base={b}&amp;with={a}&amp;with={c}"),
        format!("/compare?base={c}&amp;with={b}&amp;with={a}"),
        format!("/compare?base={a}&amp;with={c}"),
    ] {
        assert!(page.contains(&format!("href=\"{address}\"")), "{address}");
    }
    let turned = site.get(&format!("/compare?base={b}&with={a}&with={c}")).page();
    assert!(turned.contains("B: otter against A: heron") && turned.contains("B: vole against A: heron"));
}

#[test]
fn what_is_ticked_in_the_list_becomes_an_address_that_says_it() {
    let runs = [run("otter", 1, 1.0), small("heron", 2)];
    let site = Site::of(&runs);
    let led = |query: &str| {
        site.get(&format!("/compare?{query}")).header("location").unwrap_or_default().to_owned()
    };
    let [a, b] = [0, 1].map(|place| runs[place].uuid.as_str());
    assert_eq!(led(&format!("run={b}&run={a}")), format!("/compare?base={b}&with={a}"));
    assert_eq!(
        led(&format!("run={a}")),
        format!("/compare?base={a}%2fnf&with={a}%2ftestpmd"),
        "one run by its devices"
    );
    assert_eq!(led(&format!("run={b}")), format!("/compare?base={b}"), "nothing to compare it with yet");
    let page = site.get(&format!("/compare?base={b}")).page();
    assert!(page.contains(&format!("/compare?base={b}&amp;with={a}")), "others are offered");
    let devices = site.get("/compare?base=otter/nf&with=otter/testpmd").page();
    assert!(
        devices.contains("<h1>otter/testpmd against otter/nf</h1>")
            && devices.contains("one run, so the same")
    );
    assert!(site.get("/compare").page().contains("name=\"base\""));
}

#[test]
fn sides_that_cannot_be_compared_say_why() {
    let site = Site::of(&[run("otter", 1, 1.0), small("heron", 2)]);
    for (query, status, says) in [
        ("base=otter&with=otter", 400, "both sides are run otter"),
        ("base=otter/nf&with=otter/vpp", 400, "has no device `vpp`; it has nf, testpmd"),
        ("base=otter&with=heron/nf", 400, "a device is named on one side only"),
        ("base=otter&with=weasel", 404, "no run matches `weasel`"),
        ("base=otter&with=heron&bound=much", 400, "a share such as 3%"),
        ("base=otter/&with=heron", 400, "no device after the slash"),
        ("bass=otter", 400, "a comparison knows"),
    ] {
        let answer = site.ask("GET", &format!("/compare?{query}"), "");
        assert!(
            answer.status == status && answer.body.contains(says),
            "{query}: {} {}",
            answer.status,
            answer.body
        );
    }
    assert_eq!(site.ask("GET", "/compare.json?base=otter", "").status, 400);
}

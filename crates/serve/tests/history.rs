//! A point over time says on the page what `weir history` says on the terminal.

use crate::common::{Site, run};
use weir_methods::history::{Document, History, RunNumbers};
use weir_trial::run::{PointResult, Run};

/// Eight runs of one machine, an hour apart; from the fifth on the devices are slower, and the kernel is another one.
fn runs() -> Vec<Run> {
    let both = [1.0, 0.7].map(|speed| run("otter", 1, speed));
    let one = |number: u32| {
        let after = number > 4;
        let mut run = both[usize::from(after)].clone();
        run.name = format!("run-{number}");
        run.uuid = format!("00000000-0000-7000-8000-{number:012}");
        run.started_ms += i64::from(number) * 3_600_000;
        run.points.truncate(2);
        // As from run to run on one machine.
        let wobble = 1.0 + 0.002 * f64::from(number * 7 % 5);
        for result in run.points.iter_mut().flat_map(|point| &mut point.results) {
            if let PointResult::Throughput(found) = result {
                let rates = [&mut found.throughput, &mut found.lower, &mut found.upper];
                rates.into_iter().flatten().for_each(|rate| rate.0 *= wobble);
            }
        }
        run.environment.insert("machine.id".to_owned(), "one".to_owned());
        run.environment.insert("kernel.release".to_owned(), if after { "6.2" } else { "6.1" }.to_owned());
        run
    };
    (1..=8).map(one).collect()
}

/// The site over them, and what the methods say of them when they are read whole.
fn both() -> (Site, Document) {
    let site = Site::of(&runs());
    let mut history = History::default();
    // As the store has them: an imported run has another number.
    for number in (1..=8).rev() {
        let stored = site.get(&format!("/runs/{number}/run.json")).page();
        history.take(&RunNumbers::of(&serde_json::from_str(&stored).unwrap(), &|_| true));
    }
    (site, history.document())
}

#[test]
fn a_history_of_what_counts_is_that_of_whole_runs() {
    let (site, expected) = both();
    let said: Document = serde_json::from_str(&site.get("/history.json").page()).unwrap();
    assert_eq!(said, expected);
    let narrowed: Document =
        serde_json::from_str(&site.get("/history.json?size=128&machine=one").page()).unwrap();
    assert!(!narrowed.series.is_empty() && narrowed.series.iter().all(|series| series.point.size == "128"));
    let nothing: Document = serde_json::from_str(&site.get("/history.json?machine=two").page()).unwrap();
    assert!(nothing.series.is_empty());
}

#[test]
fn a_change_is_marked_with_what_changed_then_at_an_address_that_stays() {
    let (site, expected) = both();
    let list = site.get("/history").page();
    let quantity = "throughput ndr";
    let series =
        expected.series.iter().find(|series| series.point.size == "64" && series.quantity == quantity);
    let series = series.unwrap();
    let [change] = series.changes.as_slice() else { panic!("{:?}", series.changes) };
    assert!(change.at == 4 && change.confirmed && !change.improved);
    assert!(
        list.contains(&format!("{} series", expected.series.len())) && list.contains(" since run-5"),
        "{list}"
    );
    let address = list.split("href=\"").filter_map(|rest| rest.split('"').next());
    let address = address.map(|address| address.replace("&amp;", "&"));
    let mut address =
        address.filter(|address| address.contains("size=64") && address.contains("quantity=throughput+ndr"));
    let address = address.next().expect("the list has an address for each series");
    let page = site.get(&address).page();
    for part in [
        &series.title(),
        &change.step(),
        ", worse",
        ">kernel.release<",
        "<td>6.1</td><td>6.2</td>",
        "Levels: 4 runs at ",
    ] {
        assert!(page.contains(part), "`{part}` is not in {page}");
    }
    assert!(page.contains("weir history --nf l2fwd --dut nf --wiring vhost --trace"), "{page}");
    assert!(page.contains("--quantity 'throughput ndr' --db test.db"));
    assert_eq!(page.matches("<a href=\"#change-").count(), 1, "one run is marked in the table");
    let plot = address.replace("/history?", "/history.svg?");
    assert!(page.contains(&plot.replace('&', "&amp;")));
    let plot = site.get(&plot);
    assert_eq!(plot.header("content-type"), Some("image/svg+xml"));
    assert!(plot.page().contains(&change.step()));
    // From a point of a run, and from the list, too.
    let point = site.get("/runs/run-7/points/0").page();
    let to =
        point.split("href=\"").find(|rest| rest.starts_with("/history?")).unwrap().split('"').next().unwrap();
    assert!(site.get(&to.replace("&amp;", "&")).page().contains("throughput ndr"));
    assert!(site.get("/runs?size=64").page().contains("href=\"/history?size=64\""));
    // What was drawn is given again, and drawn anew when there is another run.
    assert_eq!(site.get(&address).page(), page);
    let mut store = weir_store::Store::open(Some(&site.folder.path().join("weir.db"))).unwrap();
    let mut ninth = runs().pop().unwrap();
    (ninth.name, ninth.uuid) = ("run-9".to_owned(), "00000000-0000-7000-8000-000000000099".to_owned());
    ninth.started_ms += 3_600_000;
    let origin = weir_store::Origin {
        name: "run-9".to_owned(),
        address: "sha256:0".to_owned(),
        signature: None,
        imported_ms: 0,
        differences: 0,
    };
    store.import(&ninth, &origin).unwrap();
    assert!(site.get(&address).page().contains("run-9"));
}

#[test]
fn bad_questions_are_answered_with_what_there_is() {
    let site = Site::of(&runs()[..2]);
    for (path, status, says) in [
        ("/history?quantity=speed", 404, "there are"),
        ("/history?size=64&series=0", 404, "drop `series`"),
        ("/history.svg?size=64", 400, "a plot is of one series"),
        ("/history?sort=name", 400, "in the order of their starts"),
        ("/history?colour=red", 400, "colour"),
        ("/history?from=monday", 400, "2026-11-21"),
    ] {
        let answer = site.ask("GET", path, "");
        assert!(
            answer.status == status && answer.body.contains(says),
            "{path}: {} {}",
            answer.status,
            answer.body
        );
    }
    assert!(site.get("/history?dut=none").page().contains("Nothing was measured yet"));
    assert_eq!(site.get("/history?dut=&size=64&quantity=").header("location"), Some("/history?size=64"));
    let hostile = site.get("/history?machine=%3Cscript%3Ealert(1)%3C/script%3E&q=%22%3E%3Cb%3E").page();
    assert!(!hostile.contains("<script>alert") && !hostile.contains("\"><b>"));
}

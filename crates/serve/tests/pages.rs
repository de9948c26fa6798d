//! What the pages hold, and what is said where there is none.

use crate::common::{Site, run, small};
use std::collections::BTreeMap;
use weir_store::{NewRun, Store};
use weir_trial::run::RunState;

/// The names of the runs in a list, in its order.
fn listed(page: &str) -> Vec<&str> {
    let rows = page.split("<th scope=\"row\"><a href=\"/runs/").skip(1);
    rows.map(|row| row.split_once('>').unwrap().1.split_once('<').unwrap().0).collect()
}

fn three() -> Site {
    let mut otter = small("otter", 1);
    otter.points[0].key.dut = "ovs".to_owned();
    let mut heron = small("heron", 2);
    heron.state = RunState::Interrupted;
    heron.points.truncate(1);
    Site::of(&[otter, heron, small("vole", 3)])
}

#[test]
fn the_list_says_what_its_address_asks_for() {
    let site = three();
    let list = |query: &str| site.get(&format!("/runs{query}")).page();
    assert_eq!(listed(&list("")), ["vole", "heron", "otter"], "newest first");
    assert_eq!(listed(&site.get("/").page()), ["vole", "heron", "otter"]);
    for (query, names) in [
        ("?dut=ovs", vec!["otter"]),
        ("?dut=ovs&dut=nf", vec!["vole", "heron", "otter"]),
        ("?machine=machine1", vec!["vole", "otter"]),
        ("?machine=machine1&state=interrupted", vec![]),
        ("?state=interrupted", vec!["heron"]),
        ("?size=128", vec!["vole", "otter"]),
        ("?q=OTT", vec!["otter"]),
        ("?q=dut:ov+simulated", vec!["otter"]),
        ("?q=dut:otter", vec![]),
        ("?sort=name", vec!["heron", "otter", "vole"]),
        ("?sort=name&order=turned", vec!["vole", "otter", "heron"]),
        ("?sort=points&order=turned&per=1", vec!["heron"]),
        ("?per=1&page=2", vec!["heron"]),
        ("?page=9", vec![]),
        ("?from=2026-11-22", vec![]),
        ("?to=2026-11-21&dut=simulated", vec![]),
        (
            "?nf=l2fwd&wiring=vhost&trace=tr3e&deployment=inline&method=throughput",
            vec!["vole", "heron", "otter"],
        ),
        ("?origin=imported%2C+not+signed&cpu=Simulated+2.5+GHz", vec!["vole", "heron", "otter"]),
        ("?version=ovs", vec![]),
    ] {
        assert_eq!(listed(&list(query)), names, "{query}");
    }
    let page = list("?machine=machine0");
    assert!(page.contains("1 run of 3"), "{page}");
    assert!(
        page.contains("<option value=\"machine1\">machine1 (2)</option>"),
        "what another choice would leave"
    );
    assert!(page.contains("<option value=\"machine0\" selected>machine0 (1)</option>"), "{page}");
    assert!(list("?size=64").contains("64 B (3)"));
}

#[test]
fn a_form_that_was_left_empty_leads_to_the_address_without_it() {
    let site = three();
    let answer = site.get("/runs?q=&dut=nf&machine=&from=");
    assert_eq!((answer.status, answer.header("location")), (303, Some("/runs?dut=nf")));
    let answer = site.get("/runs?dutt=nf");
    assert!(answer.status == 400 && answer.body.contains("there are nf, dut"), "{}", answer.body);
}

#[test]
fn the_list_is_to_be_had_as_json() {
    let site = three();
    let list = |query: &str| -> serde_json::Value {
        serde_json::from_str(&site.get(&format!("/runs.json{query}")).page()).unwrap()
    };
    let found = list("?per=1&sort=name");
    assert_eq!((&found["schema"], &found["total"]), (&1.into(), &3.into()));
    assert_eq!(found["runs"].as_array().unwrap().len(), 1);
    assert_eq!((&found["runs"][0]["name"], &found["runs"][0]["points"]), (&"heron".into(), &1.into()));
}

#[test]
fn a_run_is_its_whole_page_by_any_of_its_names_with_its_files() {
    let runs = [run("2026-11-21-otter", 1, 1.0)];
    let site = Site::of(&runs);
    let page = site.get("/runs/otter").status;
    assert_eq!(page, 404, "the beginning of a name is meant, not its end");
    let alone = weir_report::render(&runs, &weir_report::PageOptions::default());
    let figures = |page: &str| page.matches("<figure").count();
    for name in [runs[0].uuid.as_str(), "2026-11-21-otter", "2026-", "1", "@last"] {
        let answer = site.get(&format!("/runs/{name}"));
        let policy = answer.header("content-security-policy").unwrap().to_owned();
        let page = answer.page();
        assert_eq!(figures(&page), figures(&alone), "{name}");
        assert!(!page.contains("http-equiv") && page.contains("Weir run 2026-11-21-otter ("), "{name}");
        assert_eq!(policy.matches("sha256-").count(), 2, "a style and a script: {policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let at = format!("/runs/{}", runs[0].uuid);
    let file = |name: &str| site.get(&format!("{at}/{name}"));
    let json: weir_trial::run::Run = serde_json::from_str(&file("run.json").page()).unwrap();
    assert_eq!((json.uuid.as_str(), json.points.len()), (runs[0].uuid.as_str(), 72));
    assert_eq!(
        file("run.json").header("content-disposition"),
        Some("attachment; filename=\"2026-11-21-otter.json\"")
    );
    assert_eq!(file("trials.csv").page(), "run\r\n72\r\n");
    assert_eq!(file("plan.toml").page(), runs[0].plan);
    assert_eq!(file("bundle.weir").page(), format!("{} true", runs[0].uuid));
    let missing = file("run.xml");
    assert!(missing.status == 404 && missing.body.contains("run.json, trials.csv"), "{}", missing.body);
}

#[test]
fn a_point_has_every_trial_and_what_spoilt_it() {
    let mut otter = small("otter", 1);
    otter.points[0].trials[1].superseded = true;
    let finding = weir_trial::verdict::Finding {
        code: weir_trial::verdict::Code::TesterStolen,
        weight: weir_trial::verdict::Weight::Invalid,
        says: "the tester's core was <gone> for 3 ms".to_owned(),
    };
    otter.points[0].trials[2].verdict.findings.insert(0, finding);
    let trials = otter.points[0].trials.len();
    let site = Site::of(&[otter]);
    let page = site.get("/runs/1/points/0").page();
    assert_eq!(page.matches("id=\"trial-").count(), trials);
    assert_eq!(page.matches("<tr class=\"void\"").count(), 2);
    assert!(
        page.contains("of an attempt that was cut off") && page.contains("core was &lt;gone&gt; for 3 ms")
    );
    assert_eq!(page.matches("<path class=\"mark\"").count(), trials + 3, "a mark a trial, and the legend");
    assert!(page.contains("verdict of ndr"));
    assert!(page.contains("rel=\"next\"") && !page.contains("rel=\"prev\""));
    for (place, says) in
        [("3", "it has 3, of which the last is 2"), ("x", "counted from 0"), ("-1", "counted from 0")]
    {
        let answer = site.get(&format!("/runs/1/points/{place}"));
        assert!(answer.status == 404 && answer.body.contains(says), "{place}: {}", answer.body);
    }
}

#[test]
fn figures_are_the_files_that_weir_plot_writes() {
    let runs = [small("otter", 1), small("heron", 2)];
    let site = Site::of(&runs);
    let page = site.get("/figures?run=otter&run=2&run=heron").page();
    assert!(
        page.contains("throughput-l2fwd.svg?run=")
            && page.contains("weir plot otter heron --id throughput-l2fwd")
    );
    let stored = Store::open_existing(Some(&site.folder.path().join("weir.db"))).unwrap();
    let loaded: Vec<_> = [1, 2].map(|id| stored.load(weir_store::RunId(id)).unwrap()).into();
    let exhibits = weir_report::exhibits(&loaded);
    assert!(exhibits.len() > 3);
    for exhibit in &exhibits {
        for form in exhibit.forms() {
            let path = format!("/figures/{}.{}?run=otter&run=heron", exhibit.id(), form.ending());
            assert_eq!(site.get(&path).page(), exhibit.written(*form).unwrap(), "{path}");
        }
    }
    let paper = site.get("/figures/throughput-l2fwd.pdf?run=otter");
    assert_eq!(paper.header("content-type"), Some("application/pdf"));
    assert!(paper.page().starts_with("%PDF of "));
    let drawn = site.get("/figures/throughput-l2fwd.svg?run=otter");
    assert_eq!(drawn.header("content-type"), Some("image/svg+xml"));
    for (path, status, says) in [
        ("/figures/throughput-l2fwd.svg", 400, "?run=NAME"),
        ("/figures/throughput-l2fwd.gif?run=otter", 404, "svg, pgf, md, csv, tex, pdf, png"),
        ("/figures/throughput-l2fwd.png?run=otter", 501, "svg-convert makes no png here"),
        ("/figures/throughput-l2fwd.csv?run=otter", 404, "it is written as svg"),
        ("/figures/none.svg?run=otter", 404, "there are throughput-l2fwd"),
        ("/figures?run=vole", 404, "o run matches `vole`"),
        ("/figures?ran=otter", 400, "run=NAME"),
    ] {
        let answer = site.get(path);
        assert!(
            answer.status == status && answer.body.contains(says),
            "{path}: {} {}",
            answer.status,
            answer.body
        );
    }
    assert!(site.get("/figures").page().contains("@last"));
}

#[test]
fn hostile_texts_of_a_run_cannot_become_markup_on_any_page() {
    let hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{7}\u{202e}&amp;";
    let mut otter = small(hostile, 1);
    otter.weir = hostile.into();
    for value in otter.environment.values_mut() {
        *value = hostile.into();
    }
    for point in &mut otter.points {
        let key = &mut point.key;
        for text in [&mut key.dut, &mut key.wiring, &mut key.trace, &mut key.size] {
            *text = hostile.into();
        }
        point.dut_version = Some(hostile.into());
        point.configuration = BTreeMap::from([(hostile.to_owned(), hostile.to_owned())]);
    }
    otter.points[1].error = Some(hostile.into());
    let site = Site::of(&[otter]);
    for path in [
        "/runs",
        "/runs?q=%3Cscript%3Ealert",
        "/runs/1",
        "/runs/1/points/0",
        "/runs/1/points/1",
        "/figures?run=1",
    ] {
        let answer = site.get(path);
        let own = answer.body.matches("<script").count();
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.contains("<script>alert") && !answer.body.contains("<img"), "{path}");
        assert!(own <= 2, "{path}: only the site's script, and that of the run's page");
        assert!(
            !answer.body.contains(['\u{7}', '\u{202e}']),
            "{path}: what turns the direction of writing is written out"
        );
        assert!(answer.body.contains("\\u0007\\u202e"), "{path}");
    }
    let page = site.get("/figures?run=1").body;
    for figure in page.split("href=\"/figures/").skip(1).filter_map(|rest| rest.split('?').next()) {
        let body = site.get(&format!("/figures/{figure}?run=1")).body;
        let raw = figure.ends_with(".csv") || figure.ends_with(".pdf") || figure.ends_with(".png");
        assert!(raw || !body.contains('\u{7}'), "{figure}");
    }
    for path in [
        "/runs/%3Cscript%3Eabc%3C%2Fscript%3E",
        "/%3Cscript%3E",
        "/runs?%3Cscript%3E=1",
        "/figures/%3Cb%3E.svg?run=1",
    ] {
        let answer = site.get(path);
        assert!(
            (400..500).contains(&answer.status) && !answer.body.contains("<script>a"),
            "{path}: {}",
            answer.body
        );
    }
    let file = site.get("/runs/1/run.json");
    assert!(
        file.header("content-disposition").unwrap().starts_with("attachment; filename=\"-script-alert-1-")
    );
}

#[test]
fn a_run_that_is_being_measured_is_shown_as_far_as_it_came() {
    let site = Site::of(&[small("otter", 1)]);
    let mut store = Store::open(Some(&site.folder.path().join("weir.db"))).unwrap();
    assert_eq!(listed(&site.get("/runs").page()), ["otter"]);
    let environment = BTreeMap::new();
    let new = NewRun {
        name: Some("vole"),
        started_ms: 1_795_700_000_000,
        plan: "",
        weir: "w",
        environment: &environment,
    };
    let run = store.begin_run(new).unwrap();
    let points = small("x", 2).points;
    for (place, point) in (0..).zip(&points) {
        let open = store.add_point(run, place, &point.key).unwrap();
        for trial in &point.trials {
            store.add_trial(open, trial).unwrap();
        }
        let list = site.get("/runs").page();
        assert_eq!(listed(&list), ["vole", "otter"]);
        assert!(list.contains("running") && list.contains(&format!("0/{}", place + 1)), "{list}");
    }
    let page = site.get("/runs/vole").page();
    assert!(page.contains("It is being measured now") && !page.contains("bundle.weir"));
    let bundle = site.get("/runs/vole/bundle.weir");
    assert!(bundle.status == 409 && bundle.body.contains("when it has ended"), "{}", bundle.body);
    store.end_run(run, RunState::Finished, 1_795_700_001_000).unwrap();
    assert!(!site.get("/runs/vole").page().contains("It is being measured now"));
    store.remove_run(run).unwrap();
    assert_eq!(listed(&site.get("/runs").page()), ["otter"], "what was removed is gone");
}

#[test]
fn a_store_without_runs_says_how_to_get_some() {
    let site = Site::of(&[]);
    let page = site.get("/").page();
    assert!(page.contains("weir bench --db test.db") && page.contains("weir import"), "{page}");
    assert_eq!(site.get("/runs/@last").status, 404);
}

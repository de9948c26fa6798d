//! `weir runs`, `show`, `export` and `schema` as a person or a script meets them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_simulated::SimulatedDut;
use weir_store::{NewRun, Outcome, Store};
use weir_trial::run::{
    LatencyResult, MrrResult, PointKey, PointResult, Purpose, RunState, StoredTrial, ThroughputResult,
};
use weir_trial::{Nf, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps, Ratio};

/// 2026-11-21 12:05 UTC.
const START_MS: i64 = 1_795_219_200_000 + (12 * 60 + 5) * 60_000;
const PLAN: &str = "# The plan, as it was.\nnfs = [\"l3fwd\"]\n";

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

fn with_db(db: &Path, arguments: &[&str]) -> Output {
    weir(&[arguments, &["--db", db.to_str().unwrap()]].concat())
}

/// What a call that must succeed printed.
fn said(db: &Path, arguments: &[&str]) -> String {
    let output = with_db(db, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error message of a call that must end with exit code 2.
fn refused(db: &Path, arguments: &[&str]) -> String {
    let output = with_db(db, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn key(size: u16) -> PointKey {
    PointKey {
        nf: Nf::L3Fwd { routes: 10 },
        dut: "simulated".to_owned(),
        wiring: "fed".to_owned(),
        trace: "simple".to_owned(),
        size: size.to_string(),
        mean_frame_bytes: f64::from(size),
        directions: 1,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    }
}

fn trial(sequence: u32, purpose: Purpose, load: f64) -> StoredTrial {
    let spec = TrialSpec { load: Pps(load), duration: Nanos(Nanos::PER_SECOND) };
    let result = SimulatedDut { queue: 0, ..SimulatedDut::default() }.start().run(spec);
    let started_ms = START_MS + i64::from(sequence) * 1000;
    StoredTrial::new(sequence, purpose, started_ms, result)
}

fn verdicts() -> [PointResult; 3] {
    let throughput = PointResult::Throughput(ThroughputResult {
        goal: "ndr".to_owned(),
        loss_ratio: Ratio(0.0),
        throughput: Some(Pps(4.9e6)),
        lower: Some(Pps(4.9e6)),
        upper: Some(Pps(5.1e6)),
        irregular: None,
        estimate: None,
        trial_duration: Nanos(Nanos::PER_SECOND),
        duration_sum: Nanos(Nanos::PER_SECOND),
        trials: 2,
        limit: None,
    });
    let mrr = PointResult::Mrr(MrrResult {
        load: Some(Pps(10e6)),
        rates: vec![Pps(5e6), Pps(5.1e6)],
        mean: Pps(5.05e6),
        deviation: Pps(7.07e4),
        cycles_per_packet: Some(431.25),
        limit: None,
    });
    let latency = PointResult::Latency(LatencyResult {
        label: "50% ndr".to_owned(),
        load: Pps(2.5e6),
        trial: 2,
        floor: None,
    });
    [throughput, mrr, latency]
}

/// A store with a finished run `whole`, and after it `halted`, whose points failed or were cut off.
fn store() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.db");
    let mut store = Store::open(Some(&path)).unwrap();
    let environment = BTreeMap::from([
        ("cpu".to_owned(), "Example 9000, 2 cores".to_owned()),
        ("kernel".to_owned(), "6.1.0".to_owned()),
    ]);
    let new = |name| NewRun {
        name: Some(name),
        started_ms: START_MS,
        plan: PLAN,
        weir: "0.1.0 (abc)",
        environment: &environment,
    };

    let whole = store.begin_run(new("whole")).unwrap();
    let point = store.add_point(whole, 0, &key(64)).unwrap();
    store.add_trial(point, &trial(0, Purpose::Search, 4.9e6)).unwrap();
    store.add_trial(point, &trial(1, Purpose::Search, 10e6)).unwrap();
    store.add_trial(point, &trial(2, Purpose::Latency, 2.5e6)).unwrap();
    let outcome = Outcome { dut_version: Some("simulated, \"5 Mpps\""), error: None, results: &verdicts() };
    store.finish_point(point, outcome).unwrap();
    store.end_run(whole, RunState::Finished, START_MS + 60_000).unwrap();

    let halted = store.begin_run(new("halted")).unwrap();
    let point = store.add_point(halted, 0, &key(64)).unwrap();
    let error = Some("the DUT exited with signal 11");
    store.finish_point(point, Outcome { error, ..Outcome::default() }).unwrap();
    let point = store.add_point(halted, 1, &key(128)).unwrap();
    store.add_trial(point, &trial(0, Purpose::Search, 1e6)).unwrap();
    store.add_point(halted, 1, &key(128)).unwrap();
    store.end_run(halted, RunState::Interrupted, START_MS + 1000).unwrap();
    (folder, path)
}

/// A schema as committed.
fn committed(name: &str) -> String {
    let path = format!("{}/../../schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn validator(name: &str) -> jsonschema::Validator {
    jsonschema::draft202012::new(&serde_json::from_str(&committed(name)).unwrap()).unwrap()
}

/// A printed document, once it was found to keep to its schema.
fn valid(name: &str, printed: &str) -> Value {
    let document: Value = serde_json::from_str(printed).unwrap();
    let validator = validator(name);
    let faults: Vec<_> = validator.iter_errors(&document).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{name}: {faults:#?}");
    document
}

#[test]
fn committed_schemas_are_what_the_program_prints() {
    let names = [
        "run",
        "runs",
        "compare",
        "rescore",
        "verify",
        "bundle",
        "advise",
        "perf",
        "duts",
        "doctor",
        "plan-check",
        "papers",
        "trace-info",
        "traces",
        "switch",
        "switch-stats",
        "switch-control",
        "switch-bench",
        "accounts",
        "pushed",
    ];
    for name in names {
        let printed = String::from_utf8(weir(&["schema", name]).stdout).unwrap();
        let renew = format!("renew it: weir schema {name} > schemas/{name}.schema.json");
        assert!(printed == committed(name), "{renew}");
    }
    assert_eq!(weir(&["schema", "plans"]).status.code(), Some(2));
}

#[test]
fn every_json_document_keeps_to_its_schema_and_says_its_version() {
    let (_folder, db) = store();
    let runs = valid("runs", &said(&db, &["runs", "--json"]));
    assert_eq!((runs["schema"].as_u64(), runs["runs"][0]["name"].as_str()), (Some(1), Some("halted")));
    for name in ["whole", "halted"] {
        let shown = valid("run", &said(&db, &["show", name, "--json"]));
        let exported = valid("run", &said(&db, &["export", name, "--json"]));
        assert_eq!(shown, exported);
        assert_eq!((shown["schema"].as_u64(), shown["name"].as_str()), (Some(1), Some(name)));
    }
}

/// A plan without a mistake.
const GOOD_PLAN: &str =
    "dut = \"nf\"\nnf = \"l2fwd\"\nwiring = \"fed\"\ntrace = \"tr2e\"\nsize = 64\n[mrr]\ntrials = 1\n";

#[test]
fn devices_traces_and_plans_keep_to_their_schemas_too() {
    let said = |arguments: &[&str]| String::from_utf8(weir(arguments).stdout).unwrap();
    let duts = valid("duts", &said(&["dut", "list", "--json"]));
    assert!(duts["duts"].as_array().unwrap().iter().any(|dut| dut["name"] == "nf"));
    let traces = valid("traces", &said(&["trace", "list", "--json"]));
    assert!(traces["traces"].as_array().unwrap().iter().any(|trace| trace["name"] == "tr3i"));
    let info = valid("trace-info", &said(&["trace", "info", "tr2e", "--json"]));
    assert_eq!(info["schema"].as_u64(), Some(1));
    let papers = valid("papers", &said(&["papers", "--json"]));
    assert!(papers["figures"].as_array().unwrap().iter().any(|figure| figure["name"] == "softflow/figure6"));
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    for (text, good) in [(GOOD_PLAN, true), ("dutt = \"nf\"", false)] {
        std::fs::write(&plan, text).unwrap();
        let printed = weir(&["plan", "check", &plan.display().to_string(), "--json"]).stdout;
        let checked = valid("plan-check", &String::from_utf8(printed).unwrap());
        assert_eq!(checked["good"].as_bool(), Some(good), "{checked:#}");
    }
}

#[test]
fn the_schema_refuses_a_run_with_a_field_missing_or_of_another_type() {
    let (_folder, db) = store();
    let document = valid("run", &said(&db, &["show", "whole", "--json"]));
    let validator = validator("run");
    let mut missing = document.clone();
    missing["points"][0].as_object_mut().unwrap().remove("key");
    let mut wrong = document.clone();
    wrong["points"][0]["trials"][0]["result"]["spec"]["load"] = "fast".into();
    assert!(validator.is_valid(&document) && !validator.is_valid(&missing) && !validator.is_valid(&wrong));
}

#[test]
fn runs_lists_the_newest_first_in_aligned_columns() {
    let (_folder, db) = store();
    let text = said(&db, &["runs"]);
    let lines: Vec<_> = text.lines().collect();
    let column = lines[0].find("state").unwrap();
    for (line, state, points) in
        [(lines[1], "interrupted (1 not measured)", "1/2"), (lines[2], "finished", "1/1")]
    {
        assert!(line[column..].starts_with(state) && line.contains(points), "{text}");
        assert!(line.contains("2026-11-21 12:05 UTC") && line.contains("l3fwd:10"), "{text}");
    }
    assert!(lines[1].contains("halted") && lines[2].contains("whole"), "{text}");
    let next = format!("Next: weir bench --resume halted --db {}", db.display());
    assert_eq!(lines.last(), Some(&next.as_str()));
}

#[test]
fn show_prints_each_verdict_with_unit_bounds_and_trials() {
    let (_folder, db) = store();
    let text = said(&db, &["show", "whole", "--environment"]);
    for part in [
        "run whole (#1) · 2026-11-21 12:05 UTC · finished in 60 s · 0.1.0 (abc)",
        "cpu          Example 9000, 2 cores",
        "ndr       4.900 Mpps [4.900 Mpps, 5.100 Mpps] · 33 % of 10G · 2 trials",
        "mrr       5.050 Mpps ± 70.70 kpps · 2 trials · 431.2 cycles/packet",
        "latency  p50 ",
        "at 50% ndr (2.500 Mpps)",
        "note: final trials of 1 s, shorter than the 60 s of RFC 2544, section 24 (point 0)",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    let next = format!("Next: weir report whole -o whole.html --db {}\n", db.display());
    assert!(text.ends_with(&next), "{text}");
    assert_eq!(said(&db, &["show", "whole", "--plan"]), PLAN);
}

#[test]
fn show_hides_neither_failed_nor_unfinished_points() {
    let (_folder, db) = store();
    let text = said(&db, &["show"]);
    for part in [
        "run halted (#2)",
        "interrupted",
        "not measured: the DUT exited with signal 11",
        "not finished: 1 trial kept",
        "note: not measured (point 0)",
        "note: not finished, so without verdicts (point 1)",
        "note: 1 trial kept that decided nothing",
        "Next: weir bench --resume halted",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn plot_lists_what_there_is_and_writes_one_of_it_in_the_form_of_its_ending() {
    let (folder, db) = store();
    let listed = said(&db, &["plot", "whole"]);
    assert!(listed.starts_with("ID "), "{listed}");
    let id = |form: &str| {
        let line = listed.lines().find(|line| line.split_whitespace().nth(1) == Some(form));
        line.unwrap_or_else(|| panic!("nothing is written as {form}: {listed}"))
            .split_whitespace()
            .next()
            .unwrap()
    };
    let (plot, table) = (id("svg,"), id("markdown,"));
    let drawing = folder.path().join("plot.svg");
    assert_eq!(said(&db, &["plot", "whole", "--id", plot, "-o", drawing.to_str().unwrap()]), "");
    assert_eq!(std::fs::read_to_string(&drawing).unwrap(), said(&db, &["plot", "whole", "--id", plot]));
    assert!(said(&db, &["plot", "whole", "--id", table]).starts_with("| "));
    let tex = folder.path().join("table.tex");
    said(&db, &["plot", "whole", "--id", table, "-o", tex.to_str().unwrap()]);
    assert!(std::fs::read_to_string(tex).unwrap().contains("\\begin{tabular}"));
    let columns =
        said(&db, &["plot", "whole", "--id", table, "--form", "csv"]).lines().next().unwrap().to_owned();
    assert!(columns.contains(','), "{columns}");

    let error = refused(&db, &["plot", "whole", "--id", plot, "--form", "csv"]);
    assert!(
        error.contains(&format!("{plot} is not to be had as csv; it is written as svg, pgf, pdf, png")),
        "{error}"
    );
    let error = refused(&db, &["plot", "whole", "--id", table, "--form", "pdf"]);
    assert!(
        error.contains(&format!("{table} is not to be had as pdf; it is written as markdown")),
        "{error}"
    );
    let pgf = folder.path().join("plot.pgf");
    said(&db, &["plot", "whole", "--id", plot, "-o", pgf.to_str().unwrap()]);
    assert!(std::fs::read_to_string(pgf).unwrap().contains("\\begin{tikzpicture}"));
    let error = refused(&db, &["plot", "whole", "--id", "none"]);
    assert!(error.contains("--id none: there is none such; there are ") && error.contains(plot), "{error}");
    let error = refused(&db, &["plot", "whole", "whole", "--id", plot]);
    assert!(error.contains("run whole is named twice"), "{error}");
    let error = refused(&db, &["plot", "whole", "--id", plot, "-o", folder.path().to_str().unwrap()]);
    assert!(error.contains("name another file with -o"), "{error}");
}

#[test]
fn a_plot_becomes_paper_and_a_picture_and_says_what_is_missing_where_it_cannot() {
    let (folder, db) = store();
    let listed = said(&db, &["plot", "whole"]);
    let id = listed.lines().find(|line| line.contains("svg, pgf, pdf, png")).unwrap();
    let id = id.split_whitespace().next().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut without = Command::new(env!("CARGO_BIN_EXE_weir"));
    without
        .args(["plot", "whole", "--id", id, "-o", &file("a.pdf"), "--db"])
        .arg(&db)
        .env("PATH", folder.path());
    let output = without.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("librsvg2-bin"), "{error}");
    if !weir_testkit::needs!(weir_testkit::Need::Program("rsvg-convert", "librsvg2-bin")) {
        return;
    }
    for (name, begins) in [("a.pdf", &b"%PDF-"[..]), ("a.png", b"\x89PNG\r\n")] {
        assert_eq!(said(&db, &["plot", "whole", "--id", id, "-o", &file(name)]), "");
        let bytes = std::fs::read(file(name)).unwrap();
        assert!(bytes.starts_with(begins) && bytes.len() > 2000, "{name}: {} bytes", bytes.len());
    }
}

#[test]
fn csv_is_one_row_a_trial_with_units_in_its_columns() {
    let (folder, db) = store();
    let text = said(&db, &["export", "halted", "--csv"]);
    // No cell of this run holds a comma.
    let rows: Vec<Vec<_>> = text.split_terminator("\r\n").map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 3, "a header, the failed point, one trial: {text}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    let cell = |row: usize, name: &str| {
        let column = rows[0].iter().position(|heading| *heading == name);
        rows[row][column.unwrap_or_else(|| panic!("no column {name}"))]
    };
    assert_eq!((cell(1, "point_error"), cell(1, "trial")), ("the DUT exited with signal 11", ""));
    assert_eq!((cell(2, "load_pps"), cell(2, "lost"), cell(2, "superseded")), ("1000000", "0", "true"));
    assert!(cell(2, "latency_p99.9_ns").parse::<u64>().unwrap() > 0);

    let file = folder.path().join("trials.csv");
    let said = said(&db, &["export", "whole", "--csv", "-o", file.to_str().unwrap()]);
    assert!(
        said.starts_with("wrote 3 trials of whole to ") && said.contains("\nNext: weir report"),
        "{said}"
    );
    let written = std::fs::read_to_string(file).unwrap();
    assert_eq!(written.split_terminator("\r\n").count(), 4);
    assert!(written.contains("\"simulated, \"\"5 Mpps\"\"\""), "{written}");
    let overloaded = ",10000000,1000000000,1000000000,5000000,0.5,10000000,10000000,0,0,5000000,5000000,";
    assert!(written.contains(overloaded), "{written}");
}

#[test]
fn mistakes_are_refused_with_what_to_do() {
    let (folder, db) = store();
    assert!(refused(&db, &["show", "loud"]).contains("`weir runs` lists the 2 there are"));
    assert!(refused(&db, &["show", "@first"]).contains("@last~1"));
    assert!(refused(&db, &["export", "whole"]).contains("--json"));
    assert!(refused(&db, &["export", "whole", "--json", "--csv"]).contains("cannot be used with"));
    let nowhere = folder.path().join("no/such/folder/x.csv");
    let error = refused(&db, &["export", "whole", "--csv", "-o", nowhere.to_str().unwrap()]);
    assert!(error.contains("x.csv") && error.contains("-o"), "{error}");
    let missing = folder.path().join("missing.db");
    assert!(refused(&missing, &["runs"]).contains("`weir bench` makes one"));
    let text = folder.path().join("text.db");
    std::fs::write(&text, "a long enough text, but no database\n").unwrap();
    assert!(refused(&text, &["runs"]).contains("is not a Weir database"));
}

#[test]
fn an_empty_store_suggests_the_first_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("weir.db");
    Store::open(Some(&db)).unwrap();
    let text = said(&db, &["runs"]);
    assert!(text.starts_with("no runs in ") && text.contains("Next: weir bench --db "), "{text}");
    assert!(refused(&db, &["show"]).contains("nothing has been measured"));
}

//! `weir advise` from a stored run to the check that confirms or refutes it, on a simulated device of known parts, which
//! needs no DPDK port, no root and no core.

use crate::lab::{Lab, told, weir};
use serde_json::Value;
use std::process::Output;

/// A router on three shares of a core, and its delays.
const SHARES: &str = "nf = \"l3fwd:10\"\ndut = \"simulated:parts\"\nfrequency = [\"25%\", \"50%\", \"100%\"]\n\
    trace = \"simple\"\nsize = 64\ndirections = 1\nline_rate = \"100G\"\n[mrr]\ntrials = 5\n[simulated]\nnoise = \"0.5%\"\n";

/// A function with its copies behind a host.
const COPIES: &str = "nf = \"firewall:10\"\ndut = \"simulated:parts\"\ndeployment = \"vhost\"\ncopies = [1, 2]\n\
    trace = \"simple\"\nsize = 64\ndirections = 1\nline_rate = \"100G\"\n[mrr]\ntrials = 5\n\
    [latency_curve]\nfrom = \"100kpps\"\nduration = \"200ms\"\n[simulated]\nnoise = \"0.5%\"\n";

fn advise(lab: &Lab, arguments: &[&str]) -> Output {
    let mut command = weir();
    command.arg("advise").args(arguments).arg("--db").arg(lab.file("weir.db"));
    command.env("TMPDIR", lab.temporary()).env("WEIR_LEASES", lab.file("leases")).output().unwrap()
}

fn said(lab: &Lab, arguments: &[&str], code: i32) -> String {
    let output = advise(lab, arguments);
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn document(lab: &Lab, arguments: &[&str], code: i32) -> Value {
    let printed = said(lab, &[arguments, &["--json"]].concat(), code);
    let document: Value = serde_json::from_str(&printed).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/advise.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<_> = validator.iter_errors(&document).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{document:#}");
    document
}

/// The error message of bad use.
fn refused(lab: &Lab, arguments: &[&str]) -> String {
    let output = advise(lab, arguments);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn advice_has_its_interval_and_its_points_and_a_check_of_it_is_kept_with_the_run() {
    let lab = Lab::new(SHARES);
    lab.measure(0);
    let run = lab.stored().unwrap();
    let text = said(&lab, &["@last", "--load", "3Mpps"], 0);
    for part in [
        "asked for: 3.000 Mpps, a loss of at most 0.00 %",
        "speed  l3fwd:10 on simulated:parts, simple, 64 B",
        "% carries 3.000 Mpps",
        "(95 % prediction interval",
        "from: points 0, 1, 2",
        "not answered",
        "no delays were measured",
        "--question copies --plan",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    let checked = document(&lab, &[&run.name, "--load", "3Mpps", "--question", "speed", "--check"], 0);
    let check = &checked["checks"][0];
    assert_eq!(
        (check["verdict"].as_str(), check["of"].as_str()),
        (Some("confirmed"), Some(run.name.as_str()))
    );
    assert_eq!(check["compared"][0]["inside"].as_bool(), Some(true), "{check:#}");
    assert_eq!(check["compared"][1]["quantity"]["kind"].as_str(), Some("loss"), "{check:#}");
    // It was measured, as a run of its own, and it stands with the run that it came from.
    let measured = check["run"].as_str().unwrap();
    let show = |name: &str, json: bool| {
        let mut command = weir();
        command.args(["show", name]).args(json.then_some("--json")).arg("--db").arg(lab.file("weir.db"));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(show(measured, false).contains("simulated:parts at "), "{}", show(measured, false));
    let shown: Value = serde_json::from_str(&show(&run.name, true)).unwrap();
    assert_eq!(shown["advice"][0]["run"].as_str(), Some(measured));
    assert!(show(&run.name, false).contains("advice that was checked"), "{}", show(&run.name, false));
    let errors = said(&lab, &["--errors"], 0);
    assert!(errors.contains("1 check(s): 1 confirmed") && errors.contains("1 of 1 predictions"), "{errors}");
    assert_eq!(document(&lab, &["--errors"], 0)["checks"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_run_cannot_answer_is_answered_by_the_plan_that_it_names() {
    let lab = Lab::new(&SHARES.replace("[\"25%\", \"50%\", \"100%\"]", "\"100%\""));
    lab.measure(0);
    let text = said(&lab, &["@last", "--load", "3Mpps", "--question", "speed"], 0);
    assert!(text.contains("the points have one speed") && text.contains("--question speed --plan"), "{text}");
    let plan = lab.file("speed.toml");
    let wrote = said(
        &lab,
        &["@last", "--load", "3Mpps", "--question", "speed", "--plan", "-o", plan.to_str().unwrap()],
        0,
    );
    assert!(wrote.contains("Next: weir advise"), "{wrote}");
    // The plan in place of a run: it is measured, and answers.
    let text = said(&lab, &[plan.to_str().unwrap(), "--load", "3Mpps", "--question", "speed"], 0);
    assert!(text.contains("% carries 3.000 Mpps") && text.contains("from: points 0, 1, 2, 3"), "{text}");
}

#[test]
fn a_device_that_is_not_what_it_was_refutes_the_advice() {
    let lab = Lab::new(SHARES);
    lab.measure(0);
    // The same run as a slower device would continue it: its stored plan says how fast the check's device is.
    let db = rusqlite::Connection::open(lab.file("weir.db")).unwrap();
    let plan = SHARES.to_owned() + "[simulated.parts]\nl3fwd = \"90ns\"\n";
    db.execute("UPDATE runs SET plan = ?", [plan]).unwrap();
    drop(db);
    let text = said(&lab, &["@last", "--load", "3Mpps", "--question", "speed", "--check"], 1);
    assert!(text.contains("refuted") && text.contains("is not within"), "{text}");
    let errors = said(&lab, &["--errors"], 0);
    assert!(errors.contains("1 refuted") && errors.contains("0 of 1 predictions"), "{errors}");
}

#[test]
fn copies_and_the_load_to_split_at_come_with_their_delay() {
    let lab = Lab::new(COPIES);
    lab.measure(0);
    let asked = ["@last", "--load", "8Mpps", "--delay", "p90 < 1us"];
    let document = document(&lab, &asked, 0);
    let of = |question: &str| {
        let answers = document["answers"].as_array().unwrap();
        answers
            .iter()
            .find(|answer| answer["question"] == question)
            .unwrap_or_else(|| panic!("{document:#}"))
            .clone()
    };
    let copies = of("copies");
    assert_eq!(
        (copies["kind"].as_str(), copies["key"]["placement"]["copies"].as_u64()),
        (Some("advice"), Some(2))
    );
    assert_eq!(copies["predictions"][1]["quantity"]["statistic"].as_str(), Some("p90"), "{copies:#}");
    assert!(of("split")["says"].as_str().unwrap().starts_with("split its traffic above "), "{document:#}");
    // One of twenty lies outside of its interval: the copies are asked to be inside, and every advice to have been measured.
    let output = advise(&lab, &[&asked[..], &["--question", "copies,split", "--check"]].concat());
    let text = told(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    assert!(text.contains("2 copies carry 8.000 Mpps") && text.matches("% (inside)").count() >= 3, "{text}");
    let checks = said(&lab, &["--errors"], 0);
    assert!(checks.contains("3 check(s)") && checks.contains("0 undecided"), "{checks}");
}

#[test]
fn nonsense_is_refused_with_what_may_be_written() {
    let lab = Lab::new(SHARES);
    assert!(refused(&lab, &["@last", "--load", "3Mpps"]).contains("there is no store"));
    lab.measure(0);
    for (arguments, says) in [
        (&["loud", "--load", "3Mpps"][..], "no run matches `loud`"),
        (&["@last", "--load", "3Mph"], "is not a packet rate"),
        (&["@last", "--load", "0pps"], "a load of nothing"),
        (&["@last", "--load", "3Mpps", "--loss", "1.5"], "is not a ratio between 0 and 1"),
        (&["@last", "--load", "3Mpps", "--delay", "fast"], "bounds no delay"),
        (&["@last", "--load", "3Mpps", "--question", "hosts"], "speed, cores, copies"),
        (&["@last", "--load", "3Mpps", "--point", "9"], "it has 0 to 2"),
        (&["@last", "--load", "3Mpps", "--chain", "l2fwd+what"], "l2fwd+what"),
        (&["@last", "--load", "3Mpps", "--question", "speed", "--plan"], "leaves no question open"),
        (&["@last", "--question", "copies", "--check"], "nothing to check"),
        (&["nowhere.toml", "--load", "3Mpps"], "nowhere.toml"),
    ] {
        let error = refused(&lab, arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    // A run that was cut off before its first point.
    let db = rusqlite::Connection::open(lab.file("weir.db")).unwrap();
    db.execute_batch("PRAGMA foreign_keys = ON; DELETE FROM points").unwrap();
    drop(db);
    assert!(refused(&lab, &["@last", "--load", "3Mpps"]).contains("no points to advise from"));
}

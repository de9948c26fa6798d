//! `weir history` over runs of a device that became slower.

use crate::lab::{Lab, told, weir};
use serde_json::Value;
use std::fs;
use std::process::Output;

/// A run of a moment: rates of three trials.
fn plan(capacity: &str, seed: usize, sizes: &str) -> String {
    format!(
        "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"simple\"\nsize = {sizes}\n\
         [mrr]\ntrials = 3\nduration = \"100ms\"\n\
         [simulated]\ncapacity = \"{capacity}\"\nnoise = \"1%\"\nseed = {seed}\n"
    )
}

/// A store with runs before and after a change.
fn measured() -> Lab {
    let lab = Lab::new("");
    for run in 0..8 {
        let (capacity, sizes) = if run < 4 { ("5Mpps", "[64]") } else { ("4Mpps", "[64, 128]") };
        fs::write(lab.file("plan.toml"), plan(capacity, run + 1, sizes)).unwrap();
        let output = lab.bench().args(["--name", &format!("run-{run}")]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    lab
}

fn asked(lab: &Lab, words: &[&str]) -> Output {
    weir().arg("history").args(words).arg("--db").arg(lab.file("weir.db")).output().unwrap()
}

fn said(lab: &Lab, words: &[&str], code: i32) -> String {
    let output = asked(lab, words);
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn a_device_that_became_slower_is_seen_at_its_run_with_what_changed_then() {
    let lab = measured();
    let list = said(&lab, &[], 0);
    assert!(list.contains("64 B") && list.contains("128 B") && list.contains("since run-4"), "{list}");
    assert!(list.contains("Next: weir history --series 0"), "{list}");

    let one = said(&lab, &["--size", "64", "-o", lab.file("rate.svg").to_str().unwrap()], 0);
    for part in
        ["(worse) from run-3 to run-4", "plan: [simulated] capacity", "\"5Mpps\"", "\"4Mpps\"", "4 runs at"]
    {
        assert!(one.contains(part), "{part:?} is missing: {one}");
    }
    assert!(!one.contains("plan: size"), "a list of sizes changes no point: {one}");
    let svg = fs::read_to_string(lab.file("rate.svg")).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.contains("8 runs from run-0 (") && svg.contains("level"),
        "{svg}"
    );

    let document = said(&lab, &["--json"], 0);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/history.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<_> = validator.iter_errors(&document).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty() && document["schema"] == 1, "{faults:#?}");
    let series = document["series"].as_array().unwrap();
    let of = |size: &str| series.iter().find(|series| series["point"]["size"] == size).unwrap();
    assert_eq!(of("64")["changes"][0]["at"], 4);
    assert_eq!(of("64")["values"].as_array().unwrap().len(), 8);
    assert!(of("128")["changes"].as_array().unwrap().is_empty(), "it was measured after the change alone");
    assert!(document["key"].as_str().unwrap().contains("machine"));
}

#[test]
fn a_history_of_files_needs_no_store_and_bad_questions_are_answered_with_what_there_is() {
    let lab = Lab::new(&plan("5Mpps", 1, "[64, 128]"));
    let mut files = Vec::new();
    for name in ["a", "b"] {
        assert_eq!(lab.bench().args(["--name", name]).output().unwrap().status.code(), Some(0));
        let file = lab.file(&format!("{name}.weir"));
        let mut export = weir();
        export.args(["export", "@last", "--bundle", "-o"]).arg(&file).arg("--db").arg(lab.file("weir.db"));
        assert!(export.output().unwrap().status.success());
        files.push(file.to_str().unwrap().to_owned());
    }
    let output = weir().args(["history", &files[0], &files[1], "--size", "64"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("No change: 2 runs at"), "{text}");
    for (words, why) in [
        (&["--quantity", "speed"][..], "there are forwarded rate"),
        (&["--series", "7"], "there are 2, numbered from 0"),
        (&["-o", "/nowhere/x.svg", "--size", "64"], "name another file with -o"),
        (&["-o", "x.svg"], "-o draws one series, and 2 are left"),
        (&["a", "a"], "named twice"),
        (&["gone"], "gone"),
    ] {
        let error = said(&lab, words, 2);
        assert!(error.contains(why), "{error}");
    }
    assert!(said(&lab, &["--nf", "firewall:10"], 0).contains("nothing was measured yet"));
}

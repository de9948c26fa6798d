//! Runs and bundles whose texts somebody else wrote to be obeyed by a terminal: nothing that is printed does so.

use crate::lab::{Lab, told, weir};
use serde_json::Value;
use std::fs;
use std::path::Path;
use weir_trial::run::Run;

/// Clears the screen, names the window, goes back in the line, turns the direction, hides.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}8m\u{202e}\u{200b}y";

/// A run with such texts wherever somebody else's may stand.
fn hostile(name: &str, uuid: &str) -> Run {
    let mut run = Run::from_json(include_str!("../../../docs/runs/readme.json")).unwrap();
    run.uuid = uuid.to_owned();
    run.name = format!("{name}{HOSTILE}");
    run.weir = format!("weir {name} {HOSTILE}");
    run.environment.insert(format!("fact {HOSTILE}"), HOSTILE.to_owned());
    run.environment.insert("kernel.release".to_owned(), format!("{name}{HOSTILE}"));
    for point in &mut run.points {
        point.dut_version = Some(format!("{name}{HOSTILE}"));
        point.key.wiring = format!("fed{HOSTILE}");
    }
    run.points[1].error = Some(format!("failed: {HOSTILE}"));
    run
}

fn printed(words: &[&str]) -> String {
    // As on a terminal: where colours are not wanted they are taken out, and others' sequences with them.
    let output = weir().args(words).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR").output().unwrap();
    assert!(output.status.code().is_some_and(|code| code <= 2), "{}", told(&output));
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    for sequence in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\r", "\u{9b}", "\u{202e}", "\u{200b}"] {
        assert!(!text.contains(sequence), "{words:?} printed {sequence:?}: {text:?}");
    }
    text
}

fn file(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn what_a_run_says_is_shown_and_never_obeyed() {
    let lab = Lab::new("");
    let (a, b) = (lab.file("a.json"), lab.file("b.json"));
    for (path, name) in [(&a, "one"), (&b, "two")] {
        let run = hostile(name, &format!("01a20844-02fe-7058-b942-{name}00000000"));
        fs::write(path, run.to_json_line().unwrap()).unwrap();
    }
    let (a, b) = (file(&a), file(&b));
    for words in [
        &["show", a, "--environment"][..],
        &["compare", a, b],
        &["compare", a, b, "--markdown"],
        &["verify", a],
        &["rescore", a],
        &["history", a, b],
        &["history", a, b, "--series", "0"],
        &["plot", a],
    ] {
        let text = printed(words);
        assert!(
            words[0] == "plot" || text.contains("\\u001b[2J") || text.contains("has no"),
            "{words:?}: {text}"
        );
    }
    // A document is the same document.
    let document: Value = serde_json::from_str(&printed(&["show", a, "--json"])).unwrap();
    assert_eq!(document["points"][0]["dut_version"], format!("one{HOSTILE}"));
}

#[test]
fn what_a_store_or_a_bundle_holds_is_listed_and_never_obeyed() {
    let plan = "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = 64\n[mrr]\ntrials = 2\nduration = \"50ms\"\n";
    let lab = Lab::new(plan);
    lab.measure(0);
    let (db, bundle) = (lab.file("weir.db"), lab.file("run.weir"));
    let raw = rusqlite::Connection::open(&db).unwrap();
    let name: String = raw.query_row("SELECT name FROM runs", [], |row| row.get(0)).unwrap();
    raw.execute("UPDATE runs SET name = ?1, weir = ?1", [HOSTILE]).unwrap();
    raw.execute("UPDATE points SET dut_version = ?1", [HOSTILE]).unwrap();
    let db = file(&db);
    for words in [&["runs", "--db", db][..], &["show", "@last", "--db", db], &["verify", "@last", "--db", db]]
    {
        assert!(printed(words).contains("x\\u001b[2J"), "{words:?}");
    }
    // The name of a run that is not there comes back in the error.
    assert!(printed(&["show", "gone\u{1b}[2J", "--db", db]).contains("gone\\u001b[2J"));
    // A bundle's name is checked when it is written; the rest of it may be anything.
    raw.execute("UPDATE runs SET name = ?1", [name]).unwrap();
    drop(raw);
    for words in [
        &["export", "@last", "--bundle", "-o", file(&bundle), "--db", db][..],
        &["show", file(&bundle)],
        &["verify", file(&bundle)],
        &["import", file(&bundle), "--db", file(&lab.file("other.db"))],
    ] {
        printed(words);
    }
    assert!(bundle.is_file());
}

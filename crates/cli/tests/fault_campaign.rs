//! The campaign of faults (`scripts/faults`): some of its faults, put to the switch that was just built, and its page.

use std::path::Path;
use std::process::Command;
use weir_testkit::{Need, needs};

/// Those that take a moment at one switch; the others are put by hand, and stand on the page.
const QUICK: [&str; 5] =
    ["client-breaks-off", "client-nonsense", "descriptors-end", "bundle-left-open", "bad-flows"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn faults(words: &[&str]) -> (bool, String) {
    let output = Command::new("python3").arg(root().join("scripts/faults")).args(words).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[test]
fn what_goes_wrong_with_a_switch_that_forwards_costs_what_was_promised() {
    if !needs!(Need::Program("python3", "python3"), Need::Program("setpriv", "util-linux")) {
        return;
    }
    let mut words = vec!["--weir", env!("CARGO_BIN_EXE_weir")];
    words.extend(QUICK.iter().flat_map(|name| ["--only", *name]));
    let (is_well, said) = faults(&words);
    assert!(is_well && said.contains(&format!("{} passed, 0 failed, 0 skipped", QUICK.len())), "{said}");
}

#[test]
fn the_page_of_faults_has_each_fault_with_its_promise_and_tests_that_there_are() {
    if !needs!(Need::Program("python3", "python3")) {
        return;
    }
    let (is_well, said) = faults(&["--check"]);
    assert!(is_well, "{said}");
    let count: usize =
        said.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert!(count >= 32, "{said}");
}

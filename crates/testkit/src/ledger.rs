//! Whether a test can run, and what is written down about it.

use crate::Need;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The environment's word for a machine on which nothing may be missing.
const CI: &str = "CI";

/// Where it is written down.
const LEDGER: &str = "WEIR_LEDGER";

/// Whether this machine has all of these; [`needs!`](crate::needs) calls it with its own place.
///
/// # Panics
/// In CI, where something is missing.
pub fn can_run(file: &str, line: u32, needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter_map(Need::missing).collect();
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    write_down(file, line, &test, missing.is_empty());
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(", ");
    assert!(
        !is_ci(std::env::var(CI).ok().as_deref()),
        "{test} needs {missing}, which this machine has not; where CI=true is set, no test is skipped. \
         `./x setup --test` installs what can be installed"
    );
    println!("skipped: {test} needs {missing}");
    false
}

fn is_ci(value: Option<&str>) -> bool {
    value.is_some_and(|value| !matches!(value, "" | "0" | "false"))
}

/// A line for each place and test: tests of many processes write one file, each line by one call.
fn write_down(file: &str, line: u32, test: &str, ran: bool) {
    let Some(path) = std::env::var_os(LEDGER) else { return };
    let what = if ran { "ran" } else { "skipped" };
    let entry = format!("{what}\t{file}:{line}\t{test}\n");
    let ledger = OpenOptions::new().create(true).append(true).open(&path);
    ledger
        .and_then(|mut ledger| ledger.write_all(entry.as_bytes()))
        .unwrap_or_else(|error| panic!("{LEDGER}={}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// This test program again, for one test, with another environment.
    fn again(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--include-ignored"]).env_remove(CI).env_remove(LEDGER);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    #[ignore = "the other tests here start it"]
    fn needs_what_no_machine_has() {
        if !crate::needs!(Need::File("/no/such/file")) {
            return;
        }
        panic!("it ran");
    }

    #[test]
    fn a_missing_need_skips_on_a_laptop_and_fails_in_ci() {
        const TEST: &str = "ledger::tests::needs_what_no_machine_has";
        let folder = std::env::temp_dir().join(format!("weir-ledger-{}", std::process::id()));
        let path = folder.to_str().unwrap();
        let (went_well, text) = again(TEST, &[(LEDGER, path)]);
        assert!(went_well && text.contains("skipped: ") && text.contains("needs /no/such/file"), "{text}");
        let (went_well, text) = again(TEST, &[(LEDGER, path), (CI, "true")]);
        assert!(!went_well && text.contains("no test is skipped"), "{text}");
        let ledger = std::fs::read_to_string(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let lines: Vec<Vec<&str>> = ledger.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line[0] == "skipped" && line[1].contains("ledger.rs:")), "{ledger}");
    }

    #[test]
    fn what_every_machine_has_is_there() {
        assert!(can_run("f", 1, &[Need::File("/proc"), Need::Program("sh", "dash"), Need::HugePages(0)]));
        assert!(is_ci(Some("true")) && is_ci(Some("1")));
        assert!(!is_ci(None) && !is_ci(Some("false")) && !is_ci(Some("")));
    }
}

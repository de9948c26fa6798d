//! `weir doctor` as a person or a script meets it, on the machine that runs the tests.

use serde_json::Value;
use std::process::{Command, Output};

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("doctor").args(arguments).env("NO_COLOR", "1").output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn json_keeps_to_its_schema_and_the_exit_code_says_whether_something_spoils() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("weir.db").display().to_string();
    let output = doctor(&["--json", "--seconds", "0.2", "--db", &db]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = format!("{}/../../schemas/doctor.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(&document).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(document["schema"].as_u64(), Some(1));
    let spoils = document["spoils"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(spoils)));
    let worst =
        document["findings"].as_array().unwrap().iter().any(|finding| finding["severity"] != "weakens");
    assert_eq!(worst, spoils);
    for finding in document["findings"].as_array().unwrap() {
        assert!(!finding["mend"].as_str().unwrap().is_empty(), "{finding}");
    }
    assert!(document["facts"]["weir.version"].as_str().unwrap().starts_with("weir "));
    assert!(!folder.path().join("weir.db").exists(), "looking makes no store");
}

#[test]
fn people_get_every_finding_with_its_command_and_no_colour_in_a_pipe() {
    let output = doctor(&["--seconds", "0.1"]);
    let said = text(&output);
    assert!(!said.contains('\x1b'));
    assert!(said.contains("\nWELL  ") && said.contains("\nNext: "), "{said}");
    // What is not optimised is found: tests are debug builds.
    let build = said.lines().position(|line| line.trim_start().starts_with("build "));
    assert_eq!(build.is_some(), cfg!(debug_assertions), "{said}");
    let findings = said.lines().filter(|line| line.trim_start().starts_with("mend: ")).count();
    assert!(findings >= usize::from(cfg!(debug_assertions)));
}

#[test]
fn facts_are_what_a_run_would_keep() {
    let said = text(&doctor(&["--facts"]));
    for name in ["cpu.model", "kernel.release", "dpdk.version", "build.rustc", "weir.version"] {
        assert!(said.lines().any(|line| line.starts_with(name)), "{name} is missing from\n{said}");
    }
}

#[test]
fn a_time_that_is_none_is_refused_with_the_times_that_would_do() {
    for seconds in ["0", "-1", "NaN", "7200"] {
        let output = doctor(&[&format!("--seconds={seconds}")]);
        assert_eq!(output.status.code(), Some(2), "{seconds}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("up to 3600 seconds"));
    }
}

#[test]
fn without_root_it_says_what_it_would_change_and_changes_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let undone = Command::new(env!("CARGO_BIN_EXE_weir")).args(["doctor", "--undo"]).output().unwrap();
    if !std::path::Path::new("/run/weir/quieted.json").exists() {
        assert_eq!(undone.status.code(), Some(2), "{undone:?}");
        let text = String::from_utf8_lossy(&undone.stderr);
        assert!(text.contains("nothing to undo") && text.contains("weir doctor --apply"), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("weir");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &program).unwrap();
    let mut command = Command::new(program);
    command.args(["doctor", "--apply"]).current_dir("/");
    if nix::unistd::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("takes root: sudo weir doctor --apply") && text.contains("would change"), "{text}");
}

//! `weir trace` as a person or a script meets it.

use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The error message of a call that must end with exit code 2.
fn bad_use(arguments: &[&str]) -> String {
    let output = weir(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn list_aligns_every_trace_with_its_source() {
    let output = weir(&["trace", "list"]);
    assert!(output.status.success());
    let text = stdout(&output);
    let column = text.lines().next().unwrap().find("source").unwrap();
    for name in ["simple", "tr2e", "tr3i", "tr4e", "tr5ul", "tr5dl", "t2", "t3", "flows:N"] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        assert_eq!(&line[column - 2..column], "  ", "{line}");
        assert_ne!(&line[column..=column], " ", "{line}");
    }
}

#[test]
fn info_compares_with_the_paper_s_counts() {
    let output = weir(&["trace", "info", "tr5ul"]);
    assert!(output.status.success());
    let text = stdout(&output);
    for line in [
        "flows                                         64,500        64,500  ok",
        "destination IP addresses                       6,450         6,450  ok",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("DIFFERS"));
}

#[test]
fn info_prints_json_with_its_schema_version() {
    let output = weir(&["trace", "info", "tr2e", "--size", "imix", "--direction", "1", "--json"]);
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["schema"].as_u64(), json["direction"].as_u64()), (Some(1), Some(1)));
    assert_eq!((json["flows"].as_u64(), json["source_macs"].as_u64()), (Some(100), Some(100)));
    assert_eq!(json["hash"].as_str().unwrap().len(), 64);
    assert!(json["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true));
    let list: serde_json::Value = serde_json::from_slice(&weir(&["trace", "list", "--json"]).stdout).unwrap();
    assert_eq!(list["schema"].as_u64(), Some(1));
    assert!(list["traces"].as_array().unwrap().iter().any(|entry| entry["name"] == "tr5dl"));
}

#[test]
fn what_gen_writes_info_finds_again() {
    let folder = tempfile::tempdir().unwrap();
    let original: serde_json::Value =
        serde_json::from_slice(&weir(&["trace", "info", "tr2i", "--size", "web", "--json"]).stdout).unwrap();
    for name in ["out.pcap", "out.pcapng"] {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        let output = weir(&["trace", "gen", "tr2i", "--size", "web", "-o", path]);
        assert!(output.status.success(), "{output:?}");
        let read: serde_json::Value =
            serde_json::from_slice(&weir(&["trace", "info", path, "--json"]).stdout).unwrap();
        assert_eq!((&read["hash"], &read["packets"]), (&original["hash"], &original["packets"]), "{name}");
        assert!(read["gaps"]["mean"].as_u64().unwrap() > 0);
    }
}

#[test]
fn gen_repeats_a_trace_up_to_the_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n.pcap");
    let output =
        weir(&["trace", "gen", "tr2i", "--count", "250", "--rate", "1Mpps", "-o", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 24 + 250 * (16 + 60));
    let read: serde_json::Value =
        serde_json::from_slice(&weir(&["trace", "info", path.to_str().unwrap(), "--json"]).stdout).unwrap();
    assert_eq!((read["flows"].as_u64(), read["gaps"]["mean"].as_u64()), (Some(100), Some(1_000)));
}

#[test]
fn mistakes_are_named_and_end_with_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a capture").unwrap();
    let text = text.to_str().unwrap();
    assert!(bad_use(&["trace", "info", "tr3l"]).contains("did you mean `tr3"));
    assert!(bad_use(&["trace", "info", "simple", "--size", "63"]).contains("63 B is outside 64..=9022"));
    assert!(bad_use(&["trace", "info", "simple", "--size", "big"]).contains("imix, web"));
    assert!(bad_use(&["trace", "info", "simple", "--direction", "2"]).contains("write 0"));
    assert!(bad_use(&["trace", "info", text]).contains("neither pcap nor pcapng"));
    assert!(bad_use(&["trace", "info", "no/such.pcap"]).contains("no/such.pcap"));
    assert!(bad_use(&["trace", "gen", "simple", "-o", "/no/such/folder/x.pcap"]).contains("/no/such/folder"));
    assert!(bad_use(&["trace", "gen", "simple", "--count", "0", "-o", text]).contains("above zero"));
    assert_eq!(std::fs::read_to_string(text).unwrap(), "not a capture", "a refused call writes nothing");
}

#[test]
fn a_capture_is_never_overwritten_while_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("same.pcap");
    let path = path.to_str().unwrap();
    assert!(weir(&["trace", "gen", "tr2i", "-o", path]).status.success());
    assert!(bad_use(&["trace", "gen", path, "-o", path]).contains("overwritten"));
}

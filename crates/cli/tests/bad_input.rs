//! What the program says to mistakes: what is wrong, where, how to mend it, and the exit code.
//!
//! 2 is the caller's mistake, 1 a measurement that failed. No test here needs a core for itself.

use crate::lab::{Lab, told, weir};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use weir_store::{NewRun, Store};
use weir_testkit::Need;
use weir_trial::run::RunState;

/// A plan that measures something in no time.
const PLAN: &str = "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = 64\n[mrr]\ntrials = 2\n";

/// Asserts an exit code and every part of the message, and that nothing panicked.
fn refused(output: &Output, code: i32, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    assert!(!text.contains("panicked"), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
}

/// Measures a plan that must be refused before anything is stored.
fn refused_plan(plan: &str, parts: &[&str]) {
    let lab = Lab::new(plan);
    refused(&lab.bench().output().unwrap(), 2, parts);
    assert_eq!(lab.stored(), None, "no run was begun");
    assert!(!lab.file("page.html").exists());
}

#[test]
fn a_plan_that_is_not_there_is_answered_with_those_that_are() {
    let lab = Lab::new(PLAN);
    let output = lab.bare().arg("qwick").output().unwrap();
    refused(&output, 2, &["plan `qwick`", "No such file", "quick, nfpa, full"]);
}

#[test]
fn a_mistake_in_a_plan_is_shown_in_its_place_with_its_cure() {
    refused_plan(
        &PLAN.replace("size =", "sizes ="),
        &["plan.toml:4:1: unknown key `sizes`", "did you mean `size`?"],
    );
    refused_plan(
        &PLAN.replace("tr3i", "tr3o"),
        &["plan.toml:3:9: unknown trace `tr3o`", "did you mean `tr3"],
    );
    refused_plan(
        &PLAN.replace("64", "63"),
        &["plan.toml:4:8", "63 B is outside 64..=9022 B", "include the 4-byte FCS"],
    );
    let nf = "nf = \"l2fwd\"";
    for (with, parts) in [
        ("", &["names no network function", "`chain`"][..]),
        ("nf = \"l2fwd\"\nchain = [\"l2fwd\"]", &["plan.toml:2:9", "write one of them"]),
        ("chain = []", &["`chain` is an empty list"]),
        ("chain = [\"l2fwd\", \"nat\"]", &["nat:1 cannot be in a chain", "nobody follows further"]),
        ("chain = [\"pipeline-b\", \"pipeline-b\"]", &["pipeline-b:500 stands twice in a chain"]),
        ("nf = \"l2fwd+flows:nowhere.flows\"", &["plan.toml:1:6", "nowhere.flows", "name a file of flows"]),
        ("chain = [\"l2fwd\", \"l2fwt\"]", &["unknown chain `l2fwt`", "did you mean `l2fwd`?"]),
        (
            "chain = [\"l2fwd\"]\nlength = [1, 2]",
            &["plan.toml:2:14", "2 is not possible; the chain has 1 functions"],
        ),
        ("nf = \"l2fwd\"\nlength = 1", &["there is none; write one"]),
        (
            "nf = \"l2fwd\"\ndeployment = \"pod\"",
            &["unknown deployment `pod`", "inline, vhost, vale, container, shared, vm"],
        ),
        ("nf = \"l2fwd\"\nvcpus = 2", &["`vcpus` is said of guests", "add deployment `vm`"]),
        (
            "nf = \"l2fwd\"\ndeployment = \"vm\"\nmemory = [8, 512]\nvcpus = 0\naccel = \"xen\"",
            &[
                "`memory`: 8 is outside of 16",
                "`vcpus`: 0 is outside of 1",
                "unknown accel `xen`",
                "kvm, tcg",
            ],
        ),
        ("nf = \"l2fwd\"\nhost = \"weir\"", &["`host` carries packets", "leave it out"]),
        (
            "nf = \"l2fwd\"\ndeployment = \"vhost\"\nhost = \"linux\"",
            &["unknown host `linux`", "weir, testpmd, ovs-dpdk"],
        ),
        ("nf = \"l2fwd\"\ncores = \"two\"", &["`two` is no use of cores", "\"shared\""]),
    ] {
        refused_plan(&PLAN.replace(nf, with), parts);
    }
    refused_plan(
        &PLAN.replace("simulated", "testpdm"),
        &["plan.toml:2:7: unknown dut `testpdm`", "did you mean `testpmd`?"],
    );
    let wiring = PLAN.replace("[mrr]", "wiring = \"vhosts\"\n[mrr]");
    refused_plan(
        &wiring,
        &["plan.toml:5:10: unknown wiring `vhosts`", "did you mean `vhost`?", "allowed: vhost, memif"],
    );
    refused_plan(&PLAN.replace("l2fwd", "l3fwd:0"), &["plan.toml:1:6", "l3fwd:0", "1 to 100000"]);
    refused_plan(&PLAN.replace("tr3i", "no/such.pcap"), &["plan.toml:3:9", "no/such.pcap"]);
    let zero = PLAN.to_owned() + "[throughput]\ngoals = \"ndr\"\nmax_load = \"0pps\"\n";
    refused_plan(&zero, &["plan.toml:9:12", "0 pps", "above zero"]);
    let none = "nf = \"l2fwd\"\ntrace = \"tr3i\"\nsize = 64\n";
    refused_plan(none, &["[throughput]", "[mrr]", "[latency]"]);
    refused_plan("nf = \"l2fwd\nsize = 64", &["plan.toml:1:"]);
}

#[test]
fn mistakes_in_options_are_told_by_the_options_name() {
    let lab = Lab::new(PLAN);
    for (arguments, parts) in [
        (vec!["--size", "63"], vec!["--size 63: ", "63 B is outside"]),
        (
            vec!["--dut", "snabb"],
            vec!["--dut snabb: unknown dut `snabb`", "allowed: nf, weir, testpmd, ovs-dpdk"],
        ),
        (vec!["--trace", "tr3"], vec!["--trace tr3: unknown trace `tr3`", "did you mean"]),
        (vec!["--directions", "3"], vec!["--directions 3: `directions`", "1 or 2"]),
        (vec!["--repeats", "0"], vec!["--repeats 0: `repeats`", "1 to 100"]),
        // Both at once, each by its name.
        (vec!["--size", "63", "--dut", "snabb"], vec!["--size 63: ", "--dut snabb: "]),
    ] {
        let output = lab.bench().args(&arguments).output().unwrap();
        refused(&output, 2, &parts);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("plan.toml:"), "{arguments:?} is no mistake in the plan: {text}");
    }
    // An option that the plan's own keys do not go with is told in its place, with the option.
    let output = lab.bench().args(["--size", "recorded"]).output().unwrap();
    refused(&output, 2, &["comes in", "in place of the plan's own stand --size recorded"]);
    assert_eq!(lab.stored(), None);
}

#[test]
fn a_plan_with_ten_mistakes_has_all_ten_told_at_once() {
    let plan = "nf = \"l2fwdd\"\ndut = \"testpdm\"\ntrace = \"tr3o\"\nsizes = 64\nsize = [63, 9999]\n\
                line_rate = \"10Q\"\nrepeats = 0\nseed = -1\n[mrr]\ntrials = 0\n[mrrr]\nx = 1\n";
    let lab = Lab::new(plan);
    let check = weir().args(["plan", "check"]).arg(lab.file("plan.toml")).output().unwrap();
    refused(
        &check,
        2,
        &[
            ":1:6: unknown nf `l2fwdd`",
            ":2:7: unknown dut `testpdm`",
            ":3:9: unknown trace `tr3o`",
            ":4:1: unknown key `sizes`",
            ":5:9: ",
            ":5:13: ",
            ":6:13: `line_rate`",
            ":7:11: `repeats`",
            ":8:8: `seed`",
            ":10:10: `trials`",
            ":11:2: unknown key `mrrr`",
        ],
    );
    let json = weir().args(["plan", "check", "--json"]).arg(lab.file("plan.toml")).output().unwrap();
    assert_eq!(json.status.code(), Some(2), "{}", told(&json));
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["errors"].as_array().unwrap().len(), 11, "{document:#}");
    refused(&lab.bench().output().unwrap(), 2, &[":1:6: unknown nf", ":11:2: unknown key `mrrr`"]);
    assert_eq!(lab.stored(), None);
}

#[test]
fn a_database_in_a_folder_that_may_not_be_written_is_refused_with_a_way_out() {
    let lab = Lab::new(PLAN);
    // No folder of this name can be made, not even by root.
    let db = "/proc/weir/weir.db";
    let output = weir().arg("bench").arg(lab.file("plan.toml")).args(["--db", db]).output().unwrap();
    refused(
        &output,
        2,
        &["cannot open the store /proc/weir/weir.db", "name a file in a folder you may write to"],
    );
}

#[test]
fn a_truncated_capture_fails_its_point_with_the_offset() {
    let lab = Lab::new(&PLAN.replace("tr3i", "cut.pcap").replace("64", "\"recorded\""));
    let whole = lab.file("whole.pcap");
    assert!(weir().args(["trace", "gen", "tr2i", "-o"]).arg(&whole).status().unwrap().success());
    fs::write(lab.file("cut.pcap"), &fs::read(&whole).unwrap()[..3000]).unwrap();
    let output = lab.bench().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let run = lab.stored().unwrap();
    let error = run.points[0].error.as_ref().unwrap();
    assert!(
        error.contains("cut.pcap") && error.contains("truncated") && error.contains("byte 2988"),
        "{error}"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains(error.as_str()), "{}", told(&output));
}

#[test]
fn a_load_beyond_the_line_is_no_result_but_an_error() {
    let plan = PLAN.replace("[mrr]\ntrials = 2", "[latency]\nloads = [\"100Mpps\"]");
    let lab = Lab::new(&plan);
    let output = lab.bench().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let run = lab.stored().unwrap();
    let error = run.points[0].error.as_ref().unwrap();
    assert!(error.contains("`100Mpps`") && error.contains("greatest load, 29.76 Mpps"), "{error}");
    assert!(run.points[0].trials.is_empty());
}

#[test]
fn a_tester_that_wants_more_cores_than_there_are_is_told_how_many_are_missing() {
    let plan =
        PLAN.replace("simulated", "nf").replace("[mrr]", "tester_cores = 3\nhuge_pages = false\n[mrr]");
    let lab = Lab::new(&plan);
    let two: Vec<String> = weir_cpu::allowed_cores().iter().take(2).map(ToString::to_string).collect();
    let bench = lab.bench();
    let mut command = Command::new("taskset");
    command.args(["-c", &two.join(",")]).arg(bench.get_program()).args(bench.get_args());
    command.envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(bench.get_current_dir().unwrap()).output().unwrap();
    refused(
        &output,
        2,
        &["the tester needs 3 and the DUT one", "Give the lab 4 cores", "smaller `tester_cores`"],
    );
    assert_eq!(lab.stored(), None, "no run was begun");
}

#[test]
fn a_device_that_is_not_installed_names_its_package() {
    let lab = Lab::new(&PLAN.replace("simulated", "testpmd"));
    let path = lab.file("bin");
    fs::create_dir(&path).unwrap();
    let output = lab.bench().env("PATH", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let error = lab.stored().unwrap().points[0].error.clone().unwrap();
    assert!(error.contains("`dpdk-testpmd`") && error.contains("apt-get install dpdk-dev"), "{error}");
    let output = weir().args(["dut", "list"]).env("PATH", &path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("apt-get install dpdk-dev"), "{text}");
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let lab = Lab::new(PLAN);
    let notes = crate::lab::text_file(&lab.file(""));
    let before = fs::read(&notes).unwrap();
    let run =
        |db: &Path| weir().arg("bench").arg(lab.file("plan.toml")).arg("--db").arg(db).output().unwrap();
    refused(&run(&notes), 2, &["notes.txt", "is not a Weir database", "--db"]);
    assert_eq!(fs::read(&notes).unwrap(), before);
    refused(&run(Path::new("/proc/weir.db")), 2, &["/proc/weir.db", "--db"]);
    refused(&run(&notes.join("weir.db")), 2, &["notes.txt/weir.db", "--db"]);
    refused(&run(&lab.file("")), 2, &["--db"]);
}

#[test]
fn without_a_home_a_database_must_be_named() {
    let lab = Lab::new(PLAN);
    let mut command = weir();
    command.args(["bench", "plan.toml"]).current_dir(lab.file(""));
    let output = command.env_remove("HOME").env_remove("XDG_DATA_HOME").output().unwrap();
    refused(&output, 2, &["neither XDG_DATA_HOME nor HOME is set", "--db"]);
    let output = command.env("XDG_DATA_HOME", lab.file("data")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let page = text.lines().find_map(|line| line.strip_prefix("page      ")).unwrap();
    assert!(page.starts_with(lab.file("data/weir").to_str().unwrap()) && Path::new(page).exists(), "{text}");
    assert!(lab.file("data/weir/weir.db").exists());
}

#[test]
fn a_database_of_a_later_version_is_refused_with_both_versions() {
    let lab = Lab::new(PLAN);
    lab.measure(0);
    let database = rusqlite::Connection::open(lab.file("weir.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let known = format!("up to version {}", weir_store::VERSION);
    refused(&lab.bench().output().unwrap(), 2, &["weir.db", "version 99", &known, "--db"]);
}

#[test]
fn runs_that_cannot_be_resumed_say_why() {
    let lab = Lab::new(PLAN);
    let resume = |run: &str| lab.bare().args(["--resume", run]).output().unwrap();
    refused(&resume("@last"), 2, &["there is no store", "weir.db", "`weir bench` makes one"]);
    assert!(!lab.file("weir.db").exists(), "a question makes no file");
    assert!(lab.bench().args(["--name", "done"]).status().unwrap().success());
    refused(&resume("done"), 2, &["run done is finished"]);
    refused(&resume("nosuch"), 2, &["no run matches `nosuch`", "weir runs"]);
    refused(&resume("@first"), 2, &["@first", "@last"]);
    let other = ["--resume", "@last", "--nf", "l2fwd", "--size", "64,128"];
    let says = "keeps its plan: leave out --nf l2fwd --size 64,128, or begin another";
    refused(&lab.bare().args(other).output().unwrap(), 2, &[says]);
    refused(&lab.bench().args(["--name", "done"]).output().unwrap(), 2, &["`done`", "another run has it"]);
    refused(&lab.bench().args(["--name", "7"]).output().unwrap(), 2, &["`7`", "add a letter"]);

    let mut store = Store::open(Some(&lab.file("weir.db"))).unwrap();
    let environment = BTreeMap::new();
    let new =
        NewRun { name: Some("busy"), started_ms: 0, plan: PLAN, weir: "test", environment: &environment };
    store.begin_run(new).unwrap();
    refused(&resume("busy"), 2, &["run busy is being measured by another process", "wait"]);
    drop(store);
    assert_eq!(resume("busy").status.code(), Some(0), "once nobody holds it, it can be measured");
}

#[test]
fn too_few_cores_are_refused_before_a_run_is_begun() {
    let lab = Lab::new(PLAN);
    let mut command = Command::new("taskset");
    command.args(["-c", "0", env!("CARGO_BIN_EXE_weir"), "bench"]).arg(lab.file("plan.toml"));
    let output = command.arg("--db").arg(lab.file("weir.db")).output().unwrap();
    refused(&output, 1, &["only cores [0]", "the tester needs 1 and the DUT one", "taskset"]);
    assert_eq!(lab.stored(), None);
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let lab = Lab::new(PLAN);
    for place in ["no/such/folder/page.html", "."] {
        let output = weir()
            .args(["bench", "plan.toml", "--db", "weir.db", "-o", place])
            .current_dir(lab.file(""))
            .output()
            .unwrap();
        refused(&output, 2, &[&format!("page {place}"), "-o"]);
    }
    assert_eq!(lab.stored(), None);
}

#[test]
fn a_page_that_fails_at_the_end_costs_no_result() {
    let lab = Lab::new(PLAN);
    let output = weir()
        .args(["bench", "plan.toml", "--name", "kept", "--db", "my own.db", "-o", "/dev/full"])
        .current_dir(lab.file(""))
        .output()
        .unwrap();
    let again = "weir report kept --db 'my own.db' -o FILE";
    refused(&output, 2, &["page /dev/full: No space left", "What was measured is kept", again]);
    let store = Store::open_existing(Some(&lab.file("my own.db"))).unwrap();
    let run = store.load(store.find(&"kept".parse().unwrap()).unwrap()).unwrap();
    assert_eq!((run.state, run.points[0].results.len()), (RunState::Finished, 1));
}

#[test]
fn a_socket_in_use_is_named_with_what_to_do() {
    let lab = Lab::new(PLAN);
    let socket = lab.file("taken.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let port = format!("net_vhost0,iface={}", socket.display());
    let output =
        weir().args(["nf", "l2fwd", "--port", &port, "--port", "net_null0,no-rx=1"]).output().unwrap();
    refused(&output, 2, &["taken.sock", "The socket is in use"]);
    assert!(socket.exists(), "the socket of somebody else stays");
}

/// A file system of its own, gone with the test.
struct Disk(std::path::PathBuf);

impl Disk {
    fn options(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "weir-test"]).arg(&self.0);
        mount.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_keeps_the_trials_and_resume_goes_on() {
    let lab = Lab::new(&PLAN.replace("trials = 2", "trials = 1000").replace("64", "[64, 128, 256]"));
    let disk = Disk(lab.file("disk"));
    fs::create_dir(&disk.0).unwrap();
    let mounted = Need::Found(
        "a tmpfs of its own".to_owned(),
        disk.options("size=1m"),
        "mounting needs root".to_owned(),
    );
    if !weir_testkit::needs!(mounted) {
        return;
    }
    let bench = |arguments: &[&str]| {
        let mut command = weir();
        command.arg("bench").args(arguments).arg("--db").arg(disk.0.join("weir.db"));
        command.arg("-o").arg(lab.file("page.html")).current_dir(lab.file("")).output().unwrap()
    };
    let output = bench(&["plan.toml"]);
    refused(
        &output,
        1,
        &["no space left for", "weir.db", "trials of this run are kept", "weir bench --resume"],
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let kept = text.split("; ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    let kept = kept.unwrap_or_else(|| panic!("{text}"));
    assert!(kept > 0, "{text}");

    assert!(disk.options("remount,size=64m"));
    let load = || {
        let store = Store::open_existing(Some(&disk.0.join("weir.db"))).unwrap();
        store.load(store.find(&"@last".parse().unwrap()).unwrap()).unwrap()
    };
    let trials =
        |run: &weir_trial::run::Run| run.points.iter().map(|point| point.trials.len()).sum::<usize>();
    assert_eq!(trials(&load()), kept, "what the message promised");
    let output = bench(&["--resume", "@last"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let run = load();
    assert_eq!((run.state, run.points.len()), (RunState::Finished, 3));
    assert!(trials(&run) >= kept);
    for point in &run.points {
        assert_eq!(point.trials.iter().filter(|trial| !trial.superseded).count(), 1000);
    }
}

/// The subcommands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let names =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Asks a subcommand, and all below it, for help. Returns how many there are.
fn help(path: &[String]) -> usize {
    let output = weir().args(path).arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{path:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let about = text.lines().next().unwrap();
    assert!(about.len() > 20 && !about.contains("Arguments of"), "{path:?}: {about:?}");
    assert!(text.contains("Usage: weir"), "{path:?}");
    let below = listed(&text);
    let nothing_said = text.lines().find(|line| below.iter().any(|name| line.trim() == name));
    assert_eq!(nothing_said, None, "{path:?}: a subcommand without a description");
    1 + below.into_iter().map(|name| help(&[path, &[name]].concat())).sum::<usize>()
}

#[test]
fn every_subcommand_describes_itself() {
    assert!(help(&[]) >= 12);
}

#[test]
fn a_misspelt_subcommand_is_answered_with_the_nearest() {
    for (arguments, meant) in
        [(vec!["bnch"], "'bench'"), (vec!["trace", "lst"], "'list'"), (vec!["plan", "chek"], "'check'")]
    {
        let output = weir().args(&arguments).output().unwrap();
        refused(&output, 2, &["unrecognized subcommand", "similar subcommand", meant]);
    }
    refused(&weir().args(["bench", "--siz", "64"]).output().unwrap(), 2, &["--siz", "--size"]);
    let output = weir().output().unwrap();
    refused(&output, 2, &["Usage: weir", "bench"]);
}

//! Chains of functions: behind a host, in a row, in one switch; right packets, and who loses them, by name.

use crate::lab::{Lab, Working, cores, told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use weir_testkit::Need;
use weir_trial::run::{Point, Run};
use weir_trial::{StageReading, Waterfall};

/// A load that a chain on one core carries beside anything, for a moment each.
const METHOD: &str = "[latency]\nloads = [\"30kpps\"]\nduration = \"80ms\"\n";

/// The same three times, so that a trial in which the machine took a core away is not the only one.
const THRICE: &str = "[latency]\nloads = [\"30kpps\", \"31kpps\", \"32kpps\"]\nduration = \"150ms\"\n";

pub(crate) fn plan(axes: &str, method: &str) -> String {
    with_pages(axes, false, method)
}

fn with_pages(axes: &str, huge: bool, method: &str) -> String {
    format!("{axes}\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = {huge}\nself_check = false\n{method}")
}

/// What chains on shared memory take; false, and said, where the machine has not.
fn can_share() -> bool {
    weir_testkit::needs!(Need::Root, Need::HugePages(800))
}

/// One of a lab's processes whose command line has these two words beside one another.
fn process(lab: &Lab, words: [&str; 2]) -> Option<i32> {
    lab.devices().into_iter().find(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        line.windows(2).any(|pair| pair == words.map(str::as_bytes))
    })
}

/// One of a lab's processes that was told this.
fn told_to(lab: &Lab, word: &str) -> Option<i32> {
    lab.devices().into_iter().find(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    })
}

fn free_huge_pages() -> u32 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:")).unwrap();
    line.trim().parse().unwrap()
}

/// Asserts that all points were measured with right packets, and that each packet that came into a stage is
/// accounted for.
pub(crate) fn is_whole(run: &Run) {
    for point in &run.points {
        let who = format!("{} {}", point.key.nf, point.key.device());
        assert_eq!(point.error, None, "{who}");
        let check = point.packets.as_ref().unwrap_or_else(|| panic!("{who}: no packet was compared"));
        assert!(check.is_right() && check.compared > 100, "{who}: {check}");
        for stage in stages(point) {
            let (came, left) = (stage.received, stage.sent);
            assert!(came[0] >= left[0] && came[1] >= left[1], "{who}: {stage:?}");
        }
    }
}

/// What the trials say, of which most must be `right`: of a machine that takes a core away some show just that.
fn mostly(point: &Point, right: impl Fn(&Waterfall) -> bool) {
    let told: Vec<Waterfall> = point.trials.iter().filter_map(|trial| Waterfall::of(&trial.result)).collect();
    let well = told.iter().filter(|one| right(one)).count();
    assert!(2 * well > told.len(), "{}, {:?}: {well} of {told:#?}", point.key.device(), point.error);
}

/// Whether packets are lost in this stage and in no other.
fn loses_alone(waterfall: &Waterfall, who: &str) -> bool {
    let dropped = waterfall.stages.iter().find(|stage| stage.name == who).map(|stage| stage.dropped);
    dropped.is_some_and(|dropped| dropped > 0) && lost_beside(waterfall, who) == 0
}

/// Packets lost in all stages but `who`.
fn lost_beside(waterfall: &Waterfall, who: &str) -> u64 {
    let others = waterfall.stages.iter().filter(|stage| stage.name != who);
    others.map(|stage| stage.dropped + stage.vanished).sum()
}

/// The stages of the last trial.
fn stages(point: &Point) -> &[StageReading] {
    point.trials.last().map_or(&[], |trial| &trial.result.stages)
}

pub(crate) fn names(point: &Point) -> Vec<&str> {
    stages(point).iter().map(|stage| stage.name.as_str()).collect()
}

#[test]
fn chains_of_processes_forward_right_packets_behind_a_host_and_in_a_row() {
    let _cores = cores();
    let axes = "chain = [\"firewall:10\", \"l3fwd:10\", \"l2fwd\"]\nlength = [1, 3]\ndeployment = [\"vhost\", \"vale\"]\ncores = \"shared\"";
    let run = Lab::new(&plan(axes, THRICE)).measure(0);
    is_whole(&run);
    let [one, alone, three, row] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    assert_eq!(names(one), ["weir", "nf 1 firewall:10", "weir"]);
    assert_eq!(names(alone), ["nf 1 firewall:10"]);
    assert_eq!(
        names(three),
        ["weir", "nf 1 firewall:10", "weir", "nf 2 l3fwd:10", "weir", "nf 3 l2fwd", "weir"]
    );
    assert_eq!(names(row), ["nf 1 firewall:10", "nf 2 l3fwd:10", "nf 3 l2fwd"]);
    assert_eq!(three.key.device(), "nf in vhost on weir, one core");
    // What came in at one end of a stage without loss has gone through all others.
    for point in &run.points {
        mostly(point, |told| {
            lost_beside(told, "") == 0 && told.stages.iter().all(|stage| stage.received > 1_000)
        });
    }
}

#[test]
fn a_chain_is_the_tables_of_one_switch_as_well() {
    let _cores = cores();
    if !weir_testkit::needs!(Need::Program("ovs-vsctl", "openvswitch-switch-dpdk")) {
        return;
    }
    let axes = "nf = \"firewall:10+l3fwd:10+l3fwd:10\"\ndut = [\"weir\", \"ovs-dpdk\"]";
    let run = Lab::new(&plan(axes, METHOD)).measure(0);
    is_whole(&run);
    assert!(run.points.iter().all(|point| stages(point).is_empty()), "one process has no stages");
}

#[test]
fn dataplanes_of_others_host_a_chain_and_devices_differ_by_function() {
    let _cores = cores();
    let (ovs, testpmd) =
        (Need::Program("ovs-vsctl", "openvswitch-switch-dpdk"), Need::Program("dpdk-testpmd", "dpdk-dev"));
    if !weir_testkit::needs!(ovs, testpmd) {
        return;
    }
    let axes = "nf = \"l3fwd:10+l2fwd\"\ndut = \"weir|testpmd\"\ndeployment = \"vhost\"\nhost = [\"ovs-dpdk\", \"testpmd\"]\ncores = \"shared\"";
    let run = Lab::new(&plan(axes, "[latency]\nloads = [\"5kpps\"]\nduration = \"100ms\"\n")).measure(0);
    is_whole(&run);
    assert_eq!(
        names(&run.points[0]),
        ["ovs-dpdk", "weir 1 l3fwd:10", "ovs-dpdk", "testpmd 2 l2fwd", "ovs-dpdk"]
    );
}

#[test]
fn functions_in_namespaces_of_their_own_forward_as_others_do() {
    let _cores = cores();
    if !weir_testkit::needs!(Need::Root) {
        return;
    }
    let axes = "nf = \"firewall:10+l2fwd\"\ndeployment = \"container\"\ncores = \"shared\"";
    let lab = Lab::new(&plan(axes, METHOD));
    is_whole(&lab.measure(0));
    assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!(lab.devices(), Vec::<i32>::new());
}

#[test]
fn the_stage_that_loses_packets_is_named() {
    let _cores = cores();
    for (dut, who) in [
        ("nf|faulty:drop:1e-3|nf", "faulty 2 l2fwd"),
        ("faulty:one-way:5e-3|nf|nf", "faulty 1 l2fwd"),
        ("nf|nf|faulty:drop:5e-2", "faulty 3 l2fwd"),
    ] {
        for deployment in ["vhost", "vale"] {
            if INJECTED.iter().any(|one| (one.place, one.dut) == (deployment, dut)) {
                continue; // measured below
            }
            let axes = format!(
                "nf = \"l2fwd+l2fwd+l2fwd\"\ndut = \"{dut}\"\ndeployment = \"{deployment}\"\ncores = \"shared\""
            );
            let run = Lab::new(&plan(&axes, &format!("check = false\n{THRICE}"))).measure(0);
            mostly(&run.points[0], |told| loses_alone(told, who));
        }
    }
}

#[test]
fn the_stage_that_holds_packets_back_is_told_by_its_time() {
    let _cores = cores();
    // Each packet held waits 12 ms: of one in a thousand the mean rises by 12 µs, of one in fifty by 240 µs.
    for (share, deployment) in [("1e-3", "vhost"), ("2e-2", "vale")] {
        for (dut, slow) in [("nf|faulty:delay", "faulty 2 l2fwd"), ("faulty:delay|nf", "faulty 1 l2fwd")] {
            let dut = dut.replace("delay", &format!("delay:{share}"));
            let axes = format!(
                "nf = \"l2fwd+l2fwd\"\ndut = \"{dut}\"\ndeployment = \"{deployment}\"\ncores = \"shared\""
            );
            let run = Lab::new(&plan(&axes, &format!("check = false\n{THRICE}"))).measure(0);
            mostly(&run.points[0], |told| {
                let time = |is_meant: &dyn Fn(&str) -> bool| {
                    told.stages
                        .iter()
                        .filter(|stage| is_meant(&stage.name))
                        .filter_map(|stage| stage.time)
                        .sum::<f64>()
                };
                time(&|name| name == slow) > time(&|name| name.starts_with("nf ")) + 5_000.0
            });
        }
    }
}

/// A fault of one stage, and how the waterfall must name it.
struct Injected {
    /// `deployment`, and `host` where it is the host's.
    place: &'static str,
    dut: &'static str,
    /// The stage.
    who: &'static str,
    /// Whether packets are lost for it, or longest inside it.
    loses: bool,
}

/// Ten, in kind (drops of both directions and of one, of the host's, waits of single packets, of the host's, of all, an end of
/// all work) and in stage. Nine lose less than 1 % of the packets or hold them back for less than 20 µs in the mean.
const INJECTED: [Injected; 10] = [
    Injected { place: "vhost", dut: "nf|faulty:drop:1e-3|nf", who: "faulty 2 l2fwd", loses: true },
    Injected { place: "vale", dut: "faulty:one-way:5e-3|nf|nf", who: "faulty 1 l2fwd", loses: true },
    Injected { place: "shared", dut: "nf|nf|faulty:drop:2e-3", who: "faulty 3 l2fwd", loses: true },
    Injected { place: "vhost faulty:drop:2e-3", dut: "nf", who: "faulty", loses: true },
    Injected { place: "vale", dut: "nf|faulty:hang:1e-4|nf", who: "faulty 2 l2fwd", loses: true },
    // Each packet held waits 12 ms: of one in a thousand the mean rises by 12 µs.
    Injected { place: "vale", dut: "nf|faulty:delay:1e-3|nf", who: "faulty 2 l2fwd", loses: false },
    Injected { place: "shared", dut: "faulty:delay:1e-3|nf|nf", who: "faulty 1 l2fwd", loses: false },
    Injected { place: "vhost", dut: "nf|nf|faulty:delay:1e-3", who: "faulty 3 l2fwd", loses: false },
    Injected { place: "vhost faulty:delay:1e-3", dut: "nf", who: "faulty", loses: false },
    // For a third of its time it does nothing: half as long as it had nothing to do, 38 µs at most.
    Injected { place: "shared", dut: "nf|faulty:slow:0.33|nf", who: "faulty 2 l2fwd", loses: false },
];

#[test]
fn of_ten_faults_the_waterfall_names_the_stage() {
    let _cores = cores();
    if !can_share() {
        return;
    }
    for Injected { place, dut, who, loses } in INJECTED {
        let (deployment, host) = place.split_once(' ').unwrap_or((place, ""));
        let host = if host.is_empty() { String::new() } else { format!("host = \"{host}\"\n") };
        let axes = format!(
            "nf = \"l2fwd+l2fwd+l2fwd\"\ndut = \"{dut}\"\ndeployment = \"{deployment}\"\n{host}cores = \"shared\""
        );
        // One in 10,000 packets has come often enough only after a while.
        let time = if dut.contains("1e-4") { "600ms" } else { "150ms" };
        let method = format!("check = false\n{THRICE}").replace("150ms", time);
        let lab = Lab::new(&with_pages(&axes, deployment == "shared", &method));
        lab.bench().output().unwrap();
        let run = lab.stored().unwrap();
        let point = &run.points[0];
        mostly(point, |told| {
            let named = if loses { &told.limit } else { &told.longest };
            let is_alone =
                !dut.contains("faulty:drop") && !dut.contains("faulty:one-way") || loses_alone(told, who);
            named.as_ref().is_some_and(|(name, _)| name == who) && is_alone
        });
    }
}

#[test]
fn a_function_that_dies_is_named_and_nothing_is_left_behind() {
    let _cores = cores();
    let axes = "nf = \"firewall:10+l3fwd:10\"\ndeployment = \"vhost\"\ncores = \"shared\"";
    let lab = Lab::new(&plan(axes, "[latency]\nloads = [\"10kpps\"]\nduration = \"30s\"\n"));
    let working = Working::start(&mut lab.bench());
    let victim = wait_for("the second function", || process(&lab, ["nf", "l3fwd"]));
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    let output = working.end();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let run = lab.stored().unwrap();
    let error = run.points[0].error.as_ref().unwrap();
    assert!(error.contains("nf 2 l3fwd:10: nf ended by itself"), "{error}");
    assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    wait_for("the others' end", || lab.devices().is_empty().then_some(()));
}

#[test]
fn chains_on_shared_memory_forward_right_packets_over_rings() {
    let _cores = cores();
    if !can_share() {
        return;
    }
    let free = free_huge_pages();
    let axes = "chain = [\"firewall:10\", \"l3fwd:10\", \"l2fwd\"]\nlength = [1, 3]\ndeployment = \"shared\"\ncores = \"shared\"";
    let lab = Lab::new(&with_pages(axes, true, THRICE));
    let run = lab.measure(0);
    is_whole(&run);
    let [one, three] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    assert_eq!(names(one), ["primary", "nf 1 firewall:10", "primary"]);
    assert_eq!(names(three), ["primary", "nf 1 firewall:10", "nf 2 l3fwd:10", "nf 3 l2fwd", "primary"]);
    assert_eq!(three.key.device(), "nf in shared, one core");
    for point in &run.points {
        mostly(point, |told| {
            let timed = told.stages.iter().all(|stage| stage.received > 1_000 && stage.time.is_some());
            timed && lost_beside(told, "") == 0
        });
    }
    assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!((lab.devices(), free_huge_pages()), (Vec::new(), free));
}

#[test]
fn switches_on_shared_memory_forward_right_packets_and_end_with_its_owner() {
    let _cores = cores();
    if !can_share() {
        return;
    }
    let free = free_huge_pages();
    let axes = |dut| {
        format!("nf = \"pipeline-a:16+l2fwd\"\ndut = \"{dut}\"\ndeployment = \"shared\"\ncores = \"shared\"")
    };
    let plan =
        |dut, method| with_pages(&axes(dut), true, method).replace("flows:100", "conversations:100:16");
    let lab = Lab::new(&plan("weir", METHOD));
    let run = lab.measure(0);
    is_whole(&run);
    assert_eq!(names(&run.points[0]), ["primary", "weir 1 pipeline-a:16", "weir 2 l2fwd", "primary"]);
    assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!((lab.devices(), free_huge_pages()), (Vec::new(), free));

    let lab = Lab::new(&plan("weir|nf", "[latency]\nloads = [\"10kpps\"]\nduration = \"30s\"\n"));
    let mut working = Working::start(&mut lab.bench());
    wait_for("traffic", || working.is_testing().then_some(()));
    let owner = wait_for("the owner", || told_to(&lab, "--share"));
    kill(Pid::from_raw(owner), Signal::SIGKILL).unwrap();
    let output = working.end();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let error = lab.stored().unwrap().points[0].error.clone().unwrap();
    assert!(error.contains("primary: nf ended by itself (signal: 9"), "{error}");
    wait_for("the others' end", || lab.devices().is_empty().then_some(()));
    wait_for("the pages", || (free_huge_pages() == free).then_some(()));
}

#[test]
fn a_switch_without_an_owner_of_its_memory_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str]| {
        let output = weir().args(["switch", "--control", "none"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", told(&output));
        told(&output)
    };
    let there = folder.path().to_str().unwrap();
    for (words, says) in [
        (vec!["--port", "ring:0:near"], "is of memory that another process shares"),
        (vec!["--attach", there, "--port", "ring:0:near"], "no process shares memory in"),
        (vec!["--attach", there, "--port", "null"], "write ring:N:near or ring:N:far"),
        (vec!["--attach", there, "--huge-pages"], "cannot be used with"),
    ] {
        let told = refused(&words);
        assert!(told.contains(says), "{words:?}: {told}");
    }
}

#[test]
fn whoever_dies_of_those_that_share_memory_is_named_and_nothing_is_left_behind() {
    let _cores = cores();
    if !can_share() {
        return;
    }
    let free = free_huge_pages();
    let axes = "nf = \"firewall:10+l3fwd:10\"\ndeployment = \"shared\"\ncores = \"shared\"";
    for (words, who) in [(["nf", "l3fwd"], "nf 2 l3fwd:10"), (["nf", "l2fwd"], "primary")] {
        let method = "[latency]\nloads = [\"10kpps\"]\nduration = \"30s\"\n";
        let lab = Lab::new(&with_pages(axes, true, method));
        let working = Working::start(&mut lab.bench());
        // The last of them is there: all others forward.
        wait_for("the last function", || process(&lab, ["nf", "l3fwd"]));
        let victim = wait_for(who, || process(&lab, words));
        kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
        let output = working.end();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let run = lab.stored().unwrap();
        let error = run.points[0].error.as_ref().unwrap();
        assert!(error.contains(&format!("{who}: nf ended by itself (signal: 9")), "{error}");
        assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
        wait_for("the others' end", || lab.devices().is_empty().then_some(()));
        wait_for("the pages", || (free_huge_pages() == free).then_some(()));
    }
}

#[test]
fn what_cannot_be_placed_is_refused_with_what_would_do() {
    for (axes, says) in [
        (
            "nf = \"l2fwd\"\ndut = \"l3fwd\"\ndeployment = \"vhost\"\ncores = \"shared\"",
            "l3fwd cannot be l2fwd",
        ),
        ("nf = \"l2fwd+l2fwd\"\ndut = \"nf\"", "nf cannot be l2fwd+l2fwd"),
        (
            "nf = \"l2fwd+l2fwd\"\ndut = \"nf|nf|nf\"\ndeployment = \"vale\"\ncores = \"shared\"",
            "3 devices for 2 functions",
        ),
        ("nf = \"l2fwd\"\ndut = \"nf|nf\"", "add a `deployment`"),
        (
            "nf = \"l2fwd\"\nwiring = \"fed\"\ndeployment = \"vale\"\ncores = \"shared\"",
            "take another wiring than `fed`",
        ),
        (
            "nf = \"l2fwd\"\ndut = \"ovs-dpdk\"\ndeployment = \"vale\"\ncores = \"shared\"",
            "cannot be reached by",
        ),
        (
            "nf = \"l2fwd\"\ndut = \"testpmd\"\ndeployment = \"shared\"\ncores = \"shared\"",
            "`shared` cannot be without huge pages",
        ),
        (
            "nf = \"l2fwd\"\ndut = \"testpmd\"\ndeployment = \"container\"\ncores = \"shared\"",
            "namespaces of its own; nf is",
        ),
    ] {
        let lab = Lab::new(&plan(axes, "[mrr]\ntrials = 1\nduration = \"100ms\"\n"));
        let output = lab.bench().output().unwrap();
        let error = lab.stored().and_then(|run| run.points[0].error.clone()).unwrap_or_else(|| told(&output));
        assert!(error.contains(says), "{axes}: {error}");
    }
}

/// Flows that mark, drop, send back and pass on.
const SITE: &str = "priority=9,udp,tp_dst=0xe000/0xe000,actions=drop\n\
     priority=5,in_port=1,ip,actions=mod_nw_tos:32,output:2\npriority=5,in_port=2,ip,actions=output:1\n";

#[test]
fn flow_tables_and_pipelines_are_functions_of_a_chain_and_every_packet_is_judged_over_all_of_it() {
    let _cores = cores();
    let own = "chain = [\"flows:site.flows\", \"l3fwd:10\"]\ndeployment = [\"vhost\", \"vale\"]\ndut = \"weir|nf\"\ncores = \"shared\"";
    let lab = Lab::new(&plan(own, METHOD));
    fs::write(lab.file("site.flows"), SITE).unwrap();
    let run = lab.measure(0);
    is_whole(&run);
    assert!(names(&run.points[1])[0].starts_with("weir 1 flows:site.flows@"), "{:?}", names(&run.points[1]));
    assert_eq!(fs::read_dir(lab.file("flows")).unwrap().count(), 1, "a copy is kept with the run");
    let lists = "nf = [\"pipeline-a:16+l2fwd\", \"pipeline-d:2+pipeline-b:16\"]\ndeployment = \"vale\"\ndut = \"weir\"\ncores = \"shared\"";
    let run = Lab::new(&plan(lists, METHOD).replace("flows:100", "conversations:100:16")).measure(0);
    is_whole(&run);
    for trial in run.points.iter().flat_map(|point| &point.trials) {
        assert!(trial.result.directions.iter().all(|one| one.foreign == 0 && one.received > 100));
    }
}

#[test]
fn a_chain_whose_second_function_does_wrong_behind_a_flow_table_is_found() {
    let _cores = cores();
    let axes = "chain = [\"flows:site.flows\", \"l3fwd:10\"]\ndeployment = \"vale\"\ndut = \"weir|faulty:no-ttl\"\ncores = \"shared\"";
    let lab = Lab::new(&plan(axes, METHOD));
    fs::write(lab.file("site.flows"), SITE).unwrap();
    let run = lab.measure(1);
    let error = run.points[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("wrong time to live"), "{error}");
}

#[test]
fn one_switch_is_no_chain_of_functions_with_tables_of_their_own() {
    let lab = Lab::new(&plan("chain = [\"pipeline-d:1\", \"l2fwd\"]\ndut = \"weir\"", METHOD));
    let output = crate::lab::weir().args(["plan", "check"]).arg(lab.file("plan.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(
        told(&output).contains("pipeline-d:1 has tables of its own; take a deployment"),
        "{}",
        told(&output)
    );
}

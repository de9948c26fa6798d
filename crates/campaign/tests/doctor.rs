//! Every rule of `weir doctor` on a machine that trips it and on one that does not.

use std::collections::BTreeMap;
use weir_campaign::doctor::{
    Checkup, CoreStalls, Finding, Machine, Measured, Missing, Severity, examine, rules,
};
use weir_campaign::environment::{Claim, Neighbour};
use weir_units::Nanos;

type Change = fn(&mut BTreeMap<String, String>, &mut Measured);

/// A machine, and what is changed of it.
struct Case(&'static str, Change);

const AS_IT_IS: Change = |_, _| {};

impl Case {
    fn checkup(&self) -> Checkup {
        let mut facts = crate::machines::facts(self.0);
        for (name, value) in [("opt-level", "3"), ("assertions", "off"), ("profile", "release")] {
            facts.insert(format!("build.{name}"), value.to_owned());
        }
        let mut measured = quiet();
        (self.1)(&mut facts, &mut measured);
        examine(&Machine { facts: &facts, measured: &measured })
    }

    fn finding(&self, rule: &str) -> Option<Finding> {
        self.checkup().findings.into_iter().find(|finding| finding.rule == rule)
    }
}

/// What is measured on a machine where all is well.
fn quiet() -> Measured {
    Measured {
        stalls: vec![stalls(2, 0, 0, 0), stalls(3, 0, 0, 0)],
        steal: Some(0.0),
        neighbours: Some(vec![neighbour("sshd", 0.01)]),
        disk: Some(("/home/a".into(), 50 << 30)),
        missing: Some(Vec::new()),
        program: Some("/opt/weir".into()),
    }
}

fn stalls(core: usize, gaps: u32, longest_us: u64, waited_us: u64) -> CoreStalls {
    let micros = |us: u64| Nanos(us * 1000);
    CoreStalls {
        core,
        watched: Nanos(1_000_000_000),
        gaps,
        longest: micros(longest_us),
        lost: micros(longest_us * u64::from(gaps)),
        waited: micros(waited_us),
        switches: 0,
    }
}

fn neighbour(name: &str, share: f64) -> Neighbour {
    Neighbour { process: 4711, name: name.to_owned(), share, kernel: name.starts_with("kswapd") }
}

/// Rule, machine that trips it, how badly, a part of what mends it, machine that does not trip it.
const CASES: &[(&str, Case, Severity, &str, Case)] = &[
    (
        "cores",
        Case("container", |facts, _| drop(facts.insert("cpu.allowed".into(), "5".into()))),
        Severity::Blocks,
        "docker update --cpuset-cpus",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "cores",
        Case("server-tuned", |facts, _| drop(facts.insert("cpu.allowed".into(), "2-3".into()))),
        Severity::Weakens,
        "taskset -c 0-7 weir bench",
        Case("server-untuned", AS_IT_IS),
    ),
    (
        "cpu quota",
        Case("container", AS_IT_IS),
        Severity::Spoils,
        "--cpu-quota -1",
        Case("cloud-vm", AS_IT_IS),
    ),
    (
        "core stalls",
        Case("cloud-vm", |_, measured| measured.stalls[1] = stalls(1, 2, 4000, 0)),
        Severity::Spoils,
        "virsh vcpupin",
        Case("cloud-vm", AS_IT_IS),
    ),
    (
        "core stalls",
        Case("server-tuned", |_, measured| measured.stalls[1] = stalls(1, 2, 80, 0)),
        Severity::Weakens,
        "hwlat",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "core stalls",
        Case("cloud-vm", |_, measured| measured.stalls[1] = stalls(1, 2, 4000, 7900)),
        Severity::Spoils,
        "end the other programs",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "stolen time",
        Case("cloud-vm", |_, measured| measured.steal = Some(0.02)),
        Severity::Spoils,
        "dedicated cores",
        Case("cloud-vm", AS_IT_IS),
    ),
    (
        "busy neighbours",
        Case("server-tuned", |_, measured| measured.neighbours = Some(vec![neighbour("cc1plus", 0.97)])),
        Severity::Spoils,
        "kill -STOP 4711",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "busy neighbours",
        Case("server-tuned", |_, measured| measured.neighbours = Some(vec![neighbour("kswapd0", 0.4)])),
        Severity::Spoils,
        "nobody can halt the kernel's own threads",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "siblings",
        Case("cloud-vm", AS_IT_IS),
        Severity::Spoils,
        "sudo sh -c 'echo off > /sys/devices/system/cpu/smt/control'",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "siblings",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "echo off > /sys/devices/system/cpu/smt/control",
        Case("container", AS_IT_IS),
    ),
    (
        "numa",
        Case("container", AS_IT_IS),
        Severity::Spoils,
        "docker update --cpuset-cpus 4-7",
        Case("server-untuned", AS_IT_IS),
    ),
    (
        "numa",
        Case("server-untuned", |facts, _| drop(facts.insert("cpu.allowed".into(), "0,3,4".into()))),
        Severity::Spoils,
        "taskset -c 4,6-7 weir bench",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "isolation",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "isolcpus=managed_irq,domain,6-7,14-15 irqaffinity=0-5,8-13 nohz_full=6-7,14-15 rcu_nocbs=6-7,14-15; then: taskset -c 0,14,15 weir bench",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "isolation",
        Case("server-tuned", |facts, _| drop(facts.insert("cpu.allowed".into(), "0-1,4-7".into()))),
        Severity::Weakens,
        "taskset -c 0,2,3 weir bench",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "isolation",
        Case("cloud-vm", AS_IT_IS),
        Severity::Weakens,
        "in this VM, add to the kernel's command line and restart: isolcpus=managed_irq,domain,1 irqaffinity=0; then: taskset -c 0,1 weir bench",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "build",
        Case("server-tuned", |facts, _| drop(facts.insert("build.opt-level".into(), "1".into()))),
        Severity::Spoils,
        "./x build",
        Case("server-tuned", AS_IT_IS),
    ),
    ("memory", Case("cloud-vm", AS_IT_IS), Severity::Spoils, "ps -eo", Case("server-tuned", AS_IT_IS)),
    (
        "memory",
        Case("container", AS_IT_IS),
        Severity::Spoils,
        "docker update --memory",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "huge pages",
        Case("cloud-vm", AS_IT_IS),
        Severity::Spoils,
        "sudo sysctl -w vm.nr_hugepages=1524",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "huge pages",
        Case("container", AS_IT_IS),
        Severity::Weakens,
        "on the container's host, as root: echo 1024 > /sys/devices/system/node/node1/hugepages",
        Case("server-tuned", AS_IT_IS),
    ),
    ("tsc", Case("cloud-vm", AS_IT_IS), Severity::Spoils, "+invtsc", Case("server-untuned", AS_IT_IS)),
    (
        "clock source",
        Case("cloud-vm", AS_IT_IS),
        Severity::Weakens,
        "echo tsc > /sys/devices/system/clocksource",
        Case("server-untuned", AS_IT_IS),
    ),
    ("clock source", Case("container", AS_IT_IS), Severity::Spoils, "dmesg", Case("server-tuned", AS_IT_IS)),
    (
        "governor",
        Case("container", AS_IT_IS),
        Severity::Spoils,
        "on the container's host, as root: cpupower frequency-set -g performance",
        Case("server-tuned", AS_IT_IS),
    ),
    ("turbo", Case("server-untuned", AS_IT_IS), Severity::Spoils, "no_turbo", Case("server-tuned", AS_IT_IS)),
    ("turbo", Case("container", AS_IT_IS), Severity::Spoils, "cpufreq/boost", Case("server-tuned", AS_IT_IS)),
    (
        "disk",
        Case("server-tuned", |_, measured| measured.disk = Some(("/home/a".into(), 1 << 20))),
        Severity::Blocks,
        "--db FILE",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "disk",
        Case("server-tuned", |_, measured| measured.disk = Some(("/home/a".into(), 500 << 20))),
        Severity::Weakens,
        "du -xh /home/a",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "swap",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "swapoff -a",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "irqbalance",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "systemctl stop irqbalance",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "transparent huge pages",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "echo madvise >",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "numa balancing",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "sysctl -w kernel.numa_balancing=0",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "nmi watchdog",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "sysctl -w kernel.nmi_watchdog=0",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "idle states",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "cpupower idle-set -D 10",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "nic",
        Case("server-untuned", AS_IT_IS),
        Severity::Weakens,
        "taskset -c 0-3,8-11 weir bench",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "hypervisor",
        Case("cloud-vm", AS_IT_IS),
        Severity::Weakens,
        "weir bench --dut nf,testpmd",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "devices",
        Case("server-tuned", |_, measured| {
            let why = "no ovs-vswitchd".to_owned();
            measured.missing = Some(vec![Missing { name: "ovs-dpdk".to_owned(), why }]);
        }),
        Severity::Weakens,
        "./x setup --peers",
        Case("server-tuned", AS_IT_IS),
    ),
    (
        "privileges",
        Case("cloud-vm", AS_IT_IS),
        Severity::Weakens,
        "sudo /opt/weir bench",
        Case("server-tuned", AS_IT_IS),
    ),
];

#[test]
fn every_rule_has_a_machine_that_trips_it_and_one_that_does_not() {
    for rule in rules() {
        assert!(CASES.iter().any(|case| case.0 == rule), "no case for `{rule}`");
    }
    for (rule, bad, severity, mend, good) in CASES {
        let finding = bad.finding(rule).unwrap_or_else(|| panic!("{rule}: {} does not trip it", bad.0));
        assert_eq!(finding.severity, *severity, "{rule}: {finding:?}");
        assert!(finding.mend.contains(mend), "{rule}: `{}` has no `{mend}`", finding.mend);
        let calm = good.checkup();
        let found =
            calm.findings.iter().find(|finding| finding.rule == *rule && finding.severity <= *severity);
        assert_eq!(found, None, "{rule}: {}", good.0);
    }
}

#[test]
fn a_machine_set_up_for_measuring_has_no_finding_at_all() {
    let checkup = Case("server-tuned", AS_IT_IS).checkup();
    assert_eq!(checkup.findings, []);
    assert_eq!(checkup.untold, [""; 0]);
    assert_eq!(checkup.passed.len(), rules().count());
    assert!(!checkup.spoils());
}

#[test]
fn findings_come_worst_first_and_only_weak_ones_spoil_nothing() {
    let checkup =
        Case("container", |facts, _| drop(facts.insert("cpu.allowed".into(), "5".into()))).checkup();
    let severities: Vec<Severity> = checkup.findings.iter().map(|finding| finding.severity).collect();
    assert!(severities.is_sorted() && severities[0] == Severity::Blocks);
    assert!(severities.contains(&Severity::Weakens));
    let weak =
        Case("server-tuned", |facts, _| drop(facts.insert("memory.swap-used".into(), "4096 kB".into())));
    let checkup = weak.checkup();
    assert_eq!(checkup.findings.len(), 1);
    assert!(!checkup.spoils());
}

#[test]
fn a_fact_that_is_not_told_is_neither_good_nor_bad() {
    let nothing = BTreeMap::new();
    let checkup = examine(&Machine { facts: &nothing, measured: &Measured::default() });
    assert_eq!(checkup.findings, []);
    assert_eq!(checkup.passed, []);
    assert_eq!(checkup.untold.len(), rules().count());
}

#[test]
fn stalls_are_told_with_their_cores_figures_and_cause() {
    let case =
        Case("cloud-vm", |_, measured| measured.stalls = vec![stalls(0, 0, 0, 0), stalls(1, 2, 4000, 0)]);
    let finding = case.finding("core stalls").unwrap();
    assert_eq!(
        finding.says,
        "within 1.0 s, core 1 2 times (0.8 % of the time, 4 ms at the longest) stood still; \
         all of that time no other program here had them: the VM's host did, or interrupts"
    );
    assert!(finding.spoils.contains(&Claim::LatencyTail) && finding.spoils.contains(&Claim::Throughput));
}

#[test]
fn no_command_of_a_container_pretends_to_change_its_host_from_within() {
    let bad: Change = |facts, measured| {
        measured.neighbours = None;
        facts.insert("memory.swap-used".into(), "4096 kB".into());
        facts.insert("memory.transparent-huge-pages".into(), "always".into());
        facts.insert("cpu.siblings".into(), "3,4".into());
        facts.insert("cpu.smt".into(), "on".into());
        facts.insert("cpu.idle-states".into(), "C6 170 µs".into());
    };
    let checkup = Case("container", bad).checkup();
    assert!(checkup.findings.len() >= 12);
    for finding in checkup.findings {
        assert!(
            finding.mend.contains("the container's host") || finding.mend.contains("weir bench"),
            "{finding:?}"
        );
    }
}

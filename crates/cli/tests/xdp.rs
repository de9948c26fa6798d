//! Programs of ours in the kernel, for real.

use crate::lab::{Lab, Working, check_counters, check_sums, cores};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use weir_testkit::Need;
use weir_trial::run::RunState;

#[test]
fn the_kernels_programs_redirect_route_and_filter_every_packet_right() {
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2")) {
        return;
    }
    let _cores = cores();
    let lab = Lab::new(
        "nf = [\"l2fwd\", \"l3fwd:10\", \"l3fwd:1000\", \"firewall:10\", \"firewall:1000\"]\ndut = \"xdp\"\nsize = \"imix\"\n\
         trace = \"flows:1000\"\nwiring = \"veth\"\nhuge_pages = false\nself_check = false\n\
         [latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n",
    );
    let run = lab.measure(0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, 5));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        assert!(point.packets.as_ref().is_some_and(|packets| packets.compared > 0), "{:?}", point.packets);
        check_sums(point);
        check_counters(point);
        let dut = point.trials[0].result.dut.as_ref().unwrap();
        assert!(dut.cpu.0 > 0 && point.trials[0].result.total().received > 0, "{dut:?}");
    }
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn more_rules_than_the_kernel_proves_are_refused_by_name() {
    let lab = Lab::new(
        "nf = [\"firewall:5000\", \"nat:1\"]\ndut = \"xdp\"\nsize = 64\ntrace = \"simple\"\nwiring = \"veth\"\nhuge_pages = false\n\
         [mrr]\ntrials = 1\n",
    );
    let output = lab.bench().output().unwrap();
    let run = lab.stored().unwrap();
    let errors: Vec<String> = run.points.iter().map(|point| point.error.clone().unwrap()).collect();
    assert!(errors[0].contains("2000 rules of a program at most"), "{errors:?} {output:?}");
    assert!(errors[1].contains("xdp cannot be nat:1"), "{errors:?}");
}

#[test]
fn programs_go_with_a_lab_that_is_killed() {
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2")) {
        return;
    }
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = \"xdp\"\nsize = 64\ntrace = \"flows:100\"\nwiring = \"veth\"\nhuge_pages = false\nself_check = false\n\
         [mrr]\ntrials = 20\nduration = \"500ms\"\nload = \"50kpps\"\n",
    );
    let mut working = Working::start(&mut lab.bench());
    lab.mid_trial(&mut working, 0);
    let threads = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let names = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
        names.filter(|name| name.starts_with("napi/port")).count()
    };
    assert!(threads() >= 2, "both ports are polled by threads");
    working.signal(Signal::SIGKILL);
    drop(working.end());
    crate::lab::wait_for("the end of the interfaces and their threads", || (threads() == 0).then_some(()));
}

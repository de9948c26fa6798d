//! Chains beside one another, each with ports of its own: right packets, the rate of each, and who takes another's packets.

use crate::chains::is_whole;
use crate::lab::{Lab, Working, cores, told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::Path;
use weir_testkit::Need;
use weir_trial::run::{Point, Run};
use weir_trial::{BundleRates, Waterfall};

/// Measures bundles at a load that one core carries beside anything.
fn measure(axes: &str, huge: bool) -> Run {
    lab(axes, huge).measure(0)
}

fn lab(axes: &str, huge: bool) -> Lab {
    let rest = format!(
        "cores = \"shared\"\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = {huge}\nself_check = false\n\
         [latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n"
    );
    Lab::new(&format!("{axes}\n{rest}"))
}

/// Asserts that each bundle had right packets, a share of its own, and stages of its own that account for what was lost.
fn is_shared(point: &Point, bundles: u32, off: u64) {
    let who = format!("{} {}", point.key.nf, point.key.device());
    assert!(point.key.device().contains(&format!("{bundles} bundles")), "{who}");
    let rates = BundleRates::of(point);
    let rates = rates.last().unwrap_or_else(|| panic!("{who}: no rates"));
    assert_eq!(rates.each.len(), bundles as usize, "{who}");
    let even = |share: f64| (share * f64::from(bundles) - 1.0).abs() < 0.2;
    assert!(rates.each.iter().all(|one| even(one.share) && one.delay.is_some()), "{who}: {rates:?}");
    assert!(rates.fairness.unwrap().mean > 0.95, "{who}: {rates:?}");
    for trial in &point.trials {
        let result = &trial.result;
        assert_eq!(result.directions.len(), 2 * bundles as usize, "{who}");
        assert!(result.directions.iter().all(|one| one.foreign == 0 && one.received > 0), "{who}");
        let told: BTreeSet<u32> = result.stages.iter().map(|stage| stage.bundle).collect();
        assert_eq!(told, (1..=bundles).collect(), "{who}");
        let waterfall = Waterfall::of(result).unwrap();
        assert_eq!(waterfall.stages.len(), result.stages.len() + 1, "{who}");
        let lost: u64 =
            waterfall.stages.iter().map(|one| one.waited_in_vain + one.dropped + one.vanished).sum();
        let total = result.total();
        assert!(lost.abs_diff(total.sent + total.refused - total.received) <= off, "{who}: {waterfall:?}");
    }
}

#[test]
fn chains_beside_one_another_have_right_packets_and_each_its_share() {
    let _cores = cores();
    let run = measure(
        "chain = [\"firewall:10\", \"l3fwd:10\"]\nlength = [1, 2]\ndeployment = [\"vhost\", \"vale\"]\n\
         bundles = [1, 3]\ndut = \"nf\"",
        false,
    );
    is_whole(&run);
    assert_eq!(run.points.len(), 8);
    for point in &run.points {
        match point.key.placement.bundles {
            1 => assert!(BundleRates::of(point).is_empty() && !point.key.device().contains("bundle")),
            bundles => is_shared(point, bundles, 0),
        }
        let checked = point.packets.as_ref().unwrap().compared;
        let alone = run.points.iter().find(|other| {
            let key = &other.key;
            key.nf == point.key.nf
                && key.placement.bundles == 1
                && key.placement.deployment == point.key.placement.deployment
        });
        let one = alone.unwrap().packets.as_ref().unwrap().compared;
        assert_eq!(
            checked,
            one * u64::from(point.key.placement.bundles),
            "every bundle's packets are compared"
        );
    }
}

#[test]
fn bundles_of_copies_and_in_one_direction_have_packets_of_their_own() {
    let _cores = cores();
    let run = measure(
        "nf = \"l2fwd\"\ndeployment = \"vhost\"\ncopies = 2\nsplit = \"flow\"\nbundles = 2\ndut = \"nf\"",
        false,
    );
    is_whole(&run);
    is_shared(&run.points[0], 2, 0);
    let names: Vec<&str> =
        run.points[0].trials[0].result.stages.iter().map(|stage| stage.name.as_str()).collect();
    let row = |bundle| {
        ["weir".to_owned()]
            .into_iter()
            .chain([1, 2].map(|copy| format!("nf 1 l2fwd, bundle {bundle}, copy {copy}")))
            .chain(["weir".to_owned()])
    };
    assert_eq!(names, row(1).chain(row(2)).collect::<Vec<_>>());
    let run =
        measure("nf = \"l2fwd\"\ndirections = 1\ndeployment = \"vale\"\nbundles = 2\ndut = \"nf\"", false);
    is_whole(&run);
    for trial in &run.points[0].trials {
        assert_eq!(trial.result.directions.len(), 2, "one of each bundle");
        assert!(trial.result.directions.iter().all(|one| one.foreign == 0 && one.received > 0));
    }
}

#[test]
fn chains_on_shared_memory_stand_beside_one_another_in_one_primary() {
    let _cores = cores();
    if !weir_testkit::needs!(Need::Root, Need::HugePages(800)) {
        return;
    }
    let run = measure("nf = \"l3fwd:10+l2fwd\"\ndeployment = \"shared\"\nbundles = 2\ndut = \"nf\"", true);
    is_whole(&run);
    is_shared(&run.points[0], 2, 0);
}

#[test]
fn other_peoples_hosts_carry_chains_beside_one_another() {
    let _cores = cores();
    if weir_testkit::needs!(Need::Program("ovs-vsctl", "openvswitch-switch-dpdk")) {
        let run = measure(
            "nf = \"l2fwd\"\ndeployment = \"vhost\"\nhost = \"ovs-dpdk\"\nbundles = 2\ndut = \"nf\"",
            false,
        );
        is_whole(&run);
        is_shared(&run.points[0], 2, 128);
    }
    if weir_testkit::needs!(Need::Program("dpdk-testpmd", "dpdk-dev")) {
        let run = measure(
            "nf = \"l2fwd\"\ndeployment = \"vhost\"\nhost = \"testpmd\"\nbundles = 2\ndut = \"nf\"",
            false,
        );
        is_whole(&run);
        is_shared(&run.points[0], 2, 0);
    }
}

#[test]
fn a_host_that_gives_one_bundles_packets_to_another_is_found_and_named() {
    let _cores = cores();
    let axes = "nf = \"l2fwd\"\ndeployment = \"vhost\"\nhost = \"faulty:cross\"\nbundles = 2\ndut = \"nf\"";
    let run = lab(axes, false).measure(1);
    let error = run.points[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("wrong port") && error.contains("must leave by port"), "{error}");
    // Without the pass before the trials each of them says so: the packets are nobody's there.
    let unchecked = format!("{axes}\ncheck = false");
    let run = lab(&unchecked, false).measure(0);
    for trial in &run.points[0].trials {
        let total = trial.result.total();
        assert!(total.received == 0 && total.foreign > 0, "{total:?}");
        assert!(!trial.verdict.is_valid(), "{:?}", trial.verdict);
    }
}

#[test]
fn a_function_that_dies_is_named_with_its_bundle_and_nothing_is_left_behind() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndeployment = \"vale\"\nbundles = 2\ndut = \"nf\"\ncores = \"shared\"\ntrace = \"flows:100\"\n\
         size = 64\nhuge_pages = false\nself_check = false\n[latency]\nloads = [\"10kpps\"]\nduration = \"30s\"\n",
    );
    let mut working = Working::start(&mut lab.bench());
    wait_for("a trial", || working.is_testing().then_some(()));
    let devices = lab.devices();
    assert_eq!(devices.len(), 2, "a process a bundle");
    kill(Pid::from_raw(devices[0]), Signal::SIGKILL).unwrap();
    let output = working.end();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let run = lab.stored().unwrap();
    let error = run.points[0].error.as_ref().unwrap();
    let named =
        |bundle| error.contains(&format!("nf 1 l2fwd, bundle {bundle}: nf ended by itself (signal: 9"));
    assert!(named(1) || named(2), "{error}");
    assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    wait_for("the other's end", || lab.devices().is_empty().then_some(()));
}

#[test]
fn the_example_plan_is_right_and_says_what_it_measures() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/bundles.toml");
    let output = weir().args(["plan", "check"]).arg(plan).output().unwrap();
    let told = told(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("points     15"), "{told}");
}

//! Devices whose cores are slower: held back to a share of their time, or at a clock that this machine may not have.

use crate::lab::{Lab, cores, told, weir};
use std::fs;
use weir_testkit::Need;
use weir_trial::run::{Point, PointResult};

/// The forwarded rate of a point's first result, in packets a second, and cycles a packet.
fn rate(point: &Point) -> (f64, Option<f64>) {
    match point.results.first() {
        Some(PointResult::Mrr(mrr)) => (mrr.mean.0, mrr.cycles_per_packet),
        other => panic!("{}: {other:?}, {:?}", point.key.device(), point.error),
    }
}

#[test]
fn a_device_that_feeds_itself_forwards_its_share_and_no_more() {
    let _cores = cores();
    if !weir_testkit::needs!(Need::Root) {
        return;
    }
    // Not audited: an audit is of a start that nobody holds back.
    let plan = "nf = \"l2fwd\"\nfrequency = [\"100%\", \"50%\", \"25%\"]\nwiring = \"fed\"\ntrace = \"flows:100\"\nsize = 64\n\
                directions = 1\nhuge_pages = false\nself_check = false\ncheck = false\n[mrr]\ntrials = 3\nduration = \"200ms\"\n";
    let lab = Lab::new(plan);
    let run = lab.measure(0);
    let [whole, half, quarter] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    assert_eq!((half.key.device(), quarter.key.device()), ("nf at 50%".to_owned(), "nf at 25%".to_owned()));
    let full = rate(whole);
    for (point, share) in [(half, 0.5), (quarter, 0.25)] {
        let (rate, cycles) = rate(point);
        let ratio = rate / full.0;
        assert!((share * 0.6..share * 1.25).contains(&ratio), "{share}: {ratio}");
        // The work is the same: only the time is less.
        let more = cycles.unwrap() / full.1.unwrap();
        assert!((0.7..1.6).contains(&more), "{share}: {more}");
        for trial in &point.trials {
            let held = trial.result.health.held.unwrap();
            assert!(held.share().0 < share * 1.1, "{held:?}");
        }
        assert!(point.configuration["frequency"].contains("of its cores' time"), "{:?}", point.configuration);
    }
    let sides = ["compare", "@last/nf at 100%", "@last/nf at 25%", "--db"];
    let compared = told(&weir().args(sides).arg(lab.file("weir.db")).output().unwrap());
    assert!(compared.contains("nf at 100% → nf at 25%"), "{compared}");
    assert!(whole.trials.iter().all(|trial| trial.result.health.held.is_none()));
}

#[test]
fn pauses_of_a_device_that_is_held_back_are_its_own_and_not_the_machines() {
    let _cores = cores();
    // A known fault is left out here: with pages of 4 KiB, under a hypervisor, a device with a twentieth of its core was seen to
    // take 4 s to empty its rings; the trial then lasts longer than real-time priority may, and its verdict names the machine.
    if !weir_testkit::needs!(Need::Root, Need::HugePages(400)) {
        return;
    }
    let plan = "nf = \"firewall\"\nfrequency = [\"100%\", \"5%\"]\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = true\n\
                self_check = false\n[mrr]\ntrials = 3\nduration = \"200ms\"\nload = \"4Mpps\"\n";
    let run = Lab::new(plan).measure(0);
    let [whole, held] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    let ratio = rate(held).0 / rate(whole).0;
    assert!(ratio < 0.5, "{ratio}");
    for trial in &held.trials {
        let windows = trial.result.windows.as_ref().unwrap();
        assert_eq!(windows.dut.count, 0, "{windows:?}");
        assert!(trial.result.total().lost() > 0, "it was offered far more than its share");
        assert!(
            !trial.verdict.findings.iter().any(|finding| finding.says.contains("while the DUT waited")),
            "{:?}",
            trial.verdict
        );
    }
}

#[test]
fn what_cannot_be_slower_is_refused_by_name() {
    let _cores = cores();
    let no_clock = !fs::exists("/sys/devices/system/cpu/cpu0/cpufreq").unwrap();
    let mut cases = vec![
        ("dut = \"linux\"\nwiring = \"veth\"\nfrequency = \"50%\"", "linux forwards in interrupts"),
        ("dut = \"simulated\"\nfrequency = \"50%\"", "simulated computes its trials"),
    ];
    if no_clock {
        cases.push(("dut = \"nf\"\nfrequency = \"1.5GHz\"", "1.5GHz needs cpufreq, and core"));
    }
    for (axes, says) in cases {
        let plan = format!(
            "nf = \"l2fwd\"\n{axes}\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = false\nself_check = false\n[mrr]\ntrials = 1\nduration = \"100ms\"\n"
        );
        let lab = Lab::new(&plan);
        let output = lab.bench().output().unwrap();
        let error = lab.stored().and_then(|run| run.points[0].error.clone()).unwrap_or_else(|| told(&output));
        assert!(error.contains(says), "{axes}: {error}");
    }
}

//! Faults that keep checksums and counts right, or are rare, or are only in some packets: each is found by
//! name, over every wiring that it can be injected at. `docs/truth.md` lists them.

use crate::lab::{Lab, cores, told};
use weir_trial::run::{Run, StoredTrial};
use weir_trial::verdict::Code;

/// The same in trials that are no longer than it takes where a fault is of every hundredth packet.
fn brief(axes: &str, load: &str) -> String {
    plan(axes, load).replace("800ms", "250ms")
}

/// A plan at a load that any machine carries, in trials that have real-time priority where it is allowed; the trace is
/// short, so that the untimed pass hardly ever meets a fault of one packet in 100,000.
fn plan(axes: &str, load: &str) -> String {
    format!(
        "{axes}\ntrace = \"flows:100\"\ndirections = 1\nhuge_pages = false\nself_check = false\n\
         [latency]\nloads = [\"{load}\"]\nduration = \"800ms\"\n"
    )
}

fn axes(nf: &str, fault: &str, wiring: &str, size: u32) -> String {
    format!("nf = \"{nf}\"\ndut = \"faulty:{fault}\"\nwiring = \"{wiring}\"\nsize = {size}")
}

fn trials(run: &Run) -> impl Iterator<Item = &StoredTrial> {
    run.points.iter().flat_map(|point| &point.trials)
}

/// What was found, for an assertion's message.
fn found(run: &Run) -> Vec<String> {
    let findings = trials(run).flat_map(|trial| &trial.verdict.findings);
    let errors = run.points.iter().filter_map(|point| point.error.clone());
    findings.map(|finding| format!("{}: {}", finding.code.name(), finding.says)).chain(errors).collect()
}

fn says(run: &Run, code: Code) -> Option<&str> {
    let mut findings = trials(run).flat_map(|trial| &trial.verdict.findings);
    findings.find(|finding| finding.code == code).map(|finding| finding.says.as_str())
}

/// Changes of one packet in 100,000: the point ends in mid-trial, with exit code 1, and everybody is told.
#[test]
fn a_rare_change_that_keeps_the_checksums_ends_the_point_in_mid_trial() {
    let _cores = cores();
    for (nf, fault, size, what) in [
        ("l3fwd:10", "no-ttl:1e-5", 64, "wrong time to live"),
        ("l2fwd", "swap:1e-5", 64, "changed header"),
        ("l2fwd", "no-checksum:1e-5", 128, "transport checksum is 0x0000"),
        ("l2fwd", "young:1e-5", 64, "the stamp at its end is damaged"),
    ] {
        for wiring in ["vhost", "memif"] {
            let lab = Lab::new(&plan(&axes(nf, fault, wiring, size), "1Mpps"));
            let output = lab.bench().output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{fault} over {wiring}: {}", told(&output));
            let live = String::from_utf8_lossy(&output.stdout);
            assert!(live.contains("FAILED: the packets are wrong"), "{fault} over {wiring}: {live}");
            let run = lab.stored().unwrap();
            let point = &run.points[0];
            assert!(point.packets.as_ref().unwrap().is_right(), "{fault}: the untimed pass met it");
            let trial = point.trials.last().unwrap_or_else(|| panic!("{fault} over {wiring}: no trial"));
            let counts = trial.result.total();
            let check = trial.result.packets.as_ref().unwrap();
            // Each packet that came back is compared, not a sample: at most one in a thousand is not (foreign).
            assert!(check.compared + counts.received / 1_000 >= counts.received, "{check} of {counts:?}");
            assert!(
                point.error.as_ref().unwrap().contains(what),
                "{fault} over {wiring}: {:#?}",
                found(&run)
            );
            println!("{fault} over {wiring}: {counts:?}: {:?}", point.error);
        }
    }
}

/// Nearly all packets of a trace have one disposition: who looks up one packet of a full burst must meet bursts of two.
#[test]
fn lookups_that_are_skipped_in_full_bursts_are_found_before_the_first_trial() {
    let _cores = cores();
    for nf in ["l3fwd:10", "firewall:100"] {
        for wiring in ["vhost", "memif"] {
            let run = Lab::new(&brief(&axes(nf, "skip-lookups", wiring, 64), "200kpps")).measure(1);
            let check = run.points[0].packets.as_ref().unwrap();
            assert!(!check.is_right() && run.points[0].trials.is_empty(), "{nf} over {wiring}: {check}");
            println!("{nf} over {wiring}: {check}");
        }
    }
}

#[test]
fn packets_of_70_000_packets_before_are_duplicates_and_no_gain() {
    let _cores = cores();
    for wiring in ["vhost", "memif"] {
        let run = Lab::new(&plan(&axes("l2fwd", "replay:1e-4", wiring, 64), "500kpps")).measure(0);
        let total = trials(&run).last().unwrap().result.total();
        assert!(total.duplicated > 10 && total.reordered == 0, "{wiring}: {total:?}");
        assert!(says(&run, Code::Duplicated).is_some() && total.received <= total.sent, "{:#?}", found(&run));
    }
}

#[test]
fn a_counter_that_boasts_contradicts_what_came_in() {
    let _cores = cores();
    for wiring in ["vhost", "memif"] {
        let run = Lab::new(&brief(&axes("l2fwd", "boast:0.01", wiring, 64), "200kpps")).measure(0);
        let said =
            says(&run, Code::CountersDisagree).unwrap_or_else(|| panic!("{wiring}: {:#?}", found(&run)));
        assert!(said.contains("packets out, and only"), "{said}");
    }
}

#[test]
fn fifty_starved_flows_of_ten_thousand_are_counted() {
    let _cores = cores();
    for wiring in ["vhost", "memif"] {
        let text = plan(&axes("l2fwd", "starve:0.005", wiring, 64), "500kpps\", \"600kpps");
        // It begins when the untimed pass is over.
        let run = Lab::new(&text.replace("flows:100", "flows:10k")).measure(0);
        let shares = trials(&run).last().unwrap().result.account.as_ref().unwrap().shares.clone().unwrap();
        assert!(shares.frames == 10_000 && (30..80).contains(&shares.starved), "{wiring}: {shares:?}");
        let said = says(&run, Code::Starved).unwrap_or_else(|| panic!("{wiring}: {:#?}", found(&run)));
        assert!(said.contains(" of 10000 frames of the trace came back less than half as often"), "{said}");
    }
}

#[test]
fn one_direction_that_alone_loses_is_named() {
    let _cores = cores();
    for wiring in ["vhost", "memif"] {
        let text = brief(&axes("l2fwd", "one-way:0.01", wiring, 64), "500kpps").replace("directions = 1", "");
        let run = Lab::new(&text).measure(0);
        let said = says(&run, Code::OneSided).unwrap_or_else(|| panic!("{wiring}: {:#?}", found(&run)));
        assert!(said.starts_with("direction 0 alone lost"), "{said}");
    }
}

/// A device that feeds itself is audited, packet by packet, before it is measured.
#[test]
fn an_audit_finds_what_a_device_that_feeds_itself_does_wrong() {
    let _cores = cores();
    for (nf, fault, what) in [
        ("l3fwd:10", "no-ttl:1e-5", "wrong time to live"),
        ("l2fwd", "swap:1e-5", ""),
        ("l2fwd", "no-checksum:1e-5", ""),
        ("l2fwd", "replay:0.2", ""),
        ("l2fwd", "boast:0.5", "a counter that is not right"),
        ("l2fwd", "starve:0.05", "missing"),
    ] {
        let text = format!(
            "{}\ntrace = \"flows:100\"\ndirections = 1\nhuge_pages = false\n[mrr]\ntrials = 1\nduration = \"100ms\"\n",
            axes(nf, fault, "fed", 64)
        );
        let run = Lab::new(&text).measure(1);
        let point = &run.points[0];
        let check =
            point.packets.as_ref().unwrap_or_else(|| panic!("{fault}: {:?}", point.error)).to_string();
        assert!(point.trials.is_empty() && check.contains(what), "{fault}: {check}");
        println!("{fault}: {check}");
    }
}

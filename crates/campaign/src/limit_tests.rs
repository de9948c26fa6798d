use super::*;
use weir_trial::DirectionCounts;
use weir_trial::run::{MrrResult, ThroughputResult};
use weir_trial::verdict::Finding;
use weir_units::Nanos;

fn check(ceiling: f64) -> SelfCheck {
    SelfCheck {
        wiring: "vhost".into(),
        size: "64".into(),
        mean_frame_bytes: 64.0,
        directions: 1,
        pairs: 1,
        queues: 1,
        server: None,
        huge_pages: false,
        loop_of: "weir nf l2fwd".into(),
        ceiling: Pps(ceiling),
        floor_load: Pps(1e4),
        floor: None,
        floors: Vec::new(),
        counts: DirectionCounts::default(),
        findings: Vec::new(),
    }
}

/// A trial of a million packets: so many never sent, so many lost on the way, and what was found.
fn tried(purpose: Purpose, load: f64, unsent: u64, lost: u64, found: &[(Code, Weight)]) -> Tried {
    let intended = 1_000_000;
    let sent = intended - unsent;
    let counts = WindowCounts { sent, unsent, received: sent - lost, refused: 0, late: None };
    let finding = |(code, weight): &(Code, Weight)| Finding {
        code: *code,
        weight: *weight,
        says: format!("{} was found", code.name()),
    };
    let verdict = Verdict { findings: found.iter().map(finding).collect() };
    Tried { purpose, load: Pps(load), counts, verdict }
}

fn search(load: f64, unsent: u64, lost: u64) -> Tried {
    tried(Purpose::Search, load, unsent, lost, &[])
}

fn throughput(rate: Option<f64>, upper: Option<f64>) -> PointResult {
    PointResult::Throughput(ThroughputResult {
        goal: "ndr".into(),
        loss_ratio: Ratio(0.0),
        throughput: rate.map(Pps),
        lower: rate.map(Pps),
        upper: upper.map(Pps),
        irregular: None,
        estimate: None,
        trial_duration: Nanos(1),
        duration_sum: Nanos(1),
        trials: 1,
        limit: None,
    })
}

fn mrr(load: Option<f64>, mean: f64) -> PointResult {
    PointResult::Mrr(MrrResult {
        load: load.map(Pps),
        rates: vec![Pps(mean)],
        mean: Pps(mean),
        deviation: Pps(0.0),
        cycles_per_packet: None,
        limit: None,
    })
}

fn limit(mut result: PointResult, evidence: Evidence<'_>) -> Option<Limit> {
    assign(std::slice::from_mut(&mut result), evidence);
    result.limit().cloned()
}

fn by(result: PointResult, ceiling: f64, trials: &[Tried]) -> Option<Limiter> {
    let check = check(ceiling);
    let (line, max_load) = (Pps(14.88e6), Pps(14e6));
    limit(result, Evidence { check: Some(&check), trials, line, max_load, fed: false }).map(|limit| limit.by)
}

#[test]
fn the_trial_that_failed_says_whose_fault_it_was() {
    let found = || throughput(Some(5e6), Some(6e6));
    assert_eq!(by(found(), 10e6, &[search(6e6, 0, 9)]), Some(Limiter::Dut));
    assert_eq!(by(found(), 10e6, &[search(6e6, 900, 0)]), Some(Limiter::Tester));
    let preempted = [(Code::DutPreempted, Weight::Invalid), (Code::Lost, Weight::Note)];
    let robbed = tried(Purpose::Search, 6e6, 0, 900, &preempted);
    assert_eq!(by(found(), 10e6, &[robbed]), Some(Limiter::Machine));
}

#[test]
fn a_tester_late_at_another_load_is_no_limit() {
    // A load beyond both, that the tester could not send, says nothing about the load that failed.
    let trials = [search(14e6, 500_000, 0), search(6e6, 0, 9)];
    assert_eq!(by(throughput(Some(5e6), Some(6e6)), 10e6, &trials), Some(Limiter::Dut));
}

#[test]
fn of_several_trials_at_the_load_most_decide_and_those_that_passed_say_nothing() {
    let found = || throughput(Some(5e6), Some(6e6));
    let trials = [search(6e6, 900, 0), search(6e6, 0, 9), search(6e6, 0, 9), search(6e6, 0, 0)];
    assert_eq!(by(found(), 10e6, &trials), Some(Limiter::Dut));
    assert_eq!(by(found(), 10e6, &trials[..2]), Some(Limiter::Tester), "in doubt the device may be faster");
    assert_eq!(by(found(), 10e6, &trials[3..]), None, "no trial failed, so none can be asked");
}

#[test]
fn a_missing_bound_is_the_line_only_where_the_line_was_reached() {
    let trials = [search(5e6, 0, 0)];
    assert_eq!(by(throughput(Some(14.88e6), None), 20e6, &trials), Some(Limiter::Line));
    assert_eq!(by(throughput(Some(14e6), None), 20e6, &trials), Some(Limiter::Line));
    assert_eq!(by(throughput(Some(5e6), None), 20e6, &trials), Some(Limiter::Time));
    let failed_only = by(throughput(None, Some(9e3)), 10e6, &[search(9e3, 800, 0)]);
    assert_eq!(failed_only, Some(Limiter::Tester), "the least load failed, and has its cause, too");
}

#[test]
fn near_the_ceiling_the_device_is_not_blamed_and_above_it_is_remarked() {
    let trials = [search(6e6, 0, 9)];
    assert_eq!(by(throughput(Some(5.5e6), Some(6e6)), 6e6, &trials), Some(Limiter::Tester));
    let check = check(5e6);
    let evidence = Evidence { check: Some(&check), trials: &trials, ..Evidence::default() };
    let above = limit(throughput(Some(5.5e6), Some(6e6)), evidence).unwrap();
    assert_eq!(above.by, Limiter::Tester);
    assert!(above.why.contains("5.500 Mpps is above the 5.000 Mpps"), "{}", above.why);
}

#[test]
fn without_a_check_the_device_is_not_blamed_but_the_tester_is() {
    let result = || throughput(Some(5e6), Some(6e6));
    let trials = [search(6e6, 0, 9)];
    assert_eq!(limit(result(), Evidence { trials: &trials, ..Evidence::default() }), None);
    let trials = [search(6e6, 900, 0)];
    let late = limit(result(), Evidence { trials: &trials, ..Evidence::default() }).unwrap();
    assert_eq!(late.by, Limiter::Tester);
    let fed = Evidence { fed: true, ..Evidence::default() };
    assert_eq!(limit(mrr(None, 50e6), fed).unwrap().by, Limiter::Dut);
}

#[test]
fn a_forwarded_rate_is_the_testers_when_most_of_the_missing_packets_were_never_sent() {
    let trial = |unsent, lost| [tried(Purpose::Mrr, 14.88e6, unsent, lost, &[])];
    assert_eq!(by(mrr(Some(14.88e6), 5e6), 20e6, &trial(600_000, 100_000)), Some(Limiter::Tester));
    assert_eq!(by(mrr(Some(14.88e6), 5e6), 20e6, &trial(100_000, 600_000)), Some(Limiter::Dut));
    assert_eq!(by(mrr(Some(14.88e6), 14.88e6), 20e6, &trial(0, 0)), Some(Limiter::Line));
}

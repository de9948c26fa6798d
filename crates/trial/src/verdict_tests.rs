use super::*;
use crate::windows::{Absences, WindowCounts};
use crate::{
    Clocks, CoreHealth, DutReading, Fault, Health, Latency, PacketCheck, Pauses, Planned, Shares,
    TesterAccount, TrialSpec, Windows,
};
use weir_units::{LatencyHistogram, Pps};

/// A second at a million packets a second, with nothing wrong in it.
fn clean() -> TrialResult {
    let spec = TrialSpec { load: Pps(1e6), duration: Nanos(Nanos::PER_SECOND) };
    let counts =
        DirectionCounts { intended: 1_000_000, sent: 1_000_000, received: 1_000_000, ..Default::default() };
    let core = CoreHealth { core: 1, stolen: Nanos(10_000_000), waited: Nanos(1_000_000), preempted: 3 };
    TrialResult {
        elapsed: Nanos(1_008_000_000),
        directions: vec![counts],
        dut: Some(DutReading { received: 1_000_000, sent: 1_000_000, ..Default::default() }),
        health: Health {
            tester: Some(core),
            dut: Some(core),
            clocks: Some(Clocks { tsc: Nanos(1_009_000_000), monotonic: Nanos(1_009_100_000) }),
            ..Default::default()
        },
        packets: Some(PacketCheck { compared: 64, ..Default::default() }),
        account: Some(TesterAccount {
            planned: Some(Planned { packets: 1_000_002, apart: 2 }),
            sent_late: times(992, Nanos(60_000)),
            ..TesterAccount::default()
        }),
        ..TrialResult::new(spec)
    }
}

#[test]
fn a_device_that_had_more_than_its_share_is_no_slower_device() {
    let mut result = clean();
    let held = |ran| crate::Held { percent: 25, ran: Nanos(ran), kept: Nanos(1_000 - ran), of: Nanos(1_000) };
    result.health.held = Some(held(270));
    assert_eq!(judge(&result), judge(&clean()));
    result.health.held = Some(held(300));
    let verdict = judge(&result);
    assert!(verdict.has(Code::NotHeld) && verdict.is_worth_repeating(), "{verdict:?}");
    assert!(verdict.findings[0].says.contains("25 %"), "{verdict:?}");
}

fn account(result: &mut TrialResult) -> &mut TesterAccount {
    result.account.as_mut().unwrap()
}

/// A thousand packets, so many of them in time and the others as late as this.
fn times(in_time: u64, late: Nanos) -> Option<Latency> {
    let mut histogram = LatencyHistogram::default();
    histogram.record_many(Nanos(200), in_time);
    histogram.record_many(late, 1_000 - in_time);
    Latency::of(&histogram)
}

/// A trial of which half is kept, with so many late packets of the 500,000 there, and a third of all packets late.
fn late_where_it_counts(late: u64) -> TrialResult {
    let mut result = clean();
    account(&mut result).sent_late = times(667, Nanos(300_000));
    let mut kept = windows(0.5, 0, Nanos(300_000_000));
    kept.counts[0].late = Some(late);
    result.windows = Some(kept);
    result
}

#[test]
fn packets_that_the_machine_made_late_are_left_out_and_those_that_the_tester_did_are_not() {
    assert!(!judge(&late_where_it_counts(5_000)).has(Code::LateSent));
    let found = |late| {
        let findings = judge(&late_where_it_counts(late)).findings;
        findings.into_iter().find(|finding| finding.code == Code::LateSent).unwrap()
    };
    assert_eq!(found(5_001).weight, Weight::Note);
    assert_eq!(found(50_000).weight, Weight::Note);
    let invalid = found(50_001);
    assert_eq!(invalid.weight, Weight::Invalid);
    let late = limits::late_sent(Pps(1e6));
    assert_eq!(late, Nanos(128_000));
    for part in ["50001 of 500000 packets".to_owned(), format!("over {late} after")] {
        assert!(invalid.says.contains(&part), "{}", invalid.says);
    }
    // Kept by a version that did not count them by window: the whole trial's decide.
    let mut old = late_where_it_counts(0);
    old.windows.as_mut().unwrap().counts[0].late = None;
    assert_eq!(judge(&old).worst(), Some(Weight::Invalid));
}

fn pauses(milliseconds: u64) -> Pauses {
    let total = Nanos(milliseconds * 1_000_000);
    Pauses { count: 5, total, longest: total }
}

/// Windows of which this share is kept, with so many packets unsent there; the absences of either side.
fn windows(kept: f64, unsent: u64, absent: Nanos) -> Windows {
    let packets = (1e6 * kept) as u64;
    let counts = WindowCounts {
        sent: packets - unsent,
        unsent,
        received: packets - unsent,
        ..WindowCounts::default()
    };
    let absences = Absences { count: 1, total: absent, longest: absent };
    Windows {
        count: 1000,
        left_out: (1000.0 * (1.0 - kept)) as u32,
        kept: Nanos((kept * 1e9) as u64),
        tester: absences,
        dut: absences,
        counts: vec![counts],
        ..Windows::default()
    }
}

fn leave_unsent(result: &mut TrialResult, packets: u64) {
    let counts = &mut result.directions[0];
    (counts.sent, counts.received, counts.unsent) =
        (counts.sent - packets, counts.received - packets, packets);
    let dut = result.dut.as_mut().unwrap();
    (dut.received, dut.sent) = (dut.received - packets, dut.sent - packets);
}

fn only(result: &TrialResult) -> (Code, Weight) {
    let verdict = judge(result);
    assert_eq!(verdict.findings.len(), 1, "{verdict:?}");
    (verdict.findings[0].code, verdict.findings[0].weight)
}

#[test]
fn what_is_usual_on_a_machine_is_no_finding() {
    assert_eq!(judge(&clean()), Verdict::default());
    assert!(judge(&clean()).is_valid());
}

#[test]
fn each_disturbance_is_found_by_name() {
    type Change = fn(&mut TrialResult);
    let cases: [(Code, Weight, Change); 26] = [
        (Code::Unsettled, Weight::Invalid, |r| {
            r.health.unsettled = Some("its flow limit is rising".to_owned())
        }),
        (Code::Unsent, Weight::Invalid, |r| leave_unsent(r, 1_001)),
        (Code::Unsent, Weight::Note, |r| leave_unsent(r, 1_000)),
        (Code::CountsDoNotAddUp, Weight::Invalid, |r| r.directions[0].intended += 1),
        (Code::LoadNotOffered, Weight::Invalid, |r| account(r).planned.as_mut().unwrap().packets = 1_030_000),
        (Code::LateSent, Weight::Note, |r| account(r).sent_late = times(980, Nanos(300_000))),
        (Code::LateSent, Weight::Invalid, |r| account(r).sent_late = times(880, Nanos(300_000))),
        (Code::NegativeDelay, Weight::Invalid, |r| account(r).negative_delays = 1),
        (Code::WireChatter, Weight::Note, |r| account(r).wire_chatter = 3),
        (Code::Deaf, Weight::Invalid, |r| r.health.pauses = pauses(15)),
        (Code::MostlyLeftOut, Weight::Invalid, |r| r.windows = Some(windows(0.24, 0, Nanos(0)))),
        (Code::Stretched, Weight::Invalid, |r| r.elapsed = Nanos(1_101_000_000)),
        (Code::ClockJump, Weight::Invalid, |r| {
            r.health.clocks = Some(Clocks { tsc: Nanos(1_009_000_000), monotonic: Nanos(2_009_000_000) });
        }),
        (Code::TesterStolen, Weight::Invalid, |r| {
            r.health.tester.as_mut().unwrap().stolen = Nanos(30_000_000);
        }),
        (Code::DutStolen, Weight::Invalid, |r| r.health.dut.as_mut().unwrap().stolen = Nanos(30_000_000)),
        (Code::TesterPreempted, Weight::Invalid, |r| {
            r.health.tester.as_mut().unwrap().waited = Nanos(60_000_000);
        }),
        (Code::DutPreempted, Weight::Invalid, |r| r.health.dut.as_mut().unwrap().waited = Nanos(30_000_000)),
        (Code::CountersDisagree, Weight::Invalid, |r| r.dut.as_mut().unwrap().sent = 999_935),
        (Code::CountersDisagree, Weight::Invalid, |r| r.dut.as_mut().unwrap().received = 1_000_065),
        (Code::CountersDisagree, Weight::Invalid, |r| r.dut.as_mut().unwrap().sent = 1_000_065),
        (Code::Starved, Weight::Note, |r| {
            let shares = Shares { frames: 10_000, median: 100, starved: 50, example: "a flow".into() };
            account(r).shares = Some(shares);
        }),
        (Code::Chatter, Weight::Note, |r| r.health.conduct.lines = 150),
        (Code::Forked, Weight::Note, |r| r.health.conduct.children = 1),
        (Code::Reordered, Weight::Note, |r| r.directions[0].reordered = 1),
        (Code::Late, Weight::Note, |r| r.directions[0].late = 1),
        (Code::Late, Weight::Invalid, |r| {
            r.directions[0].late = 101;
            r.dut.as_mut().unwrap().sent += 101;
        }),
    ];
    for (code, weight, change) in cases {
        let mut result = clean();
        change(&mut result);
        assert_eq!(only(&result), (code, weight));
        assert_eq!(judge(&result).is_worth_repeating(), weight == Weight::Invalid);
    }
}

#[test]
fn what_the_dut_did_wrong_is_not_worth_another_attempt_and_not_valid() {
    type Change = fn(&mut TrialResult);
    let cases: [(Code, Change); 5] = [
        (Code::Silent, |r| {
            r.directions[0].received = 0;
            r.dut = None;
        }),
        (Code::Duplicated, |r| r.directions[0].duplicated = 1),
        (Code::Foreign, |r| r.directions[0].foreign = 1),
        (Code::Damaged, |r| r.directions[0].damaged = 1),
        (Code::WrongPackets, |r| {
            r.packets
                .as_mut()
                .unwrap()
                .note(Fault::Ttl, || "198.18.0.1 to 198.19.0.1: 64, must be 63".into());
        }),
    ];
    for (code, change) in cases {
        let mut result = clean();
        change(&mut result);
        assert_eq!(only(&result), (code, Weight::Wrong));
        let verdict = judge(&result);
        assert!(!verdict.is_valid() && !verdict.is_worth_repeating());
    }
}

#[test]
fn the_gravest_comes_first_and_says_its_numbers() {
    let mut result = clean();
    result.directions[0].reordered = 5;
    result.packets.as_mut().unwrap().note(Fault::Denied, || "flow x".into());
    let verdict = judge(&result);
    assert_eq!(verdict.findings[0].says, "denied, but let through: 1 of 64 compared, for one flow x");
    assert_eq!(verdict.findings[1].says, "5 of 1000000 packets were overtaken by later ones");
}

#[test]
fn a_fed_device_that_was_read_a_little_late_is_no_stretched_trial() {
    let spec = TrialSpec { load: Pps(1.0), duration: Nanos(1_000_000) };
    let result = TrialResult { elapsed: Nanos(2_000_000), ..TrialResult::new(spec) };
    assert_eq!(judge(&result), Verdict::default());
}

#[test]
fn a_finding_is_printed_as_it_is_stored() {
    for code in [
        Code::Unsent,
        Code::ClockJump,
        Code::CountsDoNotAddUp,
        Code::LoadNotOffered,
        Code::LateSent,
        Code::Deaf,
        Code::MostlyLeftOut,
        Code::NegativeDelay,
        Code::WireChatter,
        Code::WrongPackets,
    ] {
        assert_eq!(serde_json::to_value(code).unwrap(), code.name());
    }
}

#[test]
fn loss_is_a_note_that_says_where() {
    let mut result = clean();
    let counts = &mut result.directions[0];
    (counts.sent, counts.refused, counts.received) = (999_900, 100, 999_840);
    result.dut = Some(DutReading { received: 999_890, sent: 999_870, ..Default::default() });
    let verdict = judge(&result);
    assert!(verdict.is_valid());
    assert_eq!(
        verdict.findings[0].says,
        "160 of 1000000 packets were lost: 100 refused by its full ring, 10 on the way to it, 20 within, 30 on the way back"
    );
}

#[test]
fn a_cause_is_told_before_its_effect() {
    let mut result = clean();
    leave_unsent(&mut result, 500);
    result.health.tester.as_mut().unwrap().waited = Nanos(500_000_000);
    assert_eq!(judge(&result).findings[0].code, Code::TesterPreempted);
}

#[test]
fn a_burst_of_microseconds_is_not_called_preempted_for_waiting_as_long() {
    let mut result = clean();
    result.elapsed = Nanos(28_000);
    result.spec.duration = Nanos(28_000);
    result.health.tester.as_mut().unwrap().waited = Nanos(45_500);
    assert!(!judge(&result).has(Code::TesterPreempted));
}

#[test]
fn time_that_is_proved_to_lie_in_windows_left_out_spoils_nothing_and_what_is_not_does() {
    let mut result = clean();
    result.health.pauses = pauses(300);
    leave_unsent(&mut result, 300_000);
    for health in [&mut result.health.tester, &mut result.health.dut] {
        health.as_mut().unwrap().waited = Nanos(300_000_000);
    }
    assert!(!judge(&result).is_valid());
    result.windows = Some(windows(0.5, 0, Nanos(300_000_000)));
    let verdict = judge(&result);
    assert!(verdict.is_valid(), "{verdict:?}");
    for code in [Code::TesterPreempted, Code::DutPreempted, Code::Deaf, Code::Unsent] {
        assert!(verdict.has(code), "{code:?} is told all the same");
    }
    assert!(
        verdict.findings.iter().any(|finding| finding.says.ends_with("500 of 1000 windows are left out"))
    );
    // Half a trial with packets unsent outside all pauses, or with a core gone and no proof when.
    result.windows = Some(windows(0.5, 1_100, Nanos(300_000_000)));
    assert_eq!(judge(&result).worst(), Some(Weight::Invalid));
    result.windows = Some(windows(0.5, 0, Nanos(270_000_000)));
    assert_eq!(judge(&result).findings[0].code, Code::DutPreempted);
    assert_eq!(judge(&result).worst(), Some(Weight::Invalid));
}

#[test]
fn a_device_may_count_out_what_it_sent_twice_or_held() {
    let mut result = clean();
    result.dut.as_mut().unwrap().sent += 500;
    assert!(judge(&result).has(Code::CountersDisagree));
    result.directions[0].duplicated = 300;
    result.directions[0].late = 200;
    assert!(!judge(&result).has(Code::CountersDisagree));
}

#[test]
fn a_direction_that_alone_loses_is_named_and_loss_on_both_sides_is_not() {
    let both = |lost: [u64; 2]| {
        let mut result = clean();
        let counts = lost.map(|lost| DirectionCounts {
            intended: 500_000,
            sent: 500_000,
            received: 500_000 - lost,
            ..Default::default()
        });
        result.directions = counts.to_vec();
        judge(&result)
    };
    let found = both([0, 5_000]);
    let says = found.findings.iter().find(|finding| finding.code == Code::OneSided);
    assert_eq!(
        says.map(|finding| finding.says.as_str()),
        Some("direction 1 alone lost 1.00 %, the other 0.00 %")
    );
    assert!(both([5_000, 400]).has(Code::OneSided));
    for alike in [[5_000, 500], [99, 0], [0, 0], [4_000, 5_000]] {
        assert!(!both(alike).has(Code::OneSided), "{alike:?}");
    }
}

#[test]
fn a_core_that_the_dut_takes_from_itself_is_not_taken_by_the_machine() {
    let mut result = clean();
    result.health.dut.as_mut().unwrap().waited = Nanos(100_000_000);
    result.windows = Some(windows(0.8, 0, Nanos(100_000_000)));
    assert!(judge(&result).is_valid());
    result.health.conduct.elsewhere = Nanos(30_000_000);
    assert_eq!(judge(&result).findings[0].code, Code::DutPreempted);
    assert_eq!(judge(&result).worst(), Some(Weight::Invalid));
}

#[test]
fn loss_says_how_much_of_it_counts() {
    let mut result = clean();
    result.directions[0].received = 999_000;
    result.windows = Some(windows(0.9, 0, Nanos(1_000_000)));
    let verdict = judge(&result);
    assert!(verdict.findings[0].says.ends_with(", 0 of them in the windows that count"), "{verdict:?}");
}

#[test]
fn what_is_sent_beside_the_schedule_is_in_the_devices_counters() {
    let counted = |beside| {
        let mut result = clean();
        let dut = result.dut.as_mut().unwrap();
        (dut.received, dut.sent) = (1_008_000, 1_007_990);
        result.account.as_mut().unwrap().beside = beside;
        judge(&result)
    };
    assert!(!counted((8_000, 7_990)).has(Code::CountersDisagree));
    assert!(counted((0, 0)).has(Code::CountersDisagree));
    // More came beside the schedule than it says it sent.
    assert!(counted((8_000, 8_100)).has(Code::CountersDisagree));
}

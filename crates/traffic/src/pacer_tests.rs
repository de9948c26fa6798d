use super::*;
use crate::windows::Grid;
use weir_cpu::Ticks;

fn tsc() -> Tsc {
    Tsc::get()
}

fn schedule(shape: Shape, load: f64, duration: Nanos) -> Schedule {
    Schedule { shape, load: Pps(load), duration, phase: 0.0, seed: 7 }
}

/// Windows of a trial of this length.
fn windows(length: u64) -> SentWindows {
    let mut windows = SentWindows::default();
    windows.begin(Grid::new(Ticks(0), length, tsc()));
    windows
}

const SECOND: Nanos = Nanos(Nanos::PER_SECOND);

/// Polls a pacer every `step` for a second and returns what was due at each poll.
fn poll(shape: Shape, load: f64, step: Nanos) -> Vec<usize> {
    let tsc = tsc();
    let mut pacer = Pacer::new(schedule(shape, load, SECOND), tsc);
    let poll = |poll| {
        let now = tsc.ticks(Nanos(poll * step.0));
        let mut due = 0;
        loop {
            match pacer.due(now, 32).count {
                0 => break due,
                more => due += more,
            }
        }
    };
    (0..Nanos::PER_SECOND / step.0).map(poll).collect()
}

#[test]
fn shapes_are_read_by_name_and_nonsense_is_refused_with_the_choices() {
    for (text, shape) in [
        ("constant", Shape::Constant),
        ("poisson", Shape::Poisson),
        ("bursts:256", Shape::Bursts(256)),
        ("recorded", Shape::Recorded),
    ] {
        assert_eq!(text.parse(), Ok(shape));
    }
    for text in ["bursts", "bursts:0", "bursts:x", "square", ""] {
        assert!(text.parse::<Shape>().unwrap_err().to_string().contains("bursts:N"));
    }
}

#[test]
fn a_constant_load_is_due_evenly_and_in_full() {
    let dues = poll(Shape::Constant, 1e6, Nanos(10_000));
    let total: usize = dues.iter().sum();
    assert!((999_980..=1_000_000).contains(&total), "{total}");
    assert!(dues[1..].iter().all(|due| (9..=11).contains(due)), "ten packets every ten microseconds");
}

#[test]
fn a_poisson_load_has_the_mean_and_the_variance_of_poisson() {
    let dues = poll(Shape::Poisson, 1e6, Nanos(10_000));
    let count = dues.len() as f64;
    let mean = dues.iter().sum::<usize>() as f64 / count;
    let variance = dues.iter().map(|due| (*due as f64 - mean).powi(2)).sum::<f64>() / count;
    assert!((mean - 10.0).abs() < 0.1, "{mean}");
    assert!((variance - 10.0).abs() < 0.5, "{variance}");
}

#[test]
fn bursts_come_whole_and_keep_the_mean_rate() {
    let dues = poll(Shape::Bursts(100), 1e6, Nanos(10_000));
    assert!(dues.iter().all(|due| due % 100 == 0));
    let total: usize = dues.iter().sum();
    assert!((999_900..=1_000_000).contains(&total), "{total}");
}

#[test]
fn no_slot_drifts_in_an_hour_at_line_rate() {
    let (load, tsc) = (14_880_952.0, tsc());
    let mut pacer = Pacer::new(schedule(Shape::Constant, load, Nanos(3600 * Nanos::PER_SECOND)), tsc);
    let interval = tsc.hz() / load;
    let mut passed = 0_u64;
    while passed < 3_600 * 14_880_952 {
        pacer.pass(1_000_003);
        passed += 1_000_003;
    }
    // In exact arithmetic: the interval is a double, of 53 bits, and so many of them are summed up.
    let mantissa = (interval * 2.0_f64.powi(52)) as u128;
    let exact = ((mantissa * u128::from(passed)) >> 52) as u64;
    assert!(pacer.first().abs_diff(exact) <= 1, "{} is not {exact}", pacer.first());
    // And a burst is found due at its tick, neither before nor long after.
    let first = pacer.first();
    pacer.left = u64::MAX;
    assert_eq!(pacer.due(first - 1, 32).count, 0);
    assert_eq!(pacer.due(first, 32), Due { count: 1, first, apart: interval as u64 });
    assert_eq!(pacer.due(first + (100.5 * interval) as u64, 1_000).count, 100);
}

#[test]
fn a_trial_has_exactly_the_packets_of_load_times_duration() {
    let tsc = tsc();
    for shape in [Shape::Constant, Shape::Bursts(64)] {
        for (load, nanos) in
            [(1e6, 100_000_000), (123_456.7, 33_333_333), (1.0, 400_000_000), (9.7e6, 28_000)]
        {
            let schedule = schedule(shape, load, Nanos(nanos));
            let planned = (load * nanos as f64 / 1e9).round() as u64;
            assert_eq!(schedule.packets(), Some(planned));
            let length = tsc.ticks(Nanos(nanos));
            let (mut pacer, mut windows) = (Pacer::new(schedule, tsc), windows(length));
            let mut offered = 0;
            for now in (0..length).step_by((length / 1_000).max(1) as usize) {
                while let Due { count: count @ 1.., .. } = pacer.due(now, 32) {
                    offered += count as u64;
                }
            }
            let unsent = pacer.end(length, &mut windows);
            assert_eq!(offered + unsent, planned, "{shape:?} {load} {nanos}");
            assert_eq!(windows.windows().iter().map(|window| u64::from(window.unsent)).sum::<u64>(), unsent);
            assert_eq!(pacer.due(u64::MAX / 2, 32).count, 0, "nothing is left");
        }
    }
}

#[test]
fn slots_that_are_given_up_are_counted_in_the_windows_in_which_they_were_due() {
    let tsc = tsc();
    for (shape, apart) in [(Shape::Constant, 2.0), (Shape::Bursts(10), 20.0), (Shape::Poisson, 400.0)] {
        let length = tsc.ticks(Nanos(20_000_000));
        let mut windows = windows(length);
        let mut pacer = Pacer::new(schedule(shape, 1e6, Nanos(20_000_000)), tsc);
        let (horizon, now) = (tsc.ticks(Nanos(9_900_000)), tsc.ticks(Nanos(10_000_000)));
        let given_up = pacer.give_up(horizon, &mut windows);
        assert!((given_up as f64 - 9_900.0).abs() <= apart, "{shape:?}: {given_up}");
        let mut due = 0;
        while let Due { count: count @ 1.., first, .. } = pacer.due(now, 32) {
            assert!(first >= horizon && first <= now);
            due += count;
        }
        assert!((due as f64 - 100.0).abs() <= apart.min(60.0), "{shape:?}: {due}");
        // A window of w nanoseconds has w / 1,000 of them, up to the horizon and none behind it.
        let width = windows.end_of(0) as f64 / tsc.hz() * 1e6;
        let counts: Vec<u32> = windows.windows().iter().map(|window| window.unsent).collect();
        let full = (9_900.0 / width) as usize;
        for (place, count) in counts.iter().enumerate() {
            let expected = if place < full { width } else { (9_900.0 - width * place as f64).max(0.0) };
            let apart = if shape == Shape::Poisson { 5.0 * expected.sqrt() } else { apart };
            assert!(
                (f64::from(*count) - expected).abs() <= apart,
                "{shape:?}, {place}: {count} of {expected}"
            );
        }
    }
}

/// What a trial comes to whose pacer is this slow, by what its packets' counts say.
fn judged(shape: Shape, speed: f64) -> weir_trial::Verdict {
    use weir_trial::{DirectionCounts, Planned, TesterAccount, TrialResult, TrialSpec};
    let (tsc, schedule) = (tsc(), schedule(shape, 1e6, SECOND));
    let mut pacer = Pacer::new(schedule, tsc);
    (pacer.rate, pacer.mean) = ((pacer.rate as f64 * speed) as u64, pacer.mean / speed);
    pacer.interval = (pacer.interval as f64 / speed) as u128;
    let length = tsc.ticks(SECOND);
    let mut windows = windows(length);
    let (mut sent, mut now) = (0, 0);
    while now < length {
        sent += pacer.due(now, 32).count as u64;
        now += 5_000;
    }
    let unsent = pacer.end(length, &mut windows);
    let intended = schedule.packets().unwrap_or(sent + unsent);
    let counts = DirectionCounts { intended, sent, unsent, received: sent, ..DirectionCounts::default() };
    let planned = shape.apart(1e6).map(|apart| Planned { packets: 1_000_000, apart: apart + 1 });
    let account = TesterAccount { planned, ..TesterAccount::default() };
    let spec = TrialSpec { load: Pps(1e6), duration: SECOND };
    weir_trial::judge(&TrialResult {
        directions: vec![counts],
        account: Some(account),
        ..TrialResult::new(spec)
    })
}

#[test]
fn a_pacer_at_97_percent_spoils_the_trial_by_name() {
    use weir_trial::verdict::{Code, Weight};
    for (shape, code) in [
        (Shape::Constant, Code::Unsent),
        (Shape::Bursts(16), Code::Unsent),
        (Shape::Poisson, Code::LoadNotOffered),
    ] {
        // The last packet may fall on the very end.
        assert_ne!(judged(shape, 1.0).worst(), Some(Weight::Invalid), "{shape:?}: {:?}", judged(shape, 1.0));
        let slow = judged(shape, 0.97);
        assert!(slow.has(code) && slow.worst() == Some(Weight::Invalid), "{shape:?}: {slow:?}");
    }
}

#[test]
fn chance_takes_only_poisson_traffic_away_from_its_number_and_a_capture_has_its_own() {
    assert_eq!(Shape::Constant.apart(1e6), Some(0));
    assert_eq!(Shape::Bursts(3).apart(1e6), Some(0));
    assert_eq!(Shape::Poisson.apart(1e6), Some(5_000));
    assert_eq!(Shape::Poisson.apart(100.5), Some(51), "rounded up");
    assert_eq!(Shape::Recorded.apart(1e6), None);
}

#[test]
fn a_packet_is_due_at_its_very_tick_and_not_before() {
    let mut pacer = Pacer::new(schedule(Shape::Constant, 1e6, SECOND), tsc());
    assert_eq!(pacer.due(0, 32).count, 1);
    let next = pacer.first();
    assert_eq!(pacer.due(next - 1, 32).count, 0);
    let due = pacer.due(next, 32);
    assert_eq!((due.count, due.first), (1, next));
}

#[test]
fn no_packet_is_due_a_tick_early_nor_a_whole_one_late() {
    let tsc = tsc();
    let mut pacer = Pacer::new(schedule(Shape::Constant, 3.3e6, SECOND), tsc);
    let mut between = 0;
    for _ in 0..1_000 {
        let (first, exact) = (u128::from(pacer.first()) << TICK, pacer.next);
        assert!(first >= exact && first - exact < 1 << TICK, "{first} for {exact}");
        between += u32::from(first > exact);
        assert_eq!(pacer.due(pacer.first(), 1).count, 1);
    }
    assert!(between > 500, "most are due between two ticks: {between}");
}

#[test]
fn the_rest_of_a_burst_that_the_end_cuts_is_unsent_in_the_windows_too() {
    let tsc = tsc();
    let length = tsc.ticks(SECOND);
    let mut windows = windows(length);
    let mut pacer = Pacer::new(schedule(Shape::Bursts(10), 1e6, SECOND), tsc);
    let Due { count, .. } = pacer.due(length - 1, 4);
    assert_eq!(count, 4);
    let given_up = pacer.end(length, &mut windows);
    let in_windows: u32 = windows.windows().iter().map(|window| window.unsent).sum();
    assert_eq!((given_up, in_windows), (1_000_000 - 4, 1_000_000 - 4));
}

#[test]
fn a_packet_that_falls_on_the_very_end_is_unsent_in_the_windows_too() {
    let tsc = tsc();
    // 1,000 packets planned for 999.6 µs, the last due at 999.9 µs.
    let duration = Nanos(999_600);
    let mut windows = windows(tsc.ticks(duration));
    let mut pacer = Pacer::new(Schedule { phase: 0.9, ..schedule(Shape::Constant, 1e6, duration) }, tsc);
    let given_up = pacer.end(tsc.ticks(duration), &mut windows);
    let in_windows: u32 = windows.windows().iter().map(|window| window.unsent).sum();
    assert_eq!((given_up, in_windows), (1_000, 1_000));
}

//! Windows against simulated devices whose loss, and whose machine's pauses, are known.

use super::*;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Packets that a ring holds: the device's and the tester's.
const RING: usize = 1024;
/// Packets that the tester sends late, after a pause.
const CATCH_UP: u64 = 256;
/// A tick is a nanosecond here; the trial begins at this one.
const START: u64 = 1_000_000;
const LENGTH: u64 = 400_000_000;

/// A device between two sides of a machine that takes their cores away.
#[derive(Clone, Copy)]
struct Model {
    load: f64,
    capacity: f64,
    /// Share of the packets that the device loses by itself.
    loss: f64,
    /// Mean time between two pauses of a side, and their length, in ticks.
    apart: f64,
    pause: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self { load: 1e6, capacity: 2e6, loss: 0.0, apart: 15e6, pause: 3_000_000 }
    }
}

/// Pauses of one side at random times.
fn pauses(model: Model, side: Side, rng: &mut ChaCha8Rng) -> Vec<Absence> {
    let (mut at, mut pauses) = (START, Vec::new());
    if model.pause == 0 {
        return pauses;
    }
    loop {
        let u: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
        let from = at + (-u.ln() * model.apart) as u64;
        if from >= START + LENGTH {
            return pauses;
        }
        at = from + model.pause;
        pauses.push(Absence { side, from, to: at });
    }
}

/// The end of the pause that a moment lies in.
fn paused(pauses: &[Absence], at: u64) -> Option<u64> {
    let place = pauses.partition_point(|pause| pause.to <= at);
    pauses.get(place).filter(|pause| pause.from <= at).map(|pause| pause.to)
}

/// When work of so many ticks that begins at `at` is done, pauses left out.
fn done(pauses: &[Absence], mut at: u64, mut work: u64) -> u64 {
    let mut place = pauses.partition_point(|pause| pause.to <= at);
    loop {
        let Some(pause) = pauses.get(place) else { return at + work };
        if at >= pause.from {
            at = at.max(pause.to);
        } else if at + work <= pause.from {
            return at + work;
        } else {
            work -= pause.from - at;
            at = pause.to;
        }
        place += 1;
    }
}

/// Runs a trial packet by packet: its windows and all absences.
fn run(model: Model, seed: u64) -> (WindowLog, Vec<Absence>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tester = pauses(model, Side::Tester, &mut rng);
    let dut = pauses(model, Side::Dut, &mut rng);
    let shift = 20;
    let mut windows = vec![Window::default(); (LENGTH >> shift) as usize + 2];
    let (mut queue, mut last, mut held, mut held_until) = (VecDeque::new(), 0_u64, 0, 0);
    let interval = 1e9 / model.load;
    for slot in 0..(model.load * LENGTH as f64 / 1e9) as u64 {
        let due = START + (slot as f64 * interval) as u64;
        let sent = paused(&tester, due).unwrap_or(due);
        if sent - due > (CATCH_UP as f64 * interval) as u64 {
            windows[((due - START) >> shift) as usize].unsent += 1;
            continue;
        }
        let window = &mut windows[((sent - START) >> shift) as usize];
        while queue.front().is_some_and(|departure| *departure <= sent) {
            queue.pop_front();
        }
        if queue.len() >= RING {
            window.refused += 1;
            continue;
        }
        window.sent += 1;
        let departure = done(&dut, last.max(sent), (1e9 / model.capacity) as u64);
        (last, held) = (departure, if departure >= held_until { 0 } else { held });
        queue.push_back(departure);
        if rng.random_bool(model.loss) {
            continue;
        }
        // What leaves the device while nobody polls waits in a ring.
        if let Some(end) = paused(&tester, departure) {
            (held, held_until) = (held + 1, end);
        }
        if held <= RING {
            window.received += 1;
            window.delay += paused(&tester, departure).unwrap_or(departure) - sent;
        }
    }
    let log = WindowLog {
        start: START,
        length: LENGTH,
        shift,
        warm_up: 0,
        margin: (RING as f64 * interval) as u64,
        nanos_per_tick: 1.0,
        directions: vec![windows],
    };
    (log, [tester, dut].concat())
}

/// Packets due and lost over a number of trials: with everything, and with what the pauses left.
fn over_trials(model: Model, trials: u64) -> (f64, f64, u64) {
    let (mut raw, mut kept, mut intended) = ((0, 0), 0, 0);
    for seed in 0..trials {
        let (log, absences) = run(model, seed);
        let (all, cleaned) = (log.leave_out(&[]).total(), log.leave_out(&absences).total());
        raw = (raw.0 + all.intended(), raw.1 + all.lost());
        (kept, intended) = (kept + cleaned.lost(), intended + cleaned.intended());
    }
    (raw.1 as f64 / raw.0 as f64, kept as f64 / intended as f64, intended)
}

#[test]
fn a_device_without_loss_on_a_machine_that_pauses_is_without_loss_where_it_counts() {
    let (raw, cleaned, counted) = over_trials(Model { capacity: 1.3e6, ..Model::default() }, 4);
    assert!(raw > 0.1, "the pauses cost {raw}");
    assert_eq!(cleaned, 0.0);
    assert!(counted > 4 * 100_000, "{counted} packets count");
}

#[test]
fn a_device_that_loses_in_proportion_is_estimated_without_bias() {
    for loss in [0.05, 1e-3, 2e-5] {
        let (raw, cleaned, counted) = over_trials(Model { loss, ..Model::default() }, 8);
        let deviation = (loss * (1.0 - loss) / counted as f64).sqrt();
        assert!((cleaned - loss).abs() < 4.0 * deviation, "{cleaned} of {loss} ± {deviation}");
        assert!(raw > 2.0 * loss, "{raw}");
    }
}

#[test]
fn a_device_that_is_overloaded_is_never_cleaned_to_one_without_loss() {
    // An idle tester empties the device's ring: so much of an overload is forgiven after each pause.
    for capacity in [0.97e6, 0.9e6, 0.5e6] {
        for seed in 0..4 {
            let model = Model { capacity, apart: 60e6, ..Model::default() };
            let (log, absences) = run(model, seed);
            let windows = log.leave_out(&absences);
            let (truth, total) = (1.0 - capacity / model.load, windows.total());
            let loss = total.lost() as f64 / total.intended() as f64;
            assert!(loss > 0.4 * truth && loss < 1.1 * truth, "{loss} of {truth}, seed {seed}");
            assert!(windows.lossy > 0);
        }
    }
}

#[test]
fn without_pauses_nothing_is_left_out_and_every_packet_counts() {
    let (log, absences) = run(Model { pause: 0, loss: 0.01, ..Model::default() }, 3);
    let windows = log.leave_out(&absences);
    assert_eq!((absences.len(), windows.left_out), (0, 0));
    assert_eq!((windows.kept, windows.total().intended()), (Nanos(LENGTH), 400_000));
    assert_eq!(windows.lossy, windows.count);
}

/// Ten windows of 1,024 ticks and a bit, ten packets each, one lost in each.
fn small() -> WindowLog {
    let window = Window { sent: 10, late: 2, received: 9, delay: 9 * 50, ..Window::default() };
    WindowLog {
        start: 5_000,
        length: 10 * 1024 + 1,
        shift: 10,
        warm_up: 0,
        margin: 100,
        nanos_per_tick: 1.0,
        directions: vec![vec![window; 12]; 2],
    }
}

#[test]
fn the_first_moments_of_a_longer_trial_are_left_out_whole_windows_at_a_time() {
    let log = WindowLog { warm_up: 1_025, ..small() };
    let windows = log.leave_out(&[]);
    assert_eq!((windows.left_out, windows.warm_up, windows.kept), (2, Nanos(1_025), Nanos(10_241 - 2_048)));
    assert_eq!(windows.total().sent, 2 * 100);
    // A burst of some milliseconds is judged whole.
    assert_eq!(warm_up(Nanos(49_999_999)), Nanos(0));
    assert_eq!(warm_up(Nanos(50_000_000)), Nanos(2_000_000));
}

#[test]
fn an_absence_takes_the_windows_it_touches_with_its_margins() {
    let at = |side, from: u64, to: u64| Absence { side, from: 5_000 + from, to: 5_000 + to };
    let log = small();
    assert_eq!(log.leave_out(&[]).count, 11);
    // Of the last window one tick is within the trial; what was sent behind its end belongs to it.
    assert_eq!((log.leave_out(&[]).kept, log.leave_out(&[]).total().sent), (Nanos(10_241), 2 * 120));
    assert_eq!(log.leave_out(&[]).total().late, Some(2 * 24));
    for (from, to, left_out) in
        [(1_200, 1_300, 1), (1_100, 1_300, 2), (1_200, 2_000, 2), (1_100, 2_000, 3), (10_300, 99_999, 2)]
    {
        let windows = log.leave_out(&[at(Side::Dut, from, to)]);
        assert_eq!(windows.left_out, left_out, "{from} to {to}");
        assert_eq!(windows.dut.count, u32::from(from < 10_241), "{from} to {to}");
    }
    let before = Absence { side: Side::Tester, from: 0, to: 4_899 };
    assert_eq!(log.leave_out(&[before]).left_out, 0);
    assert_eq!(log.leave_out(&[Absence { to: 4_900, ..before }]).left_out, 1);
    assert_eq!(log.leave_out(&[Absence { to: 4_900, ..before }]).tester, Absences::default());
    let all = log.leave_out(&[Absence { to: u64::MAX, ..before }]);
    assert_eq!((all.left_out, all.kept, all.total()), (11, Nanos(0), WindowCounts::default()));
    let some = log.leave_out(&[at(Side::Tester, 200, 500), at(Side::Tester, 5_500, 5_700)]);
    let account = Absences { count: 2, total: Nanos(500), longest: Nanos(300) };
    assert_eq!((some.tester, some.absences(Side::Dut)), (account, Absences::default()));
    assert_eq!(some.worst_delay, Some(Nanos(50)));
}

//! Comparisons of simulated devices, whose truth is known: how often equal devices are told apart,
//! how often unequal ones are not, and how often a stated interval misses.

use std::collections::BTreeMap;
use weir_methods::Silent;
use weir_methods::compare::{BoundVerdict, Comparison, Gap, Method, Side, Verdict, compare};
use weir_methods::latency::{LatencyAt, LoadBasis};
use weir_methods::mlrsearch::{Goal, Search, SearchConfig};
use weir_methods::mrr::Mrr;
use weir_simulated::{SimulatedDut, Simulation};
use weir_trial::run::{
    LatencyResult, MrrResult, Point, PointKey, PointResult, Purpose, Run, RunState, SCHEMA_VERSION,
    StoredTrial,
};
use weir_trial::{KeptTrial, Measurer, Nf, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps, Ratio};

const LINE: Pps = Pps(14_880_952.0);

/// A device whose trials are kept as a campaign keeps them.
struct Kept<'a> {
    device: &'a mut Simulation,
    clock: i64,
    trials: &'a mut Vec<StoredTrial>,
}

impl Measurer for Kept<'_> {
    type Error = std::convert::Infallible;

    fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
        let result = self.device.run(spec);
        let sequence = self.trials.len() as u32;
        let started_ms = self.clock + i64::from(sequence) * 1000;
        self.trials.push(StoredTrial::new(sequence, purpose, started_ms, result.clone()));
        Ok(KeptTrial { sequence, result })
    }
}

/// What to measure of a simulated device.
#[derive(Clone, Copy, Default)]
struct Plan {
    mrr: u32,
    searches: u32,
    latency: bool,
    repeats: u32,
}

fn key(dut: &str, size: u32) -> PointKey {
    PointKey {
        nf: Nf::L2Fwd,
        dut: dut.to_owned(),
        wiring: "simulated".to_owned(),
        trace: "simple".to_owned(),
        size: size.to_string(),
        mean_frame_bytes: f64::from(size),
        directions: 1,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    }
}

fn goal() -> Goal {
    Goal::ndr().with_durations(Nanos(Nanos::PER_SECOND), Nanos(3 * Nanos::PER_SECOND))
}

fn search() -> Search {
    let config =
        SearchConfig { overhead_counts: false, warm_up: Nanos(0), ..SearchConfig::new(vec![goal()], LINE) };
    Search::new(config).unwrap()
}

fn point(dut: SimulatedDut, plan: Plan) -> Point {
    let mut device = dut.start();
    let (mut trials, mut results) = (Vec::new(), Vec::new());
    for _ in 0..plan.repeats.max(1) {
        let mut kept = Kept { device: &mut device, clock: 0, trials: &mut trials };
        for _ in 0..plan.searches {
            results.extend(search().run(&mut kept, &mut Silent).unwrap().point_results());
        }
        if plan.mrr > 0 {
            let mrr = Mrr { trials: plan.mrr, duration: Nanos(Nanos::PER_SECOND), load: LINE };
            results.push(mrr.run(&mut kept, &mut Silent).unwrap().point_result());
        }
        if plan.latency {
            let at = LatencyAt { loads: vec!["1Mpps".parse().unwrap()], duration: Nanos(Nanos::PER_SECOND) };
            let basis = LoadBasis { goals: &[], mrr: None, line: LINE, max_load: LINE, wire_bits: 672.0 };
            let found = at.run(&basis, &mut kept, &mut Silent).unwrap();
            results.extend(found[0].point_result());
        }
    }
    Point {
        index: 0,
        key: key("simulated", 64),
        dut_version: None,
        configuration: Default::default(),
        trace_hashes: Vec::new(),
        seed: 1,
        packets: None,
        error: None,
        finished: true,
        results,
        trials,
    }
}

fn run(name: &str, points: Vec<Point>) -> Run {
    Run {
        schema: SCHEMA_VERSION,
        id: 1,
        name: name.to_owned(),
        started_ms: 0,
        ended_ms: None,
        state: RunState::Finished,
        plan: String::new(),
        weir: "weir".to_owned(),
        environment: BTreeMap::new(),
        uuid: String::new(),
        sessions: Vec::new(),
        self_checks: Vec::new(),
        points,
        advice: Vec::new(),
    }
}

fn between(a: &Run, b: &Run, bound: Option<f64>) -> Comparison {
    compare(Side { run: a, dut: None }, Side { run: b, dut: None }, bound.map(Ratio))
}

fn compared(a: SimulatedDut, b: SimulatedDut, plan: Plan, bound: Option<f64>) -> Comparison {
    between(&run("a", vec![point(a, plan)]), &run("b", vec![point(b, plan)]), bound)
}

fn noisy(seed: u64, noise: f64) -> SimulatedDut {
    SimulatedDut { noise: Ratio(noise), seed, ..SimulatedDut::default() }
}

fn slower(seed: u64, noise: f64, share: f64) -> SimulatedDut {
    SimulatedDut { capacity: Pps(5e6 * (1.0 - share)), ..noisy(seed, noise) }
}

fn has_winner(comparison: &Comparison) -> bool {
    comparison.rows.iter().any(|row| matches!(row.verdict, Verdict::A | Verdict::B))
}

const FIVE: Plan = Plan { mrr: 5, searches: 0, latency: false, repeats: 1 };

#[test]
fn equal_devices_are_told_apart_in_at_most_one_of_twenty_comparisons() {
    for (noise, disturbed, trials) in [(0.01, 0.0, 3), (0.01, 0.0, 10), (0.03, 0.0, 5), (0.002, 0.2, 10)] {
        let device = |seed| SimulatedDut { disturbed: Ratio(disturbed), ..noisy(seed, noise) };
        let plan = Plan { mrr: trials, ..FIVE };
        let wrong =
            (0..400).filter(|n| has_winner(&compared(device(2 * n), device(2 * n + 1), plan, None))).count();
        // 5 % of 400, and two standard deviations of that count.
        assert!(wrong <= 20 + 9, "{wrong} of 400 with noise {noise}, {trials} trials");
    }
}

#[test]
fn equal_devices_at_nine_points_are_told_apart_in_at_most_one_of_twenty_comparisons() {
    let nine = |seed: u64| {
        let mut points: Vec<Point> = (0..9).map(|n| point(noisy(100 * seed + n, 0.01), FIVE)).collect();
        points.iter_mut().zip(1..).for_each(|(point, n)| point.key = key("simulated", 64 * n));
        run("nine", points)
    };
    let wrong = (0..400).filter(|n| has_winner(&between(&nine(2 * n), &nine(2 * n + 1), None))).count();
    assert!(wrong <= 20 + 9, "{wrong} of 400");
}

#[test]
fn a_device_five_per_cent_slower_is_found_in_one_per_cent_of_noise() {
    let found = |plan: Plan, times: u64| {
        let slow = |n: u64| compared(noisy(2 * n, 0.01), slower(2 * n + 1, 0.01, 0.05), plan, None);
        (0..times).filter(|n| slow(*n).rows.iter().all(|row| row.verdict == Verdict::A)).count()
    };
    let five = found(FIVE, 400);
    assert!(five >= 380, "{five} of 400 with five trials");
    let ten = found(Plan { mrr: 10, ..FIVE }, 400);
    assert!(ten >= 396, "{ten} of 400 with ten trials");
    let searched = found(Plan { searches: 1, repeats: 4, ..Plan::default() }, 60);
    assert!(searched >= 57, "{searched} of 60 with four searches");
}

#[test]
fn equal_devices_searched_several_times_are_not_told_apart() {
    let plan = Plan { searches: 1, repeats: 3, ..Plan::default() };
    for noise in [0.0, 0.002, 0.01] {
        let wrong = (0..80)
            .filter(|n| has_winner(&compared(noisy(2 * n, noise), noisy(2 * n + 1, noise), plan, None)))
            .count();
        assert!(wrong <= 4, "{wrong} of 80 with noise {noise}");
    }
}

/// A source of numbers that follow a shape, from a fixed seed.
struct Source(weir_testkit::Dice);

impl Source {
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform().max(f64::MIN_POSITIVE), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

type Shape = (&'static str, fn(&mut Source) -> f64, fn(&mut Source) -> f64);

/// Factors on a true rate; both sides' centres are 1 but for the last two shapes, which both share.
const SHAPES: [Shape; 6] = [
    ("normal, 1 %", |s| 1.0 + 0.01 * s.normal(), |s| 1.0 + 0.01 * s.normal()),
    ("one side ten times noisier", |s| 1.0 + 0.003 * s.normal(), |s| 1.0 + 0.03 * s.normal()),
    ("uniform", |s| 0.98 + 0.04 * s.uniform(), |s| 0.98 + 0.04 * s.uniform()),
    ("heavy tails", heavy, heavy),
    ("one trial in ten loses up to half", spoilt, spoilt),
    ("skewed: exponential stolen time", stolen, stolen),
];

fn heavy(source: &mut Source) -> f64 {
    let chi = (0..3).map(|_| source.normal().powi(2)).sum::<f64>() / 3.0;
    (0.01 * source.normal() / chi.sqrt()).exp()
}

fn spoilt(source: &mut Source) -> f64 {
    let usual = 1.0 + 0.01 * source.normal();
    if source.uniform() < 0.1 { usual * (1.0 - 0.5 * source.uniform()) } else { usual }
}

fn stolen(source: &mut Source) -> f64 {
    1.0 / (1.0 - 0.02 * source.uniform().max(1e-9).ln())
}

#[test]
fn stated_intervals_cover_the_truth_in_about_95_of_100_cases_whatever_the_noise() {
    const TIMES: u32 = 4000;
    let mut source = Source(weir_testkit::Dice::new(7));
    for (name, of_a, of_b) in SHAPES {
        for count in [2, 3, 4, 5, 6, 8, 10, 20] {
            let mut draw = |shape: fn(&mut Source) -> f64, rate: f64| {
                (0..count).map(|_| rate * shape(&mut source)).collect::<Vec<f64>>()
            };
            let covered = (0..TIMES)
                .filter(|_| {
                    let gap = Gap::independent(&draw(of_a, 5e6), &draw(of_b, 4e6)).unwrap().interval();
                    gap.low <= 0.8 && 0.8 <= gap.high
                })
                .count();
            let share = covered as f64 / f64::from(TIMES);
            assert!((0.92..=0.99).contains(&share), "{name}, {count} trials: {share}");
        }
    }
}

/// Centres of `count` starts of two devices measured in turns: what the machine does to both, what a start is
/// by itself, and the noise of two trials at each. B forwards four fifths of what A does.
fn starts(source: &mut Source, shape: fn(&mut Source) -> f64, count: usize) -> (Vec<f64>, Vec<f64>) {
    let mut hour = 0.0;
    let start = |_| {
        hour += 0.02 * source.normal(); // a walk: the machine of the last start is not that of the first
        let mut side = |rate: f64| {
            let own = (0.03 * source.normal()).exp() * shape(source);
            let trials = [0.01 * source.normal(), 0.01 * source.normal()];
            rate * (hour + (trials[0] + trials[1]) / 2.0).exp() * own
        };
        (side(5e6), side(4e6))
    };
    (0..count).map(start).collect::<Vec<_>>().into_iter().unzip()
}

fn covers(gap: &Gap) -> bool {
    let interval = gap.interval();
    interval.low <= 0.8 && 0.8 <= interval.high
}

#[test]
fn paired_intervals_over_starts_cover_the_truth_in_about_95_of_100_cases_whatever_the_noise() {
    const TIMES: u32 = 4000;
    let mut source = Source(weir_testkit::Dice::new(11));
    // Both sides have the same shape, so what is lopsided in it cancels in the ratio.
    for (name, shape, _) in SHAPES.iter().filter(|shape| shape.0 != "one side ten times noisier") {
        for count in [2, 3, 5, 8, 10, 20] {
            let covered = (0..TIMES)
                .filter(|_| {
                    let (a, b) = starts(&mut source, *shape, count);
                    covers(&Gap::paired_starts(&a, &b).unwrap())
                })
                .count();
            let share = covered as f64 / f64::from(TIMES);
            println!("{name}, {count} starts: {:.1} %", share * 100.0); // what docs/comparing.md quotes
            assert!((0.93..=0.985).contains(&share), "{name}, {count} starts: {share}");
        }
    }
}

/// Sampling that goes on until an effect of 5 % is visible stops when the scatter happens to look small, which
/// costs some coverage: how much, where at least `weir perf`'s five starts are taken.
#[test]
fn sampling_until_an_effect_is_visible_costs_little_coverage() {
    const TIMES: u32 = 2000;
    let mut source = Source(weir_testkit::Dice::new(12));
    for (name, shape, _) in SHAPES.iter().filter(|shape| shape.0 != "one side ten times noisier") {
        let (mut covered, mut taken) = (0, 0);
        for _ in 0..TIMES {
            let (a, b) = starts(&mut source, *shape, 40);
            let seen = (5..=40)
                .map(|count| (count, Gap::paired_starts(&a[..count], &b[..count]).unwrap()))
                .find(|(count, gap)| gap.visible() <= 0.05 || *count == 40);
            let (count, gap) = seen.unwrap();
            covered += u32::from(covers(&gap));
            taken += count;
        }
        let (share, mean) = (f64::from(covered) / f64::from(TIMES), taken as f64 / f64::from(TIMES));
        println!("{name}, until 5 % is seen: {:.1} %, {mean:.1} starts on average", share * 100.0);
        assert!((0.92..=0.985).contains(&share), "{name}: {share}, {mean} starts on average");
        assert!((5.0..=40.0).contains(&mean), "{name}: {mean}");
    }
}

#[test]
fn an_effect_of_the_visible_size_is_seen_in_four_of_five_cases() {
    let mut source = Source(weir_testkit::Dice::new(13));
    let mut seen = 0;
    for _ in 0..2000 {
        // Ten starts whose ratios scatter by 4 %: what is visible follows from the true error.
        let ratios = |source: &mut Source, log: f64| -> Vec<f64> {
            (0..10).map(|_| (log + 0.04 * source.normal()).exp()).collect()
        };
        let effect = (2.262_157 + 0.883_404) * 0.04 / 10_f64.sqrt();
        let b = ratios(&mut source, -effect);
        seen += u32::from(Gap::paired_starts(&[1.0; 10], &b).unwrap().interval().high < 1.0);
    }
    assert!((1540..=1660).contains(&seen), "{seen} of 2000");
}

#[test]
fn a_machine_that_drifts_tells_nobody_apart_whose_trials_were_taken_in_turns() {
    // The machine loses 1 % a trial; both devices forward the same. A B, B A, A B, ...
    let drifting = |in_turns: bool, seed: u64| {
        let trials = 6;
        let mut source = Source(weir_testkit::Dice::new(seed));
        let mut side = |second: usize| {
            let measured = (0..trials).map(|pair| {
                let swapped = pair % 2 == 1;
                let slot = if in_turns {
                    (2 * pair + usize::from(swapped)) ^ second
                } else {
                    second * trials + pair
                };
                (5e6 * (1.0 - 0.01 * slot as f64) * (1.0 + 0.002 * source.normal()), slot as i64 * 1000)
            });
            let (rates, starts): (Vec<f64>, Vec<i64>) = measured.unzip();
            let mut point = point(noisy(1, 0.0), Plan { mrr: trials as u32, ..FIVE });
            point.key.dut = ["one", "other"][second].to_owned();
            point.trials.iter_mut().zip(starts).for_each(|(trial, start)| trial.started_ms = start);
            let PointResult::Mrr(MrrResult { rates: stored, .. }) = &mut point.results[0] else {
                unreachable!()
            };
            stored.iter_mut().zip(rates).for_each(|(stored, rate)| *stored = Pps(rate));
            point
        };
        let run = run("turns", vec![side(0), side(1)]);
        compare(Side { run: &run, dut: Some("one") }, Side { run: &run, dut: Some("other") }, None)
    };
    let wrong = |in_turns| (0..200).filter(|seed| has_winner(&drifting(in_turns, *seed))).count();
    assert!(wrong(true) <= 10 + 6, "{} of 200", wrong(true));
    assert_eq!(wrong(false), 200, "one after the other, the drift is taken for the device");
    let comparison = drifting(true, 1);
    assert!(comparison.alternated && comparison.rows[0].method == Method::Paired);
    assert_eq!(comparison.rows[0].other_dut.as_deref(), Some("other"));
}

#[test]
fn one_search_a_side_has_its_bounds_and_no_winner_however_far_apart() {
    let plan = Plan { searches: 1, ..Plan::default() };
    let comparison = compared(noisy(1, 0.01), slower(2, 0.01, 0.4), plan, Some(0.03));
    let row = &comparison.rows[0];
    assert_eq!((row.method, row.chance), (Method::Bounds, None));
    assert_eq!(row.verdict, Verdict::Unknown("one search each".to_owned()));
    let interval = row.interval.unwrap();
    let ratio = row.ratio.unwrap();
    assert!(interval.low < ratio && ratio < interval.high && interval.high < 0.7, "{row:?}");
    assert_eq!(row.bound, Some(BoundVerdict::Undecided));
    assert!(!comparison.is_broken() && !comparison.is_decided());
}

#[test]
fn a_bound_is_broken_kept_or_undecided_by_the_whole_interval() {
    let bound = |share: f64, noise: f64| {
        let comparison = compared(noisy(1, noise), slower(2, noise, share), FIVE, Some(0.03));
        (comparison.rows[0].bound.unwrap(), comparison.is_broken())
    };
    assert_eq!(bound(0.0, 0.002), (BoundVerdict::Kept, false));
    assert_eq!(bound(0.03, 0.01), (BoundVerdict::Undecided, false));
    let (BoundVerdict::Broken(sure), true) = bound(0.06, 0.005) else { panic!("6 % are beyond 3 %") };
    assert!(sure > 0.975 && sure <= 1.0, "{sure}");
}

#[test]
fn latency_is_ranked_over_repeats_at_one_load_with_the_smaller_the_better() {
    let plan = Plan { latency: true, repeats: 5, ..Plan::default() };
    let comparison = compared(noisy(1, 0.001), slower(2, 0.001, 0.3), plan, None);
    let [p50, p99] = comparison.rows.as_slice() else { panic!("{comparison:?}") };
    assert_eq!(
        (p50.quantity.as_str(), p99.quantity.as_str()),
        ("p50 latency at 1Mpps", "p99 latency at 1Mpps")
    );
    assert_eq!((&p50.verdict, p50.a.count), (&Verdict::A, 5));
    assert!(p50.ratio.unwrap() > 1.2, "{p50:?}");
    let once = compared(noisy(1, 0.0), noisy(2, 0.0), Plan { repeats: 1, ..plan }, None);
    assert_eq!(once.rows[0].verdict, Verdict::Unknown("one trial each".to_owned()));
    assert_eq!((once.rows[0].interval, once.rows[0].method), (None, Method::Single));

    let mut elsewhere = point(noisy(2, 0.0), plan);
    for result in &mut elsewhere.results {
        let PointResult::Latency(LatencyResult { load, .. }) = result else { continue };
        *load = Pps(2e6);
    }
    let apart = between(&run("a", vec![point(noisy(1, 0.0), plan)]), &run("b", vec![elsewhere]), None);
    let Verdict::NotRanked(why) = &apart.rows[0].verdict else { panic!("{apart:?}") };
    assert!(why.contains("1.000 Mpps in A, 2.000 Mpps in B"), "{why}");
}

#[test]
fn a_search_whose_greatest_load_passed_is_not_ranked() {
    let plan = Plan { searches: 1, repeats: 3, ..Plan::default() };
    let endless = SimulatedDut { capacity: Pps(50e6), ..noisy(1, 0.0) };
    let comparison = compared(noisy(2, 0.001), endless, plan, Some(0.1));
    let Verdict::NotRanked(why) = &comparison.rows[0].verdict else { panic!("{comparison:?}") };
    assert!(why.starts_with("B: irregular: the greatest load passed"), "{why}");
    assert_eq!(comparison.rows[0].bound, Some(BoundVerdict::Undecided));
}

#[test]
fn points_that_one_side_lacks_are_listed_and_a_failure_of_b_breaks_the_bound() {
    let whole = |size| Point { key: key("simulated", size), ..point(noisy(1, 0.01), FIVE) };
    let failed = Point { error: Some("it died".to_owned()), results: Vec::new(), ..whole(128) };
    let a = run("a", vec![whole(64), whole(128), whole(256)]);
    let b = run("b", vec![whole(64), failed, whole(512)]);
    let comparison = between(&a, &b, Some(0.5));
    assert_eq!(comparison.rows.len(), 1);
    let sizes = |alone: &[weir_methods::compare::Alone]| {
        alone.iter().map(|alone| (alone.key.size.clone(), alone.why.clone())).collect::<Vec<_>>()
    };
    let own = |size: &str, why: &str| (size.to_owned(), why.to_owned());
    assert_eq!(sizes(&comparison.only_a), [own("128", "not measured in B: it died"), own("256", "not in B")]);
    assert_eq!(sizes(&comparison.only_b), [own("512", "not in A")]);
    assert!(comparison.is_broken(), "B failed where A was measured");
    assert!(!between(&b, &a, Some(0.5)).is_broken());
}

#[test]
fn repeats_of_a_point_count_once_each() {
    let plan = Plan { mrr: 10, repeats: 3, ..Plan::default() };
    let comparison = compared(noisy(1, 0.01), noisy(2, 0.01), plan, None);
    let row = &comparison.rows[0];
    assert_eq!((row.a.count, row.b.count, row.method), (3, 3, Method::Welch));
}

//! Properties of every search, over random simulated devices.

use proptest::prelude::*;
use weir_methods::mlrsearch::{Goal, GoalOutcome, GoalState, Search, SearchConfig, SearchOutcome};
use weir_methods::{GoalBounds, Next, Observer, Silent};
use weir_simulated::{SimulatedDut, Simulation};
use weir_trial::health::CoreHealth;
use weir_trial::run::Purpose;
use weir_trial::{DirectionCounts, KeptTrial, Measurer, TrialResult, TrialSpec};
use weir_units::{Nanos, Pps, Ratio};

const SECOND: u64 = Nanos::PER_SECOND;

/// Keeps everything it is told.
#[derive(Default)]
struct Notes {
    announced: Vec<Next>,
    done: Vec<(Purpose, TrialSpec)>,
    bounds: Vec<(String, Option<Pps>, Option<Pps>, u32)>,
}

impl Observer for Notes {
    fn next(&mut self, next: &Next) {
        self.announced.push(*next);
    }

    fn trial(&mut self, purpose: Purpose, KeptTrial { result, .. }: &KeptTrial) {
        self.done.push((purpose, result.spec));
    }

    fn bounds(&mut self, bounds: &GoalBounds<'_>) {
        self.bounds.push((bounds.goal.to_owned(), bounds.lower, bounds.upper, bounds.stage));
    }
}

fn run<M: Measurer<Error = std::convert::Infallible>>(
    config: SearchConfig,
    device: &mut M,
    observer: &mut impl Observer,
) -> SearchOutcome {
    let Ok(outcome) = Search::new(config).expect("the configuration is valid").run(device, observer);
    outcome
}

fn goals() -> impl Strategy<Value = Vec<Goal>> {
    let goal = (
        prop::sample::select(vec![0.0, 0.001, 0.005, 0.1]),
        prop::sample::select(vec![0.0, 0.1, 0.5, 0.8]),
        0.002_f64..0.1,
        10_u64..500,
        1_u64..20,
        0_u32..4,
    );
    let goal = goal.prop_map(|(loss, exceed, width, trial_ms, trials, preceding)| Goal {
        loss_ratio: Ratio(loss),
        exceed_ratio: Ratio(exceed),
        relative_width: Ratio(width),
        preceding_targets: preceding,
        ..Goal::ndr().with_durations(Nanos(trial_ms * 1_000_000), Nanos(trial_ms * trials * 1_000_000))
    });
    prop::collection::vec(goal, 1..4).prop_map(|mut goals| {
        for (place, goal) in goals.iter_mut().enumerate() {
            goal.name = format!("goal{place}");
        }
        goals
    })
}

fn devices() -> impl Strategy<Value = SimulatedDut> {
    (
        1e3_f64..2e7,
        0_u64..3000,
        0.0_f64..0.2,
        prop::sample::select(vec![0.0, 1e-5, 0.002]),
        0.0_f64..0.6,
        any::<u64>(),
    )
        .prop_map(|(capacity, queue, noise, loss, disturbed, seed)| SimulatedDut {
            capacity: Pps(capacity),
            queue,
            noise: Ratio(noise),
            loss: Ratio(loss),
            disturbed: Ratio(disturbed),
            seed,
        })
}

fn brackets(outcome: &GoalOutcome) -> bool {
    let width = outcome.goal.relative_width.0 * (1.0 + 1e-9);
    match (outcome.state, outcome.lower, outcome.upper) {
        (GoalState::Reached, Some(lower), Some(upper)) => {
            lower < upper && (upper.0 - lower.0) / upper.0 <= width
        }
        (GoalState::MaxLoadPassed, Some(_), None) | (GoalState::MinLoadFailed, None, Some(_)) => true,
        (GoalState::OutOfTime, Some(lower), Some(upper)) => lower < upper,
        (GoalState::OutOfTime, _, _) => true,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_search_ends_within_its_budget_and_limits_and_its_bounds_bracket(
        goals in goals(), dut in devices(), min in 1e2_f64..1e5, factor in 1.01_f64..1e3, budget in 1_u64..200,
    ) {
        let longest = goals.iter().map(|goal| goal.final_trial_duration.0).max().unwrap_or_default();
        let config = SearchConfig {
            min_load: Pps(min),
            budget: Nanos(longest * 2 + budget * SECOND),
            warm_up: Nanos(longest),
            ..SearchConfig::new(goals, Pps(min * factor))
        };
        let mut notes = Notes::default();
        let outcome = run(config.clone(), &mut dut.start(), &mut notes);

        prop_assert!(outcome.spent <= config.budget, "{outcome:?}");
        prop_assert_eq!(outcome.trials as usize, notes.done.len());
        prop_assert_eq!(notes.done[0].0, Purpose::WarmUp);
        for (announced, (purpose, spec)) in notes.announced.iter().zip(&notes.done) {
            prop_assert_eq!((announced.purpose, announced.spec), (*purpose, *spec));
            prop_assert!(spec.load >= config.min_load && spec.load <= config.max_load, "{spec:?}");
            prop_assert!(announced.remaining.time <= config.budget);
        }
        for outcome in &outcome.goals {
            prop_assert!(brackets(outcome), "{outcome:?}");
            if let (Some(lower), Some(throughput)) = (outcome.lower, outcome.throughput) {
                prop_assert!(throughput.0 <= lower.0 * (1.0 + 1e-9));
                prop_assert!(throughput.0 >= lower.0 * (1.0 - outcome.goal.loss_ratio.0) * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn the_capacity_of_a_steady_device_lies_between_the_bounds(
        goals in goals(), capacity in 2e4_f64..9e6,
    ) {
        let dut = SimulatedDut { capacity: Pps(capacity), queue: 0, ..SimulatedDut::default() };
        // Each goal's trials count for all of them.
        let packet = goals.iter().map(|goal| 1.0 / goal.initial_trial_duration.seconds()).fold(0.0, f64::max);
        let config = SearchConfig { budget: Nanos(u64::MAX), ..SearchConfig::new(goals, Pps(10e6)) };
        for outcome in run(config, &mut dut.start(), &mut Silent).goals {
            // What exceeds the capacity is lost: a goal's border is where that reaches its loss ratio.
            let passed = 1.0 - outcome.goal.loss_ratio.0;
            let border = capacity / passed;
            // A trial counts whole packets: what is sent is rounded, and of what is forwarded a part of one is missing.
            let (sent, forwarded) = (0.5 * packet, packet / passed);
            if border < 10e6 - packet {
                prop_assert_eq!(outcome.state, GoalState::Reached);
                prop_assert!(outcome.lower.is_some_and(|lower| lower.0 <= border + sent), "{:?}", outcome);
                let below = border - forwarded - sent;
                prop_assert!(outcome.upper.is_some_and(|upper| upper.0 >= below), "{:?}", outcome);
            }
        }
    }
}

/// A steady device, one of whose trials in so many loses half its packets.
struct Outliers {
    device: Simulation,
    every: u32,
    trials: u32,
}

impl Measurer for Outliers {
    type Error = std::convert::Infallible;

    fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
        let mut result = self.device.run(spec);
        self.trials += 1;
        if self.trials.is_multiple_of(self.every) {
            result.directions[0].received /= 2;
        }
        Ok(KeptTrial { sequence: self.trials - 1, result })
    }
}

fn with_outliers(goal: Goal, every: u32) -> GoalOutcome {
    let device = SimulatedDut { queue: 0, ..SimulatedDut::default() }.start();
    let config = SearchConfig::new(vec![goal], Pps(20e6));
    run(config, &mut Outliers { device, every, trials: 0 }, &mut Silent).goals.remove(0)
}

#[test]
fn one_lossy_trial_in_seven_does_not_move_ndr() {
    for every in [7, 11, 13, 50] {
        let outcome = with_outliers(Goal::ndr(), every);
        assert_eq!(outcome.state, GoalState::Reached);
        let (lower, upper) = (outcome.lower.unwrap().0, outcome.upper.unwrap().0);
        assert!(lower <= 5e6 && upper >= 5e6, "1 in {every}: {lower} to {upper}");
        assert_eq!(outcome.throughput, outcome.lower, "the median trial lost nothing");
    }
}

#[test]
fn the_same_lossy_trials_do_move_a_goal_without_exceed_ratio() {
    let goal = Goal { exceed_ratio: Ratio(0.0), ..Goal::ndr() };
    let outcome = with_outliers(goal, 7);
    assert!(outcome.upper.unwrap().0 < 4.9e6, "{outcome:?}");
}

#[test]
fn all_presets_in_one_search_share_trials_and_agree_about_a_steady_device() {
    let device = || SimulatedDut { queue: 0, ..SimulatedDut::default() }.start();
    let search = |goals: Vec<Goal>| {
        let config = SearchConfig { budget: Nanos(36_000 * SECOND), ..SearchConfig::new(goals, Pps(20e6)) };
        run(config, &mut device(), &mut Silent)
    };
    let presets = || Goal::PRESETS.iter().filter_map(|name| Goal::preset(name));
    let together = search(presets().collect());
    for outcome in &together.goals {
        let border = 5e6 / (1.0 - outcome.goal.loss_ratio.0);
        assert!(outcome.lower.unwrap().0 <= border && outcome.upper.unwrap().0 >= border, "{outcome:?}");
    }
    let apart: u64 = presets().map(|goal| search(vec![goal]).spent.0).sum();
    assert!(together.spent.0 < apart, "{} together, {apart} ns apart", together.spent);
    assert_eq!(together.warnings.len(), 2, "NDR and PDR trials are shorter than 60 s");
}

#[test]
fn short_trials_of_a_fifth_of_a_second_are_enough_for_a_laptop() {
    let goal = Goal::ndr().with_durations(Nanos(SECOND / 5), Nanos(SECOND));
    let config = SearchConfig { warm_up: Nanos(SECOND / 5), ..SearchConfig::new(vec![goal], Pps(20e6)) };
    let mut notes = Notes::default();
    let outcome = run(config, &mut SimulatedDut::default().start(), &mut notes);
    assert_eq!(outcome.goals[0].state, GoalState::Reached);
    assert!(outcome.spent < Nanos(6 * SECOND), "{}", outcome.spent);
    let last = notes.bounds.last().unwrap();
    assert_eq!((last.1, last.2, last.3), (outcome.goals[0].lower, outcome.goals[0].upper, 3));
}

#[test]
fn a_device_faster_than_the_greatest_load_is_irregular_and_named_so() {
    let config = SearchConfig::new(vec![Goal::ndr()], Pps(4e6));
    let outcome = run(config, &mut SimulatedDut::default().start(), &mut Silent).goals.remove(0);
    assert_eq!((outcome.state, outcome.lower), (GoalState::MaxLoadPassed, Some(Pps(4e6))));
    assert!(outcome.irregular().unwrap().contains("greatest load passed"));
}

#[test]
fn a_device_that_loses_at_every_load_is_irregular_and_named_so() {
    let dut = SimulatedDut { loss: Ratio(0.01), ..SimulatedDut::default() };
    let config = SearchConfig::new(vec![Goal::ndr()], Pps(20e6));
    let outcome = run(config, &mut dut.start(), &mut Silent).goals.remove(0);
    assert_eq!(
        (outcome.state, outcome.upper),
        (GoalState::MinLoadFailed, Some(SearchConfig::DEFAULT_MIN_LOAD))
    );
    assert_eq!(outcome.throughput, None);
}

#[test]
fn a_search_cut_short_keeps_the_coarser_bounds_as_an_estimate() {
    let config =
        SearchConfig { budget: Nanos(8 * SECOND), ..SearchConfig::new(vec![Goal::ndr()], Pps(20e6)) };
    let outcome = run(config, &mut SimulatedDut::default().start(), &mut Silent).goals.remove(0);
    assert_eq!((outcome.state, outcome.lower), (GoalState::OutOfTime, None));
    let lower = outcome.best_lower().expect("one second of trials settled a coarser bound").0;
    assert!((4.5e6..5.01e6).contains(&lower), "{lower}");
    assert!(outcome.irregular().unwrap().contains("time ran out"));
    let estimate = outcome.estimate.expect("an estimate");
    assert!(estimate.lower.unwrap().0 <= 5.01e6 && estimate.upper.is_none_or(|upper| upper.0 > 4.9e6));
    assert!(estimate.measured >= Nanos(SECOND) && estimate.reason == "time ran out", "{estimate:?}");
}

#[test]
fn a_search_cut_short_is_never_without_an_estimate() {
    let estimate = |trials: u64, dut: SimulatedDut, max_load| {
        let goal = Goal { preceding_targets: 0, ..Goal::ndr() };
        let config = SearchConfig {
            budget: Nanos(trials * SECOND),
            warm_up: Nanos(0),
            ..SearchConfig::new(vec![goal], Pps(max_load))
        };
        let outcome = run(config, &mut dut.start(), &mut Silent).goals.remove(0);
        assert_eq!((outcome.state, outcome.throughput), (GoalState::OutOfTime, None));
        outcome.estimate.expect("an estimate")
    };
    let lossy = || SimulatedDut { loss: Ratio(0.01), ..SimulatedDut::default() };
    let from_above = estimate(4, lossy(), 20e6);
    assert!(from_above.to_string().starts_with("at most "), "{from_above}");
    let from_below = estimate(1, SimulatedDut::default(), 4e6);
    assert_eq!((from_below.lower, from_below.measured), (Some(Pps(4e6)), Nanos(SECOND)));
    assert!(from_below.to_string().starts_with("at least "), "{from_below}");
}

/// A device whose core a neighbour takes for a tenth of most trials, as the trial's health says.
struct Beside {
    device: Simulation,
    trials: u64,
    /// Of ten trials so many are disturbed.
    disturbed: u64,
}

impl Measurer for Beside {
    type Error = std::convert::Infallible;

    fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
        let mut result = self.device.run(spec);
        self.trials += 1;
        // Every third number of ten in turn, so that no load meets the same ones twice.
        if self.trials * 3 % 10 < self.disturbed {
            let waited = Nanos(spec.duration.0 / 10);
            let counts = &mut result.directions[0];
            // A ring of 1024 packets outlasts the wait at low loads only.
            let missed = (spec.load.0 * waited.seconds()) as u64;
            counts.received -= missed.saturating_sub(1024).min(counts.received);
            result.health.dut = Some(CoreHealth { core: 1, waited, ..CoreHealth::default() });
        }
        Ok(KeptTrial { sequence: self.trials as u32 - 1, result })
    }
}

#[test]
fn trials_that_a_neighbour_disturbed_decide_nothing_but_cost_time() {
    let config = || SearchConfig::new(vec![Goal::ndr()], Pps(20e6));
    let beside = |disturbed| Beside { device: SimulatedDut::default().start(), trials: 0, disturbed };
    let alone = run(config(), &mut beside(0), &mut Silent);
    let disturbed = run(config(), &mut beside(7), &mut Silent);
    let settled = |outcome: &SearchOutcome| {
        let goal = &outcome.goals[0];
        assert_eq!(goal.state, GoalState::Reached, "{goal:?}");
        goal.throughput.unwrap().0
    };
    let (alone, beside) = (settled(&alone), (settled(&disturbed), disturbed.trials, alone.trials));
    assert!((beside.0 / alone - 1.0).abs() < 0.005, "{} beside a neighbour, {alone} alone", beside.0);
    assert!(beside.1 > 2 * beside.2, "{beside:?}");
}

#[test]
fn a_search_that_is_always_disturbed_estimates_by_what_passed_all_the_same() {
    let config =
        SearchConfig { budget: Nanos(60 * SECOND), ..SearchConfig::new(vec![Goal::ndr()], Pps(8e6)) };
    let mut device = Beside { device: SimulatedDut::default().start(), trials: 0, disturbed: 10 };
    let goal = run(config, &mut device, &mut Silent).goals.remove(0);
    assert_eq!((goal.state, goal.throughput), (GoalState::OutOfTime, None));
    let estimate = goal.estimate.expect("loads that passed all the same");
    assert!(estimate.reason.contains("trials were disturbed"), "{estimate:?}");
    // A tenth of a second's packets is what the ring holds.
    let lower = estimate.lower.expect("a load low enough").0;
    assert!((9001.0..=10_240.0 * 1.1).contains(&lower), "{estimate:?}");
}

#[test]
fn settled_goals_have_no_estimate() {
    for max_load in [20e6, 4e6] {
        let config = SearchConfig::new(vec![Goal::ndr()], Pps(max_load));
        let outcome = run(config, &mut SimulatedDut::default().start(), &mut Silent).goals.remove(0);
        assert_eq!(outcome.estimate, None, "{:?}", outcome.state);
    }
}

/// A device that collapses under overload: the more is offered beyond its capacity, the less it forwards.
struct Livelock;

impl Measurer for Livelock {
    type Error = std::convert::Infallible;

    fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
        let intended = (spec.load.0 * spec.duration.seconds()) as u64;
        let share = if spec.load.0 <= 3e6 { 1.0 } else { (3e6 / spec.load.0).powi(4) };
        let received = (intended as f64 * share) as u64;
        let counts = DirectionCounts { intended, sent: intended, received, ..DirectionCounts::default() };
        let overhead = Nanos(SECOND / 10);
        let result = TrialResult { overhead, directions: vec![counts], ..TrialResult::new(spec) };
        Ok(KeptTrial { sequence: 0, result })
    }
}

#[test]
fn a_device_in_livelock_at_the_greatest_load_is_still_found() {
    let outcome = run(SearchConfig::new(vec![Goal::ndr()], Pps(60e6)), &mut Livelock, &mut Silent);
    let goal = &outcome.goals[0];
    assert!(goal.lower.unwrap().0 <= 3e6 && goal.upper.unwrap().0 > 3e6, "{goal:?}");
    assert!(outcome.spent < Nanos(80 * SECOND), "{}", outcome.spent);
}

#[test]
fn the_estimate_of_what_is_left_is_of_the_right_size_and_shrinks() {
    let mut notes = Notes::default();
    let outcome = run(
        SearchConfig::new(vec![Goal::ndr(), Goal::pdr()], Pps(20e6)),
        &mut SimulatedDut::default().start(),
        &mut notes,
    );
    let first = notes.announced[0].remaining;
    let search = Search::new(SearchConfig::new(vec![Goal::ndr(), Goal::pdr()], Pps(20e6))).unwrap();
    let before = search.estimate(Nanos(0));
    assert_eq!(before.time, Nanos(first.time.0 + SECOND), "the warm-up comes on top");
    let ratio = first.time.seconds() / outcome.spent.seconds();
    assert!((0.3..3.0).contains(&ratio), "estimated {}, took {}", first.time, outcome.spent);
    let last = notes.announced.last().unwrap().remaining;
    assert!(last.trials >= 1 && last.time < Nanos(first.time.0 / 2), "{last:?}");
}

#[test]
fn impossible_searches_are_refused_with_a_way_out() {
    let ndr = || vec![Goal::ndr()];
    let good = SearchConfig::new(ndr(), Pps(1e6));
    let text = |config: SearchConfig| Search::new(config).unwrap_err().to_string();
    assert!(text(SearchConfig { goals: Vec::new(), ..good.clone() }).contains("for example ndr"));
    assert!(text(SearchConfig { max_load: Pps(9000.0), ..good.clone() }).contains("are no interval"));
    assert!(text(SearchConfig { min_load: Pps(0.0), ..good.clone() }).contains("above zero"));
    assert!(text(SearchConfig { budget: Nanos(SECOND), ..good.clone() }).contains("raise it"));
    assert!(
        text(SearchConfig { goals: [ndr(), ndr()].concat(), ..good }).contains("two goals are named `ndr`")
    );
}

#[test]
fn an_error_of_the_measurer_ends_the_search() {
    struct Dead(u32);
    impl Measurer for Dead {
        type Error = &'static str;

        fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
            self.0 += 1;
            let Ok(kept) = SimulatedDut::default().start().measure(purpose, spec);
            if self.0 < 5 { Ok(kept) } else { Err("the device under test exited") }
        }
    }
    let mut notes = Notes::default();
    let search = Search::new(SearchConfig::new(vec![Goal::ndr()], Pps(20e6))).unwrap();
    assert_eq!(search.run(&mut Dead(0), &mut notes), Err("the device under test exited"));
    assert_eq!((notes.announced.len(), notes.done.len()), (5, 4));
}

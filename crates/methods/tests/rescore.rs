//! Stored trials judged again: for the goals they were taken for, exactly as the search did.

use proptest::prelude::*;
use weir_methods::Observer;
use weir_methods::mlrsearch::{Goal, GoalState, Search, SearchConfig, SearchError};
use weir_simulated::SimulatedDut;
use weir_trial::run::Purpose;
use weir_trial::{KeptTrial, TrialResult, TrialSpec};
use weir_units::{Nanos, Pps, Ratio};

const SECOND: u64 = Nanos::PER_SECOND;

/// Keeps the trials of a search.
#[derive(Default)]
struct Keep(Vec<TrialResult>);

impl Observer for Keep {
    fn trial(&mut self, purpose: Purpose, KeptTrial { result, .. }: &KeptTrial) {
        if purpose == Purpose::Search {
            // What a store gives back is what a file held.
            let text = serde_json::to_string(result).unwrap();
            self.0.push(serde_json::from_str(&text).unwrap());
        }
    }
}

fn config(goals: &[Goal], budget: u64) -> SearchConfig {
    let budget = Nanos(budget * SECOND);
    SearchConfig { budget, overhead_counts: false, ..SearchConfig::new(goals.to_vec(), Pps(14e6)) }
}

proptest! {
    #[test]
    fn the_goals_of_the_search_get_its_own_answer(
        (noise, disturbed) in (0.0..0.05, 0.0..0.3), capacity in 3.0..8.0_f64, seed: u64,
        exceed in 0.0..0.9, budget in 30_u64..1200,
    ) {
        let own = Goal { name: "own".into(), exceed_ratio: Ratio(exceed), relative_width: Ratio(0.013), ..Goal::ndr() };
        let config = config(&[Goal::ndr(), Goal::pdr(), own], budget);
        let device = SimulatedDut {
            capacity: Pps(10_f64.powf(capacity)), noise: Ratio(noise), disturbed: Ratio(disturbed), seed,
            ..SimulatedDut::default()
        };
        let mut keep = Keep::default();
        let search = Search::new(config.clone()).unwrap();
        let outcome = search.run(&mut device.start(), &mut keep).unwrap();
        let trials: Vec<&TrialResult> = keep.0.iter().collect();
        for (rescored, searched) in config.rescore(&config.goals, &trials).unwrap().iter().zip(&outcome.goals) {
            prop_assert_eq!(&rescored.outcome, searched);
            prop_assert_eq!(rescored.missing.is_some(), searched.state == GoalState::OutOfTime);
        }
    }
}

fn searched(goals: &[Goal]) -> (SearchConfig, Vec<TrialResult>) {
    let config = config(goals, 1200);
    let mut keep = Keep::default();
    let mut device = SimulatedDut { queue: 0, ..SimulatedDut::default() }.start();
    Search::new(config.clone()).unwrap().run(&mut device, &mut keep).unwrap();
    (config, keep.0)
}

#[test]
fn another_loss_ratio_is_answered_as_far_as_the_trials_go() {
    let (config, trials) = searched(&[Goal::ndr(), Goal::pdr()]);
    let trials: Vec<&TrialResult> = trials.iter().collect();
    let between = Goal { name: "0.2 %".into(), loss_ratio: Ratio(0.002), ..Goal::ndr() };
    let rescored = config.rescore(std::slice::from_ref(&between), &trials).unwrap().remove(0);
    // The device loses what exceeds 5 Mpps, so the truth is 5.01 Mpps; both goals' bounds enclose it.
    let (lower, upper) = (rescored.outcome.lower.unwrap().0, rescored.outcome.upper.unwrap().0);
    assert!(lower <= 5.01e6 && upper >= 5.01e6 && upper / lower < 1.05, "{rescored:?}");
}

#[test]
fn what_a_goal_lacks_settles_it_once_it_is_measured() {
    let (config, mut trials) = searched(&[Goal::ndr()]);
    let finer = Goal { name: "finer".into(), relative_width: Ratio(0.001), ..Goal::ndr() };
    let mut device = SimulatedDut { queue: 0, ..SimulatedDut::default() }.start();
    for _ in 0..200 {
        let kept: Vec<&TrialResult> = trials.iter().collect();
        let rescored = config.rescore(std::slice::from_ref(&finer), &kept).unwrap().remove(0);
        let Some(missing) = rescored.missing else {
            let (lower, upper) = (rescored.outcome.lower.unwrap().0, rescored.outcome.upper.unwrap().0);
            assert!(lower <= 5e6 && upper > 5e6 && (upper - lower) / upper <= 0.001, "{rescored:?}");
            assert_eq!(rescored.outcome.state, GoalState::Reached);
            return;
        };
        assert!(missing.there < missing.needed && missing.long_enough, "{missing:?}");
        let spec = TrialSpec { load: missing.load, duration: missing.duration };
        trials.push(device.run(spec));
    }
    panic!("200 trials did not settle the goal");
}

#[test]
fn trials_too_short_for_a_goal_settle_nothing_and_say_so() {
    let (config, trials) = searched(&[Goal::ndr()]);
    let trials: Vec<&TrialResult> = trials.iter().collect();
    let rescored = config.rescore(&[Goal::rfc2544()], &trials).unwrap().remove(0);
    assert_eq!((rescored.outcome.state, rescored.outcome.lower), (GoalState::OutOfTime, None));
    let missing = rescored.missing.unwrap();
    assert!(!missing.long_enough && missing.duration == Goal::RFC2544_TRIAL, "{missing:?}");
}

#[test]
fn trials_of_another_search_are_refused() {
    let (config, trials) = searched(&[Goal::ndr()]);
    let other = SearchConfig { min_load: Pps(12_345.0), ..config.clone() };
    let trials: Vec<&TrialResult> = trials.iter().collect();
    let error = other.rescore(&config.goals, &trials).unwrap_err();
    assert!(matches!(error, SearchError::Foreign { .. }), "{error}");
}

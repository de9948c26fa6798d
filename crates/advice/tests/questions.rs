//! Each question on devices of known parts: what is advised, what is refused, and what a check says of it.

use crate::lab::{Measuring, device, key, nf, rates, run, truth};
use weir_advice::check::hold;
use weir_advice::{Advice, Answer, Needed, Says, Wanted, advise};
use weir_simulated::SimulatedDut;
use weir_trial::run::advice::{Asked, CheckVerdict, DelayGoal, Quantity, Question, Statistic};
use weir_trial::run::{Point, Run};
use weir_trial::{CoreUse, Deployment, Limit, Limiter, Placement, StageReading};
use weir_units::{Nanos, Pps, Ratio};

fn asked(load: f64) -> Asked {
    Asked { load: Some(Pps(load)), loss: Ratio(0.0), delay: None }
}

fn answers(run: &Run, asked: Asked, question: Question) -> Vec<Answer> {
    advise(run, &Wanted { asked, questions: vec![question], ..Wanted::default() })
}

fn advice(run: &Run, asked: Asked, question: Question) -> Advice {
    let answers = answers(run, asked, question);
    let found = answers.iter().find_map(|answer| match &answer.says {
        Says::Advice(advice) => Some(Advice::clone(advice)),
        Says::Unanswered { .. } => None,
    });
    found.unwrap_or_else(|| panic!("{answers:#?}"))
}

fn refused(run: &Run, asked: Asked, question: Question) -> (String, Option<Needed>) {
    let answers = answers(run, asked, question);
    match answers.as_slice() {
        [Answer { says: Says::Unanswered { why, needed }, .. }] => (why.clone(), needed.clone()),
        other => panic!("{other:#?}"),
    }
}

fn at(frequency: &str) -> Placement {
    Placement { frequency: Some(frequency.parse().unwrap()), ..Placement::default() }
}

fn hosted(copies: u32, cores: CoreUse) -> Placement {
    Placement {
        deployment: Deployment::Vhost,
        host: Some("weir".into()),
        cores,
        copies,
        ..Placement::default()
    }
}

#[test]
fn the_lowest_share_that_carries_a_load_is_found_between_those_measured() {
    let made = rates("l3fwd:10", &["25%", "50%", "100%"].map(at), (5, 0.005, 3));
    let advice = advice(&made, asked(3e6), Question::Speed);
    // 120 ns a packet, 6 % more in turns: 3 Mpps take 38.2 % of a core.
    let share: f64 =
        advice.key.placement.frequency.unwrap().to_string().trim_end_matches('%').parse().unwrap();
    assert!((38.0..=40.0).contains(&share), "{share}");
    assert_eq!((advice.meets, advice.derived_from.as_slice()), (Some(true), [0, 1, 2].as_slice()));
    assert!(advice.extrapolated.is_empty() && advice.model.contains("% more"), "{advice:?}");
    let error = advice.predictions[0].value / truth(&advice.key) - 1.0;
    assert!(error.abs() < 0.02, "{error}");
}

#[test]
fn with_one_speed_nothing_is_said_of_another_and_the_axis_that_would_is_named() {
    let made = rates("l2fwd", &[Placement::default()], (5, 0.01, 1));
    let (why, needed) = refused(&made, asked(1e6), Question::Speed);
    assert!(why.contains("one speed"), "{why}");
    assert_eq!(needed.unwrap().axes[0].0, "frequency");
    let made = rates("l2fwd", &[at("2GHz")], (5, 0.01, 1));
    let (_, needed) = refused(&made, asked(1e6), Question::Speed);
    assert_eq!(needed.unwrap().axes[0].1, "[\"1500MHz\", \"2000MHz\"]");
}

#[test]
fn a_load_beyond_the_whole_core_is_said_to_be_and_what_is_expected_there() {
    let made = rates("l2fwd", &["50%", "100%"].map(at), (5, 0.01, 1));
    let advice = advice(&made, asked(20e6), Question::Speed);
    assert_eq!(advice.meets, Some(false));
    assert!(
        advice.says.contains("no speed up to 100%") && advice.says.contains("more copies"),
        "{}",
        advice.says
    );
    // A check that finds as little as was said does not refute it.
    let check = Measuring::new(0, advice.key.clone(), device(&advice.key, 0.01, 77)).mrr(5).done();
    assert_eq!(hold(&advice, &asked(20e6), &run(vec![check])).verdict, CheckVerdict::Confirmed);
}

#[test]
fn without_a_load_only_questions_that_need_none_are_answered() {
    let made = rates("l2fwd", &["50%", "100%"].map(at), (5, 0.01, 1));
    let none = Asked { load: None, ..asked(1.0) };
    assert!(refused(&made, none, Question::Speed).0.contains("--load"));
}

#[test]
fn copies_behind_a_host_that_is_reached_are_not_promised_more_than_was_measured() {
    // A filter takes 180 ns, the host 100: two copies are limited by the host, and so are four.
    let made = rates("firewall:10", &[1, 2].map(|n| hosted(n, CoreUse::Own)), (5, 0.005, 1));
    let advice = advice(&made, asked(12e6), Question::Copies);
    let interval = advice.predictions[0].interval.unwrap();
    assert!(interval.low <= truth(&advice.key) && truth(&advice.key) <= interval.high, "{advice:?}");
    assert_eq!(advice.meets, Some(false), "what no point shows is not promised");
    assert!(!advice.extrapolated.is_empty(), "{advice:?}");
}

#[test]
fn copies_that_work_side_by_side_are_counted_up_to_the_load() {
    let made = rates("firewall:10", &[1, 2].map(|n| hosted(n, CoreUse::Own)), (5, 0.005, 1));
    let advice = advice(&made, asked(8e6), Question::Copies);
    assert_eq!((advice.key.placement.copies, advice.meets), (2, Some(true)), "{advice:?}");
    let (why, needed) =
        refused(&rates("l2fwd", &[hosted(1, CoreUse::Own)], (5, 0.0, 1)), asked(1e6), Question::Copies);
    assert!(why.contains("1 copy"), "{why}");
    assert_eq!(needed.unwrap().axes, [("copies".to_owned(), "[1, 2]".to_owned())]);
}

/// A point of a chain of two on one core, whose processes tell their cycles at 1 GHz: host 150, filter 180, router 120.
fn told() -> Run {
    let place = key("firewall:10+l3fwd:10", hosted(1, CoreUse::Shared));
    let mut point: Point = Measuring::new(0, place.clone(), device(&place, 0.004, 5)).mrr(5).done();
    for trial in &mut point.trials {
        let packets = trial.result.total().received;
        let stage = |name: &str, process: u32, cycles: u64| StageReading {
            name: name.to_owned(),
            process,
            received: [packets, 0],
            sent: [packets, 0],
            busy: Some(cycles * packets),
            ..StageReading::default()
        };
        trial.result.stages = vec![
            stage("weir", 0, 150),
            stage("nf 1", 1, 180),
            stage("weir", 0, 150),
            stage("nf 2", 2, 120),
            stage("weir", 0, 150),
        ];
    }
    let mut made = run(vec![point]);
    made.environment.insert("clock.tsc-frequency".to_owned(), "1.00 GHz".to_owned());
    made
}

#[test]
fn the_fewest_cores_follow_from_what_each_process_takes() {
    // One core carries 1e9 / 450, two 1e9 / 270, three 1e9 / 180.
    for (load, cores) in [(2e6, 1), (3.5e6, 2), (5.2e6, 3)] {
        let advice = advice(&told(), asked(load), Question::Cores);
        let expected = if cores == 1 { CoreUse::Shared } else { CoreUse::Count(cores) };
        assert_eq!(
            (&advice.key.placement.cores, advice.meets),
            (&expected, Some(true)),
            "{load}: {advice:?}"
        );
        let error = advice.predictions[0].value / truth(&advice.key) - 1.0;
        assert!(error.abs() < 0.02, "{load}: {error}");
    }
    assert_eq!(advice(&told(), asked(8e6), Question::Cores).meets, Some(false));
}

#[test]
fn processes_that_do_not_tell_their_cycles_are_advised_as_they_were_measured() {
    let chain = "firewall:10+l3fwd:10";
    let one = rates(chain, &[hosted(1, CoreUse::Shared)], (5, 0.0, 1));
    let (why, needed) = refused(&one, asked(1e6), Question::Cores);
    assert!(why.contains("cycles"), "{why}");
    assert_eq!(needed.unwrap().axes[0], ("cores".to_owned(), "[1, 2, 3]".to_owned()));
    let made =
        rates(chain, &[CoreUse::Shared, CoreUse::Count(2)].map(|cores| hosted(1, cores)), (5, 0.01, 1));
    let advice = advice(&made, asked(3e6), Question::Cores);
    assert_eq!((&advice.key.placement.cores, advice.meets), (&CoreUse::Count(2), Some(true)));
}

#[test]
fn a_chain_goes_where_it_takes_the_fewest_cores() {
    let vale = Placement { deployment: Deployment::Vale, ..Placement::default() };
    let places = [Placement::default(), vale, hosted(1, CoreUse::Shared)];
    let made = rates("firewall:10+l3fwd:10", &places, (5, 0.005, 1));
    let small = advice(&made, asked(3e6), Question::Placement);
    assert!(small.key.placement.is_inline() && small.meets == Some(true), "{small:?}");
    let great = advice(&made, asked(4.25e6), Question::Placement);
    assert_eq!(
        great.key.placement.deployment,
        Deployment::Vale,
        "two cores carry it, one does not: {great:?}"
    );
    assert!(great.notes.iter().any(|note| note.starts_with("beside it")), "{great:?}");
}

#[test]
fn a_chain_that_was_not_measured_is_added_up_from_its_functions() {
    let alone = |text: &str, index: u32| {
        let place = key(text, Placement::default());
        Measuring::new(index, place.clone(), device(&place, 0.005, u64::from(index))).mrr(5).done()
    };
    let functions = ["l2fwd", "l3fwd:10", "firewall:10"];
    let made = run((0..).zip(functions).map(|(index, text)| alone(text, index)).collect());
    let wanted = |chain| Wanted {
        asked: asked(3e6),
        questions: vec![Question::Placement],
        chain: Some(nf(chain)),
        ..Wanted::default()
    };
    let answers = advise(&made, &wanted("firewall:10+l3fwd:10"));
    let [Answer { says: Says::Advice(advice), .. }] = answers.as_slice() else { panic!("{answers:#?}") };
    // 60 + 120 + 60 ns; what L2 forwarding adds to `io` is counted once, which is the model's own error.
    let error = advice.predictions[0].value / truth(&advice.key) - 1.0;
    assert!(error.abs() < 0.1, "{error}: {advice:?}");
    assert!(advice.extrapolated[0].contains("added up"), "{advice:?}");
    // Without one of the functions there is nothing to add up.
    let answers = advise(&run(made.points[..2].to_vec()), &wanted("firewall:10+l3fwd:10"));
    let [Answer { says: Says::Unanswered { why, .. }, .. }] = answers.as_slice() else {
        panic!("{answers:#?}")
    };
    assert!(why.contains("none can be added up"), "{why}");
}

/// A device of 12.5 Mpps with its curve.
fn curved(loads: &[f64]) -> Run {
    let place = key("l2fwd", Placement::default());
    run(vec![Measuring::new(0, place.clone(), device(&place, 0.005, 9)).mrr(5).curve(loads).done()])
}

fn loads() -> Vec<f64> {
    (1..=12).map(|step| 1e6 * f64::from(step)).collect()
}

#[test]
fn traffic_is_split_before_the_delay_that_was_asked_for() {
    let goal = DelayGoal { statistic: Statistic::P90, below: Nanos(600) };
    let wanted = Asked { load: Some(Pps(30e6)), loss: Ratio(0.0), delay: Some(goal) };
    let advice = advice(&curved(&loads()), wanted, Question::Split);
    let Quantity::Delay { load, .. } = advice.predictions[0].quantity else { panic!("{advice:?}") };
    // 80 ns and 2.3 waits of 40 ρ/(1−ρ) ns: 600 ns are reached at 0.85 of the capacity.
    assert!((9e6..10.7e6).contains(&load.0), "{load}");
    assert!(advice.predictions[0].interval.unwrap().high <= 600.5, "{advice:?}");
    assert!(
        advice.says.contains("takes 3 of them") || advice.says.contains("takes 4 of them"),
        "{}",
        advice.says
    );
    assert_eq!(advice.meets, Some(false), "one of them does not carry 30 Mpps");
    // Nobody is sure of a delay below the service time.
    let goal = DelayGoal { statistic: Statistic::P90, below: Nanos(50) };
    let (why, _) = refused(&curved(&loads()), Asked { delay: Some(goal), ..wanted }, Question::Split);
    assert!(why.contains("not sure at any load"), "{why}");
}

#[test]
fn without_a_bound_traffic_is_split_at_the_knee_and_too_few_loads_are_no_curve() {
    let none = Asked { load: None, loss: Ratio(0.0), delay: None };
    let advice = advice(&curved(&loads()), none, Question::Split);
    let Quantity::Delay { load, .. } = advice.predictions[0].quantity else { panic!("{advice:?}") };
    assert!((0.5..0.95).contains(&(load.0 / 12.5e6)), "{load}");
    let (why, needed) = refused(&curved(&loads()[..3]), none, Question::Split);
    assert!(why.contains("3 loads"), "{why}");
    assert!(needed.unwrap().methods.unwrap().contains("[latency_curve]"));
}

#[test]
fn a_device_that_is_slower_than_it_was_refutes_the_advice_and_says_by_what() {
    let made = rates("l3fwd:10", &["25%", "50%", "100%"].map(at), (5, 0.005, 3));
    let advice = advice(&made, asked(3e6), Question::Speed);
    let usual = device(&advice.key, 0.005, 4);
    let slower = SimulatedDut { capacity: Pps(usual.capacity.0 * 0.8), ..usual };
    let check = |device: SimulatedDut| {
        let measured = Measuring::new(0, advice.key.clone(), device).mrr(5).curve(&[3e6]).done();
        hold(&advice, &asked(3e6), &run(vec![measured]))
    };
    let refuted = check(slower);
    assert_eq!(refuted.verdict, CheckVerdict::Refuted);
    assert!(
        refuted.why.contains("is not within") && refuted.why.contains("less than the 3.000 Mpps"),
        "{}",
        refuted.why
    );
    assert_eq!(check(usual).verdict, CheckVerdict::Confirmed, "{:?}", check(usual));
    // What was not measured decides nothing.
    let nothing = Measuring::new(0, advice.key.clone(), usual).done();
    assert_eq!(hold(&advice, &asked(3e6), &run(vec![nothing])).verdict, CheckVerdict::Undecided);
}

#[test]
fn a_rate_that_is_all_that_was_offered_is_no_evidence() {
    let mut made = rates("l2fwd", &["50%", "100%"].map(at), (5, 0.01, 1));
    let weir_trial::run::PointResult::Mrr(mrr) = &mut made.points[1].results[0] else { panic!() };
    mrr.load = Some(mrr.mean);
    let answers = answers(&made, asked(1e6), Question::Speed);
    let text = format!("{answers:?}");
    assert!(
        text.contains("tell the model's parts apart") || text.contains("the device may be faster"),
        "{text}"
    );
}

#[test]
fn queues_with_a_thread_each_are_counted_up_to_the_load() {
    let queued = |queues| Placement { queues, ..Placement::default() };
    let made = rates("l3fwd:10", &[1, 2].map(queued), (5, 0.005, 2));
    let advice = advice(&made, asked(15e6), Question::Queues);
    assert_eq!((advice.key.placement.queues, advice.meets), (2, Some(true)), "{advice:?}");
    let chain = rates("firewall:10+l3fwd:10", &[hosted(1, CoreUse::Own)], (5, 0.0, 1));
    assert!(
        answers(&chain, asked(1e6), Question::Queues).is_empty(),
        "chains of processes have one queue a port"
    );
    let one = rates("l3fwd:10", &[Placement::default()], (5, 0.0, 1));
    assert_eq!(refused(&one, asked(1e6), Question::Queues).1.unwrap().axes[0].0, "queues");
}

#[test]
fn rates_that_the_tester_set_are_named_where_nothing_else_is_there() {
    let mut made = rates("l2fwd", &["50%", "100%"].map(at), (5, 0.01, 1));
    for point in &mut made.points {
        let weir_trial::run::PointResult::Mrr(mrr) = &mut point.results[0] else { panic!() };
        mrr.limit = Some(Limit { by: Limiter::Tester, why: "it sent all it could".to_owned() });
    }
    let (why, _) = refused(&made, asked(1e6), Question::Speed);
    assert!(why.contains("point 0, mrr: limited by the tester") && why.contains("all it could"), "{why}");
}

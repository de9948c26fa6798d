//! Our MLRsearch against the Python package `MLRsearch` of its authors, over simulated devices.
//!
//! - Classification and conditional throughput of random sets of trials: exactly equal (but for the
//!   throughput where a rounding of the package's decides, see [`is_binary`]).
//! - Whole searches over deterministic devices: equal ends (both bounds, or the same one missing),
//!   overlapping intervals, lower bound and conditional throughput within the goal's width.
//! - Whole searches over noisy devices: two searches take different trials, so that single results
//!   differ by the noise. Demanded over all of them: no bias (the median difference of the lower
//!   bounds is under a quarter of a width), nine in ten within a width and the noise, and not more
//!   measuring time than a tenth above the package's.
//!
//! The package is found through `WEIR_ORACLE_PYTHON`, or in `.weir/venv`.

#[path = "oracle/device.rs"]
mod device;

use device::{Device, Running, TICK, scramble};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_methods::Silent;
use weir_methods::mlrsearch::{
    Goal, Requirement, Sample, Search, SearchConfig, SearchOutcome, classify, conditional_throughput,
};
use weir_units::{Nanos, Pps, Ratio};

/// The interpreter that has the package.
fn python() -> PathBuf {
    if let Some(path) = std::env::var_os("WEIR_ORACLE_PYTHON") {
        return path.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".weir/venv/bin/python");
    assert!(
        python.exists(),
        "the oracle, the Python package MLRsearch, is not installed. `./x setup --test` installs it into .weir/venv; \
         or run `python3 -m venv .weir/venv && .weir/venv/bin/pip install -r crates/methods/tests/oracle/requirements.txt`; \
         or set WEIR_ORACLE_PYTHON to an interpreter that has it"
    );
    python
}

/// Asks the oracle of searches all questions at once, in one process.
fn ask(questions: &[Value]) -> Vec<Value> {
    ask_of("oracle.py", questions)
}

/// Asks an oracle all questions at once, in one process.
pub(crate) fn ask_of(script: &str, questions: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle").join(script);
    let python = python();
    let mut child = Command::new(&python)
        .arg(script)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", python.display()));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let text: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("the oracle's output can be read");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the oracle failed; has its Python the packages of tests/oracle/requirements.txt? {errors}"
    );
    writer.join().expect("the writer does not panic").expect("the oracle reads all questions");
    let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let answers: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("one JSON answer a line")).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

/// Deterministic choices: every run of the tests asks the same questions.
struct Choices(u64);

impl Choices {
    fn number(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        scramble(self.0) % below
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.number(choices.len() as u64) as usize]
    }

    /// Between two values, evenly on a logarithmic scale.
    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.number(1 << 32) as f64 / f64::from(u32::MAX))
    }
}

const EXCEED: [f64; 6] = [0.0, 0.1, 0.25, 1.0 / 3.0, 0.5, 0.75];

fn ticks(count: u64) -> Nanos {
    Nanos(TICK.0 * count)
}

#[test]
fn both_sides_simulate_the_same_device() {
    let mut choices = Choices(11);
    let mut questions = Vec::new();
    let mut ours = Vec::new();
    for number in 0..3000 {
        let device = Device {
            capacity: choices.log_between(1e3, 1e8) as u64,
            queue: choices.number(5000),
            loss_ppb: choices.one_of(&[0, 1, 1000, 5_000_000]),
            noise_ppm: choices.number(100_000),
            disturbed_permille: choices.one_of(&[0, 100, 500]),
            overhead_ticks: 0,
            seed: choices.number(u64::MAX),
        };
        let (load, length) = (choices.log_between(1e3, 1e8), 1 + choices.number(6400));
        questions
            .push(json!({"ask": "probe", "device": device, "number": number, "load": load, "ticks": length}));
        let (intended, lost) = device.trial(number, load, ticks(length).seconds());
        ours.push(json!([intended, lost]));
    }
    assert_eq!(ask(&questions), ours);
}

#[test]
fn load_classification_and_conditional_throughput_equal_the_packages() {
    let mut choices = Choices(22);
    let mut questions = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..20_000 {
        let trial = 1 + choices.number(128);
        let sum = trial * (1 + choices.number(12)) + choices.number(trial);
        let loss_ratio = choices.one_of(&[0.0, 0.0, 0.001, 0.005, 0.1]);
        let requirement = Requirement {
            loss_ratio: Ratio(loss_ratio),
            exceed_ratio: Ratio(choices.one_of(&EXCEED)),
            trial_duration: ticks(trial),
            duration_sum: ticks(sum),
        };
        let load = choices.log_between(1e3, 1e8);
        let (mut samples, mut trials) = (Vec::new(), Vec::new());
        for _ in 0..choices.number(16) {
            let duration = if choices.number(4) == 0 { 1 + choices.number(trial) } else { trial };
            let effective = duration + choices.one_of(&[0, 0, 3, 32]);
            let intended = 1000 * (1 + choices.number(3));
            let lost = choices.one_of(&[0, 0, 0, 1, 2, 5, 10, 100, 200, 1000]);
            samples.push(Sample {
                duration: ticks(duration),
                effective: ticks(effective),
                loss: Ratio(lost as f64 / intended as f64),
            });
            trials.push(json!([duration, effective, intended, lost]));
        }
        let asked = json!({
            "loss_ratio": loss_ratio, "exceed_ratio": requirement.exceed_ratio, "trial": trial, "sum": sum,
        });
        questions.push(json!({"ask": "classify", "requirement": asked, "load": load, "trials": trials}));
        ours.push((
            requirement,
            classify(&samples, &requirement),
            conditional_throughput(Pps(load), &samples, &requirement),
        ));
    }
    let (mut seen, mut ties) = ([0; 3], 0);
    for ((theirs, question), (requirement, class, throughput)) in
        ask(&questions).iter().zip(&questions).zip(ours)
    {
        assert_eq!(theirs["class"], json!(class), "{question}");
        let their_throughput = theirs["throughput"].as_f64().expect("a throughput is a number");
        if throughput.0 != their_throughput {
            assert!(!is_binary(requirement.exceed_ratio) && throughput.0 > their_throughput, "{question}");
            ties += 1;
        }
        seen[class as usize] += 1;
    }
    let [lower, upper, undecided] = seen;
    assert!(lower > 2000 && upper > 2000 && undecided > 2000, "the questions cover all classes: {seen:?}");
    assert!(ties < 400, "{ties} ties");
}

/// Whether a ratio of [`EXCEED`] is exact in binary. With the others the package's sum can miss the
/// end of a trial by one rounding and take the next, lossier trial; ours uses one comparison for
/// both questions.
fn is_binary(ratio: Ratio) -> bool {
    (ratio.0 * 4.0).fract() == 0.0
}

/// A search to be run on both sides.
struct Case {
    device: Device,
    config: SearchConfig,
}

impl Case {
    /// A random device and one to three random goals. Goals of one case share the length of their
    /// final trials where the device's verdict depends on the length: elsewhere the border would
    /// depend on which other goal's trials happen to be at a load.
    fn random(choices: &mut Choices, noise_ppm: u64, disturbed_permille: u64) -> Self {
        let (min, max) = (choices.log_between(1e3, 1e5), choices.log_between(2e6, 1e8));
        let device = Device {
            capacity: choices.log_between(min * 0.5, max * 1.5) as u64,
            queue: choices.one_of(&[0, 0, 64, 1024]),
            loss_ppb: choices.one_of(&[0, 0, 0, 200_000, 3_000_000, 20_000_000]),
            noise_ppm,
            disturbed_permille,
            overhead_ticks: choices.one_of(&[0, 0, 6, 32]),
            seed: choices.number(u64::MAX),
        };
        let mut trial = choices.one_of(&[8, 16, 64, 128]);
        let depends = device.queue > 0 || device.loss_ppb > 0 || noise_ppm > 0;
        let goals = (0..1 + choices.number(3)).map(|place| {
            if !depends {
                trial = choices.one_of(&[8, 16, 64, 128]);
            }
            Self::random_goal(choices, place, trial)
        });
        let goals = goals.collect();
        let config = SearchConfig {
            min_load: Pps(min),
            warm_up: Nanos(0),
            budget: Nanos(u64::MAX),
            ..SearchConfig::new(goals, Pps(max))
        };
        Self { device, config }
    }

    fn random_goal(choices: &mut Choices, place: u64, trial: u64) -> Goal {
        let sum = trial * choices.one_of(&[1, 2, 5, 21]);
        let initial = choices.one_of(&[trial, trial, 1 + trial / 2, 1 + trial / 8]);
        Goal {
            name: format!("goal{place}"),
            loss_ratio: Ratio(choices.one_of(&[0.0, 0.001, 0.005, 0.05])),
            exceed_ratio: Ratio(choices.one_of(&EXCEED)),
            relative_width: Ratio(choices.one_of(&[0.002, 0.005, 0.01, 0.03])),
            initial_trial_duration: ticks(initial),
            final_trial_duration: ticks(trial),
            duration_sum: ticks(sum),
            preceding_targets: if initial < sum {
                1 + choices.number(3) as u32
            } else {
                choices.number(3) as u32
            },
            expansion: 2,
        }
    }

    fn question(&self) -> Value {
        let goal = |goal: &Goal| {
            json!({
                "loss_ratio": goal.loss_ratio, "exceed_ratio": goal.exceed_ratio, "width": goal.relative_width,
                "initial": goal.initial_trial_duration.0 / TICK.0, "trial": goal.final_trial_duration.0 / TICK.0,
                "sum": goal.duration_sum.0 / TICK.0, "preceding": goal.preceding_targets,
            })
        };
        let goals: Vec<Value> = self.config.goals.iter().map(goal).collect();
        json!({
            "ask": "search", "device": self.device, "goals": goals,
            "min": self.config.min_load, "max": self.config.max_load,
        })
    }

    fn search(&self) -> SearchOutcome {
        let search = Search::new(self.config.clone()).expect("random searches are valid");
        let Ok(outcome) = search.run(&mut Running::new(self.device), &mut Silent);
        outcome
    }
}

/// The package's answers, without the searches that its own checks ended (it refuses equal goals,
/// and some corner cases of its candidate selection).
fn searched(cases: &[Case]) -> Vec<(&Case, SearchOutcome, Value)> {
    let questions: Vec<Value> = cases.iter().map(Case::question).collect();
    let answers = ask(&questions);
    let pairs: Vec<_> = cases
        .iter()
        .zip(answers)
        .filter(|(_, theirs)| theirs.get("error").is_none())
        .map(|(case, theirs)| (case, case.search(), theirs))
        .collect();
    assert!(pairs.len() * 100 >= cases.len() * 98, "{} of {} searches answered", pairs.len(), cases.len());
    pairs
}

/// A bound or throughput of the package's answer.
fn bound(theirs: &Value, goal: usize, which: usize) -> Option<f64> {
    theirs["goals"][goal][which].as_f64()
}

#[test]
fn searches_over_deterministic_devices_end_where_the_packages_do() {
    let mut choices = Choices(33);
    let cases: Vec<Case> = (0..4000).map(|_| Case::random(&mut choices, 0, 0)).collect();
    let (mut regular, mut irregular) = (0, 0);
    for (case, ours, theirs) in searched(&cases) {
        for (place, outcome) in ours.goals.iter().enumerate() {
            let context = || format!("{}\nours {outcome:?}\ntheirs {theirs}", case.question());
            let width = outcome.goal.relative_width.0;
            let [lower, upper, throughput] = [0, 1, 2].map(|which| bound(&theirs, place, which));
            assert_eq!(outcome.lower.is_some(), lower.is_some(), "{}", context());
            assert_eq!(outcome.upper.is_some(), upper.is_some(), "{}", context());
            if let (Some(our_lower), Some(our_upper), Some(lower), Some(upper)) =
                (outcome.lower, outcome.upper, lower, upper)
            {
                assert!(our_lower.0 < upper && lower < our_upper.0, "the intervals overlap: {}", context());
                assert!(our_upper.0 - our_lower.0 <= width * our_upper.0 * (1.0 + 1e-9), "{}", context());
                assert!((our_lower.0 - lower).abs() <= width * our_upper.0.max(upper), "{}", context());
            }
            if let (Some(ours), Some(theirs)) = (outcome.throughput, throughput) {
                assert!((ours.0 - theirs).abs() <= width * ours.0.max(theirs) + 1.0, "{}", context());
            }
            *(if outcome.irregular().is_none() { &mut regular } else { &mut irregular }) += 1;
        }
    }
    assert!(regular > 3000 && irregular > 1000, "{regular} regular and {irregular} irregular goals");
}

#[test]
fn searches_over_noisy_devices_agree_with_the_packages_on_average() {
    let mut choices = Choices(44);
    let cases: Vec<Case> = (0..2000)
        .map(|_| {
            let (noise, disturbed) =
                (choices.one_of(&[2_000, 10_000, 30_000]), choices.one_of(&[0, 0, 50, 150]));
            Case::random(&mut choices, noise, disturbed)
        })
        .collect();
    let (mut differences, mut near, mut our_time, mut their_time) = (Vec::new(), 0, 0.0, 0.0);
    for (case, ours, theirs) in searched(&cases) {
        our_time += ours.spent.seconds();
        their_time += theirs["spent"].as_f64().expect("the time spent is a number");
        for (place, outcome) in ours.goals.iter().enumerate() {
            let (Some(our_lower), Some(lower)) = (outcome.lower, bound(&theirs, place, 0)) else { continue };
            let width = outcome.goal.relative_width.0;
            let difference = (our_lower.0 - lower) / our_lower.0.max(lower);
            differences.push(difference / width);
            near += usize::from(difference.abs() <= width + case.device.noise_ppm as f64 / 1e6);
        }
    }
    differences.sort_by(f64::total_cmp);
    let median = differences[differences.len() / 2];
    let share = near as f64 / differences.len() as f64;
    let time = our_time / their_time;
    eprintln!(
        "{} goals: median {median:.3} widths, {share:.3} near, {time:.3} of the time",
        differences.len()
    );
    assert!(differences.len() > 2000);
    assert!(median.abs() < 0.25, "median difference {median} widths");
    assert!(share >= 0.9, "{share} of the lower bounds are near");
    assert!(time < 1.1, "{time} of the package's measuring time");
}

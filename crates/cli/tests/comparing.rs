//! `weir compare` and `weir rescore` as a person or a pipeline meets them, over simulated runs.

use crate::lab::{Lab, told, weir};
use serde_json::Value;
use std::fs;
use std::process::Output;
use weir_trial::run::{PointResult, ThroughputResult};

fn plan(capacity: &str, seed: u32, repeats: u32) -> String {
    format!(
        "nf = [\"l2fwd\", \"l3fwd:10\"]\ndut = \"simulated\"\ntrace = \"simple\"\nsize = 64\nrepeats = {repeats}\n\
         [throughput]\ngoals = [\"ndr\", \"pdr\"]\nwarm_up = \"100ms\"\n[goal.ndr]\nfinal_trial_duration = \"100ms\"\n\
         [goal.pdr]\nfinal_trial_duration = \"100ms\"\n[mrr]\ntrials = 5\nduration = \"100ms\"\n\
         [latency]\nloads = [\"100kpps\"]\nduration = \"100ms\"\n\
         [simulated]\ncapacity = \"{capacity}\"\nnoise = \"1%\"\nseed = {seed}\n"
    )
}

/// A database with a run of each plan, in this order.
fn measured(plans: &[(&str, String)]) -> Lab {
    let lab = Lab::new("");
    for (name, plan) in plans {
        let file = format!("{name}.toml");
        fs::write(lab.file(&file), plan).unwrap();
        let output = lab.bare().args([&file, "--name", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    lab
}

fn asked(lab: &Lab, arguments: &[&str], code: i32) -> Output {
    let output = weir().args(arguments).arg("--db").arg(lab.file("weir.db")).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
    output
}

fn said(lab: &Lab, arguments: &[&str], code: i32) -> String {
    String::from_utf8(asked(lab, arguments, code).stdout).unwrap()
}

/// The error message of a call that is refused.
fn refused(lab: &Lab, arguments: &[&str]) -> String {
    String::from_utf8(asked(lab, arguments, 2).stderr).unwrap()
}

fn valid(name: &str, printed: &str) -> Value {
    let path = format!("{}/../../schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let document: Value = serde_json::from_str(printed).unwrap();
    let faults: Vec<_> = jsonschema::draft202012::new(&schema)
        .unwrap()
        .iter_errors(&document)
        .map(|fault| fault.to_string())
        .collect();
    assert!(faults.is_empty() && document["schema"] == 1, "{name}: {faults:#?}");
    document
}

#[test]
fn two_runs_of_a_plan_have_no_winner_and_a_slower_device_loses_every_rate() {
    let plans =
        [("old", plan("1Mpps", 1, 4)), ("same", plan("1Mpps", 2, 4)), ("slow", plan("0.9Mpps", 3, 4))];
    let lab = measured(&plans);
    let text = said(&lab, &["compare", "old", "same", "--bound", "5%"], 0);
    for part in
        ["plan: [simulated] seed", "B is better in 0, worse in 0 of 10 rows", "Bound of 5 %: not broken"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.find("Environment: ") < text.find("verdict"), "environments first\n{text}");
    assert_eq!(text, said(&lab, &["compare", "old", "same", "--bound", "5%"], 0), "the same each time");

    let text = said(&lab, &["compare", "old", "slow", "--bound", "3%"], 1);
    for part in [
        "plan: [simulated] capacity",
        "B slower, by ",
        "BROKEN, more than 99.9 % sure",
        "B later, by ",
        "BROKEN in 10 of 10 rows",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    said(&lab, &["compare", "slow", "old", "--bound", "3%"], 0);

    let comparison = valid("compare", &said(&lab, &["compare", "old", "slow", "--json"], 0));
    assert_eq!((comparison["a"]["run"].as_str(), comparison["bound"].as_f64()), (Some("old"), None));
    for row in comparison["rows"].as_array().unwrap() {
        let is_rate = row["better"] == "higher";
        let (low, high) =
            (row["interval"]["low"].as_f64().unwrap(), row["interval"]["high"].as_f64().unwrap());
        assert!(!is_rate || low < 0.9 && 0.9 < high && row["verdict"]["kind"] == "a", "{row:#}");
    }

    let text = said(&lab, &["compare", "old", "slow", "--bound", "3%", "--markdown"], 1);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let columns = |line: &&str| line.matches(" | ").count();
    assert!(text.starts_with("## Comparison") && rows.len() > 14, "{text}");
    assert!(rows[rows.len() - 12..].windows(2).all(|two| columns(&two[0]) == columns(&two[1])), "{text}");
}

#[test]
fn single_searches_cannot_break_or_keep_a_bound_and_the_exit_code_says_so() {
    let searches = |capacity, seed| {
        let plan = plan(capacity, seed, 1);
        let end = plan.find("[mrr]").unwrap();
        format!("{}{}", &plan[..end], &plan[plan.find("[simulated]").unwrap()..])
    };
    let lab = measured(&[("old", searches("1Mpps", 1)), ("slow", searches("0.5Mpps", 2))]);
    let text = said(&lab, &["compare", "old", "slow", "--bound", "3%"], 1);
    for part in
        ["no winner: one search each, scatter unknown", "nothing could be judged", "--repeats 3 or more"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    said(&lab, &["compare", "old", "slow"], 0);
}

#[test]
fn sides_that_cannot_be_compared_are_refused_with_what_can() {
    let lab = measured(&[("old", plan("1Mpps", 1, 1))]);
    let error = refused(&lab, &["compare", "old", "old"]);
    assert!(error.contains("both sides are run old; name another run"), "{error}");
    let error = refused(&lab, &["compare", "old/nf", "old/simulated"]);
    assert!(error.contains("run old has no device `nf`; it has simulated"), "{error}");
    assert!(refused(&lab, &["compare", "old/", "old"]).contains("old/nf"));
    assert!(refused(&lab, &["compare", "old", "none"]).contains("none"));
    assert!(refused(&lab, &["compare", "old", "old", "--bound", "3"]).contains("0.5%"));
}

#[test]
fn the_goals_of_the_plan_give_the_stored_results_again() {
    let lab = measured(&[("old", plan("1Mpps", 1, 3))]);
    let run = lab.stored().unwrap();
    let document = valid("rescore", &said(&lab, &["rescore", "old", "--json"], 0));
    let searches = document["searches"].as_array().unwrap();
    assert_eq!(searches.len(), 6, "two points, three repeats");
    let mut answers = searches.iter().flat_map(|search| search["answers"].as_array().unwrap());
    for result in run.points.iter().flat_map(|point| &point.results) {
        let PointResult::Throughput(ThroughputResult { throughput, lower, upper, irregular, goal, .. }) =
            result
        else {
            continue;
        };
        let outcome = &answers.next().unwrap()["outcome"];
        assert_eq!(outcome["goal"]["name"], goal.as_str());
        let same = |name: &str, value: &Option<weir_units::Pps>| {
            assert_eq!(outcome[name].as_f64(), value.map(|rate| rate.0), "{name}: {outcome:#}");
        };
        same("throughput", throughput);
        same("lower", lower);
        same("upper", upper);
        assert_eq!(irregular.is_none(), outcome["state"] == "reached");
    }
    assert!(answers.next().is_none());
}

#[test]
fn other_goals_are_judged_or_say_what_they_lack() {
    let lab = measured(&[("old", plan("1Mpps", 1, 1))]);
    let text = said(&lab, &["rescore", "--goal", "ndr", "--goal", "loss_ratio=0.2%", "--goal", "rfc2544"], 0);
    for part in ["loss_ratio=0.2%", "0.20 %", "undecided: no stored trial is as long as 60 s"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let error = refused(&lab, &["rescore", "--goal", "mdr"]);
    assert!(error.contains("there is no goal `mdr`; there are bswlv, ndr, pdr, rfc2544"), "{error}");
    assert!(refused(&lab, &["rescore", "--goal", "loss=1%"]).contains("unknown field `loss`"));
}

#[test]
fn a_run_without_searches_has_nothing_to_judge_again() {
    let lab = measured(&[(
        "rates",
        "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"simple\"\nsize = 64\n[mrr]\ntrials = 2\n".to_owned(),
    )]);
    assert!(refused(&lab, &["rescore", "rates"]).contains("searched for no throughput"));
}

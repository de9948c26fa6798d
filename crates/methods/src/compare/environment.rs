//! The difference of two environments, and what each part of it can explain.
//!
//! What a fact of the machine can explain, [`weir_trial::environment`] says; here stands what only a
//! comparison has: plans, devices and traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use toml::{Table, Value};
use weir_trial::environment::{Affects, affects};
use weir_trial::run::Run;

/// Two values of one fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The fact: `cpu.governor`, `weir`, `plan: repeats`, `dut nf`.
    pub fact: String,
    /// Its value on side A; nothing where it was not captured.
    pub a: Option<String>,
    /// Its value on side B.
    pub b: Option<String>,
    /// What it affects, in words.
    pub affects: String,
    /// Whether it can explain a gap between the sides.
    pub explains: bool,
}

/// What comparing knows beside the facts of an environment: (beginning of the name, what it affects,
/// whether it can explain a gap).
const BESIDE: [(&str, &str, bool); 7] = [
    ("plan: name", "a name", false),
    ("plan: repeats", "how much the intervals cover, not the rates", false),
    ("plan: ", "what was measured, and how long", true),
    ("weir", "another Weir measured, and another `nf` was measured", true),
    ("dut ", "the device itself", true),
    ("trace ", "the bytes that were sent", true),
    ("load.average", "what else ran at the start: scatter, loss", true),
];

/// Load averages this near are the same: a machine is never quite idle.
const SAME_LOAD: f64 = 0.5;

/// What a fact affects, in words, and whether its difference can explain a gap.
fn class(fact: &str) -> (String, bool) {
    let beside =
        BESIDE.iter().find(|(beginning, ..)| fact.starts_with(beginning) && !fact.starts_with("weir."));
    if let Some((_, affects, explains)) = beside {
        return ((*affects).to_owned(), *explains);
    }
    let Affects { claims, why } = affects(fact);
    let names: Vec<&str> = claims.iter().map(|claim| claim.name()).collect();
    match names.as_slice() {
        [] => (format!("nothing: {why}"), false),
        names => (format!("{}: {why}", names.join(", ")), true),
    }
}

/// Whether two values say the same. `load.average` counts processes, too, and is never equal.
fn same(fact: &str, a: &str, b: &str) -> bool {
    let minute = |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    match (fact, minute(a), minute(b)) {
        ("load.average", Some(a), Some(b)) => (a - b).abs() < SAME_LOAD,
        _ => a == b,
    }
}

/// Every difference between two runs' environments, those that can explain a gap first.
/// `points` are facts of the points compared, by name: the devices' versions, the traces' hashes.
pub(crate) fn differences(a: &Run, b: &Run, points: [&[(String, String)]; 2]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut tell = |fact: &str, a: Option<&str>, b: Option<&str>| {
        if a != b && !a.zip(b).is_some_and(|(a, b)| same(fact, a, b)) {
            let (affects, explains) = class(fact);
            let own = |value: Option<&str>| value.map(str::to_owned);
            found.push(Difference { fact: fact.to_owned(), a: own(a), b: own(b), affects, explains });
        }
    };
    tell("weir", Some(&a.weir), Some(&b.weir));
    let names: BTreeSet<&String> = a.environment.keys().chain(b.environment.keys()).collect();
    for name in names {
        let value = |run: &'_ Run| run.environment.get(name).cloned();
        tell(name, value(a).as_deref(), value(b).as_deref());
    }
    let [of_a, of_b] = [settings(&a.plan), settings(&b.plan)];
    let keys: BTreeSet<&String> = of_a.iter().chain(&of_b).map(|(key, _)| key).collect();
    for key in keys {
        let value = |side: &[(String, String)]| lookup(side, key);
        tell(&format!("plan: {key}"), value(&of_a).as_deref(), value(&of_b).as_deref());
    }
    for (name, value) in points[0] {
        if let Some(other) = lookup(points[1], name) {
            tell(name, Some(value), Some(&other));
        }
    }
    found.sort_by_key(|difference| !difference.explains);
    found
}

fn lookup(side: &[(String, String)], key: &str) -> Option<String> {
    side.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
}

/// The settings of a plan, each with its table: `[mrr] trials`. A plan that cannot be read any more
/// is one setting.
fn settings(plan: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    match plan.parse::<Table>() {
        Ok(table) => flatten("", &table, &mut found),
        Err(_) => found.push(("text".to_owned(), plan.to_owned())),
    }
    found
}

fn flatten(path: &str, table: &Table, found: &mut Vec<(String, String)>) {
    for (key, value) in table {
        match value {
            Value::Table(inner) if path.is_empty() => flatten(key, inner, found),
            Value::Table(inner) => flatten(&format!("{path}.{key}"), inner, found),
            value if path.is_empty() => found.push((key.clone(), written(value))),
            value => found.push((format!("[{path}] {key}"), written(value))),
        }
    }
}

/// A value as in a plan.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(instant) => instant.to_string(),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) => {
            let mut inner = Vec::new();
            flatten("", table, &mut inner);
            let pairs = inner.into_iter().map(|(key, value)| format!("{key} = {value}"));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A device's version and command line without the folders in it: those of sockets and captures are
/// new at every start.
pub(crate) fn without_folders(version: &str) -> String {
    let mut text = String::new();
    for word in version.split_inclusive([' ', ',', '=', ';']) {
        match word.rsplit_once('/') {
            Some((folder, file)) if folder.is_empty() || folder.starts_with('/') => text.push_str(file),
            _ => text.push_str(word),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use weir_trial::run::{RunState, SCHEMA_VERSION};

    fn run(plan: &str, facts: &[(&str, &str)]) -> Run {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Run {
            schema: SCHEMA_VERSION,
            id: 1,
            name: "test".to_owned(),
            started_ms: 0,
            ended_ms: None,
            state: RunState::Finished,
            plan: plan.to_owned(),
            weir: "weir 0.1.0 (abc)".to_owned(),
            uuid: String::new(),
            sessions: Vec::new(),
            self_checks: Vec::new(),
            environment: facts.iter().map(own).collect::<BTreeMap<_, _>>(),
            points: Vec::new(),
            advice: Vec::new(),
        }
    }

    #[test]
    fn what_can_explain_a_gap_comes_first_and_the_rest_is_told_apart() {
        let a = run("", &[("cpu.governor", "performance"), ("memory.total", "8"), ("plan.file", "/a")]);
        let b = run("", &[("cpu.governor", "powersave"), ("memory.total", "9"), ("plan.file", "/b")]);
        let found = differences(&a, &b, [&[], &[]]);
        let facts: Vec<_> = found.iter().map(|found| (found.fact.as_str(), found.explains)).collect();
        assert_eq!(facts, [("cpu.governor", true), ("memory.total", false), ("plan.file", false)]);
        assert_eq!(
            found[0].affects,
            "throughput, latency tail, cycles per packet: cores reach another frequency, or later"
        );
        assert!(differences(&a, &a, [&[], &[]]).is_empty());
    }

    #[test]
    fn a_fact_that_only_one_side_has_and_one_nobody_classed_are_told() {
        let (a, b) = (run("", &[("cpu.new-thing", "1")]), run("", &[("weather", "rain")]));
        let found = differences(&a, &b, [&[], &[]]);
        assert_eq!((found[0].fact.as_str(), found[0].b.as_deref()), ("cpu.new-thing", None));
        assert!(found[0].affects.contains("another CPU") && found[0].explains);
        assert!(found[1].affects.contains("not known to this Weir") && found[1].explains);
    }

    #[test]
    fn a_busy_machine_is_a_difference_and_a_process_number_is_not() {
        let load = |text| run("", &[("load.average", text)]);
        let idle = load("0.10 0.20 0.30 1/200 4711");
        assert!(differences(&idle, &load("0.40 0.20 0.30 2/210 4790"), [&[], &[]]).is_empty());
        assert_eq!(differences(&idle, &load("5.40 2.0 1.0 6/210 4790"), [&[], &[]]).len(), 1);
    }

    #[test]
    fn plans_differ_by_setting_not_by_comment() {
        let a = run("# one\nsize = [\n  64,\n]\n[mrr]\ntrials = 5 # few\n", &[]);
        let b = run("size = [64]   # \"small\"\n\n[mrr]\ntrials  =  10\nload = \"1Mpps\"\n", &[]);
        let found = differences(&a, &b, [&[], &[]]);
        let facts: Vec<_> = found.iter().map(|f| (f.fact.as_str(), f.a.as_deref(), f.b.as_deref())).collect();
        assert_eq!(
            facts,
            [("plan: [mrr] load", None, Some("\"1Mpps\"")), ("plan: [mrr] trials", Some("5"), Some("10"))]
        );
    }

    #[test]
    fn a_device_started_from_another_folder_is_the_same_device() {
        let version = "DPDK 22.11; /opt/a/weir nf --port net_vhost0,iface=/tmp/weir-1x/link0.sock,queues=1";
        let other = "DPDK 22.11; /opt/b/weir nf --port net_vhost0,iface=/tmp/weir-2y/link0.sock,queues=1";
        assert_eq!(without_folders(version), without_folders(other));
        assert_eq!(
            without_folders(version),
            "DPDK 22.11; weir nf --port net_vhost0,iface=link0.sock,queues=1"
        );
        assert_eq!(without_folders("weir 0.1/2"), "weir 0.1/2");
    }
}

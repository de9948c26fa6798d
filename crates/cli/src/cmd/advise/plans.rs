//! Plans made of a run's plan: of one point that was advised, or of what would answer a question.

use std::path::Path;
use toml_edit::{Array, DocumentMut, Item, Table, Value};
use weir_advice::{Advice, Answer, Needed};
use weir_dut::Kind;
use weir_dut::wiring::WiringKind;
use weir_traffic::trace::TraceName;
use weir_trial::run::advice::{Asked, Quantity};
use weir_trial::run::{Method, PointKey, Run};
use weir_trial::{CoreUse, Nf, Placement, Split};

/// The fact that says where a run's plan was read.
const PLAN_FILE: &str = "plan.file";
/// The seed of a simulated device in a run's first check.
const CHECKS_SEED: u64 = 1_000_003;
/// How far the seeds of two runs' checks lie apart.
const CHECKS_A_RUN: u64 = 1_009;
/// What belongs to comparisons, and to a plan as a whole.
const NOT_OF_A_POINT: [&str; 5] = ["against", "until", "name", "chain", "length"];

/// The plan of one advice: its point, and the methods that measure what was predicted. `number` tells the checks of a run apart.
pub(super) fn of_advice(
    run: &Run,
    (advice, number): (&Advice, usize),
    asked: &Asked,
) -> Result<String, String> {
    let mut document = at_point(run, advice.point, &advice.key)?;
    if weir_dut::kind(&advice.key.dut) == Kind::Arithmetic {
        draw_anew(&mut document, run.id.unsigned_abs() * CHECKS_A_RUN + number as u64);
    }
    set(&mut document, "repeats", Value::from(1_i64));
    let mut kept = Vec::new();
    let mut loads: Vec<String> = Vec::new();
    for prediction in &advice.predictions {
        match &prediction.quantity {
            Quantity::Forwarded => kept.push(Method::Mrr),
            Quantity::Throughput { .. } => kept.push(Method::Throughput),
            Quantity::Delay { load, .. } | Quantity::Loss { load } => {
                let load = format!("{}pps", load.0);
                if !loads.contains(&load) {
                    loads.push(load);
                }
            }
        }
    }
    let duration = trial_duration(&document);
    keep_methods(&mut document, &kept);
    if !loads.is_empty() {
        let mut table = Table::new();
        table.insert("loads", Item::Value(Value::Array(loads.iter().map(String::as_str).collect())));
        if let Some(duration) = duration {
            table.insert("duration", Item::Value(duration));
        }
        document.insert(Method::Latency.table(), Item::Table(table));
    }
    let asked = asked.load.map_or_else(String::new, |load| format!(" ({load} asked for)"));
    Ok(format!("# The check of an advice from run {}: {}{asked}\n{document}", run.name, advice.says))
}

/// The plan that would answer a question.
pub(super) fn of_needed(run: &Run, answer: &Answer, needed: &Needed) -> Result<String, String> {
    let point = run.points.iter().find(|point| point.index == needed.point);
    let key = &point.ok_or_else(|| format!("run {} has no point {}", run.name, needed.point))?.key;
    let mut document = at_point(run, needed.point, key)?;
    for (key, value) in &needed.axes {
        let value: Value = value.parse().map_err(|error| format!("`{key}`: {error}"))?;
        set(&mut document, key, value);
    }
    let mut text = String::new();
    if let Some(methods) = &needed.methods {
        keep_methods(&mut document, &[]);
        text = format!("\n{methods}");
    }
    let about = format!("`{}` of {}", answer.question, answer.about);
    Ok(format!("# What answers {about}, after run {}.\n{document}{text}", run.name))
}

/// Gives a simulated device another seed than its run and the run's other checks had: with the same noise any model would be right.
fn draw_anew(document: &mut DocumentMut, number: u64) {
    let key = "simulated";
    let seed = Value::from((CHECKS_SEED + number).cast_signed());
    match document.get_mut(key).and_then(Item::as_table_like_mut) {
        Some(table) => {
            table.insert("seed", Item::Value(seed));
        }
        None => {
            let mut table = Table::new();
            table.insert("seed", Item::Value(seed));
            document.insert(key, Item::Table(table));
        }
    }
}

/// How long the run's own trials of a delay are.
fn trial_duration(document: &DocumentMut) -> Option<Value> {
    let tables = [Method::Latency, Method::LatencyCurve].map(Method::table);
    let found = tables.iter().find_map(|table| document.get(table)?.get("duration")?.as_value().cloned());
    found.map(|value| value.decorated(" ", ""))
}

/// The run's plan with one point's axes.
fn at_point(run: &Run, index: u32, key: &PointKey) -> Result<DocumentMut, String> {
    let mut document = run
        .plan
        .parse::<DocumentMut>()
        .map_err(|error| format!("the plan stored with run {}: {error}", run.name))?;
    let folder = run.environment.get(PLAN_FILE).and_then(|file| Path::new(file).parent());
    let nf = nf_text(&document, key.nf, folder);
    NOT_OF_A_POINT.iter().for_each(|key| {
        document.remove(key);
    });
    let offloads = document.get("offloads").cloned();
    Placement::AXES.iter().for_each(|key| {
        document.remove(key);
    });
    set(&mut document, "nf", nf.into());
    set(&mut document, "dut", key.dut.as_str().into());
    place(&mut document, &key.placement)?;
    if !key.placement.offloads.is_empty() {
        let same = run
            .points
            .iter()
            .any(|point| point.index == index && point.key.placement.offloads == key.placement.offloads);
        match offloads.filter(|_| same).filter(|item| item.as_inline_table().is_some()) {
            Some(item) => document.insert("offloads", item),
            None => {
                return Err(format!(
                    "point {index}: a plan of one of several offloads cannot be made; write one"
                ));
            }
        };
    }
    if key.wiring.parse::<WiringKind>().is_ok() {
        set(&mut document, "wiring", key.wiring.as_str().into());
    } else {
        document.remove("wiring");
    }
    set(&mut document, "trace", trace_text(&key.trace, folder).into());
    let size = key.size.parse::<i64>().map_or_else(|_| Value::from(key.size.as_str()), Value::from);
    set(&mut document, "size", size);
    set(&mut document, "directions", i64::from(key.directions).into());
    if key.wiring.parse::<WiringKind>().is_ok() {
        set(&mut document, "huge_pages", key.huge_pages.into());
    }
    Ok(document)
}

/// Says where a point's functions run.
fn place(document: &mut DocumentMut, placement: &Placement) -> Result<(), String> {
    let usual = Placement::default();
    if placement.deployment != usual.deployment {
        set(document, "deployment", placement.deployment.name().into());
    }
    if let Some(host) = &placement.host {
        set(document, "host", host.as_str().into());
    }
    for (key, value, usual) in [
        ("copies", placement.copies, usual.copies),
        ("vnics", placement.vnics, usual.vnics),
        ("bundles", placement.bundles, usual.bundles),
        ("queues", placement.queues, usual.queues),
    ] {
        if value != usual {
            set(document, key, i64::from(value).into());
        }
    }
    if placement.split != Split::default() {
        set(document, "split", placement.split.name().into());
    }
    match &placement.cores {
        CoreUse::Own => {}
        CoreUse::Shared => set(document, "cores", "shared".into()),
        CoreUse::Count(count) => set(document, "cores", i64::from(*count).into()),
        CoreUse::On(cores) => {
            let list: Array = cores.iter().map(|core| i64::from(*core)).collect();
            set(document, "cores", Value::Array(Array::from_iter([Value::Array(list)])));
        }
    }
    if let Some(guest) = placement.guest {
        set(document, "vcpus", i64::from(guest.vcpus).into());
        let facts = serde_json::to_value(guest).map_err(|error| error.to_string())?;
        for key in ["memory", "accel"] {
            match &facts[key] {
                serde_json::Value::Number(number) => set(document, key, number.as_i64().unwrap_or(0).into()),
                serde_json::Value::String(text) => set(document, key, text.as_str().into()),
                _ => {}
            }
        }
    }
    if let Some(frequency) = placement.frequency {
        set(document, "frequency", frequency.to_string().into());
    }
    if let Some(server) = &placement.server {
        set(document, "server", server.to_string().into());
    }
    if let Some(node) = placement.node {
        set(document, "node", node.name().into());
    }
    Ok(())
}

/// A function as a plan names it, its file from everywhere.
fn nf_text(document: &DocumentMut, nf: Nf, folder: Option<&Path>) -> String {
    let text = nf.to_string();
    if !text.starts_with(Nf::FLOWS) {
        return text;
    }
    // A stored name has the hash of the file's bytes behind it.
    let named =
        text.strip_prefix(Nf::FLOWS).and_then(|rest| rest.rsplit_once('@')).map_or("", |(file, _)| file);
    let own: Vec<String> = match document.get("nf").and_then(Item::as_value) {
        Some(Value::Array(list)) => {
            list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        }
        Some(value) => value.as_str().map(str::to_owned).into_iter().collect(),
        None => Vec::new(),
    };
    let files = own.iter().filter_map(|text| text.strip_prefix(Nf::FLOWS));
    let file = files.clone().find(|file| file.ends_with(named)).unwrap_or(named);
    format!("{}{}", Nf::FLOWS, from_everywhere(file, folder))
}

/// A trace as a plan names it, captures from everywhere.
fn trace_text(trace: &str, folder: Option<&Path>) -> String {
    let one = |name: &str| match TraceName::parse(name) {
        Ok(parsed) if parsed.is_capture() => from_everywhere(name, folder),
        _ => name.to_owned(),
    };
    trace.split('|').map(one).collect::<Vec<_>>().join("|")
}

fn from_everywhere(file: &str, folder: Option<&Path>) -> String {
    match folder.filter(|_| Path::new(file).is_relative()) {
        Some(folder) => folder.join(file).display().to_string(),
        None => file.to_owned(),
    }
}

/// Leaves only the tables of these methods, each as the plan has it.
fn keep_methods(document: &mut DocumentMut, kept: &[Method]) {
    for method in Method::ALL.into_iter().filter(|method| !kept.contains(method)) {
        document.remove(method.table());
    }
    if !kept.contains(&Method::Throughput) {
        document.remove("goal");
    }
}

/// Sets a key in front of the tables, with its comment where it was there.
fn set(document: &mut DocumentMut, key: &str, value: Value) {
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            document.insert(key, Item::Value(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_advice::Says;
    use weir_campaign::plan::{Known, Plan};
    use weir_trial::Deployment;
    use weir_trial::run::advice::{Prediction, Question};
    use weir_trial::run::{Point, RunState, SCHEMA_VERSION};
    use weir_units::{Bps, LineRate, Pps, Ratio};

    const PLAN: &str = "# Mine.\nname = \"mine\"\nchain = [\"firewall:10\", \"l3fwd:10\"]\nlength = [1, 2]\n\
        deployment = [\"vhost\", \"vale\"]\ncopies = [1, 2]\nfrequency = [\"50%\", \"100%\"]\ndut = [\"nf\", \"testpmd\"]\n\
        trace = \"site.pcap\"\nsize = \"recorded\"\nrepeats = 3\nself_check = false\n[mrr]\ntrials = 4\n\
        [latency_curve]\nduration = \"200ms\"\n[throughput]\ngoals = [\"mine\"]\n[goal.mine]\nlike = \"ndr\"\n";

    fn key() -> PointKey {
        PointKey {
            nf: "firewall:10+l3fwd:10".parse().unwrap(),
            dut: "nf".to_owned(),
            placement: Placement {
                deployment: Deployment::Vhost,
                host: Some("weir".to_owned()),
                cores: CoreUse::On(vec![1, 3]),
                copies: 4,
                split: Split::Flow,
                ..Placement::default()
            },
            wiring: "memif".to_owned(),
            trace: "site.pcap".to_owned(),
            size: "recorded".to_owned(),
            mean_frame_bytes: 64.0,
            directions: 1,
            huge_pages: false,
            line_rate: LineRate(Bps(1e10)),
        }
    }

    fn run() -> Run {
        let point = Point {
            index: 0,
            key: key(),
            dut_version: None,
            configuration: Default::default(),
            trace_hashes: Vec::new(),
            seed: 1,
            packets: None,
            error: None,
            finished: true,
            results: Vec::new(),
            trials: Vec::new(),
        };
        Run {
            schema: SCHEMA_VERSION,
            id: 1,
            uuid: String::new(),
            name: "otter".to_owned(),
            started_ms: 0,
            ended_ms: None,
            state: RunState::Finished,
            plan: PLAN.to_owned(),
            weir: String::new(),
            environment: [(PLAN_FILE.to_owned(), "/lab/plans/mine.toml".to_owned())].into(),
            sessions: Vec::new(),
            self_checks: Vec::new(),
            points: vec![point],
            advice: Vec::new(),
        }
    }

    fn read(text: &str) -> Plan {
        let known = Known { is_file: |path| path == Path::new("/lab/plans/site.pcap"), ..Known::here() };
        Plan::parse(text, Path::new("/elsewhere/check.toml"), &known)
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn a_check_measures_the_advised_point_and_nothing_else() {
        let load = Pps(1_234_500.0);
        let predicted = |quantity| Prediction { quantity, value: 1.0, interval: None };
        let advice = Advice {
            says: "4 copies carry it".to_owned(),
            meets: Some(true),
            point: 0,
            key: key(),
            predictions: vec![predicted(Quantity::Forwarded), predicted(Quantity::Loss { load })],
            model: String::new(),
            derived_from: vec![0],
            extrapolated: Vec::new(),
            notes: Vec::new(),
        };
        let asked = Asked { load: Some(load), loss: Ratio(0.0), delay: None };
        let text = of_advice(&run(), (&advice, 0), &asked).unwrap();
        let points = read(&text).expand();
        let [point] = points.as_slice() else { panic!("{text}") };
        assert_eq!((point.nf, &point.placement, point.dut.as_str()), (key().nf, &key().placement, "nf"));
        assert_eq!((point.wiring.as_str(), point.directions), ("memif", 1));
        assert_eq!(
            point.trace.to_string(),
            "/lab/plans/site.pcap",
            "found from wherever the check's plan is"
        );
        assert!(text.contains("[mrr]\ntrials = 4") && text.contains("loads = [\"1234500pps\"]"), "{text}");
        assert!(text.contains("duration = \"200ms\"") && !text.contains("throughput"), "{text}");
        assert!(text.contains("repeats = 1") && !text.contains("seed"), "{text}");
    }

    #[test]
    fn the_plan_for_an_open_question_is_the_points_own_with_another_axis() {
        let needed = Needed {
            point: 0,
            axes: vec![("frequency".to_owned(), "[\"25%\", \"100%\"]".to_owned())],
            methods: None,
        };
        let says = Says::Unanswered { why: String::new(), needed: Some(needed.clone()) };
        let answer = Answer { question: Question::Speed, about: "that".to_owned(), says };
        let text = of_needed(&run(), &answer, &needed).unwrap();
        let points = read(&text).expand();
        let speeds: Vec<String> =
            points.iter().map(|point| point.placement.frequency.unwrap().to_string()).collect();
        assert_eq!(speeds, ["25%", "100%"], "{text}");
        assert!(text.starts_with("# What answers `speed` of that, after run otter.\n"), "{text}");
        assert!(text.contains("[goal.mine]") && text.contains("repeats = 3"), "{text}");
    }
}

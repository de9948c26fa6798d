//! A plan cut down: fewer and shorter trials, and the ends of long axes alone.

use toml_edit::{Array, DocumentMut, Item, Value, value};

/// What is cut, for the help.
pub(super) const WHAT: &str = "Fewer and shorter trials and points: one trial of 100 ms for a rate, 200 ms for a latency, each point once; of \
                               sizes, frequencies, loads, traces, settings of one device and numbers of one function the \
                               first and the last; of SoftFlow's traces a thousandth, of other conversations 1,000";

/// Axes of which the first and the last value are kept.
const ENDS: [&str; 2] = ["size", "frequency"];

/// Of the traces over a pipeline's tables, one conversation in so many.
const PART: &str = ":1000";

/// Conversations of other traces, at most.
const CONVERSATIONS: u32 = 1_000;

/// The plan, cut down, so that it shows whether it runs.
pub(super) fn shortened(plan: &str) -> String {
    let Ok(mut document) = plan.parse::<DocumentMut>() else { return plan.to_owned() };
    // Settings of one device (`weir:reads=1`), and numbers of one function (`pipeline-d:4`).
    for axis in ["dut", "nf"] {
        if let Some(values) = document.get_mut(axis).and_then(Item::as_array_mut)
            && is_of_one(values)
        {
            keep_ends(values);
        }
    }
    if let Some(values) = document.get_mut("trace").and_then(Item::as_array_mut) {
        keep_ends(values);
    }
    let loads = document.get_mut("latency").and_then(|latency| latency.get_mut("loads"));
    if let Some(loads) = loads.and_then(Item::as_array_mut) {
        keep_ends(loads);
    }
    match document.get_mut("trace") {
        Some(Item::Value(Value::Array(traces))) => traces.iter_mut().for_each(cut_trace),
        Some(Item::Value(trace)) => cut_trace(trace),
        _ => {}
    }
    cut_trials(&mut document);
    document.to_string()
}

/// The plan with the same devices, functions and traces, but fewer frame sizes and shorter trials. The plans of the papers are
/// TOML; another text comes back as it is, and its reader says what is wrong.
pub(in crate::cmd) fn with_short_trials(plan: &str) -> String {
    let Ok(mut document) = plan.parse::<DocumentMut>() else { return plan.to_owned() };
    cut_trials(&mut document);
    document.to_string()
}

fn cut_trials(document: &mut DocumentMut) {
    for axis in ENDS {
        if let Some(values) = document.get_mut(axis).and_then(Item::as_array_mut) {
            keep_ends(values);
        }
    }
    if document.contains_key("repeats") {
        document["repeats"] = value(1);
    }
    set(document, "mrr", "trials", 1.into());
    set(document, "mrr", "duration", "100ms".into());
    set(document, "latency", "duration", "200ms".into());
}

/// Whether all values have one name before their colon.
fn is_of_one(values: &Array) -> bool {
    let name = |value: &Value| value.as_str().map(|text| text.split(':').next().unwrap_or(text).to_owned());
    let first = values.get(0).and_then(name);
    values.len() > 2 && first.is_some() && values.iter().all(|value| name(value) == first)
}

fn keep_ends(values: &mut Array) {
    let last = values.len().saturating_sub(1);
    let mut place = 0;
    values.retain(|_| {
        let keep = place == 0 || place == last;
        place += 1;
        keep
    });
}

/// Of T1 and T2 over a pipeline's tables (`t1:500`), a part is enough to see whether a plan runs.
fn cut_trace(trace: &mut Value) {
    let Some(name) = trace.as_str() else { return };
    if let Some((kind @ "conversations", count)) = name.split_once(':')
        && count.parse().is_ok_and(|count: u32| count > CONVERSATIONS)
    {
        *trace = format!("{kind}:{CONVERSATIONS}").into();
        return;
    }
    let is_whole = |of: &str| name.strip_prefix(of).is_some_and(|entries| !entries.contains(':'));
    if is_whole("t1:") || is_whole("t2:") {
        *trace = format!("{name}{PART}").into();
    }
}

/// Sets a key of a method's table, where the plan has it.
fn set(document: &mut DocumentMut, method: &str, key: &str, to: Value) {
    if let Some(table) = document.get_mut(method).and_then(Item::as_table_mut) {
        table.insert(key, Item::Value(to));
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::FIGURES;
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;
    use weir_campaign::plan::{ASSUMED_OVERHEAD, Known, Plan};

    fn parsed(text: &str, name: &str) -> Plan {
        Plan::parse(text, Path::new(name), &Known::here()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_plan_cut_down_is_a_plan_with_fewer_points_or_less_time() {
        for figure in FIGURES {
            let (whole, short) =
                (parsed(figure.text, figure.name), parsed(&shortened(figure.text), figure.name));
            assert!(short.expand().len() <= whole.expand().len(), "{}", figure.name);
            let time = |plan: &Plan| plan.estimate(ASSUMED_OVERHEAD).time.seconds();
            assert!(time(&short) < time(&whole), "{}: {} s, {} s", figure.name, time(&short), time(&whole));
            assert_eq!(short.repeats, 1, "{}", figure.name);
            // Every device and every function is still there, with its first and its last setting.
            let kinds = |plan: &Plan| {
                let devices = plan.duts.iter().map(|dut| dut.split(':').next().unwrap_or(dut).to_owned());
                let functions = plan.nfs.iter().map(|nf| nf.to_string().split(':').next().map(str::to_owned));
                (devices.collect::<BTreeSet<_>>(), functions.collect::<BTreeSet<_>>())
            };
            assert_eq!(kinds(&short), kinds(&whole), "{}", figure.name);
            assert_eq!(short.duts.last(), whole.duts.last(), "{}", figure.name);
        }
    }

    #[test]
    fn of_sizes_and_frequencies_the_ends_stay_and_one_value_stays_as_it_is() {
        let plan =
            "size = [64, 128, 1500]\nfrequency = [\"46%\", \"100%\"]\nrepeats = 3\n\n[mrr]\ntrials = 5\n";
        let short = shortened(plan);
        let document: DocumentMut = short.parse().unwrap();
        let sizes: Vec<i64> =
            document["size"].as_array().unwrap().iter().filter_map(Value::as_integer).collect();
        assert_eq!(sizes, [64, 1500]);
        assert_eq!(document["frequency"].as_array().unwrap().len(), 2);
        assert_eq!(
            (document["repeats"].as_integer(), document["mrr"]["trials"].as_integer()),
            (Some(1), Some(1))
        );
        assert_eq!(document["mrr"]["duration"].as_str(), Some("100ms"));
        assert!(document.get("latency").is_none());
        let traces = shortened("trace = [\"t1:500\", \"t2:40:10\", \"t3\"]\n");
        assert!(traces.contains(r#"["t1:500:1000", "t3"]"#), "{traces}");
        assert!(shortened("trace = \"t2:40:10\"\n").contains("\"t2:40:10\""));
        assert!(shortened("trace = \"t2:500\"\n").contains("t2:500:1000"));
        assert!(shortened("trace = \"conversations:125000\"\n").contains("conversations:1000"));
        assert!(shortened("trace = \"conversations:32x256\"\n").contains("conversations:32x256"));
        let axes = shortened(
            "dut = [\"weir\", \"weir:reads=1\", \"weir:reads=9\"]\nnf = [\"pipeline-a\", \"pipeline-b\", \"pipeline-c\"]\n",
        );
        assert!(axes.contains(r#"["weir", "weir:reads=9"]"#) && axes.contains("pipeline-b"), "{axes}");
        let loads = shortened("[latency]\nloads = [\"1pps\", \"2pps\", \"3pps\"]\n");
        assert!(loads.contains(r#"["1pps", "3pps"]"#), "{loads}");
        assert!(shortened("size = 64\n").contains("size = 64"));
        assert_eq!(shortened("size = ["), "size = [");
    }
}

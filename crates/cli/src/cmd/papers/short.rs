//! A plan cut down: fewer and shorter trials, and the ends of long axes alone.

use toml_edit::{Array, DocumentMut, Item, Value, value};

/// What is cut, for the help.
pub(super) const WHAT: &str = "Fewer and shorter trials and points: one trial of 100 ms for a rate, 200 ms a load for a \
                               latency, each point once; of sizes and frequencies the \
                               first and the last; of SoftFlow's traces a hundredth";

/// Axes of which the first and the last value are kept.
const ENDS: [&str; 2] = ["size", "frequency"];

/// Of the traces over a pipeline's tables, one conversation in so many.
const PART: &str = ":100";

/// The plan, cut down. The plans of the papers are TOML; another text comes back as it is, and its reader says what is wrong.
pub(in crate::cmd) fn shortened(plan: &str) -> String {
    let Ok(mut document) = plan.parse::<DocumentMut>() else { return plan.to_owned() };
    for axis in ENDS {
        if let Some(values) = document.get_mut(axis).and_then(Item::as_array_mut) {
            keep_ends(values);
        }
    }
    match document.get_mut("trace") {
        Some(Item::Value(Value::Array(traces))) => traces.iter_mut().for_each(cut_trace),
        Some(Item::Value(trace)) => cut_trace(trace),
        _ => {}
    }
    if document.contains_key("repeats") {
        document["repeats"] = value(1);
    }
    set(&mut document, "mrr", "trials", 1.into());
    set(&mut document, "mrr", "duration", "100ms".into());
    set(&mut document, "latency", "duration", "200ms".into());
    document.to_string()
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
            assert_eq!((&short.duts, &short.nfs), (&whole.duts, &whole.nfs), "{}", figure.name);
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
        assert!(traces.contains(r#"["t1:500:100", "t2:40:10", "t3"]"#), "{traces}");
        assert!(shortened("trace = \"t2:500\"\n").contains("t2:500:100"));
        assert!(shortened("size = 64\n").contains("size = 64"));
        assert_eq!(shortened("size = ["), "size = [");
    }
}

//! Metrics as Prometheus reads them: text format 0.0.4, filled when they are asked for.
//!
//! Names begin with `weir_switch_`; counters end in `_total`, and units are base units, as Prometheus'
//! naming conventions have it. Cycles are ticks of the time stamp counter, whose rate is
//! `weir_switch_tsc_hertz`.

use crate::stats::counters::{Counter, FAMILIES, INSTANCE, Kind, PORT, TABLE, WORKER};
use crate::stats::{
    InstanceStats, PortReport, ServiceStats, Stats, StepReport, TableReport, WAITING, WorkerReport,
};
use prometheus::TextEncoder;
use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Names and texts of a sample's labels.
type Labels<'a> = [(&'a str, &'a str)];

/// A page being written.
#[derive(Default)]
struct Page(Vec<MetricFamily>);

impl Page {
    /// Begins a family of samples.
    fn family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        let mut family = MetricFamily::default();
        family.set_name(format!("weir_switch_{name}"));
        family.set_help(help.to_owned());
        family.set_field_type(match kind {
            Kind::Counter | Kind::Total => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        self.0.push(family);
        Family(self.0.last_mut().expect("it was just put there"))
    }

    /// The families of a table of counters, with a sample for each of these.
    fn counters<T>(&mut self, table: &[Counter<T>], of: &[(Vec<(&str, String)>, &T)]) {
        for family in table.chunk_by(|a, b| a.metric.0 == b.metric.0) {
            let (name, kind) = (family[0].metric.0, family[0].kind);
            let help = FAMILIES.iter().find(|(one, _)| *one == name).map_or(family[0].help, |(_, help)| help);
            let mut samples = self.family(name, kind, help);
            for (labels, part) in of {
                for counter in family {
                    let labels = labels.iter().map(|(name, text)| (*name, text.as_str()));
                    let labels: Vec<_> = labels.chain(counter.metric.1).collect();
                    samples.sample(&labels, (counter.get)(part) as f64);
                }
            }
        }
    }

    /// The text; families without a sample are left out.
    fn text(mut self) -> String {
        self.0.retain(|family| !family.get_metric().is_empty());
        TextEncoder::new().encode_to_string(&self.0).expect("every family has a name and a sample")
    }
}

/// A family being written.
struct Family<'a>(&'a mut MetricFamily);

impl Family<'_> {
    /// Adds a sample.
    fn sample(&mut self, labels: &Labels<'_>, value: f64) {
        let pair = |(name, text): &(&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*text).to_owned());
            pair
        };
        let mut metric = Metric::from_label(labels.iter().map(pair).collect());
        match self.0.get_field_type() {
            MetricType::COUNTER => {
                let mut counter = proto::Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            _ => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        self.0.mut_metric().push(metric);
    }
}

/// The whole page.
pub fn render(stats: &Stats) -> String {
    let mut page = Page::default();
    page.family("info", Kind::Gauge, "The switch's version; always 1.")
        .sample(&[("version", &stats.version)], 1.0);
    page.family("uptime_seconds", Kind::Gauge, "Time since the datapath started.")
        .sample(&[], stats.uptime_ns as f64 * 1e-9);
    page.family("tsc_hertz", Kind::Gauge, "Ticks a second of the counter that cycles are counted in.")
        .sample(&[], stats.tsc_hz);
    page.family("tables_generation", Kind::Gauge, "Rises with every change of the tables.")
        .sample(&[], stats.generation as f64);
    workers(&mut page, &stats.workers);
    ports(&mut page, &stats.ports);
    services(&mut page, &stats.services);
    stuck(&mut page, &stats.workers);
    tables(&mut page, &stats.tables);
    page.text()
}

fn workers(page: &mut Page, workers: &[WorkerReport]) {
    let of: Vec<_> = workers.iter().map(|worker| (worker_labels(worker).to_vec(), worker)).collect();
    page.counters(WORKER, &of);
    let help = "Whether the worker answers: 1 or 0.";
    let mut family = page.family("worker_answers", Kind::Gauge, help);
    for worker in workers {
        let [(w, number), (c, core)] = worker_labels(worker);
        family.sample(&[(w, &number), (c, &core)], f64::from(u8::from(worker.stuck.is_none())));
    }
    let mut family = page.family("dropped_packets_total", Kind::Counter, "Packets dropped, by reason.");
    for worker in workers {
        for (reason, packets) in &worker.dropped {
            let [(w, number), (c, core)] = worker_labels(worker);
            family.sample(&[(w, &number), (c, &core), ("reason", reason)], *packets as f64);
        }
    }
    step_family(page, workers, "cycles", |step| step.cycles);
    step_family(page, workers, "packets", |step| step.packets);
}

fn step_family(page: &mut Page, workers: &[WorkerReport], what: &str, value: fn(&StepReport) -> u64) {
    let help = format!("Of the bursts that were sampled, {what} by step.");
    let mut family = page.family(&format!("step_{what}_total"), Kind::Counter, &help);
    for worker in workers {
        for step in &worker.steps {
            let [(w, number), (c, core)] = worker_labels(worker);
            family.sample(&[(w, &number), (c, &core), ("step", &step.step)], value(step) as f64);
        }
    }
}

fn worker_labels(worker: &WorkerReport) -> [(&'static str, String); 2] {
    [("worker", worker.worker.to_string()), ("core", worker.core.to_string())]
}

fn ports(page: &mut Page, ports: &[PortReport]) {
    let labels = |port: &PortReport| vec![("port", port.number.to_string()), ("name", port.name.clone())];
    let mut family = page.family("port_up", Kind::Gauge, "Whether the link is up: 1 or 0.");
    for port in ports {
        let up = f64::from(u8::from(port.link_up));
        family.sample(&[("port", &port.number.to_string()), ("name", &port.name)], up);
    }
    page.counters(PORT, &ports.iter().map(|port| (labels(port), port)).collect::<Vec<_>>());
    let mut family = page.family(
        "port_faults_total",
        Kind::Counter,
        "What a fault port did on purpose, or went wrong with an untrusted one's helpers, by name.",
    );
    for port in ports {
        for (fault, count) in port.faults.iter().filter(|(fault, _)| *fault != WAITING) {
            let labels = [("port", &*port.number.to_string()), ("name", &port.name), ("fault", fault)];
            family.sample(&labels, *count as f64);
        }
    }
    let mut family =
        page.family("port_waiting_packets", Kind::Gauge, "Packets that a fault port holds back.");
    for port in ports {
        if let Some(waiting) = port.faults.get(WAITING) {
            family.sample(&[("port", &port.number.to_string()), ("name", &port.name)], *waiting as f64);
        }
    }
}

fn stuck(page: &mut Page, workers: &[WorkerReport]) {
    let help = "For how long a worker has not come back from a service, while one does not.";
    let mut family = page.family("service_stuck_seconds", Kind::Gauge, help);
    for worker in workers {
        let Some(stuck) = &worker.stuck else { continue };
        let service = stuck.service.as_deref().unwrap_or_default();
        let [(w, number), (c, core)] = worker_labels(worker);
        family.sample(&[("service", service), (w, &number), (c, &core)], stuck.ns as f64 * 1e-9);
    }
}

fn services(page: &mut Page, services: &[ServiceStats]) {
    let labels = |service: &ServiceStats, worker| {
        vec![("service", service.name.clone()), ("kind", service.kind.clone()), ("worker", worker)]
    };
    let of: Vec<(Vec<(&str, String)>, &InstanceStats)> =
        instances(services).map(|(service, worker, instance)| (labels(service, worker), instance)).collect();
    page.counters(INSTANCE, &of);
    let mut family =
        page.family("service_quarantined", Kind::Gauge, "Whether the service is in quarantine: 1 or 0.");
    for (labels, instance) in &of {
        let labels: Vec<_> = labels.iter().map(|(name, text)| (*name, text.as_str())).collect();
        family.sample(&labels, f64::from(u8::from(instance.quarantine.is_some())));
    }
    let mut family = page.family("service_counter", Kind::Gauge, "What the service counts itself, by name.");
    for (service, worker, instance) in instances(services) {
        for (counter, value) in &instance.counters {
            let labels = [("service", service.name.as_str()), ("worker", &worker), ("counter", counter)];
            family.sample(&labels, *value as f64);
        }
    }
    let help = "What a zone and port have of the service's tables, of those that have most.";
    let mut family = page.family("service_share", Kind::Gauge, help);
    for (service, worker, instance) in instances(services) {
        for share in &instance.shares {
            let (zone, port) = (share.zone.to_string(), share.port.to_string());
            for (counter, value) in &share.counters {
                let labels = [
                    ("service", service.name.as_str()),
                    ("worker", &worker),
                    ("zone", &zone),
                    ("port", &port),
                    ("counter", counter),
                ];
                family.sample(&labels, *value as f64);
            }
        }
    }
}

fn instances(services: &[ServiceStats]) -> impl Iterator<Item = (&ServiceStats, String, &InstanceStats)> {
    services.iter().flat_map(|service| {
        service
            .instances
            .iter()
            .enumerate()
            .map(move |(worker, instance)| (service, worker.to_string(), instance))
    })
}

fn tables(page: &mut Page, tables: &[TableReport]) {
    let labels = |table: &TableReport| {
        vec![("table", table.table.to_string()), ("structure", table.structure.clone())]
    };
    page.counters(TABLE, &tables.iter().map(|table| (labels(table), table)).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::report;
    use std::collections::{BTreeMap, BTreeSet};

    /// A sample, as a reader of the format has it.
    #[derive(Debug, PartialEq)]
    struct Sample {
        name: String,
        labels: BTreeMap<String, String>,
        value: f64,
    }

    fn is_name(text: &str) -> bool {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Reads a line of samples by the rules of the exposition format, and panics where it breaks one.
    fn sample(line: &str) -> Sample {
        let name_len = line.find(['{', ' ']).expect("a sample has a value");
        let (name, mut rest) = line.split_at(name_len);
        assert!(is_name(name), "{line}");
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            loop {
                let (label, after) = rest.split_once("=\"").expect("a label has a value");
                assert!(is_name(label), "{line}");
                let mut text = String::new();
                let mut chars = after.char_indices();
                let end = loop {
                    match chars.next().expect("a label's value ends") {
                        (at, '"') => break at,
                        (_, '\\') => match chars.next().unwrap().1 {
                            'n' => text.push('\n'),
                            c @ ('\\' | '"') => text.push(c),
                            other => panic!("`\\{other}` is no escape: {line}"),
                        },
                        (_, c) => text.push(c),
                    }
                };
                assert!(labels.insert(label.to_owned(), text).is_none(), "label twice: {line}");
                rest = &after[end + 1..];
                match rest.strip_prefix(',') {
                    Some(more) => rest = more,
                    None => break,
                }
            }
            rest = rest.strip_prefix('}').expect("labels end");
        }
        let value = rest.strip_prefix(' ').expect("one space").parse().expect("a number");
        Sample { name: name.to_owned(), labels, value }
    }

    /// Reads a page: every family announced once, with help and type, its samples together, none twice.
    fn page(text: &str) -> Vec<Sample> {
        assert!(text.ends_with('\n'));
        let (mut families, mut samples) = (BTreeMap::new(), Vec::new());
        let (mut helped, mut current) = (BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(words.len() > 8 && helped.insert(name.to_owned()), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(helped.contains(name) && ["counter", "gauge"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
                current = name.to_owned();
            } else {
                let sample = sample(line);
                assert_eq!(sample.name, current, "samples of a family stand together");
                let twin = samples
                    .iter()
                    .any(|other: &Sample| other.name == sample.name && other.labels == sample.labels);
                assert!(!twin, "{line} is there twice");
                samples.push(sample);
            }
        }
        samples
    }

    #[test]
    fn a_page_keeps_the_rules_of_the_format_and_holds_what_was_counted() {
        let samples = page(&render(&Stats::new(&report(), "weir 1", 2.6e9)));
        let value = |name: &str, labels: &[(&str, &str)]| {
            let found = samples.iter().find(|sample| {
                sample.name == format!("weir_switch_{name}")
                    && labels
                        .iter()
                        .all(|(label, text)| sample.labels.get(*label).is_some_and(|is| is == text))
            });
            found.unwrap_or_else(|| panic!("{name} {labels:?}")).value
        };
        assert_eq!(value("uptime_seconds", &[]), 3.0);
        assert_eq!(value("received_packets_total", &[("worker", "1"), ("core", "2")]), 1000.0);
        assert_eq!(value("dropped_packets_total", &[("worker", "0"), ("reason", "ttl-expired")]), 20.0);
        assert_eq!(value("lookups_total", &[("by", "upcall")]), 20.0);
        assert_eq!(value("step_cycles_total", &[("step", "lookup")]), 4500.0);
        assert_eq!(value("port_up", &[("name", "right")]), 0.0);
        assert_eq!(value("service_quarantined", &[("service", "fw"), ("worker", "0")]), 1.0);
        assert_eq!(value("service_counter", &[("counter", "connections")]), 12.0);
        let share = [("zone", "5"), ("port", "2"), ("counter", "evicted")];
        assert_eq!(value("service_share", &share), 7.0);
        assert_eq!(value("service_stuck_seconds", &[("service", "fw"), ("worker", "1")]), 3.0);
        assert_eq!(value("worker_answers", &[("worker", "1")]), 0.0);
        assert_eq!(value("port_waiting_packets", &[("name", "right")]), 2.0);
        assert_eq!(value("port_faults_total", &[("fault", "lost"), ("name", "left")]), 5.0);
        assert_eq!(value("table_entries", &[("table", "3"), ("structure", "hash")]), 500.0);
    }

    /// All numbers of a table set, each to its own value.
    fn filled<T>(table: &[Counter<T>], mut part: T) -> T {
        for (place, counter) in table.iter().enumerate() {
            *(counter.slot)(&mut part) = 1 + place as u64;
        }
        part
    }

    /// The samples with this label are the table's, with the values of [`filled`], and beside them these only.
    fn has_all<T>(samples: &[Sample], (label, text): (&str, &str), table: &[Counter<T>], others: &[&str]) {
        let is_of = |sample: &&Sample| sample.labels.get(label).is_some_and(|of| of == text);
        let mut left: Vec<&Sample> = samples.iter().filter(is_of).collect();
        for (place, counter) in table.iter().enumerate() {
            let (family, label) = counter.metric;
            let is = |sample: &&Sample| {
                sample.name == format!("weir_switch_{family}")
                    && label.is_none_or(|(label, value)| sample.labels[label] == value)
            };
            let at = left.iter().position(is).unwrap_or_else(|| panic!("{} is missing", counter.name));
            assert_eq!(left.remove(at).value, 1.0 + place as f64, "{}", counter.name);
        }
        let names: Vec<&str> = left.iter().map(|sample| sample.name.as_str()).collect();
        assert_eq!(names, others);
    }

    #[test]
    fn the_page_has_every_counter_and_nothing_else_but_lists_by_name() {
        let mut stats = Stats::default();
        stats.workers.push(filled(WORKER, WorkerReport { worker: 3, core: 5, ..WorkerReport::default() }));
        stats.ports.push(filled(PORT, PortReport { number: 4, ..PortReport::default() }));
        let instances = vec![filled(INSTANCE, InstanceStats::default())];
        stats.services.push(ServiceStats { name: "fw".to_owned(), instances, ..ServiceStats::default() });
        stats.tables.push(filled(TABLE, TableReport { table: 9, ..TableReport::default() }));
        let samples = page(&render(&stats));
        has_all(&samples, ("worker", "3"), WORKER, &["weir_switch_worker_answers"]);
        has_all(&samples, ("port", "4"), PORT, &["weir_switch_port_up"]);
        has_all(&samples, ("service", "fw"), INSTANCE, &["weir_switch_service_quarantined"]);
        has_all(&samples, ("table", "9"), TABLE, &[]);
    }

    /// Queries of the dashboard that the package has, and the templates that name their results.
    fn queries() -> Vec<(String, String)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/weir-switch.json");
        let board: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let text = |target: &serde_json::Value, key: &str| target[key].as_str().unwrap().to_owned();
        let panels = board["panels"].as_array().unwrap();
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        targets.map(|target| (text(target, "expr"), text(target, "legendFormat"))).collect()
    }

    /// The words that stand between each `before` and the next `after`, with commas between them.
    fn listed<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
        let lists = text.split(before).skip(1).filter_map(|rest| rest.split(after).next());
        lists.flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn the_dashboard_asks_for_families_and_labels_that_the_page_has() {
        let samples = page(&render(&Stats::new(&report(), "weir 1", 2.6e9)));
        let mut asked = BTreeSet::new();
        for (query, legend) in queries() {
            let families: Vec<&str> = query
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| word.starts_with("weir_switch_"))
                .collect();
            assert!(!families.is_empty(), "{query}");
            // What Prometheus adds to each sample.
            let given = ["instance", "job"].map(str::to_owned);
            let mut labels: BTreeSet<String> = given.into_iter().collect();
            for (place, family) in families.iter().enumerate() {
                let found: Vec<&Sample> = samples.iter().filter(|sample| sample.name == *family).collect();
                assert!(!found.is_empty(), "the page has no {family}: {query}");
                let has: BTreeSet<String> =
                    found.iter().flat_map(|sample| sample.labels.keys().cloned()).collect();
                // A division or difference keeps the labels of its left side.
                if place == 0 {
                    labels.extend(has);
                }
                // A counter is asked for its rate, and nothing else is.
                let is_counter = family.ends_with("_total");
                let rated = query.contains(&format!("rate({family}{{"))
                    || query.contains(&format!("increase({family}{{"));
                assert_eq!(is_counter, rated, "{family}: {query}");
                asked.insert((*family).to_owned());
            }
            let grouped = [listed(&query, " by (", ')'), listed(&query, " on (", ')')].concat();
            for label in grouped.into_iter().chain(listed(&legend, "{{", '}')) {
                assert!(labels.contains(label), "samples have no label {label}: {query} as {legend}");
            }
        }
        assert!(asked.len() > 30, "{asked:?}");
    }

    #[test]
    fn labels_hold_whatever_names_hold() {
        let mut stats = Stats::new(&report(), "", 1.0);
        let odd = "a\\b\"c\nd{e}=,";
        stats.ports[0].name = odd.to_owned();
        let samples = page(&render(&stats));
        assert!(samples.iter().any(|sample| sample.labels.get("name").is_some_and(|name| name == odd)));
    }

    #[test]
    fn a_switch_without_anything_has_a_page_too() {
        assert!(page(&render(&Stats::default())).len() >= 4);
    }
}

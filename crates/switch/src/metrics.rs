//! Metrics as Prometheus reads them: text format 0.0.4, filled when they are asked for.
//!
//! Names begin with `weir_switch_`; counters end in `_total`, and units are base units, as Prometheus'
//! naming conventions have it. Cycles are ticks of the time stamp counter, whose rate is
//! `weir_switch_tsc_hertz`.

use crate::stats::counters::{COUNTERS, FAMILIES, Kind};
use crate::stats::{
    InstanceStats, PortStats, ServiceStats, Stats, StepStats, TableStats, WAITING, WorkerStats,
};
use std::fmt::Write as _;

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page being written.
struct Page(String);

impl Page {
    /// Begins a family of samples.
    fn family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = write!(
            self.0,
            "# HELP weir_switch_{name} {}\n# TYPE weir_switch_{name} {word}\n",
            escape_help(help)
        );
        Family { page: &mut self.0, name: name.to_owned() }
    }
}

struct Family<'a> {
    page: &'a mut String,
    name: String,
}

impl Family<'_> {
    /// Adds a sample.
    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.page, "weir_switch_{}", self.name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{before}{label}=\"{}\"", escape_label(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.page, "{end} {value}");
    }
}

fn escape_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn escape_label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The whole page.
pub fn render(stats: &Stats) -> String {
    let mut page = Page(String::new());
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
    page.0
}

type Of<T> = (&'static str, Kind, &'static str, fn(&T) -> u64);

fn workers(page: &mut Page, workers: &[WorkerStats]) {
    for family in COUNTERS.chunk_by(|a, b| a.metric.0 == b.metric.0) {
        let (name, kind) = (family[0].metric.0, family[0].kind);
        let help = FAMILIES.iter().find(|(one, _)| *one == name).map_or(family[0].help, |(_, help)| help);
        let mut samples = page.family(name, kind, help);
        for worker in workers {
            let [(w, number), (c, core)] = worker_labels(worker);
            for counter in family {
                let mut labels = vec![(w, number.as_str()), (c, core.as_str())];
                labels.extend(counter.metric.1);
                samples.sample(&labels, (counter.get)(worker) as f64);
            }
        }
    }
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

fn step_family(page: &mut Page, workers: &[WorkerStats], what: &str, value: fn(&StepStats) -> u64) {
    let help = format!("Of the bursts that were sampled, {what} by step.");
    let mut family = page.family(&format!("step_{what}_total"), Kind::Counter, &help);
    for worker in workers {
        for step in &worker.steps {
            let [(w, number), (c, core)] = worker_labels(worker);
            family.sample(&[(w, &number), (c, &core), ("step", &step.step)], value(step) as f64);
        }
    }
}

fn worker_labels(worker: &WorkerStats) -> [(&'static str, String); 2] {
    [("worker", worker.worker.to_string()), ("core", worker.core.to_string())]
}

fn ports(page: &mut Page, ports: &[PortStats]) {
    use Kind::{Counter, Gauge};
    const FAMILIES: &[Of<PortStats>] = &[
        ("port_up", Gauge, "Whether the link is up: 1 or 0.", |p| u64::from(p.link_up)),
        ("port_received_packets_total", Counter, "Packets received.", |p| p.received),
        ("port_received_bytes_total", Counter, "Bytes received, without FCS.", |p| p.received_bytes),
        ("port_sent_packets_total", Counter, "Packets sent.", |p| p.sent),
        ("port_sent_bytes_total", Counter, "Bytes sent, without FCS.", |p| p.sent_bytes),
        ("port_send_dropped_packets_total", Counter, "Packets that the port could not take.", |p| {
            p.send_dropped
        }),
        ("port_missed_packets_total", Counter, "Packets that the driver lost.", |p| p.missed),
        ("port_megaflows", Gauge, "Megaflows for what comes in by the port.", |p| p.megaflows),
        ("port_megaflows_evicted_total", Counter, "Megaflows of it that made room for others.", |p| {
            p.evicted
        }),
    ];
    for (name, kind, help, value) in FAMILIES {
        let mut family = page.family(name, *kind, help);
        for port in ports {
            family.sample(&[("port", &port.number.to_string()), ("name", &port.name)], value(port) as f64);
        }
    }
    let mut family = page.family("port_faults_total", Counter, "What a fault port did on purpose, by name.");
    for port in ports {
        for (fault, count) in port.faults.iter().filter(|(fault, _)| *fault != WAITING) {
            let labels = [("port", &*port.number.to_string()), ("name", &port.name), ("fault", fault)];
            family.sample(&labels, *count as f64);
        }
    }
    let mut family = page.family("port_waiting_packets", Gauge, "Packets that a fault port holds back.");
    for port in ports {
        if let Some(waiting) = port.faults.get(WAITING) {
            family.sample(&[("port", &port.number.to_string()), ("name", &port.name)], *waiting as f64);
        }
    }
}

fn stuck(page: &mut Page, workers: &[WorkerStats]) {
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
    use Kind::{Counter, Gauge};
    const FAMILIES: &[Of<InstanceStats>] = &[
        ("service_packets_total", Counter, "Packets the service was called for.", |i| i.packets),
        ("service_bursts_total", Counter, "Bursts the service was called for.", |i| i.bursts),
        ("service_dropped_packets_total", Counter, "Packets the service dropped.", |i| i.dropped),
        ("service_coalesced_packets_total", Counter, "Packets whose verdict was coalesced.", |i| i.coalesced),
        ("service_cycles_total", Counter, "Cycles the service took.", |i| i.cycles),
        ("service_panics_total", Counter, "Panics of the service.", |i| i.panics),
        ("service_overruns_total", Counter, "Bursts over the cycle budget.", |i| i.overruns),
        ("service_memory_bytes", Gauge, "State the service holds.", |i| i.memory),
        ("service_quarantined", Gauge, "Whether it is in quarantine: 1 or 0.", |i| {
            u64::from(i.quarantine.is_some())
        }),
    ];
    for (name, kind, help, value) in FAMILIES {
        let mut family = page.family(name, *kind, help);
        for (service, worker, instance) in instances(services) {
            let labels = [("service", service.name.as_str()), ("kind", &service.kind), ("worker", &worker)];
            family.sample(&labels, value(instance) as f64);
        }
    }
    let mut family = page.family("service_counter", Gauge, "What the service counts itself, by name.");
    for (service, worker, instance) in instances(services) {
        for (counter, value) in &instance.counters {
            let labels = [("service", service.name.as_str()), ("worker", &worker), ("counter", counter)];
            family.sample(&labels, *value as f64);
        }
    }
    let help = "What a zone and port have of the service's tables, of those that have most.";
    let mut family = page.family("service_share", Gauge, help);
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

fn tables(page: &mut Page, tables: &[TableStats]) {
    const FAMILIES: &[Of<TableStats>] = &[
        ("table_entries", Kind::Gauge, "Flow entries.", |t| t.entries),
        ("table_lookups_total", Kind::Counter, "Packets looked up.", |t| t.lookups),
        ("table_matched_total", Kind::Counter, "Packets for which an entry was found.", |t| t.matched),
    ];
    for (name, kind, help, value) in FAMILIES {
        let mut family = page.family(name, *kind, help);
        for table in tables {
            let labels = [("table", table.table.to_string()), ("structure", table.structure.clone())];
            family.sample(&labels.each_ref().map(|(k, v)| (*k, v.as_str())), value(table) as f64);
        }
    }
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

    #[test]
    fn the_page_has_every_counter_of_a_worker_and_nothing_else_but_lists_by_name() {
        let mut stats = Stats::default();
        stats.workers.push(WorkerStats { worker: 3, core: 5, ..WorkerStats::default() });
        for (place, counter) in COUNTERS.iter().enumerate() {
            *(counter.slot)(&mut stats.workers[0]) = 1 + place as u64;
        }
        let samples = page(&render(&stats));
        let mut left: Vec<&Sample> =
            samples.iter().filter(|sample| sample.labels.get("worker").is_some_and(|w| w == "3")).collect();
        for (place, counter) in COUNTERS.iter().enumerate() {
            let (family, label) = counter.metric;
            let is = |sample: &&Sample| {
                sample.name == format!("weir_switch_{family}")
                    && label.is_none_or(|(label, value)| sample.labels[label] == value)
            };
            let at = left.iter().position(is).unwrap_or_else(|| panic!("{} is missing", counter.name));
            assert_eq!(left.remove(at).value, 1.0 + place as f64, "{}", counter.name);
        }
        let names: Vec<&str> = left.iter().map(|sample| sample.name.as_str()).collect();
        assert_eq!(names, ["weir_switch_worker_answers"]);
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

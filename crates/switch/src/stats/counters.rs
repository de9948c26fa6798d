//! Every number of the ledger, said once: of workers, ports, services and tables.
//!
//! These tables feed what lies between two readings (`since.rs`), the metrics (`metrics.rs`), the text of
//! `weir switch stats` and the lists in `docs/switch.md`; the document's fields are [`WorkerReport`] and its like
//! themselves. Tests compare each of them with the tables, so that a number that is new in one of them has to be in all.
//!
//! What is counted by name (drops by reason, steps, faults, what services count themselves) has lists of its own.

use super::{InstanceStats, PortReport, TableReport, WorkerReport};

/// Whether a number is added up, or is a state that comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows: between two readings lies their difference.
    Counter,
    /// It only grows, and so seldom that all of it is wanted: of two readings the later one holds.
    Total,
    /// A state: of two readings the later one holds.
    Gauge,
}

/// What a number is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Lookups of packets.
    Lookups,
    /// Bursts of packets.
    Bursts,
    /// Ticks of the time stamp counter.
    Cycles,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Megaflows.
    Megaflows,
    /// Masks of megaflows.
    Masks,
    /// Edges of the table walk's graph.
    Edges,
    /// Places of tables that give hints.
    Places,
    /// Sleeps and rests.
    Sleeps,
    /// Entries of tables and caches.
    Entries,
    /// Whatever happened so many times.
    Times,
    /// Ticks of the time stamp counter, of one packet.
    CyclesEach,
}

impl Unit {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Lookups => "lookups",
            Self::Bursts => "bursts",
            Self::Cycles => "cycles",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Megaflows => "megaflows",
            Self::Masks => "masks",
            Self::Edges => "edges",
            Self::Entries => "entries",
            Self::Times => "times",
            Self::Places => "places",
            Self::Sleeps => "sleeps",
            Self::CyclesEach => "cycles a packet",
        }
    }
}

/// Where a number stands in the text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// In the sum: what came.
    Came,
    /// In the sum: what became of it.
    Went,
    /// Below the sum, put in relation to it.
    Work,
    /// How the worker waited for packets.
    Waiting,
    /// What answered lookups, each by its share.
    Lookups,
    /// What else the caches did, and what is in them.
    Caches,
    /// What hints were worth, each by its share.
    Hinted,
    /// What the tables that give hints did, and what is in them.
    Hints,
    /// A column of its port's, service's or table's row.
    Row,
    /// In a note below the rows, or not at all.
    Aside,
}

/// One number of a worker, a port, a service's instance or a table.
#[derive(Clone, Copy, Debug)]
pub struct Counter<T: 'static> {
    /// Its place in that part of the document, such as `caches.exact_hits`.
    pub name: &'static str,
    /// Whether it is added up.
    pub kind: Kind,
    /// What it is a number of.
    pub unit: Unit,
    /// Its family among the metrics, without `weir_switch_`, and its label there if the family has several.
    pub metric: (&'static str, Option<(&'static str, &'static str)>),
    /// Where it stands in the text.
    pub section: Section,
    /// What it is called there.
    pub words: &'static str,
    /// What it means, in a sentence.
    pub help: &'static str,
    /// The number.
    pub get: fn(&T) -> u64,
    /// The same, to be changed.
    pub slot: fn(&mut T) -> &mut u64,
}

macro_rules! counters {
    ($(#[$about:meta])* $table:ident of $of:ident { $($field:ident$(.$below:ident)? $kind:ident $unit:ident
        $section:ident $words:literal $family:literal $([$label:ident $value:literal])? $help:literal;)* }) => {
        $(#[$about])*
        pub const $table: &[Counter<$of>] = &[$(Counter {
            name: concat!(stringify!($field) $(, ".", stringify!($below))?),
            kind: Kind::$kind,
            unit: Unit::$unit,
            metric: ($family, counters!(@label $($label $value)?)),
            section: Section::$section,
            words: $words,
            help: $help,
            get: |of| of.$field$(.$below)?,
            slot: |of| &mut of.$field$(.$below)?,
        },)*];
    };
    (@label) => { None };
    (@label $label:ident $value:literal) => { Some((stringify!($label), $value)) };
}

counters! {
    /// A worker's, in the order in which they are told. Numbers of a family stand together.
    WORKER of WorkerReport {
    received Counter Packets Came "received" "received_packets_total"
        "Packets received from ports.";
    injected Counter Packets Came "injected" "injected_packets_total"
        "Packets made by others than ports: packet-outs.";
    copied Counter Packets Came "copied" "copied_packets_total"
        "Copies made, by outputs that were not the last.";
    taken_over Counter Packets Came "taken over" "taken_over_packets_total"
        "Packets taken from other workers.";
    sent Counter Packets Went "sent" "sent_packets_total"
        "Packets that ports took.";
    to_controller Counter Packets Went "to controller" "controller_packets_total"
        "Packets given to the queue to the controller.";
    handed_over Counter Packets Went "handed over" "handed_over_packets_total"
        "Packets given to other workers, which own their flows.";
    held Gauge Packets Went "held" "held_packets"
        "Packets in the worker's hands.";
    bursts Counter Bursts Work "packets/burst" "bursts_total"
        "Bursts received that were not empty.";
    busy_cycles Counter Cycles Work "cycles/packet" "busy_cycles_total"
        "Cycles of polls that found packets.";
    waiting.sleeps Counter Sleeps Waiting "sleeps" "sleeps_total"
        "Sleeps for want of packets.";
    waiting.slept_ns Counter Nanoseconds Waiting "asleep" "slept_nanoseconds_total"
        "Time slept for want of packets.";
    waiting.late Counter Sleeps Waiting "too long" "late_sleeps_total"
        "Sleeps longer than a packet may wait.";
    waiting.hints Counter Sleeps Waiting "power hints" "power_hints_total"
        "Rests by the CPU's power hint.";
    caches.shortcut_hits Counter Lookups Lookups "fast path" "lookups_total" [by "shortcut"]
        "Packets that took the fast path, past the other caches.";
    caches.exact_hits Counter Lookups Lookups "exact-match cache" "lookups_total" [by "exact-match"]
        "Lookups that the exact-match cache answered.";
    caches.megaflow_hits Counter Lookups Lookups "megaflow cache" "lookups_total" [by "megaflow"]
        "Lookups that the megaflow cache answered.";
    caches.direct Counter Lookups Lookups "tables, directly" "lookups_total" [by "direct"]
        "Lookups that the tables answered directly, without a megaflow.";
    caches.upcalls Counter Lookups Lookups "upcalls" "lookups_total" [by "upcall"]
        "Lookups that went to the slow path, to have a megaflow made.";
    caches.coalesced Counter Packets Caches "coalesced" "coalesced_packets_total"
        "Packets that went on by coalescing, without a lookup.";
    caches.revoked Counter Packets Caches "revoked" "revoked_packets_total"
        "Packets whose coalescing was revoked.";
    caches.revalidated Counter Megaflows Caches "revalidated" "revalidated_total"
        "Megaflows that table changes had touched, looked at again.";
    caches.repeated Counter Lookups Caches "in runs" "lookups_repeated_total"
        "Lookups of packets right behind another of their flow, which took its answer from the exact-match cache.";
    caches.remembered Counter Entries Caches "fast-path entries remembered" "fast_path_remembered_total"
        "Entries that the fast path remembered.";
    caches.outlived Counter Megaflows Caches "outlived changes" "outlived_total"
        "Megaflows found that are older than the tables, and that no change since concerns.";
    caches.elsewhere Counter Times Caches "changes elsewhere" "changes_elsewhere_total"
        "Times that the tables changed where no megaflow's packets go: the change cost the megaflows nothing.";
    caches.lapsed Counter Entries Caches "fast-path entries lapsed" "fast_path_lapsed_total"
        "Entries of the fast path that a change of the tables concerned, when a packet next met them.";
    caches.restarts Counter Times Caches "fast-path restarts" "fast_path_restarts_total"
        "Times that the fast path forgot all its entries: its header mask changed, or it grew.";
    caches.stepped_aside Counter Packets Caches "fast path stepped aside" "fast_path_stepped_aside_packets_total"
        "Packets that were not looked up on the fast path, which had found less than half.";
    caches.newcomers Counter Lookups Caches "newcomers" "newcomers_total"
        "Lookups of flows that the new-flow filter did not know: they walk the tables where they can.";
    caches.refused Counter Lookups Caches "upcalls refused" "upcalls_refused_total"
        "Lookups for which the port's upcall budget had no megaflow left.";
    caches.idle Counter Megaflows Caches "left idle" "megaflows_idle_total"
        "Megaflows that went because no packet of theirs came for long.";
    caches.cleared Counter Times Caches "graphs cleared" "graphs_cleared_total"
        "Times that the table walk's graph was cleared because of a change.";
    caches.evicted Counter Megaflows Caches "megaflows that made room" "megaflows_evicted_total"
        "Megaflows that had to make room for others: of ports that had more than their share.";
    caches.megaflows Gauge Megaflows Caches "megaflows" "megaflows"
        "Megaflows in the cache.";
    caches.masks Gauge Masks Caches "masks" "masks"
        "Masks that the megaflows have.";
    caches.most_masks Gauge Masks Caches "most masks of a port and stage" "most_masks"
        "The most masks that any port and stage has: so many probes a lookup costs at most.";
    caches.edges Gauge Edges Caches "edges" "edges"
        "Edges of the table walk's graph.";
    caches.memory Gauge Bytes Caches "memory" "cache_bytes"
        "Bytes that the caches and that graph take, about.";
    hints.hits Counter Packets Hinted "right" "hints_total" [hint "right"]
        "Packets whose hint was right: they were not looked up.";
    hints.missed Counter Packets Hinted "missing" "hints_total" [hint "missing"]
        "Packets without a hint.";
    hints.stale Counter Packets Hinted "stale" "hints_total" [hint "stale"]
        "Packets whose hint named a megaflow that is no more.";
    hints.wrong Counter Packets Hinted "wrong" "hints_total" [hint "wrong"]
        "Packets whose hint named a megaflow that they do not belong to, or nothing.";
    hints.written Counter Megaflows Hints "written" "hint_writes_total"
        "Megaflows written into tables that give hints.";
    hints.evicted Counter Megaflows Hints "evicted" "hint_evictions_total"
        "Megaflows that left full tables for others.";
    hints.full Counter Megaflows Hints "no room" "hint_full_total"
        "Megaflows that a full table had no room for at once.";
    hints.places Gauge Places Hints "places" "hint_places"
        "Places of the tables that give hints.";
    hints.entries Gauge Places Hints "taken" "hint_entries"
        "Places that are taken of the tables that give hints.";
    hints.emulated_cycles Counter Cycles Hints "cycles of emulation" "hint_emulated_cycles_total"
        "Cycles that emulating tables took: neither in `busy_cycles` nor in any step.";
    }
}

counters! {
    /// A port's.
    PORT of PortReport {
    received Counter Packets Row "received" "port_received_packets_total"
        "Packets received.";
    received_bytes Counter Bytes Aside "received" "port_received_bytes_total"
        "Bytes received, without FCS.";
    sent Counter Packets Row "sent" "port_sent_packets_total"
        "Packets sent.";
    sent_bytes Counter Bytes Aside "sent" "port_sent_bytes_total"
        "Bytes sent, without FCS.";
    send_dropped Counter Packets Row "not taken" "port_send_dropped_packets_total"
        "Packets that the port could not take.";
    missed Counter Packets Row "missed" "port_missed_packets_total"
        "Packets that the driver lost before Weir saw them.";
    megaflows Gauge Megaflows Aside "megaflows" "port_megaflows"
        "Megaflows for what comes in by the port.";
    evicted Counter Megaflows Aside "megaflows that made room" "port_megaflows_evicted_total"
        "Megaflows of the port that made room for others: it had more than its share.";
    }
}

counters! {
    /// Of a service's instance on one worker.
    INSTANCE of InstanceStats {
    packets Counter Packets Row "packets" "service_packets_total"
        "Packets the service was called for.";
    bursts Counter Bursts Aside "bursts" "service_bursts_total"
        "Bursts the service was called for.";
    dropped Counter Packets Row "dropped" "service_dropped_packets_total"
        "Packets the service dropped, panics and quarantine included.";
    coalesced Counter Packets Row "coalesced" "service_coalesced_packets_total"
        "Packets whose verdict was coalesced.";
    cycles Counter Cycles Row "cycles" "service_cycles_total"
        "Cycles the service took.";
    panics Total Times Row "panics" "service_panics_total"
        "Panics of the service.";
    overruns Total Bursts Row "overruns" "service_overruns_total"
        "Bursts over the cycle budget.";
    worst_cycles Gauge CyclesEach Row "worst" "service_worst_cycles"
        "The most cycles a packet that a burst took.";
    memory Gauge Bytes Row "state of" "service_memory_bytes"
        "State the service holds, as it says itself.";
    heap Gauge Bytes Aside "heap" "service_heap_bytes"
        "Bytes that the service allocated and holds, as the allocator counts them.";
    builds Total Times Aside "builds" "service_builds_total"
        "How often the service was built: once, and again after panics.";
    worst_build_cycles Gauge Cycles Aside "worst build" "service_worst_build_cycles"
        "The most cycles that a building took.";
    }
}

counters! {
    /// A table's.
    TABLE of TableReport {
    entries Gauge Entries Row "entries" "table_entries"
        "Flow entries.";
    lookups Counter Packets Row "looked up" "table_lookups_total"
        "Packets looked up.";
    matched Counter Packets Row "matched" "table_matched_total"
        "Packets for which an entry was found.";
    masks Gauge Masks Row "masks" "table_masks"
        "Masks that the table's entries have.";
    memory Gauge Bytes Row "memory" "table_memory_bytes"
        "Bytes that the entries' matches and the structures take, about.";
    }
}

/// What families of several numbers count.
pub const FAMILIES: &[(&str, &str)] = &[
    ("lookups_total", "Lookups, by what answered."),
    ("hints_total", "Packets by what their hint was worth."),
];

/// A worker's numbers of a part of the text.
pub fn of(section: Section) -> impl Iterator<Item = &'static Counter<WorkerReport>> + Clone {
    WORKER.iter().filter(move |counter| counter.section == section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stats;
    use crate::stats::ServiceStats;
    use crate::stats::tests::report;
    use serde::Serialize;
    use std::collections::BTreeSet;

    /// What is no number of a table: what it is that is counted, and lists by name.
    const OTHERS_OF_WORKERS: &[&str] = &["worker", "core", "thread", "dropped", "steps", "stuck"];
    const OTHERS_OF_PORTS: &[&str] = &["number", "name", "spec", "link_up", "faults", "trouble", "hints"];
    const OTHERS_OF_INSTANCES: &[&str] = &["last_panic", "quarantine", "counters", "shares"];
    const OTHERS_OF_TABLES: &[&str] = &["table", "structure"];

    /// The table names every number of this part of the document and nothing else, each once.
    fn names_all<T: Serialize>(table: &[Counter<T>], part: &T, others: &[&str]) {
        let part = serde_json::to_value(part).unwrap();
        let mut found = BTreeSet::new();
        for (name, value) in
            part.as_object().unwrap().iter().filter(|(name, _)| !others.contains(&name.as_str()))
        {
            match value.as_object() {
                Some(below) => found.extend(below.keys().map(|key| format!("{name}.{key}"))),
                None => drop(found.insert(name.clone())),
            }
        }
        let names: BTreeSet<String> = table.iter().map(|counter| counter.name.to_owned()).collect();
        assert_eq!(found, names);
        assert_eq!(table.len(), names.len(), "a name is there twice");
    }

    #[test]
    fn the_document_has_every_counter_and_nothing_else() {
        let stats = Stats::new(&report(), "", 1.0);
        names_all(WORKER, &stats.workers[0], OTHERS_OF_WORKERS);
        names_all(PORT, &stats.ports[0], OTHERS_OF_PORTS);
        names_all(INSTANCE, &stats.services[0].instances[0], OTHERS_OF_INSTANCES);
        names_all(TABLE, &stats.tables[0], OTHERS_OF_TABLES);
    }

    fn read_and_change<T: Serialize + Default>(table: &[Counter<T>]) {
        for (place, counter) in table.iter().enumerate() {
            let mut part = T::default();
            *(counter.slot)(&mut part) = 7 + place as u64;
            assert_eq!((counter.get)(&part), 7 + place as u64, "{}", counter.name);
            let document = serde_json::to_value(&part).unwrap();
            let field = counter.name.split('.').fold(&document, |at, name| &at[name]);
            assert_eq!(field.as_u64(), Some(7 + place as u64), "{}", counter.name);
        }
    }

    #[test]
    fn a_counter_reads_and_changes_the_field_that_it_names() {
        read_and_change(WORKER);
        read_and_change(PORT);
        read_and_change(INSTANCE);
        read_and_change(TABLE);
    }

    /// All numbers of a table set to one value.
    fn filled<T: Default>(table: &[Counter<T>], value: u64) -> T {
        let mut part = T::default();
        table.iter().for_each(|counter| *(counter.slot)(&mut part) = value);
        part
    }

    fn all(value: u64) -> Stats {
        let mut stats = Stats::default();
        stats.workers.push(filled(WORKER, value));
        stats.ports.push(filled(PORT, value));
        stats
            .services
            .push(ServiceStats { instances: vec![filled(INSTANCE, value)], ..ServiceStats::default() });
        stats.tables.push(filled(TABLE, value));
        stats
    }

    fn is_left<T>(table: &[Counter<T>], part: &T) {
        for counter in table {
            let left = if counter.kind == Kind::Counter { 70 } else { 100 };
            assert_eq!((counter.get)(part), left, "{}", counter.name);
        }
    }

    #[test]
    fn between_two_readings_counters_are_subtracted_and_states_stay() {
        let since = all(100).since(&all(30));
        is_left(WORKER, &since.workers[0]);
        is_left(PORT, &since.ports[0]);
        is_left(INSTANCE, &since.services[0].instances[0]);
        is_left(TABLE, &since.tables[0]);
    }

    type Metric = (&'static str, Option<(&'static str, &'static str)>);

    fn told_apart<T>(table: &[Counter<T>], prefix: &str, seen: &mut Vec<Metric>) {
        for counter in table {
            let (family, label) = counter.metric;
            assert!(family.starts_with(prefix), "{family}");
            let known = seen.iter().filter(|(other, _)| *other == family).count();
            let alone = !FAMILIES.iter().any(|(other, _)| *other == family);
            assert_eq!(alone, label.is_none(), "{family}");
            assert!(known == 0 || !alone && seen.last().is_some_and(|(last, _)| *last == family), "{family}");
            assert!(!seen.contains(&counter.metric), "{family} {label:?} is there twice");
            assert_eq!(family.ends_with("_total"), counter.kind != Kind::Gauge, "{family}");
            assert!(counter.help.ends_with('.'), "{}", counter.help);
            seen.push(counter.metric);
        }
    }

    #[test]
    fn numbers_of_a_family_stand_together_and_are_told_apart() {
        let mut seen = Vec::new();
        told_apart(WORKER, "", &mut seen);
        told_apart(PORT, "port_", &mut seen);
        told_apart(INSTANCE, "service_", &mut seen);
        told_apart(TABLE, "table_", &mut seen);
    }

    fn list<T>(of: &str, table: &[Counter<T>]) -> String {
        let mut list = format!("| {of} | unit | among the metrics | what it counts |\n|---|---|---|---|\n");
        for Counter { name, kind, unit, metric: (family, label), help, .. } in table {
            let label = label.map_or(String::new(), |(label, value)| format!("{{{label}=\"{value}\"}}"));
            let state = if *kind == Kind::Gauge { ", a state" } else { "" };
            list += &format!("| `{name}` | {}{state} | `{family}{label}` | {help} |\n", unit.name());
        }
        list
    }

    #[test]
    fn the_documents_list_every_counter() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switch.md")).unwrap();
        for list in [
            list("`workers`", WORKER),
            list("`ports`", PORT),
            list("`services.instances`", INSTANCE),
            list("`tables`", TABLE),
        ] {
            assert!(page.contains(&list), "docs/switch.md does not have this list of counters:\n{list}");
        }
    }
}

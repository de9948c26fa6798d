//! Every number that a worker counts, said once.
//!
//! The table feeds what lies between two readings (`since.rs`), the metrics (`metrics.rs`), the text of
//! `weir switch stats` and the list in `docs/switch.md`; the document's fields are [`WorkerStats`] itself. Tests compare
//! each of them with the table, so that a number that is new in one of them has to be in all.
//!
//! What is counted by name (drops by reason, steps, services) has a list of its own.

use super::WorkerStats;

/// Whether a number is added up, or is a state that comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows: between two readings lies their difference.
    Counter,
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
            Self::Places => "places",
            Self::Sleeps => "sleeps",
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
}

/// One number of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Its place in a worker's part of the document, such as `caches.exact_hits`.
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
    pub get: fn(&WorkerStats) -> u64,
    /// The same, to be changed.
    pub slot: fn(&mut WorkerStats) -> &mut u64,
}

macro_rules! counters {
    ($($field:ident$(.$below:ident)? $kind:ident $unit:ident $section:ident $words:literal $family:literal
        $([$label:ident $value:literal])? $help:literal;)*) => {
        /// Every number that a worker counts, in the order in which they are told. Numbers of a family stand together.
        pub const COUNTERS: &[Counter] = &[$(Counter {
            name: concat!(stringify!($field) $(, ".", stringify!($below))?),
            kind: Kind::$kind,
            unit: Unit::$unit,
            metric: ($family, counters!(@label $($label $value)?)),
            section: Section::$section,
            words: $words,
            help: $help,
            get: |worker| worker.$field$(.$below)?,
            slot: |worker| &mut worker.$field$(.$below)?,
        },)*];
    };
    (@label) => { None };
    (@label $label:ident $value:literal) => { Some((stringify!($label), $value)) };
}

counters! {
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

/// What families of several numbers count.
pub const FAMILIES: &[(&str, &str)] = &[
    ("lookups_total", "Lookups, by what answered."),
    ("hints_total", "Packets by what their hint was worth."),
];

/// The numbers of a part of the text.
pub fn of(section: Section) -> impl Iterator<Item = &'static Counter> + Clone {
    COUNTERS.iter().filter(move |counter| counter.section == section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stats;
    use crate::stats::tests::report;
    use std::collections::BTreeSet;

    /// Of a worker's part of the document, what is no number of the table: who it is, and lists by name.
    const OTHERS: [&str; 6] = ["worker", "core", "thread", "dropped", "steps", "stuck"];

    fn names() -> BTreeSet<String> {
        COUNTERS.iter().map(|counter| counter.name.to_owned()).collect()
    }

    #[test]
    fn the_document_has_every_counter_and_nothing_else() {
        let worker = serde_json::to_value(&Stats::new(&report(), "", 1.0).workers[0]).unwrap();
        let mut found = BTreeSet::new();
        for (name, value) in
            worker.as_object().unwrap().iter().filter(|(name, _)| !OTHERS.contains(&name.as_str()))
        {
            match value.as_object() {
                Some(below) => found.extend(below.keys().map(|key| format!("{name}.{key}"))),
                None => drop(found.insert(name.clone())),
            }
        }
        assert_eq!(found, names());
        assert_eq!(COUNTERS.len(), names().len(), "a name is there twice");
    }

    #[test]
    fn a_counter_reads_and_changes_the_field_that_it_names() {
        for (place, counter) in COUNTERS.iter().enumerate() {
            let mut worker = WorkerStats::default();
            *(counter.slot)(&mut worker) = 7 + place as u64;
            assert_eq!((counter.get)(&worker), 7 + place as u64, "{}", counter.name);
            let document = serde_json::to_value(&worker).unwrap();
            let field = counter.name.split('.').fold(&document, |at, name| &at[name]);
            assert_eq!(field.as_u64(), Some(7 + place as u64), "{}", counter.name);
        }
    }

    #[test]
    fn between_two_readings_counters_are_subtracted_and_gauges_stay() {
        let mut before = Stats::default();
        before.workers.push(WorkerStats::default());
        let mut after = before.clone();
        for counter in COUNTERS {
            *(counter.slot)(&mut before.workers[0]) = 30;
            *(counter.slot)(&mut after.workers[0]) = 100;
        }
        let since = after.since(&before);
        for counter in COUNTERS {
            let left = if counter.kind == Kind::Counter { 70 } else { 100 };
            assert_eq!((counter.get)(&since.workers[0]), left, "{}", counter.name);
        }
    }

    #[test]
    fn numbers_of_a_family_stand_together_and_are_told_apart() {
        let mut seen: Vec<(&str, Option<(&str, &str)>)> = Vec::new();
        for counter in COUNTERS {
            let (family, label) = counter.metric;
            let known = seen.iter().filter(|(other, _)| *other == family).count();
            let alone = !FAMILIES.iter().any(|(other, _)| *other == family);
            assert_eq!(alone, label.is_none(), "{family}");
            assert!(known == 0 || !alone && seen.last().is_some_and(|(last, _)| *last == family), "{family}");
            assert!(!seen.contains(&counter.metric), "{family} {label:?} is there twice");
            assert_eq!(family.ends_with("_total"), counter.kind == Kind::Counter, "{family}");
            assert!(counter.help.ends_with('.'), "{}", counter.help);
            seen.push(counter.metric);
        }
    }

    #[test]
    fn the_documents_list_every_counter() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switch.md")).unwrap();
        let mut list =
            "| in the document | unit | among the metrics | what it counts |\n|---|---|---|---|\n".to_owned();
        for Counter { name, kind, unit, metric: (family, label), help, .. } in COUNTERS {
            let label = label.map_or(String::new(), |(label, value)| format!("{{{label}=\"{value}\"}}"));
            let state = if *kind == Kind::Gauge { ", a state" } else { "" };
            list += &format!("| `{name}` | {}{state} | `{family}{label}` | {help} |\n", unit.name());
        }
        assert!(
            page.contains(&list),
            "docs/switch.md does not have this list of a worker's counters:\n{list}"
        );
    }
}

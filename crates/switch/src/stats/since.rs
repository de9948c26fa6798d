//! What was counted between two readings of the ledger.
//!
//! Counts are subtracted; states stay as they are in the later reading. A test goes over all numbers of the
//! document, so that a new one is either.

use super::counters::{Counter, INSTANCE, Kind, PORT, TABLE, WORKER};
use super::{PortReport, Stats, WAITING, WorkerReport};

impl Stats {
    /// What was counted since an earlier reading of the same switch; what is a state (held packets,
    /// megaflows, entries, links) stays as it is now. What was not there then counts whole.
    pub fn since(&self, before: &Self) -> Self {
        let mut out = self.clone();
        out.uptime_ns = self.uptime_ns.saturating_sub(before.uptime_ns);
        for worker in &mut out.workers {
            if let Some(before) = before.workers.iter().find(|other| other.worker == worker.worker) {
                subtract_worker(worker, before);
            }
        }
        for port in &mut out.ports {
            if let Some(before) = before.ports.iter().find(|other| other.number == port.number) {
                subtract_port(port, before);
            }
        }
        for service in &mut out.services {
            let before = before.services.iter().find(|other| other.name == service.name);
            for (instance, before) in
                service.instances.iter_mut().zip(before.map_or(&[][..], |before| &before.instances))
            {
                subtract(INSTANCE, instance, before);
            }
        }
        for table in &mut out.tables {
            if let Some(before) = before.tables.iter().find(|other| other.table == table.table) {
                subtract(TABLE, table, before);
            }
        }
        out
    }
}

/// Subtracts what is counted, down to zero: a port or service of the same name may have been replaced meanwhile.
fn subtract<T>(table: &[Counter<T>], from: &mut T, before: &T) {
    for counter in table.iter().filter(|counter| counter.kind == Kind::Counter) {
        less((counter.slot)(from), (counter.get)(before));
    }
}

fn less(count: &mut u64, before: u64) {
    *count = count.saturating_sub(before);
}

fn subtract_port(port: &mut PortReport, before: &PortReport) {
    subtract(PORT, port, before);
    for (fault, count) in port.faults.iter_mut().filter(|(fault, _)| *fault != WAITING) {
        less(count, before.faults.get(fault).copied().unwrap_or(0));
    }
}

fn subtract_worker(worker: &mut WorkerReport, before: &WorkerReport) {
    subtract(WORKER, worker, before);
    for (reason, packets) in &mut worker.dropped {
        less(packets, before.dropped.get(reason).copied().unwrap_or(0));
    }
    for step in &mut worker.steps {
        if let Some(before) = before.steps.iter().find(|other| other.step == step.step) {
            less(&mut step.packets, before.packets);
            less(&mut step.cycles, before.cycles);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::report;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn what_was_counted_between_two_readings_is_their_difference() {
        let before = Stats::new(&report(), "", 1.0);
        let mut after = before.clone();
        after.uptime_ns += 1_000_000_000;
        after.workers[1].received += 50;
        after.workers[1].dropped.insert("meter".into(), 4);
        after.ports[0].sent += 9;
        after.ports[0].faults.insert("lost".into(), 12);
        after.tables[0].lookups += 11;
        after.services[0].instances[0].packets += 3;
        after.services[0].instances[1].cycles += 5;
        let since = after.since(&before);
        assert_eq!((since.uptime_ns, since.received(), since.sent()), (1_000_000_000, 50, 0));
        assert_eq!((since.drops()["meter"], since.drops()["no-match"]), (4, 0));
        assert_eq!((since.ports[0].sent, since.ports[1].sent, since.tables[0].lookups), (9, 0, 11));
        assert_eq!((since.ports[0].faults["lost"], since.ports[0].faults["waiting"]), (7, 2));
        let instances = &since.services[0].instances;
        assert_eq!((instances[0].packets, instances[1].cycles), (3, 5));
        assert_eq!((since.workers[0].held, since.workers[0].caches.megaflows), (20, 17), "states stay");
        assert_eq!(after.since(&Stats::default()).received(), after.received());
    }

    /// The names of all numbers that are not zero, without places in lists.
    fn numbers(of: &Value, name: &str, found: &mut BTreeSet<String>) {
        let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match of {
            Value::Number(number) if number.as_f64() != Some(0.0) => drop(found.insert(name.to_owned())),
            Value::Array(list) => list.iter().for_each(|one| numbers(one, name, found)),
            Value::Object(fields) => fields.iter().for_each(|(key, one)| numbers(one, &below(key), found)),
            _ => {}
        }
    }

    #[test]
    fn between_a_reading_and_itself_nothing_is_left_but_states() {
        const STATES: &[&str] = &[
            "generation",
            "ports.faults.waiting",
            "ports.megaflows",
            "ports.number",
            "schema",
            "services.instances.builds",
            "services.instances.counters",
            "services.instances.heap",
            "services.instances.memory",
            "services.instances.overruns",
            "services.instances.panics",
            "services.instances.shares.counters",
            "services.instances.shares.port",
            "services.instances.shares.zone",
            "services.instances.worst_build_cycles",
            "services.instances.worst_cycles",
            "tables.entries",
            "tables.masks",
            "tables.memory",
            "tables.table",
            "tsc_hz",
            "workers.caches.edges",
            "workers.caches.masks",
            "workers.caches.megaflows",
            "workers.caches.memory",
            "workers.caches.most_masks",
            "workers.core",
            "workers.held",
            "workers.hints.entries",
            "workers.hints.places",
            "workers.stuck.ns",
            "workers.thread",
            "workers.worker",
        ];
        let stats = Stats::new(&report(), "", 1.0);
        let mut left = BTreeSet::new();
        numbers(&serde_json::to_value(stats.since(&stats)).unwrap(), "", &mut left);
        assert_eq!(left.iter().map(String::as_str).collect::<Vec<_>>(), STATES);
    }
}

//! What was counted between two readings of the ledger.
//!
//! Counts are subtracted; states stay as they are in the later reading. A test goes over all numbers of the
//! document, so that a new one is either.

use super::counters::{COUNTERS, Kind};
use super::{InstanceStats, PortStats, Stats, WAITING, WorkerStats};

impl Stats {
    /// What was counted since an earlier reading of the same switch; what is a state (held packets,
    /// megaflows, entries, links) stays as it is now. What was not there then counts whole.
    pub fn since(&self, before: &Self) -> Self {
        let mut out = self.clone();
        out.uptime_ns = self.uptime_ns.saturating_sub(before.uptime_ns);
        for worker in &mut out.workers {
            if let Some(before) = before.workers.iter().find(|other| other.worker == worker.worker) {
                worker.subtract(before);
            }
        }
        for port in &mut out.ports {
            if let Some(before) = before.ports.iter().find(|other| other.number == port.number) {
                port.subtract(before);
            }
        }
        for service in &mut out.services {
            let before = before.services.iter().find(|other| other.name == service.name);
            for (instance, before) in
                service.instances.iter_mut().zip(before.map_or(&[][..], |before| &before.instances))
            {
                instance.subtract(before);
            }
        }
        for table in &mut out.tables {
            if let Some(before) = before.tables.iter().find(|other| other.table == table.table) {
                less(&mut [(&mut table.lookups, before.lookups), (&mut table.matched, before.matched)]);
            }
        }
        out
    }
}

/// Subtracts, down to zero: a port or service of the same name may have been replaced meanwhile.
fn less(counts: &mut [(&mut u64, u64)]) {
    for (count, before) in counts {
        **count = count.saturating_sub(*before);
    }
}

impl PortStats {
    fn subtract(&mut self, before: &Self) {
        less(&mut [
            (&mut self.received, before.received),
            (&mut self.received_bytes, before.received_bytes),
            (&mut self.sent, before.sent),
            (&mut self.sent_bytes, before.sent_bytes),
            (&mut self.send_dropped, before.send_dropped),
            (&mut self.missed, before.missed),
            (&mut self.evicted, before.evicted),
        ]);
        for (fault, count) in self.faults.iter_mut().filter(|(fault, _)| *fault != WAITING) {
            *count = count.saturating_sub(before.faults.get(fault).copied().unwrap_or(0));
        }
    }
}

impl InstanceStats {
    fn subtract(&mut self, before: &Self) {
        less(&mut [
            (&mut self.packets, before.packets),
            (&mut self.bursts, before.bursts),
            (&mut self.dropped, before.dropped),
            (&mut self.coalesced, before.coalesced),
            (&mut self.cycles, before.cycles),
        ]);
    }
}

impl WorkerStats {
    fn subtract(&mut self, before: &Self) {
        for counter in COUNTERS.iter().filter(|counter| counter.kind == Kind::Counter) {
            let then = (counter.get)(before);
            less(&mut [((counter.slot)(self), then)]);
        }
        for (reason, packets) in &mut self.dropped {
            *packets = packets.saturating_sub(before.dropped.get(reason).copied().unwrap_or(0));
        }
        for step in &mut self.steps {
            if let Some(before) = before.steps.iter().find(|other| other.step == step.step) {
                less(&mut [(&mut step.packets, before.packets), (&mut step.cycles, before.cycles)]);
            }
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
        after.workers[1].dropped.insert("meter".to_owned(), 4);
        after.ports[0].sent += 9;
        after.ports[0].faults.insert("lost".to_owned(), 12);
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

//! Applying another configuration to a running switch.
//!
//! A configuration is responsible for what it names: entries and ports that it named before and does
//! not name any more go, what it names is there afterwards, and what came by other ways (a client, a
//! controller) is left alone. Entries that stay the same keep their counters. The tables change as a
//! whole or not at all, before the ports do.

use crate::Settings;
use crate::plane::Plane;
use crate::switch::Switch;
use crate::tables::Wanted;
use serde_json::{Value, json};
use weir_datapath::{Change, PortSpec};
use weir_openflow::FlowMod;

impl<P: Plane> Switch<P> {
    /// Applies another configuration. Answers what was done, and what waits for a restart.
    ///
    /// # Errors
    /// What cannot be. If it is in the tables nothing was changed; if it is a port, all else was.
    pub(crate) fn reconfigure(&mut self, settings: Settings) -> Result<Value, String> {
        let names = self.names_with(&settings.ports);
        let wanted = Wanted::read(&settings, &names)?;
        let running = self.plane.flows().map_err(|error| error.to_string())?;
        let changes = self.tables.changes_to(&wanted, &running);
        if !changes.is_empty() {
            self.apply(&changes)?;
        }
        self.tables.configured(wanted);
        let mut done = summary(&changes);
        let mut failed = Vec::new();
        let (gone, new) = self.port_changes(&settings.ports);
        for port in gone {
            match port.number.map_or(Ok(()), |number| self.close(number)) {
                Ok(()) => done.push(format!("port {} closed", port.name)),
                Err(error) => failed.push(error),
            }
        }
        for port in &new {
            match self.open(std::slice::from_ref(port)) {
                Ok(numbers) => {
                    done.extend(
                        numbers.iter().map(|number| format!("port {} opened as {number}", port.name)),
                    );
                }
                Err(error) => failed.push(error),
            }
        }
        let restart = restart_only(&self.settings, &settings);
        // What needs a restart is said at every reload until then.
        self.settings = Settings {
            ports: settings.ports,
            flows: settings.flows,
            groups: settings.groups,
            meters: settings.meters,
            ..self.settings.clone()
        };
        if failed.is_empty() {
            Ok(json!({ "done": done, "restart": restart, "warnings": self.tables.warnings() }))
        } else {
            Err(format!("{}; all else was done: {}", failed.join("; "), list(&done)))
        }
    }

    /// Ports to be closed, and ports to be opened.
    fn port_changes(&self, wanted: &[PortSpec]) -> (Vec<PortSpec>, Vec<PortSpec>) {
        let open = |port: &PortSpec| {
            let port = self.settings.queues_filled(port);
            self.ports.values().any(|open| *open == port)
        };
        let mut new: Vec<PortSpec> = wanted.iter().filter(|port| !open(port)).cloned().collect();
        new.sort_by_key(|port| weir_port::replays(&port.spec));
        let gone = self.ports.values().filter(|open| {
            let named_before = self.settings.ports.iter().any(|port| port.name == open.name);
            let named = wanted.iter().any(|port| port.name == open.name);
            let replaced = new.iter().any(|port| port.name == open.name || port.number == open.number);
            (named_before && !named) || replaced
        });
        (gone.cloned().collect(), new)
    }
}

fn list(done: &[String]) -> String {
    if done.is_empty() { "nothing was to be done".to_owned() } else { done.join(", ") }
}

/// Changes of the tables, counted.
fn summary(changes: &[Change]) -> Vec<String> {
    let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
    let counts = [
        (count(|change| matches!(change, Change::Flow(FlowMod::Delete(_)))), "flows removed"),
        (count(|change| matches!(change, Change::Flow(FlowMod::Add(_)))), "flows added or changed"),
        (count(|change| matches!(change, Change::SetGroup(_))), "groups added or changed"),
        (count(|change| matches!(change, Change::DeleteGroup(_))), "groups removed"),
        (count(|change| matches!(change, Change::SetMeter(_))), "meters added or changed"),
        (count(|change| matches!(change, Change::DeleteMeter(_))), "meters removed"),
    ];
    counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// Keys that differ, and that only a restart can change.
fn restart_only(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let services = |settings: &Settings| format!("{:?}", settings.services);
    let keys = [
        ("cores", old.cores() != new.cores()),
        ("huge_pages", old.huge_pages != new.huge_pages),
        ("memory_mib", old.memory_mib != new.memory_mib),
        ("buffers", old.buffers != new.buffers),
        ("max_frame", old.max_frame != new.max_frame),
        ("coalescing", old.coalescing != new.coalescing),
        ("upcalls", old.upcalls != new.upcalls),
        ("seed", old.seed != new.seed),
        ("control", old.control != new.control),
        ("metrics", old.metrics != new.metrics),
        ("service", services(old) != services(new)),
    ];
    keys.iter().filter(|(_, differs)| *differs).map(|(key, _)| *key).collect()
}

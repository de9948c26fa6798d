//! Applying another configuration to a running switch.
//!
//! A configuration is responsible for what it names: entries, ports and services that it named before and
//! does not name any more go, what it names is there afterwards, and what came by other ways (a client, a
//! controller) is left alone. Entries that stay the same keep their counters. All of it is one plan: it is
//! carried out as a whole, or all stays as it was.

use crate::Settings;
use crate::plane::Plane;
use crate::switch::Switch;
use crate::tables::Wanted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_agent::channel::ChannelSettings;
use weir_datapath::{Change, Plan, PortSpec, ServiceConfig};
use weir_openflow::{FlowMod, Names};

impl<P: Plane> Switch<P> {
    /// Applies another configuration. Answers what was done, and what waits for a restart.
    ///
    /// # Errors
    /// What cannot be, and at which step; all is as it was then.
    pub(crate) fn reconfigure(&mut self, settings: Settings) -> Result<Value, String> {
        let (gone, new) = self.port_changes(&settings.ports);
        let mut plan = service_changes(&self.settings, &settings);
        plan.open_ports = self.checked(&new)?;
        plan.close_ports = gone.iter().filter_map(|port| port.number).collect();
        let wanted = Wanted::read(&settings, &self.names_after(&plan, &gone))?;
        let there = self.there()?;
        let (changes, named) = self.tables.changes_to(wanted, &there);
        plan.changes = changes;
        let endpoints = self.reconnect(&settings.openflow)?;
        let numbers = match self.plane.carry_out(&plan) {
            Ok(numbers) => numbers,
            Err(error) => {
                let back = self.settings.openflow.clone();
                return Err(match self.reconnect(&back) {
                    Ok(_) => error.to_string(),
                    Err(more) => format!("{error}; and endpoints could not be had back: {more}"),
                });
            }
        };
        for number in &plan.close_ports {
            self.ports.remove(number);
        }
        let mut done = summary(&plan, &gone);
        done.extend(endpoints);
        self.opened(&numbers, plan.open_ports);
        self.tables.configured(named);
        let mut restart = restart_only(&self.settings, &settings);
        if self.agent.may_stand_alone() != settings.openflow.stands_alone() {
            restart.push("fail_mode");
        }
        // What needs a restart is said at every reload until then.
        self.settings = Settings {
            ports: settings.ports,
            services: settings.services,
            flows: settings.flows,
            groups: settings.groups,
            meters: settings.meters,
            openflow: ChannelSettings {
                datapath_id: self.settings.openflow.datapath_id,
                ..settings.openflow
            },
            ..self.settings.clone()
        };
        Ok(json!({ "done": done, "restart": restart, "warnings": self.tables.warnings() }))
    }

    /// Opens and closes endpoints of controllers; says which.
    fn reconnect(&mut self, openflow: &ChannelSettings) -> Result<Vec<String>, String> {
        let Some(channels) = &mut self.channels else { return Ok(Vec::new()) };
        channels.reconfigure(openflow).map_err(|error| error.to_string())
    }

    /// What names stand for when the plan is carried out.
    fn names_after(&self, plan: &Plan, gone: &[PortSpec]) -> Names {
        let mut names = self.plane.names().clone();
        gone.iter().for_each(|port| names.remove_port(&port.name));
        for port in &plan.open_ports {
            if let Some(number) = port.number {
                names.add_port(&port.name, number);
            }
        }
        for (name, service) in &plan.add_services {
            for name in of_group(name, &service.kind) {
                names.add_service(&name);
            }
        }
        for name in &plan.remove_services {
            let kind = self.settings.services.get(name).map_or(name.as_str(), |service| &service.kind);
            of_group(name, kind).iter().for_each(|name| names.remove_service(name));
        }
        names
    }

    /// Ports to be closed, and ports to be opened.
    fn port_changes(&self, wanted: &[PortSpec]) -> (Vec<PortSpec>, Vec<PortSpec>) {
        let open = |port: &PortSpec| {
            let port = self.settings.queues_filled(port);
            self.ports.values().any(|open| *open == port)
        };
        let new: Vec<PortSpec> = wanted.iter().filter(|port| !open(port)).cloned().collect();
        let gone = self.ports.values().filter(|open| {
            let named_before = self.settings.ports.iter().any(|port| port.name == open.name);
            let named = wanted.iter().any(|port| port.name == open.name);
            let replaced = new.iter().any(|port| port.name == open.name || port.number == open.number);
            (named_before && !named) || replaced
        });
        (gone.cloned().collect(), new)
    }
}

/// The services of a group, by their names.
fn of_group(name: &str, kind: &str) -> Vec<String> {
    weir_services::registered(kind).map_or_else(|| vec![name.to_owned()], |kind| kind.names(name).collect())
}

/// What services there are by a configuration: its own, and each kind that it does not name.
fn services(settings: &Settings) -> BTreeMap<&str, ServiceConfig> {
    let kinds = weir_services::SERVICES.iter().map(|kind| (kind.kind, ServiceConfig::of_kind(kind.kind)));
    let mut services: BTreeMap<&str, ServiceConfig> = kinds.collect();
    services.extend(settings.services.iter().map(|(name, service)| (name.as_str(), service.clone())));
    services
}

/// Services that come, go, or are built anew with other settings.
fn service_changes(old: &Settings, new: &Settings) -> Plan {
    let (old, mut new) = (services(old), services(new));
    let mut plan = Plan::default();
    for (name, was) in old {
        match new.remove(name) {
            None => plan.remove_services.push(name.to_owned()),
            Some(is) if is != was => plan.replace_services.push((name.to_owned(), is)),
            Some(_) => {}
        }
    }
    plan.add_services.extend(new.into_iter().map(|(name, service)| (name.to_owned(), service)));
    plan
}

/// What a plan did, for people.
fn summary(plan: &Plan, gone: &[PortSpec]) -> Vec<String> {
    let named = |services: &[(String, ServiceConfig)], what: &str| -> Vec<String> {
        services.iter().map(|(name, _)| format!("service {name} {what}")).collect()
    };
    let mut done = named(&plan.add_services, "added");
    done.extend(named(&plan.replace_services, "built anew"));
    done.extend(plan.remove_services.iter().map(|name| format!("service {name} removed")));
    done.extend(changed(&plan.changes));
    done.extend(gone.iter().map(|port| format!("port {} closed", port.name)));
    let opened = plan.open_ports.iter().filter_map(|port| Some((&port.name, port.number?)));
    done.extend(opened.map(|(name, number)| format!("port {name} opened as {number}")));
    done
}

/// Changes of the tables, counted.
fn changed(changes: &[Change]) -> Vec<String> {
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
    let keys = [
        ("cores", old.cores() != new.cores()),
        ("huge_pages", old.huge_pages != new.huge_pages),
        ("memory_mib", old.memory_mib != new.memory_mib),
        ("buffers", old.buffers != new.buffers),
        ("max_frame", old.max_frame != new.max_frame),
        ("room", old.room != new.room),
        ("coalescing", old.coalescing != new.coalescing),
        ("selection", old.selection != new.selection),
        ("poll", old.poll != new.poll),
        ("tcam", old.tcam != new.tcam),
        ("experiment", old.experiment != new.experiment),
        ("upcalls", old.upcalls != new.upcalls),
        ("mac_ageing", old.learning.ageing != new.learning.ageing),
        ("mac_table_size", old.learning.most != new.learning.most),
        ("seed", old.seed != new.seed),
        ("control", old.control != new.control),
        ("metrics", old.metrics != new.metrics),
        ("user", old.user != new.user),
        ("seccomp", old.seccomp != new.seccomp),
        ("datapath_id", old.openflow.datapath_id != new.openflow.datapath_id),
    ];
    keys.iter().filter(|(_, differs)| *differs).map(|(key, _)| *key).collect()
}

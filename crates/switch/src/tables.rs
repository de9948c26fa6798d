//! What the configuration says of the tables, what must change for it to be so, and requests about
//! flows, groups and meters. The datapath is their home; nothing of them is kept here.

use crate::config::TableText;
use crate::plane::Plane;
use crate::protocol::Request;
use crate::switch::Switch;
use crate::{Settings, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_datapath::{Change, FlowStats, GroupStats, MeterStats};
use weir_flow::Match;
use weir_openflow::{Flow, FlowMod, Group, GroupId, Meter, MeterId, Select, TableId};

/// What makes two flow entries the same one (OpenFlow 1.3.5, section 6.4).
type FlowId = (TableId, u16, Match);

fn id(flow: &Flow) -> FlowId {
    (flow.table, flow.priority, flow.matching.clone())
}

/// Entries that a configuration names.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    flows: BTreeMap<FlowId, Flow>,
    groups: BTreeMap<GroupId, Group>,
    meters: BTreeMap<MeterId, Meter>,
    /// What the texts say in vain.
    pub(crate) warnings: Vec<String>,
}

/// Entries that the last configuration named.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    configured: Wanted,
}

/// Entries that there are.
#[derive(Debug, Default)]
pub(crate) struct There {
    flows: Vec<FlowStats>,
    groups: BTreeMap<GroupId, Group>,
    meters: BTreeMap<MeterId, Meter>,
}

impl Wanted {
    /// Reads the texts of a configuration.
    pub(crate) fn read(settings: &Settings, names: &weir_openflow::Names) -> Result<Self, String> {
        let mut wanted = Self::default();
        if let Some(flows) = &settings.flows {
            let (entries, warnings) = text::entries(flows, names)?;
            // It is about the change that adds an entry, and not about the entry.
            let without = |mut flow: Flow| {
                flow.flags.reset_counts = false;
                flow
            };
            wanted.flows = entries.into_iter().map(without).map(|flow| (id(&flow), flow)).collect();
            wanted.warnings = warnings;
        }
        if let Some(groups) = &settings.groups {
            wanted.groups = text::groups(groups, names)?.into_iter().map(|group| (group.id, group)).collect();
        }
        if let Some(meters) = &settings.meters {
            wanted.meters = text::meters(meters)?.into_iter().map(|meter| (meter.id, meter)).collect();
        }
        Ok(wanted)
    }
}

impl Tables {
    /// What must change so that all that is wanted is there, and nothing that the last configuration
    /// named beyond it.
    pub(crate) fn changes_to(&self, wanted: &Wanted, there: &There) -> Vec<Change> {
        let running: BTreeMap<FlowId, &Flow> =
            there.flows.iter().map(|stats| (id(&stats.flow), &stats.flow)).collect();
        let mut changes = Vec::new();
        let groups = wanted.groups.values().filter(|group| there.groups.get(&group.id) != Some(group));
        changes.extend(groups.cloned().map(Change::SetGroup));
        let meters = wanted.meters.values().filter(|meter| there.meters.get(&meter.id) != Some(meter));
        changes.extend(meters.cloned().map(Change::SetMeter));
        changes.extend(flow_changes(&self.configured.flows, &wanted.flows, &running));
        let gone = |id: &&GroupId| !wanted.groups.contains_key(id) && there.groups.contains_key(id);
        changes.extend(self.configured.groups.keys().filter(gone).map(|id| Change::DeleteGroup(Some(*id))));
        let gone = |id: &&MeterId| !wanted.meters.contains_key(id) && there.meters.contains_key(id);
        changes.extend(self.configured.meters.keys().filter(gone).map(|id| Change::DeleteMeter(Some(*id))));
        changes
    }

    /// What the configuration says in vain.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.configured.warnings
    }

    /// Remembers what the configuration names from now on.
    pub(crate) fn configured(&mut self, wanted: Wanted) {
        self.configured = wanted;
    }
}

/// Entries of `old` that are not wanted go, wanted ones that are not there or differ are added.
fn flow_changes<'a>(
    old: &'a BTreeMap<FlowId, Flow>,
    wanted: &'a BTreeMap<FlowId, Flow>,
    running: &'a BTreeMap<FlowId, &'a Flow>,
) -> impl Iterator<Item = Change> + 'a {
    let gone = old.keys().filter(|id| !wanted.contains_key(*id) && running.contains_key(*id));
    let delete = gone.map(|(table, priority, matching)| {
        Change::Flow(FlowMod::Delete(Select {
            table: Some(*table),
            matching: matching.clone(),
            strict: Some(*priority),
            ..Select::default()
        }))
    });
    let new = wanted.iter().filter(|(id, flow)| running.get(*id) != Some(flow));
    delete.chain(new.map(|(_, flow)| Change::Flow(FlowMod::Add(flow.clone()))))
}

fn table_text(text: String, name: Option<String>) -> TableText {
    TableText { name: name.unwrap_or_else(|| "flows".to_owned()), text }
}

impl<P: Plane> Switch<P> {
    /// Answers a request about flows, groups or meters.
    pub(crate) fn answer_about_tables(&mut self, request: Request) -> Result<Value, String> {
        let names = self.plane.names();
        let mut warnings = Vec::new();
        let changes = match request {
            Request::AddFlow { flow } => vec![Change::Flow(FlowMod::Add(text::entry(&flow, names)?))],
            Request::AddFlows { flows, name } => {
                let read = text::flow_mods(&table_text(flows, name), names)?;
                warnings = read.warnings;
                read.changes.into_iter().map(Change::Flow).collect()
            }
            Request::ReplaceFlows { flows, name } => {
                let (entries, said) = text::entries(&table_text(flows, name), names)?;
                warnings = said;
                self.replacing(entries)?
            }
            Request::ModFlows { flow, strict } => vec![Change::Flow(text::modify(&flow, strict, names)?)],
            Request::DelFlows { flow, strict } => vec![Change::Flow(text::delete(&flow, strict, names)?)],
            Request::DumpFlows { flow } => {
                let select = text::select(&flow, names)?;
                return self.dump(&select);
            }
            other => return self.answer_about_groups(other),
        };
        self.apply(&changes)?;
        Ok(json!({ "changes": changes.len(), "warnings": warnings }))
    }

    fn replacing(&mut self, entries: Vec<Flow>) -> Result<Vec<Change>, String> {
        let running = self.plane.flows().map_err(|error| error.to_string())?;
        let all: BTreeMap<FlowId, Flow> =
            running.iter().map(|stats| (id(&stats.flow), stats.flow.clone())).collect();
        let wanted: BTreeMap<FlowId, Flow> = entries.into_iter().map(|flow| (id(&flow), flow)).collect();
        let running: BTreeMap<FlowId, &Flow> = all.iter().map(|(id, flow)| (id.clone(), flow)).collect();
        Ok(flow_changes(&all, &wanted, &running).collect())
    }

    /// The entries that there are.
    pub(crate) fn there(&mut self) -> Result<There, String> {
        let flows = self.plane.flows().map_err(|error| error.to_string())?;
        let groups = self.plane.groups().map_err(|error| error.to_string())?;
        let meters = self.plane.meters();
        Ok(There {
            flows,
            groups: groups.into_iter().map(|stats| (stats.group.id, stats.group)).collect(),
            meters: meters.into_iter().map(|stats| (stats.meter.id, stats.meter)).collect(),
        })
    }

    fn answer_about_groups(&mut self, request: Request) -> Result<Value, String> {
        let change = match request {
            Request::AddGroup { group } => {
                let group = text::group(&group, self.plane.names())?;
                if self.has_group(group.id)? {
                    return Err(format!("group {} is there already; mod-group changes it", group.id));
                }
                Change::SetGroup(group)
            }
            Request::ModGroup { group } => {
                let group = text::group(&group, self.plane.names())?;
                if !self.has_group(group.id)? {
                    return Err(format!("there is no group {}; add-group adds it", group.id));
                }
                Change::SetGroup(group)
            }
            Request::DelGroups { group } => match group.map(GroupId) {
                Some(id) if !self.has_group(id)? => return Err(format!("there is no group {id}")),
                group => Change::DeleteGroup(group),
            },
            Request::DumpGroups {} => return self.dump_groups(),
            Request::AddMeter { meter } => {
                let meter = text::meter(&meter)?;
                if self.has_meter(meter.id) {
                    return Err(format!("meter {} is there already; mod-meter changes it", meter.id));
                }
                Change::SetMeter(meter)
            }
            Request::ModMeter { meter } => {
                let meter = text::meter(&meter)?;
                if !self.has_meter(meter.id) {
                    return Err(format!("there is no meter {}; add-meter adds it", meter.id));
                }
                Change::SetMeter(meter)
            }
            Request::DelMeters { meter } => match meter.map(MeterId) {
                Some(id) if !self.has_meter(id) => return Err(format!("there is no meter {id}")),
                meter => Change::DeleteMeter(meter),
            },
            Request::DumpMeters {} => return Ok(self.dump_meters()),
            other => return Err(format!("{other:?} is answered elsewhere")),
        };
        self.apply(std::slice::from_ref(&change))?;
        Ok(json!({ "changes": 1 }))
    }

    fn has_group(&mut self, id: GroupId) -> Result<bool, String> {
        let groups = self.plane.groups().map_err(|error| error.to_string())?;
        Ok(groups.iter().any(|stats| stats.group.id == id))
    }

    fn has_meter(&mut self, id: MeterId) -> bool {
        self.plane.meters().iter().any(|stats| stats.meter.id == id)
    }

    fn dump_groups(&mut self) -> Result<Value, String> {
        let groups = self.plane.groups().map_err(|error| error.to_string())?;
        let names = self.plane.names();
        let of = |stats: &GroupStats| {
            json!({
                "group": stats.group.text(names),
                "line": text::group_line(stats),
                "group_id": stats.group.id.0,
                "flows": stats.flows,
                "packets": stats.packets,
                "bytes": stats.bytes,
                "buckets": counts(&stats.buckets),
                "seconds": stats.age.as_secs_f64(),
            })
        };
        Ok(groups.iter().map(of).collect())
    }

    fn dump_meters(&mut self) -> Value {
        let of = |stats: &MeterStats| {
            json!({
                "meter": stats.meter.text(),
                "line": text::meter_line(stats),
                "meter_id": stats.meter.id.0,
                "flows": stats.flows,
                "packets": stats.packets,
                "bytes": stats.bytes,
                "bands": counts(&stats.bands),
                "seconds": stats.age.as_secs_f64(),
            })
        };
        self.plane.meters().iter().map(of).collect()
    }

    /// The flow entries of a selection, in the order of tables and priorities.
    fn dump(&mut self, select: &Select) -> Result<Value, String> {
        let mut flows = self.plane.flows().map_err(|error| error.to_string())?;
        flows.retain(|stats| select.is_meant(&stats.flow));
        flows.sort_by_key(|stats| (stats.flow.table, u16::MAX - stats.flow.priority));
        let names = self.plane.names();
        let entry = |stats: &FlowStats| {
            json!({
                "flow": text::flow(&stats.flow, names),
                "line": text::dump_line(stats, names),
                "table": stats.flow.table.0,
                "priority": stats.flow.priority,
                "cookie": stats.flow.cookie,
                "packets": stats.packets,
                "bytes": stats.bytes,
                "seconds": stats.age.as_secs_f64(),
                "idle_seconds": stats.idle.as_secs_f64(),
            })
        };
        Ok(flows.iter().map(entry).collect())
    }
}

/// Packets and bytes of each bucket or band.
fn counts(of: &[(u64, u64)]) -> Value {
    of.iter().map(|(packets, bytes)| json!({ "packets": packets, "bytes": bytes })).collect()
}

//! What the configuration says of the tables, what must change for it to be so, and requests about
//! flows, groups and meters. The datapath is their home; nothing of them is kept here.

use crate::config::TableText;
use crate::plane::Plane;
use crate::protocol::Request;
use crate::switch::Switch;
use crate::{Settings, text};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use weir_datapath::{Change, FlowStats, GroupStats, MeterStats};
use weir_flow::Match;
use weir_openflow::{Flow, FlowMod, Group, GroupId, Meter, MeterId, Select, TableId};

/// What makes two flow entries the same one (OpenFlow 1.3.5, section 6.4).
type FlowId = (TableId, u16, Match);

/// The same of an entry, without a copy of its match.
fn id(flow: &Flow) -> (TableId, u16, &Match) {
    (flow.table, flow.priority, &flow.matching)
}

/// Entries that a configuration names. There may be half a million: each is kept once, and handed on.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// In the order of what makes them the same one, each once.
    flows: Vec<Flow>,
    groups: BTreeMap<GroupId, Group>,
    meters: BTreeMap<MeterId, Meter>,
    /// What the texts say in vain.
    warnings: Vec<String>,
}

/// What the last configuration named.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    /// In order.
    flows: Vec<FlowId>,
    groups: Vec<GroupId>,
    meters: Vec<MeterId>,
    warnings: Vec<String>,
}

/// Entries that the last configuration named.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    configured: Configured,
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
            let (mut entries, warnings) = text::entries(flows, names)?;
            // It is about the change that adds an entry, and not about the entry.
            entries.iter_mut().for_each(|flow| flow.flags.reset_counts = false);
            wanted.flows = each_once(entries);
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

    /// What is remembered of it.
    fn named(&self) -> Configured {
        Configured {
            flows: self.flows.iter().map(|flow| (flow.table, flow.priority, flow.matching.clone())).collect(),
            groups: self.groups.keys().copied().collect(),
            meters: self.meters.keys().copied().collect(),
            warnings: self.warnings.clone(),
        }
    }
}

impl Tables {
    /// What must change so that all that is wanted is there, and nothing that the last configuration
    /// named beyond it; and what is to be remembered ([`Tables::configured`]) once it is so.
    pub(crate) fn changes_to(&self, wanted: Wanted, there: &There) -> (Vec<Change>, Configured) {
        let (old, named) = (&self.configured, wanted.named());
        let mut changes = Vec::with_capacity(wanted.flows.len());
        let gone = |id: &&GroupId| !wanted.groups.contains_key(id) && there.groups.contains_key(id);
        let groups_gone = old.groups.iter().filter(gone).map(|id| Change::DeleteGroup(Some(*id)));
        let groups_gone: Vec<Change> = groups_gone.collect();
        let gone = |id: &&MeterId| !wanted.meters.contains_key(id) && there.meters.contains_key(id);
        let meters_gone = old.meters.iter().filter(gone).map(|id| Change::DeleteMeter(Some(*id)));
        let meters_gone: Vec<Change> = meters_gone.collect();
        let groups = wanted.groups.into_values().filter(|group| there.groups.get(&group.id) != Some(group));
        changes.extend(groups.map(Change::SetGroup));
        let meters = wanted.meters.into_values().filter(|meter| there.meters.get(&meter.id) != Some(meter));
        changes.extend(meters.map(Change::SetMeter));
        let old = old.flows.iter().map(|(table, priority, matching)| (*table, *priority, matching));
        flow_changes(old, wanted.flows, &in_order(&there.flows), &mut changes);
        changes.extend(groups_gone);
        changes.extend(meters_gone);
        (changes, named)
    }

    /// What the configuration says in vain.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.configured.warnings
    }

    /// Remembers what the configuration names from now on.
    pub(crate) fn configured(&mut self, named: Configured) {
        self.configured = named;
    }
}

/// Entries in the order of what makes them the same one; of several that are, the last.
fn each_once(mut entries: Vec<Flow>) -> Vec<Flow> {
    entries.sort_by(|one, other| id(one).cmp(&id(other)));
    entries.dedup_by(|later, earlier| {
        let same = id(later) == id(earlier);
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
    entries
}

/// The entries that there are, in the same order.
fn in_order(there: &[FlowStats]) -> Vec<&Flow> {
    let mut flows: Vec<&Flow> = there.iter().map(|stats| &stats.flow).collect();
    flows.sort_by(|one, other| id(one).cmp(&id(other)));
    flows
}

/// The entry of this kind, among some in order.
fn find<'a, F: Borrow<Flow>>(flows: &'a [F], of: (TableId, u16, &Match)) -> Option<&'a Flow> {
    let at = flows.binary_search_by(|flow| id(flow.borrow()).cmp(&of)).ok()?;
    Some(flows[at].borrow())
}

/// Entries of `old` that are not wanted go, wanted ones that are not there or differ are added.
fn flow_changes<'a>(
    old: impl Iterator<Item = (TableId, u16, &'a Match)>,
    wanted: Vec<Flow>,
    there: &[&Flow],
    changes: &mut Vec<Change>,
) {
    let gone = old.filter(|id| find(&wanted, *id).is_none() && find(there, *id).is_some());
    changes.extend(gone.map(|(table, priority, matching)| {
        Change::Flow(FlowMod::Delete(Select {
            table: Some(table),
            matching: matching.clone(),
            strict: Some(priority),
            ..Select::default()
        }))
    }));
    let new = wanted.into_iter().filter(|flow| find(there, id(flow)) != Some(flow));
    changes.extend(new.map(|flow| Change::Flow(FlowMod::Add(flow))));
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
        let count = changes.len();
        self.apply(changes)?;
        Ok(json!({ "changes": count, "warnings": warnings }))
    }

    fn replacing(&mut self, entries: Vec<Flow>) -> Result<Vec<Change>, String> {
        let running = self.plane.flows().map_err(|error| error.to_string())?;
        let there = in_order(&running);
        let mut changes = Vec::with_capacity(entries.len());
        flow_changes(there.iter().map(|flow| id(flow)), each_once(entries), &there, &mut changes);
        Ok(changes)
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
        self.apply(vec![change])?;
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

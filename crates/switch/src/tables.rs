//! What the configuration says of the tables, what must change for it to be so, and the groups and
//! meters that there are.
//!
//! The datapath is the home of flow entries and their counters; groups and meters are remembered here,
//! because all changes of them go through here.

use crate::config::TableText;
use crate::plane::Plane;
use crate::protocol::Request;
use crate::switch::Switch;
use crate::{Settings, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_datapath::{Change, FlowStats};
use weir_flow::Match;
use weir_openflow::{Action, Flow, FlowMod, Group, GroupId, Meter, MeterId, PortNo, Select, TableId};

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

/// Entries that the last configuration named, and groups and meters there are.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    configured: Wanted,
    groups: BTreeMap<GroupId, Group>,
    meters: BTreeMap<MeterId, Meter>,
}

impl Wanted {
    /// Reads the texts of a configuration.
    pub(crate) fn read(settings: &Settings, names: &weir_openflow::Names) -> Result<Self, String> {
        let mut wanted = Self::default();
        if let Some(flows) = &settings.flows {
            let (entries, warnings) = text::entries(flows, names)?;
            wanted.flows = entries.into_iter().map(|flow| (id(&flow), flow)).collect();
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
    /// named beyond it. `running` is what there is.
    pub(crate) fn changes_to(&self, wanted: &Wanted, running: &[FlowStats]) -> Vec<Change> {
        let running: BTreeMap<FlowId, &Flow> =
            running.iter().map(|stats| (id(&stats.flow), &stats.flow)).collect();
        let mut changes = Vec::new();
        let groups = wanted.groups.values().filter(|group| self.groups.get(&group.id) != Some(group));
        changes.extend(groups.cloned().map(Change::SetGroup));
        let meters = wanted.meters.values().filter(|meter| self.meters.get(&meter.id) != Some(meter));
        changes.extend(meters.cloned().map(Change::SetMeter));
        changes.extend(flow_changes(&self.configured.flows, &wanted.flows, &running));
        let gone = |id: &&GroupId| !wanted.groups.contains_key(id) && self.groups.contains_key(id);
        changes.extend(self.configured.groups.keys().filter(gone).map(|id| Change::DeleteGroup(Some(*id))));
        let gone = |id: &&MeterId| !wanted.meters.contains_key(id) && self.meters.contains_key(id);
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

    /// Remembers changes that were made.
    pub(crate) fn applied(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Flow(_) => {}
                Change::SetGroup(group) => drop(self.groups.insert(group.id, group.clone())),
                Change::DeleteGroup(Some(id)) => drop(self.groups.remove(id)),
                Change::DeleteGroup(None) => self.groups.clear(),
                Change::SetMeter(meter) => drop(self.meters.insert(meter.id, meter.clone())),
                Change::DeleteMeter(Some(id)) => drop(self.meters.remove(id)),
                Change::DeleteMeter(None) => self.meters.clear(),
            }
        }
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

    fn answer_about_groups(&mut self, request: Request) -> Result<Value, String> {
        let names = self.plane.names();
        let change = match request {
            Request::AddGroup { group } => {
                let group = text::group(&group, names)?;
                if self.tables.groups.contains_key(&group.id) {
                    return Err(format!("group {} is there already; mod-group changes it", group.id));
                }
                Change::SetGroup(group)
            }
            Request::ModGroup { group } => {
                let group = text::group(&group, names)?;
                if !self.tables.groups.contains_key(&group.id) {
                    return Err(format!("there is no group {}; add-group adds it", group.id));
                }
                Change::SetGroup(group)
            }
            Request::DelGroups { group } => Change::DeleteGroup(group.map(GroupId)),
            Request::DumpGroups {} => {
                return Ok(self.tables.groups.values().map(|group| group.text(names)).collect());
            }
            Request::AddMeter { meter } => {
                let meter = text::meter(&meter)?;
                if self.tables.meters.contains_key(&meter.id) {
                    return Err(format!("meter {} is there already; mod-meter changes it", meter.id));
                }
                Change::SetMeter(meter)
            }
            Request::ModMeter { meter } => {
                let meter = text::meter(&meter)?;
                if !self.tables.meters.contains_key(&meter.id) {
                    return Err(format!("there is no meter {}; add-meter adds it", meter.id));
                }
                Change::SetMeter(meter)
            }
            Request::DelMeters { meter } => Change::DeleteMeter(meter.map(MeterId)),
            Request::DumpMeters {} => {
                return Ok(self.tables.meters.values().map(Meter::text).collect());
            }
            other => return Err(format!("{other:?} is answered elsewhere")),
        };
        self.apply(std::slice::from_ref(&change))?;
        Ok(json!({ "changes": 1 }))
    }

    /// The flow entries of a selection, in the order of tables and priorities.
    fn dump(&mut self, select: &Select) -> Result<Value, String> {
        let mut flows = self.plane.flows().map_err(|error| error.to_string())?;
        flows.retain(|stats| selects(select, &stats.flow));
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

/// Whether an entry is among those meant.
fn selects(select: &Select, flow: &Flow) -> bool {
    let (value, mask) = select.cookie;
    select.table.is_none_or(|table| table == flow.table)
        && select.strict.map_or_else(
            || select.matching.covers(&flow.matching),
            |priority| priority == flow.priority && select.matching == flow.matching,
        )
        && (flow.cookie ^ value) & mask == 0
        && select.out_port.is_none_or(|port| any(flow, &|action| sends_to(action, port)))
        && select.out_group.is_none_or(|group| any(flow, &|action| *action == Action::Group(group)))
}

fn sends_to(action: &Action, port: PortNo) -> bool {
    match action {
        Action::Output(to) => *to == port,
        Action::Controller(_) => port == PortNo::CONTROLLER,
        _ => false,
    }
}

/// Whether an action of the entry, or of its clones, is so.
fn any(flow: &Flow, is: &dyn Fn(&Action) -> bool) -> bool {
    fn among(actions: &[Action], is: &dyn Fn(&Action) -> bool) -> bool {
        actions.iter().any(|action| match action {
            Action::Clone(inner) => among(inner, is),
            other => is(other),
        })
    }
    among(&flow.instructions.apply, is) || among(&flow.instructions.write, is)
}

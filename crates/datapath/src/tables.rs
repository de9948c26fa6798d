//! Changes of the tables: what a list of them makes of a snapshot, and what they may concern.
//!
//! Runs on the control thread, on a copy: when one change cannot be done, the copy is thrown away and
//! nothing has happened.

use crate::control::{Change, ControlError, Removal};
use crate::meter::MeterState;
use crate::pipeline::{Entry, GroupEntry, MeterEntry, Pipeline, TABLES, Touched, called};
use crate::translate::ActionSet;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_openflow::{
    Action, Ct, Flow, FlowMod, Group, GroupId, GroupKind, Meter, MeterId, PortNo, Select, TableId,
};
use weir_units::Nanos;

/// A snapshot that is being changed.
pub(crate) struct Draft<'a> {
    pub(crate) pipeline: &'a mut Pipeline,
    pub(crate) touched: Vec<Touched>,
    /// Entries that went and whose controller wants to know.
    pub(crate) removed: Vec<(Arc<Entry>, Removal)>,
    pub(crate) now: Nanos,
}

fn refuse<T>(why: String) -> Result<T, ControlError> {
    Err(ControlError(why))
}

impl<'a> Draft<'a> {
    /// Nothing is changed yet.
    pub(crate) fn new(pipeline: &'a mut Pipeline, now: Nanos) -> Self {
        Self { pipeline, touched: Vec::new(), removed: Vec::new(), now }
    }

    /// Does one change.
    pub(crate) fn change(&mut self, change: &Change) -> Result<(), ControlError> {
        match change {
            Change::Flow(FlowMod::Add(flow)) => self.add(flow),
            Change::Flow(FlowMod::Modify { flow, cookie, select, or_add }) => {
                self.modify(flow, *cookie, select, *or_add)
            }
            Change::Flow(FlowMod::Delete(select)) => {
                for entry in self.selected(select) {
                    self.delete(&entry, Removal::Delete);
                }
                Ok(())
            }
            Change::SetGroup(group) => self.set_group(group),
            Change::DeleteGroup(id) => {
                self.delete_group(*id);
                Ok(())
            }
            Change::SetMeter(meter) => self.set_meter(meter),
            Change::DeleteMeter(id) => {
                self.delete_meter(*id);
                Ok(())
            }
        }
    }

    fn add(&mut self, flow: &Flow) -> Result<(), ControlError> {
        self.check(flow)?;
        let at = usize::from(flow.table.0);
        if flow.flags.check_overlap {
            self.check_overlap(flow)?;
        }
        let old = self.pipeline.tables[at].get(&flow.matching, flow.priority);
        let counts = old.filter(|_| !flow.flags.reset_counts).map(|old| old.counts().clone());
        let entry = Arc::new(Entry::new(flow.clone(), self.now, counts));
        self.put(entry);
        Ok(())
    }

    fn check_overlap(&self, flow: &Flow) -> Result<(), ControlError> {
        let rules = self.pipeline.tables[usize::from(flow.table.0)].iter();
        let overlap = rules.into_iter().find(|rule| {
            rule.priority == flow.priority
                && rule.matching != flow.matching
                && rule.matching.overlaps(&flow.matching)
        });
        match overlap {
            Some(_) => refuse(format!(
                "table {}: the flow overlaps another of priority {}, which check_overlap forbids",
                flow.table, flow.priority
            )),
            None => Ok(()),
        }
    }

    fn put(&mut self, entry: Arc<Entry>) {
        let (table, matching) = (entry.flow.table, entry.flow.matching.clone());
        self.touched.push(Touched::Packets(table, matching.clone()));
        let priority = entry.flow.priority;
        self.pipeline.tables[usize::from(table.0)].insert(matching, priority, entry);
    }

    fn modify(
        &mut self,
        flow: &Flow,
        cookie: Option<u64>,
        select: &Select,
        or_add: bool,
    ) -> Result<(), ControlError> {
        let selected = self.selected(select);
        if selected.is_empty() && or_add {
            return self.add(flow);
        }
        for old in selected {
            let mut changed = old.flow.clone();
            changed.instructions = flow.instructions.clone();
            changed.cookie = cookie.unwrap_or(changed.cookie);
            self.check(&changed)?;
            let counts = old.counts();
            let counts = if flow.flags.reset_counts { Arc::new(counts.reset()) } else { counts.clone() };
            self.put(Arc::new(Entry::new(changed, old.created, Some(counts))));
        }
        Ok(())
    }

    /// Removes an entry, which is told if that was wanted.
    fn delete(&mut self, entry: &Arc<Entry>, why: Removal) {
        self.remove(entry);
        if entry.flow.flags.send_flow_rem {
            self.removed.push((entry.clone(), why));
        }
    }

    pub(crate) fn remove(&mut self, entry: &Arc<Entry>) {
        let flow = &entry.flow;
        let table = &mut self.pipeline.tables[usize::from(flow.table.0)];
        if table.remove(&flow.matching, flow.priority).is_some() {
            self.touched.push(Touched::Packets(flow.table, flow.matching.clone()));
        }
    }

    /// The entries that are meant.
    pub(crate) fn selected(&self, select: &Select) -> Vec<Arc<Entry>> {
        let tables = match select.table {
            Some(table) => usize::from(table.0)..usize::from(table.0) + 1,
            None => 0..TABLES,
        };
        let tables = self.pipeline.tables.get(tables).unwrap_or_default();
        if let Some(priority) = select.strict {
            let found = tables.iter().filter_map(|table| table.get(&select.matching, priority));
            return found.filter(|entry| select.is_marked(&entry.flow)).cloned().collect();
        }
        let all = tables.iter().flat_map(|table| table.iter());
        all.filter(|rule| select.is_meant(&rule.value.flow)).map(|rule| rule.value.clone()).collect()
    }

    fn set_group(&mut self, group: &Group) -> Result<(), ControlError> {
        if group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
            return refuse(format!(
                "group {}: an indirect group has one bucket, not {}",
                group.id,
                group.buckets.len()
            ));
        }
        for bucket in &group.buckets {
            self.check_actions(&bucket.actions, true).map_err(|error| {
                ControlError(format!("group {}, bucket {}: {}", group.id, bucket.id, error.0))
            })?;
        }
        let old = self.pipeline.groups.get(&group.id);
        let counts = old.map(|old| old.counts.clone()).unwrap_or_default();
        let of = |bucket: &weir_openflow::Bucket| {
            let place = old.and_then(|old| old.group.buckets.iter().position(|other| other.id == bucket.id));
            place.and_then(|place| old.map(|old| old.buckets[place].clone())).unwrap_or_default()
        };
        let buckets = group.buckets.iter().map(of).collect();
        let actions = group.buckets.iter().map(|bucket| ActionSet::of(&bucket.actions).actions()).collect();
        let created = old.map_or(self.now, |old| old.created);
        let entry = GroupEntry { group: group.clone(), created, actions, counts, buckets };
        self.pipeline.groups.insert(group.id, Arc::new(entry));
        self.touched.push(Touched::All);
        self.check_loops(group.id)
    }

    /// Groups may refer to one another, but not in a circle.
    fn check_loops(&self, from: GroupId) -> Result<(), ControlError> {
        let mut waiting = vec![(from, 0)];
        while let Some((id, depth)) = waiting.pop() {
            if depth > 0 && id == from || depth > 32 {
                return refuse(format!("group {from} refers to itself, through group {id}"));
            }
            let Some(entry) = self.pipeline.groups.get(&id) else { continue };
            for action in entry.group.buckets.iter().flat_map(|bucket| &bucket.actions) {
                if let Action::Group(next) = action {
                    waiting.push((*next, depth + 1));
                }
            }
        }
        Ok(())
    }

    fn delete_group(&mut self, id: Option<GroupId>) {
        let gone: Vec<GroupId> = match id {
            Some(id) => vec![id],
            None => self.pipeline.groups.keys().copied().collect(),
        };
        for id in gone {
            if self.pipeline.groups.remove(&id).is_some() {
                self.remove_where(Removal::Group, |flow| groups_of(flow).contains(&id));
                self.touched.push(Touched::All);
            }
        }
    }

    fn set_meter(&mut self, meter: &Meter) -> Result<(), ControlError> {
        if meter.bands.is_empty() {
            return refuse(format!("meter {}: it has no band, so it would do nothing", meter.id));
        }
        let state = MeterState::new(meter);
        let entry = MeterEntry { meter: meter.clone(), created: self.now, state };
        self.pipeline.meters.insert(meter.id, Arc::new(entry));
        self.touched.push(Touched::All);
        Ok(())
    }

    fn delete_meter(&mut self, id: Option<MeterId>) {
        let gone: Vec<MeterId> = match id {
            Some(id) => vec![id],
            None => self.pipeline.meters.keys().copied().collect(),
        };
        for id in gone {
            if self.pipeline.meters.remove(&id).is_some() {
                self.remove_where(Removal::Meter, |flow| meters_of(flow).contains(&id));
                self.touched.push(Touched::All);
            }
        }
    }

    fn remove_where(&mut self, why: Removal, which: impl Fn(&Flow) -> bool) {
        let all = self.pipeline.tables.iter().flat_map(|table| table.iter());
        let gone: Vec<Arc<Entry>> =
            all.filter(|rule| which(&rule.value.flow)).map(|rule| rule.value.clone()).collect();
        for entry in gone {
            self.delete(&entry, why);
        }
    }

    /// Whether a flow can be done at all.
    fn check(&self, flow: &Flow) -> Result<(), ControlError> {
        let at = |why: String| ControlError(format!("table {}: {why}", flow.table));
        if flow.table > TableId::LAST {
            return Err(at(format!("tables are numbered 0 to {}", TableId::LAST)));
        }
        let instructions = &flow.instructions;
        if let Some(next) = instructions.goto.filter(|next| *next <= flow.table || *next > TableId::LAST) {
            return Err(at(format!("goto_table must lead to a later table, not to table {next}")));
        }
        if let Some(meter) = instructions.meter {
            self.check_meter(meter).map_err(|error| at(error.0))?;
        }
        self.check_actions(&instructions.apply, false).map_err(|error| at(error.0))?;
        self.check_actions(&instructions.write, true).map_err(|error| at(error.0))
    }

    fn check_meter(&self, meter: MeterId) -> Result<(), ControlError> {
        if self.pipeline.meters.contains_key(&meter) {
            return Ok(());
        }
        refuse(format!("there is no meter {meter}; add it before the flow"))
    }

    fn check_ct(&self, ct: &Ct) -> Result<(), ControlError> {
        if self.pipeline.tracker.is_none() {
            return refuse(
                "`ct` needs the service `conntrack`, of the kind `conntrack`; give it that name".to_owned(),
            );
        }
        if let Some(table) = ct.table.filter(|table| *table > TableId::LAST) {
            return refuse(format!("ct: there is no table {table}; tables are 0 to {}", TableId::LAST));
        }
        if ct.helper != 0 {
            let name = if ct.helper == Ct::FTP { "ftp" } else { "tftp" };
            return refuse(format!("ct: alg={name} is not supported; leave it out"));
        }
        Ok(())
    }

    /// Whether actions can be done; some cannot stand in a set (in a bucket, or written).
    fn check_actions(&self, actions: &[Action], in_set: bool) -> Result<(), ControlError> {
        for action in actions {
            match action {
                Action::Output(PortNo::NORMAL) => {
                    return refuse(
                        "output to NORMAL is not supported: this switch learns no addresses by itself; \
                         name a port, `flood` or `all`"
                            .to_owned(),
                    );
                }
                Action::Group(id) if !self.pipeline.groups.contains_key(id) => {
                    return refuse(format!("there is no group {id}; add it before it is used"));
                }
                Action::Meter(meter) => self.check_meter(*meter)?,
                Action::Service { service, .. } if self.pipeline.service(*service).is_none() => {
                    return refuse(format!("there is no service of number {service}"));
                }
                Action::Ct(ct) => self.check_ct(ct)?,
                Action::Resubmit { .. } | Action::Clone(_) | Action::Exit if in_set => {
                    return refuse(
                        "resubmit, clone and exit cannot stand in an action set or bucket".to_owned(),
                    );
                }
                Action::Clone(actions) => self.check_actions(actions, false)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a change has flows call a service for which this holds.
pub(crate) fn calls(change: &Change, tracker: Option<u16>, which: &dyn Fn(u16) -> bool) -> bool {
    let is = |action: &Action| called(action, tracker).is_some_and(which);
    match change {
        Change::Flow(FlowMod::Add(flow) | FlowMod::Modify { flow, .. }) => flow.instructions.any(&is),
        Change::SetGroup(group) => group.buckets.iter().flat_map(|bucket| &bucket.actions).any(is),
        _ => false,
    }
}

/// Whether a change has flows translate addresses.
pub(crate) fn translates(change: &Change) -> bool {
    let is = |action: &Action| matches!(action, Action::Ct(ct) if ct.nat().is_some());
    match change {
        Change::Flow(FlowMod::Add(flow) | FlowMod::Modify { flow, .. }) => flow.instructions.any(&is),
        Change::SetGroup(group) => group.buckets.iter().flat_map(|bucket| &bucket.actions).any(is),
        _ => false,
    }
}

/// The groups that a flow entry sends to.
pub(crate) fn groups_of(flow: &Flow) -> BTreeSet<GroupId> {
    let found = RefCell::new(BTreeSet::new());
    flow.instructions.any(&|action| {
        if let Action::Group(id) = action {
            found.borrow_mut().insert(*id);
        }
        false
    });
    found.into_inner()
}

/// The meters that police a flow entry's packets.
pub(crate) fn meters_of(flow: &Flow) -> BTreeSet<MeterId> {
    let found = RefCell::new(flow.instructions.meter.into_iter().collect::<BTreeSet<_>>());
    flow.instructions.any(&|action| {
        if let Action::Meter(id) = action {
            found.borrow_mut().insert(*id);
        }
        false
    });
    found.into_inner()
}

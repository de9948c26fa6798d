//! Changes of the tables: what a list of them makes of a snapshot, and what they may concern.
//!
//! Runs on the control thread, on a copy: when one change cannot be done, the copy is thrown away and
//! nothing has happened.

use crate::control::evict::Queues;
use crate::model::entries::{Birth, Entry, Touched};
use crate::model::pipeline::{Pipeline, called};
use crate::model::requests::{Change, EntryChange, EntryEvent, Refusal, Refused, Removal};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_classifier::{Clause, Table};
use weir_flow::{Field, Match};
use weir_openflow::{
    Action, Argument, Bucket, Conjunction, Ct, Flow, FlowFlags, FlowMod, GroupId, MOST_FLOWS, MeterId,
    PortNo, Select, TableId,
};
use weir_units::Nanos;

/// Bytes that the actions of all entries and buckets may take: eight actions for each of [`MOST_FLOWS`], and a little
/// more. An entry may have thousands of actions, and one message gives them to all entries there are.
pub const MOST_ACTIONS: usize = 512 << 20;

/// A snapshot that is being changed.
pub(crate) struct Draft {
    pub(crate) pipeline: Pipeline,
    pub(crate) touched: Vec<Touched>,
    /// Entries that came and have a timeout; some may have gone again.
    pub(crate) timed: Vec<Arc<Entry>>,
    /// Entries that went and whose controller wants to know.
    pub(super) removed: Vec<(Arc<Entry>, Removal)>,
    /// What became of entries, if anybody wants to know.
    pub(crate) told: Option<Vec<EntryChange>>,
    /// When entries are added, for all that are.
    pub(crate) born: Birth,
    /// Flow entries that there may be.
    pub(crate) most: usize,
    /// Bytes that actions may take.
    pub(super) most_actions: usize,
    /// What goes first where there are too many.
    pub(super) evictions: Queues,
    /// The place of the change at hand.
    pub(crate) at: usize,
    /// Whether changes are many: tables make of them what lookups need at the end.
    pub(crate) many: bool,
}

/// Refuses an action.
pub(crate) fn refuse<T>(text: String) -> Result<T, Refused> {
    refuse_as(Refusal::BadAction, text)
}

/// Refuses a change.
pub(super) fn refuse_as<T>(why: Refusal, text: String) -> Result<T, Refused> {
    Err(Refused { why, text })
}

impl Draft {
    /// Nothing is changed yet.
    pub(crate) fn new(pipeline: Pipeline, now: Nanos) -> Self {
        let (touched, timed, removed) = (Vec::new(), Vec::new(), Vec::new());
        let (most, evictions) = (MOST_FLOWS, Queues::default());
        let born = Birth::new(now);
        let most_actions = MOST_ACTIONS;
        Self {
            pipeline,
            touched,
            timed,
            removed,
            told: None,
            born,
            most,
            most_actions,
            evictions,
            at: 0,
            many: false,
        }
    }

    /// Does one change, or leaves all as it is.
    pub(crate) fn change(&mut self, change: Change) -> Result<(), Refused> {
        match change {
            Change::Flow(change) => self.change_flow(change),
            Change::SetGroup(group) => self.set_group(&group),
            Change::AddGroup(group) => self.add_group(&group),
            Change::ModifyGroup(group) => self.modify_group(&group),
            Change::InsertBuckets(id, place, buckets) => self.insert_buckets(id, place, &buckets),
            Change::RemoveBuckets(id, place) => self.remove_buckets(id, place),
            Change::DeleteGroup(id) => {
                self.delete_group(id);
                Ok(())
            }
            Change::SetEviction(table, by) => {
                self.set_eviction(table, by);
                Ok(())
            }
            Change::SetMeter(meter) => self.set_meter(&meter),
            Change::AddMeter(meter) => self.add_meter(&meter),
            Change::ModifyMeter(meter) => self.modify_meter(&meter),
            Change::DeleteMeter(id) => {
                self.delete_meter(id);
                Ok(())
            }
        }
    }

    /// The same of flow entries.
    pub(super) fn change_flow(&mut self, change: FlowMod) -> Result<(), Refused> {
        match change {
            FlowMod::Add(flow) => self.add(flow),
            FlowMod::Modify { flow, cookie, select, or_add } => self.modify(flow, cookie, &select, or_add),
            FlowMod::Delete(select) if selects_all(&select) => {
                self.empty(select.table);
                Ok(())
            }
            FlowMod::Delete(select) => {
                for entry in self.selected(&select) {
                    self.delete(&entry, Removal::Delete);
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, flow: Flow) -> Result<(), Refused> {
        self.check(&flow)?;
        let at = usize::from(flow.table.0);
        if flow.flags.check_overlap {
            self.check_overlap(&flow)?;
        }
        let old = self.pipeline.tables[at].get(&flow.matching, flow.priority);
        let event = if old.is_some() { EntryEvent::Modified } else { EntryEvent::Added };
        let counts = old.filter(|_| !flow.flags.reset_counts).map(|old| old.counts().clone());
        let goes = old.map_or(0, |old| old.flow.instructions.memory());
        self.check_memory(flow.instructions.memory(), goes).map_err(|text| Refused {
            why: Refusal::TableFull,
            text: format!("table {}: {text}", flow.table),
        })?;
        if event == EntryEvent::Added && self.pipeline.entries >= self.most {
            self.make_room(&flow)?;
        }
        // The flag is about this change, and nothing to be told of the entry.
        let flags = FlowFlags { reset_counts: false, ..flow.flags };
        let entry = Arc::new(Entry::new(Flow { flags, ..flow }, self.born.clone(), counts));
        self.put(entry, event);
        Ok(())
    }

    /// Whether there is memory for so many bytes of actions, where so many go; what to say if not.
    pub(super) fn check_memory(&self, comes: usize, goes: usize) -> Result<(), String> {
        if comes == 0 || self.pipeline.actions - goes + comes <= self.most_actions {
            return Ok(());
        }
        let (most, has) = (self.most_actions >> 20, self.pipeline.actions >> 20);
        Err(format!(
            "{comes} bytes of actions; those of all flows and groups may take {most} MiB, and take {has}; delete \
             some first"
        ))
    }

    fn check_overlap(&self, flow: &Flow) -> Result<(), Refused> {
        match self.pipeline.tables[usize::from(flow.table.0)].overlap(&flow.matching, flow.priority) {
            Some(_) => refuse_as(
                Refusal::Overlap,
                format!(
                    "table {}: the flow overlaps another of priority {}, which check_overlap forbids",
                    flow.table, flow.priority
                ),
            ),
            None => Ok(()),
        }
    }

    fn put(&mut self, entry: Arc<Entry>, event: EntryEvent) {
        let (table, matching) = (entry.flow.table, entry.flow.matching.clone());
        self.touched.push(touched(&entry.flow));
        self.tell(&entry.flow, event);
        let priority = entry.flow.priority;
        self.pipeline.entries += usize::from(event == EntryEvent::Added);
        self.pipeline.actions += entry.flow.instructions.memory();
        if entry.is_timed() {
            self.pipeline.timed += 1;
            self.timed.push(entry.clone());
        }
        self.evictions.add(&entry);
        let of = &mut self.pipeline.tables[usize::from(table.0)];
        if self.many {
            of.gather();
        }
        let clauses = clauses(&entry.flow);
        let old = match clauses.is_empty() {
            true => of.insert(matching, priority, entry),
            false => of.insert_conjunctive(matching, priority, entry, clauses.into()),
        };
        if let Some(old) = old {
            self.pipeline.actions -= old.flow.instructions.memory();
            self.pipeline.timed -= usize::from(old.is_timed());
        }
    }

    /// Notes what became of an entry, if anybody wants to know.
    fn tell(&mut self, flow: &Flow, what: EntryEvent) {
        if let Some(told) = &mut self.told {
            told.push(EntryChange { at: self.at, flow: flow.clone(), what });
        }
    }

    fn modify(
        &mut self,
        flow: Flow,
        cookie: Option<u64>,
        select: &Select,
        or_add: bool,
    ) -> Result<(), Refused> {
        let selected = self.selected(select);
        if selected.is_empty() {
            // Whether it could be done does not depend on what there is.
            return if or_add { self.add(flow) } else { self.check_instructions(&flow) };
        }
        // Before any is made: together they may not fit into the machine.
        let goes = selected.iter().map(|old| old.flow.instructions.memory()).sum();
        self.check_memory(selected.len() * flow.instructions.memory(), goes)
            .map_err(|text| Refused { why: Refusal::TableFull, text })?;
        let mut changed = Vec::with_capacity(selected.len());
        for old in selected {
            let mut new = old.flow.clone();
            new.instructions = flow.instructions.clone();
            new.cookie = cookie.unwrap_or(new.cookie);
            self.check(&new)?;
            let counts = old.counts();
            let counts = if flow.flags.reset_counts { Arc::new(counts.reset()) } else { counts.clone() };
            changed.push(Arc::new(Entry::new(new, old.born().clone(), Some(counts))));
        }
        changed.into_iter().for_each(|entry| self.put(entry, EntryEvent::Modified));
        Ok(())
    }

    /// Empties a table, or all of them: its entries go together.
    fn empty(&mut self, table: Option<TableId>) {
        for at in self.pipeline.tables.used() {
            if table.is_some_and(|table| usize::from(table.0) != at) || self.pipeline.tables[at].is_empty() {
                continue;
            }
            let new = Table::new(self.pipeline.seed);
            let old = std::mem::replace(&mut self.pipeline.tables[at], new);
            self.pipeline.entries -= old.len();
            self.touched.push(Touched::Packets(TableId(at as u8), Match::any()));
            for rule in old.iter() {
                let entry = &rule.value;
                self.pipeline.actions -= entry.flow.instructions.memory();
                self.pipeline.timed -= usize::from(entry.is_timed());
                self.tell_gone(entry, Removal::Delete);
            }
        }
    }

    /// Tells that an entry went, if that is wanted.
    fn tell_gone(&mut self, entry: &Arc<Entry>, why: Removal) {
        self.tell(&entry.flow, EntryEvent::Removed(why));
        if entry.flow.flags.send_flow_rem {
            self.removed.push((entry.clone(), why));
        }
    }

    /// Removes an entry, which is told if that was wanted.
    pub(super) fn delete(&mut self, entry: &Arc<Entry>, why: Removal) {
        self.remove(entry);
        self.tell_gone(entry, why);
    }

    pub(crate) fn remove(&mut self, entry: &Arc<Entry>) {
        let flow = &entry.flow;
        let table = &mut self.pipeline.tables[usize::from(flow.table.0)];
        if table.remove(&flow.matching, flow.priority).is_some() {
            self.pipeline.entries -= 1;
            self.pipeline.actions -= flow.instructions.memory();
            self.pipeline.timed -= usize::from(entry.is_timed());
            self.touched.push(touched(flow));
        }
    }

    /// The entries that are meant.
    pub(super) fn selected(&self, select: &Select) -> Vec<Arc<Entry>> {
        let tables = match select.table {
            Some(table) => self.pipeline.tables.get(usize::from(table.0)).into_iter().collect(),
            None => self.pipeline.tables.iter_used().collect::<Vec<_>>(),
        };
        let marked = |entry: &&Arc<Entry>| select.is_marked(&entry.flow);
        if let Some(priority) = select.strict {
            let found = tables.into_iter().filter_map(|table| table.get(&select.matching, priority));
            return found.filter(marked).cloned().collect();
        }
        let within = tables.into_iter().flat_map(|table| table.within(&select.matching));
        within.map(|rule| &rule.value).filter(marked).cloned().collect()
    }

    pub(super) fn remove_where(&mut self, why: Removal, which: impl Fn(&Flow) -> bool) {
        let all = self.pipeline.tables.iter_used().flat_map(|table| table.iter());
        let gone: Vec<Arc<Entry>> =
            all.filter(|rule| which(&rule.value.flow)).map(|rule| rule.value.clone()).collect();
        for entry in gone {
            self.delete(&entry, why);
        }
    }

    /// Whether a flow can be done at all.
    fn check(&self, flow: &Flow) -> Result<(), Refused> {
        if flow.table > TableId::LAST {
            let text = format!("table {}: tables are numbered 0 to {}", flow.table, TableId::LAST);
            return refuse_as(Refusal::NoTable, text);
        }
        let goto = flow.instructions.goto;
        if let Some(next) = goto.filter(|next| *next <= flow.table || *next > TableId::LAST) {
            let why = format!("goto_table must lead to a later table, not to table {next}");
            return refuse_as(Refusal::BadGoto, format!("table {}: {why}", flow.table));
        }
        self.check_instructions(flow)
    }

    fn check_instructions(&self, flow: &Flow) -> Result<(), Refused> {
        let at =
            |refused: Refused| Refused { text: format!("table {}: {}", flow.table, refused.text), ..refused };
        let instructions = &flow.instructions;
        if instructions.mixes_conjunctions() {
            let text = format!(
                "table {}: `conjunction` can stand beside `note`, but beside no other action or instruction; give what \
                 is to be done to an entry that matches conj_id",
                flow.table
            );
            return refuse_as(Refusal::BadConjunction, text);
        }
        if instructions.any(&|action| matches!(action, Action::ResubmitTracked { .. })) && !is_connected(flow)
        {
            let text = "resubmit with ct needs packets of a connection; match ct_state=+trk-inv, +est, +new or +rel \
                        beside it";
            return refuse_as(Refusal::BadAction, format!("table {}: {text}", flow.table));
        }
        if let Some(meter) = instructions.meter {
            check_meter(&self.pipeline, meter).map_err(at)?;
        }
        check_actions(&self.pipeline, &instructions.apply, false).map_err(at)?;
        check_actions(&self.pipeline, &instructions.write, true).map_err(at)
    }
}

/// Whether what an entry matches belongs to a connection (`ovs-actions(7)`, `resubmit`).
fn is_connected(flow: &Flow) -> bool {
    /// New, established, related, reply, translated.
    const ANY: u128 = 0xcf;
    const INVALID: u128 = 0x10;
    const TRACKED: u128 = 0x20;
    let (value, mask) = flow.matching.field(Field::CtState);
    value & ANY != 0 || value & TRACKED != 0 && mask & INVALID != 0 && value & INVALID == 0
}

fn check_meter(pipeline: &Pipeline, meter: MeterId) -> Result<(), Refused> {
    if pipeline.meters.contains_key(&meter) {
        return Ok(());
    }
    refuse_as(Refusal::NoMeter, format!("there is no meter {meter}; add it before the flow"))
}

fn check_ct(pipeline: &Pipeline, ct: &Ct) -> Result<(), Refused> {
    if pipeline.tracker.is_none() {
        let text =
            "`ct` needs the service `conntrack`, of the kind `conntrack`; give it that name".to_owned();
        return refuse_as(Refusal::NoService, text);
    }
    if let Some(table) = ct.table.filter(|table| *table > TableId::LAST) {
        return refuse(format!("ct: there is no table {table}; tables are 0 to {}", TableId::LAST));
    }
    Ok(())
}

/// Whether there is this service, and it can be told this.
fn check_service(pipeline: &Pipeline, number: u16, arguments: &[Argument]) -> Result<(), Refused> {
    let Some(service) = pipeline.service(number) else {
        return refuse_as(Refusal::NoService, format!("there is no service of number {number}"));
    };
    (service.takes)(arguments)
        .or_else(|why| refuse_as(Refusal::BadArgument, format!("service {number}: {why}")))
}

/// Whether actions can be done; some cannot stand in a set (in a bucket, or written).
pub(super) fn check_actions(pipeline: &Pipeline, actions: &[Action], in_set: bool) -> Result<(), Refused> {
    for action in actions {
        match action {
            Action::Ct(ct) => check_ct(pipeline, ct)?,
            Action::Group(id) if !pipeline.groups.contains_key(id) => {
                let text = format!("there is no group {id}; add it before it is used");
                return refuse_as(Refusal::NoGroup, text);
            }
            Action::Meter(meter) => check_meter(pipeline, *meter)?,
            Action::Service { service, argument } => {
                check_service(pipeline, *service, &[Argument::Number(*argument)])?;
            }
            Action::ServiceWith { service, arguments } => {
                check_service(pipeline, *service, arguments.list())?
            }
            Action::Resubmit { .. } | Action::ResubmitTracked { .. } | Action::Clone(_) | Action::Exit
                if in_set =>
            {
                return refuse("resubmit, clone and exit cannot stand in an action set or bucket".to_owned());
            }
            Action::Conjunction(_) if in_set => {
                return refuse("conjunction cannot stand in an action set or bucket".to_owned());
            }
            Action::Conjunction(conjunction) => {
                if let Err(text) = conjunction.check() {
                    return refuse_as(Refusal::BadConjunction, text.to_owned());
                }
            }
            Action::Clone(actions) => check_actions(pipeline, actions, false)?,
            _ => {}
        }
    }
    Ok(())
}

/// What a change of an entry may concern. No packet has a number in `conj_id`, which is what a conjunction gives it where
/// all of its dimensions are met: so an entry that demands one may concern all that match the rest.
fn touched(flow: &Flow) -> Touched {
    Touched::Packets(flow.table, flow.matching.without(Field::ConjId))
}

/// The conjunctions whose dimensions an entry's packets meet.
fn clauses(flow: &Flow) -> Vec<Clause> {
    let clause = |of: &Conjunction| Clause {
        id: of.id,
        dimensions: of.dimensions,
        dimension: of.dimension.saturating_sub(1),
    };
    flow.instructions.conjunctions().map(clause).collect()
}

/// Whether all entries of a table, or of all tables, are meant.
fn selects_all(select: &Select) -> bool {
    let Select { table: _, matching, strict, cookie: (_, cookie_mask), out_port, out_group } = select;
    matching.terms().is_empty()
        && strict.is_none()
        && *cookie_mask == 0
        && out_port.is_none()
        && out_group.is_none()
}

/// What changes have packets need beside the tables.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// The services that they call, by number.
    pub(super) called: BTreeSet<u16>,
    /// Whether they have addresses translated.
    pub(super) translates: bool,
    /// Whether they forward by addresses that were learned.
    pub(super) learns: bool,
}

impl Uses {
    /// Of a list of changes, where the connection tracker is the service of this number.
    pub(super) fn of(changes: &[Change], tracker: Option<u16>) -> Self {
        let mut uses = Self::default();
        for change in changes {
            match change {
                Change::Flow(change) => uses.note(change, tracker),
                Change::SetGroup(group) | Change::AddGroup(group) | Change::ModifyGroup(group) => {
                    uses.note_buckets(&group.buckets, tracker);
                }
                Change::InsertBuckets(_, _, buckets) => uses.note_buckets(buckets, tracker),
                _ => {}
            }
        }
        uses
    }

    /// Adds what a change of flow entries uses.
    pub(crate) fn note(&mut self, change: &FlowMod, tracker: Option<u16>) {
        if let FlowMod::Add(flow) | FlowMod::Modify { flow, .. } = change {
            flow.instructions.each(&mut |action| self.note_action(action, tracker));
        }
    }

    fn note_buckets(&mut self, buckets: &[Bucket], tracker: Option<u16>) {
        let actions = buckets.iter().flat_map(|bucket| &bucket.actions);
        actions.for_each(|action| self.note_action(action, tracker));
    }

    fn note_action(&mut self, action: &Action, tracker: Option<u16>) {
        self.called.extend(called(action, tracker));
        self.learns |=
            matches!(action, Action::Output(PortNo::NORMAL) | Action::OutputWith(PortNo::NORMAL, _));
        self.translates |= matches!(action, Action::Ct(ct) if ct.nat().is_some());
    }
}

/// The groups that a flow entry sends to.
pub(super) fn groups_of(flow: &Flow) -> BTreeSet<GroupId> {
    let mut found = BTreeSet::new();
    flow.instructions.each(&mut |action| {
        if let Action::Group(id) = action {
            found.insert(*id);
        }
    });
    found
}

/// The meters that police a flow entry's packets.
pub(super) fn meters_of(flow: &Flow) -> BTreeSet<MeterId> {
    let mut found = flow.instructions.meter.into_iter().collect::<BTreeSet<_>>();
    flow.instructions.each(&mut |action| {
        if let Action::Meter(id) = action {
            found.insert(*id);
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Seed;
    use weir_openflow::{Group, Names};

    /// What so many output actions take.
    fn outputs(count: usize) -> usize {
        count * size_of::<Action>()
    }

    /// Tables that may hold so many output actions.
    fn draft(count: usize) -> Draft {
        let mut draft = Draft::new(Pipeline::new(Seed::new(1), Vec::new(), true), Nanos(0));
        draft.most_actions = outputs(count);
        draft
    }

    fn flow(port: u16, count: usize) -> Flow {
        let mut flow = Flow::parse(&format!("udp,tp_dst={port} actions=drop"), &Names::default()).unwrap();
        flow.instructions.apply = vec![Action::Output(PortNo(1)); count];
        flow
    }

    fn why(done: Result<(), Refused>) -> Option<Refusal> {
        done.err().map(|refused| refused.why)
    }

    #[test]
    fn actions_of_entries_have_a_bound_and_give_their_room_back() {
        let mut draft = draft(10);
        let add = |draft: &mut Draft, port, count| why(draft.change_flow(FlowMod::Add(flow(port, count))));
        assert_eq!(add(&mut draft, 1, 6), None);
        assert_eq!(add(&mut draft, 2, 5), Some(Refusal::TableFull));
        assert_eq!(add(&mut draft, 2, 4), None);
        assert_eq!(add(&mut draft, 3, 1), Some(Refusal::TableFull));
        assert_eq!(add(&mut draft, 1, 5), None, "what is replaced makes room");
        assert_eq!(draft.pipeline.actions, outputs(9));
        let select = |port| Select { matching: flow(port, 0).matching, ..Select::default() };
        assert_eq!(why(draft.change_flow(FlowMod::Delete(select(2)))), None);
        assert_eq!(draft.pipeline.actions, outputs(5));
        assert_eq!(add(&mut draft, 3, 5), None);
        assert_eq!(why(draft.change_flow(FlowMod::Delete(Select::default()))), None);
        assert_eq!(draft.pipeline.actions, 0);
    }

    #[test]
    fn one_message_does_not_give_all_entries_more_actions_than_there_is_room_for() {
        let mut draft = draft(100);
        for port in 0..50 {
            draft.change_flow(FlowMod::Add(flow(port, 1))).unwrap();
        }
        let modify = |count| {
            let select = Select::default();
            FlowMod::Modify { flow: flow(0, count), cookie: None, select, or_add: false }
        };
        assert_eq!(why(draft.change_flow(modify(3))), Some(Refusal::TableFull));
        assert_eq!(draft.pipeline.actions, outputs(50), "nothing was changed");
        assert_eq!(why(draft.change_flow(modify(2))), None);
        assert_eq!(draft.pipeline.actions, outputs(100));
        assert_eq!(why(draft.change_flow(modify(0))), None, "less is always possible");
        assert_eq!(draft.pipeline.actions, 0);
    }

    #[test]
    fn buckets_count_as_entries_do() {
        let mut draft = draft(100);
        let group = |id: u32, buckets: usize| {
            let text = format!("group_id={id},type=all{}", ",bucket=output:1".repeat(buckets));
            Group::parse(&text, &Names::default()).unwrap()
        };
        assert_eq!(why(draft.change(Change::AddGroup(group(1, 10)))), None);
        let ten = draft.pipeline.actions;
        assert!(ten > 10 * outputs(2), "{ten}");
        assert_eq!(why(draft.change(Change::AddGroup(group(2, 1000)))), Some(Refusal::BucketsExhausted));
        assert_eq!(why(draft.change(Change::SetGroup(group(1, 5)))), None);
        assert_eq!(draft.pipeline.actions, ten / 2);
        draft.change(Change::DeleteGroup(None)).unwrap();
        assert_eq!(draft.pipeline.actions, 0);
    }
}

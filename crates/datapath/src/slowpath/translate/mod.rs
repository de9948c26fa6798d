//! The slow path: what the tables make of one stage of a packet, and for which other packets that holds.
//!
//! A translation follows a packet through the tables and writes down the operations that the datapath
//! is to do, and in a mask every bit of the packet, as it came, on which the outcome depended
//! (un-wildcarding). A bit set too many costs a megaflow that matches fewer packets; a bit too few is a
//! bug.
//!
//! Fields that were written on the way depend on nothing any more, and looking at them un-wildcards nothing
//! ([`Origins`]). Fields that a service may have changed are the packet's own: looking at them puts a
//! condition on the coalesced segment, its guard, instead. Behind a popped header that the key did not reach into
//! (`opaque`), the tables cannot go on: the rest is frozen, and the packet comes back with a
//! recirculation id to be looked at as it is then. Behind a service it is looked at as it is then in any case:
//! all that its headers say is its own.
//!
//! Work in progress is an explicit stack of tasks instead of recursion, so that it can be frozen
//! anywhere and no flow table can exhaust the thread's stack.
//!
//! Cost: about a microsecond for a handful of tables. Runs on the worker that missed.

mod actions;
mod connections;
mod copies;
mod finish;
mod headers;
mod origins;
mod set;
mod spread;
mod state;
mod trail;
mod tuple;

pub(crate) use connections::Call;
pub(crate) use origins::Origins;
pub(crate) use set::ActionSet;
pub(crate) use state::{Frozen, FrozenStore};
pub(crate) use trail::{DueLookup, Trail, follow};

use crate::actions::program::{Counted, Credit, Op, Segment};
use crate::model::entries::{Entry, GroupEntry, Touched};
use crate::model::pipeline::Pipeline;
use crate::slowpath::explain::Explain;
use state::{Copied, Stands, State};
use std::sync::Arc;
use weir_flow::{Field, Key, Layout, Mask, Match};
use weir_openflow::{Action, PortNo, TableId, ToController};
use weir_packet::DropReason;

/// Lookups of one translation. More is taken for a loop.
const LOOKUPS: u32 = 1024;

/// Tasks that may wait at once.
const DEPTH: usize = 1024;

/// Tasks, and outputs of floods, of one translation: what a group of 1,024 buckets with a dozen actions each takes.
/// Groups that lead to groups would otherwise take 2, 4, 8 ... times as many at each level.
const WORK: u32 = 1 << 14;

/// Copies of copies, buckets of groups that lead to groups included: as deep as in Open vSwitch.
const NESTED: u32 = 64;

/// What is to be done next.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Actions from a place on.
    Actions(List, usize),
    /// The instructions that follow an entry's applied actions.
    Then(Arc<Entry>),
    /// A lookup in a table, as if the packet came in by this port; whether it is a resubmission.
    Lookup { table: TableId, in_port: Option<u32>, resubmitted: bool },
    /// The same by the original tuple of the packet's connection.
    Tracked { table: TableId, in_port: Option<u32> },
    /// Actions on a copy of the packet as it is by then.
    Copy(List),
    /// The end of what is done to a copy.
    EndCopy(Copied),
    /// The action set, when all else is done.
    ActionSet,
}

/// Where actions stand.
#[derive(Clone, Debug)]
pub(super) enum List {
    /// Applied by an entry.
    Entry(Arc<Entry>),
    /// Of a group's bucket.
    Bucket(Arc<GroupEntry>, usize),
    /// By themselves.
    Actions(Arc<[Action]>),
}

impl List {
    /// The actions from a place on.
    fn from(&self, at: usize) -> Arc<[Action]> {
        (at..).map_while(|at| self.get(at).cloned()).collect()
    }

    fn get(&self, at: usize) -> Option<&Action> {
        match self {
            Self::Entry(entry) => entry.flow.instructions.apply.get(at),
            Self::Bucket(group, bucket) => group.actions[*bucket].get(at),
            Self::Actions(actions) => actions.get(at),
        }
    }
}

/// What a packet is when its translation begins.
pub(crate) struct Subject<'a> {
    /// Its fields now.
    pub(crate) key: &'a Key,
    /// Where its headers start.
    pub(crate) layout: Layout,
    /// Its bytes now.
    pub(crate) frame: &'a [u8],
    /// What each bit depends on, of the packet as it came to the caches.
    pub(crate) origins: &'a Origins,
    /// What was frozen, if it comes back.
    pub(crate) frozen: Option<&'a Frozen>,
}

/// What the tables made of a stage.
pub(crate) struct Outcome {
    /// Operations, credits and the guard.
    pub(crate) segment: Segment,
    /// Bits of the packet as it came that mattered.
    pub(crate) examined: Mask,
    /// What each bit depends on from now on.
    pub(crate) origins: Origins,
    /// Tables visited, one bit each.
    pub(crate) tables: [u64; 4],
}

/// A translation under way.
pub(super) struct Translation<'a> {
    pipeline: &'a Pipeline,
    state: State,
    /// The packet's key when this stage began.
    began: &'a Key,
    examined: Mask,
    guard: Match,
    ops: Vec<Op>,
    credits: Vec<Credit>,
    tables: [u64; 4],
    stack: Vec<Task>,
    set: set::ActionSet,
    lookups: u32,
    /// Tasks and outputs so far.
    work: u32,
    /// Copies that the one at hand is in.
    nested: u32,
    /// Why the packet ends, if nothing is done with it.
    why: DropReason,
    store: &'a mut FrozenStore,
    explain: Explain<'a>,
    /// Its lookups, for whoever wants to know them.
    trail: Option<Trail>,
    /// Above zero while the packet is asked what is in its context.
    of_context: u32,
}

/// Follows a packet through the tables.
pub(crate) fn translate<'a>(
    pipeline: &'a Pipeline,
    subject: &Subject<'a>,
    store: &'a mut FrozenStore,
    explain: Explain<'a>,
) -> Outcome {
    let mut translation = begin(pipeline, subject, store, explain);
    translation.start(subject);
    translation.run();
    translation.end()
}

/// Does actions to a packet that is in no table: a packet-out (OpenFlow 1.3.5, section 7.3.7).
pub(crate) fn translate_actions<'a>(
    pipeline: &'a Pipeline,
    subject: &Subject<'a>,
    actions: Arc<[Action]>,
    store: &'a mut FrozenStore,
) -> Outcome {
    let mut translation = begin(pipeline, subject, store, Explain::SILENT);
    translation.state.stands = Stands::PacketOut;
    translation.stack.push(Task::ActionSet);
    translation.stack.push(Task::Actions(List::Actions(actions), 0));
    translation.run();
    translation.end()
}

fn begin<'a>(
    pipeline: &'a Pipeline,
    subject: &Subject<'a>,
    store: &'a mut FrozenStore,
    explain: Explain<'a>,
) -> Translation<'a> {
    Translation {
        pipeline,
        state: State::new(subject),
        began: subject.key,
        examined: Mask::new(),
        guard: Match::any(),
        ops: Vec::with_capacity(4),
        credits: Vec::with_capacity(4),
        tables: [0; 4],
        stack: Vec::with_capacity(8),
        set: set::ActionSet::default(),
        lookups: 0,
        work: 0,
        nested: 0,
        why: DropReason::ByFlow,
        store,
        explain,
        trail: None,
        of_context: 0,
    }
}

impl Translation<'_> {
    /// What every packet is asked, and the first task.
    fn start(&mut self, subject: &Subject<'_>) {
        self.explain.why(&"every packet");
        for field in [Field::InPort, Field::SfStage, Field::RecircId] {
            self.of_context(|of| of.examine_field(field));
        }
        if let Some(frozen) = subject.frozen {
            self.stack.clone_from(&frozen.rest.tasks);
            self.set = frozen.rest.set.clone();
            (self.state.table, self.state.cookie) = (frozen.rest.table, frozen.rest.cookie);
            self.state.stands = frozen.rest.stands;
            self.why = frozen.rest.why;
            // From here on the packet is one that came in without the number.
            Field::RecircId.set(&mut self.state.key, 0);
            self.fix(Field::RecircId, u128::MAX);
            return;
        }
        let in_port = PortNo(Field::InPort.get(&self.state.key) as u32);
        if self.pipeline.ports.get(&in_port).is_some_and(|info| !info.receives()) {
            self.give_up(DropReason::PortDown);
            return;
        }
        self.stack.push(Task::ActionSet);
        self.stack.push(Task::Lookup { table: TableId(0), in_port: None, resubmitted: false });
    }

    fn run(&mut self) {
        while let Some(task) = self.stack.pop() {
            self.work += 1;
            if self.stack.len() > DEPTH || self.lookups > LOOKUPS || self.work > WORK {
                self.give_up(DropReason::TooDeep);
                return;
            }
            match task {
                Task::Actions(list, at) => self.action_of(list, at),
                Task::Then(entry) => self.instructions(&entry),
                Task::Lookup { table, in_port, resubmitted } => {
                    self.lookup(table, in_port, resubmitted, false);
                }
                Task::Tracked { table, in_port } => self.lookup(table, in_port, true, true),
                Task::Copy(list) => self.begin_clone(list),
                Task::EndCopy(copied) => self.end_copy(copied),
                Task::ActionSet => self.action_set(),
            }
        }
    }

    /// Ends everything: the packet is dropped, and so is what was done so far.
    fn give_up(&mut self, reason: DropReason) {
        self.explain.say(|| format!("gives up: {}", reason.about()));
        self.stack.clear();
        self.ops.clear();
        self.ops.push(Op::Drop(reason));
    }

    /// Looks at bits of a word: they matter from now on.
    fn examine_bits(&mut self, place: usize, bits: u64) {
        let sources = self.state.origins.of(place, bits);
        if sources.own | sources.came != 0 {
            self.asks();
        }
        if sources.own != 0 {
            self.guard.demand_bits(place, self.began.word(place), sources.own);
        }
        if sources.came & !self.examined.word(place) != 0 {
            self.explain.examined(place, sources.came & !self.examined.word(place));
            self.examined.add(place, sources.came);
        }
    }

    fn examine_mask(&mut self, mask: &Mask) {
        for (place, bits) in mask.iter() {
            self.examine_bits(place, bits);
        }
    }

    /// Looks at a field and returns it.
    fn examine_field(&mut self, field: Field) -> u128 {
        for (place, _, bits) in field.spread(0, u128::MAX) {
            self.examine_bits(place, bits);
        }
        field.get(&self.state.key)
    }

    /// Bits of a field depend on nothing any more.
    fn fix(&mut self, field: Field, bits: u128) {
        for (place, _, bits) in field.spread(0, bits) {
            self.state.origins.fix(place, bits);
        }
    }

    /// Looks the packet up in a table.
    fn lookup(&mut self, table: TableId, in_port: Option<u32>, resubmitted: bool, tracked: bool) {
        if self.state.opaque {
            self.freeze(match tracked {
                true => Task::Tracked { table, in_port },
                false => Task::Lookup { table, in_port, resubmitted },
            });
            return;
        }
        self.lookups += 1;
        self.tables[usize::from(table.0 / 64)] |= 1 << (table.0 % 64);
        self.explain.why(&format_args!("table {table}"));
        let tables = self.pipeline;
        let Some(of) = tables.tables.get(usize::from(table.0)) else {
            self.why = DropReason::NoMatch;
            return;
        };
        self.explain.say(|| format!("table {table}: looked up in {}", of.structure()));
        match &mut self.trail {
            // The table walk knows packets by their own addresses.
            Some(trail) if tracked => trail.leave(),
            Some(_) => self.way_point(table, in_port, resubmitted),
            None => {}
        }
        let mut examined = Mask::new();
        let found = if in_port.is_none() && !tracked {
            of.lookup(&self.state.key, &mut examined)
        } else {
            let mut key = self.state.key.clone();
            if let Some(port) = in_port {
                Field::InPort.set(&mut key, u128::from(port));
            }
            if tracked {
                tuple::swap(&mut key);
            }
            let found = of.lookup(&key, &mut examined);
            if in_port.is_some() {
                for (place, _, bits) in Field::InPort.spread(0, u128::MAX) {
                    examined.remove(place, bits);
                }
            }
            if tracked {
                tuple::swap_examined(&mut examined);
            }
            found
        };
        let found = found.map(|rule| rule.value.clone());
        self.way_led(found.as_ref());
        self.of_context(|of| of.examine_mask(&examined));
        match found {
            Some(entry) => self.matched(entry),
            None => self.missed(table, resubmitted),
        }
    }

    fn matched(&mut self, entry: Arc<Entry>) {
        self.explain.matched(&entry);
        self.state.table = entry.flow.table;
        self.state.cookie = entry.flow.cookie;
        let of_miss = entry.flow.priority == 0 && entry.flow.matching.terms().is_empty();
        self.state.stands = if of_miss { Stands::Miss } else { Stands::Entry };
        self.credits.push(Credit::Entry(entry.clone()));
        if let Some(meter) = entry.flow.instructions.meter {
            self.meter(meter);
        }
        self.stack.push(Task::Then(entry.clone()));
        self.stack.push(Task::Actions(List::Entry(entry), 0));
    }

    fn missed(&mut self, table: TableId, resubmitted: bool) {
        self.explain.say(|| format!("table {table}: no entry matches"));
        self.credits.push(Credit::Miss(table));
        if !resubmitted {
            self.why = DropReason::NoMatch;
            self.set = set::ActionSet::default();
            if self.pipeline.wants.misses {
                (self.state.table, self.state.cookie) = (table, state::NO_ENTRY);
                self.state.stands = Stands::Miss;
                self.controller(&ToController::default());
            }
        }
    }

    /// Instructions that follow the applied actions (OpenFlow 1.3.5, section 5.9).
    fn instructions(&mut self, entry: &Arc<Entry>) {
        let instructions = &entry.flow.instructions;
        if instructions.clear {
            self.set = set::ActionSet::default();
        }
        for action in &instructions.write {
            self.set.write(action);
        }
        if let Some((value, mask)) = instructions.metadata {
            self.write(Field::Metadata, u128::from(value), u128::from(mask));
        }
        if let Some(table) = instructions.goto {
            self.stack.push(Task::Lookup { table, in_port: None, resubmitted: false });
        }
    }

    /// The segment that came of it.
    fn end(mut self) -> Outcome {
        let ops = std::mem::take(&mut self.ops);
        let ops = finish::finish(ops, self.why);
        if self.state.opaque || self.state.shows {
            self.state.origins.show();
        }
        Outcome {
            segment: Segment { guard: self.guard, ops, credits: self.credits, counted: Counted::default() },
            examined: self.examined,
            origins: self.state.origins,
            tables: self.tables,
        }
    }
}

/// Whether a change may concern the megaflows that used these tables; see [`crate::actions::program::Program`].
pub(crate) fn concerns(touched: &Touched, check: impl FnOnce(TableId, &Match) -> bool) -> bool {
    match touched {
        Touched::All => true,
        Touched::Packets(table, matching) => check(*table, matching),
    }
}

#[cfg(test)]
mod equivalence;

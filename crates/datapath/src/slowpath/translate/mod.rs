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
//! All translations are one function's, [`translate`]: of a packet that misses, of one for which the table walk's graph has
//! no edge yet, of a controller's packet-out, and of a person's question. They differ in where the packet's way begins
//! ([`Begin`]) and in who looks on ([`Watch`]).
//!
//! Work in progress is an explicit stack of tasks instead of recursion, so that it can be frozen
//! anywhere and no flow table can exhaust the thread's stack.
//!
//! Cost: about a microsecond for a handful of tables. Runs on the worker that missed.

mod actions;
mod connections;
mod copies;
mod finish;
mod frozen;
mod headers;
mod lookup;
mod normal;
mod origins;
mod set;
mod spread;
mod state;
mod trail;
mod tuple;

pub(crate) use frozen::{Frozen, FrozenStore};
pub(crate) use origins::Origins;
pub(crate) use set::ActionSet;
pub(crate) use trail::{DueLookup, Trail};

use crate::actions::program::{Counted, Credit, Op, Segment};
use crate::model::addresses::Sighting;
use crate::model::entries::{Entry, GroupEntry, Touched};
use crate::model::pipeline::Pipeline;
use crate::slowpath::explain::{Explain, Story};
use crate::slowpath::laps::Laps;
use state::{Copied, Stands, State};
use std::sync::Arc;
use weir_flow::{Field, Key, Layout, Mask, Match};
use weir_openflow::{Action, PortNo, TableId};
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

impl Task {
    /// What it is called, for who measures it.
    const fn name(&self) -> &'static str {
        match self {
            Self::Actions(..) => "action",
            Self::Then(_) => "instructions",
            Self::Lookup { .. } | Self::Tracked { .. } => "lookup",
            Self::Copy(_) => "copy",
            Self::EndCopy(_) => "end of copy",
            Self::ActionSet => "action set",
        }
    }
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
    /// Where its way begins.
    pub(crate) begin: Begin<'a>,
}

/// Where a packet's way through the tables begins.
#[derive(Clone, Debug)]
pub(crate) enum Begin<'a> {
    /// At the first table.
    Port,
    /// Where an earlier translation stopped: the packet comes back from a recirculation or the connection tracker.
    Frozen(&'a Frozen),
    /// In no table: a packet-out has its actions with it (OpenFlow 1.3.5, section 7.3.7).
    Actions(Arc<[Action]>),
}

impl<'a> Begin<'a> {
    /// At what was frozen, if anything was.
    pub(crate) fn at(frozen: Option<&'a Frozen>) -> Self {
        frozen.map_or(Self::Port, Self::Frozen)
    }
}

/// Who looks on at a translation.
pub(crate) enum Watch<'a> {
    /// Nobody; that costs a branch where something could be told.
    Nobody,
    /// A person who asks what becomes of a packet, and why.
    Story(&'a mut Story),
    /// Who measures how long each task takes.
    Laps(&'a mut Laps),
    /// The table walk, which notes the lookups of a packet's way.
    Trail(&'a mut Trail),
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
    /// Words of the key that a lookup saw otherwise than the packet came with, one bit each: on a copy as well, and as if
    /// the packet came in by another port.
    pub(crate) rewritten: u64,
    /// Addresses to be learned.
    pub(crate) sightings: Vec<Sighting>,
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
    rewritten: u64,
    sightings: Vec<Sighting>,
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
    trail: Option<&'a mut Trail>,
    /// Above zero while the packet is asked what is in its context.
    of_context: u32,
}

/// Follows a packet through the tables.
pub(crate) fn translate<'a>(
    pipeline: &'a Pipeline,
    subject: &Subject<'a>,
    store: &'a mut FrozenStore,
    watch: Watch<'a>,
) -> Outcome {
    let (mut explain, trail) = match watch {
        Watch::Nobody => (Explain::Silent, None),
        Watch::Story(story) => (Explain::Story(story), None),
        Watch::Laps(laps) => (Explain::Laps(laps), None),
        Watch::Trail(trail) => (Explain::Silent, Some(trail)),
    };
    explain.task(|| "begin");
    let mut translation = Translation {
        pipeline,
        state: State::new(subject),
        began: subject.key,
        examined: Mask::new(),
        guard: Match::any(),
        ops: Vec::with_capacity(4),
        credits: Vec::with_capacity(4),
        tables: [0; 4],
        rewritten: 0,
        sightings: Vec::new(),
        stack: Vec::with_capacity(8),
        set: set::ActionSet::default(),
        lookups: 0,
        work: 0,
        nested: 0,
        why: DropReason::ByFlow,
        store,
        explain,
        trail,
        of_context: 0,
    };
    translation.start(&subject.begin);
    translation.run();
    translation.end()
}

impl Translation<'_> {
    /// What every packet is asked, and the first task.
    fn start(&mut self, begin: &Begin<'_>) {
        if let Begin::Actions(actions) = begin {
            self.state.stands = Stands::PacketOut;
            self.stack.push(Task::ActionSet);
            self.stack.push(Task::Actions(List::Actions(actions.clone()), 0));
            return;
        }
        self.explain.why(&"every packet");
        for field in [Field::InPort, Field::SfStage, Field::RecircId] {
            self.of_context(|of| of.examine_field(field));
        }
        if let Begin::Frozen(frozen) = begin {
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
            self.explain.task(|| task.name());
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

    /// The segment that came of it.
    fn end(mut self) -> Outcome {
        self.explain.task(|| "end");
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
            rewritten: self.rewritten,
            sightings: self.sightings,
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

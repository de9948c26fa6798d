//! What a megaflow does: operations, cut into segments at services.
//!
//! A segment is what the tables made of one stage. It ends with an operation after which the packet is
//! elsewhere: forwarded, dropped, with a service, or back at the caches. Behind a service the next
//! segment may follow at once (stage coalescing, SoftFlow section 3.1), under the guard that the packet
//! still looks as it did when the segment was made, in the fields that the service may change.
//!
//! Flows of one pipeline do the same in most respects. So what a megaflow does, its [`Plan`], is kept once
//! (`plans.rs`), and a megaflow's own [`Program`] is what it counted, and who is credited: a packet touches one
//! cache line of it. Threads: one worker's.

use crate::actions::call::{Call, RecirculationId, Telling};
use crate::actions::edit::Rewrite;
use crate::actions::header::HeaderOp;
use crate::model::counts::Counts;
use crate::model::entries::{Entry, MeterEntry, TableCounts};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_cpu::prefetch;
use weir_flow::{Key, Match};
use weir_openflow::{TableId, ToController};
use weir_packet::DropReason;
use weir_services::Memo;
use weir_units::Nanos;

/// One operation on a packet.
#[derive(Debug)]
pub(crate) enum Op {
    /// Fields are set.
    Rewrite(Box<Rewrite>),
    /// A header is pushed or popped, or a TTL changes.
    Header(HeaderOp),
    /// The time to live is lowered. Who gets packets that cannot go on.
    DecTtl(Option<Arc<Punt>>),
    /// The same of MPLS.
    DecMplsTtl(Option<Arc<Punt>>),
    /// A copy leaves by the port at this place.
    Copy(u16),
    /// A copy goes to the controller.
    Controller(Arc<Punt>),
    /// The meter polices.
    Meter(Arc<MeterEntry>),
    /// The operations are done to a copy.
    Clone(Vec<Op>),
    /// One of the choices is done to a copy.
    SelectCopy(Box<Select>),
    /// One of the choices is done to the packet. Last.
    Select(Box<Select>),
    /// The packet leaves. Last.
    Forward(u16),
    /// The packet ends. Last.
    Drop(DropReason),
    /// The packet goes to the controller. Last.
    Punt(Arc<Punt>),
    /// A service takes the packet: its number and argument. Last.
    Service(u16, u32),
    /// The same, where it is told more than a number. Last.
    Tell(Arc<Telling>),
    /// The connection tracker takes the packet, as `ct` asks. Last.
    Track(Arc<Call>),
    /// The packet goes back to the caches, to go on where the tables could not see. Last.
    Recirculate(Arc<RecirculationId>),
}

/// What goes to a controller, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Punt {
    pub(crate) to: ToController,
    pub(crate) table: TableId,
    pub(crate) cookie: u64,
}

/// A group's choices with the weights spread over slots: the flow's hash names the slot, or whose turn it is.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) slots: Arc<[u16]>,
    /// Where choices are made in turns: the next slot, once there was a packet.
    pub(crate) turn: Option<Cell<Option<usize>>>,
    pub(crate) choices: Vec<Choice>,
}

/// A bucket's operations and what they counted.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) ops: Vec<Op>,
    pub(crate) counts: Arc<Counts>,
    /// Counted and not yet credited.
    pub(crate) counted: Cell<Counted>,
}

/// Who counts the packets of a segment.
#[derive(Clone, Debug)]
pub(crate) enum Credit {
    /// A flow entry; and its table, for a lookup with a match.
    Entry(Arc<Entry>),
    /// A table, for a lookup without a match.
    Miss(TableId),
    /// A group, or a bucket that every packet goes through.
    Counts(Arc<Counts>),
}

/// Packets and their bytes, counted and not yet credited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// One stage of a packet's way, as the tables made it.
#[derive(Debug)]
pub(crate) struct Segment {
    /// What the packet must look like, in fields that a service before may have changed.
    pub(crate) guard: Match,
    pub(crate) ops: Vec<Op>,
    pub(crate) credits: Vec<Credit>,
    pub(crate) counted: Counted,
}

/// A segment with its counters, whoever it is of: what the worker does to a packet.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) guard: &'a Match,
    pub(crate) ops: &'a [Op],
    pub(crate) counted: &'a mut Counted,
}

/// A segment without its counters.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) guard: Match,
    pub(crate) ops: Vec<Op>,
}

/// What megaflows do, any number of them.
#[derive(Debug)]
pub(crate) struct Plan {
    /// At least one; each but the last ends with a service.
    pub(crate) stages: Vec<Stage>,
    /// The tables they went through, one bit each.
    pub(crate) tables: [u64; 4],
    /// Words of the key that were rewritten on the way, one bit each: later matches on them say
    /// nothing of the packet as it came.
    pub(crate) rewritten: u64,
    /// Whether packets can have it that just came in, and the fast path can do it.
    pub(crate) is_short: bool,
}

/// Segments whose counters are in the front line of a program.
const IN_FRONT: usize = 2;

/// What a megaflow stands for. The front line is what its packets need.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Program {
    plan: Rc<Plan>,
    /// The generation that it is known to be right for.
    pub(crate) generation: u64,
    /// When it was last used.
    pub(crate) used: Nanos,
    /// Of the first segments.
    counted: [Counted; IN_FRONT],
    /// What its first service keeps here of the packets' flow.
    pub(crate) memo: Memo,
    /// Whether it is listed as having something to credit.
    pub(crate) dirty: bool,
    /// What the fast path has of it.
    pub(crate) short: Short,
    /// Of the other segments.
    more: Box<[Counted]>,
    /// Who counts, by the number of the segment.
    credits: Box<[(u8, Credit)]>,
}

const _: () = assert!(std::mem::offset_of!(Program, short) <= 64, "a packet needs one line");

/// What the fast path (`classify/fast_path.rs`) has of a megaflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// Nothing.
    Unknown,
    /// The target of this number, which may have counted what is not in the segments yet.
    Target(u32),
}

impl Counted {
    /// Counts a packet.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

impl Choice {
    /// Counts a packet that the group's choice fell on.
    #[inline]
    pub(crate) fn count(&self, bytes: usize) {
        let mut counted = self.counted.get();
        counted.add(bytes);
        self.counted.set(counted);
    }
}

impl Credit {
    /// Adds what was counted.
    fn add(&self, Counted { packets, bytes }: Counted, counts: &[TableCounts], used: Nanos) {
        match self {
            Self::Entry(entry) => {
                entry.counts().add(packets, bytes, used);
                let table = &counts[usize::from(entry.flow.table.0)];
                table.lookups.fetch_add(packets, Relaxed);
                table.matched.fetch_add(packets, Relaxed);
            }
            Self::Miss(table) => {
                counts[usize::from(table.0)].lookups.fetch_add(packets, Relaxed);
            }
            Self::Counts(counts) => counts.add(packets, bytes, used),
        }
    }
}

impl Segment {
    /// As what is done to a packet.
    #[inline]
    pub(crate) fn step(&mut self) -> Step<'_> {
        Step { guard: &self.guard, ops: &self.ops, counted: &mut self.counted }
    }

    /// Gives what was counted to those it belongs to.
    pub(crate) fn credit(&mut self, counts: &[TableCounts], used: Nanos) {
        let counted = std::mem::take(&mut self.counted);
        self.credits.iter().for_each(|credit| credit.add(counted, counts, used));
        credit_choices(&self.ops, used);
    }
}

fn credit_choices(ops: &[Op], used: Nanos) {
    for op in ops {
        match op {
            Op::Clone(ops) => credit_choices(ops, used),
            Op::Select(select) | Op::SelectCopy(select) => {
                for choice in &select.choices {
                    let Counted { packets, bytes } = choice.counted.take();
                    choice.counts.add(packets, bytes, used);
                    credit_choices(&choice.ops, used);
                }
            }
            _ => {}
        }
    }
}

impl Program {
    /// One that was used just now: its plan, and for each of its segments what was counted, and who counts.
    pub(crate) fn new(
        plan: Rc<Plan>,
        parts: Vec<(Counted, Vec<Credit>)>,
        generation: u64,
        used: Nanos,
    ) -> Self {
        let mut counted = parts.iter().map(|part| part.0);
        let front = std::array::from_fn(|_| counted.next().unwrap_or_default());
        let more = counted.collect();
        let credits = (0..)
            .zip(parts)
            .flat_map(|(number, (_, credits))| credits.into_iter().map(move |credit| (number, credit)));
        let credits = credits.collect();
        let short = Short::Unknown;
        Self { plan, generation, used, counted: front, memo: Memo::BLANK, dirty: true, short, more, credits }
    }

    /// What it does.
    #[inline]
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One of its segments.
    #[inline]
    pub(crate) fn step(&mut self, number: usize) -> Option<Step<'_>> {
        let Stage { guard, ops } = self.plan.stages.get(number)?;
        let counted = match self.counted.get_mut(number) {
            Some(counted) => counted,
            None => self.more.get_mut(number - IN_FRONT)?,
        };
        Some(Step { guard, ops, counted })
    }

    /// Takes over what its target counted.
    pub(crate) fn absorb(&mut self, counted: Counted, used: Nanos) {
        self.counted[0].packets += counted.packets;
        self.counted[0].bytes += counted.bytes;
        self.used = self.used.max(used);
    }

    /// Asks the CPU for the list of who counts.
    #[inline]
    pub(crate) fn prefetch_credits(&self) {
        self.credits.iter().step_by(64 / size_of::<(u8, Credit)>()).for_each(prefetch);
    }

    /// Gives what its segments counted to those it belongs to.
    pub(crate) fn credit(&mut self, counts: &[TableCounts]) {
        self.dirty = false;
        let Self { counted, more, credits, .. } = self;
        for (number, credit) in credits {
            let number = usize::from(*number);
            let counted = match counted.get(number) {
                Some(counted) => Some(counted),
                None => more.get(number - IN_FRONT),
            };
            if let Some(counted) = counted.filter(|counted| counted.packets > 0) {
                credit.add(*counted, counts, self.used);
            }
        }
        self.counted.iter_mut().chain(&mut self.more).for_each(|counted| *counted = Counted::default());
        self.plan.stages.iter().for_each(|stage| credit_choices(&stage.ops, self.used));
    }

    /// Whether a change in this table of entries with this match may concern a packet with this key
    /// and mask.
    pub(crate) fn is_touched(
        &self,
        table: TableId,
        matching: &Match,
        key: &Key,
        mask: &weir_flow::Mask,
    ) -> bool {
        let Plan { tables, rewritten, .. } = self.plan();
        let visited = tables[usize::from(table.0 / 64)] >> (table.0 % 64) & 1 == 1;
        visited
            && matching.terms().iter().all(|term| {
                let place = usize::from(term.place);
                let is_rewritten = rewritten >> place & 1 == 1;
                is_rewritten || (key.word(place) ^ term.value) & term.mask & mask.word(place) == 0
            })
    }
}

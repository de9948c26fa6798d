//! What a megaflow does: operations, cut into segments at services.
//!
//! A segment is what the tables made of one stage. It ends with an operation after which the packet is
//! elsewhere: forwarded, dropped, with a service, or back at the caches. Behind a service the next
//! segment may follow at once (stage coalescing, SoftFlow section 3.1), under the guard that the packet
//! still looks as it did when the segment was made, in the fields that the service may change.

use crate::edit::Rewrite;
use crate::pipeline::{Counts, Entry, MeterEntry};
use crate::shortcut::Counted;
use crate::translate::{Call, Frozen};
use std::sync::Arc;
use weir_flow::{Key, Match};
use weir_openflow::{TableId, ToController};
use weir_port::DropReason;
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
    /// The connection tracker takes the packet, as `ct` asks. Last.
    Track(Arc<Call>),
    /// The packet goes back to the caches, to go on where the tables could not see. Last.
    Recirculate(Arc<Frozen>),
}

/// Operations on headers, without further words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderOp {
    PushVlan(u16),
    PopVlan,
    PushMpls(u16),
    PopMpls(u16),
    PushPbb(u16),
    PopPbb,
    CopyTtlOut,
    CopyTtlIn,
    SetEtherType(u16),
    SetBottom(bool),
    SetProtocol(u8),
}

/// What goes to a controller, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Punt {
    pub(crate) to: ToController,
    pub(crate) table: TableId,
    pub(crate) cookie: u64,
}

/// A group's choices with the weights spread over slots: the flow's hash names the slot.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) slots: Arc<[u16]>,
    pub(crate) choices: Vec<Choice>,
}

/// A bucket's operations and what they counted.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) ops: Vec<Op>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
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

/// One stage of a megaflow.
#[derive(Debug)]
pub(crate) struct Segment {
    /// What the packet must look like, in fields that a service before may have changed.
    pub(crate) guard: Match,
    pub(crate) ops: Vec<Op>,
    pub(crate) credits: Vec<Credit>,
    /// Counted and not yet credited.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// What a megaflow stands for.
#[derive(Debug)]
pub(crate) struct Program {
    /// At least one; each but the last ends with a service.
    pub(crate) segments: Vec<Segment>,
    /// The tables it went through, one bit each.
    pub(crate) tables: [u64; 4],
    /// Words of the key that were rewritten on the way, one bit each: later matches on them say
    /// nothing of the packet as it came.
    pub(crate) rewritten: u64,
    /// The generation that it is known to be right for.
    pub(crate) generation: u64,
    /// When it was last used.
    pub(crate) used: Nanos,
    /// Whether it is listed as having something to credit.
    pub(crate) dirty: bool,
    /// What the short way has of it.
    pub(crate) short: Short,
}

/// What the short way (`shortcut.rs`) has of a megaflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// Nobody asked yet.
    Unknown,
    /// It does more than the short way can.
    Never,
    /// The brief of this number, which may have counted what is not in the segments yet.
    Brief(u32),
}

impl Segment {
    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// Gives what was counted to those it belongs to.
    pub(crate) fn credit(&mut self, counts: &[crate::pipeline::TableCounts], used: Nanos) {
        use std::sync::atomic::Ordering::Relaxed;
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        for credit in &self.credits {
            match credit {
                Credit::Entry(entry) => {
                    entry.counts().add(packets, bytes, used);
                    let table = &counts[usize::from(entry.flow.table.0)];
                    table.lookups.fetch_add(packets, Relaxed);
                    table.matched.fetch_add(packets, Relaxed);
                }
                Credit::Miss(table) => {
                    counts[usize::from(table.0)].lookups.fetch_add(packets, Relaxed);
                }
                Credit::Counts(counts) => counts.add(packets, bytes, used),
            }
        }
        credit_choices(&mut self.ops, used);
    }
}

fn credit_choices(ops: &mut [Op], used: Nanos) {
    for op in ops {
        match op {
            Op::Clone(ops) => credit_choices(ops, used),
            Op::Select(select) | Op::SelectCopy(select) => {
                for choice in &mut select.choices {
                    choice.counts.add(
                        std::mem::take(&mut choice.packets),
                        std::mem::take(&mut choice.bytes),
                        used,
                    );
                    credit_choices(&mut choice.ops, used);
                }
            }
            _ => {}
        }
    }
}

impl Program {
    /// Takes over what its brief counted.
    pub(crate) fn absorb(&mut self, counted: Counted) {
        if let Some(segment) = self.segments.first_mut() {
            segment.packets += counted.packets;
            segment.bytes += counted.bytes;
        }
        self.used = self.used.max(counted.used);
    }

    /// Gives what its segments counted to those it belongs to.
    pub(crate) fn credit(&mut self, counts: &[crate::pipeline::TableCounts]) {
        self.dirty = false;
        for segment in &mut self.segments {
            if segment.packets > 0 {
                segment.credit(counts, self.used);
            }
        }
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
        let visited = self.tables[usize::from(table.0 / 64)] >> (table.0 % 64) & 1 == 1;
        visited
            && matching.terms().iter().all(|term| {
                let place = usize::from(term.place);
                let rewritten = self.rewritten >> place & 1 == 1;
                rewritten || (key.word(place) ^ term.value) & term.mask & mask.word(place) == 0
            })
    }
}

//! What a translation knows of the packet at hand, and what is kept of it when it is frozen.

use super::set::ActionSet;
use super::{Call, List, Origins, Subject, Task};
use crate::program::Op;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use weir_flow::{Key, Layout, Mask};
use weir_openflow::TableId;
use weir_port::DropReason;

/// The cookie that packets have that no entry sent: all ones (OpenFlow 1.3.5, section 7.4.1).
pub(super) const NO_ENTRY: u64 = u64::MAX;

/// The packet as it would be now.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(super) key: Key,
    pub(super) layout: Layout,
    pub(super) frame: Vec<u8>,
    /// The key as the frame is: without what was written and not yet done to it. Edits read the old
    /// values there.
    pub(super) in_step: Key,
    /// What each bit depends on.
    pub(super) origins: Origins,
    /// Bits of the key that were written, and not yet by an operation.
    pub(super) pending: Mask,
    /// Whether headers came to light that the packet's key did not have.
    pub(super) opaque: bool,
    /// Whether the packet's key may come to have more than was followed here, without another header: it became
    /// a message of neighbour discovery, or ceased to be one.
    pub(super) shows: bool,
    /// The table and cookie of the entry whose actions run, and where these stand.
    pub(super) table: TableId,
    pub(super) cookie: u64,
    pub(super) stands: Stands,
}

/// Where actions stand, as far as a controller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// In a table-miss entry (OpenFlow 1.3.5, section 5.4).
    Miss,
    /// In another entry.
    Entry,
    /// In the action set.
    Set,
    /// In a group's bucket.
    Group,
    /// In a packet-out.
    PacketOut,
}

impl Stands {
    /// OpenFlow's reason of packets that they send to a controller (OpenFlow 1.4.1, section 7.4.1).
    pub(super) const fn reason(self) -> u8 {
        match self {
            Self::Miss => 0,
            Self::Entry => 1,
            Self::Set => 3,
            Self::Group => 4,
            Self::PacketOut => 5,
        }
    }
}

impl State {
    pub(super) fn new(subject: &Subject<'_>) -> Self {
        Self {
            key: subject.key.clone(),
            layout: subject.layout,
            frame: subject.frame.to_vec(),
            in_step: subject.key.clone(),
            origins: subject.origins.clone(),
            pending: Mask::new(),
            opaque: false,
            shows: false,
            table: TableId(0),
            cookie: NO_ENTRY,
            stands: Stands::Entry,
        }
    }
}

/// What comes back when actions on a copy are done.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(super) state: Box<State>,
    pub(super) set: ActionSet,
    /// Operations before the copy: their number stands for them, because they stay where they are.
    pub(super) kind: CopyKind,
}

/// What the copy is for.
#[derive(Clone, Debug)]
pub(super) enum CopyKind {
    /// Actions in `clone`: their operations are one [`Op::Clone`] from this place in the list on.
    Action(usize),
    /// A group's bucket: likewise.
    Bucket(usize),
    /// The operations are one choice of a group, of which others follow.
    Choice(Box<Choices>),
}

impl CopyKind {
    /// Whether it is for `clone`, and not a group's.
    pub(super) const fn is_of_action(&self) -> bool {
        matches!(self, Self::Action(_))
    }
}

/// A group's choices, as far as they are translated.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    pub(super) group: Arc<crate::pipeline::GroupEntry>,
    /// Buckets that take part, by place.
    pub(super) alive: Vec<usize>,
    /// How many of them are done.
    pub(super) done: usize,
    /// Where in the list of operations the choice at hand begins.
    pub(super) from: usize,
}

/// What is left to do for packets that come back from recirculation.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The number they come back with.
    pub(crate) id: u32,
    pub(super) rest: Rest,
}

/// What is left to do.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub(super) tasks: Vec<Task>,
    pub(super) set: ActionSet,
    /// The table and cookie of the entry whose actions run.
    pub(super) table: TableId,
    pub(super) cookie: u64,
    pub(super) stands: Stands,
    /// Why the packet ends, if nothing is done with it.
    pub(super) why: DropReason,
}

impl Rest {
    fn is(&self, other: &Self) -> bool {
        (self.table, self.cookie, self.stands, self.why)
            == (other.table, other.cookie, other.stands, other.why)
            && self.set == other.set
            && self.tasks.len() == other.tasks.len()
            && self.tasks.iter().zip(&other.tasks).all(|(a, b)| a.is(b))
    }
}

/// A worker's frozen translations, as long as a megaflow refers to them. Numbers are never used twice.
#[derive(Debug, Default)]
pub(crate) struct FrozenStore {
    last: u32,
    frozen: HashMap<u32, Weak<Frozen>>,
    /// By number, which is used again when no megaflow has the call any more.
    calls: Vec<Option<Arc<Call>>>,
}

impl FrozenStore {
    /// The one of this number.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Frozen>> {
        self.frozen.get(&id)?.upgrade()
    }

    /// The call of this number.
    #[inline]
    pub(crate) fn call(&self, number: u32) -> Option<&Arc<Call>> {
        self.calls.get(number as usize)?.as_ref()
    }

    /// Keeps a call, or finds that it is kept already.
    pub(super) fn keep_call(&mut self, mut call: Call) -> Arc<Call> {
        if let Some(kept) = self.calls.iter().flatten().find(|kept| kept.is(&call)) {
            return kept.clone();
        }
        for kept in &mut self.calls {
            kept.take_if(|kept| Arc::strong_count(kept) == 1);
        }
        let free = self.calls.iter().position(Option::is_none).unwrap_or(self.calls.len());
        if free == self.calls.len() {
            self.calls.push(None);
        }
        call.number = free as u32;
        let call = Arc::new(call);
        self.calls[free] = Some(call.clone());
        call
    }

    /// Keeps what is left to do, or finds that it is kept already.
    pub(super) fn keep(&mut self, rest: Rest) -> Arc<Frozen> {
        let mut kept = self.frozen.values().filter_map(Weak::upgrade);
        if let Some(frozen) = kept.find(|frozen| frozen.rest.is(&rest)) {
            return frozen;
        }
        self.frozen.retain(|_, frozen| frozen.strong_count() > 0);
        self.last += 1;
        let frozen = Arc::new(Frozen { id: self.last, rest });
        self.frozen.insert(self.last, Arc::downgrade(&frozen));
        frozen
    }
}

impl Task {
    /// Whether two tasks are the same work.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Actions(a, at), Self::Actions(b, bt)) => at == bt && a.is(b),
            (Self::Then(a), Self::Then(b)) => Arc::ptr_eq(a, b),
            (Self::Copy(a), Self::Copy(b)) => a.is(b),
            (
                Self::Lookup { table, in_port, resubmitted },
                Self::Lookup { table: t, in_port: p, resubmitted: r },
            ) => (table, in_port, resubmitted) == (t, p, r),
            (Self::ActionSet, Self::ActionSet) => true,
            // Ends of copies are never frozen.
            _ => false,
        }
    }
}

impl List {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Entry(a), Self::Entry(b)) => Arc::ptr_eq(a, b),
            (Self::Bucket(a, at), Self::Bucket(b, bt)) => at == bt && Arc::ptr_eq(a, b),
            (Self::Actions(a), Self::Actions(b)) => a == b,
            _ => false,
        }
    }
}

/// The operations from a place on, taken out of the list.
pub(super) fn cut(ops: &mut Vec<Op>, from: usize) -> Vec<Op> {
    ops.split_off(from.min(ops.len()))
}

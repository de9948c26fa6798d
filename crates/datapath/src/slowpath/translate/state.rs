//! What a translation knows of the packet at hand, and what is kept of it when it is frozen.

use super::set::ActionSet;
use super::{Call, List, Origins, Subject, Task};
use crate::actions::program::Op;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, Weak};
use weir_flow::{Key, Layout, Mask};
use weir_openflow::{Arguments, TableId, Tracking};
use weir_packet::DropReason;

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
pub(super) enum Stands {
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
    pub(super) group: Arc<crate::model::entries::GroupEntry>,
    /// Buckets that take part.
    pub(super) alive: Arc<crate::model::entries::Alive>,
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
    /// A number that two of which [`Self::is`] holds have in common, and others mostly not.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.table.0, self.cookie, self.tasks.len()).hash(&mut hasher);
        for task in &self.tasks {
            match task {
                Task::Actions(List::Entry(entry), at) => (Arc::as_ptr(entry).addr(), at).hash(&mut hasher),
                Task::Actions(List::Bucket(group, bucket), at) => {
                    (Arc::as_ptr(group).addr(), bucket, at).hash(&mut hasher);
                }
                Task::Actions(List::Actions(actions), at) => (actions, at).hash(&mut hasher),
                Task::Then(entry) => Arc::as_ptr(entry).addr().hash(&mut hasher),
                Task::Lookup { table, in_port, .. } => (table.0, in_port).hash(&mut hasher),
                Task::Tracked { table, in_port } => (table.0, in_port, true).hash(&mut hasher),
                Task::Copy(_) | Task::EndCopy(_) | Task::ActionSet => {}
            }
        }
        hasher.finish()
    }

    fn is(&self, other: &Self) -> bool {
        (self.table, self.cookie, self.stands, self.why)
            == (other.table, other.cookie, other.stands, other.why)
            && self.set == other.set
            && self.tasks.len() == other.tasks.len()
            && self.tasks.iter().zip(&other.tasks).all(|(a, b)| a.is(b))
    }
}

/// A worker's frozen translations, as long as a megaflow refers to them, and its calls of the connection
/// tracker and what services are told, some while longer. Numbers of frozen translations are never used twice.
///
/// Cost: what is kept already is found by a hash; what nobody refers to any more is swept out when as much
/// came as there was, so that keeping costs the same however much is kept.
#[derive(Debug, Default)]
pub(crate) struct FrozenStore {
    last: u32,
    frozen: HashMap<u32, Weak<Frozen>>,
    /// Their numbers by [`Rest::digest`].
    digests: HashMap<u64, Vec<u32>>,
    /// How many there were when they were swept last.
    swept: usize,
    /// By what they ask: service, number of what follows, and all else.
    calls: Numbered<(u16, u32, Tracking), Call>,
    /// By service and all that it is told.
    tellings: Numbered<(u16, Arguments), Telling>,
}

/// What a service is told, where that is more than a number.
#[derive(Debug)]
pub(crate) struct Telling {
    /// Its number among those of the worker.
    pub(crate) number: u32,
    /// The service.
    pub(crate) service: u16,
    pub(crate) arguments: Arguments,
}

/// Things by numbers, which are used again when nobody else has a thing any more.
#[derive(Debug)]
struct Numbered<K, T> {
    /// By number, each with what it is found by.
    kept: Vec<Option<(K, Arc<T>)>>,
    numbers: HashMap<K, u32>,
    /// Numbers that may be used again.
    spare: Vec<u32>,
}

impl<K, T> Default for Numbered<K, T> {
    fn default() -> Self {
        Self { kept: Vec::new(), numbers: HashMap::new(), spare: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, T> Numbered<K, T> {
    #[inline]
    fn get(&self, number: u32) -> Option<&Arc<T>> {
        self.kept.get(number as usize)?.as_ref().map(|(_, thing)| thing)
    }

    /// Keeps a thing, or finds that it is kept already.
    fn keep(&mut self, by: K, make: impl FnOnce(u32) -> T) -> Arc<T> {
        if let Some(kept) = self.numbers.get(&by).and_then(|number| self.get(*number)) {
            return kept.clone();
        }
        if self.spare.is_empty() && self.kept.len() >= LITTLE {
            self.sweep();
        }
        let number = self.spare.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() as u32 - 1
        });
        let thing = Arc::new(make(number));
        self.numbers.insert(by.clone(), number);
        self.kept[number as usize] = Some((by, thing.clone()));
        thing
    }

    /// What no megaflow has any more goes. Where little does, room is made for as much again.
    fn sweep(&mut self) {
        for (number, place) in self.kept.iter_mut().enumerate() {
            if let Some((by, _)) = place.take_if(|(_, thing)| Arc::strong_count(thing) == 1) {
                self.numbers.remove(&by);
                self.spare.push(number as u32);
            }
        }
        let live = self.kept.len() - self.spare.len();
        for number in self.kept.len()..self.kept.len().max(2 * live) {
            self.kept.push(None);
            self.spare.push(number as u32);
        }
    }
}

/// What is kept before anything is swept out.
const LITTLE: usize = 64;

impl FrozenStore {
    /// The one of this number.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Frozen>> {
        self.frozen.get(&id)?.upgrade()
    }

    /// The call of this number.
    #[inline]
    pub(crate) fn call(&self, number: u32) -> Option<&Arc<Call>> {
        self.calls.get(number)
    }

    /// What a service is told, by number.
    #[inline]
    pub(crate) fn telling(&self, number: u32) -> Option<&Arc<Telling>> {
        self.tellings.get(number)
    }

    /// Keeps a call, or finds that it is kept already.
    pub(super) fn keep_call(&mut self, service: u16, tracking: Tracking, next: Arc<Frozen>) -> Arc<Call> {
        let by = (service, next.id, tracking.clone());
        self.calls.keep(by, |number| Call { number, service, tracking, next })
    }

    /// The same of what a service is told.
    pub(super) fn keep_telling(&mut self, service: u16, arguments: Arguments) -> Arc<Telling> {
        let by = (service, arguments.clone());
        self.tellings.keep(by, |number| Telling { number, service, arguments })
    }

    /// Keeps what is left to do, or finds that it is kept already.
    pub(super) fn keep(&mut self, rest: Rest) -> Arc<Frozen> {
        let digest = rest.digest();
        let alike = self.digests.get(&digest).into_iter().flatten();
        let mut kept = alike.filter_map(|id| self.frozen.get(id)?.upgrade());
        if let Some(frozen) = kept.find(|frozen| frozen.rest.is(&rest)) {
            return frozen;
        }
        if self.frozen.len() >= LITTLE + 2 * self.swept {
            let Self { frozen, digests, .. } = self;
            frozen.retain(|_, frozen| frozen.strong_count() > 0);
            digests.retain(|_, ids| {
                ids.retain(|id| frozen.contains_key(id));
                !ids.is_empty()
            });
            self.swept = self.frozen.len();
        }
        self.last += 1;
        let frozen = Arc::new(Frozen { id: self.last, rest });
        self.frozen.insert(self.last, Arc::downgrade(&frozen));
        self.digests.entry(digest).or_default().push(self.last);
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
            (Self::Tracked { table, in_port }, Self::Tracked { table: t, in_port: p }) => {
                (table, in_port) == (t, p)
            }
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

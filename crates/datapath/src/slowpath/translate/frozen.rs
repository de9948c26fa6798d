//! What is left to do for packets that come back, kept by number (`recirc_id`), as Open vSwitch keeps its frozen state;
//! and what the tracker and services are asked, kept likewise.

use super::set::ActionSet;
use super::state::Stands;
use super::{List, Task};
use crate::actions::call::{Call, RecirculationId, Telling};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use weir_openflow::{Arguments, TableId, Tracking};
use weir_packet::DropReason;

/// What is left to do for packets that come back from recirculation.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The number they come back with. Operations have it too, as long as it is of use.
    id: Arc<RecirculationId>,
    pub(super) rest: Rest,
}

impl Frozen {
    /// Whether an operation, or a call, leads here.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.id) > 1
    }
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

/// A worker's frozen translations, its calls of the connection tracker and what services are told: as long as operations
/// refer to them, and some while longer. A number of a frozen translation is never that of another one.
///
/// Cost: what is kept already is found by a hash; what nobody refers to any more is swept out when as much
/// came as there was, so that keeping costs the same however much is kept.
#[derive(Debug, Default)]
pub(crate) struct FrozenStore {
    last: u32,
    frozen: HashMap<u32, Arc<Frozen>>,
    /// Their numbers by [`Rest::digest`].
    digests: HashMap<u64, Vec<u32>>,
    /// How many there were when they were swept last.
    swept: usize,
    /// By what they ask: service, number of what follows, and all else.
    calls: Numbered<(u16, u32, Tracking), Call>,
    /// By service and all that it is told.
    tellings: Numbered<(u16, Arguments), Telling>,
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
        self.frozen.get(&id).filter(|frozen| frozen.is_in_use()).cloned()
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
    pub(super) fn keep_call(
        &mut self,
        service: u16,
        tracking: Tracking,
        next: Arc<RecirculationId>,
    ) -> Arc<Call> {
        let by = (service, next.0, tracking.clone());
        self.calls.keep(by, |number| Call { number, service, tracking, next })
    }

    /// The same of what a service is told.
    pub(super) fn keep_telling(&mut self, service: u16, arguments: Arguments) -> Arc<Telling> {
        let by = (service, arguments.clone());
        self.tellings.keep(by, |number| Telling { number, service, arguments })
    }

    /// Keeps what is left to do, or finds that it is kept already.
    pub(super) fn keep(&mut self, rest: Rest) -> Arc<RecirculationId> {
        let digest = rest.digest();
        let alike = self.digests.get(&digest).into_iter().flatten();
        let mut kept = alike.filter_map(|id| self.frozen.get(id));
        if let Some(frozen) = kept.find(|frozen| frozen.rest.is(&rest)) {
            return frozen.id.clone();
        }
        if self.frozen.len() >= LITTLE + 2 * self.swept {
            let Self { frozen, digests, .. } = self;
            frozen.retain(|_, frozen| frozen.is_in_use());
            digests.retain(|_, ids| {
                ids.retain(|id| frozen.contains_key(id));
                !ids.is_empty()
            });
            self.swept = self.frozen.len();
        }
        self.last += 1;
        let id = Arc::new(RecirculationId(self.last));
        self.frozen.insert(self.last, Arc::new(Frozen { id: id.clone(), rest }));
        self.digests.entry(digest).or_default().push(self.last);
        id
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

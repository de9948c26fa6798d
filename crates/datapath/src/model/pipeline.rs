//! What the workers forward by: an immutable snapshot of tables, groups, meters, ports and services.
//!
//! The control thread builds a new snapshot from the old one, sharing all that did not change, and
//! hands it to each worker, which takes it up between two bursts. So a list of changes is seen whole
//! or not at all, and nobody waits. A worker gives the old snapshot back: it is freed elsewhere.
//!
//! The journal says what the last snapshots changed, so that a megaflow made under an older one need
//! not be made again unless a change may concern it (`journal.rs`).

use crate::model::journal::Journal;
use crate::model::kept::Kept;
use crate::model::living::{Alive, Living, watched_port};
use crate::model::meter::MeterState;
use crate::model::requests::{Evict, PortFlags, Removal, Wants};
use crate::model::table_list::TableList;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_flow::{Field, Mask, Match, Seed};
use weir_openflow::{Action, Flow, Group, GroupId, Meter, MeterId, PortNo, TableId};
use weir_services::conntrack::Owners;
use weir_units::Nanos;

/// Tables of a switch.
pub(super) const TABLES: usize = TableId::LAST.0 as usize + 1;

/// A flow entry with its counters. Workers add to them now and then, never per packet.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As the controller described it.
    pub(crate) flow: Flow,
    born: Birth,
    counts: Arc<Counts>,
}

/// When entries were added: the same for all that came together, and to be said when they take effect.
#[derive(Clone, Debug)]
pub(crate) struct Birth(Arc<AtomicU64>);

impl Birth {
    pub(crate) fn new(now: Nanos) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// Moves it to when they took effect.
    pub(crate) fn set(&self, now: Nanos) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Packets, bytes, and when the last came. Shared by the entries that replace one another with their
/// counters kept, and by the buckets of a group.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    packets: AtomicU64,
    bytes: AtomicU64,
    used: AtomicU64,
}

impl Counts {
    /// Adds to the counters.
    pub(crate) fn add(&self, packets: u64, bytes: u64, used: Nanos) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Most of what is credited together was used at the same time, and a load is cheaper.
        if self.used.load(Ordering::Relaxed) < used.0 {
            self.used.fetch_max(used.0, Ordering::Relaxed);
        }
    }

    /// Counters at zero that remember when the last packet came.
    pub(crate) fn reset(&self) -> Self {
        Self { used: AtomicU64::new(self.used.load(Ordering::Relaxed)), ..Self::default() }
    }

    /// Packets and bytes.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// When the last packet came; zero if none did.
    pub(crate) fn used(&self) -> Nanos {
        Nanos(self.used.load(Ordering::Relaxed))
    }
}

impl Entry {
    /// A new entry; with the counters of the one it replaces, or its own.
    pub(crate) fn new(flow: Flow, born: Birth, counts: Option<Arc<Counts>>) -> Self {
        Self { flow, born, counts: counts.unwrap_or_default() }
    }

    pub(crate) const fn born(&self) -> &Birth {
        &self.born
    }

    /// When it was added.
    pub(crate) fn created(&self) -> Nanos {
        self.born.get()
    }

    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Whether it goes by itself some time.
    pub(crate) const fn is_timed(&self) -> bool {
        self.flow.idle_timeout > 0 || self.flow.hard_timeout > 0
    }

    /// When it is over if no packet comes any more, and why; nothing if it stays.
    pub(crate) fn over_at(&self) -> Option<(Nanos, Removal)> {
        let after = |seconds: u16, since: Nanos| {
            (seconds > 0).then(|| Nanos(since.0 + u64::from(seconds) * Nanos::PER_SECOND))
        };
        let hard = after(self.flow.hard_timeout, self.created()).map(|at| (at, Removal::Hard));
        let idle = after(self.flow.idle_timeout, self.used()).map(|at| (at, Removal::Idle));
        match (hard, idle) {
            (Some(hard), Some(idle)) => Some(if hard.0 <= idle.0 { hard } else { idle }),
            (one, other) => one.or(other),
        }
    }

    /// When it was last of use: its last packet, or when it was added.
    pub(crate) fn used(&self) -> Nanos {
        self.counts.used().max(self.created())
    }
}

/// Groups, at most.
pub const MOST_GROUPS: usize = 1 << 16;

/// Meters, at most.
pub const MOST_METERS: usize = 1 << 16;

/// Buckets of a group, at most: as many as there are slots that a packet's hash takes one of
/// (`slowpath/translate/spread.rs`).
pub const MOST_BUCKETS: usize = 1024;

/// Groups that one may lead to, or watch, through others, at most: what looking for a circle costs.
pub const MOST_CHAINED: usize = 1024;

/// A group with its counters.
#[derive(Debug)]
pub(crate) struct GroupEntry {
    pub(crate) group: Group,
    /// When it was added.
    pub(crate) created: Nanos,
    /// The actions of each bucket, which are a set, in the order in which they are done.
    pub(crate) actions: Vec<Vec<Action>>,
    pub(crate) counts: Arc<Counts>,
    /// By bucket.
    pub(crate) buckets: Vec<Arc<Counts>>,
    /// The groups that its buckets send to, each once.
    pub(crate) leads: Vec<GroupId>,
    /// The groups that its buckets watch, each once.
    pub(crate) watches: Vec<GroupId>,
    /// Its buckets where nothing is watched; and which of them each slot goes to.
    pub(crate) unwatched: Arc<Alive>,
}

impl GroupEntry {
    /// Whether it depends on anything else which of its buckets are alive.
    pub(super) fn watches_any(&self) -> bool {
        !self.watches.is_empty() || self.group.buckets.iter().any(|bucket| watched_port(bucket).is_some())
    }
}

/// A meter with its state.
#[derive(Debug)]
pub(crate) struct MeterEntry {
    pub(crate) meter: Meter,
    /// When it was added.
    pub(crate) created: Nanos,
    pub(crate) state: MeterState,
}

/// Lookups of a table, added to now and then.
#[derive(Debug, Default)]
pub(crate) struct TableCounts {
    pub(crate) lookups: AtomicU64,
    pub(crate) matched: AtomicU64,
}

/// A port, as the tables see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortInfo {
    pub(crate) number: PortNo,
    /// Its place in the workers' lists.
    pub(crate) index: u16,
    pub(crate) up: bool,
    /// What it was told.
    pub(crate) flags: PortFlags,
}

impl PortInfo {
    /// Whether packets can leave by it.
    pub(crate) const fn sends(&self) -> bool {
        self.up && !self.flags.down && !self.flags.no_forward
    }

    /// Whether what comes in by it is looked at.
    pub(crate) const fn receives(&self) -> bool {
        !self.flags.down && !self.flags.no_receive
    }
}

/// A service, as the tables see it.
#[derive(Clone, Debug)]
pub(crate) struct ServiceInfo {
    /// What it may rewrite, and `sf_metadata`.
    pub(crate) rewrites: Mask,
    /// Whether stages behind it may be coalesced.
    pub(crate) coalesces: bool,
}

/// What a change may concern.
#[derive(Clone, Debug)]
pub(crate) enum Touched {
    /// Packets that match this in this table.
    Packets(TableId, Match),
    /// Any.
    All,
}

impl Touched {
    /// Whether entries came or went, and nothing else.
    pub(crate) const fn is_of_entries(&self) -> bool {
        matches!(self, Self::Packets(..))
    }
}

/// The snapshot.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) generation: u64,
    /// By number; a table without entries is empty.
    pub(crate) tables: TableList,
    pub(crate) table_counts: Arc<Vec<TableCounts>>,
    pub(crate) groups: Arc<BTreeMap<GroupId, Arc<GroupEntry>>>,
    /// Which of their buckets are alive.
    pub(crate) living: Arc<Living>,
    pub(crate) meters: Arc<BTreeMap<MeterId, Arc<MeterEntry>>>,
    pub(crate) ports: BTreeMap<PortNo, PortInfo>,
    /// By number, from 1; nothing where a service has gone.
    pub(crate) services: Arc<Vec<Option<ServiceInfo>>>,
    /// The service that does `ct`.
    pub(crate) tracker: Option<u16>,
    /// Who has which translated connection, if any flow translates and there are several workers.
    pub(crate) owners: Option<Arc<Owners>>,
    /// What has pairs of addresses stay with their worker.
    pub(crate) kept: Kept,
    /// Whether stages are coalesced.
    pub(crate) coalescing: bool,
    /// Whether any flow calls a service that keeps state by flow.
    pub(crate) by_flow: bool,
    /// Flow entries of all tables.
    pub(crate) entries: usize,
    /// Bytes that the actions of entries and buckets take (`control/tables.rs`).
    pub(crate) actions: usize,
    /// Those that go by themselves some time.
    pub(crate) timed: usize,
    /// Tables whose entries make room for others.
    pub(crate) eviction: Arc<BTreeMap<TableId, Evict>>,
    /// What controllers want beside what actions send them.
    pub(crate) wants: Wants,
    /// Draws of groups.
    pub(crate) seed: Seed,
    journal: Journal,
}

impl Pipeline {
    /// The first snapshot: empty tables.
    pub(crate) fn new(seed: Seed, services: Vec<Option<ServiceInfo>>, coalescing: bool) -> Self {
        Self {
            generation: 0,
            tables: TableList::new(seed),
            table_counts: Arc::new((0..TABLES).map(|_| TableCounts::default()).collect()),
            groups: Arc::default(),
            living: Arc::default(),
            meters: Arc::default(),
            ports: BTreeMap::new(),
            services: Arc::new(services),
            tracker: None,
            owners: None,
            kept: Kept::default(),
            coalescing,
            by_flow: false,
            entries: 0,
            actions: 0,
            timed: 0,
            eviction: Arc::default(),
            wants: Wants::default(),
            seed,
            journal: Journal::default(),
        }
    }

    /// Makes this the next generation, which differs from the one before by these changes.
    pub(crate) fn advance(&mut self, touched: Vec<Touched>) {
        self.generation += 1;
        self.journal.push(self.generation, touched);
    }

    /// Finds out which buckets are alive, with these groups and ports.
    pub(crate) fn look_who_lives(&mut self) {
        self.living = Arc::new(Living::of(&self.groups, &self.ports, &self.living));
    }

    /// What changed since other generations.
    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Whether any flow or group calls a service.
    pub(crate) fn calls(&self, number: u16) -> bool {
        let is = |action: &Action| called(action, self.tracker) == Some(number);
        let buckets = self.groups.values().flat_map(|group| &group.group.buckets);
        buckets.flat_map(|bucket| &bucket.actions).any(is)
            || self.flows().any(|flow| flow.instructions.any(&is))
    }

    /// Whether this very entry is in its table.
    pub(crate) fn holds(&self, entry: &Arc<Entry>) -> bool {
        let flow = &entry.flow;
        let there = self.tables[usize::from(flow.table.0)].get(&flow.matching, flow.priority);
        there.is_some_and(|there| Arc::ptr_eq(there, entry))
    }

    /// All flow entries.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.tables.iter_used().flat_map(|table| table.iter()).map(|rule| &rule.value.flow)
    }

    /// The service of a number.
    pub(crate) fn service(&self, number: u16) -> Option<&ServiceInfo> {
        self.services.get(usize::from(number).checked_sub(1)?)?.as_ref()
    }
}

/// The service that an action calls.
pub(crate) fn called(action: &Action, tracker: Option<u16>) -> Option<u16> {
    match action {
        Action::Service { service, .. } => Some(*service),
        Action::Ct(_) => tracker,
        _ => None,
    }
}

impl ServiceInfo {
    /// From what the registry says.
    pub(crate) fn new(rewrites: &[Field], coalesces: bool) -> Self {
        let mut mask = Mask::new();
        for field in rewrites.iter().chain(&[Field::SfMetadata]) {
            field.examine(&mut mask, u128::MAX);
        }
        Self { rewrites: mask, coalesces }
    }
}

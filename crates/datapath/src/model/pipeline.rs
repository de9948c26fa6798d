//! What the workers forward by: an immutable snapshot of tables, groups, meters, ports and services.
//!
//! The control thread builds a new snapshot from the old one, sharing all that did not change, and
//! hands it to each worker, which takes it up between two bursts. So a list of changes is seen whole
//! or not at all, and nobody waits. A worker gives the old snapshot back: it is freed elsewhere.
//!
//! The journal says what the last snapshots changed, so that a megaflow made under an older one need
//! not be made again unless a change may concern it (`journal.rs`).

use crate::model::addresses::Addresses;
use crate::model::entries::{
    Entry, GroupEntry, MeterEntry, PortInfo, ServiceInfo, TABLES, TableCounts, Touched,
};
use crate::model::journal::Journal;
use crate::model::kept::Kept;
use crate::model::living::Living;
use crate::model::requests::{Evict, Wants};
use crate::model::selection::Selection;
use crate::model::table_list::TableList;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_flow::Seed;
use weir_openflow::{Action, Flow, GroupId, MeterId, PortNo, TableId};
use weir_services::OwnerTable;

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
    pub(crate) owners: Option<Arc<dyn OwnerTable>>,
    /// What has pairs of addresses stay with their worker.
    pub(crate) kept: Kept,
    /// Whether stages are coalesced.
    pub(crate) coalescing: bool,
    /// How select groups choose.
    pub(crate) selection: Selection,
    /// Whether any flow calls a service that keeps state by flow.
    pub(crate) by_flow: bool,
    /// Where addresses are, for `NORMAL`.
    pub(crate) addresses: Addresses,
    /// Whether any flow or group ever forwarded by them.
    pub(crate) learns: bool,
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
            selection: Selection::default(),
            by_flow: false,
            addresses: Addresses::new(seed),
            learns: false,
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
        Action::Service { service, .. } | Action::ServiceWith { service, .. } => Some(*service),
        Action::Ct(_) => tracker,
        _ => None,
    }
}

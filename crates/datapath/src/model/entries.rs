//! What a snapshot is made of: flow entries, groups, meters, ports and services, with their counters; and what a change
//! of them may concern.
//!
//! Threads: none of it changes once workers have it, but for counters and meters.

use crate::model::counts::Counts;
use crate::model::meter::MeterState;
use crate::model::requests::{PortFlags, Removal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use weir_flow::{Field, Mask, Match};
use weir_openflow::{Action, Argument, Bucket, Flow, Group, GroupId, GroupKind, Meter, PortNo, TableId};
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

/// Says of a list of arguments whether a service takes it.
pub(crate) type Takes = fn(&[Argument]) -> Result<(), String>;

/// A service, as the tables see it.
#[derive(Clone, Debug)]
pub(crate) struct ServiceInfo {
    /// What it may rewrite, and `sf_metadata`.
    pub(crate) rewrites: Mask,
    /// Whether stages behind it may be coalesced.
    pub(crate) coalesces: bool,
    /// Whether it can be told this.
    pub(crate) takes: Takes,
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

    /// Whether it concerns all packets that come in: these go to table 0 first.
    pub(super) fn is_of_all(&self) -> bool {
        match self {
            Self::All => true,
            Self::Packets(table, matching) => table.0 == 0 && matching.terms().is_empty(),
        }
    }
}

impl ServiceInfo {
    /// From what the registry says.
    pub(crate) fn new(rewrites: &[Field], coalesces: bool, takes: Takes) -> Self {
        let mut mask = Mask::new();
        for field in rewrites.iter().chain(&[Field::SfMetadata]) {
            field.examine(&mut mask, u128::MAX);
        }
        Self { rewrites: mask, coalesces, takes }
    }
}

/// The buckets of a group that are alive.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    /// By place, rising.
    pub(crate) buckets: Vec<usize>,
    /// Which of them each slot goes to, once somebody asked (`slowpath/translate/spread.rs`).
    pub(crate) slots: OnceLock<Arc<[u16]>>,
}

impl Alive {
    /// Those of a group in which nothing is watched: all; in a fast failover group none (OpenFlow 1.3.5,
    /// section 5.6.1).
    pub(crate) fn unwatched(group: &Group) -> Self {
        let none = group.kind == GroupKind::FastFailover;
        let buckets = if none { Vec::new() } else { (0..group.buckets.len()).collect() };
        Self { buckets, slots: OnceLock::new() }
    }
}

/// The port that a bucket watches.
pub(super) fn watched_port(bucket: &Bucket) -> Option<PortNo> {
    bucket.watch_port.filter(|port| *port != PortNo::ANY)
}

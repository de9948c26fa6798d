//! Classification: which megaflow a packet belongs to, or what the tables say of it without one.
//!
//! A packet is looked up in tiers, in this order, and takes the first answer:
//!
//! 1. The **fast path** ([`fast_path`]): a few bits of the frame itself name a megaflow whose actions are simple. No key
//!    is extracted, and the packet leaves at once. Only for packets that just came in by a port.
//! 2. **Flow hints** ([`hint`]): a port that classifies has marked the packet with a megaflow's name, which is verified.
//! 3. The **exact-match cache** ([`cache`]): the hash of the whole key names a megaflow, which is verified.
//! 4. The **table walk** ([`table_walk`]): a flow that was not here lately ([`new_flows`]) is classified by the tables
//!    themselves, along a graph of the ways that packets took through them. It leaves nothing behind but counts.
//! 5. The **megaflow cache** ([`cache`]): tuple-space search, with a bound of probes.
//! 6. An **upcall**: the slow path translates the packet and makes a megaflow of it, within its port's budget. Beyond
//!    that the packet walks the tables, and is dropped as `upcall-limit` where it cannot.
//!
//! A megaflow survives a change of the tables if the journal says that the change does not concern it, and so does all that
//! names it: entries of the fast path, of the exact-match cache, and hints. A change that is elsewhere ([`destinations`])
//! costs them not even that question. `docs/lookup.md` has the bounds of each tier.
//!
//! Threads: one worker's. Nothing here is shared.

pub(super) mod cache;
mod destinations;
pub(super) mod fast_path;
pub(super) mod hint;
pub(super) mod new_flows;
pub(super) mod table_walk;

use crate::model::experiment::Experiment;
use weir_flow::Seed;

/// What a worker classifies by.
pub(super) struct Tiers {
    pub(super) caches: cache::Caches,
    pub(super) new_flows: new_flows::NewFlowFilter,
    pub(super) upcall_budget: new_flows::UpcallBudget,
    pub(super) table_walk: table_walk::TableWalk,
}

impl Tiers {
    /// Empty, for ports that may have so many megaflows made a second.
    pub(super) fn new(seed: Seed, upcalls: u32, experiment: &Experiment) -> Self {
        Self {
            caches: cache::Caches::new(seed, experiment),
            new_flows: new_flows::NewFlowFilter::new(),
            upcall_budget: new_flows::UpcallBudget::new(upcalls),
            table_walk: table_walk::TableWalk::new(),
        }
    }
}

//! Megaflows in the making.
//!
//! A pending megaflow begins with the stage at hand; while services let the packet be coalesced, each further stage is
//! translated and appended (SoftFlow, section 5.2); when the packet is done, it is put into the cache. Until then the
//! packet goes through the burst like the others, so that services see packets in the order they came.

use super::translate::{FrozenStore, Origins, Outcome};
use crate::actions::program::{Segment, Step};
use weir_classifier::Handle;
use weir_flow::{Key, Mask};

/// A megaflow in the making.
pub(crate) struct PendingMegaflow {
    /// The packet as it came to the caches.
    pub(crate) key: Key,
    pub(crate) mask: Mask,
    pub(crate) origins: Origins,
    pub(crate) segments: Vec<Segment>,
    pub(crate) tables: [u64; 4],
    /// Words of the key that lookups saw otherwise than the packet came with, one bit each.
    pub(crate) rewritten: u64,
    /// Whether it becomes no megaflow, because no other packet begins as this one did.
    pub(crate) once: bool,
}

impl PendingMegaflow {
    /// One segment, if it is made yet.
    pub(crate) fn step(&mut self, number: usize) -> Option<Step<'_>> {
        self.segments.get_mut(number).map(Segment::step)
    }

    pub(crate) fn append(&mut self, outcome: Outcome) {
        self.mask.union(&outcome.examined);
        self.origins = outcome.origins;
        self.rewritten |= outcome.rewritten;
        self.segments.push(outcome.segment);
        for (tables, more) in self.tables.iter_mut().zip(outcome.tables) {
            *tables |= more;
        }
    }
}

/// What a worker's slow path has at hand.
#[derive(Default)]
pub(crate) struct SlowPath {
    /// Of the burst at hand.
    pub(crate) pending: Vec<PendingMegaflow>,
    /// Megaflows that are no longer right, and go when the burst is done.
    pub(crate) doomed: Vec<Handle>,
    pub(crate) frozen: FrozenStore,
}

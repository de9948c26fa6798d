//! Which masks are asked for which packets: by port and stage.
//!
//! Every megaflow depends on both, so that a packet's megaflow is among those of its own port and stage,
//! and what one port's traffic draws out costs no other port a probe.
//!
//! Cost: a binary search among ports and stages, once a burst and group. Threads: one worker's.

use std::ops::{Index, IndexMut};

use weir_flow::{Key, Mask};

/// Masks of one port and stage, but for one more that takes what is of none of them.
pub const MASKS: usize = 32;

/// Probes of a lookup at most, whatever the traffic.
pub const PROBES: usize = MASKS + 1;

/// The word that holds a key's port and stage, and which of its bits they are.
const PLACE: usize = 0;
const PORT_AND_STAGE: u64 = 0xffff_ffff_ff00_0000;

/// The masks of one port and stage.
#[derive(Debug)]
pub(crate) struct Group {
    id: u64,
    /// Numbers of masks, in the order they are asked.
    pub(crate) order: Vec<u32>,
    /// The one of them that covers all that came before it, once there were too many.
    pub(crate) widest: Option<u32>,
}

/// All of them, sorted.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<Group>);

impl Index<usize> for Groups {
    type Output = Group;

    fn index(&self, at: usize) -> &Group {
        &self.0[at]
    }
}

impl IndexMut<usize> for Groups {
    fn index_mut(&mut self, at: usize) -> &mut Group {
        &mut self.0[at]
    }
}

impl Groups {
    /// The group of a key.
    #[inline]
    pub(crate) fn of(key: &Key) -> u64 {
        key.word(PLACE) & PORT_AND_STAGE
    }

    /// Names port and stage.
    pub(crate) fn name(mask: &mut Mask) {
        mask.add(PLACE, PORT_AND_STAGE);
    }

    /// Where a group is, if it is there.
    #[inline]
    pub(crate) fn place(&self, id: u64) -> Option<usize> {
        self.0.binary_search_by_key(&id, |group| group.id).ok()
    }

    /// The same, made where it is not there.
    pub(crate) fn make(&mut self, id: u64) -> usize {
        self.0.binary_search_by_key(&id, |group| group.id).unwrap_or_else(|at| {
            self.0.insert(at, Group { id, order: Vec::new(), widest: None });
            at
        })
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Group> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Group> {
        self.0.iter_mut()
    }

    /// A mask without entries is asked no more; nor is a group without masks.
    pub(crate) fn forget(&mut self, number: u32) {
        for group in &mut self.0 {
            group.order.retain(|&other| other != number);
            group.widest = group.widest.filter(|&other| other != number);
        }
        self.0.retain(|group| !group.order.is_empty());
    }
}

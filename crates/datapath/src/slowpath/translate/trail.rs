//! The lookups of a translation, for whoever wants to go the same way without one.

use super::state::Stands;
use super::{ActionSet, Task, Translation};
use crate::actions::program::Credit;
use crate::model::entries::Entry;
use std::sync::Arc;
use weir_flow::Mask;
use weir_openflow::TableId;
use weir_packet::DropReason;

/// A lookup that is due, and all that is left to do when it is done.
#[derive(Debug)]
pub(crate) struct DueLookup {
    /// The table.
    pub(crate) table: TableId,
    /// The port that the packet is looked up as if it came in by.
    pub(crate) in_port: Option<u32>,
    resubmitted: bool,
    /// Words that were written on the way: place, value, mask.
    pub(crate) written: Box<[(u8, u64, u64)]>,
    pending: Mask,
    tasks: Vec<Task>,
    set: ActionSet,
    /// The table and cookie of the entry that led here and where its actions stand, where anything can still ask for them.
    origin: Option<(TableId, u64, Stands)>,
    why: DropReason,
}

/// A lookup, and what it found.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) due: DueLookup,
    pub(crate) entry: Option<Arc<Entry>>,
}

/// The lookups of one stage of a packet.
#[derive(Debug)]
pub(crate) struct Trail {
    /// Those before which nothing was done to the packet but to write constants, and nothing asked of it.
    pub(crate) steps: Vec<Step>,
    /// Whether these are all, and nothing was asked of the packet behind the last.
    pub(crate) is_plain: bool,
}

impl Default for Trail {
    fn default() -> Self {
        Self { steps: Vec::new(), is_plain: true }
    }
}

impl Trail {
    /// What follows is not on it.
    pub(super) const fn leave(&mut self) {
        self.is_plain = false;
    }
}

impl DueLookup {
    /// Whether the same is due, with the same behind it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.table, self.in_port, self.resubmitted, self.origin, self.why)
            == (other.table, other.in_port, other.resubmitted, other.origin, other.why)
            && self.written == other.written
            && self.pending == other.pending
            && self.set == other.set
            && self.tasks.len() == other.tasks.len()
            && self.tasks.iter().zip(&other.tasks).all(|(a, b)| a.is(b))
    }

    /// A number that two of which [`DueLookup::is`] holds have in common, and others mostly not.
    pub(crate) fn digest(&self) -> u64 {
        let start = u64::from(self.table.0) << 8 | self.tasks.len() as u64;
        let fold = |all: u64, &(place, value, mask): &(u8, u64, u64)| {
            let word = value.rotate_left(7) ^ mask ^ u64::from(place);
            (all ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        };
        self.written.iter().fold(start, fold)
    }
}

impl Translation<'_> {
    /// A lookup is due: notes it, if the way so far is one that others can go.
    pub(super) fn way_point(&mut self, table: TableId, in_port: Option<u32>, resubmitted: bool) {
        let plain = self.ops.is_empty()
            && !self.stack.iter().any(|task| matches!(task, Task::EndCopy(_)))
            && !self.credits.iter().any(|credit| matches!(credit, Credit::Counts(_)));
        let Some(trail) = self.trail.as_mut().filter(|trail| trail.is_plain) else { return };
        trail.is_plain = plain;
        if !plain {
            return;
        }
        let state = &self.state;
        let written = state
            .origins
            .fixed()
            .iter()
            .map(|(place, mask)| (place as u8, state.key.word(place) & mask, mask));
        let silent = |task: &Task| matches!(task, Task::ActionSet);
        let forgotten = self.stack.iter().all(silent) && self.set == ActionSet::default();
        let due = DueLookup {
            table,
            in_port,
            resubmitted,
            written: written.collect(),
            pending: state.pending.clone(),
            tasks: self.stack.clone(),
            set: self.set.clone(),
            origin: (!forgotten).then_some((state.table, state.cookie, state.stands)),
            why: self.why,
        };
        trail.steps.push(Step { due, entry: None });
    }

    /// What the lookup that was noted last found.
    pub(super) fn way_led(&mut self, entry: Option<&Arc<Entry>>) {
        if let Some(trail) = self.trail.as_mut().filter(|trail| trail.is_plain)
            && let Some(step) = trail.steps.last_mut()
        {
            step.entry = entry.cloned();
        }
    }

    /// The packet is asked something that those who go the same way may answer otherwise.
    pub(super) fn asks(&mut self) {
        if self.of_context == 0
            && let Some(trail) = &mut self.trail
        {
            trail.is_plain = false;
        }
    }

    /// Asks what all have in common who go the same way: see [`crate::classify::table_walk`].
    pub(super) fn of_context<R>(&mut self, ask: impl FnOnce(&mut Self) -> R) -> R {
        self.of_context += 1;
        let answer = ask(self);
        self.of_context -= 1;
        answer
    }
}

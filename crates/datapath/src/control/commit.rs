//! Changes of the tables, from a list of them to what the workers use.
//!
//! What: a [`Draft`] is made of the tables as they are, the changes are done to it, and it takes the place of
//! the tables in one go. [`Ahead`] is a draft whose changes come one by one, long before anybody knows whether
//! they are wanted: those of a bundle, which its controller may take a second to say. When it is committed the
//! tables are mostly still what they were at its begin, and nothing is left to do but to hand them over;
//! otherwise the changes are done again, to the tables of that moment.
//!
//! Threads: the control thread.

use crate::control::datapath::Datapath;
use crate::control::tables::{Draft, Uses};
use crate::model::pipeline::Pipeline;
use crate::model::requests::{Applied, ApplyError, Change, ControlError, EntryChange};
use std::fmt;
use std::sync::Arc;
use weir_classifier::Table;
use weir_openflow::FlowMod;
use weir_units::Nanos;

/// Settling tables takes one of so many parts of the time, at most.
const SETTLING_SHARE: u64 = 20;

/// Changes that come together and are many: tables gather them first.
const MANY: usize = 1024;

/// How a list of changes is done.
#[derive(Clone, Copy)]
struct Commit {
    /// Whether what became of entries is to be told.
    tell: bool,
    /// Whether one that is refused undoes all.
    all_or_none: bool,
}

/// Changes that were done to a copy of the tables, before they are asked for.
pub struct Ahead {
    /// The tables of which it is a copy.
    base: Arc<Pipeline>,
    draft: Draft,
    uses: Uses,
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("entries", &self.draft.pipeline.entries).finish_non_exhaustive()
    }
}

impl Ahead {
    /// Does a change, if it is one that can be done ahead of its time: of flow entries, not refused, and not one
    /// that sets counters back, which go on counting until that time. If not, this is of no use any more.
    #[must_use]
    pub fn change(&mut self, change: Change) -> bool {
        let Change::Flow(change) = change else { return false };
        if matches!(&change, FlowMod::Modify { flow, .. } if flow.flags.reset_counts) {
            return false;
        }
        self.uses.note(&change, self.base.tracker);
        self.draft.change_flow(change).is_ok()
    }
}

impl Datapath {
    /// Changes the tables, as a whole or not at all. When it returns, every worker uses the new
    /// ones.
    ///
    /// # Errors
    /// Which change cannot be done and why; nothing was changed.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        self.apply_whole(changes.to_vec())
    }

    /// The same of changes that nobody needs any more: of half a million no copy is made.
    pub(super) fn apply_whole(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        let count = changes.len();
        self.apply_all(changes, false).map(drop).map_err(|error| match error {
            ApplyError::Control(error) => error,
            ApplyError::Refused(_, refused) if count == 1 => ControlError(refused.text),
            ApplyError::Refused(at, refused) => {
                let at = at + 1;
                ControlError(format!("change {at} of {count}: {}; nothing was changed", refused.text))
            }
        })
    }

    /// The same, for whoever wants to know which change was refused and why, and (`tell`) what became of
    /// flow entries.
    ///
    /// # Errors
    /// As above.
    pub fn apply_all(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ApplyError> {
        self.commit(changes, Commit { tell, all_or_none: true })
    }

    /// Does those changes that can be done, all at once: as if each had been applied by itself, at the cost
    /// of one.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn apply_each(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ControlError> {
        self.commit(changes, Commit { tell, all_or_none: false }).map_err(|error| match error {
            ApplyError::Control(error) => error,
            ApplyError::Refused(_, refused) => ControlError(refused.text),
        })
    }

    fn commit(&mut self, changes: Vec<Change>, how: Commit) -> Result<Applied, ApplyError> {
        let uses = Uses::of(&changes, self.pipeline.tracker);
        self.wake_services(&uses.called)?;
        let mut draft = Draft::new((*self.pipeline).clone(), self.now());
        draft.told = how.tell.then(Vec::new);
        draft.many = changes.len() >= MANY;
        draft.evictions = std::mem::take(&mut self.evictions);
        let mut refusals = Vec::new();
        for (at, change) in changes.into_iter().enumerate() {
            draft.at = at;
            if let Err(refused) = draft.change(change) {
                if how.all_or_none {
                    // The queues are made anew when they are needed: some entries of theirs went in vain.
                    return Err(ApplyError::Refused(at, refused));
                }
                refusals.push((at, refused));
            }
        }
        let entries = self.replace_tables(draft, &uses)?;
        Ok(Applied { refused: refusals, entries })
    }

    /// Begins to do changes ahead of the time at which they are asked for; nothing where entries make room for
    /// others, which is for that time to decide.
    pub fn ahead(&self) -> Option<Ahead> {
        self.pipeline.eviction.is_empty().then(|| Ahead {
            base: self.pipeline.clone(),
            draft: Draft { many: true, ..Draft::new((*self.pipeline).clone(), self.now()) },
            uses: Uses::default(),
        })
    }

    /// Has what was done ahead take effect, as [`Datapath::apply_all`] would now. Returns false, and does nothing,
    /// if the tables have changed since.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn apply_ahead(&mut self, ahead: Ahead) -> Result<bool, ControlError> {
        let Ahead { base, draft, uses } = ahead;
        self.wake_services(&uses.called)?;
        if !Arc::ptr_eq(&base, &self.pipeline) {
            return Ok(false);
        }
        drop(base);
        draft.born.set(self.now());
        self.replace_tables(draft, &uses).map(|_| true)
    }

    /// Has a draft take the place of the tables it was made of; what became of entries, if it was noted.
    fn replace_tables(&mut self, draft: Draft, uses: &Uses) -> Result<Vec<EntryChange>, ControlError> {
        let Draft { pipeline: mut next, touched, timed, removed, told, evictions, .. } = draft;
        self.evictions = evictions;
        let told = told.unwrap_or_default();
        if touched.is_empty() {
            // No packet has to do with how room is made.
            let eviction = next.eviction;
            if eviction != self.pipeline.eviction {
                Arc::make_mut(&mut self.pipeline).eviction = eviction;
            }
            return Ok(told);
        }
        let by_flow = |service: &u16| self.services.get(service).is_some_and(|known| known.by_flow);
        next.by_flow |= uses.called.iter().any(by_flow);
        next.learns |= uses.learns;
        if next.owners.is_none() && uses.translates {
            next.owners = self.owners();
        }
        if next.by_flow {
            next.kept = self.kept();
        }
        for at in next.tables.used() {
            if next.tables[at].is_gathering() {
                next.tables[at].gathered();
            }
        }
        next.advance(touched);
        self.settle_in(&mut next);
        timed.iter().for_each(|entry| self.expiry.add(entry));
        self.publish(next)?;
        self.expiry.tidy(self.pipeline.timed, |entry| self.pipeline.holds(entry));
        self.tell_removed(removed);
        Ok(told)
    }

    /// Has tables make what helps their lookups and is not worth making for each of many changes: no
    /// more often than costs a twentieth of the time.
    fn settle_in(&mut self, next: &mut Pipeline) {
        let now = self.now();
        let (last, took) = self.settled;
        if now.0.saturating_sub(last.0) < SETTLING_SHARE * took.0 {
            return;
        }
        let mut settled = false;
        for at in next.tables.used() {
            if next.tables[at].is_unsettled() {
                next.tables[at].settle();
                settled = true;
            }
        }
        if settled {
            let end = self.now();
            self.settled = (end, Nanos(end.0 - now.0));
        }
    }

    /// The same for tables that were left as they were by the last change.
    pub(super) fn settle(&mut self) -> Result<(), ControlError> {
        if !self.pipeline.tables.iter_used().any(Table::is_unsettled) {
            return Ok(());
        }
        let mut next = (*self.pipeline).clone();
        self.settle_in(&mut next);
        if next.tables.iter_used().any(Table::is_unsettled) {
            return Ok(());
        }
        // It answers as before: whatever was made of it is still right.
        self.publish(next)
    }
}

//! `ct` and `ct_clear`: connections are tracked on a packet's way through the tables.
//!
//! `ct` is a call of the connection tracker, the service `conntrack`, which knows what is asked of it by a
//! [`Call`]: all that the action says, with what it reads of the packet resolved. Behind it the packet goes
//! on where the call says, with its registers and its action set: at a table, or with what follows the
//! action. The way on is frozen as for recirculation, and has its number; but mostly it is the megaflow's
//! next segment at once, under the guard that the packet still looks as the one that it was made for
//! (stage coalescing), in the connection's state and, if it was translated, in its addresses.
//!
//! As in Open vSwitch, `ct` with a table forks: what follows it in the list is done to the packet as it
//! was, untracked, beside what the table does to the tracked one. Nearly always nothing follows.

use super::frozen::Rest;
use super::state::{CopyKind, Stands};
use super::{List, Origins, Task, Translation};
use crate::actions::call::Call;
use crate::actions::program::Op;
use weir_flow::{Field, Mask};
use weir_openflow::{Action, Ct, CtStep, CtZone, Helper, Tracking};
use weir_packet::DropReason;

/// What translation may change.
const TRANSLATED: [Field; 6] =
    [Field::NwSrc, Field::NwDst, Field::TcpSrc, Field::TcpDst, Field::Ipv6Src, Field::Ipv6Dst];

impl Origins {
    /// What bits depend on behind a call of the tracker.
    pub(crate) fn behind(&self, call: &Call) -> Self {
        let (mut rewrites, mut fixed) = (Mask::new(), Mask::new());
        for field in Tracking::FIELDS {
            field.examine(if call.tracking.forgets { &mut fixed } else { &mut rewrites }, u128::MAX);
        }
        for field in TRANSLATED.iter().filter(|_| call.tracking.nat.is_some()) {
            field.examine(&mut rewrites, u128::MAX);
        }
        self.tracked(&rewrites, &fixed)
    }
}

impl Translation<'_> {
    /// Has the packet's connection tracked.
    pub(super) fn ct(&mut self, ct: &Ct) {
        let Some(service) = self.pipeline.tracker else {
            self.refuse(DropReason::NoService);
            return;
        };
        let again = || List::Actions([Action::Ct(Box::new(ct.clone()))].as_slice().into());
        if ct.table.is_some() && self.something_follows() {
            self.flush(false);
            self.stack.push(Task::Actions(List::Actions([Action::CtClear].as_slice().into()), 0));
            self.begin_copy(CopyKind::Action(self.ops.len()), again());
            return;
        }
        if self.in_copy_of_clone() {
            // A copy needs a place of its own among the packets: it gets one by recirculation.
            self.freeze(Task::Actions(again(), 0));
            return;
        }
        let tracking = self.resolved(ct);
        self.flush(true);
        let tasks = std::mem::take(&mut self.stack);
        let set = self.set.clone();
        let rest = match ct.table {
            Some(table) => {
                let lookup = Task::Lookup { table, in_port: None, resubmitted: false };
                let tasks = vec![Task::ActionSet, lookup];
                Rest { tasks, set, table, cookie: 0, stands: Stands::Entry, why: DropReason::ByFlow }
            }
            None => {
                let tasks = tasks.into_iter().filter_map(without_entry).collect();
                let (table, cookie) = (self.state.table, self.state.cookie);
                Rest { tasks, set, table, cookie, stands: self.state.stands, why: self.why }
            }
        };
        let next = self.store.keep(rest);
        let call = self.store.keep_call(service, tracking, next);
        self.ops.push(Op::Track(call));
    }

    /// The packet is as if it had not been tracked.
    pub(super) fn ct_clear(&mut self) {
        if self.examine_field(Field::CtState) == 0 {
            return;
        }
        for field in Tracking::FIELDS {
            self.write(field, 0, u128::MAX);
        }
    }

    /// Whether anything would be done to the packet after the action at hand.
    fn something_follows(&self) -> bool {
        let bottom =
            self.stack.iter().rposition(|task| matches!(task, Task::EndCopy(_))).map_or(0, |at| at + 1);
        self.stack[bottom..].iter().any(|task| match task {
            Task::Then(entry) => !entry.flow.instructions.ends(),
            Task::ActionSet => !self.set.is_empty(),
            _ => true,
        })
    }

    /// What is asked, with the packet's own bits where the action names fields.
    fn resolved(&mut self, ct: &Ct) -> Tracking {
        self.explain.why(&"ct");
        let zone = match ct.zone {
            CtZone::Number(zone) => zone,
            CtZone::Bits(bits) => {
                self.examine_subfield(bits);
                bits.get(&self.state.key) as u16
            }
        };
        let mut tracking = Tracking {
            zone,
            commit: ct.commit,
            force: ct.force,
            nat: ct.nat().copied(),
            helper: Helper::by_port(ct.helper),
            forgets: ct.table.is_none(),
            ..Tracking::default()
        };
        for step in &ct.steps {
            let CtStep::Set(action) = step else { continue };
            let (field, value, mask) = match action {
                Action::SetField { field, value, mask } => (*field, *value, *mask),
                Action::Load { value, to } => (to.field, value << to.from, to.mask()),
                Action::Move { from, to } if self.is_there(from.field.about().needs) => {
                    self.examine_subfield(*from);
                    (to.field, from.get(&self.state.key) << to.from, to.mask())
                }
                _ => continue,
            };
            if field == Field::CtMark {
                let (old, known) = tracking.mark;
                let (value, mask) = (value as u32, mask as u32);
                tracking.mark = (old & !mask | value & mask, known | mask);
            } else {
                let (old, known) = tracking.label;
                tracking.label = (old & !mask | value & mask, known | mask);
            }
        }
        tracking
    }
}

/// The same work without the entry that it is of, where that matters no more: so that what entries have in
/// common is kept once.
fn without_entry(task: Task) -> Option<Task> {
    match task {
        Task::Then(entry) if entry.flow.instructions.ends() => None,
        Task::Actions(list, at) => Some(Task::Actions(List::Actions(list.from(at)), 0)),
        other => Some(other),
    }
}

//! What is done to copies: clones, buckets of groups; and packets that leave the tables for a while:
//! services, recirculation.

use super::finish::finish;
use super::frozen::Rest;
use super::spread::{in_turns, spread};
use super::state::{Choices, Copied, CopyKind, Stands, cut};
use super::{List, Task, Translation};
use crate::actions::program::{Choice, Credit, Op, Select};
use crate::model::selection::Selection;
use std::cell::Cell;
use std::sync::Arc;
use weir_openflow::{Action, Arguments, GroupId, GroupKind};
use weir_packet::DropReason;

/// What a service is told.
#[derive(Clone, Copy)]
pub(super) enum Told<'a> {
    /// A number.
    Number(u32),
    /// Anything else.
    List(&'a Arguments),
}

impl Translation<'_> {
    pub(super) fn service(&mut self, service: u16, told: Told<'_>) {
        if self.pipeline.service(service).is_none() {
            self.refuse(DropReason::NoService);
            return;
        }
        if self.in_copy_of_clone() {
            // A copy needs a place of its own among the packets: it gets one by recirculation.
            let action = match told {
                Told::Number(argument) => Action::Service { service, argument },
                Told::List(arguments) => Action::ServiceWith { service, arguments: arguments.clone() },
            };
            let actions: Arc<[Action]> = [action].as_slice().into();
            self.end_list();
            self.freeze(Task::Actions(List::Actions(actions), 0));
            return;
        }
        self.flush(false);
        self.ops.push(match told {
            Told::Number(argument) => Op::Service(service, argument),
            Told::List(arguments) => Op::Tell(self.store.keep_telling(service, arguments.clone())),
        });
        self.end_list();
    }

    /// Whether the operations at hand are done to a copy.
    pub(super) fn in_copy_of_clone(&self) -> bool {
        self.stack.iter().any(|task| matches!(task, Task::EndCopy(_)))
    }

    /// The packet goes back to the caches, and what is left to do, this first, waits for it.
    pub(super) fn freeze(&mut self, next: Task) {
        self.stack.push(next);
        self.freeze_rest();
    }

    pub(super) fn freeze_rest(&mut self) {
        self.flush(true);
        let bottom =
            self.stack.iter().rposition(|task| matches!(task, Task::EndCopy(_))).map_or(0, |at| at + 1);
        let tasks = self.stack.split_off(bottom);
        self.explain.say(|| "recirculates: headers that came to light are looked at anew".to_owned());
        let (table, cookie) = (self.state.table, self.state.cookie);
        let (set, stands) = (self.set.clone(), self.state.stands);
        let rest = Rest { tasks, set, table, cookie, stands, why: self.why };
        let id = self.store.keep(rest);
        self.ops.push(Op::Recirculate(id));
    }

    /// Has actions done to a copy, which has an action set of its own: that of the packet so far. It is done
    /// when the actions are, as in Open vSwitch, whose action this is.
    pub(super) fn clone_of(&mut self, actions: Arc<[Action]>) {
        if self.is_too_nested() {
            return;
        }
        self.flush(false);
        self.begin_copy(CopyKind::Action(self.ops.len()), List::Actions(actions));
        let actions = self.stack.pop();
        self.stack.push(Task::ActionSet);
        self.stack.extend(actions);
    }

    /// Has the actions of a bucket done to a copy, as the packet is now.
    pub(super) fn begin_clone(&mut self, list: List) {
        self.flush(false);
        self.begin_copy(CopyKind::Bucket(self.ops.len()), list);
    }

    /// Ends everything where copies are of copies of copies, too many times over.
    fn is_too_nested(&mut self) -> bool {
        let too_nested = self.nested >= super::NESTED;
        if too_nested {
            self.give_up(DropReason::TooDeep);
        }
        too_nested
    }

    pub(super) fn begin_copy(&mut self, kind: CopyKind, list: List) {
        self.nested += 1;
        let of_group = !kind.is_of_action();
        let state = Box::new(self.state.clone());
        self.stack.push(Task::EndCopy(Copied { state, set: self.set.clone(), kind }));
        if of_group {
            self.state.stands = Stands::Group;
        }
        self.stack.push(Task::Actions(list, 0));
    }

    /// What was done to a copy is one operation of the packet's.
    pub(super) fn end_copy(&mut self, copied: Copied) {
        self.nested -= 1;
        self.state = *copied.state;
        self.set = copied.set;
        match copied.kind {
            CopyKind::Action(from) | CopyKind::Bucket(from) => {
                let ops = finish(cut(&mut self.ops, from), DropReason::ByFlow);
                if !matches!(ops.as_slice(), [Op::Drop(_)]) {
                    self.ops.push(Op::Clone(ops));
                }
            }
            CopyKind::Choice(mut choices) => {
                let ops = finish(cut(&mut self.ops, choices.from + choices.done), DropReason::ByFlow);
                self.ops.push(Op::Clone(ops));
                choices.done += 1;
                self.next_choice(choices);
            }
        }
    }

    pub(super) fn group(&mut self, id: GroupId) {
        self.flush(false);
        let Some(group) = self.pipeline.groups.get(&id).cloned() else {
            self.refuse(DropReason::NoGroup);
            return;
        };
        if self.is_too_nested() {
            return;
        }
        self.credits.push(Credit::Counts(group.counts.clone()));
        let alive = self.pipeline.living.alive(&group);
        let Some(&first) = alive.buckets.first() else {
            self.refuse(DropReason::NoBucket);
            return;
        };
        match group.group.kind {
            GroupKind::All => {
                for &bucket in alive.buckets.iter().rev() {
                    self.credits.push(Credit::Counts(group.buckets[bucket].clone()));
                    self.stack.push(Task::Copy(List::Bucket(group.clone(), bucket)));
                }
            }
            GroupKind::Indirect | GroupKind::FastFailover => {
                self.credits.push(Credit::Counts(group.buckets[first].clone()));
                self.begin_clone(List::Bucket(group, first));
            }
            GroupKind::Select => {
                let from = self.ops.len();
                self.next_choice(Box::new(Choices { group, alive, done: 0, from }));
            }
        }
    }

    pub(super) fn next_choice(&mut self, choices: Box<Choices>) {
        if let Some(&bucket) = choices.alive.buckets.get(choices.done) {
            let list = List::Bucket(choices.group.clone(), bucket);
            self.begin_copy(CopyKind::Choice(choices), list);
            return;
        }
        let group = &choices.group;
        let ops = cut(&mut self.ops, choices.from);
        let of = |(op, &bucket): (Op, &usize)| Choice {
            ops: match op {
                Op::Clone(ops) => ops,
                other => vec![other],
            },
            counts: group.buckets[bucket].clone(),
            counted: Cell::default(),
        };
        let made: Vec<Choice> = ops.into_iter().zip(&choices.alive.buckets).map(of).collect();
        let (slots, turn) = match self.pipeline.selection {
            Selection::Flow => {
                (spread(&group.group, &group.unwatched, &choices.alive, self.pipeline.seed), None)
            }
            Selection::RoundRobin => (in_turns(&group.group, &choices.alive), Some(Cell::default())),
        };
        self.ops.push(Op::SelectCopy(Box::new(Select { slots, turn, choices: made })));
    }
}

//! What is done to copies: clones, buckets of groups; and packets that leave the tables for a while:
//! services, recirculation.

use super::finish::finish;
use super::spread::spread;
use super::state::{Choices, Copied, CopyKind, Rest, Stands, cut};
use super::{List, Task, Translation};
use crate::pipeline::{GroupEntry, PortInfo};
use crate::program::{Choice, Credit, Op, Select};
use std::cell::Cell;
use std::sync::Arc;
use weir_openflow::{Action, GroupId, GroupKind, PortNo};
use weir_port::DropReason;

impl Translation<'_> {
    pub(super) fn service(&mut self, service: u16, argument: u32) {
        if self.pipeline.service(service).is_none() {
            self.refuse(DropReason::NoService);
            return;
        }
        if self.in_copy_of_clone() {
            // A copy needs a place of its own among the packets: it gets one by recirculation.
            let actions: Arc<[Action]> = [Action::Service { service, argument }].as_slice().into();
            self.end_list();
            self.freeze(Task::Actions(List::Actions(actions), 0));
            return;
        }
        self.flush(false);
        self.ops.push(Op::Service(service, argument));
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
        let frozen = self.store.keep(rest);
        self.ops.push(Op::Recirculate(frozen));
    }

    /// Has actions done to a copy, which has an action set of its own: that of the packet so far. It is done
    /// when the actions are, as in Open vSwitch, whose action this is.
    pub(super) fn clone_of(&mut self, actions: Arc<[Action]>) {
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

    pub(super) fn begin_copy(&mut self, kind: CopyKind, list: List) {
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
        if self.stack.len() > super::DEPTH / 2 {
            self.give_up(DropReason::TooDeep);
            return;
        }
        self.credits.push(Credit::Counts(group.counts.clone()));
        let alive: Vec<usize> =
            (0..group.group.buckets.len()).filter(|&bucket| self.is_alive(&group, bucket, 0)).collect();
        if alive.is_empty() {
            self.refuse(DropReason::NoBucket);
            return;
        }
        match group.group.kind {
            GroupKind::All => {
                for &bucket in alive.iter().rev() {
                    self.credits.push(Credit::Counts(group.buckets[bucket].clone()));
                    self.stack.push(Task::Copy(List::Bucket(group.clone(), bucket)));
                }
            }
            GroupKind::Indirect | GroupKind::FastFailover => {
                let bucket = alive[0];
                self.credits.push(Credit::Counts(group.buckets[bucket].clone()));
                self.begin_clone(List::Bucket(group, bucket));
            }
            GroupKind::Select => {
                let from = self.ops.len();
                self.next_choice(Box::new(Choices { group, alive, done: 0, from }));
            }
        }
    }

    pub(super) fn next_choice(&mut self, choices: Box<Choices>) {
        if let Some(&bucket) = choices.alive.get(choices.done) {
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
        let made: Vec<Choice> = ops.into_iter().zip(&choices.alive).map(of).collect();
        let slots = spread(&group.group, &group.slots, &choices.alive, self.pipeline.seed);
        self.ops.push(Op::SelectCopy(Box::new(Select { slots, choices: made })));
    }

    /// Whether a bucket takes part: its port is up, its group has such a bucket, or it watches none.
    pub(super) fn is_alive(&self, group: &GroupEntry, bucket: usize, depth: usize) -> bool {
        let bucket = &group.group.buckets[bucket];
        let port = bucket.watch_port.filter(|port| *port != PortNo::ANY);
        if port.is_none() && bucket.watch_group.is_none() {
            // In a fast failover group a bucket that watches nothing is never alive.
            return group.group.kind != GroupKind::FastFailover;
        }
        let port_up = port.is_some_and(|port| self.pipeline.ports.get(&port).is_some_and(PortInfo::sends));
        let group_up =
            bucket.watch_group.and_then(|id| self.pipeline.groups.get(&id)).is_some_and(|watched| {
                depth < 16 && (0..watched.group.buckets.len()).any(|at| self.is_alive(watched, at, depth + 1))
            });
        port_up || group_up
    }
}

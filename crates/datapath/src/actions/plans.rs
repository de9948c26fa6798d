//! Plans that megaflows share: what thousands of flows do alike is kept once, and stays in the first-level
//! cache while it is done.
//!
//! A plan is shared with another only if both would do the same with every packet and credit the same counters
//! of buckets; those with a choice of a group, which counts, are nobody else's. What follows a plan, a frozen
//! translation or a call of the connection tracker, is itself kept once (`slowpath/translate/state.rs`), so that
//! comparing addresses suffices.
//!
//! Cost: a hash over a few words for each megaflow that is made. A plan goes with its last megaflow; its place
//! here when as many came as there were. Threads: one worker's.

use crate::actions::program::{Op, Plan, Stage};
use crate::actions::simple::SimpleActions;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Plans that are kept before places of those that have gone are looked for.
const LITTLE: usize = 64;

/// A worker's plans.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    by_digest: HashMap<u64, Vec<Weak<Plan>>>,
    len: usize,
    /// How many there were when those that had gone were swept out.
    swept: usize,
}

impl Plans {
    /// The plan of these stages; one that is there already, where one does the same. `fresh` says that packets
    /// can have it that just came in.
    pub(crate) fn keep(
        &mut self,
        stages: Vec<Stage>,
        (tables, rewritten): ([u64; 4], u64),
        fresh: bool,
    ) -> Rc<Plan> {
        let is_short = fresh && stages.first().is_some_and(|first| SimpleActions::of(&first.ops).is_some());
        let mut hasher = DefaultHasher::new();
        (tables, rewritten, stages.len()).hash(&mut hasher);
        for stage in &stages {
            stage.guard.hash(&mut hasher);
            stage.ops.iter().for_each(|op| op.hash_into(&mut hasher));
        }
        let digest = hasher.finish();
        let is = |plan: &Rc<Plan>| {
            (plan.tables, plan.rewritten, plan.is_short) == (tables, rewritten, is_short)
                && plan.stages.len() == stages.len()
                && plan.stages.iter().zip(&stages).all(|(a, b)| a.is(b))
        };
        let known = self.by_digest.get(&digest).into_iter().flatten();
        if let Some(plan) = known.filter_map(Weak::upgrade).find(is) {
            return plan;
        }
        let plan = Rc::new(Plan { stages, tables, rewritten, is_short });
        if self.len >= LITTLE + 2 * self.swept {
            self.sweep();
        }
        self.by_digest.entry(digest).or_default().push(Rc::downgrade(&plan));
        self.len += 1;
        plan
    }

    fn sweep(&mut self) {
        self.by_digest.retain(|_, plans| {
            plans.retain(|plan| plan.strong_count() > 0);
            !plans.is_empty()
        });
        self.len = self.by_digest.values().map(Vec::len).sum();
        self.swept = self.len;
    }
}

impl Stage {
    fn is(&self, other: &Self) -> bool {
        self.guard == other.guard
            && self.ops.len() == other.ops.len()
            && self.ops.iter().zip(&other.ops).all(|(a, b)| a.is(b))
    }
}

impl Op {
    /// Whether both do the same with every packet, and count the same.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rewrite(a), Self::Rewrite(b)) => a == b,
            (Self::Header(a), Self::Header(b)) => a == b,
            (Self::DecTtl(a), Self::DecTtl(b)) | (Self::DecMplsTtl(a), Self::DecMplsTtl(b)) => a == b,
            (Self::Copy(a), Self::Copy(b)) | (Self::Forward(a), Self::Forward(b)) => a == b,
            (Self::Controller(a), Self::Controller(b)) | (Self::Punt(a), Self::Punt(b)) => a == b,
            (Self::Meter(a), Self::Meter(b)) => Arc::ptr_eq(a, b),
            (Self::Clone(a), Self::Clone(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(b)),
            (Self::Drop(a), Self::Drop(b)) => a == b,
            (Self::Service(a, of_a), Self::Service(b, of_b)) => (a, of_a) == (b, of_b),
            (Self::Tell(a), Self::Tell(b)) => Arc::ptr_eq(a, b),
            (Self::Track(a), Self::Track(b)) => Arc::ptr_eq(a, b),
            (Self::Recirculate(a), Self::Recirculate(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// What operations that are the same have in common, and others mostly not.
    fn hash_into(&self, hasher: &mut impl Hasher) {
        std::mem::discriminant(self).hash(hasher);
        match self {
            Self::Rewrite(rewrite) => rewrite.hash(hasher),
            Self::Copy(port) | Self::Forward(port) => port.hash(hasher),
            Self::Drop(reason) => (*reason as u8).hash(hasher),
            Self::Service(service, argument) => (service, argument).hash(hasher),
            Self::Tell(told) => Arc::as_ptr(told).hash(hasher),
            Self::Track(call) => Arc::as_ptr(call).hash(hasher),
            Self::Recirculate(id) => id.0.hash(hasher),
            Self::Meter(entry) => Arc::as_ptr(entry).hash(hasher),
            Self::Clone(ops) => ops.iter().for_each(|op| op.hash_into(hasher)),
            Self::Header(_)
            | Self::DecTtl(_)
            | Self::DecMplsTtl(_)
            | Self::Controller(_)
            | Self::Punt(_)
            | Self::Select(_)
            | Self::SelectCopy(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::program::{Choice, Select};
    use weir_flow::{Field, Match};

    const ONE: ([u64; 4], u64) = ([1, 0, 0, 0], 0);

    fn stages(argument: u32, port: u16, metadata: u128) -> Vec<Stage> {
        let mut guard = Match::any();
        guard.demand(Field::SfMetadata, metadata, u128::MAX);
        let first = Stage { guard: Match::any(), ops: vec![Op::Service(1, argument)] };
        vec![first, Stage { guard, ops: vec![Op::Copy(9), Op::Forward(port)] }]
    }

    #[test]
    fn megaflows_that_do_the_same_share_a_plan_as_long_as_one_of_them_lives() {
        let mut plans = Plans::default();
        let mut all: Vec<Rc<Plan>> = (0..600)
            .map(|number| plans.keep(stages(number % 3, (number % 4) as u16, 1), ONE, true))
            .collect();
        let first = all.swap_remove(0);
        assert_eq!(all.iter().filter(|plan| Rc::ptr_eq(plan, &first)).count(), 49, "one in twelve");
        let mut shorter = stages(0, 0, 1);
        shorter.truncate(1);
        for (stages, of) in [
            (stages(0, 0, 2), ONE),
            (stages(0, 0, 1), ([1, 0, 0, 4], 0)),
            (stages(0, 0, 1), ([1, 0, 0, 0], 8)),
            (shorter, ONE),
        ] {
            assert!(!Rc::ptr_eq(&plans.keep(stages, of, true), &first), "they differ");
        }
        drop(all);
        for argument in 3..1000 {
            plans.keep(stages(argument, 0, 1), ONE, true);
        }
        assert!(plans.len <= LITTLE + 3, "{} places for one plan that lives", plans.len);
        assert!(Rc::ptr_eq(&plans.keep(stages(0, 0, 1), ONE, true), &first));
    }

    #[test]
    fn what_forwards_is_short_only_where_packets_come_in() {
        let forward = || vec![Stage { guard: Match::any(), ops: vec![Op::Forward(1)] }];
        let mut plans = Plans::default();
        let (came, behind) = (plans.keep(forward(), ONE, true), plans.keep(forward(), ONE, false));
        assert!(came.is_short && !behind.is_short);
    }

    #[test]
    fn what_counts_is_nobody_elses() {
        let select = || {
            let choice =
                Choice { ops: vec![Op::Forward(1)], counts: Arc::default(), counted: Default::default() };
            let select = Select { slots: [0].into(), turn: None, choices: vec![choice] };
            vec![Stage { guard: Match::any(), ops: vec![Op::Select(Box::new(select))] }]
        };
        let mut plans = Plans::default();
        let (one, other) = (plans.keep(select(), ONE, true), plans.keep(select(), ONE, true));
        assert!(!Rc::ptr_eq(&one, &other));
    }
}

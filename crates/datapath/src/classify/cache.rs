//! A worker's caches, as the worker uses them: megaflows with their programs, the exact-match cache in
//! front of them, and the fast path past both.

use crate::actions::execute::Disposition;
use crate::actions::plans::Plans;
use crate::actions::program::{Plan, Program, Segment, Short, Stage, Step};
use crate::actions::simple::SimpleActions;
use crate::classify::destinations::{Destinations, Way};
use crate::classify::fast_path::{FastPath, Taken};
use crate::model::entries::Touched;
use crate::model::experiment::Experiment;
use crate::model::pipeline::Pipeline;
use crate::slowpath::translate::concerns;
use crate::stats::report::CacheReport;
use weir_classifier::{Caches as Cached, EXACT_BUCKETS, Found, Handle, Megaflows};
use weir_dpdk::{BURST, Burst, Packet};
use weir_flow::{Field, Key, Mask, Seed};
use weir_openflow::PortNo;
use weir_services::Memo;
use weir_units::Nanos;

/// Megaflows that a worker keeps at most.
pub(super) const MEGAFLOWS: usize = 1 << 21;

/// A megaflow without a packet for so long goes.
const IDLE: Nanos = Nanos(10 * Nanos::PER_SECOND);

/// All megaflows are looked at in so long, to see whether they are idle,
const SWEEP_TIME: Nanos = Nanos(2 * Nanos::PER_SECOND);

/// unless that takes more than one of so many parts of the time.
const SWEEP_SHARE: u64 = 16;

/// Megaflows looked at between two looks at the clock, and so many at least in one round of what is due.
const SWEEP: usize = 64;

/// A worker that was away for longer does not make up for it in one go.
const LONGEST: Nanos = Nanos(10_000_000);

/// The caches.
pub(crate) struct Caches {
    cached: Cached<Program>,
    plans: Plans,
    pub(crate) fast_path: FastPath,
    /// Megaflows that the fast path can do.
    short: usize,
    /// Megaflows with something to flush.
    dirty: Vec<Handle>,
    /// Of those, the ones whose turn it is.
    due: Vec<Handle>,
    /// The next target whose counts are to be collected; nothing when all were.
    target: Option<usize>,
    /// The next place to be looked at, and when places were looked at last.
    hand: usize,
    swept: Nanos,
    /// Megaflows that went because they were idle.
    idle: u64,
    destinations: Destinations,
    /// A megaflow that was right for this generation of the tables is right for all since: what changed was elsewhere.
    right_since: u64,
    /// When it rose last.
    changed: Nanos,
    /// Times that the tables changed elsewhere.
    elsewhere: u64,
}

/// What the slow path made of a flow, and what it counted meanwhile.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) segments: Vec<Segment>,
    /// The tables that were visited, one bit each.
    pub(crate) tables: [u64; 4],
    /// Words of the key that were rewritten on the way, one bit each.
    pub(crate) rewritten: u64,
    pub(crate) used: Nanos,
}

impl Caches {
    /// Empty caches.
    pub(super) fn new(seed: Seed, experiment: &Experiment) -> Self {
        let cached = Cached::new(seed, MEGAFLOWS, EXACT_BUCKETS);
        let mut fast_path = FastPath::new(seed);
        if !experiment.fast_path {
            fast_path.close();
        }
        Self {
            cached: if experiment.exact { cached } else { cached.without_exact() },
            plans: Plans::default(),
            fast_path,
            short: 0,
            dirty: Vec::new(),
            due: Vec::new(),
            target: None,
            hand: 0,
            swept: Nanos(0),
            idle: 0,
            destinations: Destinations::default(),
            right_since: 0,
            changed: Nanos(0),
            elsewhere: 0,
        }
    }

    /// Looks packets up by their whole keys, and says which were found.
    #[inline]
    pub(crate) fn lookup(
        &mut self,
        keys: &[Key],
        wanted: u64,
        found: &mut Found,
        report: &mut CacheReport,
    ) -> u64 {
        let hits = self.cached.lookup_known(keys, wanted, found);
        report.exact_hits += u64::from(hits.count_ones());
        hits
    }

    /// The same by masks, for those that were not.
    pub(crate) fn lookup_masked(
        &mut self,
        keys: &[Key],
        wanted: u64,
        found: &mut Found,
        report: &mut CacheReport,
    ) -> u64 {
        let hits = self.cached.lookup_missed(keys, wanted, found);
        report.megaflow_hits += u64::from(hits.count_ones());
        hits
    }

    /// Verifies names that hints gave, and says which are right.
    #[inline]
    pub(super) fn confirm(&mut self, keys: &[Key], wanted: u64, handles: &[Handle]) -> u64 {
        self.cached.megaflows_mut().confirm_burst(keys, wanted, handles)
    }

    /// Whether a megaflow of this name is there.
    pub(super) fn holds(&self, handle: Handle) -> bool {
        self.cached.megaflows().get(handle).is_some()
    }

    /// What a megaflow matches.
    pub(super) fn matching(&self, handle: Handle) -> Option<(Key, &Mask)> {
        let megaflows = self.cached.megaflows();
        megaflows.key(handle).zip(megaflows.mask(handle))
    }

    /// A megaflow that is in use now.
    #[inline]
    pub(crate) fn program(&mut self, handle: Handle, now: Nanos) -> Option<&mut Program> {
        let program = self.cached.megaflows_mut().get_mut(handle)?;
        program.used = now;
        if !program.dirty {
            program.dirty = true;
            self.dirty.push(handle);
        }
        Some(program)
    }

    /// Keeps what a megaflow's first service notes with it.
    pub(crate) fn note(&mut self, handle: Handle, memo: Memo) {
        if let Some(program) = self.cached.megaflows_mut().get_mut(handle) {
            program.memo = memo;
        }
    }

    /// Another segment of a megaflow whose first was done to the packet.
    #[inline]
    pub(crate) fn step(&mut self, handle: Handle, number: usize) -> Option<Step<'_>> {
        self.cached.megaflows_mut().get_mut(handle)?.step(number)
    }

    /// Whether there is a megaflow that the fast path can do.
    #[inline]
    pub(crate) fn has_short(&self) -> bool {
        self.short > 0
    }

    /// Tables have changed since this generation.
    pub(crate) fn keep_up(&mut self, pipeline: &Pipeline, since: u64, now: Nanos) {
        if self.destinations.concerned(pipeline.journal(), since) {
            (self.right_since, self.changed) = (pipeline.generation, now);
            self.fast_path.keep_up(pipeline, since);
        } else {
            self.elsewhere += u64::from(pipeline.generation != since);
        }
    }

    /// The packets of a burst that the fast path knows are done; `dispositions` says where they go.
    #[inline]
    pub(crate) fn take(
        &mut self,
        burst: &mut Burst,
        port: PortNo,
        (now, pipeline): (Nanos, &Pipeline),
        dispositions: &mut [Disposition; BURST],
        report: &mut CacheReport,
    ) -> Taken {
        let Self { cached, fast_path, right_since, changed, .. } = self;
        let is_right = |handle| {
            let is_right = is_right(cached.megaflows_mut(), handle, (*right_since, pipeline), report);
            report.lapsed += u64::from(!is_right);
            is_right
        };
        // A megaflow that was not met for so long since the last change is gone, and its entries with it.
        let may_be_older = now.0.saturating_sub(changed.0) <= IDLE.0;
        fast_path.take(burst, port, (now, *right_since), dispositions, may_be_older.then_some(is_right))
    }

    /// Shows the fast path a packet as it came in, and its megaflow, which is right for it.
    pub(crate) fn learn(&mut self, handle: Handle, packet: &Packet, port: PortNo, report: &mut CacheReport) {
        let Self { cached, fast_path, right_since, .. } = self;
        let Some(program) = cached.megaflows_mut().get_mut(handle) else { return };
        if !program.plan().is_short {
            return;
        }
        if program.short == Short::Unknown {
            let actions = program.plan().stages.first().and_then(|first| SimpleActions::of(&first.ops));
            let target = actions.and_then(|actions| fast_path.add(handle, actions));
            program.short = target.map_or(Short::Unknown, Short::Target);
        }
        if let (Short::Target(number), Some(mask)) = (program.short, cached.megaflows().mask(handle)) {
            report.remembered += u64::from(fast_path.learn(packet, (port, *right_since), mask, number));
        }
    }

    /// Whether a megaflow is right for these tables. One that no change since may concern is from now
    /// on.
    #[inline]
    pub(crate) fn is_current(
        &mut self,
        handle: Handle,
        pipeline: &Pipeline,
        report: &mut CacheReport,
    ) -> bool {
        is_right(self.cached.megaflows_mut(), handle, (self.right_since, pipeline), report)
    }

    /// Adds a megaflow. What it replaces, or what has to make room for it, is credited; the port of what had to
    /// make room is returned.
    pub(crate) fn insert(
        &mut self,
        key: &Key,
        mask: &Mask,
        made: Made,
        pipeline: &Pipeline,
    ) -> Option<PortNo> {
        let Made { segments, tables, rewritten, used } = made;
        let (mut stages, mut parts) =
            (Vec::with_capacity(segments.len()), Vec::with_capacity(segments.len()));
        for Segment { guard, ops, credits, counted } in segments {
            stages.push(Stage { guard, ops });
            parts.push((counted, credits));
        }
        let fresh = Field::SfStage.get(key) == 0 && Field::RecircId.get(key) == 0;
        let plan = self.plans.keep(stages, (tables, rewritten), fresh);
        self.short += usize::from(plan.is_short);
        self.destinations.add(key, mask, way(&plan));
        let program = Program::new(plan, parts, pipeline.generation, used);
        let inserted = self.cached.insert(key, mask, program);
        let from = inserted.evicted.as_ref().map(|evicted| PortNo(evicted.port));
        for mut program in inserted.replaced.into_iter().chain(inserted.evicted.map(|evicted| evicted.value))
        {
            self.retire(&mut program, pipeline);
        }
        // It has counted the packet it was made of.
        self.dirty.push(inserted.handle);
        from
    }

    /// Ports that have megaflows, each with how many.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (PortNo, u64)> {
        self.cached.megaflows().ports().map(|(port, megaflows)| (PortNo(port), megaflows as u64))
    }

    /// Removes a megaflow, credited.
    pub(crate) fn remove(&mut self, handle: Handle, pipeline: &Pipeline) {
        if let Some(mut program) = self.cached.megaflows_mut().remove(handle) {
            self.retire(&mut program, pipeline);
        }
    }

    /// Credits what a megaflow counted that has gone.
    fn retire(&mut self, program: &mut Program, pipeline: &Pipeline) {
        self.short -= usize::from(program.plan().is_short);
        if let Short::Target(number) = program.short {
            let (counted, used) = self.fast_path.remove(number);
            program.absorb(counted, used);
        }
        program.credit(&pipeline.table_counts);
    }

    /// From here on all that was counted is flushed, by so many calls of [`Self::flush_some`] as it takes.
    pub(crate) fn begin_flush(&mut self) {
        self.target = Some(0);
    }

    /// Credits some of what was counted before the beginning, and says whether that was the last of it.
    pub(crate) fn flush_some(&mut self, most: usize, pipeline: &Pipeline) -> bool {
        let Self { cached, fast_path, dirty, due, target, .. } = self;
        if let Some(next) = *target {
            fast_path.collect(next..next + most, |handle, counted, used| {
                // What the fast path uses is in use, though no lookup finds it.
                cached.megaflows_mut().touch(handle);
                if let Some(program) = cached.megaflows_mut().get_mut(handle) {
                    program.absorb(counted, used);
                    if !program.dirty {
                        program.dirty = true;
                        dirty.push(handle);
                    }
                }
            });
            *target = Some(next + most).filter(|&next| next < fast_path.targets());
            if target.is_none() {
                due.append(dirty);
            }
            return false;
        }
        // What the next ones need is fetched while these are credited, and before that what leads there.
        let at = due.len().saturating_sub(most);
        let ahead = |steps: usize| at.saturating_sub(steps.saturating_mul(most));
        for &handle in &due[ahead(2)..ahead(1)] {
            cached.megaflows().prefetch_entry(handle);
        }
        for &handle in &due[ahead(1)..at] {
            if let Some(program) = cached.megaflows().get(handle) {
                program.prefetch_credits();
            }
        }
        for handle in due.drain(at..) {
            if let Some(program) = cached.megaflows_mut().get_mut(handle) {
                program.credit(&pipeline.table_counts);
            }
        }
        due.is_empty()
    }

    /// Looks at some megaflows, and removes those that nobody used for long: at so many that all are looked at in
    /// [`SWEEP_TIME`], as far as a [`SWEEP_SHARE`]th of the time that passed since the last call allows.
    pub(crate) fn sweep(&mut self, clock: impl Fn() -> Nanos, pipeline: &Pipeline) {
        let now = clock();
        let passed = now.0.saturating_sub(self.swept.0).min(LONGEST.0);
        self.swept = now;
        let places = self.cached.megaflows().places();
        let share = places as u64 * passed / SWEEP_TIME.0;
        let mut left = places.min(SWEEP.max(share as usize));
        while left > 0 {
            let looks = left.min(SWEEP);
            (0..looks).for_each(|_| self.look_at_next(now, pipeline));
            left -= looks;
            if clock().0.saturating_sub(now.0) >= passed / SWEEP_SHARE {
                break;
            }
        }
        self.cached.megaflows_mut().rank();
    }

    /// Looks at one place, and removes its megaflow if nobody used it for long.
    fn look_at_next(&mut self, now: Nanos, pipeline: &Pipeline) {
        let megaflows = self.cached.megaflows();
        let place = if self.hand < megaflows.places() { self.hand } else { 0 };
        if place == 0 {
            self.fast_path.narrow(megaflows.masks().map(|(mask, _)| mask));
            self.destinations.begin_round();
        }
        self.hand = place + 1;
        let Some(handle) = megaflows.at(place) else { return };
        let used = megaflows.get(handle).map_or(now, |program| match program.short {
            Short::Target(number) => program.used.max(self.fast_path.used(number)),
            Short::Unknown => program.used,
        });
        if now.0.saturating_sub(used.0) > IDLE.0 {
            self.remove(handle, pipeline);
            self.idle += 1;
        } else if self.destinations.collects()
            && let (Some(key), Some(mask), Some(program)) =
                (megaflows.key(handle), megaflows.mask(handle), megaflows.get(handle))
        {
            self.destinations.show(&key, mask, way(program.plan()));
        }
    }

    /// What the caches hold, and how often they did what packets do not count.
    pub(crate) fn report(&self, report: &mut CacheReport) {
        (report.idle, report.restarts) = (self.idle, self.fast_path.restarts());
        (report.repeated, report.elsewhere) = (self.cached.counts().repeated, self.elsewhere);
        report.megaflows = self.cached.megaflows().len() as u64;
        report.masks = self.cached.megaflows().masks().count() as u64;
        report.most_masks = self.cached.megaflows().most_masks() as u64;
        report.memory = (self.cached.memory() + self.fast_path.memory()) as u64;
    }
}

/// What megaflows of a plan went through.
fn way(plan: &Plan) -> Way<'_> {
    Way { tables: &plan.tables, rewritten: plan.rewritten }
}

/// Whether a megaflow is there and right for these tables: it was right for those of `right_since`, or it outlives the
/// changes since it was known to be right.
#[inline]
fn is_right(
    megaflows: &mut Megaflows<Program>,
    handle: Handle,
    (right_since, pipeline): (u64, &Pipeline),
    report: &mut CacheReport,
) -> bool {
    let Some(generation) = megaflows.get(handle).map(|program| program.generation) else { return false };
    generation >= right_since || outlives(megaflows, handle, pipeline, report)
}

/// Whether a megaflow that was right for older tables is right for these: no change since may concern it. It is known
/// to be from now on.
#[cold]
#[inline(never)]
fn outlives(
    megaflows: &mut Megaflows<Program>,
    handle: Handle,
    pipeline: &Pipeline,
    report: &mut CacheReport,
) -> bool {
    let (Some(key), Some(mask), Some(program)) =
        (megaflows.key(handle), megaflows.mask(handle), megaflows.get(handle))
    else {
        return false;
    };
    let one = |touched: &Touched| {
        concerns(touched, |table, matching| program.is_touched(table, matching, &key, mask))
    };
    if pipeline.journal().concerns(program.generation, one) {
        return false;
    }
    if let Some(program) = megaflows.get_mut(handle) {
        program.generation = pipeline.generation;
        report.outlived += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::program::{Counted, Op};
    use std::cell::Cell;
    use weir_flow::Match;
    use weir_flow::span::ADDRESSES;
    use weir_packet::DropReason;

    /// Caches with so many megaflows, last used at the start.
    fn filled(megaflows: u64, pipeline: &Pipeline) -> Caches {
        let mut caches = Caches::new(Seed::new(1), &Experiment::default());
        let mut mask = Mask::new();
        ADDRESSES.examine(&mut mask);
        for number in 0..megaflows {
            let mut key = Key::new();
            ADDRESSES.set(&mut key, number);
            Field::InPort.set(&mut key, 1);
            let ops = vec![Op::Drop(DropReason::ByFlow)];
            let (credits, counted) = (Vec::new(), Counted::default());
            let segments = vec![Segment { guard: Match::any(), ops, credits, counted }];
            let made = Made { segments, tables: [0; 4], rewritten: 0, used: Nanos(0) };
            caches.insert(&key, &mask, made, pipeline);
        }
        caches
    }

    #[test]
    fn idle_megaflows_go_by_the_clock_however_many_they_are() {
        let pipeline = Pipeline::new(Seed::new(1), Vec::new(), true);
        let mut caches = filled(300_000, &pipeline);
        // A round a millisecond, as under full load: more are looked at in each than the least.
        let left_at = |caches: &mut Caches, from: u64, to: u64| {
            for millis in from..to {
                caches.sweep(|| Nanos(millis * 1_000_000), &pipeline);
            }
            caches.ports().map(|(_, megaflows)| megaflows).sum::<u64>()
        };
        assert_eq!(left_at(&mut caches, 0, 10_000), 300_000, "none was idle for long");
        // The limit, and twice the time in which all are looked at.
        assert_eq!(left_at(&mut caches, 10_000, 14_010), 0);
    }

    #[test]
    fn a_round_of_looking_for_idle_megaflows_has_a_budget_of_time() {
        let pipeline = Pipeline::new(Seed::new(1), Vec::new(), true);
        let mut caches = filled(50_000, &pipeline);
        // A slow machine: each look at the clock comes 100 µs after the one before.
        let time = Cell::new(20 * Nanos::PER_SECOND);
        let clock = || {
            time.set(time.get() + 100_000);
            Nanos(time.get())
        };
        let (mut most, mut sum) = (0, 0);
        for _ in 0..100 {
            time.set(time.get() + 3_000_000);
            let before = time.get();
            caches.sweep(clock, &pipeline);
            most = most.max(time.get() - before);
            sum += time.get() - before;
        }
        assert!(most <= 1_000_000, "{most} ns in one round");
        assert!(sum <= 100 * 3_100_000 / SWEEP_SHARE + 100 * 200_000, "{sum} ns of 310 ms");
        assert!(caches.ports().map(|(_, megaflows)| megaflows).sum::<u64>() < 50_000, "and some went");
    }
}

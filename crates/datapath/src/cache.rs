//! A worker's caches, as the worker uses them: megaflows with their programs, the exact-match cache in
//! front of them, and the short way past both.

use crate::deed::Deed;
use crate::pipeline::{Pipeline, Touched};
use crate::plans::Plans;
use crate::program::{Program, Segment, Short, Stage, Step};
use crate::report::CacheReport;
use crate::shortcut::Shortcut;
use crate::translate::concerns;
use weir_classifier::{Caches as Cached, EXACT_BUCKETS, Found, Handle};
use weir_dpdk::Packet;
use weir_flow::{Field, Key, Mask, Seed};
use weir_openflow::PortNo;
use weir_services::Memo;
use weir_units::Nanos;

/// Megaflows that a worker keeps at most.
pub(crate) const MEGAFLOWS: usize = 1 << 21;

/// A megaflow without a packet for so long goes.
const IDLE: Nanos = Nanos(10 * Nanos::PER_SECOND);

/// Megaflows looked at in one round of what is due.
const SWEEP: usize = 64;

/// The caches.
pub(crate) struct Caches {
    cached: Cached<Program>,
    plans: Plans,
    pub(crate) shortcut: Shortcut,
    /// Megaflows that the short way can do.
    short: usize,
    /// Megaflows with something to credit.
    dirty: Vec<Handle>,
    /// Of those, the ones whose turn it is.
    due: Vec<Handle>,
    /// The next brief whose counts are to be collected; nothing when all were.
    brief: Option<usize>,
    hand: u32,
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
    pub(crate) fn new(seed: Seed) -> Self {
        Self {
            cached: Cached::new(seed, MEGAFLOWS, EXACT_BUCKETS),
            plans: Plans::default(),
            shortcut: Shortcut::new(seed),
            short: 0,
            dirty: Vec::new(),
            due: Vec::new(),
            brief: None,
            hand: 0,
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
    pub(crate) fn confirm(&mut self, keys: &[Key], wanted: u64, handles: &[Handle]) -> u64 {
        self.cached.megaflows_mut().confirm_burst(keys, wanted, handles)
    }

    /// Whether a megaflow of this name is there.
    pub(crate) fn holds(&self, handle: Handle) -> bool {
        self.cached.megaflows().get(handle).is_some()
    }

    /// What a megaflow matches.
    pub(crate) fn matching(&self, handle: Handle) -> Option<(Key, &Mask)> {
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

    /// Whether there is a megaflow that the short way can do.
    #[inline]
    pub(crate) fn has_short(&self) -> bool {
        self.short > 0
    }

    /// Shows the short way a packet as it came in, and its megaflow, which is right for it.
    pub(crate) fn learn(&mut self, handle: Handle, packet: &Packet, port: PortNo) {
        let Self { cached, shortcut, .. } = self;
        let Some(program) = cached.megaflows_mut().get_mut(handle) else { return };
        if !program.plan().is_short {
            return;
        }
        if program.short == Short::Unknown {
            let deed = program.plan().stages.first().and_then(|first| Deed::of(&first.ops));
            let brief = deed.and_then(|deed| shortcut.add(handle, deed));
            program.short = brief.map_or(Short::Unknown, Short::Brief);
        }
        if let (Short::Brief(number), Some(mask)) = (program.short, cached.megaflows().mask(handle)) {
            shortcut.learn(packet, port, mask, number);
        }
    }

    /// Whether a megaflow is right for these tables. One that no change since may concern is from now
    /// on.
    #[inline]
    pub(crate) fn is_current(&mut self, handle: Handle, pipeline: &Pipeline) -> bool {
        let Some(generation) = self.cached.megaflows().get(handle).map(|program| program.generation) else {
            return false;
        };
        generation == pipeline.generation || self.outlives(handle, generation, pipeline)
    }

    #[cold]
    fn outlives(&mut self, handle: Handle, generation: u64, pipeline: &Pipeline) -> bool {
        let megaflows = self.cached.megaflows();
        let (Some(key), Some(mask), Some(program)) =
            (megaflows.key(handle), megaflows.mask(handle), megaflows.get(handle))
        else {
            return false;
        };
        let one = |touched: &Touched| {
            concerns(touched, |table, matching| program.is_touched(table, matching, &key, mask))
        };
        if pipeline.journal().concerns(generation, one) {
            return false;
        }
        if let Some(program) = self.cached.megaflows_mut().get_mut(handle) {
            program.generation = pipeline.generation;
        }
        true
    }

    /// Adds a megaflow. What it replaces, or what has to make room for it, is credited.
    pub(crate) fn insert(&mut self, key: &Key, mask: &Mask, made: Made, pipeline: &Pipeline) {
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
        let program = Program::new(plan, parts, pipeline.generation, used);
        let inserted = self.cached.insert(key, mask, program);
        for mut program in inserted.replaced.into_iter().chain(inserted.evicted.map(|(_, program)| program)) {
            self.retire(&mut program, pipeline);
        }
        // It has counted the packet it was made of.
        self.dirty.push(inserted.handle);
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
        if let Short::Brief(number) = program.short {
            let (counted, used) = self.shortcut.remove(number);
            program.absorb(counted, used);
        }
        program.credit(&pipeline.table_counts);
    }

    /// From here on all that was counted is credited, by so many calls of [`Self::credit_some`] as it takes.
    pub(crate) fn begin_crediting(&mut self) {
        self.brief = Some(0);
    }

    /// Credits some of what was counted before the beginning, and says whether that was the last of it.
    pub(crate) fn credit_some(&mut self, most: usize, pipeline: &Pipeline) -> bool {
        let Self { cached, shortcut, dirty, due, brief, .. } = self;
        if let Some(next) = *brief {
            shortcut.collect(next..next + most, |handle, counted, used| {
                // What the short way uses is in use, though no lookup finds it.
                cached.megaflows_mut().touch(handle);
                if let Some(program) = cached.megaflows_mut().get_mut(handle) {
                    program.absorb(counted, used);
                    if !program.dirty {
                        program.dirty = true;
                        dirty.push(handle);
                    }
                }
            });
            *brief = Some(next + most).filter(|&next| next < shortcut.briefs());
            if brief.is_none() {
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

    /// Looks at some megaflows, and removes those that nobody used for long.
    pub(crate) fn sweep(&mut self, now: Nanos, pipeline: &Pipeline) {
        for _ in 0..SWEEP {
            let Some(handle) = self.cached.megaflows().next_from(self.hand) else {
                self.hand = 0;
                break;
            };
            self.hand = handle.index + 1;
            let used = self.cached.megaflows().get(handle).map_or(now, |program| match program.short {
                Short::Brief(number) => program.used.max(self.shortcut.used(number)),
                Short::Unknown => program.used,
            });
            if now.0.saturating_sub(used.0) > IDLE.0 {
                self.remove(handle, pipeline);
            }
        }
        self.cached.megaflows_mut().rank();
    }

    /// What the caches hold.
    pub(crate) fn report(&self, report: &mut CacheReport) {
        report.megaflows = self.cached.megaflows().len() as u64;
        report.masks = self.cached.megaflows().masks().count() as u64;
        report.most_masks = self.cached.megaflows().most_masks() as u64;
        report.memory = (self.cached.memory() + self.shortcut.memory()) as u64;
    }
}

//! The hints of a burst: resolved before its first lookup, and a megaflow offered to the port behind it.

use crate::model::Packets;
use crate::worker::Worker;
use crate::worker::input::Inputs;
use crate::worker::state::BurstState;
use weir_dpdk::Burst;

impl Worker {
    /// Resolves the hints that came with a burst from a port.
    #[inline]
    pub(super) fn resolve_hints(&mut self, input: usize, burst: &mut Burst, wanted: Packets) {
        let Self { input: Inputs { queues, .. }, state, tiers, counters, time, .. } = self;
        let Some(hints) = queues.get_mut(input).and_then(|input| input.hints.as_deref_mut()) else { return };
        hints.mark(burst, &state.keys, wanted, time.now);
        let (burst, report) = (&*burst, &mut counters.hints);
        let BurstState { keys, found, hinted, .. } = state;
        hinted.hits = hints.resolve((burst, keys), wanted, &mut tiers.caches, (found, report), time.now);
        hinted.first = true;
        let spent = hints.emulated();
        self.set_apart(spent);
    }

    /// After the burst: offers a megaflow to the port that it came by.
    #[inline]
    pub(super) fn propose_hint(&mut self, input: usize) {
        let Some(handle) = self.state.hinted.candidate.take() else { return };
        let Self { input: Inputs { queues, .. }, tiers, counters, time, .. } = self;
        let Some(hints) = queues.get_mut(input).and_then(|input| input.hints.as_deref_mut()) else { return };
        hints.propose(handle, &tiers.caches, &mut counters.hints, time.now);
        let spent = hints.emulated();
        self.set_apart(spent);
    }

    /// Cycles that count neither as a step's nor as the worker's work.
    fn set_apart(&mut self, spent: u64) {
        self.time.set_apart(spent);
        self.counters.hints.emulated_cycles += spent;
    }

    /// The state of all tables.
    pub(super) fn report_hints(&mut self) {
        let fills =
            self.input.queues.iter().filter_map(|input| input.hints.as_ref()).map(|hints| hints.fill());
        let (places, taken) = fills.fold((0, 0), |sum, fill| (sum.0 + fill.0, sum.1 + fill.1));
        self.counters.hints.places = places as u64;
        self.counters.hints.entries = taken as u64;
    }
}

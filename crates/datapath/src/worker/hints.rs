//! The hints of a burst: resolved before its first lookup, and a megaflow offered to the port behind it.

use crate::classify::hint::InputHints;
use crate::model::Packets;
use crate::stats::counters::Counters;
use crate::worker::Worker;
use crate::worker::input::Inputs;
use crate::worker::state::BurstState;
use crate::worker::timing::Time;
use weir_dpdk::Burst;
use weir_port::Rx;

/// Cycles that a port says were not the worker's work count neither as that nor as a step's.
#[inline]
pub(super) fn set_apart(rx: &mut Rx, time: &mut Time, counters: &mut Counters) {
    let spent = rx.take_emulated();
    if spent > 0 {
        time.set_apart(spent);
        counters.hints.emulated_cycles += spent;
    }
}

impl Worker {
    /// Resolves the hints that came with a burst from a port.
    #[inline]
    pub(super) fn resolve_hints(&mut self, input: usize, burst: &mut Burst, wanted: Packets) {
        let Self { input: Inputs { queues, .. }, state, tiers, counters, time, .. } = self;
        let Some(hints) = queues.get_mut(input).and_then(|input| input.hints.as_mut()) else { return };
        let (burst, report) = (&*burst, &mut counters.hints);
        let BurstState { keys, layouts, found, hinted, .. } = state;
        let caches = &mut tiers.caches;
        hinted.hits = match hints {
            InputHints::Table(hints) => {
                hints.resolve((burst, keys), wanted, caches, (found, report), time.now)
            }
            InputHints::Packet(hints) => {
                hints.resolve((burst, keys, layouts), wanted, caches, (found, report))
            }
        };
        (hinted.first, hinted.seen) = (true, 0);
    }

    /// After the burst: offers a megaflow to the port that it came by.
    #[inline]
    pub(super) fn propose_hint(&mut self, input: usize) {
        let Some(handle) = self.state.hinted.candidate.take() else { return };
        let Self { input: Inputs { queues, .. }, state, tiers, counters, time, .. } = self;
        let Some(input) = queues.get_mut(input) else { return };
        let hints = match input.hints.as_mut() {
            Some(InputHints::Table(hints)) => hints,
            Some(InputHints::Packet(hints)) => {
                return hints.learn(state.hinted.seen, &state.hinted.handles, &mut counters.hints);
            }
            None => return,
        };
        hints.propose(handle, &tiers.caches, &mut counters.hints, time.now);
        set_apart(&mut input.rx, time, counters);
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

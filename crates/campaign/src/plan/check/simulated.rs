//! The numbers of the simulated device.

use crate::plan::file::{PartsTable, SimulatedTable};
use crate::plan::text::Text;
use weir_simulated::{SimulatedDut, SimulatedParts};
use weir_units::{Nanos, Ratio};

/// The simulated device's numbers, where the table has none the usual ones.
pub(super) fn simulated(table: &SimulatedTable, seed: u64) -> SimulatedDut {
    let usual = SimulatedDut::default();
    let share = |text: &Option<Text<Ratio>>, default| text.as_ref().map_or(default, |text| text.0);
    SimulatedDut {
        capacity: table.capacity.as_ref().map_or(usual.capacity, |text| text.0),
        queue: table.queue.unwrap_or(usual.queue),
        noise: share(&table.noise, usual.noise),
        loss: share(&table.loss, usual.loss),
        disturbed: share(&table.disturbed, usual.disturbed),
        seed: table.seed.unwrap_or(seed),
    }
}

/// What a packet takes of each part of a device that is made of parts.
pub(super) fn parts(table: Option<&PartsTable>) -> SimulatedParts {
    let usual = SimulatedParts::default();
    let Some(table) = table else { return usual };
    let time = |text: &Option<Text<Nanos>>, default| text.as_ref().map_or(default, |text| text.0);
    let share = |text: &Option<Text<Ratio>>, default| text.as_ref().map_or(default, |text| text.0);
    SimulatedParts {
        io: time(&table.io, usual.io),
        l2fwd: time(&table.l2fwd, usual.l2fwd),
        l3fwd: time(&table.l3fwd, usual.l3fwd),
        firewall: time(&table.firewall, usual.firewall),
        hop: time(&table.hop, usual.hop),
        memory: share(&table.memory, usual.memory),
        clock: table.clock.unwrap_or(usual.clock),
        turn: share(&table.turn, usual.turn),
    }
}

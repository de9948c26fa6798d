//! The numbers of the simulated device.

use crate::plan::file::SimulatedTable;
use crate::plan::text::Text;
use weir_trial::simulated::SimulatedDut;
use weir_units::Ratio;

/// The simulated device's numbers, where the table has none the usual ones.
pub(super) fn simulated(table: SimulatedTable, seed: u64) -> SimulatedDut {
    let usual = SimulatedDut::default();
    let share = |text: Option<Text<Ratio>>, default| text.map_or(default, |text| text.0);
    SimulatedDut {
        capacity: table.capacity.map_or(usual.capacity, |text| text.0),
        queue: table.queue.unwrap_or(usual.queue),
        noise: share(table.noise, usual.noise),
        loss: share(table.loss, usual.loss),
        disturbed: share(table.disturbed, usual.disturbed),
        seed: table.seed.unwrap_or(seed),
    }
}

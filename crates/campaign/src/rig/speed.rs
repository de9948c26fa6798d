//! How fast a DUT's cores are: their clock from its start to its end, their time while a trial runs.

use super::hold::{self, Hold};
use super::{Device, RigError, RigSetup};
use crate::clock::Clock;
use std::path::Path;
use std::sync::Arc;
use weir_dut::RunningDut;
use weir_trial::Frequency;
use weir_trial::health::Health;
use weir_units::Nanos;

/// Sets the clock of a DUT's cores, where its plan asks for one.
pub(super) fn clock(dut: &dyn RunningDut, setup: &RigSetup<'_>) -> Result<Option<Arc<Clock>>, RigError> {
    let Some(Frequency::Clock(megahertz)) = setup.placement.frequency else { return Ok(None) };
    let mut cores: Vec<usize> =
        dut.threads().into_iter().filter_map(|(_, thread)| weir_dut::core_of(thread)).collect();
    if cores.is_empty() {
        cores.push(setup.cores.dut);
    }
    Clock::set(Path::new("/"), &cores, megahertz).map(Some).map_err(RigError::Frequency)
}

impl Device {
    /// How fast its cores are, in words; nothing where nothing was asked for.
    pub(super) fn fast(&self) -> Option<String> {
        match (self.frequency?, &self.clock) {
            (Frequency::Clock(_), clock) => clock.as_ref().map(|clock| clock.says()),
            (Frequency::Share(percent), _) => Some(hold::says(percent)),
        }
    }

    /// Whether the lab keeps its cores from it for a share of each trial.
    pub(super) fn is_held_back(&self) -> bool {
        self.frequency.and_then(Frequency::held).is_some()
    }

    /// Holds the DUT back to its share of its cores, if it has one, from now on.
    pub(super) fn hold_back(&self) -> Result<Option<Hold>, RigError> {
        let percent = self.frequency.and_then(Frequency::held);
        percent.map(|percent| Hold::start(percent, &self.dut.threads())).transpose()
    }

    /// What a DUT that was held back had. What it waited for the lab is no disturbance.
    pub(super) fn held(hold: Option<Hold>, health: &mut Health) {
        let Some(held) = hold.map(Hold::end) else { return };
        if let Some(dut) = &mut health.dut {
            dut.waited = Nanos(dut.waited.0.saturating_sub(held.kept.0));
        }
        health.held = Some(held);
    }

    /// The threads for whose waits windows are left out. None where several processes on one core wait for each
    /// other, and none of a DUT that the lab holds back: neither is a disturbance.
    pub(super) fn excused_threads(&self) -> Vec<(u32, u32)> {
        if self.is_held_back() { Vec::new() } else { self.watched_threads() }
    }
}

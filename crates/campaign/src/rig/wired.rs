//! A rig whose ports are linked to the DUT's: its tester sends, and looks at what comes back.

use super::{Device, RigError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use weir_cpu::Ticks;
use weir_traffic::check::PassFrames;
use weir_traffic::{LONGEST_PASS, Script, Tester, TesterError};
use weir_trial::{Nf, Oracle, PacketCheck, TrialResult, TrialSpec};
use weir_units::Nanos;

/// A rig whose ports are linked to the DUT's: every wiring but `fed`. Fields drop in order: where a point failed the DUT is
/// ended before the tester's ports, which wait without end for the answer of one that hangs (DPDK's virtio-user asks
/// the other side when it is closed).
pub struct Wired {
    pub(super) device: Device,
    pub(super) tester: Tester,
    pub(super) nf: Nf,
    /// What connections through it say, once one was asked for.
    pub(super) script: Option<Arc<Script>>,
    /// Whether the DUT must not see the lab's ports go while it forwards: memif's driver takes the
    /// memory away under a poller.
    pub(super) dut_stops_first: bool,
}

impl Wired {
    /// Has a sample of every trial to come compared.
    pub(crate) fn compare_with(&mut self, oracle: Arc<Oracle>) {
        self.tester.compare_with(oracle);
    }

    /// Runs the untimed pass, and has a sample of every trial to come compared.
    pub(crate) fn verify(
        &mut self,
        oracle: Arc<Oracle>,
        frames: Vec<PassFrames>,
    ) -> Result<PacketCheck, RigError> {
        self.tester.compare_with(Arc::clone(&oracle));
        match self.tester.verify(oracle, frames, LONGEST_PASS, &self.device.stop) {
            Err(TesterError::Stopped) => Err(self.device.reason()),
            checked => Ok(checked?),
        }
    }

    /// Runs one trial.
    pub(super) fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, RigError> {
        self.measure_by(spec, |tester, stop| tester.run(spec, stop))
    }

    /// Runs one trial that the tester runs so.
    pub(super) fn measure_by(
        &mut self,
        spec: TrialSpec,
        run: impl FnOnce(&mut Tester, &Arc<AtomicBool>) -> Result<TrialResult, TesterError>,
    ) -> Result<TrialResult, RigError> {
        let began = Instant::now();
        let device = &mut self.device;
        device.rest(spec.duration);
        let before = device.dut.counters().map_err(|error| device.dut.ended().unwrap_or(error))?;
        let lease = device.lease(spec.duration);
        self.tester.lease(lease.clone());
        let began_trial = Ticks::with_clock();
        let mut hold = device.hold_back()?;
        let watch = device.watch();
        self.tester.watch(device.excused_threads());
        let ran = run(&mut self.tester, &device.stop).map(|mut result| {
            result.health.real_time = lease.is_some();
            device.watched(watch, &mut result.health);
            Device::held(hold.take(), &mut result.health);
            result
        });
        drop(hold);
        // Of a DUT that is held back nobody looks at each of its waits.
        let waited = self.tester.waited().filter(|_| !device.is_held_back());
        if let Some(lease) = lease {
            let took = device.tsc.nanos(lease.end().since(began_trial.0)).duration();
            device.rests.trial(took, began_trial.1 + took);
        }
        let mut result = match ran {
            Ok(result) => result,
            Err(TesterError::Stopped) => return Err(device.reason()),
            Err(error) => return Err(error.into()),
        };
        // What they waited before its first packet is not of the trial.
        if let (Some(dut), Some(waited)) = (&mut result.health.dut, waited) {
            dut.waited = waited;
        }
        let after = device.dut.counters().map_err(|error| device.dut.ended().unwrap_or(error))?;
        result.stages = after.stages_since(&before);
        result.dut = Some(device.reading(before, after, false));
        result.overhead = Nanos(Nanos::from(began.elapsed()).0.saturating_sub(result.elapsed.0));
        Ok(result)
    }
}

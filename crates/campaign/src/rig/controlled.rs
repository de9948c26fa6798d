//! A trial with a controller connected to the device: it changes flow entries, or is there and silent.

use super::{RigError, Wired};
use weir_cpu::Tsc;
use weir_dut::{Changed, FlowChannel};
use weir_traffic::Probing;
use weir_trial::changes::{Probe, check};
use weir_trial::{ChangesMade, Control, TrialResult, TrialSpec};
use weir_units::Nanos;

/// Time between two packets that look for the entry.
const PROBE_EVERY: Nanos = Nanos(100_000);
/// Sleep between two passes of a tester whose core the device's controlling threads have, too: the time of so many
/// packets, within these bounds, so that it sends none late and its rings do not fill.
const NAP_PACKETS: f64 = 64.0;
const NAP: (Nanos, Nanos) = (Nanos(10_000), Nanos(50_000));

impl Wired {
    /// Runs a trial with a controller; a device without flow entries is measured as ever.
    pub(super) fn measure_controlled(
        &mut self,
        spec: TrialSpec,
        control: Control,
    ) -> Result<TrialResult, RigError> {
        let Some(channel) = self.device.dut.flow_channel() else { return self.measure(spec) };
        // Before the tester has its priority, which the controller's thread is not to have.
        let churn = channel.connect(control)?;
        self.tester.probe(Some(self.probing(&channel, spec)));
        let begin = churn.starter(spec.duration.duration());
        let measured = self.measure_by(spec, |tester, stop| tester.run_beside(spec, stop, begin));
        self.tester.probe(None);
        let mut result = measured?;
        let changed = churn.end()?;
        if let Control::Changes { batch } = control {
            result.changes = Some(made(batch, &changed, self.tester.probed(), Tsc::get()));
        }
        Ok(result)
    }

    fn probing(&self, channel: &FlowChannel, spec: TrialSpec) -> Probing {
        let packets = Nanos((NAP_PACKETS / spec.load.0.max(1e-3) * 1e9) as u64);
        let nap = self.tester.is_on(channel.core()).then(|| packets.clamp(NAP.0, NAP.1));
        Probing { frame: channel.probe(), every: PROBE_EVERY, nap }
    }
}

/// What was changed, and what the probes say of it.
fn made(batch: u32, changed: &Changed, probes: &[Probe], tsc: Tsc) -> ChangesMade {
    let checks = changed.confirmed.iter().map(|change| check(change, probes, 1e9 / tsc.hz()));
    ChangesMade { batch, made: changed.made, elapsed: changed.elapsed, checks: checks.collect() }
}

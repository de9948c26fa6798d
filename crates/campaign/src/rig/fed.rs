//! The rig of the `fed` wiring: a device that feeds itself from its start on.
//!
//! It is measured at a steady rate, or from its first packet on. Asleep while the device works.

use super::{Device, RigError};
use std::time::{Duration, Instant};
use weir_dut::Counters;
use weir_trial::health::Health;
use weir_trial::{TrialResult, TrialSpec};
use weir_units::{Nanos, Pps};

/// The `fed` rig.
pub struct FedDut {
    pub(super) device: Device,
    /// Packets of its traces, all directions together.
    pub(super) packets: u32,
    /// What came of the time from its first packet on, where that is what is measured.
    pub(super) first: Option<TrialResult>,
}

/// Rates of two successive looks that are as good as equal: a fed device has filled its caches.
const SETTLED: f64 = 0.03;
/// Share of the packets that may still go to the slow path then: they are what fills the caches.
const LEARNING: f64 = 1e-3;
/// The details by which devices count them.
const UPCALLS: [&str; 2] = ["upcalls", "caches upcalls"];
/// How often it must have had each packet: a device that makes nothing of a flow's first packet looks settled
/// while the first round of a long trace lasts, and has then learnt nothing.
const ROUNDS: u64 = 3;
/// Time between two looks, and the most looks.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: u32 = 300;

/// Time between two looks for the first packet.
const GLANCE: Duration = Duration::from_millis(1);
/// The details by which devices say how long they were busy, in cycles.
const BUSY: [&str; 2] = ["busy cycles", "busy_cycles"];

impl FedDut {
    /// Waits until the device, which works from its start on, forwards at a steady rate: a switch that
    /// learns flows is slow at first, and for half a minute where they are many. After a minute it is
    /// taken as it is.
    pub(super) fn settle(&mut self) -> Result<(), RigError> {
        let mut last = f64::INFINITY;
        let mut before = self.device.dut.counters()?;
        for _ in 0..LOOKS {
            self.device.sleep_until(before.at + LOOK)?;
            let after = self.device.dut.counters()?;
            let time = after.at.duration_since(before.at).as_secs_f64();
            let rate = after.sent.saturating_sub(before.sent) as f64 / time;
            let received = after.received.saturating_sub(before.received) as f64;
            let grown = after.details_since(&before);
            let learnt = UPCALLS.iter().find_map(|name| grown.get(*name)).map_or(0, |count| *count) as f64;
            let has_had_all = after.received >= ROUNDS * u64::from(self.packets);
            if has_had_all && (rate - last).abs() <= last * SETTLED && learnt <= received * LEARNING {
                break;
            }
            (last, before) = (rate, after);
        }
        Ok(())
    }

    /// Measures the device from its first packet on, which it takes by itself as soon as it is started.
    pub(super) fn begin(&mut self, duration: Nanos) -> Result<(), RigError> {
        let began = Instant::now();
        let device = &mut self.device;
        let watch = device.watch();
        let mut first = device.dut.counters()?;
        while first.received == 0 {
            device.sleep_until(first.at + GLANCE)?;
            first = device.dut.counters()?;
        }
        // A device without a rest between packets has been busy since the first one.
        let busy = BUSY
            .iter()
            .find_map(|name| first.details.get(*name))
            .map(|cycles| *cycles as f64 / device.tsc.hz());
        let start =
            busy.and_then(|busy| first.at.checked_sub(Duration::from_secs_f64(busy))).unwrap_or(first.at);
        device.sleep_until(start + duration.duration())?;
        let after = device.dut.counters()?;
        let nothing =
            Counters { received: 0, sent: 0, cpu: Nanos(0), at: start, details: Default::default() };
        let mut reading = device.reading(nothing, after, true);
        // The time it took to start is its CPU time too.
        reading.cycles_per_packet = (reading.received > 0)
            .then(|| device.tsc.hz() * reading.elapsed.seconds() / reading.received as f64);
        let mut health = Health::default();
        device.watched(watch, &mut health);
        self.first = Some(TrialResult {
            elapsed: reading.elapsed,
            overhead: Nanos(Nanos::from(began.elapsed()).0.saturating_sub(reading.elapsed.0)),
            dut: Some(reading),
            health,
            ..TrialResult::new(TrialSpec { load: Pps(0.0), duration })
        });
        Ok(())
    }

    /// Whether all there is to measure was measured as it started.
    pub(super) fn is_measured_once(&self) -> bool {
        self.first.is_some()
    }

    pub(super) fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, RigError> {
        // However often it is asked for: a device has one first packet.
        if let Some(first) = &self.first {
            return Ok(TrialResult { spec, ..first.clone() });
        }
        let began = Instant::now();
        let device = &mut self.device;
        let before = device.dut.counters()?;
        let watch = device.watch();
        let real_time = device.real_time();
        let raised = real_time.is_some();
        device.sleep_until(before.at + spec.duration.duration())?;
        drop(real_time);
        let after = device.dut.counters()?;
        let reading = device.reading(before, after, true);
        let mut health = Health { real_time: raised, ..Health::default() };
        device.watched(watch, &mut health);
        Ok(TrialResult {
            elapsed: reading.elapsed,
            overhead: Nanos(Nanos::from(began.elapsed()).0.saturating_sub(reading.elapsed.0)),
            dut: Some(reading),
            health,
            ..TrialResult::new(spec)
        })
    }
}

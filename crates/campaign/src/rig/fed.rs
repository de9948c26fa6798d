//! The rig of the `fed` wiring: a device that feeds itself from its start on.
//!
//! It is measured at a steady rate, or from its first packet on. Asleep while the device works.

use super::gate::{Gate, LEARNING, Seen, Settled};
use super::tune::{self, Choice};
use super::{Device, RigError};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_dut::Counters;
use weir_trial::health::Health;
use weir_trial::{DutReading, TrialResult, TrialSpec};
use weir_units::{Nanos, Pps, Spread};

/// The `fed` rig.
pub struct FedDut {
    pub(super) device: Device,
    /// Packets of its traces, all directions together.
    pub(super) packets: u32,
    /// Whether the connections of each lap are new ones.
    pub(super) are_new: bool,
    /// What came of the time from its first packet on, where that is what is measured.
    pub(super) first: Option<TrialResult>,
    /// The settings that a search found for it, where it was to be searched for.
    pub(super) choice: Option<Choice>,
    /// Why it is not settled; nothing where it is.
    pub(super) unsettled: Option<String>,
    /// Whether it waited at the gate since its last trial.
    pub(super) waited: bool,
    /// Whether some of its packets go to its slow path for good.
    pub(super) slow_for_good: bool,
    /// Whether it was settled at some time: one that never was, in all the time that it may take, is waited for no more.
    pub(super) has_settled: bool,
}

/// The details by which devices count what goes to their slow path.
const UPCALLS: [&str; 2] = ["upcalls", "caches upcalls"];
/// How long a device that was just started may take to settle: Open vSwitch lets its limit of flows rise by
/// a thousand a round, so hundreds of thousands of flows take minutes.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it may take that was settled before, and was frozen or disturbed since.
const PATIENCE_AGAIN: Duration = Duration::from_secs(60);

/// How a setting is measured in a search: so many looks of such a time.
const TUNING_LOOKS: u32 = 3;
const TUNING_LOOK: Duration = Duration::from_millis(300);

/// Time between two looks for the first packet.
const GLANCE: Duration = Duration::from_millis(1);
/// From this share of a trial on, counters that are waited for are of no known moment of it.
const LATE: f64 = 0.1;
/// The share of what is to happen to a device beside forwarding that has to.
const MOST: f64 = 0.9;
/// The details by which devices say how long they were busy, in cycles.
const BUSY: [&str; 2] = ["busy cycles", "busy_cycles"];

impl FedDut {
    /// Waits at the gate until the device, which works from its start on, has learnt its flows ([`Gate`]); where its
    /// variant asks for a search for its best settings, does that first, and leaves it at them. One that does not
    /// get there in time is measured all the same, and its trials say so. `told` hears why it is not there yet.
    pub(super) fn settle(&mut self, told: &mut dyn FnMut(&str)) -> Result<(), RigError> {
        let knobs = self.device.dut.choices();
        if !knobs.is_empty() {
            let choice = self.tune(knobs, told)?;
            self.device.dut.tune(&choice.variant)?;
            self.choice = Some(choice);
        }
        self.wait_at_gate(Gate::new(self.packets, self.are_new), PATIENCE, told)
    }

    /// The same after it was frozen: its flows may have expired, and its limit of them may have fallen.
    pub(super) fn settle_again(&mut self) -> Result<(), RigError> {
        if self.is_measured_once() {
            return Ok(());
        }
        self.wait_at_gate(Gate::new(self.packets, self.are_new), PATIENCE_AGAIN, &mut |_| ())
    }

    /// Searches for its best settings. Until some have settled, each has all the time to do so.
    fn tune(&mut self, knobs: &[&[&str]], told: &mut dyn FnMut(&str)) -> Result<Choice, RigError> {
        let mut patience = PATIENCE;
        tune::search(knobs, |variant| {
            let mut of_setting = |why: &str| told(&format!("with `{variant}` {why}"));
            let rate = self.rate_of(variant, patience, &mut of_setting)?;
            if rate > 0.0 {
                patience = PATIENCE_AGAIN;
            }
            Ok(rate)
        })
    }

    /// Its rate with some settings: the median of a few looks, or nothing where it does not settle in time.
    fn rate_of(
        &mut self,
        variant: &str,
        patience: Duration,
        told: &mut dyn FnMut(&str),
    ) -> Result<f64, RigError> {
        self.device.dut.tune(variant)?;
        self.wait_at_gate(Gate::new(self.packets, self.are_new), patience, told)?;
        if self.unsettled.is_some() {
            return Ok(0.0);
        }
        let mut rates = Vec::new();
        let mut before = self.device.dut.counters()?;
        for _ in 0..TUNING_LOOKS {
            self.device.sleep_until(before.at + TUNING_LOOK)?;
            let after = self.device.dut.counters()?;
            let time = after.at.duration_since(before.at).as_secs_f64();
            rates.push(after.sent.saturating_sub(before.sent) as f64 / time);
            before = after;
        }
        Ok(Spread::of(&rates).map_or(0.0, |spread| spread.median))
    }

    /// Waits until it has learnt its flows, for an audit: it is looked at whatever it is after so long.
    pub(super) fn learn_within(&mut self, patience: Duration) -> Result<(), RigError> {
        self.wait_at_gate(Gate::of_audit(self.packets, self.are_new), patience, &mut |_| ())
    }

    /// Its counters.
    pub(super) fn counters(&mut self) -> Result<Counters, RigError> {
        Ok(self.device.dut.counters()?)
    }

    /// Lets it work for so long.
    pub(super) fn sleep(&mut self, time: Duration) -> Result<(), RigError> {
        self.device.sleep_until(Instant::now() + time)
    }

    /// Ends it.
    pub(super) fn stop(self) -> Result<(), RigError> {
        Ok(self.device.dut.stop()?)
    }

    fn wait_at_gate(
        &mut self,
        mut gate: Gate,
        patience: Duration,
        told: &mut dyn FnMut(&str),
    ) -> Result<(), RigError> {
        self.waited = true;
        let began = Instant::now();
        loop {
            let counters = self.device.dut.counters()?;
            let learning = self.device.dut.learning()?;
            let Counters { received, sent, at, .. } = counters;
            let upcalls = upcalls(&counters.details);
            let since = at.saturating_duration_since(began);
            let seen = Seen { at: since, received, sent, upcalls, learning };
            let why = match gate.look(seen) {
                Ok(settled) => {
                    (self.unsettled, self.slow_for_good) = (None, settled == Settled::SlowForGood);
                    self.has_settled = true;
                    return Ok(());
                }
                Err(why) => why,
            };
            if since > patience {
                self.unsettled = Some(format!("after {} s {why}", patience.as_secs()));
                return Ok(());
            }
            told(&why);
            self.device.sleep_until(at + gate.next_look())?;
        }
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
        let nothing = Counters::new(0, 0, Nanos(0), start);
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
        if self.unsettled.is_some() && !self.waited && self.has_settled {
            self.settle_again()?; // the trial before was not of a settled device
        }
        self.waited = false;
        let began = Instant::now();
        let device = &mut self.device;
        device.rest(spec.duration);
        // Its rate is from one reading of its counters to the other: so both readings are within what is watched.
        let real_time =
            leaves_a_core(device.dut.threads().len()).then(|| device.real_time(spec.duration)).flatten();
        let hold = device.hold_back()?;
        let (watch, raised) = (device.watch(), Instant::now());
        let before = device.dut.counters()?;
        let answered = raised.elapsed();
        device.sleep_until(before.at + spec.duration.duration())?;
        let asked = Instant::now();
        let after = device.dut.counters()?;
        let late = late_answer(answered.max(asked.elapsed()), spec.duration);
        let mut health = Health { real_time: real_time.is_some(), ..Health::default() };
        device.watched(watch, &mut health);
        Device::held(hold, &mut health);
        if real_time.is_some() {
            drop(real_time);
            device.rests.trial(raised.elapsed(), Instant::now());
        }
        let reading = device.reading(before, after, true);
        let forgot = self.learns_still(&reading);
        self.unsettled = self.unsettled.take().or(forgot);
        let behind = self.device.dut.pace().and_then(|pace| behind(pace, &reading));
        health.unsettled = self.unsettled.clone().or(late).or(behind);
        Ok(TrialResult {
            elapsed: reading.elapsed,
            overhead: Nanos(Nanos::from(began.elapsed()).0.saturating_sub(reading.elapsed.0)),
            dut: Some(reading),
            health,
            ..TrialResult::new(spec)
        })
    }

    /// What is wrong with a trial in which a device that passed the gate learnt flows again: it had
    /// forgotten them meanwhile.
    fn learns_still(&self, reading: &DutReading) -> Option<String> {
        let upcalls = upcalls(&reading.details).unwrap_or(0);
        let many = !self.slow_for_good && upcalls as f64 > LEARNING * reading.received as f64;
        many.then(|| format!("{upcalls} of {} packets of the trial went to its slow path", reading.received))
    }
}

/// Whether forwarding threads that never wait leave a core to the device's other threads, which answer for its counters.
fn leaves_a_core(forwarding: usize) -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| forwarding < cores.get())
}

/// What is wrong with a trial whose counters came so late that nobody knows of which moment they are.
fn late_answer(took: Duration, duration: Nanos) -> Option<String> {
    let is_late = took.as_secs_f64() > LATE * duration.seconds();
    is_late.then(|| {
        let took = Nanos::from(took);
        format!("its counters came {took} after they were asked for, in a trial of {duration}: its rate is not known")
    })
}

/// What is wrong with a trial in which less than most of what was to happen to a device beside forwarding did.
fn behind((what, pace): (&str, f64), reading: &DutReading) -> Option<String> {
    let rate = reading.details.get(what).copied().unwrap_or(0) as f64 / reading.elapsed.seconds();
    (rate < pace * MOST).then(|| format!("{rate:.0} {what} a second came about, of {pace:.0}"))
}

/// Packets that went to the slow path, out of a device's details; nothing of one that counts none.
fn upcalls(details: &BTreeMap<String, u64>) -> Option<u64> {
    UPCALLS.iter().find_map(|name| details.get(*name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_come_late_are_told_and_prompt_ones_are_not() {
        let trial = Nanos(300_000_000);
        assert_eq!(late_answer(Duration::from_millis(3), trial), None);
        let told = late_answer(Duration::from_millis(980), trial).unwrap();
        assert!(told.contains("980 ms") && told.contains("300 ms"), "{told}");
    }

    #[test]
    fn a_trial_with_fewer_changes_than_were_to_come_says_so() {
        let reading = |changes| DutReading {
            elapsed: Nanos(500_000_000),
            details: BTreeMap::from([("changes".to_owned(), changes)]),
            ..DutReading::default()
        };
        assert_eq!(behind(("changes", 1000.0), &reading(460)), None);
        let told = behind(("changes", 1000.0), &reading(400)).unwrap();
        assert_eq!(told, "800 changes a second came about, of 1000");
    }

    #[test]
    fn as_many_forwarding_threads_as_cores_leave_none() {
        let cores = std::thread::available_parallelism().unwrap().get();
        assert!(leaves_a_core(cores - 1) && !leaves_a_core(cores));
    }
}

//! What a device takes of its cores at a point, which has one frame size: cores in use, and cycles a packet.
//!
//! CPU time is what the device's forwarding threads ran by the kernel's account; of a device that is the kernel itself,
//! what its adapter counts in their place ([`Point::configuration`] says so under [`COUNTED`]). A thread that polls runs
//! whether packets come or not: its cycles a packet are the cost of a packet only where it was never idle, and else at
//! most so many.

use super::{Point, Purpose, StoredTrial};
use std::collections::BTreeMap;
use weir_units::{Pps, Spread};

/// In a point's configuration: what its CPU time is, where it is not that of forwarding threads.
pub const COUNTED: &str = "cpu";
/// In a run's environment: the frequency of the time stamp counter.
const FREQUENCY: &str = "clock.tsc-frequency";
/// Loads that differ by less are one.
const SAME: f64 = 1e-6;
/// A device that forwards this share of a load carries it.
const CARRIED: f64 = 0.999;
/// Threads that are in use for this share of a core poll.
const POLLS: f64 = 0.95;

/// CPU use at the greatest load of a point at which it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuUse {
    /// The load, over all directions; nothing of a device that feeds itself.
    pub load: Option<Pps>,
    /// Cores in use: CPU time over time.
    pub cores: Spread,
    /// Cycles of the time stamp counter for each packet that the device received; nothing where the counter's frequency
    /// is not known.
    pub cycles: Option<Spread>,
    /// Whether the device polls and carried the load, so that a packet costs at most that.
    pub waits: bool,
}

impl CpuUse {
    /// Of a point, in a run with this environment; nothing where no trial has a reading with CPU time.
    pub fn of(point: &Point, environment: &BTreeMap<String, String>) -> Option<Self> {
        let read = |trial: &&StoredTrial| {
            let dut = trial.result.dut.as_ref();
            let told = dut.is_some_and(|dut| dut.cpu.0 > 0 && dut.elapsed.0 > 0 && dut.received > 0);
            told && !trial.superseded && trial.purpose != Purpose::WarmUp
        };
        let trials: Vec<&StoredTrial> = point.trials.iter().filter(read).collect();
        let load = trials.iter().map(|trial| trial.result.spec.load.0).fold(0.0, f64::max);
        let at_load = || trials.iter().filter(|trial| trial.result.spec.load.0 >= load * (1.0 - SAME));
        let readings = || at_load().filter_map(|trial| trial.result.dut.as_ref());
        let cores = readings().map(|dut| dut.cpu.0 as f64 / dut.elapsed.0 as f64);
        let hertz = frequency(environment);
        let cycles = hertz.map(|hertz| {
            readings().map(|dut| dut.cpu.seconds() * hertz / dut.received as f64).collect::<Vec<_>>()
        });
        let cores = Spread::of(&cores.collect::<Vec<_>>())?;
        // A device that feeds itself (there are no counts of a tester) has no load, and never waits for packets.
        let feeds_itself = at_load().all(|trial| trial.result.directions.is_empty());
        let carried = at_load().all(|trial| 1.0 - trial.result.loss_ratio().0 >= CARRIED);
        Some(Self {
            load: (!feeds_itself).then_some(Pps(load)),
            waits: !feeds_itself
                && carried
                && cores.mean >= POLLS
                && !point.configuration.contains_key(COUNTED),
            cycles: cycles.and_then(|cycles| Spread::of(&cycles)),
            cores,
        })
    }

    /// What was counted.
    pub fn counted(point: &Point) -> &str {
        point.configuration.get(COUNTED).map_or("run time of its forwarding threads", String::as_str)
    }
}

/// The frequency of the time stamp counter, from `2.60 GHz`.
fn frequency(environment: &BTreeMap<String, String>) -> Option<f64> {
    let gigahertz: f64 = environment.get(FREQUENCY)?.trim_end_matches(" GHz").parse().ok()?;
    (gigahertz > 0.0).then_some(gigahertz * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::PointKey;
    use crate::{DirectionCounts, DutReading, TrialResult, TrialSpec};
    use weir_units::{Bps, LineRate, Nanos};

    fn trial(sequence: u32, load: f64, cpu: u64, lost: u64) -> StoredTrial {
        let spec = TrialSpec { load: Pps(load), duration: Nanos(Nanos::PER_SECOND) };
        let sent = load as u64;
        let received = sent - lost;
        let counts = DirectionCounts { intended: sent, sent, received, ..Default::default() };
        let dut = DutReading {
            received: sent,
            sent: received,
            elapsed: spec.duration,
            cpu: Nanos(cpu),
            ..DutReading::default()
        };
        let result = TrialResult { directions: vec![counts], dut: Some(dut), ..TrialResult::new(spec) };
        StoredTrial::new(sequence, Purpose::Mrr, 0, result)
    }

    fn point(trials: Vec<StoredTrial>) -> Point {
        Point {
            index: 0,
            key: PointKey {
                nf: crate::Nf::L2Fwd,
                dut: "linux".into(),
                wiring: "veth".into(),
                trace: "tr3i".into(),
                size: "64".into(),
                mean_frame_bytes: 64.0,
                directions: 2,
                placement: crate::Placement::default(),
                huge_pages: false,
                line_rate: LineRate(Bps(1e10)),
            },
            dut_version: None,
            trace_hashes: Vec::new(),
            seed: 0,
            packets: None,
            configuration: BTreeMap::new(),
            error: None,
            finished: true,
            results: Vec::new(),
            trials,
        }
    }

    fn machine() -> BTreeMap<String, String> {
        BTreeMap::from([(FREQUENCY.to_owned(), "2.50 GHz".to_owned())])
    }

    #[test]
    fn a_device_that_sleeps_takes_the_time_of_its_packets_and_one_that_polls_a_whole_core() {
        let half = 500_000_000;
        let asleep = point(vec![trial(0, 1e5, 9, 0), trial(1, 1e6, half, 0), trial(2, 1e6, half, 0)]);
        let found = CpuUse::of(&asleep, &machine()).unwrap();
        assert_eq!((found.load, found.cores.mean, found.cores.count), (Some(Pps(1e6)), 0.5, 2));
        assert!((found.cycles.unwrap().mean - 1250.0).abs() < 1e-6 && !found.waits);
        let polling = point(vec![trial(0, 1e6, 2 * half, 0)]);
        assert!(CpuUse::of(&polling, &machine()).unwrap().waits, "it may have waited for packets");
        let busy = point(vec![trial(0, 1e6, 2 * half, 5_000)]);
        let found = CpuUse::of(&busy, &BTreeMap::new()).unwrap();
        assert_eq!((found.waits, found.cycles), (false, None), "no frequency, no cycles");
        let mut fed = point(vec![trial(0, 1e6, 2 * half, 0)]);
        fed.trials[0].result.directions.clear();
        let found = CpuUse::of(&fed, &machine()).unwrap();
        assert_eq!((found.load, found.waits), (None, false), "it has its packets from inside");
    }

    #[test]
    fn the_kernels_time_is_called_what_it_is_and_never_waiting() {
        let mut kernel = point(vec![trial(0, 1e6, 1_000_000_000, 0)]);
        assert_eq!(CpuUse::counted(&kernel), "run time of its forwarding threads");
        kernel.configuration.insert(COUNTED.to_owned(), "softirq of core 1".to_owned());
        assert_eq!(CpuUse::counted(&kernel), "softirq of core 1");
        assert!(!CpuUse::of(&kernel, &machine()).unwrap().waits);
        assert_eq!(CpuUse::of(&point(Vec::new()), &machine()), None);
    }
}

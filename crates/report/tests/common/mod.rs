//! Runs to draw, measured on simulated devices: every number in them comes from a trial.

mod curves;

pub(crate) use curves::curves;

use std::collections::BTreeMap;
use weir_simulated::{SimulatedDut, Simulation};
use weir_trial::run::{
    LatencyResult, MrrResult, Point, PointKey, PointResult, Purpose, Run, RunState, SCHEMA_VERSION,
    StoredTrial, ThroughputResult,
};
use weir_trial::{DutReading, Nf, TrialResult, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps, Ratio};

/// Length of the example's trials.
const TRIAL: Nanos = Nanos(Nanos::PER_SECOND / 4);
const STARTED_MS: i64 = 1_795_265_134_000;
/// Cycles a second of the simulated machine's counter.
const TSC_HZ: f64 = 2.5e9;
const SIZES: [(&str, f64); 8] = [
    ("64", 64.0),
    ("128", 128.0),
    ("256", 256.0),
    ("imix", 353.83),
    ("512", 512.0),
    ("1024", 1024.0),
    ("1280", 1280.0),
    ("1500", 1500.0),
];

/// One device of the example.
struct Device {
    dut: &'static str,
    wiring: &'static str,
    /// Packets a second at 64 B, L2 forwarding.
    capacity: f64,
    seed: u64,
}

/// A whole run: three network functions, two devices over a wire and one fed from inside; one point
/// failed, one is irregular, one is limited by the tester.
pub(crate) fn run(name: &str, id: i64, speed: f64) -> Run {
    let devices = [
        Device { dut: "nf", wiring: "vhost", capacity: 2.9e6, seed: 1 },
        Device { dut: "testpmd", wiring: "vhost", capacity: 3.4e6, seed: 2 },
        Device { dut: "nf", wiring: "fed", capacity: 61e6, seed: 3 },
    ];
    let functions = [(Nf::L2Fwd, 1.0), (Nf::L3Fwd { routes: 10 }, 0.86), (Nf::Firewall { rules: 10 }, 0.71)];
    let mut points = Vec::new();
    for (nf, weight) in functions {
        for device in &devices {
            for (size, bytes) in SIZES {
                let index = points.len() as u32;
                points.push(point(index, nf, weight * speed, device, (size, bytes)));
            }
        }
    }
    Run {
        schema: SCHEMA_VERSION,
        id,
        name: name.to_owned(),
        started_ms: STARTED_MS + id * 3_600_000,
        ended_ms: Some(STARTED_MS + id * 3_600_000 + 84_000),
        state: RunState::Finished,
        plan: "# What `weir bench` measures without arguments.\nfunctions = [\"l2fwd\", \"l3fwd\", \"firewall\"]\ngoals = [\"ndr\", \"pdr\"]\n"
            .to_owned(),
        weir: "0.1.0 (b60bb37)".to_owned(),
        environment: environment(id),
        uuid: String::new(),
        sessions: Vec::new(),
        self_checks: Vec::new(),
        points,
        advice: Vec::new(),
    }
}

/// A run that was cut off before its first point.
pub(crate) fn empty() -> Run {
    Run { points: Vec::new(), state: RunState::Running, ended_ms: None, ..run("2026-11-21-empty", 9, 1.0) }
}

fn environment(id: i64) -> BTreeMap<String, String> {
    [
        ("cpu.model", "Simulated 2.5 GHz".to_owned()),
        ("cpu.cores", "2".to_owned()),
        ("cpu.governor", if id % 2 == 0 { "performance" } else { "powersave" }.to_owned()),
        ("kernel.release", "6.1.0-40-amd64".to_owned()),
        ("kernel.command_line", "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet isolcpus=1".to_owned()),
        ("memory.huge_pages", "0".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn point(index: u32, nf: Nf, weight: f64, device: &Device, (size, bytes): (&str, f64)) -> Point {
    let capacity = Pps(device.capacity * weight / (1.0 + (bytes - 64.0) / 2_600.0));
    let dut = SimulatedDut {
        capacity,
        queue: 512,
        noise: Ratio(0.006),
        seed: device.seed * 1000 + u64::from(index),
        ..SimulatedDut::default()
    };
    let key = PointKey {
        nf,
        dut: device.dut.to_owned(),
        wiring: device.wiring.to_owned(),
        trace: "tr3e".to_owned(),
        size: size.to_owned(),
        mean_frame_bytes: bytes,
        directions: 2,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    };
    let mut bench = Bench { device: dut.start(), trials: Vec::new(), clock: STARTED_MS };
    let unsupported = device.dut == "testpmd" && matches!(nf, Nf::Firewall { .. }) && bytes > 1_200.0;
    let results = match device.wiring {
        _ if unsupported => Vec::new(),
        "fed" => vec![bench.fed(capacity)],
        _ => bench.wired(capacity.0, key.theoretical().0, index == 3),
    };
    Point {
        index,
        key,
        configuration: Default::default(),
        trace_hashes: Vec::new(),
        seed: 1,
        packets: None,
        dut_version: Some(format!("{} 22.11.11, one forwarding core, 512 descriptors", device.dut)),
        error: unsupported.then(|| "testpmd would not start: <no free memory segments>".to_owned()),
        finished: true,
        results,
        trials: bench.trials,
    }
}

/// Keeps the trials of one point.
struct Bench {
    device: Simulation,
    trials: Vec<StoredTrial>,
    clock: i64,
}

impl Bench {
    fn trial(&mut self, purpose: Purpose, load: f64) -> TrialResult {
        let mut result = self.device.run(TrialSpec { load: Pps(load), duration: TRIAL });
        // The simulated wire: what the device does not take is refused by its ring, for the most part.
        let counts = &mut result.directions[0];
        let missing = counts.sent - counts.received;
        counts.refused = missing * 4 / 5;
        counts.sent -= counts.refused;
        result.dut = Some(DutReading {
            received: counts.sent,
            sent: counts.received,
            elapsed: TRIAL,
            cpu: TRIAL,
            cycles_per_packet: Some(TSC_HZ * TRIAL.seconds() / counts.sent.max(1) as f64),
            ..DutReading::default()
        });
        self.keep(purpose, result.clone());
        result
    }

    fn keep(&mut self, purpose: Purpose, result: TrialResult) {
        let sequence = self.trials.len() as u32;
        self.clock += TRIAL.0 as i64 / 1_000_000;
        self.trials.push(StoredTrial::new(sequence, purpose, self.clock, result));
    }

    /// Halves the span between a load that passes and one that does not.
    fn search(&mut self, goal: &str, loss_ratio: Ratio, most: f64) -> PointResult {
        let (mut lower, mut upper) = (0.0, most);
        let mut throughput = 0.0;
        let mut failed = false;
        for _ in 0..14 {
            let load = if failed { (lower + upper) / 2.0 } else { most };
            let result = self.trial(Purpose::Search, load);
            if result.loss_ratio() <= loss_ratio {
                lower = load;
                throughput = result.forwarded_rate().0;
                if !failed {
                    break;
                }
            } else {
                upper = load;
                failed = true;
            }
        }
        PointResult::Throughput(ThroughputResult {
            goal: goal.to_owned(),
            loss_ratio,
            throughput: Some(Pps(throughput)),
            lower: Some(Pps(lower)),
            upper: failed.then_some(Pps(upper)),
            irregular: (!failed).then(|| "the greatest load passed: the line rate is the limit".to_owned()),
            estimate: None,
            trial_duration: TRIAL,
            duration_sum: Nanos(TRIAL.0 * 4),
            trials: self.trials.len() as u32,
            limit: None,
        })
    }

    fn wired(&mut self, capacity: f64, line: f64, tester_late: bool) -> Vec<PointResult> {
        let ndr = self.search("ndr", Ratio(0.0), line.min(capacity * 1.1));
        let pdr = self.search("pdr", Ratio(0.005), line.min(capacity * 1.12));
        if tester_late {
            for trial in &mut self.trials {
                let counts = &mut trial.result.directions[0];
                (counts.unsent, counts.refused) = (counts.refused, 0);
            }
        }
        let found = match &ndr {
            PointResult::Throughput(ThroughputResult { lower: Some(lower), .. }) => lower.0,
            _ => capacity,
        };
        let latencies = [("50% ndr", 0.5), ("90% ndr", 0.9)].map(|(label, share)| {
            self.trial(Purpose::Latency, found * share);
            PointResult::Latency(LatencyResult {
                label: label.to_owned(),
                load: Pps(found * share),
                trial: self.trials.len() as u32 - 1,
                floor: None,
            })
        });
        let mrr = self.mrr(Some(line.min(capacity * 1.3)));
        [ndr, pdr, mrr].into_iter().chain(latencies).collect()
    }

    fn mrr(&mut self, load: Option<f64>) -> PointResult {
        let first = self.trials.len();
        if let Some(load) = load {
            (0..5).for_each(|_| {
                self.trial(Purpose::Mrr, load);
            });
        }
        let trials = &self.trials[first..];
        let rates: Vec<Pps> = trials.iter().map(|trial| trial.result.forwarded_rate()).collect();
        let count = rates.len() as f64;
        let mean = rates.iter().map(|rate| rate.0).sum::<f64>() / count;
        let squares = rates.iter().map(|rate| (rate.0 - mean).powi(2)).sum::<f64>();
        let cycles = trials.iter().filter_map(|trial| trial.result.dut.as_ref()?.cycles_per_packet);
        PointResult::Mrr(MrrResult {
            load: load.map(Pps),
            rates,
            mean: Pps(mean),
            deviation: Pps((squares / (count - 1.0)).sqrt()),
            cycles_per_packet: Some(cycles.sum::<f64>() / count),
            limit: None,
        })
    }

    /// The source in the device: no counts at a wire, only the device's own reading.
    fn fed(&mut self, capacity: Pps) -> PointResult {
        let PointResult::Mrr(MrrResult { rates, mean, deviation, cycles_per_packet, .. }) =
            self.mrr(Some(capacity.0 * 2.0))
        else {
            unreachable!("mrr() returns MRR")
        };
        for trial in &mut self.trials {
            trial.result.directions.clear();
            trial.result.latency = None;
        }
        PointResult::Mrr(MrrResult { load: None, rates, mean, deviation, cycles_per_packet, limit: None })
    }
}

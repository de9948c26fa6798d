//! Runs of simulated devices, as a campaign would keep them.

use std::collections::BTreeMap;
use weir_simulated::{SimulatedDut, SimulatedParts, Simulation};
use weir_trial::run::{
    CurveResult, CurveStep, MrrResult, Point, PointKey, PointResult, Purpose, Run, RunState, SCHEMA_VERSION,
    Saturation, StoredTrial,
};
use weir_trial::{Nf, Placement, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps, Ratio, Spread};

/// A load that no simulated device here carries.
const FLOOD: f64 = 1e9;

pub(crate) fn key(nf: &str, placement: Placement) -> PointKey {
    PointKey {
        nf: nf.parse().unwrap(),
        dut: "simulated:parts".to_owned(),
        placement,
        wiring: "simulated".to_owned(),
        trace: "simple".to_owned(),
        size: "64".to_owned(),
        mean_frame_bytes: 64.0,
        directions: 1,
        huge_pages: false,
        line_rate: LineRate(Bps(1e12)),
    }
}

/// A device of parts as it is at a point.
pub(crate) fn device(key: &PointKey, noise: f64, seed: u64) -> SimulatedDut {
    let capacity = SimulatedParts::default().capacity(key.nf, &key.placement);
    SimulatedDut { capacity, noise: Ratio(noise), seed, ..SimulatedDut::default() }
}

fn spec(load: f64) -> TrialSpec {
    TrialSpec { load: Pps(load), duration: Nanos(Nanos::PER_SECOND) }
}

/// A point being measured.
pub(crate) struct Measuring {
    point: Point,
    at_work: Simulation,
}

impl Measuring {
    pub(crate) fn new(index: u32, key: PointKey, device: SimulatedDut) -> Self {
        let point = Point {
            index,
            key,
            dut_version: None,
            configuration: BTreeMap::new(),
            trace_hashes: Vec::new(),
            seed: 1,
            packets: None,
            error: None,
            finished: true,
            results: Vec::new(),
            trials: Vec::new(),
        };
        Self { point, at_work: device.start() }
    }

    fn trial(&mut self, purpose: Purpose, load: f64) -> u32 {
        let sequence = self.point.trials.len() as u32;
        let result = self.at_work.run(spec(load));
        self.point.trials.push(StoredTrial::new(sequence, purpose, 0, result));
        sequence
    }

    /// Rates at the greatest load, of one start.
    pub(crate) fn mrr(mut self, trials: u32) -> Self {
        let numbers: Vec<u32> = (0..trials).map(|_| self.trial(Purpose::Mrr, FLOOD)).collect();
        let rate = |number: &u32| self.point.trial(*number).unwrap().result.forwarded_rate();
        let rates: Vec<Pps> = numbers.iter().map(rate).collect();
        self.rates(rates)
    }

    /// These rates, as somebody else measured them.
    pub(crate) fn rates(mut self, rates: Vec<Pps>) -> Self {
        let spread = Spread::of(&rates.iter().map(|rate| rate.0).collect::<Vec<_>>()).unwrap();
        self.point.results.push(PointResult::Mrr(MrrResult {
            load: Some(Pps(FLOOD)),
            mean: Pps(spread.mean),
            deviation: Pps(spread.deviation.unwrap_or(0.0)),
            rates,
            cycles_per_packet: None,
            limit: None,
        }));
        self
    }

    /// Delays at these loads.
    pub(crate) fn curve(mut self, loads: &[f64]) -> Self {
        let steps: Vec<CurveStep> = loads
            .iter()
            .map(|load| CurveStep { load: Pps(*load), trial: self.trial(Purpose::Latency, *load) })
            .collect();
        let saturation = Saturation { loss_ratio: Ratio(0.001), lower: None, upper: None };
        self.point.results.push(PointResult::LatencyCurve(CurveResult {
            steps,
            saturation,
            knee: None,
            tail: None,
            limit: None,
        }));
        self
    }

    pub(crate) fn done(self) -> Point {
        self.point
    }
}

pub(crate) fn run(points: Vec<Point>) -> Run {
    Run {
        schema: SCHEMA_VERSION,
        id: 1,
        uuid: String::new(),
        name: "made-up".to_owned(),
        started_ms: 0,
        ended_ms: None,
        state: RunState::Finished,
        plan: String::new(),
        weir: "weir".to_owned(),
        environment: BTreeMap::new(),
        sessions: Vec::new(),
        self_checks: Vec::new(),
        points,
        advice: Vec::new(),
    }
}

/// Points of these placements, each measured at the greatest load.
pub(crate) fn rates(nf: &str, placements: &[Placement], (trials, noise, seed): (u32, f64, u64)) -> Run {
    let point = |(index, placement): (u32, &Placement)| {
        let key = key(nf, placement.clone());
        let device = device(&key, noise, seed.wrapping_mul(1_000).wrapping_add(u64::from(index)));
        Measuring::new(index, key, device).mrr(trials).done()
    };
    run((0..).zip(placements).map(point).collect())
}

/// What the device really forwards there.
pub(crate) fn truth(key: &PointKey) -> f64 {
    SimulatedParts::default().capacity(key.nf, &key.placement).0
}

pub(crate) fn nf(text: &str) -> Nf {
    text.parse().unwrap()
}

//! A run of curves, bursts and soaks on simulated devices, by the methods themselves.

use super::{STARTED_MS, environment};
use weir_methods::Silent;
use weir_methods::back_to_back::{BackToBack, LineAndThroughput};
use weir_methods::connections::Connections;
use weir_methods::curve::LatencyCurve;
use weir_methods::flow_mods::FlowMods;
use weir_methods::frame_loss::FrameLoss;
use weir_methods::mrr::Mrr;
use weir_methods::soak::Soak;
use weir_simulated::{SimulatedDut, Simulation};
use weir_trial::changes::EntryCheck;
use weir_trial::run::{
    MrrResult, Point, PointKey, PointResult, Purpose, Run, RunState, SCHEMA_VERSION, StoredTrial,
};
use weir_trial::{
    ChangesMade, ConnectionSpec, ConnectionsMade, Control, DirectionCounts, KeptTrial, Latency, Limit,
    Limiter, Measurer, Nf, SelfCheck, TrialSpec,
};
use weir_units::{Bps, LatencyHistogram, LineRate, Nanos, Pps, Ratio};

const SECOND: Nanos = Nanos(Nanos::PER_SECOND);
/// What the example's tester sends at most.
const CEILING: f64 = 12e6;

/// Keeps the trials of one point; sends no more than it can.
struct Kept {
    device: Simulation,
    ceiling: f64,
    foreign: u64,
    trials: Vec<StoredTrial>,
    clock: i64,
}

impl Measurer for Kept {
    type Error = std::convert::Infallible;

    fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
        let mut result = self.device.run(spec);
        let counts = &mut result.directions[0];
        counts.foreign = self.foreign;
        counts.unsent = counts.intended.saturating_sub((self.ceiling * spec.duration.seconds()) as u64);
        counts.sent -= counts.unsent;
        counts.received = counts.received.min(counts.sent);
        result.overhead = Nanos(SECOND.0 / 20);
        let sequence = self.trials.len() as u32;
        self.trials.push(StoredTrial::new(sequence, purpose, self.clock, result.clone()));
        self.clock += ((spec.duration.0 + result.overhead.0) / 1_000_000) as i64;
        Ok(KeptTrial { sequence, result })
    }

    /// Takes a thousand changes more in each trial, the last of which is in force 0.7 ms late.
    fn measure_under(
        &mut self,
        purpose: Purpose,
        spec: TrialSpec,
        control: Control,
    ) -> Result<KeptTrial, Self::Error> {
        let mut kept = self.measure(purpose, spec)?;
        if let Control::Changes { batch } = control {
            let check = EntryCheck { probes: 500, stale: 1, lag: Nanos(700_000), in_force: true };
            let made = 1000 * u64::from(kept.sequence);
            let changes = ChangesMade { batch, made, elapsed: spec.duration, checks: vec![check] };
            kept.result.changes = Some(changes);
            if let Some(trial) = self.trials.last_mut() {
                trial.result.changes.clone_from(&kept.result.changes);
            }
        }
        Ok(kept)
    }

    /// Tracks as many connections a second as it forwards packets in eight milliseconds, and 4000 at a time.
    fn measure_connections(
        &mut self,
        purpose: Purpose,
        asked: ConnectionSpec,
    ) -> Result<KeptTrial, Self::Error> {
        let mut kept = self.measure(purpose, TrialSpec { load: Pps(1e3), ..asked.trial() })?;
        let most = if asked.held { 4_000 } else { (self.ceiling * 0.008 * asked.begins().seconds()) as u64 };
        let whole = asked.count.min(most);
        let mut setup = LatencyHistogram::default();
        setup.record_many(Nanos(25_000), whole.max(1));
        let made = ConnectionsMade {
            asked,
            begun: asked.count,
            opened: asked.count,
            proved: if asked.held { whole } else { 0 },
            whole,
            broken: asked.count - whole,
            reset: asked.count - whole,
            took: asked.begins(),
            behind: Nanos(900),
            full: Ratio(0.01),
            setup: Latency::of(&setup),
        };
        kept.result.connections = Some(made);
        if let Some(trial) = self.trials.last_mut() {
            trial.result.connections.clone_from(&kept.result.connections);
        }
        Ok(kept)
    }
}

/// Two devices at two sizes, and one that sends what nobody sent to it.
pub(crate) fn curves(name: &str, id: i64) -> Run {
    let devices = [("nf", 2.9e6, 512, 0), ("ovs-dpdk", 4.1e6, 2048, 0), ("broken", 3e6, 512, 5)];
    let mut points = Vec::new();
    for (dut, capacity, queue, foreign) in devices {
        for bytes in [64.0, 512.0] {
            if foreign == 0 || bytes < 100.0 {
                points.push(point(points.len() as u32, dut, (capacity, queue, foreign), bytes));
            }
        }
    }
    let mut floor = LatencyHistogram::default();
    (1..=1000).for_each(|n| floor.record(Nanos(900 + n)));
    let check = SelfCheck {
        wiring: "vhost".to_owned(),
        size: "64".to_owned(),
        mean_frame_bytes: 64.0,
        directions: 2,
        pairs: 1,
        queues: 1,
        server: None,
        huge_pages: false,
        loop_of: "testpmd, forwarding between the ports as they are".to_owned(),
        ceiling: Pps(CEILING),
        floor_load: Pps(1e5),
        floor: Latency::of(&floor),
        floors: vec![],
        counts: DirectionCounts { intended: 100_000, sent: 100_000, received: 100_000, ..Default::default() },
        findings: Vec::new(),
    };
    Run {
        schema: SCHEMA_VERSION,
        id,
        name: name.to_owned(),
        started_ms: STARTED_MS,
        ended_ms: Some(STARTED_MS + 3_600_000),
        state: RunState::Finished,
        plan: "# Curves, bursts and soaks.\n[latency_curve]\n".to_owned(),
        weir: "0.1.0 (b60bb37)".to_owned(),
        environment: environment(id),
        uuid: String::new(),
        sessions: Vec::new(),
        self_checks: vec![check],
        points,
        advice: Vec::new(),
    }
}

fn point(index: u32, dut: &str, (capacity, queue, foreign): (f64, u64, u64), bytes: f64) -> Point {
    let key = PointKey {
        nf: Nf::L2Fwd,
        dut: dut.to_owned(),
        wiring: "vhost".to_owned(),
        trace: "tr3e".to_owned(),
        size: bytes.to_string(),
        mean_frame_bytes: bytes,
        directions: 2,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    };
    let capacity = capacity / (1.0 + (bytes - 64.0) / 2_600.0);
    let device = SimulatedDut {
        capacity: Pps(capacity),
        queue,
        noise: Ratio(0.006),
        disturbed: Ratio(0.02),
        seed: u64::from(index),
        ..SimulatedDut::default()
    };
    let mut kept =
        Kept { device: device.start(), ceiling: CEILING, foreign, trials: Vec::new(), clock: STARTED_MS };
    let line = key.theoretical();
    let mut results: Vec<PointResult> =
        (0..if foreign > 0 { 1 } else { 3 }).map(|_| mrr(&mut kept, line, capacity)).collect();
    if foreign == 0 {
        results.extend(loads(&mut kept, line, capacity));
    }
    Point {
        index,
        key,
        configuration: Default::default(),
        trace_hashes: Vec::new(),
        seed: 1,
        packets: None,
        dut_version: Some(format!("{dut} 1.0")),
        error: None,
        finished: true,
        results,
        trials: kept.trials,
    }
}

fn mrr(kept: &mut Kept, line: Pps, capacity: f64) -> PointResult {
    let method = Mrr { trials: 3, duration: SECOND, load: Pps(line.0.min(capacity * 1.3)) };
    let mut result = method.run(kept, &mut Silent).unwrap().point_result();
    if let PointResult::Mrr(MrrResult { limit, mean, .. }) = &mut result {
        let (by, why) = if mean.0 > 3.5e6 {
            (Limiter::Tester, format!("the ceiling of this wiring is {}", Pps(CEILING)))
        } else {
            (Limiter::Dut, format!("the ceiling of this wiring is {}, far above", Pps(CEILING)))
        };
        *limit = Some(Limit { by, why });
    }
    result
}

fn loads(kept: &mut Kept, line: Pps, capacity: f64) -> Vec<PointResult> {
    let curve = LatencyCurve {
        from: Pps(100.0),
        to: Pps(line.0.min(CEILING)),
        per_decade: 3,
        dense: 12,
        duration: SECOND,
        packets: 1000,
        longest: Nanos(10 * SECOND.0),
        loss_ratio: Ratio(0.001),
    };
    let mut results = vec![curve.run(Some(Pps(capacity)), kept, &mut Silent).unwrap().point_result()];
    let frame_loss = FrameLoss { step: Ratio(0.1), duration: SECOND };
    results.push(frame_loss.run(line, kept, &mut Silent).unwrap().point_result());
    let bursts = BackToBack {
        goal: "ndr".to_owned(),
        searches: 5,
        step: 10,
        ceiling: BackToBack::RFC9004_CEILING,
        rest: BackToBack::RFC9004_REST,
    };
    let at = LineAndThroughput { line, throughput: Some(Pps(capacity * 0.98)) };
    results.push(bursts.run(at, kept, &mut Silent).unwrap().point_result());
    let load = Pps(capacity * 0.5);
    let changes = FlowMods { load: "50% mrr".parse().unwrap(), batch: 50, pairs: 3, duration: SECOND };
    results.push(changes.run(load, kept, &mut Silent).unwrap().point_result());
    let connections = Connections {
        searches: 3,
        duration: Nanos(800_000_000),
        rates: (1_000.0, 1e6),
        width: Ratio(0.02),
        most_held: 100_000,
        opened_at: Ratio(0.5),
    };
    results.push(connections.run(kept, &mut Silent).unwrap().point_result());
    let soak = Soak { load: "90% ndr".parse().unwrap(), time: Nanos(240 * SECOND.0), slice: SECOND };
    results.push(soak.run(Pps(capacity * 0.9), kept, &mut Silent).unwrap().point_result());
    results
}

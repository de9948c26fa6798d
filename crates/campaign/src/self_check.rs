//! The self-check: what the tester can do over a wiring, before anything is measured over it.
//!
//! The tester is looped onto itself by the least there can be between two of its ports of this
//! kind: a thread of its own that passes bursts on (`weir nf l2fwd`, on the core where the device
//! under test will be). What comes back is the ceiling of every result over this wiring, and the
//! floor of every latency. Count errors at a load far below the ceiling are the tester's own.
//!
//! Cost: two seconds and a half for each wiring, size, number of directions and kind of memory.

use crate::rig::{Rig, RigError};
use weir_trial::run::PointKey;
use weir_trial::verdict::{Code, Finding, Weight};
use weir_trial::{Floor, SelfCheck, TrialResult, TrialSpec, judge};
use weir_units::{Nanos, Pps};

/// Length of a trial that looks for the ceiling.
const CEILING_TRIAL: Nanos = Nanos(200_000_000);
/// Shares of the line's rate that are offered: too much load may bring back less.
const CEILING_LOADS: [f64; 5] = [1.0, 0.6, 0.35, 0.2, 0.1];
/// Length of the trial at the floor.
const FLOOR_TRIAL: Nanos = Nanos(500_000_000);
/// Load of the trial at the floor, as a share of the ceiling; and the most.
const FLOOR_LOAD: f64 = 0.01;
const FLOOR_MOST: Pps = Pps(100_000.0);
/// Loads at which the floor is measured besides, as shares of the ceiling, and the length of such a trial.
const FLOOR_LOADS: [f64; 3] = [0.1, 0.5, 0.9];
const FLOORS_TRIAL: Nanos = Nanos(100_000_000);
/// Times the floor is measured before a count error is believed.
const FLOOR_ATTEMPTS: u32 = 3;

/// Checks a wiring through `rig`, whose device only passes packets on.
pub(crate) fn run(rig: &mut Rig, key: &PointKey) -> Result<SelfCheck, RigError> {
    // The first packets wake caches and the other process up; they decide nothing.
    rig.measure(TrialSpec { load: FLOOR_MOST, duration: CEILING_TRIAL })?;
    let mut ceiling = Pps(0.0);
    for share in CEILING_LOADS {
        let load = Pps(key.theoretical().0 * share);
        if load.0 < ceiling.0 {
            break; // less than what came back cannot bring back more
        }
        let result = rig.measure(TrialSpec { load, duration: CEILING_TRIAL })?;
        ceiling = Pps(ceiling.0.max(result.forwarded_rate().0));
    }
    let floor_load = Pps((ceiling.0 * FLOOR_LOAD).clamp(1_000.0, FLOOR_MOST.0));
    let (result, findings) = floor(rig, floor_load)?;
    let floors = floors(rig, ceiling)?;
    Ok(SelfCheck {
        wiring: key.wiring.clone(),
        size: key.size.clone(),
        mean_frame_bytes: key.mean_frame_bytes,
        directions: key.directions,
        pairs: key.placement.bundles.max(1),
        queues: key.placement.queues.max(1),
        server: key.placement.server.clone(),
        huge_pages: key.huge_pages,
        loop_of: rig.description(),
        ceiling,
        floor_load,
        counts: result.total(),
        floor: result.latency,
        floors,
        findings,
    })
}

/// What comes back at a load: the best of a few trials, as a disturbed one says nothing of the tester.
pub(crate) fn ceiling_at(rig: &mut Rig, key: &PointKey, load: Pps) -> Result<Pps, RigError> {
    rig.measure(TrialSpec { load: FLOOR_MOST, duration: CEILING_TRIAL })?;
    let load = Pps(load.0.min(key.theoretical().0));
    let mut ceiling = Pps(0.0);
    for _ in 0..FLOOR_ATTEMPTS {
        let result = rig.measure(TrialSpec { load, duration: CEILING_TRIAL })?;
        let rate = result.total().received as f64 / result.elapsed.seconds();
        ceiling = Pps(ceiling.0.max(rate));
    }
    Ok(ceiling)
}

/// The floor at the loads where delays are usually taken: the tester's own queues grow with the load.
fn floors(rig: &mut Rig, ceiling: Pps) -> Result<Vec<Floor>, RigError> {
    let mut floors = Vec::new();
    for load in FLOOR_LOADS.map(|share| Pps(ceiling.0 * share)).into_iter().filter(|load| load.0 > 0.0) {
        let result = rig.measure(TrialSpec { load, duration: FLOORS_TRIAL })?;
        floors.extend(result.latency.as_ref().map(|latency| Floor::of(load, latency)));
    }
    Ok(floors)
}

/// Measures the floor until it is clean, a few times at most.
fn floor(rig: &mut Rig, load: Pps) -> Result<(TrialResult, Vec<Finding>), RigError> {
    let mut attempt = 1;
    loop {
        let result = rig.measure(TrialSpec { load, duration: FLOOR_TRIAL })?;
        let findings = errors(&result);
        if findings.is_empty() || attempt == FLOOR_ATTEMPTS {
            return Ok((result, findings));
        }
        attempt += 1;
    }
}

/// What is wrong with a trial that had no reason to go wrong.
fn errors(result: &TrialResult) -> Vec<Finding> {
    let mut findings = judge(result).findings;
    let counted = result.counted();
    if counted.lost() > 0 {
        let says = format!(
            "{} of {} packets were lost with nothing between the tester's ports",
            counted.lost(),
            counted.intended()
        );
        findings.push(Finding { code: Code::LostAlone, weight: Weight::Invalid, says });
    }
    findings
}

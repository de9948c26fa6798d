//! Points and trials for the store's tests, taken from the simulated device.

use std::collections::BTreeMap;
use weir_store::{NewRun, RunId, Store};
use weir_trial::run::{PointKey, Purpose, StoredTrial};
use weir_trial::simulated::SimulatedDut;
use weir_trial::{Nf, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps};

/// 2026-11-21 00:00:00 UTC.
pub(crate) const START_MS: i64 = 1_795_219_200_000;

pub(crate) fn key(size: u16) -> PointKey {
    PointKey {
        nf: Nf::L3Fwd { routes: 10 },
        dut: "simulated".to_owned(),
        wiring: "fed".to_owned(),
        trace: "simple".to_owned(),
        size: size.to_string(),
        mean_frame_bytes: f64::from(size),
        directions: 2,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    }
}

pub(crate) fn trial(sequence: u32) -> StoredTrial {
    let spec = TrialSpec { load: Pps(4e6 + f64::from(sequence) * 1e5), duration: Nanos(Nanos::PER_SECOND) };
    let started_ms = START_MS + i64::from(sequence) * 1000;
    StoredTrial::new(sequence, Purpose::Search, started_ms, SimulatedDut::default().start().run(spec))
}

pub(crate) fn begin(store: &mut Store, name: Option<&str>) -> RunId {
    let environment = BTreeMap::from([("cpu".to_owned(), "a test".to_owned())]);
    let new =
        NewRun { name, started_ms: START_MS, plan: "# plan\n", weir: "0.1.0", environment: &environment };
    store.begin_run(new).unwrap()
}

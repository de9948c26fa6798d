//! Whatever a campaign can measure comes back from the store as it went in.

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use std::collections::BTreeMap;
use weir_store::{NewRun, Outcome, RunId, Store};
use weir_trial::run::{Point, PointKey, PointResult, Purpose, Run, RunState, SCHEMA_VERSION, StoredTrial};
use weir_trial::{DirectionCounts, DutReading, Latency, Nf, TrialResult, TrialSpec};
use weir_units::{Bps, LatencyHistogram, LineRate, Nanos, Pps, Ratio};

/// Any finite number; NaN is no measurement.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64;
    prop_oneof![f64::NORMAL | f64::ZERO | f64::SUBNORMAL, (0_u32..1_000_000_000).prop_map(f64::from)]
}

fn rate() -> impl Strategy<Value = Pps> {
    number().prop_map(Pps)
}

fn nanos() -> impl Strategy<Value = Nanos> {
    any::<u64>().prop_map(Nanos)
}

fn text() -> impl Strategy<Value = String> {
    "[\\PC\n'\"]{0,20}"
}

fn nf() -> impl Strategy<Value = Nf> {
    prop_oneof![
        Just(Nf::L2Fwd),
        (1..=Nf::MAX_ENTRIES).prop_map(|routes| Nf::L3Fwd { routes }),
        (1..=Nf::MAX_ENTRIES).prop_map(|rules| Nf::Firewall { rules }),
    ]
}

fn key() -> impl Strategy<Value = PointKey> {
    (nf(), text(), text(), text(), text(), number(), 1_u8..=2, any::<bool>(), number()).prop_map(
        |(nf, dut, wiring, trace, size, mean_frame_bytes, directions, huge_pages, line)| PointKey {
            nf,
            dut,
            wiring,
            trace,
            size,
            mean_frame_bytes,
            directions,
            huge_pages,
            line_rate: LineRate(Bps(line)),
        },
    )
}

fn counts() -> impl Strategy<Value = DirectionCounts> {
    any::<[u64; 10]>().prop_map(|n| DirectionCounts {
        intended: n[0],
        sent: n[1],
        refused: n[2],
        unsent: n[3],
        received: n[4],
        duplicated: n[5],
        reordered: n[6],
        late: n[7],
        foreign: n[8],
        stamped: n[9],
    })
}

fn latency() -> impl Strategy<Value = Option<Latency>> {
    vec(1_u64..10_000_000_000, 0..50).prop_map(|values| {
        let mut histogram = LatencyHistogram::default();
        values.into_iter().for_each(|value| histogram.record(Nanos(value)));
        Latency::of(&histogram)
    })
}

fn reading() -> impl Strategy<Value = DutReading> {
    (any::<u64>(), any::<u64>(), nanos(), nanos(), of(number())).prop_map(
        |(received, sent, elapsed, cpu, cycles_per_packet)| DutReading {
            received,
            sent,
            elapsed,
            cpu,
            cycles_per_packet,
            ..DutReading::default()
        },
    )
}

fn trial() -> impl Strategy<Value = StoredTrial> {
    let purpose =
        prop_oneof![Just(Purpose::WarmUp), Just(Purpose::Search), Just(Purpose::Latency), Just(Purpose::Mrr)];
    let result = (rate(), nanos(), nanos(), nanos(), vec(counts(), 0..3), latency(), of(reading())).prop_map(
        |(load, duration, elapsed, overhead, directions, latency, dut)| TrialResult {
            spec: TrialSpec { load, duration },
            elapsed,
            overhead,
            directions,
            latency,
            dut,
        },
    );
    (purpose, any::<i64>(), any::<bool>(), result).prop_map(|(purpose, started_ms, superseded, result)| {
        StoredTrial { sequence: 0, purpose, started_ms, superseded, result }
    })
}

fn result() -> impl Strategy<Value = PointResult> {
    let throughput =
        (text(), number(), of(rate()), of(rate()), of(rate()), of(text()), nanos(), nanos(), any::<u32>())
            .prop_map(
                |(goal, loss, throughput, lower, upper, irregular, trial_duration, duration_sum, trials)| {
                    PointResult::Throughput {
                        goal,
                        loss_ratio: Ratio(loss),
                        throughput,
                        lower,
                        upper,
                        irregular,
                        trial_duration,
                        duration_sum,
                        trials,
                    }
                },
            );
    let mrr = (of(rate()), vec(rate(), 0..5), rate(), rate(), of(number())).prop_map(
        |(load, rates, mean, deviation, cycles_per_packet)| PointResult::Mrr {
            load,
            rates,
            mean,
            deviation,
            cycles_per_packet,
        },
    );
    let latency = (text(), rate(), any::<u32>()).prop_map(|(label, load, trial)| PointResult::Latency {
        label,
        load,
        trial,
    });
    prop_oneof![throughput, mrr, latency]
}

fn point() -> impl Strategy<Value = Point> {
    let outcome = of((of(text()), of(text()), vec(result(), 0..4)));
    (key(), outcome, vec(trial(), 0..4)).prop_map(|(key, outcome, mut trials)| {
        trials.iter_mut().zip(0..).for_each(|(trial, sequence)| trial.sequence = sequence);
        let finished = outcome.is_some();
        let (dut_version, error, results) = outcome.unwrap_or_default();
        Point { index: 0, key, dut_version, error, finished, results, trials }
    })
}

fn run() -> impl Strategy<Value = Run> {
    let state = prop_oneof![
        Just((RunState::Running, None)),
        any::<i64>().prop_map(|ms| (RunState::Finished, Some(ms))),
        any::<i64>().prop_map(|ms| (RunState::Interrupted, Some(ms))),
    ];
    let head = ("[a-z][a-z0-9-]{0,20}", any::<i64>(), state, text(), text());
    (head, btree_map(text(), text(), 0..4), vec(point(), 0..4)).prop_map(
        |((name, started_ms, (state, ended_ms), plan, weir), environment, mut points)| {
            points.iter_mut().zip(0..).for_each(|(point, index)| point.index = index * 2);
            Run {
                schema: SCHEMA_VERSION,
                id: 1,
                name,
                started_ms,
                ended_ms,
                state,
                plan,
                weir,
                environment,
                points,
            }
        },
    )
}

fn keep(store: &mut Store, run: &Run) -> RunId {
    let id = store
        .begin_run(NewRun {
            name: Some(&run.name),
            started_ms: run.started_ms,
            plan: &run.plan,
            weir: &run.weir,
            environment: &run.environment,
        })
        .unwrap();
    for point in &run.points {
        let open = store.add_point(id, point.index, &point.key).unwrap();
        assert_eq!(open.next_sequence, 0);
        point.trials.iter().for_each(|trial| store.add_trial(open, trial).unwrap());
        if point.finished {
            let outcome = Outcome {
                dut_version: point.dut_version.as_deref(),
                error: point.error.as_deref(),
                results: &point.results,
            };
            store.finish_point(open, outcome).unwrap();
        }
    }
    if let Some(ended_ms) = run.ended_ms {
        store.end_run(id, run.state, ended_ms).unwrap();
    }
    id
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_run_survives_the_store_unchanged(run in run()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.db");
        let id = keep(&mut Store::open(Some(&path)).unwrap(), &run);
        let read = Store::open_existing(Some(&path)).unwrap().load(id).unwrap();
        prop_assert_eq!(read, run);
    }
}

#[test]
fn two_runs_in_one_file_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Some(&folder.path().join("weir.db"))).unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut runs = Vec::new();
    for (id, name) in [(1, "first"), (2, "second")] {
        let mut run = run().new_tree(&mut runner).unwrap().current();
        run.id = id;
        run.name = name.to_owned();
        run.environment = BTreeMap::from([("name".to_owned(), name.to_owned())]);
        assert_eq!(keep(&mut store, &run), RunId(id));
        runs.push(run);
    }
    for run in runs {
        assert_eq!(store.load(RunId(run.id)).unwrap(), run);
    }
}

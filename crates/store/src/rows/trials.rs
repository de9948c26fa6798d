//! The rows of a trial: its counts by direction, its latency, what the device said.

use super::{count, from_json, json, nanos, pps};
use crate::engine::{Engine, Fault, Result, Row, values};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_trial::run::{Purpose, StoredTrial};
use weir_trial::{
    ChangesMade, ConnectionsMade, DirectionCounts, DutReading, Health, Latency, PacketCheck, StageReading,
    TesterAccount, TrialResult, TrialSpec, Verdict, Windows,
};

/// Facts of a trial beside its counts, in one JSON column.
#[derive(Serialize, Deserialize)]
struct Facts<V, H, P, A, W, S, C, N> {
    #[serde(default)]
    verdict: V,
    #[serde(default)]
    health: H,
    #[serde(default)]
    packets: P,
    #[serde(default)]
    account: A,
    #[serde(default)]
    windows: W,
    #[serde(default)]
    stages: S,
    #[serde(default)]
    changes: C,
    #[serde(default)]
    connections: N,
}

fn purpose(row: &Row) -> Result<Purpose> {
    let name: String = row.get("purpose")?;
    let known = Purpose::ALL.into_iter().find(|purpose| purpose.name() == name);
    known.ok_or_else(|| Fault::nonsense("purpose", format!("`{name}` is no purpose of a trial")))
}

pub(crate) fn insert_trial(db: &Engine, point: i64, trial: &StoredTrial) -> Result<()> {
    let result = &trial.result;
    let sql =
        "INSERT INTO trials (point_id, sequence, purpose, started_ms, superseded, load_pps, duration_ns,
                                   elapsed_ns, overhead_ns, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let id = db.insert(
        sql,
        values![
            point,
            trial.sequence,
            trial.purpose.name(),
            trial.started_ms,
            trial.superseded,
            result.spec.load.0,
            result.spec.duration.0.cast_signed(),
            result.elapsed.0.cast_signed(),
            result.overhead.0.cast_signed(),
            json(&Facts {
                verdict: &trial.verdict,
                health: &result.health,
                packets: &result.packets,
                account: &result.account,
                windows: &result.windows,
                stages: &result.stages,
                changes: &result.changes,
                connections: &result.connections,
            })?
        ],
    )?;
    for (direction, counts) in result.directions.iter().enumerate() {
        insert_direction(db, id, direction, counts)?;
    }
    if let Some(latency) = &result.latency {
        insert_latency(db, id, latency)?;
    }
    if let Some(dut) = &result.dut {
        db.execute(
            "INSERT INTO dut_readings (trial_id, received, sent, elapsed_ns, cpu_ns, cycles_per_packet, details)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            values![
                id,
                dut.received.cast_signed(),
                dut.sent.cast_signed(),
                dut.elapsed.0.cast_signed(),
                dut.cpu.0.cast_signed(),
                dut.cycles_per_packet,
                json(&dut.details)?
            ],
        )?;
    }
    Ok(())
}

fn insert_direction(db: &Engine, trial: i64, direction: usize, counts: &DirectionCounts) -> Result<()> {
    // Taken apart, so that a new count cannot be forgotten here.
    let DirectionCounts {
        intended,
        sent,
        refused,
        unsent,
        received,
        duplicated,
        reordered,
        late,
        foreign,
        damaged,
        stamped,
    } = *counts;
    let sql =
        "INSERT INTO directions (trial_id, direction, intended, sent, refused, unsent, received, duplicated,
                                       reordered, late, foreign_packets, damaged, stamped)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    db.execute(
        sql,
        values![
            trial,
            direction as i64,
            intended.cast_signed(),
            sent.cast_signed(),
            refused.cast_signed(),
            unsent.cast_signed(),
            received.cast_signed(),
            duplicated.cast_signed(),
            reordered.cast_signed(),
            late.cast_signed(),
            foreign.cast_signed(),
            damaged.cast_signed(),
            stamped.cast_signed()
        ],
    )
    .map(drop)
}

fn insert_latency(db: &Engine, trial: i64, latency: &Latency) -> Result<()> {
    let histogram = BASE64
        .decode(&latency.histogram)
        .map_err(|error| Fault::Unfit(format!("latency histogram: {error}")))?;
    let [p50, p90, p99, p99_9, p99_99] = latency.percentiles.map(|value| value.0.cast_signed());
    db.execute(
        "INSERT INTO latencies (trial_id, count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p99_9_ns,
                                p99_99_ns, max_ns, histogram)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values![
            trial,
            latency.count.cast_signed(),
            latency.min.0.cast_signed(),
            latency.mean,
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            latency.max.0.cast_signed(),
            histogram
        ],
    )
    .map(drop)
}

/// What belongs to a trial, by its row: directions, latency, the device's reading.
type Parts = BTreeMap<i64, (Vec<DirectionCounts>, Option<Latency>, Option<DutReading>)>;

/// Whether latencies are read with their histograms, which are most of a run's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Histograms {
    Read,
    /// They are empty; what is summed up of them is there.
    Left,
}

/// The columns of a latency but its histogram.
const SUMMED_UP: &str =
    "trial_id, count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns, max_ns";

pub(crate) fn trials(db: &Engine, point: i64, histograms: Histograms) -> Result<Vec<StoredTrial>> {
    let of = |table: &str, columns: &str, order: &str| {
        let sql = format!(
            "SELECT {columns} FROM {table} JOIN trials ON trials.id = trial_id WHERE point_id = ? ORDER BY {order}"
        );
        db.query(&sql, values![point])
    };
    let mut parts = Parts::new();
    for row in of("directions", "directions.*", "trial_id, direction")? {
        parts.entry(row.get("trial_id")?).or_default().0.push(counts(&row)?);
    }
    let columns = if histograms == Histograms::Read { "latencies.*" } else { SUMMED_UP };
    for row in of("latencies", columns, "trial_id")? {
        parts.entry(row.get("trial_id")?).or_default().1 = Some(latency(&row, histograms)?);
    }
    for row in of("dut_readings", "dut_readings.*", "trial_id")? {
        parts.entry(row.get("trial_id")?).or_default().2 = Some(reading(&row)?);
    }
    let rows = db.query("SELECT * FROM trials WHERE point_id = ? ORDER BY sequence", values![point])?;
    rows.iter().map(|row| trial(row, &mut parts)).collect()
}

fn trial(row: &Row, parts: &mut Parts) -> Result<StoredTrial> {
    let (directions, latency, dut) = parts.remove(&row.get("id")?).unwrap_or_default();
    type Read = Facts<
        Verdict,
        Health,
        Option<PacketCheck>,
        Option<TesterAccount>,
        Option<Windows>,
        Vec<StageReading>,
        Option<ChangesMade>,
        Option<ConnectionsMade>,
    >;
    let facts: Read = from_json(row, "facts")?;
    Ok(StoredTrial {
        sequence: row.get("sequence")?,
        purpose: purpose(row)?,
        started_ms: row.get("started_ms")?,
        superseded: row.get("superseded")?,
        verdict: facts.verdict,
        result: TrialResult {
            spec: TrialSpec { load: pps(row, "load_pps")?, duration: nanos(row, "duration_ns")? },
            elapsed: nanos(row, "elapsed_ns")?,
            overhead: nanos(row, "overhead_ns")?,
            directions,
            latency,
            dut,
            health: facts.health,
            packets: facts.packets,
            account: facts.account,
            windows: facts.windows,
            stages: facts.stages,
            changes: facts.changes,
            connections: facts.connections,
        },
    })
}

fn counts(row: &Row) -> Result<DirectionCounts> {
    Ok(DirectionCounts {
        intended: count(row, "intended")?,
        sent: count(row, "sent")?,
        refused: count(row, "refused")?,
        unsent: count(row, "unsent")?,
        received: count(row, "received")?,
        duplicated: count(row, "duplicated")?,
        reordered: count(row, "reordered")?,
        late: count(row, "late")?,
        foreign: count(row, "foreign_packets")?,
        damaged: count(row, "damaged")?,
        stamped: count(row, "stamped")?,
    })
}

fn latency(row: &Row, histograms: Histograms) -> Result<Latency> {
    let histogram: Vec<u8> = if histograms == Histograms::Read { row.get("histogram")? } else { Vec::new() };
    Ok(Latency {
        count: count(row, "count")?,
        min: nanos(row, "min_ns")?,
        mean: row.get("mean_ns")?,
        percentiles: [
            nanos(row, "p50_ns")?,
            nanos(row, "p90_ns")?,
            nanos(row, "p99_ns")?,
            nanos(row, "p99_9_ns")?,
            nanos(row, "p99_99_ns")?,
        ],
        max: nanos(row, "max_ns")?,
        histogram: BASE64.encode(histogram),
    })
}

fn reading(row: &Row) -> Result<DutReading> {
    Ok(DutReading {
        received: count(row, "received")?,
        sent: count(row, "sent")?,
        elapsed: nanos(row, "elapsed_ns")?,
        cpu: nanos(row, "cpu_ns")?,
        cycles_per_packet: row.get("cycles_per_packet")?,
        details: from_json(row, "details")?,
    })
}

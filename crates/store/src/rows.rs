//! Rows to values and back: the one place that knows the columns.

use crate::engine::{Engine, Fault, Result, Row, values};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;
use weir_trial::run::{
    AdviceCheck, Point, PointKey, PointResult, Purpose, Run, RunState, Session, StoredTrial,
};
use weir_trial::{
    ChangesMade, ConnectionsMade, DirectionCounts, DutReading, Health, Latency, PacketCheck, SelfCheck,
    StageReading, TesterAccount, TrialResult, TrialSpec, Verdict, Windows,
};
use weir_units::{Bps, LineRate, Nanos, Pps};

fn parsed<T: FromStr<Err: ToString>>(row: &Row, column: &str) -> Result<T> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error: T::Err| Fault::nonsense(column, error))
}

/// A count, kept as the bit pattern of a signed integer.
fn count(row: &Row, column: &str) -> Result<u64> {
    row.get::<i64>(column).map(i64::cast_unsigned)
}

fn nanos(row: &Row, column: &str) -> Result<Nanos> {
    count(row, column).map(Nanos)
}

fn pps(row: &Row, column: &str) -> Result<Pps> {
    row.get(column).map(Pps)
}

pub(crate) fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    }
}

pub(crate) fn state(row: &Row) -> Result<RunState> {
    match row.get::<String>("state")?.as_str() {
        "running" => Ok(RunState::Running),
        "finished" => Ok(RunState::Finished),
        "interrupted" => Ok(RunState::Interrupted),
        other => Err(Fault::nonsense("state", format!("`{other}` is no state of a run"))),
    }
}

fn purpose(row: &Row) -> Result<Purpose> {
    let name: String = row.get("purpose")?;
    let known = Purpose::ALL.into_iter().find(|purpose| purpose.name() == name);
    known.ok_or_else(|| Fault::nonsense("purpose", format!("`{name}` is no purpose of a trial")))
}

/// What is kept as JSON, and what it reads as.
fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Fault::Unfit(error.to_string()))
}

fn maybe_json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<Option<T>> {
    match row.get::<Option<String>>(column)? {
        None => Ok(None),
        Some(_) => from_json(row, column).map(Some),
    }
}

fn from_json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| Fault::nonsense(column, error))
}

/// The next free place among a run's rows of a table. Only the process that has the run writes to it.
fn next_place(db: &Engine, table: &str, run: i64) -> Result<i64> {
    let sql = format!("SELECT coalesce(max(place) + 1, 0) AS next FROM {table} WHERE run_id = ?");
    db.one(&sql, values![run])?.get("next")
}

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

pub(crate) fn run(row: &Row) -> Result<Run> {
    Ok(Run {
        schema: row.get("schema")?,
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        name: row.get("name")?,
        started_ms: row.get("started_ms")?,
        ended_ms: row.get("ended_ms")?,
        state: state(row)?,
        plan: row.get("plan")?,
        weir: row.get("weir")?,
        environment: Default::default(),
        sessions: Vec::new(),
        self_checks: Vec::new(),
        points: Vec::new(),
        advice: Vec::new(),
    })
}

pub(crate) fn insert_environment(
    db: &Engine,
    run: i64,
    environment: &BTreeMap<String, String>,
) -> Result<()> {
    let sql = "INSERT INTO environment (run_id, name, value) VALUES (?, ?, ?)";
    environment.iter().try_for_each(|(name, value)| db.execute(sql, values![run, name, value]).map(drop))
}

/// A point's row; its number.
pub(crate) fn insert_point(db: &Engine, run: i64, index: u32, key: &PointKey) -> Result<i64> {
    db.insert(
        "INSERT INTO points (run_id, place, nf, dut, wiring, trace, size, mean_frame_bytes, directions,
                             huge_pages, line_rate_bps, placement)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values![
            run,
            index,
            key.nf.to_string(),
            &key.dut,
            &key.wiring,
            &key.trace,
            &key.size,
            key.mean_frame_bytes,
            key.directions,
            key.huge_pages,
            key.line_rate.0.0,
            json(&key.placement)?
        ],
    )
}

/// A point begun anew: what the machine decides (huge pages) may have changed since.
pub(crate) fn update_point(db: &Engine, id: i64, key: &PointKey) -> Result<()> {
    db.execute(
        "UPDATE points SET nf = ?, dut = ?, wiring = ?, trace = ?, size = ?, mean_frame_bytes = ?,
                           directions = ?, huge_pages = ?, line_rate_bps = ?, placement = ?,
                           dut_version = NULL, configuration = '{}', error = NULL, packets = NULL,
                           finished = 0
         WHERE id = ?",
        values![
            key.nf.to_string(),
            &key.dut,
            &key.wiring,
            &key.trace,
            &key.size,
            key.mean_frame_bytes,
            key.directions,
            key.huge_pages,
            key.line_rate.0.0,
            json(&key.placement)?,
            id
        ],
    )
    .map(drop)
}

pub(crate) fn update_traffic(db: &Engine, id: i64, hashes: &[String], seed: u64) -> Result<()> {
    let seed = seed.cast_signed();
    let sql = "UPDATE points SET trace_hashes = ?, seed = ? WHERE id = ?";
    db.execute(sql, values![json(&hashes)?, seed, id]).map(drop)
}

pub(crate) fn update_configuration(
    db: &Engine,
    id: i64,
    configuration: &BTreeMap<String, String>,
) -> Result<()> {
    let sql = "UPDATE points SET configuration = ? WHERE id = ?";
    db.execute(sql, values![json(configuration)?, id]).map(drop)
}

pub(crate) fn insert_session(db: &Engine, run: i64, session: &Session) -> Result<()> {
    let place = next_place(db, "sessions", run)?;
    db.execute(
        "INSERT INTO sessions (run_id, place, started_ms, weir, environment) VALUES (?, ?, ?, ?, ?)",
        values![run, place, session.started_ms, &session.weir, json(&session.environment)?],
    )
    .map(drop)
}

pub(crate) fn sessions(db: &Engine, run: i64) -> Result<Vec<Session>> {
    let sql = "SELECT started_ms, weir, environment FROM sessions WHERE run_id = ? ORDER BY place";
    let session = |row: &Row| {
        Ok(Session {
            started_ms: row.get("started_ms")?,
            weir: row.get("weir")?,
            environment: from_json(row, "environment")?,
        })
    };
    db.query(sql, values![run])?.iter().map(session).collect()
}

pub(crate) fn update_packets(db: &Engine, id: i64, check: &PacketCheck) -> Result<()> {
    db.execute("UPDATE points SET packets = ? WHERE id = ?", values![json(check)?, id]).map(drop)
}

/// How a point came out that was measured elsewhere.
pub(crate) fn end_point(db: &Engine, id: i64, point: &Point) -> Result<()> {
    let sql = "UPDATE points SET dut_version = ?, error = ?, finished = ? WHERE id = ?";
    db.execute(sql, values![point.dut_version.as_deref(), point.error.as_deref(), point.finished, id])
        .map(drop)
}

pub(crate) fn point(row: &Row) -> Result<(i64, Point)> {
    let key = PointKey {
        nf: parsed(row, "nf")?,
        dut: row.get("dut")?,
        wiring: row.get("wiring")?,
        trace: row.get("trace")?,
        size: row.get("size")?,
        mean_frame_bytes: row.get("mean_frame_bytes")?,
        directions: row.get("directions")?,
        placement: from_json(row, "placement")?,
        huge_pages: row.get("huge_pages")?,
        line_rate: LineRate(Bps(row.get("line_rate_bps")?)),
    };
    let point = Point {
        index: row.get("place")?,
        key,
        dut_version: row.get("dut_version")?,
        configuration: from_json(row, "configuration")?,
        trace_hashes: from_json(row, "trace_hashes")?,
        seed: count(row, "seed")?,
        packets: maybe_json(row, "packets")?,
        error: row.get("error")?,
        finished: row.get("finished")?,
        results: Vec::new(),
        trials: Vec::new(),
    };
    Ok((row.get("id")?, point))
}

pub(crate) fn insert_result(db: &Engine, point: i64, place: usize, result: &PointResult) -> Result<()> {
    let sql = "INSERT INTO results (point_id, place, body) VALUES (?, ?, ?)";
    db.execute(sql, values![point, place as i64, json(result)?]).map(drop)
}

pub(crate) fn results(db: &Engine, point: i64) -> Result<Vec<PointResult>> {
    let rows = db.query("SELECT body FROM results WHERE point_id = ? ORDER BY place", values![point])?;
    rows.iter().map(|row| from_json(row, "body")).collect()
}

pub(crate) fn insert_self_check(db: &Engine, run: i64, check: &SelfCheck) -> Result<()> {
    let place = next_place(db, "self_checks", run)?;
    db.execute(
        "INSERT INTO self_checks (run_id, place, body) VALUES (?, ?, ?)",
        values![run, place, json(check)?],
    )
    .map(drop)
}

pub(crate) fn replace_self_check(db: &Engine, run: i64, old: &SelfCheck, new: &SelfCheck) -> Result<()> {
    let sql = "UPDATE self_checks SET body = ? WHERE run_id = ? AND body = ?";
    db.execute(sql, values![json(new)?, run, json(old)?]).map(drop)
}

pub(crate) fn self_checks(db: &Engine, run: i64) -> Result<Vec<SelfCheck>> {
    let rows = db.query("SELECT body FROM self_checks WHERE run_id = ? ORDER BY place", values![run])?;
    rows.iter().map(|row| from_json(row, "body")).collect()
}

pub(crate) fn insert_advice(db: &Engine, run: i64, check: &AdviceCheck) -> Result<()> {
    let place = next_place(db, "advice", run)?;
    db.execute("INSERT INTO advice (run_id, place, body) VALUES (?, ?, ?)", values![run, place, json(check)?])
        .map(drop)
}

pub(crate) fn advice(db: &Engine, run: i64) -> Result<Vec<AdviceCheck>> {
    let rows = db.query("SELECT body FROM advice WHERE run_id = ? ORDER BY place", values![run])?;
    rows.iter().map(|row| from_json(row, "body")).collect()
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

pub(crate) fn trials(db: &Engine, point: i64) -> Result<Vec<StoredTrial>> {
    let of = |table: &str, order: &str| {
        let sql = format!(
            "SELECT {table}.* FROM {table} JOIN trials ON trials.id = trial_id WHERE point_id = ? ORDER BY {order}"
        );
        db.query(&sql, values![point])
    };
    let mut parts = Parts::new();
    for row in of("directions", "trial_id, direction")? {
        parts.entry(row.get("trial_id")?).or_default().0.push(counts(&row)?);
    }
    for row in of("latencies", "trial_id")? {
        parts.entry(row.get("trial_id")?).or_default().1 = Some(latency(&row)?);
    }
    for row in of("dut_readings", "trial_id")? {
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

fn latency(row: &Row) -> Result<Latency> {
    let histogram: Vec<u8> = row.get("histogram")?;
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

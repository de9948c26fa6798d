//! Rows to values and back: the one place that knows the columns.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension as _, Result, Row, params};
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

/// A stored value that means nothing: reported as a damaged file with its column.
fn nonsense(column: usize, what: impl ToString) -> Error {
    Error::FromSqlConversionFailure(column, Type::Text, what.to_string().into())
}

fn parsed<T: FromStr<Err: ToString>>(row: &Row<'_>, column: &str) -> Result<T> {
    let text: String = row.get(column)?;
    text.parse()
        .map_err(|error: T::Err| nonsense(row.as_ref().column_index(column).unwrap_or(0), error.to_string()))
}

/// A count, kept as the bit pattern of a signed integer.
fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn nanos(row: &Row<'_>, column: &str) -> Result<Nanos> {
    count(row, column).map(Nanos)
}

fn pps(row: &Row<'_>, column: &str) -> Result<Pps> {
    row.get(column).map(Pps)
}

pub(crate) fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    }
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> Result<RunState> {
    match row.get_ref(column)?.as_str()? {
        "running" => Ok(RunState::Running),
        "finished" => Ok(RunState::Finished),
        "interrupted" => Ok(RunState::Interrupted),
        other => Err(nonsense(column, format!("`{other}` is no state of a run"))),
    }
}

fn purpose(row: &Row<'_>) -> Result<Purpose> {
    let name: String = row.get("purpose")?;
    let known = Purpose::ALL.into_iter().find(|purpose| purpose.name() == name);
    known.ok_or_else(|| nonsense(3, format!("`{name}` is no purpose of a trial")))
}

/// What is kept as JSON, and what it reads as.
fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}

fn maybe_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<Option<T>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => from_json(row, column).map(Some),
    }
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text)
        .map_err(|error| nonsense(row.as_ref().column_index(column).unwrap_or(0), error.to_string()))
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

pub(crate) fn run(row: &Row<'_>) -> Result<Run> {
    Ok(Run {
        schema: row.get("schema")?,
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        name: row.get("name")?,
        started_ms: row.get("started_ms")?,
        ended_ms: row.get("ended_ms")?,
        state: state(row, row.as_ref().column_index("state")?)?,
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
    db: &Connection,
    run: i64,
    environment: &BTreeMap<String, String>,
) -> Result<()> {
    let mut insert = db.prepare("INSERT INTO environment (run_id, name, value) VALUES (?, ?, ?)")?;
    environment.iter().try_for_each(|(name, value)| insert.execute(params![run, name, value]).map(drop))
}

/// A point's row; its number.
pub(crate) fn insert_point(db: &Connection, run: i64, index: u32, key: &PointKey) -> Result<i64> {
    db.execute(
        "INSERT INTO points (run_id, place, nf, dut, wiring, trace, size, mean_frame_bytes, directions,
                             huge_pages, line_rate_bps, placement)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            run,
            index,
            key.nf.to_string(),
            key.dut,
            key.wiring,
            key.trace,
            key.size,
            key.mean_frame_bytes,
            key.directions,
            key.huge_pages,
            key.line_rate.0.0,
            json(&key.placement)?
        ],
    )?;
    Ok(db.last_insert_rowid())
}

/// A point begun anew: what the machine decides (huge pages) may have changed since.
pub(crate) fn update_point(db: &Connection, id: i64, key: &PointKey) -> Result<()> {
    db.execute(
        "UPDATE points SET nf = ?, dut = ?, wiring = ?, trace = ?, size = ?, mean_frame_bytes = ?,
                           directions = ?, huge_pages = ?, line_rate_bps = ?, placement = ?,
                           dut_version = NULL, configuration = '{}', error = NULL, packets = NULL,
                           finished = 0
         WHERE id = ?",
        params![
            key.nf.to_string(),
            key.dut,
            key.wiring,
            key.trace,
            key.size,
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

pub(crate) fn update_traffic(db: &Connection, id: i64, hashes: &[String], seed: u64) -> Result<()> {
    let seed = seed.cast_signed();
    let sql = "UPDATE points SET trace_hashes = ?, seed = ? WHERE id = ?";
    db.execute(sql, params![json(&hashes)?, seed, id]).map(drop)
}

pub(crate) fn update_configuration(
    db: &Connection,
    id: i64,
    configuration: &BTreeMap<String, String>,
) -> Result<()> {
    let sql = "UPDATE points SET configuration = ? WHERE id = ?";
    db.execute(sql, params![json(configuration)?, id]).map(drop)
}

pub(crate) fn insert_session(db: &Connection, run: i64, session: &Session) -> Result<()> {
    db.execute(
        "INSERT INTO sessions (run_id, place, started_ms, weir, environment)
         SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3, ?4 FROM sessions WHERE run_id = ?1",
        params![run, session.started_ms, session.weir, json(&session.environment)?],
    )
    .map(drop)
}

pub(crate) fn sessions(db: &Connection, run: i64) -> Result<Vec<Session>> {
    let sql = "SELECT started_ms, weir, environment FROM sessions WHERE run_id = ? ORDER BY place";
    let session = |row: &Row<'_>| {
        Ok(Session {
            started_ms: row.get("started_ms")?,
            weir: row.get("weir")?,
            environment: from_json(row, "environment")?,
        })
    };
    db.prepare(sql)?.query_map([run], session)?.collect()
}

pub(crate) fn update_packets(db: &Connection, id: i64, check: &PacketCheck) -> Result<()> {
    db.execute("UPDATE points SET packets = ? WHERE id = ?", params![json(check)?, id]).map(drop)
}

/// How a point came out that was measured elsewhere.
pub(crate) fn end_point(db: &Connection, id: i64, point: &Point) -> Result<()> {
    let sql = "UPDATE points SET dut_version = ?, error = ?, finished = ? WHERE id = ?";
    db.execute(sql, params![point.dut_version, point.error, point.finished, id]).map(drop)
}

pub(crate) fn point(row: &Row<'_>) -> Result<(i64, Point)> {
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

pub(crate) fn insert_result(db: &Connection, point: i64, place: usize, result: &PointResult) -> Result<()> {
    db.prepare_cached("INSERT INTO results (point_id, place, body) VALUES (?, ?, ?)")?
        .execute(params![point, place as i64, json(result)?])
        .map(drop)
}

pub(crate) fn results(db: &Connection, point: i64) -> Result<Vec<PointResult>> {
    let mut query = db.prepare_cached("SELECT body FROM results WHERE point_id = ? ORDER BY place")?;
    query.query_map([point], |row| from_json(row, "body"))?.collect()
}

pub(crate) fn insert_self_check(db: &Connection, run: i64, check: &SelfCheck) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO self_checks (run_id, place, body)
         SELECT ?1, coalesce(max(place) + 1, 0), ?2 FROM self_checks WHERE run_id = ?1",
    )?
    .execute(params![run, json(check)?])
    .map(drop)
}

pub(crate) fn replace_self_check(db: &Connection, run: i64, old: &SelfCheck, new: &SelfCheck) -> Result<()> {
    let sql = "UPDATE self_checks SET body = ? WHERE run_id = ? AND body = ?";
    db.execute(sql, params![json(new)?, run, json(old)?]).map(drop)
}

pub(crate) fn self_checks(db: &Connection, run: i64) -> Result<Vec<SelfCheck>> {
    let mut query = db.prepare_cached("SELECT body FROM self_checks WHERE run_id = ? ORDER BY place")?;
    query.query_map([run], |row| from_json(row, "body"))?.collect()
}

pub(crate) fn insert_advice(db: &Connection, run: i64, check: &AdviceCheck) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO advice (run_id, place, body)
         SELECT ?1, coalesce(max(place) + 1, 0), ?2 FROM advice WHERE run_id = ?1",
    )?
    .execute(params![run, json(check)?])
    .map(drop)
}

pub(crate) fn advice(db: &Connection, run: i64) -> Result<Vec<AdviceCheck>> {
    let mut query = db.prepare_cached("SELECT body FROM advice WHERE run_id = ? ORDER BY place")?;
    query.query_map([run], |row| from_json(row, "body"))?.collect()
}

pub(crate) fn insert_trial(db: &Connection, point: i64, trial: &StoredTrial) -> Result<()> {
    let result = &trial.result;
    db.prepare_cached(
        "INSERT INTO trials (point_id, sequence, purpose, started_ms, superseded, load_pps, duration_ns,
                             elapsed_ns, overhead_ns, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
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
    ])?;
    let id = db.last_insert_rowid();
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
            params![
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

fn insert_direction(db: &Connection, trial: i64, direction: usize, counts: &DirectionCounts) -> Result<()> {
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
    db.prepare_cached(
        "INSERT INTO directions (trial_id, direction, intended, sent, refused, unsent, received, duplicated,
                                 reordered, late, foreign_packets, damaged, stamped)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
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
    ])
    .map(drop)
}

fn insert_latency(db: &Connection, trial: i64, latency: &Latency) -> Result<()> {
    let histogram = BASE64
        .decode(&latency.histogram)
        .map_err(|error| Error::ToSqlConversionFailure(format!("latency histogram: {error}").into()))?;
    let [p50, p90, p99, p99_9, p99_99] = latency.percentiles.map(|value| value.0.cast_signed());
    db.execute(
        "INSERT INTO latencies (trial_id, count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p99_9_ns,
                                p99_99_ns, max_ns, histogram)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
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

pub(crate) fn trials(db: &Connection, point: i64) -> Result<Vec<StoredTrial>> {
    let mut query = db.prepare_cached("SELECT * FROM trials WHERE point_id = ? ORDER BY sequence")?;
    query.query_map([point], |row| trial(db, row))?.collect()
}

fn trial(db: &Connection, row: &Row<'_>) -> Result<StoredTrial> {
    let id: i64 = row.get("id")?;
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
    let mut directions =
        db.prepare_cached("SELECT * FROM directions WHERE trial_id = ? ORDER BY direction")?;
    let mut latencies = db.prepare_cached("SELECT * FROM latencies WHERE trial_id = ?")?;
    let mut readings = db.prepare_cached("SELECT * FROM dut_readings WHERE trial_id = ?")?;
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
            directions: directions.query_map([id], counts)?.collect::<Result<_>>()?,
            latency: latencies.query_row([id], latency).optional()?,
            dut: readings.query_row([id], reading).optional()?,
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

fn counts(row: &Row<'_>) -> Result<DirectionCounts> {
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

fn latency(row: &Row<'_>) -> Result<Latency> {
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

fn reading(row: &Row<'_>) -> Result<DutReading> {
    Ok(DutReading {
        received: count(row, "received")?,
        sent: count(row, "sent")?,
        elapsed: nanos(row, "elapsed_ns")?,
        cpu: nanos(row, "cpu_ns")?,
        cycles_per_packet: row.get("cycles_per_packet")?,
        details: from_json(row, "details")?,
    })
}

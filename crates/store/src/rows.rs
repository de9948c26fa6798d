//! Rows to values and back: the one place that knows the columns.

use crate::engine::{Engine, Fault, Result, Row, values};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::str::FromStr;
use weir_trial::run::{AdviceCheck, Point, PointKey, PointResult, Run, RunState, Session};
use weir_trial::{PacketCheck, SelfCheck};
use weir_units::{Bps, LineRate, Nanos, Pps};

mod trials;

pub(crate) use trials::{Histograms, insert_trial, trials};

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

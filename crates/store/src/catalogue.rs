//! What runs can be found by, for readers that list many of them again and again (`weir serve`).
//!
//! [`Store::outline`] is one line a run and costs one query, whatever the runs hold; [`Store::facts`] is what the points of some
//! runs have in common, a few queries whatever their number. A reader keeps the facts and asks again for those runs alone whose
//! outline changed ([`Outline::has_changed`]).
//!
//! The statements are plain SQL, so that every engine of the store takes them.

use crate::engine::{Engine, Fault, For, Result, Row, values};
use crate::error::StoreResult;
use crate::open::Store;
use crate::rows;
use crate::share::{self, Share};
use crate::write::RunId;
use std::collections::BTreeMap;
use weir_trial::Placement;
use weir_trial::run::RunState;

/// A run in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Number in its database.
    pub id: i64,
    /// The run's identity everywhere: a UUID (RFC 9562).
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// End of the last trial, milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<i64>,
    /// How far it came.
    pub state: RunState,
    /// Whether a living process is measuring it. `running` without it means that it was cut off.
    pub live: bool,
    /// Version and commit of the Weir that measured it.
    pub weir: String,
    /// Who pushed it, and who may see it; nothing of a run that was measured or imported by whoever has the database.
    pub share: Option<Share>,
}

impl Outline {
    /// Whether facts that were read when the run looked like `before` may be old.
    pub fn has_changed(&self, before: &Self) -> bool {
        self.live || self != before
    }
}

/// What a run can be found by, beside its [`Outline`]. Lists hold every value once, in the order of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Points begun.
    pub points: u32,
    /// Points that came to an end.
    pub finished: u32,
    /// Points that ended with an error.
    pub failed: u32,
    /// Trials kept.
    pub trials: u32,
    /// Network functions.
    pub nfs: Vec<String>,
    /// Devices under test.
    pub duts: Vec<String>,
    /// Versions of the devices, as the devices say them.
    pub versions: Vec<String>,
    /// Wirings.
    pub wirings: Vec<String>,
    /// Deployments.
    pub deployments: Vec<String>,
    /// Traces.
    pub traces: Vec<String>,
    /// Frame sizes.
    pub sizes: Vec<String>,
    /// Methods, by the names of their results in JSON.
    pub methods: Vec<String>,
    /// The facts of the environment that were asked for: name to value.
    pub environment: BTreeMap<String, String>,
    /// What it was called where it was measured, where it came in a bundle.
    pub imported_as: Option<String>,
    /// The address of that bundle: `sha256:` and a hash.
    pub bundle: Option<String>,
    /// Who signed it: the public key, in base64.
    pub signed_by: Option<String>,
}

/// A signature, as far as it names who signed.
#[derive(serde::Deserialize)]
struct Signed {
    public_key: String,
}

impl Store {
    /// All runs, newest first, one line each.
    pub fn outline(&self) -> StoreResult<Vec<Outline>> {
        self.read(|db| {
            let rows = db.query(&format!("{} ORDER BY runs.id DESC", outlines()), &[])?;
            with_life(db, rows.iter().map(outline).collect::<Result<_>>()?)
        })
    }

    /// A run in one line; nothing where it is not there.
    pub fn outline_of(&self, run: RunId) -> StoreResult<Option<Outline>> {
        self.read(|db| {
            let rows = db.query(&format!("{} WHERE runs.id = ?", outlines()), values![run.0])?;
            Ok(with_life(db, rows.iter().map(outline).collect::<Result<_>>()?)?.pop())
        })
    }

    /// What the runs with numbers from `first` to `last` can be found by, with these facts of their environments. A run that is
    /// not there has none.
    pub fn facts(&self, first: i64, last: i64, environment: &[&str]) -> StoreResult<BTreeMap<i64, Facts>> {
        // One transaction, so that a campaign writing meanwhile cannot tear the picture.
        self.read(|db| db.transaction(For::Reading, |tx| facts(tx, (first, last), environment)))
    }
}

fn outlines() -> String {
    let columns = "runs.id, runs.uuid, runs.name, started_ms, ended_ms, state, weir";
    format!("SELECT {columns}, {} FROM runs {}", share::COLUMNS, share::JOIN)
}

/// Says of each run whether somebody is measuring it.
fn with_life(db: &Engine, mut runs: Vec<Outline>) -> Result<Vec<Outline>> {
    let running = |run: &&Outline| run.state == RunState::Running;
    let live = db.live(&runs.iter().filter(running).map(|run| run.id).collect::<Vec<_>>())?;
    runs.iter_mut().for_each(|run| run.live = live.contains(&run.id));
    Ok(runs)
}

fn outline(row: &Row) -> Result<Outline> {
    Ok(Outline {
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        name: row.get("name")?,
        started_ms: row.get("started_ms")?,
        ended_ms: row.get("ended_ms")?,
        state: rows::state(row)?,
        live: false,
        weir: row.get("weir")?,
        share: share::share(row)?,
    })
}

fn facts(tx: &Engine, (first, last): (i64, i64), environment: &[&str]) -> Result<BTreeMap<i64, Facts>> {
    let mut found: BTreeMap<i64, Facts> = BTreeMap::new();
    let mut each = |sql: &str, take: &dyn Fn(&mut Facts, &Row) -> Result<()>| -> Result<()> {
        let rows = tx.query(sql, values![first, last])?;
        rows.iter().try_for_each(|row| take(found.entry(row.get("run_id")?).or_default(), row))
    };
    each("SELECT id AS run_id FROM runs WHERE id BETWEEN ?1 AND ?2", &|_, _| Ok(()))?;
    each(POINTS, &point)?;
    each(TRIALS, &|facts, row| {
        facts.trials = row.get("trials")?;
        Ok(())
    })?;
    each(METHODS, &method)?;
    // Names of facts are words of ours: letters, dots and hyphens.
    let names: Vec<String> = environment.iter().map(|name| format!("'{}'", name.replace('\'', ""))).collect();
    if !names.is_empty() {
        each(&format!("{ENVIRONMENT} AND name IN ({})", names.join(", ")), &|facts, row| {
            facts.environment.insert(row.get("name")?, row.get("value")?);
            Ok(())
        })?;
    }
    each(IMPORTS, &import)?;
    Ok(found)
}

const POINTS: &str = "SELECT run_id, finished, error, nf, dut, dut_version, wiring, trace, size, placement
    FROM points WHERE run_id BETWEEN ?1 AND ?2 ORDER BY run_id, place";
const TRIALS: &str = "SELECT run_id, count(*) AS trials FROM trials JOIN points ON points.id = point_id
    WHERE run_id BETWEEN ?1 AND ?2 GROUP BY run_id";
/// A result's JSON begins with the name of its method: no engine need read the rest.
const METHODS: &str =
    "SELECT run_id, substr(body, 1, 60) AS head FROM results JOIN points ON points.id = point_id
    WHERE run_id BETWEEN ?1 AND ?2 ORDER BY run_id, points.place, results.place";
const ENVIRONMENT: &str = "SELECT run_id, name, value FROM environment WHERE run_id BETWEEN ?1 AND ?2";
const IMPORTS: &str = "SELECT run_id, name, address, signature FROM imports WHERE run_id BETWEEN ?1 AND ?2";

fn note(list: &mut Vec<String>, value: String) {
    if !list.contains(&value) {
        list.push(value);
    }
}

fn point(facts: &mut Facts, row: &Row) -> Result<()> {
    facts.points += 1;
    facts.finished += u32::from(row.get::<bool>("finished")?);
    facts.failed += u32::from(row.get::<Option<String>>("error")?.is_some());
    note(&mut facts.nfs, row.get("nf")?);
    note(&mut facts.duts, row.get("dut")?);
    if let Some(version) = row.get("dut_version")? {
        note(&mut facts.versions, version);
    }
    note(&mut facts.wirings, row.get("wiring")?);
    note(&mut facts.traces, row.get("trace")?);
    note(&mut facts.sizes, row.get("size")?);
    let placement: String = row.get("placement")?;
    // Most points are placed as usual: what says so need not be parsed.
    let placement = match placement.as_str() {
        "{}" => Placement::default(),
        other => serde_json::from_str(other).map_err(|error| Fault::nonsense("placement", error))?,
    };
    note(&mut facts.deployments, placement.deployment.to_string());
    Ok(())
}

fn method(facts: &mut Facts, row: &Row) -> Result<()> {
    let body: String = row.get("head")?;
    let kind = body.split_once("\"kind\"").and_then(|(_, rest)| rest.split('"').nth(1));
    if let Some(kind) = kind {
        note(&mut facts.methods, kind.to_owned());
    }
    Ok(())
}

fn import(facts: &mut Facts, row: &Row) -> Result<()> {
    facts.imported_as = Some(row.get("name")?);
    facts.bundle = Some(row.get("address")?);
    let signature: Option<String> = row.get("signature")?;
    let signed = signature.and_then(|text| serde_json::from_str::<Signed>(&text).ok());
    facts.signed_by = signed.map(|signed| signed.public_key);
    Ok(())
}

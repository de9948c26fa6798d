//! Two sides compared: what differs in their environments, then every quantity as a ratio with its
//! interval, and who wins, where anybody does.
//!
//! A side is a run, or one device of it. Points are matched by what identifies them; quantities of
//! a point by name. A winner is named only where all of this holds: both sides may be ranked
//! (`validity`), there are at least two independent numbers on each side, and the gap is beyond
//! chance among all the gaps that were looked at together ([`beyond_chance`]). The test is in
//! `gap`; what the numbers are, in `numbers`; what environments can explain, in `environment`;
//! `docs/comparing.md` has it for readers of results.
//!
//! Pure: runs in, a [`Comparison`] out. Cost: linear in the trials but for one sort a quantity.

mod environment;
pub(crate) mod gap;
pub(crate) mod numbers;
mod row;
mod sides;
mod student;
pub(crate) mod validity;
pub mod words;

pub use environment::Difference;
pub(crate) use environment::{differences, without_folders};
pub use gap::{Gap, MISS, Method, TRIM, beyond_chance, centre, centre_of_starts};
pub use sides::{fault, same_run};
pub use student::share_interval;

use crate::repeat::Interval;
pub(crate) use numbers::Found;
use numbers::{Numbers, Quantity};
use row::{in_turns, row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{Point, PointKey, Run, RunState};
use weir_units::Ratio;

/// Version of the JSON form of [`Comparison`].
pub const SCHEMA_VERSION: u32 = 1;

/// One side: a run, or one device of it.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The run.
    pub run: &'a Run,
    /// The device that is meant; all of them when left out, matched by name.
    pub dut: Option<&'a str>,
}

/// Which of two numbers is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The greater: a rate.
    Higher,
    /// The smaller: a delay.
    Lower,
}

/// The unit of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Packets a second, over all directions.
    Pps,
    /// Nanoseconds.
    Nanoseconds,
    /// Changes of flow entries a second.
    ChangesPerSecond,
    /// New connections a second.
    ConnectionsPerSecond,
}

/// What one number of a side is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// One trial; all from one start of the device, so what differs from start to start is not in
    /// the interval.
    #[default]
    Trial,
    /// One search, or one trial of latency: a repeat of the whole point.
    Repeat,
    /// The centre of several trials of one repeat of the whole point.
    RepeatCentre,
}

/// What came out of one quantity of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "why", rename_all = "kebab-case")]
pub enum Verdict {
    /// A is better, beyond chance.
    A,
    /// B is better, beyond chance.
    B,
    /// No winner: the interval reaches across equal.
    Equal,
    /// No winner: the interval excludes equal, but among so many intervals one misses by chance.
    Chance,
    /// No winner: how far the numbers scatter is not known.
    Unknown(String),
    /// Not ranked: a number is not what it should be, or the sides were not asked the same.
    NotRanked(String),
}

/// Whether B keeps a stated bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "confidence", rename_all = "kebab-case")]
pub enum BoundVerdict {
    /// The whole interval is within the bound.
    Kept,
    /// The whole interval is beyond it; one minus the one-sided p-value says how sure that is.
    Broken(f64),
    /// Neither.
    Undecided,
}

/// One side's part in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Centre of its numbers: their geometric mean, of five trials or more with a fifth cut at each end.
    pub centre: Option<f64>,
    /// How many there are.
    pub count: usize,
    /// How many more there were that the machine or the tester spoilt; they are left out.
    pub left_out: usize,
}

/// One quantity of one point, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The point, as A has it.
    pub key: PointKey,
    /// The device of B, where it is another one.
    pub other_dut: Option<String>,
    /// What was measured: `forwarded rate`, `throughput ndr`, `p99 latency at 50% ndr`.
    pub quantity: String,
    /// Its unit.
    pub unit: Unit,
    /// Which number is the better one.
    pub better: Better,
    /// A's numbers.
    pub a: Part,
    /// B's numbers.
    pub b: Part,
    /// B over A.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio; for [`Method::Bounds`] what the bounds leave open.
    pub interval: Option<Interval>,
    /// How the interval was come by.
    pub method: Method,
    /// What one number of a side is.
    pub of: Of,
    /// p-value of the gap, two-sided, before it is weighed among the others.
    pub chance: Option<f64>,
    /// The smallest effect that such numbers show in four of five repetitions, as a share; nothing where they
    /// are not ranked.
    #[serde(default)]
    pub visible: Option<f64>,
    /// Who wins.
    pub verdict: Verdict,
    /// Whether the stated bound is kept, where one was stated.
    pub bound: Option<BoundVerdict>,
}

/// A side as the reader knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// Name of the run.
    pub run: String,
    /// The device that was picked, where one was.
    pub dut: Option<String>,
    /// Start of the run, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// How far it came.
    pub state: RunState,
}

/// A point that cannot be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alone {
    /// The point.
    pub key: PointKey,
    /// Why: it is not in the other side, or was not measured there or here.
    pub why: String,
    /// Whether A has it measured and B failed at it: that breaks any bound.
    pub failed_in_b: bool,
}

/// Two sides compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The side that is compared with.
    pub a: Head,
    /// The side that is compared.
    pub b: Head,
    /// Whether the trials of both sides were taken in turns.
    pub alternated: bool,
    /// What differs in their environments, plans and devices; what can explain a gap first.
    pub environment: Vec<Difference>,
    /// Every quantity that both sides have.
    pub rows: Vec<Row>,
    /// Points that A alone has.
    pub only_a: Vec<Alone>,
    /// Points that B alone has.
    pub only_b: Vec<Alone>,
    /// The bound B had to keep: how much worse it may be.
    pub bound: Option<Ratio>,
}

impl Comparison {
    /// Whether the stated bound is broken anywhere.
    pub fn is_broken(&self) -> bool {
        self.bound.is_some()
            && (self.rows.iter().any(|row| matches!(row.bound, Some(BoundVerdict::Broken(_))))
                || self.only_a.iter().any(|alone| alone.failed_in_b))
    }

    /// Whether anything could be said about the stated bound.
    pub fn is_decided(&self) -> bool {
        self.is_broken() || self.rows.iter().any(|row| row.bound == Some(BoundVerdict::Kept))
    }
}

/// Compares two sides; `bound` is how much worse B may be.
pub fn compare(a: Side<'_>, b: Side<'_>, bound: Option<Ratio>) -> Comparison {
    let (of_a, of_b) = (points(a), points(b));
    let across = a.dut.is_some() || b.dut.is_some();
    // Numbers are of one database, and names may be in several.
    let same_run = a.run.uuid == b.run.uuid
        && (!a.run.uuid.is_empty() || (a.run.id == b.run.id && a.run.name == b.run.name));
    let mut comparison = Comparison {
        schema: SCHEMA_VERSION,
        a: head(a),
        b: head(b),
        alternated: false,
        environment: environment::differences(a.run, b.run, [&facts(&of_a), &facts(&of_b)]),
        rows: Vec::new(),
        only_a: Vec::new(),
        only_b: Vec::new(),
        bound,
    };
    for point in &of_a {
        match counterpart(&point.key, &of_b, across) {
            Some(other) => comparison.pair(point, other, same_run),
            None => comparison.only_a.push(alone(point, "not in B", false)),
        }
    }
    for point in &of_b {
        if counterpart(&point.key, &of_a, across).is_none() {
            comparison.only_b.push(alone(point, "not in A", false));
        }
    }
    comparison.weigh();
    comparison
}

fn head(side: Side<'_>) -> Head {
    let Run { name, started_ms, state, .. } = side.run;
    Head { run: name.clone(), dut: side.dut.map(str::to_owned), started_ms: *started_ms, state: *state }
}

fn points<'a>(side: Side<'a>) -> Vec<&'a Point> {
    side.run
        .points
        .iter()
        .filter(|point| side.dut.is_none_or(|dut| point.key.dut == dut || point.key.device() == dut))
        .collect()
}

/// What the points say beside their numbers, each fact once: versions of the devices, hashes of the
/// traces.
pub(crate) fn facts(points: &[&Point]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut tell = |fact: String, value: String| {
        if !value.is_empty() && !found.iter().any(|(known, _)| *known == fact) {
            found.push((fact, value));
        }
    };
    for Point { key, dut_version, trace_hashes, .. } in points {
        // What a device is asked to be stands in its command line, so a version belongs to both.
        let version = dut_version.as_deref().map(environment::without_folders).unwrap_or_default();
        tell(format!("dut {} {}", key.device(), key.nf), version);
        tell(format!("trace {} {}", key.trace, key.size), trace_hashes.join(" "));
    }
    found
}

/// The point of another side that one is compared with: placed alike where there is such a one, and otherwise, where
/// devices are compared with each other, one that is placed differently.
fn counterpart<'p>(key: &PointKey, others: &[&'p Point], across: bool) -> Option<&'p Point> {
    let alike = |other: &&&Point| is_match(key, &other.key, across);
    let placed = others.iter().filter(alike).find(|other| other.key.placement == key.placement);
    placed.or_else(|| others.iter().filter(alike).find(|_| across)).copied()
}

fn is_match(a: &PointKey, b: &PointKey, across: bool) -> bool {
    a.nf == b.nf
        && (across || a.dut == b.dut)
        && a.wiring == b.wiring
        && a.trace == b.trace
        && a.size == b.size
        && a.directions == b.directions
        && a.huge_pages == b.huge_pages
}

fn alone(point: &Point, why: impl Into<String>, failed_in_b: bool) -> Alone {
    Alone { key: point.key.clone(), why: why.into(), failed_in_b }
}

/// Why a point has no results.
fn unmeasured(point: &Point) -> Option<String> {
    match &point.error {
        Some(error) => Some(error.clone()),
        None => (!point.finished).then(|| "not finished".to_owned()),
    }
}

impl Comparison {
    /// Compares one point with its counterpart.
    fn pair(&mut self, a: &Point, b: &Point, same_run: bool) {
        match (unmeasured(a), unmeasured(b)) {
            (None, None) => {}
            (None, Some(why)) => {
                let failed = b.error.is_some();
                return self.only_a.push(alone(a, format!("not measured in B: {why}"), failed));
            }
            (Some(why), None) => {
                return self.only_b.push(alone(b, format!("not measured in A: {why}"), false));
            }
            (Some(why), Some(_)) => {
                return self.only_a.push(alone(a, format!("measured in neither: {why}"), false));
            }
        }
        let (of_a, mut of_b) = (numbers::of_point(a), numbers::of_point(b));
        let other_dut = (a.key.device() != b.key.device()).then(|| b.key.device());
        let mut all: Vec<(Quantity, Numbers, Numbers)> = Vec::new();
        for (quantity, numbers) in of_a {
            let place = of_b.iter().position(|(other, _)| *other == quantity);
            let other = place.map(|place| of_b.remove(place).1).unwrap_or_default();
            all.push((quantity, numbers, other));
        }
        all.extend(of_b.into_iter().map(|(quantity, numbers)| (quantity, Numbers::default(), numbers)));
        for (quantity, of_a, of_b) in all {
            let in_turns = same_run && in_turns(&of_a, &of_b);
            self.alternated |= in_turns;
            self.rows.push(Row {
                other_dut: other_dut.clone(),
                ..row(a.key.clone(), quantity, [&of_a, &of_b], in_turns, self.bound)
            });
        }
    }

    /// Names the winners, of all gaps looked at together.
    fn weigh(&mut self) {
        let open = |row: &&mut Row| row.verdict == Verdict::Chance;
        let mut rows: Vec<&mut Row> = self.rows.iter_mut().filter(open).collect();
        let chances: Vec<f64> = rows.iter().map(|row| row.chance.unwrap_or(1.0)).collect();
        for (row, beyond) in rows.iter_mut().zip(beyond_chance(&chances)) {
            let b_better = row.ratio.is_some_and(|ratio| (ratio > 1.0) == (row.better == Better::Higher));
            row.verdict = match (beyond, row.chance.is_some_and(|chance| chance <= MISS)) {
                (true, _) if b_better => Verdict::B,
                (true, _) => Verdict::A,
                (false, true) => Verdict::Chance,
                (false, false) => Verdict::Equal,
            };
        }
    }
}

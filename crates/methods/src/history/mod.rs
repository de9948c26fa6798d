//! The same point over time: every run of it by start, version and commit, where it changed, and what changed then.
//!
//! [`RunNumbers`] are what one run says: its numbers and its environment, never its trials. [`History`] takes them run by run. Numbers belong
//! together in a [`Series`] where everything that identifies the point is the same (network function, device and
//! where it runs, wiring, trace, size, directions, huge pages, line rate), the machine, and the quantity. What differs
//! otherwise (version of the device, Weir, kernel, durations in the plan) is what may explain a change. A run counts once, by the centre of its
//! numbers as `weir compare` forms it ([`crate::compare`]): trials of one start have more in common than runs have, and
//! would look quieter than they are. Numbers that comparing would not rank are left out, and named.
//!
//! Where a series changed, `jumps` says. Pure. Cost: linear in the runs, and the square of a series' length.

mod jumps;

pub use jumps::{Group, groups};

use crate::compare::numbers::{self, Numbers, Quantity};
use crate::compare::{self, Better, Difference, Of, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_trial::Placement;
use weir_trial::run::{Point, PointKey, Run};

/// Version of the JSON form of [`Document`].
pub const SCHEMA_VERSION: u32 = 1;

/// What makes numbers one series, as people read it.
pub const KEY: &str = "network function, device and where it runs, wiring, trace, size, directions, huge pages, line \
                       rate, machine, quantity";

/// Runs on each side of a change that confirm it.
pub const CONFIRMED: usize = 2;

/// The fact that tells machines apart.
const MACHINE: &str = "machine.id";

/// Settings of a plan that are part of what identifies a point, beside where it runs ([`Placement::AXES`]): their lists may
/// differ, the point does not.
const AXES: [&str; 12] = [
    "nf",
    "chain",
    "length",
    "dut",
    "wiring",
    "trace",
    "size",
    "directions",
    "huge_pages",
    "line_rate",
    "name",
    "repeats",
];

/// Every series, in the order in which they first appear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// What makes numbers one series.
    pub key: String,
    /// The series.
    pub series: Vec<Series>,
}

/// One quantity of one point over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The point.
    pub point: PointKey,
    /// The machine's id; nothing where it was not captured.
    pub machine: Option<String>,
    /// What was measured: `forwarded rate`, `throughput ndr`.
    pub quantity: String,
    /// Its unit.
    pub unit: Unit,
    /// Which number is the better one.
    pub better: Better,
    /// One a run, in the order of their starts.
    pub values: Vec<Value>,
    /// The values in groups around one mean each; more than one where it changed.
    pub groups: Vec<Group>,
    /// Where it changed, and what changed then.
    pub changes: Vec<Change>,
    /// Runs whose number may not be ranked, or that have none.
    pub left_out: Vec<LeftOut>,
}

/// What one run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Name of the run.
    pub run: String,
    /// Its identity.
    pub uuid: String,
    /// Its start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Version and commit of the Weir that measured it.
    pub weir: String,
    /// Version and configuration of the device, without folders.
    pub dut_version: Option<String>,
    /// Centre of its numbers.
    pub value: f64,
    /// The least of them.
    pub least: f64,
    /// The greatest of them.
    pub greatest: f64,
    /// How many there are.
    pub count: usize,
    /// What one of them is.
    pub of: Of,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Place of the first value after it, in the series.
    pub at: usize,
    /// Mean after it over mean before it.
    pub ratio: f64,
    /// Whether it became better.
    pub improved: bool,
    /// Whether there are two runs or more on both levels. One run alone may be an outlier, and on a machine that scatters
    /// most of what is seen where nothing changed is one.
    pub confirmed: bool,
    /// What differs between the last run before it and the first after it, as far as it can explain a change.
    pub differences: Vec<Difference>,
}

/// A run without a number that counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Name of the run.
    pub run: String,
    /// Its start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Why.
    pub why: String,
}

impl Series {
    /// What it is of, in a line.
    pub fn title(&self) -> String {
        let [nf, dut, wiring, trace, size] = compare::words::place(&self.point, None);
        format!("{nf} on {dut} over {wiring}, {trace}, {size}")
    }

    /// The change after which a value is the first.
    pub fn change(&self, at: usize) -> Option<&Change> {
        self.changes.iter().find(|change| change.at == at)
    }
}

impl Change {
    /// By how much the level moved: `-20.0 %`.
    pub fn step(&self) -> String {
        format!("{:+.1} %", 100.0 * (self.ratio - 1.0))
    }
}

impl Group {
    /// How many runs are at which level: `4 runs at 5 Mpps ± 20 kpps`.
    pub fn said(&self, unit: Unit) -> String {
        let (count, s) = (self.count, if self.count == 1 { "" } else { "s" });
        let spread = match count {
            1 => String::new(),
            _ => format!(" ± {}", compare::words::value(unit, self.deviation)),
        };
        format!("{count} run{s} at {}{spread}", compare::words::value(unit, self.mean))
    }
}

/// What one run says of some of its points: each number, and what it was measured under.
#[derive(Debug)]
pub struct RunNumbers {
    run: Arc<Run>,
    numbers: Vec<Number>,
}

/// One quantity of one point of a run.
#[derive(Debug)]
struct Number {
    point: Arc<PointKey>,
    quantity: Quantity,
    /// Why there is none that counts, where that is so.
    value: Result<Value, String>,
    facts: Arc<[Fact]>,
}

/// Name and value of what a number was measured under.
type Fact = (String, String);

impl RunNumbers {
    /// The numbers of those points that `wanted` says.
    pub fn of(run: &Run, wanted: &dyn Fn(&PointKey) -> bool) -> Self {
        let mut found = Vec::new();
        for point in run.points.iter().filter(|point| wanted(&point.key)) {
            let key = Arc::new(point.key.clone());
            let facts: Arc<[Fact]> = compare::facts(&[point]).into();
            found.extend(numbers::of_point(point).into_iter().map(|(quantity, numbers)| Number {
                point: Arc::clone(&key),
                quantity,
                value: value(run, point, &numbers),
                facts: Arc::clone(&facts),
            }));
        }
        // Points and their trials are the bulk of a run.
        Self { run: Arc::new(bare(run)), numbers: found }
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }
}

/// Runs so far.
#[derive(Debug, Default)]
pub struct History {
    series: Vec<Building>,
    places: BTreeMap<String, usize>,
}

/// A series while runs are taken in.
#[derive(Debug)]
struct Building {
    series: Series,
    /// For each value what its run was measured under.
    under: Vec<Under>,
}

/// The conditions of a number: its run without points, and the facts of its point.
#[derive(Clone, Debug)]
struct Under {
    run: Arc<Run>,
    facts: Arc<[Fact]>,
}

impl History {
    /// Takes in what a run says.
    pub fn take(&mut self, run: &RunNumbers) {
        run.numbers.iter().for_each(|number| self.number(&run.run, number));
    }

    fn number(&mut self, run: &Arc<Run>, number: &Number) {
        let Number { point, quantity, value, facts } = number;
        let machine = run.environment.get(MACHINE).cloned();
        let name = format!("{machine:?} {} {point:?}", quantity.name);
        let place = *self.places.entry(name).or_insert_with(|| {
            self.series.push(Building {
                series: Series {
                    point: PointKey::clone(point),
                    machine,
                    quantity: quantity.name.clone(),
                    unit: quantity.unit,
                    better: quantity.better,
                    values: Vec::new(),
                    groups: Vec::new(),
                    changes: Vec::new(),
                    left_out: Vec::new(),
                },
                under: Vec::new(),
            });
            self.series.len() - 1
        });
        let Building { series, under } = &mut self.series[place];
        match value {
            Ok(value) => {
                series.values.push(value.clone());
                under.push(Under { run: Arc::clone(run), facts: Arc::clone(facts) });
            }
            Err(why) => {
                let (run, started_ms) = (run.name.clone(), run.started_ms);
                series.left_out.push(LeftOut { run, started_ms, why: why.clone() });
            }
        }
    }

    /// Every series with its changes.
    pub fn document(self) -> Document {
        let series = self.series.into_iter().map(Building::finished).collect();
        Document { schema: SCHEMA_VERSION, key: KEY.to_owned(), series }
    }
}

/// A run without its points.
fn bare(run: &Run) -> Run {
    Run {
        schema: run.schema,
        id: run.id,
        uuid: run.uuid.clone(),
        name: run.name.clone(),
        started_ms: run.started_ms,
        ended_ms: run.ended_ms,
        state: run.state,
        plan: run.plan.clone(),
        weir: run.weir.clone(),
        environment: run.environment.clone(),
        sessions: Vec::new(),
        self_checks: Vec::new(),
        points: Vec::new(),
        advice: Vec::new(),
    }
}

/// A run's number; why there is none that counts.
fn value(run: &Run, point: &Point, numbers: &Numbers) -> Result<Value, String> {
    if let Some(why) = &point.error {
        return Err(format!("not measured: {why}"));
    }
    if !point.finished {
        return Err("not finished".to_owned());
    }
    if let Some(why) = numbers.objection() {
        return Err(why);
    }
    let values: Vec<f64> =
        numbers.values().into_iter().filter(|value| *value > 0.0 && value.is_finite()).collect();
    let centre = if numbers.of == Of::Trial { compare::centre } else { compare::centre_of_starts };
    let value = centre(&values).ok_or("no number above zero")?;
    Ok(Value {
        run: run.name.clone(),
        uuid: run.uuid.clone(),
        started_ms: run.started_ms,
        weir: run.weir.clone(),
        dut_version: point.dut_version.as_deref().map(compare::without_folders),
        value,
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        greatest: values.iter().copied().fold(0.0, f64::max),
        count: values.len(),
        of: numbers.of,
    })
}

impl Building {
    fn finished(self) -> Series {
        let Self { mut series, under } = self;
        let mut both: Vec<(Value, Under)> = series.values.into_iter().zip(under).collect();
        both.sort_by(|(a, _), (b, _)| (a.started_ms, &a.uuid).cmp(&(b.started_ms, &b.uuid)));
        series.left_out.sort_by_key(|left| left.started_ms);
        let (values, under): (Vec<Value>, Vec<Under>) = both.into_iter().unzip();
        series.groups = groups(&values.iter().map(|value| value.value).collect::<Vec<_>>());
        let change = |pair: &[Group]| {
            let [before, after] = pair else { return None };
            let ratio = after.mean / before.mean;
            let differences = differences(&under[after.first - 1], &under[after.first]);
            let improved = (ratio > 1.0) == (series.better == Better::Higher);
            let confirmed = before.count.min(after.count) >= CONFIRMED;
            Some(Change { at: after.first, ratio, improved, confirmed, differences })
        };
        series.changes = series.groups.windows(2).filter_map(change).collect();
        Series { values, ..series }
    }
}

/// What differs between two numbers' conditions that can explain a change.
fn differences(before: &Under, after: &Under) -> Vec<Difference> {
    let found = compare::differences(&before.run, &after.run, [&before.facts, &after.facts]);
    let is_axis = |fact: &str| {
        fact.strip_prefix("plan: ")
            .is_some_and(|setting| AXES.contains(&setting) || Placement::AXES.contains(&setting))
    };
    // The version of Weir stands with the run and among its facts.
    let counts = |one: &Difference| one.explains && one.fact != "weir.version" && !is_axis(&one.fact);
    found.into_iter().filter(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::PointResult;

    fn run() -> Run {
        serde_json::from_str(include_str!("../../../../docs/runs/readme.json")).unwrap()
    }

    /// Runs an hour apart, the rates of whose first point have these factors.
    fn taken(factors: &[f64], change: &dyn Fn(usize, &mut Run)) -> Document {
        let mut history = History::default();
        for (place, factor) in factors.iter().enumerate() {
            let mut run = run();
            run.uuid = format!("run-{place:03}");
            run.name = format!("run-{place}");
            run.started_ms += 3_600_000 * place as i64;
            let PointResult::Mrr(result) = &mut run.points[0].results[0] else { panic!("it has rates") };
            result.rates.iter_mut().for_each(|rate| rate.0 *= factor);
            change(place, &mut run);
            history.take(&RunNumbers::of(&run, &|_| true));
        }
        history.document()
    }

    #[test]
    fn a_change_is_marked_with_what_changed_between_the_runs_around_it() {
        let factors = [1.0, 1.01, 0.99, 1.0, 1.01, 0.8, 0.81, 0.79, 0.8, 0.81];
        let document = taken(&factors, &|place, run| {
            run.environment.insert("load.average".to_owned(), format!("0.{place} 1 1"));
            if place >= 5 {
                run.environment.insert("kernel.release".to_owned(), "6.2".to_owned());
                run.weir = "weir 0.2.0 (abcdef)".to_owned();
                run.points[0].dut_version = Some("weir 2".to_owned());
                run.plan = run.plan.replace("size = [64]", "size = [64, 128]");
            }
        });
        assert_eq!(document.series.len(), 3, "three devices, one quantity each");
        let series = &document.series[0];
        assert_eq!((series.values.len(), series.groups.len()), (10, 2));
        let change = &series.changes[0];
        assert_eq!((change.at, change.improved, change.confirmed), (5, false, true));
        assert!((change.ratio - 0.8).abs() < 0.02, "{change:?}");
        let facts: Vec<&str> = change.differences.iter().map(|one| one.fact.as_str()).collect();
        assert_eq!(facts, ["weir", "kernel.release", "dut weir l3fwd:10"]);
        assert!(document.series[1..].iter().all(|series| series.changes.is_empty()));
    }

    #[test]
    fn one_run_that_is_off_is_no_confirmed_change() {
        let document = taken(&[1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.5], &|_, _| {});
        let changes = &document.series[0].changes;
        assert_eq!(
            changes.iter().map(|change| (change.at, change.confirmed)).collect::<Vec<_>>(),
            [(6, false)]
        );
    }

    #[test]
    fn machines_are_told_apart_and_runs_come_in_the_order_of_their_starts() {
        let document = taken(&[1.0, 0.5, 1.0, 0.5], &|place, run| {
            let machine = if place % 2 == 0 { "here" } else { "there" };
            run.environment.insert(MACHINE.to_owned(), machine.to_owned());
            run.started_ms = -(place as i64);
        });
        assert_eq!(document.series.len(), 6);
        for series in &document.series {
            assert!(series.changes.is_empty(), "two machines are no change: {series:?}");
            let starts: Vec<i64> = series.values.iter().map(|value| value.started_ms).collect();
            assert!(starts.is_sorted() && starts.len() == 2, "{starts:?}");
        }
    }

    #[test]
    fn what_may_not_be_ranked_is_left_out_and_named() {
        let document = taken(&[1.0, 1.0, 1.0], &|place, run| match place {
            1 => run.points[0].error = Some("would not start".to_owned()),
            2 => run.points[0].finished = false,
            _ => {}
        });
        let series = &document.series[0];
        assert_eq!(series.values.len(), 1);
        let why: Vec<&str> = series.left_out.iter().map(|left| left.why.as_str()).collect();
        assert_eq!(why, ["not measured: would not start", "not finished"]);
    }
}

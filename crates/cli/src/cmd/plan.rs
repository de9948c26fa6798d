//! `weir plan`: plans checked, shown and described, without measuring anything.

use super::layout::table;
use super::{BadUse, print};
use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_campaign::plan::{self, ASSUMED_OVERHEAD, Known, Machine, Place, Plan, Planned, PointSpec};
use weir_trial::{Nf, Placement};

/// Version of the JSON that `weir plan check --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
Check, show and describe plans. Nothing is measured.

A plan is a TOML file. It names axes (nf, dut, frequency, wiring, trace, size, directions, huge_pages), each one \
value or a list; every combination is a point, and the axis written first varies slowest. The tables \
[throughput], [mrr], [latency], [latency_curve], [frame_loss], [back_to_back], [flow_mods], [connections] and [soak] say \
what is measured at every point. `weir plan show quick` prints one to start from; `weir plan schema` prints \
the format as a JSON Schema, for editors that complete and check TOML by one.";

const EXAMPLES: &str = "\
Examples:
  Start from the plan that `weir bench` runs by itself:
    weir plan show quick > mine.toml
  Check it, and see every point it has and about how long it takes:
    weir plan check mine.toml --points
  The same for a script; the exit code is 0 for a good plan and 2 for a bad one:
    weir plan check mine.toml --json
  Have an editor check plans: write the schema, and name it in the plan's first line:
    weir plan schema > plan.schema.json
    #:schema ./plan.schema.json";

/// Check, show and describe plans
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Check a plan, and say what it measures and about how long it takes
    ///
    /// Mistakes are shown all at once, each with file, line and column, the line itself, what may be
    /// written there and what was probably meant. Exit code 2 if there are any.
    Check {
        /// The plan
        file: PathBuf,
        /// List every point
        #[arg(long)]
        points: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a plan that comes with Weir, with comments; without a name, list them
    Show {
        /// Its name
        name: Option<String>,
    },
    /// Print the JSON Schema of plans
    Schema,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match args.action {
        Action::Check { file, points, json } => return check(&file, points, json),
        Action::Show { name: Some(name) } => show(&name)?,
        Action::Show { name: None } => list(),
        Action::Schema => format!("{:#}\n", plan::schema()),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str) -> Result<String, BadUse> {
    plan::builtin(name).map(|builtin| builtin.text.to_owned()).ok_or_else(|| {
        let names: Vec<&str> = plan::builtins().iter().map(|builtin| builtin.name).collect();
        BadUse::new(format!("no plan named `{name}` comes with Weir; there are {}", names.join(", ")))
    })
}

fn list() -> String {
    let plans = plan::builtins();
    let width = plans.iter().map(|builtin| builtin.name.len()).max().unwrap_or(0);
    plans.iter().map(|builtin| format!("{:width$}  {}\n", builtin.name, builtin.about)).collect()
}

fn check(file: &Path, points: bool, as_json: bool) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let start = "`weir plan show quick > FILE` writes one to start from";
        BadUse::new(format!("cannot read the plan {}: {error}; {start}", file.display()))
    })?;
    match Plan::parse(&text, file, &Known::here()) {
        Ok(plan) if as_json => print(&format!("{}\n", serde_json::to_string_pretty(&described(&plan))?))?,
        Ok(plan) => print(&summary(&plan, file, points))?,
        Err(error) if as_json => {
            print(&format!("{}\n", serde_json::to_string_pretty(&refused(error.places()))?))?;
            return Ok(ExitCode::from(2));
        }
        Err(error) => return Err(BadUse::new(format!("the plan cannot be used\n\n{error}")).into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a good plan measures, for people.
pub(super) fn summary(plan: &Plan, file: &Path, list_points: bool) -> String {
    let points = plan.expand();
    let estimate = plan.estimate(ASSUMED_OVERHEAD);
    let longest = plan.longest(ASSUMED_OVERHEAD);
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<11}{value}");
    };
    line("plan", format!("{} ({})", plan.name, file.display()));
    let repeats = if plan.repeats > 1 { format!(", each {} times", plan.repeats) } else { String::new() };
    line("points", format!("{}{repeats}", points.len()));
    for (name, does) in plan.methods.iter().map(Planned::line) {
        line(name, does);
    }
    line("measuring", format!("about {}, at most {}", people(estimate.time), people(longest)));
    for warning in plan.warnings() {
        line("note", warning);
    }
    for (why, of) in plan.lacks(&Machine::here()) {
        line("not here", format!("{of} of {} points: {why}", points.len()));
    }
    for (why, of) in plan.refused() {
        line("refused", format!("{of} of {} points: {why}", points.len()));
    }
    if list_points {
        text.push('\n');
        let rows: Vec<Vec<String>> = points.iter().map(cells).collect();
        text.push_str(&table(&COLUMNS, &[0, 5], &rows));
    }
    text
}

/// A duration as people say it: `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`.
fn people(duration: weir_units::Nanos) -> String {
    let seconds = duration.seconds();
    let minutes = (seconds / 60.0).round() as u64;
    let (hours, days) = (minutes / 60, minutes / 1440);
    match minutes {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        0..120 => format!("{minutes} min"),
        120..2880 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

fn cells(point: &PointSpec) -> Vec<String> {
    vec![
        point.index.to_string(),
        point.nf.to_string(),
        point.placement.of(&point.dut),
        point.wiring.clone(),
        point.trace.to_string(),
        point.size.to_string(),
        point.directions.to_string(),
        point.huge_pages.to_string(),
    ]
}

const COLUMNS: [&str; 8] = ["point", "nf", "dut", "wiring", "trace", "size", "directions", "huge pages"];

/// What `weir plan check --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Checked {
    /// Version of this document's form.
    schema: u32,
    /// Whether the plan can be run.
    good: bool,
    /// What it measures, where it is good.
    #[serde(flatten)]
    measures: Option<Measures>,
    /// What is wrong, where it is not.
    errors: Vec<Mistake>,
}

/// What a good plan measures.
#[derive(Serialize, JsonSchema)]
struct Measures {
    name: String,
    /// How often each point is measured.
    repeats: u32,
    points: Vec<PlannedPoint>,
    /// Trials expected.
    trials: u32,
    /// Seconds of measuring expected.
    seconds: f64,
    /// Seconds of measuring at most.
    seconds_at_most: f64,
    /// What a reader of the results must be told.
    warnings: Vec<String>,
    /// What this machine lacks for some of the points.
    not_here: Vec<String>,
    /// Why some of the points are refused when they come, on any machine.
    refused: Vec<String>,
}

/// One combination of the axes.
#[derive(Serialize, JsonSchema)]
struct PlannedPoint {
    /// Place in the plan's order, from 0.
    index: u32,
    nf: Nf,
    /// Where the functions run.
    placement: Placement,
    dut: String,
    wiring: String,
    trace: String,
    size: String,
    directions: u8,
    huge_pages: String,
    /// Whether the wiring allows the forwarded rate only.
    mrr_only: bool,
}

/// A mistake and its place; line and column count from 1.
#[derive(Serialize, JsonSchema)]
struct Mistake {
    line: usize,
    column: usize,
    message: String,
    /// What may be written there, where that is a list.
    allowed: Vec<String>,
}

/// What a good plan measures, for programs.
fn described(plan: &Plan) -> Checked {
    let estimate = plan.estimate(ASSUMED_OVERHEAD);
    let point = |point: PointSpec| PlannedPoint {
        index: point.index,
        nf: point.nf,
        placement: point.placement,
        trace: point.trace.to_string(),
        size: point.size.to_string(),
        directions: point.directions,
        huge_pages: point.huge_pages.to_string(),
        mrr_only: point.mrr_only,
        dut: point.dut,
        wiring: point.wiring,
    };
    let measures = Measures {
        name: plan.name.clone(),
        repeats: plan.repeats,
        points: plan.expand().into_iter().map(point).collect(),
        trials: estimate.trials,
        seconds: estimate.time.seconds(),
        seconds_at_most: plan.longest(ASSUMED_OVERHEAD).seconds(),
        warnings: plan.warnings(),
        not_here: plan.lacks(&Machine::here()).into_iter().map(|(why, _)| why).collect(),
        refused: plan.refused().into_iter().map(|(why, _)| why).collect(),
    };
    Checked { schema: SCHEMA_VERSION, good: true, measures: Some(measures), errors: Vec::new() }
}

/// What is wrong with a bad plan, for programs.
fn refused(places: Vec<Place>) -> Checked {
    let mistake = |place: Place| {
        let Place { line, column, message, allowed } = place;
        Mistake { line, column, message, allowed }
    };
    let errors = places.into_iter().map(mistake).collect();
    Checked { schema: SCHEMA_VERSION, good: false, measures: None, errors }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use weir_trial::run::Method;
    use weir_units::Nanos;

    fn value(checked: Checked) -> Value {
        serde_json::to_value(checked).unwrap()
    }

    fn parsed(text: &str) -> Plan {
        Plan::parse(text, Path::new("mine.toml"), &Known::here()).unwrap()
    }

    #[test]
    fn the_summary_of_the_quick_plan_fits_a_glance() {
        let plan = parsed(&show("quick").unwrap());
        let text = summary(&plan, Path::new("mine.toml"), true);
        for line in [
            "plan       quick (mine.toml)\n",
            "points     12\n",
            "throughput ndr, pdr, at most 5 s a search\n",
            "latency    at 50% ndr, 500 ms each\n",
            "\npoint  nf           dut   wiring  trace  size  directions  huge pages\n",
            "\n   11  firewall:10  weir  vhost   tr3i   1500  2           false\n",
        ] {
            assert!(text.contains(line), "`{line}` is not in\n{text}");
        }
    }

    /// The help is one text, and so cannot be made of the list of methods.
    #[test]
    fn the_help_names_every_methods_table() {
        for method in Method::ALL {
            let table = format!("[{}]", method.table());
            assert!(LONG_ABOUT.contains(&table), "{table} is not in the help of `weir plan`");
        }
    }

    #[test]
    fn json_says_what_is_measured_and_what_is_wrong() {
        let good = value(described(&parsed(&show("nfpa").unwrap())));
        assert_eq!((&good["schema"], &good["good"]), (&json!(1), &json!(true)));
        assert_eq!(good["points"].as_array().unwrap().len(), 2 * 7 * 7);
        assert_eq!(good["points"][0]["dut"], json!("nf"));

        let error =
            Plan::parse("nf = \"l2fwd\"\nsise = 64\ntrace = \"tr3i\"\n", Path::new("x"), &Known::here())
                .unwrap_err();
        let bad = value(refused(error.places()));
        assert_eq!((&bad["good"], &bad["errors"][0]["line"]), (&json!(false), &json!(2)));
        assert!(bad["errors"][0]["allowed"].as_array().unwrap().contains(&json!("size")), "{bad}");
    }

    #[test]
    fn a_plan_that_is_not_there_is_bad_use_with_a_way_out() {
        let error = check(Path::new("nowhere/mine.toml"), false, false).unwrap_err();
        assert!(error.is::<BadUse>());
        let text = error.to_string();
        assert!(text.contains("nowhere/mine.toml") && text.contains("weir plan show quick"), "{text}");
        assert!(show("quik").unwrap_err().to_string().contains("there are quick, nfpa, full"));
    }

    #[test]
    fn durations_are_said_as_people_say_them() {
        let said = |seconds: f64| people(Nanos::from_seconds(seconds));
        assert_eq!(
            [said(45.0), said(720.0), said(12_000.0), said(187_200.0)],
            ["45 s", "12 min", "3 h 20 min", "2 d 4 h"]
        );
    }
}

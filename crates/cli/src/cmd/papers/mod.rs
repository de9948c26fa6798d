//! `weir papers`: the papers' figures, the plans that measure them, and what this machine can do of them.

mod catalogue;
mod figure;
mod session;
pub(super) mod short;

use super::layout::table;
use super::stored::{Database, names_a_file};
use super::{BadUse, print};
use catalogue::{FIGURES, Figure, PAPERS};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_campaign::plan::{ASSUMED_OVERHEAD, Known, Machine, Plan};

/// Version of the JSON that `weir papers --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
List the figures and tables of four papers with the plans that measure them, or run these plans.

The list says of each plan what it sweeps and how many of its points this machine can measure; what it lacks for the others \
stands below. Points that are refused on any machine are told apart from them. What differs from the papers stands at the \
head of each plan (--show) and in docs/papers.md.

--run and --all run plans one after another into one database, each with a page of its own beside it; a plan that fails does \
not keep the next one from running. At the end stands what ran, how far, and why not further. Ctrl-C ends the plan that runs, \
and with it all.";

const EXAMPLES: &str = "\
Examples:
  What there is, and what this machine can measure of it:
    weir papers
  The plan of a figure, to read or to change:
    weir papers --show nfpa/figure3
  One figure, and a whole paper:
    weir papers --run nfv-first/table1 nfpa
  Everything, as quickly as it goes, into a database of its own:
    weir papers --all --short --db papers.db
  What a run of a figure came to, with the pipelines across:
    weir papers --table @last --across nf

Exit codes: 0 all that this machine can measure was measured; 1 a plan or a point failed, or it was interrupted; 2 bad use.";

/// List and run the papers' figures
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Run these, one after another: PAPER/PLAN, or PAPER for all of its own
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "all")]
    run: Vec<String>,
    /// Run all of them
    #[arg(long)]
    all: bool,
    #[arg(long, help = short::WHAT)]
    short: bool,
    /// Print the plan of a figure
    #[arg(long, value_name = "NAME", conflicts_with_all = ["run", "all", "short", "json"])]
    show: Option<String>,
    /// Print a run of a figure's plan as one small table, in Markdown: a run, or a file that `weir export --json` wrote. Of a
    /// file that is not there, that nothing is kept
    #[arg(long, value_name = "RUN", conflicts_with_all = ["run", "all", "short", "json", "show"])]
    table: Option<String>,
    /// What stands across in --table
    #[arg(long, value_enum, default_value = "nf", requires = "table")]
    across: figure::Across,
    /// Which number of each point stands in --table
    #[arg(long, value_enum, default_value = "rate", requires = "table")]
    what: figure::What,
    /// The database of the runs: a file, or postgres://USER@HOST/NAME [default: in the per-user data folder]
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,
    /// Print JSON: the list, or with --run and --all what ran (schema: papers); what `weir bench` prints is left out then
    #[arg(long)]
    json: bool,
}

/// What `weir papers --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// Version of this form.
    schema: u32,
    /// The figures, in the papers' order.
    figures: Vec<Listed>,
}

/// A figure, its plan, and what this machine can do of it.
#[derive(Serialize, JsonSchema)]
struct Listed {
    /// PAPER/PLAN, for --run and --show.
    name: String,
    /// The paper.
    paper: String,
    /// Which figure, table or section, and where it stands in another paper as well.
    figure: String,
    /// What the plan sweeps.
    sweeps: String,
    /// Points of the plan.
    points: usize,
    /// Seconds of measuring expected, without the starts of devices.
    seconds: f64,
    /// What this machine lacks, and for how many points.
    not_here: Vec<Reason>,
    /// Why some points are refused on any machine, and how many.
    refused: Vec<Reason>,
    /// How it went, where it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    ran: Option<session::Ran>,
}

/// Why points are not measured, and how many.
#[derive(Clone, Serialize, JsonSchema)]
struct Reason {
    points: usize,
    why: String,
}

impl Listed {
    /// How many points this machine can measure.
    fn here(&self) -> usize {
        let without: usize = self.not_here.iter().chain(&self.refused).map(|reason| reason.points).sum();
        self.points.saturating_sub(without)
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.show {
        print(one(name)?.text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(run) = &args.table {
        print(&tabled(run, &args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.all || !args.run.is_empty() {
        let figures = if args.all { FIGURES.iter().collect() } else { chosen(&args.run)? };
        return session::run(&args, &figures);
    }
    if args.short || args.db.is_some() {
        return Err(BadUse::new(
            "--short and --db say how plans are run; name some with --run, or take --all",
        )
        .into());
    }
    let figures = FIGURES.iter().map(|figure| listed(figure, figure.text)).collect::<Result<Vec<_>, _>>()?;
    print(&if args.json { document(figures)? } else { list(&figures) })?;
    Ok(ExitCode::SUCCESS)
}

/// A run as a table. A document may name the file of a run that nobody has kept yet.
fn tabled(run: &str, args: &Args) -> anyhow::Result<String> {
    if names_a_file(run) && !Path::new(run).exists() {
        return Ok(format!("Not run yet: `{run}` is not kept.\n"));
    }
    let selector =
        run.parse().map_err(|error: weir_store::ParseSelectorError| BadUse::new(error.to_string()))?;
    let run = Database::of(args.db.clone()).load(&selector)?;
    Ok(figure::table(&run, args.across, args.what))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Figure>, BadUse> {
    catalogue::named(names).map_err(|unknown| {
        let papers: Vec<&str> = PAPERS.iter().map(|paper| paper.folder).collect();
        BadUse::new(format!(
            "no figure or paper named `{unknown}`; `weir papers` lists the figures, and the papers are {}",
            papers.join(", ")
        ))
    })
}

/// The figure of a name, which is not a paper's.
fn one(name: &str) -> Result<&'static Figure, BadUse> {
    let found = chosen(&[name.to_owned()])?;
    found.iter().find(|figure| figure.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = found.iter().map(|figure| figure.name).collect();
        BadUse::new(format!("`{name}` is a paper of several plans; name one: {}", names.join(", ")))
    })
}

fn parsed(figure: &Figure, text: &str) -> Result<Plan, BadUse> {
    let file = format!("{}.toml", figure.name);
    Plan::parse(text, Path::new(&file), &Known::here()).map_err(BadUse::new)
}

/// What this machine can do of a plan.
fn listed(figure: &Figure, text: &str) -> Result<Listed, BadUse> {
    let plan = parsed(figure, text)?;
    let reasons =
        |found: Vec<(String, usize)>| found.into_iter().map(|(why, points)| Reason { points, why }).collect();
    let paper = PAPERS.iter().find(|paper| paper.folder == figure.folder()).map_or("", |paper| paper.title);
    Ok(Listed {
        name: figure.name.to_owned(),
        paper: paper.to_owned(),
        figure: figure.figure.to_owned(),
        sweeps: figure.sweeps.to_owned(),
        points: plan.expand().len(),
        seconds: plan.estimate(ASSUMED_OVERHEAD).time.seconds(),
        not_here: reasons(plan.lacks(&Machine::here())),
        refused: reasons(plan.refused()),
        ran: None,
    })
}

fn document(figures: Vec<Listed>) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(&Document { schema: SCHEMA_VERSION, figures })?))
}

/// The list for people.
fn list(figures: &[Listed]) -> String {
    let mut text = String::new();
    for paper in &PAPERS {
        let _ = writeln!(text, "{}", paper.title);
        let own = figures.iter().filter(|figure| figure.paper == paper.title);
        let rows: Vec<Vec<String>> = own.map(row).collect();
        let _ = writeln!(text, "{}", table(&["plan", "figure", "points", "here", "sweeps"], &[2], &rows));
    }
    text.push_str(&unmeasurable(figures));
    text.push_str("Next: weir papers --run NAME, or --all --short\n");
    text
}

/// What this machine cannot measure and what it would need for that, and what no machine measures.
fn unmeasurable(figures: &[Listed]) -> String {
    let mut text = String::new();
    for (head, of) in [
        ("What this machine lacks:", (|figure| &figure.not_here) as fn(&Listed) -> &Vec<Reason>),
        ("Refused on any machine:", |figure| &figure.refused),
    ] {
        text.push_str(&reasons(head, figures, of));
    }
    text
}

fn row(figure: &Listed) -> Vec<String> {
    let here = match figure.here() {
        0 => "none".to_owned(),
        here if here == figure.points => "all".to_owned(),
        here => here.to_string(),
    };
    vec![figure.name.clone(), figure.figure.clone(), figure.points.to_string(), here, figure.sweeps.clone()]
}

/// Reasons under their heading, a line each; nothing where there are none.
fn reasons(head: &str, figures: &[Listed], of: fn(&Listed) -> &Vec<Reason>) -> String {
    let mut text = String::new();
    for figure in figures {
        for Reason { points, why } in of(figure) {
            let _ = writeln!(text, "  {}, {points} of {} points: {why}", figure.name, figure.points);
        }
    }
    if text.is_empty() { text } else { format!("{head}\n{text}\n") }
}

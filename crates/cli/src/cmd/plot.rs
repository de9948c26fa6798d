//! `weir plot`: a plot or a table of runs, alone, for a paper or a document.

use super::BadUse;
use super::stored::Database;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_report::{Exhibit, Form, exhibits};
use weir_store::Selector;
use weir_trial::run::Run;

const LONG_ABOUT: &str = "\
Write a plot or a table of a run's page as a file of its own, for a paper, a document or a notebook.

Without --id the plots and tables of the runs are listed. A plot is written as SVG, with its legend, the runs it was \
drawn from and, on a dark screen, dark colours; a table as Markdown, as CSV in base units (RFC 4180) or as LaTeX for \
the package booktabs. Several runs are drawn into the same plots, as `weir report` does.";

const EXAMPLES: &str = "\
Examples:
  What there is of the last run:
    weir plot
  Rate against the number of flows, as a drawing:
    weir plot docs/runs/flows.json --id sweep-flows -o flows.svg
  The numbers behind it, for LaTeX:
    weir plot docs/runs/flows.json --id sweep-flows-table -o flows.tex";

/// Write a plot or a table of runs as SVG, Markdown, CSV or LaTeX
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs: a name, the beginning of one, a number, @last, @last~1, or a file that `weir export --json` wrote
    #[arg(value_name = "RUN", default_value = "@last")]
    runs: Vec<Selector>,
    /// The plot or table to write; without it they are listed
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// svg, markdown, csv or latex [default: by the ending of -o, else svg for a plot and markdown for a table]
    #[arg(long, value_name = "FORM", value_parser = form, requires = "id")]
    form: Option<Form>,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE", requires = "id")]
    output: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
}

/// A form by its name.
fn form(name: &str) -> Result<Form, String> {
    let names = || Form::ALL.map(Form::name).join(", ");
    Form::ALL
        .into_iter()
        .find(|form| form.name() == name)
        .ok_or_else(|| format!("no such form; there are {}", names()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runs = loaded(&args.runs, &args.database)?;
    let exhibits = exhibits(&runs);
    let Some(id) = &args.id else {
        super::print(&listed(&exhibits))?;
        return Ok(ExitCode::SUCCESS);
    };
    let exhibit =
        exhibits.iter().find(|exhibit| exhibit.id() == id).ok_or_else(|| none_such(id, &exhibits))?;
    let text = written(exhibit, args.form, args.output.as_deref())?;
    match &args.output {
        None => super::print(&text)?,
        Some(path) => {
            let wrong =
                |error| BadUse::new(format!("{}: {error}; name another file with -o", path.display()));
            std::fs::write(path, text).map_err(wrong)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The runs, each once.
pub(super) fn loaded(selectors: &[Selector], database: &Database) -> anyhow::Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for selector in selectors {
        let run = database.load(selector)?;
        let is_the_same =
            |other: &Run| (&other.uuid, other.id, &other.name) == (&run.uuid, run.id, &run.name);
        if runs.iter().any(is_the_same) {
            return Err(BadUse::new(format!("run {} is named twice; name each run once", run.name)).into());
        }
        runs.push(run);
    }
    Ok(runs)
}

/// One line an exhibit.
fn listed(exhibits: &[Exhibit]) -> String {
    if exhibits.is_empty() {
        return "no plot and no table: the run has no results yet\n".to_owned();
    }
    let width = exhibits.iter().map(|exhibit| exhibit.id().len()).max().unwrap_or(0).max("ID".len());
    let mut text = format!("{:width$}  {:20}  TITLE\n", "ID", "FORMS");
    for exhibit in exhibits {
        let forms = exhibit.forms().iter().map(|form| form.name()).collect::<Vec<_>>().join(", ");
        writeln!(text, "{:width$}  {forms:20}  {}", exhibit.id(), exhibit.title()).expect("text takes text");
    }
    text.push_str("Next: weir plot RUN --id ID -o FILE\n");
    text
}

fn none_such(id: &str, exhibits: &[Exhibit]) -> BadUse {
    let ids: Vec<&str> = exhibits.iter().map(Exhibit::id).collect();
    match ids.as_slice() {
        [] => BadUse::new(format!("--id {id}: the run has no plots and no tables")),
        some => BadUse::new(format!("--id {id}: there is none such; there are {}", some.join(", "))),
    }
}

/// The exhibit in the form that was asked for, by name or by the ending of the file.
fn written(exhibit: &Exhibit, form: Option<Form>, output: Option<&Path>) -> anyhow::Result<String> {
    let ending = output.and_then(Path::extension).and_then(|ending| ending.to_str());
    let by_ending = ending.and_then(|ending| Form::ALL.into_iter().find(|form| form.ending() == ending));
    let form = form.or(by_ending).unwrap_or(exhibit.forms()[0]);
    exhibit.written(form).ok_or_else(|| {
        let forms = exhibit.forms().iter().map(|form| form.name()).collect::<Vec<_>>().join(", ");
        BadUse::new(format!("{} is not to be had as {}; it is written as {forms}", exhibit.id(), form.name()))
            .into()
    })
}

//! `weir plot`: a plot or a table of runs, alone, for a paper or a document.

use super::BadUse;
use super::stored::Database;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use weir_report::{Exhibit, Form, exhibits};
use weir_store::Selector;
use weir_trial::run::Run;

const LONG_ABOUT: &str = "\
Write a plot or a table of a run's page as a file of its own, for a paper, a document or a notebook.

Without --id the plots and tables of the runs are listed. A plot is written as SVG, with its legend, the runs it was \
drawn from and, on a dark screen, dark colours; as PDF or PNG, which Debian's rsvg-convert (librsvg2-bin) makes of \
that; or as PGF, its numbers drawn by LaTeX's package pgfplots (compat=1.18) in the document's fonts. A table is written as \
Markdown, as CSV in base units (RFC 4180) or as LaTeX for the package booktabs. Several runs are drawn into the same plots, as `weir report` does.";

const EXAMPLES: &str = "\
Examples:
  What there is of the last run:
    weir plot
  Rate against the number of flows, as a drawing:
    weir plot docs/runs/flows.json --id sweep-flows -o flows.svg
  The same for LaTeX, by \\input{flows.pgf}:
    weir plot docs/runs/flows.json --id sweep-flows -o flows.pgf
  The numbers behind it, for LaTeX:
    weir plot docs/runs/flows.json --id sweep-flows-table -o flows.tex";

/// Write a plot or a table of runs as SVG, PDF, PNG, PGF, Markdown, CSV or LaTeX
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs: a name, the beginning of one, a number, @last, @last~1, or a file that `weir export --json` wrote
    #[arg(value_name = "RUN", default_value = "@last")]
    runs: Vec<Selector>,
    /// The plot or table to write; without it they are listed
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// svg, pgf, pdf, png, markdown, csv or latex [default: by the ending of -o, else svg for a plot and markdown for a table]
    #[arg(long, value_name = "FORM", value_parser = form, requires = "id")]
    form: Option<Asked>,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE", requires = "id")]
    output: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
}

/// The form that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// One that the report writes.
    Form(Form),
    /// One that another program makes of the drawing: its name and ending, and that program's options.
    Made(&'static str, &'static [&'static str]),
}

/// What rsvg-convert makes of a drawing. A picture has two of its points for each of the drawing's.
const MADE: [Asked; 2] = [Asked::Made("pdf", &["-f", "pdf"]), Asked::Made("png", &["-f", "png", "-z", "2"])];

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Self::Form(form) => form.name(),
            Self::Made(name, _) => name,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Form(form) => form.ending(),
            Self::Made(name, _) => name,
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        Form::ALL.into_iter().map(Self::Form).chain(MADE)
    }

    /// Those of an exhibit.
    fn of(exhibit: &Exhibit) -> Vec<&'static str> {
        let made = if exhibit.forms().contains(&Form::Svg) { &MADE[..] } else { &[] };
        let forms = exhibit.forms().iter().map(|form| Self::Form(*form));
        forms.chain(made.iter().copied()).map(Self::name).collect()
    }
}

/// A form by its name.
fn form(name: &str) -> Result<Asked, String> {
    let names = || Asked::all().map(Asked::name).collect::<Vec<_>>().join(", ");
    Asked::all()
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
    let bytes = written(exhibit, args.form, args.output.as_deref())?;
    match (&args.output, std::str::from_utf8(&bytes)) {
        (None, Ok(text)) => super::print_file(text)?,
        (None, Err(_)) if std::io::stdout().is_terminal() => {
            return Err(BadUse::new("that is no text for a terminal; name a file with -o").into());
        }
        (None, Err(_)) => std::io::stdout().write_all(&bytes)?,
        (Some(path), _) => {
            let wrong =
                |error| BadUse::new(format!("{}: {error}; name another file with -o", path.display()));
            std::fs::write(path, bytes).map_err(wrong)?;
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
        let forms = Asked::of(exhibit).join(", ");
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
fn written(exhibit: &Exhibit, form: Option<Asked>, output: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let ending = output.and_then(Path::extension).and_then(|ending| ending.to_str());
    let by_ending = ending.and_then(|ending| Asked::all().find(|form| form.ending() == ending));
    let asked = form.or(by_ending).unwrap_or(Asked::Form(exhibit.forms()[0]));
    let of_report = match asked {
        Asked::Form(form) => form,
        Asked::Made(..) => Form::Svg,
    };
    let text = exhibit.written(of_report).ok_or_else(|| {
        let forms = Asked::of(exhibit).join(", ");
        BadUse::new(format!(
            "{} is not to be had as {}; it is written as {forms}",
            exhibit.id(),
            asked.name()
        ))
    })?;
    match asked {
        Asked::Form(_) => Ok(text.into_bytes()),
        Asked::Made(_, options) => converted(&text, options),
    }
}

/// A drawing as a file with this ending, which is of a form that another program makes.
#[cfg(feature = "serve")]
pub(super) fn made(svg: &str, ending: &str) -> anyhow::Result<Vec<u8>> {
    let form = MADE.into_iter().find(|form| form.ending() == ending);
    match form {
        Some(Asked::Made(_, options)) => converted(svg, options),
        _ => Err(BadUse::new(format!("`{ending}` is no form that is made of a drawing")).into()),
    }
}

/// A drawing as rsvg-convert makes it. The drawing is ours, with every text in it escaped.
fn converted(svg: &str, options: &[&str]) -> anyhow::Result<Vec<u8>> {
    const PROGRAM: &str = "rsvg-convert";
    let wrong = |why: &dyn std::fmt::Display| {
        BadUse::new(format!(
            "{PROGRAM}, which makes PDF and PNG of a drawing: {why}; install Debian's librsvg2-bin, or take --form svg"
        ))
    };
    let mut command = Command::new(PROGRAM);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| wrong(&error))?;
    let mut stdin = child.stdin.take();
    let said = std::thread::scope(|scope| {
        // It reads to the end before it writes; a thread of its own takes no harm where it does otherwise.
        scope.spawn(move || stdin.as_mut().map(|input| input.write_all(svg.as_bytes())));
        child.wait_with_output()
    });
    let said = said.map_err(|error| wrong(&error))?;
    if !said.status.success() || said.stdout.is_empty() {
        return Err(wrong(&String::from_utf8_lossy(&said.stderr).trim()).into());
    }
    Ok(said.stdout)
}

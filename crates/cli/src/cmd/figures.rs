//! `weir figures`: documents whose figures come from named runs, generated and checked.

use super::BadUse;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What a figure may come from: commands that read runs or plans, and measure nothing.
const READERS: [&str; 8] =
    ["show", "compare", "rescore", "verify", "plan", "plot", "perf --stored", "papers --table"];
/// Width of figures in documents.
const COLUMNS: &str = "150";
/// How a figure's command begins in a document, and how it ends.
const BEGIN: &str = "<!-- weir ";
const END: &str = "-->";
/// How a block of text begins and ends in Markdown.
const FENCE: &str = "```";
/// A command that prints Markdown has one of these words; its figure stands in the document as it is, up to this line.
const MARKDOWN: [&str; 3] = ["--markdown", "markdown", "--table"];
const MARKDOWN_END: &str = "<!-- end -->";

const LONG_ABOUT: &str = "\
Write the figures of Markdown documents anew from the runs they name, or check that they are what \
those runs say.

A figure is a fenced block right below a comment with the command that prints it:

    <!-- weir show docs/runs/2026-11-23-otter-3f9a.json -->

The command reads a run that was written with `weir export --json`, so that figure and run stand in one \
repository. show, compare, rescore, verify, plan, plot, perf --stored and papers --table may stand there. What a command with \
--markdown, --form markdown or --table prints is no fenced block: it ends with the line <!-- end -->. What a command with -o FILE \
prints is that file, beside the document's text. Paths start in the current folder.

Exit codes: 0 all figures are what their commands print, or were written; 1 with --check, one is not; 2 bad use.";

const EXAMPLES: &str = "\
Examples:
  Write the figures of a document anew:
    weir figures README.md
  Fail where one was typed, or its run has changed:
    weir figures --check README.md docs/performance.md";

/// Write or check the figures of documents from the runs they name
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Markdown documents
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Change nothing, and fail where a figure differs
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut differ = false;
    for file in &args.files {
        let place = |error: &dyn std::fmt::Display| BadUse::new(format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| place(&error))?;
        let (renewed, figures) = renewed(&text, file, &printed)?;
        let differing: Vec<&Figure> = figures.iter().filter(|figure| figure.differs).collect();
        let count = format!("{}: {} figures", file.display(), figures.len());
        match (args.check, differing.as_slice()) {
            (_, []) => super::print(&format!("{count}, all as their runs say\n"))?,
            (false, some) => {
                std::fs::write(file, renewed).map_err(|error| place(&error))?;
                some.iter().try_for_each(|figure| figure.write())?;
                super::print(&format!("{count}, {} written anew\n", some.len()))?;
            }
            (true, some) => {
                differ = true;
                for figure in some {
                    let (line, command) = (figure.line, &figure.command);
                    super::print(&format!("{}:{line}: differs from `weir {command}`\n", file.display()))?;
                }
            }
        }
    }
    if differ {
        super::print("write them anew: weir figures FILE\n")?;
    }
    Ok(if differ { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How a command is told to write into a file.
const INTO: &str = "-o";

/// A command and the file that its figure is, where it is one.
fn with_file(command: &str) -> (String, Option<PathBuf>) {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.iter().position(|word| *word == INTO) {
        Some(at) if at + 1 < words.len() => {
            ([&words[..at], &words[at + 2..]].concat().join(" "), Some(PathBuf::from(words[at + 1])))
        }
        _ => (command.to_owned(), None),
    }
}

/// One figure of a document.
#[derive(Debug, PartialEq, Eq)]
struct Figure {
    /// Line of its comment, from 1.
    line: usize,
    /// What prints it, without the program's name.
    command: String,
    /// Whether the document, or the file, has something else.
    differs: bool,
    /// The file that it is, and what it should hold.
    file: Option<(PathBuf, String)>,
}

impl Figure {
    /// A figure that is a file of its own.
    fn in_file(line: usize, command: String, path: PathBuf, printed: String) -> Self {
        let differs = std::fs::read_to_string(&path).ok().as_ref() != Some(&printed);
        Self { line, command, differs, file: Some((path, printed)) }
    }

    /// Writes it, if it is a file and differs.
    fn write(&self) -> Result<(), BadUse> {
        match &self.file {
            Some((path, printed)) if self.differs => std::fs::write(path, printed)
                .map_err(|error| BadUse::new(format!("{}: {error}", path.display()))),
            _ => Ok(()),
        }
    }
}

/// A document with its figures as `print` gives them, and what they are.
fn renewed(
    text: &str,
    file: &Path,
    print: &dyn Fn(&str) -> Result<String, BadUse>,
) -> Result<(String, Vec<Figure>), BadUse> {
    let mut lines = text.lines().enumerate();
    let (mut renewed, mut figures) = (String::new(), Vec::new());
    let mut keep = |line: &str| renewed.push_str(&format!("{line}\n"));
    while let Some((number, line)) = lines.next() {
        keep(line);
        let Some(command) = line.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)) else {
            continue;
        };
        let command = command.trim().to_owned();
        let wrong = |why: &str| BadUse::new(format!("{}:{}: {why}", file.display(), number + 1));
        if let (command, Some(path)) = with_file(&command) {
            let printed = print(&command).map_err(|error| wrong(&error.to_string()))?;
            figures.push(Figure::in_file(number + 1, command, path, printed));
            continue;
        }
        let is_markdown = command.split_whitespace().any(|word| MARKDOWN.contains(&word));
        let last = if is_markdown { MARKDOWN_END } else { FENCE };
        if !is_markdown {
            let fence = lines.next().map(|(_, line)| line).filter(|line| line.starts_with(FENCE));
            keep(
                fence.ok_or_else(|| {
                    wrong("below a figure's comment stands its block, which begins with ```")
                })?,
            );
        }
        let mut there = String::new();
        loop {
            let no_end = || wrong(&format!("the figure's block has no end, a line {last}"));
            let (_, line) = lines.next().ok_or_else(no_end)?;
            if line.starts_with(last) {
                break;
            }
            there.push_str(&format!("{line}\n"));
        }
        let printed = print(&command).map_err(|error| wrong(&error.to_string()))?;
        let printed = format!("{}\n", printed.trim_end());
        keep(printed.trim_end_matches('\n'));
        keep(last);
        figures.push(Figure { line: number + 1, command, differs: there != printed, file: None });
    }
    Ok((renewed, figures))
}

/// What a command of this program prints.
fn printed(command: &str) -> Result<String, BadUse> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let line = words.join(" ");
    if !READERS.iter().any(|reader| line == *reader || line.starts_with(&format!("{reader} "))) {
        return Err(BadUse::new(format!(
            "`weir {command}` makes no figure; there are {}",
            READERS.join(", ")
        )));
    }
    let program = std::env::current_exe().map_err(BadUse::new)?;
    let output = Command::new(program)
        .args(&words)
        .env("COLUMNS", COLUMNS)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(BadUse::new)?;
    if output.status.code().is_none_or(|code| code > 1) {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(BadUse::new(format!("`weir {command}`: {}", said.trim())));
    }
    String::from_utf8(output.stdout).map_err(BadUse::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(command: &str) -> Result<String, BadUse> {
        Ok(format!("what {command} says\n\n"))
    }

    const DOCUMENT: &str =
        "# Speed\n\n<!-- weir show a.json -->\n```\ntyped: 5 Mpps\n```\n\nText.\n\n```sh\nweir bench\n```\n";

    #[test]
    fn a_typed_figure_is_found_and_written_anew_and_the_rest_stays() {
        let (renewed, figures) = super::renewed(DOCUMENT, Path::new("a.md"), &say).unwrap();
        assert_eq!(figures.len(), 1);
        assert_eq!((figures[0].line, figures[0].differs), (3, true));
        assert_eq!(renewed, DOCUMENT.replace("typed: 5 Mpps", "what show a.json says"));
        let (again, figures) = super::renewed(&renewed, Path::new("a.md"), &say).unwrap();
        assert_eq!((again.as_str(), figures[0].differs), (renewed.as_str(), false));
    }

    #[test]
    fn what_is_markdown_stands_as_it_is_up_to_its_end() {
        let text = "<!-- weir perf --stored a.json --markdown -->\n| old |\n<!-- end -->\nText.\n";
        let (renewed, figures) = super::renewed(text, Path::new("a.md"), &say).unwrap();
        assert!(figures[0].differs);
        assert_eq!(renewed, text.replace("| old |", "what perf --stored a.json --markdown says"));
        let no_end = text.replace("<!-- end -->\n", "");
        let error = super::renewed(&no_end, Path::new("a.md"), &say).unwrap_err().to_string();
        assert!(error.contains("a line <!-- end -->"), "{error}");
        let error = printed("perf --quick").unwrap_err().to_string();
        assert!(error.contains("`weir perf --quick` makes no figure"), "{error}");
    }

    #[test]
    fn a_figure_in_a_file_is_compared_with_it_and_written_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        let text = format!("<!-- weir plot a.json --id x -o {} -->\n![x](a.svg)\n", path.display());
        let (renewed, figures) = super::renewed(&text, Path::new("a.md"), &say).unwrap();
        assert_eq!(renewed, text);
        assert!(figures[0].differs, "there is no such file yet");
        figures[0].write().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "what plot a.json --id x says\n\n");
        let (_, figures) = super::renewed(&text, Path::new("a.md"), &say).unwrap();
        assert!(!figures[0].differs);
    }

    #[test]
    fn a_figure_without_its_block_is_told_by_its_line() {
        for text in ["x\n<!-- weir show a.json -->\ntext\n", "x\n<!-- weir show a.json -->\n```\nno end\n"] {
            let error = super::renewed(text, Path::new("a.md"), &say).unwrap_err().to_string();
            assert!(error.starts_with("a.md:2: "), "{error}");
        }
        let error = printed("bench quick").unwrap_err().to_string();
        assert!(error.contains("makes no figure; there are show"), "{error}");
    }
}

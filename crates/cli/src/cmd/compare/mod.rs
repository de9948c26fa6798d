//! `weir compare`: two runs, or two devices, the way a careful engineer compares them.

mod page;
mod text;

pub(super) use page::ratios;

use super::BadUse;
use super::stored::{Database, names_a_file};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use text::{Form, text};
use weir_methods::compare::{Side, compare, fault};
use weir_store::Selector;
use weir_trial::run::Run;
use weir_units::Ratio;

const LONG_ABOUT: &str = "\
Compare two runs, or two devices: first what differs between their environments, plans and devices \
and what of it can explain a gap; then every quantity of every point as the ratio B/A with its 95 % \
interval from the raw trials.

A side is a run (a name, the beginning of one, a number, @last, @last~1, a bundle), or one device of it: \
RUN/DEVICE. Points are matched by network function, device, wiring, trace, size, directions and huge \
pages; where a device is named, by all of these but the device.

A winner is named only where the gap is beyond chance (Yuen's t on logarithms, Holm's procedure over \
all rows) and both numbers may be ranked: irregular results never are. One search on a side has \
bounds but no known scatter, so it has no winner: measure with --repeats 3 or more. \
docs/comparing.md says why, with sources.

With --bound, the exit code is 1 when B is worse than A by more than the bound anywhere with the \
whole interval, when B failed at a point that A measured, or when nothing at all could be judged.";

const EXAMPLES: &str = "\
Examples:
  The last run against the one before:
    weir compare @last~1 @last
  Two devices of one run:
    weir compare @last/nf @last/testpmd
  In a pipeline, against a kept run, no more than 3 % worse:
    weir compare baseline @last --bound 3% --markdown > summary.md

Exit codes: 0 compared, and the bound, if any, is not broken; 1 the bound is broken, or nothing \
could be judged by it; 2 bad use.";

/// Compare two runs or devices: environments first, then ratios with their intervals
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The side that is compared with: RUN or RUN/DEVICE
    #[arg(value_name = "A", default_value = "@last~1")]
    a: Which,
    /// The side that is compared: RUN or RUN/DEVICE
    #[arg(value_name = "B", default_value = "@last")]
    b: Which,
    /// How much worse B may be than A, for example 3%
    #[arg(long, value_name = "SHARE")]
    bound: Option<Ratio>,
    /// Print GitHub's Markdown
    #[arg(long)]
    markdown: bool,
    /// Print everything as JSON; `weir schema compare` describes it
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// A side as people type it: `RUN` or `RUN/DEVICE`.
#[derive(Clone, Debug, PartialEq)]
struct Which {
    run: Selector,
    dut: Option<String>,
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (run, dut) = match split(text) {
            Some((run, dut)) => (run, Some(dut)),
            None => (text, None),
        };
        if dut.is_some_and(str::is_empty) {
            return Err(format!("`{text}` names no device after the slash; write {run}/nf, or {run} alone"));
        }
        let run = run.parse().map_err(|error: weir_store::ParseSelectorError| error.to_string())?;
        Ok(Self { run, dut: dut.map(str::to_owned) })
    }
}

/// The run and its device. The path of a file has slashes of its own.
fn split(text: &str) -> Option<(&str, &str)> {
    if Path::new(text).is_file() {
        return None;
    }
    let mut sides = text.match_indices('/').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let of_file = sides.find(|(run, _)| Path::new(run).is_file());
    // No run has a slash in its name: what ends as a file or begins as a path is the path of one that is not there.
    let rooted = text.starts_with('/') && text.matches('/').count() > 1;
    let is_path = rooted || names_a_file(text) || ["./", "../"].iter().any(|here| text.starts_with(here));
    of_file.or_else(|| text.split_once('/').filter(|_| !is_path))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let a = args.database.load(&args.a.run)?;
    let b = args.database.load(&args.b.run)?;
    let sides = [Side { run: &a, dut: args.a.dut.as_deref() }, Side { run: &b, dut: args.b.dut.as_deref() }];
    if let Some(fault) = fault(sides[0], sides[1]) {
        return Err(BadUse::new(fault).into());
    }
    let comparison = compare(sides[0], sides[1], args.bound);
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&comparison)?)
    } else {
        text(&comparison, if args.markdown { Form::Markdown } else { Form::Terminal })
    };
    super::print(&text)?;
    let judged = comparison.bound.is_none() || comparison.is_decided();
    Ok(if judged && !comparison.is_broken() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Two devices of one run compared: what `weir bench --against` ends with.
pub(super) fn devices(run: &Run, a: &str, b: &str) -> String {
    text(&compare(Side { run, dut: Some(a) }, Side { run, dut: Some(b) }, None), Form::Terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_run_or_a_device_of_it() {
        let which = |text: &str| text.parse::<Which>();
        assert_eq!(which("@last~1"), Ok(Which { run: Selector::Last(1), dut: None }));
        assert_eq!(which("7/nf"), Ok(Which { run: Selector::Number(7), dut: Some("nf".to_owned()) }));
        assert!(which("otter/").unwrap_err().contains("otter/nf"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let run: Selector = path.parse().unwrap();
        assert_eq!(which(path), Ok(Which { run: run.clone(), dut: None }));
        assert_eq!(which(&format!("{path}/nf")), Ok(Which { run, dut: Some("nf".to_owned()) }));
        assert!(which("/nf").unwrap_err().contains("@last"));
        for gone in ["there/is none.weir", "../none", "/tmp/none", "there/none.json"] {
            let run = gone.parse().unwrap();
            assert_eq!(which(gone), Ok(Which { run, dut: None }), "the path of a file that is not there");
        }
    }
}

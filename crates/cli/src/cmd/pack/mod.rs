//! `weir pack`: runs as a folder for a paper's reviewers, and such a folder checked.
//!
//! `folder` says what is in it, `text` what is written for people and the two scripts, `inputs` which files a plan names,
//! `short` how a plan is cut down. `check` looks at a folder that somebody made: `sums` at its files, then at its bundles,
//! and `again` measures once more in a clean place and compares.

mod again;
mod check;
mod folder;
mod inputs;
mod short;
mod sums;
mod text;

use super::BadUse;
use super::stored::Database;
pub(super) use folder::Manifest;
use folder::{Pack, Packed};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_store::Selector;
use weir_store::bundle::SigningKey;
use weir_units::Ratio;

const LONG_ABOUT: &str = "\
Make a folder of runs for the reviewers of a paper: bundles, plans, figures and page of each run, the environments, \
checksums, a script that measures everything again (rerun.sh), one that compares (compare.sh), and a README that says \
how. The same runs give the same folder, to the byte.

A run that is not there, is being measured, or does not follow from its trials (`weir verify`) is refused, and so is a \
folder that exists.

--check looks at such a folder: every checksum, every hash of every bundle, every result derived again, every figure \
drawn again; then it runs both scripts on a copy, in an empty folder with an empty home and none of your databases, and \
says for each run which quantities agree. --short measures with fewer and shorter trials; --files measures nothing. \
Numbers of another machine differ, so a difference alone is no failure: --bound says how much worse they may be.

Scripts are run only if they are what this Weir writes: those of somebody else are yours to read and to start.

Run it in an isolated lab only: RFC 6815 keeps tests of this kind off production networks.";

const EXAMPLES: &str = "\
Examples:
  For the reviewers, of two runs:
    weir pack @last~1 @last -o artifact
  What the reviewer does, in a few minutes:
    weir pack --check artifact --short

Exit codes: 0 packed, or all of it holds; 1 something of the pack does not hold, a script failed, a point that was \
measured failed now, or --bound is broken; 2 bad use.";

/// Make a folder of runs for a paper's reviewers, or check one
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs: a name, the beginning of one, a number, @last, @last~1, or a bundle
    #[arg(value_name = "RUN", required_unless_present = "check")]
    runs: Vec<Selector>,
    /// The folder to make, which must not exist
    #[arg(short, long, value_name = "FOLDER", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Sign the bundles with this private key (PEM)
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Check this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["runs", "output", "sign", "db"])]
    check: Option<PathBuf>,
    /// Measure with fewer and shorter trials
    #[arg(long, requires = "check")]
    short: bool,
    /// Look at the files alone, and measure nothing
    #[arg(long, requires = "check", conflicts_with_all = ["short", "bound"])]
    files: bool,
    /// How much worse the numbers may be than the packed ones, for example 5%
    #[arg(long, value_name = "SHARE", requires = "check")]
    bound: Option<Ratio>,
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match (&args.check, &args.output) {
        (Some(folder), _) => {
            let how = check::How { files: args.files, short: args.short, bound: args.bound };
            check::check(folder, &how)
        }
        (None, Some(folder)) => made(&args, folder),
        (None, None) => Err(BadUse::new("name the folder to make with -o").into()),
    }
}

fn made(args: &Args, folder: &Path) -> anyhow::Result<ExitCode> {
    if folder.symlink_metadata().is_ok() {
        let why = format!("{}: it is there already; name a folder that is not", folder.display());
        return Err(BadUse::new(why).into());
    }
    let key = args.sign.as_deref().map(SigningKey::read).transpose().map_err(BadUse::new)?;
    let mut packed: Vec<Packed> = Vec::new();
    for selector in &args.runs {
        let next = Packed::of(&args.database, selector, key.as_ref(), &packed)?;
        packed.push(next);
    }
    let pack = Pack::of(&packed)?;
    pack.write(folder)?;
    super::print(&told(&pack, &packed, folder))?;
    Ok(ExitCode::SUCCESS)
}

fn told(pack: &Pack, packed: &[Packed], folder: &Path) -> String {
    let (runs, s) = (packed.len(), if packed.len() == 1 { "" } else { "s" });
    let mut text = format!("packed {runs} run{s} into {}, {} files\n", folder.display(), pack.files.len());
    for run in packed {
        text.push_str(&format!("  {}  {}\n", run.head.name, run.head.address));
        for input in run.head.inputs.iter().filter(|input| !input.packed) {
            text.push_str(&format!("note: {} is not in it: {}\n", input.path, input.why));
        }
    }
    text.push_str(&format!("\nNext: weir pack --check {} --short\n", folder.display()));
    text
}

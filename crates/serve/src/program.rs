//! What the command line knows and this crate does not.

use std::io::BufRead;
use std::path::Path;
use weir_methods::history::Series;
use weir_report::{Ratios, Trend};
use weir_store::Origin;
use weir_trial::run::{Point, PointResult, Run};

/// The program that serves: pages and commands say the same, because the same code says it.
pub trait Program: Send + Sync + 'static {
    /// Weir's version and commit.
    fn version(&self) -> String;

    /// A verdict in a line, as `weir show` has it.
    fn verdict(&self, point: &Point, result: &PointResult) -> String;

    /// One row a trial, as `weir export --csv` writes it; or why not.
    fn csv(&self, run: &Run) -> Result<String, String>;

    /// A bundle, as `weir export --bundle` writes it, with the signature that it came with; or why not.
    fn bundle(&self, run: Run, origin: Option<Origin>) -> Result<Vec<u8>, String>;

    /// The comparisons of a run's page, as `weir report` draws them: of a run with `--against` its two devices.
    fn ratios(&self, runs: &[Run]) -> Vec<Ratios>;

    /// A bundle that somebody pushes, verified as `weir import` verifies; or why it is refused.
    fn admit(&self, bundle: &mut dyn BufRead) -> Result<Admitted, String>;

    /// A series as a plot, as `weir history -o` draws it.
    fn trend(&self, series: &Series) -> Trend;

    /// A drawing (SVG) as another program makes it, `pdf` or `png`, as `weir plot` writes it; or why not.
    fn made(&self, svg: &str, ending: &str) -> Result<Vec<u8>, String>;

    /// The JSON Schema of plans.
    fn plan_schema(&self) -> serde_json::Value;

    /// The plans that come with Weir.
    fn plans(&self) -> Vec<PlanText>;

    /// A plan looked at, as `weir plan check` looks at a file in this folder.
    fn check(&self, plan: &str, folder: &Path) -> Checked;

    /// ` --db FILE`, quoted for a shell, for commands that are suggested; empty for the usual database.
    fn db_flag(&self) -> String;
}

/// A bundle that was verified.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Its run.
    pub run: Run,
    /// Where it came from.
    pub origin: Origin,
    /// What it unpacks to.
    pub bytes: u64,
}

/// A plan that comes with Weir.
#[derive(Clone, Debug)]
pub struct PlanText {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// The TOML.
    pub text: String,
}

/// What `weir plan check` says of a plan.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Whether it can be measured.
    pub good: bool,
    /// All that is said, for people.
    pub text: String,
    /// Mistakes: the line, from 1, and what is wrong there.
    pub places: Vec<(usize, String)>,
}

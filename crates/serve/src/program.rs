//! What the command line knows and this crate does not.

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

    /// ` --db FILE`, quoted for a shell, for commands that are suggested; empty for the usual database.
    fn db_flag(&self) -> String;
}

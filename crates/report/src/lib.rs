//! A run as a page: one self-contained HTML file with findings in words, plots, and the table behind
//! each plot.
//!
//! [`render`] draws any number of stored runs. Everything is in the file: it opens from a disk
//! without a network, and reads, switches units and prints with scripts off; the script only adds
//! better tooltips, keys and a remembered unit. Nothing is left out: what failed, what is irregular
//! and what the tester rather than the device limited is marked where its number would stand.
//!
//! - `digest`: the runs sorted by network function, device and goal.
//! - [`figure`]: a plot apart from its drawing; `svg` draws it, `table` holds its numbers.
//! - [`exhibits`]: the plots and tables one by one, as SVG, PGF, Markdown, CSV or LaTeX (`pgf`).
//! - [`Trend`]: one quantity over time.
//! - [`Around`]: what a site that shows the page adds to it.
//! - `sections`, `findings`, `head`: the parts of the page; `page` puts them together.
//!
//! Pure: no clock, no file, no network. All text of a run is escaped (the templates see to it), and letters of it that do something
//! to a reader are written out ([`shown()`]).
//! Cost: some milliseconds and about 15 kB a point.

mod around;
mod cautions;
mod digest;
mod exhibit;
pub mod figure;
mod findings;
mod head;
mod page;
mod pgf;
mod ratios;
mod scale;
mod sections;
mod shell;
mod shown;
mod svg;
mod table;
mod trend;
mod units;

pub use around::{Around, Foot, style};
pub use exhibit::{Exhibit, Form, exhibits};
pub use ratios::{Ratio, Ratios};
pub use scale::Spacing;
pub use shell::shell_word;
pub use shown::{is_hostile, shown, write_out};
pub use trend::{Level, Trend, TrendValue};

use weir_trial::run::Run;

/// How a page is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageOptions {
    /// Heading of the page; the names of the runs where none is given.
    pub title: Option<String>,
    /// When the page is made, milliseconds since 1970-01-01 UTC; not stated where none is given.
    pub made_ms: Option<i64>,
    /// Devices of a run, or runs, compared with each other.
    pub ratios: Vec<Ratios>,
}

/// Draws runs as one HTML page. Several runs are compared in the same plots.
pub fn render(runs: &[Run], options: &PageOptions) -> String {
    render_within(runs, options, &Around::default())
}

/// Draws runs as a page of a site, which puts what it has around the page and under each plot and table.
pub fn render_within(runs: &[Run], options: &PageOptions, around: &Around<'_>) -> String {
    shown(page::page(&digest::Digest::new(runs), options, around).into_string())
}

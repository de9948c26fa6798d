//! A plot or a table of a page, on its own: for a paper, a document or a notebook.

use crate::digest::Digest;
use crate::figure::Figure;
use crate::pgf;
use crate::sections::{Part, SECTIONS};
use crate::svg::alone;
use crate::table::Table;
use weir_trial::run::Run;

/// One plot or one table of a page.
#[derive(Clone, Debug)]
pub struct Exhibit {
    what: What,
    /// The runs it was made from, with Weir's version.
    provenance: String,
}

#[derive(Clone, Debug)]
enum What {
    Plot(Box<Figure>),
    Table(Table),
}

/// A form in which an exhibit can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A drawing (SVG 1.1): plots.
    Svg,
    /// A `tikzpicture` of the package pgfplots: plots.
    Pgf,
    /// A pipe table: tables.
    Markdown,
    /// Base units, RFC 4180: tables.
    Csv,
    /// A `tabular` of the package booktabs: tables.
    Latex,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Svg, Self::Pgf, Self::Markdown, Self::Csv, Self::Latex];
    /// Those of plots.
    pub(crate) const OF_PLOTS: [Self; 2] = [Self::Svg, Self::Pgf];
    /// Those of tables.
    pub(crate) const OF_TABLES: [Self; 3] = [Self::Markdown, Self::Csv, Self::Latex];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Pgf => "pgf",
            Self::Markdown => "markdown",
            Self::Csv => "csv",
            Self::Latex => "latex",
        }
    }

    /// The ending of its files.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Pgf => "pgf",
            Self::Markdown => "md",
            Self::Csv => "csv",
            Self::Latex => "tex",
        }
    }
}

impl Exhibit {
    /// Its name, unique among those of the same runs: letters, digits and hyphens.
    pub fn id(&self) -> &str {
        match &self.what {
            What::Plot(figure) => &figure.id,
            What::Table(table) => &table.id,
        }
    }

    /// What it shows.
    pub fn title(&self) -> &str {
        match &self.what {
            What::Plot(figure) => &figure.title,
            What::Table(table) => &table.caption,
        }
    }

    /// The forms in which it can be written, the usual one first.
    pub fn forms(&self) -> &'static [Form] {
        match &self.what {
            What::Plot(_) => &Form::OF_PLOTS,
            What::Table(_) => &Form::OF_TABLES,
        }
    }

    /// It in this form; nothing where it has no such form.
    pub fn written(&self, form: Form) -> Option<String> {
        match (&self.what, form) {
            (What::Plot(figure), Form::Svg) => Some(alone::svg(figure)),
            (What::Plot(figure), Form::Pgf) => Some(pgf::pgf(figure)),
            (What::Table(table), Form::Markdown) => Some(table.markdown(&self.provenance)),
            (What::Table(table), Form::Csv) => Some(table.csv()),
            (What::Table(table), Form::Latex) => Some(table.latex(&self.provenance)),
            _ => None,
        }
    }
}

/// All plots and tables of the page that [`crate::render`] makes of these runs, in its order.
pub fn exhibits(runs: &[Run]) -> Vec<Exhibit> {
    let digest = Digest::new(runs);
    let of = |part: Part| match part {
        Part::Text(_) => Vec::new(),
        Part::Table(table) => vec![What::Table(table)],
        Part::Plot { figure, tables } => {
            std::iter::once(What::Plot(Box::new(figure))).chain(tables.into_iter().map(What::Table)).collect()
        }
        Part::Folded(folded) => vec![What::Plot(Box::new(folded.figure))],
    };
    let parts = SECTIONS.iter().flat_map(|section| (section.parts)(&digest));
    parts.flat_map(of).map(|what| Exhibit { what, provenance: digest.provenance.clone() }).collect()
}

//! A figure, apart from any way of drawing it: what is shown, in which units, from which runs.
//!
//! The page's plots are written from these by the crate's SVG writer; another writer (for a paper, for the
//! web) would start here too, so that all show the same.

use crate::scale::Spacing;
use weir_units::Bps;

/// One plot with all that is needed to draw and to understand it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Unique in its page; letters, digits and hyphens.
    pub id: String,
    /// A short heading.
    pub title: String,
    /// How to read it: what a mark, a bar and a line stand for.
    pub caption: String,
    /// The runs it was drawn from, with Weir's version.
    pub provenance: String,
    /// What is drawn.
    pub plot: Plot,
}

/// The kinds of plots.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Marks over two axes, joined by lines.
    Lines(Lines),
    /// Stacked bars of shares of a whole.
    Bars(Bars),
}

/// Marks over two axes, joined by lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Across.
    pub x: Axis,
    /// Upward.
    pub y: Axis,
    /// Theoretical lines over frame size; only for [`Quantity::Rate`] over [`Quantity::FrameBytes`].
    pub limits: Vec<Limit>,
    /// Places across that are worth a line and a name.
    pub markers: Vec<Marker>,
    /// What was measured.
    pub series: Vec<Series>,
}

impl Lines {
    /// Whether every series has one frame size: nothing is joined then, and each is drawn in a row with its name.
    pub(crate) fn is_by_row(&self) -> bool {
        self.x.quantity == Quantity::FrameBytes
            && self.y.spacing == Spacing::Linear
            && self.markers.is_empty()
            && self.series.len() > 1
            && self.series.iter().all(|series| series.samples.len() == 1)
    }

    /// The frame size that all samples have, in bytes and by name; nothing where they differ.
    pub(crate) fn one_size(&self) -> Option<(f64, String)> {
        let mut sizes = self.series.iter().flat_map(|series| &series.samples).map(Sample::size);
        let first = sizes.next()?;
        sizes.all(|size| size == first).then_some(first)
    }
}

/// A place across, drawn as a labelled vertical line.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// Across.
    pub x: f64,
    /// Its name.
    pub label: String,
    /// The series it belongs to, by its place: it has its colour, and is hidden with it.
    pub series: usize,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, without the unit.
    pub label: String,
    /// What its values count, hence their unit.
    pub quantity: Quantity,
    /// How it divides its length.
    pub spacing: Spacing,
}

/// What the values of an axis count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Frame size in bytes, FCS included.
    FrameBytes,
    /// Packets a second; the reader may see bits instead.
    Rate,
    /// Nanoseconds.
    Time,
    /// One over the share of packets that took longer: 100 is the 99th percentile.
    Tail,
    /// TSC cycles per packet.
    Cycles,
    /// Packets a second across, always as such.
    Load,
    /// A share of a whole, in per cent.
    Share,
    /// A number whose unit stands in the label.
    Plain,
    /// A place in a row, from 1; only what has a name is named.
    Place,
}

/// What the wire can carry at most, over all directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Its name in the legend.
    pub label: String,
    /// Bits a second on the wire, overhead included.
    pub wire: Bps,
}

/// What belongs together: one device, one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Colour and shape of its marks: the same number is the same device in every figure.
    pub hue: usize,
    /// Stroke of its line: 0 is solid.
    pub stroke: usize,
    /// Whether single samples are marked; a dense curve is not.
    pub marks: bool,
    /// In rising order of x.
    pub samples: Vec<Sample>,
}

/// One mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Across.
    pub x: f64,
    /// The name of x where it is not its value: `imix`.
    pub x_name: Option<String>,
    /// Upward; nothing where nothing could be measured, which is marked on the axis.
    pub y: Option<f64>,
    /// Least and greatest of what y stands for.
    pub interval: Option<(f64, f64)>,
    /// Whether the reader must be warned of it; the detail says why.
    pub suspect: bool,
    /// Whether it is an estimate, no result: drawn hollow.
    pub hollow: bool,
    /// All about it, in words with units, one statement a line.
    pub detail: String,
}

impl Sample {
    /// Its place across as a frame size: bytes, and how it is named.
    pub(crate) fn size(&self) -> (f64, String) {
        (self.x, self.x_name.clone().unwrap_or_else(|| crate::units::bytes(self.x)))
    }
}

/// Stacked bars of shares of a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What the whole is.
    pub label: String,
    /// The names of the parts, in order.
    pub parts: Vec<String>,
    /// One bar each.
    pub bars: Vec<Bar>,
}

/// One stacked bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Beside the bar.
    pub label: String,
    /// Share of the whole of each part, 0 to 1; none of a heading.
    pub shares: Vec<f64>,
    /// All about it, one statement a line.
    pub detail: String,
}

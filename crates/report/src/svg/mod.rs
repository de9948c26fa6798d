//! Figures as SVG, inside the page or as files that stand alone (`alone`): no script, readable on paper.
//!
//! Colours are classes (`h0`…) that `style` fills for light, dark and print; each hue has
//! its own mark, so that nothing is told by colour alone. What a mark stands for is its `<title>`,
//! which browsers show and read out by themselves; the page's script only makes that prettier.

pub(crate) mod alone;
mod bars;
mod lines;
mod rows;
pub(crate) mod style;

pub(crate) use lines::{limit_at, tick_text};

use crate::figure::{Figure, Plot};
use crate::units::View;
use maud::{Markup, html};

/// Colours, and marks, before they repeat.
pub(crate) const HUES: usize = 8;
/// Kinds of strokes before they repeat.
pub(crate) const STROKES: usize = 4;

/// A drawing without what stands around it, and its width and height.
struct Drawing {
    size: (f64, f64),
    inside: Markup,
}

/// Draws a figure for the page: rates in every view, of which the page's style shows one.
pub(crate) fn draw(figure: &Figure) -> Markup {
    let drawing = drawing(figure, &View::ALL);
    let (width, height) = drawing.size;
    let (title, text) = (format!("{}-title", figure.id), format!("{}-desc", figure.id));
    html! {
        svg viewBox=(format!("0 0 {width} {height}")) role="img" tabindex="0"
            aria-labelledby=(title) aria-describedby=(text) {
            title id=(title) { (figure.title) }
            desc id=(text) { (figure.caption) }
            (drawing.inside)
        }
    }
}

fn drawing(figure: &Figure, views: &[View]) -> Drawing {
    match &figure.plot {
        Plot::Lines(plot) if plot.is_by_row() => rows::draw(plot, views),
        Plot::Lines(plot) => lines::draw(figure, plot, views),
        Plot::Bars(plot) => bars::draw(plot),
    }
}

/// The outline of a hue's mark around the origin.
pub(crate) fn mark(hue: usize) -> &'static str {
    match hue % HUES {
        0 => "M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z",
        1 => "M-4.2 -4.2H4.2V4.2H-4.2Z",
        2 => "M0 -5.4L5 3.8H-5Z",
        3 => "M0 -5.8L5.2 0L0 5.8L-5.2 0Z",
        4 => "M0 5.4L5 -3.8H-5Z",
        5 => "M-1.8 -5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5V-1.8H-1.8Z",
        6 => "M0 -5.6L1.5 -1.8L5.4 -1.7L2.3 .7L3.3 4.6L0 2.3L-3.3 4.6L-2.3 .7L-5.4 -1.7L-1.5 -1.8Z",
        _ => "M-5 0L-2.5 -4.4H2.5L5 0L2.5 4.4H-2.5Z",
    }
}

/// A place in the drawing, to a tenth of its unit.
fn at(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

//! Marks in rows, each under its name: what lines become where every series has one frame size.
//!
//! A plot of rates is drawn once for each [`View`], as lines are.

use super::lines::{FAR_ABOVE, tick_text};
use super::{Drawing, HUES, STROKES, at, mark};
use crate::figure::{Lines, Quantity, Sample, Series};
use crate::scale::{Scale, Spacing};
use crate::units::{RATE_UNITS, View};
use maud::{Markup, html};

const WIDTH: f64 = 700.0;
const LEFT: f64 = 14.0;
/// Values stand to the right of it.
const RIGHT: f64 = WIDTH - 84.0;
const TOP: f64 = 6.0;
const ROW: f64 = 42.0;
/// From the top of a row to the foot of its name, and to its mark.
const NAME: f64 = 15.0;
const MARK: f64 = 29.0;

/// The scale across, and the view its rates are in.
struct Ground {
    across: Scale,
    view: View,
    quantity: Quantity,
    bottom: f64,
}

impl Ground {
    fn new(plot: &Lines, view: View) -> Self {
        let quantity = plot.y.quantity;
        let greatest = plot.series.iter().flat_map(|series| &series.samples).flat_map(|sample| {
            let high = sample.interval.map(|(_, high)| high);
            [sample.y, high].into_iter().flatten().map(|value| shown(quantity, view, value, sample.x))
        });
        let greatest = greatest.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let limit = limit(plot, view).filter(|limit| *limit <= greatest * FAR_ABOVE).unwrap_or(0.0);
        let span = if greatest > 0.0 { greatest.max(limit) * 1.04 } else { 1.0 };
        Self {
            across: Scale::new(Spacing::Linear, (0.0, span), (LEFT, RIGHT)),
            view,
            quantity,
            bottom: TOP + ROW * plot.series.len() as f64,
        }
    }

    fn place(&self, value: f64, frame_bytes: f64) -> f64 {
        self.across.place(shown(self.quantity, self.view, value, frame_bytes).max(0.0))
    }

    /// A value of the axis, in each unit that the reader may choose.
    fn text(&self, value: f64) -> Markup {
        html! {
            @if self.quantity == Quantity::Rate {
                @for unit in RATE_UNITS.iter().filter(|unit| unit.view == self.view) {
                    tspan class=(unit.class()) { (unit.tick(value)) }
                }
            } @else { (tick_text(self.quantity, value)) }
        }
    }
}

fn shown(quantity: Quantity, view: View, value: f64, frame_bytes: f64) -> f64 {
    if quantity == Quantity::Rate { view.of(value, frame_bytes) } else { value }
}

/// What the wire carries of the one frame size that all rows have.
fn limit(plot: &Lines, view: View) -> Option<f64> {
    let (bytes, _) = plot.one_size()?;
    plot.limits.iter().map(|limit| limit.at(bytes, view)).reduce(f64::max)
}

/// Draws the plot, once a view where it shows rates.
pub(super) fn draw(plot: &Lines, views: &[View]) -> Drawing {
    let inside = if plot.y.quantity == Quantity::Rate {
        html! { @for view in views { g class=(view.class()) { (picture(plot, *view)) } } }
    } else {
        picture(plot, View::Packets)
    };
    Drawing { size: (WIDTH, TOP + ROW * plot.series.len() as f64 + 46.0), inside }
}

fn picture(plot: &Lines, view: View) -> Markup {
    let ground = Ground::new(plot, view);
    let one_size = plot.one_size();
    html! {
        @for tick in ground.across.ticks() {
            @let place = ground.across.place(tick);
            path class="grid" d=(format!("M{} {}V{}", at(place), at(TOP), at(ground.bottom))) {}
            text class="tick mid" x=(at(place)) y=(at(ground.bottom + 17.0)) { (ground.text(tick)) }
        }
        @if let Some(limit) = limit(plot, view).filter(|limit| *limit <= ground.across.greatest()) {
            path class="limit" d=(format!("M{} {}V{}", at(ground.across.place(limit)), at(TOP), at(ground.bottom))) {}
        }
        path class="base" d=(format!("M{} {}V{}", at(LEFT), at(TOP), at(ground.bottom))) {}
        @for (row, series) in plot.series.iter().enumerate() {
            (draw_row(series, row, one_size.is_none(), &ground))
        }
        text class="axis x-axis" x=(at((LEFT + RIGHT) / 2.0)) y=(at(ground.bottom + 38.0)) {
            (plot.y.label)
            @if ground.quantity == Quantity::Rate {
                " " (view.quantity()) ", "
                @for unit in RATE_UNITS.iter().filter(|unit| unit.view == view) {
                    tspan class=(unit.class()) { (unit.label) }
                }
            }
            @if let Some((_, name)) = &one_size { " (frames: " (name) ")" }
        }
    }
}

fn draw_row(series: &Series, row: usize, names_size: bool, ground: &Ground) -> Markup {
    let top = TOP + ROW * row as f64;
    let class = format!("series k{row} h{} d{}", series.hue % HUES, series.stroke % STROKES);
    html! {
        g class=(class) {
            @for sample in &series.samples {
                text class="tick" x=(at(LEFT + 8.0)) y=(at(top + NAME)) {
                    (series.label) @if names_size { " · " (sample.size().1) }
                }
                (draw_sample(sample, series.hue, top + MARK, ground))
            }
        }
    }
}

fn draw_sample(sample: &Sample, hue: usize, y: f64, ground: &Ground) -> Markup {
    let Some(value) = sample.y.filter(|value| value.is_finite()) else {
        return html! {
            path class="mark failed" transform=(format!("translate({} {})", at(LEFT + 14.0), at(y)))
                d="M-5 -5L5 5M-5 5L5 -5" { title { (sample.detail) } }
        };
    };
    let x = ground.place(value, sample.x);
    html! {
        path class="line" d=(format!("M{} {}H{}", at(LEFT), at(y), at(x))) {}
        @if let Some((low, high)) = sample.interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
            @let (low, high) = (ground.place(low, sample.x), ground.place(high, sample.x));
            path class="bar" d=(format!("M{low} {y}H{high}M{low} {t}v6M{high} {t}v6", low = at(low), high = at(high), y = at(y),
                t = at(y - 3.0))) {}
        }
        @if sample.suspect {
            circle class="suspect" cx=(at(x)) cy=(at(y)) r="8.5" {}
        }
        path class=(if sample.hollow { "mark hollow" } else { "mark" })
            transform=(format!("translate({} {})", at(x), at(y))) d=(mark(hue)) {
            title { (sample.detail) }
        }
        text class="tick end" x=(at(WIDTH - 4.0)) y=(at(y + 4.5)) {
            (ground.text(shown(ground.quantity, ground.view, value, sample.x)))
        }
    }
}

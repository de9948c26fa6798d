//! Marks over two axes, joined by lines.
//!
//! A plot of rates is drawn once for each [`View`] (packets, bits on layer 2, on layer 1), and the
//! page's style shows one of them.

use super::{Drawing, STROKES, at, mark};
use crate::figure::{Axis, Figure, Limit, Lines, Marker, Quantity, Sample, Series};
use crate::scale::{Scale, Spacing};
use crate::units::{RATE_UNITS, View, trimmed};
use maud::{Markup, html};
use weir_units::{Nanos, Pps, WIRE_OVERHEAD_BYTES};

const WIDTH: f64 = 700.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 26.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 66.0;
/// Half the width of a letter of a tick's text.
const HALF_LETTER: f64 = 4.2;
/// Greatest share on an axis of shares that are all zero.
const LEAST_SHARE: f64 = 0.001;
/// Height of a marker's label.
const LABEL: f64 = 15.0;
/// A theoretical line this many times above what was measured does not stretch the axis to itself.
pub(super) const FAR_ABOVE: f64 = 1.6;

/// The two scales of a drawing, and the view its rates are in.
struct Ground {
    x: Scale,
    y: Scale,
    view: View,
    rate: bool,
}

impl Ground {
    fn new(plot: &Lines, view: View) -> Self {
        let rate = plot.y.quantity == Quantity::Rate;
        let samples = || plot.series.iter().flat_map(|series| &series.samples);
        let y_of = |x: f64, y: f64| if rate { view.of(y, x) } else { y };
        let (x_low, x_high) = span(samples().map(|sample| sample.x));
        let x_span = match plot.x.quantity {
            Quantity::Tail => (1.0, x_high.max(10.0)),
            _ if plot.x.spacing == Spacing::Linear => (0.0, x_high * 1.03),
            _ => (x_low / 1.07, x_high * 1.07),
        };
        let heights = samples().flat_map(|sample| {
            let (low, high) = sample.interval.unzip();
            [low, sample.y, high].into_iter().flatten().map(move |y| y_of(sample.x, y))
        });
        let mut heights = heights.filter(|y| *y > 0.0).peekable();
        // Where nothing was lost, an axis up to 100 % would be mostly empty.
        let nothing = plot.y.quantity == Quantity::Share && heights.peek().is_none();
        let (y_low, y_high) = if nothing { (0.0, LEAST_SHARE) } else { span(heights) };
        let line_high = plot.limits.iter().map(|limit| limit.at(x_low, view)).fold(0.0, f64::max);
        let y_span = match plot.y.spacing {
            Spacing::Log => (y_low / 1.25, y_high * 1.25),
            Spacing::Linear if line_high <= y_high * FAR_ABOVE => (0.0, y_high.max(line_high) * 1.06),
            Spacing::Linear => (0.0, y_high * 1.08),
        };
        Self {
            x: Scale::new(plot.x.spacing, x_span, (LEFT, RIGHT)),
            y: Scale::new(plot.y.spacing, y_span, (BOTTOM, TOP)),
            view,
            rate,
        }
    }

    fn y_of(&self, sample_x: f64, y: f64) -> f64 {
        let value = if self.rate { self.view.of(y, sample_x) } else { y };
        self.y.place(value.max(self.y.least()))
    }
}

impl Limit {
    /// The line's height over a mean frame size.
    pub(super) fn at(&self, mean_frame_bytes: f64, view: View) -> f64 {
        let pps = self.wire.0 / (8.0 * (mean_frame_bytes + f64::from(WIRE_OVERHEAD_BYTES)));
        view.of(pps, mean_frame_bytes)
    }
}

/// A theoretical line's packets a second over a mean frame size.
pub(crate) fn limit_at(limit: &Limit, mean_frame_bytes: f64) -> f64 {
    limit.at(mean_frame_bytes, View::Packets)
}

/// Least and greatest; a harmless span where there is nothing.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low.is_finite() && high > 0.0 { (low.max(f64::MIN_POSITIVE), high) } else { (0.9, 1.0) }
}

/// Draws the plot, once a view where it shows rates.
pub(super) fn draw(figure: &Figure, plot: &Lines, views: &[View]) -> Drawing {
    let plot = &drawable(plot);
    let inside = if plot.y.quantity == Quantity::Rate {
        html! { @for view in views { g class=(view.class()) { (picture(figure, plot, *view)) } } }
    } else {
        picture(figure, plot, View::Packets)
    };
    Drawing { size: (WIDTH, HEIGHT), inside }
}

/// The plot without numbers that have no place: a mark without a finite height stands on the axis.
fn drawable(plot: &Lines) -> Lines {
    let mut plot = plot.clone();
    for series in &mut plot.series {
        series.samples.retain(|sample| sample.x.is_finite() && sample.x > 0.0);
        for sample in &mut series.samples {
            sample.y = sample.y.filter(|y| y.is_finite());
            sample.interval = sample.interval.filter(|(low, high)| low.is_finite() && high.is_finite());
        }
    }
    plot
}

fn picture(figure: &Figure, plot: &Lines, view: View) -> Markup {
    let ground = Ground::new(plot, view);
    let clip = format!("{}-clip-{}", figure.id, view as u8);
    html! {
        clipPath id=(clip) {
            rect x=(at(LEFT)) y=(at(TOP - 8.0)) width=(at(RIGHT - LEFT)) height=(at(BOTTOM - TOP + 8.0)) {}
        }
        (y_axis(&plot.y, &ground))
        (x_axis(plot, &ground))
        @for limit in &plot.limits {
            path class="limit" clip-path=(format!("url(#{clip})")) d=(limit_path(limit, &ground)) {}
        }
        @for (row, marker) in plot.markers.iter().enumerate() {
            (draw_marker(marker, row, plot, &ground))
        }
        @for (index, series) in plot.series.iter().enumerate() {
            (draw_series(series, index, plot, &ground))
        }
    }
}

/// A vertical line with its name beside it, one below the other, on the side with more room.
fn draw_marker(marker: &Marker, row: usize, plot: &Lines, ground: &Ground) -> Markup {
    let place = ground.x.place(marker.x);
    let hue = plot.series.get(marker.series).map_or(0, |series| series.hue);
    let (anchor, aside) = if place > (LEFT + RIGHT) / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
    html! {
        g class=(format!("marker k{} h{}", marker.series, hue % super::HUES)) {
            path d=(format!("M{} {}V{}", at(place), at(TOP), at(BOTTOM))) {}
            text text-anchor=(anchor) x=(at(place + aside)) y=(at(TOP + 12.0 + LABEL * row as f64)) { (marker.label) }
        }
    }
}

fn y_axis(axis: &Axis, ground: &Ground) -> Markup {
    let middle = (TOP + BOTTOM) / 2.0;
    html! {
        @for tick in ground.y.ticks() {
            @let place = ground.y.place(tick);
            path class="grid" d=(format!("M{} {}H{}", at(LEFT), at(place), at(RIGHT))) {}
            text class="tick end" x=(at(LEFT - 8.0)) y=(at(place + 4.5)) {
                @if ground.rate {
                    @for unit in RATE_UNITS.iter().filter(|unit| unit.view == ground.view) {
                        tspan class=(unit.class()) { (unit.tick(tick)) }
                    }
                } @else { (tick_text(axis.quantity, tick)) }
            }
        }
        text class="axis y-axis" transform=(format!("translate(15 {}) rotate(-90)", at(middle))) {
            @if ground.rate {
                (axis.label) " " (ground.view.quantity()) ", "
                @for unit in RATE_UNITS.iter().filter(|unit| unit.view == ground.view) {
                    tspan class=(unit.class()) { (unit.label) }
                }
            } @else { (axis.label) }
        }
    }
}

fn x_axis(plot: &Lines, ground: &Ground) -> Markup {
    let mut ticks: Vec<(f64, Option<String>)> = match plot.x.quantity {
        Quantity::FrameBytes => plot
            .series
            .iter()
            .flat_map(|series| &series.samples)
            .map(|sample| (sample.x, sample.x_name.clone()))
            .collect(),
        Quantity::Place => {
            let samples = plot.series.iter().flat_map(|series| &series.samples);
            samples.filter(|sample| sample.x_name.is_some()).map(|s| (s.x, s.x_name.clone())).collect()
        }
        // The median has no place among powers of ten, and is what people look for.
        Quantity::Tail => (0..12)
            .map(|nines| 10_f64.powi(nines))
            .take_while(|tick| *tick <= ground.x.greatest() * 1.001)
            .chain([2.0])
            .map(|tick| (tick, None))
            .collect(),
        _ => ground.x.ticks().into_iter().map(|tick| (tick, None)).collect(),
    };
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    ticks.dedup();
    // Names stand in the second row, and there also a number that has no room beside its neighbour.
    let mut free = [f64::NEG_INFINITY; 2];
    let places: Vec<_> = ticks
        .iter()
        .map(|(tick, name)| {
            let place = ground.x.place(*tick);
            let text = name.clone().unwrap_or_else(|| tick_text(plot.x.quantity, *tick));
            let half = text.chars().count() as f64 * HALF_LETTER;
            let row = (usize::from(name.is_some())..2).find(|row| place - half >= free[*row]);
            if let Some(row) = row {
                free[row] = place + half + 2.0;
            }
            (place, row.map(|row| (row, text)), name.is_some())
        })
        .collect();
    html! {
        path class="base" d=(format!("M{} {}H{}", at(LEFT), at(BOTTOM), at(RIGHT))) {}
        @for (place, text, named) in &places {
            path class="base" d=(format!("M{} {}v5", at(*place), at(BOTTOM))) {}
            @if let Some((row, text)) = text {
                text class=(if *named { "tick mid named" } else { "tick mid" })
                    x=(at(*place)) y=(at(BOTTOM + 19.0 + 15.0 * *row as f64)) { (text) }
            }
        }
        text class="axis x-axis" x=(at((LEFT + RIGHT) / 2.0)) y=(at(HEIGHT - 9.0)) { (plot.x.label) }
    }
}

/// A place on an axis as text.
pub(crate) fn tick_text(quantity: Quantity, tick: f64) -> String {
    match quantity {
        Quantity::Time => Nanos(tick.round() as u64).to_string(),
        Quantity::Tail if tick <= 1.0 => "0\u{a0}%".to_owned(),
        Quantity::Tail => format!("{}\u{a0}%", trimmed_percentile(tick)),
        Quantity::FrameBytes => trimmed((tick * 10.0).round() / 10.0),
        Quantity::Load => Pps(tick).to_string().replace(".000", "").replace(".00", "").replace(".0", ""),
        Quantity::Share => format!("{}\u{a0}%", trimmed(tick * 100.0)),
        Quantity::Rate | Quantity::Cycles | Quantity::Plain | Quantity::Place => trimmed(tick),
    }
}

/// The percentile of a tail: 1000 is 99.9.
pub(crate) fn trimmed_percentile(tail: f64) -> String {
    let nines = usize::try_from((tail.log10() + 1e-9).floor() as i64 - 2).unwrap_or(0);
    format!("{:.nines$}", 100.0 - 100.0 / tail)
}

fn limit_path(limit: &Limit, ground: &Ground) -> String {
    const STEPS: u32 = 96;
    let (low, high) = (ground.x.least(), ground.x.greatest());
    (0..=STEPS)
        .map(|step| {
            let size = low * (high / low).powf(f64::from(step) / f64::from(STEPS));
            let place = ground.y.place(limit.at(size, ground.view)).max(TOP - 40.0);
            format!("{}{} {}", if step == 0 { 'M' } else { 'L' }, at(ground.x.place(size)), at(place))
        })
        .collect()
}

/// How far a series' marks stand aside, so that bars at one size do not hide each other.
fn aside(index: usize, plot: &Lines) -> f64 {
    let has_bars = plot.series.iter().flat_map(|series| &series.samples).any(|s| s.interval.is_some());
    if !has_bars || plot.x.quantity != Quantity::FrameBytes {
        return 0.0;
    }
    let most = if plot.y.quantity == Quantity::Time { 5.0 } else { 2.0 };
    let step = (22.0 / plot.series.len() as f64).min(most);
    (index as f64 - (plot.series.len() as f64 - 1.0) / 2.0) * step
}

fn draw_series(series: &Series, index: usize, plot: &Lines, ground: &Ground) -> Markup {
    let aside = aside(index, plot);
    let mut path = String::new();
    let mut pen = 'M';
    for sample in &series.samples {
        match sample.y {
            Some(y) => {
                let (x, y) = (ground.x.place(sample.x) + aside, ground.y_of(sample.x, y));
                path.push_str(&format!("{pen}{} {}", at(x), at(y)));
                pen = 'L';
            }
            None => pen = 'M',
        }
    }
    let class = format!("series k{index} h{} d{}", series.hue % super::HUES, series.stroke % STROKES);
    html! {
        g class=(class) {
            path class="line" d=(path) {}
            @if series.marks {
                @for sample in &series.samples { (draw_sample(sample, series, aside, ground)) }
            } @else {
                @for sample in series.samples.iter().filter(|sample| !sample.detail.is_empty()) {
                    (draw_sample(sample, series, aside, ground))
                }
            }
        }
    }
}

fn draw_sample(sample: &Sample, series: &Series, aside: f64, ground: &Ground) -> Markup {
    let x = ground.x.place(sample.x) + aside;
    let Some(y) = sample.y else {
        return html! {
            path class="mark failed" transform=(format!("translate({} {})", at(x), at(BOTTOM - 9.0)))
                d="M-5 -5L5 5M-5 5L5 -5" { title { (sample.detail) } }
        };
    };
    let y = ground.y_of(sample.x, y);
    html! {
        @if let Some((low, high)) = sample.interval {
            @let (low, high) = (ground.y_of(sample.x, low), ground.y_of(sample.x, high));
            path class="bar" d=(format!("M{x} {}V{}M{l} {}h6M{l} {}h6", at(low), at(high), at(low), at(high),
                x = at(x), l = at(x - 3.0))) {}
        }
        @if sample.suspect {
            circle class="suspect" cx=(at(x)) cy=(at(y)) r="8.5" {}
        }
        path class=(if sample.hollow { "mark hollow" } else { "mark" })
            transform=(format!("translate({} {})", at(x), at(y))) d=(mark(series.hue)) {
            title { (sample.detail) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_named_by_their_nines() {
        let names = [2.0, 10.0, 100.0, 1000.0, 10_000.0].map(trimmed_percentile);
        assert_eq!(names, ["50", "90", "99", "99.9", "99.99"]);
    }

    #[test]
    fn the_theoretical_line_is_level_on_layer_1() {
        let limit = Limit { label: String::new(), wire: weir_units::Bps(10e9) };
        for size in [64.0, 353.8, 1500.0] {
            assert!((limit.at(size, View::Layer1) / 10e9 - 1.0).abs() < 1e-12);
        }
        assert!((limit.at(64.0, View::Packets) - 14_880_952.38).abs() < 0.01);
    }
}

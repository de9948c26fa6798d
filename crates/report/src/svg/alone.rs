//! A drawing as a file of its own: its heading, its legend and where it comes from are drawn too.

use super::{HUES, STROKES, at, drawing, mark, style};
use crate::figure::{Figure, Plot};
use crate::units::{RATE_UNITS, RateUnit, View};
use maud::{Markup, PreEscaped, html};

/// Room on all sides.
const MARGIN: f64 = 14.0;
/// From the top to where the plot begins.
const HEADING: f64 = 40.0;
/// Height of a row of the legend.
const ROW: f64 = 22.0;
/// Width of a key of the legend, up to where its name begins.
const KEY: f64 = 42.0;
/// Mean width of a letter of the legend, and of the small print.
const LETTER: f64 = 7.3;
const SMALL_LETTER: f64 = 6.0;
/// Height of a line of small print.
const SMALL_LINE: f64 = 15.0;

/// What an entry of the legend shows.
enum Key {
    /// A line with its mark: hue and stroke.
    Series(usize, usize),
    /// A theoretical line.
    Limit,
    /// A part of a bar: its hue.
    Part(usize),
}

/// A figure as an SVG file. Rates are in the unit in which the greatest reads best.
pub(crate) fn svg(figure: &Figure) -> String {
    let plot = drawing(figure, &[View::Packets]);
    let (width, height) = (plot.size.0 + 2.0 * MARGIN, plot.size.1);
    let (legend, rows) = legend(figure, width);
    let small =
        lines(&format!("From {}.", figure.provenance), ((width - 2.0 * MARGIN) / SMALL_LETTER) as usize);
    let below = HEADING + height + 6.0;
    let print = below + ROW * rows as f64 + 12.0;
    let whole = print + SMALL_LINE * small.len() as f64 + 4.0;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(at(width)) height=(at(whole))
            viewBox=(format!("0 0 {} {}", at(width), at(whole))) role="img" {
            title { (figure.title) }
            desc { (figure.caption) }
            style { (PreEscaped(style::alone())) (PreEscaped(units(figure))) }
            rect class="paper" width=(at(width)) height=(at(whole)) {}
            text class="head" x=(at(MARGIN)) y="25" { (figure.title) }
            g transform=(format!("translate({} {})", at(MARGIN), at(HEADING))) { (plot.inside) }
            g transform=(format!("translate(0 {})", at(below))) { (legend) }
            @for (row, line) in small.iter().enumerate() {
                text class="small" x=(at(MARGIN)) y=(at(print + SMALL_LINE * row as f64)) { (line) }
            }
        }
    };
    crate::shown(format!("{}\n", markup.into_string()))
}

/// The rules that show one unit of rates.
fn units(figure: &Figure) -> String {
    let greatest = match &figure.plot {
        Plot::Lines(plot) => {
            plot.series.iter().flat_map(|series| &series.samples).filter_map(|sample| sample.y)
        }
        Plot::Bars(_) => return String::new(),
    };
    let unit = RateUnit::fitting(greatest.fold(0.0, f64::max));
    let hidden = RATE_UNITS.iter().filter(|other| other.key != unit);
    hidden.map(|other| format!(".u-{}{{display:none}}\n", other.key)).collect()
}

/// The names of what is drawn, in rows, and how many rows.
fn legend(figure: &Figure, width: f64) -> (Markup, usize) {
    let entries: Vec<(Key, &str)> = match &figure.plot {
        Plot::Lines(plot) => {
            // Rows have their names beside them.
            let named = if plot.is_by_row() { &[] } else { plot.series.as_slice() };
            let series =
                named.iter().map(|series| (Key::Series(series.hue, series.stroke), series.label.as_str()));
            series.chain(plot.limits.iter().map(|limit| (Key::Limit, limit.label.as_str()))).collect()
        }
        Plot::Bars(plot) => {
            (0..).zip(&plot.parts).map(|(hue, part)| (Key::Part(hue), part.as_str())).collect()
        }
    };
    let (mut row, mut across) = (0, MARGIN);
    let mut placed = Vec::new();
    for (key, name) in entries {
        let wide = KEY + LETTER * name.chars().count() as f64 + 10.0;
        if across + wide > width && across > MARGIN {
            (row, across) = (row + 1, MARGIN);
        }
        placed.push((key, name, across, ROW * (f64::from(row) + 0.5)));
        across += wide;
    }
    let rows = if placed.is_empty() { 0 } else { row as usize + 1 };
    let markup = html! {
        @for (key, name, x, y) in &placed {
            g transform=(format!("translate({} {})", at(x + 16.0), at(*y))) {
                (drawn(key))
                text x=(at(KEY - 18.0)) y="4.5" { (name) }
            }
        }
    };
    (markup, rows)
}

fn drawn(key: &Key) -> Markup {
    match key {
        Key::Series(hue, stroke) => html! {
            g class=(format!("key h{} d{}", hue % HUES, stroke % STROKES)) {
                path class="line" d="M-16 0H16" {}
                path class="mark" d=(mark(*hue)) {}
            }
        },
        Key::Limit => html! { path class="limit" d="M-16 0H16" {} },
        Key::Part(hue) => html! {
            rect class=(format!("part p{}", hue % HUES)) x="-8" y="-6" width="16" height="12" {}
        },
    }
}

/// Text in lines of at most so many letters, broken between words.
fn lines(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_print_breaks_between_words_and_loses_none() {
        let text = "run otter of a machine, weir 0.1.0";
        let broken = lines(text, 12);
        assert!(broken.iter().all(|line| line.chars().count() <= 12), "{broken:?}");
        assert_eq!(broken.join(" "), text);
        assert_eq!(lines("one-word-that-is-longer-than-a-line", 5).len(), 1);
    }
}

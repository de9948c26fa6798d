//! Stacked bars of shares, one a line. The axis reaches as far as the longest bar. A bar without shares is the heading of
//! those below it.

use super::{Drawing, HUES, at};
use crate::figure::{Bar, Bars};
use crate::scale::{Scale, Spacing};
use crate::units::trimmed;
use maud::{Markup, html};

const WIDTH: f64 = 660.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 10.0;
const LINE: f64 = 24.0;
const THICK: f64 = 15.0;
/// A shorter axis would make much of nothing.
const SHORTEST_AXIS: f64 = 0.000_1;

pub(super) fn draw(plot: &Bars) -> Drawing {
    let bottom = TOP + LINE * plot.bars.len() as f64;
    let longest = plot.bars.iter().map(|bar| bar.shares.iter().sum::<f64>()).fold(SHORTEST_AXIS, f64::max);
    let scale = Scale::new(Spacing::Linear, (0.0, longest * 1.02), (LEFT, RIGHT));
    let inside = html! {
        @for tick in scale.ticks() {
            @let place = scale.place(tick);
            path class="grid" d=(format!("M{} {}V{}", at(place), at(TOP), at(bottom))) {}
            text class="tick mid" x=(at(place)) y=(at(bottom + 17.0)) { (trimmed(tick * 100.0)) "\u{a0}%" }
        }
        @for (index, bar) in plot.bars.iter().enumerate() {
            (draw_bar(bar, TOP + LINE * index as f64 + (LINE - THICK) / 2.0, &scale))
        }
        path class="base" d=(format!("M{} {}V{}", at(LEFT), at(TOP), at(bottom))) {}
        text class="axis x-axis" x=(at((LEFT + RIGHT) / 2.0)) y=(at(bottom + 38.0)) { (plot.label) }
    };
    Drawing { size: (WIDTH, bottom + 46.0), inside }
}

fn draw_bar(bar: &Bar, top: f64, scale: &Scale) -> Markup {
    if bar.shares.is_empty() {
        return html! { text class="tick head" x="0" y=(at(top + THICK - 3.0)) { (bar.label) } };
    }
    let mut from = 0.0;
    let parts: Vec<_> = bar
        .shares
        .iter()
        .enumerate()
        .map(|(index, share)| {
            let start = scale.place(from);
            from += share;
            (index, start, scale.place(from) - start)
        })
        .filter(|(.., length)| *length > 0.0)
        .collect();
    html! {
        text class="tick end" x=(at(LEFT - 8.0)) y=(at(top + THICK - 3.0)) { (bar.label) }
        g class="mark stack" {
            title { (bar.detail) }
            // The whole line answers to the pointer, also where there is nothing to see.
            rect class="touch" x=(at(LEFT)) y=(at(top)) width=(at(RIGHT - LEFT)) height=(at(THICK)) {}
            @for (index, start, length) in parts {
                rect class=(format!("part k{index} p{}", index % HUES)) x=(format!("{start:.2}")) y=(at(top))
                    width=(format!("{:.2}", length.max(0.75))) height=(at(THICK)) {}
            }
        }
    }
}

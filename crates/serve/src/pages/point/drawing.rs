//! The trials of a point as a picture: load over the order of the trials, what was lost, what was spoilt. It shows how a search
//! went: where it began, what it bracketed, what was run again.

use maud::{Markup, html};
use weir_trial::run::{Point, StoredTrial};
use weir_units::Pps;

/// Units of the drawing.
const WIDTH: f64 = 690.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 94.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;
/// More trials than this are not drawn one by one.
const MOST: usize = 2000;

/// The drawing; nothing where it would show nothing.
pub(super) fn draw(point: &Point) -> Markup {
    let loads = point.trials.iter().map(|trial| trial.result.spec.load.0).filter(|load| load.is_finite());
    let greatest = loads.fold(0.0, f64::max);
    if point.trials.len() < 2 || point.trials.len() > MOST || greatest <= 0.0 {
        return html! {};
    }
    let across =
        |place: usize| LEFT + (WIDTH - LEFT - RIGHT) * (place as f64 + 0.5) / point.trials.len() as f64;
    let up = |load: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (load / greatest).clamp(0.0, 1.0);
    let steps = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| share * greatest);
    html! {
        figure class="search" {
            div class="plot" {
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-labelledby="search-title" tabindex="0" {
                    title id="search-title" { "Load of every trial, in their order" }
                    @for load in steps {
                        path class="grid" d=(format!("M{LEFT} {:.1}H{}", up(load), WIDTH - RIGHT)) {}
                        text class="end" x=(LEFT - 6.0) y=(format!("{:.1}", up(load) + 4.5)) { (Pps(load)) }
                    }
                    text class="axis" x=((LEFT + WIDTH) / 2.0) y=(HEIGHT - 6.0) { "Trials, in their order" }
                    @for (place, trial) in point.trials.iter().enumerate() { (mark(trial, across(place), up(trial.result.spec.load.0))) }
                }
            }
            figcaption {
                ul class="legend" {
                    (key("h2", CIRCLE, "nothing lost"))
                    (key("h1", DOWN, "packets lost"))
                    (key("h6", CROSS, "spoilt, or of an attempt that was cut off: decides nothing"))
                }
                p { "Each mark is a trial at the load that was asked for." }
            }
        }
    }
}

const CIRCLE: &str = "M-3.6 0A3.6 3.6 0 1 0 3.6 0A3.6 3.6 0 1 0 -3.6 0Z";
const DOWN: &str = "M0 4.6L4.4 -3.4H-4.4Z";
const CROSS: &str = "M-3.6 -3.6L3.6 3.6M-3.6 3.6L3.6 -3.6";

fn mark(trial: &StoredTrial, x: f64, y: f64) -> Markup {
    let lost = trial.result.loss_ratio();
    let (hue, shape) = match (trial.superseded || !trial.verdict.is_valid(), lost.0 > 0.0) {
        (true, _) => ("h6", CROSS),
        (false, true) => ("h1", DOWN),
        (false, false) => ("h2", CIRCLE),
    };
    let why = trial.spoilt_by().map_or_else(String::new, |finding| format!("\n{}", finding.says));
    let told = format!(
        "Trial {}, {}\n{} for {}\nlost {lost}{why}",
        trial.sequence,
        trial.purpose.name(),
        trial.result.spec.load,
        trial.result.spec.duration
    );
    html! {
        g class=(format!("series {hue}")) transform=(format!("translate({x:.1} {y:.1})")) {
            path class="mark" d=(shape) { title { (told) } }
        }
    }
}

fn key(hue: &str, shape: &str, name: &str) -> Markup {
    html! {
        li { span class="row" {
            svg viewBox="-16 -8 32 16" aria-hidden="true" class=(format!("key {hue}")) { path class="mark" d=(shape) {} }
            span { (name) }
        } }
    }
}

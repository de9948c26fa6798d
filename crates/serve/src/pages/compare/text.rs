//! One comparison as tables, in the words of `weir compare`.

use super::super::wide;
use maud::{Markup, html};
use weir_methods::compare::{Alone, BoundVerdict, Comparison, Row, Verdict, words};
use weir_methods::repeat::Interval;

/// Width and height of the picture of a ratio.
const WIDTH: f64 = 140.0;
const HEIGHT: f64 = 18.0;
/// A ratio at the edge of the picture, where all are nearer to 1.
const LEAST_EDGE: f64 = 1.02;
/// A ratio beyond which the picture is cut off.
const MOST_EDGE: f64 = 4.0;

/// Where a row was measured, as [`words::place`] says it.
const PLACE: [&str; 5] = ["Function", "Dataplane", "Wiring", "Trace", "Size"];

/// Environments, then ratios, then who was not compared, then what it came to.
pub(super) fn comparison(comparison: &Comparison) -> Markup {
    html! {
        p class="came-to" { @for line in words::summary(comparison) { strong { (line) } " " } }
        (environment(comparison))
        (ratios(comparison))
        (alone("A", &comparison.only_a))
        (alone("B", &comparison.only_b))
    }
}

/// What holds for the comparisons, each said once.
pub(super) fn notes(compared: &[Comparison]) -> Markup {
    let mut notes: Vec<String> = Vec::new();
    for note in compared.iter().flat_map(words::notes) {
        let note = note.strip_prefix("note: ").unwrap_or(&note).to_owned();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    html! { @if !notes.is_empty() { ul class="notes" { @for note in notes { li { (note) } } } } }
}

fn environment(comparison: &Comparison) -> Markup {
    let differences = &comparison.environment;
    let explains = differences.iter().any(|difference| difference.explains);
    let said = words::environment(comparison);
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
    html! {
        @if differences.is_empty() { p { "Environment: " (said) "." } } @else {
            details class="table" open[explains] {
                summary { "Environment: " (said) }
                (wide("Environment", html! {
                    table class="facts" {
                        caption class="unseen" { "What differs; marked: what can explain a gap" }
                        thead { tr { @for head in ["Fact", "A", "B", "Explains", "Affects"] { th scope="col" { (head) } } } }
                        tbody { @for difference in differences {
                            tr class=[difference.explains.then_some("suspect")] {
                                th scope="row" { (difference.fact) }
                                td { (value(&difference.a)) }
                                td { (value(&difference.b)) }
                                td { @if difference.explains { "yes" } @else { "no" } }
                                td { (difference.affects) }
                            }
                        } }
                    }
                }))
            }
        }
    }
}

fn ratios(comparison: &Comparison) -> Markup {
    let rows = &comparison.rows;
    if rows.is_empty() {
        return html! { p { "No point is in both sides with a result." } };
    }
    let edge = edge(rows);
    let places: Vec<[String; 5]> =
        rows.iter().map(|row| words::place(&row.key, row.other_dut.as_deref())).collect();
    // What is the same in every row is said once, above them.
    let same: [bool; 5] =
        std::array::from_fn(|column| places.iter().all(|place| place[column] == places[0][column]));
    let everywhere: Vec<String> = (0..5)
        .filter(|column| same[*column])
        .map(|column| format!("{} {}", PLACE[column].to_lowercase(), places[0][column]))
        .collect();
    let bound = comparison.bound.map(|bound| format!("Bound {}", words::percent(bound.0)));
    html! {
        (wide("Ratios", html! {
            table class="ratios" {
                caption {
                    "B/A with its 95\u{a0}% interval; the picture reaches from 1/" (format!("{edge:.2}")) " to " (format!("{edge:.2}")) "."
                    @if !everywhere.is_empty() { " Everywhere: " (everywhere.join(", ")) "." }
                }
                thead { tr {
                    @for (head, _) in PLACE.iter().zip(same).filter(|(_, same)| !same) { th scope="col" { (head) } }
                    th scope="col" { "What" }
                    @for head in ["A", "B", "B/A", "95\u{a0}% interval"] { th scope="col" class="n" { (head) } }
                    th scope="col" { "Verdict" }
                    @if let Some(bound) = &bound { th scope="col" { (bound) } }
                    th scope="col" { span class="unseen" { "Picture" } }
                    th scope="col" class="n" { "n" }
                } }
                tbody { @for (at, row) in rows.iter().enumerate() {
                    @let cells = places[at].iter().zip(same).filter(|(_, same)| !same).map(|(cell, _)| cell.as_str());
                    (line(row, at.checked_sub(1).map(|before| &rows[before]), &cells.collect::<Vec<_>>(), edge))
                } }
            }
        }))
    }
}

fn line(row: &Row, before: Option<&Row>, place: &[&str], edge: f64) -> Markup {
    let again = before.is_some_and(|before| before.key == row.key && before.other_dut == row.other_dut);
    let class = match &row.verdict {
        Verdict::B => "good",
        Verdict::A => "bad",
        _ => "",
    };
    html! {
        tr class=[again.then_some("again")] {
            @for cell in place { td { @if again { span class="unseen" { (cell) } } @else { (cell) } } }
            td { (row.quantity) }
            td class="n" { (words::number(row.unit, row.a)) }
            td class="n" { (words::number(row.unit, row.b)) }
            td class="n" { (words::ratio(row)) }
            td class="n interval" { (words::interval(row)) }
            td class=(format!("state {class}")) { (words::verdict(row)) }
            @if let Some(bound) = row.bound {
                td class=[matches!(bound, BoundVerdict::Broken(_)).then_some("state bad")] { (words::judged(bound)) }
            }
            td { (picture(row, edge)) }
            td class="n" { (words::count(row.a)) " + " (words::count(row.b)) }
        }
    }
}

/// The ratio at the edges of the pictures, so that all intervals are in them.
fn edge(rows: &[Row]) -> f64 {
    let ends = rows.iter().flat_map(|row| {
        let interval = row.interval.map(|Interval { low, high }| [low, high]);
        interval.into_iter().flatten().chain(row.ratio)
    });
    let far = ends.filter(|end| *end > 0.0 && end.is_finite()).map(|end| end.max(1.0 / end));
    far.fold(LEAST_EDGE, f64::max).min(MOST_EDGE)
}

/// Interval and ratio on a line, equal in the middle; the words beside it say what its colour says.
fn picture(row: &Row, edge: f64) -> Markup {
    let Some(ratio) = row.ratio.filter(|ratio| *ratio > 0.0 && ratio.is_finite()) else { return html! {} };
    let across = |ratio: f64| WIDTH * (0.5 + 0.48 * (ratio.ln() / edge.ln()).clamp(-1.0, 1.0));
    let (hue, middle) = (hue(row), HEIGHT / 2.0);
    html! {
        svg class=(format!("ratio key {hue}")) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) aria-hidden="true" {
            path class="base" d=(format!("M{:.1} 1V{}", WIDTH / 2.0, HEIGHT - 1.0)) {}
            @if let Some(Interval { low, high }) = row.interval {
                @if low > 0.0 && high.is_finite() {
                    path class="line" d=(format!("M{0:.1} {middle}H{1:.1}M{0:.1} {2}V{3}M{1:.1} {2}V{3}", across(low), across(high), middle - 4.0, middle + 4.0)) {}
                }
            }
            path class="mark" transform=(format!("translate({:.1} {middle}) scale(.8)", across(ratio))) d="M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z" {}
        }
    }
}

fn hue(row: &Row) -> &'static str {
    match &row.verdict {
        Verdict::B => "h2",
        Verdict::A => "h1",
        _ => "h6",
    }
}

fn alone(side: &str, points: &[Alone]) -> Markup {
    html! {
        @if !points.is_empty() {
            details class="table" {
                summary { "Of " (side) ", not compared (" (points.len()) ")" }
                (wide("Not compared", html! {
                    table {
                        thead { tr { @for head in PLACE.iter().chain(&["Why not"]) { th scope="col" { (head) } } } }
                        tbody { @for Alone { key, why, .. } in points {
                            tr {
                                @for cell in words::place(key, None) { td { (cell) } }
                                // The last words of a device that died take lines.
                                td { (why.lines().next().unwrap_or_default()) }
                            }
                        } }
                    }
                }))
            }
        }
    }
}

//! Ratios of two sides with their intervals, as `weir compare` forms them: a table with a bar for each interval.
//!
//! The page draws what it is given ([`Ratios`]): who compares, and by which rule somebody wins, is not the report's affair.

use maud::{Markup, html};

/// Two sides compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratios {
    /// The side that is compared with.
    pub a: String,
    /// The side that is compared.
    pub b: String,
    /// One a quantity of a point.
    pub rows: Vec<Ratio>,
    /// What a reader must know of them, each in a sentence.
    pub notes: Vec<String>,
}

/// One quantity of one point, B over A.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The point.
    pub point: String,
    /// The quantity.
    pub quantity: String,
    /// B over A; nothing where a side has no number.
    pub ratio: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Who is better, or why nobody is.
    pub verdict: String,
    /// Whether B is better; nothing where nobody is.
    pub better: Option<bool>,
}

/// Width and height of a bar.
const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 16.0;
/// Room at both ends for what reaches further.
const END: f64 = 6.0;
/// The axis reaches a quarter beyond equal at least: less would make much of nothing.
const LEAST: f64 = 1.25;
/// And no further than this: beyond it a bar ends in an arrow.
const MOST: f64 = 32.0;

/// All comparisons of a page; nothing where there are none.
pub(crate) fn ratios(all: &[Ratios]) -> Markup {
    html! {
        @if !all.is_empty() {
            section id="ratios" {
                h2 { "Ratios" }
                p { "B over A, with the 95\u{a0}% confidence interval from the raw numbers. The bar is the interval, the line in \
                     its middle equal. A winner is named only where the gap is beyond chance among all rows of a table." }
                @for one in all { (table(one)) }
            }
        }
    }
}

fn table(one: &Ratios) -> Markup {
    let reach = reach(one);
    let label = format!("{} over {}", one.b, one.a);
    html! {
        h3 { (one.b) " over " (one.a) }
        @if one.rows.is_empty() { p { "No point is on both sides with a result." } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label=(label) { table class="ratios" {
                caption { "The axis of the bars is logarithmic, from " (said(1.0 / reach)) " to " (said(reach)) "." }
                thead { tr {
                    th scope="col" { "Point" } th scope="col" { "What" }
                    th scope="col" class="n" { "B/A" } th scope="col" { "95\u{a0}% interval" }
                    th scope="col" { "" } th scope="col" { "Verdict" }
                } }
                @for rows in one.rows.chunk_by(|a, b| a.point == b.point) { tbody { @for (place, row) in rows.iter().enumerate() {
                    tr {
                        @if place == 0 { th scope="rowgroup" rowspan=(rows.len()) { (row.point) } }
                        td { (row.quantity) }
                        td class="n" { @match row.ratio { Some(ratio) => (said(ratio)), None => "–" } }
                        td { @match row.interval { Some((low, high)) => { (said(low)) " to " (said(high)) }, None => "not known" } }
                        td { (bar(row, reach)) }
                        td class=[row.better.map(|better| if better { "good" } else { "bad" })] { (row.verdict) }
                    }
                } } }
            } }
        }
        @for note in &one.notes { p class="provenance" { (note) } }
    }
}

/// A ratio with three places, more digits than any interval here has.
fn said(ratio: f64) -> String {
    format!("{ratio:.3}")
}

/// How far the axis reaches on both sides of equal, as a factor.
fn reach(one: &Ratios) -> f64 {
    let ends = one.rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unzip();
        [row.ratio, low, high].into_iter().flatten()
    });
    let far = ends.filter(|end| end.is_finite() && *end > 0.0).map(|end| end.max(1.0 / end));
    far.fold(LEAST, f64::max).min(MOST)
}

fn bar(row: &Ratio, reach: f64) -> Markup {
    let middle = HEIGHT / 2.0;
    let at = |ratio: f64| {
        let share = (ratio.max(f64::MIN_POSITIVE).ln() / reach.ln()).clamp(-1.1, 1.1);
        WIDTH / 2.0 + share * (WIDTH / 2.0 - END)
    };
    let spoken = match (row.ratio, row.interval) {
        (Some(ratio), Some((low, high))) => format!("{}, {} to {}", said(ratio), said(low), said(high)),
        (Some(ratio), None) => said(ratio),
        (None, _) => "no ratio".to_owned(),
    };
    html! {
        svg class="ratio" width=(WIDTH) height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(spoken) {
            path class="base" d=(format!("M{} 0V{HEIGHT}", WIDTH / 2.0)) {}
            @if let Some((low, high)) = row.interval {
                path class="interval" d=(format!("M{:.1} {middle}H{:.1}", at(low), at(high))) {}
            }
            @if let Some(ratio) = row.ratio { circle cx=(format!("{:.1}", at(ratio))) cy=(middle) r="3.5" {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: Option<f64>, interval: Option<(f64, f64)>) -> Ratio {
        Ratio {
            point: "l2fwd <64>".to_owned(),
            quantity: "forwarded rate".to_owned(),
            ratio,
            interval,
            verdict: "no winner".to_owned(),
            better: None,
        }
    }

    #[test]
    fn every_row_has_its_ratio_its_interval_and_a_bar_within_its_drawing() {
        let rows = vec![
            row(Some(1.02), Some((0.97, 1.07))),
            row(Some(40.0), Some((1e-9, f64::INFINITY))),
            row(Some(0.5), None),
            row(None, None),
        ];
        let one =
            Ratios { a: "ovs".to_owned(), b: "weir".to_owned(), rows, notes: vec!["note & more".to_owned()] };
        let html = ratios(&[one]).into_string();
        for part in ["l2fwd &lt;64&gt;", "0.970 to 1.070", "not known", "note &amp; more", "weir over ovs"] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert_eq!(html.matches("<svg").count(), 4);
        assert!(
            html.contains("rowspan=\"4\"") && html.matches("l2fwd &lt;64&gt;").count() == 1,
            "said once: {html}"
        );
        let places = html.split("cx=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert!(
            places.map(|place| place.parse::<f64>().unwrap()).all(|place| (0.0..=WIDTH).contains(&place)),
            "{html}"
        );
        assert!(ratios(&[]).into_string().is_empty());
    }
}

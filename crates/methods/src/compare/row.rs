//! One row of a comparison: from two sides' numbers of one quantity to a ratio, its interval, and
//! why nobody may win where nobody may.

use super::gap::{Gap, Method, centre, centre_of_starts};
use super::numbers::{Numbers, Quantity};
use super::{Better, BoundVerdict, Of, Part, Row, Verdict};
use crate::repeat::Interval;
use weir_trial::run::PointKey;
use weir_units::Ratio;

/// Loads this near are the same load: a share of what a search found is only as fine as the search.
const SAME_LOAD: f64 = 0.025;

/// Whether numbers were taken in turns: each pair over before the next one began.
pub(super) fn in_turns(a: &Numbers, b: &Numbers) -> bool {
    let pairs: Vec<(i64, i64)> =
        a.slots.iter().zip(&b.slots).map(|((_, a), (_, b))| (*a.min(b), *a.max(b))).collect();
    a.slots.len() == b.slots.len()
        && pairs.len() > 1
        && pairs.windows(2).all(|next| next[0].1 < next[1].0 && next[0].0 < next[0].1)
}

/// The gap between numbers taken in turns: of the pairs that stand on both sides.
fn pairs(a: &Numbers, b: &Numbers) -> Option<Gap> {
    let both = a.slots.iter().zip(&b.slots).filter_map(|((a, _), (b, _))| a.zip(*b));
    let (left, right): (Vec<f64>, Vec<f64>) = both.unzip();
    if are_starts(a, b) { Gap::paired_starts(&left, &right) } else { Gap::paired(&left, &right) }
}

/// Whether each number is a start, a search or another repeat of the whole point, on both sides.
fn are_starts(a: &Numbers, b: &Numbers) -> bool {
    a.of != Of::Trial && b.of != Of::Trial
}

fn apart(a: &Numbers, b: &Numbers) -> Option<Gap> {
    let (left, right) = (a.values(), b.values());
    if are_starts(a, b) { Gap::independent_starts(&left, &right) } else { Gap::independent(&left, &right) }
}

/// One quantity of one point. Rows that may have a winner come out as [`Verdict::Chance`].
pub(super) fn row(
    key: PointKey,
    quantity: Quantity,
    [a, b]: [&Numbers; 2],
    in_turns: bool,
    bound: Option<Ratio>,
) -> Row {
    let part = |numbers: &Numbers| {
        let values = numbers.values();
        let left_out = numbers.slots.len() - values.len();
        let centre = if are_starts(a, b) { centre_of_starts(&values) } else { centre(&values) };
        Part { centre, count: values.len(), left_out }
    };
    let (part_a, part_b) = (part(a), part(b));
    let gap = if in_turns { pairs(a, b) } else { apart(a, b) };
    let widths = (a.width.unwrap_or(1.0), b.width.unwrap_or(1.0));
    let gap = gap.map(|gap| gap.with_widths(widths.0, widths.1));
    let quotient = part_a.centre.zip(part_b.centre).map(|(a, b)| b / a).filter(|ratio| ratio.is_finite());
    let bounds = quotient.filter(|_| a.width.is_some() && b.width.is_some());
    let interval = match (&gap, bounds) {
        (Some(gap), _) => Some(gap.interval()),
        (None, Some(ratio)) => Some(Interval { low: ratio / widths.0, high: ratio * widths.1 }),
        (None, None) => None,
    };
    let ranked = objection(a, b)
        .map_or_else(|| spread_unknown(a, b, gap.is_some()), |why| Some(Verdict::NotRanked(why)));
    let gap_ranked = gap.filter(|_| ranked.is_none());
    Row {
        key,
        other_dut: None,
        quantity: quantity.name,
        unit: quantity.unit,
        better: quantity.better,
        a: part_a,
        b: part_b,
        ratio: gap.map(|gap| gap.ratio()).or(quotient),
        interval,
        method: match (gap, bounds) {
            (Some(gap), _) => gap.method,
            (None, Some(_)) => Method::Bounds,
            (None, None) => Method::Single,
        },
        of: if b.of == Of::Trial { b.of } else { a.of },
        chance: gap_ranked.map(|gap| gap.chance()),
        visible: gap_ranked.map(|gap| gap.visible()),
        verdict: ranked.unwrap_or(Verdict::Chance),
        bound: bound.map(|bound| judge(gap_ranked, quantity.better, bound)),
    }
}

/// Why the two sides must not be ranked.
fn objection(a: &Numbers, b: &Numbers) -> Option<String> {
    match (a.objection(), b.objection()) {
        (Some(of_a), Some(of_b)) if of_a == of_b => return Some(format!("A and B: {of_a}")),
        (Some(of_a), _) => return Some(format!("A: {of_a}")),
        (None, Some(of_b)) => return Some(format!("B: {of_b}")),
        (None, None) => {}
    }
    match (a.values().is_empty(), b.values().is_empty()) {
        (false, true) => return Some("only A has it".to_owned()),
        (true, false) => return Some("only B has it".to_owned()),
        (true, true) => return Some("neither has a number".to_owned()),
        (false, false) => {}
    }
    let (of_a, of_b) = a.load.zip(b.load)?;
    ((of_a.0 / of_b.0).ln().abs() > SAME_LOAD).then(|| format!("not the same load: {of_a} in A, {of_b} in B"))
}

fn spread_unknown(a: &Numbers, b: &Numbers, has_gap: bool) -> Option<Verdict> {
    let what = if a.width.or(b.width).is_some() { "search" } else { "trial" };
    (!has_gap).then(|| {
        let side = match (a.values().len(), b.values().len()) {
            (1, 1) => "each",
            (1, _) => "in A",
            _ => "in B",
        };
        Verdict::Unknown(format!("one {what} {side}"))
    })
}

/// Whether B is worse by more than the bound, or surely not.
fn judge(gap: Option<Gap>, better: Better, bound: Ratio) -> BoundVerdict {
    let Some(gap) = gap else { return BoundVerdict::Undecided };
    let Interval { low, high } = gap.interval();
    match better {
        Better::Higher if high < 1.0 - bound.0 => BoundVerdict::Broken(gap.sure_below(1.0 - bound.0)),
        Better::Higher if low >= 1.0 - bound.0 => BoundVerdict::Kept,
        Better::Lower if low > 1.0 + bound.0 => BoundVerdict::Broken(gap.sure_above(1.0 + bound.0)),
        Better::Lower if high <= 1.0 + bound.0 => BoundVerdict::Kept,
        _ => BoundVerdict::Undecided,
    }
}

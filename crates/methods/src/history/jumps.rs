//! Where a row of numbers jumps: the division into groups that takes the fewest bits to tell (minimum description length).
//!
//! The method is that of FD.io CSIT's package `jumpavg`, with which `tests/history.rs` compares. Each group is taken for
//! numbers around one mean. Telling a group costs the bits of its size, of its mean (fewer where it is near the mean of the
//! group before), of its deviation, and of a point on the sphere on which numbers with that mean and deviation lie. A jump
//! is where two groups take fewer bits than one. There is no threshold to set: what a jump must be follows from the
//! scatter around it and from how long it lasts. How often it sees one where there is none is measured in
//! `tests/history.rs`, and stands in `docs/history.md`.
//!
//! The best division of the first `i` numbers is the best of the first `j` with one more group, for the best `j`; the
//! mean before the last group is that of the best division's. Cost: the square of the count, some 30 ns a step: 2,000
//! numbers take a twentieth of a second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The greatest number is this many steps of what is taken for the resolution: twelve significant bits.
const STEPS: f64 = 8191.0;

/// Numbers in a row around one mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Place of its first number.
    pub first: usize,
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of the group itself (divided by its count).
    pub deviation: f64,
}

/// Divides numbers, all of which are positive, into groups that follow each other.
pub fn groups(values: &[f64]) -> Vec<Group> {
    let greatest = values.iter().copied().fold(0.0, f64::max);
    if values.is_empty() || greatest <= 0.0 {
        return Vec::new();
    }
    let code = Code::new(values.len(), greatest);
    let mut best: Vec<Best> = Vec::with_capacity(values.len());
    let mut open: Vec<Open> = Vec::with_capacity(values.len());
    for (place, &value) in values.iter().enumerate() {
        let before = place.checked_sub(1).map(|last| best[last]);
        open.push(Open::new(before));
        // A new group is taken unless an older one takes fewer bits, the oldest first.
        let mut found: Option<Best> = None;
        let newest = std::iter::once(place);
        for first in newest.chain(0..place) {
            let group = &mut open[first];
            group.take(value);
            let bits = group.before + code.bits(group);
            if found.is_none_or(|found| bits < found.bits) {
                found = Some(Best { bits, first, mean: group.mean, deviation: group.deviation() });
            }
        }
        best.extend(found);
    }
    let mut found = Vec::new();
    let mut end = values.len();
    while let Some(last) = end.checked_sub(1).map(|last| best[last]) {
        let (mean, deviation) = (last.mean, last.deviation);
        found.push(Group { first: last.first, count: end - last.first, mean, deviation });
        end = last.first;
    }
    found.reverse();
    found
}

/// The best division of the numbers up to a place, by its last group.
#[derive(Clone, Copy)]
struct Best {
    bits: f64,
    first: usize,
    mean: f64,
    deviation: f64,
}

/// A group that goes on with every number (Welford's sums).
struct Open {
    /// Bits of the groups before it.
    before: f64,
    /// Mean of the group before it.
    previous: Option<f64>,
    count: usize,
    mean: f64,
    squares: f64,
}

impl Open {
    fn new(before: Option<Best>) -> Self {
        let (bits, previous) = (before.map_or(0.0, |best| best.bits), before.map(|best| best.mean));
        Self { before: bits, previous, count: 0, mean: 0.0, squares: 0.0 }
    }

    fn take(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    fn deviation(&self) -> f64 {
        (self.squares.max(0.0) / self.count as f64).sqrt()
    }
}

/// What depends on a group's size alone, and the greatest number and the resolution.
struct Code {
    greatest: f64,
    unit: f64,
    of_size: Vec<f64>,
}

impl Code {
    fn new(most: usize, greatest: f64) -> Self {
        let unit = greatest / STEPS;
        let of_size = (0..=most).map(|count| bits_of_size(count, greatest / unit)).collect();
        Self { greatest: greatest / unit, unit, of_size }
    }

    /// The bits of a group, which has one number at least.
    fn bits(&self, group: &Open) -> f64 {
        let mut bits = self.of_size[group.count] + self.of_mean(group.mean, group.previous);
        if group.count > 1 {
            let deviation = group.deviation() / self.unit;
            bits += ((deviation + 1.0) * (deviation + 2.0)).log2();
            bits += (group.count as f64 - 2.0) * (deviation + 1.0).log2();
        }
        bits
    }

    /// A mean: anywhere up to the greatest number, or else the more likely the nearer to the mean before.
    fn of_mean(&self, mean: f64, previous: Option<f64>) -> f64 {
        let Some(previous) = previous else { return (self.greatest + 1.0).log2() };
        let (mean, previous, most) = (mean / self.unit, previous / self.unit, self.greatest);
        let whole = previous * previous - (previous - 1.0) * most + most * most / 2.0;
        -(((mean - previous).abs() + 1.0) / whole).log2()
    }
}

/// The bits of a size, and of the part of a point on a sphere that depends on nothing else.
fn bits_of_size(count: usize, greatest: f64) -> f64 {
    let size = count as f64;
    let bits = (size * (size + 1.0)).max(1.0).log2();
    if count < 2 {
        return bits;
    }
    let half = (size - 1.0) / 2.0;
    let sphere = std::f64::consts::LN_2 + std::f64::consts::PI.ln() * half - libm::lgamma(half)
        + size.ln() * (size - 2.0) / 2.0;
    bits + (1.0 - 1.0 / (greatest + 2.0)).log2() + sphere / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firsts(values: &[f64]) -> Vec<usize> {
        groups(values).iter().map(|group| group.first).collect()
    }

    #[test]
    fn a_step_between_quiet_numbers_is_a_jump_and_scatter_is_none() {
        let quiet = [10.0, 10.1, 9.9, 10.0, 8.0, 8.1, 7.9, 8.0, 8.05];
        assert_eq!(firsts(&quiet), [0, 4]);
        let groups = groups(&quiet);
        assert!((groups[0].mean - 10.0).abs() < 1e-12 && (groups[1].mean - 8.01).abs() < 1e-12);
        assert!((groups[0].deviation - 0.005_f64.sqrt()).abs() < 1e-12, "{groups:?}");
        assert_eq!(groups.iter().map(|group| group.count).sum::<usize>(), quiet.len());
        let wild = [10.0, 7.0, 9.0, 12.0, 8.0, 11.0, 7.5, 9.5, 10.5];
        assert_eq!(firsts(&wild), [0]);
    }

    #[test]
    fn nothing_one_number_and_equal_numbers_have_no_jump() {
        assert!(groups(&[]).is_empty() && groups(&[0.0, 0.0]).is_empty());
        assert_eq!(firsts(&[5.0]), [0]);
        assert_eq!(firsts(&[5e6; 40]), [0]);
    }
}

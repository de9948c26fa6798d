//! Which stage follows which: in a row, and where a host splits packets among copies of a chain, side by side.
//!
//! Stages are listed from the chain's port 0 on, those of a copy together, copy after copy: what stands before and
//! behind the copies is no part of any.

use super::StageReading;

/// A part of the way from the chain's port 0 to its port 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// One stage, by its place.
    One(usize),
    /// Copies side by side: the stages of each.
    Copies(Vec<Vec<usize>>),
}

/// The parts of the way, from port 0 on.
pub(super) fn parts(stages: &[StageReading]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, stage) in stages.iter().enumerate() {
        let same = place.checked_sub(1).is_some_and(|before| stages[before].copy == stage.copy);
        match (stage.copy, parts.last_mut()) {
            (0, _) => parts.push(Part::One(place)),
            (_, Some(Part::Copies(copies))) => match copies.last_mut().filter(|_| same) {
                Some(copy) => copy.push(place),
                None => copies.push(vec![place]),
            },
            _ => parts.push(Part::Copies(vec![vec![place]])),
        }
    }
    parts
}

/// Where packets go from each stage, and where they come from.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    /// By direction and place: the stages that follow; none where the tester does.
    next: [Vec<Vec<usize>>; 2],
}

impl Paths {
    pub(super) fn of(stages: &[StageReading]) -> Self {
        let parts = parts(stages);
        let mut next = [vec![Vec::new(); stages.len()], vec![Vec::new(); stages.len()]];
        let mut link = |near: usize, far: usize| {
            next[0][near].push(far);
            next[1][far].push(near);
        };
        let mut ends: Vec<usize> = Vec::new();
        for part in &parts {
            let rows: Vec<Vec<usize>> = match part {
                Part::One(place) => vec![vec![*place]],
                Part::Copies(copies) => copies.clone(),
            };
            let begins: Vec<usize> = rows.iter().filter_map(|row| row.first().copied()).collect();
            ends.iter().for_each(|near| begins.iter().for_each(|far| link(*near, *far)));
            rows.iter().flat_map(|row| row.windows(2)).for_each(|pair| link(pair[0], pair[1]));
            ends = rows.iter().filter_map(|row| row.last().copied()).collect();
        }
        Self { next }
    }

    /// The stages that packets of a direction go to from a stage; none where the tester has them.
    pub(super) fn next(&self, way: usize, place: usize) -> &[usize] {
        &self.next[way][place]
    }

    /// The stages that packets of a direction come from; none where the tester sends them.
    pub(super) fn before(&self, way: usize, place: usize) -> &[usize] {
        &self.next[1 - way][place]
    }
}

/// Of each stage in a copy, which share of the packets of all copies came to it; nothing of others.
pub(super) fn shares(stages: &[StageReading]) -> Vec<Option<f64>> {
    let mut shares = vec![None; stages.len()];
    let came = |place: usize| stages[place].received.iter().sum::<u64>();
    for part in parts(stages) {
        let Part::Copies(copies) = part else { continue };
        for rank in 0..copies.iter().map(Vec::len).max().unwrap_or(0) {
            let places = || copies.iter().filter_map(|copy| copy.get(rank).copied());
            let all: u64 = places().map(came).sum();
            places()
                .filter(|_| all > 0)
                .for_each(|place| shares[place] = Some(came(place) as f64 / all as f64));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(copies: &[u32]) -> Vec<StageReading> {
        copies.iter().map(|copy| StageReading { copy: *copy, ..StageReading::default() }).collect()
    }

    #[test]
    fn a_row_is_followed_both_ways() {
        let paths = Paths::of(&stages(&[0, 0, 0]));
        assert_eq!((paths.next(0, 0), paths.next(0, 2)), (&[1][..], &[][..]));
        assert_eq!((paths.next(1, 2), paths.before(1, 1)), (&[1][..], &[2][..]));
    }

    #[test]
    fn copies_stand_between_what_splits_and_what_joins() {
        // The host; two functions with the host between them, twice; the host.
        let stages = stages(&[0, 1, 1, 1, 2, 2, 2, 0]);
        assert_eq!(parts(&stages)[1], Part::Copies(vec![vec![1, 2, 3], vec![4, 5, 6]]));
        let paths = Paths::of(&stages);
        assert_eq!((paths.next(0, 0), paths.next(1, 7)), (&[1, 4][..], &[3, 6][..]));
        assert_eq!(
            (paths.next(0, 3), paths.next(0, 6), paths.before(0, 7)),
            (&[7][..], &[7][..], &[3, 6][..])
        );
        assert_eq!((paths.next(0, 1), paths.next(1, 5)), (&[2][..], &[4][..]));
    }

    #[test]
    fn a_copys_share_is_of_what_came_to_all_at_the_same_place() {
        let mut stages = stages(&[0, 1, 2, 0]);
        stages[1].received = [30, 0];
        stages[2].received = [60, 30];
        assert_eq!(shares(&stages), [None, Some(0.25), Some(0.75), None]);
        stages.iter_mut().for_each(|stage| stage.received = [0, 0]);
        assert_eq!(shares(&stages), [None; 4]);
    }
}

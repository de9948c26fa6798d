//! Where a host sends what comes in by each of its ports.
//!
//! Of each bundle, one after the other: its first and its last port face the tester; between them lie two for each function: towards the chain's port 0 and
//! towards its port 1, those of a copy of the chain together, copy after copy. One copy makes crossed pairs of ports.

use weir_trial::Split;

/// Ports of a host, and where packets go between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// By port, from 0: the port that packets go to; where there are several, one is chosen for each packet.
    pub to: Vec<Vec<usize>>,
    /// How it is chosen.
    pub split: Split,
}

/// Places of ports of so many bundles of so many copies of a chain of so many functions, each of which has so many pairs of ports.
/// A *lane* is a way through the chain: one for each copy and pair, those of a copy together. What it says of a place is of the
/// first bundle; each further one has [`Self::span`] places more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) functions: usize,
    pub(super) copies: usize,
    pub(super) pairs: usize,
    pub(super) bundles: usize,
}

impl Places {
    /// Lanes of a bundle.
    pub(super) fn lanes(self) -> usize {
        self.copies * self.pairs
    }

    /// Lanes of a copy.
    pub(super) fn lanes_of(self, copy: usize) -> std::ops::Range<usize> {
        copy * self.pairs..(copy + 1) * self.pairs
    }

    /// Towards the chain's port 0, of a function in a lane, both from 0.
    pub(super) fn near(self, lane: usize, function: usize) -> usize {
        1 + 2 * (lane * self.functions + function)
    }

    /// Towards its port 1.
    pub(super) fn far(self, lane: usize, function: usize) -> usize {
        self.near(lane, function) + 1
    }

    /// The last port, which faces the tester as port 0 does.
    pub(super) fn last(self) -> usize {
        1 + 2 * self.functions * self.lanes()
    }

    /// Ports of a bundle.
    pub(super) fn span(self) -> usize {
        self.last() + 1
    }

    /// The way of packets between them.
    pub(super) fn paths(self, split: Split) -> HostPaths {
        let mut to = vec![Vec::new(); self.span() * self.bundles];
        for first in (0..self.bundles).map(|bundle| bundle * self.span()) {
            let mut link = |one: usize, other: usize| {
                to[first + one].push(first + other);
                to[first + other].push(first + one);
            };
            for lane in 0..self.lanes() {
                link(0, self.near(lane, 0));
                (1..self.functions).for_each(|next| link(self.far(lane, next - 1), self.near(lane, next)));
                link(self.far(lane, self.functions - 1), self.last());
            }
        }
        HostPaths { to, split }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_makes_pairs_of_ports_and_several_are_split_from_both_sides() {
        let one = Places { functions: 2, copies: 1, pairs: 1, bundles: 1 }.paths(Split::Flow);
        let pairs: Vec<Vec<usize>> = (0..6).map(|port| vec![port ^ 1]).collect();
        assert_eq!(one.to, pairs);
        let two = Places { functions: 2, copies: 2, pairs: 1, bundles: 1 }.paths(Split::RoundRobin);
        // 0 | 1 f1 2, 3 f2 4 | 5 f1 6, 7 f2 8 | 9
        let expected: [&[usize]; 10] = [&[1, 5], &[0], &[3], &[2], &[9], &[0], &[7], &[6], &[9], &[4, 8]];
        assert_eq!(two.to, expected.map(<[usize]>::to_vec));
        let ports = Places { functions: 2, copies: 1, pairs: 2, bundles: 1 };
        assert_eq!((ports.paths(Split::RoundRobin).to, ports.lanes_of(0)), (two.to.clone(), 0..2));
        // The same once more behind it, and no way between them.
        let beside = Places { functions: 2, copies: 2, pairs: 1, bundles: 2 }.paths(Split::RoundRobin);
        let further = expected.iter().map(|to| to.iter().map(|port| port + 10).collect::<Vec<_>>());
        assert_eq!(beside.to, two.to.into_iter().chain(further).collect::<Vec<_>>());
    }
}

//! What the processes of a chain count, as its stages.
//!
//! A host is a stage between two functions, and where it splits packets among copies of the chain one stage before
//! and one behind all copies: these have on one side the sum of the copies' ports, and each copy is told what it was handed.
//! The owner of shared memory is a stage at both ends, and its functions stand between as one.

use super::paths::Places;
use crate::{Counters, PortCounts};
use weir_trial::{Handed, StageReading};
use weir_units::Nanos;

/// A process of a chain, and what it counted.
pub(super) struct Counted<'c> {
    pub(super) name: &'c str,
    pub(super) is_host: bool,
    pub(super) counters: &'c Counters,
}

/// What the processes counted, by stage, from the chain's port 0 on, bundle by bundle. The host comes first, then the functions of
/// each copy.
pub(super) fn stages(processes: &[Counted<'_>], places: Places) -> Vec<StageReading> {
    let functions: Vec<StageReading> = (0..)
        .zip(processes)
        .filter(|(_, process)| !process.is_host)
        .map(|(number, process)| {
            let counters = process.counters;
            // Of several pairs of ports those on one side together.
            let pair = [0, 1].map(|side| sum(counters.ports.iter().skip(side).step_by(2).copied()));
            let reading = stage((process.name, number), pair, (counters.refused, counters.cpu));
            let taps = counters.taps.iter().copied().reduce(weir_trial::StageTaps::with);
            StageReading { taps, busy: counters.busy, ..reading }
        })
        .collect();
    let host = processes.iter().find(|process| process.is_host);
    let each = functions.len() / places.bundles.max(1);
    let mut all = Vec::new();
    for (number, functions) in (0..).zip(functions.chunks(each.max(1))) {
        let first = all.len();
        match host {
            Some(host) => all.extend(hosted(Hosted { host, places, bundle: number }, functions)),
            None => all.extend_from_slice(functions),
        }
        if places.bundles > 1 {
            all[first..].iter_mut().for_each(|stage| stage.bundle = number as u32 + 1);
        }
    }
    all
}

/// The stages of one bundle behind a host.
fn hosted(hosted: Hosted<'_>, functions: &[StageReading]) -> Vec<StageReading> {
    let places = hosted.places;
    let copies = 0..places.copies;
    let near = hosted.sum((0..places.lanes()).map(|lane| places.near(lane, 0)));
    let first = hosted.hop([hosted.port(0), near], 0);
    let far = hosted.sum((0..places.lanes()).map(|lane| places.far(lane, places.functions - 1)));
    let last = hosted.hop([far, hosted.port(places.last())], places.last() / 2);
    let mut all = vec![first];
    let of_copy = functions.len() / places.copies.max(1);
    for (copy, functions) in copies.zip(functions.chunks(of_copy.max(1))) {
        all.extend(hosted.copy(copy, functions));
    }
    all.push(last);
    all
}

/// A host and the places of its ports, of one bundle.
struct Hosted<'h> {
    host: &'h Counted<'h>,
    places: Places,
    bundle: usize,
}

impl Hosted<'_> {
    /// What it counted at a port; nothing where it does not tell its ports apart.
    fn port(&self, place: usize) -> PortCounts {
        let place = self.bundle * self.places.span() + place;
        self.host.counters.ports.get(place).copied().unwrap_or_default()
    }

    /// What it counted at several ports together.
    fn sum(&self, places: impl Iterator<Item = usize>) -> PortCounts {
        sum(places.map(|place| self.port(place)))
    }

    /// A stage of it, between these ports; its taps count by pairs of ports, where nothing is split.
    fn hop(&self, pair: [PortCounts; 2], number: usize) -> StageReading {
        let counters = self.host.counters;
        let refused = pair[0].refused.zip(pair[1].refused).map(|(one, other)| one + other);
        let reading = stage((self.host.name, 0), pair, (refused, counters.cpu));
        let number = self.bundle * self.places.span() / 2 + number;
        let taps = counters.taps.get(number).copied().filter(|_| self.places.lanes() == 1);
        StageReading { taps, busy: counters.busy, ..reading }
    }

    /// The stages of one copy.
    fn copy(&self, copy: usize, functions: &[StageReading]) -> Vec<StageReading> {
        let places = self.places;
        let mut all = Vec::new();
        for (function, reading) in functions.iter().enumerate() {
            if (1..places.functions).contains(&function) {
                let near = self.sum(places.lanes_of(copy).map(|lane| places.far(lane, function - 1)));
                let far = self.sum(places.lanes_of(copy).map(|lane| places.near(lane, function)));
                all.push(self.hop([near, far], function));
            }
            all.push(reading.clone());
        }
        if places.copies > 1 {
            let handed = |place: fn(Places, usize) -> usize| {
                let port = self.sum(places.lanes_of(copy).map(|lane| place(places, lane)));
                Some(Handed { sent: port.sent, refused: port.refused })
            };
            all.iter_mut().for_each(|stage| stage.copy = copy as u32 + 1);
            if let Some(first) = all.first_mut() {
                first.handed[0] = handed(|places, lane| places.near(lane, 0));
            }
            if let Some(last) = all.last_mut() {
                last.handed[1] = handed(|places, lane| places.far(lane, places.functions - 1));
            }
        }
        all
    }
}

/// What several ports counted together.
fn sum(ports: impl Iterator<Item = PortCounts>) -> PortCounts {
    let with = |all: PortCounts, port: PortCounts| PortCounts {
        received: all.received + port.received,
        sent: all.sent + port.sent,
        refused: all.refused.zip(port.refused).map(|(all, port)| all + port),
    };
    ports.reduce(with).unwrap_or_default()
}

/// A stage of a process, between two of its ports.
pub(super) fn stage(
    (name, process): (&str, u32),
    [near, far]: [PortCounts; 2],
    (refused, cpu): (Option<u64>, Nanos),
) -> StageReading {
    StageReading {
        name: name.to_owned(),
        process,
        received: [near.received, far.received],
        sent: [far.sent, near.sent],
        refused,
        cpu,
        ..StageReading::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn counters(ports: &[(u64, u64, u64)]) -> Counters {
        let port = |&(received, sent, refused)| PortCounts { received, sent, refused: Some(refused) };
        let ports: Vec<PortCounts> = ports.iter().map(port).collect();
        Counters { ports, ..Counters::new(0, 0, Nanos(1), Instant::now()) }
    }

    #[test]
    fn a_splitting_host_is_one_stage_on_either_side_of_all_copies() {
        // 0 | 1 nf 2 | 3 nf 4 | 5: 100 come by either side, 60 go through the first copy.
        let host = counters(&[(100, 90, 3), (58, 60, 1), (58, 57, 0), (40, 39, 0), (38, 40, 2), (99, 96, 0)]);
        let (one, other) = (counters(&[(60, 58, 0), (57, 58, 0)]), counters(&[(39, 40, 0), (40, 38, 0)]));
        let named = |name, is_host, counters| Counted { name, is_host, counters };
        let processes = [
            named("weir", true, &host),
            named("nf 1, copy 1", false, &one),
            named("nf 1, copy 2", false, &other),
        ];
        let stages = stages(&processes, Places { functions: 1, copies: 2, pairs: 1, bundles: 1 });
        let told: Vec<_> =
            stages.iter().map(|stage| (stage.name.as_str(), stage.copy, stage.process)).collect();
        assert_eq!(told, [("weir", 0, 0), ("nf 1, copy 1", 1, 1), ("nf 1, copy 2", 2, 2), ("weir", 0, 0)]);
        let [near, first, second, far] = stages.as_slice() else { panic!("{stages:?}") };
        assert_eq!((near.received, near.sent, near.refused), ([100, 98], [99, 90], Some(4)));
        assert_eq!((far.received, far.sent, far.refused), ([96, 99], [96, 97], Some(2)));
        let handed = |sent, refused| Some(Handed { sent, refused: Some(refused) });
        assert_eq!(first.handed, [handed(60, 1), handed(57, 0)]);
        assert_eq!(second.handed, [handed(39, 0), handed(40, 2)]);
    }

    #[test]
    fn one_copy_of_a_chain_has_a_stage_of_the_host_between_any_two_functions() {
        let host = counters(&[(1, 2, 0), (3, 4, 0), (5, 6, 0), (7, 8, 0), (9, 10, 0), (11, 12, 0)]);
        let nf = counters(&[(1, 1, 0), (1, 1, 0)]);
        let named = |name, is_host, counters| Counted { name, is_host, counters };
        let processes = [named("weir", true, &host), named("nf 1", false, &nf), named("nf 2", false, &nf)];
        let stages = stages(&processes, Places { functions: 2, copies: 1, pairs: 1, bundles: 1 });
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["weir", "nf 1", "weir", "nf 2", "weir"]);
        assert_eq!((stages[2].received, stages[2].sent), ([5, 7], [8, 6]));
        assert!(stages.iter().all(|stage| stage.copy == 0 && stage.handed == [None; 2]));
    }

    #[test]
    fn a_function_with_several_pairs_of_ports_is_one_stage_with_the_sums_of_either_side() {
        // 0 | 1 nf 2, 3 nf 4 (the second function) | 5 nf 6, 7 nf 8 | 9
        let ports: Vec<(u64, u64, u64)> = (0..10).map(|port| (10 * port, 10 * port + 1, 0)).collect();
        let host = counters(&ports);
        let taps = |packets| {
            let edge = [weir_trial::Passed { packets, delay: Nanos(1) }; 2];
            weir_trial::StageTaps { came: edge, left: edge }
        };
        let nf = Counters {
            taps: vec![taps(3), taps(4)],
            ..counters(&[(1, 2, 0), (3, 4, 0), (5, 6, 0), (7, 8, 0)])
        };
        let named = |name, is_host, counters| Counted { name, is_host, counters };
        let processes = [named("weir", true, &host), named("nf 1", false, &nf), named("nf 2", false, &nf)];
        let stages = stages(&processes, Places { functions: 2, copies: 1, pairs: 2, bundles: 1 });
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["weir", "nf 1", "weir", "nf 2", "weir"]);
        assert_eq!((stages[1].received, stages[1].sent), ([6, 10], [12, 8]));
        assert_eq!(stages[1].taps.unwrap().came[0].packets, 7);
        assert_eq!((stages[0].received, stages[0].sent), ([0, 60], [62, 1]));
        assert_eq!((stages[2].received, stages[2].sent), ([80, 100], [102, 82]));
        assert!(stages.iter().all(|stage| stage.copy == 0 && stage.handed == [None; 2]));
    }

    #[test]
    fn each_bundle_has_the_ports_and_the_taps_of_its_own() {
        let ports: Vec<(u64, u64, u64)> = (0..8).map(|port| (10 * port, 10 * port + 1, 0)).collect();
        let taps = |packets| {
            let edge = [weir_trial::Passed { packets, delay: Nanos(1) }; 2];
            weir_trial::StageTaps { came: edge, left: edge }
        };
        let host = Counters { taps: (0..4).map(taps).collect(), ..counters(&ports) };
        let nf = counters(&[(1, 1, 0), (1, 1, 0)]);
        let named = |name, is_host, counters| Counted { name, is_host, counters };
        let processes = [named("weir", true, &host), named("nf 1", false, &nf), named("nf 1", false, &nf)];
        let stages = stages(&processes, Places { functions: 1, copies: 1, pairs: 1, bundles: 2 });
        let told: Vec<_> =
            stages.iter().map(|stage| (stage.name.as_str(), stage.bundle, stage.process)).collect();
        let row = |bundle, process| [("weir", bundle, 0), ("nf 1", bundle, process), ("weir", bundle, 0)];
        assert_eq!(told, [row(1, 1), row(2, 2)].concat());
        assert_eq!((stages[3].received, stages[3].sent), ([40, 50], [51, 41]));
        assert_eq!((stages[5].received, stages[5].taps), ([60, 70], Some(taps(3))));
        let alone = &processes[1..];
        let rows = super::stages(alone, Places { functions: 1, copies: 1, pairs: 1, bundles: 2 });
        assert_eq!(rows.iter().map(|stage| stage.bundle).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn the_owner_of_shared_memory_is_a_stage_at_both_ends_with_what_its_taps_say() {
        let host = counters(&[(1, 2, 0), (3, 4, 0), (5, 6, 0), (7, 8, 0)]);
        let taps = |packets| {
            let edge = [weir_trial::Passed { packets, delay: Nanos(1) }; 2];
            weir_trial::StageTaps { came: edge, left: edge }
        };
        let host = Counters { taps: vec![taps(1), taps(2)], busy: Some(9), ..host };
        let nf = Counters { taps: vec![taps(3)], ..counters(&[(1, 1, 0), (1, 1, 0)]) };
        let named = |name, is_host, counters| Counted { name, is_host, counters };
        let processes = [named("primary", true, &host), named("nf 1", false, &nf), named("nf 2", false, &nf)];
        let stages = stages(&processes, Places { functions: 1, copies: 1, pairs: 1, bundles: 1 });
        let told: Vec<_> =
            stages.iter().map(|stage| (stage.name.as_str(), stage.taps.unwrap().came[0].packets)).collect();
        assert_eq!(told, [("primary", 1), ("nf 1", 3), ("nf 2", 3), ("primary", 2)]);
        assert_eq!((stages[3].received, stages[3].busy), ([5, 7], Some(9)));
    }
}

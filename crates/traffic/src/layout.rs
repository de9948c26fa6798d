//! Which of the tester's threads sends and receives what.

use weir_trial::expected::PAIR;

/// What one thread does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePlan {
    /// Its core.
    pub core: usize,
    /// What it sends: directions, and the number of its sender in each.
    pub sends: Vec<(usize, usize)>,
    /// Ports it receives from.
    pub receives: Vec<usize>,
}

/// The direction whose tracker judges what comes by a port: the one that ends there, else one that ends at the other port
/// of its pair, else the first.
pub(crate) fn watcher(ends: &[usize], port: usize) -> usize {
    let pair = |port: usize| port / usize::from(PAIR);
    let own = ends.iter().position(|end| *end == port);
    own.or_else(|| ends.iter().position(|end| pair(*end) == pair(port))).unwrap_or(0)
}

/// The threads of a tester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Senders of each direction, each with a transmit queue of its own.
    pub streams: usize,
    /// The threads.
    pub lanes: Vec<LanePlan>,
}

impl Layout {
    /// Deals the work out to cores. With one core everything is done on it. With more, senders and
    /// receivers are apart: a thread receives one port at least, so that one tracker sees all of a
    /// direction; the other threads send. `ends[d]` is the port at which direction `d` ends, and a
    /// direction has a sender for each of its port's `queues` (of [`crate::stamp::Stamp::STREAMS`] at most), however few
    /// threads they are on.
    pub fn of(cores: &[usize], ports: usize, ends: &[usize], queues: usize) -> Self {
        let directions = ends.len().max(1);
        // A port where no direction ends is watched by the tracker of one that ends at the other port of its pair.
        let mut groups: Vec<Vec<usize>> = ends.iter().map(|end| vec![*end]).collect();
        groups.dedup();
        for port in (0..ports).filter(|port| !ends.contains(port)) {
            let place = watcher(ends, port);
            match groups.get_mut(place) {
                Some(group) => group.push(port),
                None => groups.push(vec![port]),
            }
        }
        let mut lanes: Vec<LanePlan> =
            cores.iter().map(|core| LanePlan { core: *core, ..LanePlan::default() }).collect();
        let receiving = groups.len().min(cores.len() / 2);
        let sending = cores.len() - receiving;
        let streams = queues.clamp(1, crate::stamp::Stamp::STREAMS);
        for (number, group) in groups.into_iter().enumerate() {
            let lane = if receiving == 0 { 0 } else { sending + number % receiving };
            lanes[lane].receives.extend(group);
        }
        for number in 0..directions * streams {
            lanes[number % sending].sends.push((number % directions, number / directions));
        }
        lanes.retain(|lane| !lane.sends.is_empty() || !lane.receives.is_empty());
        Self { streams, lanes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(core: usize, sends: &[(usize, usize)], receives: &[usize]) -> LanePlan {
        LanePlan { core, sends: sends.to_vec(), receives: receives.to_vec() }
    }

    #[test]
    fn one_core_does_everything_and_more_of_them_part_senders_from_receivers() {
        let both = |cores: &[usize], queues| Layout::of(cores, 2, &[1, 0], queues);
        assert_eq!(both(&[3], 1).lanes, [lane(3, &[(0, 0), (1, 0)], &[1, 0])]);
        assert_eq!(both(&[3, 4], 1).lanes, [lane(3, &[(0, 0), (1, 0)], &[]), lane(4, &[], &[1, 0])]);
        assert_eq!(both(&[1, 2, 3], 1).lanes.len(), 3);
        let two_queues = [lane(3, &[(0, 0), (1, 0), (0, 1), (1, 1)], &[1, 0])];
        assert_eq!(both(&[3], 2).lanes, two_queues, "a sender a queue, on as many threads as there are");
        let four = both(&[1, 2, 3, 4], 1);
        let apart =
            [lane(1, &[(0, 0)], &[]), lane(2, &[(1, 0)], &[]), lane(3, &[], &[1]), lane(4, &[], &[0])];
        assert_eq!((four.streams, four.lanes.as_slice()), (1, &apart[..]));
        let eight = both(&[1, 2, 3, 4, 5, 6, 7, 8], 3);
        assert_eq!((eight.streams, eight.lanes.len()), (3, 8));
        assert_eq!(eight.lanes[5].sends, [(1, 2)]);
    }

    #[test]
    fn one_direction_has_one_receiver_for_all_ports_and_a_sender_for_each_queue() {
        let one = Layout::of(&[1, 2, 3, 4], 2, &[1], 2);
        assert_eq!(one.streams, 2);
        assert_eq!(one.lanes.len(), 3, "a third sender would have no queue");
        assert_eq!(one.lanes[2].receives, [1, 0]);
        assert_eq!(Layout::of(&[5], 1, &[0], 1).lanes, [lane(5, &[(0, 0)], &[0])]);
    }

    #[test]
    fn a_port_where_nothing_ends_is_watched_with_the_other_of_its_pair() {
        let ends = [1, 3, 5];
        let two = Layout::of(&[1, 2, 3, 4], 6, &ends, 1);
        let received: Vec<&[usize]> = two.lanes.iter().map(|lane| lane.receives.as_slice()).collect();
        assert_eq!(received, [&[][..], &[], &[1, 0, 5, 4], &[3, 2]]);
        assert_eq!((0..6).map(|port| watcher(&ends, port)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
        assert_eq!(watcher(&[0], 0), 0);
    }

    #[test]
    fn everything_is_done_once_whatever_the_cores() {
        for cores in 1..12 {
            let bundles = [(4, vec![1, 0, 3, 2]), (6, vec![1, 3, 5]), (6, vec![1, 0, 3, 2, 5, 4])];
            for (ports, ends) in [(1, vec![0]), (2, vec![1]), (2, vec![1, 0])].into_iter().chain(bundles) {
                for most in [1, 2, 40] {
                    let all: Vec<usize> = (0..cores).collect();
                    let layout = Layout::of(&all, ports, &ends, most);
                    let mut sends: Vec<_> = layout.lanes.iter().flat_map(|lane| lane.sends.clone()).collect();
                    let mut receives: Vec<_> =
                        layout.lanes.iter().flat_map(|lane| lane.receives.clone()).collect();
                    sends.sort_unstable();
                    receives.sort_unstable();
                    let every = (0..ends.len()).flat_map(|d| (0..layout.streams).map(move |s| (d, s)));
                    assert_eq!(sends, every.collect::<Vec<_>>());
                    assert_eq!(receives, (0..ports).collect::<Vec<_>>());
                    assert_eq!(layout.streams, most.min(crate::stamp::Stamp::STREAMS));
                }
            }
        }
    }
}

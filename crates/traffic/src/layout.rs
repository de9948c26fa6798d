//! Which of the tester's threads sends and receives what.

use weir_trial::expected::PAIR;

/// What one thread does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePlan {
    /// Its core.
    pub core: usize,
    /// What it sends: directions, and the number of its sender in each.
    pub sends: Vec<(usize, usize)>,
    /// What it receives from: ports, and the number of a queue of each.
    pub receives: Vec<(usize, usize)>,
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
    /// Deals the work out to cores. With one core everything is done on it. With more, senders and receivers are apart:
    /// half of the threads at most receive, the others send. `ends[d]` is the port at which direction `d` ends. A port has so
    /// many `queues`, and a direction a sender for each of those of its port ([`crate::stamp::Stamp::STREAMS`] at most), however
    /// few threads they are on. Where more threads receive than there are directions, the queues of a port are shared out.
    pub fn of(cores: &[usize], ports: usize, ends: &[usize], queues: usize) -> Self {
        let (queues, directions) = (queues.max(1), ends.len().max(1));
        let mut lanes: Vec<LanePlan> =
            cores.iter().map(|core| LanePlan { core: *core, ..LanePlan::default() }).collect();
        let received = received(ports, ends);
        let receiving = (received.len() * queues).min(cores.len() / 2);
        let sending = cores.len() - receiving;
        let streams = queues.min(crate::stamp::Stamp::STREAMS);
        for (number, ports) in received.iter().enumerate() {
            // The threads of this direction: every so manyth of those that receive.
            let own: Vec<usize> = match receiving {
                0 => vec![0],
                few if few <= received.len() => vec![sending + number % few],
                many => (sending + number..sending + many).step_by(received.len()).collect(),
            };
            for (port, queue) in ports.iter().flat_map(|port| (0..queues).map(move |queue| (*port, queue))) {
                lanes[own[queue % own.len()]].receives.push((port, queue));
            }
        }
        for number in 0..directions * streams {
            lanes[number % sending].sends.push((number % directions, number / directions));
        }
        lanes.retain(|lane| !lane.sends.is_empty() || !lane.receives.is_empty());
        Self { streams, lanes }
    }

    /// How many threads receive each direction's packets.
    pub(crate) fn receivers(&self, ends: &[usize]) -> Vec<usize> {
        let receives = |lane: &&LanePlan, direction| {
            lane.receives.iter().any(|(port, _)| watcher(ends, *port) == direction)
        };
        (0..ends.len())
            .map(|direction| self.lanes.iter().filter(|lane| receives(lane, direction)).count())
            .collect()
    }
}

/// The ports whose packets are judged together, direction by direction: the one where it ends, and those where none ends and
/// that are watched with it.
fn received(ports: usize, ends: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = ends.iter().map(|end| vec![*end]).collect();
    groups.dedup();
    for port in (0..ports).filter(|port| !ends.contains(port)) {
        let place = watcher(ends, port);
        match groups.get_mut(place) {
            Some(group) => group.push(port),
            None => groups.push(vec![port]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(core: usize, sends: &[(usize, usize)], receives: &[usize]) -> LanePlan {
        queues(core, sends, &receives.iter().map(|port| (*port, 0)).collect::<Vec<_>>())
    }

    /// The same, with the queues of ports.
    fn queues(core: usize, sends: &[(usize, usize)], receives: &[(usize, usize)]) -> LanePlan {
        LanePlan { core, sends: sends.to_vec(), receives: receives.to_vec() }
    }

    #[test]
    fn one_core_does_everything_and_more_of_them_part_senders_from_receivers() {
        let both = |cores: &[usize], queues| Layout::of(cores, 2, &[1, 0], queues);
        assert_eq!(both(&[3], 1).lanes, [lane(3, &[(0, 0), (1, 0)], &[1, 0])]);
        assert_eq!(both(&[3, 4], 1).lanes, [lane(3, &[(0, 0), (1, 0)], &[]), lane(4, &[], &[1, 0])]);
        assert_eq!(both(&[1, 2, 3], 1).lanes.len(), 3);
        let (sends, receives) = ([(0, 0), (1, 0), (0, 1), (1, 1)], [(1, 0), (1, 1), (0, 0), (0, 1)]);
        let two = [queues(3, &sends, &receives)];
        assert_eq!(both(&[3], 2).lanes, two, "a sender a queue, on as many threads as there are");
        let four = both(&[1, 2, 3, 4], 1);
        let apart =
            [lane(1, &[(0, 0)], &[]), lane(2, &[(1, 0)], &[]), lane(3, &[], &[1]), lane(4, &[], &[0])];
        assert_eq!((four.streams, four.lanes.as_slice()), (1, &apart[..]));
        assert_eq!(four.receivers(&[1, 0]), [1, 1]);
    }

    #[test]
    fn the_queues_of_a_port_are_shared_out_where_more_threads_receive_than_there_are_directions() {
        let eight = Layout::of(&[1, 2, 3, 4, 5, 6, 7, 8], 2, &[1, 0], 3);
        assert_eq!((eight.streams, eight.lanes.len()), (3, 8));
        assert_eq!(eight.lanes[2].sends, [(0, 1)], "the third of four that send six");
        assert_eq!(eight.lanes[1].sends, [(1, 0), (1, 2)]);
        let received: Vec<_> = eight.lanes[4..].iter().map(|lane| lane.receives.as_slice()).collect();
        assert_eq!(received, [&[(1, 0), (1, 2)][..], &[(0, 0), (0, 2)], &[(1, 1)], &[(0, 1)]]);
        assert_eq!(eight.receivers(&[1, 0]), [2, 2]);
        let three = Layout::of(&[1, 2, 3, 4, 5, 6], 2, &[1, 0], 2);
        assert_eq!(three.receivers(&[1, 0]), [2, 1], "three receive, three send");
    }

    #[test]
    fn one_direction_has_a_sender_for_each_queue_and_as_many_receivers_as_send() {
        let one = Layout::of(&[1, 2, 3, 4], 2, &[1], 2);
        let sent = [lane(1, &[(0, 0)], &[]), lane(2, &[(0, 1)], &[])];
        let received = [queues(3, &[], &[(1, 0), (0, 0)]), queues(4, &[], &[(1, 1), (0, 1)])];
        assert_eq!((one.streams, one.lanes), (2, [sent, received].concat()));
        let six = Layout::of(&[1, 2, 3, 4, 5, 6], 2, &[1], 2);
        assert_eq!(six.lanes.len(), 4, "a third sender would have no queue, and a third receiver none");
        assert_eq!(Layout::of(&[5], 1, &[0], 1).lanes, [lane(5, &[(0, 0)], &[0])]);
    }

    #[test]
    fn a_port_where_nothing_ends_is_watched_with_the_other_of_its_pair() {
        let ends = [1, 3, 5];
        let two = Layout::of(&[1, 2, 3, 4], 6, &ends, 1);
        let of = |lane: &LanePlan| lane.receives.iter().map(|(port, _)| *port).collect::<Vec<_>>();
        assert_eq!(two.lanes.iter().map(of).collect::<Vec<_>>(), [&[][..], &[], &[1, 0, 5, 4], &[3, 2]]);
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
                    let polled = (0..ports).flat_map(|port| (0..most).map(move |queue| (port, queue)));
                    assert_eq!(receives, polled.collect::<Vec<_>>());
                    assert_eq!(layout.streams, most.min(crate::stamp::Stamp::STREAMS));
                }
            }
        }
    }
}

//! How long packets took at each stage, from the taps of its neighbours and its own.

use super::paths::{Part, parts};
use super::{Passed, StageReading};
use crate::TrialResult;

/// A sum of times, and of how many packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    packets: f64,
    pub(super) sum: f64,
}

impl Spent {
    fn add(&mut self, packets: f64, time: f64) {
        self.packets += packets;
        self.sum += packets * time;
    }

    pub(super) fn mean(self) -> Option<f64> {
        (self.packets > 0.0).then(|| self.sum / self.packets)
    }
}

/// Times that both directions' packets spent at one stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// From the edge before to its own last one.
    pub(super) whole: Spent,
    /// Between its own edges.
    pub(super) inside: Spent,
    /// Before its own first edge; of a host without, all that lies between its neighbours' edges.
    pub(super) queue: Spent,
}

impl Times {
    /// Packets that were so long between the edges of others.
    fn between(&mut self, packets: f64, time: f64) {
        self.queue.add(packets, time);
        self.whole.add(packets, time);
    }
}

/// A direction's packets on their way.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// From 0 on, or back.
    way: usize,
    /// Mean delay at the tap that they passed last, in nanoseconds.
    at: f64,
    /// A stage without taps behind that one.
    open: Option<usize>,
    /// Whether the time up to the next tap was told already, with the host before several copies.
    is_told: bool,
}

/// Times by stage, the tester's last. A stage without taps has what lies between its neighbours' taps; the last one
/// what lies between the last tap and the tester.
pub(super) fn times(result: &TrialResult) -> Vec<Times> {
    let stages = &result.stages;
    let mut all = vec![Times::default(); stages.len() + 1];
    if stages.iter().all(|stage| stage.taps.is_none()) {
        return all;
    }
    for (way, direction) in result.directions.iter().enumerate().take(2) {
        let mut here = Way { way, at: 0.0, open: None, is_told: false };
        let mut order = parts(stages);
        if way == 1 {
            order.reverse();
        }
        for part in order {
            match part {
                Part::One(place) => here.pass(stages, place, &mut all),
                Part::Copies(mut copies) => {
                    if way == 1 {
                        copies.iter_mut().for_each(|copy| copy.reverse());
                    }
                    here.pass_copies(stages, &copies, &mut all);
                }
            }
        }
        let account = result.account.as_ref().and_then(|account| account.delays.get(way)?.as_ref());
        if let Some(whole) = account.or(result.latency.as_ref()) {
            let last = &mut all[here.open.unwrap_or(stages.len())];
            last.between(direction.received as f64, whole.mean - here.at);
        }
    }
    all
}

impl Way {
    /// Through one stage.
    fn pass(&mut self, stages: &[StageReading], place: usize, all: &mut [Times]) {
        let Some(taps) = stages[place].taps else {
            self.open = Some(place);
            return;
        };
        let (came, left) = (taps.came[self.way], taps.left[self.way].mean());
        let (packets, Some(came), Some(left)) = (came.packets as f64, came.mean(), left) else { return };
        all[place].inside.add(packets, left - came);
        match (self.open.take(), std::mem::take(&mut self.is_told)) {
            (Some(host), _) => {
                all[host].between(packets, came - self.at);
                all[place].whole.add(packets, left - came);
            }
            (None, true) => all[place].whole.add(packets, left - came),
            // Without a host before it, what a packet waits is its own queue's.
            (None, false) => {
                all[place].queue.add(packets, came - self.at);
                all[place].whole.add(packets, left - self.at);
            }
        }
        self.at = left;
    }

    /// Through copies side by side: the host before them has the mean of all packets.
    fn pass_copies(&mut self, stages: &[StageReading], copies: &[Vec<usize>], all: &mut [Times]) {
        let way = self.way;
        let tapped = |place: &usize| stages[*place].taps;
        let first = |copy: &Vec<usize>| copy.iter().find_map(tapped).map(|taps| taps.came[way]);
        let last = |copy: &Vec<usize>| copy.iter().rev().find_map(tapped).map(|taps| taps.left[way]);
        let sum =
            |of: &dyn Fn(&Vec<usize>) -> Option<Passed>| copies.iter().filter_map(of).reduce(Passed::with);
        let came = sum(&first);
        let (Some(packets), Some(before)) = (came.map(|all| all.packets as f64), came.and_then(Passed::mean))
        else {
            return;
        };
        let Some(left) = sum(&last).and_then(Passed::mean) else { return };
        if let Some(host) = self.open.take() {
            all[host].between(packets, before - self.at);
        }
        for copy in copies {
            let at = first(copy).and_then(Passed::mean).unwrap_or(before);
            let mut inside = Self { way, at, open: None, is_told: true };
            copy.iter().for_each(|place| inside.pass(stages, *place, all));
        }
        self.at = left;
    }
}

//! How many cycles the tasks of a translation take: of a table's lookup, of an action.
//!
//! The same walk through the tables is made again and again, and the time stamp counter is read where each task begins.
//! The first walk meets the caches as the question found them; nothing is swept out of them, as that would cost the
//! workers' packets. Of the walks behind it there are the least and the median. What is read is the counter of the core
//! that asks: not the core's own clock, and without a fence, so that some tens of cycles may be told of a neighbour.
//!
//! Threads: whoever asks, which is the control thread; no worker is held up. Cost: [`WALKS`] walks, for [`LONGEST`] at most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use weir_cpu::Ticks;

/// Walks, the first included.
const WALKS: usize = 101;

/// Walks that are made however long they take.
const FEWEST: usize = 6;

/// After so long no further walk begins.
const LONGEST: Duration = Duration::from_millis(5);

/// Room for the marks of a walk, so that taking more is no part of what is measured.
const ROOM: usize = 1024;

/// When the tasks of a walk began.
#[derive(Debug)]
pub(crate) struct Laps(Vec<Ticks>);

impl Laps {
    /// A task begins.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.0.push(Ticks::now());
    }
}

/// TSC cycles of something that was done several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cycles {
    /// The first time, with caches as they were.
    pub first: u64,
    /// The least of all later times.
    pub least: u64,
    /// The median of all later times.
    pub median: u64,
}

impl Cycles {
    /// Of what was measured, in order of time.
    fn of(measured: &[u64]) -> Self {
        let Some((first, later)) = measured.split_first() else { return Self::default() };
        let mut later = later.to_vec();
        later.sort_unstable();
        let median = later.get(later.len() / 2).copied().unwrap_or(*first);
        Self { first: *first, least: later.first().copied().unwrap_or(*first), median }
    }
}

/// What walks took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// How many there were, the first included.
    pub(crate) walks: usize,
    /// By task, in order.
    pub(crate) tasks: Vec<Cycles>,
    /// From the first task's begin to the last one's end.
    pub(crate) whole: Cycles,
}

/// Makes the same walk several times; `walk` marks where each of its tasks begins. What it returns is dropped when the last
/// task is over.
pub(crate) fn measure<T>(mut walk: impl FnMut(&mut Laps) -> T) -> Measured {
    let began = Instant::now();
    let mut laps = Laps(Vec::with_capacity(ROOM));
    let mut walks: Vec<Vec<u64>> = Vec::with_capacity(WALKS);
    while walks.len() < WALKS && (walks.len() < FEWEST || began.elapsed() < LONGEST) {
        laps.0.clear();
        let made = walk(&mut laps);
        laps.mark();
        drop(made);
        walks.push(laps.0.windows(2).map(|pair| pair[1].since(pair[0])).collect());
    }
    let of = |task: usize| walks.iter().map(|walk| walk.get(task).copied().unwrap_or(0)).collect::<Vec<_>>();
    let tasks = walks.first().map_or(0, Vec::len);
    let whole: Vec<u64> = walks.iter().map(|walk| walk.iter().sum()).collect();
    Measured {
        walks: walks.len(),
        tasks: (0..tasks).map(|task| Cycles::of(&of(task))).collect(),
        whole: Cycles::of(&whole),
    }
}

/// Cycles from one reading of the counter to the next, which are in what each task took.
pub(crate) fn clock_cycles() -> u64 {
    let readings: Vec<Ticks> = (0..WALKS).map(|_| Ticks::now()).collect();
    let apart: Vec<u64> = readings.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    Cycles::of(&apart).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_stands_by_itself_and_the_median_is_of_the_others() {
        let cycles = Cycles::of(&[900, 30, 10, 20, 400, 50]);
        assert_eq!(cycles, Cycles { first: 900, least: 10, median: 30 });
        assert_eq!(Cycles::of(&[7]), Cycles { first: 7, least: 7, median: 7 });
        assert_eq!(Cycles::of(&[]), Cycles::default());
    }

    #[test]
    fn each_task_has_its_own_cycles_and_together_they_are_the_walk() {
        let pause = |cycles: u64| {
            let begin = Ticks::now();
            while Ticks::now().since(begin) < cycles {}
        };
        let mut walks = 0;
        let measured = measure(|laps| {
            laps.mark();
            pause(20_000);
            laps.mark();
            pause(if walks == 0 { 100_000 } else { 200 });
            walks += 1;
        });
        assert_eq!((measured.walks, measured.tasks.len()), (walks, 2));
        assert!((FEWEST..=WALKS).contains(&walks), "{walks}");
        let [long, short] = measured.tasks[..] else { panic!("{measured:?}") };
        assert!(long.least >= 20_000 && short.first >= 100_000, "{measured:?}");
        assert!(short.least >= 200 && short.least < long.least, "{measured:?}");
        assert!(measured.whole.least >= long.least + short.least, "{measured:?}");
    }

    #[test]
    fn a_walk_that_takes_long_is_made_a_few_times_only() {
        let measured = measure(|laps| {
            laps.mark();
            std::thread::sleep(LONGEST);
        });
        assert_eq!(measured.walks, FEWEST);
    }
}

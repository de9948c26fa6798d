//! What an input may cost, in proportion to its length.
//!
//! Bytes and calls are those of the allocator ([`weir_cpu::Heap`]), so they are the same each time. A reader that goes
//! round in circles without allocating is seen by its time alone, which is taken again where it was exceeded: another
//! program may have had the core.

use std::fmt;
use std::time::Duration;

/// What an input may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes taken from the heap in all, whatever the input's length.
    pub bytes: u64,
    /// Bytes taken from the heap for each byte of the input.
    pub bytes_each: u64,
    /// Calls of the allocator, whatever the input's length: what stands for steps.
    pub calls: u64,
    /// Calls of the allocator for each byte of the input.
    pub calls_each: u64,
    /// Time, whatever the input's length.
    pub time: Duration,
    /// Time for each byte of the input.
    pub time_each: Duration,
}

/// What an input did cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Bytes taken from the heap.
    pub bytes: u64,
    /// Calls of the allocator.
    pub calls: u64,
    /// Time.
    pub time: Duration,
}

impl Budget {
    /// For what takes nothing from the heap.
    pub const NOTHING: Self = Self::of(0, 0, 0, 0);

    /// So many bytes and calls, always and for each byte; of time what is ample for what reads in one pass.
    pub const fn of(bytes: u64, bytes_each: u64, calls: u64, calls_each: u64) -> Self {
        let (time, time_each) = (Duration::from_millis(50), Duration::from_micros(20));
        Self { bytes, bytes_each, calls, calls_each, time, time_each }
    }

    /// With this much time, always and for each byte.
    pub const fn within(self, time: Duration, time_each: Duration) -> Self {
        Self { time, time_each, ..self }
    }

    /// What an input of so many bytes may cost.
    pub fn of_length(&self, length: usize) -> Spent {
        let length = length as u64;
        Spent {
            bytes: self.bytes + self.bytes_each * length,
            calls: self.calls + self.calls_each * length,
            time: self.time + self.time_each * length as u32,
        }
    }
}

impl Spent {
    /// What of it is too much; nothing if all is within.
    pub fn beyond(&self, most: &Self) -> Option<String> {
        if self.bytes > most.bytes {
            return Some(format!("{} bytes were taken from the heap, {} at most", self.bytes, most.bytes));
        }
        if self.calls > most.calls {
            return Some(format!("the heap was called {} times, {} at most", self.calls, most.calls));
        }
        (self.time > most.time).then(|| format!("it took {:?}, {:?} at most", self.time, most.time))
    }

    /// The most of each.
    #[must_use]
    pub fn most(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            calls: self.calls.max(other.calls),
            time: self.time.max(other.time),
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} B, {} calls, {:.1?}", self.bytes, self.calls, self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_grows_with_the_input_and_says_what_was_too_much() {
        let budget = Budget::of(100, 2, 1, 0).within(Duration::from_secs(1), Duration::ZERO);
        let most = budget.of_length(10);
        assert_eq!((most.bytes, most.calls), (120, 1));
        let spent = Spent { bytes: 120, calls: 1, time: Duration::from_secs(1) };
        assert_eq!(spent.beyond(&most), None);
        for (more, word) in [
            (Spent { bytes: 121, ..spent }, "bytes"),
            (Spent { calls: 2, ..spent }, "times"),
            (Spent { time: Duration::from_secs(2), ..spent }, "took"),
        ] {
            assert!(more.beyond(&most).is_some_and(|why| why.contains(word)), "{more:?}");
        }
    }
}

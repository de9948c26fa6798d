//! Times in ticks of the time stamp counter, counted while a trial runs.

use weir_cpu::Tsc;
use weir_trial::Latency;
use weir_units::LatencyHistogram;

/// Log-linear buckets: exact below 2 to the power of `BITS + 1` ticks, and within 2 to the power of
/// `-BITS` above. Recording takes some four instructions and never allocates.
#[derive(Debug)]
pub(crate) struct TickHistogram<const BITS: u32> {
    buckets: Vec<u64>,
}

/// Of delays: within 0.1 %, 450 kB.
pub(crate) type Delays = TickHistogram<10>;
/// Of the tester's own lateness: within 3 %, 15 kB, which leaves the caches to the packets.
pub(crate) type Lateness = TickHistogram<5>;

impl<const BITS: u32> TickHistogram<BITS> {
    /// An empty one, each page of it touched.
    pub(crate) fn new() -> Self {
        let mut buckets = vec![1; ((64 - BITS as usize) + 1) << BITS];
        buckets.fill(0);
        Self { buckets }
    }

    pub(crate) fn clear(&mut self) {
        self.buckets.fill(0);
    }

    #[inline]
    pub(crate) fn record(&mut self, ticks: u64) {
        self.record_many(ticks, 1);
    }

    #[inline]
    pub(crate) fn record_many(&mut self, ticks: u64, count: u64) {
        self.buckets[Self::bucket(ticks)] += count;
    }

    #[inline]
    fn bucket(ticks: u64) -> usize {
        let shift = (u64::BITS - 1 - (ticks | 1).leading_zeros()).saturating_sub(BITS);
        ((shift as usize) << BITS) + (ticks >> shift) as usize
    }

    /// The middle of a bucket, in ticks.
    fn middle(bucket: usize) -> u64 {
        let linear = 2 << BITS;
        if bucket < linear {
            return bucket as u64;
        }
        let shift = (bucket >> BITS) - 1;
        let mantissa = (bucket - (shift << BITS)) as u64;
        (mantissa << shift) + (1 << shift >> 1)
    }

    /// Adds what was counted here to a histogram in nanoseconds.
    pub(crate) fn pour(&self, tsc: Tsc, into: &mut LatencyHistogram) {
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            into.record_many(tsc.nanos(Self::middle(bucket)), *count);
        }
    }

    /// The summary of several; nothing where all are empty.
    pub(crate) fn summary<'a>(several: impl IntoIterator<Item = &'a Self>, tsc: Tsc) -> Option<Latency> {
        let mut sum = LatencyHistogram::default();
        several.into_iter().for_each(|one| one.pour(tsc, &mut sum));
        Latency::of(&sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errs_by_at_most<const BITS: u32>(most: f64) {
        for ticks in (0..4096).chain((12..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 12345]))
        {
            let middle = TickHistogram::<BITS>::middle(TickHistogram::<BITS>::bucket(ticks));
            let error = middle.abs_diff(ticks) as f64 / ticks.max(1) as f64;
            assert!(error <= most, "{ticks} stands as {middle}");
        }
        let mut histogram = TickHistogram::<BITS>::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.buckets.iter().sum::<u64>(), 1);
    }

    #[test]
    fn every_tick_count_falls_into_a_bucket_that_stands_for_it() {
        errs_by_at_most::<10>(0.001);
        errs_by_at_most::<5>(0.032);
    }
}

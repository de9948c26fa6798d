//! The latency histogram of a trial.
//!
//! An HDR histogram in nanoseconds, three significant figures, 1 ns to [`LatencyHistogram::MAX`];
//! larger values are counted in the top bucket, never lost. It is stored and exchanged as the
//! HdrHistogram V2 compressed form in base64, which the HdrHistogram tools of other languages read.

use crate::{Nanos, Ratio};
use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The percentiles that every report shows, in per cent.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

const SIGNIFICANT_FIGURES: u8 = 3;

/// Latencies of one trial, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram(Histogram<u64>);

/// A stored histogram that cannot be read back.
#[derive(Debug, thiserror::Error)]
#[error("stored latency histogram is damaged: {0}")]
pub struct HistogramError(String);

impl Default for LatencyHistogram {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, Self::MAX.0, SIGNIFICANT_FIGURES)
            .expect("the bounds are constants that HdrHistogram accepts");
        Self(histogram)
    }
}

impl LatencyHistogram {
    /// The largest latency told apart: one minute.
    pub const MAX: Nanos = Nanos(60 * Nanos::PER_SECOND);

    /// Most latencies of a stored histogram: shares of more are not exact, and a trial of a year at 100 Mpps has fewer.
    const MOST: u64 = 1 << 53;

    /// Counts one latency. Allocates nothing.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.0.saturating_record(latency.0.max(1));
    }

    /// Counts one latency several times.
    pub fn record_many(&mut self, latency: Nanos, count: u64) {
        self.0.saturating_record_n(latency.0.max(1), count);
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Least latency, or nothing when none was recorded.
    pub fn min(&self) -> Option<Nanos> {
        (self.count() > 0).then(|| Nanos(self.0.min()))
    }

    /// Greatest latency, or nothing when none was recorded.
    pub fn max(&self) -> Option<Nanos> {
        (self.count() > 0).then(|| Nanos(self.0.max()))
    }

    /// Mean in nanoseconds, or nothing when none was recorded: to the bit that of HdrHistogram, whose iterator begins at 0 ns
    /// and not at the least latency.
    pub fn mean(&self) -> Option<f64> {
        let (least, greatest) = (self.min()?.0, self.max()?.0);
        let bins = std::iter::successors(Some(least), |bin| Some(self.0.next_non_equivalent(*bin)));
        Some(bins.take_while(|bin| *bin <= greatest).fold(0.0, |sum, bin| match self.0.count_at(bin) {
            0 => sum,
            count => sum + self.0.median_equivalent(bin) as f64 * count as f64 / self.count() as f64,
        }))
    }

    /// The latency that `percent` per cent of the packets did not exceed.
    pub fn percentile(&self, percent: f64) -> Option<Nanos> {
        (self.count() > 0).then(|| Nanos(self.0.value_at_percentile(percent)))
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    /// Forgets all latencies, keeping the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The cumulative distribution: (latency, share of packets at or below it), rising.
    pub fn distribution(&self) -> Vec<(Nanos, Ratio)> {
        let total = self.count() as f64;
        let mut seen = 0_u64;
        self.0
            .iter_recorded()
            .map(|step| {
                seen += step.count_since_last_iteration();
                (Nanos(step.value_iterated_to()), Ratio(seen as f64 / total))
            })
            .collect()
    }

    /// The whole histogram, HdrHistogram V2 compressed, in base64.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("writing a histogram to memory cannot fail");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    /// Reads what [`Self::to_base64`] wrote.
    pub fn from_base64(text: &str) -> Result<Self, HistogramError> {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| HistogramError(error.to_string()))?;
        check_bounds(&bytes)?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HistogramError(error.to_string()))?;
        if read.len() > Self::MOST {
            return Err(HistogramError(format!(
                "it counts {} latencies, and no trial has so many",
                read.len()
            )));
        }
        let mut histogram = Self::default();
        histogram.0.add(&read).map_err(|error| HistogramError(error.to_string()))?;
        Ok(histogram)
    }
}

/// Refuses a histogram whose header asks for more memory than one of ours takes: a reader makes room for the range
/// and the precision that are stated, before any count is read.
fn check_bounds(bytes: &[u8]) -> Result<(), HistogramError> {
    use std::io::Read as _;
    // Cookie and length of what is compressed; then of the histogram: cookie, length, offset, figures, least, greatest.
    let mut header = [0_u8; 32];
    let compressed = bytes.get(8..).unwrap_or_default();
    flate2::read::ZlibDecoder::new(compressed)
        .read_exact(&mut header)
        .map_err(|error| HistogramError(error.to_string()))?;
    let word = |at: usize| header[at..at + 4].iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let (length, figures) = (word(4), word(12));
    let greatest = (word(24) << 32) | word(28);
    // Each count takes nine bytes at most, and there are not a hundred thousand.
    if figures > u64::from(SIGNIFICANT_FIGURES) || greatest > 2 * LatencyHistogram::MAX.0 || length > 1 << 20
    {
        return Err(HistogramError(format!(
            "it has {figures} figures up to {greatest} ns in {length} bytes, and none of ours has so many"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_histogram_that_asks_for_more_memory_than_ours_take_is_refused() {
        let mut bytes = Vec::new();
        let greedy = Histogram::<u64>::new_with_bounds(1, u64::MAX / 4, 5).unwrap();
        V2DeflateSerializer::new().serialize(&greedy, &mut bytes).unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let error = LatencyHistogram::from_base64(&text).unwrap_err().to_string();
        assert!(error.contains("5 figures"), "{error}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_histogram_survives_its_text_form() {
        let mut histogram = LatencyHistogram::default();
        (1..=100_000).for_each(|n| histogram.record(Nanos(n * 10)));
        let back = LatencyHistogram::from_base64(&histogram.to_base64()).unwrap();
        assert_eq!(back, histogram);
        let median = back.percentile(50.0).unwrap().0 as f64;
        assert!((median / 500_000.0 - 1.0).abs() < 0.001, "{median}");
    }

    #[test]
    fn nothing_recorded_has_no_percentiles() {
        let histogram = LatencyHistogram::default();
        assert_eq!((histogram.min(), histogram.percentile(50.0), histogram.max()), (None, None, None));
        assert_eq!(histogram.mean(), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn the_mean_is_that_of_the_library_to_the_bit() {
        let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 28;
        let drawn: [&[u64]; 6] = [
            &[0],
            &[1, 2, 3],
            &[2047, 2048, 2049, 4095, 4096],
            &[u64::MAX],
            &[0, u64::MAX],
            &[20_000, 20_001, 70_000],
        ];
        let many = (1..=1000).map(spread).collect::<Vec<_>>();
        for latencies in drawn.into_iter().chain([many.as_slice()]) {
            let mut histogram = LatencyHistogram::default();
            latencies
                .iter()
                .zip(1..)
                .for_each(|(latency, times)| histogram.record_many(Nanos(*latency), times));
            let again = LatencyHistogram::from_base64(&histogram.to_base64()).unwrap();
            for histogram in [histogram, again] {
                assert_eq!(
                    histogram.mean().map(f64::to_bits),
                    Some(histogram.0.mean().to_bits()),
                    "{latencies:?}"
                );
            }
        }
    }

    #[test]
    fn a_latency_beyond_the_range_is_kept_in_the_top_bucket() {
        let mut histogram = LatencyHistogram::default();
        histogram.record(Nanos(u64::MAX));
        assert_eq!(histogram.count(), 1);
        assert!(histogram.max().unwrap() >= LatencyHistogram::MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_histogram_of_more_latencies_than_shares_are_exact_for_is_refused() {
        let mut histogram = LatencyHistogram::default();
        histogram.record_many(Nanos(1), LatencyHistogram::MOST);
        assert_eq!(LatencyHistogram::from_base64(&histogram.to_base64()).unwrap(), histogram);
        histogram.record(Nanos(4));
        let error = LatencyHistogram::from_base64(&histogram.to_base64()).unwrap_err().to_string();
        assert!(error.contains("9007199254740993 latencies"), "{error}");
    }

    #[test]
    fn damaged_text_is_an_error() {
        assert!(LatencyHistogram::from_base64("%%%").is_err());
        assert!(LatencyHistogram::from_base64("AAAA").is_err());
    }
}

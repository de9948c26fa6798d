//! How long a worker keeps the flows between two addresses that it once got (`worker/steer.rs`): as long as the services
//! of a snapshot say.

use std::sync::Arc;
use weir_flow::Pairs;
use weir_services::Group;
use weir_units::Nanos;

/// The unit in which it is known when the last packet of a bucket came, in seconds.
pub(super) const EPOCH: u64 = 16;

/// What has pairs of addresses stay with their owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pairs: Vec<Arc<Pairs>>,
    /// Epochs without a packet for which they stay in any case.
    idle: u16,
}

impl Kept {
    /// What these services say.
    pub(crate) fn of<'a>(groups: impl Iterator<Item = &'a dyn Group>) -> Self {
        let mut kept = Self::default();
        for group in groups {
            kept.pairs.extend(group.pairs());
            let epochs = u64::from(group.idle_seconds()).div_ceil(EPOCH) + 1;
            kept.idle = kept.idle.max(u16::try_from(epochs).unwrap_or(u16::MAX));
        }
        kept
    }

    /// The same at a moment.
    #[inline]
    pub(crate) fn at(&self, now: Nanos) -> Age<'_> {
        Age { epoch: (now.0 / (EPOCH * Nanos::PER_SECOND)) as u16, kept: self }
    }
}

/// What decides whether a bucket is still its owner's.
pub(crate) struct Age<'a> {
    pub(crate) epoch: u16,
    kept: &'a Kept,
}

impl Age<'_> {
    /// Whether a bucket of which the last packet came in this epoch may have another owner.
    pub(crate) fn is_over(&self, last: u16, bucket: usize) -> bool {
        self.epoch.wrapping_sub(last) > self.kept.idle
            && !self.kept.pairs.iter().any(|pairs| pairs.is_held(bucket))
    }
}

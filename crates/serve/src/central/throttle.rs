//! Wrong tokens, by the address they come from: after a few an address waits, and at last it is refused for a minute.
//!
//! Nobody guesses a secret of 256 bits: this keeps those who try from costing much. A network of IPv6 (/64) counts as one address.
//! What is known is bounded; where it is full, who failed longest ago is forgotten, at the same cost as any other failure.

use lru::LruCache;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures before an address is refused.
const MOST_FAILURES: u32 = 10;
/// How long it is then, and how long failures are remembered.
const REFUSED: Duration = Duration::from_secs(60);
/// How long a wrong token waits for its answer.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);
/// Addresses that are remembered.
const MOST_ADDRESSES: NonZeroUsize = NonZeroUsize::new(10_000).expect("above zero");

/// Addresses that gave wrong tokens: how many, and when the last. Only a failure counts as a use.
pub(crate) struct Throttle(Mutex<LruCache<IpAddr, (u32, Instant)>>);

impl Default for Throttle {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST_ADDRESSES)))
    }
}

impl Throttle {
    /// How long an address is refused; nothing where it is not.
    pub(crate) fn refused(&self, address: IpAddr) -> Option<Duration> {
        self.refused_at(address, Instant::now())
    }

    /// A token from there was wrong.
    pub(crate) fn failed(&self, address: IpAddr) {
        self.failed_at(address, Instant::now());
    }

    fn refused_at(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (failures, last) = known.peek(&network(address)).copied()?;
        (failures >= MOST_FAILURES)
            .then(|| REFUSED.checked_sub(now.saturating_duration_since(last)))
            .flatten()
    }

    fn failed_at(&self, address: IpAddr, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (failures, last) = known.get_or_insert_mut(network(address), || (0, now));
        if now.saturating_duration_since(*last) >= REFUSED {
            *failures = 0;
        }
        (*failures, *last) = (failures.saturating_add(1), now);
    }
}

/// What counts as one address.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(six) & !u128::from(u64::MAX))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_wrong_tokens_refuse_an_address_for_a_minute_and_no_other() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        let (one, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for second in 0..10 {
            let now = begin + Duration::from_secs(second);
            assert_eq!(throttle.refused_at(one, now), None, "{second}");
            throttle.failed_at(one, now);
        }
        let now = begin + Duration::from_secs(10);
        assert_eq!(throttle.refused_at(one, now), Some(Duration::from_secs(59)));
        assert_eq!(
            throttle.refused_at("::ffff:192.0.2.1".parse().unwrap(), now),
            Some(Duration::from_secs(59))
        );
        assert_eq!(throttle.refused_at(other, now), None);
        let later = begin + Duration::from_secs(70);
        assert_eq!(throttle.refused_at(one, later), None);
        throttle.failed_at(one, later);
        assert_eq!(throttle.refused_at(one, later), None, "what was long ago does not count");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_and_what_is_known_is_bounded() {
        let throttle = Throttle::default();
        let begin = Instant::now();
        for host in 0..10_u16 {
            throttle.failed_at(format!("2001:db8::{host}").parse().unwrap(), begin);
        }
        assert!(throttle.refused_at("2001:db8::ffff".parse().unwrap(), begin).is_some());
        assert!(throttle.refused_at("2001:db8:0:1::1".parse().unwrap(), begin).is_none());
        for number in 0..2 * MOST_ADDRESSES.get() as u32 {
            throttle.failed_at(IpAddr::V4(number.into()), begin + Duration::from_millis(u64::from(number)));
            throttle.failed_at(IpAddr::V4(0.into()), begin + Duration::from_millis(u64::from(number)));
        }
        assert_eq!(throttle.0.lock().unwrap().len(), MOST_ADDRESSES.get());
        // Who failed longest ago is forgotten, and nobody who goes on.
        assert!(throttle.0.lock().unwrap().peek(&IpAddr::V4(1.into())).is_none());
        assert!(throttle.refused_at(IpAddr::V4(0.into()), begin).is_some());
    }
}

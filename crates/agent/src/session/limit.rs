//! How many packets go to controllers: a token bucket for each port by which they came in, so that a flood
//! at one port does not drown what the others have to say.

use std::collections::BTreeMap;
use std::time::Instant;
use weir_openflow::PortNo;

/// Packets a second for each port.
const RATE: f64 = 10_000.0;

/// Packets of a port at once.
const BURST: f64 = 2_000.0;

/// Ports that are kept account of; more than that are old ones.
const PORTS: usize = 4096;

/// The accounts.
#[derive(Debug, Default)]
pub(super) struct Limits(BTreeMap<PortNo, Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    since: Instant,
}

impl Limits {
    /// Whether another packet of this port may go.
    pub(super) fn admit(&mut self, port: PortNo, now: Instant) -> bool {
        if self.0.len() >= PORTS && !self.0.contains_key(&port) {
            self.0.clear();
        }
        let bucket = self.0.entry(port).or_insert(Bucket { tokens: BURST, since: now });
        let earned = now.saturating_duration_since(bucket.since).as_secs_f64() * RATE;
        bucket.tokens = (bucket.tokens + earned).min(BURST);
        bucket.since = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_at_one_port_is_cut_to_its_rate_and_leaves_other_ports_alone() {
        let (mut limits, start) = (Limits::default(), Instant::now());
        let flood = |limits: &mut Limits, at: Instant| -> usize {
            (0..100_000).filter(|_| limits.admit(PortNo(1), at)).count()
        };
        assert_eq!(flood(&mut limits, start), BURST as usize);
        assert!(limits.admit(PortNo(2), start));
        let later = start + Duration::from_millis(100);
        assert_eq!(flood(&mut limits, later), (RATE / 10.0) as usize);
        assert_eq!(flood(&mut limits, later + Duration::from_secs(60)), BURST as usize);
    }
}

//! TCP connections through a device that tracks them: what is asked of a trial, and what came of it.
//!
//! Each connection is new to the device: its five-tuple was not used before. The lab plays both ends, the client behind
//! port 0 and the server behind port 1, and each end sends its next packet when the other's has come. A packet that does
//! not come, or is not what must become of it, fails its connection; only of connections that are held at a time is it sent
//! again, for how many a device holds is no question of what it loses on the way.
//!
//! Terms are those of RFC 3511 (section 5.2, concurrent TCP connection capacity; section 5.3, maximum TCP connection
//! establishment rate) and RFC 9411 (sections 7.2 and 7.5).

use crate::{Latency, TrialSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Pps, Ratio};

/// Connections that a trial is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionSpec {
    /// Connections that begin a second.
    pub rate: f64,
    /// How many; at least 1.
    pub count: u64,
    /// Whether all of them stay open until the last is, and each is then proved to be tracked by an answer; else each
    /// ends once it has carried a request and its answer.
    pub held: bool,
}

impl ConnectionSpec {
    /// Packets of a connection: SYN, SYN and ACK, ACK, a request, its answer, FIN from both ends, the last ACK.
    pub const PACKETS: u32 = 8;
    /// Packets of one that is held: SYN, SYN and ACK, ACK, the answer that proves it, RST.
    pub const HELD_PACKETS: u32 = 5;

    /// So many a second for so long.
    pub fn of(rate: f64, duration: Nanos) -> Self {
        Self { rate, count: ((rate * duration.seconds()).round() as u64).max(1), held: false }
    }

    /// Packets of each.
    pub const fn packets(&self) -> u32 {
        if self.held { Self::HELD_PACKETS } else { Self::PACKETS }
    }

    /// Time in which all begin.
    pub fn begins(&self) -> Nanos {
        Nanos((self.count as f64 / self.rate.max(1e-9) * 1e9).round() as u64)
    }

    /// The same as a load of packets: those that are held are proved, and then broken off, at the rate that they are
    /// opened at.
    pub fn trial(&self) -> TrialSpec {
        let duration = Nanos(self.begins().0.saturating_mul(if self.held { 2 } else { 1 }));
        let packets = self.count as f64 * f64::from(self.packets());
        TrialSpec { load: Pps(packets / duration.seconds().max(1e-9)), duration }
    }
}

/// What came of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionsMade {
    /// What was asked for.
    pub asked: ConnectionSpec,
    /// Those that began: their SYN was offered to the device's ring.
    pub begun: u64,
    /// Those whose three packets of opening came as they must.
    pub opened: u64,
    /// Of those that were held, the ones whose answer came once all were open: the device still tracks them.
    pub proved: u64,
    /// Those of which every packet came as it must, to their end.
    pub whole: u64,
    /// Those that began and were not over at the end, which were then reset from both ends.
    #[serde(default, skip_serializing_if = "is_none")]
    pub broken: u64,
    /// Of these, the ones of which a reset came through the device, so that it tracks them no more. Those whose SYN never came out
    /// are rarely among them, as the device may not know them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub reset: u64,
    /// From the first SYN to the last.
    pub took: Nanos,
    /// The most that a SYN was sent behind its time.
    pub behind: Nanos,
    /// Of the looks at the ports, those that found as many packets as fit one: the tester may have been behind.
    pub full: Ratio,
    /// From SYN to the SYN and ACK that answers it, of those that were opened.
    pub setup: Option<Latency>,
}

/// Whether there are none of something: then it is not stored.
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl ConnectionsMade {
    /// A tester that begins a connection later than this is at its limit, or the machine took its core.
    pub const LATE: Nanos = Nanos(5_000_000);
    /// All of them may take so much longer to begin than asked, as a share: what a pause held up is made up for.
    pub const STRETCHED: Ratio = Ratio(0.05);
    /// From this share of full looks on the tester is taken to be as busy as it can be.
    pub const BUSY: Ratio = Ratio(0.5);

    /// Whether all that was asked for came about, without a lost packet and with none that was wrong.
    pub fn passed(&self) -> bool {
        let right = if self.asked.held { self.proved.min(self.whole) } else { self.whole };
        self.begun == self.asked.count && right == self.asked.count
    }

    /// Whether the tester began them at the rate asked for, over the whole trial.
    pub fn in_time(&self) -> bool {
        self.took.seconds() <= self.asked.begins().seconds() * (1.0 + Self::STRETCHED.0)
    }

    /// Whether the tester may be what failed: it began connections late, or mostly found full bursts.
    pub fn blames_tester(&self) -> bool {
        !self.in_time() || self.behind > Self::LATE || self.full >= Self::BUSY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(asked: ConnectionSpec, whole: u64) -> ConnectionsMade {
        ConnectionsMade {
            asked,
            begun: asked.count,
            opened: asked.count,
            proved: if asked.held { whole } else { 0 },
            whole,
            broken: 0,
            reset: 0,
            took: asked.begins(),
            behind: Nanos(1000),
            full: Ratio(0.0),
            setup: None,
        }
    }

    #[test]
    fn a_rate_is_so_many_connections_and_eight_packets_each() {
        let asked = ConnectionSpec::of(10_000.0, Nanos(800_000_000));
        assert_eq!((asked.count, asked.begins(), asked.packets()), (8_000, Nanos(800_000_000), 8));
        assert_eq!(asked.trial(), TrialSpec { load: Pps(80_000.0), duration: Nanos(800_000_000) });
        assert_eq!(ConnectionSpec::of(1e-6, Nanos(1)).count, 1);
    }

    #[test]
    fn one_connection_less_than_asked_for_is_no_pass() {
        for held in [false, true] {
            let asked = ConnectionSpec { rate: 1000.0, count: 500, held };
            assert!(made(asked, 500).passed() && !made(asked, 499).passed());
        }
        let mut late = made(ConnectionSpec { rate: 1000.0, count: 500, held: false }, 500);
        late.behind = Nanos(ConnectionsMade::LATE.0 + 1);
        assert!(late.passed() && late.in_time() && late.blames_tester(), "a pause that was made up for");
        late.took = Nanos(late.asked.begins().0 * 11 / 10);
        assert!(late.passed() && !late.in_time() && late.blames_tester());
    }
}

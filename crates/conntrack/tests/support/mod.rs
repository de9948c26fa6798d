//! What the tests of connection tracking share.

#![allow(unreachable_pub, reason = "each test file takes what it needs")]

pub mod host;
#[allow(dead_code, reason = "the service's tests use the rest")]
pub mod router;
pub mod wire;

use weir_conntrack::{Judgement, Packet, Settings, Tick, Tracker};
use weir_flow::{Field, Seed};
pub use weir_frames::{
    ACK, FIN, PSH, RST, SYN, Tcp, echo, extract, fragments, icmp, ip, seal, tcp, udp, unreachable, v4, v6,
};
use weir_units::Nanos;

/// A tracker and its clock.
pub struct Net {
    pub tracker: Tracker,
    pub now: Nanos,
}

impl Net {
    pub fn new(settings: Settings) -> Self {
        Self { tracker: Tracker::new(settings, Seed::new(11), Tick(0)), now: Nanos(0) }
    }

    /// A small one with all defaults.
    pub fn small() -> Self {
        Self::new(Settings { connections: 1000, ..Settings::default() })
    }

    pub fn tick_now(&self) -> Tick {
        Tick::of(self.now)
    }

    /// So many seconds pass.
    pub fn wait(&mut self, seconds: u64) {
        self.now = Nanos(self.now.0 + seconds * Nanos::PER_SECOND);
    }

    /// What is due gets done.
    pub fn settle(&mut self) {
        self.tracker.sweep(self.tick_now(), || true);
    }

    pub fn judge(&mut self, frame: &[u8], zone: u16, commit: bool) -> Judgement {
        self.judge_from(0, frame, zone, commit)
    }

    /// A packet that came in by a port.
    pub fn judge_from(&mut self, port: u32, frame: &[u8], zone: u16, commit: bool) -> Judgement {
        let (mut key, layout) = extract(frame);
        Field::InPort.set(&mut key, port.into());
        self.tracker.track(&Packet { frame, layout, key: &key }, zone, commit, Tick::of(self.now))
    }

    /// A packet that an ACL allowed.
    pub fn allow(&mut self, frame: &[u8]) -> Judgement {
        self.judge(frame, 0, true)
    }

    /// A packet that no ACL allowed.
    pub fn pass(&mut self, frame: &[u8]) -> Judgement {
        self.judge(frame, 0, false)
    }
}

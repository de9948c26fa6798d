//! Ports: what they are, how they change, their counters and queues.

use std::time::Duration;
use weir_openflow::PortNo;

/// A port (OpenFlow 1.3.5, section 7.2.1). Bits are those of OpenFlow 1.3 in every version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: PortNo,
    /// Its address.
    pub address: [u8; 6],
    /// Its name; 15 bytes are sent.
    pub name: String,
    /// How it is configured: [`Port::DOWN`] and so on.
    pub config: u32,
    /// Its state: [`Port::LINK_DOWN`] and so on.
    pub state: u32,
    /// What it does now: a set of [`Port::TEN_GIGABIT`] and so on.
    pub current: u32,
    /// What it advertises.
    pub advertised: u32,
    /// What it could do.
    pub supported: u32,
    /// What the other end advertises.
    pub peer: u32,
    /// Thousand bits a second now; not in OpenFlow 1.0.
    pub current_speed: u32,
    /// Thousand bits a second at most; not in OpenFlow 1.0.
    pub greatest_speed: u32,
}

impl Port {
    /// Configured to be down.
    pub const DOWN: u32 = 1 << 0;
    /// What it receives is dropped.
    pub const NO_RECEIVE: u32 = 1 << 2;
    /// It does not take part in floods (OpenFlow 1.0).
    pub const NO_FLOOD: u32 = 1 << 4;
    /// What is sent to it is dropped.
    pub const NO_FORWARD: u32 = 1 << 5;
    /// It causes no packet-ins.
    pub const NO_PACKET_IN: u32 = 1 << 6;
    /// The state of a port without a link.
    pub const LINK_DOWN: u32 = 1 << 0;
    /// The state of one blocked against loops.
    pub const BLOCKED: u32 = 1 << 1;
    /// The state of one that fast-failover groups take for alive.
    pub const LIVE: u32 = 1 << 2;
    /// One gigabit a second, full duplex.
    pub const GIGABIT: u32 = 1 << 5;
    /// Ten gigabits a second, full duplex.
    pub const TEN_GIGABIT: u32 = 1 << 6;
    /// Copper.
    pub const COPPER: u32 = 1 << 11;
    /// Fiber.
    pub const FIBER: u32 = 1 << 12;
}

/// A port came, went or changed (section 7.4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// 0 came, 1 went, 2 changed.
    pub reason: u8,
    /// The port as it is now.
    pub port: Port,
}

/// A port is configured (section 7.3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// Which.
    pub number: PortNo,
    /// Its address, which must be right.
    pub address: [u8; 6],
    /// The bits of its configuration.
    pub config: u32,
    /// Which of them change.
    pub mask: u32,
    /// What it shall advertise; 0 for no change. None only in OpenFlow 1.4 and later.
    pub advertise: Option<u32>,
}

/// A port's counters (section 7.3.5.6); all ones where one is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// Which.
    pub number: PortNo,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received and dropped.
    pub rx_dropped: u64,
    /// Packets that could not be sent.
    pub tx_dropped: u64,
    /// Errors at receipt.
    pub rx_errors: u64,
    /// Errors at sending.
    pub tx_errors: u64,
    /// Frames that were no whole number of bytes.
    pub rx_frame_err: u64,
    /// Packets that came too fast.
    pub rx_over_err: u64,
    /// Wrong check sequences.
    pub rx_crc_err: u64,
    /// Collisions.
    pub collisions: u64,
    /// How long the port has been there; none if not known. Not in OpenFlow 1.0.
    pub duration: Option<Duration>,
}

/// All queues of a port.
pub const ALL_QUEUES: u32 = u32::MAX;

/// Which queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueQuery {
    /// Of which port; [`PortNo::ANY`] for all.
    pub port: PortNo,
    /// Which; [`ALL_QUEUES`] for all.
    pub queue: u32,
}

/// The queues of a port (OpenFlow 1.3.5, section 7.3.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Which port.
    pub port: PortNo,
    /// Its queues.
    pub queues: Vec<Queue>,
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Of which port.
    pub port: PortNo,
    /// Which.
    pub queue: u32,
    /// Thousandths of the port's rate that it gets at least.
    pub least: Option<u16>,
    /// Thousandths of the port's rate that it gets at most. Not in OpenFlow 1.0.
    pub most: Option<u16>,
}

/// A queue's counters (section 7.3.5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Which.
    pub queue: QueueQuery,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped.
    pub tx_errors: u64,
    /// How long it has been there; none if not known. Not in OpenFlow 1.0.
    pub duration: Option<Duration>,
}

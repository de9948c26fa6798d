//! The switch as a whole: features, configuration, roles, asynchronous messages.

use crate::port::Port;

/// What the switch is (OpenFlow 1.3.5, section 7.3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Its number.
    pub datapath_id: u64,
    /// Packets that it can keep for a controller.
    pub n_buffers: u32,
    /// Its tables.
    pub n_tables: u8,
    /// Which connection of this controller it is; 0 for the main one. Not in OpenFlow 1.0.
    pub auxiliary_id: u8,
    /// What it can do: [`Features::FLOW_STATS`] and so on.
    pub capabilities: u32,
    /// Bit n set: action n can be done. OpenFlow 1.0 only.
    pub actions: u32,
    /// Its ports. OpenFlow 1.0 only.
    pub ports: Vec<Port>,
}

impl Features {
    /// Flow entries are counted.
    pub const FLOW_STATS: u32 = 1 << 0;
    /// Tables are.
    pub const TABLE_STATS: u32 = 1 << 1;
    /// Ports are.
    pub const PORT_STATS: u32 = 1 << 2;
    /// Groups are. Not in OpenFlow 1.0.
    pub const GROUP_STATS: u32 = 1 << 3;
    /// IP fragments are reassembled.
    pub const IP_REASM: u32 = 1 << 5;
    /// Queues are counted.
    pub const QUEUE_STATS: u32 = 1 << 6;
    /// ARP's addresses are matched. OpenFlow 1.0 only.
    pub const ARP_MATCH_IP: u32 = 1 << 7;
    /// Ports are blocked against loops. Not in OpenFlow 1.0.
    pub const PORT_BLOCKED: u32 = 1 << 8;
    /// Bundles. OpenFlow 1.4 and later.
    pub const BUNDLES: u32 = 1 << 9;
    /// Flow monitors. OpenFlow 1.4 and later.
    pub const FLOW_MONITORING: u32 = 1 << 10;
}

/// How the switch is configured (section 7.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// What is done with IP fragments: 0 nothing special, 1 dropped, 2 reassembled; 3 as Nicira has it,
    /// matched as such. In OpenFlow 1.0, bit 2: packets with an invalid TTL go to the controller.
    pub flags: u16,
    /// Bytes of a packet that a table miss sends; 0xffff for all.
    pub miss_send_len: u16,
}

/// A controller's role (section 6.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// As it is: a question.
    NoChange,
    /// May do all; gets all asynchronous messages.
    Equal,
    /// The one that may do all.
    Primary,
    /// May only read.
    Secondary,
}

/// A role wanted, or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// Which.
    pub role: Role,
    /// The election's number; none in Nicira's form of OpenFlow 1.0.
    pub generation: Option<u64>,
}

/// A role changed, and not by the controller whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// Which it has now.
    pub role: Role,
    /// Why: 0 another controller became primary, 1 configuration, 2 experimenter.
    pub reason: u8,
    /// The election's number.
    pub generation: u64,
}

/// Kinds of asynchronous messages, by the number of their pair of masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncKind {
    /// Packet-ins.
    PacketIn = 0,
    /// Port status.
    PortStatus = 1,
    /// Flow removed.
    FlowRemoved = 2,
    /// Role status (OpenFlow 1.4).
    RoleStatus = 3,
    /// Table status (OpenFlow 1.4).
    TableStatus = 4,
    /// Requests of other controllers (OpenFlow 1.4).
    RequestForward = 5,
}

/// Which asynchronous messages a controller gets (sections 6.3.5 and 7.3.10): masks of reasons.
///
/// Entry 2n is of kind n for a secondary controller, entry 2n + 1 for any other. What is none stays as
/// it is; until OpenFlow 1.3 the first six are always there, and no others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncConfig(pub [Option<u32>; 12]);

impl AsyncConfig {
    /// The reasons for which a message of this kind is sent.
    pub const fn mask(&self, kind: AsyncKind, secondary: bool) -> Option<u32> {
        self.0[kind as usize * 2 + !secondary as usize]
    }

    /// Sets them.
    pub const fn set(&mut self, kind: AsyncKind, secondary: bool, reasons: u32) {
        self.0[kind as usize * 2 + !secondary as usize] = Some(reasons);
    }

    /// These masks, where they are set, else those of the other.
    pub fn over(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place].or(other.0[place])))
    }
}

//! Flow entries, and what changes them.

use crate::{GroupId, Instructions, PortNo, TableId};
use weir_flow::Match;

/// A flow entry, as a controller describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its table.
    pub table: TableId,
    /// Among entries that match, the greatest wins.
    pub priority: u16,
    /// What it matches.
    pub matching: Match,
    /// What it does.
    pub instructions: Instructions,
    /// The controller's mark.
    pub cookie: u64,
    /// Seconds without a packet after which it goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 for never.
    pub hard_timeout: u16,
    /// What goes last when tables are full.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
}

impl Flow {
    /// The priority of an entry that names none.
    pub const PRIORITY: u16 = 32768;
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            table: TableId(0),
            priority: Self::PRIORITY,
            matching: Match::any(),
            instructions: Instructions::default(),
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
        }
    }
}

/// What is to be observed about an entry (OpenFlow 1.3.5, section 7.3.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowFlags {
    /// Controllers are told when it goes.
    pub send_flow_rem: bool,
    /// It is refused where it overlaps another of its priority.
    pub check_overlap: bool,
    /// Its counters start anew.
    pub reset_counts: bool,
    /// Its packets are not counted.
    pub no_packet_counts: bool,
    /// Its bytes are not counted.
    pub no_byte_counts: bool,
}

/// A change of flow entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowMod {
    /// The entry is added; one of the same table, priority and match is replaced.
    Add(Flow),
    /// Instructions of the entries selected become those of the flow. With `ovs-ofctl mod-flows`
    /// and OpenFlow 1.0, the flow is added when there is none.
    Modify {
        /// Which entries; its instructions, flags and cookie are what they get.
        flow: Flow,
        /// Which entries, further.
        select: Select,
        /// Whether the flow is added when no entry is selected.
        or_add: bool,
    },
    /// The entries selected go.
    Delete(Select),
}

/// Which entries are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Of this table, or of all.
    pub table: Option<TableId>,
    /// Whose match is covered by this; with `strict`, equals it.
    pub matching: Match,
    /// The priority they must have, and so whether match and priority must be equal.
    pub strict: Option<u16>,
    /// Bits of the cookie they must have: value and mask.
    pub cookie: (u64, u64),
    /// A port that they must send to.
    pub out_port: Option<PortNo>,
    /// A group that they must send to.
    pub out_group: Option<GroupId>,
}

//! Flow entries, and what changes them.

use crate::{Action, GroupId, Instructions, PortNo, TableId};
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
        /// Its instructions are what they get; all of it is added where none is there. Of its flags
        /// only `reset_counts` concerns entries that are there (OpenFlow 1.3.5, section 6.4).
        flow: Flow,
        /// What their cookie becomes; it is left alone if none.
        cookie: Option<u64>,
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

impl Select {
    /// Whether an entry is among those meant.
    pub fn is_meant(&self, flow: &Flow) -> bool {
        self.table.is_none_or(|table| table == flow.table)
            && self.strict.map_or_else(
                || self.matching.covers(&flow.matching),
                |priority| priority == flow.priority && self.matching == flow.matching,
            )
            && self.is_marked(flow)
    }

    /// Whether an entry, whatever its table, match and priority, has the cookie that is asked for and
    /// sends where it is asked for.
    pub fn is_marked(&self, flow: &Flow) -> bool {
        let (value, mask) = self.cookie;
        (flow.cookie ^ value) & mask == 0
            && self.out_port.is_none_or(|port| {
                port == PortNo::ANY || flow.instructions.any(&|action| sends_to(action, port))
            })
            && self
                .out_group
                .is_none_or(|group| flow.instructions.any(&|action| *action == Action::Group(group)))
    }
}

fn sends_to(action: &Action, port: PortNo) -> bool {
    match action {
        Action::Output(to) | Action::OutputWith(to, _) => *to == port,
        Action::Controller(_) => port == PortNo::CONTROLLER,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Names, ToController};

    #[test]
    fn entries_are_selected_by_table_match_priority_cookie_and_where_they_send() {
        let names = Names::default();
        let flow = Flow::parse("table=2,cookie=0x15,priority=7,tcp actions=clone(output:3),group:4", &names);
        let flow = flow.unwrap();
        for (select, meant) in [
            ("", true),
            ("table=2,ip", true),
            ("table=1", false),
            ("udp", false),
            ("cookie=0x5/0xf", true),
            ("cookie=0x4/0xf", false),
            ("out_port=3", true),
            ("out_port=4", false),
            ("out_group=4", true),
            ("out_group=3", false),
            ("out_port=3,out_group=4,cookie=0x15/-1,tcp", true),
        ] {
            assert_eq!(Select::parse(select, &names).unwrap().is_meant(&flow), meant, "{select}");
        }
        let strict = |priority, matching: &Match| Select {
            matching: matching.clone(),
            strict: Some(priority),
            ..Select::default()
        };
        assert!(strict(7, &flow.matching).is_meant(&flow));
        assert!(!strict(8, &flow.matching).is_meant(&flow) && !strict(7, &Match::any()).is_meant(&flow));
        let mut to_controller = flow;
        to_controller.instructions.apply = vec![Action::Controller(ToController::default())];
        assert!(Select::parse("out_port=controller", &names).unwrap().is_meant(&to_controller));
    }
}

//! Flow entries: what changes them, what asks for them, what tells of them.

use std::time::Duration;
use weir_flow::Match;
use weir_openflow::{self as model, Flow, FlowFlags, GroupId, Instructions, PortNo, TableId};

use crate::Version;

/// How flow messages of OpenFlow 1.0 are written (Nicira's `NXT_SET_FLOW_FORMAT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlowForm {
    /// As the version of OpenFlow has it.
    #[default]
    Standard,
    /// With an NXM match: `NXT_FLOW_MOD` and the like.
    Nxm,
}

/// What is done (OpenFlow 1.3.5, section 7.3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowCommand {
    /// The entry is added.
    Add = 0,
    /// Entries that the match covers are changed.
    Modify = 1,
    /// The entry of this match and priority is.
    ModifyStrict = 2,
    /// Entries that the match covers go.
    Delete = 3,
    /// The entry of this match and priority goes.
    DeleteStrict = 4,
}

/// Flow entries change: the message as it was sent. [`FlowMod::change`] says what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// How it is written.
    pub form: FlowForm,
    /// What is done.
    pub command: FlowCommand,
    /// In which table; none for all, or, when a flow is added, for the first.
    pub table: Option<TableId>,
    /// Which packets.
    pub matching: Match,
    /// The entry's priority.
    pub priority: u16,
    /// What the entry does.
    pub instructions: Instructions,
    /// The entry's cookie, or the one that entries must have.
    pub cookie: u64,
    /// Which bits of their cookie entries must have. Not in OpenFlow 1.0's own form.
    pub cookie_mask: u64,
    /// The cookie that entries selected by theirs get; all ones, and they keep it. Only in Nicira's form;
    /// 0 elsewhere.
    pub new_cookie: u64,
    /// Seconds without a packet after which the entry goes.
    pub idle_timeout: u16,
    /// Seconds after which it goes.
    pub hard_timeout: u16,
    /// What goes last when tables are full. OpenFlow 1.4 and later.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// A packet kept for the controller, which is sent through the tables when this is done.
    pub buffer: Option<u32>,
    /// Only entries that send to this port go.
    pub out_port: Option<PortNo>,
    /// Only entries that send to this group go. Not in OpenFlow 1.0.
    pub out_group: Option<GroupId>,
}

impl Default for FlowMod {
    fn default() -> Self {
        Self {
            form: FlowForm::Standard,
            command: FlowCommand::Add,
            table: Some(TableId(0)),
            matching: Match::any(),
            priority: Flow::PRIORITY,
            instructions: Instructions::default(),
            cookie: 0,
            cookie_mask: 0,
            new_cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
            buffer: None,
            out_port: None,
            out_group: None,
        }
    }
}

impl FlowMod {
    /// What it asks of the tables. In OpenFlow 1.0 an entry that is added again has new counters, and a modification that finds no entry adds one
    /// (OpenFlow 1.0.1, section 4.6), unless it selects by cookie.
    pub fn change(self, version: Version) -> model::FlowMod {
        let strict = matches!(self.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let modify = matches!(self.command, FlowCommand::Modify | FlowCommand::ModifyStrict);
        let delete = matches!(self.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let select = |matching: Match| model::Select {
            table: self.table,
            matching,
            strict: strict.then_some(self.priority),
            cookie: (self.cookie & self.cookie_mask, self.cookie_mask),
            out_port: self.out_port.filter(|_| delete),
            out_group: self.out_group.filter(|_| delete),
        };
        if delete {
            return model::FlowMod::Delete(select(self.matching));
        }
        let select = modify.then(|| select(self.matching.clone()));
        let by_cookie = self.form == FlowForm::Nxm && self.cookie_mask != 0;
        let given = if by_cookie { self.new_cookie } else { self.cookie };
        // From OpenFlow 1.1 on a modification leaves cookies alone (1.3.5, section 6.4); in Nicira's form all
        // ones says so.
        let cookie = (version == Version::V10 || self.form == FlowForm::Nxm).then_some(given);
        let cookie = cookie.filter(|&cookie| self.form != FlowForm::Nxm || cookie != u64::MAX);
        let flow = Flow {
            table: self.table.unwrap_or_default(),
            priority: self.priority,
            matching: self.matching,
            instructions: self.instructions,
            cookie: given,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            importance: self.importance,
            // Until OpenFlow 1.1 an entry that is added again begins anew (1.0.1, section 4.6).
            flags: FlowFlags {
                reset_counts: self.flags.reset_counts || version == Version::V10 && !modify,
                ..self.flags
            },
        };
        let or_add = version == Version::V10 && self.cookie_mask == 0;
        match select {
            Some(select) => model::FlowMod::Modify { flow, cookie, select, or_add },
            None => model::FlowMod::Add(flow),
        }
    }
}

/// Which entries are asked for (section 7.3.5.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowQuery {
    /// How it is written; the reply is written likewise.
    pub form: FlowForm,
    /// Of which table; none for all.
    pub table: Option<TableId>,
    /// Those that send to this port.
    pub out_port: Option<PortNo>,
    /// Those that send to this group.
    pub out_group: Option<GroupId>,
    /// The cookie they must have.
    pub cookie: u64,
    /// Which bits of it.
    pub cookie_mask: u64,
    /// Those that this covers.
    pub matching: Match,
}

impl FlowQuery {
    /// As the tables take it.
    pub fn select(self) -> model::Select {
        model::Select {
            table: self.table,
            matching: self.matching,
            strict: None,
            cookie: (self.cookie & self.cookie_mask, self.cookie_mask),
            out_port: self.out_port,
            out_group: self.out_group,
        }
    }
}

/// An entry and its counters (section 7.3.5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The entry.
    pub flow: Flow,
    /// How long it has been there.
    pub duration: Duration,
    /// Seconds since a packet used it. Only in Nicira's form and in OpenFlow 1.5.
    pub idle_age: Option<u16>,
    /// Seconds since it was changed. Only in Nicira's form.
    pub hard_age: Option<u16>,
    /// Packets that used it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The sum of entries' counters (section 7.3.5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Entries.
    pub flows: u32,
}

/// A flow entry went (section 7.4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// How it is written.
    pub form: FlowForm,
    /// Its table. Not in OpenFlow 1.0's own form.
    pub table: TableId,
    /// What it matched.
    pub matching: Match,
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why, by OpenFlow's number: 0 idle, 1 hard timeout, 2 deleted, 3 its group was, 4 its meter was, 5 evicted.
    pub reason: u8,
    /// How long it was there.
    pub duration: Duration,
    /// Its idle timeout in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds. Not in OpenFlow 1.0.
    pub hard_timeout: u16,
    /// Packets that used it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

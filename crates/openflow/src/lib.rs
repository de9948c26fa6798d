//! The OpenFlow model: flow entries, instructions, actions, groups and meters, and their text.
//!
//! - [`Flow`], [`FlowMod`], [`Select`]: entries and what changes them;
//! - [`Instructions`], [`Action`], [`Ct`]: what entries do;
//! - [`Group`], [`Meter`]: what actions refer to;
//! - [`PortNo`], [`TableId`], [`GroupId`], [`MeterId`]: numbers;
//! - [`Tables`], [`Change`], [`FlowStats`] and the like: what a switch is asked, and what it answers;
//! - [`Names`]: what names in the text stand for;
//! - [`Flow::parse`], [`Flow::text`] and the like, [`parse_flow_file`]: the text, as `ovs-ofctl` has it.
//!
//! Costs and threads: plain data for the control plane; nothing here runs per packet.

mod action;
mod argument;
mod ct;
mod flow;
mod group;
mod names;
mod numbers;
mod tables;
mod text;
mod unsupported;

pub use action::{Action, Conjunction, Instructions, ToController};
pub use argument::{Argument, Arguments};
pub use ct::{Ct, CtStep, CtZone, Helper, Nat, NatRange, Tracking};
pub use flow::{Flow, FlowFlags, FlowMod, Select};
pub use group::{Band, BandKind, Bucket, Group, GroupKind, Meter, MeterUnit};
pub use names::Names;
pub use numbers::{GroupId, MeterId, PortNo, TableId};
pub use tables::{
    Ahead, Applied, ApplyError, BucketPlace, Change, ControlError, EntryChange, EntryEvent, Event, Evict,
    FlowStats, FlowSum, GroupStats, MOST_FLOWS, MOST_GROUPS, MOST_METERS, MeterStats, PacketIn, PacketOut,
    PortAbout, PortCounts, PortFlags, Refusal, Refused, Removal, TableSum, Tables, Wants,
};
pub use text::{
    FlowCommand, FlowFile, TextError, TextErrors, TextWarning, match_text, parse_flow_file, parse_flows,
    parse_match,
};
pub use unsupported::{UNSUPPORTED, Unsupported, unsupported};

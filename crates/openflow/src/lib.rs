//! The OpenFlow model: flow entries, instructions, actions, groups and meters, and their text.
//!
//! - [`Flow`], [`FlowMod`], [`Select`]: entries and what changes them;
//! - [`Instructions`], [`Action`]: what entries do;
//! - [`Group`], [`Meter`]: what actions refer to;
//! - [`PortNo`], [`TableId`], [`GroupId`], [`MeterId`]: numbers;
//! - [`Names`]: what names in the text stand for.
//!
//! Costs and threads: plain data for the control plane; nothing here runs per packet.

mod action;
mod flow;
mod group;
mod names;
mod numbers;

pub use action::{Action, Instructions, ToController};
pub use flow::{Flow, FlowFlags, FlowMod, Select};
pub use group::{Band, BandKind, Bucket, Group, GroupKind, Meter, MeterUnit};
pub use names::Names;
pub use numbers::{GroupId, MeterId, PortNo, TableId};

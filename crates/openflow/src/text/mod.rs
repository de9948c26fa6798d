//! The text form of the model, compatible with `ovs-ofctl` (`ovs-ofctl(8)`, `ovs-fields(7)`,
//! `ovs-actions(7)`), with Weir's own fields and actions.
//!
//! What a file of flows for Open vSwitch says is read as Open vSwitch 3.1 reads it, and printed as its
//! `dump-flows --no-stats` prints it. What Weir has not got is refused by its name. Differences, all of
//! them on purpose:
//!
//! - a value that does not fit its field is refused, where `ovs-ofctl` cuts it off in silence;
//! - a field without a value (`reg0`), which matches everything, is refused;
//! - where packets need not have a field, `ovs-ofctl` lets the older actions (`mod_nw_src`,
//!   `strip_vlan`) pass only if the rest can be said in OpenFlow 1.0; here they always pass.
//!
//! Costs and threads: control plane; a flow takes a few microseconds. Plain functions.

mod action;
mod error;
mod flow;
mod group;
mod line;
mod matching;
mod meter;
mod packet;
mod scan;
mod set;
mod show_action;
mod show_match;
mod spelling;
mod value;

pub use error::{TextError, TextErrors, TextWarning};
pub use flow::{FlowCommand, FlowFile, match_text, parse_flow_file, parse_flows, parse_match};

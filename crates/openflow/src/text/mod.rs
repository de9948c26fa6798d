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
//!   `strip_vlan`) pass only if the rest can be said in OpenFlow 1.0; here they always pass;
//! - a meter behind other actions is OpenFlow 1.5's action;
//! - ports from 65536 on, which only OpenFlow 1.1 and later have, can be named;
//! - `ct_state[]` and `nw_tos[]` have the bits of Weir's fields, 8 and 6, where `move` and `load` name
//!   them: `ct_state[0..7]`.
//!
//! One meaning has one form. `drop` is the empty list, `output:controller` is [`Action::Controller`],
//! and older words become what OpenFlow 1.3 has for them: `mod_dl_src` is [`Action::SetField`], as is
//! `mod_nw_src`, which does nothing to packets that have no such field. `mod_tp_src` without a protocol
//! in the match is [`Action::Load`] of `tcp_src`, which lies where the ports of all protocols do.
//!
//! [`Action::Controller`]: crate::Action::Controller
//! [`Action::SetField`]: crate::Action::SetField
//! [`Action::Load`]: crate::Action::Load
//!
//! Costs and threads: control plane; a flow takes a few microseconds. Plain functions.

mod action;
mod ct;
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

pub(crate) use value::show_quoted;

pub use error::{TextError, TextErrors, TextWarning};
pub use flow::{FlowCommand, FlowFile, match_text, parse_flow_file, parse_flows, parse_match};

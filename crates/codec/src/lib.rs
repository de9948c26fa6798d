//! OpenFlow on the wire: bytes to messages and back.
//!
//! - [`frame()`]: where a message ends in a stream;
//! - [`decode()`], [`encode()`]: messages; [`DecodeError`]: what is wrong with one, and the answer to it;
//! - [`Version`], [`Hello`]: which OpenFlow is spoken;
//! - [`Message`], [`Body`]: all messages, in the words of `weir-openflow`;
//! - [`Code`], [`ErrorNumber`]: errors by name and number.
//!
//! Why so: messages are decoded straight into what the tables take, in one pass, so that a flow-mod costs a
//! few allocations. What a message says of lengths never makes more memory than a small multiple of its own
//! bytes. `docs/openflow.md` says what is refused and how, and describes Weir's own action and fields.
//!
//! Costs and threads: plain functions over bytes; no I/O, no clock, nothing shared.

mod action;
mod bundle;
mod code;
mod cursor;
mod decode;
mod encode;
mod field;
mod flow;
mod group;
mod header;
mod instruction;
mod message;
mod meter;
mod multipart;
mod nicira;
mod packet;
mod port;
mod services;
mod switch;
mod table;
mod version;
mod wire;

pub use bundle::{BundleAdd, BundleControl, BundleFlags, BundleStep};
pub use code::{Code, ErrorNumber};
pub use cursor::Fault;
pub use decode::{decode, decode_with};
pub use encode::{EncodeError, encode, encode_with};
pub use flow::{Aggregate, FlowCommand, FlowForm, FlowMod, FlowQuery, FlowRemoved, FlowStats};
pub use group::{ALL_GROUPS, ANY_GROUP, BucketAt, GroupCommand, GroupFeatures, GroupMod, GroupStats};
pub use header::{BadFrame, HEADER, Header, LONGEST, frame};
pub use message::{Body, Context, DecodeError, ERROR_DATA, ErrorMessage, Message, refuse};
pub use meter::{ALL_METERS, MeterCommand, MeterFeatures, MeterMod, MeterStats};
pub use multipart::{
    Desc, FlowUpdate, MonitorCommand, MonitorRequest, MultipartReply, MultipartRequest, Reply, Request,
    UpdateEvent,
};
pub use nicira::{CtFlush, CtTuple};
pub use packet::{PacketIn, PacketInForm, PacketOut};
pub use port::{
    ALL_QUEUES, Port, PortMod, PortStats, PortStatus, Queue, QueueConfig, QueueQuery, QueueStats,
};
pub use services::{ServiceAbout, ServiceList};
pub use switch::{AsyncConfig, AsyncKind, Config, Features, Role, RoleMessage, RoleStatus};
pub use table::{
    FeatureId, OxmId, TableConfig, TableDesc, TableFeatures, TableMod, TableProperty, TableStats, Vacancy,
};
pub use version::{Hello, Version};

/// The experimenter number of Nicira (Open vSwitch).
pub const NICIRA: u32 = 0x0000_2320;
/// The experimenter number of the Open Networking Foundation.
pub const ONF: u32 = 0x4f4e_4600;
/// Weir's experimenter number: bits 24 to 31 are 0xff, which leaves the space of IEEE addresses, and the
/// rest is "WER" in ASCII.
pub const WEIR: u32 = 0xff57_4552;

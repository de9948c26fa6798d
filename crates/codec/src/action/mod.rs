//! Actions from and to the wire (OpenFlow 1.3.5, section 7.2.5).
//!
//! OpenFlow 1.0 has other actions than later versions, and Nicira's are a layer over both; each has a file.

mod ct;
mod nicira;
mod read;
mod read10;
mod service;
mod write;
mod write10;
mod write_nicira;

pub(crate) use read::{Known, MIXED, read_actions};
pub(crate) use write::{Unsayable, put_actions};
pub(crate) use write_nicira::{put_resubmit, put_write_metadata};

/// Lists within lists that are read at most.
const DEPTH: u32 = 64;

/// The number of an experimenter's action.
const EXPERIMENTER: u16 = 0xffff;

/// The greatest number of a group.
const LAST_GROUP: u32 = 0xffff_ff00;

/// Weir's action that hands the packet to a service.
const SERVICE: u16 = 0;
/// The same with any number of arguments.
const SERVICE_WITH: u16 = 1;

/// ONF's action that copies a field (extension 320).
const ONF_COPY_FIELD: u16 = 3200;

//! What all parts of the datapath share, and what depends on none of them.
//!
//! - [`requests`]: what is asked of a datapath and what it answers, as plain data;
//! - [`entries`]: what a snapshot is made of; [`pipeline`]: the snapshot that workers forward by, with its tables ([`table_list`]), its meters ([`meter`]), the
//!   buckets that are alive ([`living`]), what was learned of addresses ([`addresses`]) and what the last snapshots changed ([`journal`]).
//!
//! Beside that, the [`clock`] that all go by.
//!
//! Threads: a snapshot never changes once workers have it, but for counts and meters.

pub(super) mod addresses;
pub(super) mod atomics;
pub(super) mod clock;
pub(super) mod counts;
pub(super) mod entries;
pub(super) mod experiment;
pub(super) mod journal;
pub(super) mod kept;
pub(super) mod living;
pub(super) mod meter;
pub(super) mod pipeline;
pub(super) mod poll;
pub(super) mod requests;
pub(super) mod selection;
pub(super) mod table_list;
pub(super) mod tcam;

/// Packets of a burst, one bit each.
pub(crate) type Packets = u64;

//! Classification: tables of prioritised matches with un-wildcarding, and the caches before them.
//!
//! - [`Table`]: an OpenFlow table's matching. Persistent: a clone is one pointer, and changing it
//!   leaves the old one as it was. Its lookups tell on which bits of the key they depended.
//! - [`quantise()`]: rounds such bits up, so that there are few different masks.
//! - [`Megaflows`]: entries for whole regions of keys, a hash table a mask, named by [`Handle`]s that
//!   are found out when they are stale.
//! - [`Exact`]: from the hash of a whole key to the place of its megaflow.
//! - [`Caches`]: the two together, a burst at a time: the hot loop of the switch.
//!
//! A packet goes through them from the last to the first: found exactly, or by megaflow, or by walking
//! the tables, of which a megaflow is made. Each module argues its design and states its cost.
//!
//! Threads: tables are shared snapshots (`Arc` within), caches are one worker's. Nothing locks.

mod caches;
mod exact;
mod groups;
mod handle;
mod linear;
mod megaflows;
mod quantise;
mod rule;
mod sharded;
mod shares;
mod slices;
mod space;
mod subtable;
mod table;
mod tcam;
mod trie;
mod tuple;
mod vectors;

pub use caches::{Caches, Found, LookupCounts};
pub use exact::{EXACT_BUCKETS, Exact, WAYS};
pub use groups::{MASKS, PROBES};
pub use handle::Handle;
pub use megaflows::{Evicted, Inserted, LOOKUP_BURST, Megaflows};
pub use quantise::quantise;
pub use rule::{Clause, Rule};
pub use table::{Structure, Table};
pub use tcam::{Mark, Refusal, Tcam};

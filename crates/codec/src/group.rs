//! Groups: what changes them, what tells of them.

use std::time::Duration;
use weir_openflow::{Group, GroupId};

/// Every group.
pub const ALL_GROUPS: GroupId = GroupId(0xffff_fffc);
/// No group.
pub const ANY_GROUP: GroupId = GroupId(0xffff_ffff);

/// Where buckets are put, or which go (OpenFlow 1.5.1, section 7.3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BucketAt {
    /// Before the first; the first.
    First,
    /// Behind the last; the last.
    Last,
    /// All.
    All,
    /// Behind the bucket of this number; it.
    Number(u32),
}

/// What is done (OpenFlow 1.3.5, section 7.3.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupCommand {
    /// The group is added.
    Add,
    /// The group is changed.
    Modify,
    /// The group goes; [`ALL_GROUPS`] for all.
    Delete,
    /// The group is added or, if it is there, changed (Open vSwitch's extension).
    AddOrModify,
    /// Buckets are put into it. OpenFlow 1.5.
    InsertBucket(BucketAt),
    /// Buckets of it go. OpenFlow 1.5.
    RemoveBucket(BucketAt),
}

/// A group changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What is done.
    pub command: GroupCommand,
    /// The group; its kind and buckets mean nothing where it goes.
    pub group: Group,
}

/// A group's counters (section 7.3.5.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// Which.
    pub group: GroupId,
    /// Entries and groups that lead to it.
    pub references: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it has been there.
    pub duration: Duration,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// What groups can do (section 7.3.5.11). Entries are by kind: all, select, indirect, fast failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bit n set: kind n is supported.
    pub kinds: u32,
    /// 1 weights, 2 liveness, 4 chaining, 8 chains are checked for loops.
    pub capabilities: u32,
    /// The most groups of each kind.
    pub most: [u32; 4],
    /// Bit n set: action n can be done.
    pub actions: [u32; 4],
}

//! Groups and meters.

use crate::{Action, GroupId, MeterId, PortNo};

/// How a group treats its packets (OpenFlow 1.3.5, section 5.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// A copy through each bucket.
    All,
    /// Through one bucket, chosen by the flow's hash and the weights.
    Select,
    /// Through its one bucket.
    Indirect,
    /// Through the first bucket that is alive.
    FastFailover,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// Its kind.
    pub kind: GroupKind,
    /// Its buckets, in order.
    pub buckets: Vec<Bucket>,
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its number, unique in the group.
    pub id: u32,
    /// Its share (select).
    pub weight: u16,
    /// The port whose link says that it is alive.
    pub watch_port: Option<PortNo>,
    /// The group that says so.
    pub watch_group: Option<GroupId>,
    /// What is done to the copy, as an action set.
    pub actions: Vec<Action>,
}

/// What a meter's rates count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterUnit {
    /// Thousand bits a second.
    KilobitsPerSecond,
    /// Packets a second.
    PacketsPerSecond,
}

/// A meter (OpenFlow 1.3.5, section 5.7).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meter {
    /// Its number.
    pub id: MeterId,
    /// What its rates count.
    pub unit: MeterUnit,
    /// Whether bands name a burst size; without, one second of the rate.
    pub burst: bool,
    /// Whether statistics are kept.
    pub stats: bool,
    /// Its bands.
    pub bands: Vec<Band>,
}

/// A band: what happens above a rate. Of the bands that are exceeded, that of the highest rate acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// What happens.
    pub kind: BandKind,
    /// In the meter's unit.
    pub rate: u32,
    /// In the meter's unit without "per second".
    pub burst: u32,
}

/// What a band does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// The packet is dropped.
    Drop,
    /// The drop precedence of the DSCP is raised by so many levels (RFC 2597).
    DscpRemark(u8),
}

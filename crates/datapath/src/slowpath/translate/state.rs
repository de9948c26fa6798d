//! What a translation knows of the packet at hand.

use super::set::ActionSet;
use super::{Origins, Subject};
use crate::actions::program::Op;
use std::sync::Arc;
use weir_flow::{Key, Layout, Mask};
use weir_openflow::TableId;

/// The cookie that packets have that no entry sent: all ones (OpenFlow 1.3.5, section 7.4.1).
pub(super) const NO_ENTRY: u64 = u64::MAX;

/// The packet as it would be now.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(super) key: Key,
    pub(super) layout: Layout,
    pub(super) frame: Vec<u8>,
    /// The key as the frame is: without what was written and not yet done to it. Edits read the old
    /// values there.
    pub(super) in_step: Key,
    /// What each bit depends on.
    pub(super) origins: Origins,
    /// Bits of the key that were written, and not yet by an operation.
    pub(super) pending: Mask,
    /// Whether headers came to light that the packet's key did not have.
    pub(super) opaque: bool,
    /// Whether the packet's key may come to have more than was followed here, without another header: it became
    /// a message of neighbour discovery, or ceased to be one.
    pub(super) shows: bool,
    /// The table and cookie of the entry whose actions run, and where these stand.
    pub(super) table: TableId,
    pub(super) cookie: u64,
    pub(super) stands: Stands,
}

/// Where actions stand, as far as a controller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// In a table-miss entry (OpenFlow 1.3.5, section 5.4).
    Miss,
    /// In another entry.
    Entry,
    /// In the action set.
    Set,
    /// In a group's bucket.
    Group,
    /// In a packet-out.
    PacketOut,
}

impl Stands {
    /// OpenFlow's reason of packets that they send to a controller (OpenFlow 1.4.1, section 7.4.1).
    pub(super) const fn reason(self) -> u8 {
        match self {
            Self::Miss => 0,
            Self::Entry => 1,
            Self::Set => 3,
            Self::Group => 4,
            Self::PacketOut => 5,
        }
    }
}

impl State {
    pub(super) fn new(subject: &Subject<'_>) -> Self {
        Self {
            key: subject.key.clone(),
            layout: subject.layout,
            frame: subject.frame.to_vec(),
            in_step: subject.key.clone(),
            origins: subject.origins.clone(),
            pending: Mask::new(),
            opaque: false,
            shows: false,
            table: TableId(0),
            cookie: NO_ENTRY,
            stands: Stands::Entry,
        }
    }
}

/// What comes back when actions on a copy are done.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(super) state: Box<State>,
    pub(super) set: ActionSet,
    /// Operations before the copy: their number stands for them, because they stay where they are.
    pub(super) kind: CopyKind,
}

/// What the copy is for.
#[derive(Clone, Debug)]
pub(super) enum CopyKind {
    /// Actions in `clone`: their operations are one [`Op::Clone`] from this place in the list on.
    Action(usize),
    /// A group's bucket: likewise.
    Bucket(usize),
    /// The operations are one choice of a group, of which others follow.
    Choice(Box<Choices>),
}

impl CopyKind {
    /// Whether it is for `clone`, and not a group's.
    pub(super) const fn is_of_action(&self) -> bool {
        matches!(self, Self::Action(_))
    }
}

/// A group's choices, as far as they are translated.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    pub(super) group: Arc<crate::model::entries::GroupEntry>,
    /// Buckets that take part.
    pub(super) alive: Arc<crate::model::entries::Alive>,
    /// How many of them are done.
    pub(super) done: usize,
    /// Where in the list of operations the choice at hand begins.
    pub(super) from: usize,
}

/// The operations from a place on, taken out of the list.
pub(super) fn cut(ops: &mut Vec<Op>, from: usize) -> Vec<Op> {
    ops.split_off(from.min(ops.len()))
}

//! Simple actions: what the fast path (`classify/fast_path.rs`) can do to a packet, in half a cache line.
//!
//! What: the time to live of plain IPv4 lowered, Ethernet addresses set, forwarded or dropped. Why: it is
//! done where it lies in the frame, without a key or a layout. Cost: a branch for a packet that is not
//! changed; else two, and two stores. Threads: plain data.

use crate::actions::edit::{Addresses, PLAIN_TTL, one_less};
use crate::actions::execute::Disposition;
use crate::actions::program::Op;
use weir_flow::Extractor;
use weir_packet::DropReason;

/// What is done to a packet, if it is no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SimpleActions {
    addresses: Addresses,
    end: End,
    /// The least time to live: 2 where it is lowered, 0 where nothing is asked of it.
    least: u16,
    /// Whether a packet is changed, or cannot be known.
    changes: bool,
}

/// More than any time to live: the megaflow has gone, and nothing is known of the packet.
const GONE: u16 = 256;

/// Where a packet goes when that is done, as a number: the port's, or a reason's behind all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End(u32);

impl End {
    const DROPS: u32 = 1 << 16;

    fn forward(port: u16) -> Self {
        Self(u32::from(port))
    }

    fn drop(reason: DropReason) -> Self {
        Self(Self::DROPS + reason as u32)
    }
}

impl From<End> for Disposition {
    #[inline]
    fn from(End(number): End) -> Self {
        match number.checked_sub(End::DROPS) {
            None => Self::Forward(number as u16),
            Some(reason) => Self::Drop(DropReason::ALL[reason as usize]),
        }
    }
}

impl SimpleActions {
    /// A segment's operations as simple actions, if they are that little.
    pub(crate) fn of(ops: &[Op]) -> Option<Self> {
        let (last, before) = ops.split_last()?;
        let end = match last {
            Op::Forward(port) => End::forward(*port),
            Op::Drop(reason) => End::drop(*reason),
            _ => return None,
        };
        let mut actions = Self { addresses: Addresses::NONE, end, least: 0, changes: false };
        for op in before {
            match op {
                Op::DecTtl(_) if !actions.lowers() => actions.least = 2,
                Op::Rewrite(rewrite) if actions.addresses == Addresses::NONE => {
                    actions.addresses = rewrite.only_addresses()?;
                }
                _ => return None,
            }
        }
        actions.changes = actions.lowers() || actions.addresses != Addresses::NONE;
        Some(actions)
    }

    /// Where a packet goes when it is done.
    #[inline(always)]
    pub(crate) fn end(&self) -> End {
        self.end
    }

    /// Whether a packet is changed, or cannot be known.
    #[inline(always)]
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// Its megaflow has gone: from now on it is done to no packet.
    pub(crate) fn end_it(&mut self) {
        (self.least, self.changes) = (GONE, true);
    }

    /// Whether it lowers the time to live.
    #[inline(always)]
    pub(crate) fn lowers(&self) -> bool {
        self.least == 2
    }

    /// Changes a frame whose masked header was read, as it says; returns whether it could. What
    /// it could not change is as it was.
    #[inline(always)]
    pub(crate) fn apply<S: Extractor>(&self, frame: &mut [u8]) -> bool {
        if !self.changes {
            return true;
        }
        // Nothing lowers a time to live that no header mask covers.
        let header =
            if S::IPV4 { frame.get_mut(PLAIN_TTL..).and_then(<[u8]>::first_chunk_mut) } else { None };
        if let Some(header) = header {
            let word = u32::from_le_bytes(*header);
            if (word & 0xff) < u32::from(self.least) {
                return false;
            }
            if self.lowers() {
                *header = one_less(word).to_le_bytes();
            }
        } else if self.least > 0 {
            return false;
        }
        self.addresses.apply(frame);
        true
    }
}

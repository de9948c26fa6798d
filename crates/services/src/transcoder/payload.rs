//! Where a packet's payload lies, and keeping its checksum right.
//!
//! The checksum is updated by the difference between the old and the new payload (RFC 1624), not
//! computed anew: so a packet that was damaged before is still seen to be damaged behind us, and the
//! pseudo-header need not be read. Sums are taken in the CPU's own byte order, which the one's
//! complement sum permits (RFC 1071, section 2 (B)).

use crate::Slot;
use weir_cpu::aes::BLOCK;
use weir_flow::Field;

const TCP: u128 = 6;
const UDP: u128 = 17;

/// The blocks of a packet that are transcoded, and where its checksum is.
#[derive(Clone, Copy)]
pub(super) struct Payload {
    start: usize,
    end: usize,
    checksum: usize,
    is_udp: bool,
}

impl Payload {
    /// The payload of a TCP or UDP packet that is no fragment; `None` for all others, and where there is
    /// less than a block.
    #[inline]
    pub(super) fn of(slot: &Slot<'_>) -> Option<Self> {
        let layout = &slot.layout;
        let (transport, start) = (usize::from(layout.transport), usize::from(layout.payload));
        let mut end = usize::from(layout.end).min(slot.frame.len());
        if transport == 0 || start <= transport || Field::NwFrag.get(slot.key) != 0 {
            return None;
        }
        let (checksum, is_udp) = match Field::NwProto.get(slot.key) {
            TCP => (transport + weir_wire::tcp::CHECKSUM, false),
            UDP => {
                // What is behind the datagram is not under its checksum.
                let length = slot.frame.get(transport + 4..transport + 6)?;
                end = end.min(transport + usize::from(u16::from_be_bytes([length[0], length[1]])));
                (transport + weir_wire::udp::CHECKSUM, true)
            }
            _ => return None,
        };
        let blocks = end.checked_sub(start)? / BLOCK;
        (blocks > 0 && checksum + 2 <= start).then_some(Self {
            start,
            end: start + blocks * BLOCK,
            checksum,
            is_udp,
        })
    }

    /// Its whole blocks.
    #[inline]
    pub(super) fn blocks<'f>(&self, frame: &'f mut [u8]) -> &'f mut [[u8; BLOCK]] {
        frame[self.start..self.end].as_chunks_mut().0
    }

    /// Updates the checksum for blocks whose sum changed by so much. A UDP datagram without one stays so.
    #[inline]
    pub(super) fn mend(&self, frame: &mut [u8], change: i64) {
        let field = &mut frame[self.checksum..self.checksum + 2];
        let old = u16::from_ne_bytes([field[0], field[1]]);
        if self.is_udp && old == 0 {
            return;
        }
        let new = !fold(u64::from(!old) + change.wrapping_add(ZERO) as u64);
        let new = if self.is_udp { weir_wire::checksum::udp_nonzero(new) } else { new };
        field.copy_from_slice(&new.to_ne_bytes());
    }
}

/// Nought to the one's complement sum of 16-bit words, and more than a payload's sum of 32-bit words.
const ZERO: i64 = 0xffff << 46;

/// Reduces a sum to 16 bits by end-around carry.
#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

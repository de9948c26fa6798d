//! Sequence numbers of a connection in whose data bytes came in or went: behind them, its receiver counts
//! otherwise than its sender.
//!
//! The tracker keeps what each side sends in that side's own numbers. So acknowledgements are counted back
//! before they are judged, and a packet that leaves has its numbers as its receiver counts: also the blocks of
//! selective acknowledgements (RFC 2018).
//!
//! Only the last change has a place of its own, as FTP waits for an answer to each command: what is sent again
//! from before the change before it would be counted wrong.
//!
//! Cost: two comparisons a number. Threads: plain data.

use super::super::segment::flag::ACK;
use weir_wire::checksum::{finish, fold, sum_at};

/// The option of selective acknowledgements.
const SACK: u8 = 5;

/// How one side's numbers change on the way to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shift {
    /// The number of the first byte behind the last change, as its sender counts; none before there is any.
    from: Option<u32>,
    /// By how much numbers before it are greater, and those from it on.
    before: i32,
    after: i32,
}

/// Whether a ≤ b, in sequence space.
pub(super) const fn up_to(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) as i32 >= 0
}

impl Shift {
    /// From this number on, there are so many bytes more. What is sent again changes nothing.
    pub(super) fn add(&mut self, from: u32, more: i32) {
        let later = self.from.is_none_or(|last| !up_to(from, last));
        if more != 0 && later {
            *self = Self { from: Some(from), before: self.after, after: self.after.wrapping_add(more) };
        }
    }

    /// A number of its sender as its receiver counts.
    pub(super) fn there(&self, seq: u32) -> u32 {
        let behind = self.from.is_some_and(|from| up_to(from, seq));
        seq.wrapping_add_signed(if behind { self.after } else { self.before })
    }

    /// A number that its receiver acknowledges, as its sender counts.
    pub(super) fn back(&self, ack: u32) -> u32 {
        let Some(from) = self.from else { return ack };
        let behind = ack.wrapping_sub(self.after as u32);
        if up_to(from, behind) {
            return behind;
        }
        let before = ack.wrapping_sub(self.before as u32);
        // In the midst of what was put in: its sender cannot tell that from its beginning.
        if up_to(from, before) { from.wrapping_sub(1) } else { before }
    }

    fn is_none(&self) -> bool {
        self.from.is_none()
    }
}

/// Numbers of a segment of a side, as the other side counts: `own` of its sender, `other` of what it acknowledges.
pub(super) fn renumber(segment: &mut [u8], own: &Shift, other: &Shift) {
    if own.is_none() && other.is_none() || segment.len() < 20 {
        return;
    }
    let number = |bytes: &[u8], at: usize| {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let mut change = put(segment, 4, own.there(number(segment, 4)));
    if segment[13] & ACK != 0 {
        change += put(segment, 8, other.back(number(segment, 8)));
    }
    let end = (usize::from(segment[12] >> 4) * 4).min(segment.len());
    let mut at = 20;
    while at + 1 < end && segment[at] != 0 {
        if segment[at] == 1 {
            at += 1;
            continue;
        }
        let length = usize::from(segment[at + 1]);
        if length < 2 || at + length > end {
            break;
        }
        if segment[at] == SACK {
            for edge in (at + 2..at + length).step_by(4).filter(|edge| edge + 4 <= at + length) {
                change += put(segment, edge, other.back(number(segment, edge)));
            }
        }
        at += length;
    }
    if change != 0 {
        let field = u16::from_be_bytes([segment[16], segment[17]]);
        segment[16..18].copy_from_slice(&finish(u32::from(!field) + change).to_be_bytes());
    }
}

/// Writes a number; returns by what the sum over the segment changes.
fn put(segment: &mut [u8], at: usize, new: u32) -> u32 {
    let (odd, bytes) = (at % 2 == 1, new.to_be_bytes());
    let old = &mut segment[at..at + 4];
    if *old == bytes {
        return 0;
    }
    let without = !fold(sum_at(old, odd));
    old.copy_from_slice(&bytes);
    u32::from(without) + sum_at(&bytes, odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::checksum::sum;

    #[test]
    fn numbers_behind_a_change_are_shifted_and_acknowledgements_counted_back() {
        let mut shift = Shift::default();
        assert_eq!((shift.there(5), shift.back(5)), (5, 5));
        shift.add(u32::MAX, 3);
        shift.add(u32::MAX, 3);
        assert_eq!([u32::MAX - 1, u32::MAX, 0].map(|seq| shift.there(seq)), [u32::MAX - 1, 2, 3]);
        assert_eq!([u32::MAX - 1, 2, 3].map(|ack| shift.back(ack)), [u32::MAX - 1, u32::MAX, 0]);
        assert_eq!(shift.back(1), u32::MAX - 1, "in the midst of what was put in");
        shift.add(20, -8);
        // Ten bytes gave way to two.
        assert_eq!([10, 20].map(|seq| shift.there(seq)), [13, 15]);
        assert_eq!([13, 15].map(|ack| shift.back(ack)), [10, 20]);
    }

    proptest! {
        #[test]
        fn every_byte_is_counted_back_to_where_it_was(
            changes in proptest::collection::vec((1..100_u32, -40..40_i32), 1..6),
            start: u32,
        ) {
            let (mut shift, mut at) = (Shift::default(), start);
            for (step, more) in changes {
                // Between two changes, at least what the first one took away.
                at = at.wrapping_add(step + 80);
                shift.add(at, more);
                for seq in [at, at.wrapping_add(1), at.wrapping_add(70)] {
                    prop_assert_eq!(shift.back(shift.there(seq)), seq);
                }
            }
        }

        #[test]
        fn a_renumbered_segment_has_a_right_checksum(
            (from, more) in (any::<u32>(), -40..40_i32),
            numbers: [u32; 6],
            nops in 0..3_usize,
            data: Vec<u8>,
        ) {
            let mut options = vec![1; nops];
            options.extend([5, 18]);
            numbers[2..].iter().for_each(|edge| options.extend(edge.to_be_bytes()));
            options.resize(options.len().next_multiple_of(4), 0);
            let mut segment = vec![0; 20];
            segment[4..8].copy_from_slice(&numbers[0].to_be_bytes());
            segment[8..12].copy_from_slice(&numbers[1].to_be_bytes());
            (segment[12], segment[13]) = ((5 + options.len() as u8 / 4) << 4, ACK);
            let edges = 22 + nops;
            segment.extend(options);
            segment.extend(data);
            let field = finish(sum(&segment)).to_be_bytes();
            segment[16..18].copy_from_slice(&field);
            let before = segment.clone();
            let mut shift = Shift::default();
            shift.add(from, more);
            renumber(&mut segment, &shift, &shift);
            prop_assert_eq!(fold(sum(&segment)), 0xffff);
            let at = |place: usize| segment[place..place + 4].to_vec();
            prop_assert_eq!(at(4), shift.there(numbers[0]).to_be_bytes().to_vec());
            prop_assert_eq!(at(8), shift.back(numbers[1]).to_be_bytes().to_vec());
            for (place, edge) in numbers[2..].iter().enumerate() {
                prop_assert_eq!(at(edges + 4 * place), shift.back(*edge).to_be_bytes().to_vec());
            }
            prop_assert_eq!(segment.len(), before.len());
        }
    }
}

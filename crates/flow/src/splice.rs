//! Bytes of a TCP segment's data that give way to others, of any length.
//!
//! Why: a service has its packets' bytes and no room behind them. What it wants replaced it says here, and
//! who has the packet does it: bytes move, and the lengths and checksums of IP and TCP follow (RFC 1624), so
//! that a checksum that was wrong stays as wrong as it was.
//!
//! Cost: the data behind the place is read twice and moved once. Threads: plain data.

use crate::Layout;
use arrayvec::ArrayVec;
use weir_packet::Frame;
use weir_wire::checksum::{finish, fold, sum_at};

/// Bytes that can be put in, at most.
pub const MOST_SPLICED: usize = 64;

/// What is replaced, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Where it begins, counted from the frame's first byte.
    pub at: usize,
    /// How many bytes go.
    pub removed: usize,
    /// What comes in their place.
    pub bytes: ArrayVec<u8, MOST_SPLICED>,
}

impl Splice {
    /// How many bytes more the frame has afterwards.
    pub fn grows(&self) -> i32 {
        self.bytes.len() as i32 - self.removed as i32
    }

    /// Does it to a frame with a TCP segment. False, and nothing changes, where there is no room, or the bytes
    /// are not data of the segment.
    #[must_use]
    pub fn apply<F: Frame + ?Sized>(&self, frame: &mut F, layout: &mut Layout) -> bool {
        let (network, transport) = (usize::from(layout.network), usize::from(layout.transport));
        let (end, length) = (usize::from(layout.end), frame.bytes().len());
        let behind = self.at + self.removed;
        let whole = network >= 14 && transport >= network + 20 && self.at >= transport + 20;
        if !whole || behind > end || end > length {
            return false;
        }
        let v6 = frame.bytes()[network] >> 4 == 6;
        let field = network + if v6 { 4 } else { 2 };
        let old = u16::from_be_bytes([frame.bytes()[field], frame.bytes()[field + 1]]);
        let change = self.change(&frame.bytes()[..end], transport);
        let (Ok(new), Ok(new_end)) = (
            u16::try_from(i32::from(old) + self.grows()),
            u16::try_from(i32::from(layout.end) + self.grows()),
        ) else {
            return false;
        };
        let grown = behind + self.bytes.len() - self.removed;
        if self.bytes.len() > self.removed && !frame.set_len(length + grown - behind) {
            return false;
        }
        let bytes = frame.bytes_mut();
        bytes.copy_within(behind..length, grown);
        bytes[self.at..grown].copy_from_slice(&self.bytes);
        bytes[field..field + 2].copy_from_slice(&new.to_be_bytes());
        if !v6 {
            follow(bytes, network + 10, u32::from(!old) + u32::from(new));
        }
        follow(bytes, transport + 16, change);
        if grown < behind {
            // To become shorter needs no room.
            let _ = frame.set_len(length - (behind - grown));
        }
        layout.end = new_end;
        true
    }

    /// By what the sum over the pseudo-header and the segment changes. `bytes` end where the packet does.
    fn change(&self, bytes: &[u8], transport: usize) -> u32 {
        let odd = (self.at - transport) % 2 == 1;
        let tail = &bytes[self.at + self.removed..];
        let without = !fold(sum_at(&bytes[self.at..], odd));
        let with = sum_at(&self.bytes, odd) + sum_at(tail, odd != (self.bytes.len() % 2 == 1));
        let (old, new) = (bytes.len() - transport, bytes.len() - transport - self.removed + self.bytes.len());
        u32::from(without) + with + u32::from(!(old as u16)) + u32::from(new as u16)
    }
}

/// Has a checksum follow a change.
fn follow(bytes: &mut [u8], at: usize, change: u32) {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&finish(u32::from(!old) + change).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, extract};
    use proptest::prelude::*;
    use weir_frames::{ACK, PSH, Tcp, segment};

    /// A frame with this data, and so many bytes of padding.
    fn frame(v6: bool, data: &[u8], padding: usize) -> Vec<u8> {
        let host = |last: u8| if v6 { weir_frames::v6(last.into(), 21) } else { weir_frames::v4(last, 21) };
        let tcp = Tcp { flags: ACK | PSH, seq: 1, ack: 2, window: 256, ..Tcp::default() };
        let mut frame = segment(host(1), host(2), tcp, data);
        frame.extend(vec![0; padding]);
        frame
    }

    proptest! {
        #[test]
        fn a_spliced_frame_is_the_one_that_was_made_with_the_other_data(
            v6: bool,
            data in proptest::collection::vec(any::<u8>(), 1..90),
            bytes in proptest::collection::vec(any::<u8>(), 0..MOST_SPLICED),
            (from, to) in (0.0..1.0, 0.0..1.0),
            padding in 0..9_usize,
        ) {
            let place = |part: f64| (part * data.len() as f64) as usize;
            let (from, to) = (place(from).min(place(to)), place(from).max(place(to)));
            let header = if v6 { 40 } else { 20 };
            let splice = Splice {
                at: 14 + header + 20 + from,
                removed: to - from,
                bytes: bytes.iter().copied().collect(),
            };
            let wanted = frame(v6, &[&data[..from], &bytes[..], &data[to..]].concat(), padding);
            let mut spliced = frame(v6, &data, padding);
            let mut layout = extract(&spliced, 1, &mut Key::new());
            prop_assert!(splice.apply(&mut spliced, &mut layout));
            prop_assert_eq!(&spliced, &wanted);
            prop_assert_eq!(layout, extract(&wanted, 1, &mut Key::new()));
        }
    }

    #[test]
    fn what_is_not_data_of_the_segment_is_not_replaced() {
        let before = frame(false, b"PORT", 6);
        for (at, removed) in [(53, 2), (54, 5), (60, 1), (0, 1)] {
            let (mut after, mut layout) = (before.clone(), extract(&before, 1, &mut Key::new()));
            let splice = Splice { at, removed, bytes: ArrayVec::new() };
            assert!(!splice.apply(&mut after, &mut layout), "{at}, {removed}");
            assert_eq!(after, before);
        }
    }
}

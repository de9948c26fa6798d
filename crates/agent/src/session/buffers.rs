//! Packets kept for controllers, which get their beginning and a number (OpenFlow 1.3.5, section 7.4.1).
//!
//! A pool of a fixed size: a packet stays for some seconds at least, unless somebody fetches it, and gives
//! way to another only then. A packet for which there is no room goes to the controller whole.

use std::time::{Duration, Instant};
use weir_openflow::PortNo;

/// Packets that are kept at most.
pub(super) const BUFFERS: u32 = 256;

/// How long a packet is kept at least.
const KEPT: Duration = Duration::from_secs(5);

/// A packet.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) in_port: PortNo,
    pub(super) frame: Vec<u8>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It was fetched already.
    Fetched,
    /// There is no such number, or no more.
    Unknown,
}

#[derive(Debug)]
struct Slot {
    number: u32,
    since: Instant,
    kept: Option<Kept>,
}

/// The pool.
#[derive(Debug)]
pub(super) struct Buffers {
    slots: Vec<Option<Slot>>,
    /// The number of the next: it names the slot, and rises, so that an old number finds nothing.
    next: u32,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { slots: (0..BUFFERS).map(|_| None).collect(), next: 0 }
    }
}

impl Buffers {
    /// Keeps a packet if there is room; its number.
    pub(super) fn keep(&mut self, in_port: PortNo, frame: &[u8], now: Instant) -> Option<u32> {
        let number = self.next;
        let slot = &mut self.slots[(number % BUFFERS) as usize];
        if slot.as_ref().is_some_and(|slot| slot.kept.is_some() && now < slot.since + KEPT) {
            return None;
        }
        *slot = Some(Slot { number, since: now, kept: Some(Kept { in_port, frame: frame.to_vec() }) });
        // All ones stand for no buffer.
        self.next = if number >= u32::MAX - BUFFERS { 0 } else { number + 1 };
        Some(number)
    }

    /// Hands a packet over.
    pub(super) fn fetch(&mut self, number: u32) -> Result<Kept, Missing> {
        let slot = self.slots[(number % BUFFERS) as usize].as_mut();
        let slot = slot.filter(|slot| slot.number == number).ok_or(Missing::Unknown)?;
        slot.kept.take().ok_or(Missing::Fetched)
    }

    /// Forgets packets that nobody fetched in time.
    pub(super) fn expire(&mut self, now: Instant) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|slot| now >= slot.since + KEPT) {
                *slot = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_handed_over_once() {
        let (mut buffers, now) = (Buffers::default(), Instant::now());
        let number = buffers.keep(PortNo(3), b"packet", now).unwrap();
        let kept = buffers.fetch(number).unwrap();
        assert_eq!((kept.in_port, kept.frame.as_slice()), (PortNo(3), b"packet".as_slice()));
        assert_eq!(buffers.fetch(number).unwrap_err(), Missing::Fetched);
        assert_eq!(buffers.fetch(number + 1).unwrap_err(), Missing::Unknown);
    }

    #[test]
    fn a_full_pool_takes_no_packet_until_the_oldest_had_its_time() {
        let (mut buffers, now) = (Buffers::default(), Instant::now());
        let numbers: Vec<u32> =
            (0..BUFFERS).map(|n| buffers.keep(PortNo(n), &n.to_be_bytes(), now).unwrap()).collect();
        assert!(buffers.keep(PortNo(9), b"late", now + KEPT / 2).is_none());
        let late = buffers.keep(PortNo(9), b"late", now + KEPT).unwrap();
        assert!(!numbers.contains(&late));
        assert_eq!(buffers.fetch(numbers[0]).unwrap_err(), Missing::Unknown);
        assert_eq!(buffers.fetch(numbers[1]).unwrap().frame, numbers[1].to_be_bytes());
        buffers.expire(now + KEPT);
        assert_eq!(buffers.fetch(numbers[2]).unwrap_err(), Missing::Unknown);
        assert_eq!(buffers.fetch(late).unwrap().frame, b"late");
    }
}

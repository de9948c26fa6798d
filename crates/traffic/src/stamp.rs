//! Stamps as this process writes and reads them: with a key of its own, in frames that can carry them.
//!
//! What a stamp is, and how it is scrambled, is said in [`weir_wire::stamp`]. The key is drawn when the process starts;
//! [`key`] gives it to whoever must read the stamps elsewhere, as the taps of `weir nf` do.
//!
//! A frame can be stamped when its last eighteen bytes are UDP or TCP payload: no padding behind the packet, no
//! fragment. A [`StampSlot`] is worked out once per frame of a trace and says how the L4 checksum is mended:
//! not at all where UDP has none, otherwise from a partial sum taken with the stamp's bytes as zeros.
//!
//! Cost: writing is 18 bytes, six multiplications and, for slots with a checksum, nine additions; reading is six
//! multiplications. Nothing allocates. The key is the process's; no threads.

use std::sync::LazyLock;
use weir_trial::Nf;
use weir_wire::stamp::Key;
use weir_wire::{Dissection, checksum, ipv4};

pub use weir_wire::stamp::Stamp;

/// What the stamps of this process are scrambled with.
static KEY: LazyLock<Key> = LazyLock::new(|| Key::new(rand::random()));

/// What the stamps of this process are scrambled with; its text is what `tap` of `weir nf` takes.
#[inline]
pub fn key() -> &'static Key {
    &KEY
}

/// How the number in a stamp tells trial and direction: the direction stands in its lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    bits: u32,
}

impl Numbering {
    /// Of so many directions: one bit at least, so that what two of them carry is the same whoever counts.
    pub(crate) fn of(directions: usize) -> Self {
        Self { bits: directions.next_power_of_two().ilog2().max(1) }
    }

    fn mask(self) -> u16 {
        (1 << self.bits) - 1
    }

    /// The number of a trial, of which the bits above the direction's are lost, and a direction.
    pub(crate) fn number(self, trial: u16, direction: usize) -> u16 {
        trial << self.bits | (direction as u16 & self.mask())
    }

    /// The direction in a number.
    pub(crate) fn direction(self, number: u16) -> usize {
        usize::from(number & self.mask())
    }

    /// Whether two numbers are of the same trial.
    pub(crate) fn same_trial(self, one: u16, other: u16) -> bool {
        (one ^ other) & !self.mask() == 0
    }

    /// Whether two numbers are of the same direction.
    #[inline]
    pub(crate) fn same_direction(self, one: u16, other: u16) -> bool {
        (one ^ other) & self.mask() == 0
    }
}

/// How the stamps of packets that a function let out are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As they were written.
    #[default]
    Plain,
    /// The function encrypts the payload ([`weir_cipher`]): the last blocks are decrypted first, some
    /// 50 ns where the CPU has AES instructions. A stamp in clear is one too, so that a device that
    /// encrypts nothing is seen through.
    Deciphered,
}

impl Reading {
    /// Behind this function.
    pub fn behind(nf: Nf) -> Self {
        if nf.encrypts() { Self::Deciphered } else { Self::Plain }
    }

    /// The stamp of a frame (in memory, without FCS), if there is one.
    #[inline]
    pub fn read(self, frame: &[u8]) -> Option<Stamp> {
        self.read_damaged(frame).and_then(|(whole, stamp)| whole.then_some(stamp))
    }

    /// What stands where a stamp would, and whether it begins as stamps do.
    #[inline]
    pub(crate) fn read_damaged(self, frame: &[u8]) -> Option<(bool, Stamp)> {
        let plain = Stamp::read_damaged(frame, key());
        if self == Self::Plain {
            return plain;
        }
        // Of 65,536 encrypted stamps one begins like a stamp in clear, so what is decrypted comes first.
        let deciphered = weir_cipher::end_of(frame).map(|end| Stamp::from_end(&end, key()));
        let whole = |read: &Option<(bool, Stamp)>| read.is_some_and(|(whole, _)| whole);
        if !whole(&deciphered) && whole(&plain) { plain } else { deciphered.or(plain) }
    }
}

/// Whether a frame can be stamped, and how its L4 checksum is mended when it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StampSlot {
    /// The frame cannot carry a stamp: no L4 payload of [`Stamp::BYTES`] at its very end.
    #[default]
    None,
    /// A stamp fits and no checksum covers it (UDP checksum 0).
    Plain,
    /// A stamp fits and the L4 checksum covers it.
    Checksum {
        /// Where the checksum field stands, in bytes from the start of the frame.
        at: u16,
        /// Sum of everything the checksum covers, with field and stamp as zeros, folded.
        partial: u16,
        /// Whether the stamp starts at an odd offset of the summed data.
        odd: bool,
        /// Whether a zero is sent as `0xffff` (UDP).
        udp: bool,
    },
}

impl StampSlot {
    /// Works out the slot of a frame (in memory, without FCS).
    pub fn of(frame: &[u8]) -> Self {
        Self::find(frame).unwrap_or(Self::None)
    }

    fn find(frame: &[u8]) -> Option<Self> {
        let found = Dissection::of(frame);
        let (network, transport) = found.network.zip(found.transport)?;
        let stamp_at = frame.len().checked_sub(Stamp::BYTES)?;
        if network.end != frame.len() || stamp_at < transport.payload {
            return None;
        }
        let is_udp = network.protocol == ipv4::UDP;
        let length = frame.len() - transport.offset;
        if is_udp {
            let header = weir_wire::UdpView::checked(&frame[transport.offset..]).ok()?;
            if usize::from(header.length()) != length {
                return None;
            }
            if header.checksum() == 0 {
                return Some(Self::Plain);
            }
        }
        let pseudo = match (network.source, network.destination) {
            (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) => {
                checksum::pseudo_ipv4(source, destination, network.protocol, u16::try_from(length).ok()?)
            }
            (std::net::IpAddr::V6(source), std::net::IpAddr::V6(destination)) => {
                checksum::pseudo_ipv6(source, destination, network.protocol, u32::try_from(length).ok()?)
            }
            _ => return None,
        };
        let segment = &frame[transport.offset..];
        let field = transport.checksum - transport.offset;
        let before = checksum::sum(&segment[..field]);
        let after = checksum::sum(&segment[field + 2..length - Stamp::BYTES]);
        Some(Self::Checksum {
            at: u16::try_from(transport.checksum).ok()?,
            partial: checksum::fold(pseudo + before + after),
            odd: !length.is_multiple_of(2),
            udp: is_udp,
        })
    }

    /// The same once a word that the checksum covers, at an even offset, was changed.
    #[inline]
    #[must_use]
    pub fn with_word_changed(self, old: u16, new: u16) -> Self {
        match self {
            Self::Checksum { at, partial, odd, udp } => {
                let partial = checksum::fold(u32::from(partial) + u32::from(!old) + u32::from(new));
                Self::Checksum { at, partial, odd, udp }
            }
            other => other,
        }
    }

    /// Whether the frame can be stamped.
    #[inline]
    pub fn is_stampable(self) -> bool {
        self != Self::None
    }

    /// The checksum field of the frame with this stamp, and where it stands; nothing to write where
    /// no checksum covers the stamp.
    #[inline]
    pub fn finish(self, stamp: &[u8; Stamp::BYTES]) -> Option<(usize, [u8; 2])> {
        let Self::Checksum { at, partial, odd, udp: is_udp } = self else { return None };
        let field = checksum::finish(u32::from(partial) + checksum::sum_at(stamp, odd));
        let field = if is_udp { checksum::udp_nonzero(field) } else { field };
        Some((usize::from(at), field.to_be_bytes()))
    }

    /// Writes a stamp into the frame this slot was worked out for, and mends its L4 checksum.
    /// Says whether it did: a frame that cannot be stamped is left as it is.
    #[inline]
    pub fn stamp(self, frame: &mut [u8], stamp: Stamp) -> bool {
        if self == Self::None {
            return false;
        }
        let bytes = stamp.to_bytes(key());
        let Some(end) = frame.last_chunk_mut::<{ Stamp::BYTES }>() else { return false };
        *end = bytes;
        if let Some((at, field)) = self.finish(&bytes)
            && let Some(place) = frame.get_mut(at..at + 2)
        {
            place.copy_from_slice(&field);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, UdpRepr};

    /// Bytes in front of the payload.
    const HEADERS: usize = 42;

    /// A UDP frame whose payload is two whole blocks, a stamp at its end.
    fn stamped(stamp: Stamp) -> Vec<u8> {
        let mut frame = vec![0; HEADERS + 2 * weir_cipher::BLOCK];
        let mac = MacAddress([2; 6]);
        EthernetRepr { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut frame);
        let (source, destination) = ([198, 18, 0, 1].into(), [198, 19, 0, 1].into());
        let payload_len = (frame.len() - 34) as u16;
        Ipv4Repr { source, destination, protocol: ipv4::UDP, ttl: 9, payload_len }.emit(&mut frame[14..]);
        let payload_len = payload_len - 8;
        UdpRepr { source: 5_000, destination: 6_000, payload_len }.emit(&mut frame[34..]);
        stamp.write(&mut frame, key());
        frame
    }

    #[test]
    fn a_number_tells_trial_and_direction_of_any_number_of_directions() {
        for (directions, bits) in [(1, 1), (2, 1), (3, 2), (4, 2), (6, 3), (16, 4)] {
            let numbering = Numbering::of(directions);
            for direction in 0..directions {
                let number = numbering.number(9, direction);
                assert_eq!((number >> bits, numbering.direction(number)), (9, direction));
                assert!(numbering.same_trial(number, numbering.number(9, 0)));
                assert!(!numbering.same_trial(number, numbering.number(8, direction)));
                assert!(numbering.same_direction(number, numbering.number(8, direction)));
                assert!(!numbering.same_direction(number, numbering.number(9, direction ^ 1)));
            }
        }
    }

    #[test]
    fn an_encrypted_stamp_that_begins_like_one_in_clear_is_decrypted_all_the_same() {
        let mut alike = 0;
        // The magic word is in the first block, over which only what stands in front of it has a say.
        for counter in 0..400_000_u32 {
            let stamp = Stamp { trial: 7, sequence: u64::from(counter), tsc: 0x1234_5678_9abc };
            let mut frame = stamped(stamp);
            frame[HEADERS..HEADERS + 4].copy_from_slice(&counter.to_be_bytes());
            weir_cipher::encrypt(&mut frame[HEADERS..]);
            if let Some(foreign) = Stamp::read(&frame, key()) {
                alike += 1;
                assert_ne!(foreign, stamp, "read in clear it says something else");
                assert_eq!(Reading::Plain.read(&frame), Some(foreign));
                assert_eq!(Reading::Deciphered.read(&frame), Some(stamp), "counter {counter}");
            }
        }
        assert!(alike > 0, "none of 400,000 looks like one in clear: look at more");
    }

    #[test]
    fn a_stamp_in_clear_is_read_behind_a_function_that_should_have_encrypted_it() {
        let stamp = Stamp { trial: 1, sequence: 5, tsc: 9 };
        assert_eq!(Reading::Deciphered.read(&stamped(stamp)), Some(stamp));
        assert_eq!(Reading::Deciphered.read(&[0; 17]), None, "too short for any");
    }
}

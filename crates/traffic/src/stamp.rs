//! Stamps: eighteen bytes at the end of a frame by which the sink knows it again.
//!
//! ```text
//! end-18   end-16    end-14              end-8                       end
//! +--------+---------+-------------------+---------------------------+
//! | magic  | trial   | sequence (48 bit) | time stamp counter (TSC)  |   big endian
//! +--------+---------+-------------------+---------------------------+
//! ```
//!
//!
//! So it reads in clear. On the wire it is scrambled with a key that is drawn when the process starts, so that a
//! device can neither know the tester's packets by a mark that they share nor make a stamp of its own: of those
//! that it changes, one in 65,536 begins with the magic word again. The scrambling is four rounds of a Feistel
//! network; it is to keep cheating from being cheap, and is no cryptography.
//!
//! The four highest bits of the sequence are the sender's, where several threads send a direction; each
//! numbers its own packets from 0.
//!
//! They stand at the *end* so that a device that pushes or pops headers does not move them, and
//! fit the payload of the least UDP frame (64 B with FCS) exactly. A frame can be stamped when its
//! last eighteen bytes are UDP or TCP payload: no padding behind the packet, no fragment. A
//! [`StampSlot`] is worked out once per frame of a trace and says how the L4 checksum is mended:
//! not at all where UDP has none, otherwise from a partial sum taken with the stamp's bytes as zeros.
//!
//! Cost: writing is 18 bytes, six multiplications and, for slots with a checksum, nine additions; reading is six
//! multiplications. Nothing allocates. The key is the process's; no threads.

use std::sync::LazyLock;
use weir_trial::{Nf, cipher};
use weir_wire::{Dissection, checksum, ipv4};

/// First word of a stamp. No two neighbouring bytes of the payload pattern equal it.
const MAGIC: u16 = 0x57e1;

/// What the stamps of this process are scrambled with.
static KEY: LazyLock<[u64; ROUNDS + 1]> = LazyLock::new(rand::random);
const ROUNDS: usize = 4;

/// The parts of a stamp on the wire: magic word, trial and the sequence's upper 32 bits; the lower 16; the time.
type Parts = (u64, u16, u64);

/// Mixes a half with a round's key: both halves of a product of 128 bits.
#[inline]
fn mix(half: u64, key: u64) -> u64 {
    let product = u128::from(half ^ key) * 0x9e37_79b9_7f4a_7c15_u128;
    (product >> 64) as u64 ^ (product as u64).rotate_left(29)
}

#[inline]
fn scramble((mut a, low, mut b): Parts, key: &[u64; ROUNDS + 1]) -> Parts {
    let tweak = u64::from(low) << 24;
    for pair in key[..ROUNDS].as_chunks::<2>().0 {
        b ^= mix(a ^ tweak, pair[0]);
        a ^= mix(b, pair[1]);
    }
    (a, low ^ mix(a, key[ROUNDS]) as u16, b)
}

#[inline]
fn unscramble((mut a, low, mut b): Parts, key: &[u64; ROUNDS + 1]) -> Parts {
    let low = low ^ mix(a, key[ROUNDS]) as u16;
    let tweak = u64::from(low) << 24;
    for pair in key[..ROUNDS].as_chunks::<2>().0.iter().rev() {
        a ^= mix(b, pair[1]);
        b ^= mix(a ^ tweak, pair[0]);
    }
    (a, low, b)
}

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which trial sent it; tells late packets of an earlier trial from this trial's.
    pub trial: u16,
    /// Number of the stamped packet, below 2^48; higher bits are cut off.
    pub sequence: u64,
    /// Time stamp counter when it was sent, in TSC cycles.
    pub tsc: u64,
}

impl Stamp {
    /// Bytes a stamp takes at the end of a frame.
    pub const BYTES: usize = 18;
    /// Senders of one direction that can be told apart.
    pub const STREAMS: usize = 16;
    /// Bits of the number that a sender gives its packets.
    const NUMBER_BITS: u32 = 44;

    /// The sequence of the first packet of a sender.
    pub(crate) const fn first_of(stream: u8) -> u64 {
        (stream as u64) << Self::NUMBER_BITS
    }

    /// Which of its direction's senders sent it.
    #[inline]
    pub(crate) const fn stream(self) -> usize {
        (self.sequence >> Self::NUMBER_BITS) as usize & (Self::STREAMS - 1)
    }

    /// Its number among the packets of its sender.
    #[inline]
    pub(crate) const fn number(self) -> u64 {
        self.sequence & ((1 << Self::NUMBER_BITS) - 1)
    }

    /// The stamp as bytes, scrambled.
    #[inline]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let head = u64::from(MAGIC) << 48 | u64::from(self.trial) << 32 | (self.sequence >> 16) & 0xffff_ffff;
        let (head, low, tsc) = scramble((head, self.sequence as u16, self.tsc), &KEY);
        bytes[0..8].copy_from_slice(&head.to_be_bytes());
        bytes[8..10].copy_from_slice(&low.to_be_bytes());
        bytes[10..18].copy_from_slice(&tsc.to_be_bytes());
        bytes
    }

    /// Writes the stamp into the last [`Self::BYTES`] of a frame, checksums left alone; see
    /// [`StampSlot::stamp`]. A shorter frame is left as it is.
    #[inline]
    pub fn write(self, frame: &mut [u8]) {
        if let Some(end) = frame.last_chunk_mut::<{ Self::BYTES }>() {
            *end = self.to_bytes();
        }
    }

    /// The stamp at the end of a frame (in memory, without FCS), if there is one.
    #[inline]
    pub fn read(frame: &[u8]) -> Option<Self> {
        Self::read_damaged(frame).and_then(|(whole, stamp)| whole.then_some(stamp))
    }

    /// What stands where a stamp would, and whether it begins as stamps do. Nothing where the frame
    /// is too short for one.
    #[inline]
    pub(crate) fn read_damaged(frame: &[u8]) -> Option<(bool, Self)> {
        frame.last_chunk::<{ Self::BYTES }>().map(Self::from_end)
    }

    /// What the last bytes of a frame say, and whether they begin as stamps do.
    #[inline]
    fn from_end(end: &[u8; Self::BYTES]) -> (bool, Self) {
        let head = u64::from_be_bytes([end[0], end[1], end[2], end[3], end[4], end[5], end[6], end[7]]);
        let tsc = [end[10], end[11], end[12], end[13], end[14], end[15], end[16], end[17]];
        let low = u16::from_be_bytes([end[8], end[9]]);
        let (head, low, tsc) = unscramble((head, low, u64::from_be_bytes(tsc)), &KEY);
        let stamp =
            Self { trial: (head >> 32) as u16, sequence: (head & 0xffff_ffff) << 16 | u64::from(low), tsc };
        (head >> 48 == u64::from(MAGIC), stamp)
    }
}

/// How the stamps of packets that a function let out are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As they were written.
    #[default]
    Plain,
    /// The function encrypts the payload ([`weir_trial::cipher`]): the last blocks are decrypted first, some
    /// 50 ns where the CPU has AES instructions. A stamp in clear is one too, so that a device that
    /// encrypts nothing is seen through.
    Deciphered,
}

impl Reading {
    /// Behind this function.
    pub const fn behind(nf: Nf) -> Self {
        match nf {
            Nf::PipelineB { .. } => Self::Deciphered,
            _ => Self::Plain,
        }
    }

    /// The stamp of a frame (in memory, without FCS), if there is one.
    #[inline]
    pub fn read(self, frame: &[u8]) -> Option<Stamp> {
        self.read_damaged(frame).and_then(|(whole, stamp)| whole.then_some(stamp))
    }

    /// What stands where a stamp would, and whether it begins as stamps do.
    #[inline]
    pub(crate) fn read_damaged(self, frame: &[u8]) -> Option<(bool, Stamp)> {
        let plain = Stamp::read_damaged(frame);
        if self == Self::Plain {
            return plain;
        }
        // Of 65,536 encrypted stamps one begins like a stamp in clear, so what is decrypted comes first.
        let deciphered = cipher::end_of(frame).map(|end| Stamp::from_end(&end));
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
        let bytes = stamp.to_bytes();
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
        let mut frame = vec![0; HEADERS + 2 * cipher::BLOCK];
        let mac = MacAddress([2; 6]);
        EthernetRepr { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut frame);
        let (source, destination) = ([198, 18, 0, 1].into(), [198, 19, 0, 1].into());
        let payload_len = (frame.len() - 34) as u16;
        Ipv4Repr { source, destination, protocol: ipv4::UDP, ttl: 9, payload_len }.emit(&mut frame[14..]);
        let payload_len = payload_len - 8;
        UdpRepr { source: 5_000, destination: 6_000, payload_len }.emit(&mut frame[34..]);
        stamp.write(&mut frame);
        frame
    }

    #[test]
    fn every_part_of_a_stamp_comes_back_and_another_key_reads_nothing() {
        let (one, other) = (rand::random(), rand::random());
        let mut read = 0;
        for number in 0..200_000_u64 {
            let parts = (u64::from(MAGIC) << 48 | number.rotate_left(20) >> 16, number as u16, number << 40);
            assert_eq!(unscramble(scramble(parts, &one), &one), parts);
            read += u64::from(unscramble(scramble(parts, &one), &other).0 >> 48 == u64::from(MAGIC));
        }
        assert!(read < 20, "3 of 200,000 by chance, {read} came");
    }

    #[test]
    fn no_two_bytes_of_stamps_tell_that_the_tester_sent_them() {
        // As a trial numbers them: magic and trial are the same in all, and numbers and times rise.
        let stamps: Vec<[u8; Stamp::BYTES]> = (0..50_000)
            .map(|number| Stamp { trial: 6, sequence: number, tsc: 90_000_000 + 170 * number }.to_bytes())
            .collect();
        for at in 0..Stamp::BYTES - 1 {
            let mut counts = std::collections::HashMap::new();
            stamps.iter().for_each(|bytes| *counts.entry([bytes[at], bytes[at + 1]]).or_insert(0) += 1);
            let most = counts.values().copied().max().unwrap_or(0);
            assert!(most < 12, "bytes {at} and {} are the same in {most} of 50,000", at + 1);
        }
    }

    #[test]
    fn a_stamp_that_a_device_changes_is_one_no_longer() {
        let stamp = Stamp { trial: 3, sequence: 77, tsc: 1_000_000 };
        let mut read = 0;
        for younger in 1..100_000_u64 {
            let mut bytes = stamp.to_bytes();
            let time = u64::from_be_bytes(bytes[10..].try_into().unwrap()).wrapping_add(younger);
            bytes[10..].copy_from_slice(&time.to_be_bytes());
            read += u64::from(Stamp::read(&bytes).is_some_and(|read| read.trial == stamp.trial));
        }
        assert!(read <= 3, "{read} of 100,000 younger stamps are of the trial");
        for bit in 0..8 * Stamp::BYTES {
            let mut bytes = stamp.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Stamp::read(&bytes), Some(stamp), "bit {bit}");
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
            cipher::encrypt(&mut frame[HEADERS..]);
            if let Some(foreign) = Stamp::read(&frame) {
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

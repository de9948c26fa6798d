//! Stamps: eighteen bytes at the end of a tester's frame by which it knows it again.
//!
//! ```text
//! end-18   end-16    end-14              end-8                       end
//! +--------+---------+-------------------+---------------------------+
//! | magic  | trial   | sequence (48 bit) | time stamp counter (TSC)  |   big endian
//! +--------+---------+-------------------+---------------------------+
//! ```
//!
//! So it reads in clear. On the wire it is scrambled with a [`Key`] that the tester draws when it starts, so that a
//! device can neither know the tester's packets by a mark that they share nor make a stamp of its own: of those
//! that it changes, one in 65,536 begins with the magic word again. The scrambling is four rounds of a Feistel
//! network; it is to keep cheating from being cheap, and is no cryptography.
//!
//! The four highest bits of the sequence are the sender's, where several threads send a direction; each
//! numbers its own packets from 0.
//!
//! They stand at the *end* so that a device that pushes or pops headers does not move them, and
//! fit the payload of the least UDP frame (64 B with FCS) exactly.
//!
//! Cost: writing and reading are 18 bytes and six multiplications each. Nothing allocates, and there is no state.

use std::fmt;
use std::str::FromStr;

/// First word of a stamp. No two neighbouring bytes of the payload pattern equal it.
const MAGIC: u16 = 0x57e1;

const ROUNDS: usize = 4;

/// What a tester's stamps are scrambled with.
///
/// As text it is five words of 16 hexadecimal digits, joined by `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u64; Self::WORDS]);

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no key of stamps; write {words} words of {DIGITS} hexadecimal digits, joined by `-`, as the tester has them",
    words = Key::WORDS
)]
pub struct ParseKeyError {
    text: String,
}

/// Hexadecimal digits of a word of a key.
const DIGITS: usize = 16;

impl Key {
    /// Words of a key: one a round, and one for the sequence's lower bits.
    pub const WORDS: usize = ROUNDS + 1;

    /// The key of these words, which are to be drawn at random.
    pub const fn new(words: [u64; Self::WORDS]) -> Self {
        Self(words)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(place, word)| {
            let joint = if place == 0 { "" } else { "-" };
            write!(f, "{joint}{word:016x}")
        })
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = |text: &str| {
            let whole = text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit());
            whole.then(|| u64::from_str_radix(text, 16).ok()).flatten()
        };
        let words: Option<Vec<u64>> = text.split('-').map(word).collect();
        let words = words.and_then(|words| words.try_into().ok());
        words.map(Self).ok_or_else(|| ParseKeyError { text: text.to_owned() })
    }
}

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
    pub const fn first_of(stream: u8) -> u64 {
        (stream as u64) << Self::NUMBER_BITS
    }

    /// Which of its direction's senders sent it.
    #[inline]
    pub const fn stream(self) -> usize {
        (self.sequence >> Self::NUMBER_BITS) as usize & (Self::STREAMS - 1)
    }

    /// Its number among the packets of its sender.
    #[inline]
    pub const fn number(self) -> u64 {
        self.sequence & ((1 << Self::NUMBER_BITS) - 1)
    }

    /// The stamp as bytes, scrambled.
    #[inline]
    pub fn to_bytes(self, key: &Key) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let head = u64::from(MAGIC) << 48 | u64::from(self.trial) << 32 | (self.sequence >> 16) & 0xffff_ffff;
        let (head, low, tsc) = scramble((head, self.sequence as u16, self.tsc), &key.0);
        bytes[0..8].copy_from_slice(&head.to_be_bytes());
        bytes[8..10].copy_from_slice(&low.to_be_bytes());
        bytes[10..18].copy_from_slice(&tsc.to_be_bytes());
        bytes
    }

    /// Writes the stamp into the last [`Self::BYTES`] of a frame, checksums left alone. A shorter
    /// frame is left as it is.
    #[inline]
    pub fn write(self, frame: &mut [u8], key: &Key) {
        if let Some(end) = frame.last_chunk_mut::<{ Self::BYTES }>() {
            *end = self.to_bytes(key);
        }
    }

    /// The stamp at the end of a frame (in memory, without FCS), if there is one.
    #[inline]
    pub fn read(frame: &[u8], key: &Key) -> Option<Self> {
        Self::read_damaged(frame, key).and_then(|(whole, stamp)| whole.then_some(stamp))
    }

    /// What stands where a stamp would, and whether it begins as stamps do. Nothing where the frame
    /// is too short for one.
    #[inline]
    pub fn read_damaged(frame: &[u8], key: &Key) -> Option<(bool, Self)> {
        frame.last_chunk::<{ Self::BYTES }>().map(|end| Self::from_end(end, key))
    }

    /// What the last bytes of a frame say, and whether they begin as stamps do.
    #[inline]
    pub fn from_end(end: &[u8; Self::BYTES], key: &Key) -> (bool, Self) {
        let head = u64::from_be_bytes([end[0], end[1], end[2], end[3], end[4], end[5], end[6], end[7]]);
        let tsc = [end[10], end[11], end[12], end[13], end[14], end[15], end[16], end[17]];
        let low = u16::from_be_bytes([end[8], end[9]]);
        let (head, low, tsc) = unscramble((head, low, u64::from_be_bytes(tsc)), &key.0);
        let stamp =
            Self { trial: (head >> 32) as u16, sequence: (head & 0xffff_ffff) << 16 | u64::from(low), tsc };
        (head >> 48 == u64::from(MAGIC), stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key as any: words far from each other (SplitMix64, Steele et al. 2014).
    fn key(seed: u64) -> Key {
        let mut state = seed;
        Key::new([(); Key::WORDS].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ word >> 31
        }))
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn every_part_of_a_stamp_comes_back_and_another_key_reads_nothing() {
        let (one, other) = (key(1).0, key(2).0);
        let mut read = 0;
        for number in 0..200_000_u64 {
            let parts = (u64::from(MAGIC) << 48 | number.rotate_left(20) >> 16, number as u16, number << 40);
            assert_eq!(unscramble(scramble(parts, &one), &one), parts);
            read += u64::from(unscramble(scramble(parts, &one), &other).0 >> 48 == u64::from(MAGIC));
        }
        assert!(read < 20, "3 of 200,000 by chance, {read} came");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn no_two_bytes_of_stamps_tell_that_the_tester_sent_them() {
        // As a trial numbers them: magic and trial are the same in all, and numbers and times rise.
        let stamps: Vec<[u8; Stamp::BYTES]> = (0..50_000)
            .map(|number| {
                Stamp { trial: 6, sequence: number, tsc: 90_000_000 + 170 * number }.to_bytes(&key(1))
            })
            .collect();
        for at in 0..Stamp::BYTES - 1 {
            let mut counts = std::collections::HashMap::new();
            stamps.iter().for_each(|bytes| *counts.entry([bytes[at], bytes[at + 1]]).or_insert(0) += 1);
            let most = counts.values().copied().max().unwrap_or(0);
            assert!(most < 12, "bytes {at} and {} are the same in {most} of 50,000", at + 1);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_stamp_that_a_device_changes_is_one_no_longer() {
        let stamp = Stamp { trial: 3, sequence: 77, tsc: 1_000_000 };
        let mut read = 0;
        for younger in 1..100_000_u64 {
            let mut bytes = stamp.to_bytes(&key(1));
            let time = u64::from_be_bytes(bytes[10..].try_into().unwrap()).wrapping_add(younger);
            bytes[10..].copy_from_slice(&time.to_be_bytes());
            read += u64::from(Stamp::read(&bytes, &key(1)).is_some_and(|read| read.trial == stamp.trial));
        }
        assert!(read <= 3, "{read} of 100,000 younger stamps are of the trial");
        for bit in 0..8 * Stamp::BYTES {
            let mut bytes = stamp.to_bytes(&key(1));
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Stamp::read(&bytes, &key(1)), Some(stamp), "bit {bit}");
        }
    }

    #[test]
    fn a_key_survives_its_text_and_what_is_none_is_refused() {
        let one = key(1);
        let text = one.to_string();
        assert_eq!((text.len(), text.parse()), (84, Ok(one)));
        assert_eq!(Key::new([1, 2, 3, 4, 5]).to_string().split('-').next(), Some("0000000000000001"));
        let broken = [
            "",
            "off",
            &text[1..],
            &text[..text.len() - 17],
            &format!("{text}-0123456789abcdef"),
            &text.replace('-', ":"),
            &format!("+{}", &text[1..]),
            &format!("{}é", &text[..82]),
        ];
        for broken in broken {
            let error = broken.parse::<Key>().unwrap_err().to_string();
            assert!(error.contains("5 words of 16 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn a_frame_shorter_than_a_stamp_has_none_and_is_left_alone() {
        let stamp = Stamp { trial: 1, sequence: 2, tsc: 3 };
        for bytes in 0..Stamp::BYTES {
            let mut frame = vec![7; bytes];
            stamp.write(&mut frame, &key(1));
            assert_eq!((Stamp::read(&frame, &key(1)), frame), (None, vec![7; bytes]));
        }
    }
}

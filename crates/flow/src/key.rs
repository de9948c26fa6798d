//! Flow keys and masks: everything the switch can match on, as 64-bit words.
//!
//! A key holds every field of a packet at a fixed place. The first [`HEAD`] words hold what nearly
//! every packet has and are always written; the rest is zero unless `present` says otherwise, so that
//! clearing, hashing and comparing touch one cache line for plain IPv4 and more only where a packet
//! needs more.
//!
//! Word by word, from the most significant bit, as `field/table.rs` says and a test compares:
//!
//! | word | fields |
//! |---|---|
//! | 0 | in_port 32, sf_stage 8, unused 5, `CUT` 1, nw_frag 2, sf_action 16 |
//! | 1 | dl_dst 48, dl_type 16 |
//! | 2 | dl_src 48, vlan_tci 16 |
//! | 3 | nw_src 32, nw_dst 32 |
//! | 4 | nw_proto 8, nw_tos 6, nw_ecn 2, nw_ttl 8, ct_state 8, tcp_src 16, tcp_dst 16 |
//! | 5 | sf_metadata 32, unused 4, tcp_flags 12, ct_zone 16 |
//! | 6 | metadata 64 |
//! | 7 | tun_id 64 |
//! | 8 | ipv6_src 64 |
//! | 9 | the lower half of ipv6_src |
//! | 10 | ipv6_dst 64 |
//! | 11 | the lower half of ipv6_dst |
//! | 12 | nd_target 64 |
//! | 13 | the lower half of nd_target |
//! | 14 | arp_sha 48, unused 7, ipv6_exthdr 9 |
//! | 15 | arp_tha 48, unused 16 |
//! | 16 | unused 12, ipv6_label 20, ct_mark 32 |
//! | 17 | ct_label 64 |
//! | 18 | the lower half of ct_label |
//! | 19 | mpls_label 20, mpls_tc 3, mpls_bos 1, mpls_ttl 8, `SECOND_LABEL` 32 |
//! | 20 | `THIRD_LABEL` 32, unused 8, pbb_isid 24 |
//! | 21 | `INNER_TCI` 16, `OUTER_TPID` 16, `INNER_TPID` 16, unused 16 |
//! | 22 | recirc_id 32, pkt_mark 32 |
//! | 23 | reg0 32, reg1 32 |
//! | 24 | reg2 32, reg3 32 |
//! | 25 | reg4 32, reg5 32 |
//! | 26 | reg6 32, reg7 32 |
//! | 27 | reg8 32, reg9 32 |
//! | 28 | reg10 32, reg11 32 |
//! | 29 | reg12 32, reg13 32 |
//! | 30 | reg14 32, reg15 32 |
//! | 31 | ct_nw_src 32, ct_nw_dst 32 |
//! | 32 | ct_nw_proto 8, unused 24, ct_tp_src 16, ct_tp_dst 16 |
//! | 33 | ct_ipv6_src 64 |
//! | 34 | the lower half of ct_ipv6_src |
//! | 35 | ct_ipv6_dst 64 |
//! | 36 | the lower half of ct_ipv6_dst |
//! | 37 | tun_src 32, tun_dst 32 |
//! | 38 | conj_id 32, actset_output 32 |
//!
//! Threads: plain data.

use std::fmt;

pub use crate::field::derived::WORDS;

/// Words at the front that every packet has.
pub const HEAD: usize = 6;

/// The bits of `present` that stand for the head.
const HEAD_BITS: u64 = (1 << HEAD) - 1;

/// What a packet looks like to the tables.
///
/// Invariant: a word that `present` does not name is zero, and `present` names the whole head.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Key {
    // In front, in the head's cache line: whoever reads the one reads the other.
    present: u64,
    words: [u64; WORDS],
}

/// Bits of a key that matter: 1 where the key's bit does.
///
/// Invariant: `present` names exactly the words that are not zero.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mask {
    words: [u64; WORDS],
    present: u64,
}

/// The places of the bits that are set, from the lowest.
#[inline]
pub fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let place = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        Some(place)
    })
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

impl Key {
    /// The key of nothing: all fields zero.
    #[inline]
    pub const fn new() -> Self {
        Self { words: [0; WORDS], present: HEAD_BITS }
    }

    /// Makes all fields zero, touching only the words that may not be.
    #[inline]
    pub fn clear(&mut self) {
        self.renew([0; HEAD]);
    }

    /// The same with a head.
    #[inline]
    pub fn renew(&mut self, head: [u64; HEAD]) {
        for place in places(self.present & !HEAD_BITS) {
            self.words[place] = 0;
        }
        self.words[..HEAD].copy_from_slice(&head);
        self.present = HEAD_BITS;
    }

    /// One word.
    #[inline]
    pub fn word(&self, place: usize) -> u64 {
        self.words[place]
    }

    /// All words.
    #[inline]
    pub fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// The words of the head.
    #[inline]
    pub fn head(&self) -> &[u64; HEAD] {
        self.words.first_chunk().expect("a key is longer than its head")
    }

    /// Bit n set: word n may be other than zero.
    #[inline]
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Replaces a word.
    #[inline]
    pub fn set_word(&mut self, place: usize, value: u64) {
        self.words[place] = value;
        // The head is always there. To say so again would be a store of a byte that the next load waits for.
        self.present |= (1 << place) & !HEAD_BITS;
    }

    /// Replaces the bits of a word that `mask` names.
    #[inline]
    pub fn set_bits(&mut self, place: usize, value: u64, mask: u64) {
        self.set_word(place, (self.words[place] & !mask) | (value & mask));
    }

    /// Writes the head in one go, over a key that was cleared or is fresh.
    #[inline]
    pub fn set_head(&mut self, head: [u64; HEAD]) {
        self.words[..HEAD].copy_from_slice(&head);
    }

    /// Whether the two agree in every bit that the mask names.
    #[inline]
    pub fn agrees(&self, other: &Self, mask: &Mask) -> bool {
        places(mask.present).all(|place| (self.words[place] ^ other.words[place]) & mask.words[place] == 0)
    }

    /// The key with every bit cleared that the mask does not name.
    pub fn masked(&self, mask: &Mask) -> Self {
        let mut out = Self::new();
        for place in places(mask.present) {
            out.set_word(place, self.words[place] & mask.words[place]);
        }
        out
    }

    /// Whether the two are the same: cheaper than `==`, and false also of some that are, where one has words of zero
    /// that the other has not.
    #[inline]
    pub fn repeats(&self, other: &Self) -> bool {
        let differs = self.head().iter().zip(other.head()).fold(0, |differs, (a, b)| differs | (a ^ b));
        differs | (self.present ^ other.present) == 0
            && (self.present == HEAD_BITS
                || places(self.present & !HEAD_BITS).all(|place| self.words[place] == other.words[place]))
    }

    /// A hash of the whole key that nobody can predict without the seed.
    #[inline]
    pub fn hash(&self, seed: crate::Seed) -> u64 {
        let [a, b, c, d, e, f] = *self.head();
        let mut hash = seed.fold(a, b) ^ seed.fold_with(c, d, 1) ^ seed.fold_with(e, f, 2);
        let rest = self.present & !HEAD_BITS;
        if rest != 0 {
            for place in places(rest) {
                // A word that is present but zero must hash like one that is absent.
                if self.words[place] != 0 {
                    hash = seed.fold_with(hash, self.words[place], place);
                }
            }
        }
        seed.finish(hash)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Key {}

impl Default for Mask {
    fn default() -> Self {
        Self::new()
    }
}

impl Mask {
    /// The mask that matches everything.
    #[inline]
    pub const fn new() -> Self {
        Self { words: [0; WORDS], present: 0 }
    }

    /// The mask that names every bit.
    pub const fn exact() -> Self {
        Self { words: [u64::MAX; WORDS], present: (1 << WORDS) - 1 }
    }

    /// One word.
    #[inline]
    pub fn word(&self, place: usize) -> u64 {
        self.words[place]
    }

    /// Bit n set: word n is other than zero.
    #[inline]
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Names more bits of a word.
    #[inline]
    pub fn add(&mut self, place: usize, bits: u64) {
        self.words[place] |= bits;
        self.present |= u64::from(bits != 0) << place;
    }

    /// Names also every bit that the other names.
    #[inline]
    pub fn union(&mut self, other: &Self) {
        for place in places(other.present) {
            self.add(place, other.words[place]);
        }
    }

    /// Names no bit of a word that `bits` names.
    pub fn remove(&mut self, place: usize, bits: u64) {
        self.words[place] &= !bits;
        if self.words[place] == 0 {
            self.present &= !(1 << place);
        }
    }

    /// Whether it names every bit that the other names.
    pub fn covers(&self, other: &Self) -> bool {
        places(other.present).all(|place| other.words[place] & !self.words[place] == 0)
    }

    /// Places and words that are not zero, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        places(self.present).map(|place| (place, self.words[place]))
    }

    /// Bits named.
    pub fn bits(&self) -> u32 {
        self.iter().map(|(_, word)| word.count_ones()).sum()
    }
}

fn words(f: &mut fmt::Formatter<'_>, name: &str, present: u64, words: &[u64; WORDS]) -> fmt::Result {
    let mut out = f.debug_struct(name);
    for place in places(present).filter(|&place| words[place] != 0) {
        out.field(&format!("w{place}"), &format_args!("{:#x}", words[place]));
    }
    out.finish()
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        words(f, "Key", self.present, &self.words)
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        words(f, "Mask", self.present, &self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_hashes_by_what_it_holds_and_not_by_how_it_came_to_hold_it(
            words in proptest::collection::vec((0..WORDS, 0_u64..3), 0..20),
        ) {
            let (mut dirty, mut clean) = (Key::new(), Key::new());
            for &(place, value) in &words {
                dirty.set_word(place, value);
            }
            for place in 0..WORDS {
                if dirty.word(place) != 0 {
                    clean.set_word(place, dirty.word(place));
                }
            }
            let seed = Seed::new(7);
            prop_assert_eq!(&dirty, &clean);
            prop_assert_eq!(dirty.hash(seed), clean.hash(seed));
            dirty.clear();
            prop_assert_eq!(dirty, Key::new());
        }
    }

    #[test]
    fn a_mask_knows_which_of_its_words_matter() {
        let mut mask = Mask::new();
        mask.add(9, 0);
        assert_eq!(mask.present(), 0);
        mask.add(9, 6);
        mask.remove(9, 2);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [(9, 4)]);
        assert!(Mask::exact().covers(&mask) && !mask.covers(&Mask::exact()));
        mask.remove(9, 4);
        assert_eq!(mask, Mask::new());
    }
}

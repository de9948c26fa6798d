//! Keyed hashing by folded multiplication: 64 × 64 bits to 128, whose halves are joined.
//!
//! Three to four cycles a fold, no table, no special instructions. The seed is drawn at each start, so
//! that nobody outside can choose packets that collide.

/// The key of every hash in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    a: u64,
    b: u64,
}

/// Odd constants with as many ones as zeros: digits of pi.
const PI: [u64; 4] =
    [0x2437_6ab1_8851_a309, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];

#[inline]
const fn multiply(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Seed {
    /// A seed from a number: the same number, the same hashes.
    pub const fn new(number: u64) -> Self {
        Self {
            a: multiply(number ^ PI[0], PI[1]) | 1,
            b: multiply(number.rotate_left(32) ^ PI[2], PI[3]) | 1,
        }
    }

    /// Joins two words.
    #[inline]
    pub const fn fold(self, x: u64, y: u64) -> u64 {
        multiply(x ^ self.a, y ^ self.b)
    }

    /// Joins two words differently for each place.
    #[inline]
    pub const fn fold_with(self, x: u64, y: u64, place: usize) -> u64 {
        multiply(x ^ self.b, y ^ self.a.wrapping_add(PI[0].wrapping_mul(place as u64 * 2 + 1)))
    }

    /// An odd factor for each place of a word, for [`spread`].
    pub const fn factors(self) -> [u64; 4] {
        let (a, b) = (self.a, self.b);
        [a | 1, b | 1, multiply(a, PI[2] ^ b) | 1, multiply(b, PI[3] ^ a) | 1]
    }

    /// Spreads what was joined over all bits.
    #[inline]
    pub const fn finish(self, hash: u64) -> u64 {
        multiply(hash ^ self.a, PI[1] ^ self.b)
    }
}

/// Where a sum of words, each times its [factor](Seed::factors), belongs in a table of a power of two: what
/// all bits of the words make of the upper ones (Dietzfelbinger, Hagerup, Katajainen and Penttonen: A
/// reliable randomized algorithm for the closest-pair problem, 1997) comes first. Cheaper than a fold, and
/// enough for a table that verifies what it finds and needs no more than a slot.
#[inline(always)]
pub const fn spread(sum: u64) -> u64 {
    sum.swap_bytes()
}

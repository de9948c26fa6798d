//! AES-128 in CBC mode (NIST SP 800-38A, section 6.2) over many texts at once.
//!
//! Why: within a text CBC encryption is serial: each block waits for the one before, for the forty
//! cycles and more that AES takes, while the CPU could begin one every cycle or two. So many texts are
//! worked on side by side. Decryption is parallel within a text, and needs none of that.
//!
//! The instructions are chosen when a key is set ([`Kernel::best`]): VAES on registers of four blocks
//! or two, AES-NI on one, or the `aes` crate, which needs none of them and is what the others are
//! tested against. By how much the sum of the text changes, which a transport checksum needs, is found
//! on the way, while the text is in registers or in the cache.
//!
//! Cost: about 4 cycles a block with VAES and AVX-512 where 32 texts come together
//! (`cargo bench -p weir-services --bench services -- transcoder`). No allocation.
//!
//! Threads: a key is plain data, shared freely.

mod kernel;
mod portable;
mod vector;

use core::arch::x86_64::{__m128i, _mm_aesimc_si128};
use core::arch::x86_64::{
    _mm_loadu_si128, _mm_shuffle_epi32, _mm_slli_si128, _mm_storeu_si128, _mm_xor_si128,
};
use portable::Portable;

/// Bytes of a block.
pub const BLOCK: usize = 16;

/// The keys of a block's rounds, in the order of their use.
type RoundKeys = [[u8; BLOCK]; 11];

/// A text to be encrypted or decrypted in place.
#[derive(Debug, Default)]
pub struct Text<'t> {
    /// What its first block is chained to.
    pub iv: [u8; BLOCK],
    /// Its blocks.
    pub blocks: &'t mut [[u8; BLOCK]],
    /// The sum of its 32-bit words, in the CPU's byte order, as it went, less that as it came.
    pub change: i64,
}

impl<'t> Text<'t> {
    /// A text with its initialisation vector.
    #[inline]
    pub fn new(iv: [u8; BLOCK], blocks: &'t mut [[u8; BLOCK]]) -> Self {
        Self { iv, blocks, change: 0 }
    }
}

/// The instructions that encrypt and decrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// VAES and AVX-512: four blocks a register, 32 texts side by side.
    VaesAvx512,
    /// VAES and AVX2: two blocks a register, 16 texts side by side.
    VaesAvx2,
    /// AES-NI: a block a register, 8 texts side by side.
    AesNi,
    /// The `aes` crate.
    Portable,
}

impl Kernel {
    /// Every kernel, the fastest first.
    pub const ALL: [Self; 4] = [Self::VaesAvx512, Self::VaesAvx2, Self::AesNi, Self::Portable];

    /// Its name: `vaes-avx512`, `vaes-avx2`, `aes-ni` or `portable`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VaesAvx512 => "vaes-avx512",
            Self::VaesAvx2 => "vaes-avx2",
            Self::AesNi => "aes-ni",
            Self::Portable => "portable",
        }
    }

    /// Whether this CPU has its instructions, and the system lets them be used.
    pub fn is_available(self) -> bool {
        let aes = is_x86_feature_detected!("aes") && is_x86_feature_detected!("sse4.1");
        match self {
            Self::VaesAvx512 => {
                aes && is_x86_feature_detected!("vaes")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
            }
            Self::VaesAvx2 => aes && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx2"),
            Self::AesNi => aes,
            Self::Portable => true,
        }
    }

    /// The kernels that this CPU has the instructions for, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kernel| kernel.is_available())
    }

    /// The fastest that this CPU has the instructions for.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }
}

/// A key, ready for its kernel.
#[derive(Clone)]
pub struct Aes128Cbc {
    kernel: Kernel,
    keys: Keys,
}

#[derive(Clone)]
enum Keys {
    /// Of a kernel with AES instructions: those of encryption, and those of decryption.
    Expanded(RoundKeys, RoundKeys),
    Portable(Portable),
}

impl std::fmt::Debug for Aes128Cbc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aes128Cbc").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl Aes128Cbc {
    /// A key for this CPU's fastest kernel.
    pub fn new(key: [u8; BLOCK]) -> Self {
        Self::on(Kernel::best(), key)
    }

    /// A key for a kernel; for the portable one where this CPU does not have its instructions.
    pub fn on(kernel: Kernel, key: [u8; BLOCK]) -> Self {
        if kernel == Kernel::Portable || !kernel.is_available() {
            return Self { kernel: Kernel::Portable, keys: Keys::Portable(Portable::new(key)) };
        }
        // SAFETY: each kernel but the portable one is available only with AES-NI.
        let (encryption, decryption) = unsafe { expand(key) };
        Self { kernel, keys: Keys::Expanded(encryption, decryption) }
    }

    /// The kernel that it uses.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Encrypts each of the texts.
    #[inline]
    pub fn encrypt(&self, texts: &mut [Text<'_>]) {
        match &self.keys {
            Keys::Portable(portable) => portable.encrypt(texts),
            // SAFETY: `on` saw that the CPU has what this kernel needs.
            Keys::Expanded(keys, _) => unsafe {
                match self.kernel {
                    Kernel::VaesAvx512 => kernel::vaes512::encrypt(keys, texts),
                    Kernel::VaesAvx2 => kernel::vaes256::encrypt(keys, texts),
                    Kernel::AesNi | Kernel::Portable => kernel::aesni::encrypt(keys, texts),
                }
            },
        }
    }

    /// Decrypts each of the texts.
    #[inline]
    pub fn decrypt(&self, texts: &mut [Text<'_>]) {
        match &self.keys {
            Keys::Portable(portable) => portable.decrypt(texts),
            // SAFETY: `on` saw that the CPU has what this kernel needs.
            Keys::Expanded(_, keys) => unsafe {
                match self.kernel {
                    Kernel::VaesAvx512 => kernel::vaes512::decrypt(keys, texts),
                    Kernel::VaesAvx2 => kernel::vaes256::decrypt(keys, texts),
                    Kernel::AesNi | Kernel::Portable => kernel::aesni::decrypt(keys, texts),
                }
            },
        }
    }
}

/// The round keys of encryption (FIPS 197, section 5.2), and those of the equivalent inverse cipher
/// (section 5.3.5).
///
/// # Safety
/// The CPU has AES-NI.
#[target_feature(enable = "aes")]
unsafe fn expand(key: [u8; BLOCK]) -> (RoundKeys, RoundKeys) {
    // SAFETY: a block is read.
    let mut word = unsafe { _mm_loadu_si128(key.as_ptr().cast()) };
    let mut keys = [word; 11];
    macro_rules! round {
        ($($number:literal $constant:literal),+) => {$(
            word = _mm_xor_si128(prefix_xor(word), assist::<$constant>(word));
            keys[$number] = word;
        )+};
    }
    round!(1 0x01, 2 0x02, 3 0x04, 4 0x08, 5 0x10, 6 0x20, 7 0x40, 8 0x80, 9 0x1b, 10 0x36);
    let mut inverse = keys;
    inverse.reverse();
    inverse[1..10].iter_mut().for_each(|key| *key = _mm_aesimc_si128(*key));
    (keys.map(bytes), inverse.map(bytes))
}

/// The last word of a round key, substituted, rotated and with the round's constant, four times.
#[target_feature(enable = "aes")]
#[inline]
#[cfg(not(miri))]
fn assist<const CONSTANT: i32>(word: __m128i) -> __m128i {
    use core::arch::x86_64::_mm_aeskeygenassist_si128;
    _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<CONSTANT>(word))
}

/// The same for Miri, which does not know that instruction: four equal columns are substituted by a last round.
#[target_feature(enable = "aes")]
#[cfg(miri)]
fn assist<const CONSTANT: i32>(word: __m128i) -> __m128i {
    use core::arch::x86_64::{_mm_aesenclast_si128, _mm_cvtsi128_si32, _mm_set1_epi32, _mm_setzero_si128};
    let substituted = _mm_aesenclast_si128(_mm_shuffle_epi32::<0xff>(word), _mm_setzero_si128());
    let rotated = _mm_cvtsi128_si32(substituted).cast_unsigned().rotate_right(8) ^ CONSTANT.cast_unsigned();
    _mm_set1_epi32(rotated.cast_signed())
}

/// Each 32-bit word, and all before it, by exclusive or.
#[target_feature(enable = "sse2")]
fn prefix_xor(word: __m128i) -> __m128i {
    let word = _mm_xor_si128(word, _mm_slli_si128::<4>(word));
    _mm_xor_si128(word, _mm_slli_si128::<8>(word))
}

fn bytes(block: __m128i) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    // SAFETY: a block is written; every x86-64 CPU has SSE2.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).expect("two digits"))
    }

    /// NIST SP 800-38A, F.2.1 and F.2.2: CBC-AES128.
    const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";
    const IV: &str = "000102030405060708090a0b0c0d0e0f";
    const PLAIN: [&str; 4] = [
        "6bc1bee22e409f96e93d7e117393172a",
        "ae2d8a571e03ac9c9eb76fac45af8e51",
        "30c81c46a35ce411e5fbc1191a0a52ef",
        "f69f2445df4f9b17ad2b417be66c3710",
    ];
    const CIPHER: [&str; 4] = [
        "7649abac8119b246cee98e9b12e9197d",
        "5086cb9b507219ee95db113a917678b2",
        "73bed6b8e3c1743b7116e69e22229516",
        "3ff1caa1681fac09120eca307586e1a7",
    ];

    #[test]
    fn the_vectors_of_sp_800_38a_come_out_of_every_kernel_however_many_texts_there_are() {
        let (plain, cipher) = (PLAIN.map(hex::<BLOCK>), CIPHER.map(hex::<BLOCK>));
        for kernel in Kernel::available() {
            let cbc = Aes128Cbc::on(kernel, hex(KEY));
            assert_eq!(cbc.kernel(), kernel);
            for count in
                [0, 1, 3, 8, 9, 31, 32, 33, 64, 65, 200].into_iter().filter(|count| *count <= few(200))
            {
                let mut all = vec![plain; count];
                cbc.encrypt(&mut all.iter_mut().map(|text| Text::new(hex(IV), text)).collect::<Vec<_>>());
                assert!(all.iter().all(|text| *text == cipher), "{kernel:?}, {count} texts");
                cbc.decrypt(&mut all.iter_mut().map(|text| Text::new(hex(IV), text)).collect::<Vec<_>>());
                assert!(all.iter().all(|text| *text == plain), "{kernel:?}, {count} texts");
            }
        }
    }

    /// So many, or a part of them for Miri, which takes a thousand times as long.
    const fn few(count: usize) -> usize {
        if cfg!(miri) { count / 20 + 1 } else { count }
    }

    /// A text within a buffer: bytes before it, blocks, and bytes behind it that stay as they are.
    #[derive(Clone, Debug)]
    struct Piece {
        iv: [u8; BLOCK],
        front: usize,
        blocks: usize,
        buffer: Vec<u8>,
    }

    fn piece(most: usize) -> impl Strategy<Value = Piece> {
        (any::<[u8; BLOCK]>(), 0..64_usize, 0..=most, any::<u64>()).prop_map(
            |(iv, front, blocks, mut word)| {
                let next = || {
                    word =
                        word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (word >> 56) as u8
                };
                let buffer = std::iter::repeat_with(next).take(front + blocks * BLOCK + 64).collect();
                Piece { iv, front, blocks, buffer }
            },
        )
    }

    /// Works on the pieces, and returns how their sums changed.
    fn through(cbc: &Aes128Cbc, pieces: &mut [Piece], encrypt: bool) -> Vec<i64> {
        let mut texts: Vec<Text<'_>> = pieces
            .iter_mut()
            .map(|piece| {
                let bytes = &mut piece.buffer[piece.front..][..piece.blocks * BLOCK];
                Text::new(piece.iv, bytes.as_chunks_mut().0)
            })
            .collect();
        if encrypt {
            cbc.encrypt(&mut texts)
        } else {
            cbc.decrypt(&mut texts)
        }
        texts.iter().map(|text| text.change).collect()
    }

    /// The sum of a piece's words.
    fn sum(piece: &Piece) -> i64 {
        let words = piece.buffer[piece.front..][..piece.blocks * BLOCK].chunks(4);
        words.map(|word| i64::from(u32::from_ne_bytes(word.try_into().expect("four bytes")))).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 96 }))]
        #[test]
        fn every_kernel_makes_of_any_texts_anywhere_what_the_portable_one_makes_one_by_one(
            key in any::<[u8; BLOCK]>(),
            pieces in prop_oneof![
                proptest::collection::vec(piece(few(95)), 0..few(70)),
                proptest::collection::vec(piece(5), 0..few(70)),
                proptest::collection::vec(piece(few(600)), 0..9),
            ],
        ) {
            let portable = Aes128Cbc::on(Kernel::Portable, key);
            let mut expected = pieces.clone();
            expected.chunks_mut(1).for_each(|piece| drop(through(&portable, piece, true)));
            let changes: Vec<i64> =
                expected.iter().zip(&pieces).map(|(after, before)| sum(after) - sum(before)).collect();
            let turned: Vec<i64> = changes.iter().map(|change| -change).collect();
            for kernel in Kernel::available() {
                let cbc = Aes128Cbc::on(kernel, key);
                let mut found = pieces.clone();
                prop_assert_eq!(&through(&cbc, &mut found, true), &changes);
                for (found, expected) in found.iter().zip(&expected) {
                    prop_assert_eq!(&found.buffer, &expected.buffer, "{}", kernel.name());
                }
                prop_assert_eq!(&through(&cbc, &mut found, false), &turned);
                for (found, plain) in found.iter().zip(&pieces) {
                    prop_assert_eq!(&found.buffer, &plain.buffer, "{}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let cbc = Aes128Cbc::on(Kernel::Portable, hex(KEY));
        assert_eq!(format!("{cbc:?}"), "Aes128Cbc { kernel: Portable, .. }");
    }
}

//! AES-128 in CBC mode (NIST SP 800-38A, section 6.2) over many packets at once.
//!
//! Within a packet CBC encryption is serial: each block waits for the one before, for the tens of cycles
//! that AES takes, while the CPU could begin a block every few cycles. So as many packets as the CPU
//! encrypts blocks side by side are worked on together, one block of each a step; when a packet ends,
//! the next one takes its lane. Decryption is parallel within a packet, and needs none of that.
//!
//! The cipher is the `aes` crate's; the whole loop runs as a closure inside its backend, so that the
//! choice of instructions (VAES, AES-NI, or portable code), the round keys and the loop's own loads and
//! stores are set up once a burst and not once a block.

use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocks,
};
use aes::{Aes128, Block};

/// Bytes of a block.
pub(super) const BLOCK: usize = 16;

/// The most packets that are worked on together.
const LANES: usize = 64;

/// A key with its first vector.
#[derive(Clone)]
pub(super) struct Cbc {
    cipher: Aes128,
    iv: [u8; BLOCK],
}

impl Cbc {
    pub(super) fn new(key: [u8; BLOCK], iv: [u8; BLOCK]) -> Self {
        Self { cipher: Aes128::new(&key.into()), iv }
    }

    /// Encrypts each of the texts, in place, all beginning with the same vector.
    pub(super) fn encrypt<'p>(&self, texts: impl Iterator<Item = &'p mut [[u8; BLOCK]]>) {
        self.cipher.encrypt_with_backend(Encryption { texts, iv: self.iv });
    }

    /// Decrypts each of the texts, in place.
    pub(super) fn decrypt<'p>(&self, texts: impl Iterator<Item = &'p mut [[u8; BLOCK]]>) {
        self.cipher.decrypt_with_backend(Decryption { texts, iv: self.iv });
    }
}

#[inline(always)]
fn xor(a: &[u8; BLOCK], b: &[u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

struct Encryption<I> {
    texts: I,
    iv: [u8; BLOCK],
}

impl<I> BlockSizeUser for Encryption<I> {
    type BlockSize = U16;
}

impl<'p, I: Iterator<Item = &'p mut [[u8; BLOCK]]>> BlockCipherEncClosure for Encryption<I> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let width = B::ParBlocksSize::USIZE.min(LANES);
        let mut texts = self.texts.filter(|text| !text.is_empty());
        let mut lanes: [&mut [[u8; BLOCK]]; LANES] = std::array::from_fn(|_| Default::default());
        let mut chained = ParBlocks::<B>::default();
        let mut active = 0;
        loop {
            for text in texts.by_ref().take(width - active) {
                lanes[active] = text;
                chained[active] = Block::from(self.iv);
                active += 1;
            }
            let Some(steps) = lanes[..active].iter().map(|lane| lane.len()).min() else { return };
            for step in 0..steps {
                for (lane, block) in lanes[..active].iter().zip(&mut chained) {
                    block.0 = xor(&block.0, &lane[step]);
                }
                if active * 2 >= B::ParBlocksSize::USIZE {
                    backend.encrypt_par_blocks_inplace(&mut chained);
                } else {
                    chained[..active].iter_mut().for_each(|block| backend.encrypt_block_inplace(block));
                }
                for (lane, block) in lanes[..active].iter_mut().zip(&chained) {
                    lane[step] = block.0;
                }
            }
            active = retire(&mut lanes, &mut chained, active, steps);
        }
    }
}

/// Moves the lanes on, and those that ended out of the way; how many are left.
#[inline(always)]
fn retire(lanes: &mut [&mut [[u8; BLOCK]]], chained: &mut [Block], mut active: usize, steps: usize) -> usize {
    let mut at = 0;
    while at < active {
        lanes[at] = &mut std::mem::take(&mut lanes[at])[steps..];
        if lanes[at].is_empty() {
            active -= 1;
            lanes.swap(at, active);
            chained.swap(at, active);
        } else {
            at += 1;
        }
    }
    active
}

struct Decryption<I> {
    texts: I,
    iv: [u8; BLOCK],
}

impl<I> BlockSizeUser for Decryption<I> {
    type BlockSize = U16;
}

impl<'p, I: Iterator<Item = &'p mut [[u8; BLOCK]]>> BlockCipherDecClosure for Decryption<I> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        let mut plain = ParBlocks::<B>::default();
        for text in self.texts {
            let mut before = self.iv;
            for part in text.chunks_mut(B::ParBlocksSize::USIZE) {
                for (plain, block) in plain.iter_mut().zip(&*part) {
                    plain.0 = *block;
                }
                if part.len() * 2 >= B::ParBlocksSize::USIZE {
                    backend.decrypt_par_blocks_inplace(&mut plain);
                } else {
                    plain[..part.len()].iter_mut().for_each(|block| backend.decrypt_block_inplace(block));
                }
                for (plain, block) in plain.iter().zip(part) {
                    let chained = std::mem::replace(&mut before, *block);
                    *block = xor(&plain.0, &chained);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        let bytes: Vec<u8> = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits"))
            .collect();
        bytes.try_into().expect("as many as wanted")
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
    fn the_vectors_of_sp_800_38a_come_out_however_many_packets_there_are() {
        let cbc = Cbc::new(hex(KEY), hex(IV));
        let (plain, cipher) = (PLAIN.map(hex::<BLOCK>), CIPHER.map(hex::<BLOCK>));
        for packets in [1, 3, 8, 9, 31, 64, 65, 200] {
            let mut texts = vec![plain; packets];
            cbc.encrypt(texts.iter_mut().map(|text| text.as_mut_slice()));
            assert!(texts.iter().all(|text| *text == cipher), "{packets} packets");
            cbc.decrypt(texts.iter_mut().map(|text| text.as_mut_slice()));
            assert!(texts.iter().all(|text| *text == plain), "{packets} packets");
        }
    }

    proptest! {
        #[test]
        fn texts_of_any_lengths_are_encrypted_as_one_by_one_and_decrypted_again(
            lengths in proptest::collection::vec(0..95_usize, 0..100),
            key in any::<[u8; BLOCK]>(),
            iv in any::<[u8; BLOCK]>(),
            fill in any::<u128>(),
        ) {
            let mut word = fill;
            let texts: Vec<Vec<[u8; BLOCK]>> = lengths
                .iter()
                .map(|&length| {
                    let next = || { word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0d2b) | 1; word };
                    std::iter::repeat_with(next).take(length).map(u128::to_be_bytes).collect()
                })
                .collect();
            let cbc = Cbc::new(key, iv);
            let mut together = texts.clone();
            cbc.encrypt(together.iter_mut().map(Vec::as_mut_slice));
            for (text, encrypted) in texts.iter().zip(&together) {
                let mut chained = iv;
                for (plain, block) in text.iter().zip(encrypted) {
                    let mut expected = Block::from(xor(&chained, plain));
                    cbc.cipher.encrypt_block(&mut expected);
                    prop_assert_eq!(&expected.0, block);
                    chained = *block;
                }
            }
            cbc.decrypt(together.iter_mut().map(Vec::as_mut_slice));
            prop_assert_eq!(together, texts);
        }
    }
}

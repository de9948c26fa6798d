//! The kernel that needs no instructions of its own: CBC over the `aes` crate.
//!
//! The loop runs as a closure inside the crate's backend (which may have AES instructions too), so that
//! the round keys are set up once a burst and not once a block.

use super::kernel::plain_sum;
use super::{BLOCK, Text};
use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocks,
};
use aes::{Aes128, Block};

/// The most texts that are worked on together.
const LANES: usize = 64;

/// A key.
#[derive(Clone)]
pub(super) struct Portable(Aes128);

impl Portable {
    pub(super) fn new(key: [u8; BLOCK]) -> Self {
        Self(Aes128::new(&key.into()))
    }

    /// Encrypts each of the texts.
    pub(super) fn encrypt(&self, texts: &mut [Text<'_>]) {
        self.0.encrypt_with_backend(Encryption { texts });
    }

    /// Decrypts each of the texts.
    pub(super) fn decrypt(&self, texts: &mut [Text<'_>]) {
        self.0.decrypt_with_backend(Decryption { texts });
    }
}

#[inline(always)]
fn xor(a: &[u8; BLOCK], b: &[u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

struct Encryption<'t, 'p> {
    texts: &'t mut [Text<'p>],
}

impl BlockSizeUser for Encryption<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Encryption<'_, '_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        self.texts.iter_mut().for_each(|text| text.change = -plain_sum(text.blocks));
        let waiting = self.texts.iter_mut().map(|text| (text.iv, &mut *text.blocks));
        encrypt_interleaved(backend, waiting.filter(|(_, text)| !text.is_empty()));
        self.texts.iter_mut().for_each(|text| text.change += plain_sum(text.blocks));
    }
}

/// Encrypts texts, as many together as the backend does side by side.
#[inline(always)]
fn encrypt_interleaved<'t, B: BlockCipherEncBackend<BlockSize = U16>>(
    backend: &B,
    mut texts: impl Iterator<Item = ([u8; BLOCK], &'t mut [[u8; BLOCK]])>,
) {
    let width = B::ParBlocksSize::USIZE.min(LANES);
    let mut lanes: [&mut [[u8; BLOCK]]; LANES] = std::array::from_fn(|_| Default::default());
    let mut chained = ParBlocks::<B>::default();
    let mut active = 0;
    loop {
        for (iv, text) in texts.by_ref().take(width - active) {
            lanes[active] = text;
            chained[active] = Block::from(iv);
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

struct Decryption<'t, 'p> {
    texts: &'t mut [Text<'p>],
}

impl BlockSizeUser for Decryption<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherDecClosure for Decryption<'_, '_> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        let mut plain = ParBlocks::<B>::default();
        for text in self.texts {
            let sum = plain_sum(text.blocks);
            let mut before = text.iv;
            for part in text.blocks.chunks_mut(B::ParBlocksSize::USIZE) {
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
            text.change = plain_sum(text.blocks) - sum;
        }
    }
}

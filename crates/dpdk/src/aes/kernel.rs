//! The loops over AES instructions, and a copy of them for each set of instructions.
//!
//! **Encryption.** A packet stands in each of the lanes; a step encrypts one block of each. The block
//! that a packet's next one is chained to is its last ciphertext, so a lane is no more than a pointer:
//! nothing is kept beside the packets. Packets that end make room for those that wait; when none waits,
//! the lanes that are left move together and fewer registers are worked on. There are as many lanes as
//! a burst has packets where the registers allow, so that the longest packet never starts late.
//!
//! **Decryption** is parallel within a packet; a few registers are worked on at once.

use super::vector::Vector;
use super::{BLOCK, RoundKeys, Text};
use core::arch::x86_64::*;

/// Registers that encryption works on side by side.
const GROUPS: usize = 8;

/// Registers that decryption works on side by side.
const AT_ONCE: usize = 4;

/// Blocks of the register that has most.
const WIDEST: usize = 4;

/// Steps that are done before the lanes are looked at again. Lanes without a packet work on as many
/// blocks of their own.
const STEPS: usize = 64;

/// What the lanes work on.
struct Lanes {
    /// The block that each is at.
    at: [*mut u8; GROUPS * WIDEST],
    /// Blocks that each has left.
    left: [usize; GROUPS * WIDEST],
    active: usize,
}

/// The round keys, in every block of a register.
///
/// A loop, like those below, as closures would not be compiled for the instructions of who calls.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn everywhere<V: Vector>(keys: &RoundKeys) -> [V; 11] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut all = [V::same(&keys[0]); 11];
        for (wide, key) in all.iter_mut().zip(keys) {
            *wide = V::same(key);
        }
        all
    }
}

/// Encrypts each of the texts.
///
/// # Safety
/// The CPU has the instructions that [`Vector`] wants of `V`.
#[inline(always)]
unsafe fn encrypt<V: Vector>(keys: &RoundKeys, texts: &mut [Text<'_>]) {
    for text in &mut *texts {
        // SAFETY: the caller's promise.
        text.before = unsafe { sum::<V>(text.blocks) };
    }
    let mut idle = [[0_u8; BLOCK]; STEPS];
    let idle = idle.as_mut_ptr().cast::<u8>();
    // SAFETY: the caller's promise.
    let keys = unsafe { everywhere::<V>(keys) };
    let mut chained = [idle; GROUPS * WIDEST];
    let mut lanes = Lanes { at: [idle; GROUPS * WIDEST], left: [0; GROUPS * WIDEST], active: 0 };
    let mut waiting = texts.iter_mut().filter(|text| !text.blocks.is_empty());
    loop {
        for text in waiting.by_ref().take(V::BLOCKS * GROUPS - lanes.active) {
            lanes.at[lanes.active] = text.blocks.as_mut_ptr().cast();
            lanes.left[lanes.active] = text.blocks.len();
            chained[lanes.active] = text.iv.as_mut_ptr();
            lanes.active += 1;
        }
        if lanes.active == 0 {
            break;
        }
        let steps = lanes.left[..lanes.active].iter().copied().fold(STEPS, usize::min);
        // SAFETY: `steps` blocks are left in each active lane's text, which is borrowed for it alone;
        // the others' are `idle`'s. `chained` points at a text's vector or at its last ciphertext.
        unsafe {
            match lanes.active.div_ceil(V::BLOCKS) {
                1 => run::<V, 1>(&keys, &lanes.at, &chained, steps),
                2 => run::<V, 2>(&keys, &lanes.at, &chained, steps),
                3 => run::<V, 3>(&keys, &lanes.at, &chained, steps),
                4 => run::<V, 4>(&keys, &lanes.at, &chained, steps),
                5 | 6 => run::<V, 6>(&keys, &lanes.at, &chained, steps),
                _ => run::<V, GROUPS>(&keys, &lanes.at, &chained, steps),
            }
        }
        lanes.move_on(steps, idle);
        for (chained, at) in chained.iter_mut().zip(&lanes.at[..lanes.active]) {
            *chained = at.wrapping_sub(BLOCK);
        }
    }
    for text in texts {
        // SAFETY: the caller's promise.
        text.after = unsafe { sum::<V>(text.blocks) };
    }
}

impl Lanes {
    /// Moves the lanes on, and those that are through out of the way.
    #[inline(always)]
    fn move_on(&mut self, steps: usize, idle: *mut u8) {
        let mut lane = 0;
        while lane < self.active {
            self.at[lane] = self.at[lane].wrapping_add(steps * BLOCK);
            self.left[lane] -= steps;
            lane += 1;
        }
        let mut lane = 0;
        while lane < self.active {
            if self.left[lane] > 0 {
                lane += 1;
                continue;
            }
            self.active -= 1;
            self.at[lane] = self.at[self.active];
            self.left[lane] = self.left[self.active];
            self.at[self.active] = idle;
        }
    }
}

/// Encrypts so many blocks of each lane.
///
/// # Safety
/// As for [`Vector`]; of the first `N * V::BLOCKS` lanes, `at` is good for `steps` blocks to be read and
/// written, and `chained` for one to be read.
#[inline(always)]
unsafe fn run<V: Vector, const N: usize>(keys: &[V; 11], at: &[*mut u8], chained: &[*mut u8], steps: usize) {
    // SAFETY: the caller's promises; `behind` stays below `steps` blocks.
    unsafe {
        let mut state = [V::same(&[0; BLOCK]); N];
        for (group, state) in state.iter_mut().enumerate() {
            *state = V::gather(&chained[group * V::BLOCKS..], 0);
        }
        for step in 0..steps {
            let behind = step * BLOCK;
            for (group, state) in state.iter_mut().enumerate() {
                let plain = V::gather(&at[group * V::BLOCKS..], behind);
                *state = state.xor(plain.xor(keys[0]));
            }
            for key in &keys[1..10] {
                for state in &mut state {
                    *state = state.encrypt(*key);
                }
            }
            for (group, state) in state.iter_mut().enumerate() {
                *state = state.encrypt_last(keys[10]);
                state.scatter(&at[group * V::BLOCKS..], behind);
            }
        }
    }
}

/// Decrypts each of the texts.
///
/// # Safety
/// The CPU has the instructions that [`Vector`] wants of `V`, and those of `__m128i`.
#[inline(always)]
unsafe fn decrypt<V: Vector>(keys: &RoundKeys, texts: &mut [Text<'_>]) {
    // SAFETY: the caller's promise.
    let (wide, single) = unsafe { (everywhere::<V>(keys), everywhere::<__m128i>(keys)) };
    for text in texts {
        // SAFETY: the caller's promise.
        text.before = unsafe { sum::<V>(text.blocks) };
        let mut chained = text.iv;
        let whole = text.blocks.len() / (V::BLOCKS * AT_ONCE) * (V::BLOCKS * AT_ONCE);
        let (many, few) = text.blocks.split_at_mut(whole);
        // SAFETY: the caller's promise; each part has as many blocks as is said.
        unsafe {
            for part in many.chunks_exact_mut(V::BLOCKS * AT_ONCE) {
                decrypt_part::<V, AT_ONCE>(&wide, part, &mut chained);
            }
            let mut few = few.chunks_exact_mut(V::BLOCKS);
            for part in few.by_ref() {
                decrypt_part::<V, 1>(&wide, part, &mut chained);
            }
            for part in few.into_remainder().chunks_exact_mut(1) {
                decrypt_part::<__m128i, 1>(&single, part, &mut chained);
            }
        }
        // SAFETY: the caller's promise.
        text.after = unsafe { sum::<V>(text.blocks) };
    }
}

/// Decrypts blocks that follow each other, the first chained to `chained`, which becomes their last
/// ciphertext.
///
/// # Safety
/// As for [`Vector`]; `part` has `N * V::BLOCKS` blocks.
#[inline(always)]
unsafe fn decrypt_part<V: Vector, const N: usize>(
    keys: &[V; 11],
    part: &mut [[u8; BLOCK]],
    chained: &mut [u8; BLOCK],
) {
    debug_assert_eq!(part.len(), N * V::BLOCKS);
    let last = part[N * V::BLOCKS - 1];
    let at = part.as_mut_ptr().cast::<u8>();
    // SAFETY: the caller's promises; the groups' blocks are all of the part.
    unsafe {
        let mut earlier = V::same(chained);
        let (mut cipher, mut state) = ([earlier; N], [earlier; N]);
        for (group, (cipher, state)) in cipher.iter_mut().zip(&mut state).enumerate() {
            *cipher = V::load(at.add(group * V::BLOCKS * BLOCK));
            *state = cipher.xor(keys[0]);
        }
        for key in &keys[1..10] {
            for state in &mut state {
                *state = state.decrypt(*key);
            }
        }
        for (group, state) in state.iter().enumerate() {
            let plain = state.decrypt_last(keys[10]).xor(cipher[group].before(earlier));
            plain.store(at.add(group * V::BLOCKS * BLOCK));
            earlier = cipher[group];
        }
    }
    *chained = last;
}

/// The sum of the 32-bit words, in the CPU's byte order. Each register adds up whole 64-bit words, modulo
/// 2^64, and their higher halves; the lower halves are the difference.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn sum<V: Vector>(blocks: &[[u8; BLOCK]]) -> u64 {
    let mut parts = blocks.chunks_exact(V::BLOCKS);
    let mut sums = [[0_u64; 2 * WIDEST]; 2];
    // SAFETY: the caller's promise; a part has a register's blocks, and so have `sums` room.
    unsafe {
        let zero = V::same(&[0; BLOCK]);
        let (mut whole, mut high) = (zero, zero);
        for part in parts.by_ref() {
            let words = V::load(part.as_ptr().cast());
            whole = whole.add(words);
            high = high.add(words.high());
        }
        whole.store(sums[0].as_mut_ptr().cast());
        high.store(sums[1].as_mut_ptr().cast());
    }
    let [whole, high] = sums.map(|words| words.iter().fold(0, |sum: u64, &word| sum.wrapping_add(word)));
    whole.wrapping_sub(high << 32).wrapping_add(high) + plain_sum(parts.remainder())
}

/// The same, without vector instructions.
#[inline(always)]
pub(super) fn plain_sum(blocks: &[[u8; BLOCK]]) -> u64 {
    let words = blocks.as_flattened().as_chunks::<4>().0;
    words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
}

/// The loops for a set of instructions.
macro_rules! kernel {
    ($name:ident, $vector:ty, $features:literal) => {
        pub(super) mod $name {
            use super::{RoundKeys, Text};

            /// Encrypts each of the texts.
            ///
            /// # Safety
            #[doc = concat!("The CPU has ", $features, ".")]
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn encrypt(keys: &RoundKeys, texts: &mut [Text<'_>]) {
                // SAFETY: the caller's promise.
                unsafe { super::encrypt::<$vector>(keys, texts) };
            }

            /// Decrypts each of the texts.
            ///
            /// # Safety
            #[doc = concat!("The CPU has ", $features, ".")]
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn decrypt(keys: &RoundKeys, texts: &mut [Text<'_>]) {
                // SAFETY: the caller's promise.
                unsafe { super::decrypt::<$vector>(keys, texts) };
            }
        }
    };
}

kernel!(vaes512, core::arch::x86_64::__m512i, "aes,vaes,avx512f,avx512vl");
kernel!(vaes256, core::arch::x86_64::__m256i, "aes,vaes,avx2");
kernel!(aesni, core::arch::x86_64::__m128i, "aes,sse4.1");

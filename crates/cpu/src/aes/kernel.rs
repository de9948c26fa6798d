//! The loops over AES instructions, and a copy of them for each set of instructions.
//!
//! **Encryption.** A packet stands in each of the lanes; a step encrypts one block of each. The block
//! that a packet's next one is chained to is its last ciphertext, so a lane is no more than a pointer:
//! nothing is kept beside the packets. Packets that end make room for those that wait; when none waits,
//! the lanes that are left move together and fewer registers are worked on. The widest kernel has as
//! many lanes as a burst has packets, so that the longest packet never starts late.
//!
//! **Decryption** is parallel within a packet; a few registers are worked on at once.
//!
//! **Sums.** With AVX-512 there are registers enough to add up what comes and what goes while it is
//! encrypted, by units that AES leaves idle; elsewhere each text is read before and behind.

use super::vector::Vector;
use super::{BLOCK, RoundKeys, Text};
use core::arch::x86_64::*;

/// Registers that encryption works on side by side.
const GROUPS: usize = 8;

/// Registers that decryption works on side by side.
const AT_ONCE: usize = 4;

/// Blocks of the register that has most.
const WIDEST: usize = 4;

/// Lanes of the kernel that has most.
const LANES: usize = GROUPS * WIDEST;

/// Steps that are done before the lanes are looked at again. Lanes without a packet work on as many
/// blocks of their own.
const STEPS: usize = 64;

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
        text.change = if V::SUMS { 0 } else { unsafe { -sum::<V>(text.blocks) } };
    }
    let mut idle = [[0_u8; BLOCK]; STEPS];
    let mut lanes = Lanes::idle(idle.as_mut_ptr().cast());
    // SAFETY: the caller's promise.
    let keys = unsafe { everywhere::<V>(keys) };
    let mut waiting = texts.iter_mut().filter(|text| !text.blocks.is_empty());
    loop {
        for text in waiting.by_ref().take(V::BLOCKS * GROUPS - lanes.active) {
            lanes.take(text);
        }
        if lanes.active == 0 {
            break;
        }
        // SAFETY: the caller's promise.
        unsafe { lanes.encrypt(&keys) };
    }
    if !V::SUMS {
        for text in texts {
            // SAFETY: the caller's promise.
            text.change += unsafe { sum::<V>(text.blocks) };
        }
    }
}

/// What is worked on: the first `active` lanes have a text each, borrowed for them alone, the others
/// nothing but `idle`.
struct Lanes {
    /// The block that each is at.
    at: [*mut u8; LANES],
    /// The block that it is chained to: the text's vector or its last ciphertext.
    chained: [*mut u8; LANES],
    /// Blocks that it has left; at least one.
    left: [usize; LANES],
    /// Where its text keeps the change of its sum.
    change: [*mut i64; LANES],
    active: usize,
    /// [`STEPS`] blocks of nobody.
    idle: *mut u8,
}

impl Lanes {
    #[inline(always)]
    fn idle(idle: *mut u8) -> Self {
        let change = [std::ptr::null_mut(); LANES];
        Self { at: [idle; LANES], chained: [idle; LANES], left: [0; LANES], change, active: 0, idle }
    }

    /// Takes a text that has a block into a free lane.
    #[inline(always)]
    fn take(&mut self, text: &mut Text<'_>) {
        self.at[self.active] = text.blocks.as_mut_ptr().cast();
        self.chained[self.active] = text.iv.as_mut_ptr();
        self.left[self.active] = text.blocks.len();
        self.change[self.active] = &raw mut text.change;
        self.active += 1;
    }

    /// Encrypts as many blocks of each text as the one has that ends first.
    ///
    /// # Safety
    /// As for [`Vector`], and a lane is active.
    #[inline(always)]
    unsafe fn encrypt<V: Vector>(&mut self, keys: &[V; 11]) {
        let steps = self.left[..self.active].iter().copied().fold(STEPS, usize::min);
        let mut sums = [0_i64; 2 * LANES];
        let (at, chained, half) = (&self.at, &self.chained, GROUPS / 2 * V::BLOCKS);
        // SAFETY: the caller's promise; `steps` blocks are left in each active lane's text, and `idle`
        // has as many.
        unsafe {
            match self.active.div_ceil(V::BLOCKS) {
                1 => run::<V, 1>(keys, at, chained, steps, &mut sums),
                2 => run::<V, 2>(keys, at, chained, steps, &mut sums),
                3 => run::<V, 3>(keys, at, chained, steps, &mut sums),
                4 => run::<V, 4>(keys, at, chained, steps, &mut sums),
                5 | 6 => run::<V, 6>(keys, at, chained, steps, &mut sums),
                _ if V::SUMS => {
                    // With their sums, so many would not find room in the registers.
                    let (first, second) = sums.split_at_mut(2 * half);
                    run::<V, { GROUPS / 2 }>(keys, at, chained, steps, first);
                    run::<V, { GROUPS / 2 }>(keys, &at[half..], &chained[half..], steps, second);
                }
                _ => run::<V, GROUPS>(keys, at, chained, steps, &mut sums),
            }
        }
        if V::SUMS {
            for (change, sums) in self.change[..self.active].iter().zip(sums.as_chunks::<2>().0) {
                // SAFETY: it is in the lane's text.
                unsafe { **change += sums[0] + sums[1] };
            }
        }
        self.move_on(steps);
    }

    /// Moves the lanes on, and those that are through out of the way.
    #[inline(always)]
    fn move_on(&mut self, steps: usize) {
        let mut lane = 0;
        while lane < self.active {
            self.at[lane] = self.at[lane].wrapping_add(steps * BLOCK);
            self.chained[lane] = self.at[lane].wrapping_sub(BLOCK);
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
            self.chained[lane] = self.chained[self.active];
            self.left[lane] = self.left[self.active];
            self.change[lane] = self.change[self.active];
            self.at[self.active] = self.idle;
            self.chained[self.active] = self.idle;
        }
    }
}

/// Encrypts so many blocks of each lane.
///
/// # Safety
/// As for [`Vector`]; of the first `N * V::BLOCKS` lanes, `at` is good for `steps` blocks to be read and
/// written, and `chained` for one to be read; `sums` has room for two numbers of each.
#[inline(always)]
unsafe fn run<V: Vector, const N: usize>(
    keys: &[V; 11],
    at: &[*mut u8],
    chained: &[*mut u8],
    steps: usize,
    sums: &mut [i64],
) {
    // SAFETY: the caller's promises; `behind` stays below `steps` blocks.
    unsafe {
        let mut state = [V::same(&[0; BLOCK]); N];
        for (group, state) in state.iter_mut().enumerate() {
            *state = V::gather(&chained[group * V::BLOCKS..], 0);
        }
        let zero = V::same(&[0; BLOCK]);
        let (mut whole, mut high) = ([zero; N], [zero; N]);
        for step in 0..steps {
            let behind = step * BLOCK;
            for (group, state) in state.iter_mut().enumerate() {
                let plain = V::gather(&at[group * V::BLOCKS..], behind);
                *state = state.xor(plain.xor(keys[0]));
                if V::SUMS {
                    whole[group] = whole[group].sub(plain);
                    high[group] = high[group].sub(plain.high());
                }
            }
            for key in &keys[1..10] {
                for state in &mut state {
                    *state = state.encrypt(*key);
                }
            }
            for (group, state) in state.iter_mut().enumerate() {
                *state = state.encrypt_last(keys[10]);
                state.scatter(&at[group * V::BLOCKS..], behind);
                if V::SUMS {
                    whole[group] = whole[group].add(*state);
                    high[group] = high[group].add(state.high());
                }
            }
        }
        if V::SUMS {
            for group in 0..N {
                let sum = V::both_halves(whole[group], high[group]);
                sum.store(sums.as_mut_ptr().add(2 * V::BLOCKS * group).cast());
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
        let before = unsafe { sum::<V>(text.blocks) };
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
        text.change = unsafe { sum::<V>(text.blocks) } - before;
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
unsafe fn sum<V: Vector>(blocks: &[[u8; BLOCK]]) -> i64 {
    let mut parts = blocks.chunks_exact(V::BLOCKS);
    // SAFETY: the caller's promise; a part has a register's blocks.
    let whole = unsafe {
        let zero = V::same(&[0; BLOCK]);
        let (mut whole, mut high) = (zero, zero);
        for part in parts.by_ref() {
            let words = V::load(part.as_ptr().cast());
            whole = whole.add(words);
            high = high.add(words.high());
        }
        V::both_halves(whole, high).total()
    };
    whole + plain_sum(parts.remainder())
}

/// The same, without vector instructions.
#[inline(always)]
pub(super) fn plain_sum(blocks: &[[u8; BLOCK]]) -> i64 {
    let words = blocks.as_flattened().as_chunks::<4>().0;
    words.iter().map(|word| i64::from(u32::from_ne_bytes(*word))).sum()
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

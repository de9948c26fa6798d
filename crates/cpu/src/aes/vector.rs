//! A register of blocks: one, two or four, by the CPU's instructions.
//!
//! The loops in [`super::kernel`] are written once over [`Vector`]. Each method is inlined into a
//! function that enables what the register needs, so that it becomes the one or two instructions that
//! it names.

use super::BLOCK;
use core::arch::x86_64::*;

/// A register of [`Self::BLOCKS`] blocks.
///
/// # Safety
/// Every method needs the CPU to have the instructions of its register: AES-NI and SSE4.1 for `__m128i`,
/// VAES and AVX2 for `__m256i`, VAES and AVX-512F for `__m512i`. Pointers must be good for what the
/// method says that it reads or writes; none need be aligned.
pub(super) unsafe trait Vector: Copy {
    /// Blocks in a register.
    const BLOCKS: usize;
    /// Whether there are registers enough to take sums while blocks are encrypted.
    const SUMS: bool;

    /// The same block everywhere.
    unsafe fn same(block: &[u8; BLOCK]) -> Self;
    /// A block from each of the first [`Self::BLOCKS`] places, so many bytes behind it.
    unsafe fn gather(places: &[*mut u8], behind: usize) -> Self;
    /// A block to each of them.
    unsafe fn scatter(self, places: &[*mut u8], behind: usize);
    /// Blocks that follow each other.
    unsafe fn load(from: *const u8) -> Self;
    /// Writes blocks that follow each other.
    unsafe fn store(self, to: *mut u8);
    /// For each block the one before it; before the first stands the last of `earlier`.
    unsafe fn before(self, earlier: Self) -> Self;
    /// Adds 64-bit words, without carry between them.
    unsafe fn add(self, other: Self) -> Self;
    /// Takes 64-bit words off, without borrowing between them.
    unsafe fn sub(self, other: Self) -> Self;
    /// Of each 64-bit word the higher half.
    unsafe fn high(self) -> Self;
    /// Of each 64-bit word the lower half, in the place of the higher.
    unsafe fn raise(self) -> Self;
    /// The sum of the 64-bit words.
    unsafe fn total(self) -> i64;
    /// Of each 64-bit word the sum of its halves' sums, from the sum of whole words modulo 2^64 and that
    /// of their higher halves: the lower halves' is the difference. Signed, if so were the summands.
    #[inline(always)]
    unsafe fn both_halves(whole: Self, high: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { whole.sub(high.raise()).add(high) }
    }
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn encrypt(self, key: Self) -> Self;
    unsafe fn encrypt_last(self, key: Self) -> Self;
    unsafe fn decrypt(self, key: Self) -> Self;
    unsafe fn decrypt_last(self, key: Self) -> Self;
}

// SAFETY: each method needs the instructions that the trait names for the register, and no others.
unsafe impl Vector for __m128i {
    const BLOCKS: usize = 1;
    const SUMS: bool = false;

    #[inline(always)]
    unsafe fn same(block: &[u8; BLOCK]) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn gather(places: &[*mut u8], behind: usize) -> Self {
        // SAFETY: what the trait demands.
        unsafe { Self::load(places[0].add(behind)) }
    }

    #[inline(always)]
    unsafe fn scatter(self, places: &[*mut u8], behind: usize) {
        // SAFETY: what the trait demands.
        unsafe { self.store(places[0].add(behind)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: what the trait demands.
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn before(self, earlier: Self) -> Self {
        earlier
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_add_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_sub_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn high(self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_srli_epi64::<32>(self) }
    }

    #[inline(always)]
    unsafe fn raise(self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_slli_epi64::<32>(self) }
    }

    #[inline(always)]
    unsafe fn total(self) -> i64 {
        // SAFETY: what the trait demands.
        unsafe { _mm_cvtsi128_si64(self) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(self, self)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_xor_si128(self, other) }
    }

    #[inline(always)]
    unsafe fn encrypt(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_aesenc_si128(self, key) }
    }

    #[inline(always)]
    unsafe fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_aesenclast_si128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_aesdec_si128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm_aesdeclast_si128(self, key) }
    }
}

// SAFETY: each method needs the instructions that the trait names for the register, and no others.
unsafe impl Vector for __m256i {
    const BLOCKS: usize = 2;
    const SUMS: bool = false;

    #[inline(always)]
    unsafe fn same(block: &[u8; BLOCK]) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_broadcastsi128_si256(__m128i::same(block)) }
    }

    #[inline(always)]
    unsafe fn gather(places: &[*mut u8], behind: usize) -> Self {
        // SAFETY: what the trait demands.
        unsafe {
            let low = _mm256_castsi128_si256(__m128i::load(places[0].add(behind)));
            _mm256_inserti128_si256::<1>(low, __m128i::load(places[1].add(behind)))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, places: &[*mut u8], behind: usize) {
        // SAFETY: what the trait demands.
        unsafe {
            _mm256_castsi256_si128(self).store(places[0].add(behind));
            _mm256_extracti128_si256::<1>(self).store(places[1].add(behind));
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: what the trait demands.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn before(self, earlier: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_permute2x128_si256::<0x21>(earlier, self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_add_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_sub_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn high(self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_srli_epi64::<32>(self) }
    }

    #[inline(always)]
    unsafe fn raise(self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_slli_epi64::<32>(self) }
    }

    #[inline(always)]
    unsafe fn total(self) -> i64 {
        // SAFETY: what the trait demands.
        unsafe { _mm256_castsi256_si128(self).add(_mm256_extracti128_si256::<1>(self)).total() }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn encrypt(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_aesenc_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_aesenclast_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_aesdec_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm256_aesdeclast_epi128(self, key) }
    }
}

// SAFETY: each method needs the instructions that the trait names for the register, and no others.
unsafe impl Vector for __m512i {
    const BLOCKS: usize = 4;
    const SUMS: bool = true;

    #[inline(always)]
    unsafe fn same(block: &[u8; BLOCK]) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_broadcast_i32x4(__m128i::same(block)) }
    }

    #[inline(always)]
    unsafe fn gather(places: &[*mut u8], behind: usize) -> Self {
        // SAFETY: what the trait demands.
        unsafe {
            let low = _mm512_castsi256_si512(__m256i::gather(places, behind));
            _mm512_inserti64x4::<1>(low, __m256i::gather(&places[2..], behind))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, places: &[*mut u8], behind: usize) {
        // SAFETY: what the trait demands.
        unsafe {
            _mm512_castsi512_si256(self).scatter(places, behind);
            _mm512_extracti64x4_epi64::<1>(self).scatter(&places[2..], behind);
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: what the trait demands.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn before(self, earlier: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_alignr_epi64::<6>(self, earlier) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_add_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_sub_epi64(self, other) }
    }

    #[inline(always)]
    unsafe fn high(self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_srli_epi64::<32>(self) }
    }

    #[inline(always)]
    unsafe fn raise(self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_slli_epi64::<32>(self) }
    }

    #[inline(always)]
    unsafe fn total(self) -> i64 {
        // SAFETY: what the trait demands.
        unsafe { _mm512_castsi512_si256(self).add(_mm512_extracti64x4_epi64::<1>(self)).total() }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn encrypt(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_aesenc_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_aesenclast_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_aesdec_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: what the trait demands.
        unsafe { _mm512_aesdeclast_epi128(self, key) }
    }
}

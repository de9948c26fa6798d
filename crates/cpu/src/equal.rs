//! Comparing a word with many at once, by SSE2, which every x86-64 CPU has.

use core::arch::x86_64::{
    __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
    _mm_set1_epi32, _mm_setzero_si128,
};

/// Bit n set: word n is `wanted`. About four cycles.
#[inline(always)]
pub fn equal_words(words: &[u32; 8], wanted: u32) -> u32 {
    let (low, high) = (words.as_ptr().cast::<__m128i>(), words[4..].as_ptr().cast());
    // SAFETY: each pointer is good for the four words that are read from it, and need not be aligned;
    // every x86-64 CPU has SSE2.
    let equal = unsafe {
        let wanted = _mm_set1_epi32(wanted as i32);
        let low = _mm_cmpeq_epi32(_mm_loadu_si128(low), wanted);
        let high = _mm_cmpeq_epi32(_mm_loadu_si128(high), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()))
    };
    equal as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bit_is_set_for_each_word_that_is_equal(
            words in any::<[u32; 8]>(),
            place in 0..8_usize,
            copies in any::<u8>(),
        ) {
            let wanted = words[place];
            let words = std::array::from_fn(|at| if copies >> at & 1 == 1 { wanted } else { words[at] });
            let expected = (0..8).filter(|&at| words[at] == wanted).map(|at| 1 << at).sum::<u32>();
            prop_assert_eq!(equal_words(&words, wanted), expected);
        }
    }
}

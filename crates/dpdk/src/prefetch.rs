//! Asking the CPU to fetch memory before it is read.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Fetches the cache line of a value's first byte into all caches, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    // SAFETY: prefetching has no effect but on caches, whatever the address.
    unsafe { _mm_prefetch(std::ptr::from_ref(value).cast(), _MM_HINT_T0) };
}

//! Asking the CPU to fetch memory before it is read.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Fetches the cache line of a value's first byte into all caches, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    // SAFETY: prefetching has no effect but on caches, whatever the address.
    unsafe { _mm_prefetch(std::ptr::from_ref(value).cast(), _MM_HINT_T0) };
}

/// The same of all cache lines of a value.
#[inline(always)]
pub fn prefetch_whole<T>(value: &T) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    let first: *const i8 = std::ptr::from_ref(value).cast();
    let ends = (0..size_of::<T>()).step_by(LINE).chain(size_of::<T>().checked_sub(1));
    for at in ends {
        // SAFETY: prefetching has no effect but on caches, whatever the address.
        unsafe { _mm_prefetch(first.wrapping_add(at), _MM_HINT_T0) };
    }
}

//! Asking the kernel to back large tables with huge pages.

use std::mem::size_of_val;

/// A page, as small as they come.
const PAGE: usize = 4096;

/// Asks for transparent huge pages where this memory is touched from now on: large tables that are read
/// at random miss the TLB at each access otherwise, which costs more than the cache miss, above all in
/// a virtual machine. A wish: where the kernel does not grant it, nothing changes. Memory taken this
/// way comes 2 MiB at a time.
pub fn prefer_huge_pages<T>(memory: &[T]) {
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let end = (memory.as_ptr() as usize + size_of_val(memory)) / PAGE * PAGE;
    if start < end && !cfg!(miri) {
        // SAFETY: the range lies within memory that is ours, and the advice changes only which pages
        // back it, never what it holds.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_what_it_held() {
        let table: Vec<u64> = (0..if cfg!(miri) { 2_000 } else { 2_000_000 }).collect();
        prefer_huge_pages(&table);
        prefer_huge_pages(&table[..3]);
        prefer_huge_pages::<u64>(&[]);
        assert!(table.iter().zip(0..).all(|(&held, wanted)| held == wanted));
    }
}

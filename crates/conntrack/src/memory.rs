//! Memory for tables: reserved for their largest size when they are built, taken from the machine when
//! it is first touched or at once, in huge pages where it is much.

use weir_cpu::prefer_huge_pages;

/// Tables below this many bytes are left to ordinary pages: 2 MiB, the size of a huge one.
const MUCH: usize = 2 << 20;

/// Prepares what a table may still grow into, within its capacity. With `now`, writes to all of it.
pub(super) fn reserve<T: Copy>(table: &mut Vec<T>, blank: T, now: bool) {
    let room = table.spare_capacity_mut();
    if size_of_val(room) >= MUCH {
        prefer_huge_pages(room);
    }
    if now {
        for place in room {
            place.write(blank);
        }
    }
}

/// Prepares a table of zeros that nobody has touched yet. With `now`, writes to all of it.
pub(super) fn zeroed<T: Copy>(table: &mut [T], now: bool) {
    if size_of_val(table) >= MUCH {
        prefer_huge_pages(table);
    }
    if now && let Some(&zero) = table.first() {
        table.fill(zero);
    }
}

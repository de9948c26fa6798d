//! What stands in for the shim and DPDK under Miri, which follows no C: the start of the EAL, its log, and pools.
//!
//! It is stricter than DPDK. Each packet is two allocations of its own, its head and its buffer, which end when it is
//! freed: who reads beyond a packet's buffer, uses it after it was freed, frees it twice or loses it is found out. And
//! a fresh packet holds nothing, where DPDK's holds what the last one left: who reads bytes that nobody wrote is found
//! out too. Functions that are not here (drivers' ports but for the attempt to open one, rings between processes,
//! sockets of the kernel) end the test that calls them, with their name.

use crate::ffi::{RteMbuf, RteMempool};
use crate::pool::Pool;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::{c_char, c_int, c_uint};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What `weir_pool_create` hands out for a mempool.
struct StubPool {
    count: u32,
    room: u16,
    in_use: AtomicU32,
}

/// A packet's head, and what DPDK keeps in the part of it that Rust does not know.
#[repr(C)]
struct StubMbuf {
    head: RteMbuf,
    pool: *const StubPool,
}

/// DPDK keeps its arguments for ever.
static ARGUMENTS: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());

#[unsafe(no_mangle)]
extern "C" fn weir_eal_init(_count: c_int, arguments: *mut *mut c_char, _hz: u64) -> c_int {
    ARGUMENTS.store(arguments, Ordering::Relaxed);
    0
}

#[unsafe(no_mangle)]
extern "C" fn weir_log_keep() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn weir_log_written() -> u64 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn weir_log_read(_from: u64, _into: *mut c_char) -> usize {
    0
}

#[unsafe(no_mangle)]
extern "C" fn weir_version() -> *const c_char {
    c"no DPDK, a stub".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn weir_strerror(_error: c_int) -> *const c_char {
    c"an error of the stub".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn weir_thread_register() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn weir_thread_unregister() {}

#[unsafe(no_mangle)]
extern "C" fn weir_vdev_attach(_name: *const c_char, _arguments: *const c_char, _port: *mut u16) -> c_int {
    -libc::ENODEV
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weir_pool_create(
    _name: *const c_char,
    count: c_uint,
    _cache: c_uint,
    room: u16,
    _packed: c_int,
    error: *mut c_int,
) -> *mut RteMempool {
    // SAFETY: the caller's place for an error.
    unsafe { *error = 0 };
    Box::into_raw(Box::new(StubPool { count, room, in_use: AtomicU32::new(0) })).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weir_pool_free(pool: *mut RteMempool) {
    // SAFETY: made by `weir_pool_create`, and not used again.
    drop(unsafe { Box::from_raw(pool.cast::<StubPool>()) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weir_pool_in_use(pool: *const RteMempool) -> c_uint {
    // SAFETY: made by `weir_pool_create`, and alive.
    unsafe { (*pool.cast::<StubPool>()).in_use.load(Ordering::Acquire) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weir_alloc_bulk(
    pool: *mut RteMempool,
    mbufs: *mut *mut RteMbuf,
    count: c_uint,
) -> c_int {
    // SAFETY: made by `weir_pool_create`, and alive.
    let stub = unsafe { &*pool.cast::<StubPool>() };
    let taken = stub.in_use.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_use| {
        in_use.checked_add(count).filter(|in_use| *in_use <= stub.count)
    });
    if taken.is_err() {
        return -libc::ENOENT;
    }
    for at in 0..count as usize {
        // SAFETY: there is room for `count` pointers.
        unsafe { mbufs.add(at).write(fresh(stub)) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn weir_free_bulk(mbufs: *mut *mut RteMbuf, count: c_uint) {
    for at in 0..count as usize {
        // SAFETY: `count` packets that `fresh` made, which nobody uses again; their pool outlives them.
        unsafe {
            let mbuf = mbufs.add(at).read().cast::<StubMbuf>();
            let StubMbuf { head, pool } = mbuf.read();
            dealloc(head.buf_addr, buffer(&*pool));
            dealloc(mbuf.cast(), Layout::new::<StubMbuf>());
            (*pool).in_use.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A packet without a byte, as DPDK makes one.
fn fresh(pool: &StubPool) -> *mut RteMbuf {
    // SAFETY: neither of the two is of no size.
    let (mbuf, bytes) = unsafe { (alloc(Layout::new::<StubMbuf>()).cast::<StubMbuf>(), alloc(buffer(pool))) };
    if mbuf.is_null() || bytes.is_null() {
        handle_alloc_error(buffer(pool));
    }
    let head = RteMbuf::without_packet(bytes, pool.room, Pool::HEADROOM);
    // SAFETY: just allocated, for one.
    unsafe { mbuf.write(StubMbuf { head, pool }) };
    mbuf.cast()
}

/// A packet's buffer, headroom included.
fn buffer(pool: &StubPool) -> Layout {
    Layout::from_size_align(usize::from(pool.room), 64).expect("64 KiB at most")
}

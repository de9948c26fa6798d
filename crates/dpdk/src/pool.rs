//! Pools of mbufs.

use crate::{Burst, Eal, Mbuf, ffi};
use std::ffi::{CStr, CString, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_units::FrameSize;

/// A pool of equal mbufs. Clones share it; when the last owner, ports included, is gone, it is freed before the next one is
/// made.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

/// Pools without an owner. DPDK visits each mbuf of a pool that it frees, and zeroes all of it, which takes tens of
/// milliseconds; a process that ends makes no other pool, and need not wait for that.
static OWNERLESS: Mutex<Vec<Ownerless>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Ownerless(NonNull<ffi::RteMempool>);

// SAFETY: a pool that nobody holds, for whoever frees it.
unsafe impl Send for Ownerless {}

#[derive(Debug)]
struct Inner {
    pool: NonNull<ffi::RteMempool>,
    eal: &'static Eal,
    data_room: u16,
    /// Whether it is another process's, and not to be freed here.
    is_foreign: bool,
}

// SAFETY: DPDK's mempool is made for use from many threads at once.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A pool could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "no memory for {count} packet buffers of {room} B ({megabytes} MiB): {reason}; DPDK was started with {total} MiB: give it more, or ask for fewer buffers"
)]
pub struct PoolError {
    count: u32,
    room: u16,
    megabytes: u64,
    reason: String,
    total: u32,
}

impl Pool {
    /// Bytes before the packet, where headers can be pushed (DPDK's default).
    pub const HEADROOM: u16 = 128;
    /// Bytes that a frame has room for, where nothing else is said: what drivers expect.
    pub const ROOM: u16 = 2048;
    /// Bytes of bookkeeping DPDK keeps per mbuf, about: the mbuf itself, the object header, padding.
    const OVERHEAD: u64 = 256;
    /// Most mbufs each registered thread keeps for itself.
    const CACHE: u32 = 256;

    /// Makes a pool of at least `count` mbufs, each with room for the given frame in one segment, and for
    /// [`Self::ROOM`] bytes.
    pub fn new(eal: &'static Eal, count: u32, frame: FrameSize) -> Result<Self, PoolError> {
        Self::with_room(eal, count, frame.bytes().max(Self::ROOM))
    }

    /// The same with room for so many bytes of a frame, which may be few: drivers that copy put what is longer
    /// into several segments.
    pub fn with_room(eal: &'static Eal, count: u32, room: u16) -> Result<Self, PoolError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = CString::new(format!("weir{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
            .expect("a number holds no NUL");
        Self::named(eal, &name, (count, room))
    }

    /// The same under a name by which other processes that share its memory find it.
    pub(crate) fn named(
        eal: &'static Eal,
        name: &CStr,
        (count, room): (u32, u16),
    ) -> Result<Self, PoolError> {
        let data_room = Self::data_room(room);
        let mut error = 0;
        let _control = eal.control();
        free_ownerless();
        // SAFETY: the EAL runs; name and error outlive the call.
        let pool = unsafe {
            let (cache, packed) = (Self::CACHE.min(count / 2), c_int::from(!eal.config().pci));
            ffi::weir_pool_create(name.as_ptr(), count, cache, data_room, packed, &raw mut error)
        };
        let pool = NonNull::new(pool).ok_or_else(|| PoolError {
            count,
            room: data_room,
            megabytes: Self::megabytes(count, room),
            reason: crate::eal::describe(error),
            total: eal.config().megabytes,
        })?;
        Ok(Self(Arc::new(Inner { pool, eal, data_room, is_foreign: false })))
    }

    /// A pool that the process which owns this one's memory has made; nothing where it has none of that name.
    pub(crate) fn find(eal: &'static Eal, name: &CStr) -> Option<Self> {
        let mut data_room = 0;
        let _control = eal.control();
        // SAFETY: the EAL runs; name and room outlive the call.
        let pool = NonNull::new(unsafe { ffi::weir_pool_find(name.as_ptr(), &raw mut data_room) })?;
        Some(Self(Arc::new(Inner { pool, eal, data_room, is_foreign: true })))
    }

    /// What an mbuf has for headroom and frame, in whole cache lines.
    fn data_room(room: u16) -> u16 {
        (room.min(u16::MAX - 64 - Self::HEADROOM) + Self::HEADROOM).next_multiple_of(64)
    }

    /// Mebibytes that a pool with room for so many bytes of a frame takes, about.
    pub fn megabytes(count: u32, room: u16) -> u64 {
        (u64::from(count) * (u64::from(Self::data_room(room)) + Self::OVERHEAD)).div_ceil(1 << 20)
    }

    /// Mbufs out of the pool: in bursts, in rings, in a port's queues.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as self.
        unsafe { ffi::weir_pool_in_use(self.as_ptr()) }
    }

    /// The longest packet, in bytes, that one mbuf holds.
    pub fn room(&self) -> u16 {
        self.0.data_room - Self::HEADROOM
    }

    /// Puts `count` fresh packets of zero length behind those in the burst, all or none.
    /// Returns whether the pool had them.
    #[inline]
    pub fn fill(&self, burst: &mut Burst, count: usize) -> bool {
        burst.extend_with(count, |slots| {
            // SAFETY: `slots` has room for `count` pointers, which the call fills on success.
            let error =
                unsafe { ffi::weir_alloc_bulk(self.as_ptr(), slots.as_mut_ptr().cast(), slots.len() as u32) };
            if error == 0 { slots.len() } else { 0 }
        }) == count
    }

    /// Makes a packet of these bytes; nothing when the pool is empty or they do not fit into one mbuf.
    #[inline]
    pub fn packet(&self, bytes: &[u8]) -> Option<Mbuf> {
        let len = u16::try_from(bytes.len()).ok().filter(|len| *len <= self.room())?;
        let mut one = Burst::new();
        if !self.fill(&mut one, 1) {
            return None;
        }
        let mut mbuf = one.pop()?;
        mbuf.set_len(len).copy_from_slice(bytes);
        Some(mbuf)
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::RteMempool {
        self.0.pool.as_ptr()
    }

    /// The EAL whose memory it is.
    pub fn eal(&self) -> &'static Eal {
        self.0.eal
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        let _control = self.eal.control();
        // SAFETY: the pool is alive: nobody frees it before it is in the list.
        if unsafe { ffi::weir_pool_in_use(self.pool.as_ptr()) } == 0 {
            OWNERLESS.lock().unwrap_or_else(PoisonError::into_inner).push(Ownerless(self.pool));
        }
        // Otherwise somebody still holds packets (a burst that outlived its pool, or a driver that
        // kept some): their memory must stay, so the pool stays for the life of the process.
    }
}

/// Frees the pools without an owner. The caller holds the control plane.
fn free_ownerless() {
    for Ownerless(pool) in OWNERLESS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // SAFETY: its last owner was dropped when all its mbufs were back, and it is in the list once.
        unsafe { ffi::weir_pool_free(pool.as_ptr()) };
    }
}

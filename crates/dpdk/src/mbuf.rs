//! Packets: one ([`Mbuf`]), a view of one ([`Packet`]), and many ([`Burst`]).
//!
//! A `Burst` or `Mbuf` owns its packets: moving is the only way to hand them on, and dropping gives
//! them back to their pool. A burst is an array of pointers and a length, so receiving, sorting and
//! transmitting allocate nothing.

use crate::ffi::{self, RteMbuf};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use weir_packet::BURST;

/// `RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID`: a flow rule's mark is in the mbuf.
const MARKED: u64 = 1 << 2 | 1 << 13;

/// A view of one packet in DPDK memory: only ever behind a reference, at the address of its mbuf.
///
/// It has no size, so that safe code that swaps or replaces what two references point to moves nothing:
/// an mbuf's head knows its own buffer and pool, and must stay where it is.
#[repr(C)]
pub struct Packet {
    _opaque: [u8; 0],
    /// Neither Send nor Sync, nor to be moved: whoever owns the mbuf decides that.
    _place: PhantomData<(*mut RteMbuf, PhantomPinned)>,
}

impl Packet {
    #[inline]
    fn head(&self) -> &RteMbuf {
        // SAFETY: a reference to a packet is made from the address of a valid mbuf, borrowed as long.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut RteMbuf {
        // SAFETY: as in `head`; the borrow of self is unique, and so the only way to this mbuf.
        unsafe { &mut *std::ptr::from_mut(self).cast() }
    }

    /// Bytes of the packet, without FCS, over all its segments.
    #[inline]
    pub fn len(&self) -> usize {
        self.head().pkt_len as usize
    }

    /// Whether the packet has no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head().pkt_len == 0
    }

    /// Whether the packet fills more than one segment; [`Self::data`] shows the first only.
    #[inline]
    pub fn is_chained(&self) -> bool {
        self.head().nb_segs > 1
    }

    /// The port that received it.
    #[inline]
    pub fn port(&self) -> u16 {
        self.head().port
    }

    /// What a flow rule of the port marked it with (rte_flow's MARK), if one did.
    #[inline]
    pub fn mark(&self) -> Option<u32> {
        (self.head().ol_flags & MARKED == MARKED).then_some(self.head().mark)
    }

    /// Marks it as a flow rule does, or takes its mark away.
    #[inline]
    pub fn set_mark(&mut self, mark: Option<u32>) {
        match mark {
            Some(mark) => {
                self.head_mut().mark = mark;
                self.head_mut().ol_flags |= MARKED;
            }
            None => self.head_mut().ol_flags &= !MARKED,
        }
    }

    /// The bytes of the first segment; the whole packet unless it is chained.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: a driver or `set_len` keeps data_off + data_len within the buffer.
        unsafe {
            std::slice::from_raw_parts(
                self.head().buf_addr.add(usize::from(self.head().data_off)),
                usize::from(self.head().data_len),
            )
        }
    }

    /// The bytes of the first segment, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`; the borrow of self is unique.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.head().buf_addr.add(usize::from(self.head().data_off)),
                usize::from(self.head().data_len),
            )
        }
    }

    /// Bytes that fit into the (single) segment.
    #[inline]
    pub fn room(&self) -> usize {
        usize::from(self.head().buf_len) - usize::from(self.head().data_off)
    }

    /// Makes the packet `len` bytes long, in one segment, and returns those bytes. What they hold is
    /// whatever the buffer held: write all of them.
    ///
    /// # Panics
    /// When the packet is chained or `len` exceeds [`Self::room`].
    #[inline]
    pub fn set_len(&mut self, len: u16) -> &mut [u8] {
        assert!(
            usize::from(len) <= self.room() && self.head().nb_segs == 1,
            "packet of {len} B does not fit"
        );
        self.head_mut().data_len = len;
        self.head_mut().pkt_len = u32::from(len);
        self.data_mut()
    }

    /// Makes the packet longer at the front, into the room that is kept for headers. What the new
    /// bytes hold is undefined. Returns whether there was room; a chained packet has none.
    #[inline]
    pub fn push_front(&mut self, count: usize) -> bool {
        let fits = count <= usize::from(self.head().data_off)
            && count <= usize::from(u16::MAX - self.head().data_len)
            && self.head().nb_segs == 1;
        if fits {
            self.head_mut().data_off -= count as u16;
            self.head_mut().data_len += count as u16;
            self.head_mut().pkt_len += count as u32;
        }
        fits
    }

    /// Makes the packet shorter at the front. Returns whether its first segment had so many bytes.
    #[inline]
    pub fn pull_front(&mut self, count: usize) -> bool {
        let fits = count <= usize::from(self.head().data_len);
        if fits {
            self.head_mut().data_off += count as u16;
            self.head_mut().data_len -= count as u16;
            self.head_mut().pkt_len -= count as u32;
        }
        fits
    }

    /// Makes the packet longer at the end, by zeros. Returns whether there was room; a chained packet
    /// has none.
    #[inline]
    pub fn push_back(&mut self, count: usize) -> bool {
        let len = usize::from(self.head().data_len);
        let fits = len + count <= self.room() && self.head().nb_segs == 1;
        if fits {
            self.set_len((len + count) as u16)[len..].fill(0);
        }
        fits
    }

    /// Asks the CPU to fetch the first bytes of the packet.
    #[inline]
    pub fn prefetch(&self) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching has no effect but on caches, whatever the address.
        unsafe {
            _mm_prefetch(
                self.head().buf_addr.wrapping_add(usize::from(self.head().data_off)).cast(),
                _MM_HINT_T0,
            )
        };
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet").field("port", &self.port()).field("len", &self.len()).finish()
    }
}

/// One packet, owned. Dropping it frees it.
#[derive(Debug)]
pub struct Mbuf(NonNull<RteMbuf>);

// SAFETY: an mbuf is plain memory with one owner; pools take it back from any thread.
unsafe impl Send for Mbuf {}

impl std::ops::Deref for Mbuf {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        // SAFETY: the pointer is valid while owned, and a Packet is an mbuf seen from outside.
        unsafe { self.0.cast().as_ref() }
    }
}

impl std::ops::DerefMut for Mbuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut Packet {
        // SAFETY: as in `deref`, uniquely borrowed.
        unsafe { self.0.cast().as_mut() }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        let mut pointer = self.0.as_ptr();
        // SAFETY: owned, and never used again.
        unsafe { ffi::weir_free_bulk(&raw mut pointer, 1) };
    }
}

/// Up to [`BURST`] packets, owned, in order. Dropping it frees them.
pub struct Burst {
    mbufs: [MaybeUninit<*mut RteMbuf>; BURST],
    len: usize,
}

// SAFETY: as for Mbuf.
unsafe impl Send for Burst {}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Burst {
    /// An empty burst.
    pub const fn new() -> Self {
        Self { mbufs: [const { MaybeUninit::uninit() }; BURST], len: 0 }
    }

    /// Packets in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        BURST - self.len
    }

    /// The packets, in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Packet> {
        // SAFETY: each of the first `len` pointers is a valid mbuf owned by self.
        self.pointers().iter().map(|pointer| unsafe { &*pointer.cast::<Packet>() })
    }

    /// The packets, in order, to be changed in place.
    #[inline]
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Packet> {
        // SAFETY: as in `iter`; the pointers are distinct and self is uniquely borrowed.
        self.pointers_mut().iter().map(|&pointer| unsafe { &mut *pointer.cast::<Packet>() })
    }

    /// One packet by its place.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Packet> {
        // SAFETY: as in `iter_mut`.
        self.pointers_mut().get(index).map(|&pointer| unsafe { &mut *pointer.cast::<Packet>() })
    }

    /// Asks the CPU to fetch the first bytes of all packets.
    #[inline]
    pub fn prefetch(&self) {
        for packet in self.iter() {
            packet.prefetch();
        }
    }

    /// Adds a packet at the end; gives it back when the burst is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        if self.len == BURST {
            return Err(mbuf);
        }
        self.mbufs[self.len].write(mbuf.0.as_ptr());
        self.len += 1;
        std::mem::forget(mbuf);
        Ok(())
    }

    /// Takes the last packet out.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the pointer at the old last place is valid and now owned by nobody else.
        NonNull::new(unsafe { self.mbufs[self.len].assume_init() }).map(Mbuf)
    }

    /// Frees all packets.
    #[inline]
    pub fn clear(&mut self) {
        let len = std::mem::take(&mut self.len);
        if len > 0 {
            // SAFETY: the first `len` pointers are valid mbufs, owned by self until this call.
            unsafe { ffi::weir_free_bulk(self.mbufs.as_mut_ptr().cast(), len as u32) };
        }
    }

    /// Frees the first `count` packets and moves the rest to the front.
    #[inline]
    pub fn drop_front(&mut self, count: usize) {
        let count = count.min(self.len);
        if count > 0 {
            // SAFETY: the first `count` pointers are valid mbufs, owned by self until this call.
            unsafe { ffi::weir_free_bulk(self.mbufs.as_mut_ptr().cast(), count as u32) };
            self.forget_front(count);
        }
    }

    /// Frees the packets that are longer than so many bytes; the rest move together, in order. Returns how
    /// many were freed, and their bytes.
    #[inline(never)]
    pub fn drop_longer(&mut self, most: usize) -> (usize, u64) {
        let (mut kept, mut freed, mut bytes) = (Self::new(), 0, 0);
        self.drain(|_, mbuf| {
            if mbuf.len() > most {
                freed += 1;
                bytes += mbuf.len() as u64;
            } else {
                // As many as were in it have room.
                drop(kept.push(mbuf));
            }
        });
        *self = kept;
        (freed, bytes)
    }

    /// Sorts the packets, in order, into the bursts that `choose` names by place in `out`; what it
    /// names `None` is freed. Returns how many were freed, also those whose burst was full.
    #[inline]
    pub fn distribute(
        &mut self,
        out: &mut [Self],
        mut choose: impl FnMut(usize, &mut Packet) -> Option<usize>,
    ) -> usize {
        let len = std::mem::take(&mut self.len);
        let mut freed = 0;
        for index in 0..len {
            // SAFETY: the first `len` pointers are valid, and since self.len is zero owned by this loop.
            let pointer = unsafe { self.mbufs[index].assume_init() };
            // SAFETY: valid and unique, as above.
            let place = choose(index, unsafe { &mut *pointer.cast::<Packet>() });
            match place.and_then(|place| out.get_mut(place)).filter(|burst| burst.len < BURST) {
                Some(burst) => {
                    burst.mbufs[burst.len].write(pointer);
                    burst.len += 1;
                }
                None => {
                    freed += 1;
                    drop(NonNull::new(pointer).map(Mbuf));
                }
            }
        }
        freed
    }

    /// Hands all packets out, in order, each with its place; the burst is empty then.
    #[inline]
    pub fn drain(&mut self, mut take: impl FnMut(usize, Mbuf)) {
        let len = std::mem::take(&mut self.len);
        for index in 0..len {
            // SAFETY: the first `len` pointers are valid, and since self.len is zero owned by this loop.
            if let Some(pointer) = NonNull::new(unsafe { self.mbufs[index].assume_init() }) {
                take(index, Mbuf(pointer));
            }
        }
    }

    /// Lets `take` fill up to `count` places behind the packets; it returns how many it filled.
    #[inline]
    pub(crate) fn extend_with(
        &mut self,
        count: usize,
        take: impl FnOnce(&mut [MaybeUninit<*mut RteMbuf>]) -> usize,
    ) -> usize {
        let count = count.min(self.room());
        let filled = take(&mut self.mbufs[self.len..self.len + count]);
        debug_assert!(filled <= count);
        self.len += filled;
        filled
    }

    /// Hands the packets to `take`, which becomes the owner of as many from the front as it returns.
    #[inline]
    pub(crate) fn hand_over(&mut self, take: impl FnOnce(&mut [*mut RteMbuf]) -> usize) -> usize {
        let taken = take(self.pointers_mut());
        debug_assert!(taken <= self.len);
        self.forget_front(taken);
        taken
    }

    /// Shows the packets to `use_them`, which does not keep them.
    #[inline]
    pub(crate) fn lend<T>(&mut self, use_them: impl FnOnce(&mut [*mut RteMbuf]) -> T) -> T {
        use_them(self.pointers_mut())
    }

    #[inline]
    fn forget_front(&mut self, count: usize) {
        if count < self.len {
            self.mbufs.copy_within(count..self.len, 0);
        }
        self.len -= count;
    }

    #[inline]
    fn pointers(&self) -> &[*mut RteMbuf] {
        // SAFETY: the first `len` places are initialised.
        unsafe { std::slice::from_raw_parts(self.mbufs.as_ptr().cast(), self.len) }
    }

    #[inline]
    fn pointers_mut(&mut self) -> &mut [*mut RteMbuf] {
        // SAFETY: as in `pointers`; self is uniquely borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.mbufs.as_mut_ptr().cast(), self.len) }
    }
}

impl Drop for Burst {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

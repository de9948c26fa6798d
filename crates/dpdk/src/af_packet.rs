//! Raw sockets of the kernel (AF_PACKET) over one interface: a ring to receive from, a socket to send by.
//!
//! - [`FrameRing`] hands out each frame as the kernel has it ([`RawFrame`]): with the VLAN tag beside it and
//!   what its sender left to hardware ([`Offload`]). A frame that is longer than a slot of the ring is
//!   fetched as a whole by a system call.
//! - [`FrameSender`] sends a burst by one system call, and says which packet the interface does not take.
//!
//! Threads: each belongs to one at a time. Cost: receiving is a copy by the kernel and none by us, without a
//! system call; sending copies each packet into the kernel.

use crate::{Burst, ffi};
use std::ffi::CString;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the kernel writes before a frame (`struct tpacket2_hdr`).
#[repr(C)]
struct Slot {
    status: AtomicU32,
    /// Bytes that the frame has.
    len: u32,
    /// Bytes of it that are in the slot.
    held: u32,
    /// Where they begin.
    mac: u16,
    _net: u16,
    _time: [u32; 2],
    vlan_tci: u16,
    vlan_tpid: u16,
    _padding: [u8; 4],
}

/// `TP_STATUS_USER`: the slot is ours; otherwise it is the kernel's.
const OURS: u32 = 1;
/// `TP_STATUS_COPY`: the whole frame waits in the socket.
const WAITS: u32 = 1 << 1;
/// `TP_STATUS_VLAN_VALID`.
const TAGGED: u32 = 1 << 4;
/// `TP_STATUS_VLAN_TPID_VALID`.
const TPID: u32 = 1 << 6;
/// EtherType of an 802.1Q tag, where the kernel says no other.
const VLAN: u16 = 0x8100;

/// Bytes of `struct virtio_net_hdr`, which stand before each frame.
const OFFLOAD: usize = 10;
/// Bytes of a slot before the frame at most: the header, an address, and rounding to 16 (the kernel's
/// `TPACKET2_HDRLEN`), the offload header, and an Ethernet header's place.
const BEFORE: u32 = 52 + 16 + OFFLOAD as u32 + 18;
/// Bytes that may wait in a socket: hundreds of the longest frames.
const WAITING: i32 = 32 << 20;
/// The least block: a multiple of any page.
const BLOCK: u32 = 64 << 10;

/// In place of the number of a group of rings: there is one ring only, or the group's first is to be opened.
const ALONE: i32 = -1;
const FIRST: i32 = -2;

/// How to open a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketConfig {
    /// The longest frame that a slot holds, without FCS, in bytes.
    pub frame: u16,
    /// Slots.
    pub slots: u16,
}

/// A raw socket could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[error("interface `{interface}`: {reason}")]
pub struct SocketError {
    /// As asked for.
    pub interface: String,
    /// The system's reason and how to mend it.
    pub reason: String,
}

/// What a frame's sender left to hardware (`struct virtio_net_hdr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where a checksum begins, and where it stands from there, in bytes; nothing where it is complete.
    pub checksum: Option<(u16, u16)>,
    /// How the frame is to be cut into packets (`VIRTIO_NET_HDR_GSO_*`); 0 where it is one.
    pub cut: u8,
    /// Bytes of payload in each of those.
    pub payload: u16,
}

impl Offload {
    fn read(bytes: &[u8]) -> Self {
        let at = |place: usize| u16::from_ne_bytes([bytes[place], bytes[place + 1]]);
        let is_partial = bytes[0] & 1 != 0; // VIRTIO_NET_HDR_F_NEEDS_CSUM
        Self { checksum: is_partial.then(|| (at(6), at(8))), cut: bytes[1], payload: at(4) }
    }
}

/// A frame in a ring. Its slot goes back to the kernel when it is dropped.
#[derive(Debug)]
pub struct RawFrame<'a> {
    slot: &'a Slot,
    bytes: &'a [u8],
    socket: &'a OwnedFd,
    offload: Offload,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("len", &self.len).field("held", &self.held).finish_non_exhaustive()
    }
}

impl<'a> RawFrame<'a> {
    /// Bytes of the frame, without FCS and without [`Self::vlan`]'s tag.
    pub fn len(&self) -> usize {
        self.slot.len as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.slot.len == 0
    }

    /// Its bytes; those that the slot holds, where it is longer.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What is left to do.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// The outermost VLAN tag (EtherType, TCI), where the kernel took it out of the frame.
    pub fn vlan(&self) -> Option<(u16, u16)> {
        let status = self.slot.status.load(Ordering::Relaxed);
        let kind = if status & TPID != 0 { self.slot.vlan_tpid } else { VLAN };
        (status & TAGGED != 0).then_some((kind, self.slot.vlan_tci))
    }

    /// Fetches a frame that is longer than its slot as a whole. Returns its bytes; nothing where the kernel
    /// had no room for it, or the buffer has none.
    pub fn fetch<'b>(&mut self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        if self.slot.status.load(Ordering::Relaxed) & WAITS == 0 {
            return None;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the kernel writes at most the buffer's length.
        let got =
            unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        let got = usize::try_from(got).ok().filter(|got| (OFFLOAD..=buffer.len()).contains(got))?;
        let (offload, frame) = buffer[..got].split_at(OFFLOAD);
        self.offload = Offload::read(offload);
        Some(frame)
    }
}

impl Drop for RawFrame<'_> {
    fn drop(&mut self) {
        // What was read of the slot is read before the kernel writes it again.
        self.slot.status.store(0, Ordering::Release);
    }
}

/// Frames that an interface receives.
#[derive(Debug)]
pub struct FrameRing {
    socket: OwnedFd,
    interface: u32,
    memory: NonNull<u8>,
    slot: usize,
    slots: usize,
    next: usize,
}

// SAFETY: the memory is shared with the kernel alone, and belongs to whoever has the ring.
unsafe impl Send for FrameRing {}

/// A way out by an interface.
#[derive(Debug)]
pub struct FrameSender {
    socket: OwnedFd,
}

/// A system's interface by its name.
fn find(interface: &str) -> Result<u32, SocketError> {
    let missing = |reason: &str| SocketError { interface: interface.to_owned(), reason: reason.to_owned() };
    let name = CString::new(interface).map_err(|_| missing("a name has no NUL"))?;
    // SAFETY: the name is a NUL-terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(missing("there is no such interface here; `ip link` lists those that there are")),
        index => Ok(index),
    }
}

fn opened(interface: &str, fd: i32) -> Result<OwnedFd, SocketError> {
    if fd >= 0 {
        // SAFETY: the shim returned a socket that nobody else owns.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    let error = std::io::Error::from_raw_os_error(-fd);
    let advice = match -fd {
        libc::EPERM | libc::EACCES => "; raw sockets need root (CAP_NET_RAW)",
        libc::ENOMEM => "; ask for fewer descriptors",
        libc::ENETDOWN => "; `ip link set` it up first",
        _ => "",
    };
    Err(SocketError { interface: interface.to_owned(), reason: format!("{error}{advice}") })
}

impl FrameRing {
    /// Opens the rings of an interface, one a queue; several share its frames by flow.
    ///
    /// # Errors
    /// There is no such interface, or the system refuses.
    pub fn open(interface: &str, queues: u16, config: SocketConfig) -> Result<Vec<Self>, SocketError> {
        let index = find(interface)?;
        let mut group = if queues > 1 { FIRST } else { ALONE };
        (0..queues).map(|_| Self::open_one(interface, index, config, &mut group)).collect()
    }

    fn open_one(
        interface: &str,
        index: u32,
        config: SocketConfig,
        group: &mut i32,
    ) -> Result<Self, SocketError> {
        let slot = (u32::from(config.frame) + BEFORE).next_power_of_two();
        let block = slot.max(BLOCK);
        let slots = u32::from(config.slots.max(1)).next_multiple_of(block / slot);
        let mut memory = std::ptr::null_mut();
        // SAFETY: both pointers outlive the call.
        let fd =
            unsafe { ffi::weir_packet_open_ring(index, slot, slots, block, WAITING, group, &raw mut memory) };
        let socket = opened(interface, fd)?;
        // The shim maps memory where it opens a socket.
        let memory = NonNull::new(memory).ok_or_else(|| SocketError {
            interface: interface.to_owned(),
            reason: "the system mapped no memory".to_owned(),
        })?;
        Ok(Self { socket, interface: index, memory, slot: slot as usize, slots: slots as usize, next: 0 })
    }

    /// The next frame that has come in, if one has.
    #[inline]
    pub fn next_frame(&mut self) -> Option<RawFrame<'_>> {
        // SAFETY: `next` is one of the slots that were mapped, slots are aligned for their head, and live
        // as long as self. The kernel writes a slot's status at any time, for which it is atomic, and the
        // rest while the slot is not ours.
        let slot = unsafe { self.memory.add(self.next * self.slot).cast::<Slot>().as_ref() };
        if slot.status.load(Ordering::Acquire) & OURS == 0 {
            return None;
        }
        let (mac, held) = (usize::from(slot.mac), slot.held as usize);
        let (mac, held) = if mac >= OFFLOAD && mac + held <= self.slot { (mac, held) } else { (OFFLOAD, 0) };
        // SAFETY: within the slot, as was just checked; it is ours until the frame is dropped.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                self.memory.as_ptr().add(self.next * self.slot + mac - OFFLOAD),
                held + OFFLOAD,
            )
        };
        let (offload, bytes) = bytes.split_at(OFFLOAD);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
        Some(RawFrame { slot, bytes, socket: &self.socket, offload: Offload::read(offload) })
    }

    /// A handle to ask the kernel by, from any thread.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn watch(&self) -> std::io::Result<InterfaceWatch> {
        Ok(InterfaceWatch { socket: self.socket.try_clone()?, interface: self.interface })
    }
}

impl Drop for FrameRing {
    fn drop(&mut self) {
        // SAFETY: mapped by the shim with this length, and nobody has a frame any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slot * self.slots) };
    }
}

/// What the kernel knows of a ring and its interface.
#[derive(Debug)]
pub struct InterfaceWatch {
    socket: OwnedFd,
    interface: u32,
}

impl InterfaceWatch {
    /// Frames that found the ring full since this was asked last.
    pub fn lost(&self) -> u64 {
        // SAFETY: the socket is open.
        unsafe { ffi::weir_packet_lost(self.socket.as_raw_fd()) }
    }

    /// Whether the interface is up and has a carrier, and its MAC address.
    pub fn link(&self) -> (bool, [u8; 6]) {
        let mut mac = [0; 6];
        // SAFETY: `mac` has six places; the socket is open.
        let up =
            unsafe { ffi::weir_packet_link(self.socket.as_raw_fd(), self.interface, mac.as_mut_ptr()) } == 1;
        (up, mac)
    }
}

impl FrameSender {
    /// Opens a way out. `bypass` leaves out the interface's queueing discipline.
    ///
    /// # Errors
    /// There is no such interface, or the system refuses.
    pub fn open(interface: &str, bypass: bool) -> Result<Self, SocketError> {
        let index = find(interface)?;
        // SAFETY: no pointers.
        let fd = unsafe { ffi::weir_packet_open_sender(index, WAITING, bypass.into()) };
        Ok(Self { socket: opened(interface, fd)? })
    }

    /// Sends from the front of a burst of packets of one segment each; what was sent is freed, the rest
    /// stay. Returns how many were sent, and whether the interface will never take the next one (it is
    /// longer than the MTU allows, or shorter than a header).
    pub fn send(&mut self, burst: &mut Burst) -> (usize, bool) {
        let mut error = 0;
        let sent = burst.lend(|mbufs| {
            // SAFETY: the mbufs are valid for the call, which copies them, and of one segment.
            let sent = unsafe {
                let (mbufs, count) = (mbufs.as_mut_ptr(), mbufs.len() as u32);
                ffi::weir_packet_send(self.socket.as_raw_fd(), mbufs, count, &raw mut error)
            };
            sent as usize
        });
        burst.drop_front(sent);
        (sent, matches!(error, libc::EMSGSIZE | libc::EINVAL))
    }
}

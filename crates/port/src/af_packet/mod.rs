//! A port over an interface of the system, by raw sockets (AF_PACKET).
//!
//! Every frame comes in as the wire would carry it: the VLAN tag that the kernel took out is back, a checksum
//! that its sender left to hardware is complete, and what its sender left to be cut (TSO, GSO; what GRO
//! joined) is cut ([`segment`]). IPv4 fragments come in as fragments. What is longer than the ports were set
//! up for is dropped and counted, never shortened; so is a packet that the interface's MTU does not allow.
//!
//! Cost: a copy a packet each way; no system call to receive (but for a frame that has to be cut), one to
//! send a burst. Threads: an end belongs to one worker; [`Watch`] may be asked from any thread.

mod segment;

use crate::{PortError, TooLong};
use segment::Segments;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_dpdk::{
    BURST, Burst, FrameRing, FrameSender, InterfaceWatch, Mbuf, Offload, Pool, PortConfig, PortStats,
    RawFrame, SocketConfig,
};
use weir_wire::checksum;

/// Bytes of the longest frame that the kernel hands over to be cut, and some.
const LONGEST: usize = 66 << 10;

/// Where a VLAN tag stands in a frame, and its bytes.
const TAG_AT: usize = 12;
const TAG: usize = 4;

/// Which interface, and how its sockets are set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketSpec {
    /// The interface's name.
    pub(crate) interface: String,
    /// Slots of a ring, where they are not the port's descriptors.
    pub(crate) slots: Option<u16>,
    /// Whether what is sent passes by the interface's queueing discipline.
    pub(crate) bypass: bool,
}

/// What both ends of a queue counted. One thread writes each, any may read.
#[derive(Debug, Default)]
struct Count {
    received: AtomicU64,
    received_bytes: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    /// Packets that came in, and for which no buffer was free.
    no_buffer: AtomicU64,
}

fn add(count: &AtomicU64, more: u64) {
    // One writer: no read-modify-write on the bus is needed.
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// A port's sockets, seen from outside.
#[derive(Debug)]
pub(crate) struct Watch {
    queues: Vec<(InterfaceWatch, Arc<Count>)>,
    /// Frames that found a ring full: the kernel tells of each once.
    lost: Mutex<u64>,
}

/// The receiving end.
#[derive(Debug)]
pub struct SocketRx {
    ring: FrameRing,
    pool: Pool,
    /// Empty packets to be filled.
    spare: Burst,
    /// Of a frame that was cut, what has not been received yet.
    segments: VecDeque<Mbuf>,
    /// A frame that is longer than a slot: as the kernel has it, and whole.
    fetched: Box<[u8]>,
    whole: Vec<u8>,
    too_long: TooLong,
    count: Arc<Count>,
}

/// The sending end.
#[derive(Debug)]
pub struct SocketTx {
    sender: FrameSender,
    too_long: TooLong,
    count: Arc<Count>,
}

/// Opens the sockets of an interface, one pair a queue.
pub(crate) fn open(
    spec: &SocketSpec,
    config: PortConfig,
    pool: &Pool,
) -> Result<(Watch, Vec<(SocketRx, SocketTx)>), PortError> {
    let slots = spec.slots.unwrap_or(config.descriptors);
    let frame = config.max_frame.bytes().saturating_sub(4); // the FCS is not handed over
    let rings = FrameRing::open(&spec.interface, config.queues, SocketConfig { frame, slots })?;
    let (mut watched, mut queues) = (Vec::new(), Vec::new());
    for ring in rings {
        let count = Arc::<Count>::default();
        let watch = ring
            .watch()
            .map_err(|error| PortError::Spec { port: spec.interface.clone(), reason: error.to_string() })?;
        watched.push((watch, count.clone()));
        let rx = SocketRx {
            ring,
            pool: pool.clone(),
            spare: Burst::new(),
            segments: VecDeque::new(),
            fetched: vec![0; LONGEST].into_boxed_slice(),
            whole: Vec::with_capacity(LONGEST),
            too_long: TooLong::default(),
            count: count.clone(),
        };
        let sender = FrameSender::open(&spec.interface, spec.bypass)?;
        queues.push((rx, SocketTx { sender, too_long: TooLong::default(), count }));
    }
    Ok((Watch { queues: watched, lost: Mutex::new(0) }, queues))
}

impl Watch {
    /// Whether the interface is up and has a carrier, and its MAC address.
    pub(crate) fn link(&self) -> (bool, [u8; 6]) {
        self.queues.first().map_or((false, [0; 6]), |(watch, _)| watch.link())
    }

    /// What the port counted.
    pub(crate) fn stats(&self) -> PortStats {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        *lost += self.queues.iter().map(|(watch, _)| watch.lost()).sum::<u64>();
        let sum = |which: fn(&Count) -> &AtomicU64| {
            self.queues.iter().map(|(_, count)| which(count).load(Ordering::Relaxed)).sum::<u64>()
        };
        PortStats {
            received: sum(|count| &count.received),
            received_bytes: sum(|count| &count.received_bytes),
            sent: sum(|count| &count.sent),
            sent_bytes: sum(|count| &count.sent_bytes),
            missed: *lost + sum(|count| &count.no_buffer),
            ..PortStats::default()
        }
    }
}

impl SocketRx {
    /// Receives packets behind those in the burst, as many as there are and fit.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        let before = burst.len();
        let mut bytes = 0;
        while burst.room() > 0 {
            if let Some(segment) = self.segments.pop_front() {
                bytes += segment.len() as u64;
                drop(burst.push(segment)); // there is room
                continue;
            }
            if self.spare.is_empty() && !self.pool.fill(&mut self.spare, BURST) {
                break; // frames wait in the ring, and are lost by count when it is full
            }
            let Some(frame) = self.ring.next_frame() else { break };
            let tag = frame.vlan();
            let len = frame.len() + if tag.is_some() { TAG } else { 0 };
            let is_whole = frame.bytes().len() == frame.len();
            if is_whole && frame.offload().cut == 0 && len <= usize::from(self.pool.room()) {
                let Some(mut mbuf) = self.spare.pop() else { break };
                lay(mbuf.set_len(len as u16), frame.bytes(), tag); // at most a pool's room
                complete(mbuf.data_mut(), shifted(frame.offload(), tag).checksum);
                bytes += len as u64;
                drop(burst.push(mbuf)); // there is room
                continue;
            }
            let (buffers, count) = ((&mut *self.fetched, &mut self.whole), &*self.count);
            if !cut(frame, buffers, &self.pool, &mut self.segments, count) {
                self.too_long.add(len as u64);
            }
        }
        let received = burst.len() - before;
        if received > 0 {
            add(&self.count.received, received as u64);
            add(&self.count.received_bytes, bytes);
        }
        received
    }

    /// Frames that were too long, since this was asked last.
    pub fn take_too_long(&mut self) -> TooLong {
        std::mem::take(&mut self.too_long)
    }
}

/// Fetches a frame where its slot does not hold it all, and cuts it into packets. False where it is no frame
/// to be cut, or cannot be.
#[cold]
fn cut(
    mut frame: RawFrame<'_>,
    (fetched, whole): (&mut [u8], &mut Vec<u8>),
    pool: &Pool,
    segments: &mut VecDeque<Mbuf>,
    count: &Count,
) -> bool {
    let held = frame.bytes();
    let bytes = if held.len() == frame.len() { Some(held) } else { frame.fetch(fetched) };
    let (Some(bytes), tag) = (bytes, frame.vlan()) else { return false };
    whole.resize(bytes.len() + if tag.is_some() { TAG } else { 0 }, 0);
    lay(whole, bytes, tag);
    let offload = shifted(frame.offload(), tag);
    let Some(cut) = Segments::of(whole, offload).filter(|cut| cut.longest() <= usize::from(pool.room()))
    else {
        return false;
    };
    for number in 0..cut.count() {
        let mut one = Burst::new();
        match pool.fill(&mut one, 1).then(|| one.pop()).flatten() {
            Some(mut mbuf) => {
                cut.write(number, mbuf.set_len(cut.len(number) as u16)); // at most a pool's room
                segments.push_back(mbuf);
            }
            None => add(&count.no_buffer, 1),
        }
    }
    true
}

/// Lays a frame out, with its VLAN tag where it belongs.
#[inline]
fn lay(into: &mut [u8], frame: &[u8], tag: Option<(u16, u16)>) {
    match tag {
        Some((kind, tci)) if frame.len() >= TAG_AT => {
            into[..TAG_AT].copy_from_slice(&frame[..TAG_AT]);
            into[TAG_AT..TAG_AT + 2].copy_from_slice(&kind.to_be_bytes());
            into[TAG_AT + 2..TAG_AT + TAG].copy_from_slice(&tci.to_be_bytes());
            into[TAG_AT + TAG..].copy_from_slice(&frame[TAG_AT..]);
        }
        _ => into[..frame.len()].copy_from_slice(frame),
    }
}

/// What is left to do in a frame that got its tag back.
fn shifted(offload: Offload, tag: Option<(u16, u16)>) -> Offload {
    let by = if tag.is_some() { TAG as u16 } else { 0 };
    Offload { checksum: offload.checksum.map(|(start, at)| (start.saturating_add(by), at)), ..offload }
}

/// Completes a checksum that covers all from `start` on; its field, so far behind that, holds the sum of the
/// pseudo-header.
#[inline]
fn complete(frame: &mut [u8], left: Option<(u16, u16)>) {
    let Some((start, offset)) = left else { return };
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
    if start <= frame.len() && field + 2 <= frame.len() {
        let value = checksum::udp_nonzero(checksum::checksum(&frame[start..]));
        frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }
}

impl SocketTx {
    /// Transmits from the front of the burst. Returns how many were sent; what the kernel has no room for
    /// stays, and what the interface never takes is gone, and counted ([`Self::take_too_long`]).
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        let chained = burst.iter().position(|packet| packet.is_chained());
        if let Some(chained) = chained {
            return self.transmit_around(burst, chained);
        }
        let (mut sent, mut bytes) = (0, 0);
        while !burst.is_empty() {
            let lengths: u64 = burst.iter().map(|packet| packet.len() as u64).sum();
            let (count, is_refused) = self.sender.send(burst);
            sent += count;
            bytes += lengths - burst.iter().map(|packet| packet.len() as u64).sum::<u64>();
            if is_refused {
                self.refuse(burst);
            } else if count == 0 {
                break;
            }
        }
        add(&self.count.sent, sent as u64);
        add(&self.count.sent_bytes, bytes);
        sent
    }

    /// A packet in several buffers is longer than the ports were set up for: it goes nowhere.
    #[cold]
    fn transmit_around(&mut self, burst: &mut Burst, chained: usize) -> usize {
        let mut parts = [Burst::new(), Burst::new()];
        burst.distribute(&mut parts, |place, _| Some(usize::from(place >= chained)));
        let [first, rest] = &mut parts;
        let mut sent = self.transmit(first);
        self.refuse(rest);
        if first.is_empty() {
            sent += self.transmit(rest);
        }
        for left in [first, rest] {
            left.drain(|_, mbuf| drop(burst.push(mbuf))); // they came out of this burst
        }
        sent
    }

    fn refuse(&mut self, burst: &mut Burst) {
        if let Some(packet) = burst.get_mut(0) {
            self.too_long.add(packet.len() as u64);
        }
        burst.drop_front(1);
    }

    /// Packets that the interface does not take, since this was asked last.
    pub fn take_too_long(&mut self) -> TooLong {
        std::mem::take(&mut self.too_long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_behind_a_tag_that_came_back_is_complete() {
        // A UDP datagram whose checksum field holds the sum of its pseudo-header.
        let (header, body) = ([0x45_u8; 34], [1, 2, 3, 4, 0, 12, 0x12, 0x34, 9, 8, 7, 6]);
        let frame = [&header[..], &body].concat();
        let tag = Some((0x88a8, 7));
        let mut whole = vec![0; frame.len() + TAG];
        lay(&mut whole, &frame, tag);
        assert_eq!((&whole[..12], &whole[12..16]), (&frame[..12], &[0x88, 0xa8, 0, 7][..]));
        assert_eq!(whole[16..], frame[12..]);
        let offload = Offload { checksum: Some((34, 6)), ..Offload::default() };
        complete(&mut whole, shifted(offload, tag).checksum);
        let wanted = checksum::checksum(&body);
        assert_eq!(whole[44..46], wanted.to_be_bytes());
        // What lies outside the frame is left alone.
        for wrong in [Some((45, 6)), Some((44, 6)), Some((u16::MAX, u16::MAX))] {
            let before = frame.clone();
            let mut after = frame.clone();
            complete(&mut after, wrong);
            assert_eq!(after, before, "{wrong:?}");
        }
    }
}

//! The two ends of a port that a worker holds.

use crate::apart::{ApartRx, ApartTx};
use crate::{FaultTx, SocketRx, SocketTx, TraceRx, TraceTx};
use std::fmt;
use weir_dpdk::{Burst, RingReceiver, RingSender, RxQueue, TxQueue};

/// Packets that ended in a port, because they are longer than it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TooLong {
    /// How many.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

impl TooLong {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// Where packets come from. Whoever owns it is the only one that polls it.
#[derive(Debug)]
pub enum Rx {
    /// A queue of a DPDK port.
    Dpdk(RxQueue),
    /// A raw socket of an interface.
    Socket(Box<SocketRx>),
    /// A driver in another process.
    Apart(Box<ApartRx>),
    /// A ring of memory that several processes have in common.
    Ring(RingReceiver),
    /// Nothing ever comes.
    Null,
    /// A capture is replayed.
    Trace(Box<TraceRx>),
    /// Another, with something in front of it.
    Decorated(Box<dyn Receive>),
}

/// What stands in front of the receiving end of a port and is polled in its place: it has the other end, and does
/// something to what comes in by that.
pub trait Receive: fmt::Debug + Send {
    /// See [`Rx::receive`].
    fn receive(&mut self, burst: &mut Burst) -> usize;

    /// See [`Rx::take_too_long`].
    fn take_too_long(&mut self) -> TooLong;

    /// See [`Rx::take_emulated`].
    fn take_emulated(&mut self) -> u64 {
        0
    }
}

/// Where packets go.
#[derive(Debug)]
pub enum Tx {
    /// A queue of a DPDK port.
    Dpdk(TxQueue),
    /// A raw socket of an interface.
    Socket(SocketTx),
    /// A driver in another process.
    Apart(Box<ApartTx>),
    /// A ring of memory that several processes have in common.
    Ring(RingSender),
    /// All is taken and freed.
    Null,
    /// A capture is written.
    Trace(TraceTx),
    /// Another, with faults.
    Fault(Box<FaultTx>),
}

impl Rx {
    /// Receives packets behind those in the burst, as many as there are and fit. Returns how many.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        match self {
            Self::Dpdk(queue) => queue.receive(burst),
            Self::Socket(socket) => socket.receive(burst),
            Self::Apart(port) => port.receive(burst),
            Self::Ring(ring) => ring.receive(burst),
            Self::Null => 0,
            Self::Trace(trace) => trace.receive(burst),
            Self::Decorated(other) => other.receive(burst),
        }
    }

    /// Packets that came in and that no buffer holds, since this was asked last: whoever polls counts them
    /// as received and dropped.
    #[inline]
    pub fn take_too_long(&mut self) -> TooLong {
        match self {
            Self::Dpdk(_) | Self::Ring(_) | Self::Null => TooLong::default(),
            Self::Socket(socket) => socket.take_too_long(),
            Self::Apart(port) => port.take_too_long(),
            Self::Trace(trace) => trace.take_too_long(),
            Self::Decorated(other) => other.take_too_long(),
        }
    }

    /// Cycles since this was asked last that went into doing what hardware would do by itself: they are not the work of
    /// whoever polls.
    #[inline]
    pub fn take_emulated(&mut self) -> u64 {
        match self {
            Self::Decorated(other) => other.take_emulated(),
            Self::Dpdk(_)
            | Self::Socket(_)
            | Self::Apart(_)
            | Self::Ring(_)
            | Self::Null
            | Self::Trace(_) => 0,
        }
    }
}

impl Tx {
    /// Transmits from the front of the burst. Returns how many were taken; the rest stay.
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        match self {
            Self::Dpdk(queue) => queue.transmit(burst),
            Self::Socket(socket) => socket.transmit(burst),
            Self::Apart(port) => port.transmit(burst),
            Self::Ring(ring) => ring.transmit(burst),
            Self::Null => {
                let count = burst.len();
                burst.clear();
                count
            }
            Self::Trace(trace) => trace.transmit(burst),
            Self::Fault(fault) => fault.transmit(burst),
        }
    }

    /// Packets that were handed over and that the port never takes for their length, since this was asked
    /// last: they are gone, and whoever sends counts them as dropped.
    #[inline]
    pub fn take_too_long(&mut self) -> TooLong {
        match self {
            Self::Dpdk(_) | Self::Ring(_) | Self::Null | Self::Trace(_) => TooLong::default(),
            Self::Socket(socket) => socket.take_too_long(),
            Self::Apart(port) => port.take_too_long(),
            Self::Fault(fault) => fault.take_too_long(),
        }
    }
}

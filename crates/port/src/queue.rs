//! The two ends of a port that a worker holds.

use crate::{FaultRx, FaultTx, TraceRx, TraceTx};
use weir_dpdk::{Burst, RxQueue, TxQueue};

/// Where packets come from. Whoever owns it is the only one that polls it.
#[derive(Debug)]
pub enum Rx {
    /// A queue of a DPDK port.
    Dpdk(RxQueue),
    /// Nothing ever comes.
    Null,
    /// A capture is replayed.
    Trace(Box<TraceRx>),
    /// Another, with faults.
    Fault(Box<FaultRx>),
}

/// Where packets go.
#[derive(Debug)]
pub enum Tx {
    /// A queue of a DPDK port.
    Dpdk(TxQueue),
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
            Self::Null => 0,
            Self::Trace(trace) => trace.receive(burst),
            Self::Fault(fault) => fault.receive(burst),
        }
    }
}

impl Tx {
    /// Transmits from the front of the burst. Returns how many were taken; the rest stay.
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        match self {
            Self::Dpdk(queue) => queue.transmit(burst),
            Self::Null => {
                let count = burst.len();
                burst.clear();
                count
            }
            Self::Trace(trace) => trace.transmit(burst),
            Self::Fault(fault) => fault.transmit(burst),
        }
    }
}

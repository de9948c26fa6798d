//! What stands between a function and its ports: the queues with their taps, and what a fault does on the way.

use crate::ledger::Counters;
use crate::tap::{self, Taps, Watch};
use crate::verdict::PORTS;
use std::sync::Arc;
use weir_dpdk::{Burst, RingReceiver, RingSender, RxQueue, TxQueue};

/// One port: what it receives from and what it sends to.
#[derive(Debug)]
pub(crate) enum Queues {
    /// A device's queues.
    Device(RxQueue, TxQueue),
    /// Rings from and to another process.
    Rings(RingReceiver, RingSender),
}

impl Queues {
    #[inline]
    fn receive(&mut self, burst: &mut Burst) -> usize {
        match self {
            Self::Device(rx, _) => rx.receive(burst),
            Self::Rings(rx, _) => rx.receive(burst),
        }
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        match self {
            Self::Device(_, tx) => tx.transmit(burst),
            Self::Rings(_, tx) => tx.transmit(burst),
        }
    }
}

/// Both ports, as the worker owns them. Whatever comes or goes passes their taps.
#[derive(Debug)]
pub(crate) struct Ports {
    queues: [Queues; PORTS],
    taps: Arc<Taps>,
    watch: Watch,
}

impl Ports {
    /// The ports of these queues.
    pub(crate) fn new(queues: [Queues; PORTS], taps: Arc<Taps>) -> Self {
        Self { queues, taps, watch: Watch::default() }
    }

    /// Once a round of the loop: taps go on or off.
    #[inline]
    pub(crate) fn round(&mut self) {
        self.watch.renew(&self.taps);
    }

    /// Receives into an empty burst. Returns how many packets came.
    #[inline]
    pub(crate) fn receive(&mut self, port: usize, burst: &mut Burst) -> usize {
        let received = self.queues[port].receive(burst);
        if received > 0
            && let Some(key) = self.watch.key()
        {
            self.taps.count_received(port, &tap::delays(burst, key));
        }
        received
    }

    /// Sends a burst. Returns how many packets the port took; the rest stay.
    #[inline]
    pub(crate) fn transmit(&mut self, port: usize, burst: &mut Burst) -> usize {
        let tx = &mut self.queues[port];
        let Some(key) = self.watch.key() else { return tx.transmit(burst) };
        let delays = tap::delays(burst, key);
        let sent = tx.transmit(burst);
        self.taps.count_sent(port, &delays[..sent]);
        sent
    }
}

/// What happens to packets between the function and the ports.
pub(crate) trait Wire {
    /// A burst is about to leave by a port.
    fn leaving(&mut self, port: usize, burst: &mut Burst, ports: &mut Ports, counters: &Counters);

    /// Once a round of the loop, packets or not.
    fn round(&mut self, ports: &mut Ports, counters: &Counters);

    /// The loop has ended: what is still held back is dropped.
    fn end(&mut self, counters: &Counters);

    /// Whether this denied packet passes.
    fn leaks(&mut self) -> bool;

    /// Whether the packets of a full burst go where the first of them goes.
    fn skips_lookups(&self) -> bool;
}

/// Nothing: what every program has that is not to do wrong.
#[derive(Debug)]
pub(crate) struct Straight;

impl Wire for Straight {
    #[inline]
    fn leaving(&mut self, _: usize, _: &mut Burst, _: &mut Ports, _: &Counters) {}

    #[inline]
    fn round(&mut self, _: &mut Ports, _: &Counters) {}

    fn end(&mut self, _: &Counters) {}

    #[inline]
    fn leaks(&mut self) -> bool {
        false
    }

    #[inline]
    fn skips_lookups(&self) -> bool {
        false
    }
}

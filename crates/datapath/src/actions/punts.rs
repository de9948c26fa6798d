//! Queues from workers, of packets for controllers and of addresses to be learned, shared fairly by the ports that packets
//! came in by.
//!
//! A port may have as many packets waiting as there is room left (Choudhury and Hahne, "Dynamic queue length
//! thresholds", 1998): one that floods gets half of the queue, two get a third each, and there is always room for
//! a port that has nothing in it. Room is asked for before a frame is copied, so that a packet which is refused
//! costs a few instructions.
//!
//! Threads: workers send, the owner of the datapath takes. Counts are relaxed: workers that ask at the same moment
//! may be one packet too generous each, and the queue itself has the last word.

use crate::model::addresses::Sighting;
use crate::model::requests::PacketIn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_openflow::PortNo;

/// Packets that wait at most.
const MOST: usize = 4096;
/// Counts of ports: those whose numbers differ by a multiple share one.
const PORTS: usize = 256;

/// What waits in a queue, because of a packet that came in.
pub(crate) trait OfPort {
    /// The port that the packet came in by.
    fn port(&self) -> PortNo;
}

impl OfPort for PacketIn {
    fn port(&self) -> PortNo {
        self.in_port
    }
}

impl OfPort for Sighting {
    fn port(&self) -> PortNo {
        self.port
    }
}

/// A queue: where workers put packets, and where they are taken.
pub(crate) fn punts<T>() -> (Punts<T>, Punted<T>) {
    let (sender, receiver) = sync_channel(MOST);
    let counts = Arc::new(Counts { all: AtomicUsize::new(0), ports: [const { AtomicUsize::new(0) }; PORTS] });
    (Punts { sender, counts: counts.clone() }, Punted { receiver, counts })
}

/// Where workers put packets for controllers, or what they saw of addresses.
pub(crate) struct Punts<T = PacketIn> {
    sender: SyncSender<T>,
    counts: Arc<Counts>,
}

impl<T> Clone for Punts<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), counts: self.counts.clone() }
    }
}

/// Where they are taken.
pub(crate) struct Punted<T = PacketIn> {
    receiver: Receiver<T>,
    counts: Arc<Counts>,
}

struct Counts {
    all: AtomicUsize,
    ports: [AtomicUsize; PORTS],
}

impl Counts {
    fn of(&self, port: PortNo) -> &AtomicUsize {
        &self.ports[port.0 as usize % PORTS]
    }

    /// A packet of a port waits, if it may.
    fn enter(&self, port: PortNo) -> bool {
        let own = self.of(port).fetch_add(1, Ordering::Relaxed);
        let all = self.all.fetch_add(1, Ordering::Relaxed);
        let may = own < MOST.saturating_sub(all);
        if !may {
            self.leave(port);
        }
        may
    }

    fn leave(&self, port: PortNo) {
        self.of(port).fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Punts<T> {
    /// Puts a packet of this port into the queue, made only if there is room for it; whether there was.
    pub(crate) fn send(&self, port: PortNo, packet: impl FnOnce() -> T) -> bool {
        if !self.counts.enter(port) {
            return false;
        }
        let sent = self.sender.try_send(packet()).is_ok();
        if !sent {
            self.counts.leave(port);
        }
        sent
    }
}

impl<T: OfPort> Punted<T> {
    /// Takes what is there, so many at most.
    pub(crate) fn take(&self, most: usize) -> impl Iterator<Item = T> {
        self.receiver.try_iter().take(most).inspect(|packet| self.counts.leave(packet.port()))
    }

    /// Takes all that is there.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = T> {
        self.take(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Match;
    use weir_openflow::ToController;

    fn packet(port: PortNo) -> PacketIn {
        let (to, fields, frame) = (ToController::default(), Match::any(), vec![0; 60]);
        PacketIn { in_port: port, reason: 1, table: 0, cookie: 0, to, fields, frame }
    }

    fn flood(punts: &Punts, port: u32, packets: usize) -> usize {
        let port = PortNo(port);
        (0..packets).filter(|_| punts.send(port, || packet(port))).count()
    }

    #[test]
    fn a_flood_at_one_port_leaves_room_for_others_and_is_not_copied_when_it_is_refused() {
        let (punts, punted) = punts();
        assert_eq!(flood(&punts, 1, 100_000), MOST / 2);
        assert!(!punts.send(PortNo(1), || panic!("a packet that is refused is made")));
        assert_eq!(flood(&punts, 2, 10), 10, "another port has its packets in");
        assert_eq!(flood(&punts, 3, 100_000), (MOST / 2 - 10) / 2);
        assert_eq!(flood(&punts, 4, 1), 1);
        let of =
            |taken: &[PacketIn], port| taken.iter().filter(|packet| packet.in_port == PortNo(port)).count();
        let taken: Vec<PacketIn> = punted.take_all().collect();
        assert_eq!([1, 2, 3, 4].map(|port| of(&taken, port)), [MOST / 2, 10, MOST / 4 - 5, 1]);
        assert_eq!(flood(&punts, 3, 100_000), MOST / 2, "what was taken makes room");
        assert_eq!(punted.take(100).count(), 100);
        assert_eq!(flood(&punts, 3, 100_000), 100, "as much as was taken, for one that is alone");
    }
}

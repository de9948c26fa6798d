//! Copies of packets for a person who watches.

use crate::model::requests::{CaptureFilter, Captured};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_flow::{Key, extract};
use weir_openflow::PortNo;

/// A tap: what is wanted, and where it goes. Only a worker with a tap pays for it.
#[derive(Debug)]
pub(crate) struct Tap {
    filter: CaptureFilter,
    to: SyncSender<Captured>,
    abandoned: AtomicBool,
}

impl Tap {
    pub(crate) fn new(filter: CaptureFilter, to: SyncSender<Captured>) -> Self {
        Self { filter, to, abandoned: AtomicBool::new(false) }
    }

    /// Whether nobody receives any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Offers a packet that came in.
    pub(crate) fn offer_received(&self, port: PortNo, key: &Key, frame: &[u8]) {
        if self.filter.received {
            self.offer(port, false, key, frame);
        }
    }

    /// Offers a packet that goes out: what it matches is looked at anew, as it leaves.
    pub(crate) fn offer_sent(&self, port: PortNo, frame: &[u8]) {
        if self.filter.sent {
            let mut key = Key::new();
            extract(frame, port.0, &mut key);
            self.offer(port, true, &key, frame);
        }
    }

    /// Copies a packet where it is wanted and the receiver keeps up. What the receiver has no room for
    /// is not captured: forwarding comes first.
    fn offer(&self, port: PortNo, sent: bool, key: &Key, frame: &[u8]) {
        let filter = &self.filter;
        if filter.port.is_some_and(|wanted| wanted != port) || !filter.matching.matches(key) {
            return;
        }
        let snap = if filter.snap == 0 { frame.len() } else { filter.snap.min(frame.len()) };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let captured = Captured { port, sent, unix_ns, length: frame.len(), bytes: frame[..snap].to_vec() };
        if let Err(TrySendError::Disconnected(_)) = self.to.try_send(captured) {
            self.abandoned.store(true, Ordering::Relaxed);
        }
    }
}

//! What is known of endpoints and connections, for people and for metrics.
//!
//! Threads: the channel's writes, anybody reads; counters are relaxed, as no decision depends on them.

use crate::ConnectionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_codec::Version;

/// An endpoint and its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// As it is configured, what was left out filled in.
    pub endpoint: String,
    /// Of a listener, where it listens: the port that was free, if it is to be any.
    pub address: Option<String>,
    /// Connections that were made or accepted, those that were refused included.
    pub connects: u64,
    /// Connections that were closed at once: there were too many, or, at a Unix socket, it was another user's.
    pub refused: u64,
    /// Connections that were closed later, to make room for others.
    pub evicted: u64,
    /// Why the last connection ended, or was not made.
    pub last_end: Option<String>,
    /// Milliseconds until the next attempt to connect, if one is waited for.
    pub retry_ms: Option<u64>,
    /// Those that agreed on a version.
    pub connections: Vec<ConnectionStatus>,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Its number.
    pub connection: u64,
    /// The other side.
    pub peer: String,
    /// The version agreed on, such as `1.3`.
    pub version: String,
    /// What it may do: `equal`, `primary` or `secondary`; none if the switch has not met it yet.
    pub role: Option<String>,
    /// Seconds since the version was agreed on.
    pub seconds: u64,
    /// Messages that came.
    pub messages_in: u64,
    /// Messages that were sent.
    pub messages_out: u64,
    /// Bytes that came, before TLS.
    pub bytes_in: u64,
    /// Bytes that were sent, before TLS.
    pub bytes_out: u64,
    /// Messages that were refused because they could not be read.
    pub refused: u64,
    /// What the last of them was, and why it was refused.
    pub last_refused: Option<String>,
    /// Messages that were not told because the controller was behind.
    pub untold: u64,
    /// Bytes that wait to be sent.
    pub waiting: u64,
    /// Bytes of its open bundles and unfinished requests.
    pub held: u64,
}

/// What is counted of a connection.
#[derive(Debug, Default)]
pub(super) struct Counters {
    messages_in: AtomicU64,
    messages_out: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    refused: AtomicU64,
    untold: AtomicU64,
    waiting: AtomicU64,
    held: AtomicU64,
    /// Why the last message was refused.
    last_refused: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn came(&self, messages: u64, bytes: usize) {
        self.messages_in.fetch_add(messages, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn went(&self, messages: u64, bytes: usize) {
        self.messages_out.fetch_add(messages, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, messages: u64) {
        self.refused.fetch_add(messages, Ordering::Relaxed);
    }

    /// A message was refused, for this reason.
    pub(super) fn refused_for(&self, why: String) {
        self.refused(1);
        *self.last_refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// What a line knows by itself.
    pub(super) fn line(&self, untold: u64, waiting: usize, held: usize) {
        self.untold.store(untold, Ordering::Relaxed);
        self.waiting.store(waiting as u64, Ordering::Relaxed);
        self.held.store(held as u64, Ordering::Relaxed);
    }
}

/// What there is to be seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    rows: Arc<Mutex<BTreeMap<u64, Row>>>,
}

/// An endpoint.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) endpoint: String,
    pub(super) address: Option<String>,
    pub(super) connects: u64,
    pub(super) refused: u64,
    pub(super) evicted: u64,
    pub(super) last_end: Option<String>,
    pub(super) retry: Option<Instant>,
    pub(super) connections: BTreeMap<ConnectionId, Shown>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) peer: String,
    pub(super) version: Version,
    pub(super) since: Instant,
    pub(super) counters: Arc<Counters>,
}

impl Board {
    /// The endpoints by their numbers, which rise.
    pub(super) fn rows(&self) -> MutexGuard<'_, BTreeMap<u64, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is shown of an endpoint, if it is still there.
    pub(super) fn change(&self, endpoint: u64, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows().get_mut(&endpoint) {
            change(row);
        }
    }

    /// What is shown now.
    pub(super) fn status(&self, now: Instant) -> Vec<ChannelStatus> {
        self.rows().values().map(|row| row.status(now)).collect()
    }
}

impl Row {
    fn status(&self, now: Instant) -> ChannelStatus {
        let until = |at: Instant| at.saturating_duration_since(now);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        ChannelStatus {
            endpoint: self.endpoint.clone(),
            address: self.address.clone(),
            connects: self.connects,
            refused: self.refused,
            evicted: self.evicted,
            last_end: self.last_end.clone(),
            retry_ms: self.retry.map(|at| millis(until(at))),
            connections: self.connections.iter().map(|(id, shown)| shown.status(*id, now)).collect(),
        }
    }
}

impl Shown {
    fn status(&self, id: ConnectionId, now: Instant) -> ConnectionStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        ConnectionStatus {
            connection: id.0,
            peer: self.peer.clone(),
            version: version_text(self.version).to_owned(),
            role: None,
            seconds: now.saturating_duration_since(self.since).as_secs(),
            messages_in: count(&counters.messages_in),
            messages_out: count(&counters.messages_out),
            bytes_in: count(&counters.bytes_in),
            bytes_out: count(&counters.bytes_out),
            refused: count(&counters.refused),
            untold: count(&counters.untold),
            waiting: count(&counters.waiting),
            held: count(&counters.held),
            last_refused: counters.last_refused.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// A version as people write it.
const fn version_text(version: Version) -> &'static str {
    match version {
        Version::V10 => "1.0",
        Version::V13 => "1.3",
        Version::V14 => "1.4",
        Version::V15 => "1.5",
    }
}

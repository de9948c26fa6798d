//! What a trace holds, in one number: equal hashes, equal packets in equal order.
//!
//! BLAKE3 over one lap: for each packet its length in memory as a 16-bit big-endian number, then its
//! bytes. Gaps do not count. A synthetic trace and the capture written from it have the same hash.

use serde::{Serialize, Serializer};
use std::fmt;

/// Bytes that are gathered before they are hashed: BLAKE3 is fastest on large pieces.
const GATHER: usize = 64 << 10;

/// The hash of a trace's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceHash([u8; 32]);

impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl Serialize for TraceHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Hashes packets as they come.
pub(super) struct TraceHasher {
    hasher: blake3::Hasher,
    gathered: Vec<u8>,
}

impl Default for TraceHasher {
    fn default() -> Self {
        Self { hasher: blake3::Hasher::new(), gathered: Vec::with_capacity(2 * GATHER) }
    }
}

impl TraceHasher {
    /// Adds a packet: `head` and `tail` one after the other.
    pub(super) fn add(&mut self, head: &[u8], tail: &[u8]) {
        let length = (head.len() + tail.len()) as u16;
        self.gathered.extend_from_slice(&length.to_be_bytes());
        self.gathered.extend_from_slice(head);
        self.gathered.extend_from_slice(tail);
        if self.gathered.len() >= GATHER {
            self.hasher.update(&self.gathered);
            self.gathered.clear();
        }
    }

    /// The hash of all packets added.
    pub(super) fn finish(mut self) -> TraceHash {
        self.hasher.update(&self.gathered);
        TraceHash(*self.hasher.finalize().as_bytes())
    }
}

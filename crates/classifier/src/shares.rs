//! How many of a cache's entries are of each port, so that no port can take the room of the others.
//!
//! A full cache is shared out evenly among the ports that have entries. An entry makes room if its port has more
//! than its share; or, for an entry of the same port, if the port has its share. So whatever one port sends,
//! another keeps what it has up to its share, and what one does not need of its share is lent to others.
//!
//! Cost: a binary search among the ports, when an entry comes, goes, or may be evicted. Threads: one worker's.

use weir_flow::{Field, Key};

/// Entries by port; ports without any are left out. Sorted by port.
#[derive(Debug, Default)]
pub(crate) struct Shares(Vec<(u32, usize)>);

/// What a port may take of a full cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    port: u32,
    share: usize,
    /// Whether it has its share already.
    has_it: bool,
}

impl Shares {
    /// The port of a key, or of an entry's key.
    pub(crate) fn port_of(key: &Key) -> u32 {
        Field::InPort.get(key) as u32
    }

    fn at(&self, port: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&port, |&(other, _)| other)
    }

    /// Entries of a port.
    pub(crate) fn of(&self, port: u32) -> usize {
        self.at(port).map_or(0, |at| self.0[at].1)
    }

    pub(crate) fn add(&mut self, port: u32) {
        match self.at(port) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (port, 1)),
        }
    }

    pub(crate) fn remove(&mut self, port: u32) {
        let Ok(at) = self.at(port) else { return };
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.remove(at);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, usize)> {
        self.0.iter().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What this port may take of a full cache of so many entries.
    pub(crate) fn claim(&self, port: u32, capacity: usize) -> Claim {
        let has = self.of(port);
        let share = capacity / (self.0.len() + usize::from(has == 0)).max(1);
        Claim { port, share, has_it: has >= share.max(1) }
    }

    /// Whether an entry of a port may make room for what is claimed. One such entry there is always.
    pub(crate) fn gives(&self, claim: Claim, owner: u32) -> bool {
        (claim.has_it && owner == claim.port) || self.of(owner) > claim.share
    }
}

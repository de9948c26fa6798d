//! Where addresses are, as a learning switch remembers it: a table with a bound and a share for each port.
//!
//! In a full table the port that has most addresses gives up the one of its own that was learned first. So a port
//! where addresses are made up pushes out its own, and never those of a port that has fewer.

use std::collections::BTreeMap;
use weir_openflow::PortNo;

/// An Ethernet address.
pub(super) type Address = [u8; 6];

/// Addresses that are remembered at most; packets to others are flooded.
pub(super) const MOST: usize = 8192;

/// Addresses and their ports.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    known: BTreeMap<Address, Place>,
    /// The addresses of each port, in the order in which they were learned.
    ports: BTreeMap<PortNo, BTreeMap<u64, Address>>,
    learned: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    port: PortNo,
    learned: u64,
}

/// What is no longer so once an address was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Learned {
    /// Where it was before.
    pub(super) before: Option<PortNo>,
    /// Which address made room for it, and where that was.
    pub(super) evicted: Option<(Address, PortNo)>,
}

impl Addresses {
    /// An address is behind a port. Nothing if that was known.
    pub(super) fn learn(&mut self, address: Address, port: PortNo) -> Option<Learned> {
        let before = self.known.get(&address).map(|place| place.port);
        if before == Some(port) {
            return None;
        }
        self.forget(address);
        let evicted = (self.known.len() >= MOST).then(|| self.evict()).flatten();
        self.learned += 1;
        self.known.insert(address, Place { port, learned: self.learned });
        self.ports.entry(port).or_default().insert(self.learned, address);
        Some(Learned { before, evicted })
    }

    /// Where an address is.
    pub(super) fn port(&self, address: Address) -> Option<PortNo> {
        self.known.get(&address).map(|place| place.port)
    }

    /// Forgets an address.
    pub(super) fn forget(&mut self, address: Address) {
        let Some(Place { port, learned }) = self.known.remove(&address) else { return };
        if let Some(of_port) = self.ports.get_mut(&port) {
            of_port.remove(&learned);
            if of_port.is_empty() {
                self.ports.remove(&port);
            }
        }
    }

    /// Makes room: the first of the port that has most.
    fn evict(&mut self) -> Option<(Address, PortNo)> {
        let (port, of_port) = self.ports.iter().max_by_key(|(_, of_port)| of_port.len())?;
        let (port, address) = (*port, *of_port.values().next()?);
        self.forget(address);
        Some((address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Address {
        let [a, b, c, d] = number.to_be_bytes();
        [2, 0, a, b, c, d]
    }

    #[test]
    fn a_port_where_addresses_are_made_up_pushes_out_its_own() {
        let mut addresses = Addresses::default();
        let (honest, flood) = (PortNo(1), PortNo(2));
        for number in 0..100 {
            let learned = addresses.learn(address(number), honest);
            assert_eq!(learned, Some(Learned { before: None, evicted: None }));
        }
        let mut evicted = Vec::new();
        for number in 0x10_0000..0x10_0000 + 50_000 {
            evicted.extend(addresses.learn(address(number), flood).and_then(|learned| learned.evicted));
        }
        assert!(evicted.iter().all(|(_, port)| *port == flood) && evicted[0].0 == address(0x10_0000));
        assert_eq!(evicted.len(), 50_000 + 100 - MOST);
        assert!((0..100).all(|number| addresses.port(address(number)) == Some(honest)));
        let late = addresses.learn(address(100), honest).and_then(|learned| learned.evicted);
        assert_eq!(late.map(|(_, port)| port), Some(flood), "there is room for who has few");
    }

    #[test]
    fn an_address_that_moves_or_is_forgotten_leaves_nothing_behind() {
        let mut addresses = Addresses::default();
        assert!(addresses.learn(address(1), PortNo(1)).is_some());
        assert_eq!(addresses.learn(address(1), PortNo(1)), None);
        let moved = addresses.learn(address(1), PortNo(2));
        assert_eq!(moved, Some(Learned { before: Some(PortNo(1)), evicted: None }));
        addresses.forget(address(1));
        addresses.forget(address(1));
        assert!(addresses.known.is_empty() && addresses.ports.is_empty());
    }
}

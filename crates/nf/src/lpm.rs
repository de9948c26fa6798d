//! Longest-prefix match over IPv4 routes: a trie of three levels, 16 + 8 + 8 bits.
//!
//! Why this shape: a table by the first 24 bits (DIR-24-8, as in DPDK's LPM library) answers most
//! lookups with one load, but takes 64 MiB, and without huge pages nearly every load misses the
//! TLB. Here the first level is 256 KiB, which an L2 cache holds, and a route longer than /16 adds
//! 1 KiB, one longer than /24 another. Traffic to the test network touches two entries of the
//! first level, so a lookup is two or three loads from the L1 or L2 cache.
//!
//! Cost: 10, 1000 and 100,000 routes differ by less than the noise of a shared machine (5 cycles a
//! packet), since the lookups of several packets overlap in the CPU. So there is no software
//! prefetching: the levels in use lie in the L2 cache. 100,000 routes of the test network, on three
//! levels, take 0.8 MiB.
//!
//! Built once and then read only: any number of threads may share it.

use weir_wire::table::{Ipv4Prefix, Route};

/// One place of a level: nothing, a port, or the number of the chunk below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

/// The 256 places below one place.
type Chunk = [Place; 256];

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Lpm {
    first: Box<[Place; 1 << 16]>,
    chunks: Vec<Chunk>,
}

/// Routes that make no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// The same prefix twice.
    #[error("two routes lead to {prefix}, by ports {first} and {second}; keep one")]
    Twice {
        /// The prefix.
        prefix: Ipv4Prefix,
        /// Port of one.
        first: u8,
        /// Port of the other.
        second: u8,
    },
    /// A port that the program does not have.
    #[error("route `{route}` leads to port {port}, and the ports are 0 to {last}", port = .route.port)]
    Port {
        /// The route.
        route: Route,
        /// The last port there is.
        last: u8,
    },
}

impl Place {
    /// No route.
    const NONE: Self = Self(0);
    /// Set where the rest is the number of a chunk.
    const CHUNK: u32 = 1 << 31;

    const fn of_port(port: u8) -> Self {
        Self(port as u32 + 1)
    }

    #[inline]
    fn port(self) -> Option<u8> {
        // A place that names no chunk holds at most 256.
        self.0.checked_sub(1).map(|port| port as u8)
    }

    #[inline]
    fn chunk(self) -> Option<usize> {
        (self.0 & Self::CHUNK != 0).then_some((self.0 & !Self::CHUNK) as usize)
    }
}

impl Lpm {
    /// Builds the table; ports must be below `ports`.
    pub(crate) fn new(routes: &[Route], ports: u8) -> Result<Self, LpmError> {
        let mut sorted = routes.to_vec();
        sorted.sort_by_key(|route| (route.prefix.bits(), route.prefix));
        if let Some(&route) = sorted.iter().find(|route| route.port >= ports) {
            return Err(LpmError::Port { route, last: ports.saturating_sub(1) });
        }
        if let Some([one, other]) = sorted.array_windows().find(|[one, other]| one.prefix == other.prefix) {
            return Err(LpmError::Twice { prefix: one.prefix, first: one.port, second: other.port });
        }
        let first = vec![Place::NONE; 1 << 16].try_into().expect("as many places as asked for");
        let mut table = Self { first, chunks: Vec::new() };
        // Shortest first, so that a longer prefix overwrites its part of a shorter one.
        sorted.iter().for_each(|route| table.insert(*route));
        Ok(table)
    }

    /// The port that the longest matching prefix leads to.
    #[inline]
    pub(crate) fn lookup(&self, address: u32) -> Option<u8> {
        let [high, low, second, third] = address.to_be_bytes();
        let mut place = self.first[usize::from(u16::from_be_bytes([high, low]))];
        for byte in [second, third] {
            let Some(chunk) = place.chunk() else { break };
            place = self.chunks[chunk][usize::from(byte)];
        }
        place.port()
    }

    fn insert(&mut self, route: Route) {
        let (address, bits) = (route.prefix.address().to_bits(), route.prefix.bits());
        let [high, low, second, third] = address.to_be_bytes();
        let index = usize::from(u16::from_be_bytes([high, low]));
        let place = Place::of_port(route.port);
        if bits <= 16 {
            self.first[index..index + (1 << (16 - bits))].fill(place);
            return;
        }
        let (below, chunk) = self.below(self.first[index]);
        self.first[index] = below;
        let index = usize::from(second);
        if bits <= 24 {
            self.chunks[chunk][index..index + (1 << (24 - bits))].fill(place);
            return;
        }
        let (below, last) = self.below(self.chunks[chunk][index]);
        self.chunks[chunk][index] = below;
        let index = usize::from(third);
        self.chunks[last][index..index + (1 << (32 - bits))].fill(place);
    }

    /// The chunk below a place, made of that place where there is none; and the place that names it.
    fn below(&mut self, place: Place) -> (Place, usize) {
        let chunk = place.chunk().unwrap_or_else(|| {
            self.chunks.push([place; 256]);
            self.chunks.len() - 1
        });
        (Place(Place::CHUNK | chunk as u32), chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;
    use weir_wire::table::longest_match;

    /// Routes that overlap often: few distinct leading bytes, any length, the default route included.
    fn routes() -> impl Strategy<Value = Vec<Route>> {
        let route = (0_u32..4, any::<u32>(), 0_u8..=32, 0_u8..4).prop_map(|(lead, address, bits, port)| {
            let address = Ipv4Addr::from_bits(lead << 30 | (address & 0x0003_0303) | 0x0a00_0000);
            Route { prefix: Ipv4Prefix::covering(address, bits), port }
        });
        prop::collection::vec(route, 0..60).prop_map(|mut routes| {
            routes.sort_by_key(|route| route.prefix);
            routes.dedup_by_key(|route| route.prefix);
            routes
        })
    }

    proptest! {
        #[test]
        fn every_lookup_says_what_looking_at_all_routes_says(
            routes in routes(),
            addresses in prop::collection::vec((0_u32..4, any::<u32>(), any::<bool>()), 100),
        ) {
            let table = Lpm::new(&routes, 4).unwrap();
            let near = addresses.iter().map(|(lead, address, near)| {
                if *near { lead << 30 | (address & 0x0003_0303) | 0x0a00_0000 } else { *address }
            });
            let edges = routes.iter().flat_map(|route| {
                let (first, last) = (route.prefix.address().to_bits(), route.prefix.last().to_bits());
                [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
            });
            for address in near.chain(edges) {
                let plain = longest_match(&routes, Ipv4Addr::from_bits(address)).map(|route| route.port);
                prop_assert_eq!(table.lookup(address), plain, "{}", Ipv4Addr::from_bits(address));
            }
        }
    }

    fn read(lines: &[&str]) -> Vec<Route> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn one_prefix_with_two_routes_is_refused() {
        let error = Lpm::new(&read(&["198.18.0.0/16 0", "any 1", "198.18.0.0/16 1"]), 2).unwrap_err();
        assert!(error.to_string().contains("198.18.0.0/16, by ports 0 and 1"), "{error}");
    }

    #[test]
    fn a_route_to_a_port_that_is_not_there_is_refused() {
        let error = Lpm::new(&read(&["198.18.0.0/16 2"]), 2).unwrap_err();
        assert!(error.to_string().contains("port 2") && error.to_string().contains("0 to 1"), "{error}");
    }

    #[test]
    fn an_empty_table_routes_nothing() {
        let table = Lpm::new(&[], 2).unwrap();
        assert!(table.lookup(0).is_none() && table.lookup(u32::MAX).is_none());
    }
}

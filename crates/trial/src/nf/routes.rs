//! The routing table of [`super::Nf::L3Fwd`]: the test network, divided.

use std::net::Ipv4Addr;
use weir_wire::table::{Ipv4Prefix, Route};

/// The two halves of the test network, by the port they leave by.
const HALVES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 0), Ipv4Addr::new(198, 19, 0, 0)];
/// Prefix length of each half.
const HALF_BITS: u8 = 16;

/// `count` routes, in the order of their addresses.
pub(super) fn divide(count: u32) -> Vec<Route> {
    let shares = [count / 2, count.div_ceil(2)];
    let mut routes = Vec::new();
    for (port, share) in (0_u8..).zip(shares) {
        let half = Ipv4Prefix::covering(HALVES[usize::from(port)], HALF_BITS);
        routes.extend(parts(half, share).into_iter().map(|prefix| Route { prefix, port }));
    }
    routes
}

/// `count` prefixes that cover `whole` exactly. Halving the largest first, the lowest of them first,
/// splits all prefixes of one length before any of the next; so `count` in binary says it all:
/// after `2^depth` equal parts the first `count - 2^depth` are halved once more.
fn parts(whole: Ipv4Prefix, count: u32) -> Vec<Ipv4Prefix> {
    let Some(depth) = count.checked_ilog2() else { return Vec::new() };
    let equal = 1_u32 << depth;
    let size = 1_u32 << (32 - u32::from(whole.bits()) - depth);
    let bits = whole.bits() + depth as u8;
    let mut prefixes = Vec::with_capacity(count as usize);
    for index in 0..equal {
        let address = Ipv4Addr::from_bits(whole.address().to_bits() + index * size);
        let part = Ipv4Prefix::covering(address, bits);
        match part.halves() {
            Some(halves) if index < count - equal => prefixes.extend(halves),
            _ => prefixes.push(part),
        }
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use crate::Nf;
    use std::net::Ipv4Addr;
    use weir_wire::table::{Route, longest_match, read, write};

    fn routes(count: u32) -> Vec<Route> {
        Nf::L3Fwd { routes: count }.routes()
    }

    #[test]
    fn every_address_of_a_half_has_exactly_one_route_and_it_leads_to_the_right_port() {
        for count in (1..300).chain([999, 1000, 4096, 65_535, 99_999, Nf::MAX_ENTRIES]) {
            let routes = routes(count);
            assert_eq!(routes.len(), count as usize);
            let mut next = if count == 1 { 0xc613_0000_u32 } else { 0xc612_0000 };
            for route in &routes {
                assert_eq!(route.prefix.address().to_bits(), next, "{route} leaves a gap or overlaps");
                assert_eq!(u32::from(route.port), (next >> 16) & 1, "{route}");
                next = route.prefix.last().to_bits() + 1;
            }
            assert_eq!(next, 0xc614_0000, "{count} routes end with the test network");
        }
    }

    #[test]
    fn prefix_lengths_within_a_half_differ_by_one_at_most() {
        for count in 2..2000 {
            for port in 0..2 {
                let lengths = || {
                    routes(count).into_iter().filter(move |route| route.port == port).map(|r| r.prefix.bits())
                };
                assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1, "{count}");
            }
        }
    }

    #[test]
    fn ten_routes_are_five_a_half() {
        assert_eq!(
            write(&routes(10)),
            "198.18.0.0/19 0\n198.18.32.0/19 0\n198.18.64.0/18 0\n198.18.128.0/18 0\n198.18.192.0/18 0\n\
             198.19.0.0/19 1\n198.19.32.0/19 1\n198.19.64.0/18 1\n198.19.128.0/18 1\n198.19.192.0/18 1\n"
        );
        assert_eq!(read::<Route>("t", &write(&routes(777))).unwrap(), routes(777));
    }

    #[test]
    fn one_route_leads_forward_and_none_back() {
        let routes = routes(1);
        assert_eq!(longest_match(&routes, Ipv4Addr::new(198, 19, 255, 255)).unwrap().port, 1);
        assert_eq!(longest_match(&routes, Ipv4Addr::new(198, 18, 0, 0)), None);
    }
}

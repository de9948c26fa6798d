//! The chain of IPv6 extension headers (RFC 8200, section 4), and what OpenFlow says of it.

use crate::protocol::{FRAGMENT_ANY, FRAGMENT_LATER};

/// Next header: hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Next header: routing.
pub const ROUTING: u8 = 43;
/// Next header: fragment; also the `nw_proto` of fragments other than the first.
pub const FRAGMENT: u8 = 44;
/// Next header: encapsulating security payload (RFC 4303). What is behind it cannot be read.
pub const ESP: u8 = 50;
/// Next header: authentication (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// Next header: nothing.
pub const NOTHING: u8 = 59;
/// Next header: destination options.
pub const DESTINATION: u8 = 60;

/// Bits of `ipv6_exthdr` (OpenFlow 1.3.5, section 7.2.3.8, `ofp_ipv6exthdr_flags`).
pub mod exthdr {
    /// The chain ends in "no next header".
    pub const NONEXT: u16 = 1 << 0;
    /// Encapsulating security payload.
    pub const ESP: u16 = 1 << 1;
    /// Authentication header.
    pub const AUTH: u16 = 1 << 2;
    /// One or two destination options headers.
    pub const DEST: u16 = 1 << 3;
    /// Fragment header.
    pub const FRAG: u16 = 1 << 4;
    /// Routing header.
    pub const ROUTER: u16 = 1 << 5;
    /// Hop-by-hop options, as the first extension header.
    pub const HOP: u16 = 1 << 6;
    /// A header is there again that may be there only once (destination options: twice).
    pub const UNREP: u16 = 1 << 7;
    /// Headers are in another order than RFC 8200, section 4.1 recommends. Repeats alone do not count.
    pub const UNSEQ: u16 = 1 << 8;
}

/// Which headers came, and whether they came in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Bits of `ipv6_exthdr`.
    pub(crate) bits: u16,
    /// The same bits for each header that came, wherever it was.
    seen: u16,
    /// How far down the recommended order it is.
    rank: u8,
    /// Destination options headers, up to 2.
    destinations: u8,
}

impl Order {
    /// A header comes next.
    pub(crate) fn add(mut self, header: u8) -> Self {
        // The recommended order: hop-by-hop, destination (for every hop of a route), routing,
        // fragment, authentication, ESP, destination.
        let (bit, rank) = match header {
            HOP_BY_HOP => (exthdr::HOP, 0),
            ROUTING => (exthdr::ROUTER, 2),
            FRAGMENT => (exthdr::FRAG, 3),
            AUTHENTICATION => (exthdr::AUTH, 4),
            ESP => (exthdr::ESP, 5),
            DESTINATION => (exthdr::DEST, if self.rank < 1 { 1 } else { 6 }),
            NOTHING => (exthdr::NONEXT, u8::MAX),
            _ => return self,
        };
        let again = if header == DESTINATION { self.destinations == 2 } else { self.seen & bit != 0 };
        let late = header == HOP_BY_HOP && self.seen != 0 && !again;
        self.bits |= if again { exthdr::UNREP } else { 0 };
        self.bits |= if rank < self.rank || late { exthdr::UNSEQ } else { 0 };
        self.bits |= if late { 0 } else { bit & !(self.seen & exthdr::HOP) };
        self.seen |= bit;
        self.destinations = (self.destinations + u8::from(header == DESTINATION)).min(2);
        self.rank = self.rank.max(rank);
        self
    }
}

/// What a walk along the chain found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The header behind the chain; [`FRAGMENT`] in fragments other than the first.
    pub protocol: u8,
    /// Where that header is.
    pub end: usize,
    /// Bits of `nw_frag`.
    pub fragment: u8,
    /// Bits of `ipv6_exthdr`.
    pub headers: u16,
    /// Whether a routing header says that the packet has further to go than its destination address.
    pub routed: bool,
}

impl Chain {
    /// Walks the chain that starts at `at` with the header `first`, in a frame that ends with its
    /// packet. Nothing where a header is cut off.
    ///
    /// Costs: a few loads a header. An attacker's packet of 64 KiB can hold 8,000 of them.
    pub fn walk(frame: &[u8], at: usize, first: u8) -> Option<Self> {
        let mut chain = Self { protocol: first, end: at, fragment: 0, headers: 0, routed: false };
        let mut order = Order::default();
        loop {
            order = order.add(chain.protocol);
            chain.headers = order.bits;
            if !matches!(chain.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
                return Some(chain);
            }
            let header: &[u8; 8] = frame.get(chain.end..)?.first_chunk()?;
            let len = match chain.protocol {
                FRAGMENT => 8,
                AUTHENTICATION => (usize::from(header[1]) + 2) * 4,
                _ => (usize::from(header[1]) + 1) * 8,
            };
            if frame.len() < chain.end + len {
                return None;
            }
            chain.routed |= chain.protocol == ROUTING && header[3] != 0;
            chain.end += len;
            let word = u16::from_be_bytes([header[2], header[3]]);
            if chain.protocol == FRAGMENT && word != 0 {
                chain.fragment = FRAGMENT_ANY;
                if word & 0xfff8 != 0 {
                    chain.fragment |= FRAGMENT_LATER;
                    return Some(chain);
                }
            }
            chain.protocol = header[0];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::exthdr::{AUTH, DEST, ESP as ESP_BIT, FRAG, HOP, NONEXT, ROUTER, UNREP, UNSEQ};
    use super::*;

    fn bits(headers: &[u8]) -> u16 {
        headers.iter().fold(Order::default(), |order, &header| order.add(header)).bits
    }

    #[test]
    fn headers_in_the_order_of_rfc_8200_are_only_named() {
        let all = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, NOTHING];
        assert_eq!(bits(&all), HOP | DEST | ROUTER | FRAG | AUTH | NONEXT);
        // Any part of the order is in order.
        for part in 0..1_u32 << all.len() {
            let some =
                all.iter().enumerate().filter(|(at, _)| part >> at & 1 == 1).map(|(_, header)| *header);
            assert_eq!(bits(&some.collect::<Vec<_>>()) & (UNREP | UNSEQ), 0, "{part:b}");
        }
        assert_eq!(bits(&[AUTHENTICATION, ESP]), AUTH | ESP_BIT);
        assert_eq!(bits(&[NOTHING]), NONEXT);
        assert_eq!(bits(&[crate::protocol::TCP]), 0);
    }

    #[test]
    fn repeats_and_disorder_are_told_apart() {
        assert_eq!(bits(&[FRAGMENT, FRAGMENT]), FRAG | UNREP);
        assert_eq!(bits(&[HOP_BY_HOP, HOP_BY_HOP]), HOP | UNREP);
        assert_eq!(bits(&[DESTINATION, DESTINATION, DESTINATION]), DEST | UNREP);
        assert_eq!(bits(&[AUTHENTICATION, FRAGMENT]), AUTH | FRAG | UNSEQ);
        assert_eq!(bits(&[DESTINATION, DESTINATION, ROUTING]), DEST | ROUTER | UNSEQ);
        assert_eq!(bits(&[ROUTING, FRAGMENT, ROUTING]), ROUTER | FRAG | UNREP | UNSEQ);
    }

    #[test]
    fn hop_by_hop_options_count_only_in_front() {
        assert_eq!(bits(&[DESTINATION, HOP_BY_HOP]), DEST | UNSEQ);
        assert_eq!(bits(&[HOP_BY_HOP, DESTINATION]), HOP | DEST);
        assert_eq!(bits(&[DESTINATION, HOP_BY_HOP, HOP_BY_HOP]), DEST | UNREP | UNSEQ);
    }
}

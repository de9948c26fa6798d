//! IPv6 with a chain of extension headers that means what the key says.

use super::transport;
use crate::field::Field;
use crate::ipv6::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, NOTHING, Order, ROUTING, exthdr};
use crate::key::Key;
use crate::protocol::FRAGMENT_LATER;
use weir_wire::checksum;

/// Extension headers that a chain needs at most to have any bits.
const LONGEST: usize = 7;

pub(super) fn packet(key: &Key, payload: &[u8], frame: &mut Vec<u8>) {
    let last = match key.protocol() {
        // Those that only lead to another.
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION => NOTHING,
        protocol => protocol,
    };
    let mut headers = chain(Field::Ipv6Exthdr.get(key) as u16, key.fragment(), last);
    headers.push(last);
    let addresses = [Field::Ipv6Src, Field::Ipv6Dst].map(|field| field.get(key).to_be_bytes()).concat();
    let body = if key.fragment() & FRAGMENT_LATER != 0 {
        payload.to_vec()
    } else {
        transport::packet(key, last, payload, u32::from(checksum::fold(checksum::sum(&addresses))))
    };
    let extensions = extensions(&headers, key.fragment());
    let label = Field::Ipv6Label.get(key) as u32;
    frame.extend((6 << 28 | u32::from(key.tos()) << 20 | label).to_be_bytes());
    frame.extend(((extensions.len() + body.len()) as u16).to_be_bytes());
    frame.extend([headers[0], key.ttl()]);
    frame.extend(addresses);
    frame.extend(extensions);
    frame.extend(body);
}

/// The extension headers, each naming the one behind it.
fn extensions(headers: &[u8], fragment: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let last_fragment = headers.iter().rposition(|&header| header == FRAGMENT);
    for (at, pair) in headers.windows(2).enumerate() {
        let next = pair[1];
        match pair[0] {
            FRAGMENT => {
                let offset = match fragment {
                    _ if Some(at) != last_fragment => 0,
                    0 => 0,
                    // At offset 8; or more follow.
                    _ if fragment & FRAGMENT_LATER != 0 => 8,
                    _ => 1,
                };
                bytes.extend([next, 0, 0, offset, 0, 0, 0, 0]);
            }
            // Four units of four bytes behind the first eight.
            AUTHENTICATION => {
                bytes.extend([next, 4]);
                bytes.extend([0; 22]);
            }
            // Nothing left of the route.
            ROUTING => bytes.extend([next, 0, 0, 0, 0, 0, 0, 0]),
            // Four bytes of padding.
            _ => bytes.extend([next, 0, 1, 4, 0, 0, 0, 0]),
        }
    }
    bytes
}

/// The shortest chain that has the bits of `ipv6_exthdr`; if none has, the headers that they name.
fn chain(wanted: u16, fragment: u8, last: u8) -> Vec<u8> {
    let named = [
        (exthdr::HOP, HOP_BY_HOP),
        (exthdr::DEST, DESTINATION),
        (exthdr::ROUTER, ROUTING),
        (exthdr::FRAG, FRAGMENT),
        (exthdr::AUTH, AUTHENTICATION),
    ];
    let wanted = wanted | if fragment != 0 { exthdr::FRAG } else { 0 };
    let later = fragment & FRAGMENT_LATER != 0;
    // Hop-by-hop options in a later place have no bit, but put the chain out of order.
    let useful =
        |bit: u16, header: u8| wanted & bit != 0 || (header == HOP_BY_HOP && wanted & exthdr::UNSEQ != 0);
    let kinds: Vec<u8> =
        named.iter().filter(|(bit, header)| useful(*bit, *header)).map(|(_, header)| *header).collect();
    // What is behind the chain has its own bit, but is not seen in later fragments.
    let end = if later { Order::default() } else { Order::default().add(last) };
    let wanted = (wanted & !(exthdr::NONEXT | exthdr::ESP)) | end.bits;
    let ends_well = |order: Order, chain: &[u8]| {
        let bits = if later { order.bits } else { order.add(last).bits };
        bits == wanted && (!later || chain.last() == Some(&FRAGMENT))
    };
    for length in 0..=LONGEST {
        let mut chain = Vec::new();
        if search(&kinds, length, Order::default(), &mut chain, &ends_well) {
            return chain;
        }
    }
    let mut chain: Vec<u8> =
        named.iter().filter(|(bit, _)| wanted & bit != 0).map(|(_, header)| *header).collect();
    if later {
        chain.retain(|&header| header != FRAGMENT);
        chain.push(FRAGMENT);
    }
    chain
}

/// Tries every chain of a length.
fn search(
    kinds: &[u8],
    length: usize,
    order: Order,
    chain: &mut Vec<u8>,
    ends_well: &impl Fn(Order, &[u8]) -> bool,
) -> bool {
    if length == 0 {
        return ends_well(order, chain);
    }
    kinds.iter().any(|&kind| {
        chain.push(kind);
        let found = search(kinds, length - 1, order.add(kind), chain, ends_well);
        if !found {
            chain.pop();
        }
        found
    })
}

//! Probes: packets made from the network function itself, which a trace may never send.
//!
//! Default traces keep to ports that no rule denies and to addresses that all have routes; a
//! firewall that lets everything through, or a router with a hole in its table, would look right
//! under them. Probes reach into every corner of the tables: the first and last address of every
//! route, addresses without one, a packet into each deny rule and one just beside it; and over all
//! functions sizes, TCP and UDP with checksums and without, a time to live that is nearly used up,
//! and one long flow whose order must be kept.

mod gateway;

use crate::trace::TAIL;
use std::net::Ipv4Addr;
use weir_trial::Nf;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Route, Rule};
use weir_wire::tcp::flags;
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, TcpRepr, UdpRepr, ipv4};

/// Destination and source MAC address of a direction's frames, as they stand in a frame.
pub type Macs = [u8; 12];

/// Packets of the one long flow.
const LONG_FLOW: u16 = 256;
/// Least sizes in memory that hold a stamp behind each transport header.
const LEAST_UDP: usize = 60;
const LEAST_TCP: usize = 72;
/// Sizes in memory: the least, odd ones, powers of two with FCS, the greatest standard frame.
const SIZES: [usize; 8] = [LEAST_UDP, 61, 124, 251, 508, 1021, 1276, 1514];
/// Addresses that no table of a function holds.
const ELSEWHERE: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(198, 17, 255, 255),
    Ipv4Addr::new(198, 20, 0, 0),
    Ipv4Addr::new(203, 0, 113, 9),
];

/// One probe before it is bytes.
#[derive(Clone, Copy, Debug)]
struct Probe {
    macs: Macs,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    ports: (u16, u16),
    ttl: u8,
    /// Bytes in memory; raised to what a stamp needs.
    size: usize,
    /// Whether UDP carries a checksum; TCP always does.
    checksummed: bool,
    /// Whether TCP opens a connection: SYN alone; otherwise ACK alone.
    opens: bool,
}

impl Probe {
    /// A plain UDP packet of a direction, from one half of the test network to the other.
    fn of(direction: usize, macs: Macs) -> Self {
        let (near, far) = if direction == 0 { (18, 19) } else { (19, 18) };
        Self {
            macs,
            source: Ipv4Addr::new(198, near, 100, 1),
            destination: Ipv4Addr::new(198, far, 200, 1),
            protocol: ipv4::UDP,
            ports: (20_000, 9_000),
            ttl: 64,
            size: LEAST_UDP,
            checksummed: false,
            opens: false,
        }
    }

    /// The frame, ready for a stamp, which mends the transport's checksum.
    fn frame(self) -> Vec<u8> {
        let tcp = self.protocol == ipv4::TCP;
        let mut frame = TAIL[..self.size.max(if tcp { LEAST_TCP } else { LEAST_UDP })].to_vec();
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.macs;
        let (destination, source) = (MacAddress([a, b, c, d, e, f]), MacAddress([g, h, i, j, k, l]));
        EthernetRepr { destination, source, ether_type: EtherType::IPV4 }.emit(&mut frame);
        let (network, transport) = (EthernetRepr::BYTES, EthernetRepr::BYTES + Ipv4Repr::BYTES);
        let payload_len = (frame.len() - transport) as u16;
        let header = Ipv4Repr {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            ttl: self.ttl,
            payload_len,
        };
        header.emit(&mut frame[network..]);
        let (source, destination) = self.ports;
        if tcp {
            let tcp = TcpRepr {
                source,
                destination,
                sequence: 1,
                acknowledgement: u32::from(!self.opens),
                flags: if self.opens { flags::SYN } else { flags::ACK },
                window: u16::MAX,
            };
            tcp.emit(&mut frame[transport..], header.pseudo());
        } else {
            UdpRepr { source, destination, payload_len: payload_len - UdpRepr::BYTES as u16 }
                .emit(&mut frame[transport..]);
            if self.checksummed {
                // Any value but zero says that there is one; the stamp sets it right.
                frame[transport + weir_wire::udp::CHECKSUM] = 0xff;
            }
        }
        frame
    }
}

/// The probes of a function, a list for each direction; `macs` holds the addresses of each.
pub fn probes(nf: Nf, macs: &[Macs]) -> Vec<Vec<Vec<u8>>> {
    if let Some(pipeline) = nf.members().into_iter().find(|member| member.is_stateful()) {
        return gateway::pipeline(pipeline, macs.len());
    }
    let mut lists: Vec<Vec<Vec<u8>>> =
        macs.iter().enumerate().map(|(direction, macs)| general(Probe::of(direction, *macs))).collect();
    let mut asked: Vec<Nf> = Vec::new();
    for member in nf.members() {
        // The same function twice in a chain has nothing new to ask.
        if !asked.contains(&member) {
            of_tables(member, macs, &mut lists);
            asked.push(member);
        }
    }
    lists
}

/// Adds what one function's tables are asked.
fn of_tables(nf: Nf, macs: &[Macs], lists: &mut [Vec<Vec<u8>>]) {
    for ((direction, list), macs) in lists.iter_mut().enumerate().zip(macs) {
        list.extend(gateway::stations(
            nf,
            Probe { ports: (20_020, 9_000), ..Probe::of(direction, *macs) },
            direction,
        ));
    }
    for (number, route) in nf.routes().iter().enumerate() {
        // A packet that would leave by the port it came in by is no traffic of these directions.
        let direction = usize::from(1 - (route.port & 1));
        if let (Some(list), Some(macs)) = (lists.get_mut(direction), macs.get(direction)) {
            list.extend(into_route(Probe::of(direction, *macs), route, number));
        }
    }
    for (number, rule) in nf.rules().iter().enumerate().filter(|(_, rule)| rule.action == Action::Deny) {
        let reverse = rule.source.address().octets()[1] == 19 && macs.len() > 1;
        let direction = usize::from(reverse);
        let (Some(list), Some(macs)) = (lists.get_mut(direction), macs.get(direction)) else { continue };
        let inside = into_rule(Probe::of(direction, *macs), rule, number);
        list.extend([inside.frame(), beside(inside, rule, number).frame()]);
    }
}

/// What every function is asked.
fn general(plain: Probe) -> Vec<Vec<u8>> {
    let mut probes = Vec::new();
    for (number, size) in (0_u16..).zip(SIZES) {
        let port = 20_001 + number;
        probes.push(Probe { size, ports: (port, 9_001), ..plain });
        probes.push(Probe { size, ports: (port, 9_002), checksummed: true, ..plain });
        probes.push(Probe { size, ports: (port, 9_003), protocol: ipv4::TCP, ..plain });
    }
    probes.extend([2, 3, 128, 255].map(|ttl| Probe {
        ttl,
        ports: (20_010, 9_004 + u16::from(ttl)),
        ..plain
    }));
    probes.extend(ELSEWHERE.map(|destination| Probe { destination, ..plain }));
    probes.extend(std::iter::repeat_n(Probe { ports: (20_011, 9_500), ..plain }, usize::from(LONG_FLOW)));
    probes.into_iter().map(Probe::frame).collect()
}

/// The first and the last address of a route.
fn into_route(plain: Probe, route: &Route, number: usize) -> impl Iterator<Item = Vec<u8>> + use<> {
    let (first, last) = (route.prefix.address(), route.prefix.last());
    let protocol = if number.is_multiple_of(2) { ipv4::UDP } else { ipv4::TCP };
    let probe = move |destination| Probe { destination, protocol, ..plain }.frame();
    [Some(first), (last != first).then_some(last)].into_iter().flatten().map(probe)
}

/// A packet that a rule matches, at one edge of it or the other.
fn into_rule(plain: Probe, rule: &Rule, number: usize) -> Probe {
    let low = number.is_multiple_of(2);
    let address = |prefix: Ipv4Prefix| if low { prefix.address() } else { prefix.last() };
    let port = |ports: Ports, any: u16| match ports {
        Ports::Any => any,
        Ports::Range { first, .. } if low => first,
        Ports::Range { last, .. } => last,
    };
    Probe {
        source: address(rule.source),
        destination: address(rule.destination),
        protocol: rule.protocol.unwrap_or(ipv4::UDP),
        ports: (port(rule.source_ports, plain.ports.0), port(rule.destination_ports, plain.ports.1)),
        ..plain
    }
}

/// The same packet with one field just outside the rule. Another rule may deny it: the oracle knows.
fn beside(inside: Probe, rule: &Rule, number: usize) -> Probe {
    let outside = |ports: Ports, is: u16| match ports {
        Ports::Range { last, .. } if last < u16::MAX => last + 1,
        Ports::Range { first, .. } if first > 0 => first - 1,
        _ => is,
    };
    let after = |prefix: Ipv4Prefix| Ipv4Addr::from_bits(prefix.last().to_bits().wrapping_add(1));
    let (source, destination) = inside.ports;
    match number % 5 {
        0 => Probe { ports: (source, outside(rule.destination_ports, destination)), ..inside },
        1 => Probe { ports: (outside(rule.source_ports, source), destination), ..inside },
        2 => Probe { destination: after(rule.destination), ..inside },
        3 => Probe { source: after(rule.source), ..inside },
        _ if inside.protocol == ipv4::TCP => Probe { protocol: ipv4::UDP, ..inside },
        _ => Probe { protocol: ipv4::TCP, ..inside },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::StampSlot;
    use weir_trial::Oracle;
    use weir_trial::expected::{Expected, Reason};
    use weir_wire::Dissection;

    const MACS: [Macs; 2] = [[2; 12], [6; 12]];

    fn dispositions(nf: &str, macs: &[Macs]) -> Vec<Expected> {
        let nf: Nf = nf.parse().unwrap();
        let oracle = Oracle::new(nf);
        let lists = probes(nf, macs);
        let disposition = |(direction, list): (usize, &Vec<Vec<u8>>)| {
            list.iter().map(|frame| oracle.expected(direction as u8, frame)).collect::<Vec<_>>()
        };
        lists.iter().enumerate().flat_map(disposition).collect()
    }

    #[test]
    fn every_probe_is_a_whole_packet_that_can_be_stamped() {
        for nf in ["l2fwd", "l3fwd:10", "firewall:100", "l2:10", "pipeline-a:50", "pipeline-d:3"] {
            for frame in probes(nf.parse().unwrap(), &MACS).concat() {
                assert!(StampSlot::of(&frame).is_stampable(), "{:?}", Dissection::of(&frame));
                assert!((60..=1514).contains(&frame.len()));
            }
        }
    }

    #[test]
    fn every_deny_rule_is_hit_and_most_near_misses_pass() {
        for macs in [&MACS[..], &MACS[..1]] {
            let nf: Nf = "firewall:200".parse().unwrap();
            let dispositions = dispositions("firewall:200", macs);
            let denied: std::collections::HashSet<String> = dispositions
                .iter()
                .filter_map(|disposition| match disposition {
                    Expected::Drop(Reason::Denied(Some(rule))) => Some(rule.to_string()),
                    _ => None,
                })
                .collect();
            // A rule inside an earlier one is never the first that matches.
            assert!(denied.len() > 150 && denied.len() < nf.rules().len(), "{}", denied.len());
            let hits =
                dispositions.iter().filter(|disposition| matches!(disposition, Expected::Drop(_))).count();
            assert!((199..290).contains(&hits), "{hits} denied");
            assert!(dispositions.iter().all(|disposition| *disposition != Expected::Open));
        }
    }

    #[test]
    fn every_route_is_reached_at_both_ends_and_some_packets_have_none() {
        let nf: Nf = "l3fwd:1000".parse().unwrap();
        let reached: std::collections::HashSet<[u8; 4]> = probes(nf, &MACS)
            .concat()
            .iter()
            .map(|frame| [frame[30], frame[31], frame[32], frame[33]])
            .collect();
        for route in nf.routes() {
            assert!(reached.contains(&route.prefix.address().octets()), "{route}");
            assert!(reached.contains(&route.prefix.last().octets()), "{route}");
        }
        let none = dispositions("l3fwd:1000", &MACS)
            .iter()
            .filter(|disposition| **disposition == Expected::Drop(Reason::NoRoute))
            .count();
        assert_eq!(none, 2 * ELSEWHERE.len());
        // With one direction, what would leave by the port it came in by is left out.
        let out = |disposition: &Expected| !matches!(disposition, Expected::Forward { port: 0, .. });
        assert!(dispositions("l3fwd:1000", &MACS[..1]).iter().all(out));
    }
}

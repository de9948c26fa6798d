//! A stateless firewall: what the first matching rule allows goes to the port opposite, unchanged.
//!
//! Rules speak of IPv4 and nothing else, so what they cannot judge does not pass: other protocols
//! (ARP and VLAN-tagged frames among them) and invalid headers are dropped, each for its reason. The
//! header checksum is not looked at: the packet is not changed, and the next router looks. Packets
//! without ports (ICMP, later fragments) match only rules for any port; one that is cut off before
//! its ports is too short.
//!
//! Cost: that of the decision tree, which its module (`acl`) states for the whole firewall.

use crate::acl::{Acl, AclError, Point};
use crate::ipv4::{self, ETHERNET, HEADER};
use crate::verdict::{DropReason, NetworkFunction, Verdict, Verdicts, other_port};
use weir_dpdk::BURST;
use weir_wire::table::{Action, Rule, has_ports};

/// The function.
#[derive(Clone, Debug)]
pub struct Firewall {
    acl: Acl,
}

/// Bytes of the source and the destination port.
const PORTS_LENGTH: usize = 4;

impl Firewall {
    /// A firewall with these rules.
    pub fn new(rules: &[Rule]) -> Result<Self, AclError> {
        Ok(Self { acl: Acl::new(rules)? })
    }
}

/// The five fields, or why the rules cannot judge the packet.
#[inline]
fn point(frame: &[u8]) -> Result<Point, DropReason> {
    plain_point(frame).map_or_else(|| unusual_point(frame), Ok)
}

/// The five fields of a whole TCP or UDP datagram (or the like) without options.
#[inline]
fn plain_point(frame: &[u8]) -> Option<Point> {
    let header = frame.first_chunk::<HEADER>()?;
    let ports = frame.get(HEADER..)?.first_chunk::<PORTS_LENGTH>()?;
    let usual = ipv4::is_plain(header)
        & !ipv4::is_later_fragment(header)
        & (usize::from(ipv4::total_length(header)) >= HEADER - ETHERNET + PORTS_LENGTH)
        & has_ports(ipv4::protocol(header));
    let ports = (u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]]));
    usual.then(|| {
        Point::new(ipv4::source(header), ipv4::destination(header), ipv4::protocol(header), Some(ports))
    })
}

/// The fields of any valid IPv4 packet: with options, a fragment, or of a protocol without ports.
#[cold]
fn unusual_point(frame: &[u8]) -> Result<Point, DropReason> {
    let length = ipv4::header_length(frame)?;
    let header = frame.first_chunk().ok_or(DropReason::TooShort)?;
    let protocol = ipv4::protocol(header);
    let ports = if has_ports(protocol) && !ipv4::is_later_fragment(header) {
        let ports = frame[ETHERNET + length..].first_chunk::<PORTS_LENGTH>().ok_or(DropReason::TooShort)?;
        if usize::from(ipv4::total_length(header)) < length + PORTS_LENGTH {
            return Err(DropReason::TooShort);
        }
        Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
    } else {
        None
    };
    Ok(Point::new(ipv4::source(header), ipv4::destination(header), protocol, ports))
}

impl NetworkFunction for Firewall {
    #[inline]
    fn process<'a>(&self, port: u8, frames: impl Iterator<Item = &'a mut [u8]>, verdicts: &mut Verdicts) {
        let mut points = [Point::NOWHERE; BURST];
        let mut count = 0;
        for ((frame, verdict), place) in frames.zip(verdicts.iter_mut()).zip(&mut points) {
            (*place, *verdict) = match point(frame) {
                Ok(point) => (point, Verdict::forward(other_port(port))),
                Err(reason) => (Point::NOWHERE, Verdict::drop(reason)),
            };
            count += 1;
        }
        let mut actions = [Action::Allow; BURST];
        self.acl.classify(&points[..count], &mut actions[..count]);
        for (verdict, action) in verdicts.iter_mut().zip(&actions[..count]) {
            if *action == Action::Deny && *verdict == Verdict::forward(other_port(port)) {
                *verdict = Verdict::drop(DropReason::Denied);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv4::tests::{frame, mend};

    const LEFT: u32 = 0xc612_0001;
    const RIGHT: u32 = 0xc613_0001;

    fn verdict(rules: &[&str], frame: &mut [u8]) -> Verdict {
        let rules: Vec<_> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let mut verdicts = [Verdict::drop(DropReason::TransmitFull); BURST];
        Firewall::new(&rules).unwrap().process(1, std::iter::once(frame), &mut verdicts);
        verdicts[0]
    }

    const NO_DNS: [&str; 2] = ["deny udp 198.18.0.0/16 any 198.19.0.0/16 53", "allow any any any any any"];

    #[test]
    fn what_is_allowed_leaves_unchanged_by_the_port_opposite_and_what_is_denied_does_not() {
        let mut packet = frame(LEFT, RIGHT, 64, (1024, 54));
        let before = packet.clone();
        assert_eq!(verdict(&NO_DNS, &mut packet), Verdict::forward(0));
        assert_eq!(packet, before);
        let mut packet = frame(LEFT, RIGHT, 64, (1024, 53));
        assert_eq!(verdict(&NO_DNS, &mut packet), Verdict::drop(DropReason::Denied));
        let mut back = frame(RIGHT, LEFT, 64, (1024, 53));
        assert_eq!(verdict(&NO_DNS, &mut back), Verdict::forward(0));
    }

    #[test]
    fn what_no_rule_matches_is_denied() {
        let mut packet = frame(LEFT, RIGHT, 64, (1024, 53));
        assert_eq!(verdict(&["allow tcp any any any any"], &mut packet), Verdict::drop(DropReason::Denied));
    }

    #[test]
    fn later_fragments_and_protocols_without_ports_match_only_rules_for_any_port() {
        let mut fragment = frame(LEFT, RIGHT, 64, (1024, 53));
        fragment[21] = 1;
        mend(&mut fragment);
        assert_eq!(verdict(&NO_DNS, &mut fragment), Verdict::forward(0));
        let mut icmp = frame(LEFT, RIGHT, 64, (1024, 53));
        icmp[23] = 1;
        assert_eq!(verdict(&["allow any any any any 0-65535"], &mut icmp), Verdict::drop(DropReason::Denied));
        assert_eq!(verdict(&["allow icmp any any any any"], &mut icmp), Verdict::forward(0));
    }

    #[test]
    fn ports_are_found_behind_options() {
        let mut packet = frame(LEFT, RIGHT, 64, (0, 0));
        packet[14] = 0x46;
        packet[34..38].copy_from_slice(&[1, 1, 1, 0]);
        packet[38..42].copy_from_slice(&[4, 0, 0, 53]);
        mend(&mut packet);
        assert_eq!(verdict(&NO_DNS, &mut packet), Verdict::drop(DropReason::Denied));
    }

    #[test]
    fn what_the_rules_cannot_judge_is_dropped_for_its_reason() {
        type Change = fn(&mut Vec<u8>);
        let cases: [(Change, DropReason); 6] = [
            (Vec::clear, DropReason::TooShort),
            (|f| f.truncate(37), DropReason::TooShort),
            (|f| f[16..18].copy_from_slice(&[0, 23]), DropReason::TooShort),
            (|f| f[12..14].copy_from_slice(&[0x08, 0x06]), DropReason::NotIpv4),
            (|f| f[12..14].copy_from_slice(&[0x81, 0x00]), DropReason::NotIpv4),
            (|f| f[14] = 0x43, DropReason::BadHeader),
        ];
        for (change, reason) in cases {
            let mut packet = frame(LEFT, RIGHT, 64, (1024, 54));
            change(&mut packet);
            assert_eq!(verdict(&NO_DNS, &mut packet), Verdict::drop(reason));
        }
    }
}

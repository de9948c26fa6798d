//! Transport headers with their checksums.

use crate::field::Field;
use crate::key::Key;
use crate::neighbour::Neighbour;
use crate::protocol::{ICMP, ICMPV6, IPV4, IPV6, SCTP, TCP, UDP};
use weir_wire::checksum::{finish, sum, udp_nonzero};
use weir_wire::crc32c::crc32c;

/// A packet of a protocol, by the sum of the addresses it goes between. Protocols without fields are
/// their payload; a packet that is too short for its header is empty.
pub(super) fn packet(key: &Key, protocol: u8, payload: &[u8], addresses: u32) -> Vec<u8> {
    let is = |ether_type: u16| key.ether_type() == ether_type;
    let ports = key.ports().to_be_bytes();
    let has_fields = matches!(protocol, TCP | UDP | SCTP)
        || (protocol == ICMP && is(IPV4))
        || (protocol == ICMPV6 && is(IPV6));
    if has_fields && key.is_cut() {
        return Vec::new();
    }
    let mut packet = Vec::with_capacity(64 + payload.len());
    let checksum_at = match protocol {
        TCP => {
            let flags = (5 << 12) | Field::TcpFlags.get(key) as u16;
            packet.extend(ports);
            packet.extend([0; 8]);
            packet.extend(flags.to_be_bytes());
            packet.extend([0xff, 0xff, 0, 0, 0, 0]);
            16
        }
        UDP => {
            packet.extend(ports);
            packet.extend(((8 + payload.len()) as u16).to_be_bytes());
            packet.extend([0, 0]);
            6
        }
        SCTP => {
            packet.extend(ports);
            packet.extend([0; 8]);
            packet.extend(payload);
            let crc = crc32c(&packet);
            packet[8..12].copy_from_slice(&crc.to_le_bytes());
            return packet;
        }
        ICMP if is(IPV4) => return icmp(key, payload),
        ICMPV6 if is(IPV6) => {
            icmpv6(key, &mut packet);
            2
        }
        _ => return payload.to_vec(),
    };
    if protocol != ICMPV6 || !is_neighbour(key) {
        packet.extend(payload);
    }
    let total = addresses + u32::from(protocol) + packet.len() as u32 + sum(&packet);
    let field = if protocol == UDP { udp_nonzero(finish(total)) } else { finish(total) };
    packet[checksum_at..checksum_at + 2].copy_from_slice(&field.to_be_bytes());
    packet
}

/// Type and code.
fn kind(key: &Key) -> [u8; 2] {
    [Field::IcmpType.get(key) as u8, Field::IcmpCode.get(key) as u8]
}

fn is_neighbour(key: &Key) -> bool {
    let [kind, code] = kind(key);
    Neighbour::is(kind, code)
}

fn icmp(key: &Key, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::from(kind(key));
    packet.extend([0; 6]);
    packet.extend(payload);
    let field = finish(sum(&packet));
    packet[2..4].copy_from_slice(&field.to_be_bytes());
    packet
}

fn icmpv6(key: &Key, packet: &mut Vec<u8>) {
    packet.extend(kind(key));
    packet.extend([0; 6]);
    if is_neighbour(key) {
        packet.extend(Field::NdTarget.get(key).to_be_bytes());
        for (option, field) in [(1, Field::NdSll), (2, Field::NdTll)] {
            if field.get(key) != 0 {
                packet.extend([option, 1]);
                packet.extend(super::mac(key, field));
            }
        }
    }
}

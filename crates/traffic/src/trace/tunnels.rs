//! `vxlan:N`: flows inside VXLAN tunnels (RFC 7348).
//!
//! Each frame is one of `flows:N` behind 50 bytes of a tunnel: Ethernet, IPv4, UDP to port 4789 and VXLAN. Tunnels are
//! [`ENDPOINTS`] pairs of endpoints (fewer where there are fewer flows), and successive flows are of successive tunnels; within
//! a tunnel a flow has a virtual network and a source port of the tunnel's UDP of its own, as section 5 asks of a hash of what is
//! inside: so a device that does not look into tunnels sees N flows as well. UDP's checksum outside is zero, as the section says
//! it should be; the one inside is right, and mended by the stamp.
//!
//! Sizes are those of the frame on the wire, tunnel included. Options of MAC addresses and VLAN are the tunnel's. In
//! direction 1 both ends change sides, inside and outside, and the tunnel's port is its destination's again.

use super::synthetic::{
    Flow, PORT_0_MAC, PORT_1_MAC, Template, destination_address, ipv4_of, source_address,
};
use super::table::TableBuilder;
use super::{Direction, FrameTable, Sizes, TAIL, TraceError, TraceName, TraceSpec};
use crate::stamp::StampSlot;
use weir_units::FrameSize;
use weir_wire::{Ipv4Repr, UdpRepr, ipv4};

/// UDP port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4_789;
/// Most flows: each has a frame of its own in memory.
pub(super) const MOST_TUNNELED: u32 = 65_536;

/// Their size where none is asked for, and the least, without a VLAN tag.
pub(super) const USUAL_SIZE: FrameSize = size(128);
/// See [`USUAL_SIZE`].
pub(super) const LEAST_SIZE: FrameSize = size(114);

/// Pairs of tunnel endpoints.
const ENDPOINTS: u32 = 100;
/// Virtual networks of a tunnel.
const NETWORKS: u32 = 1_000;
/// First source port of a tunnel's UDP: those of RFC 6335's dynamic range, as section 5 recommends.
const FIRST_PORT: u16 = 49_152;
/// The VXLAN header: flags, of which one says that a network stands there, and the network.
const HEADER: usize = 8;
const HAS_NETWORK: u8 = 0x08;

const fn size(bytes: u32) -> FrameSize {
    match FrameSize::new(bytes) {
        Ok(size) => size,
        Err(_) => FrameSize::MIN,
    }
}

/// Builds a trace of so many flows.
pub(super) fn build(spec: &TraceSpec, flows: u32) -> Result<FrameTable, TraceError> {
    let template = Template::of(spec)?;
    let link = template.link_bytes();
    let outside = link + Ipv4Repr::BYTES + UdpRepr::BYTES + HEADER;
    let least = outside as u16 + FrameSize::MIN.bytes();
    let inside = match spec.sizes {
        Sizes::Fixed(size) if size.bytes() >= least => size.bytes() - outside as u16,
        _ => return Err(spec.wrong_sizes(&format!("{least} to {}", FrameSize::MAX))),
    };
    let mut builder = TableBuilder::with_own_bytes();
    for k in 0..flows {
        let (head, len, slot) = Template::default().udp(&turned(inner(template, k, flows), spec), inside);
        let head_len = head.0.len().min(usize::from(len));
        let mut frame = vec![0; outside];
        tunnel(template, spec, (k, flows), (&mut frame, len));
        frame.extend_from_slice(&head.0[..head_len]);
        frame.extend_from_slice(&TAIL[..usize::from(len) - head_len]);
        builder.push_stamped(&frame, behind(slot, outside as u16));
    }
    Ok(builder.build().expect("a trace has at least one flow"))
}

/// The flow inside, in direction 0.
fn inner(template: Template, k: u32, flows: u32) -> Flow {
    template.flow(Flow::of(&TraceName::Flows(flows), k))
}

/// A flow as a direction has it.
fn turned(flow: Flow, spec: &TraceSpec) -> Flow {
    if spec.direction == Direction::Forward { flow } else { flow.mirrored() }
}

/// Writes the headers of flow `k`'s tunnel in front of so many bytes.
fn tunnel(template: Template, spec: &TraceSpec, (k, flows): (u32, u32), (frame, len): (&mut [u8], u16)) {
    let pairs = ENDPOINTS.min(flows);
    let (pair, within) = (k % pairs, k / pairs);
    let ends = Flow {
        source_mac: PORT_0_MAC,
        destination_mac: PORT_1_MAC,
        source: source_address(pair, pairs),
        destination: destination_address(pair, pairs),
        source_port: VXLAN_PORT,
        destination_port: VXLAN_PORT,
    };
    let ends = turned(template.flow(ends), spec);
    let network = template.link_bytes();
    template.write_link(&ends, frame);
    let payload_len = HEADER as u16 + len;
    ipv4_of(&ends, ipv4::UDP, UdpRepr::BYTES as u16 + payload_len).emit(&mut frame[network..]);
    let udp = network + Ipv4Repr::BYTES;
    let source = FIRST_PORT + (within % u32::from(u16::MAX - FIRST_PORT + 1)) as u16;
    UdpRepr { source, destination: VXLAN_PORT, payload_len }.emit(&mut frame[udp..]);
    let vxlan = &mut frame[udp + UdpRepr::BYTES..][..HEADER];
    vxlan[0] = HAS_NETWORK;
    vxlan[4..].copy_from_slice(&((1 + within % NETWORKS) << 8).to_be_bytes());
}

/// A slot that stands so many bytes further back, an even number of them.
fn behind(slot: StampSlot, by: u16) -> StampSlot {
    match slot {
        StampSlot::Checksum { at, partial, odd, udp } => {
            StampSlot::Checksum { at: at + by, partial, odd, udp }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::{Stamp, key};
    use weir_wire::{Dissection, checksum, udp};

    fn table(name: &str, size: u32, direction: Direction) -> FrameTable {
        let spec = TraceSpec::parse(name).unwrap().sizes(FrameSize::new(size).unwrap()).direction(direction);
        spec.build_table().unwrap()
    }

    /// The frame inside, and the flow, port and network outside.
    fn opened(frame: &[u8]) -> (Vec<u8>, (u16, u32)) {
        let outer = Dissection::of(frame);
        let (network, transport) = (outer.network.unwrap(), outer.transport.unwrap());
        assert_eq!((network.end, transport.destination), (frame.len(), VXLAN_PORT));
        assert_eq!(frame[40..42], [0, 0], "no checksum outside");
        assert_eq!(frame[42], 0x08);
        let vni = u32::from_be_bytes([0, frame[46], frame[47], frame[48]]);
        (frame[50..].to_vec(), (transport.source, vni))
    }

    #[test]
    fn what_is_inside_are_the_flows_of_flows_n_and_each_has_one_outside() {
        for direction in Direction::BOTH {
            let table = table("vxlan:5000", 200, direction);
            assert_eq!((table.len(), table.uniform_len()), (5000, Some(196)));
            let (mut inside, mut outside) =
                (std::collections::HashSet::new(), std::collections::HashSet::new());
            for place in 0..table.len() {
                let frame = table.frame(place).to_vec();
                let (inner, by) = opened(&frame);
                let (outer, dissected) = (Dissection::of(&frame), Dissection::of(&inner));
                let (outer, network) = (outer.network.unwrap(), dissected.network.unwrap());
                assert_eq!(network.end, inner.len());
                assert!((49_152..=u16::MAX).contains(&by.0) && (1..=1000).contains(&by.1));
                inside.insert((network.source, network.destination));
                outside.insert((outer.source, outer.destination, by));
            }
            assert_eq!((inside.len(), outside.len()), (5000, 5000));
        }
    }

    #[test]
    fn a_stamp_mends_the_checksum_inside_and_the_ends_change_sides_with_the_direction() {
        for size in [114, 115, 1500] {
            let mut ends = Vec::new();
            for direction in Direction::BOTH {
                let table = table("vxlan:3", size, direction);
                let (mut frame, slot) = table.made(1, 0);
                assert!(slot.stamp(&mut frame, Stamp { trial: 1, sequence: 2, tsc: 3 }));
                let (inner, _) = opened(&frame);
                let found = Dissection::of(&inner).network.unwrap();
                let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) =
                    (found.source, found.destination)
                else {
                    panic!("IPv4")
                };
                let segment = &inner[34..];
                let pseudo = checksum::pseudo_ipv4(source, destination, ipv4::UDP, segment.len() as u16);
                assert_ne!(segment[udp::CHECKSUM..][..2], [0, 0]);
                assert_eq!(checksum::finish(pseudo + checksum::sum(segment)), 0, "{size}");
                assert_eq!(Stamp::read(&frame, key()), Some(Stamp { trial: 1, sequence: 2, tsc: 3 }));
                let outer = Dissection::of(&frame).network.unwrap();
                ends.push([(source.into(), destination.into()), (outer.source, outer.destination)]);
            }
            assert_eq!(ends[1], ends[0].map(|(source, destination)| (destination, source)));
        }
    }

    #[test]
    fn frames_too_small_for_a_tunnel_and_mixes_are_refused() {
        let refused = |size: &str| {
            let spec = TraceSpec::parse("vxlan:10").unwrap().sizes(size.parse::<Sizes>().unwrap());
            spec.build_table().unwrap_err().to_string()
        };
        for size in ["64", "113", "imix"] {
            assert!(refused(size).contains("114 to 9022"), "{}", refused(size));
        }
    }
}

//! Cutting a frame that stands for several packets, as a network card would (TSO; RFC 9293, RFC 768).
//!
//! A sender in this machine leaves cutting to the hardware, and a virtual interface has none; a receiving
//! card joins packets of a flow (GRO). Both hand over one frame with one header and the payload of all.

use std::net::IpAddr;
use weir_dpdk::Offload;
use weir_wire::{Dissection, checksum};

/// Kinds of cutting (`VIRTIO_NET_HDR_GSO_*`), and the bit beside them.
const TCPV4: u8 = 1;
const TCPV6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// IP protocols.
const TCP_PROTOCOL: u8 = 6;
const UDP_PROTOCOL: u8 = 17;

/// FIN and PSH belong to the last segment, CWR to the first.
const LAST_ONLY: u8 = 0x09;
const FIRST_ONLY: u8 = 0x80;

/// A frame, and where it is cut.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    frame: &'a [u8],
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// Where the IP header, the transport header, its checksum and the payload begin.
    network: usize,
    transport: usize,
    checksum: usize,
    payload: usize,
    /// Bytes of payload in each but the last.
    step: usize,
}

impl<'a> Segments<'a> {
    /// How to cut it; nothing where it is one packet, or not of a kind that is cut here (such as one within
    /// a tunnel).
    pub(super) fn of(frame: &'a [u8], offload: Offload) -> Option<Self> {
        let wanted = match offload.cut & !ECN {
            TCPV4 | TCPV6 => TCP_PROTOCOL,
            UDP => UDP_PROTOCOL,
            _ => return None,
        };
        let Dissection { network: Some(network), transport: Some(transport), .. } = Dissection::of(frame)
        else {
            return None;
        };
        let begins = offload.checksum.is_none_or(|(start, _)| usize::from(start) == transport.offset);
        let right =
            begins && network.protocol == wanted && offload.payload > 0 && transport.payload < frame.len();
        right.then_some(Self {
            frame,
            source: network.source,
            destination: network.destination,
            protocol: wanted,
            network: network.offset,
            transport: transport.offset,
            checksum: transport.checksum,
            payload: transport.payload,
            step: usize::from(offload.payload),
        })
    }

    /// How many packets come of it.
    pub(super) fn count(&self) -> usize {
        (self.frame.len() - self.payload).div_ceil(self.step)
    }

    /// Bytes of one of them.
    pub(super) fn len(&self, number: usize) -> usize {
        let from = self.payload + number * self.step;
        self.payload + self.step.min(self.frame.len() - from)
    }

    /// Bytes of the longest.
    pub(super) fn longest(&self) -> usize {
        self.len(0)
    }

    /// Writes one of them; `into` is as long as it.
    pub(super) fn write(&self, number: usize, into: &mut [u8]) {
        let from = self.payload + number * self.step;
        let (headers, payload) = into.split_at_mut(self.payload);
        headers.copy_from_slice(&self.frame[..self.payload]);
        payload.copy_from_slice(&self.frame[from..from + payload.len()]);
        self.write_network(number, into);
        self.write_transport(number, into);
    }

    fn write_network(&self, number: usize, into: &mut [u8]) {
        let len = into.len() - self.network;
        let header = &mut into[self.network..self.transport];
        if self.source.is_ipv4() {
            let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(number as u16);
            header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            header[4..6].copy_from_slice(&id.to_be_bytes());
            header[10..12].fill(0);
            let sum = checksum::checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            header[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
    }

    fn write_transport(&self, number: usize, into: &mut [u8]) {
        let len = into.len() - self.transport;
        let field = self.checksum - self.transport;
        let is_last = number + 1 == self.count();
        let body = &mut into[self.transport..];
        if self.protocol == TCP_PROTOCOL {
            let sequence = u32::from_be_bytes([body[4], body[5], body[6], body[7]]);
            let sequence = sequence.wrapping_add((number * self.step) as u32);
            body[4..8].copy_from_slice(&sequence.to_be_bytes());
            body[13] &= !(if is_last { 0 } else { LAST_ONLY } | if number == 0 { 0 } else { FIRST_ONLY });
        } else {
            body[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        }
        body[field..field + 2].fill(0);
        let pseudo = match (self.source, self.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => checksum::pseudo_ipv4(from, to, self.protocol, len as u16),
            (IpAddr::V6(from), IpAddr::V6(to)) => checksum::pseudo_ipv6(from, to, self.protocol, len as u32),
            _ => 0, // both are read of one header
        };
        let sum = checksum::finish(pseudo + u32::from(checksum::fold(checksum::sum(body))));
        let sum = if self.protocol == UDP_PROTOCOL { checksum::udp_nonzero(sum) } else { sum };
        body[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

    /// A frame of so many bytes of payload, by another library, checksum and all.
    fn build(v6: bool, tcp: bool, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let builder = if v6 {
            builder.ipv6([1; 16], [2; 16], 64)
        } else {
            builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let mut frame = Vec::new();
        if tcp {
            let builder = builder.tcp(1000, 80, 0xffff_f000, 1024).ack(7).psh().fin();
            builder.write(&mut frame, payload).unwrap();
        } else {
            builder.udp(1000, 53).write(&mut frame, payload).unwrap();
        }
        frame
    }

    #[test]
    fn a_frame_is_cut_into_packets_that_another_library_finds_right() {
        let payload: Vec<u8> = (0..40_000_u32).map(|at| (at * 7 % 251) as u8).collect();
        for (v6, tcp, kind) in
            [(false, true, TCPV4 | ECN), (true, true, TCPV6), (false, false, UDP), (true, false, UDP)]
        {
            let frame = build(v6, tcp, &payload);
            let start = frame.len() - payload.len() - if tcp { 20 } else { 8 };
            let offload = Offload { checksum: Some((start as u16, 16)), cut: kind, payload: 1448 };
            let cut = Segments::of(&frame, offload).unwrap();
            assert_eq!(cut.count(), 28);
            let (mut joined, mut ids) = (Vec::new(), Vec::new());
            for number in 0..cut.count() {
                let mut packet = vec![0; cut.len(number)];
                cut.write(number, &mut packet);
                // It checks every length and the IPv4 header's checksum.
                let sliced = SlicedPacket::from_ethernet(&packet).unwrap();
                let net = sliced.net.unwrap();
                let part = match sliced.transport.unwrap() {
                    TransportSlice::Tcp(slice) => {
                        let header = slice.to_header();
                        assert_eq!(header.sequence_number, 0xffff_f000_u32.wrapping_add(joined.len() as u32));
                        let is_last = number + 1 == cut.count();
                        assert_eq!((header.fin, header.psh, header.ack), (is_last, is_last, true));
                        let (right, payload) = (slice.checksum(), slice.payload().to_vec());
                        let wanted = if let Some(v4) = net.ipv4_ref() {
                            ids.push(v4.header().identification());
                            header.calc_checksum_ipv4(&v4.header().to_header(), &payload)
                        } else {
                            let v6 = net.ipv6_ref().unwrap().header().to_header();
                            header.calc_checksum_ipv6(&v6, &payload)
                        };
                        assert_eq!(right, wanted.unwrap());
                        payload
                    }
                    TransportSlice::Udp(slice) => {
                        let (header, payload) = (slice.to_header(), slice.payload().to_vec());
                        assert_eq!(usize::from(header.length), payload.len() + 8);
                        let wanted = if let Some(v4) = net.ipv4_ref() {
                            header.calc_checksum_ipv4(&v4.header().to_header(), &payload)
                        } else {
                            header.calc_checksum_ipv6(&net.ipv6_ref().unwrap().header().to_header(), &payload)
                        };
                        assert_eq!(header.checksum, wanted.unwrap());
                        payload
                    }
                    other => panic!("{other:?}"),
                };
                if let Some(v4) = net.ipv4_ref() {
                    let header = v4.header().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum());
                    assert_eq!(usize::from(header.total_len), packet.len() - 14);
                }
                joined.extend(part);
            }
            assert!(joined == payload, "{kind}");
            assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }
    }

    #[test]
    fn what_is_one_packet_or_of_another_kind_is_not_cut() {
        let frame = build(false, true, &[1; 3000]);
        let offload = Offload { checksum: Some((34, 16)), cut: TCPV4, payload: 1000 };
        assert_eq!(Segments::of(&frame, offload).unwrap().count(), 3);
        for wrong in [
            Offload { cut: 0, ..offload },
            Offload { cut: 3, ..offload },
            Offload { cut: UDP, ..offload },
            Offload { payload: 0, ..offload },
            // Of a packet within a tunnel.
            Offload { checksum: Some((84, 16)), ..offload },
        ] {
            assert!(Segments::of(&frame, wrong).is_none(), "{wrong:?}");
        }
        for len in 0..54 {
            assert!(Segments::of(&frame[..len], offload).is_none(), "{len}");
        }
    }
}

//! What SoftFlow's gateway (pipelines A, B and C) and a switch of MAC addresses make of a packet.
//!
//! A connection lives in the device; the oracle has no memory. It knows instead how the lab opens
//! connections: over UDP, from [`CLIENT_PORTS`], and before any answer is sent. So a UDP packet is an answer
//! when its mirror image is one that the list allows to open a connection from such a port. What a
//! device makes of TCP in the middle of a connection that it did not see opened, no description says; of traffic in which
//! each connection begins with its SYN ([`super::Oracle::opened`]) segments are judged as datagrams are.

use super::{Expected, Reason, Rules, Steps, ipv4_of};
use crate::Nf;
use crate::nf::{Backend, CLIENT_PORTS, Network, Station};
use rustc_hash::FxHashMap;
use std::net::Ipv4Addr;
use weir_wire::table::{Action, FiveTuple, Rule};
use weir_wire::{Dissection, EthernetRepr, Ipv4View, TcpView, checksum, ipv4, tcp, udp};

/// The tables of a gateway, prepared.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    nf: Nf,
    stations: FxHashMap<[u8; 6], u8>,
    networks: Steps<bool>,
    /// Those behind each port.
    backends: [Vec<Backend>; 2],
    /// Whether TCP connections are opened before anything else of them comes.
    pub(super) opened: bool,
}

impl Gateway {
    pub(super) fn new(nf: Nf) -> Self {
        let stations = nf.stations().into_iter().map(|Station { mac, port }| (mac, port));
        let networks = nf.networks().into_iter().map(|Network { prefix, leads }| (prefix, leads));
        Self {
            nf,
            stations: stations.collect(),
            networks: Steps::new(networks),
            backends: [0, 1].map(|port| nf.backends(port)),
            opened: false,
        }
    }

    /// The port of the frame's station, if it may leave by it.
    pub(super) fn switched(&self, in_port: u8, frame: &[u8]) -> Result<u8, Reason> {
        let station = frame.first_chunk::<6>().and_then(|mac| self.stations.get(mac));
        match station {
            None => Err(Reason::UnknownStation),
            Some(port) if *port == in_port => Err(Reason::SamePort),
            Some(port) => Ok(*port),
        }
    }

    /// What pipelines A, B and C make of a frame.
    pub(super) fn passed(&self, rules: &Rules, in_port: u8, frame: &[u8]) -> Expected {
        let Some(tuple) = super::five_tuple(frame) else { return Expected::Open };
        if frame.first_chunk::<6>().is_none_or(|mac| !self.stations.contains_key(mac)) {
            return Expected::Drop(Reason::UnknownStation);
        }
        if self.networks.find(tuple.destination) != Some(true) {
            return Expected::Drop(Reason::NoRoute);
        }
        match self.admitted(rules, &tuple, frame) {
            Admission::Passes => {}
            Admission::Unsaid => return Expected::Open,
            Admission::Denied(rule) => return Expected::Drop(Reason::Denied(rule)),
        }
        match self.nf {
            Nf::PipelineC { .. } => self.balanced(in_port, frame),
            Nf::PipelineB { .. } => self.forwarded(in_port, translated(frame)),
            _ => self.forwarded(in_port, frame.to_vec()),
        }
    }

    /// What pipelines A and B make of a frame of a connection.
    pub(super) fn connected(&self, in_port: u8, frame: &[u8]) -> Expected {
        match self.nf {
            Nf::PipelineB { .. } => self.forwarded(in_port, translated(frame)),
            _ => self.forwarded(in_port, frame.to_vec()),
        }
    }

    /// Whether both ends of a flow lie in networks that lead somewhere.
    pub(super) fn leads_both_ways(&self, flow: &FiveTuple) -> bool {
        [flow.source, flow.destination].iter().all(|end| self.networks.find(*end) == Some(true))
    }

    /// Whether what the firewall lets through is an answer that no rule allows to open a connection.
    pub(super) fn only_answers(&self, rules: &Rules, frame: &[u8]) -> bool {
        let Some(tuple) = super::five_tuple(frame) else { return false };
        let allowed = rules.find(&tuple).is_some_and(|rule| rule.action == Action::Allow);
        !allowed && matches!(self.admitted(rules, &tuple, frame), Admission::Passes)
    }

    /// What the firewall says.
    fn admitted(&self, rules: &Rules, tuple: &FiveTuple, frame: &[u8]) -> Admission {
        // Trackers may find port 0 invalid, which is reserved (RFC 6335, section 6), or may not.
        if tuple.ports.is_some_and(|(source, destination)| source == 0 || destination == 0) {
            return Admission::Unsaid;
        }
        let rule = rules.find(tuple);
        let allowed = |rule: Option<&Rule>| rule.is_some_and(|rule| rule.action == Action::Allow);
        let follows = tuple.protocol != ipv4::TCP || (self.opened && !is_first_segment(frame));
        let opens = follows || is_first_segment(frame);
        // What it answers was routed as well.
        let answers = tuple.ports.is_some_and(|(_, client)| CLIENT_PORTS.contains(&client))
            && self.networks.find(tuple.source) == Some(true)
            && allowed(rules.find(&mirrored(tuple)));
        match (allowed(rule), answers) {
            (true, _) if opens => Admission::Passes,
            (_, true) if follows && has_answers(tuple.protocol) => Admission::Passes,
            (true, _) | (_, true) => Admission::Unsaid,
            (false, false) => Admission::Denied(rule.copied()),
        }
    }

    fn forwarded(&self, in_port: u8, frame: Vec<u8>) -> Expected {
        match self.switched(in_port, &frame) {
            Ok(port) => Expected::Forward { port, frame },
            Err(reason) => Expected::Drop(reason),
        }
    }

    /// To any backend of the far side.
    fn balanced(&self, in_port: u8, frame: &[u8]) -> Expected {
        let port = super::other(in_port);
        let to = |backend: &Backend| {
            let mut frame = frame.to_vec();
            frame[..6].copy_from_slice(&backend.mac);
            redirect(&mut frame, backend.address);
            frame
        };
        Expected::OneOf { port, frames: self.backends[usize::from(port)].iter().map(to).collect() }
    }
}

/// What the firewall says.
enum Admission {
    Passes,
    Denied(Option<Rule>),
    Unsaid,
}

/// The same flow seen from the other side.
fn mirrored(tuple: &FiveTuple) -> FiveTuple {
    FiveTuple {
        protocol: tuple.protocol,
        source: tuple.destination,
        destination: tuple.source,
        ports: tuple.ports.map(|(source, destination)| (destination, source)),
    }
}

/// Whether what answers a packet of this protocol can be told.
const fn has_answers(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP)
}

/// Whether a TCP segment opens a connection: SYN, and neither ACK, RST nor FIN (RFC 9293, section 3.5).
fn is_first_segment(frame: &[u8]) -> bool {
    use tcp::flags::{ACK, FIN, RST, SYN};
    let segment = ipv4_of(frame).and_then(|datagram| Ipv4View::checked(datagram).ok());
    let view = segment.and_then(|header| TcpView::checked(header.payload()).ok());
    view.is_some_and(|segment| segment.flags() & (SYN | ACK | RST | FIN) == SYN)
}

/// Encrypted, and on its way into the net of the address translation. All checksums hold.
fn translated(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let found = Dissection::of(&frame);
    if let Some((network, transport)) = found.network.zip(found.transport) {
        let end = network.end.min(frame.len());
        weir_cipher::encrypt(&mut frame[transport.payload..end]);
    }
    let Some(header) = ipv4_of(&frame).and_then(|datagram| Ipv4View::checked(datagram).ok()) else {
        return frame;
    };
    let [_, b, c, d] = header.destination().octets();
    redirect(&mut frame, Ipv4Addr::new(crate::nf::NAT_OCTET, b, c, d));
    frame
}

/// Sets the destination of an IPv4 packet; the header's checksum and that of UDP or TCP are computed
/// anew, but for a UDP checksum of zero, which says that there is none (RFC 768).
fn redirect(frame: &mut [u8], destination: Ipv4Addr) {
    let at = EthernetRepr::BYTES;
    let Ok(header) = Ipv4View::checked(&frame[at..]) else { return };
    let (source, protocol, transport) = (header.source(), header.protocol(), at + header.header_len());
    let end = (at + usize::from(header.total_len())).min(frame.len());
    let first = header.fragment_offset() == 0;
    frame[at + 16..at + 20].copy_from_slice(&destination.octets());
    rewrite(&mut frame[at..transport], ipv4::field::CHECKSUM, 0, |sum| sum);
    let segment = &mut frame[transport..end];
    let length = segment.len() as u16;
    let pseudo = checksum::pseudo_ipv4(source, destination, protocol, length);
    match protocol {
        ipv4::TCP if first => rewrite(segment, tcp::CHECKSUM, pseudo, |sum| sum),
        ipv4::UDP if first && segment.get(udp::CHECKSUM..udp::CHECKSUM + 2) != Some(&[0, 0]) => {
            rewrite(segment, udp::CHECKSUM, pseudo, checksum::udp_nonzero);
        }
        _ => {}
    }
}

/// Computes the checksum at `at` anew over the bytes and what stands before them.
fn rewrite(bytes: &mut [u8], at: usize, before: u32, finish: impl Fn(u16) -> u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.fill(0);
        let sum = finish(checksum::finish(before + checksum::sum(bytes)));
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

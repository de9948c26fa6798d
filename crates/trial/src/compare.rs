//! Comparing a packet that came out with what the network function must produce, fault by fault.
//!
//! A packet may be wrong in several ways at once; each is named. Padding behind an IP packet, which
//! only fills the least Ethernet frame, belongs to nobody and is not compared.

use crate::expected::{Expected, Reason, flow, with_source};
use crate::{Fault, PacketCheck};
use std::collections::HashMap;
use std::fmt::Write as _;
use weir_wire::table::FiveTuple;
use weir_wire::{Dissection, EthernetRepr, EthernetView, Ipv4View, ipv4};

/// Names everything that is wrong with a packet that came out by a port; nothing when it is right.
/// Each fault comes with its example: the flow, what was there, what must be.
pub fn compare(expected: &Expected, came: &[u8], port: u8) -> Vec<(Fault, String)> {
    let mut found = Vec::new();
    let mut find = |fault: Fault, what: String| found.push((fault, format!("{}: {what}", describe(came))));
    match expected {
        Expected::Open => {}
        Expected::Drop(reason) => {
            find(fault_of(*reason), format!("{reason}, and it left by port {port}"));
        }
        Expected::Forward { port: out, frame } => forwarded(frame, came, (*out, port), &mut find),
        Expected::Translated { port: out, frame, public: (first, last) } => {
            let source = flow(came).and_then(|flow| Some((flow.source, flow.ports?.0)));
            let Some((address, source_port)) = source else {
                return vec![(Fault::Header, format!("{}: it has no source port any more", describe(came)))];
            };
            if !(*first..=*last).contains(&address) {
                find(Fault::Header, format!("source address {address}, must be {first} to {last}"));
                return found;
            }
            forwarded(&with_source(frame, (address, source_port)), came, (*out, port), &mut find);
        }
        Expected::OneOf { port: out, frames } => {
            // Named after the one it went to; after the first, where it went to none of them.
            if let Some(frame) = frames.get(choice(frames, came).unwrap_or(0)) {
                forwarded(frame, came, (*out, port), &mut find);
            }
        }
    }
    found
}

/// What is wrong with a packet that must be this frame, and leave by the first of two ports.
fn forwarded(frame: &[u8], came: &[u8], (out, port): (u8, u8), find: &mut impl FnMut(Fault, String)) {
    if out != port {
        find(Fault::Port, format!("left by port {port}, must leave by port {out}"));
    }
    let end = Dissection::of(frame).network.map_or(frame.len(), |network| network.end.min(frame.len()));
    if came.len() > frame.len() || came.len() < end {
        find(Fault::Length, format!("{} B came, {} B must", came.len(), frame.len()));
    } else {
        link(frame, came, out == port, find);
        inside(&frame[..end], &came[..end], find);
    }
}

/// Which of the frames that a packet may be it is, by its destination address.
fn choice(frames: &[Vec<u8>], came: &[u8]) -> Option<usize> {
    let destination = |frame: &[u8]| Dissection::of(frame).network.map(|network| network.destination);
    let came = destination(came)?;
    frames.iter().position(|frame| destination(frame) == Some(came))
}

/// Whether all packets of a flow become the same, where any of several would be right.
#[derive(Clone, Debug, Default)]
pub struct Steadiness {
    /// Of each flow, which of the frames it may be.
    choices: HashMap<(usize, FiveTuple), usize>,
    /// Of each flow, the source that it was given, and whose each flow outside is.
    sources: HashMap<FiveTuple, (std::net::Ipv4Addr, u16)>,
    taken: HashMap<FiveTuple, FiveTuple>,
}

impl Steadiness {
    /// Notes what became of a packet of this flow (as it was sent, in a direction); the fault where
    /// an earlier one went elsewhere.
    pub fn note(
        &mut self,
        direction: usize,
        sent: Option<FiveTuple>,
        expected: &Expected,
        came: &[u8],
    ) -> Option<(Fault, String)> {
        let frames = match expected {
            Expected::OneOf { frames, .. } => frames,
            Expected::Translated { .. } => return self.translated(sent?, came),
            _ => return None,
        };
        let is = choice(frames, came)?;
        let was = *self.choices.entry((direction, sent?)).or_insert(is);
        let what = || format!("{}: its flow went to backend {was} before, now to {is}", describe(came));
        (was != is).then(|| (Fault::Header, what()))
    }
}

impl Steadiness {
    /// The source that a flow was given is its own for good, and no other's towards the same server.
    fn translated(&mut self, sent: FiveTuple, came: &[u8]) -> Option<(Fault, String)> {
        let outside = flow(came)?;
        let is = (outside.source, outside.ports?.0);
        let was = *self.sources.entry(sent).or_insert(is);
        if was != is {
            let (address, port) = was;
            let what = format!("{}: its flow had source {address}:{port} before", describe(came));
            return Some((Fault::Header, what));
        }
        let owner = *self.taken.entry(outside).or_insert(sent);
        let what = || format!("{}: the flow from {} has that source, too", describe(came), owner.source);
        (owner != sent).then(|| (Fault::Header, what()))
    }
}

/// Notes in `check` a packet that was compared, with all its faults.
pub fn note(check: &mut PacketCheck, faults: Vec<(Fault, String)>) {
    check.compared += 1;
    for (fault, example) in faults {
        check.note(fault, || example);
    }
}

/// The fault of a packet that must not have come out.
const fn fault_of(reason: Reason) -> Fault {
    match reason {
        Reason::Denied(_) | Reason::Entry(_) | Reason::NoEntry | Reason::NoConnection => Fault::Denied,
        Reason::NoRoute | Reason::UnknownStation | Reason::SamePort => Fault::Port,
        Reason::Expired => Fault::Ttl,
        Reason::BadChecksum => Fault::Checksum,
        Reason::BadHeader => Fault::Header,
    }
}

/// The MAC addresses; those of a wrong port are that port's fault.
fn link(must: &[u8], came: &[u8], port_is_right: bool, find: &mut impl FnMut(Fault, String)) {
    let (Ok(must), Ok(came)) = (EthernetView::checked(must), EthernetView::checked(came)) else { return };
    for (name, is, should) in
        [("destination", came.destination(), must.destination()), ("source", came.source(), must.source())]
    {
        if is != should && port_is_right {
            return find(Fault::Macs, format!("{name} MAC address {is}, must be {should}"));
        }
    }
}

/// Everything behind the MAC addresses, of packets of equal length.
fn inside(must: &[u8], came: &[u8], find: &mut impl FnMut(Fault, String)) {
    const MACS: usize = 12;
    let found = Dissection::of(must);
    let Some(network) = found.network else {
        // No IP: the EtherType or tags are its header, the rest its payload.
        let header = (EthernetRepr::BYTES + 4 * found.tags).min(must.len());
        return parts(must, came, &[(MACS, header, "EtherType or tag")], header, find);
    };
    let payload = found.transport.map_or_else(
        || network.offset + Ipv4View::checked(&must[network.offset..]).map_or(0, Ipv4View::header_len),
        |transport| transport.payload,
    );
    let mut fields = vec![(MACS, network.offset, "EtherType or tag")];
    let Ok(header) = Ipv4View::checked(&must[network.offset..]) else {
        fields.push((network.offset, payload, "IPv6 or transport header"));
        return parts(must, came, &fields, payload, find);
    };
    let at = |from: usize, to: usize, name: &'static str| (network.offset + from, network.offset + to, name);
    fields.extend([
        at(0, 1, "version or header length"),
        at(1, 2, "type of service"),
        at(2, 4, "total length"),
        at(4, 6, "identification"),
        at(6, 8, "flags or fragment offset"),
        at(9, 10, "protocol"),
        at(12, 16, "source address"),
        at(16, 20, "destination address"),
        at(20, header.header_len(), "IPv4 options"),
    ]);
    if let Some(transport) = found.transport {
        let name = if network.protocol == ipv4::UDP { "UDP length" } else { "TCP header" };
        fields.extend([
            (transport.offset, transport.offset + 2, "source port"),
            (transport.offset + 2, transport.offset + 4, "destination port"),
            (transport.offset + 4, transport.checksum, name),
            (transport.checksum, transport.checksum + 2, "transport checksum"),
            (transport.checksum + 2, transport.payload, "TCP header"),
        ]);
    }
    let ttl = network.offset + ipv4::field::TTL;
    if came[ttl] != must[ttl] {
        find(Fault::Ttl, format!("time to live {}, must be {}", came[ttl], must[ttl]));
    }
    let same = |from: usize, to: usize| came[from..to] == must[from..to];
    let end = network.offset + header.header_len();
    let checksum = network.offset + ipv4::field::CHECKSUM;
    // A changed field breaks the checksum too; that is one fault, and the field's.
    let rest_is_right = same(network.offset, ttl) && same(ttl + 1, checksum) && same(checksum + 2, end);
    if let Ok(view) = Ipv4View::checked(&came[network.offset..])
        && rest_is_right
        && match came[ttl] == must[ttl] {
            // Zero has two forms, and a sum in either holds (RFC 1624, section 3).
            true => {
                view.checksum() != header.checksum()
                    && !(header.checksum_is_right() && view.checksum_is_right())
            }
            false => header.checksum_is_right() && !view.checksum_is_right(),
        }
    {
        let (is, should) = (view.checksum(), header.checksum());
        find(Fault::Checksum, format!("header checksum {is:#06x} does not hold, must be {should:#06x}"));
    }
    parts(must, came, &fields, payload, find);
}

/// The first field that differs, and the first byte of the payload that does.
fn parts(
    must: &[u8],
    came: &[u8],
    fields: &[(usize, usize, &'static str)],
    payload: usize,
    find: &mut impl FnMut(Fault, String),
) {
    let differs = |&&(from, to, _): &&(usize, usize, &str)| {
        from < to && to <= must.len() && came[from..to] != must[from..to]
    };
    if let Some((from, to, name)) = fields.iter().find(differs) {
        let (is, should) = (hex(&came[*from..*to]), hex(&must[*from..*to]));
        find(Fault::Header, format!("{name} is {is}, must be {should}"));
    }
    if let Some(at) = (payload.min(must.len())..must.len()).find(|at| came[*at] != must[*at]) {
        let many = (at..must.len()).filter(|at| came[*at] != must[*at]).count();
        let (is, should) = (came[at], must[at]);
        let what = format!("byte {at} of the frame is {is:#04x}, must be {should:#04x} ({many} B differ)");
        find(Fault::Payload, what);
    }
}

/// Bytes in hexadecimal, the first twenty of them.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes.iter().take(20) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A packet in a few words, so that it can be found: `UDP 198.18.0.1:1024 > 198.19.0.1:9000, 60 B`.
pub fn describe(frame: &[u8]) -> String {
    let found = Dissection::of(frame);
    let bytes = frame.len();
    let Some(network) = found.network else {
        return format!("frame of EtherType {:#06x}, {bytes} B", found.ether_type.0);
    };
    let protocol = match network.protocol {
        ipv4::UDP => "UDP".to_owned(),
        ipv4::TCP => "TCP".to_owned(),
        number => format!("IP protocol {number}"),
    };
    match found.transport {
        Some(transport) => format!(
            "{protocol} {}:{} > {}:{}, {bytes} B",
            network.source, transport.source, network.destination, transport.destination
        ),
        None => format!("{protocol} {} > {}, {bytes} B", network.source, network.destination),
    }
}

/// Whether a frame is an ICMP message by which a router reports what it did not forward (RFC 792):
/// destination unreachable, redirect, time exceeded. A router may send them (RFC 1812, section 4.3),
/// though the tester did not.
pub fn is_router_report(frame: &[u8]) -> bool {
    const ICMP: u8 = 1;
    let Some(network) = Dissection::of(frame).network.filter(|network| network.protocol == ICMP) else {
        return false;
    };
    let Ok(header) = Ipv4View::checked(&frame[network.offset..]) else { return false };
    matches!(header.payload().first(), Some(3 | 5 | 11))
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;

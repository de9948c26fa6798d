//! The packets of a connection as templates: all that is the same in the packets of many connections is laid out and
//! summed up once, so that a packet costs a copy, a few words and two checksums.

use weir_wire::{EthernetRepr, Ipv4Repr, TcpRepr, checksum, ipv4, tcp};

/// Bytes of a frame: the least of Ethernet, without FCS.
pub(super) const BYTES: usize = 60;
/// Bytes of payload that such a frame holds behind its headers.
pub(super) const PAYLOAD: usize = BYTES - TRANSPORT - TcpRepr::BYTES;

const NETWORK: usize = EthernetRepr::BYTES;
const TRANSPORT: usize = NETWORK + Ipv4Repr::BYTES;
const IP_CHECKSUM: usize = NETWORK + ipv4::field::CHECKSUM;
const TCP_CHECKSUM: usize = TRANSPORT + tcp::CHECKSUM;
const SEQUENCE: usize = TRANSPORT + 4;
const ACKNOWLEDGEMENT: usize = TRANSPORT + 8;
const FLAGS: usize = TRANSPORT + 13;
/// Version and header length of an IPv4 header without options.
const PLAIN: u8 = 0x45;

/// A packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    Syn,
    SynAck,
    Ack,
    Request,
    Answer,
    Fin,
    FinAck,
    LastAck,
    /// The client's.
    Reset,
    /// The server's.
    ResetBack,
}

impl Step {
    pub(super) const ALL: [Self; 10] = [
        Self::Syn,
        Self::SynAck,
        Self::Ack,
        Self::Request,
        Self::Answer,
        Self::Fin,
        Self::FinAck,
        Self::LastAck,
        Self::Reset,
        Self::ResetBack,
    ];

    /// The port by which it enters the device: the client is behind 0, the server behind 1.
    pub(super) const fn from(self) -> u8 {
        match self {
            Self::SynAck | Self::Answer | Self::FinAck | Self::ResetBack => 1,
            _ => 0,
        }
    }

    const fn flags(self) -> u8 {
        use tcp::flags::{ACK, FIN, RST, SYN};
        match self {
            Self::Syn => SYN,
            Self::SynAck => SYN | ACK,
            Self::Ack | Self::Request | Self::Answer | Self::LastAck => ACK,
            Self::Fin | Self::FinAck => FIN | ACK,
            Self::Reset | Self::ResetBack => RST | ACK,
        }
    }

    const fn payload(self) -> usize {
        match self {
            Self::Request | Self::Answer => PAYLOAD,
            _ => 0,
        }
    }

    /// What it adds to the first sequence numbers of its sender and of the other end. A connection that is held is
    /// answered without a request, and reset from where it stands.
    pub(super) const fn numbers(self, held: bool) -> (u32, u32) {
        let request = if held { 0 } else { PAYLOAD as u32 };
        let answer = PAYLOAD as u32;
        match self {
            Self::Syn => (0, 0),
            Self::SynAck => (0, 1),
            Self::Ack | Self::Request => (1, 1),
            Self::Answer => (1, 1 + request),
            Self::Fin => (1 + request, 1 + answer),
            Self::FinAck => (1 + answer, 2 + request),
            Self::LastAck => (2 + request, 2 + answer),
            Self::Reset => (1, 1 + answer),
            Self::ResetBack => (1 + answer, 1 + request),
        }
    }

    /// The resets of both ends of a connection of which this packet came last, that of its sender first: each with what it adds
    /// to its end's first sequence number, and to the other's in what it acknowledges; nothing where that end has heard nothing.
    /// The sender's is exact for whoever saw this packet, which a tracker that let it through did (RFC 5961, section 3.2).
    pub(super) const fn resets(self, held: bool) -> [(Self, u32, Option<u32>); 2] {
        let (sent, seen) = self.numbers(held);
        let flagged = matches!(self, Self::Syn | Self::SynAck | Self::Fin | Self::FinAck) as u32;
        let next = sent + self.payload() as u32 + flagged;
        let acknowledged = if matches!(self, Self::Syn) { None } else { Some(seen) };
        match self.from() {
            0 => [(Self::Reset, next, acknowledged), (Self::ResetBack, seen, Some(next))],
            _ => [(Self::ResetBack, next, acknowledged), (Self::Reset, seen, Some(next))],
        }
    }
}

/// The ends of many connections: what only differs in the client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) macs: [[u8; 6]; 2],
    pub(super) addresses: [std::net::Ipv4Addr; 2],
    /// The server's port.
    pub(super) service: u16,
}

/// What differs from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// The client's port.
    pub(super) port: u16,
    /// The client's address, where it is not that of the template.
    pub(super) address: Option<u32>,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
}

/// A packet without what differs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    bytes: [u8; BYTES],
    /// Where the datagram ends: what is behind it is padding.
    end: usize,
    /// Sums of what the checksums cover, without what differs.
    header: u32,
    segment: u32,
    /// The client's address in it, and where it and the client's port stand.
    client: u32,
    address_at: usize,
    port_at: usize,
}

/// The whole frame of a step between two ends, the client's port and all numbers zero.
pub(super) fn blank(step: Step, ends: &Ends) -> [u8; BYTES] {
    let (near, far) = if step.from() == 0 { (0, 1) } else { (1, 0) };
    let ports = [0, ends.service];
    let payload = step.payload();
    let mut bytes = [0; BYTES];
    EthernetRepr {
        destination: weir_wire::MacAddress(ends.macs[far]),
        source: weir_wire::MacAddress(ends.macs[near]),
        ether_type: weir_wire::EtherType::IPV4,
    }
    .emit(&mut bytes);
    let header = Ipv4Repr {
        source: ends.addresses[near],
        destination: ends.addresses[far],
        protocol: ipv4::TCP,
        ttl: crate::trace::synthetic::TTL,
        payload_len: (TcpRepr::BYTES + payload) as u16,
    };
    header.emit(&mut bytes[NETWORK..]);
    let end = TRANSPORT + TcpRepr::BYTES + payload;
    bytes[TRANSPORT + TcpRepr::BYTES..end].copy_from_slice(&b"weir 4"[..payload.min(6)]);
    let segment = TcpRepr {
        source: ports[near],
        destination: ports[far],
        sequence: 0,
        acknowledgement: 0,
        flags: step.flags(),
        window: u16::MAX,
    };
    segment.emit(&mut bytes[TRANSPORT..end], header.pseudo());
    bytes
}

impl Template {
    /// Of a frame that [`blank`] made, or that a function made of one; the client is the end that sent it, or the other.
    /// Nothing where it is no plain TCP over IPv4 of this length.
    pub(super) fn of(frame: &[u8], client_sends: bool) -> Option<Self> {
        let mut bytes = *frame.first_chunk::<BYTES>().filter(|_| frame.len() == BYTES)?;
        if bytes[NETWORK] != PLAIN || bytes[NETWORK + ipv4::field::PROTOCOL] != ipv4::TCP {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([bytes[NETWORK + 2], bytes[NETWORK + 3]]));
        let end = (NETWORK + total <= BYTES && total >= 40).then_some(NETWORK + total)?;
        let (address_at, port_at) = match client_sends {
            true => (NETWORK + ipv4::field::SOURCE, TRANSPORT),
            false => (NETWORK + ipv4::field::DESTINATION, TRANSPORT + 2),
        };
        let client = u32::from_be_bytes(*bytes[address_at..].first_chunk()?);
        for (at, length) in
            [(address_at, 4), (port_at, 2), (SEQUENCE, 8), (IP_CHECKSUM, 2), (TCP_CHECKSUM, 2)]
        {
            bytes[at..at + length].fill(0);
        }
        let addresses = checksum::sum(&bytes[NETWORK + ipv4::field::SOURCE..TRANSPORT]);
        let length = (end - TRANSPORT) as u32;
        Some(Self {
            end,
            header: checksum::sum(&bytes[NETWORK..TRANSPORT]),
            segment: addresses + u32::from(ipv4::TCP) + length + checksum::sum(&bytes[TRANSPORT..end]),
            client,
            address_at,
            port_at,
            bytes,
        })
    }

    /// The client's address as the template has it.
    #[cfg(test)]
    pub(super) fn client(&self) -> u32 {
        self.client
    }

    /// Writes the packet.
    #[inline]
    pub(super) fn write(&self, own: Own, out: &mut [u8; BYTES]) {
        *out = self.bytes;
        let client = own.address.unwrap_or(self.client);
        let halves = |word: u32| (word >> 16) + (word & 0xffff);
        out[self.address_at..self.address_at + 4].copy_from_slice(&client.to_be_bytes());
        out[self.port_at..self.port_at + 2].copy_from_slice(&own.port.to_be_bytes());
        out[SEQUENCE..SEQUENCE + 4].copy_from_slice(&own.sequence.to_be_bytes());
        out[ACKNOWLEDGEMENT..ACKNOWLEDGEMENT + 4].copy_from_slice(&own.acknowledgement.to_be_bytes());
        let header = checksum::finish(self.header + halves(client));
        out[IP_CHECKSUM..IP_CHECKSUM + 2].copy_from_slice(&header.to_be_bytes());
        let numbers = halves(own.sequence) + halves(own.acknowledgement);
        let segment = checksum::finish(self.segment + halves(client) + u32::from(own.port) + numbers);
        out[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&segment.to_be_bytes());
    }

    /// Whether a packet is this one, its padding aside.
    #[inline]
    pub(super) fn is(&self, own: Own, came: &[u8]) -> bool {
        let mut must = [0; BYTES];
        self.write(own, &mut must);
        came.len() >= self.end && came.len() <= BYTES && came[..self.end] == must[..self.end]
    }
}

/// What a packet that came says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) source: (u32, u16),
    pub(super) destination: (u32, u16),
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) payload: usize,
}

impl Said {
    /// Reads plain TCP over IPv4; nothing of anything else.
    #[inline]
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<{ TRANSPORT + TcpRepr::BYTES }>()?;
        let is_tcp = head[12..14] == [8, 0]
            && head[NETWORK] == PLAIN
            && head[NETWORK + ipv4::field::PROTOCOL] == ipv4::TCP;
        let long = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let payload = usize::from(word(NETWORK + 2)).checked_sub(Ipv4Repr::BYTES + TcpRepr::BYTES)?;
        is_tcp.then(|| Self {
            source: (long(NETWORK + ipv4::field::SOURCE), word(TRANSPORT)),
            destination: (long(NETWORK + ipv4::field::DESTINATION), word(TRANSPORT + 2)),
            sequence: long(SEQUENCE),
            acknowledgement: long(ACKNOWLEDGEMENT),
            flags: head[FLAGS],
            payload,
        })
    }

    /// Which packet of a connection it is, by its flags and what it carries, coming from a port; that the client's two
    /// bare acknowledgements are one or the other only its numbers say.
    #[inline]
    pub(super) fn step(&self, from: u8, last: bool) -> Option<Step> {
        use tcp::flags::{ACK, FIN, RST, SYN};
        Some(match (from, self.flags & (SYN | ACK | FIN | RST), self.payload > 0) {
            (0, SYN, false) => Step::Syn,
            (0, ACK, false) if last => Step::LastAck,
            (0, ACK, false) => Step::Ack,
            (0, ACK, true) => Step::Request,
            (0, flags, false) if flags == FIN | ACK => Step::Fin,
            (0, flags, false) if flags == RST | ACK => Step::Reset,
            (1, flags, false) if flags == SYN | ACK => Step::SynAck,
            (1, ACK, true) => Step::Answer,
            (1, flags, false) if flags == FIN | ACK => Step::FinAck,
            (1, flags, false) if flags == RST | ACK => Step::ResetBack,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Ipv4View, TcpView};

    pub(crate) const ENDS: Ends = Ends {
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        addresses: [std::net::Ipv4Addr::new(198, 18, 0, 7), std::net::Ipv4Addr::new(198, 19, 3, 4)],
        service: 443,
    };

    #[test]
    fn every_step_is_whole_with_both_checksums_and_says_what_it_is() {
        for (step, address) in
            Step::ALL.into_iter().flat_map(|step| [(step, None), (step, Some(0xcb00_7105))])
        {
            let template = Template::of(&blank(step, &ENDS), step.from() == 0).unwrap();
            let own = Own { port: 54_321, address, sequence: 0xfffe_dcba, acknowledgement: 0x8765_4321 };
            let mut out = [0; BYTES];
            template.write(own, &mut out);
            let header = Ipv4View::checked(&out[NETWORK..]).unwrap();
            assert!(header.checksum_is_right(), "{step:?}");
            let payload = header.payload();
            let length = payload.len() as u16;
            let pseudo = checksum::pseudo_ipv4(header.source(), header.destination(), ipv4::TCP, length);
            assert_eq!(checksum::finish(pseudo + checksum::sum(payload)), 0, "{step:?}");
            let segment = TcpView::checked(payload).unwrap();
            assert_eq!((segment.sequence(), segment.acknowledgement()), (0xfffe_dcba, 0x8765_4321));
            let said = Said::read(&out).unwrap();
            assert_eq!(said.step(step.from(), step == Step::LastAck), Some(step));
            let client = if step.from() == 0 { said.source } else { said.destination };
            assert_eq!(client, (address.unwrap_or(template.client()), 54_321));
            assert!(template.is(own, &out) && !template.is(Own { sequence: 1, ..own }, &out));
        }
    }

    #[test]
    fn resets_stand_where_the_last_packet_left_both_ends() {
        use Step::{Ack, Answer, Fin, Request, Reset, ResetBack, Syn, SynAck};
        let carried = PAYLOAD as u32;
        for (step, held, resets) in [
            (Syn, false, [(Reset, 1, None), (ResetBack, 0, Some(1))]),
            (SynAck, false, [(ResetBack, 1, Some(1)), (Reset, 1, Some(1))]),
            (Ack, true, [(Reset, 1, Some(1)), (ResetBack, 1, Some(1))]),
            (Request, false, [(Reset, 1 + carried, Some(1)), (ResetBack, 1, Some(1 + carried))]),
            (
                Answer,
                false,
                [(ResetBack, 1 + carried, Some(1 + carried)), (Reset, 1 + carried, Some(1 + carried))],
            ),
            (
                Fin,
                false,
                [(Reset, 2 + carried, Some(1 + carried)), (ResetBack, 1 + carried, Some(2 + carried))],
            ),
        ] {
            assert_eq!(step.resets(held), resets, "{step:?}");
        }
    }

    #[test]
    fn what_is_no_plain_tcp_is_no_template_and_says_nothing() {
        let mut frame = blank(Step::Syn, &ENDS);
        frame[NETWORK + ipv4::field::PROTOCOL] = ipv4::UDP;
        assert!(Template::of(&frame, true).is_none() && Said::read(&frame).is_none());
        assert!(Template::of(&frame[..59], true).is_none());
        assert!(Said::read(&[0; 20]).is_none());
    }
}

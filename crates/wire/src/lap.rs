//! Laps: the packets of a trace as templates and their order, for a source that makes each packet when it is sent.
//!
//! What: a *template* is the first 64 bytes of a frame ([`Head`]) and its length; what follows is a payload pattern that all
//! share ([`TAIL`]). A lap is a list of templates' numbers, four bytes a packet, so that seven million packets of
//! 175,000 connections take 60 MB and no packet buffer. [`PortTurns`] gives the connections of each lap client ports of their own:
//! a device that is sent the same lap again and again meets new connections each time.
//!
//! The file: [`MAGIC`], then little-endian numbers: templates and packets (32 bits each), where the client's port and the transport header
//! stand, the first client port and how many there are (16 bits each; all 0 where ports stay), the answers that a lap begins with (32 bits);
//! then the heads, 64 bytes each, their frames' lengths (16 bits each, without FCS), and the order (32 bits a packet). A file is read
//! whole, and everything in it is checked before a packet is made.
//!
//! Cost: a template is one cache line; turning a port is one addition to it and one to its checksum. Threads: plain data.

use crate::{EthernetRepr, Ipv4Repr, checksum, ipv4};
use std::io::{Read, Write};
use std::sync::Arc;
use weir_units::{FCS_BYTES, FrameSize};

/// Bytes of a frame that stand in its head.
pub const HEAD_BYTES: usize = 64;

/// Longest frame in memory, in bytes.
const LONGEST: usize = FrameSize::MAX.without_fcs() as usize;
/// Shortest one.
const SHORTEST: u16 = FrameSize::MIN.bytes() - FCS_BYTES;

/// The payload pattern of generated frames: byte `i` of a tail is `i mod 256`.
pub static TAIL: [u8; LONGEST] = pattern();

const fn pattern() -> [u8; LONGEST] {
    let mut bytes = [0; LONGEST];
    let mut i = 0;
    while i < LONGEST {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
}

/// How a file begins.
pub const MAGIC: [u8; 8] = *b"weirlap1";

/// The first bytes of a frame: one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub struct Head(pub [u8; HEAD_BYTES]);

/// How the client ports of a lap's connections change from lap to lap.
///
/// Lap `n` moves every client port on by `n` times a step, round from the last to the first: two connections of a lap stay apart, and
/// a port comes again after as many laps as there are ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTurns {
    /// Where the client's port stands in every frame, in bytes.
    pub at: u16,
    /// Where the transport header begins, behind an IPv4 header without options.
    pub transport: u16,
    /// The first client port.
    pub first: u16,
    /// How many there are.
    pub count: u16,
    /// Packets at the beginning of a lap that belong to connections of the lap before.
    pub trail: u32,
}

/// A prime that divides no number of ports that anybody uses.
const STEP: u64 = 12_553;

impl PortTurns {
    /// By how much the ports of a lap, counted from 0, are moved on.
    #[inline]
    pub fn turn(&self, lap: u64) -> u16 {
        (lap % u64::from(self.count.max(1)) * STEP % u64::from(self.count.max(1))) as u16
    }

    /// The lap, counted from 0, to whose connections a packet belongs. The very first answers answer nothing.
    #[inline]
    pub fn lap_of(&self, lap: u64, place: usize) -> u64 {
        lap.saturating_sub(u64::from(place < self.trail as usize))
    }

    /// A client port, moved on.
    #[inline]
    pub fn turned(&self, port: u16, turn: u16) -> u16 {
        let on = u32::from(port) + u32::from(turn);
        let end = u32::from(self.first) + u32::from(self.count);
        (if on >= end { on - u32::from(self.count) } else { on }) as u16
    }

    /// The client's port in a frame; nothing where the frame ends before it.
    pub fn port(&self, frame: &[u8]) -> Option<u16> {
        let at = usize::from(self.at);
        frame.get(at..at + 2)?.first_chunk().copied().map(u16::from_be_bytes)
    }

    /// Whether a port is one of the clients'.
    pub fn is_client(&self, port: u16) -> bool {
        port.checked_sub(self.first).is_some_and(|over| over < self.count)
    }

    /// Moves the client's port of a frame on, and mends the checksum of TCP or UDP. Returns the port before and after; nothing, and
    /// the frame as it was, where it is too short.
    #[inline]
    pub fn apply(&self, frame: &mut [u8], turn: u16) -> Option<(u16, u16)> {
        let old = self.port(frame)?;
        let new = self.turned(old, turn);
        self.put(frame, old, new)?;
        Some((old, new))
    }

    /// The same to a given port.
    #[inline]
    pub fn put(&self, frame: &mut [u8], old: u16, new: u16) -> Option<()> {
        let transport = usize::from(self.transport);
        let is_udp = frame.get(transport - Ipv4Repr::BYTES + ipv4::field::PROTOCOL) == Some(&ipv4::UDP);
        let sum = transport + if is_udp { crate::udp::CHECKSUM } else { crate::tcp::CHECKSUM };
        let field = u16::from_be_bytes(*frame.get(sum..sum + 2)?.first_chunk()?);
        if !(is_udp && field == 0) {
            let mended = checksum::update_u16(field, old, new);
            let mended = if is_udp { checksum::udp_nonzero(mended) } else { mended };
            frame[sum..sum + 2].copy_from_slice(&mended.to_be_bytes());
        }
        let at = usize::from(self.at);
        frame.get_mut(at..at + 2)?.copy_from_slice(&new.to_be_bytes());
        Some(())
    }

    /// Fails on what no frame's header can be.
    fn check(&self) -> Result<(), LapError> {
        let least = (EthernetRepr::BYTES + Ipv4Repr::BYTES) as u16;
        let fits = self.transport >= least
            && usize::from(self.transport) + crate::tcp::CHECKSUM + 2 <= HEAD_BYTES
            && [self.transport, self.transport + 2].contains(&self.at);
        if fits && self.count > 0 && self.first.checked_add(self.count - 1).is_some() {
            return Ok(());
        }
        Err(LapError::Damaged("where it says that client ports stand, no frame has any".to_owned()))
    }
}

/// Why a file is no lap.
#[derive(Debug, thiserror::Error)]
pub enum LapError {
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It begins otherwise.
    #[error("it is no lap of templates: it does not begin with `weirlap1`")]
    NotALap,
    /// It contradicts itself.
    #[error("it is damaged: {0}; write it again")]
    Damaged(String),
}

/// A lap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lap {
    heads: Arc<[Head]>,
    lens: Arc<[u16]>,
    order: Vec<u32>,
    turns: Option<PortTurns>,
}

impl Lap {
    /// A lap of these templates, in this order.
    ///
    /// # Errors
    /// No packet, an order that names no template, a length that no frame has.
    pub fn new(
        heads: Vec<Head>,
        lens: Vec<u16>,
        order: Vec<u32>,
        turns: Option<PortTurns>,
    ) -> Result<Self, LapError> {
        let damaged = |why: &str| Err(LapError::Damaged(why.to_owned()));
        if order.is_empty() || heads.len() != lens.len() {
            return damaged("it has no packet, or not a length for each template");
        }
        if order.iter().any(|number| *number as usize >= heads.len()) {
            return damaged("its order names a template that it has not");
        }
        if lens.iter().any(|len| *len < SHORTEST || usize::from(*len) > LONGEST) {
            return damaged("a template has a length that no frame has");
        }
        turns.iter().try_for_each(PortTurns::check)?;
        Ok(Self { heads: heads.into(), lens: lens.into(), order, turns })
    }

    /// Packets.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Never true for a lap; a part of one ([`Self::part`]) may be empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The length of the longest frame, in bytes without FCS.
    pub fn longest(&self) -> u16 {
        self.order.iter().map(|number| self.lens[*number as usize]).max().unwrap_or(0)
    }

    /// The packets whose templates are chosen, in their order: a queue's share.
    #[must_use]
    pub fn part(&self, chosen: impl Fn(&[u8]) -> bool) -> Self {
        let takes: Vec<bool> = self.heads.iter().map(|head| chosen(&head.0)).collect();
        let takes = |number: &u32| takes[*number as usize];
        let trail =
            |trail: u32| self.order.iter().take(trail as usize).filter(|number| takes(number)).count() as u32;
        let turns = self.turns.map(|turns| PortTurns { trail: trail(turns.trail), ..turns });
        let order = self.order.iter().copied().filter(|number| takes(number)).collect();
        Self { heads: Arc::clone(&self.heads), lens: Arc::clone(&self.lens), order, turns }
    }

    /// Writes the lap.
    ///
    /// # Errors
    /// The system's reason.
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let none = PortTurns { at: 0, transport: 0, first: 0, count: 0, trail: 0 };
        let PortTurns { at, transport, first, count, trail } = self.turns.unwrap_or(none);
        out.write_all(&MAGIC)?;
        for number in [self.heads.len() as u32, self.order.len() as u32] {
            out.write_all(&number.to_le_bytes())?;
        }
        for number in [at, transport, first, count] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(&trail.to_le_bytes())?;
        self.heads.iter().try_for_each(|head| out.write_all(&head.0))?;
        self.lens.iter().try_for_each(|len| out.write_all(&len.to_le_bytes()))?;
        self.order.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
    }

    /// Reads a lap of a file of so many bytes.
    ///
    /// # Errors
    /// What is no lap, or contradicts itself.
    pub fn read(input: &mut impl Read, bytes: u64) -> Result<Self, LapError> {
        let mut magic = [0; MAGIC.len()];
        let begun = input.read_exact(&mut magic);
        if begun.is_err() || magic != MAGIC {
            return Err(LapError::NotALap);
        }
        let mut fields = [0; FIELDS];
        input.read_exact(&mut fields)?;
        let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| fields[at + byte]));
        let short = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
        let (templates, packets) = (long(0), long(4));
        let wanted = (MAGIC.len() + FIELDS) as u64
            + u64::from(templates) * (HEAD_BYTES as u64 + 2)
            + u64::from(packets) * 4;
        if wanted != bytes {
            let why = format!(
                "{templates} templates and {packets} packets take {wanted} bytes, and it has {bytes}"
            );
            return Err(LapError::Damaged(why));
        }
        let turns = PortTurns {
            at: short(8),
            transport: short(10),
            first: short(12),
            count: short(14),
            trail: long(16),
        };
        let mut take = |bytes: usize| {
            let mut taken = vec![0; bytes];
            input.read_exact(&mut taken).map(|()| taken)
        };
        let heads = take(templates as usize * HEAD_BYTES)?;
        let heads = heads.as_chunks::<HEAD_BYTES>().0.iter().map(|head| Head(*head)).collect();
        let lens = take(templates as usize * 2)?;
        let lens = lens.as_chunks::<2>().0.iter().map(|len| u16::from_le_bytes(*len)).collect();
        let order = take(packets as usize * 4)?;
        let order = order.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect();
        Self::new(heads, lens, order, Some(turns).filter(|turns| turns.count > 0))
    }
}

/// Bytes of a file's numbers behind its [`MAGIC`].
const FIELDS: usize = 20;

/// Walks a lap, round and round.
#[derive(Debug)]
pub struct LapCursor {
    lap: Lap,
    next: usize,
    laps: u64,
    /// How far the ports of this lap's connections are moved on, and those of the lap before.
    turn: [u16; 2],
}

impl LapCursor {
    /// At the first packet.
    pub fn new(lap: Lap) -> Self {
        Self { lap, next: 0, laps: 0, turn: [0; 2] }
    }

    /// Packets of this lap that are left.
    pub fn left(&self) -> usize {
        self.lap.len() - self.next
    }

    /// The lap.
    pub fn lap(&self) -> &Lap {
        &self.lap
    }

    /// The heads of the packets behind the next so many, as many: to be fetched while those are made.
    #[inline]
    pub fn ahead(&self, count: usize) -> impl Iterator<Item = &Head> {
        let numbers = self.lap.order.iter().skip(self.next + count).take(count);
        numbers.map(|number| &self.lap.heads[*number as usize])
    }

    /// The length of the next packet; the first one's behind the last. There is one: an empty lap has no cursor that is asked.
    #[inline]
    pub fn next_len(&mut self) -> u16 {
        if self.next == self.lap.len() {
            self.next = 0;
            self.laps += 1;
            if let Some(turns) = &self.lap.turns {
                self.turn = [turns.turn(self.laps), self.turn[0]];
            }
        }
        self.lap.lens[self.lap.order[self.next] as usize]
    }

    /// Makes the packet of which [`Self::next_len`] told the length, in a buffer of that length, and moves on.
    #[inline]
    pub fn make(&mut self, frame: &mut [u8]) {
        let head = &self.lap.heads[self.lap.order[self.next] as usize].0;
        match frame.split_at_mut_checked(HEAD_BYTES) {
            Some((front, back)) => {
                front.copy_from_slice(head);
                back.copy_from_slice(&TAIL[..back.len()]);
            }
            None => frame.copy_from_slice(&head[..frame.len()]),
        }
        if let Some(turns) = &self.lap.turns {
            let before = usize::from(self.next < turns.trail as usize);
            turns.apply(frame, self.turn[before]);
        }
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EtherType, MacAddress, TcpRepr, UdpRepr, tcp};

    const TURNS: PortTurns = PortTurns { at: 34, transport: 34, first: 32_768, count: 28_232, trail: 2 };

    /// A frame of 60 bytes without payload, from a client's port, its checksums right.
    fn head(port: u16, protocol: u8) -> Head {
        let mut bytes = [0; HEAD_BYTES];
        let mac = MacAddress([2; 6]);
        EthernetRepr { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut bytes);
        let (source, destination) = ([198, 18, 0, 1].into(), [198, 19, 0, 1].into());
        let len = if protocol == ipv4::UDP { UdpRepr::BYTES } else { TcpRepr::BYTES };
        let ip = Ipv4Repr { source, destination, protocol, ttl: 64, payload_len: len as u16 };
        ip.emit(&mut bytes[14..]);
        if protocol == ipv4::UDP {
            UdpRepr { source: port, destination: 53, payload_len: 0 }.emit(&mut bytes[34..]);
            let sum =
                checksum::udp_nonzero(checksum::finish(ip.pseudo() + checksum::sum(&bytes[34..34 + len])));
            bytes[40..42].copy_from_slice(&sum.to_be_bytes());
        } else {
            let header = TcpRepr {
                source: port,
                destination: 80,
                sequence: 7,
                acknowledgement: 0,
                flags: tcp::flags::SYN,
                window: 9,
            };
            header.emit_with(&mut bytes[34..34 + len], ip.pseudo(), 0);
        }
        Head(bytes)
    }

    fn lap() -> Lap {
        let heads = vec![head(40_000, ipv4::TCP), head(60_999, ipv4::UDP), head(32_768, ipv4::TCP)];
        Lap::new(heads, vec![60, 60, 100], vec![0, 1, 2, 0], Some(TURNS)).unwrap()
    }

    fn sum_is_right(frame: &[u8]) -> bool {
        let ip = crate::Ipv4View::checked(&frame[14..]).unwrap();
        let len = ip.total_len() - 20;
        let pseudo = checksum::pseudo_ipv4(ip.source(), ip.destination(), ip.protocol(), len);
        checksum::finish(pseudo + checksum::sum(&frame[34..34 + usize::from(len)])) == 0
    }

    #[test]
    fn each_lap_has_ports_of_its_own_right_checksums_and_answers_of_the_lap_before() {
        let mut cursor = LapCursor::new(lap());
        let mut ports = Vec::new();
        for _ in 0..12 {
            let mut frame = vec![0; cursor.next_len().into()];
            cursor.make(&mut frame);
            assert!(sum_is_right(&frame), "{frame:02x?}");
            let port = TURNS.port(&frame).unwrap();
            assert!(TURNS.is_client(port), "{port}");
            ports.push(port);
        }
        assert_eq!(ports[..4], [40_000, 60_999, 32_768, 40_000]);
        // The first two of a lap belong to the lap before, of which the first lap has none.
        assert_eq!(ports[4..8], [40_000, 60_999, 32_768 + 12_553, 40_000 + 12_553]);
        assert_eq!(ports[8..10], [40_000 + 12_553, 60_999 - 28_232 + 12_553]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_port_comes_again_after_as_many_laps_as_there_are_ports() {
        let turns: std::collections::HashSet<u16> = (0..28_232).map(|lap| TURNS.turn(lap)).collect();
        assert_eq!(turns.len(), 28_232);
        assert_eq!(TURNS.turn(28_232), 0);
    }

    #[test]
    fn a_lap_is_read_as_it_was_written_and_damage_is_named() {
        let (lap, mut bytes) = (lap(), Vec::new());
        lap.write(&mut bytes).unwrap();
        let read = |bytes: &[u8]| Lap::read(&mut &*bytes, bytes.len() as u64);
        assert_eq!(read(&bytes).unwrap(), lap);
        assert!(matches!(read(&bytes[..5]), Err(LapError::NotALap)));
        assert!(matches!(read(b"weirlap2 and some more bytes, 30"), Err(LapError::NotALap)));
        let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(said(&bytes[..bytes.len() - 1]).contains("3 templates and 4 packets"));
        let damaged = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            said(&bytes)
        };
        assert!(damaged(bytes.len() - 1, 9).contains("names a template"));
        assert!(damaged(16, 200).contains("client ports"));
        assert!(damaged(28 + 3 * 64, 3).contains("length that no frame has"));
        // Numbers that ask for more memory than the file has bytes ask for none.
        assert!(damaged(11, 0xff).contains("take"));
    }

    #[test]
    fn a_part_has_its_templates_packets_and_its_share_of_the_answers() {
        let part = lap().part(|head| head[14 + 9] == ipv4::TCP);
        assert_eq!((part.order.as_slice(), part.turns.unwrap().trail), (&[0, 2, 0][..], 1));
        assert_eq!((part.longest(), lap().part(|_| false).is_empty()), (100, true));
    }
}

//! A lap of generated packets as a file: distinct frames, the order in which they come, and ports that are others in each
//! lap. Whoever reads it makes millions of packets from it without holding them.
//!
//! The lab writes it ([`Lap::write`]), a port of the switch replays it for ever ([`Lap::read`]), and both change ports alike
//! ([`NewPorts`]): same seed, same bytes. Frames are given by their first [`HEAD`] bytes; what follows is a pattern,
//! the byte `i` behind them being `i mod 256`.
//!
//! Cost: 66 bytes a distinct frame and 4 a packet of the lap, in memory as in the file. Plain data; no threads.

use crate::{Ipv4View, checksum, ipv4, tcp, udp};
use std::io::{self, Read, Write};

/// Bytes of a frame that a file holds; the rest is a pattern.
pub const HEAD: usize = 64;

/// How such a file begins.
const MAGIC: &[u8; 8] = b"WEIRLAP1";

/// Marks a packet of the order as one that belongs to the lap before: it answers what was sent at its end.
const BEFORE: u32 = 1 << 31;

/// Most distinct frames, and most packets of a lap: bounds on what a file can make its reader hold.
const MOST: u32 = 1 << 28;

/// Bits of a port that change from lap to lap.
const BITS: u16 = 0x3fff;

/// Ports of clients that are others in each lap, as a consistent hash of what they were: the same for all packets of a
/// connection, both ways, and different for different ones. The first lap has them as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPorts {
    /// Which hash.
    pub seed: u64,
    /// Bytes of the frame before its IPv4 header, which has no options.
    pub network: u16,
    /// Whether the client is the packets' destination, as in answers.
    pub answers: bool,
}

impl NewPorts {
    /// What the ports of a lap are changed by. The two highest bits stay.
    pub fn of_lap(&self, lap: u64) -> u16 {
        if lap == 0 {
            return 0;
        }
        // The finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
        let mixed = self.seed ^ lap.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u16 & BITS
    }

    /// Gives a frame the port that its connection has, changed by so much ([`Self::of_lap`]). The checksum is mended. Frames
    /// that are neither UDP nor TCP stay.
    #[inline]
    pub fn write(&self, frame: &mut [u8], change: u16) {
        if change == 0 {
            return;
        }
        let network = usize::from(self.network);
        let transport = network + crate::Ipv4Repr::BYTES;
        let (sum, is_udp) = match frame.get(network + ipv4::field::PROTOCOL) {
            Some(&ipv4::UDP) => (transport + udp::CHECKSUM, true),
            Some(&ipv4::TCP) => (transport + tcp::CHECKSUM, false),
            _ => return,
        };
        let port = transport + if self.answers { 2 } else { 0 };
        if frame.len() < sum + 2 {
            return;
        }
        let old = u16::from_be_bytes([frame[port], frame[port + 1]]);
        let new = old ^ change;
        let field = u16::from_be_bytes([frame[sum], frame[sum + 1]]);
        frame[port..port + 2].copy_from_slice(&new.to_be_bytes());
        if !is_udp || field != 0 {
            let mended = checksum::update_u16(field, old, new);
            let mended = if is_udp { checksum::udp_nonzero(mended) } else { mended };
            frame[sum..sum + 2].copy_from_slice(&mended.to_be_bytes());
        }
    }
}

/// One packet of a lap's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// Distinct frame `index`; `before` where it belongs to the lap before.
    pub fn new(index: u32, before: bool) -> Self {
        Self(index | if before { BEFORE } else { 0 })
    }

    /// Which distinct frame it is.
    #[inline]
    pub fn index(self) -> usize {
        (self.0 & !BEFORE) as usize
    }

    /// The lap whose ports it has, of the packet in lap `lap`.
    #[inline]
    pub fn lap(self, lap: u64) -> u64 {
        lap.saturating_sub(u64::from(self.0 & BEFORE != 0))
    }

    /// Whether it belongs to the lap before.
    #[inline]
    pub fn is_before(self) -> bool {
        self.0 & BEFORE != 0
    }
}

/// A lap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// The first bytes of each distinct frame.
    pub heads: Vec<[u8; HEAD]>,
    /// Its bytes in memory, without FCS.
    pub lens: Vec<u16>,
    /// The packets, in order.
    pub order: Vec<Place>,
    /// Ports that are others in each lap, where they are.
    pub ports: Option<NewPorts>,
}

impl Lap {
    /// Writes it as a file.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let ports = self.ports.unwrap_or(NewPorts { seed: 0, network: 0, answers: false });
        to.write_all(MAGIC)?;
        to.write_all(&(self.heads.len() as u32).to_le_bytes())?;
        to.write_all(&(self.order.len() as u32).to_le_bytes())?;
        to.write_all(&ports.seed.to_le_bytes())?;
        to.write_all(&ports.network.to_le_bytes())?;
        to.write_all(&[u8::from(self.ports.is_some()), u8::from(ports.answers)])?;
        self.heads.iter().try_for_each(|head| to.write_all(head))?;
        self.lens.iter().try_for_each(|len| to.write_all(&len.to_le_bytes()))?;
        self.order.iter().try_for_each(|place| to.write_all(&place.0.to_le_bytes()))
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(from: &mut impl Read) -> Result<Self, String> {
        let mut start = [0; 28];
        from.read_exact(&mut start).map_err(|error| format!("its beginning cannot be read: {error}"))?;
        if !start.starts_with(MAGIC) {
            return Err("it is no lap of packets: it does not begin with WEIRLAP1".to_owned());
        }
        let word = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let (distinct, packets) = (word(8), word(12));
        if distinct == 0 || packets == 0 || distinct.max(packets) > MOST {
            return Err(format!(
                "it has {distinct} frames and {packets} packets, and each may be 1 to {MOST}"
            ));
        }
        let seed = u64::from(word(16)) | u64::from(word(20)) << 32;
        let ports =
            NewPorts { seed, network: u16::from_le_bytes([start[24], start[25]]), answers: start[27] != 0 };
        let cut = |error: io::Error| format!("it is cut off: {error}");
        // Grown as bytes come: a length in a file makes no memory by itself.
        let (mut heads, mut lens, mut order) = (Vec::new(), Vec::new(), Vec::new());
        let (mut head, mut len, mut place) = ([0; HEAD], [0; 2], [0; 4]);
        for _ in 0..distinct {
            from.read_exact(&mut head).map_err(cut)?;
            heads.push(head);
        }
        for _ in 0..distinct {
            from.read_exact(&mut len).map_err(cut)?;
            lens.push(u16::from_le_bytes(len));
        }
        for number in 0..packets {
            from.read_exact(&mut place).map_err(cut)?;
            let place = Place(u32::from_le_bytes(place));
            if place.index() >= heads.len() {
                return Err(format!("packet {number} is frame {}, of {distinct}", place.index()));
            }
            order.push(place);
        }
        Ok(Self { heads, lens, order, ports: (start[26] != 0).then_some(ports) })
    }

    /// The order dealt out to so many queues, by each packet's pair of addresses whichever comes first, so that both
    /// directions of a conversation meet.
    pub fn queues(&self, queues: usize) -> Vec<Vec<Place>> {
        let of: Vec<usize> = self.heads.iter().map(|head| queue_of(head, queues)).collect();
        let mut dealt = vec![Vec::new(); queues];
        for place in &self.order {
            dealt[of[place.index()]].push(*place);
        }
        dealt
    }
}

/// The queue of a frame: by its IPv4 addresses, else by its MAC addresses.
fn queue_of(head: &[u8; HEAD], queues: usize) -> usize {
    let at = crate::EthernetRepr::BYTES;
    let is_ipv4 = head[12..at] == [8, 0] && Ipv4View::checked(&head[at..]).is_ok();
    let pair =
        if is_ipv4 { &head[at + ipv4::field::SOURCE..at + ipv4::field::SOURCE + 8] } else { &head[..12] };
    let (one, other) = pair.split_at(pair.len() / 2);
    let bits = |address: &[u8]| address.iter().fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
    let mixed = |number: u64| (number ^ number >> 15).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Addition does not mind the order.
    let sum = mixed(bits(one)).wrapping_add(mixed(bits(other)));
    ((sum >> 32) % queues.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, TcpRepr, UdpRepr};
    use std::net::Ipv4Addr;

    fn frame(protocol: u8, payload: usize) -> Vec<u8> {
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
        let header = if protocol == ipv4::UDP { UdpRepr::BYTES } else { TcpRepr::BYTES };
        let length = (header + payload) as u16;
        let mut frame = vec![7; 34 + header + payload];
        let ethernet = EthernetRepr {
            destination: MacAddress([2; 6]),
            source: MacAddress([4; 6]),
            ether_type: EtherType::IPV4,
        };
        ethernet.emit(&mut frame);
        let ip = Ipv4Repr { source, destination, protocol, ttl: 9, payload_len: length };
        ip.emit(&mut frame[14..]);
        if protocol == ipv4::UDP {
            let udp = UdpRepr { source: 40_000, destination: 53, payload_len: payload as u16 };
            udp.emit(&mut frame[34..]);
            let sum = checksum::udp_nonzero(checksum::finish(ip.pseudo() + checksum::sum(&frame[34..])));
            frame[40..42].copy_from_slice(&sum.to_be_bytes());
        } else {
            let tcp = TcpRepr {
                source: 40_000,
                destination: 53,
                sequence: 1,
                acknowledgement: 2,
                flags: 16,
                window: 9,
            };
            tcp.emit_with(&mut frame[34..], ip.pseudo(), 0);
        }
        frame
    }

    fn holds(frame: &[u8], protocol: u8) -> bool {
        let ip = Ipv4View::checked(&frame[14..]).unwrap();
        let length = (frame.len() - 34) as u16;
        let pseudo = checksum::pseudo_ipv4(ip.source(), ip.destination(), protocol, length);
        checksum::finish(pseudo + checksum::sum(&frame[34..])) == 0
    }

    #[test]
    fn a_client_has_another_port_in_each_lap_and_checksums_hold() {
        for (protocol, answers) in
            [(ipv4::UDP, false), (ipv4::UDP, true), (ipv4::TCP, false), (ipv4::TCP, true)]
        {
            let ports = NewPorts { seed: 5, network: 14, answers };
            let first = frame(protocol, 30);
            assert!(holds(&first, protocol));
            let mut seen = std::collections::BTreeSet::new();
            for lap in 0..20 {
                let mut changed = first.clone();
                ports.write(&mut changed, ports.of_lap(lap));
                assert!(holds(&changed, protocol), "lap {lap}");
                let at = if answers { 36 } else { 34 };
                let port = u16::from_be_bytes([changed[at], changed[at + 1]]);
                let old = u16::from_be_bytes([first[at], first[at + 1]]);
                assert_eq!(port & !BITS, old & !BITS, "the highest bits stay");
                seen.insert(port);
                changed[at..at + 2].copy_from_slice(&first[at..at + 2]);
                let sum = if protocol == ipv4::UDP { 40 } else { 50 };
                changed[sum..sum + 2].copy_from_slice(&first[sum..sum + 2]);
                assert_eq!(changed, first, "nothing else changes");
            }
            assert_eq!(seen.len(), 20);
        }
    }

    #[test]
    fn a_lap_is_read_back_as_it_was_written_and_a_broken_file_says_what_is_wrong() {
        let lap = Lap {
            heads: vec![[1; HEAD], [2; HEAD]],
            lens: vec![60, 1514],
            order: vec![Place::new(1, true), Place::new(0, false), Place::new(1, false)],
            ports: Some(NewPorts { seed: 1 << 40 | 3, network: 18, answers: true }),
        };
        let mut bytes = Vec::new();
        lap.write(&mut bytes).unwrap();
        assert_eq!(Lap::read(&mut &bytes[..]).unwrap(), lap);
        assert_eq!((lap.order[0].lap(7), lap.order[0].lap(0), lap.order[1].lap(7)), (6, 0, 7));
        for (cut, says) in [(10, "beginning"), (100, "cut off"), (bytes.len() - 1, "cut off")] {
            assert!(Lap::read(&mut &bytes[..cut]).unwrap_err().contains(says), "{cut}");
        }
        let mut other = bytes.clone();
        other[0] = b'X';
        assert!(Lap::read(&mut &other[..]).unwrap_err().contains("WEIRLAP1"));
        let mut beyond = bytes.clone();
        let last = bytes.len() - 4;
        beyond[last..].copy_from_slice(&9_u32.to_le_bytes());
        assert!(Lap::read(&mut &beyond[..]).unwrap_err().contains("frame 9, of 2"));
        bytes[8..12].copy_from_slice(&0_u32.to_le_bytes());
        assert!(Lap::read(&mut &bytes[..]).unwrap_err().contains("1 to"));
    }

    #[test]
    fn both_directions_of_a_pair_of_addresses_meet_at_one_queue() {
        let forth = frame(ipv4::UDP, 30);
        let mut back = forth.clone();
        back[26..30].copy_from_slice(&forth[30..34]);
        back[30..34].copy_from_slice(&forth[26..30]);
        let head = |frame: &[u8]| -> [u8; HEAD] { frame[..HEAD].try_into().unwrap() };
        for queues in 1..9 {
            assert_eq!(queue_of(&head(&forth), queues), queue_of(&head(&back), queues));
        }
        let heads: Vec<[u8; HEAD]> = (0..=255)
            .map(|host| {
                let mut head = head(&forth);
                head[29] = host;
                head
            })
            .collect();
        let order = (0..256).map(|index| Place::new(index, false)).collect();
        let lap = Lap { lens: vec![60; 256], heads, order, ports: None };
        let dealt: Vec<usize> = lap.queues(4).iter().map(Vec::len).collect();
        assert!(dealt.iter().all(|share| (40..90).contains(share)), "{dealt:?}");
    }
}

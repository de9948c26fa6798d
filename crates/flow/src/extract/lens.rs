//! A narrow look at a frame: only the bits that somebody cares for, where they lie in a plain packet.
//!
//! What: a [`Lens`] is made for the bits of some masks. It reads a frame into a [`Glance`], four words
//! of the frame's own bytes under its masks. Two frames with one glance have keys that agree in every
//! bit that the lens sees, if one of them [fits](Lens::fits): what the bits say of the packet's make-up
//! (EtherType, version and length of the IP header, fragment, protocol) is in the glance itself, so a
//! packet that is made otherwise has another glance, and need not be parsed to find that out. What no
//! comparison can say, lengths that contradict each other, [`Lens::read`] looks at.
//!
//! Why: most tables look at few bits, and a whole key costs more than they do.
//!
//! Cost: as deep as it must look: a load for Ethernet addresses, five and a few comparisons down to the
//! ports. Threads: plain data.

use super::{MAX_FRAME, PACKET_BITS, be16};
use crate::key::{Mask, TRANSPORT_CUT};
use crate::protocol::{ETHERNET_LEN, IPV4, TCP, UDP};

/// What a lens shows of a frame.
pub type Glance = [u64; 4];

/// Bytes of a plain packet that a glance can show: up to the ports.
const SHOWN: usize = 38;

/// Bytes that [`Lens::read`] looks at where the lens sees ports: TCP's header length is among them.
const LOOKED_AT: usize = 48;

/// Version 4, a header of 5 words.
const PLAIN_IPV4: u8 = 0x45;

/// The bits of the fragment field that make a fragment: more follow, or it has an offset.
const FRAGMENT: u16 = 0x3fff;

/// Bits of key words that stand for ports, and for TCP's flags.
const PORTS: u64 = 0xffff_ffff;
const TCP_FLAGS: u64 = 0xffff << 16;

/// How far into a packet a lens looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    /// Not at all: all frames look the same.
    Nothing,
    /// At Ethernet addresses.
    Link,
    /// At an IPv4 header without options that is no fragment's, behind an untagged Ethernet header.
    Network,
    /// At the ports of TCP or UDP behind that.
    Transport,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lens {
    depth: Depth,
    masks: Glance,
    sees: Mask,
}

/// The bytes of a frame that glances are made of: addresses, EtherType and the front of IP; addresses of
/// IP; ports, and above them fragment, time to live and protocol.
#[inline(always)]
fn words(front: &[u8; SHOWN]) -> Glance {
    let four = |at: usize| u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
    [eight(0), eight(8), eight(26), u64::from(four(34)) | u64::from(four(20)) << 32]
}

impl Default for Lens {
    fn default() -> Self {
        Self::new()
    }
}

impl Lens {
    /// A lens that sees nothing.
    pub const fn new() -> Self {
        Self { depth: Depth::Nothing, masks: [0; 4], sees: Mask::new() }
    }

    /// Whether all frames look the same through it.
    #[inline]
    pub fn is_blind(&self) -> bool {
        self.depth == Depth::Nothing
    }

    /// Whether what it shows is the header of IPv4.
    pub fn sees_ipv4(&self) -> bool {
        self.depth >= Depth::Network
    }

    /// Whether it sees all bits of a mask that come from the packet.
    pub fn sees(&self, mask: &Mask) -> bool {
        let of_packet = |place: usize| PACKET_BITS.get(place).copied().unwrap_or(0);
        mask.iter().all(|(place, bits)| bits & of_packet(place) & !self.sees.word(place) == 0)
    }

    /// A lens that sees also the bits of a mask that come from the packet; nothing where no lens does,
    /// which is so for TCP's flags.
    pub fn widened(&self, mask: &Mask) -> Option<Self> {
        let mut sees = self.sees.clone();
        for (place, bits) in mask.iter() {
            sees.add(place, bits & PACKET_BITS.get(place).copied().unwrap_or(0));
        }
        if sees.word(5) & TCP_FLAGS != 0 {
            return None;
        }
        let addresses = sees.word(1) >> 16 | sees.word(2) >> 16;
        let further = |&(place, bits): &(usize, u64)| match place {
            1 | 2 => bits & 0xffff != 0,
            _ => true,
        };
        let ports = sees.word(4) & PORTS | sees.word(0) & TRANSPORT_CUT;
        let depth = if ports != 0 {
            Depth::Transport
        } else if sees.iter().any(|word| further(&word)) {
            Depth::Network
        } else if addresses != 0 {
            Depth::Link
        } else {
            Depth::Nothing
        };
        let mut wire = [0; SHOWN];
        wire[..6].copy_from_slice(&sees.word(1).to_be_bytes()[..6]);
        wire[6..12].copy_from_slice(&sees.word(2).to_be_bytes()[..6]);
        if depth >= Depth::Network {
            // The make-up of a plain packet, and with it that all else is not there.
            wire[12..15].fill(0xff);
            wire[20..22].copy_from_slice(&FRAGMENT.to_be_bytes());
            let whole = depth == Depth::Transport;
            for (place, bits) in (0..).zip(PACKET_BITS) {
                match place {
                    // Whether there are ports is seen only where they are looked at.
                    0 => sees.add(place, if whole { bits } else { bits & !TRANSPORT_CUT }),
                    8.. => sees.add(place, bits),
                    1 | 2 => sees.add(place, bits & 0xffff),
                    _ => {}
                }
            }
            let [protocol, tos, ttl, _, ports @ ..] = sees.word(4).to_be_bytes();
            (wire[15], wire[22], wire[23]) = (tos, ttl, if whole { 0xff } else { protocol });
            wire[26..34].copy_from_slice(&sees.word(3).to_be_bytes());
            wire[34..].copy_from_slice(&ports);
        }
        Some(Self { depth, masks: words(&wire), sees })
    }

    /// What it shows of a frame; nothing where the frame is too short for it, or where its lengths
    /// contradict each other or the frame's.
    #[inline]
    pub fn read(&self, frame: &[u8]) -> Option<Glance> {
        let mut glance = None;
        self.read_all(std::iter::once(frame), |_, read| glance = read);
        glance
    }

    /// What it shows of each of some frames, with their places. How deep to look is decided once for all.
    #[inline(always)]
    pub fn read_all<'f>(
        &self,
        frames: impl Iterator<Item = &'f [u8]>,
        mut take: impl FnMut(usize, Option<Glance>),
    ) {
        let frames = frames.enumerate();
        match self.depth {
            Depth::Nothing => {
                frames.for_each(|(at, frame)| take(at, (frame.len() >= ETHERNET_LEN).then_some([0; 4])));
            }
            Depth::Link => frames.for_each(|(at, frame)| take(at, self.link(frame))),
            Depth::Network => frames.for_each(|(at, frame)| take(at, self.network(frame))),
            Depth::Transport => frames.for_each(|(at, frame)| take(at, self.transport(frame))),
        }
    }

    #[inline(always)]
    fn link(&self, frame: &[u8]) -> Option<Glance> {
        let front: u128 = u128::from_le_bytes(*frame.first_chunk()?);
        Some([front as u64 & self.masks[0], (front >> 64) as u64 & self.masks[1], 0, 0])
    }

    #[inline(always)]
    fn network(&self, frame: &[u8]) -> Option<Glance> {
        let front: &[u8; SHOWN] = frame.first_chunk()?;
        let total = usize::from(be16(front, 16));
        let whole = total >= 20 && ETHERNET_LEN + total <= frame.len() && frame.len() <= MAX_FRAME;
        whole.then(|| self.under_masks(front))
    }

    #[inline(always)]
    fn transport(&self, frame: &[u8]) -> Option<Glance> {
        let front: &[u8; LOOKED_AT] = frame.first_chunk()?;
        let total = usize::from(be16(front, 16));
        // By arithmetic, so that TCP and UDP in turns cost no wrong guesses.
        let tcp = usize::from(front[23] == TCP).wrapping_neg();
        let header = ((usize::from(front[46] >> 4) * 4) & tcp) | (8 & !tcp);
        let whole = header >= 8 + (12 & tcp)
            && 20 + header <= total
            && ETHERNET_LEN + total <= frame.len()
            && frame.len() <= MAX_FRAME;
        if whole { Some(self.under_masks(front.first_chunk()?)) } else { None }
    }

    #[inline(always)]
    fn under_masks(&self, front: &[u8; SHOWN]) -> Glance {
        let [a, b, c, d] = words(front);
        let [e, f, g, h] = self.masks;
        [a & e, b & f, c & g, d & h]
    }

    /// What it shows of a frame for which that says all: any other with the same glance is like it in
    /// all that the lens sees.
    pub fn fits(&self, frame: &[u8]) -> Option<Glance> {
        let glance = self.read(frame)?;
        if self.depth < Depth::Network {
            return Some(glance);
        }
        let front: &[u8; SHOWN] = frame.first_chunk()?;
        let plain = be16(front, 12) == IPV4
            && front[14] == PLAIN_IPV4
            && be16(front, 20) & FRAGMENT == 0
            && (self.depth < Depth::Transport || matches!(front[23], TCP | UDP));
        plain.then_some(glance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Sampler;
    use crate::{Field, Key, extract, key::places};

    /// Fields that tables match, and one that no lens sees.
    const FIELDS: [Field; 12] = [
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanTci,
        Field::NwSrc,
        Field::NwDst,
        Field::NwProto,
        Field::NwTos,
        Field::NwTtl,
        Field::TcpSrc,
        Field::UdpDst,
        Field::Ipv6Dst,
    ];

    fn mask(sampler: &mut Sampler) -> Mask {
        let mut mask = Mask::new();
        for _ in 0..sampler.below(4) {
            let bits = if sampler.one_in(2) { u128::MAX } else { u128::from(sampler.bits()) };
            sampler.pick(&FIELDS).examine(&mut mask, bits);
        }
        if sampler.one_in(4) {
            mask.add(0, TRANSPORT_CUT);
        }
        mask
    }

    /// A frame like another but for a few bits of its headers, or of its length.
    fn changed(frame: &[u8], sampler: &mut Sampler) -> Vec<u8> {
        let mut other = frame.to_vec();
        for _ in 0..=sampler.below(3) {
            let at = sampler.below(other.len().clamp(1, 50));
            if let Some(byte) = other.get_mut(at) {
                *byte ^= 1 << sampler.below(8);
            }
        }
        if sampler.one_in(8) {
            other.truncate(sampler.below(other.len() + 1));
        }
        other
    }

    #[test]
    fn frames_that_look_alike_have_keys_that_agree_in_what_the_lens_sees() {
        let (mut sampler, mut alike, mut deep) = (Sampler::new(11), 0, 0);
        for round in 0..150_000 {
            let first = mask(&mut sampler);
            let Some(lens) = Lens::new().widened(&first).and_then(|lens| lens.widened(&mask(&mut sampler)))
            else {
                continue;
            };
            assert!(lens.sees(&first));
            let frame = if round % 4 == 0 { sampler.mangled() } else { sampler.frame() };
            let other = changed(&frame, &mut sampler);
            let Some(glance) = lens.fits(&frame) else { continue };
            if lens.read(&other) != Some(glance) {
                continue;
            }
            alike += 1;
            deep += u32::from(lens.depth == Depth::Transport);
            let (mut key, mut like) = (Key::new(), Key::new());
            extract(&frame, 1, &mut key);
            extract(&other, 1, &mut like);
            for place in places(lens.sees.present()) {
                let differs = (key.word(place) ^ like.word(place)) & lens.sees.word(place);
                assert_eq!(differs, 0, "word {place}: {lens:?}\n{frame:02x?}\n{other:02x?}");
            }
        }
        assert!(alike > 10_000 && deep > 1_000, "{alike} pairs, {deep} of them by ports");
    }

    #[test]
    fn a_lens_is_as_deep_as_the_bits_it_sees() {
        let of = |field: Field| {
            let mut mask = Mask::new();
            field.examine(&mut mask, u128::MAX);
            Lens::new().widened(&mask).map(|lens| lens.depth)
        };
        assert_eq!(of(Field::InPort), Some(Depth::Nothing));
        assert_eq!(of(Field::EthSrc), Some(Depth::Link));
        assert_eq!(of(Field::EthType), Some(Depth::Network));
        assert_eq!(of(Field::VlanTci), Some(Depth::Network));
        assert_eq!(of(Field::Ipv6Src), Some(Depth::Network));
        assert_eq!(of(Field::TcpDst), Some(Depth::Transport));
        assert_eq!(of(Field::TcpFlags), None);
        let mut cut = Mask::new();
        cut.add(0, TRANSPORT_CUT);
        let network = Lens::new().widened(&Mask::new()).and_then(|lens| {
            let mut fragments = Mask::new();
            Field::NwFrag.examine(&mut fragments, u128::MAX);
            lens.widened(&fragments)
        });
        assert!(network.as_ref().is_some_and(|lens| lens.sees_ipv4() && !lens.sees(&cut)));
        assert_eq!(
            network.and_then(|lens| lens.widened(&cut)).map(|lens| lens.depth),
            Some(Depth::Transport)
        );
    }
}

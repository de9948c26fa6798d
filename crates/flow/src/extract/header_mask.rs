//! Headers under a mask: only the bits that tables examine, read where they lie in a plain packet.
//!
//! What: a [`HeaderMask`] is made for the bits of some masks. It reads a frame into a [`MaskedHeader`], four words of the
//! frame's own bytes under its masks. Two frames with the same masked header have keys that agree in every bit that the
//! header mask covers, if one of them [fits](HeaderMask::fits). [`HeaderMask::read`] makes sure that a packet is a plain
//! one (IPv4 without options or fragments, lengths that agree), and parses nothing else.
//!
//! Why: most tables examine few bits, and a whole key costs more than they do.
//!
//! The compiler makes a loop over many frames for each depth of header mask: [`HeaderMask::with`] calls a
//! [`WithExtractor`] with the [`Extractor`] of that depth, which has no choices left but the packet's own.
//!
//! Cost: as deep as it must read: a load for Ethernet addresses, five and two comparisons down to the
//! ports; two multiplications for the sum, four where bits of both headers are covered. Threads: plain data.

use super::MAX_FRAME;
use crate::field::derived::{IMPLIED, PACKET_BITS, PACKET_WORDS, READ, UNREAD};
use crate::field::span::CUT;
use crate::key::Mask;
use crate::protocol::{ETHERNET_LEN, IPV4, TCP, UDP};

/// What a header mask leaves of a frame, as words of its bytes in the order in which they lie: the first 16, which
/// are addresses, EtherType and the front of IP; and the 16 from the time to live on, with the protocol,
/// the addresses of IP and the ports.
pub type MaskedHeader = [u64; 4];

/// Bytes of the front of a frame that a masked header may have.
const FRONT: usize = 16;

/// Where the others of a plain packet begin, and where the ports behind them end.
const BACK: usize = 22;
const SHOWN: usize = BACK + 16;

/// Bytes that are read where the mask covers ports: TCP's header length is among them.
const LOOKED_AT: usize = 48;

/// Version 4, a header of 5 words.
const PLAIN_IPV4: u8 = 0x45;

/// The bits of the fragment field that make a fragment: more follow, or it has an offset.
const FRAGMENT: u16 = 0x3fff;

/// Where the network header of a plain packet begins, its transport header, and the byte of its protocol.
const NETWORK_AT: u16 = 8 * ETHERNET_LEN as u16;
const TRANSPORT_AT: u16 = NETWORK_AT + 8 * 20;
const PROTOCOL_AT: usize = ETHERNET_LEN + 9;

/// What the table of fields says that header masks read, they do.
const _: () = {
    let mut at = 0;
    while at < READ.len() {
        let (from, to) = (READ[at].1 as usize, READ[at].1 as usize + READ[at].0.bits as usize);
        let shown = to <= 8 * FRONT || (from >= 8 * BACK && to <= 8 * SHOWN);
        assert!(shown, "header masks do not read where a field of the table lies: it is `Unread`");
        at += 1;
    }
};

/// The bit that says that a packet is too short for its transport header, by words of a key.
const CUT_BITS: [u64; PACKET_WORDS] = {
    let mut bits = [0; PACKET_WORDS];
    bits[CUT.place()] = CUT.mask();
    bits
};

/// How deep a header mask must read for a field that begins at this bit of the frame.
const fn depth_of(at: u16) -> Depth {
    match at {
        ..NETWORK_AT => Depth::Link,
        NETWORK_AT..TRANSPORT_AT => Depth::Network,
        _ => Depth::Transport,
    }
}

/// Writes bits of a field, which begins at a bit of a frame.
fn show(wire: &mut [u8; SHOWN], at: u16, width: u8, bits: u64) {
    for bit in (0..u16::from(width)).filter(|bit| bits >> bit & 1 != 0) {
        let at = usize::from(at + u16::from(width) - 1 - bit);
        wire[at / 8] |= 0x80 >> (at % 8);
    }
}

/// The bits of a key's word that come from the packet.
fn of_packet(place: usize) -> u64 {
    PACKET_BITS.get(place).copied().unwrap_or(0)
}

/// How far into a packet a header mask reads.
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
pub struct HeaderMask {
    depth: Depth,
    masks: MaskedHeader,
    covered: Mask,
}

/// Reads frames to one depth: functions for a loop to be made of.
pub trait Extractor: Copy {
    /// Whether what it reads is a frame of plain IPv4.
    const IPV4: bool;

    /// A frame's header under the masks; nothing where [`HeaderMask::read`] has nothing.
    fn read(masks: &MaskedHeader, frame: &[u8]) -> Option<MaskedHeader>;

    /// The sum of a masked header's words, each times its factor.
    fn sum(factors: &MaskedHeader, header: &MaskedHeader) -> u64;

    /// The bits in which two masked headers differ, joined.
    fn differ(one: &MaskedHeader, other: &MaskedHeader) -> u64;
}

/// What is done with the extractor of a header mask, whichever that is.
pub trait WithExtractor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<S: Extractor>(self) -> Self::Output;
}

/// Down to Ethernet addresses.
#[derive(Clone, Copy)]
struct Link;

/// Down to IPv4. `ALL`: whether the mask covers anything of the front.
#[derive(Clone, Copy)]
struct Network<const ALL: bool>;

/// Down to ports.
#[derive(Clone, Copy)]
struct Transport<const ALL: bool>;

impl Extractor for Link {
    const IPV4: bool = false;

    #[inline(always)]
    fn read(masks: &MaskedHeader, frame: &[u8]) -> Option<MaskedHeader> {
        let [a, b] = words(frame.first_chunk()?);
        Some([a & masks[0], b & masks[1], 0, 0])
    }

    #[inline(always)]
    fn sum(factors: &MaskedHeader, header: &MaskedHeader) -> u64 {
        front(factors, header)
    }

    #[inline(always)]
    fn differ(one: &MaskedHeader, other: &MaskedHeader) -> u64 {
        (one[0] ^ other[0]) | (one[1] ^ other[1])
    }
}

impl<const ALL: bool> Extractor for Network<ALL> {
    const IPV4: bool = true;

    #[inline(always)]
    fn read(masks: &MaskedHeader, frame: &[u8]) -> Option<MaskedHeader> {
        let shown: &[u8; SHOWN] = frame.first_chunk()?;
        // The total length is at least 20 and at most what is behind the Ethernet header.
        let total = plain_total(shown)?.wrapping_sub(20);
        let whole = total <= frame.len() - ETHERNET_LEN - 20 && frame.len() <= MAX_FRAME;
        whole.then(|| under::<ALL>(masks, shown))
    }

    #[inline(always)]
    fn sum(factors: &MaskedHeader, header: &MaskedHeader) -> u64 {
        sum::<ALL>(factors, header)
    }

    #[inline(always)]
    fn differ(one: &MaskedHeader, other: &MaskedHeader) -> u64 {
        differ::<ALL>(one, other)
    }
}

impl<const ALL: bool> Extractor for Transport<ALL> {
    const IPV4: bool = true;

    #[inline(always)]
    fn read(masks: &MaskedHeader, frame: &[u8]) -> Option<MaskedHeader> {
        let front: &[u8; LOOKED_AT] = frame.first_chunk()?;
        let total = plain_total(front.first_chunk()?)?;
        // By choices that the CPU need not guess, so that TCP and UDP in turns cost no wrong ones. A header
        // of TCP that says less than its least is taken for one that does not fit.
        let words = usize::from(front[46] >> 4);
        let tcp = if words < 5 { usize::MAX >> 8 } else { words };
        let header = if front[23] == TCP { tcp } else { 2 };
        let whole =
            20 + 4 * header <= total && ETHERNET_LEN + total <= frame.len() && frame.len() <= MAX_FRAME;
        if whole { Some(under::<ALL>(masks, front.first_chunk()?)) } else { None }
    }

    #[inline(always)]
    fn sum(factors: &MaskedHeader, header: &MaskedHeader) -> u64 {
        sum::<ALL>(factors, header)
    }

    #[inline(always)]
    fn differ(one: &MaskedHeader, other: &MaskedHeader) -> u64 {
        differ::<ALL>(one, other)
    }
}

/// The total length that an IPv4 header says, if it is plain and no fragment's.
#[inline(always)]
fn plain_total(shown: &[u8; SHOWN]) -> Option<usize> {
    let &[_, _, _, _, _, _, _, _, _, _, _, _, a, b, make_up, _, e, f, g, h, i, j, k, l, ..] = shown;
    let lengths = u64::from_be_bytes([e, f, g, h, i, j, k, l]);
    let plain = u16::from_be_bytes([a, b]) == IPV4 && make_up == PLAIN_IPV4;
    (plain && lengths & u64::from(FRAGMENT) << 16 == 0).then_some((lengths >> 48) as usize)
}

/// The sum over what is seen of the front.
#[inline(always)]
fn front(factors: &MaskedHeader, header: &MaskedHeader) -> u64 {
    header[0].wrapping_mul(factors[0]).wrapping_add(header[1].wrapping_mul(factors[1]))
}

/// The sum over what is behind the front, and over the front where that is seen.
#[inline(always)]
fn sum<const ALL: bool>(factors: &MaskedHeader, header: &MaskedHeader) -> u64 {
    let back = header[2].wrapping_mul(factors[2]).wrapping_add(header[3].wrapping_mul(factors[3]));
    if ALL { back.wrapping_add(front(factors, header)) } else { back }
}

/// The bits in which two masked headers differ, joined.
#[inline(always)]
fn differ<const ALL: bool>(one: &MaskedHeader, other: &MaskedHeader) -> u64 {
    let back = (one[2] ^ other[2]) | (one[3] ^ other[3]);
    if ALL { back | (one[0] ^ other[0]) | (one[1] ^ other[1]) } else { back }
}

/// Sixteen bytes as two words, in the order in which they lie in memory.
#[inline(always)]
pub fn words(bytes: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*bytes);
    [both as u64, (both >> 64) as u64]
}

/// The bytes of a masked header.
#[inline(always)]
fn under<const ALL: bool>(masks: &MaskedHeader, shown: &[u8; SHOWN]) -> MaskedHeader {
    let [c, d] = shown.last_chunk::<{ SHOWN - BACK }>().map_or([0; 2], words);
    let [a, b] = if ALL { shown.first_chunk::<FRONT>().map_or([0; 2], words) } else { [0; 2] };
    [a & masks[0], b & masks[1], c & masks[2], d & masks[3]]
}

/// One frame to read.
struct ReadOne<'f>(&'f MaskedHeader, &'f [u8]);

impl WithExtractor for ReadOne<'_> {
    type Output = Option<MaskedHeader>;

    fn run<S: Extractor>(self) -> Option<MaskedHeader> {
        S::read(self.0, self.1)
    }
}

impl Default for HeaderMask {
    fn default() -> Self {
        Self::new()
    }
}

impl HeaderMask {
    /// Bytes of a frame that any header mask can read, if that is empty or covers addresses.
    pub const LEAST: usize = FRONT;

    /// A header mask that covers nothing.
    pub const fn new() -> Self {
        Self { depth: Depth::Nothing, masks: [0; 4], covered: Mask::new() }
    }

    /// Whether it covers nothing: all frames have the same masked header.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.depth == Depth::Nothing
    }

    /// Whether it reads the header of IPv4.
    pub fn covers_ipv4(&self) -> bool {
        self.depth >= Depth::Network
    }

    /// Whether it covers all bits of a mask that come from the packet.
    pub fn covers(&self, mask: &Mask) -> bool {
        mask.iter().all(|(place, bits)| bits & of_packet(place) & !self.covered.word(place) == 0)
    }

    /// Whether it covers all bits that another one does.
    pub fn covers_all_of(&self, other: &Self) -> bool {
        self.covers(&other.covered)
    }

    /// The masks, as words of a frame.
    #[inline]
    pub fn masks(&self) -> &MaskedHeader {
        &self.masks
    }

    /// A header mask that covers also the bits of a mask that come from the packet; nothing where none can,
    /// which is so for TCP's flags (those fields of the table that are [unread](crate::Source::Unread)).
    pub fn widened(&self, mask: &Mask) -> Option<Self> {
        let mut covered = self.covered.clone();
        for (place, bits) in mask.iter() {
            covered.add(place, bits & of_packet(place));
        }
        let mut depth = Depth::Nothing;
        for (place, bits) in covered.iter() {
            if bits & IMPLIED[place] & !CUT_BITS[place] != 0 {
                depth = depth.max(Depth::Network);
            }
            if bits & CUT_BITS[place] != 0 {
                depth = Depth::Transport;
            }
            if bits & UNREAD[place] != 0 {
                return None;
            }
        }
        let mut wire = [0; SHOWN];
        for (span, at) in READ {
            let bits = span.mask_of(&covered);
            if bits != 0 {
                depth = depth.max(depth_of(at));
                show(&mut wire, at, span.bits, bits);
            }
        }
        if depth >= Depth::Network {
            // The make-up of a plain packet is looked at whatever is seen, and with it that all else is
            // not there. Whether there are ports is seen only where they are looked at.
            let whole = depth == Depth::Transport;
            for (place, bits) in IMPLIED.into_iter().enumerate() {
                covered.add(place, if whole { bits } else { bits & !CUT_BITS[place] });
            }
            if whole {
                wire[PROTOCOL_AT] = 0xff;
            }
        }
        Some(Self { depth, masks: under::<true>(&[u64::MAX; 4], &wire), covered })
    }

    /// Does something with this header mask's extractor.
    #[inline(always)]
    pub fn with<W: WithExtractor>(&self, work: W) -> W::Output {
        let all = self.masks[0] | self.masks[1] != 0;
        match (self.depth, all) {
            (Depth::Nothing | Depth::Link, _) => work.run::<Link>(),
            (Depth::Network, false) => work.run::<Network<false>>(),
            (Depth::Network, true) => work.run::<Network<true>>(),
            (Depth::Transport, false) => work.run::<Transport<false>>(),
            (Depth::Transport, true) => work.run::<Transport<true>>(),
        }
    }

    /// The masked header of a frame. Where it covers IPv4, there is none of a frame that is not plain (another
    /// EtherType, options, a fragment) or whose lengths contradict each other; nor of one that is too short.
    pub fn read(&self, frame: &[u8]) -> Option<MaskedHeader> {
        self.with(ReadOne(&self.masks, frame))
    }

    /// The masked header of a frame for which that says all: any other with the same one is like it in
    /// all that the header mask covers.
    pub fn fits(&self, frame: &[u8]) -> Option<MaskedHeader> {
        let with_ports = || frame.get(23).is_some_and(|protocol| matches!(*protocol, TCP | UDP));
        self.read(frame).filter(|_| self.depth < Depth::Transport || with_ports())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::places;
    use crate::samples::Sampler;
    use crate::{Field, Key, extract};
    use weir_testkit::draws;

    /// Fields that tables match, and one that no header mask covers.
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
            CUT.examine(&mut mask);
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
    fn frames_that_look_alike_have_keys_that_agree_in_what_the_header_mask_covers() {
        let (mut sampler, mut alike, mut deep) = (Sampler::new(11), 0, 0);
        for round in 0..draws(150_000) {
            let first = mask(&mut sampler);
            let Some(header_mask) = HeaderMask::new()
                .widened(&first)
                .and_then(|header_mask| header_mask.widened(&mask(&mut sampler)))
            else {
                continue;
            };
            assert!(header_mask.covers(&first));
            let frame = if round % 4 == 0 { sampler.mangled() } else { sampler.frame() };
            let other = changed(&frame, &mut sampler);
            let Some(header) = header_mask.fits(&frame) else { continue };
            if header_mask.read(&other) != Some(header) {
                continue;
            }
            alike += 1;
            deep += u32::from(header_mask.depth == Depth::Transport);
            let (mut key, mut like) = (Key::new(), Key::new());
            extract(&frame, 1, &mut key);
            extract(&other, 1, &mut like);
            for place in places(header_mask.covered.present()) {
                let differs = (key.word(place) ^ like.word(place)) & header_mask.covered.word(place);
                assert_eq!(differs, 0, "word {place}: {header_mask:?}\n{frame:02x?}\n{other:02x?}");
            }
        }
        assert!(
            alike > draws(10_000) as u32 && deep > draws(1_000) as u32,
            "{alike} pairs, {deep} of them by ports"
        );
    }

    #[test]
    fn a_header_mask_is_as_deep_as_the_bits_it_covers() {
        let of = |field: Field| {
            let mut mask = Mask::new();
            field.examine(&mut mask, u128::MAX);
            HeaderMask::new().widened(&mask).map(|header_mask| header_mask.depth)
        };
        assert_eq!(of(Field::InPort), Some(Depth::Nothing));
        assert_eq!(of(Field::EthSrc), Some(Depth::Link));
        assert_eq!(of(Field::EthType), Some(Depth::Network));
        assert_eq!(of(Field::VlanTci), Some(Depth::Network));
        assert_eq!(of(Field::Ipv6Src), Some(Depth::Network));
        assert_eq!(of(Field::TcpDst), Some(Depth::Transport));
        assert_eq!(of(Field::TcpFlags), None);
        let mut cut = Mask::new();
        CUT.examine(&mut cut);
        let network = HeaderMask::new().widened(&Mask::new()).and_then(|header_mask| {
            let mut fragments = Mask::new();
            Field::NwFrag.examine(&mut fragments, u128::MAX);
            header_mask.widened(&fragments)
        });
        assert!(
            network
                .as_ref()
                .is_some_and(|header_mask| header_mask.covers_ipv4() && !header_mask.covers(&cut))
        );
        assert_eq!(
            network.and_then(|header_mask| header_mask.widened(&cut)).map(|header_mask| header_mask.depth),
            Some(Depth::Transport)
        );
    }
}

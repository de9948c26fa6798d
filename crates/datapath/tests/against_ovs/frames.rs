//! Random frames, each with a number at its end by which it is known again.

pub(crate) use weir_flow::protocol::{MAX_LABELS, MAX_TAGS};
use weir_flow::samples::Sampler;
use weir_flow::{Field, Key, compose, extract};

/// What the number stands behind. Read as the drop eligible indicator of a tag, it is not set.
const SIGN: [u8; 4] = *b"look";

/// Bytes of sign and number.
const TAIL: usize = 8;

/// A frame, and its fields.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) key: Key,
    pub(crate) in_port: u32,
    has_transport: bool,
    frame: Vec<u8>,
}

impl Sample {
    pub(crate) fn new(in_port: u32, mut frame: Vec<u8>) -> Self {
        // The drop eligible indicator gets lost where Open vSwitch changes a tag; Weir keeps it.
        for at in (12..).step_by(4).take(tags(&frame)) {
            frame[at + 2] &= !0x10;
        }
        let mut key = Key::new();
        let layout = extract(&frame, in_port, &mut key);
        Self { key, in_port, has_transport: layout.transport != 0, frame }
    }

    /// One of any kind, of so many malformed.
    pub(crate) fn random(random: &mut Sampler, malformed: bool) -> Self {
        let in_port = 1 + random.below(4) as u32;
        loop {
            let frame = if malformed { random.mangled() } else { random.frame() };
            if (26..1400).contains(&frame.len()) {
                return Self::new(in_port, frame);
            }
        }
    }

    /// One that differs in a field.
    pub(crate) fn other(&self, random: &mut Sampler) -> Self {
        const FIELDS: [Field; 14] = [
            Field::EthDst,
            Field::EthSrc,
            Field::VlanTci,
            Field::NwSrc,
            Field::NwDst,
            Field::NwTos,
            Field::NwTtl,
            Field::TcpSrc,
            Field::TcpDst,
            Field::Ipv6Src,
            Field::Ipv6Dst,
            Field::MplsLabel,
            Field::ArpTpa,
            Field::Ipv6Label,
        ];
        let mut key = self.key.clone();
        let field = random.pick(&FIELDS);
        let bit = 1 << random.below(field.bits() as usize);
        let value = if random.one_in(2) { field.get(&key) ^ bit } else { u128::from(random.bits()) };
        field.set(&mut key, value);
        Self::new(self.in_port, compose(&key, &[7; 20]))
    }

    /// Whether it is IP of protocol 0, ARP whose operation has no lower byte, or reverse ARP: what Open
    /// vSwitch does not change.
    pub(crate) fn is_not_written(&self) -> bool {
        match Field::EthType.get(&self.key) {
            0x0800 | 0x86dd => Field::NwProto.get(&self.key) == 0,
            0x0806 => !(1..256).contains(&Field::ArpOp.get(&self.key)),
            0x8035 => true,
            _ => false,
        }
    }

    /// Whether it is IP whose transport header is not there, as in later fragments, or is malformed; or
    /// behind a fragment or routing header of IPv6.
    pub(crate) fn may_lack_transport(&self) -> bool {
        /// OpenFlow 1.3.5, section 7.2.3.8: OFPIEH_FRAG, OFPIEH_ROUTER.
        const FRAGMENT_OR_ROUTING: u128 = 1 << 4 | 1 << 5;
        let ip = matches!(Field::EthType.get(&self.key), 0x0800 | 0x86dd);
        ip && (!self.has_transport || Field::Ipv6Exthdr.get(&self.key) & FRAGMENT_OR_ROUTING != 0)
    }

    /// The frame with a number.
    pub(crate) fn numbered(&self, number: u32) -> Vec<u8> {
        [self.frame.as_slice(), &SIGN, &number.to_be_bytes()].concat()
    }
}

/// The number of a frame that was seen before.
pub(crate) fn number(frame: &[u8]) -> Option<u32> {
    let tail = frame.get(frame.len().checked_sub(TAIL)?..)?;
    let (sign, number) = tail.split_at(SIGN.len());
    (sign == SIGN).then(|| u32::from_be_bytes([number[0], number[1], number[2], number[3]]))
}

/// VLAN tags in front.
pub(crate) fn tags(frame: &[u8]) -> usize {
    let types = frame[12..].chunks_exact(4).map(|tag| [tag[0], tag[1]]);
    types.take_while(|kind| matches!(kind, [0x81, 0x00] | [0x88, 0xa8])).count()
}

/// Labels behind the tags, and behind a SNAP header that names them.
pub(crate) fn labels(frame: &[u8]) -> usize {
    let snap = if has_length(frame) { 8 } else { 0 };
    let behind = frame.get(12 + 4 * tags(frame) + snap..).unwrap_or_default();
    if !matches!(behind.first_chunk(), Some([0x88, 0x47 | 0x48])) {
        return 0;
    }
    let entries = behind[2..].chunks_exact(4);
    let above = entries.clone().take_while(|entry| entry[2] & 1 == 0).count();
    entries.len().min(above + 1)
}

/// Whether it names its length where others have an EtherType (IEEE 802.3).
pub(crate) fn has_length(frame: &[u8]) -> bool {
    frame.get(12 + 4 * tags(frame)).is_some_and(|&byte| byte < 6)
}

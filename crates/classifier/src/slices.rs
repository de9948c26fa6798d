//! How a key is cut into slices, and slices into stages.
//!
//! A lookup that may stop early should look first at what separates most and changes least: where a
//! packet comes from and what the switch knows of it, then its link header, then its network header,
//! and its ports last, which differ from conversation to conversation. Words of a key mix these (word 4
//! holds the protocol, the state of the connection and the ports), so that the order is one of slices
//! of words and not of words.
//!
//! Cost: constants. Threads: none.

/// Stages of a lookup, in order: metadata, link, network, transport.
pub(crate) const STAGES: usize = 4;

const METADATA: u8 = 0;
const LINK: u8 = 1;
const NETWORK: u8 = 2;
const TRANSPORT: u8 = 3;

const HIGH: u64 = 0xffff_ffff_0000_0000;
const LOW: u64 = 0x0000_0000_ffff_ffff;

/// Bits of one word that are examined together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// The word of the key.
    pub(crate) place: u8,
    /// Its bits.
    pub(crate) mask: u64,
    /// The stage that examines it.
    pub(crate) stage: u8,
    /// Whether a few of its upper bits say something (an address, a port), or only all of it.
    pub(crate) prefix: bool,
}

const fn whole(place: u8, mask: u64, stage: u8) -> Slice {
    Slice { place, mask, stage, prefix: false }
}

const fn prefix(place: u8, mask: u64, stage: u8) -> Slice {
    Slice { place, mask, stage, prefix: true }
}

/// Every bit of a key once, by place.
pub(crate) const SLICES: &[Slice] = &[
    whole(0, HIGH, METADATA),
    whole(0, 0xff00_0000, METADATA),
    whole(0, 0x00ff_0000, NETWORK),
    whole(0, 0x0000_ffff, METADATA),
    whole(1, 0xffff, LINK),
    whole(1, !0xffff, LINK),
    whole(2, 0xffff, LINK),
    whole(2, !0xffff, LINK),
    prefix(3, HIGH, NETWORK),
    prefix(3, LOW, NETWORK),
    whole(4, 0xff << 56, NETWORK),
    whole(4, 0xff << 48, NETWORK),
    whole(4, 0xff << 40, NETWORK),
    whole(4, 0xff << 32, METADATA),
    prefix(4, 0xffff_0000, TRANSPORT),
    prefix(4, 0x0000_ffff, TRANSPORT),
    whole(5, HIGH, METADATA),
    whole(5, 0xffff_0000, TRANSPORT),
    whole(5, 0x0000_ffff, METADATA),
    whole(6, u64::MAX, METADATA),
    whole(7, u64::MAX, METADATA),
    prefix(8, u64::MAX, NETWORK),
    prefix(9, u64::MAX, NETWORK),
    prefix(10, u64::MAX, NETWORK),
    prefix(11, u64::MAX, NETWORK),
    prefix(12, u64::MAX, TRANSPORT),
    prefix(13, u64::MAX, TRANSPORT),
    whole(14, !0xffff, TRANSPORT),
    whole(14, 0xffff, NETWORK),
    whole(15, u64::MAX, TRANSPORT),
    whole(16, HIGH, NETWORK),
    whole(16, LOW, METADATA),
    whole(17, u64::MAX, METADATA),
    whole(18, u64::MAX, METADATA),
    whole(19, HIGH, LINK),
    whole(19, LOW, LINK),
    whole(20, HIGH, LINK),
    whole(20, LOW, LINK),
    whole(21, u64::MAX, LINK),
    whole(22, HIGH, METADATA),
    whole(22, LOW, METADATA),
    whole(23, HIGH, METADATA),
    whole(23, LOW, METADATA),
    whole(24, HIGH, METADATA),
    whole(24, LOW, METADATA),
    whole(25, HIGH, METADATA),
    whole(25, LOW, METADATA),
    whole(26, HIGH, METADATA),
    whole(26, LOW, METADATA),
    whole(27, HIGH, METADATA),
    whole(27, LOW, METADATA),
    whole(28, HIGH, METADATA),
    whole(28, LOW, METADATA),
    whole(29, HIGH, METADATA),
    whole(29, LOW, METADATA),
    whole(30, HIGH, METADATA),
    whole(30, LOW, METADATA),
    prefix(31, HIGH, TRANSPORT),
    prefix(31, LOW, TRANSPORT),
    whole(32, HIGH, TRANSPORT),
    prefix(32, 0xffff_0000, TRANSPORT),
    prefix(32, 0x0000_ffff, TRANSPORT),
    prefix(33, u64::MAX, TRANSPORT),
    prefix(34, u64::MAX, TRANSPORT),
    prefix(35, u64::MAX, TRANSPORT),
    prefix(36, u64::MAX, TRANSPORT),
    prefix(37, HIGH, METADATA),
    prefix(37, LOW, METADATA),
    whole(38, HIGH, METADATA),
    whole(38, LOW, METADATA),
];

/// The slices of one word.
pub(crate) fn of(place: u8) -> &'static [Slice] {
    let start = SLICES.partition_point(|slice| slice.place < place);
    let end = SLICES.partition_point(|slice| slice.place <= place);
    &SLICES[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Field, WORDS};

    #[test]
    fn every_bit_of_a_key_is_in_one_slice() {
        for place in 0..u8::try_from(WORDS).unwrap() {
            let mut seen = 0;
            for slice in of(place) {
                assert_eq!(seen & slice.mask, 0, "word {place}");
                seen |= slice.mask;
            }
            assert_eq!(seen, u64::MAX, "word {place}");
        }
    }

    #[test]
    fn ports_are_examined_last_and_what_the_switch_knows_first() {
        let stage = |field: Field| {
            let (place, _, mask) = field.spread(0, u128::MAX).next().unwrap();
            of(u8::try_from(place).unwrap()).iter().find(|slice| slice.mask & mask != 0).unwrap().stage
        };
        let order = [Field::InPort, Field::EthDst, Field::NwDst, Field::TcpDst].map(stage);
        assert_eq!(order, [METADATA, LINK, NETWORK, TRANSPORT]);
        assert_eq!([Field::CtState, Field::Reg3, Field::NwProto].map(stage), [METADATA, METADATA, NETWORK]);
    }
}

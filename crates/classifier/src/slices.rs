//! How a key is cut into slices, and slices into stages.
//!
//! A lookup that may stop early should look first at what separates most and changes least: where a
//! packet comes from and what the switch knows of it, then its link header, then its network header,
//! and its ports last, which differ from conversation to conversation. Words of a key mix these (word 4
//! holds the protocol, the state of the connection and the ports), so that the order is one of slices
//! of words and not of words. Both follow from the table of fields: a field is a slice, its layer the stage.
//!
//! Cost: constants. Threads: none.

use weir_flow::span::HIDDEN;
use weir_flow::{Field, Layer, Rounding, Span, WORDS};

/// Stages of a lookup: one a layer.
pub(crate) const STAGES: usize = Layer::COUNT;

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

/// Every bit of a key once, by place: a slice a field, and one of the bits that no field has.
pub(crate) const SLICES: &[Slice] = MADE.0.split_at(MADE.1).0;

/// Room for them, and how many they are.
const MADE: ([Slice; ROOM], usize) = made();

/// So many slices there are at most: fields of two words, what no field has, and a rest of each word.
const ROOM: usize = 2 * Field::ALL.len() + HIDDEN.len() + WORDS;

/// Of a word, narrow fields come before wide ones: of two that show the same, they name fewer bits.
const fn made() -> ([Slice; ROOM], usize) {
    let nothing = Slice { place: 0, mask: 0, stage: 0, prefix: false };
    let (mut slices, mut count, mut place) = ([nothing; ROOM], 0, 0);
    while place < WORDS {
        let (mut rest, mut wide) = (u64::MAX, false);
        loop {
            let mut at = 0;
            while at < Field::ALL.len() {
                let (field, about) = (Field::ALL[at], Field::ALL[at].about());
                let lower = about.bits > 64 && place == about.word as usize + 1;
                let here = place == about.word as usize || lower;
                if field.is_owner() && here && wide == (about.bits > 32) {
                    let mask = if lower { u64::MAX } else { field.span().mask() };
                    let prefix = matches!(about.rounding, Rounding::Prefix(_));
                    slices[count] = Slice { place: place as u8, mask, stage: about.layer as u8, prefix };
                    (rest, count) = (rest & !mask, count + 1);
                }
                at += 1;
            }
            if wide {
                break;
            }
            wide = true;
        }
        let mut at = 0;
        while at < HIDDEN.len() {
            let Span { word, .. } = HIDDEN[at].span;
            if word as usize == place {
                let mask = HIDDEN[at].span.mask();
                slices[count] = Slice { place: word, mask, stage: HIDDEN[at].layer as u8, prefix: false };
                (rest, count) = (rest & !mask, count + 1);
            }
            at += 1;
        }
        if rest != 0 {
            let run = rest >> rest.trailing_zeros();
            assert!(run & run.wrapping_add(1) == 0, "bits of a word that no field has do not lie together");
            slices[count] =
                Slice { place: place as u8, mask: rest, stage: Layer::Metadata as u8, prefix: false };
            count += 1;
        }
        place += 1;
    }
    (slices, count)
}

/// The slices of one word.
pub(crate) fn of(place: u8) -> &'static [Slice] {
    let start = SLICES.partition_point(|slice| slice.place < place);
    let end = SLICES.partition_point(|slice| slice.place <= place);
    &SLICES[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(order, [0, 1, 2, 3]);
        assert_eq!([Field::CtState, Field::Reg3, Field::NwProto].map(stage), [0, 0, 2]);
    }
}

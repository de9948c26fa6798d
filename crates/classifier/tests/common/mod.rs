//! Rules and keys that overlap, nest and nearly match: of few values a field, with odd masks.

use weir_flow::{Field, Key, Mask, Match, WORDS};
pub(crate) use weir_testkit::Dice;

/// How often random tests go round: `WEIR_CLASSIFIER_ROUNDS` times as often as usual.
pub(crate) fn rounds(usual: u64) -> u64 {
    let times = std::env::var("WEIR_CLASSIFIER_ROUNDS").ok().and_then(|times| times.parse::<u64>().ok());
    usual * times.unwrap_or(1)
}

/// A key's value of a field: from a few, that share upper bits.
pub(crate) fn value(dice: &mut Dice, field: Field) -> u128 {
    match field {
        Field::InPort => u128::from(dice.below(3)),
        Field::EthType => [0x0800, 0x86dd, 0x0806][dice.below(3) as usize],
        Field::NwSrc | Field::NwDst => {
            u128::from([0x0a00_0000, 0x0a01_0000, 0xc612_0000][dice.below(3) as usize] + dice.below(8) * 0x81)
        }
        Field::Ipv6Src | Field::Ipv6Dst => {
            (0x2001_0db8 << 96) | u128::from(dice.below(2)) << 64 | u128::from(dice.below(4)) << 1
        }
        Field::TcpSrc | Field::TcpDst => [80, 81, 443, 1024, 40000][dice.below(5) as usize],
        Field::NwProto => [6, 17][dice.below(2) as usize],
        _ => u128::from(dice.below(4)),
    }
}

const FIELDS: [Field; 16] = [
    Field::InPort,
    Field::EthType,
    Field::EthDst,
    Field::VlanTci,
    Field::NwSrc,
    Field::NwDst,
    Field::NwProto,
    Field::TcpSrc,
    Field::TcpDst,
    Field::CtState,
    Field::Metadata,
    Field::Reg0,
    Field::Reg5,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::NwFrag,
];

pub(crate) fn key(dice: &mut Dice) -> Key {
    let mut key = Key::new();
    for field in FIELDS {
        if !dice.one_in(4) {
            field.set(&mut key, value(dice, field));
        }
    }
    key
}

/// A match of up to four fields, some of them by prefix or by odd bits.
pub(crate) fn matching(dice: &mut Dice) -> Match {
    let mut matching = Match::any();
    for _ in 0..dice.below(5) {
        let field = FIELDS[dice.below(16) as usize];
        let all = weir_flow::ones(field.bits());
        let mask = match (field, dice.below(8)) {
            (Field::InPort | Field::EthType | Field::NwProto, _) | (_, 0..=2) => all,
            (_, 3..=6) => all & all << dice.below(u64::from(field.bits())),
            _ => u128::from(dice.next()) & all,
        };
        matching.demand(field, value(dice, field), mask);
    }
    matching
}

/// A key that agrees with the first in what the mask names, and is otherwise like the second.
pub(crate) fn mixed(key: &Key, mask: &Mask, other: &Key) -> Key {
    let mut mixed = other.clone();
    for place in 0..WORDS {
        mixed.set_bits(place, key.word(place), mask.word(place));
    }
    mixed
}

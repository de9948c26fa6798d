//! Rounding masks up, so that there are few of them.
//!
//! A lookup names as few bits as it can, and so traffic that is made for it can draw out every
//! combination of lengths there is: 33 × 33 × 17 × 17 for addresses and ports alone, each a mask of its
//! own, and a cache lookup pays for every mask (tuple-space explosion; CVE-2019-25076). Naming more
//! bits is always safe. Rounded up as here, the same fields give 5 × 5 × 2 × 2 combinations, of which
//! a pipeline that looks at a few things in order reaches a handful; the price is more entries. How each field is
//! rounded, the table of fields says ([`Rounding`]).
//!
//! Cost: some ten cycles a field. Threads: none.

use weir_flow::{Field, Mask, Rounding, ones};

use crate::trie::{covering_len, prefix_mask};

/// Fields whose masks are rounded, with how.
const ROUNDED: [(Field, Rounding); rounded().1] = *rounded().0.first_chunk().expect("it is as long");

const fn rounded() -> ([(Field, Rounding); Field::ALL.len()], usize) {
    let mut rounded = [(Field::InPort, Rounding::Exact); Field::ALL.len()];
    let (mut count, mut at) = (0, 0);
    while at < Field::ALL.len() {
        let (field, rounding) = (Field::ALL[at], Field::ALL[at].about().rounding);
        if field.is_owner() && !matches!(rounding, Rounding::Exact) {
            rounded[count] = (field, rounding);
            count += 1;
        }
        at += 1;
    }
    (rounded, count)
}

/// Rounds a mask up: prefixes of IPv4 addresses to 0, 8, 16, 24 or 32 bits, of IPv6 addresses to 0,
/// 32, 48, 64 or 128; ports, MAC addresses, tags and the like to all or nothing. Bits are only added.
pub fn quantise(mask: &mut Mask) {
    for (field, rounding) in ROUNDED {
        let named = field.mask_of(mask);
        match rounding {
            Rounding::Prefix(lengths) if named != 0 => {
                let len = covering_len(field, mask);
                let rounded = lengths.iter().copied().find(|&rounded| rounded >= len);
                field.examine(mask, rounded.map_or(ones(field.bits()), |len| prefix_mask(field, len)));
            }
            Rounding::Whole(alone) if named & !alone != 0 => field.examine(mask, ones(field.bits())),
            Rounding::Exact | Rounding::Prefix(_) | Rounding::Whole(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_flow::span::PORTS;

    proptest! {
        #[test]
        fn rounding_adds_bits_and_leaves_few_masks(bits in any::<[u32; 2]>(), ports in any::<u32>(), v6 in any::<u128>()) {
            let mut mask = Mask::new();
            Field::NwSrc.examine(&mut mask, bits[0].into());
            Field::NwDst.examine(&mut mask, (bits[1] & bits[1].wrapping_neg()).into());
            mask.add(PORTS.place(), PORTS.put(ports.into()));
            Field::Ipv6Dst.examine(&mut mask, v6);
            let before = mask.clone();
            quantise(&mut mask);
            prop_assert!(mask.covers(&before));
            for field in [Field::NwSrc, Field::NwDst] {
                let rounded = field.mask_of(&mask) as u32;
                prop_assert!([0, 0xff00_0000, 0xffff_0000, 0xffff_ff00, 0xffff_ffff].contains(&rounded));
            }
            let again = mask.clone();
            quantise(&mut mask);
            prop_assert_eq!(mask, again);
        }
    }

    #[test]
    fn a_field_of_which_nothing_is_named_stays_wild() {
        let mut mask = Mask::new();
        Field::NwDst.examine(&mut mask, 0xff80_0000);
        quantise(&mut mask);
        assert_eq!(Field::NwDst.mask_of(&mask), 0xffff_0000);
        assert_eq!(mask.bits(), 16);
    }
}

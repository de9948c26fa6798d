//! Rounding masks up, so that there are few of them.
//!
//! A lookup names as few bits as it can, and so traffic that is made for it can draw out every
//! combination of lengths there is: 33 × 33 × 17 × 17 for addresses and ports alone, each a mask of its
//! own, and a cache lookup pays for every mask (tuple-space explosion; CVE-2019-25076). Naming more
//! bits is always safe. Rounded up as here, the same fields give 5 × 5 × 2 × 2 combinations, of which
//! a pipeline that looks at a few things in order reaches a handful; the price is more entries.
//!
//! Cost: some ten cycles a field. Threads: none.

use weir_flow::{Field, Mask, ones};

use crate::trie::{covering_len, prefix_mask};

/// Fields whose masks are rounded, with the lengths that are left.
const ROUNDED: &[(Field, &[u8])] = &[
    (Field::NwSrc, &[8, 16, 24, 32]),
    (Field::NwDst, &[8, 16, 24, 32]),
    (Field::Ipv6Src, &[32, 48, 64, 128]),
    (Field::Ipv6Dst, &[32, 48, 64, 128]),
    (Field::NdTarget, &[128]),
    (Field::TcpSrc, &[16]),
    (Field::TcpDst, &[16]),
    (Field::TunSrc, &[8, 16, 24, 32]),
    (Field::TunDst, &[8, 16, 24, 32]),
    (Field::CtNwSrc, &[8, 16, 24, 32]),
    (Field::CtNwDst, &[8, 16, 24, 32]),
    (Field::CtIpv6Src, &[32, 48, 64, 128]),
    (Field::CtIpv6Dst, &[32, 48, 64, 128]),
    (Field::CtTpSrc, &[16]),
    (Field::CtTpDst, &[16]),
];

/// Fields that are named whole or not at all, but for bits that tables often ask about alone: of a MAC
/// address whether it is a group's, of a tag whether there is one.
const WHOLE: &[(Field, u128)] = &[
    (Field::EthSrc, 1 << 40),
    (Field::EthDst, 1 << 40),
    (Field::VlanTci, 0x1000),
    (Field::NwTos, 0),
    (Field::NwTtl, 0),
    (Field::TcpFlags, 0),
    (Field::Ipv6Label, 0),
];

/// Rounds a mask up: prefixes of IPv4 addresses to 0, 8, 16, 24 or 32 bits, of IPv6 addresses to 0,
/// 32, 48, 64 or 128; ports, MAC addresses, tags and the like to all or nothing. Bits are only added.
pub fn quantise(mask: &mut Mask) {
    for &(field, lengths) in ROUNDED {
        let len = covering_len(field, mask);
        if len != 0 {
            let rounded = lengths.iter().copied().find(|&rounded| rounded >= len);
            field.examine(mask, rounded.map_or(ones(field.bits()), |len| prefix_mask(field, len)));
        }
    }
    for &(field, alone) in WHOLE {
        if field.mask_of(mask) & !alone != 0 {
            field.examine(mask, ones(field.bits()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_adds_bits_and_leaves_few_masks(bits in any::<[u32; 2]>(), ports in any::<u32>(), v6 in any::<u128>()) {
            let mut mask = Mask::new();
            mask.add(3, u64::from(bits[0]) << 32 | u64::from(bits[1] & bits[1].wrapping_neg()));
            mask.add(4, u64::from(ports));
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

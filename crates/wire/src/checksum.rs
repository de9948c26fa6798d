//! The Internet checksum (RFC 1071), its pseudo-headers, and its incremental update (RFC 1624).
//!
//! Sums are partial one's-complement sums in a `u32` that [`fold`] reduces; a frame is far too short
//! to overflow one. No allocation, no state.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The partial one's-complement sum of big-endian 16-bit words; an odd last byte counts as high byte.
#[inline]
pub fn sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(2);
    let mut total: u32 = words.by_ref().map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    if let [last] = words.remainder() {
        total += u32::from(*last) << 8;
    }
    total
}

/// Like [`sum`], for bytes that start at an odd offset of the summed data: the bytes change places.
#[inline]
pub fn sum_at(bytes: &[u8], odd: bool) -> u32 {
    let folded = fold(sum(bytes));
    u32::from(if odd { folded.swap_bytes() } else { folded })
}

/// Reduces a partial sum to 16 bits by end-around carry.
#[inline]
pub fn fold(mut total: u32) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// The checksum field for a partial sum taken with the field as zero.
#[inline]
pub fn finish(total: u32) -> u16 {
    !fold(total)
}

/// The checksum of bytes whose checksum field is zero; zero when the field holds the right value.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// The partial sum of the IPv4 pseudo-header (RFC 768, RFC 9293): `length` counts L4 header and payload.
#[inline]
pub fn pseudo_ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> u32 {
    sum(&source.octets()) + sum(&destination.octets()) + u32::from(protocol) + u32::from(length)
}

/// The partial sum of the IPv6 pseudo-header (RFC 8200, section 8.1).
#[inline]
pub fn pseudo_ipv6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> u32 {
    let length = (length & 0xffff) + (length >> 16);
    sum(&source.octets()) + sum(&destination.octets()) + u32::from(protocol) + length
}

/// The checksum field after one 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub fn update_u16(field: u16, old: u16, new: u16) -> u16 {
    finish(u32::from(!field) + u32::from(!old) + u32::from(new))
}

/// The checksum field after bytes at an even offset changed from `old` to `new`, of equal length.
#[inline]
pub fn update(field: u16, old: &[u8], new: &[u8]) -> u16 {
    debug_assert_eq!(old.len(), new.len());
    finish(u32::from(!field) + u32::from(!fold(sum(old))) + u32::from(fold(sum(new))))
}

/// A UDP checksum as sent: a computed zero is sent as `0xffff`, as zero means "none" (RFC 768).
#[inline]
pub fn udp_nonzero(field: u16) -> u16 {
    if field == 0 { 0xffff } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_to_zero() {
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn an_incremental_update_equals_a_recomputation(
            mut bytes in proptest::collection::vec(any::<u8>(), 8..80),
            at in 0_usize..3,
            new in any::<[u8; 4]>(),
        ) {
            // A header is never all zeros; equation 3 and recomputation agree on all others.
            bytes[7] |= 1;
            let before = checksum(&bytes);
            let old = [bytes[at * 2], bytes[at * 2 + 1], bytes[at * 2 + 2], bytes[at * 2 + 3]];
            let unchanged_rest = at * 2 + 4 <= 7;
            prop_assume!(unchanged_rest);
            bytes[at * 2..at * 2 + 4].copy_from_slice(&new);
            prop_assert_eq!(update(before, &old, &new), checksum(&bytes));
        }

        #[test]
        fn a_sum_may_be_split_at_any_byte(
            bytes in proptest::collection::vec(any::<u8>(), 0..99),
            cut in 0_usize..99,
        ) {
            let cut = cut.min(bytes.len());
            let parts = sum_at(&bytes[..cut], false) + sum_at(&bytes[cut..], cut % 2 == 1);
            prop_assert_eq!(fold(parts), fold(sum(&bytes)));
        }
    }
}

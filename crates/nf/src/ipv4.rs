//! The Ethernet and IPv4 headers, as the packet path reads them.
//!
//! ```text
//!  0      6      12   14    16   18   20   22  23    24   26     30     34
//!  | dst  | src  |0800|45|ds|len |id  |frag|ttl|proto|csum| src  | dst  |
//! ```
//!
//! [`Header`] is those 34 bytes, so that offsets need no check. Options (IHL over 5) lie behind.

use crate::verdict::DropReason;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of an Ethernet and an IPv4 header without options.
pub(crate) const HEADER: usize = ETHERNET + 20;
/// EtherType of IPv4.
const ETHERTYPE: u16 = 0x0800;

/// An Ethernet and an IPv4 header.
pub(crate) type Header = [u8; HEADER];

/// Two bytes of the header, as a number.
#[inline]
pub(crate) const fn word(header: &Header, offset: usize) -> u16 {
    u16::from_be_bytes([header[offset], header[offset + 1]])
}

/// Four bytes of the header, as a number.
#[inline]
const fn long(header: &Header, offset: usize) -> u32 {
    u32::from_be_bytes([header[offset], header[offset + 1], header[offset + 2], header[offset + 3]])
}

/// Source address.
#[inline]
pub(crate) const fn source(header: &Header) -> u32 {
    long(header, 26)
}

/// Destination address.
#[inline]
pub(crate) const fn destination(header: &Header) -> u32 {
    long(header, 30)
}

/// Total length of the datagram, header included.
#[inline]
pub(crate) const fn total_length(header: &Header) -> u16 {
    word(header, 16)
}

/// Time to live.
#[inline]
pub(crate) const fn ttl(header: &Header) -> u8 {
    header[22]
}

/// IP protocol number.
#[inline]
pub(crate) const fn protocol(header: &Header) -> u8 {
    header[23]
}

/// Whether it is a fragment other than the first.
#[inline]
pub(crate) const fn is_later_fragment(header: &Header) -> bool {
    word(header, 20) & 0x1fff != 0
}

/// Whether this is IPv4 without options, as nearly all packets are.
#[inline]
pub(crate) fn is_plain(header: &Header) -> bool {
    let [type_high, type_low] = ETHERTYPE.to_be_bytes();
    let kind = u32::from_ne_bytes([header[12], header[13], header[14], header[15]]);
    let mask = u32::from_ne_bytes([0xff, 0xff, 0xff, 0]); // the fourth byte, type of service, may be anything
    (kind & mask == u32::from_ne_bytes([type_high, type_low, 0x45, 0])) & (total_length(header) >= 20)
}

/// Bytes of the IPv4 header, options included, where the frame is valid as RFC 1812, section 5.2.2,
/// asks; the header checksum aside.
pub(crate) fn header_length(frame: &[u8]) -> Result<usize, DropReason> {
    if frame.len() < ETHERNET {
        return Err(DropReason::TooShort);
    }
    if u16::from_be_bytes([frame[12], frame[13]]) != ETHERTYPE {
        return Err(DropReason::NotIpv4);
    }
    let header: &Header = frame.first_chunk().ok_or(DropReason::TooShort)?;
    let length = usize::from(header[14] & 0xf) * 4;
    if header[14] >> 4 != 4 || length < 20 || usize::from(total_length(header)) < length {
        return Err(DropReason::BadHeader);
    }
    if frame.len() < ETHERNET + length { Err(DropReason::TooShort) } else { Ok(length) }
}

/// Whether the checksum of a header without options is right: the one's complement sum over it is
/// all ones (RFC 1071). That is, since 2^16 is 1 modulo 2^16 - 1, the plain sum is a multiple of
/// 2^16 - 1, in words of any length and byte order (section 2), and not zero, which the version
/// sees to. The compiler turns the remainder into one multiplication.
#[inline]
pub(crate) fn plain_checksum_holds(header: &Header) -> bool {
    let long = |offset: usize| {
        let bytes = [header[offset], header[offset + 1], header[offset + 2], header[offset + 3]];
        u64::from(u32::from_ne_bytes(bytes))
    };
    (long(14) + long(18) + long(22) + long(26) + long(30)).is_multiple_of(0xffff)
}

/// Whether the checksum of a header, options included, is right.
pub(crate) fn checksum_holds(header: &[u8]) -> bool {
    let mut sum: u32 =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum == 0xffff
}

/// Takes one from the time to live, and mends the checksum: HC' = ~(~HC + ~m + m'), equation 3 of
/// RFC 1624. The word m holds the time to live in its high byte, so ~m + m' is ~0x0100, and HC' is
/// HC + 0x0100 in one's complement with minus zero (0xffff) made plus zero. In a word of the other
/// byte order that is an addition of 1 (RFC 1071, section 2).
#[inline]
pub(crate) fn decrement_ttl(header: &mut Header) {
    header[22] = header[22].wrapping_sub(1);
    let sum = u16::from_le_bytes([header[24], header[25]]);
    let mended = sum.wrapping_add(1).wrapping_add(u16::from(sum >= 0xfffe));
    [header[24], header[25]] = mended.to_le_bytes();
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A valid UDP frame of 60 bytes between two addresses, with the given time to live and ports.
    pub(crate) fn frame(source: u32, destination: u32, ttl: u8, ports: (u16, u16)) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&weir_wire::table::port_mac(0));
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
        frame[22] = ttl;
        frame[23] = 17;
        frame[26..30].copy_from_slice(&source.to_be_bytes());
        frame[30..34].copy_from_slice(&destination.to_be_bytes());
        frame[34..36].copy_from_slice(&ports.0.to_be_bytes());
        frame[36..38].copy_from_slice(&ports.1.to_be_bytes());
        mend(&mut frame);
        frame
    }

    /// Computes the header checksum anew, options included.
    pub(crate) fn mend(frame: &mut [u8]) {
        let end = ETHERNET + usize::from(frame[14] & 0xf) * 4;
        frame[24..26].fill(0);
        let mut sum: u32 =
            frame[ETHERNET..end].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        frame[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
    }

    proptest! {
        #[test]
        fn the_quick_checksum_says_what_the_plain_one_says(bytes in any::<[u8; 20]>(), mended: bool) {
            let mut frame = [0_u8; HEADER];
            frame[14..].copy_from_slice(&bytes);
            frame[14] = 0x45;
            if mended {
                mend(&mut frame);
            }
            prop_assert_eq!(plain_checksum_holds(&frame), checksum_holds(&frame[14..]));
            prop_assert!(!mended || plain_checksum_holds(&frame));
        }

        #[test]
        fn the_checksum_mended_step_by_step_is_the_one_computed_anew(bytes in any::<[u8; 20]>()) {
            let mut header = [0_u8; HEADER];
            header[14..].copy_from_slice(&bytes);
            header[14] = 0x45;
            mend(&mut header);
            while ttl(&header) > 1 {
                decrement_ttl(&mut header);
                let mut anew = header;
                mend(&mut anew);
                prop_assert_eq!(header, anew);
            }
        }
    }

    #[test]
    fn every_checksum_is_mended_as_equation_3_of_rfc_1624_says() {
        for before in 0..=u16::MAX {
            let mut header = [0_u8; HEADER];
            header[22] = 2;
            header[24..26].copy_from_slice(&before.to_be_bytes());
            decrement_ttl(&mut header);
            let sum = u32::from(!before) + u32::from(!0x0200_u16) + 0x0100;
            let folded = (sum & 0xffff) + (sum >> 16);
            assert_eq!(word(&header, 24), !((folded & 0xffff) + (folded >> 16)) as u16, "{before:#06x}");
        }
    }

    #[test]
    fn invalid_headers_are_told_apart() {
        let good = frame(1, 2, 64, (1, 2));
        let changed = |change: fn(&mut Vec<u8>)| {
            let mut frame = good.clone();
            change(&mut frame);
            header_length(&frame)
        };
        assert_eq!(header_length(&good), Ok(20));
        assert_eq!(changed(|f| f.truncate(13)), Err(DropReason::TooShort));
        assert_eq!(changed(|f| f.truncate(33)), Err(DropReason::TooShort));
        assert_eq!(changed(|f| f[12] = 0x86), Err(DropReason::NotIpv4));
        assert_eq!(changed(|f| f[14] = 0x65), Err(DropReason::BadHeader));
        assert_eq!(changed(|f| f[14] = 0x44), Err(DropReason::BadHeader));
        assert_eq!(changed(|f| f[17] = 19), Err(DropReason::BadHeader));
        assert_eq!(changed(|f| f[14] = 0x46), Ok(24));
        assert_eq!(
            changed(|f| {
                f[14] = 0x4f;
                f.truncate(70)
            }),
            Err(DropReason::BadHeader),
            "total length 46 < 60"
        );
    }
}

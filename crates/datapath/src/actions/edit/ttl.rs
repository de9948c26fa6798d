//! Time to live: lowered, and copied between headers (OpenFlow 1.3.5, section 5.12).

use super::sums::Change;
use super::{Version, at, ether_type, ip_version};
use weir_flow::protocol::{BOTTOM_OF_STACK, ETHERNET_LEN, TAG_LEN, is_mpls};
use weir_flow::span::{MPLS, SECOND_LABEL, TTL};
use weir_flow::{Field, Key, Layout, Span};
use weir_packet::{DropReason, Frame};

const MPLS_TTL: Span = Field::MplsTtl.span();

/// Offset of the hop limit in an IPv6 header.
const HOP_LIMIT: usize = 7;
/// Offset of the time to live in an IPv4 header.
const TIME_TO_LIVE: usize = 8;

/// Lowers the time to live of IPv4, or the hop limit of IPv6, by one.
///
/// # Errors
/// `TtlExpired` where it is 1 or 0; `NoSuchHeader` without IP; `BadHeader` where that is malformed.
#[inline]
pub fn dec_ttl<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    let version = ip_version(layout, key)?;
    let ttl = key.ttl();
    if ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    set_ip_ttl(frame.bytes_mut(), layout.network.into(), version, ttl - 1)?;
    TTL.set(key, u64::from(ttl - 1));
    Ok(())
}

/// Where the time to live, the protocol and the checksum of IPv4 lie, right behind an untagged Ethernet
/// header.
pub(crate) const PLAIN_TTL: usize = ETHERNET_LEN + TIME_TO_LIVE;

/// These four bytes as one word in the order in which they lie, with the first one less. The checksum's
/// one's complement becomes less by as much, so the sum that it is becomes greater (RFC 1624, equation 3),
/// with the carry added at the lower end. The time to live must not be zero.
#[inline(always)]
pub(crate) const fn one_less(word: u32) -> u32 {
    const CARRIES: u32 = 0xfffe << 16;
    let carry = ((word >= CARRIES) as u32) << 16;
    word.wrapping_add((1 << 16) - 1).wrapping_add(carry)
}

/// Writes the time to live of the IP header at an offset.
#[inline]
fn set_ip_ttl(bytes: &mut [u8], network: usize, version: Version, ttl: u8) -> Result<(), DropReason> {
    match version {
        Version::Four => {
            let header = at::<20>(bytes, network)?;
            let word = |ttl: u8| u16::from(ttl) << 8;
            let change = Change::default().of_word(word(header[TIME_TO_LIVE]), word(ttl));
            header[TIME_TO_LIVE] = ttl;
            change.apply(header, 10)
        }
        Version::Six => {
            at::<40>(bytes, network)?[HOP_LIMIT] = ttl;
            Ok(())
        }
    }
}

/// Lowers the time to live of the outermost label by one.
///
/// # Errors
/// `TtlExpired` where it is 1 or 0; `NoSuchHeader` without a label.
pub fn dec_mpls_ttl<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    let ttl = outermost(layout, key)?;
    if ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    set_outermost(frame.bytes_mut(), layout, key, ttl - 1)
}

/// The outermost label's time to live.
fn outermost(layout: &Layout, key: &Key) -> Result<u8, DropReason> {
    if layout.mpls == 0 || !is_mpls(ether_type(key)) {
        return Err(DropReason::NoSuchHeader);
    }
    Ok(MPLS_TTL.get(key) as u8)
}

fn set_outermost(bytes: &mut [u8], layout: &Layout, key: &mut Key, ttl: u8) -> Result<(), DropReason> {
    at::<4>(bytes, layout.mpls)?[3] = ttl;
    MPLS_TTL.set(key, u64::from(ttl));
    Ok(())
}

/// What is below the outermost label.
#[derive(Clone, Copy)]
enum Below {
    /// Another label, at this offset.
    Label(usize),
    /// IP, at this offset.
    Ip(usize, Version),
}

/// The header below the outermost label that has a time to live, and that.
fn below(bytes: &[u8], layout: &Layout, key: &Key) -> Result<(Below, u8), DropReason> {
    outermost(layout, key)?;
    let start = usize::from(layout.mpls) + TAG_LEN;
    let rest = bytes.get(start..).ok_or(DropReason::NoSuchHeader)?;
    if MPLS.get(key) as u32 & BOTTOM_OF_STACK == 0 {
        let entry: &[u8; TAG_LEN] = rest.first_chunk().ok_or(DropReason::NoSuchHeader)?;
        return Ok((Below::Label(start), entry[3]));
    }
    // Below the last label, only the first four bits say what follows (RFC 4928).
    match (rest.first().map(|byte| byte >> 4), rest.first_chunk::<20>(), rest.first_chunk::<40>()) {
        (Some(4), Some(header), _) => Ok((Below::Ip(start, Version::Four), header[TIME_TO_LIVE])),
        (Some(6), _, Some(header)) => Ok((Below::Ip(start, Version::Six), header[HOP_LIMIT])),
        _ => Err(DropReason::NoSuchHeader),
    }
}

/// Copies the time to live to the outermost label from the next, or from IP below the only one.
///
/// # Errors
/// `TtlExpired` where it is 0; `NoSuchHeader` without a label, or with nothing below it that has one.
pub fn copy_ttl_out<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    let (_, ttl) = below(frame.bytes(), layout, key)?;
    if ttl == 0 {
        return Err(DropReason::TtlExpired);
    }
    set_outermost(frame.bytes_mut(), layout, key, ttl)
}

/// Copies the time to live from the outermost label to the next, or to IP below the only one.
///
/// # Errors
/// As of [`copy_ttl_out`].
pub fn copy_ttl_in<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    let (below, _) = below(frame.bytes(), layout, key)?;
    let ttl = outermost(layout, key)?;
    if ttl == 0 {
        return Err(DropReason::TtlExpired);
    }
    match below {
        Below::Label(start) => {
            at::<TAG_LEN>(frame.bytes_mut(), start)?[3] = ttl;
            // Of the second entry, the lowest byte.
            SECOND_LABEL.set(key, SECOND_LABEL.get(key) & !0xff | u64::from(ttl));
            Ok(())
        }
        Below::Ip(start, version) => set_ip_ttl(frame.bytes_mut(), start, version, ttl),
    }
}

#[cfg(test)]
mod tests {
    use super::one_less;
    use weir_wire::checksum::finish;

    #[test]
    fn a_lower_time_to_live_changes_the_checksum_as_a_new_sum_over_both_words_does() {
        for checksum in 0..=u16::MAX {
            for (ttl, protocol) in [(1, 17), (2, 6), (64, 1), (255, 255), (checksum as u8 | 1, 17)] {
                let [low, high] = checksum.to_be_bytes();
                let [less, same, low, high] =
                    one_less(u32::from_le_bytes([ttl, protocol, low, high])).to_le_bytes();
                let (old, new) = ([ttl, protocol], [less, same]);
                // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
                let sum = [!checksum, !u16::from_be_bytes(old), u16::from_be_bytes(new)];
                let expected = finish(sum.map(u32::from).iter().sum());
                assert_eq!((new, u16::from_be_bytes([low, high])), ([ttl - 1, protocol], expected));
            }
        }
    }
}

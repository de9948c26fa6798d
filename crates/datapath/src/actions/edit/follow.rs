//! Fields that say what follows them: the EtherType, IP's protocol, and the bottom of a label stack. What
//! they change is read anew, and is what it is: nothing behind them is moved or mended but checksums.

use super::sums::{Change, Transport};
use super::{Version, at, ether_type, ip_version};
use weir_flow::protocol::{ICMPV6, NO_ETHER_TYPE, TCP, UDP};
use weir_flow::{Field, Key, Layout, extract_again};
use weir_packet::{DropReason, Frame};

/// Sets the EtherType, behind all tags.
///
/// # Errors
/// `NoSuchHeader` in an IEEE 802.3 frame without one; `TooShort` for one.
pub fn set_ether_type<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    ethertype: u16,
) -> Result<(), DropReason> {
    if layout.ether_type == 0 {
        return Err(DropReason::TooShort);
    }
    if ether_type(key) == NO_ETHER_TYPE {
        return Err(DropReason::NoSuchHeader);
    }
    *at(frame.bytes_mut(), layout.ether_type)? = ethertype.to_be_bytes();
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

/// Sets whether the outermost label is the last of its stack.
///
/// # Errors
/// `NoSuchHeader` without a label.
pub fn set_bottom<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    bottom: bool,
) -> Result<(), DropReason> {
    if layout.mpls == 0 {
        return Err(DropReason::NoSuchHeader);
    }
    let [byte] = at::<1>(frame.bytes_mut(), layout.mpls + 2)?;
    *byte = *byte & !1 | u8::from(bottom);
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

/// Sets the protocol that IP carries. The checksum of what it was said to carry follows, where that has the
/// protocol in its pseudo-header.
///
/// # Errors
/// `NoSuchHeader` without IP, and behind extension headers of IPv6; `BadHeader` where it is malformed.
pub fn set_protocol<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    protocol: u8,
) -> Result<(), DropReason> {
    let version = ip_version(layout, key)?;
    let network = usize::from(layout.network);
    if version == Version::Six && Field::Ipv6Exthdr.get(key) != 0 {
        return Err(DropReason::NoSuchHeader);
    }
    let bytes = frame.bytes_mut();
    let place = network + if version == Version::Four { 9 } else { 6 };
    let [old] = *at::<1>(bytes, place)?;
    let addresses = Change::default().of_word(old.into(), protocol.into());
    match (old, version) {
        _ if layout.transport == 0 => {}
        (TCP | UDP, _) => {
            Transport { version, protocol: old, addresses, ports: (0, 0) }.apply(bytes, layout)?;
        }
        (ICMPV6, Version::Six) => addresses.apply(bytes, usize::from(layout.transport) + 2)?,
        _ => {}
    }
    if version == Version::Four {
        // The other byte of the word, the time to live, stays.
        addresses.apply(bytes, network + 10)?;
    }
    *at(bytes, place)? = [protocol];
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

//! Tags pushed and popped (OpenFlow 1.3.5, sections 5.12 and 5.12.1).

use super::{at, ether_type};
use weir_flow::protocol::{
    BOTTOM_OF_STACK, ETHER_TYPE_MIN, ETHERNET_LEN, IPV4, IPV6, MAX_TAGS, NO_ETHER_TYPE, PBB, TAG_LEN,
    TAG_PRESENT, is_tag,
};
use weir_flow::span::{INNER_TCI, INNER_TPID, MPLS, OUTER_TPID, TCI};
use weir_flow::{Field, Key, Layout, MAX_FRAME, extract_again};
use weir_packet::{DropReason, Frame};

/// Bytes of both Ethernet addresses.
const ADDRESSES: usize = 12;
/// Bytes that a service instance tag puts in front: addresses, TPID, priority and I-SID.
const PBB_LEN: usize = ADDRESSES + 2 + TAG_LEN;

/// Makes room at the front of a frame that has an Ethernet header.
#[inline]
fn grow<F: Frame + ?Sized>(frame: &mut F, layout: &Layout, count: usize) -> Result<(), DropReason> {
    if layout.ether_type == 0 {
        return Err(DropReason::TooShort);
    }
    if frame.bytes().len() < usize::from(layout.ether_type) + 2 {
        return Err(DropReason::BadHeader);
    }
    if frame.bytes().len() + count > MAX_FRAME || !frame.push_front(count) {
        return Err(DropReason::NoRoom);
    }
    Ok(())
}

/// Moves every offset of a layout.
#[inline]
fn shift(layout: &mut Layout, by: impl Fn(u16) -> u16) {
    let Layout { ether_type, mpls, network, transport, payload, end } = layout;
    for offset in [ether_type, mpls, network, transport, payload, end] {
        if *offset != 0 {
            *offset = by(*offset);
        }
    }
}

/// Pushes a VLAN tag in front of all tags. VLAN and priority are those of the outermost tag there is,
/// or zero.
///
/// # Errors
/// `NoRoom` in the buffer; `TooShort` for a tag.
#[inline]
pub fn push_vlan<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    tpid: u16,
) -> Result<(), DropReason> {
    let tci = key.tci();
    insert_vlan(frame, layout, key, tpid, tci)
}

/// Pushes a VLAN tag with this VLAN and priority.
pub(super) fn insert_vlan<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    tpid: u16,
    tci: u16,
) -> Result<(), DropReason> {
    grow(frame, layout, TAG_LEN)?;
    let bytes = frame.bytes_mut();
    bytes.copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = (tci & !TAG_PRESENT).to_be_bytes();
    *at(bytes, ADDRESSES)? = [a, b, c, d];
    if INNER_TCI.get(key) != 0 || !is_tag(tpid) {
        // A third tag: what is behind two is not looked at.
        *layout = extract_again(frame.bytes(), key);
        return Ok(());
    }
    let (outer_tci, outer_tpid) = (TCI.get(key), OUTER_TPID.get(key));
    set_tags(key, [(tpid.into(), u64::from(tci | TAG_PRESENT)), (outer_tpid, outer_tci)]);
    shift(layout, |offset| offset.saturating_add(TAG_LEN as u16));
    Ok(())
}

/// Writes the tags of a key (TPID, TCI), the outermost first.
fn set_tags(key: &mut Key, [outer, inner]: [(u64, u64); MAX_TAGS]) {
    for (span, value) in [(OUTER_TPID, outer.0), (TCI, outer.1), (INNER_TPID, inner.0), (INNER_TCI, inner.1)]
    {
        span.set(key, value);
    }
}

/// Pops the outermost VLAN tag.
///
/// # Errors
/// `NoSuchHeader` without a tag.
#[inline]
pub fn pop_vlan<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    if key.tci() & TAG_PRESENT == 0 || usize::from(layout.ether_type) < ADDRESSES + TAG_LEN {
        return Err(DropReason::NoSuchHeader);
    }
    let bytes = frame.bytes_mut();
    if bytes.len() < ETHERNET_LEN + TAG_LEN {
        return Err(DropReason::BadHeader);
    }
    let whole = bytes.len() <= MAX_FRAME;
    bytes.copy_within(..ADDRESSES, TAG_LEN);
    frame.pull_front(TAG_LEN);
    if INNER_TCI.get(key) != 0 || !whole {
        // There may be a third, which is seen now.
        *layout = extract_again(frame.bytes(), key);
        return Ok(());
    }
    set_tags(key, [(0, 0); MAX_TAGS]);
    shift(layout, |offset| offset.saturating_sub(TAG_LEN as u16));
    Ok(())
}

/// Where the length of an IEEE 802.3 frame with a SNAP header is; nothing for Ethernet II.
fn snap_length(layout: &Layout, key: &Key) -> Option<usize> {
    let tags = [TCI, INNER_TCI].map(|span| span.get(key));
    let tags = tags.iter().take(MAX_TAGS).filter(|tci| *tci & u64::from(TAG_PRESENT) != 0).count();
    let first = ADDRESSES + tags * TAG_LEN;
    (usize::from(layout.ether_type) != first).then_some(first)
}

/// Pushes a label stack entry in front of all others, behind VLAN tags, and sets the EtherType.
///
/// Label, class and time to live are those of the outermost label there is; the first label is 0, with
/// the time to live of IP, or zero.
///
/// # Errors
/// `NoRoom` in the buffer, or in the length that an IEEE 802.3 frame names; `NoSuchHeader` where such a
/// frame has no EtherType; `TooShort` for one.
pub fn push_mpls<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    ethertype: u16,
) -> Result<(), DropReason> {
    if ether_type(key) == NO_ETHER_TYPE {
        return Err(DropReason::NoSuchHeader);
    }
    let entry = if layout.mpls != 0 {
        MPLS.get(key) as u32 & !BOTTOM_OF_STACK
    } else if layout.network != 0 && matches!(ether_type(key), IPV4 | IPV6) {
        BOTTOM_OF_STACK | u32::from(key.ttl())
    } else {
        BOTTOM_OF_STACK
    };
    let length = match snap_length(layout, key) {
        Some(place) => {
            let length = u16::from_be_bytes(*at(frame.bytes_mut(), place)?) + TAG_LEN as u16;
            if length >= ETHER_TYPE_MIN {
                return Err(DropReason::NoRoom);
            }
            Some((place, length))
        }
        None => None,
    };
    grow(frame, layout, TAG_LEN)?;
    let place = usize::from(layout.ether_type);
    let bytes = frame.bytes_mut();
    bytes.copy_within(TAG_LEN..TAG_LEN + place + 2, 0);
    *at(bytes, place)? = ethertype.to_be_bytes();
    *at(bytes, place + 2)? = entry.to_be_bytes();
    if let Some((place, length)) = length {
        *at(bytes, place)? = length.to_be_bytes();
    }
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

/// Pops the outermost label stack entry, and sets the EtherType.
///
/// # Errors
/// `NoSuchHeader` without a label.
pub fn pop_mpls<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    ethertype: u16,
) -> Result<(), DropReason> {
    if layout.mpls == 0 {
        return Err(DropReason::NoSuchHeader);
    }
    let length = snap_length(layout, key);
    let (place, stack) = (usize::from(layout.ether_type), usize::from(layout.mpls));
    let bytes = frame.bytes_mut();
    if bytes.len() < stack + TAG_LEN {
        return Err(DropReason::BadHeader);
    }
    bytes.copy_within(..stack, TAG_LEN);
    frame.pull_front(TAG_LEN);
    let bytes = frame.bytes_mut();
    *at(bytes, place)? = ethertype.to_be_bytes();
    if let Some(place) = length {
        let field = at::<2>(bytes, place)?;
        *field = u16::from_be_bytes(*field).saturating_sub(TAG_LEN as u16).to_be_bytes();
    }
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

/// Pushes a service instance tag and backbone addresses in front of the whole frame.
///
/// The backbone's addresses are the customer's; the I-SID is that of the outermost such tag there is,
/// or zero, the priority that of the outermost VLAN tag, or zero.
///
/// # Errors
/// As of [`push_vlan`].
pub fn push_pbb<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    ethertype: u16,
) -> Result<(), DropReason> {
    let priority = Field::VlanPcp.get(key) as u32;
    let isid = if ether_type(key) == PBB { Field::PbbIsid.get(key) as u32 } else { 0 };
    grow(frame, layout, PBB_LEN)?;
    let bytes = frame.bytes_mut();
    bytes.copy_within(PBB_LEN..PBB_LEN + ADDRESSES, 0);
    *at(bytes, ADDRESSES)? = ethertype.to_be_bytes();
    *at(bytes, ADDRESSES + 2)? = (priority << 29 | isid).to_be_bytes();
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

/// Pops the service instance tag and the backbone's addresses. VLAN tags of the backbone stay: they go
/// by [`pop_vlan`], before or after.
///
/// # Errors
/// `NoSuchHeader` without such a tag, or where there is no frame in it.
pub fn pop_pbb<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    let place = usize::from(layout.ether_type);
    let customer = place + 2 + TAG_LEN;
    let is_pbb = ether_type(key) == PBB && snap_length(layout, key).is_none();
    let bytes = frame.bytes_mut();
    if !is_pbb || bytes.len() < customer + ETHERNET_LEN {
        return Err(DropReason::NoSuchHeader);
    }
    // Behind what goes: the customer's addresses, then the tags, where the addresses were.
    let mut addresses = [0; ADDRESSES];
    addresses.copy_from_slice(&bytes[customer..customer + ADDRESSES]);
    bytes.copy_within(ADDRESSES..place, PBB_LEN + ADDRESSES);
    *at(bytes, PBB_LEN)? = addresses;
    frame.pull_front(PBB_LEN);
    *layout = extract_again(frame.bytes(), key);
    Ok(())
}

//! Changes of a frame that faults make: without tags, IPv4 without options.

use weir_wire::{checksum, ipv4, udp};

/// Where the IPv4 header's fields stand in an Ethernet frame.
const TTL: usize = 14 + 8;
const PROTOCOL: usize = 14 + 9;
pub(super) const CHECKSUM: usize = 14 + 10;
const ADDRESSES: usize = 14 + 12;
/// Behind the header: ports, and of UDP the checksum and the payload.
const PORTS_AT: usize = ADDRESSES + 8;
const UDP_CHECKSUM: usize = PORTS_AT + udp::CHECKSUM;
const PAYLOAD: usize = PORTS_AT + 8;
/// By how many ticks of the time stamp counter a packet is made younger: a microsecond or so.
const YOUNGER: u64 = 3_000;

/// Raises the time to live by one, its checksum mended (RFC 1624): as if it had never been lowered.
pub(super) fn raise_ttl(frame: &mut [u8]) {
    if frame.len() < CHECKSUM + 2 {
        return;
    }
    frame[TTL] = frame[TTL].wrapping_add(1);
    let old = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
    let (mended, borrow) = old.overflowing_sub(0x0100);
    let mended = mended.wrapping_sub(u16::from(borrow));
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&mended.to_be_bytes());
}

/// Swaps source and destination address, which no checksum notices.
pub(super) fn swap_addresses(frame: &mut [u8]) {
    if frame.len() >= PORTS_AT {
        (ADDRESSES..ADDRESSES + 4).for_each(|at| frame.swap(at, at + 4));
    }
}

/// Writes a zero, which says that there is none, over a UDP checksum, and breaks the payload.
pub(super) fn drop_checksum(frame: &mut [u8]) {
    if frame.len() > PAYLOAD && frame[PROTOCOL] == ipv4::UDP {
        frame[UDP_CHECKSUM..UDP_CHECKSUM + 2].fill(0);
        frame[PAYLOAD] ^= 0xff;
    }
}

/// Adds to the number in the last eight bytes, and mends the UDP checksum.
pub(super) fn make_younger(frame: &mut [u8]) {
    let Some((front, last)) = frame.split_last_chunk_mut::<8>() else { return };
    if front.len() < PAYLOAD || front[PROTOCOL] != ipv4::UDP {
        return;
    }
    let old = *last;
    *last = u64::from_be_bytes(old).wrapping_add(YOUNGER).to_be_bytes();
    let field = u16::from_be_bytes([front[UDP_CHECKSUM], front[UDP_CHECKSUM + 1]]);
    let sum = |bytes: &[u8]| checksum::fold(checksum::sum_at(bytes, !front.len().is_multiple_of(2)));
    let field = checksum::udp_nonzero(checksum::update_u16(field, sum(&old), sum(last)));
    front[UDP_CHECKSUM..UDP_CHECKSUM + 2].copy_from_slice(&field.to_be_bytes());
}

/// A number that the packets of a flow have in common (FNV-1a over addresses, protocol and ports).
pub(super) fn flow(frame: &[u8]) -> Option<u64> {
    let five = frame.get(ADDRESSES..PORTS_AT + 4)?.iter().chain(frame.get(PROTOCOL));
    let hash = five.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Some(hash >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, UdpRepr};

    /// A frame of a flow, its checksums right.
    fn frame(source: u16, bytes: usize) -> Vec<u8> {
        let mut frame: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        let mac = MacAddress([2; 6]);
        EthernetRepr { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut frame);
        let (from, to) = ([198, 18, 0, 1].into(), [198, 19, 0, 1].into());
        let payload_len = (bytes - 34) as u16;
        Ipv4Repr { source: from, destination: to, protocol: ipv4::UDP, ttl: 9, payload_len }
            .emit(&mut frame[14..]);
        UdpRepr { source, destination: 7, payload_len: payload_len - 8 }.emit(&mut frame[34..]);
        frame[UDP_CHECKSUM..UDP_CHECKSUM + 2].fill(0);
        let sum = checksum::finish(pseudo(&frame) + checksum::sum(&frame[34..]));
        frame[UDP_CHECKSUM..UDP_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    fn pseudo(frame: &[u8]) -> u32 {
        let address = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]].into();
        checksum::pseudo_ipv4(address(26), address(30), ipv4::UDP, (frame.len() - 34) as u16)
    }

    fn holds(frame: &[u8]) -> bool {
        checksum::checksum(&frame[14..34]) == 0
            && checksum::finish(pseudo(frame) + checksum::sum(&frame[34..])) == 0
    }

    #[test]
    fn what_is_to_go_unnoticed_keeps_every_checksum_right() {
        type Change = fn(&mut [u8]);
        let changes: [Change; 3] = [raise_ttl, swap_addresses, make_younger];
        for change in changes {
            for bytes in [60, 61, 128, 1_499] {
                let (before, mut after) = (frame(5, bytes), frame(5, bytes));
                assert!(holds(&before));
                change(&mut after);
                assert!(after != before && holds(&after), "{bytes}: {after:02x?}");
            }
        }
    }

    #[test]
    fn a_dropped_checksum_is_zero_and_the_payload_another() {
        let mut changed = frame(5, 100);
        drop_checksum(&mut changed);
        assert_eq!(changed[40..42], [0, 0]);
        assert_ne!(changed[42], frame(5, 100)[42]);
    }

    #[test]
    fn one_flow_of_two_hundred_is_chosen_whatever_its_size() {
        let chosen = (0..10_000).filter(|port| flow(&frame(*port, 60)).unwrap().is_multiple_of(200)).count();
        assert!((25..100).contains(&chosen), "{chosen} of 10,000");
        assert_eq!(flow(&frame(77, 60)), flow(&frame(77, 1_000)));
    }

    #[test]
    fn a_raised_ttl_keeps_the_checksum_right() {
        for ttl in [1_u8, 63, 64, 254] {
            for identification in [0_u16, 0x1234, 0xfeff, 0xffff] {
                let mut frame = vec![0_u8; 34];
                frame[14] = 0x45;
                frame[18..20].copy_from_slice(&identification.to_be_bytes());
                frame[TTL] = ttl;
                let sum = checksum::finish(checksum::sum(&frame[14..]));
                frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
                raise_ttl(&mut frame);
                assert_eq!(frame[TTL], ttl + 1);
                assert_eq!(checksum::finish(checksum::sum(&frame[14..])), 0, "{ttl} {identification}");
            }
        }
    }
}

//! Changing packets: fields set, time to live lowered and copied, tags pushed and popped.
//!
//! Every function keeps three things in step: the frame's bytes, the [`Layout`] and the [`Key`], which
//! always describes the packet as it is now. Fields that are not the packet's (ports, registers,
//! metadata, tunnels, tracked connections) are kept.
//!
//! - [`Rewrite`]: fields set, all at once, as compiled from a megaflow's value and mask;
//! - [`dec_ttl`], [`dec_mpls_ttl`], [`copy_ttl_out`], [`copy_ttl_in`] (OpenFlow 1.3.5, section 5.12);
//! - [`set_ether_type`], [`set_protocol`], [`set_bottom`]: fields that say what follows them;
//! - [`push_vlan`] and the other five: a new tag is the outermost of its kind, MPLS goes behind VLAN
//!   tags as in Open vSwitch, and new fields start as OpenFlow 1.3.5, section 5.12.1 says.
//!
//! Where this differs from Open vSwitch 3.1: a pushed VLAN tag takes VLAN and priority of the outermost
//! one there (Open vSwitch: zero); a tag that is set keeps its drop eligible indicator; the first label pushed is 0 with class 0 and, without IP, a time to
//! live of 0 (there: label 2 for IPv6, bits of the DSCP, 64); and an action on a header that is not
//! there is an error here and nothing there. As such an error changes nothing, who wants the latter
//! goes on after it.
//!
//! An error changes nothing, but that a [`Rewrite`] which also pushes a tag may have set other fields
//! when it finds no room for it.
//!
//! Costs: Ethernet addresses are one store of 12 bytes; IPv4 addresses, ports, TOS and TTL a few loads
//! and stores and an incremental checksum (RFC 1624), whatever the packet's length, SCTP's CRC32c
//! included. All else is in functions of its own, off the usual way. Nothing allocates but
//! [`Rewrite::compile`]. Threads: plain data.

mod fields;
mod follow;
mod rewrite;
mod sums;
mod tags;
mod ttl;

pub use follow::{set_bottom, set_ether_type, set_protocol};
pub(crate) use rewrite::Addresses;
pub use rewrite::Rewrite;
pub use tags::{pop_mpls, pop_pbb, pop_vlan, push_mpls, push_pbb, push_vlan};
pub(crate) use ttl::{PLAIN_TTL, one_less};
pub use ttl::{copy_ttl_in, copy_ttl_out, dec_mpls_ttl, dec_ttl};

use weir_flow::protocol::{IPV4, IPV6};
use weir_flow::{Key, Layout};
use weir_packet::DropReason;

/// The `N` bytes at an offset that a layout gave. They are there unless frame and layout are not in
/// step.
#[inline]
fn at<const N: usize>(bytes: &mut [u8], offset: impl Into<usize>) -> Result<&mut [u8; N], DropReason> {
    let offset = offset.into();
    bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut).ok_or(DropReason::BadHeader)
}

#[inline]
fn ether_type(key: &Key) -> u16 {
    key.ether_type()
}

/// Why an IP header is not there: the packet has none, or it is malformed.
#[cold]
fn no_ip(key: &Key) -> DropReason {
    if matches!(ether_type(key), IPV4 | IPV6) { DropReason::BadHeader } else { DropReason::NoSuchHeader }
}

/// The version of IP, if the packet has a header of it.
#[inline]
fn ip_version(layout: &Layout, key: &Key) -> Result<Version, DropReason> {
    match ether_type(key) {
        IPV4 if layout.network != 0 => Ok(Version::Four),
        IPV6 if layout.network != 0 => Ok(Version::Six),
        _ => Err(no_ip(key)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Four,
    Six,
}

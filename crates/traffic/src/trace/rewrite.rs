//! Changing the headers of captured frames, so that they suit the device under test.
//!
//! MAC addresses are set; IPv4 addresses are moved into a prefix, keeping the bits behind it; the
//! outermost VLAN tag is pushed, popped or set. IPv4, UDP and TCP checksums are mended incrementally
//! (RFC 1624), so that a checksum which was wrong before is wrong by as much after: a rewrite never
//! hides a broken packet. IPv6 addresses and addresses inside payloads (ICMP errors) are left alone.
//! Addresses that differ only in the bits the prefix replaces become one: `weir trace info` counts.

use super::{Direction, TraceError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use weir_wire::{
    EtherType, EthernetRepr, EthernetView, Ipv4View, MacAddress, VlanRepr, checksum, ipv4, tcp, udp,
};

/// A block of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct Ipv4Prefix {
    network: u32,
    length: u8,
}

impl Ipv4Prefix {
    /// Sources of direction 0, destinations of direction 1: 198.18.0.0/16 (RFC 2544, appendix C.2.2).
    pub const TEST_NET_0: Self = Self { network: 0xc612_0000, length: 16 };
    /// Destinations of direction 0, sources of direction 1: 198.19.0.0/16.
    pub const TEST_NET_1: Self = Self { network: 0xc613_0000, length: 16 };

    /// The address with its leading bits replaced by the prefix.
    pub fn take_in(self, address: Ipv4Addr) -> Ipv4Addr {
        let keep = u32::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
        Ipv4Addr::from(self.network | u32::from(address) & keep)
    }
}

impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", Ipv4Addr::from(self.network), self.length))
    }
}

impl FromStr for Ipv4Prefix {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (address, length) = text.trim().split_once('/')?;
            let network = u32::from(address.parse::<Ipv4Addr>().ok()?);
            let length: u8 = length.parse().ok().filter(|length| *length <= 32)?;
            let host_bits = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
            (network & host_bits == 0).then_some(Self { network, length })
        };
        read().ok_or_else(|| TraceError::Prefix { text: text.to_owned() })
    }
}

impl From<Ipv4Prefix> for String {
    fn from(prefix: Ipv4Prefix) -> Self {
        prefix.to_string()
    }
}

impl TryFrom<String> for Ipv4Prefix {
    type Error = TraceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// What becomes of the outermost VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VlanChange {
    /// A tag with this VLAN goes before whatever is there.
    Push(u16),
    /// The tag goes; untagged frames stay as they are.
    Pop,
    /// The tag gets this VLAN; untagged frames get a tag.
    Set(u16),
}

impl VlanChange {
    /// The VLAN of a tag that is written, where one is.
    pub const fn vlan(self) -> Option<u16> {
        match self {
            Self::Push(vlan) | Self::Set(vlan) => Some(vlan),
            Self::Pop => None,
        }
    }
}

/// What is changed in every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Source MAC address.
    pub source_mac: Option<MacAddress>,
    /// Destination MAC address.
    pub destination_mac: Option<MacAddress>,
    /// Where source IPv4 addresses are moved to.
    pub source_prefix: Option<Ipv4Prefix>,
    /// Where destination IPv4 addresses are moved to.
    pub destination_prefix: Option<Ipv4Prefix>,
    /// The outermost VLAN tag.
    pub vlan: Option<VlanChange>,
}

impl Rewrite {
    /// Moves addresses into the test network of RFC 2544, the way `direction` goes.
    #[must_use]
    pub fn into_test_network(mut self, direction: Direction) -> Self {
        let (source, destination) = match direction {
            Direction::Forward => (Ipv4Prefix::TEST_NET_0, Ipv4Prefix::TEST_NET_1),
            Direction::Reverse => (Ipv4Prefix::TEST_NET_1, Ipv4Prefix::TEST_NET_0),
        };
        self.source_prefix = Some(source);
        self.destination_prefix = Some(destination);
        self
    }

    /// Changes a frame (in memory, without FCS). Frames too short for a header are left alone.
    pub fn apply(&self, frame: &mut Vec<u8>) {
        if frame.len() < EthernetRepr::BYTES {
            return;
        }
        if let Some(address) = self.destination_mac {
            frame[0..6].copy_from_slice(&address.0);
        }
        if let Some(address) = self.source_mac {
            frame[6..12].copy_from_slice(&address.0);
        }
        if let Some(change) = self.vlan {
            change_vlan(change, frame);
        }
        if self.source_prefix.is_some() || self.destination_prefix.is_some() {
            self.move_addresses(frame);
        }
    }

    fn move_addresses(&self, frame: &mut [u8]) {
        let Some(at) = ipv4_at(frame) else { return };
        let Ok(view) = Ipv4View::checked(&frame[at..]) else { return };
        let (source, destination) = (view.source(), view.destination());
        let new_source = self.source_prefix.map_or(source, |prefix| prefix.take_in(source));
        let new_destination =
            self.destination_prefix.map_or(destination, |prefix| prefix.take_in(destination));
        let field = (view.fragment_offset() == 0)
            .then(|| match view.protocol() {
                ipv4::UDP => Some(at + view.header_len() + udp::CHECKSUM),
                ipv4::TCP => Some(at + view.header_len() + tcp::CHECKSUM),
                _ => None,
            })
            .flatten();
        let is_udp = view.protocol() == ipv4::UDP;
        let end = frame.len().min(at + usize::from(view.total_len()));
        let header_sum = view.checksum();

        let addresses = |source: Ipv4Addr, destination: Ipv4Addr| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&source.octets());
            bytes[4..].copy_from_slice(&destination.octets());
            bytes
        };
        let (old, new) = (addresses(source, destination), addresses(new_source, new_destination));
        frame[at + ipv4::field::SOURCE..at + ipv4::field::SOURCE + 8].copy_from_slice(&new);
        let header_sum = checksum::update(header_sum, &old, &new).to_be_bytes();
        frame[at + ipv4::field::CHECKSUM..at + ipv4::field::CHECKSUM + 2].copy_from_slice(&header_sum);
        if let Some(field) = field.filter(|field| field + 2 <= end) {
            let before = u16::from_be_bytes([frame[field], frame[field + 1]]);
            if !(is_udp && before == 0) {
                let after = checksum::update(before, &old, &new);
                let after = if is_udp { checksum::udp_nonzero(after) } else { after };
                frame[field..field + 2].copy_from_slice(&after.to_be_bytes());
            }
        }
    }
}

/// Where an IPv4 header starts, behind any tags.
fn ipv4_at(frame: &[u8]) -> Option<usize> {
    let mut at = EthernetRepr::BYTES;
    let mut ether_type = EthernetView::checked(frame).ok()?.ether_type();
    while ether_type.is_tag() {
        let next = frame.get(at + 2..at + VlanRepr::BYTES)?;
        ether_type = EtherType(u16::from_be_bytes([next[0], next[1]]));
        at += VlanRepr::BYTES;
    }
    (ether_type == EtherType::IPV4).then_some(at)
}

fn change_vlan(change: VlanChange, frame: &mut Vec<u8>) {
    const TYPE_AT: usize = 12;
    let tagged = EtherType(u16::from_be_bytes([frame[TYPE_AT], frame[TYPE_AT + 1]])).is_tag()
        && frame.len() >= EthernetRepr::BYTES + VlanRepr::BYTES;
    match change {
        VlanChange::Pop if tagged => {
            frame.drain(TYPE_AT..TYPE_AT + VlanRepr::BYTES);
        }
        VlanChange::Pop => {}
        VlanChange::Set(vlan) if tagged => {
            frame[TYPE_AT + 2] = frame[TYPE_AT + 2] & 0xf0 | (vlan >> 8) as u8 & 0x0f;
            frame[TYPE_AT + 3] = vlan as u8;
        }
        VlanChange::Push(vlan) | VlanChange::Set(vlan) => {
            let [high, low] = (vlan & 0x0fff).to_be_bytes();
            let [a, b] = EtherType::VLAN.0.to_be_bytes();
            frame.splice(TYPE_AT..TYPE_AT, [a, b, high, low]);
        }
    }
}

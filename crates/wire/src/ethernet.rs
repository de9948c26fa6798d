//! Ethernet II headers and 802.1Q tags.
//!
//! ```text
//!  0               6               12    14
//! +---------------+---------------+-----+----------
//! |  destination  |    source     |type | payload        type 0x8100 or 0x88a8: a tag follows
//! +---------------+---------------+-----+----------
//! tag:  | priority 3, drop 1, VLAN 12 | type |
//! ```
//!
//! Sizes here are those in memory: without the 4-byte frame check sequence.

use crate::{Error, need, word};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MacAddress(pub [u8; 6]);

/// A text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MAC address; write six hexadecimal bytes, for example 02:00:00:00:00:01")]
pub struct ParseMacError(String);

impl MacAddress {
    /// Whether somebody local chose it, rather than a maker of hardware (second-least bit of byte 0).
    pub const fn is_local(self) -> bool {
        self.0[0] & 0b10 != 0
    }

    /// Whether it names a group of stations (least bit of byte 0).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 0b01 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

impl FromStr for MacAddress {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseMacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.trim().split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len())).ok_or_else(error)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Self(bytes)) }
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for MacAddress {
    type Error = ParseMacError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// What an Ethernet payload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// An 802.1Q tag follows.
    pub const VLAN: Self = Self(0x8100);
    /// An 802.1ad service tag follows.
    pub const SERVICE_VLAN: Self = Self(0x88a8);

    /// Whether a tag follows.
    pub const fn is_tag(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

/// An Ethernet II header in place.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'a>(&'a [u8]);

impl<'a> EthernetView<'a> {
    /// Checks that the header is whole.
    pub fn checked(frame: &'a [u8]) -> Result<Self, Error> {
        need("Ethernet", frame, EthernetRepr::BYTES)?;
        Ok(Self(frame))
    }

    /// Destination address.
    #[inline]
    pub fn destination(self) -> MacAddress {
        MacAddress([self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5]])
    }

    /// Source address.
    #[inline]
    pub fn source(self) -> MacAddress {
        MacAddress([self.0[6], self.0[7], self.0[8], self.0[9], self.0[10], self.0[11]])
    }

    /// What follows the header.
    #[inline]
    pub fn ether_type(self) -> EtherType {
        EtherType(word(self.0, 12))
    }

    /// Everything after the header.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        &self.0[EthernetRepr::BYTES..]
    }
}

/// An Ethernet II header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// What follows.
    pub ether_type: EtherType,
}

impl EthernetRepr {
    /// Bytes of the header.
    pub const BYTES: usize = 14;

    /// Reads a header.
    pub fn parse(view: EthernetView<'_>) -> Self {
        Self { destination: view.destination(), source: view.source(), ether_type: view.ether_type() }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::BYTES
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[0..6].copy_from_slice(&self.destination.0);
        buffer[6..12].copy_from_slice(&self.source.0);
        buffer[12..14].copy_from_slice(&self.ether_type.0.to_be_bytes());
    }
}

/// The part of an 802.1Q tag that follows its EtherType: tag control, then the next EtherType.
#[derive(Clone, Copy, Debug)]
pub struct VlanView<'a>(&'a [u8]);

impl<'a> VlanView<'a> {
    /// Checks that the tag is whole; `bytes` start after the tag's own EtherType.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, Error> {
        need("VLAN", bytes, VlanRepr::BYTES)?;
        Ok(Self(bytes))
    }

    /// VLAN number, 0 to 4095.
    #[inline]
    pub fn vlan(self) -> u16 {
        word(self.0, 0) & 0x0fff
    }

    /// Priority, 0 to 7.
    #[inline]
    pub fn priority(self) -> u8 {
        self.0[0] >> 5
    }

    /// Whether it may be dropped first.
    #[inline]
    pub fn drop_eligible(self) -> bool {
        self.0[0] & 0x10 != 0
    }

    /// What follows the tag.
    #[inline]
    pub fn ether_type(self) -> EtherType {
        EtherType(word(self.0, 2))
    }
}

/// An 802.1Q tag as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanRepr {
    /// VLAN number, 0 to 4095.
    pub vlan: u16,
    /// Priority, 0 to 7.
    pub priority: u8,
    /// Whether it may be dropped first.
    pub drop_eligible: bool,
    /// What follows the tag.
    pub ether_type: EtherType,
}

impl VlanRepr {
    /// Bytes of a tag.
    pub const BYTES: usize = 4;

    /// Reads a tag.
    pub fn parse(view: VlanView<'_>) -> Self {
        Self {
            vlan: view.vlan(),
            priority: view.priority(),
            drop_eligible: view.drop_eligible(),
            ether_type: view.ether_type(),
        }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::BYTES
    }

    /// Writes tag control and next EtherType; the tag's own EtherType stands before.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let control =
            u16::from(self.priority & 7) << 13 | u16::from(self.drop_eligible) << 12 | (self.vlan & 0x0fff);
        buffer[0..2].copy_from_slice(&control.to_be_bytes());
        buffer[2..4].copy_from_slice(&self.ether_type.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_read_and_printed() {
        let address: MacAddress = "02:00:0a:ff:00:01".parse().unwrap();
        assert_eq!(address, MacAddress([2, 0, 10, 255, 0, 1]));
        assert_eq!(address.to_string(), "02:00:0a:ff:00:01");
        assert!(address.is_local() && !address.is_multicast());
        for text in ["02:00:00:00:00", "02:00:00:00:00:01:02", "02:00:00:00:00:0g", "", "020000000001"] {
            assert!(
                text.parse::<MacAddress>().unwrap_err().to_string().contains("six hexadecimal"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_tagged_header_survives_being_written_and_read() {
        let outer = EthernetRepr {
            destination: MacAddress([2, 0, 0, 0, 0, 2]),
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            ether_type: EtherType::VLAN,
        };
        let tag = VlanRepr { vlan: 4094, priority: 5, drop_eligible: true, ether_type: EtherType::IPV4 };
        let mut bytes = [0; 18];
        outer.emit(&mut bytes);
        tag.emit(&mut bytes[14..]);
        let view = EthernetView::checked(&bytes).unwrap();
        assert_eq!(EthernetRepr::parse(view), outer);
        assert_eq!(VlanRepr::parse(VlanView::checked(view.payload()).unwrap()), tag);
        assert_eq!(bytes[12..18], [0x81, 0x00, 0xbf, 0xfe, 0x08, 0x00]);
    }

    #[test]
    fn a_short_header_says_what_is_missing() {
        let error = EthernetView::checked(&[0; 13]).unwrap_err();
        assert_eq!(error.to_string(), "Ethernet header needs 14 B, only 13 B are there");
    }
}

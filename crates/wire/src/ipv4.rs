//! IPv4 headers (RFC 791). Options are skipped when read, never written.

use crate::{Error, checksum, need, word};
use std::net::Ipv4Addr;

/// Offsets of the fields, in bytes.
pub mod field {
    /// Total length.
    pub const LENGTH: usize = 2;
    /// Identification.
    pub const IDENTIFICATION: usize = 4;
    /// Flags and fragment offset.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol number.
    pub const PROTOCOL: usize = 9;
    /// Header checksum.
    pub const CHECKSUM: usize = 10;
    /// Source address.
    pub const SOURCE: usize = 12;
    /// Destination address.
    pub const DESTINATION: usize = 16;
}

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// An IPv4 header in place.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a>(&'a [u8]);

impl<'a> Ipv4View<'a> {
    /// Checks version and lengths. The total length may exceed the bytes at hand (a cut capture);
    /// [`Self::payload`] then holds what is there.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, Error> {
        need("IPv4", bytes, Ipv4Repr::BYTES)?;
        if bytes[0] >> 4 != 4 {
            return Err(Error::Version { header: "IPv4", found: bytes[0] >> 4 });
        }
        let view = Self(bytes);
        if view.header_len() < Ipv4Repr::BYTES || view.header_len() > bytes.len() {
            return Err(Error::Length { header: "IPv4", found: view.header_len() });
        }
        if usize::from(view.total_len()) < view.header_len() {
            return Err(Error::Length { header: "IPv4", found: usize::from(view.total_len()) });
        }
        Ok(view)
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_len(self) -> usize {
        usize::from(self.0[0] & 0x0f) * 4
    }

    /// Bytes of header and payload, as the header states them.
    #[inline]
    pub fn total_len(self) -> u16 {
        word(self.0, field::LENGTH)
    }

    /// Whether it is one piece of a larger packet (more fragments, or an offset).
    #[inline]
    pub fn is_fragment(self) -> bool {
        word(self.0, field::FRAGMENT) & 0x3fff != 0
    }

    /// Fragment offset, in units of 8 bytes.
    #[inline]
    pub fn fragment_offset(self) -> u16 {
        word(self.0, field::FRAGMENT) & 0x1fff
    }

    /// Hops left.
    #[inline]
    pub fn ttl(self) -> u8 {
        self.0[field::TTL]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(self) -> u8 {
        self.0[field::PROTOCOL]
    }

    /// Checksum field.
    #[inline]
    pub fn checksum(self) -> u16 {
        word(self.0, field::CHECKSUM)
    }

    /// Whether the checksum field is right.
    pub fn checksum_is_right(self) -> bool {
        checksum::checksum(&self.0[..self.header_len()]) == 0
    }

    /// Source address.
    #[inline]
    pub fn source(self) -> Ipv4Addr {
        Ipv4Addr::from(crate::long(self.0, field::SOURCE))
    }

    /// Destination address.
    #[inline]
    pub fn destination(self) -> Ipv4Addr {
        Ipv4Addr::from(crate::long(self.0, field::DESTINATION))
    }

    /// The payload: as long as the header says, or as the bytes at hand reach.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        &self.0[self.header_len()..usize::from(self.total_len()).min(self.0.len())]
    }
}

/// An IPv4 header without options, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// Bytes of payload.
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// Bytes of a header without options.
    pub const BYTES: usize = 20;

    /// Reads a header; options are left out.
    pub fn parse(view: Ipv4View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            ttl: view.ttl(),
            payload_len: view.total_len() - view.header_len() as u16,
        }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::BYTES
    }

    /// Writes the header with its checksum: do not fragment, identification 0 (RFC 6864, section 4.1).
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = &mut buffer[..Self::BYTES];
        header.fill(0);
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(Self::BYTES as u16 + self.payload_len).to_be_bytes());
        header[6] = 0x40;
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// The partial sum of the pseudo-header for a checksum of the payload.
    pub fn pseudo(&self) -> u32 {
        checksum::pseudo_ipv4(self.source, self.destination, self.protocol, self.payload_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet from 172.16.10.99 to 172.16.10.12, without its payload.
    const CAPTURED: [u8; 20] = [
        0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0xb1, 0xe6, 0xac, 0x10, 0x0a, 0x63, 0xac,
        0x10, 0x0a, 0x0c,
    ];

    #[test]
    fn a_captured_header_is_read() {
        let view = Ipv4View::checked(&CAPTURED).unwrap();
        assert_eq!(view.source(), Ipv4Addr::new(172, 16, 10, 99));
        assert_eq!(view.destination(), Ipv4Addr::new(172, 16, 10, 12));
        assert_eq!((view.total_len(), view.protocol(), view.ttl()), (60, TCP, 64));
        assert!(view.checksum_is_right() && !view.is_fragment());
        assert!(view.payload().is_empty());
    }

    #[test]
    fn a_header_survives_being_written_and_read() {
        let repr = Ipv4Repr::parse(Ipv4View::checked(&CAPTURED).unwrap());
        let mut bytes = [0xee; 20];
        repr.emit(&mut bytes);
        let view = Ipv4View::checked(&bytes).unwrap();
        assert!(view.checksum_is_right());
        assert_eq!(Ipv4Repr::parse(view), repr);
    }

    #[test]
    fn wrong_versions_and_lengths_are_refused() {
        let mut bytes = CAPTURED;
        bytes[0] = 0x65;
        assert_eq!(Ipv4View::checked(&bytes).unwrap_err(), Error::Version { header: "IPv4", found: 6 });
        bytes[0] = 0x44;
        assert_eq!(Ipv4View::checked(&bytes).unwrap_err(), Error::Length { header: "IPv4", found: 16 });
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&19_u16.to_be_bytes());
        assert_eq!(Ipv4View::checked(&bytes).unwrap_err(), Error::Length { header: "IPv4", found: 19 });
    }
}

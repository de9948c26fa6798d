//! IPv6 headers (RFC 8200). Extension headers are left to [`crate::dissect`].

use crate::{Error, checksum, need, word};
use std::net::Ipv6Addr;

/// An IPv6 header in place.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'a>(&'a [u8]);

impl<'a> Ipv6View<'a> {
    /// Checks version and length. The payload length may exceed the bytes at hand (a cut capture).
    pub fn checked(bytes: &'a [u8]) -> Result<Self, Error> {
        need("IPv6", bytes, Ipv6Repr::BYTES)?;
        if bytes[0] >> 4 != 6 {
            return Err(Error::Version { header: "IPv6", found: bytes[0] >> 4 });
        }
        Ok(Self(bytes))
    }

    /// Bytes after the header, as it states them.
    #[inline]
    pub fn payload_len(self) -> u16 {
        word(self.0, 4)
    }

    /// Protocol of what follows.
    #[inline]
    pub fn next_header(self) -> u8 {
        self.0[6]
    }

    /// Hops left.
    #[inline]
    pub fn hop_limit(self) -> u8 {
        self.0[7]
    }

    /// Source address.
    #[inline]
    pub fn source(self) -> Ipv6Addr {
        address(&self.0[8..24])
    }

    /// Destination address.
    #[inline]
    pub fn destination(self) -> Ipv6Addr {
        address(&self.0[24..40])
    }

    /// The payload: as long as the header says, or as the bytes at hand reach.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        let end = (Ipv6Repr::BYTES + usize::from(self.payload_len())).min(self.0.len());
        &self.0[Ipv6Repr::BYTES..end]
    }
}

/// The address in 16 bytes; the caller has checked the length.
fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(bytes);
    Ipv6Addr::from(octets)
}

/// An IPv6 header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Protocol of the payload.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Bytes of payload.
    pub payload_len: u16,
}

impl Ipv6Repr {
    /// Bytes of the header.
    pub const BYTES: usize = 40;

    /// Reads a header.
    pub fn parse(view: Ipv6View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            payload_len: view.payload_len(),
        }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::BYTES
    }

    /// Writes the header; traffic class and flow label are zero.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[0..4].copy_from_slice(&[0x60, 0, 0, 0]);
        buffer[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        buffer[6] = self.next_header;
        buffer[7] = self.hop_limit;
        buffer[8..24].copy_from_slice(&self.source.octets());
        buffer[24..40].copy_from_slice(&self.destination.octets());
    }

    /// The partial sum of the pseudo-header for a checksum of the payload.
    pub fn pseudo(&self) -> u32 {
        let length = u32::from(self.payload_len);
        checksum::pseudo_ipv6(self.source, self.destination, self.next_header, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_being_written_and_read() {
        let repr = Ipv6Repr {
            source: "2001:2::1".parse().unwrap(),
            destination: "2001:2:0:8000::1".parse().unwrap(),
            next_header: 17,
            hop_limit: 64,
            payload_len: 8,
        };
        let mut bytes = [0xee; 48];
        repr.emit(&mut bytes);
        let view = Ipv6View::checked(&bytes).unwrap();
        assert_eq!(Ipv6Repr::parse(view), repr);
        assert_eq!(view.payload(), [0xee; 8]);
        assert!(Ipv6View::checked(&bytes[..39]).is_err());
    }
}

//! UDP headers (RFC 768).

use crate::{Error, checksum, need, word};

/// Offset of the checksum field, in bytes.
pub const CHECKSUM: usize = 6;

/// A UDP header in place.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a>(&'a [u8]);

impl<'a> UdpView<'a> {
    /// Checks that the header is whole.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, Error> {
        need("UDP", bytes, UdpRepr::BYTES)?;
        let view = Self(bytes);
        if usize::from(view.length()) < UdpRepr::BYTES {
            return Err(Error::Length { header: "UDP", found: usize::from(view.length()) });
        }
        Ok(view)
    }

    /// Source port.
    #[inline]
    pub fn source(self) -> u16 {
        word(self.0, 0)
    }

    /// Destination port.
    #[inline]
    pub fn destination(self) -> u16 {
        word(self.0, 2)
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn length(self) -> u16 {
        word(self.0, 4)
    }

    /// Checksum field; zero means that none was computed.
    #[inline]
    pub fn checksum(self) -> u16 {
        word(self.0, CHECKSUM)
    }

    /// Whether the checksum is right, or absent. `pseudo` is the pseudo-header's partial sum.
    pub fn checksum_is_right(self, pseudo: u32) -> bool {
        let length = usize::from(self.length()).min(self.0.len());
        self.checksum() == 0 || checksum::finish(pseudo + checksum::sum(&self.0[..length])) == 0
    }
}

/// A UDP header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Bytes of payload.
    pub payload_len: u16,
}

impl UdpRepr {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Reads a header.
    pub fn parse(view: UdpView<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            payload_len: view.length() - Self::BYTES as u16,
        }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::BYTES
    }

    /// Writes the header with checksum 0: none computed, as RFC 768 allows over IPv4.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[0..2].copy_from_slice(&self.source.to_be_bytes());
        buffer[2..4].copy_from_slice(&self.destination.to_be_bytes());
        buffer[4..6].copy_from_slice(&(Self::BYTES as u16 + self.payload_len).to_be_bytes());
        buffer[6..8].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv4Repr;
    use std::net::Ipv4Addr;

    #[test]
    fn a_header_survives_being_written_and_read() {
        let repr = UdpRepr { source: 1024, destination: 4789, payload_len: 18 };
        let mut bytes = [0xee; 26];
        repr.emit(&mut bytes);
        assert_eq!(UdpRepr::parse(UdpView::checked(&bytes).unwrap()), repr);
        bytes[5] = 7;
        assert_eq!(UdpView::checked(&bytes).unwrap_err(), Error::Length { header: "UDP", found: 7 });
    }

    #[test]
    fn a_checksum_over_the_pseudo_header_is_checked() {
        let ip = Ipv4Repr {
            source: Ipv4Addr::new(198, 18, 0, 1),
            destination: Ipv4Addr::new(198, 19, 0, 1),
            protocol: crate::ipv4::UDP,
            ttl: 64,
            payload_len: 11,
        };
        let mut bytes = [1; 11];
        UdpRepr { source: 5000, destination: 6000, payload_len: 3 }.emit(&mut bytes);
        assert!(UdpView::checked(&bytes).unwrap().checksum_is_right(ip.pseudo()), "none is right");
        let sum = checksum::finish(ip.pseudo() + checksum::sum(&bytes));
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        assert!(UdpView::checked(&bytes).unwrap().checksum_is_right(ip.pseudo()));
        bytes[10] ^= 1;
        assert!(!UdpView::checked(&bytes).unwrap().checksum_is_right(ip.pseudo()));
    }
}

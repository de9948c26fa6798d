//! TCP headers (RFC 9293). Options are skipped when read, never written.

use crate::{Error, checksum, long, need, word};

/// Offset of the checksum field, in bytes.
pub const CHECKSUM: usize = 16;

/// The flags Weir's traces use.
pub mod flags {
    /// The sender has finished.
    pub const FIN: u8 = 0x01;
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// Breaks a connection off.
    pub const RST: u8 = 0x04;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
}

/// A TCP header in place.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a>(&'a [u8]);

impl<'a> TcpView<'a> {
    /// Checks that the header with its options is whole.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, Error> {
        need("TCP", bytes, TcpRepr::BYTES)?;
        let view = Self(bytes);
        if view.header_len() < TcpRepr::BYTES || view.header_len() > bytes.len() {
            return Err(Error::Length { header: "TCP", found: view.header_len() });
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

    /// Sequence number.
    #[inline]
    pub fn sequence(self) -> u32 {
        long(self.0, 4)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn acknowledgement(self) -> u32 {
        long(self.0, 8)
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_len(self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// The flag byte; see [`flags`].
    #[inline]
    pub fn flags(self) -> u8 {
        self.0[13]
    }

    /// Receive window, unscaled.
    #[inline]
    pub fn window(self) -> u16 {
        word(self.0, 14)
    }

    /// Checksum field.
    #[inline]
    pub fn checksum(self) -> u16 {
        word(self.0, CHECKSUM)
    }
}

/// A TCP header without options, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// See [`flags`].
    pub flags: u8,
    /// Receive window, unscaled.
    pub window: u16,
}

impl TcpRepr {
    /// Bytes of a header without options.
    pub const BYTES: usize = 20;

    /// Reads a header; options are left out.
    pub fn parse(view: TcpView<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            sequence: view.sequence(),
            acknowledgement: view.acknowledgement(),
            flags: view.flags(),
            window: view.window(),
        }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::BYTES
    }

    /// Writes the header and the checksum over it and the payload that follows it in `segment`.
    /// `pseudo` is the pseudo-header's partial sum.
    ///
    /// # Panics
    /// When `segment` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, segment: &mut [u8], pseudo: u32) {
        self.emit_with(segment, pseudo, 0);
    }

    /// Like [`Self::emit`], for a payload that continues elsewhere: `rest` is the partial sum of the
    /// bytes after `segment`, as [`checksum::sum_at`] counts them.
    ///
    /// # Panics
    /// When `segment` is shorter than [`Self::buffer_len`].
    pub fn emit_with(&self, segment: &mut [u8], pseudo: u32, rest: u32) {
        segment[0..2].copy_from_slice(&self.source.to_be_bytes());
        segment[2..4].copy_from_slice(&self.destination.to_be_bytes());
        segment[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        segment[12] = 0x50;
        segment[13] = self.flags;
        segment[14..16].copy_from_slice(&self.window.to_be_bytes());
        segment[16..20].fill(0);
        let sum = checksum::finish(pseudo + checksum::sum(segment) + rest);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_being_written_and_read() {
        let repr = TcpRepr {
            source: 40_000,
            destination: 8_080,
            sequence: 0x0102_0304,
            acknowledgement: 0x0506_0708,
            flags: flags::SYN | flags::ACK,
            window: 65_535,
        };
        let mut segment = [7; 23];
        repr.emit(&mut segment, 12_345);
        let view = TcpView::checked(&segment).unwrap();
        assert_eq!(TcpRepr::parse(view), repr);
        assert_eq!(view.header_len(), 20);
        assert_eq!(checksum::finish(12_345 + checksum::sum(&segment)), 0, "checksum is right");
        assert_eq!(segment[20..], [7; 3], "payload is left alone");
        segment[12] = 0xf0;
        assert_eq!(TcpView::checked(&segment).unwrap_err(), Error::Length { header: "TCP", found: 60 });
    }
}

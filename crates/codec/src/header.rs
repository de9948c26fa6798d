//! The header of every message, and where a message ends in a stream of bytes.

use crate::cursor::Put;

/// Bytes of a header.
pub const HEADER: usize = 8;

/// The longest message: its length is a number of 16 bits.
pub const LONGEST: usize = u16::MAX as usize;

/// A message's header (OpenFlow 1.3.5, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version's number, known or not.
    pub version: u8,
    /// The number of the message.
    pub kind: u8,
    /// Bytes of the message, header included; at least [`HEADER`].
    pub length: u16,
    /// What pairs replies with requests.
    pub xid: u32,
}

/// A header whose length cannot be: the stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a message says that it is {} bytes long, less than its header: the stream is not OpenFlow; close the \
     connection",
    header.length
)]
pub struct BadFrame {
    /// The header.
    pub header: Header,
}

impl Header {
    /// Reads a header, if enough bytes are there.
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        let [version, kind, l0, l1, x0, x1, x2, x3] = *bytes.first_chunk::<HEADER>()?;
        let (length, xid) = (u16::from_be_bytes([l0, l1]), u32::from_be_bytes([x0, x1, x2, x3]));
        Some(Self { version, kind, length, xid })
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.version, self.kind]);
        out.u16(self.length);
        out.u32(self.xid);
    }
}

/// The first message of what was received, if it is whole; what follows it begins at its length.
///
/// A reader needs no more than [`LONGEST`] bytes of buffer: no message can be longer.
///
/// # Errors
///
/// A length that is less than a header's.
pub fn frame(received: &[u8]) -> Result<Option<&[u8]>, BadFrame> {
    let Some(header) = Header::peek(received) else { return Ok(None) };
    let length = usize::from(header.length);
    if length < HEADER {
        return Err(BadFrame { header });
    }
    Ok(received.get(..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_into_messages_and_a_length_below_the_header_is_refused() {
        let stream = [4, 2, 0, 9, 0, 0, 0, 1, 7, 4, 20, 0, 8, 0, 0, 0, 2];
        assert_eq!(frame(&stream), Ok(Some(&stream[..9])));
        assert_eq!(frame(&stream[9..]), Ok(Some(&stream[9..])));
        for cut in 0..9 {
            assert_eq!(frame(&stream[..cut]), Ok(None));
        }
        let wrong = frame(&[4, 2, 0, 7, 0, 0, 0, 1]).unwrap_err();
        assert!(wrong.to_string().contains("7 bytes long"), "{wrong}");
    }
}

//! A TCP segment's header, read.

use super::reason::Reason;

/// TCP's flags.
pub(super) mod flag {
    /// No more data from the sender.
    pub(in super::super) const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub(in super::super) const SYN: u8 = 0x02;
    /// Reset the connection.
    pub(in super::super) const RST: u8 = 0x04;
    /// The acknowledgement field is significant.
    pub(in super::super) const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub(in super::super) const URG: u8 = 0x20;
}

use flag::{ACK, FIN, RST, SYN, URG};

/// The widest window scaling (RFC 7323, section 2.3).
pub(super) const MAX_SCALE: u8 = 14;

/// A segment's header, as far as it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// FIN, SYN, RST, ACK, URG.
    pub(super) flags: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// As it stands in the header.
    pub(super) window: u16,
    /// Bytes of payload.
    pub(super) length: u32,
    /// Of a SYN: its window scale option.
    pub(super) scale: Option<u8>,
    /// Of a SYN: whether it permits selective acknowledgements.
    pub(super) sack: bool,
}

/// A segment with ACK and no other flag but perhaps PSH: what nearly every one is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// As it stands in the header.
    pub(super) window: u16,
    /// Bytes of payload.
    pub(super) length: u32,
}

impl Plain {
    /// Reads the header at the front of `bytes`, which end where the packet does; none where the segment
    /// is not plain, or not whole.
    #[inline(always)]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let offset = usize::from(header[12] >> 4) * 4;
        let plain = header[13] & (FIN | SYN | RST | ACK | URG) == ACK;
        (plain && offset >= 20 && offset <= bytes.len()).then(|| Self {
            seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            window: u16::from_be_bytes([header[14], header[15]]),
            length: (bytes.len() - offset) as u32,
        })
    }
}

impl Segment {
    /// Reads the header at the front of `bytes`, which end where the packet does. Of a first fragment,
    /// the length is that of its own part.
    #[inline(always)]
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Reason> {
        let header: &[u8; 20] = bytes.first_chunk().ok_or(Reason::Truncated)?;
        let offset = usize::from(header[12] >> 4) * 4;
        if offset < 20 || offset > bytes.len() {
            return Err(Reason::Truncated);
        }
        let flags = header[13] & (FIN | SYN | RST | ACK | URG);
        let mut segment = Self {
            flags,
            seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            window: u16::from_be_bytes([header[14], header[15]]),
            length: (bytes.len() - offset) as u32,
            scale: None,
            sack: false,
        };
        if flags & SYN != 0 {
            segment.read_options(&bytes[20..offset]);
        }
        // Urgent data goes with a SYN, an ACK or a FIN, not with a reset or a SYN's answer.
        let urgent = [SYN, ACK, FIN | ACK].contains(&(flags & !URG));
        let plain = [RST, SYN | ACK, RST | ACK].contains(&flags);
        if urgent || plain { Ok(segment) } else { Err(Reason::TcpFlags) }
    }

    #[cold]
    fn read_options(&mut self, mut options: &[u8]) {
        while let [kind, rest @ ..] = options {
            match (kind, rest) {
                (0, _) => return,
                (1, _) => options = rest,
                (_, [length, ..]) if usize::from(*length) >= 2 => {
                    match (kind, length, rest.get(1)) {
                        (3, 3, Some(scale)) => self.scale = Some((*scale).min(MAX_SCALE)),
                        (4, 2, _) => self.sack = true,
                        _ => {}
                    }
                    options = options.get(usize::from(*length)..).unwrap_or_default();
                }
                _ => return,
            }
        }
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Behind its last byte; SYN and FIN count.
    pub(super) const fn end(&self) -> u32 {
        self.seq.wrapping_add(self.length + self.has(SYN) as u32 + self.has(FIN) as u32)
    }
}

//! Capture files: pcap and pcapng, read as a stream and written.
//!
//! The framing of both formats is the `pcap-file` crate's, and this module is the only one that knows
//! it. We take its *raw* records and blocks: its parsed packets refuse captures cut by a snap length,
//! and read every pcapng time stamp as nanoseconds. Every error says at which packet (counted from 1)
//! and at which byte of the file the trouble begins, as a capture of a hundred gigabytes is not
//! searched by eye.
//!
//! Cost: one buffer of 8 MB a reader, one copy a packet; no other allocation once the longest packet
//! has been seen. A reader belongs to one thread.

mod reader;
mod writer;

pub use reader::{CaptureReader, CapturedPacket};
pub use writer::{CaptureWriter, SeenPacket};

/// Link type of Ethernet, the only one that a generator can send.
pub const ETHERNET: u32 = 1;

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format: one header, then records.
    Pcap,
    /// Blocks, sections and interfaces.
    Pcapng,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        })
    }
}

/// Why a capture cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No bytes at all.
    #[error("the file is empty; a capture has at least a header of 24 bytes")]
    Empty,
    /// The first bytes are those of no capture.
    #[error("it is neither pcap nor pcapng: it begins with {begins}{hint}")]
    NotACapture {
        /// The first bytes, in hexadecimal.
        begins: String,
        /// What it probably is instead.
        hint: &'static str,
    },
    /// The file ends inside a record.
    #[error(
        "it is truncated: the file ends inside packet {packet}'s record, which begins at byte {offset} (or the record's length field is damaged)"
    )]
    Truncated {
        /// The packet, counted from 1.
        packet: u64,
        /// Where its record begins, in bytes.
        offset: u64,
    },
    /// A record contradicts itself.
    #[error("it is damaged at packet {packet}, byte {offset}: {reason}")]
    Damaged {
        /// The packet, counted from 1.
        packet: u64,
        /// Where its record begins, in bytes.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Packets of another link layer.
    #[error(
        "packet {packet} (byte {offset}) has link type {found}, not Ethernet (1); capture on an Ethernet port, not on `any` or a tunnel"
    )]
    LinkType {
        /// The packet, counted from 1.
        packet: u64,
        /// Where its record begins, in bytes.
        offset: u64,
        /// The link type's number.
        found: u32,
    },
    /// The system failed to read or write.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

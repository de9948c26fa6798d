//! Packets as bytes: views that read headers in place, representations that build them, checksums,
//! and capture files.
//!
//! Every protocol speaks one dialect. A `…View` wraps a byte slice; `checked` verifies once that the
//! header is whole, after which every getter is a plain load that cannot fail. A `…Repr` is the parsed
//! value; `parse` makes it from a view, `emit` writes it into a buffer of at least `buffer_len` bytes.
//! Know one protocol, know all:
//!
//! - [`ethernet`]: MAC addresses, EtherTypes, Ethernet II headers, 802.1Q tags;
//! - [`ipv4`], [`ipv6`], [`udp`], [`tcp`]: as much as building and rewriting test traffic asks for;
//! - [`checksum`]: the Internet checksum (RFC 1071) and its incremental update (RFC 1624);
//! - [`crc32c`]: the checksum of SCTP;
//! - [`dissect`]: one walk over a frame that says where each header starts;
//! - [`pcap`]: reading pcap and pcapng as a stream, writing both;
//! - [`lap`]: the packets of a trace as templates and their order;
//! - [`stamp`]: by what a tester knows its packets again;
//! - [`table`]: routes and filter rules, and their text.
//!
//! Costs and threads: nothing here allocates except [`pcap`] and [`lap`], nothing locks, and every type is plain
//! data. Bytes from outside never cause a panic: what does not parse is an [`Error`] with its reason.

pub mod checksum;
pub mod crc32c;
pub mod dissect;
pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
pub mod lap;
pub mod pcap;
pub mod stamp;
pub mod table;
pub mod tcp;
pub mod udp;

pub use dissect::{Dissection, Network, Transport};
pub use ethernet::{EtherType, EthernetRepr, EthernetView, MacAddress, VlanRepr, VlanView};
pub use ipv4::{Ipv4Repr, Ipv4View};
pub use ipv6::{Ipv6Repr, Ipv6View};
pub use tcp::{TcpRepr, TcpView};
pub use udp::{UdpRepr, UdpView};

/// Why bytes are not the header they were taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the header has.
    #[error("{header} header needs {needed} B, only {found} B are there")]
    Truncated {
        /// Which header.
        header: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// A version field of another protocol.
    #[error("{header} header says version {found}")]
    Version {
        /// Which header.
        header: &'static str,
        /// The version field.
        found: u8,
    },
    /// A length field that contradicts itself or the bytes at hand.
    #[error("{header} header's length field says {found} B, which does not fit")]
    Length {
        /// Which header.
        header: &'static str,
        /// The length field, in bytes.
        found: usize,
    },
}

/// Fails unless `bytes` holds at least `needed`.
fn need(header: &'static str, bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() < needed {
        return Err(Error::Truncated { header, needed, found: bytes.len() });
    }
    Ok(())
}

/// The big-endian 16-bit word at `at`; the caller has checked the length.
#[inline]
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian 32-bit word at `at`; the caller has checked the length.
#[inline]
fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

//! Writing captures.

use super::{CaptureError, Format};
use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::borrow::Cow;
use std::io::Write;
use weir_units::Nanos;

/// Longest packet the written file allows, in bytes.
const SNAP_LENGTH: u32 = 262_144;
/// Time stamps count 10^-9 seconds.
const NANOSECONDS: u8 = 9;

enum Inner<W: Write> {
    Pcap(PcapWriter<W>),
    Pcapng(PcapNgWriter<W>),
}

/// A packet and where it was seen, for [`CaptureWriter::write_seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenPacket<'a> {
    /// When, since 1970-01-01 UTC.
    pub timestamp: Nanos,
    /// Its length on the wire, in bytes without FCS.
    pub original_len: u32,
    /// What is kept of it.
    pub data: &'a [u8],
    /// At which interface: 0, or what [`CaptureWriter::interface`] returned. pcap knows of one only.
    pub interface: u32,
    /// Whether it went out there, rather than in. pcap does not say.
    pub sent: bool,
}

/// Bits 0 and 1 of pcapng's packet flags (draft-ietf-opsawg-pcapng, section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes an Ethernet capture with nanosecond time stamps. Give it a buffered writer.
pub struct CaptureWriter<W: Write> {
    inner: Inner<W>,
    interfaces: u32,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the header.
    pub fn new(writer: W, format: Format) -> Result<Self, CaptureError> {
        let inner = match format {
            Format::Pcap => {
                let header = PcapHeader {
                    snaplen: SNAP_LENGTH,
                    ts_resolution: TsResolution::NanoSecond,
                    endianness: Endianness::Little,
                    ..PcapHeader::default()
                };
                Inner::Pcap(PcapWriter::with_header(writer, header).map_err(cause)?)
            }
            Format::Pcapng => {
                let mut inner = PcapNgWriter::with_endianness(writer, Endianness::Little).map_err(cause)?;
                let interface = InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: SNAP_LENGTH,
                    options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
                };
                inner.write_pcapng_block(interface).map_err(cause)?;
                Inner::Pcapng(inner)
            }
        };
        Ok(Self { inner, interfaces: 1 })
    }

    /// Names another interface, for [`SeenPacket::interface`]. In pcap there is only the first.
    pub fn interface(&mut self, name: &str) -> Result<u32, CaptureError> {
        let Inner::Pcapng(writer) = &mut self.inner else { return Ok(0) };
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: SNAP_LENGTH,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        writer.write_pcapng_block(block).map_err(cause)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet, perhaps cut, with where it was seen.
    pub fn write_seen(&mut self, packet: &SeenPacket<'_>) -> Result<(), CaptureError> {
        let kept = packet.data.len() as u32;
        let original_len = packet.original_len.max(kept);
        match &mut self.inner {
            Inner::Pcap(writer) => {
                let record = RawPcapPacket {
                    ts_sec: (packet.timestamp.0 / Nanos::PER_SECOND) as u32,
                    ts_frac: (packet.timestamp.0 % Nanos::PER_SECOND) as u32,
                    incl_len: kept,
                    orig_len: original_len,
                    data: Cow::Borrowed(packet.data),
                };
                writer.write_raw_packet(&record).map_err(cause)?;
            }
            Inner::Pcapng(writer) => {
                let direction = if packet.sent { OUTBOUND } else { INBOUND };
                let block = EnhancedPacketBlock {
                    interface_id: packet.interface,
                    timestamp: packet.timestamp.duration(),
                    original_len,
                    data: Cow::Borrowed(packet.data),
                    options: vec![EnhancedPacketOption::Flags(direction)],
                };
                writer.write_pcapng_block(block).map_err(cause)?;
            }
        }
        Ok(())
    }

    /// Writes one whole packet (in memory size, without FCS).
    pub fn write(&mut self, timestamp: Nanos, frame: &[u8]) -> Result<(), CaptureError> {
        let length = frame.len() as u32;
        match &mut self.inner {
            Inner::Pcap(writer) => {
                let record = RawPcapPacket {
                    ts_sec: (timestamp.0 / Nanos::PER_SECOND) as u32,
                    ts_frac: (timestamp.0 % Nanos::PER_SECOND) as u32,
                    incl_len: length,
                    orig_len: length,
                    data: Cow::Borrowed(frame),
                };
                writer.write_raw_packet(&record).map_err(cause)?;
            }
            Inner::Pcapng(writer) => {
                let block = EnhancedPacketBlock {
                    interface_id: 0,
                    timestamp: timestamp.duration(),
                    original_len: length,
                    data: Cow::Borrowed(frame),
                    options: Vec::new(),
                };
                writer.write_pcapng_block(block).map_err(cause)?;
            }
        }
        Ok(())
    }

    /// Flushes and gives the writer back.
    pub fn finish(self) -> Result<W, CaptureError> {
        let mut writer = match self.inner {
            Inner::Pcap(inner) => inner.into_writer(),
            Inner::Pcapng(inner) => inner.into_inner(),
        };
        writer.flush()?;
        Ok(writer)
    }
}

fn cause(error: PcapError) -> CaptureError {
    match error {
        PcapError::IoError(error) => CaptureError::Io(error),
        other => CaptureError::Io(std::io::Error::other(other.to_string())),
    }
}

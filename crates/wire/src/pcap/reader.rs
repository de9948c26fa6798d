//! Reading captures.

use super::{CaptureError, ETHERNET, Format};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::{Endianness, PcapError, TsResolution};
use std::io::{Chain, Cursor, ErrorKind, Read};
use weir_units::Nanos;

/// Bytes of a pcap file header, and of a pcap record header.
const PCAP_HEADER: u64 = 24;
const PCAP_RECORD: u64 = 16;
/// Bytes of a pcapng block around its body.
const BLOCK_FRAME: u64 = 12;

const ENHANCED_PACKET: u32 = 6;
const SIMPLE_PACKET: u32 = 3;
const OLD_PACKET: u32 = 2;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// When it was captured, since 1970-01-01 UTC; nothing in pcapng's simple packets.
    pub timestamp: Option<Nanos>,
    /// Its length on the wire, in bytes, as the capture counts it (mostly without FCS).
    pub original_len: u32,
    /// What was kept of it.
    pub data: &'a [u8],
}

impl CapturedPacket<'_> {
    /// Whether the capture's snap length cut the packet.
    pub fn is_cut(&self) -> bool {
        (self.data.len() as u64) < u64::from(self.original_len)
    }
}

type Source<R> = Chain<Cursor<Vec<u8>>, R>;

enum Inner<R: Read> {
    Pcap(PcapReader<Source<R>>),
    Pcapng(PcapNgReader<Source<R>>),
}

/// Reads a capture packet by packet, however large it is.
pub struct CaptureReader<R: Read> {
    inner: Inner<R>,
    packets: u64,
    offset: u64,
    frame: Vec<u8>,
}

/// What one pcapng block held.
struct Meta {
    timestamp: Option<Nanos>,
    original_len: u32,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header and finds out which format it is.
    pub fn new(mut reader: R) -> Result<Self, CaptureError> {
        let mut begins = vec![0; BLOCK_FRAME as usize];
        let got = read_up_to(&mut reader, &mut begins)?;
        begins.truncate(got);
        let format = format_of(&begins)?;
        let section_len = section_len(&begins);
        let source = Cursor::new(begins).chain(reader);
        let at_start = |error| explain(error, 1, 0);
        let (inner, offset) = match format {
            Format::Pcap => (Inner::Pcap(PcapReader::new(source).map_err(at_start)?), PCAP_HEADER),
            Format::Pcapng => (Inner::Pcapng(PcapNgReader::new(source).map_err(at_start)?), section_len),
        };
        Ok(Self { inner, packets: 0, offset, frame: Vec::new() })
    }

    /// Which format it is.
    pub fn format(&self) -> Format {
        match self.inner {
            Inner::Pcap(_) => Format::Pcap,
            Inner::Pcapng(_) => Format::Pcapng,
        }
    }

    /// Packets read so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Where in the file the next record begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next packet; nothing at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, CaptureError> {
        let meta = match &mut self.inner {
            Inner::Pcap(reader) => next_record(reader, &mut self.frame, self.packets, &mut self.offset)?,
            Inner::Pcapng(reader) => next_block(reader, &mut self.frame, self.packets, &mut self.offset)?,
        };
        Ok(meta.map(|meta| {
            self.packets += 1;
            CapturedPacket { timestamp: meta.timestamp, original_len: meta.original_len, data: &self.frame }
        }))
    }
}

/// Reads until `buffer` is full or the reader ends; says how much it got.
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match reader.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

fn format_of(begins: &[u8]) -> Result<Format, CaptureError> {
    const PCAP: [[u8; 4]; 4] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
    ];
    match begins {
        [] => Err(CaptureError::Empty),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => Ok(Format::Pcapng),
        [a, b, c, d, ..] if PCAP.contains(&[*a, *b, *c, *d]) => Ok(Format::Pcap),
        _ => {
            let hint = match begins {
                [0x1f, 0x8b, ..] => " (gzip: decompress it first, with gunzip)",
                [0x28, 0xb5, 0x2f, 0xfd, ..] => " (zstd: decompress it first, with unzstd)",
                [0xfd, b'7', b'z', b'X', ..] => " (xz: decompress it first, with unxz)",
                text if text.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => " (text)",
                _ => "",
            };
            let bytes: Vec<String> = begins.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            Err(CaptureError::NotACapture { begins: bytes.join(" "), hint })
        }
    }
}

/// Bytes of a pcapng section header, by its own length field and byte order.
fn section_len(begins: &[u8]) -> u64 {
    let Ok(bytes) = <[u8; 12]>::try_from(begins) else { return 0 };
    let [.., a, b, c, d, first, _, _, _] = bytes;
    let length = [a, b, c, d];
    u64::from(if first == 0x1a { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) })
}

/// Says what a library error means for the reader of the message.
fn explain(error: PcapError, packet: u64, offset: u64) -> CaptureError {
    match error {
        PcapError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            CaptureError::Truncated { packet, offset }
        }
        PcapError::IncompleteBuffer => CaptureError::Truncated { packet, offset },
        PcapError::IoError(error) => CaptureError::Io(error),
        other => CaptureError::Damaged { packet, offset, reason: other.to_string() },
    }
}

/// The next pcap record.
fn next_record<R: Read>(
    reader: &mut PcapReader<R>,
    frame: &mut Vec<u8>,
    packets: u64,
    offset: &mut u64,
) -> Result<Option<Meta>, CaptureError> {
    let (packet, at) = (packets + 1, *offset);
    let header = reader.header();
    let record = match reader.next_raw_packet() {
        None => return Ok(None),
        Some(record) => record.map_err(|error| explain(error, packet, at))?,
    };
    let link: u32 = header.datalink.into();
    if link != ETHERNET {
        return Err(CaptureError::LinkType { packet, offset: at, found: link });
    }
    if record.incl_len > record.orig_len {
        let reason = format!("{} bytes kept of a packet of {}", record.incl_len, record.orig_len);
        return Err(CaptureError::Damaged { packet, offset: at, reason });
    }
    let fraction = match header.ts_resolution {
        TsResolution::MicroSecond => u64::from(record.ts_frac) * 1_000,
        TsResolution::NanoSecond => u64::from(record.ts_frac),
    };
    frame.clear();
    frame.extend_from_slice(&record.data);
    *offset += PCAP_RECORD + u64::from(record.incl_len);
    let timestamp = Some(Nanos(u64::from(record.ts_sec) * Nanos::PER_SECOND + fraction));
    Ok(Some(Meta { timestamp, original_len: record.orig_len }))
}

/// The next pcapng packet block; other blocks are skipped.
fn next_block<R: Read>(
    reader: &mut PcapNgReader<R>,
    frame: &mut Vec<u8>,
    packets: u64,
    offset: &mut u64,
) -> Result<Option<Meta>, CaptureError> {
    let packet = packets + 1;
    loop {
        let at = *offset;
        let big = reader.section().endianness == Endianness::Big;
        let block = match reader.next_raw_block() {
            None => return Ok(None),
            Some(block) => block.map_err(|error| explain(error, packet, at))?,
        };
        *offset += u64::from(block.initial_len);
        let damaged = |reason: &str| CaptureError::Damaged { packet, offset: at, reason: reason.to_owned() };
        let fields = match PacketFields::read(block.type_, &block.body, big) {
            None => continue,
            Some(fields) => fields.map_err(damaged)?,
        };
        frame.clear();
        frame.extend_from_slice(&block.body[fields.data_at..fields.data_at + fields.data_len]);
        let interface = reader
            .interfaces()
            .get(fields.interface)
            .ok_or_else(|| damaged("it names an interface that no block before describes"))?;
        let link: u32 = interface.linktype.into();
        if link != ETHERNET {
            return Err(CaptureError::LinkType { packet, offset: at, found: link });
        }
        let limit =
            if fields.simple && interface.snaplen > 0 { interface.snaplen as usize } else { usize::MAX };
        frame.truncate(limit);
        let resolution = interface.options.iter().find_map(|option| match option {
            InterfaceDescriptionOption::IfTsResol(exponent) => Some(*exponent),
            _ => None,
        });
        let timestamp = (!fields.simple).then(|| nanos(fields.ticks, resolution));
        return Ok(Some(Meta { timestamp, original_len: fields.original_len }));
    }
}

/// A packet block's fixed fields, whichever of the three kinds it is.
struct PacketFields {
    interface: usize,
    ticks: u64,
    original_len: u32,
    data_at: usize,
    data_len: usize,
    simple: bool,
}

impl PacketFields {
    /// Nothing for blocks that hold no packet.
    fn read(kind: u32, body: &[u8], big: bool) -> Option<Result<Self, &'static str>> {
        let long = |at: usize| {
            let bytes = body.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())?;
            Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
        };
        let fields = match kind {
            ENHANCED_PACKET | OLD_PACKET => (|| {
                // The old kind has a 16-bit interface number and a 16-bit drop count in the first word.
                let interface = match (kind == OLD_PACKET, big) {
                    (false, _) => long(0)?,
                    (true, true) => long(0)? >> 16,
                    (true, false) => long(0)? & 0xffff,
                };
                Some(Self {
                    interface: interface as usize,
                    ticks: u64::from(long(4)?) << 32 | u64::from(long(8)?),
                    original_len: long(16)?,
                    data_at: 20,
                    data_len: long(12)? as usize,
                    simple: false,
                })
            })(),
            SIMPLE_PACKET => long(0).map(|original_len| Self {
                interface: 0,
                ticks: 0,
                original_len,
                data_at: 4,
                data_len: (original_len as usize).min(body.len() - 4),
                simple: true,
            }),
            _ => return None,
        };
        let checked = match fields {
            None => Err("its packet block is too short for its fields"),
            Some(fields) if fields.data_len > body.len() - fields.data_at => {
                Err("its packet block says more bytes were kept than it holds")
            }
            Some(fields) if fields.data_len as u64 > u64::from(fields.original_len) => {
                Err("its packet block keeps more bytes than the packet had")
            }
            Some(fields) => Ok(fields),
        };
        Some(checked)
    }
}

/// Ticks of an interface as nanoseconds. The resolution is a power of ten, or of two where the highest
/// bit is set; microseconds when the interface does not say.
fn nanos(ticks: u64, resolution: Option<u8>) -> Nanos {
    let exponent = resolution.unwrap_or(6);
    let power = u32::from(exponent & 0x7f);
    let a_second = if exponent & 0x80 == 0 { 10_u128.checked_pow(power) } else { 1_u128.checked_shl(power) };
    let nanos = match a_second {
        Some(a_second) if a_second > 0 => {
            u128::from(ticks).saturating_mul(u128::from(Nanos::PER_SECOND)) / a_second
        }
        _ => 0,
    };
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

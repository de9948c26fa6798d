//! The frames of a capture, in memory, one part a queue.

use crate::PortError;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::IpAddr;
use std::path::Path;
use weir_units::FrameSize;
use weir_wire::Dissection;
use weir_wire::pcap::CaptureReader;

/// Frames without FCS, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Those that no packet buffer holds, by place: their bytes.
    too_long: BTreeMap<usize, u64>,
}

impl Frames {
    /// Reads a capture for a port of so many queues. Both directions of a flow come in at one queue,
    /// as a NIC with a symmetric hash would have them; what is not IP comes in at the first.
    ///
    /// `room` is the longest frame that a packet buffer holds. A longer one has its turn all the same, as one
    /// that came in and was dropped.
    pub(crate) fn read(path: &Path, queues: u16, room: u16) -> Result<Vec<Self>, PortError> {
        let refused = |reason: String| PortError::Trace { file: path.to_owned(), reason };
        let file = File::open(path).map_err(|error| refused(error.to_string()))?;
        let mut reader = CaptureReader::new(file).map_err(|error| refused(error.to_string()))?;
        let mut queues: Vec<Self> = (0..queues.max(1)).map(|_| Self::default()).collect();
        loop {
            let number = reader.packets() + 1;
            let Some(packet) = reader.next_packet().map_err(|error| refused(error.to_string()))? else {
                break;
            };
            if packet.is_cut() {
                return Err(refused(format!(
                    "packet {number} is cut: {} bytes kept of {}; capture whole packets (tcpdump -s 0)",
                    packet.data.len(),
                    packet.original_len
                )));
            }
            let queue = if queues.len() == 1 { 0 } else { queue_of(packet.data, queues.len()) };
            let len = packet.data.len();
            queues[queue].push(if len > usize::from(room) { Err(len as u64) } else { Ok(packet.data) });
        }
        if reader.packets() == 0 {
            return Err(refused("it holds no packet".to_owned()));
        }
        let does_none_fit = |queue: &Self| queue.len() == queue.too_long.len();
        if queues.iter().all(does_none_fit) {
            let most = queues.iter().flat_map(|queue| queue.too_long.values()).max().copied().unwrap_or(0);
            return Err(refused(format!(
                "none of its packets fits into a packet buffer, which has room for {room} bytes; the longest has \
                 {most}: set max_frame as large as the packets that are to come in, {} at most",
                FrameSize::MAX.bytes()
            )));
        }
        Ok(queues)
    }

    /// Adds a frame, or one of so many bytes that does not fit.
    fn push(&mut self, frame: Result<&[u8], u64>) {
        match frame {
            Ok(frame) => self.bytes.extend_from_slice(frame),
            Err(len) => {
                self.too_long.insert(self.ends.len(), len);
            }
        }
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// One by its place; the bytes of one that is too long.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Result<&[u8], u64> {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        if start == self.ends[place]
            && let Some(&len) = self.too_long.get(&place)
        {
            return Err(len);
        }
        Ok(&self.bytes[start..self.ends[place]])
    }
}

/// The queue of a frame: by both addresses, whichever way it goes, so that fragments stay with the rest.
pub(super) fn queue_of(frame: &[u8], queues: usize) -> usize {
    let Some(network) = Dissection::of(frame).network else { return 0 };
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let mut hasher = DefaultHasher::new();
    // The sum is the same both ways.
    hasher.write_u128(number(network.source).wrapping_add(number(network.destination)));
    (hasher.finish() % queues as u64) as usize
}

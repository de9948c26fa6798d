//! The `fed` wiring: the DUT's own source replays the trace from memory, and its sink discards.
//!
//! One core's capacity with the tester out of the way. It measures forwarded rate and cycles per
//! packet only: nobody stands at the wire to see loss or delay. The source is DPDK's pcap port with
//! `infinite_rx`, which keeps the whole trace in packet buffers and copies each packet out of them:
//! 34 to 65 cycles a packet that belong to the source, growing with the trace. With one direction
//! the sink is a null port; with both, each pcap port discards what is sent to it.

use crate::DutError;
use crate::folder::Folder;
use std::path::{Path, PathBuf};

/// The DUT's ports of a `fed` wiring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fed {
    captures: Vec<PathBuf>,
    packets: u32,
}

impl Fed {
    /// Most packets that a fed trace may hold: each sits in a packet buffer of the DUT.
    pub const MOST_PACKETS: u32 = 260_000;

    /// A wiring over captures already written, one a direction, of this many packets altogether.
    pub fn new(captures: Vec<PathBuf>, packets: u32) -> Result<Self, DutError> {
        if packets > Self::MOST_PACKETS {
            let reason = format!(
                "{packets} packets do not fit the `fed` wiring, whose source keeps the trace in packet buffers \
                 (at most {}); take a trace with fewer packets, or the `vhost` wiring",
                Self::MOST_PACKETS
            );
            return Err(DutError::File { path: captures.into_iter().next().unwrap_or_default(), reason });
        }
        Ok(Self { captures, packets })
    }

    /// Where the capture of a direction is written.
    pub fn capture(folder: &Folder, direction: usize) -> PathBuf {
        folder.file(&format!("direction{direction}.pcap"))
    }

    /// Packet buffers that the sources keep.
    pub fn buffers(&self) -> u32 {
        self.packets
    }

    /// The DUT's ports, as EAL `--vdev` strings.
    pub fn ports(&self) -> Vec<String> {
        let source = |(number, path): (usize, &PathBuf)| pcap(number, path);
        let mut ports: Vec<String> = self.captures.iter().enumerate().map(source).collect();
        if ports.len() == 1 {
            ports.push("net_null1,no-rx=1".to_owned());
        }
        ports
    }
}

fn pcap(number: usize, path: &Path) -> String {
    format!("net_pcap{number},rx_pcap={},infinite_rx=1", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_direction_ends_in_a_null_port_and_two_in_each_other() {
        let one = Fed::new(vec!["/t/a.pcap".into()], 10).unwrap();
        assert_eq!(one.ports(), ["net_pcap0,rx_pcap=/t/a.pcap,infinite_rx=1", "net_null1,no-rx=1"]);
        let two = Fed::new(vec!["/t/a.pcap".into(), "/t/b.pcap".into()], 20).unwrap();
        assert_eq!(two.ports()[1], "net_pcap1,rx_pcap=/t/b.pcap,infinite_rx=1");
    }

    #[test]
    fn a_trace_too_large_for_packet_buffers_is_refused_with_the_limit() {
        let error = Fed::new(vec!["/t/a.pcap".into()], 500_000).unwrap_err().to_string();
        assert!(error.contains("500000") && error.contains("260000") && error.contains("vhost"), "{error}");
    }
}

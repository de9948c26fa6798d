//! The `fed` wiring: the DUT's own source replays the trace from memory, and its sink discards.
//!
//! One core's capacity with the tester out of the way. It measures forwarded rate and cycles per
//! packet only: nobody stands at the wire to see loss or delay. The source is DPDK's pcap port with
//! `infinite_rx`, which keeps the whole trace in packet buffers and copies each packet out of them:
//! 34 to 65 cycles a packet that belong to the source, growing with the trace. With one direction
//! the sink is a null port; with both, each pcap port discards what is sent to it.
//!
//! A trace whose connections have other ports in each lap ([`weir_wire::lap`]) is fed as templates, of which the DUT's
//! source makes each packet: only for devices with a source that does ([`crate::Adapter::makes_laps`]).
//!
//! A device with several forwarding threads is fed by as many queues a port, among which the packets are
//! spread by their pair of addresses, as a network card does it (receive-side scaling).

use crate::DutError;
use crate::folder::Folder;
use std::path::PathBuf;

/// The DUT's ports of a `fed` wiring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fed {
    source: Source,
    packets: u32,
}

/// What the sources replay.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Captures, by direction, then by queue.
    Captures(Vec<Vec<PathBuf>>),
    /// Templates, by direction.
    Laps(Vec<PathBuf>),
}

impl Fed {
    /// Most packets that a fed trace may hold: each sits in a packet buffer of the DUT, and this is what
    /// every device has. One may say that it has more ([`crate::Adapter::most_fed`]).
    pub const MOST_PACKETS: u32 = 260_000;

    /// A wiring over captures already written, for each direction one a queue, of this many packets
    /// altogether, for a device that can have `most`.
    pub fn new(captures: Vec<Vec<PathBuf>>, packets: u32, most: u32) -> Result<Self, DutError> {
        if packets > most {
            let reason = format!(
                "{packets} packets do not fit the `fed` wiring, whose source keeps the trace in packet buffers \
                 (at most {most} of this device); take a trace with fewer packets, or the `vhost` wiring"
            );
            return Err(DutError::File {
                path: captures.into_iter().flatten().next().unwrap_or_default(),
                reason,
            });
        }
        Ok(Self { source: Source::Captures(captures), packets })
    }

    /// A wiring over laps already written, one a direction.
    pub fn of_laps(laps: Vec<PathBuf>) -> Self {
        Self { source: Source::Laps(laps), packets: Self::OF_A_LAP }
    }

    /// Packet buffers of sources that make their packets: some bursts.
    const OF_A_LAP: u32 = 1_024;

    /// Where the lap of a direction is written.
    pub fn lap(folder: &Folder, direction: usize) -> PathBuf {
        folder.file(&format!("direction{direction}.lap"))
    }

    /// Where the capture of a direction's queue is written.
    pub fn capture(folder: &Folder, direction: usize, queue: usize) -> PathBuf {
        folder.file(&format!("direction{direction}-{queue}.pcap"))
    }

    /// Packet buffers that the sources keep.
    pub fn buffers(&self) -> u32 {
        self.packets
    }

    /// The DUT's ports, as EAL `--vdev` strings: what is sent is discarded.
    pub fn ports(&self) -> Vec<String> {
        self.ports_into(&[])
    }

    /// The same, where what port `i` sends is written to `sinks[i]` as a capture; a device of one queue a port.
    pub fn ports_into(&self, sinks: &[PathBuf]) -> Vec<String> {
        let into = |option: &str, number: usize| {
            sinks.get(number).map_or_else(String::new, |path| format!(",{option}={}", path.display()))
        };
        match &self.source {
            Source::Captures(captures) => {
                let source =
                    |(number, paths): (usize, &Vec<PathBuf>)| pcap(number, paths) + &into("tx_pcap", number);
                let mut ports: Vec<String> = captures.iter().enumerate().map(source).collect();
                if ports.len() == 1 {
                    ports.push(match sinks.len() {
                        0 | 1 => "net_null1,no-rx=1".to_owned(),
                        _ => format!("net_pcap1{}", into("tx_pcap", 1)),
                    });
                }
                ports
            }
            Source::Laps(laps) => {
                let rx = |number: usize| laps.get(number).map(|path| format!("{},loop", path.display()));
                let port = |number: usize| {
                    let mut parts = rx(number).unwrap_or_default();
                    parts.push_str(&into("tx", number));
                    format!("trace:{parts}")
                };
                (0..PORTS).map(port).collect()
            }
        }
    }
}

/// Ports of a fed device.
const PORTS: usize = 2;

fn pcap(number: usize, paths: &[PathBuf]) -> String {
    let queues: Vec<String> = paths.iter().map(|path| format!(",rx_pcap={}", path.display())).collect();
    format!("net_pcap{number}{},infinite_rx=1", queues.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_direction_ends_in_a_null_port_and_two_in_each_other() {
        let one = Fed::new(vec![vec!["/t/a.pcap".into()]], 10, Fed::MOST_PACKETS).unwrap();
        assert_eq!(one.ports(), ["net_pcap0,rx_pcap=/t/a.pcap,infinite_rx=1", "net_null1,no-rx=1"]);
        let two = Fed::new(vec![vec!["/t/a.pcap".into()], vec!["/t/b.pcap".into()]], 20, Fed::MOST_PACKETS)
            .unwrap();
        assert_eq!(two.ports()[1], "net_pcap1,rx_pcap=/t/b.pcap,infinite_rx=1");
    }

    #[test]
    fn an_audited_device_writes_what_it_sends_into_sinks() {
        let sinks = ["/s/0".into(), "/s/1".into()];
        let one = Fed::new(vec![vec!["/t/a.pcap".into()]], 10, Fed::MOST_PACKETS).unwrap();
        assert_eq!(
            one.ports_into(&sinks),
            ["net_pcap0,rx_pcap=/t/a.pcap,infinite_rx=1,tx_pcap=/s/0", "net_pcap1,tx_pcap=/s/1"]
        );
        let two = Fed::new(vec![vec!["/t/a.pcap".into()], vec!["/t/b.pcap".into()]], 20, Fed::MOST_PACKETS)
            .unwrap();
        assert_eq!(two.ports_into(&sinks)[1], "net_pcap1,rx_pcap=/t/b.pcap,infinite_rx=1,tx_pcap=/s/1");
    }

    #[test]
    fn laps_are_made_by_ports_of_the_devices_own() {
        let both = Fed::of_laps(vec!["/t/a.lap".into(), "/t/b.lap".into()]);
        assert_eq!(both.ports(), ["trace:/t/a.lap,loop", "trace:/t/b.lap,loop"]);
        let one = Fed::of_laps(vec!["/t/a.lap".into()]);
        assert_eq!(one.ports(), ["trace:/t/a.lap,loop", "trace:"]);
        assert_eq!(
            one.ports_into(&["/s/0".into(), "/s/1".into()]),
            ["trace:/t/a.lap,loop,tx=/s/0", "trace:,tx=/s/1"]
        );
    }

    #[test]
    fn each_queue_of_a_port_has_a_capture_of_its_own() {
        let fed =
            Fed::new(vec![vec!["/t/a.pcap".into(), "/t/b.pcap".into()]], 10, Fed::MOST_PACKETS).unwrap();
        assert_eq!(fed.ports()[0], "net_pcap0,rx_pcap=/t/a.pcap,rx_pcap=/t/b.pcap,infinite_rx=1");
    }

    #[test]
    fn a_trace_too_large_for_packet_buffers_is_refused_with_the_limit() {
        let error =
            Fed::new(vec![vec!["/t/a.pcap".into()]], 500_000, Fed::MOST_PACKETS).unwrap_err().to_string();
        assert!(error.contains("500000") && error.contains("260000") && error.contains("vhost"), "{error}");
    }
}

//! The `memif` wiring: shared memory between the lab and the DUT, set up over a Unix socket a link.
//!
//! Each link has a server, which listens, and a client, which connects and makes the memory; packets
//! are copied by whoever sends and again by whoever receives. The server must be there first: a
//! client tries once. Ordinary pages do as well as huge ones, because the rings and buffers lie in
//! a memory file of the driver's own; zero-copy, which needs huge pages in one file, is left off.
//! Buffers hold the largest frame whole: DPDK 22.11's driver repeats and mixes up frames that are
//! chained over several.

use super::{MOST_LINKS, Side};
use crate::folder::Folder;
use std::path::Path;
use weir_units::FrameSize;

/// Descriptors in each ring, as a power of two: as many as `vhost` has.
const RING_BITS: u8 = 10;

/// Bytes of a buffer at least: the driver's default.
const LEAST_BUFFER: u16 = 2048;

/// The links of a `memif` wiring: two, or a pair for each of several functions beside one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memif {
    /// Who listens; the other side connects.
    pub server: Side,
}

impl Memif {
    /// Whether the DUT must be started before the lab opens its ports, or after.
    pub fn dut_first(self) -> bool {
        self.server == Side::Dut
    }

    /// The ports of one side, one a link, as EAL `--vdev` strings. `number` tells those of several rigs in one process
    /// apart. Both ends of a link have the link's number as their interface id: without the same id
    /// a server turns its client away.
    pub fn ports(
        self,
        side: Side,
        folder: &Folder,
        (number, links): (u32, usize),
        max_frame: FrameSize,
    ) -> Vec<String> {
        let port = |link: usize| {
            let socket = folder.file(&format!("link{link}.sock"));
            self.port_at(side, (number as usize * MOST_LINKS + link, link), &socket, max_frame)
        };
        (0..links).map(port).collect()
    }

    /// One port over a socket elsewhere, by its number in its process and its interface id.
    pub fn port_at(
        self,
        side: Side,
        (number, id): (usize, usize),
        socket: &Path,
        max_frame: FrameSize,
    ) -> String {
        let buffer = max_frame.bytes().max(LEAST_BUFFER).next_multiple_of(64);
        let role = if self.server == side { "server" } else { "client" };
        let socket = socket.display();
        format!(
            "net_memif{number},role={role},id={id},socket={socket},socket-abstract=no,rsize={RING_BITS},bsize={buffer}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_one_server_and_one_interface_id() {
        let folder = Folder::new().unwrap();
        for server in [Side::Dut, Side::Lab] {
            let wiring = Memif { server };
            assert_eq!(wiring.dut_first(), server == Side::Dut);
            let ports =
                |side, number| wiring.ports(side, &folder, (number, 4), FrameSize::new(4000).unwrap());
            let (lab, dut) = (ports(Side::Lab, 3), ports(Side::Dut, 0));
            assert_eq!((lab.len(), dut.len()), (4, 4));
            assert!(lab.iter().chain(&dut).all(|port| port.ends_with(",bsize=4032")), "{lab:?}");
            for (link, sides) in lab.iter().zip(&dut).enumerate() {
                let sides = [sides.0, sides.1];
                assert_eq!(sides.iter().filter(|port| port.contains("role=server")).count(), 1, "{sides:?}");
                let same = [format!(",id={link},"), format!("/link{link}.sock,")];
                assert!(sides.iter().all(|port| same.iter().all(|part| port.contains(part))), "{sides:?}");
            }
            assert!(lab[1].starts_with("net_memif49,") && dut[1].starts_with("net_memif1,"));
        }
    }
}

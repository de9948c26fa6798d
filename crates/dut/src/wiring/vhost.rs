//! The `vhost` wiring: a pair of Unix sockets between the lab and the DUT.
//!
//! Each link has a vhost-user back end, which copies the packets, and a virtio-user front end.
//! Either may be on the lab's side, and either may be the socket's server. A back end that serves is
//! there first. A virtio-user server blocks until its client comes, and a back end that is a client tries
//! at once and then once a second: these two are opened at the same time.

use super::MOST_LINKS;
use crate::folder::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Descriptors in each ring.
const RING: u16 = 1024;

/// A side of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The DUT, as a software switch is to its virtual machines.
    #[default]
    Dut,
    /// The lab: the DUT is then what runs in a virtual machine.
    Lab,
}

/// The links of a `vhost` wiring: two, or a pair for each of several functions beside one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Vhost {
    /// Who has the vhost-user back end; the other side has virtio-user.
    pub backend: Side,
    /// Who makes the sockets; the other side connects.
    pub server: Side,
}

impl Vhost {
    /// Whether the DUT must be started before the lab opens its ports, or after.
    pub fn dut_first(self) -> bool {
        self.backend == Side::Dut
    }

    /// The sockets of so many links.
    pub fn sockets(self, folder: &Folder, links: usize) -> Vec<PathBuf> {
        (0..links).map(|link| folder.file(&format!("link{link}.sock"))).collect()
    }

    /// The ports of one side, one a link, as EAL `--vdev` strings. `number` tells those of several rigs in one process apart.
    pub fn ports(self, side: Side, folder: &Folder, number: u32, links: usize) -> Vec<String> {
        let first = number as usize * MOST_LINKS;
        let each = self.sockets(folder, links).into_iter().enumerate();
        each.map(|(link, socket)| self.port_at(side, first + link, &socket)).collect()
    }

    /// One port over a socket elsewhere, by its number in its process.
    pub fn port_at(self, side: Side, number: usize, socket: &Path) -> String {
        let (path, serves) = (socket.display(), self.server == side);
        if self.backend == side {
            format!("net_vhost{number},iface={path},queues=1,client={}", u8::from(!serves))
        } else {
            let server = if serves { ",server=1" } else { "" };
            format!("net_virtio_user{number},path={path},queues=1,queue_size={RING}{server}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_one_back_end_and_one_server() {
        let folder = Folder::new().unwrap();
        for backend in [Side::Dut, Side::Lab] {
            for server in [Side::Dut, Side::Lab] {
                let wiring = Vhost { backend, server };
                let ports = |side, number| wiring.ports(side, &folder, number, 4);
                let (lab, dut) = (ports(Side::Lab, 3), ports(Side::Dut, 0));
                assert_eq!((lab.len(), dut.len()), (4, 4));
                for (lab, dut) in lab.iter().zip(&dut) {
                    let sides = [lab, dut];
                    assert_eq!(sides.iter().filter(|port| port.starts_with("net_vhost")).count(), 1);
                    let servers = sides.iter().filter(|p| p.contains("server=1") || p.contains("client=0"));
                    assert_eq!(servers.count(), 1, "{sides:?}");
                }
                assert!(lab[1].contains("49,") && dut[3].contains("link3.sock"));
            }
        }
    }
}

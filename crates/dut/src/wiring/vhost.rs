//! The `vhost` wiring: a pair of Unix sockets between the lab and the DUT.
//!
//! Each link has a vhost-user back end, which copies the packets, and a virtio-user front end.
//! Either may be on the lab's side, and either may be the socket's server. The back end is opened
//! first: as a client it tries again until its server is there, whereas a virtio-user server
//! blocks until its client comes.

use crate::folder::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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

/// The two links of a `vhost` wiring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Vhost {
    /// Who has the vhost-user back end; the other side has virtio-user.
    pub backend: Side,
    /// Who makes the sockets; the other side connects.
    pub server: Side,
}

impl Vhost {
    /// Links, hence ports on each side.
    pub const LINKS: usize = 2;

    /// Whether the DUT must be started before the lab opens its ports, or after.
    pub fn dut_first(self) -> bool {
        self.backend == Side::Dut
    }

    /// The sockets.
    pub fn sockets(self, folder: &Folder) -> [PathBuf; Self::LINKS] {
        [folder.file("link0.sock"), folder.file("link1.sock")]
    }

    /// The ports of one side, as EAL `--vdev` strings. `number` tells the ports of one process apart.
    pub fn ports(self, side: Side, folder: &Folder, number: u32) -> [String; Self::LINKS] {
        let sockets = self.sockets(folder);
        self.ports_at(side, number, |link| sockets[link].clone())
    }

    /// The same over sockets elsewhere, by link.
    pub(crate) fn ports_at(
        self,
        side: Side,
        number: u32,
        socket: impl Fn(usize) -> PathBuf,
    ) -> [String; Self::LINKS] {
        std::array::from_fn(|link| {
            let name = number as usize * Self::LINKS + link;
            let path = socket(link);
            let (path, serves) = (path.display(), self.server == side);
            if self.backend == side {
                format!("net_vhost{name},iface={path},queues=1,client={}", u8::from(!serves))
            } else {
                let server = if serves { ",server=1" } else { "" };
                format!("net_virtio_user{name},path={path},queues=1,queue_size={RING}{server}")
            }
        })
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
                let (lab, dut) = (wiring.ports(Side::Lab, &folder, 3), wiring.ports(Side::Dut, &folder, 0));
                for (lab, dut) in lab.iter().zip(&dut) {
                    let sides = [lab, dut];
                    assert_eq!(sides.iter().filter(|port| port.starts_with("net_vhost")).count(), 1);
                    let servers = sides.iter().filter(|p| p.contains("server=1") || p.contains("client=0"));
                    assert_eq!(servers.count(), 1, "{sides:?}");
                }
                assert!(lab[1].contains('7') && dut[1].contains("link1.sock"));
            }
        }
    }
}

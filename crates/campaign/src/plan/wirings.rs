//! What a plan says about its wirings: a table each, all of them optional but `[nic]`.

use super::Plan;
use super::text::List;
use crate::rig::Wirings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use weir_dut::wiring::{Memif, Nic, Side, Veth, VethDriver, Vhost};

/// The wiring `vhost`: virtio-user on one side, vhost-user on the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VhostPlan {
    /// The lab's end of the socket. Default: virtio, as a virtual machine has it.
    pub lab: VhostEnd,
    /// Who listens on the socket. Default: dut.
    pub server: Server,
}

/// The lab's end of a vhost wiring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VhostEnd {
    /// The lab is the guest's side.
    #[default]
    Virtio,
    /// The lab is the host's side.
    Vhost,
}

/// Who listens on a wiring's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// The lab.
    Lab,
    /// The device under test.
    #[default]
    Dut,
}

/// The wiring `memif`: shared memory between two processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemifPlan {
    /// Who listens on the socket; the other side makes the memory. Default: dut.
    pub server: Server,
}

/// The wiring `veth`: veth pairs between two network namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VethPlan {
    /// How the lab's ends are opened. Default: af-packet.
    pub driver: VethDriver,
}

/// The wiring `nic`: two ports of the lab and, for a device that Weir starts, two of the device, each as a PCI address (0000:01:00.0) or an EAL vdev string (net_af_packet0,iface=eth1).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NicTable {
    /// The lab's ports, port 0 first.
    #[schemars(with = "Option<[String; 2]>")]
    pub(super) lab: Option<Spanned<List<String>>>,
    /// The device's ports, port 0 first: what is cabled to the lab's. Not for external.
    #[schemars(with = "Option<[String; 2]>")]
    pub(super) dut: Option<Spanned<List<String>>>,
}

/// The device `external`: a box on the wire that nobody starts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalPlan {
    /// What it is, kept with every result: make, version, configuration.
    pub description: String,
}

impl Default for ExternalPlan {
    fn default() -> Self {
        Self { description: "a box on the wire, not described".to_owned() }
    }
}

impl From<Server> for Side {
    fn from(server: Server) -> Self {
        match server {
            Server::Lab => Self::Lab,
            Server::Dut => Self::Dut,
        }
    }
}

impl Plan {
    /// The wirings as adapters and rigs understand them.
    pub fn wirings(&self) -> Wirings {
        let backend = match self.vhost.lab {
            VhostEnd::Virtio => Side::Dut,
            VhostEnd::Vhost => Side::Lab,
        };
        Wirings {
            vhost: Vhost { backend, server: self.vhost.server.into() },
            memif: Memif { server: self.memif.server.into() },
            veth: Veth { driver: self.veth.driver },
            nic: Nic { lab: self.nic.lab.clone(), dut: self.nic.dut.clone() },
            external: self.external.description.clone(),
        }
    }
}

//! What a plan says about its wirings: a table each, all of them optional but `[nic]`.

use super::Plan;
use super::text::List;
use crate::rig::Wirings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use weir_dut::Command;
use weir_dut::wiring::{External, Memif, Nic, Side, Veth, VethDriver, Vhost};

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

/// A device that somebody else started: `external`, or `openflow:` a switch. The lab makes its ends, and waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalPlan {
    /// What it is, kept with every result: make, version, configuration.
    pub description: Option<String>,
    /// Over vhost and memif: the sockets of port 0 and port 1, relative to the folder in which weir runs. Default: weir0.sock and weir1.sock in the folder for temporary files.
    pub sockets: Option<[PathBuf; 2]>,
    /// Over veth: the interfaces that the device takes as port 0 and port 1; the lab makes them. Default: weir0 and weir1.
    pub interfaces: Option<[String; 2]>,
    /// Over veth: the network namespace of these interfaces, a name of `ip netns` or a path. Default: the one in which weir runs.
    pub namespace: Option<String>,
    /// A command that prints a line a port: packets received, packets sent and, if it knows, packets that the port did not take. For external alone. Without it nothing is known of its counters.
    pub counters: Option<Command>,
    /// A command that succeeds once the device forwards; it is tried until then. For external alone.
    pub ready: Option<Command>,
    /// How long the device may take to come, in seconds, 1 to 3600. Default: 60.
    pub wait_seconds: Option<u32>,
}

/// Longest that a device may be waited for, in seconds.
const MOST_WAIT: u32 = 3600;

impl ExternalPlan {
    /// As the adapters understand it; the mistake in it, where there is one.
    pub(super) fn external(&self) -> Result<External, String> {
        let usual = External::default();
        let absolute =
            |path: &PathBuf| std::path::absolute(path).map_err(|error| format!("`sockets`: {error}"));
        let sockets = match &self.sockets {
            Some([first, second]) => [absolute(first)?, absolute(second)?],
            None => usual.sockets,
        };
        let wait = match self.wait_seconds {
            Some(seconds) if !(1..=MOST_WAIT).contains(&seconds) => {
                return Err(format!("`wait_seconds`: {seconds} is not between 1 and {MOST_WAIT}"));
            }
            seconds => seconds.map_or(usual.wait, |seconds| Duration::from_secs(seconds.into())),
        };
        let external = External {
            description: self.description.clone().unwrap_or(usual.description),
            sockets,
            interfaces: self.interfaces.clone().unwrap_or(usual.interfaces),
            namespace: self.namespace.clone(),
            counters: self.counters.as_ref().map(Command::words),
            ready: self.ready.as_ref().map(Command::words),
            wait,
        };
        external.check().map(|()| external)
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
            external: self.external.external().unwrap_or_default(), // it was checked with the plan
        }
    }
}

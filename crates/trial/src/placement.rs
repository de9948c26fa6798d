//! Where the functions of a chain run: the *deployment*, the *host* that carries packets between them, how many *copies*
//! of the chain stand side by side behind it and how packets are split among them, how many *bundles* of all that have ports of their own, which cores the processes have and how
//! fast these are, what guests they run in; and graphs of devices.

pub mod graph;
pub mod guest;

pub use graph::{Graph, GraphDevice, GraphEnd, GraphLink, GraphMistake, GraphPart, Hop, Join};
pub use guest::{Accel, Guest};

use crate::core_use::joined;
use crate::{CoreUse, Frequency, NodeUse, Offloads, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How network functions are placed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// All in the device itself, as its own tables: run to completion.
    #[default]
    Inline,
    /// Each a process behind virtio ports of a host dataplane, which copies packets in and out (as Open vSwitch and
    /// BESS do for virtual machines).
    Vhost,
    /// Each a process, in a row: the sender copies into the receiver's queue, and no switch is between them (as VALE
    /// does for ClickOS). Over memif.
    Vale,
    /// As [`Self::Vhost`], each process in mount, network and process namespaces of its own.
    Container,
    /// Each a process on the same huge pages, in a row: what goes from one to the next is a pointer over a ring, and no
    /// packet is copied (as NetVM and IVSHMEM do). One more process owns the memory and the ports towards the tester.
    Shared,
    /// Each in a guest (a virtual machine, QEMU) behind virtio ports of a host dataplane.
    Vm,
    /// Devices of several kinds, joined as the tables `[[device]]` and `[[link]]` of a plan say ([`Graph`]).
    Graph,
}

impl Deployment {
    /// Every deployment.
    pub const ALL: [Self; 7] =
        [Self::Inline, Self::Vhost, Self::Vale, Self::Container, Self::Shared, Self::Vm, Self::Graph];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Vhost => "vhost",
            Self::Vale => "vale",
            Self::Container => "container",
            Self::Shared => "shared",
            Self::Vm => "vm",
            Self::Graph => "graph",
        }
    }

    /// Whether a host dataplane carries packets between the functions.
    pub const fn has_host(self) -> bool {
        matches!(self, Self::Vhost | Self::Container | Self::Vm)
    }

    /// Forwarding processes of a chain of so many functions.
    pub const fn processes(self, functions: usize) -> usize {
        match self {
            Self::Inline => 1,
            Self::Vale | Self::Graph => functions,
            Self::Vhost | Self::Container | Self::Shared | Self::Vm => functions + 1,
        }
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Deployment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` is no deployment Weir knows; it knows {}", known()))
    }
}

/// How a host splits packets among copies of a chain.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// In turns, packet by packet.
    #[default]
    RoundRobin,
    /// By a hash of the flow's addresses, ports and protocol: both directions of a flow go through the same copy.
    Flow,
}

impl Split {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::RoundRobin, Self::Flow];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Flow => "flow",
        }
    }

    /// What it does, behind a number of copies.
    const fn about(self) -> &'static str {
        match self {
            Self::RoundRobin => "round robin",
            Self::Flow => "by flow",
        }
    }

    /// Whether it is the default: then it is not stored.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` is no way to split packets; write round-robin or flow"))
    }
}

/// Where the functions of a point run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Placement {
    /// How they are placed.
    pub deployment: Deployment,
    /// The dataplane that carries packets between them, where the deployment has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Who has which core.
    pub cores: CoreUse,
    /// What each function's guest is, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// Copies of the whole chain, side by side behind the host.
    #[serde(skip_serializing_if = "is_one")]
    pub copies: u32,
    /// Virtual ports of each function: its packets are split among pairs of them.
    #[serde(skip_serializing_if = "is_a_pair")]
    pub vnics: u32,
    /// How many such chains, with their copies, run beside one another, each between a pair of the tester's ports of its own.
    #[serde(skip_serializing_if = "is_one")]
    pub bundles: u32,
    /// Receive queues of each port between the tester and the device, and as many transmit queues: flows are spread over them.
    #[serde(skip_serializing_if = "is_one")]
    pub queues: u32,
    /// How the host splits packets among copies, and among pairs of virtual ports; of no meaning with one of both.
    #[serde(skip_serializing_if = "Split::is_default")]
    pub split: Split,
    /// How fast the DUT's cores are; as the machine has them where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// On which NUMA node its cores are, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeUse>,
    /// Offloads of the interfaces between the lab and the DUT, where the wiring has some.
    #[serde(skip_serializing_if = "Offloads::is_empty")]
    pub offloads: Offloads,
    /// The machine on which it runs, where that is another than the lab's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// The devices and how they are joined, in deployment `graph`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
}

/// Whether there is one of something: then it is not stored.
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Whether there are two of something: then it is not stored.
fn is_a_pair(count: &u32) -> bool {
    *count == 2
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            deployment: Deployment::default(),
            host: None,
            cores: CoreUse::default(),
            guest: None,
            copies: 1,
            vnics: 2,
            bundles: 1,
            queues: 1,
            split: Split::default(),
            frequency: None,
            node: None,
            offloads: Offloads::default(),
            server: None,
            graph: None,
        }
    }
}

impl Placement {
    /// The settings of a plan that say where functions run.
    pub const AXES: [&'static str; 15] = [
        "deployment",
        "host",
        "copies",
        "split",
        "vnics",
        "bundles",
        "queues",
        "cores",
        "vcpus",
        "memory",
        "accel",
        "frequency",
        "offloads",
        "node",
        "server",
    ];

    /// Most copies of a chain.
    pub const MOST_COPIES: u32 = 8;
    /// Most virtual ports of a function.
    pub const MOST_VNICS: u32 = 8;
    /// Most bundles: sixteen ports of the tester.
    pub const MOST_BUNDLES: u32 = 8;
    /// Most queues of a port.
    pub const MOST_QUEUES: u32 = 8;

    /// Whether the device is the function by itself.
    pub fn is_inline(&self) -> bool {
        self.deployment == Deployment::Inline
    }

    /// Threads of a chain of so many functions that forward, its copies and bundles included, hence cores where each has its own: a process
    /// has one, or one for each queue of its ports ([`Self::threads`]), a guest one for each of its processors. Of a device that is one process, those that share out the queues of its
    /// ports.
    pub fn forwarding(&self, functions: usize) -> usize {
        if self.is_inline() {
            return self.workers();
        }
        if let Some(graph) = &self.graph {
            return graph.devices.len();
        }
        let functions = functions * (self.copies.max(1) * self.bundles.max(1)) as usize;
        let processes = self.deployment.processes(functions) * self.threads();
        processes + self.guest.map_or(0, |guest| functions * (guest.vcpus.max(1) as usize - 1))
    }

    /// Threads of each process of a chain that forward: one for each queue of its ports where each has a core of its own, else
    /// one that serves them all.
    pub fn threads(&self) -> usize {
        if self.cores == CoreUse::Own { self.queues.max(1) as usize } else { 1 }
    }

    /// Threads of a device that is one process: one for each queue of a port, or as many as it has cores.
    fn workers(&self) -> usize {
        let queues = self.queues.max(1) as usize;
        match &self.cores {
            CoreUse::Shared => 1,
            cores => cores.fixed().map_or(queues, |cores| cores.clamp(1, queues)),
        }
    }

    /// Whether the processors of its functions are emulated: what they do may be judged, how fast they do it may not.
    pub fn is_emulated(&self) -> bool {
        self.guest.is_some_and(|guest| guest.accel == Accel::Tcg)
    }

    /// Ports of the tester, in pairs: two for each bundle.
    pub fn ports(&self) -> usize {
        2 * self.bundles.max(1) as usize
    }

    /// Pairs of rings between the tester and the device's pairs of ports: one for each bundle and queue.
    pub fn links(&self) -> u32 {
        self.bundles.max(1) * self.queues.max(1)
    }

    /// Pairs of virtual ports of each function.
    pub fn pairs(&self) -> u32 {
        (self.vnics / 2).max(1)
    }

    /// Ways through a chain that its host splits packets among: one for each copy and pair of virtual ports.
    pub fn lanes(&self) -> u32 {
        self.copies.max(1) * self.pairs()
    }

    /// Whether the packets of one flow go by several ways, so that they may overtake one another.
    pub fn splits_flows(&self) -> bool {
        self.lanes() > 1 && self.split == Split::RoundRobin
    }

    /// Whether there is nothing to say of it: the device is the function by itself, on a core as it is.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The same with what says nothing of a device that is one process left out.
    #[must_use]
    pub fn plainest(self) -> Self {
        let one_thread = self.is_inline() && self.queues <= 1;
        match self.cores {
            CoreUse::Shared | CoreUse::Count(1) if one_thread => Self { cores: CoreUse::Own, ..self },
            CoreUse::Count(1) if self.is_inline() => Self { cores: CoreUse::Shared, ..self },
            _ => self,
        }
    }

    /// Of a device: `nf`, where it is alone, `nf on core 1 at 50%`, or `nf in vhost on weir, 2 copies by flow, one core, at 50%`.
    pub fn of(&self, device: &str) -> String {
        let comma = if self.is_inline() { "" } else { "," };
        let node = self.node.map(|node| match node {
            NodeUse::Same => format!("{comma} on the tester's node"),
            NodeUse::Other => format!("{comma} on another node"),
        });
        let server = self.server.as_ref().map(|server| format!("{comma} at {server}"));
        let at = self.frequency.map(|frequency| format!("{comma} at {frequency}"));
        let with = (!self.offloads.is_empty()).then(|| format!("{comma} with {}", self.offloads));
        [Some(self.placed(device)), node, server, at, with].into_iter().flatten().collect()
    }

    fn placed(&self, device: &str) -> String {
        if self.is_inline() {
            let device = match self.queues {
                0 | 1 => device.to_owned(),
                queues => format!("{device} ({queues} queues)"),
            };
            return match &self.cores {
                CoreUse::On(cores) if cores.len() == 1 => format!("{device} on core {}", joined(cores)),
                CoreUse::On(cores) => format!("{device} on cores {}", joined(cores)),
                CoreUse::Count(count) => format!("{device} on {count} cores"),
                CoreUse::Shared if self.queues > 1 => format!("{device} on one core"),
                CoreUse::Own | CoreUse::Shared => device,
            };
        }
        let host = match &self.graph {
            Some(graph) => format!(" {graph}"),
            None => self.host.as_ref().map_or_else(String::new, |host| format!(" on {host}")),
        };
        let copies = match self.copies {
            0 | 1 => String::new(),
            copies => format!(", {copies} copies {}", self.split.about()),
        };
        let vnics = match (self.pairs(), self.copies) {
            (1, _) => String::new(),
            (_, 0 | 1) => format!(", {} vnics {}", self.vnics, self.split.about()),
            _ => format!(", {} vnics", self.vnics),
        };
        let bundles = match self.bundles {
            _ if self.graph.is_some() => String::new(),
            0 | 1 => String::new(),
            bundles => format!(", {bundles} bundles"),
        };
        let queues = match self.queues {
            0 | 1 => String::new(),
            queues => format!(", {queues} queues"),
        };
        let cores = match &self.cores {
            CoreUse::Own => String::new(),
            CoreUse::Shared | CoreUse::Count(1) => ", one core".to_owned(),
            CoreUse::Count(count) => format!(", {count} cores"),
            CoreUse::On(cores) if cores.len() == 1 => format!(", core {}", joined(cores)),
            CoreUse::On(cores) => format!(", cores {}", joined(cores)),
        };
        let guest = self.guest.map_or_else(String::new, |guest| format!(" ({guest})"));
        format!("{device} in {}{guest}{host}{copies}{vnics}{bundles}{queues}{cores}", self.deployment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for deployment in Deployment::ALL {
            assert_eq!(deployment.to_string().parse(), Ok(deployment));
        }
        let error = "pod".parse::<Deployment>().unwrap_err();
        assert!(
            error.contains("`pod`") && error.contains("inline, vhost, vale, container, shared, vm"),
            "{error}"
        );
    }

    #[test]
    fn a_device_is_named_with_where_it_runs() {
        let mut placement = Placement::default();
        assert_eq!(placement.of("weir"), "weir");
        placement.deployment = Deployment::Vhost;
        placement.host = Some("ovs-dpdk".to_owned());
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk");
        placement.cores = CoreUse::Shared;
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, one core");
        placement.frequency = Some(Frequency::Share(50));
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, one core, at 50%");
        placement.cores = CoreUse::On(vec![2, 1]);
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, cores 2+1, at 50%");
        placement.cores = CoreUse::Count(3);
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, 3 cores, at 50%");
        let on = Placement { cores: CoreUse::On(vec![1]), ..Placement::default() };
        assert_eq!(on.of("nf"), "nf on core 1");
        let shared = Placement { cores: CoreUse::Shared, ..Placement::default() };
        assert!(shared.plainest().is_plain() && !on.plainest().is_plain());
        let alone = Placement { frequency: Some(Frequency::Clock(1_500)), ..Placement::default() };
        assert_eq!(alone.of("weir"), "weir at 1.5GHz");
        assert!(alone.is_inline() && !alone.is_plain());
        let far = Placement { node: Some(NodeUse::Other), ..alone.clone() };
        assert_eq!(far.of("weir"), "weir on another node at 1.5GHz");
        let away = Placement { server: Some("netns:far".parse().unwrap()), ..alone.clone() };
        assert_eq!(away.of("weir"), "weir at netns:far at 1.5GHz");
        let without = Placement { offloads: "gro=off".parse().unwrap(), ..alone };
        assert_eq!(without.of("linux"), "linux at 1.5GHz with gro=off");
        placement.frequency = None;
        placement.cores = CoreUse::Shared;
        placement.copies = 3;
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, 3 copies round robin, one core");
        placement.split = Split::Flow;
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, 3 copies by flow, one core");
    }

    #[test]
    fn copies_take_processes_and_are_stored_only_where_there_are_several() {
        let one = Placement { deployment: Deployment::Vhost, ..Placement::default() };
        let three = Placement { copies: 3, split: Split::Flow, ..one.clone() };
        assert_eq!([one.forwarding(2), three.forwarding(2)], [3, 7]);
        let queues = Placement { queues: 4, ..one.clone() };
        assert_eq!((queues.forwarding(2), queues.of("nf")), (12, "nf in vhost, 4 queues".to_owned()));
        let shared = Placement { cores: CoreUse::Shared, ..queues };
        assert_eq!(
            (shared.forwarding(2), shared.of("nf")),
            (3, "nf in vhost, 4 queues, one core".to_owned())
        );
        let beside = Placement { bundles: 2, ..three.clone() };
        assert_eq!((beside.forwarding(2), beside.ports(), one.ports()), (13, 4, 2));
        assert_eq!(beside.of("nf"), "nf in vhost, 3 copies by flow, 2 bundles");
        let rows = Placement { deployment: Deployment::Vale, bundles: 3, ..one.clone() };
        assert_eq!((rows.forwarding(2), rows.of("nf")), (6, "nf in vale, 3 bundles".to_owned()));
        let ports = Placement { vnics: 4, copies: 1, ..three.clone() };
        assert_eq!((ports.forwarding(2), ports.lanes(), three.lanes()), (3, 2, 3));
        assert_eq!(ports.of("nf"), "nf in vhost, 4 vnics by flow");
        assert_eq!(
            Placement { copies: 2, ..ports.clone() }.of("nf"),
            "nf in vhost, 2 copies by flow, 4 vnics"
        );
        assert!(Placement { split: Split::RoundRobin, ..ports.clone() }.splits_flows());
        let in_turns = Placement { split: Split::RoundRobin, ..three.clone() };
        assert_eq!([&one, &three, &in_turns].map(Placement::splits_flows), [false, false, true]);
        let text = serde_json::to_string(&one).unwrap();
        assert!(!["copies", "split", "bundles", "vnics"].iter().any(|key| text.contains(key)), "{text}");
        for placement in [one, three, beside, ports] {
            let text = serde_json::to_string(&placement).unwrap();
            assert_eq!(serde_json::from_str::<Placement>(&text).unwrap(), placement);
        }
        for split in Split::ALL {
            assert_eq!(split.to_string().parse(), Ok(split));
        }
        assert!("hash".parse::<Split>().unwrap_err().contains("round-robin or flow"));
    }

    #[test]
    fn guests_are_named_with_what_they_are_and_each_processor_wants_a_core() {
        let guest = Guest { vcpus: 2, memory: 1024, accel: Accel::Tcg };
        let placement = Placement {
            deployment: Deployment::Vm,
            host: Some("weir".to_owned()),
            guest: Some(guest),
            ..Placement::default()
        };
        assert_eq!(placement.of("nf"), "nf in vm (2 vCPUs, 1024 MiB, TCG) on weir");
        assert_eq!(
            (placement.forwarding(3), Placement { guest: None, ..placement.clone() }.forwarding(3)),
            (7, 4)
        );
        assert!(placement.is_emulated() && !Placement::default().is_emulated());
        let stored = serde_json::to_string(&placement).unwrap();
        assert_eq!(serde_json::from_str::<Placement>(&stored).unwrap(), placement);
        let before = r#"{"deployment":"vhost","host":"weir","cores":"own"}"#;
        assert_eq!(serde_json::from_str::<Placement>(before).unwrap().guest, None);
    }

    #[test]
    fn a_stored_point_without_a_placement_is_inline() {
        let read: Placement = serde_json::from_str("{}").unwrap();
        assert!(read.is_inline() && read == Placement::default() && read.copies == 1);
    }
}

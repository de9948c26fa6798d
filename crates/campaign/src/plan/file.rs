//! The plan file, key by key: what TOML may hold, and the JSON Schema made of it.
//!
//! Comments on the keys become the schema's descriptions, which editors show. Whether the values
//! make sense together is `check`'s affair. The tables of the methods are in their files ([`crate::methods`]).

use super::graph::{DeviceTable, LinkTable};
use super::members::Member;
use super::text::{HugePages, List, SizesText, Text};
use super::wirings::{ExternalPlan, MemifPlan, NicTable, VethPlan, VhostPlan};
use crate::methods::{
    BackToBackTable, ConnectionsTable, FlowModsTable, FrameLossTable, GoalTable, LatencyCurveTable,
    LatencyTable, MrrTable, SoakTable, ThroughputTable,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;
use weir_traffic::Shape;
use weir_trial::{Accel, CoreUse, Deployment, Frequency, Nf, NodeUse, Offloads, Split};
use weir_units::{LineRate, Nanos, Pps, Ratio};

/// A plan of Weir: what to measure, how, and how often. The axes (nf, length, deployment, host, copies, split, vnics, bundles, queues, cores, frequency, offloads, node, server, vcpus, memory, accel, dut, wiring, trace, size, directions, huge_pages) take one value or a list; every combination is measured, the axis written first varying slowest.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Weir plan")]
pub(crate) struct PlanFile {
    /// Name of the plan; the file's name when left out.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Spanned<String>>,
    /// Axis: network functions. l2fwd; l3fwd:N with N routes; firewall:N with N rules; flows:FILE with a flow table of your own, its path relative to the plan.
    #[schemars(with = "Option<List<Nf>>")]
    pub(super) nf: Option<Spanned<List<String>>>,
    /// Functions in a row between the two ports, in place of `nf`, up to eight of them: l2fwd, l3fwd:N, firewall:N, pipelines, flows:FILE and others, but for nat; or { nf = "l2fwd", dut = "testpmd" } for a function with a device of its own, in place of the plan's `dut`. Where they run: `deployment`; inline the first three alone.
    #[schemars(with = "Option<Vec<Member>>")]
    pub(super) chain: Option<Spanned<Vec<Spanned<Member>>>>,
    /// Axis: the chain's first so many functions. Default: all.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) length: Option<Spanned<List<u32>>>,
    /// Axis: how functions are placed. inline: all in the device itself; vhost: each a process of the device behind virtio ports of a `host`, which copies; vale: each a process, the sender copies into the receiver's queue (memif); container: as vhost, each in namespaces of its own; shared: each a process on the same huge pages, which hands packets on without a copy; vm: as vhost, each in a guest (QEMU); graph: as the tables `[[device]]` and `[[link]]` say, which need not be told. Default: inline.
    #[schemars(with = "Option<List<Deployment>>")]
    pub(super) deployment: Option<Spanned<List<String>>>,
    /// Axis: the dataplane that carries packets between the functions of vhost, container and vm: weir, ovs-dpdk, testpmd. Default: weir.
    #[schemars(with = "Option<List<String>>")]
    pub(super) host: Option<Spanned<List<String>>>,
    /// Axis: copies of the whole chain side by side behind the host, 1 to 8. Default: 1.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) copies: Option<Spanned<List<u32>>>,
    /// Axis: virtual ports of each function behind the host (nf, testpmd): 2, 4, 6 or 8, of which packets take a pair each, as `split` says. Default: 2.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) vnics: Option<Spanned<List<u32>>>,
    /// Axis: how the host splits packets among copies, and among pairs of virtual ports. round-robin: in turns, packet by packet (weir); flow: by a hash of the flow, both directions of which go through the same copy (weir, ovs-dpdk). Default: round-robin.
    #[schemars(with = "Option<List<Split>>")]
    pub(super) split: Option<Spanned<List<String>>>,
    /// Axis: how many such chains run beside one another on the machine (colocation), 1 to 8, each between a pair of the tester's ports of its own and with traffic of its own. Behind a host all share it. Loads and rates are over all of them; `weir show` has each. Not for inline. Default: 1.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) bundles: Option<Spanned<List<u32>>>,
    /// Axis: receive queues of each port between the tester and the device, and as many transmit queues, 1 to 8 (nf, weir, testpmd, ovs-dpdk over vhost and memif). Flows are spread over them, each to one. The device has a forwarding thread for each, unless `cores` says fewer. Default: 1.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) queues: Option<Spanned<List<u32>>>,
    /// Axis: own, a core for each forwarding process, for each processor of a guest, and for each of several `queues`; shared, where all of them take turns on one; a number of cores, or a list of them (`[1, 2]`, within the list of an axis: `[[1], [1, 2]]`), which are dealt out to the processes in turn, the host first. Default: own.
    #[schemars(with = "Option<List<CoreUse>>")]
    pub(super) cores: Option<Spanned<List<CoreUse>>>,
    /// Axis: how fast the device's cores are. A clock ("1.5GHz") is set by cpufreq, where the machine has it, and put back; a share ("50%") of the cores' time is given to the device by turns with a thread of the lab that keeps the core. Default: as the machine has them.
    #[schemars(with = "Option<List<Frequency>>")]
    pub(super) frequency: Option<Spanned<List<String>>>,
    /// Axis: offloads of the interfaces of the wiring `veth`, on both sides: { gro = true, tso = false } of rx, tx, sg, tso, gso and gro, or "as-is". Those that are not named stay as the kernel has them. Default: "as-is".
    #[schemars(with = "Option<List<Offloads>>")]
    pub(super) offloads: Option<Spanned<List<Offloads>>>,
    /// Axis: the NUMA node of the device's cores: same, the tester's; or other. Default: nothing is said of nodes.
    #[schemars(with = "Option<List<NodeUse>>")]
    pub(super) node: Option<Spanned<List<String>>>,
    /// Axis: the machine on which the device runs. here; ssh://HOST or ssh://USER@HOST:PORT, over the wiring nic (nf, weir); netns:NAME, a network namespace of this machine that stands for one, over veth or nic (nf, weir, testpmd). Default: here.
    #[schemars(with = "Option<List<String>>")]
    pub(super) server: Option<Spanned<List<String>>>,
    /// Axis: processors of each guest, in deployment vm; the function forwards on the last. Default: 1.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) vcpus: Option<Spanned<List<u32>>>,
    /// Axis: memory of each guest, in MiB, in deployment vm. Default: 512.
    #[schemars(with = "Option<List<u32>>")]
    pub(super) memory: Option<Spanned<List<u32>>>,
    /// Axis: who makes the processors of guests, in deployment vm. kvm: the machine's own; tcg: QEMU, in software, to see that a chain works; its rates are not ranked. Default: kvm.
    #[schemars(with = "Option<List<Accel>>")]
    pub(super) accel: Option<Spanned<List<String>>>,
    /// Axis: devices under test; `weir dut list` names them. Of a chain that is not inline each function runs on it; "a|b|c" names one for each. Default: nf, Weir's own small program.
    #[schemars(with = "Option<List<String>>")]
    pub(super) dut: Option<Spanned<List<String>>>,
    /// A graph of devices, in place of `nf` or `chain`: what stands between the tester's ports, and by `[[link]]` how it is joined.
    #[serde(default)]
    #[schemars(with = "Vec<DeviceTable>")]
    pub(super) device: Vec<Spanned<DeviceTable>>,
    /// The links of a graph of devices: each joins two ports.
    #[serde(default)]
    #[schemars(with = "Vec<LinkTable>")]
    pub(super) link: Vec<Spanned<LinkTable>>,
    /// A second device that every point is measured against, trial by trial in turns, so that a machine that drifts hits both. The plan then has one `dut`.
    #[schemars(with = "Option<String>")]
    pub(super) against: Option<Spanned<String>>,
    /// Axis: how the lab's ports reach the device's. vhost, memif, veth, nic, fed. Default: vhost.
    #[schemars(with = "Option<List<String>>")]
    pub(super) wiring: Option<Spanned<List<String>>>,
    /// Axis: what is sent. A trace name (`weir trace list`), the path of a pcap or pcapng file relative to the plan, or "a|b" for a different one in each direction.
    #[schemars(with = "List<String>")]
    pub(super) trace: Spanned<List<String>>,
    /// Axis: packet sizes in bytes with FCS, as RFC 2544 counts them; "imix", "web", "gateway", or "recorded" for captures and traces with sizes of their own. A size is measured with every trace that comes in it.
    #[schemars(with = "List<SizesText>")]
    pub(super) size: Spanned<List<SizesText>>,
    /// Axis: directions with traffic, 1 or 2. Default: 2.
    #[schemars(with = "Option<List<u8>>")]
    pub(super) directions: Option<Spanned<List<u8>>>,
    /// Axis: huge pages for the lab and the device. true, false, or "auto": where the machine has them. Default: "auto".
    #[schemars(with = "Option<List<HugePages>>")]
    pub(super) huge_pages: Option<Spanned<List<HugePages>>>,
    /// Line rate that results are compared with, per direction. Default: 10G.
    pub(super) line_rate: Option<Text<LineRate>>,
    /// How packets are spread over time: constant, poisson, bursts:N, or recorded (the gaps of a
    /// capture, whose own rate then stands for every load). Default: constant.
    pub(super) shape: Option<Text<Shape>>,
    /// Share of the packets that carry a sequence number and a time stamp. Default: 100%.
    #[schemars(with = "Option<Text<Ratio>>")]
    pub(super) stamped: Option<Spanned<Text<Ratio>>>,
    /// Whether what the tester itself can do over each wiring is measured first: about two seconds for
    /// each wiring and size, without which no result can say who limits it. Default: true.
    pub(super) self_check: Option<bool>,
    /// Seed of everything random. One that is chosen moves the addresses of generated traces as well. Default: 1.
    pub(super) seed: Option<u64>,
    /// Cores of the tester, 1 to 32. With several, senders and receivers are on threads of their own; each direction keeps two
    /// busy, and two more for each further of its port's `queues`. The machine needs one more, for the device. Default: 1.
    #[schemars(with = "Option<u32>")]
    pub(super) tester_cores: Option<Spanned<u32>>,
    /// How often every point is measured, 1 to 100. Default: 1.
    #[schemars(with = "Option<u32>")]
    pub(super) repeats: Option<Spanned<u32>>,
    /// With `against` and `[mrr]`: both devices are started anew beyond `repeats` until an effect of this size would be seen, or the time is over.
    #[schemars(with = "Option<UntilTable>")]
    pub(super) until: Option<Spanned<UntilTable>>,
    /// Whether packets are compared with what the network function must make of them: all of them in
    /// an untimed pass before each point's trials, a sample in every trial. Default: true.
    pub(super) check: Option<bool>,
    /// Throughput by MLRsearch.
    pub(crate) throughput: Option<ThroughputTable>,
    /// Goals of the throughput search: changes to a preset (rfc2544, bswlv, ndr, pdr), or goals of your own.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, GoalTable>")]
    pub(super) goal: BTreeMap<Spanned<String>, GoalTable>,
    /// Forwarded rate at the greatest load.
    pub(crate) mrr: Option<MrrTable>,
    /// Latency at given loads.
    pub(crate) latency: Option<LatencyTable>,
    /// Latency and loss from next to no load to beyond saturation, with the knee.
    #[schemars(with = "Option<LatencyCurveTable>")]
    pub(crate) latency_curve: Option<Spanned<LatencyCurveTable>>,
    /// Loss against load, from the line rate down (RFC 2544, section 26.3).
    #[schemars(with = "Option<FrameLossTable>")]
    pub(crate) frame_loss: Option<Spanned<FrameLossTable>>,
    /// The longest burst at the line rate that comes through whole (RFC 9004).
    #[schemars(with = "Option<BackToBackTable>")]
    pub(crate) back_to_back: Option<Spanned<BackToBackTable>>,
    /// Changes of flow entries a second under a load, and what they cost that load.
    #[schemars(with = "Option<FlowModsTable>")]
    pub(crate) flow_mods: Option<Spanned<FlowModsTable>>,
    /// TCP connections a second, and at a time, through a function that tracks them (RFC 3511, sections 5.2 and 5.3).
    #[schemars(with = "Option<ConnectionsTable>")]
    pub(crate) connections: Option<Spanned<ConnectionsTable>>,
    /// One load over a long time.
    #[schemars(with = "Option<SoakTable>")]
    pub(crate) soak: Option<Spanned<SoakTable>>,
    /// Numbers of the simulated device, for the device `simulated`.
    #[serde(default)]
    pub(super) simulated: SimulatedTable,
    /// The wiring `vhost`: which end of it the lab is, and who listens on the socket.
    #[serde(default)]
    pub(super) vhost: VhostPlan,
    /// The wiring `memif`: who listens on the socket.
    #[serde(default)]
    pub(super) memif: MemifPlan,
    /// The wiring `veth`: how the lab's ends are opened.
    #[serde(default)]
    pub(super) veth: VethPlan,
    /// The wiring `nic`: the ports.
    #[serde(default)]
    pub(super) nic: NicTable,
    /// A device that somebody else started, `external` or `openflow:`: what it is, and where it meets the lab.
    #[schemars(with = "Option<ExternalPlan>")]
    pub(super) external: Option<Spanned<ExternalPlan>>,
}

/// How long two devices measured in turns are started anew.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UntilTable {
    /// The smallest effect that is to be seen, in four of five cases, for example "5%".
    pub(super) effect: Text<Ratio>,
    /// The most time that a point's starts may take, for example "5min".
    pub(super) time: Text<Nanos>,
}

/// Numbers of the simulated device.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SimulatedTable {
    /// Packets a second it forwards when undisturbed.
    pub(super) capacity: Option<Text<Pps>>,
    /// Packets its queue holds.
    pub(super) queue: Option<u64>,
    /// Standard deviation of the capacity from trial to trial.
    pub(super) noise: Option<Text<Ratio>>,
    /// Share of the forwarded packets lost at any load.
    pub(super) loss: Option<Text<Ratio>>,
    /// Share of the trials that a disturbance hits.
    pub(super) disturbed: Option<Text<Ratio>>,
    /// Seed of the device. Default: the plan's.
    pub(super) seed: Option<u64>,
    /// Of the device `simulated:parts`, whose capacity follows from function and placement: what a packet takes of each part.
    pub(super) parts: Option<PartsTable>,
}

/// What a packet takes of each part of the device `simulated:parts`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PartsTable {
    /// Receiving and sending, of each process. Default: "60ns".
    pub(super) io: Option<Text<Nanos>>,
    /// What L2 forwarding adds. Default: "20ns".
    pub(super) l2fwd: Option<Text<Nanos>>,
    /// What routing adds. Default: "60ns".
    pub(super) l3fwd: Option<Text<Nanos>>,
    /// What a filter adds. Default: "120ns".
    pub(super) firewall: Option<Text<Nanos>>,
    /// Passing a packet on, of a host; of a deployment without one, of each process. Default: "50ns".
    pub(super) hop: Option<Text<Nanos>>,
    /// Part of these times that the clock does not shorten. Default: "25%".
    pub(super) memory: Option<Text<Ratio>>,
    /// The clock that they are of, in MHz. Default: 2500.
    pub(super) clock: Option<u32>,
    /// What a turn costs a device that has a share of a core, as a part of its time. Default: "6%".
    pub(super) turn: Option<Text<Ratio>>,
}

//! The plan file, key by key: what TOML may hold, and the JSON Schema made of it.
//!
//! Comments on the keys become the schema's descriptions, which editors show. Whether the values
//! make sense together is `check`'s affair.

use super::text::{HugePages, List, SizesText, Text};
use super::wirings::{ExternalPlan, MemifPlan, NicTable, VethPlan, VhostPlan};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;
use weir_methods::latency::LoadSpec;
use weir_traffic::Shape;
use weir_trial::Nf;
use weir_units::{LineRate, Nanos, Pps, Ratio};

/// A plan of Weir: what to measure, how, and how often. The axes (nf, dut, wiring, trace, size, directions, huge_pages) take one value or a list; every combination is measured, the axis written first varying slowest.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Weir plan")]
pub(super) struct PlanFile {
    /// Name of the plan; the file's name when left out.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Spanned<String>>,
    /// Axis: network functions. l2fwd; l3fwd:N with N routes; firewall:N with N rules.
    #[schemars(with = "List<Nf>")]
    pub(super) nf: Spanned<List<String>>,
    /// Axis: devices under test; `weir dut list` names them. Default: nf, Weir's own small program.
    #[schemars(with = "Option<List<String>>")]
    pub(super) dut: Option<Spanned<List<String>>>,
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
    /// Seed of everything random. Default: 1.
    pub(super) seed: Option<u64>,
    /// Cores of the tester, 1 to 4. With several, senders and receivers are on threads of their own; two directions
    /// keep four busy, one direction two. The machine needs one more, for the device. Default: 1.
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
    pub(super) throughput: Option<ThroughputTable>,
    /// Goals of the throughput search: changes to a preset (rfc2544, bswlv, ndr, pdr), or goals of your own.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, GoalTable>")]
    pub(super) goal: BTreeMap<Spanned<String>, GoalTable>,
    /// Forwarded rate at the greatest load.
    pub(super) mrr: Option<MrrTable>,
    /// Latency at given loads.
    pub(super) latency: Option<LatencyTable>,
    /// Latency and loss from next to no load to beyond saturation, with the knee.
    #[schemars(with = "Option<LatencyCurveTable>")]
    pub(super) latency_curve: Option<Spanned<LatencyCurveTable>>,
    /// Loss against load, from the line rate down (RFC 2544, section 26.3).
    #[schemars(with = "Option<FrameLossTable>")]
    pub(super) frame_loss: Option<Spanned<FrameLossTable>>,
    /// The longest burst at the line rate that comes through whole (RFC 9004).
    #[schemars(with = "Option<BackToBackTable>")]
    pub(super) back_to_back: Option<Spanned<BackToBackTable>>,
    /// One load over a long time.
    #[schemars(with = "Option<SoakTable>")]
    pub(super) soak: Option<Spanned<SoakTable>>,
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
    /// The device `external`, a box on the wire that nobody starts.
    #[serde(default)]
    pub(super) external: ExternalPlan,
}

impl PlanFile {
    /// Whether no method was asked for.
    pub(super) fn measures_nothing(&self) -> bool {
        self.throughput.is_none()
            && self.mrr.is_none()
            && self.latency.is_none()
            && self.latency_curve.is_none()
            && self.frame_loss.is_none()
            && self.back_to_back.is_none()
            && self.soak.is_none()
    }
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

/// Throughput by MLRsearch (draft-ietf-bmwg-mlrsearch-15). All goals share one search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThroughputTable {
    /// Presets (rfc2544, bswlv, ndr, pdr) or names of [goal.NAME] tables.
    #[schemars(with = "List<String>")]
    pub(super) goals: Spanned<List<String>>,
    /// Least load offered, over all directions. Default: 9001pps.
    #[schemars(with = "Option<Text<Pps>>")]
    pub(super) min_load: Option<Spanned<Text<Pps>>>,
    /// Greatest load offered, over all directions. Default: what the line rate carries.
    #[schemars(with = "Option<Text<Pps>>")]
    pub(super) max_load: Option<Spanned<Text<Pps>>>,
    /// Time that the trials of one search may take, set-up and drain included. Default: 20min. What a search leaves goes to the searches after it, and one that a disturbed machine makes hard may take up to three times this of what the later ones are likely to leave; all together never take more than this each.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) budget: Option<Spanned<Text<Nanos>>>,
    /// Discarded trial at the greatest load before each search; 0s for none. Default: 1s, and never longer than a goal's final trial.
    pub(super) warm_up: Option<Text<Nanos>>,
}

/// A goal of the throughput search.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalTable {
    /// Preset that gives what is left out here. Default: the preset of the goal's own name, else ndr.
    #[schemars(with = "Option<String>")]
    pub(super) like: Option<Spanned<String>>,
    /// A trial with more loss speaks against its load.
    pub(super) loss_ratio: Option<Text<Ratio>>,
    /// Share of the duration sum that such trials may take at a load that still passes.
    pub(super) exceed_ratio: Option<Text<Ratio>>,
    /// Duration of the first, shortest trials.
    pub(super) initial_trial_duration: Option<Text<Nanos>>,
    /// Duration of the trials that decide. Without duration_sum, that is scaled in proportion.
    pub(super) final_trial_duration: Option<Text<Nanos>>,
    /// Trial time that settles a load.
    pub(super) duration_sum: Option<Text<Nanos>>,
    /// Distance of the bounds at which the search ends, (upper - lower) / upper.
    pub(super) width: Option<Text<Ratio>>,
    /// Coarser, shorter targets before the goal's own, 0 to 8.
    pub(super) preceding_targets: Option<u32>,
}

/// Forwarded rate at the greatest load.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MrrTable {
    /// Trials, 1 to 1000. Default: 10.
    #[schemars(with = "Option<u32>")]
    pub(super) trials: Option<Spanned<u32>>,
    /// Length of each. Default: 1s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) duration: Option<Spanned<Text<Nanos>>>,
    /// Load offered, over all directions. Default: what the line rate carries.
    #[schemars(with = "Option<Text<Pps>>")]
    pub(super) load: Option<Spanned<Text<Pps>>>,
    /// Over `fed`: whether the one trial of each repeat counts from the device's first packet on, with
    /// its caches empty, instead of at a steady rate. Default: false.
    #[schemars(with = "Option<bool>")]
    pub(super) from_start: Option<Spanned<bool>>,
}

/// Latency at given loads.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyTable {
    /// Loads: a rate (100kpps), a share of a goal's lower bound (50% ndr), a share of the line (10% line).
    #[schemars(with = "List<Text<LoadSpec>>")]
    pub(super) loads: Spanned<List<Text<LoadSpec>>>,
    /// Length of each trial. Default: 5s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) duration: Option<Spanned<Text<Nanos>>>,
}

/// Latency and loss from next to no load to beyond saturation. Without a throughput search, trials find out where that is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyCurveTable {
    /// Least load, over all directions. Default: 100pps.
    #[schemars(with = "Option<Text<Pps>>")]
    pub(super) from: Option<Spanned<Text<Pps>>>,
    /// Greatest load, over all directions. Default: the greatest of the throughput search, else what the line rate carries.
    #[schemars(with = "Option<Text<Pps>>")]
    pub(super) to: Option<Spanned<Text<Pps>>>,
    /// Loads a decade, up to 60 % of what the device carries. Default: 3.
    #[schemars(with = "Option<u32>")]
    pub(super) per_decade: Option<Spanned<u32>>,
    /// Loads from there to 110 %, evenly. Default: 12.
    #[schemars(with = "Option<u32>")]
    pub(super) dense: Option<Spanned<u32>>,
    /// Length of each trial. Default: 1s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) duration: Option<Spanned<Text<Nanos>>>,
    /// Delays a trial should have: trials at small loads are longer for it. Default: 1000.
    #[schemars(with = "Option<u32>")]
    pub(super) samples: Option<Spanned<u32>>,
    /// Longest trial, however few delays it has. Default: 10s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) longest: Option<Spanned<Text<Nanos>>>,
    /// Loss ratio from which a load is more than the device carries. Default: 0.1%.
    #[schemars(with = "Option<Text<Ratio>>")]
    pub(super) loss_ratio: Option<Spanned<Text<Ratio>>>,
}

/// Loss against load, from the line rate down until two successive trials lose nothing (RFC 2544, section 26.3).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FrameLossTable {
    /// Distance of two loads as a share of the line rate, 1% to 10%. Default: 10%.
    #[schemars(with = "Option<Text<Ratio>>")]
    pub(super) step: Option<Spanned<Text<Ratio>>>,
    /// Length of each trial. Default: 10s; RFC 2544 asks for 60s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) duration: Option<Spanned<Text<Nanos>>>,
}

/// The longest burst at the line rate that comes through whole (RFC 9004). Frames of one size only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackToBackTable {
    /// Goal of the throughput search whose answer corrects the burst. Default: ndr.
    #[schemars(with = "Option<String>")]
    pub(super) goal: Option<Spanned<String>>,
    /// Complete searches, 1 to 1000. Default: 5.
    #[schemars(with = "Option<u32>")]
    pub(super) searches: Option<Spanned<u32>>,
    /// Frames to which a search goes. Default: 10.
    #[schemars(with = "Option<u32>")]
    pub(super) step: Option<Spanned<u32>>,
    /// Time that the longest burst may take. Default: 30s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) ceiling: Option<Spanned<Text<Nanos>>>,
    /// Time without traffic before each burst. Default: 2s.
    pub(super) rest: Option<Text<Nanos>>,
}

/// One load over a long time, slice by slice, with the time of each loss.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SoakTable {
    /// The load: a rate (1Mpps), a share of a goal's lower bound (90% ndr), a share of the line (10% line).
    #[schemars(with = "Text<LoadSpec>")]
    pub(super) load: Spanned<Text<LoadSpec>>,
    /// Time under load. Default: 10min.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) time: Option<Spanned<Text<Nanos>>>,
    /// Length of a slice: each is a trial with a time, and the load pauses between two. Default: 10s.
    #[schemars(with = "Option<Text<Nanos>>")]
    pub(super) slice: Option<Spanned<Text<Nanos>>>,
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
}

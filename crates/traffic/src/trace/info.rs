//! What a trace really holds: counted packet by packet, then held against what it claims.
//!
//! A flow is told by its five-tuple and both MAC addresses; a conversation by the two address and
//! port pairs, whichever side sends. Counting trusts nothing but the packets' bytes: it does not know
//! how they were made. Captures are read as a stream.
//!
//! Cost: one hash-table access a packet; memory in proportion to the distinct flows.

use super::capture::{CaptureCounts, read_through};
use super::catalogue::{Expectation, Quantity, expectations};
use super::hash::{TraceHash, TraceHasher};
use super::{Direction, FrameTable, TraceError, TraceName, TraceSpec};
use crate::stamp::StampSlot;
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;
use std::net::IpAddr;
use weir_units::{FCS_BYTES, FrameSize, LatencyHistogram, Nanos};
use weir_wire::{Dissection, EthernetView, MacAddress, ipv4};

/// Version of the JSON form of [`TraceInfo`].
pub const SCHEMA_VERSION: u32 = 1;

/// The size classes of the table: least and greatest size in bytes with FCS (RFC 2819's, then jumbo).
pub const SIZE_CLASSES: [(u16, u16); 7] =
    [(64, 64), (65, 127), (128, 255), (256, 511), (512, 1023), (1024, 1518), (1519, FrameSize::MAX.bytes())];

/// What a trace holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceInfo {
    /// [`SCHEMA_VERSION`] of whoever wrote it.
    pub schema: u32,
    /// Name, or path of the capture.
    pub name: String,
    /// Sizes asked for.
    pub sizes: String,
    /// Direction: 0 or 1.
    pub direction: u8,
    /// Seed.
    pub seed: u64,
    /// Packets in a lap.
    pub packets: u64,
    /// Distinct five-tuples with both MAC addresses.
    pub flows: u64,
    /// Distinct source MAC addresses.
    pub source_macs: u64,
    /// Distinct destination MAC addresses.
    pub destination_macs: u64,
    /// Distinct source IP addresses.
    pub source_addresses: u64,
    /// Distinct destination IP addresses.
    pub destination_addresses: u64,
    /// Distinct IP addresses, either side.
    pub addresses: u64,
    /// Distinct source ports of UDP and TCP.
    pub source_ports: u64,
    /// Distinct destination ports of UDP and TCP.
    pub destination_ports: u64,
    /// Packets that are neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Packets with a VLAN tag.
    pub tagged: u64,
    /// Most packets of one flow in a row.
    pub longest_burst: u64,
    /// Packets that can be stamped.
    pub stampable: u64,
    /// Conversations of UDP and TCP.
    pub conversations: Conversations,
    /// Sizes found, with FCS.
    pub frame_sizes: FrameSizes,
    /// Recorded gaps, where the trace is a capture with time stamps.
    pub gaps: Option<Gaps>,
    /// What became of the packets of a capture.
    pub capture: Option<CaptureCounts>,
    /// Hash of the packets in order.
    #[schemars(with = "String")]
    pub hash: TraceHash,
    /// What the trace's source says of it, against what was found.
    pub checks: Vec<Check>,
}

/// The conversations of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Conversations {
    /// TCP conversations.
    pub tcp: u64,
    /// UDP conversations.
    pub udp: u64,
    /// Conversations in which both sides send.
    pub two_way: u64,
    /// Mean packets of a conversation.
    pub mean: f64,
    /// Median packets of a conversation.
    pub median: u64,
    /// Packets of the longest conversation.
    pub max: u64,
}

/// The sizes of a trace's frames, in bytes with FCS.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FrameSizes {
    /// Least.
    pub min: u16,
    /// Median.
    pub median: u16,
    /// Mean.
    pub mean: f64,
    /// Greatest.
    pub max: u16,
    /// Packets in each of [`SIZE_CLASSES`].
    pub classes: Vec<SizeClass>,
}

/// Packets of a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SizeClass {
    /// Least size, in bytes with FCS.
    pub from: u16,
    /// Greatest size, in bytes with FCS.
    pub to: u16,
    /// Packets.
    pub packets: u64,
    /// Share of all packets, 0 to 1.
    pub share: f64,
}

/// Recorded time between packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gaps {
    /// Least.
    pub min: Nanos,
    /// Median, to three figures.
    pub median: Nanos,
    /// Mean.
    pub mean: Nanos,
    /// Greatest.
    pub max: Nanos,
    /// From the first packet to the last.
    pub duration: Nanos,
}

/// A claim about a trace, checked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// What is counted.
    pub quantity: Quantity,
    /// What the trace's source says.
    pub expected: f64,
    /// How far the trace may be from it.
    pub tolerance: f64,
    /// What was found.
    pub found: f64,
    /// Whether the two agree.
    pub ok: bool,
}

impl TraceInfo {
    /// Builds or reads the trace and counts.
    pub fn of(spec: &TraceSpec) -> Result<Self, TraceError> {
        let mut counter = Counter::default();
        if let TraceName::Capture(path) = &spec.name {
            spec.check_capture()?;
            let summary = read_through(path, spec, |frame, gap| {
                counter.see(frame);
                counter.gap(gap);
            })?;
            let mut info = counter.finish(spec, summary.hash);
            info.capture = Some(summary.counts);
            info.gaps = info.gaps.filter(|_| summary.has_gaps());
            return Ok(info);
        }
        Ok(Self::of_table(spec, &spec.build_table()?))
    }

    /// Counts a table that is already built.
    pub fn of_table(spec: &TraceSpec, table: &FrameTable) -> Self {
        let mut counter = Counter::default();
        let mut hasher = TraceHasher::default();
        let mut frame = Vec::new();
        for i in 0..table.len() {
            let stored = table.frame(i);
            frame.clear();
            frame.extend_from_slice(stored.head);
            frame.extend_from_slice(stored.tail);
            counter.see(&frame);
            if let Some(gap) = table.gap(i) {
                counter.gap(gap);
            }
            hasher.add(&frame, &[]);
        }
        counter.finish(spec, hasher.finish())
    }

    /// Whether every claim holds.
    pub fn is_as_claimed(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    /// The number found for a quantity.
    pub fn found(&self, quantity: Quantity) -> f64 {
        match quantity {
            Quantity::Flows => self.flows as f64,
            Quantity::SourceMacs => self.source_macs as f64,
            Quantity::DestinationMacs => self.destination_macs as f64,
            Quantity::SourceAddresses => self.source_addresses as f64,
            Quantity::DestinationAddresses => self.destination_addresses as f64,
            Quantity::Addresses => self.addresses as f64,
            Quantity::TcpConversations => self.conversations.tcp as f64,
            Quantity::UdpConversations => self.conversations.udp as f64,
            Quantity::ConversationMean => self.conversations.mean,
            Quantity::ConversationMedian => self.conversations.median as f64,
            Quantity::ConversationMax => self.conversations.max as f64,
            Quantity::LongestBurst => self.longest_burst as f64,
            Quantity::MeanFrame => self.frame_sizes.mean,
            Quantity::MedianFrame => f64::from(self.frame_sizes.median),
            Quantity::LeastFrame => f64::from(self.frame_sizes.min),
            Quantity::ShareBelow256 => {
                let below = self.frame_sizes.classes.iter().filter(|class| class.to < 256);
                below.map(|class| class.share).sum()
            }
            Quantity::GreatestFrame => f64::from(self.frame_sizes.max),
        }
    }

    fn check(&self, claim: Expectation, direction: Direction) -> Check {
        let quantity = match direction {
            Direction::Forward => claim.quantity,
            Direction::Reverse => claim.quantity.mirrored(),
        };
        let found = self.found(quantity);
        let ok = (found - claim.value).abs() <= claim.tolerance;
        Check { quantity, expected: claim.value, tolerance: claim.tolerance, found, ok }
    }
}

/// What tells a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FlowKey {
    source_mac: MacAddress,
    destination_mac: MacAddress,
    network: Option<(IpAddr, IpAddr, u8)>,
    ports: Option<(u16, u16)>,
}

/// Counts packets.
struct Counter {
    packets: u64,
    bytes: u64,
    flows: FxHashMap<FlowKey, u64>,
    sizes: Vec<u64>,
    not_ip: u64,
    tagged: u64,
    stampable: u64,
    last: Option<FlowKey>,
    burst: u64,
    longest_burst: u64,
    gaps: LatencyHistogram,
    least_gap: Nanos,
    greatest_gap: Nanos,
    duration: u64,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            flows: FxHashMap::default(),
            sizes: vec![0; usize::from(FrameSize::MAX.bytes()) + 1],
            not_ip: 0,
            tagged: 0,
            stampable: 0,
            last: None,
            burst: 0,
            longest_burst: 0,
            gaps: LatencyHistogram::default(),
            least_gap: Nanos(u64::MAX),
            greatest_gap: Nanos(0),
            duration: 0,
        }
    }
}

impl Counter {
    fn see(&mut self, frame: &[u8]) {
        let Ok(ethernet) = EthernetView::checked(frame) else { return };
        let found = Dissection::of(frame);
        let key = FlowKey {
            source_mac: ethernet.source(),
            destination_mac: ethernet.destination(),
            network: found.network.map(|network| (network.source, network.destination, network.protocol)),
            ports: found.transport.map(|transport| (transport.source, transport.destination)),
        };
        *self.flows.entry(key).or_default() += 1;
        self.burst = if self.last == Some(key) { self.burst + 1 } else { 1 };
        self.last = Some(key);
        self.longest_burst = self.longest_burst.max(self.burst);
        self.packets += 1;
        self.bytes += frame.len() as u64;
        self.sizes[frame.len() + usize::from(FCS_BYTES)] += 1;
        self.not_ip += u64::from(found.network.is_none());
        self.tagged += u64::from(found.tags > 0);
        self.stampable += u64::from(StampSlot::of(frame).is_stampable());
    }

    /// Adds the time before the packet seen last; a lap's first packet has none of its own.
    fn gap(&mut self, gap: Nanos) {
        if self.packets > 1 {
            self.gaps.record(gap);
            self.least_gap = self.least_gap.min(gap);
            self.greatest_gap = self.greatest_gap.max(gap);
            self.duration += gap.0;
        }
    }

    fn gaps(&self) -> Option<Gaps> {
        Some(Gaps {
            min: self.least_gap,
            median: self.gaps.percentile(50.0)?,
            mean: Nanos(self.duration / self.gaps.count()),
            max: self.greatest_gap,
            duration: Nanos(self.duration),
        })
    }

    fn finish(self, spec: &TraceSpec, hash: TraceHash) -> TraceInfo {
        let flows = &self.flows;
        let count = |of: &dyn Fn(&FlowKey) -> Option<u64>| {
            flows.keys().filter_map(of).collect::<FxHashSet<u64>>().len() as u64
        };
        let mac = |address: MacAddress| {
            let [a, b, c, d, e, f] = address.0;
            u64::from_be_bytes([0, 0, a, b, c, d, e, f])
        };
        let networks = || flows.keys().filter_map(|key| key.network);
        let sources: FxHashSet<IpAddr> = networks().map(|network| network.0).collect();
        let destinations: FxHashSet<IpAddr> = networks().map(|network| network.1).collect();
        let mut info = TraceInfo {
            schema: SCHEMA_VERSION,
            name: spec.name.to_string(),
            sizes: spec.sizes.to_string(),
            direction: spec.direction.into(),
            seed: spec.seed,
            packets: self.packets,
            flows: flows.len() as u64,
            source_macs: count(&|key| Some(mac(key.source_mac))),
            destination_macs: count(&|key| Some(mac(key.destination_mac))),
            source_addresses: sources.len() as u64,
            destination_addresses: destinations.len() as u64,
            addresses: sources.union(&destinations).count() as u64,
            source_ports: count(&|key| key.ports.map(|ports| u64::from(ports.0))),
            destination_ports: count(&|key| key.ports.map(|ports| u64::from(ports.1))),
            not_ip: self.not_ip,
            tagged: self.tagged,
            longest_burst: self.longest_burst,
            stampable: self.stampable,
            conversations: conversations(flows),
            frame_sizes: frame_sizes(&self.sizes, self.packets, self.bytes),
            gaps: self.gaps(),
            capture: None,
            hash,
            checks: Vec::new(),
        };
        info.checks = expectations(&spec.name, spec.sizes)
            .into_iter()
            .map(|claim| info.check(claim, spec.direction))
            .collect();
        info
    }
}

/// Joins the flows of each conversation.
fn conversations(flows: &FxHashMap<FlowKey, u64>) -> Conversations {
    type End = (IpAddr, u16);
    // Packets of the side that sorts first, and of the other.
    let mut all: FxHashMap<(End, End, u8), [u64; 2]> = FxHashMap::default();
    for (key, packets) in flows {
        if let (Some((source, destination, protocol)), Some(ports)) = (key.network, key.ports) {
            let (from, to) = ((source, ports.0), (destination, ports.1));
            let (ends, side) = if from <= to { ((from, to), 0) } else { ((to, from), 1) };
            all.entry((ends.0, ends.1, protocol)).or_default()[side] += packets;
        }
    }
    let mut lengths: Vec<u64> = all.values().map(|sides| sides[0] + sides[1]).collect();
    lengths.sort_unstable();
    if lengths.is_empty() {
        return Conversations::default();
    }
    let of = |protocol| all.keys().filter(|key| key.2 == protocol).count() as u64;
    Conversations {
        tcp: of(ipv4::TCP),
        udp: of(ipv4::UDP),
        two_way: all.values().filter(|sides| sides[0] > 0 && sides[1] > 0).count() as u64,
        mean: lengths.iter().sum::<u64>() as f64 / lengths.len() as f64,
        median: lengths[lengths.len() / 2],
        max: lengths[lengths.len() - 1],
    }
}

/// Sums up packets by size (index: bytes with FCS).
fn frame_sizes(sizes: &[u64], packets: u64, bytes: u64) -> FrameSizes {
    let mut seen = 0;
    let median = sizes.iter().position(|count| {
        seen += count;
        seen * 2 > packets
    });
    let present = || sizes.iter().enumerate().filter(|(_, count)| **count > 0).map(|(size, _)| size as u16);
    let classes = SIZE_CLASSES.map(|(from, to)| {
        let packets_of: u64 = sizes[usize::from(from)..=usize::from(to)].iter().sum();
        SizeClass { from, to, packets: packets_of, share: packets_of as f64 / packets.max(1) as f64 }
    });
    FrameSizes {
        min: present().next().unwrap_or(0),
        median: median.unwrap_or(0) as u16,
        mean: bytes as f64 / packets.max(1) as f64 + f64::from(FCS_BYTES),
        max: present().next_back().unwrap_or(0),
        classes: classes.to_vec(),
    }
}

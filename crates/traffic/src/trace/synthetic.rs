//! The generated flows: which addresses and ports they have, and their frames.
//!
//! Frames are UDP over IPv4, both checksums right, so that the sink can tell every packet that was
//! damaged on its way; stamps mend the UDP checksum. Addresses are those of RFC 2544 (appendix C.2.2) as RFC 6890
//! registers them: direction 0 goes from 198.18.0.0/16 to 198.19.0.0/16, direction 1 is its mirror
//! image. Where a trace has `n` addresses in a /16 they lie `65534/n` apart, so that prefixes of
//! equal length get equal shares of them, and successive flows jump about the range. A seed that somebody chose
//! moves all hosts on by a number of its own, so that a device cannot know the tester's addresses. MAC addresses are
//! locally administered. Ports are 1024 and above on both sides: what lies below is left to the
//! deny rules of firewalls under test.

use super::catalogue::{T3_BURST, T3_CONNECTIONS};
use super::rewrite::VlanChange;
use super::table::{HEAD_BYTES, Head, TAIL, TableBuilder};
use super::{Direction, FrameTable, Sizes, TraceError, TraceName, TraceSpec, explosion, gateway};
use crate::stamp::{Stamp, StampSlot};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;
use std::net::Ipv4Addr;
use weir_trial::{TESTER_MACS, nfpa_mac};
use weir_units::FCS_BYTES;
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, UdpRepr, VlanRepr, checksum, ipv4, udp};

/// Least port that any generated trace uses, on either side.
pub const LEAST_PORT: u16 = 1024;
/// Destination port of generated UDP flows.
pub const DESTINATION_PORT: u16 = 9_000;
/// MAC address of the tester's port 0.
pub const PORT_0_MAC: MacAddress = MacAddress(TESTER_MACS[0]);
/// MAC address of the tester's port 1.
pub const PORT_1_MAC: MacAddress = MacAddress(TESTER_MACS[1]);
/// Hops left in every generated packet.
pub const TTL: u8 = 64;

/// Least lap of a trace of mixed sizes, in packets: enough for the shares to be exact to 1 in 10,000.
const MIXED_LAP: usize = 16_384;
/// Addresses of `flows:N`; further flows differ in their source port.
const FLOW_ADDRESSES: u32 = 50_000;
/// Hosts of each network.
const HOSTS: u32 = 65_534;
/// Packets of a trace that holds several laps, which `fed` must keep in packet buffers; and its most laps.
const SEVERAL_LAPS: u32 = 131_072;
const MOST_LAPS: u32 = 64;
/// Most flows of such a lap: two of them fit.
pub const MOST_SHUFFLED: u32 = SEVERAL_LAPS / 2;
/// Packets of a lap of `zipf:N`, and its most flows.
pub const ZIPF_LAP: u32 = SEVERAL_LAPS;
/// Source addresses of tr5ul, and flows of both tr5 traces.
const TR5_FLOWS: u32 = 64_500;
/// Destination addresses of tr5ul and source addresses of tr5dl.
const TR5_ADDRESSES: u32 = 6_450;

/// One flow: what all its packets have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source MAC address.
    pub source_mac: MacAddress,
    /// Destination MAC address.
    pub destination_mac: MacAddress,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl Flow {
    /// The same flow seen from the other side.
    #[must_use]
    pub fn mirrored(self) -> Self {
        Self {
            source_mac: self.destination_mac,
            destination_mac: self.source_mac,
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// The same flow with both hosts moved on by so many in their networks, round from the last to the first.
    fn moved(self, by: u16) -> Self {
        let host = |address: Ipv4Addr| {
            let [first, second, high, low] = address.octets();
            let host = u32::from(u16::from_be_bytes([high, low])) - 1;
            let [high, low] = (1 + ((host + u32::from(by)) % HOSTS) as u16).to_be_bytes();
            Ipv4Addr::new(first, second, high, low)
        };
        Self { source: host(self.source), destination: host(self.destination), ..self }
    }

    /// Flow `k` of a trace in direction 0, with the usual seed. `k` is below the trace's number of flows. Those that are made for
    /// a function's tables are found in [`super::gateway`].
    pub fn of(name: &TraceName, k: u32) -> Self {
        let mut flow = Self {
            source_mac: PORT_0_MAC,
            destination_mac: PORT_1_MAC,
            source: source_address(0, 1),
            destination: destination_address(0, 1),
            source_port: LEAST_PORT,
            destination_port: DESTINATION_PORT,
        };
        match name {
            TraceName::Tr2e | TraceName::Tr3e | TraceName::Tr4e => {
                flow.destination_mac = MacAddress(nfpa_mac(k));
            }
            TraceName::Tr2i | TraceName::Tr3i => flow.destination = destination_address(k, flows(name)),
            TraceName::Tr5ul => {
                flow.source = source_address(k, TR5_FLOWS);
                flow.destination = destination_address(k % TR5_ADDRESSES, TR5_ADDRESSES);
            }
            TraceName::Tr5dl => {
                flow.source = source_address(k % TR5_ADDRESSES, TR5_ADDRESSES);
                flow.source_port = LEAST_PORT + (k / TR5_ADDRESSES) as u16;
            }
            TraceName::Flows(_)
            | TraceName::Shuffled(_)
            | TraceName::Zipf(_)
            | TraceName::NewPorts(_)
            | TraceName::T3 => {
                // Each lap of `newports:N` has the same pairs of addresses.
                let addresses = match name {
                    TraceName::NewPorts(pairs) => *pairs,
                    _ => flows(name).min(FLOW_ADDRESSES),
                };
                flow.source = source_address(k % addresses, addresses);
                flow.destination = destination_address(k % addresses, addresses);
                flow.source_port = LEAST_PORT + (k / addresses) as u16;
            }
            TraceName::Simple
            | TraceName::Tcp(_)
            | TraceName::Conversations { .. }
            | TraceName::L2Flows { .. }
            | TraceName::Colocated(_)
            | TraceName::General(_)
            | TraceName::Rules(_)
            | TraceName::Vxlan(_)
            | TraceName::Gateway { .. }
            | TraceName::T1
            | TraceName::T2
            | TraceName::Capture(_) => {}
        }
        flow
    }
}

/// Flows of a trace that this module builds.
pub fn flows(name: &TraceName) -> u32 {
    match name {
        TraceName::Tr2e | TraceName::Tr2i => 100,
        TraceName::Tr3e | TraceName::Tr3i => 10_000,
        TraceName::Tr4e => 500_000,
        TraceName::Tr5ul | TraceName::Tr5dl => TR5_FLOWS,
        TraceName::Flows(flows)
        | TraceName::Shuffled(flows)
        | TraceName::Zipf(flows)
        | TraceName::Vxlan(flows)
        | TraceName::Rules(flows) => *flows,
        TraceName::NewPorts(pairs) => pairs * laps_of(*pairs),
        TraceName::Conversations { count, .. } | TraceName::L2Flows { count, .. } => *count,
        TraceName::Colocated(fields) => explosion::lap(explosion::colocated(*fields)),
        TraceName::General(packets) => explosion::lap(*packets),
        TraceName::T3 => T3_CONNECTIONS,
        TraceName::Simple
        | TraceName::Tcp(_)
        | TraceName::Gateway { .. }
        | TraceName::T1
        | TraceName::T2
        | TraceName::Capture(_) => 1,
    }
}

/// Laps of a trace that has several, each of so many packets.
fn laps_of(packets: u32) -> u32 {
    (SEVERAL_LAPS / packets).clamp(2, MOST_LAPS)
}

/// The flow of each packet, where it is not the next one's each time.
fn drawn_order(spec: &TraceSpec) -> Option<Vec<u32>> {
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed);
    match spec.name {
        TraceName::Shuffled(flows) => {
            let mut lap: Vec<u32> = (0..flows).collect();
            let mut order = Vec::new();
            for _ in 0..laps_of(flows) {
                lap.shuffle(&mut random);
                order.extend_from_slice(&lap);
            }
            Some(order)
        }
        TraceName::Zipf(flows) => {
            let mut sum = 0.0;
            let shares: Vec<f64> = (1..=flows)
                .map(|rank| {
                    sum += 1.0 / f64::from(rank);
                    sum
                })
                .collect();
            let draw = |_| {
                let point = random.random_range(0.0..sum);
                shares.partition_point(|share| *share <= point).min(shares.len() - 1) as u32
            };
            Some((0..ZIPF_LAP).map(draw).collect())
        }
        _ => None,
    }
}

/// Source address `k` of `n`, in 198.18.0.0/16.
pub(super) fn source_address(k: u32, n: u32) -> Ipv4Addr {
    let [high, low] = host(k, n).to_be_bytes();
    Ipv4Addr::new(198, 18, high, low)
}

/// Destination address `k` of `n`, in 198.19.0.0/16.
pub(super) fn destination_address(k: u32, n: u32) -> Ipv4Addr {
    let [high, low] = host(k, n).to_be_bytes();
    Ipv4Addr::new(198, 19, high, low)
}

/// Host number `k` of `n` (at most 65,534): evenly spread over 1..=65534, in a scattered order.
fn host(k: u32, n: u32) -> u16 {
    let (k, n) = (u64::from(k), u64::from(n));
    // A stride near the golden section of n and without a common divisor visits every rank once.
    let mut stride = (n * 618 / 1000).max(1);
    while gcd(stride, n) != 1 {
        stride += 1;
    }
    (1 + (k * stride % n) * u64::from(HOSTS) / n) as u16
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What a trace's options change in every frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Template {
    source_mac: Option<MacAddress>,
    destination_mac: Option<MacAddress>,
    vlan: Option<u16>,
    /// How far the seed moves all hosts.
    moved: u16,
}

/// How far the seed moves the hosts of a trace: a usual one not at all, and those of a trace that is made for a
/// function's tables never.
fn moved(spec: &TraceSpec) -> u16 {
    let is_of_tables = matches!(
        spec.name,
        TraceName::Conversations { .. }
            | TraceName::L2Flows { .. }
            | TraceName::Gateway { .. }
            | TraceName::Colocated(_)
            | TraceName::General(_)
    );
    if is_of_tables || [TraceSpec::DEFAULT_SEED, TraceSpec::PLAN_SEED].contains(&spec.seed) {
        return 0;
    }
    ChaCha8Rng::seed_from_u64(spec.seed ^ 0xadd7_e55e).random_range(1..HOSTS as u16)
}

impl Template {
    /// Checks the options of a synthetic trace.
    pub(super) fn of(spec: &TraceSpec) -> Result<Self, TraceError> {
        let options = &spec.options;
        let refuse = |option, reason: &str| {
            Err(TraceError::Option { name: spec.name.to_string(), option, reason: reason.to_owned() })
        };
        let by_mac = matches!(spec.name, TraceName::Tr2e | TraceName::Tr3e | TraceName::Tr4e);
        let made_for =
            spec.name.made_for().filter(|_| options.source_mac.or(options.destination_mac).is_some());
        if let Some(nf) = made_for {
            return refuse(
                "MAC",
                &format!("would be no station of {nf}, which the trace is made for; leave it out"),
            );
        }
        let (varying, option) = match spec.direction {
            Direction::Forward => (options.destination_mac, "destination MAC"),
            Direction::Reverse => (options.source_mac, "source MAC"),
        };
        if by_mac && varying.is_some() {
            return refuse(option, "would make all flows one, as they differ in it only; leave it out");
        }
        check_vlan(spec)?;
        if options.vlan == Some(VlanChange::Pop) {
            return refuse("VLAN pop", "is for captures; generated frames have no tag");
        }
        if options.source_prefix.is_some() || options.destination_prefix.is_some() {
            return refuse("address prefix", "is for captures; generated frames lie in 198.18.0.0/15");
        }
        Ok(Self {
            source_mac: options.source_mac,
            destination_mac: options.destination_mac,
            vlan: options.vlan.and_then(VlanChange::vlan),
            moved: moved(spec),
        })
    }

    /// A flow as the seed has it.
    pub(super) fn flow(self, flow: Flow) -> Flow {
        // Tables' own flows have hosts that no rank has.
        if self.moved == 0 { flow } else { flow.moved(self.moved) }
    }

    /// Bytes of Ethernet header and tag.
    pub(super) fn link_bytes(self) -> usize {
        EthernetRepr::BYTES + if self.vlan.is_some() { VlanRepr::BYTES } else { 0 }
    }

    /// Writes the link header of a flow.
    pub(super) fn write_link(self, flow: &Flow, frame: &mut [u8]) {
        let ethernet = EthernetRepr {
            destination: self.destination_mac.unwrap_or(flow.destination_mac),
            source: self.source_mac.unwrap_or(flow.source_mac),
            ether_type: if self.vlan.is_some() { EtherType::VLAN } else { EtherType::IPV4 },
        };
        ethernet.emit(frame);
        if let Some(vlan) = self.vlan {
            VlanRepr { vlan, priority: 0, drop_eligible: false, ether_type: EtherType::IPV4 }
                .emit(&mut frame[EthernetRepr::BYTES..]);
        }
    }

    /// The head and slot of a UDP frame of `size` bytes with FCS.
    pub(super) fn udp(self, flow: &Flow, size: u16) -> (Head, u16, StampSlot) {
        let len = size - FCS_BYTES;
        let network = self.link_bytes();
        let payload = network + Ipv4Repr::BYTES + UdpRepr::BYTES;
        let payload_len = len - payload as u16;
        let mut head = blank_head();
        self.write_link(flow, &mut head.0);
        let ip = ipv4_of(flow, ipv4::UDP, UdpRepr::BYTES as u16 + payload_len);
        ip.emit(&mut head.0[network..]);
        let transport = network + Ipv4Repr::BYTES;
        UdpRepr { source: flow.source_port, destination: flow.destination_port, payload_len }
            .emit(&mut head.0[transport..]);
        let segment = transport..usize::from(len);
        let sum = |head: &Head, end: usize| ip.pseudo() + sum_of(head, segment.start..end);
        let slot = if usize::from(payload_len) >= Stamp::BYTES {
            StampSlot::Checksum {
                at: (transport + udp::CHECKSUM) as u16,
                partial: checksum::fold(sum(&head, segment.end - Stamp::BYTES)),
                odd: !segment.len().is_multiple_of(2),
                udp: true,
            }
        } else {
            StampSlot::None
        };
        let field = checksum::udp_nonzero(checksum::finish(sum(&head, segment.end)));
        head.0[transport + udp::CHECKSUM..][..2].copy_from_slice(&field.to_be_bytes());
        (head, len, slot)
    }
}

/// The partial sum of some bytes of a frame that goes on with [`TAIL`] behind its head. The range
/// begins within the head.
fn sum_of(head: &Head, range: std::ops::Range<usize>) -> u32 {
    let cut = range.end.min(HEAD_BYTES);
    let odd = !(cut - range.start).is_multiple_of(2);
    checksum::sum(&head.0[range.start..cut]) + checksum::sum_at(&TAIL[..range.end - cut], odd)
}

/// Fails on a VLAN number that no tag can carry.
pub(super) fn check_vlan(spec: &TraceSpec) -> Result<(), TraceError> {
    match spec.options.vlan.and_then(VlanChange::vlan) {
        Some(vlan) if !(1..=4094).contains(&vlan) => Err(TraceError::Option {
            name: spec.name.to_string(),
            option: "VLAN",
            reason: format!("{vlan} is no VLAN; write 1 to 4094"),
        }),
        _ => Ok(()),
    }
}

/// A head of nothing but payload pattern.
pub(super) fn blank_head() -> Head {
    Head(std::array::from_fn::<u8, HEAD_BYTES, _>(|i| i as u8))
}

/// The IPv4 header of a flow's packet.
pub(super) fn ipv4_of(flow: &Flow, protocol: u8, payload_len: u16) -> Ipv4Repr {
    Ipv4Repr { source: flow.source, destination: flow.destination, protocol, ttl: TTL, payload_len }
}

/// Which of `flows` conversations is number `k` of a direction: answers trail what they answer.
fn place_of(spec: &TraceSpec, k: u32, flows: u32) -> u32 {
    match (spec.name.is_conversation(), spec.direction) {
        (true, Direction::Reverse) => (k + flows - gateway::TRAIL % flows) % flows,
        _ => k,
    }
}

/// Builds a trace of generated flows.
pub(super) fn build(spec: &TraceSpec) -> Result<FrameTable, TraceError> {
    if spec.sizes == Sizes::Recorded {
        return Err(spec.wrong_sizes("64 to 9022, imix or web"));
    }
    let template = Template::of(spec)?;
    let flows = flows(&spec.name);
    let burst = match spec.name {
        TraceName::T3 => T3_BURST,
        TraceName::Conversations { burst, .. } => burst,
        _ => 1,
    };
    let made = gateway::flows(spec)?;
    let round = flows as usize * burst as usize;
    let flow_of = |k| {
        let flow = match &made {
            Some(made) => made[place_of(spec, k, flows) as usize],
            None => Flow::of(&spec.name, k),
        };
        let flow = template.flow(flow);
        if spec.direction == Direction::Forward { flow } else { flow.mirrored() }
    };

    let mut builder = TableBuilder::with_pattern(flows as usize);
    let mut add = |k, size| {
        let (head, len, slot) = template.udp(&flow_of(k), size);
        builder.push_head(head, len, slot)
    };
    let drawn = drawn_order(spec);
    if let (Sizes::Fixed(size), Some(order)) = (spec.sizes, &drawn) {
        (0..flows).for_each(|k| {
            add(k, size.bytes());
        });
        return Ok(builder.build_in_order(order.clone()).expect("every trace has at least one flow"));
    }
    if let Sizes::Fixed(size) = spec.sizes {
        (0..flows).for_each(|k| {
            add(k, size.bytes());
        });
        let order = || (0..flows).flat_map(|k| std::iter::repeat_n(k, burst as usize)).collect();
        let table = if burst == 1 { builder.build() } else { builder.build_in_order(order()) };
        return Ok(table.expect("every trace has at least one flow"));
    }

    let lap = drawn.as_ref().map_or(round * MIXED_LAP.div_ceil(round), Vec::len);
    let mut known: FxHashMap<(u32, u16), u32> = FxHashMap::default();
    let order = spec.sizes.lap(lap, spec.seed).into_iter().enumerate().map(|(i, size)| {
        let k = drawn.as_ref().map_or((i as u32 / burst) % flows, |order| order[i]);
        *known.entry((k, size)).or_insert_with(|| add(k, size))
    });
    let order = order.collect();
    Ok(builder.build_in_order(order).expect("every trace has at least one flow"))
}

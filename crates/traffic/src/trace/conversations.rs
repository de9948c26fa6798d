//! SoftFlow's T1 and T2, modelled: 175,000 conversations of a network virtualization gateway.
//!
//! The capture behind them is not public. The paper (section 7.1) says of T1: 11k IP addresses, 100k
//! TCP and 75k UDP conversations, mean length 42 packets, median 10, greatest 99k, mean frame 937 B,
//! 44 s; T2 is T1 with the payload stripped to frames of 64 B. The model keeps each of those numbers:
//!
//! - **Lengths** follow a log-logistic distribution cut off at 99,000 packets: the quantile function
//!   `10 · (u / (1 − u))^(1/β)` has the median 10 for every shape `β` and a power-law tail. The 175,000
//!   lengths are its quantiles `(i + ½)/175,000`, rounded, at least 1; `β` is found by bisection so that
//!   their mean is 42. So median, mean and greatest length hold for every seed, which only decides which
//!   conversation has which length.
//! - **Order**: a conversation of `n` packets lies in a window of `n/1,000` of the lap, at most all of
//!   it, at a random place; its packets are at random instants of the window.
//!   Of 4.6 million packets, which the paper says of the capture as well, 175,000 conversations would have 26 each; the model keeps
//!   the mean, and has 7.35 million.
//! - **Addresses**: 10,000 clients in 198.18.0.0/16, 1,000 servers in 198.19.0.0/16; or as many in the networks of a pipeline
//!   (`sites`).
//! - **TCP** conversations open with SYN and end with FIN where they have three packets or more (over a pipeline's tables two; those of one
//!   are a SYN alone); the rest are bare acknowledgements with right checksums, or, in T1, one segment again and again. Those of 64 B have no payload and cannot
//!   carry a stamp; UDP frames can.
//! - **T1** has frames of 64 and 1518 B; the large ones are placed so that the mean is 937 B.
//!
//! Each direction carries every conversation whole, as the paper replays the whole trace on both
//! ports; direction 1 is the mirror image (SYN becomes SYN and ACK), so that with both directions
//! running a stateful device sees each conversation answered.
//!
//! Over a pipeline's tables (`t1:ENTRIES`, `t2:ENTRIES`) a stateful function opens and closes these connections, so there
//!
//! - direction 1 carries the answers [`TRAIL`] packets behind, and a client waits for the answer to its SYN;
//! - each lap has client ports of its own ([`PortTurns`]), as the paper hashes ports anew on each replay;
//! - `:PART` leaves one conversation in so many, the longest shorter by as much.
//!
//! Cost: 7.35 million packets a lap; about one second and 60 MB to build.

use super::synthetic::{Flow, destination_address, source_address};
use super::synthetic::{LEAST_PORT, PORT_0_MAC, PORT_1_MAC, Template, blank_head, ipv4_of};
use super::table::{HEAD_BYTES, Head, TAIL, TableBuilder};
use super::{Direction, FrameTable, Sizes, TraceError, TraceName, TraceSpec, sites};
use crate::stamp::StampSlot;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use weir_trial::CLIENT_PORTS;
use weir_units::{FCS_BYTES, FrameSize};
use weir_wire::lap::PortTurns;
use weir_wire::tcp::flags;
use weir_wire::{Ipv4Repr, TcpRepr, checksum, ipv4};

/// TCP conversations; they are numbered first.
pub const TCP: u32 = 100_000;
/// UDP conversations.
pub const UDP: u32 = 75_000;
/// Mean packets of a conversation.
pub const MEAN: f64 = 42.0;
/// Median packets of a conversation.
pub const MEDIAN: f64 = 10.0;
/// Packets of the longest conversation.
pub const LONGEST: u32 = 99_000;

const ALL: u32 = TCP + UDP;
const CLIENTS: u32 = 10_000;
const SERVERS: u32 = 1_000;
const SERVICE_PORTS: [u16; 6] = [3306, 4789, 5432, 6379, 8080, 9092];
/// Mean frame of T1, and its two sizes, in bytes with FCS.
const T1_MEAN: u64 = 937;
const SMALL: u16 = FrameSize::MIN.bytes();
const LARGE: u16 = 1_518;
/// Packets that a whole lap's window holds: a conversation of `n` lies in `n` thousandths of the lap.
const WINDOW_PACKETS: u32 = 1_000;

/// Builds T1 or T2.
pub(super) fn build(spec: &TraceSpec) -> Result<FrameTable, TraceError> {
    let mixed = spec.name == TraceName::T1;
    match (mixed, spec.sizes) {
        (true, Sizes::Recorded) => {}
        (false, Sizes::Recorded) => {}
        (false, Sizes::Fixed(size)) if size == FrameSize::MIN => {}
        (true, _) => return Err(spec.wrong_sizes("recorded")),
        (false, _) => return Err(spec.wrong_sizes("64")),
    }
    let template = Template::of(spec)?;
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed);
    let mut lengths = lengths(ALL, LONGEST);
    lengths.shuffle(&mut random);
    let sequence = interleave(&lengths, 0, &mut random);

    let mut builder = TableBuilder::with_pattern(ALL as usize * 2);
    let is_tcp = |k| k < TCP;
    let frames: Vec<Frames> = (0..ALL)
        .map(|k| Frames::add(&mut builder, template, spec.direction, (k, flow(k), is_tcp(k), 0), mixed))
        .collect();
    let order = lap(&sequence, &lengths, (&frames, OPENED), mixed);
    Ok(builder.build_in_order(order).expect("the lap has packets"))
}

/// Packets that an answer comes after what it answers, where a function tracks the connections: more than devices take from a port
/// before they turn to the other, from as many queues as they may have.
pub const TRAIL: u32 = 128;
/// Fewest packets of a conversation that is opened and closed, and of one that is so over a pipeline's tables.
const OPENED: u32 = 3;
const TRACKED: u32 = 2;
/// What can be asked for as `:PART` at most: 175 conversations are left.
pub(super) const MOST_PART: u32 = 1_000;

/// Builds T1 or T2 over the tables of a pipeline, or one part in so many of it.
pub(super) fn build_over(spec: &TraceSpec, mixed: bool, part: u32) -> Result<FrameTable, TraceError> {
    if spec.sizes != spec.name.default_sizes() {
        return Err(spec.wrong_sizes(if mixed { "recorded" } else { "64" }));
    }
    let nf = spec.name.made_for().expect("it is made for a pipeline's tables");
    let template = Template::of(spec)?;
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed);
    let of = population(part);
    let (all, flows) = (of.tcp + of.udp, sites::flows(spec, nf, of)?);
    let mut lengths = lengths(all, (LONGEST / part).max(MEDIAN as u32 * 10));
    lengths.shuffle(&mut random);
    let sequence = interleave(&lengths, 2 * TRAIL, &mut random);

    let mut builder = TableBuilder::with_pattern(all as usize * 3);
    let frames: Vec<Frames> = (0..all)
        .zip(flows)
        .map(|(k, (flow, site))| {
            Frames::add(&mut builder, template, spec.direction, (k, flow, k < of.tcp, site), mixed)
        })
        .collect();
    let mut order = lap(&sequence, &lengths, (&frames, TRACKED), mixed);
    let transport = (template.link_bytes() + Ipv4Repr::BYTES) as u16;
    let (at, trail) = match spec.direction {
        Direction::Forward => (transport, 0),
        Direction::Reverse => (transport + 2, TRAIL.min(order.len() as u32)),
    };
    order.rotate_right(trail as usize);
    let (first, count) = (*CLIENT_PORTS.start(), CLIENT_PORTS.len() as u16);
    builder.turn_ports(PortTurns { at, transport, first, count, trail });
    Ok(builder.build_in_order(order).expect("the lap has packets"))
}

/// Who talks in one part in so many of the trace.
pub(super) fn population(part: u32) -> sites::Population {
    let of = |all: u32| (all / part).max(1);
    sites::Population { tcp: of(TCP), udp: of(UDP), clients: of(CLIENTS), servers: of(SERVERS) }
}

/// Most connections of `tcp:N`: flows of the model that are TCP.
pub const MOST_TCP: u32 = TCP / 5;
/// Packets of each: SYN, acknowledgements, FIN.
pub const TCP_PACKETS: u32 = 10;

/// Builds `tcp:N`: connections of [`TCP_PACKETS`] packets, interleaved at random over the whole lap.
pub(super) fn build_tcp(spec: &TraceSpec, connections: u32) -> Result<FrameTable, TraceError> {
    if spec.sizes != Sizes::Fixed(FrameSize::MIN) {
        return Err(spec.wrong_sizes("64"));
    }
    let template = Template::of(spec)?;
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed);
    let lengths = vec![TCP_PACKETS; connections as usize];
    let mut sequence: Vec<u32> =
        (0..connections).flat_map(|k| std::iter::repeat_n(k, TCP_PACKETS as usize)).collect();
    sequence.shuffle(&mut random);
    let mut builder = TableBuilder::with_pattern(connections as usize * 3);
    let frames: Vec<Frames> = (0..connections)
        .map(|k| Frames::add(&mut builder, template, spec.direction, (k, flow(k), true, 0), false))
        .collect();
    let order = lap(&sequence, &lengths, (&frames, OPENED), false);
    Ok(builder.build_in_order(order).expect("the lap has packets"))
}

/// The lengths of so many conversations in packets, shortest first.
fn lengths(all: u32, longest: u32) -> Vec<u32> {
    let lengths_at = |inverse_shape: f64| -> Vec<u32> {
        (0..all)
            .map(|i| {
                let u = (f64::from(i) + 0.5) / f64::from(all);
                let length = MEDIAN * (u / (1.0 - u)).powf(inverse_shape);
                length.round().clamp(1.0, f64::from(longest)) as u32
            })
            .collect()
    };
    let mean = |lengths: &[u32]| lengths.iter().map(|n| f64::from(*n)).sum::<f64>() / f64::from(all);
    let (mut low, mut high) = (0.1, if all == ALL { 1.5 } else { 4.0 });
    while high - low > 1e-7 {
        let middle = (low + high) / 2.0;
        if mean(&lengths_at(middle)) < MEAN {
            low = middle;
        } else {
            high = middle;
        }
    }
    lengths_at(high)
}

/// The conversation of every packet of the lap, in order; the second of each comes so many places after its first, or later.
fn interleave(lengths: &[u32], apart: u32, random: &mut ChaCha8Rng) -> Vec<u32> {
    let total: usize = lengths.iter().map(|n| *n as usize).sum();
    // A conversation begins so long before the lap's end that what waits has room behind: of the long ones alone, which go on
    // to the end, the end has half as many packets or fewer.
    let margin =
        (u64::from(u32::MAX) * 8 * u64::from(apart) / total as u64).min(u64::from(u32::MAX) / 4) as u32;
    let mut instants: Vec<u64> = Vec::with_capacity(total);
    for (k, length) in lengths.iter().enumerate() {
        let window = (u64::from(u32::MAX) * u64::from(*length.min(&WINDOW_PACKETS))
            / u64::from(WINDOW_PACKETS)) as u32;
        let start = random.random_range(0..=u32::MAX - window.max(margin));
        for number in 0..*length {
            let after = random.random_range(0..=window);
            let instant = start + if apart > 0 && number == 0 { 0 } else { after };
            instants.push(u64::from(instant) << 32 | k as u64);
        }
    }
    instants.sort_unstable();
    let sequence: Vec<u32> = instants.into_iter().map(|instant| instant as u32).collect();
    if apart == 0 { sequence } else { wait_for_answers(&sequence, lengths.len(), apart as usize) }
}

/// Moves packets behind, and all of their conversation behind them with them, that come sooner than so many places after the first.
fn wait_for_answers(sequence: &[u32], conversations: usize, apart: usize) -> Vec<u32> {
    let mut order = Vec::with_capacity(sequence.len());
    let mut begun: Vec<Option<usize>> = vec![None; conversations];
    // Those that wait, with the place from which they may come: nearly in that order, as each waits equally long.
    let mut waiting: VecDeque<(usize, u32)> = VecDeque::new();
    for k in sequence {
        while waiting.front().is_some_and(|(from, _)| *from <= order.len()) {
            order.extend(waiting.pop_front().map(|(_, k)| k));
        }
        match begun[*k as usize] {
            None => {
                begun[*k as usize] = Some(order.len());
                order.push(*k);
            }
            Some(first) if first + apart > order.len() => waiting.push_back((first + apart, *k)),
            Some(_) => order.push(*k),
        }
    }
    order.extend(waiting.into_iter().map(|(_, k)| k));
    order
}

/// The indices of one conversation's distinct frames.
#[derive(Clone, Copy)]
struct Frames {
    open: u32,
    small: u32,
    large: u32,
    close: u32,
}

impl Frames {
    fn add(
        builder: &mut TableBuilder,
        template: Template,
        direction: Direction,
        (k, flow, is_tcp, number): (u32, Flow, bool, u16),
        mixed: bool,
    ) -> Self {
        let flow = match direction {
            Direction::Forward => template.flow(flow),
            Direction::Reverse => template.flow(flow).mirrored(),
        };
        let mut push = |(mut head, len, slot): (Head, u16, StampSlot)| {
            identify(&mut head, template.link_bytes(), number);
            builder.push_head(head, len, slot)
        };
        if !is_tcp {
            let small = push(template.udp(&flow, SMALL));
            let large = if mixed { push(template.udp(&flow, LARGE)) } else { small };
            return Self { open: small, small, large, close: small };
        }
        let open_flags = match direction {
            Direction::Forward => flags::SYN,
            Direction::Reverse => flags::SYN | flags::ACK,
        };
        let mut segment = |flags, size| push(tcp(template, &flow, k, flags, size));
        let small = segment(flags::ACK, SMALL);
        let open = segment(open_flags, SMALL);
        let close = segment(flags::FIN | flags::ACK, SMALL);
        let large = if mixed { segment(flags::ACK, LARGE) } else { small };
        Self { open, small, large, close }
    }
}

/// Has the IPv4 identification of a frame, which is 0, be a number: that of what tables tell apart of its conversation. The paper wrote
/// a rule's number there for its figure 9.
fn identify(head: &mut Head, network: usize, number: u16) {
    let header = &mut head.0[network..network + Ipv4Repr::BYTES];
    header[ipv4::field::IDENTIFICATION..][..2].copy_from_slice(&number.to_be_bytes());
    let sum = &mut header[ipv4::field::CHECKSUM..][..2];
    let mended = checksum::update_u16(u16::from_be_bytes([sum[0], sum[1]]), 0, number);
    sum.copy_from_slice(&mended.to_be_bytes());
}

/// The addresses and ports of conversation `k`, from the client's side.
fn flow(k: u32) -> Flow {
    let (client, round) = (k % CLIENTS, k / CLIENTS);
    let scattered = k.wrapping_mul(0x9e37_79b1);
    // Ports of one client are 3,547 apart: up to 18 conversations a client stay distinct and below 65,536.
    let source_port = LEAST_PORT + (round * 3_547 + client % 500) as u16;
    Flow {
        source_mac: PORT_0_MAC,
        destination_mac: PORT_1_MAC,
        source: source_address(client, CLIENTS),
        destination: destination_address((scattered >> 16) % SERVERS, SERVERS),
        source_port,
        destination_port: SERVICE_PORTS[scattered as usize % SERVICE_PORTS.len()],
    }
}

/// A TCP frame of `size` bytes with FCS; a small one has no payload and is padded.
fn tcp(template: Template, flow: &Flow, k: u32, control: u8, size: u16) -> (Head, u16, StampSlot) {
    const HEADERS: usize = Ipv4Repr::BYTES + TcpRepr::BYTES;
    let len = size - FCS_BYTES;
    let network = template.link_bytes();
    let transport = network + Ipv4Repr::BYTES;
    let payload_len = if size == SMALL { 0 } else { usize::from(len) - network - HEADERS };
    let mut head = blank_head();
    if size == SMALL {
        head.0[network + HEADERS..].fill(0);
    }
    template.write_link(flow, &mut head.0);
    let ip = ipv4_of(flow, ipv4::TCP, (TcpRepr::BYTES + payload_len) as u16);
    ip.emit(&mut head.0[network..]);
    // Both sides start from numbers of their own; SYN counts as one.
    let own = k.wrapping_mul(2_654_435_761);
    let opening = control & flags::SYN != 0;
    let header = TcpRepr {
        source: flow.source_port,
        destination: flow.destination_port,
        sequence: own.wrapping_add(u32::from(!opening)),
        acknowledgement: if control & flags::ACK == 0 { 0 } else { own.wrapping_add(1) },
        flags: control,
        window: u16::MAX,
    };
    let end = (transport + TcpRepr::BYTES + payload_len).min(HEAD_BYTES);
    let rest = payload_len.saturating_sub(end - transport - TcpRepr::BYTES);
    let rest_sum = checksum::sum_at(&TAIL[..rest], !(end - transport).is_multiple_of(2));
    header.emit_with(&mut head.0[transport..end], ip.pseudo(), rest_sum);
    let slot = if payload_len == 0 {
        StampSlot::None
    } else {
        StampSlot::of(&[&head.0[..], &TAIL[..rest]].concat())
    };
    (head, len, slot)
}

/// The frame of every packet of the lap. Conversations of so many packets are opened and closed; where that is fewer than all of them
/// have, a single packet opens.
fn lap(sequence: &[u32], lengths: &[u32], (frames, opened): (&[Frames], u32), mixed: bool) -> Vec<u32> {
    let alone = opened == TRACKED;
    let mut left = lengths.to_vec();
    let mut bytes = 0_u64;
    sequence
        .iter()
        .enumerate()
        .map(|(i, k)| {
            let k = *k as usize;
            let (length, last) = (lengths[k], left[k] == 1);
            let first = left[k] == length;
            left[k] -= 1;
            let (index, size) = match (first, last) {
                (true, _) if length >= opened || alone => (frames[k].open, SMALL),
                (_, true) if length >= opened => (frames[k].close, SMALL),
                _ if mixed && bytes < T1_MEAN * i as u64 => (frames[k].large, LARGE),
                _ => (frames[k].small, SMALL),
            };
            bytes += u64::from(size);
            index
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_papers_mean_median_and_greatest() {
        let lengths = lengths(ALL, LONGEST);
        let mean = lengths.iter().map(|n| f64::from(*n)).sum::<f64>() / f64::from(ALL);
        assert!((mean - MEAN).abs() < 0.01, "{mean}");
        assert_eq!(lengths[ALL as usize / 2], MEDIAN as u32);
        assert_eq!(lengths.last(), Some(&LONGEST));
    }
}

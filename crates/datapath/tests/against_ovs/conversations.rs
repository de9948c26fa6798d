//! Conversations through connection tracking: both switches see the same packets one by one, and what comes
//! out of each is the same, byte by byte: addresses, ports and identifiers as translated, checksums, quoted
//! packets, and all that tables can read of a connection, which the flows write into Ethernet addresses.
//!
//! A host answers what it received, as translated; so a mistake would not be answered. There are
//! connections of three protocols over both versions of IP, from inside with their source translated, from
//! outside with their destination translated, and between two hosts through a firewall that translates
//! nothing; ICMP errors about what was received, from both sides; and packets that nobody asked for.
//!
//! Left out, as the two differ on purpose (`crates/conntrack/src/tracking.rs`): third packets of a
//! side that was not answered, segments that only one of the two takes for invalid, and the original tuple
//! of ICMP errors, which Open vSwitch 3.1 does not tell.

use crate::ours::Ours;
use crate::ovs::{self, At, Ovs};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_flow::samples::Sampler;
use weir_wire::checksum;

/// Steps, where `WEIR_STEPS` does not say how many.
const STEPS: usize = 700;

/// Conversations at a time.
const TALKS: usize = 12;

/// Translates between ports 1 (inside) and 2; filters between 3 (inside) and 4.
const FLOWS: &str = "
table=0,priority=10,ip,actions=ct(table=1,zone=5,nat)
table=0,priority=10,ipv6,actions=ct(table=1,zone=5,nat)
table=0,priority=20,in_port=3,ip,actions=set_field:7->reg0,ct(table=4,zone=NXM_NX_REG0[0..15])
table=0,priority=20,in_port=4,ip,actions=set_field:7->reg0,ct(table=4,zone=NXM_NX_REG0[0..15])
table=0,priority=0,actions=drop
table=1,priority=30,ct_state=+inv,ip,actions=resubmit(,2)
table=1,priority=20,ct_state=+new-rel,ip,in_port=1,actions=ct(commit,zone=5,nat(src=203.0.113.1),exec(set_field:0x11->ct_mark,load:3->NXM_NX_CT_LABEL[64..70]),table=2)
table=1,priority=20,ct_state=+new-rel,ipv6,in_port=1,actions=ct(commit,zone=5,nat(src=2001:db8:ff::1),table=2)
table=1,priority=20,ct_state=+new-rel,tcp,in_port=2,tp_dst=80,actions=ct(commit,zone=5,nat(dst=10.0.0.9:8080),table=2)
table=1,priority=20,ct_state=+new-rel,tcp6,in_port=2,tp_dst=80,actions=ct(commit,zone=5,nat(dst=[2001:db8:1::9]:8080),table=2)
table=1,priority=20,ct_state=+new-rel,udp,in_port=2,tp_dst=53,actions=ct(commit,zone=5,nat(dst=10.0.0.9),table=2)
table=1,priority=0,actions=resubmit(,2)
table=2,priority=10,ct_state=+trk-inv,ip,actions=move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],move:NXM_NX_CT_ZONE[]->NXM_OF_ETH_SRC[8..23],move:NXM_NX_CT_MARK[0..7]->NXM_OF_ETH_SRC[24..31],move:NXM_NX_CT_LABEL[64..71]->NXM_OF_ETH_SRC[32..39],move:NXM_NX_CT_NW_SRC[0..7]->NXM_OF_ETH_DST[32..39],resubmit(,5)
table=2,priority=10,ct_state=+trk-inv,ipv6,actions=move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],move:NXM_NX_CT_ZONE[]->NXM_OF_ETH_SRC[8..23],move:NXM_NX_CT_MARK[0..7]->NXM_OF_ETH_SRC[24..31],move:NXM_NX_CT_IPV6_SRC[0..7]->NXM_OF_ETH_DST[32..39],resubmit(,5)
table=2,priority=20,ct_state=+rel+trk,actions=move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],move:NXM_NX_CT_MARK[0..7]->NXM_OF_ETH_SRC[24..31],resubmit(,3)
table=2,priority=5,actions=move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],move:NXM_NX_CT_ZONE[]->NXM_OF_ETH_SRC[8..23],resubmit(,3)
table=2,priority=0,actions=drop
table=5,priority=10,ip,ct_state=+trk-inv,ct_nw_proto=6,actions=move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_DST[0..15],move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[16..31],resubmit(,3)
table=5,priority=10,ip,ct_state=+trk-inv,ct_nw_proto=17,actions=move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_DST[0..15],move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[16..31],resubmit(,3)
table=5,priority=10,ipv6,ct_state=+trk-inv,ct_nw_proto=6,actions=move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_DST[0..15],move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[16..31],resubmit(,3)
table=5,priority=10,ipv6,ct_state=+trk-inv,ct_nw_proto=17,actions=move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_DST[0..15],move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[16..31],resubmit(,3)
table=5,priority=0,actions=resubmit(,3)
table=3,priority=10,in_port=1,actions=output:2
table=3,priority=10,in_port=2,actions=output:1
table=3,priority=0,actions=drop
table=4,priority=30,ct_state=+new,ip,in_port=3,actions=ct(commit,zone=7),set_field:02:00:00:00:00:77->eth_dst,output:4
table=4,priority=20,ct_state=+est+trk,ip,in_port=3,actions=move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],output:4
table=4,priority=20,ct_state=+est+trk,ip,in_port=4,actions=ct_clear,move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],output:3
table=4,priority=20,ct_state=+rel+trk,ip,actions=output:3
table=4,priority=0,actions=drop
";

/// One end of a packet: address and port.
pub(crate) type End = (u128, u16);

/// A frame's network header, read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) v6: bool,
    pub(crate) protocol: u8,
    pub(crate) from: End,
    pub(crate) to: End,
}

/// Where the transport header of frames of these tests starts.
const fn transport(v6: bool) -> usize {
    if v6 { 54 } else { 34 }
}

impl Seen {
    fn of(frame: &[u8]) -> Self {
        let v6 = frame[12..14] == [0x86, 0xdd];
        let wide = |at: usize| u128::from_be_bytes(frame[at..at + 16].try_into().unwrap());
        let narrow = |at: usize| u128::from(u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()));
        let (protocol, from, to) =
            if v6 { (frame[20], wide(22), wide(38)) } else { (frame[23], narrow(26), narrow(30)) };
        let at = transport(v6);
        let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (from_port, to_port) =
            if matches!(protocol, 1 | 58) { (half(at + 4), 0) } else { (half(at), half(at + 2)) };
        Self { v6, protocol, from: (from, from_port), to: (to, to_port) }
    }

    pub(crate) fn answered(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// A frame with this transport header and data, checksums and all.
    pub(crate) fn frame(&self, mut segment: Vec<u8>) -> Vec<u8> {
        let field = match self.protocol {
            1 | 58 => 2,
            6 => 16,
            _ => 6,
        };
        let length = segment.len() as u16;
        let (from, to) = (self.from.0, self.to.0);
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let pseudo = if self.v6 {
            let (from, to) = (Ipv6Addr::from_bits(from), Ipv6Addr::from_bits(to));
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([self.protocol, 64]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            checksum::pseudo_ipv6(from, to, self.protocol, u32::from(length))
        } else {
            let (from, to) = (Ipv4Addr::from_bits(from as u32), Ipv4Addr::from_bits(to as u32));
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0x12, 0x34, 0, 0, 64, self.protocol, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            let sum = checksum::checksum(&frame[14..]).to_be_bytes();
            frame[24..26].copy_from_slice(&sum);
            checksum::pseudo_ipv4(from, to, self.protocol, length)
        };
        let pseudo = if self.protocol == 1 { 0 } else { pseudo };
        let sum = checksum::finish(pseudo + checksum::sum(&segment)).to_be_bytes();
        segment[field..field + 2].copy_from_slice(&sum);
        frame.extend(segment);
        frame
    }
}

/// A conversation between a host at the first port and one at the second.
struct Talk {
    ports: [u32; 2],
    /// The last that each received.
    received: [Option<Vec<u8>>; 2],
    first: Seen,
    /// TCP: what each sends next.
    next: [u32; 2],
    sent: [u32; 2],
    closed: bool,
}

impl Talk {
    fn random(random: &mut Sampler, number: u16) -> Self {
        let protocol = random.pick(&[6, 6, 17, 1]);
        let v6 = random.one_in(3);
        let way = random.below(3);
        let v6 = v6 && way != 2;
        let inside = u128::from(Ipv4Addr::new(10, 0, 0, 1 + random.below(3) as u8).to_bits());
        let outside = u128::from(Ipv4Addr::new(192, 0, 2, 1 + random.below(3) as u8).to_bits());
        let wan = u128::from(Ipv4Addr::new(203, 0, 113, 1).to_bits());
        let wide = |of: u128| if v6 { 0x2001_0db8_u128 << 96 | (of >> 24) << 64 | of & 0xff } else { of };
        // Each has a port of its own, so that translation keeps it.
        let own = 2000 + number;
        let (protocol, from, to, ports) = match way {
            0 => (protocol, (wide(inside), own), (wide(outside), 443), [1, 2]),
            1 => {
                let protocol = if protocol == 17 && !v6 { 17 } else { 6 };
                let port = if protocol == 17 { 53 } else { 80 };
                (protocol, (wide(outside), own), (wide(wan), port), [2, 1])
            }
            _ => (protocol, (inside, own), (outside, 443), [3, 4]),
        };
        let protocol = if v6 && protocol == 1 { 58 } else { protocol };
        let to = if matches!(protocol, 1 | 58) { (to.0, 0) } else { to };
        let first = Seen { v6, protocol, from, to };
        let next = [random.bits() as u32, random.bits() as u32];
        Self { ports, received: [None, None], first, next, sent: [0; 2], closed: false }
    }

    /// The addresses that a side sends with.
    fn seen(&self, side: usize) -> Option<Seen> {
        if side == 0 {
            return Some(self.first);
        }
        self.received[1].as_ref().map(|frame| Seen::of(frame).answered())
    }

    /// What a side says next, if it may.
    fn says(&mut self, random: &mut Sampler, side: usize, tail: &[u8]) -> Option<Vec<u8>> {
        let seen = self.seen(side)?;
        let answered = self.sent[1] > 0;
        if side == 0 && !answered && self.sent[0] >= 1 || self.closed {
            return None;
        }
        let (from, to) = (seen.from.1.to_be_bytes(), seen.to.1.to_be_bytes());
        let mut segment = match seen.protocol {
            6 => {
                let opening = self.sent[side] == 0;
                let fin = !opening && answered && random.one_in(12);
                let flags = match (side, opening) {
                    (0, true) => 0x02,
                    (1, true) => 0x12,
                    _ if fin => 0x11,
                    _ => 0x18,
                };
                let (seq, ack) = (self.next[side], if flags == 0x02 { 0 } else { self.next[1 - side] });
                let length = if opening { 1 } else { tail.len() as u32 + u32::from(fin) };
                self.next[side] = seq.wrapping_add(length);
                self.closed |= fin;
                let mut header = [from, to].concat();
                header.extend(seq.to_be_bytes());
                header.extend(ack.to_be_bytes());
                header.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
                if opening {
                    return self.tell(seen, side, header);
                }
                header
            }
            17 => {
                let length = (8 + tail.len() as u16).to_be_bytes();
                [from, to, length, [0, 0]].concat()
            }
            _ => {
                let kind = match (seen.v6, side) {
                    (false, 0) => 8,
                    (false, _) => 0,
                    (true, 0) => 128,
                    _ => 129,
                };
                // Whoever asks has the identifier; the answer has it as well.
                let id = Seen::of(self.received[side].as_ref().unwrap_or(&vec![0; 64])).from.1;
                let id = if side == 0 { seen.from.1 } else { id };
                [vec![kind, 0, 0, 0], id.to_be_bytes().to_vec(), vec![0, 1]].concat()
            }
        };
        segment.extend(tail);
        self.tell(seen, side, segment)
    }

    fn tell(&mut self, seen: Seen, side: usize, segment: Vec<u8>) -> Option<Vec<u8>> {
        self.sent[side] += 1;
        Some(seen.frame(segment))
    }

    /// An ICMP error about the last that a side received: from its host or from a router before it.
    fn complains(&self, random: &mut Sampler, side: usize) -> Option<Vec<u8>> {
        let frame = self.received[side].as_ref()?;
        let about = Seen::of(frame);
        // Those of IPv6 Open vSwitch 3.1 translates wrongly: it puts their checksum into the quoted address.
        if about.v6 || about.protocol == 1 {
            return None;
        }
        // Where fewer bytes of TCP are quoted, Open vSwitch 3.1 writes the checksum behind the packet's end.
        let kept = if about.protocol == 6 { random.pick(&[20, 24]) } else { random.pick(&[8, 20]) };
        let quoted = &frame[14..frame.len().min(14 + 20 + kept)];
        let mut segment = vec![3, 1, 0, 0, 0, 0, 0, 0];
        segment.extend(quoted);
        let from = if random.one_in(2) { 0xc633_6401 } else { about.to.0 };
        let error = Seen { v6: false, protocol: 1, from: (from, 0), to: (about.from.0, 0) };
        Some(error.frame(segment))
    }
}

/// A packet that nobody waits for.
fn stray(random: &mut Sampler) -> At {
    let outside = u128::from(Ipv4Addr::new(192, 0, 2, 77).to_bits());
    let wan = u128::from(Ipv4Addr::new(203, 0, 113, 1).to_bits());
    let protocol = random.pick(&[6, 17, 1]);
    let to = if protocol == 1 { 0 } else { 9999 };
    let seen =
        Seen { v6: false, protocol, from: (outside, 40_000 + random.below(2000) as u16), to: (wan, to) };
    let (from, to) = (seen.from.1.to_be_bytes(), seen.to.1.to_be_bytes());
    let segment = match protocol {
        6 => [from.to_vec(), to.to_vec(), vec![0; 8], vec![0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]].concat(),
        17 => [from, to, [0, 8], [0, 0]].concat(),
        _ => [vec![0, 0, 0, 0], from.to_vec(), vec![0, 1]].concat(),
    };
    (2, seen.frame(segment))
}

/// Everybody who talks.
struct Town {
    random: Sampler,
    talks: Vec<Talk>,
    number: u16,
}

/// A packet, and whose next it is: the conversation's number and the side that says it.
struct Said {
    at: At,
    by: Option<(Seen, usize)>,
}

impl Town {
    fn new() -> Self {
        let random = Sampler::new(weir_testkit::seed(0xc7));
        Self { random, talks: Vec::new(), number: 0 }
    }

    /// The next packet, if somebody has something to say.
    fn says(&mut self) -> Option<Said> {
        let Self { random, talks, number } = self;
        if talks.len() < TALKS || random.one_in(10) {
            if talks.len() >= TALKS {
                talks.remove(0);
            }
            talks.push(Talk::random(random, *number));
            *number += 1;
        }
        let (place, side) = (random.below(talks.len()), random.below(2));
        let talk = &mut talks[place];
        let tail: Vec<u8> = (0..random.below(9)).map(|_| random.bits() as u8).collect();
        let said = match random.below(12) {
            0 => talk.complains(random, side).map(|frame| (frame, None)),
            _ => talk.says(random, side, &tail).map(|frame| (frame, Some((talk.first, side)))),
        };
        match said {
            Some((frame, by)) => Some(Said { at: (talk.ports[side], frame), by }),
            None => random.one_in(4).then(|| Said { at: stray(random), by: None }),
        }
    }

    /// The other side receives what came of a packet.
    fn hears(&mut self, by: Option<(Seen, usize)>, frame: &[u8]) {
        let Some((first, side)) = by else { return };
        if let Some(talk) = self.talks.iter_mut().find(|talk| talk.first.from == first.from) {
            talk.received[1 - side] = Some(frame.to_vec());
        }
    }
}

pub(crate) fn told(all: &[At]) -> Vec<String> {
    all.iter().map(|(port, frame)| format!("{port} {}", crate::hex(frame))).collect()
}

fn flows() -> Vec<String> {
    FLOWS.trim().lines().map(str::to_owned).collect()
}

fn steps(otherwise: usize) -> usize {
    weir_testkit::asked("WEIR_STEPS", otherwise as u64) as usize
}

#[test]
fn conversations_are_tracked_and_translated_as_open_vswitch_does() {
    if !ovs::installed() {
        return;
    }
    let (mut town, mut passed, steps) = (Town::new(), 0, steps(STEPS));
    let (mut ovs, mut ours) = (Ovs::start(), Ours::start(true));
    ovs.load(&[], &flows()).unwrap();
    ours.load(&[], &flows()).unwrap();
    for step in 0..steps {
        let Some(Said { at, by }) = town.says() else { continue };
        let (theirs, mine) =
            (ovs.forward(std::slice::from_ref(&at)), ours.forward(std::slice::from_ref(&at)));
        assert_eq!(told(&mine), told(&theirs), "step {step}: port {} {}", at.0, crate::hex(&at.1));
        passed += theirs.len();
        theirs.iter().for_each(|(_, frame)| town.hears(by, frame));
    }
    // Of TCP, the two have other words for how far a connection is.
    let known = |line: &str| line.split(",protoinfo=").next().unwrap_or_default().to_owned();
    let theirs: BTreeSet<String> = ovs.ask(&["dpctl/dump-conntrack"]).lines().map(known).collect();
    let mine: BTreeSet<String> = ours.connections().iter().map(|line| known(line)).collect();
    assert_eq!(mine.symmetric_difference(&theirs).next(), None);
    println!("{steps} steps, {passed} packets left, {} connections at the end", mine.len());
    assert!(passed * 2 > steps, "{passed} of {steps}");
    ours.stop();
}

#[test]
fn conversations_come_out_the_same_whether_stages_are_coalesced_or_not() {
    /// Packets that come in together, at most.
    const TOGETHER: usize = 12;
    let (mut town, mut passed) = (Town::new(), 0);
    let mut both = [Ours::start(true), Ours::start(false)];
    both.iter_mut().for_each(|ours| ours.load(&[], &flows()).unwrap());
    for _ in 0..steps(6 * STEPS) / TOGETHER {
        // Of each conversation one, so that nobody answers what is not there yet.
        let mut said: Vec<Said> = Vec::new();
        for _ in 0..TOGETHER {
            let next = town.says();
            said.extend(next.filter(|next| {
                next.by.is_none_or(|(talk, _)| {
                    said.iter().all(|other| other.by.is_none_or(|(of, _)| of.from != talk.from))
                })
            }));
        }
        said.sort_by_key(|said| said.at.0);
        let frames: Vec<At> = said.iter().map(|said| said.at.clone()).collect();
        let [coalesced, not] = both.each_mut().map(|ours| ours.forward(&frames));
        assert_eq!(told(&coalesced), told(&not));
        passed += coalesced.len();
        for Said { at, by } in said {
            let Some((first, side)) = by else { continue };
            // Ports on one side are the conversation's own.
            let own = |frame: &[u8]| {
                let Seen { from, to, .. } = Seen::of(frame);
                [from.1, to.1].contains(&first.from.1)
            };
            let port = [2, 1, 4, 3][at.0 as usize - 1];
            if let Some((_, frame)) = coalesced.iter().find(|(to, frame)| *to == port && own(frame)) {
                town.hears(Some((first, side)), frame);
            }
        }
    }
    let [coalesced, not] = both;
    println!("{passed} packets left");
    assert!(passed > STEPS, "{passed}");
    assert!(coalesced.stop() > 0 && not.stop() > 0);
}

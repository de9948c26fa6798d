//! Connection tracking: packets of any kind, conversations with helpers, fragments.

use crate::{Budget, Input, Outcome, Target};
use std::net::{Ipv4Addr, SocketAddr};
use weir_conntrack::{Checksums, Packet, Settings, Tick, Tracker, ct};
use weir_cpu::Heap;
use weir_flow::{Key, Seed, extract};
use weir_frames::{ACK, FIN, PSH, RST, SYN, Tcp, datagram, echo, fragments, padded, segment, unreachable};
use weir_openflow::{Helper, Nat, NatRange, Tracking};

/// Building the tracker, whose tables of helpers stand ready in their greatest size, and the frames; what the tracker takes
/// for a packet is nothing, which is asserted beside it.
const BUDGET: Budget = Budget::of(32 << 20, 8192, 8000, 256);

/// Connections, fragments, packets of an input, at most: few, so that they run out.
const CONNECTIONS: u32 = 24;
const FRAGMENTS: u32 = 8;
const PACKETS: usize = 100;

/// Bytes of state of so few.
const HELD: usize = 16 << 20;

fn tracker(checksums: Checksums) -> Tracker {
    let settings = Settings {
        connections: CONNECTIONS,
        half_open: CONNECTIONS / 2,
        zone_connections: CONNECTIONS - 4,
        fragments: FRAGMENTS,
        checksums,
        ..Settings::default()
    };
    Tracker::new(settings, Seed::new(11), Tick(1000))
}

/// What OpenFlow's `ct` may ask, by a byte.
fn asked(choice: u8) -> Tracking {
    let range = match choice >> 3 & 3 {
        0 => None,
        1 => Some(NatRange::None),
        2 => Some(NatRange::Ipv4(Ipv4Addr::new(203, 0, 113, 1), Some(Ipv4Addr::new(203, 0, 113, 2)))),
        _ => Some(NatRange::Ipv6("2001:db8::9".parse().expect("an address"), None)),
    };
    let source = choice & 0x80 == 0;
    let is_range = range.is_some_and(|range| range != NatRange::None);
    let nat = range.map(|range| Nat {
        source: source && is_range,
        destination: !source && is_range,
        range,
        ports: if choice & 0x40 != 0 && is_range { (1024, 1027) } else { (0, 0) },
        ..Nat::default()
    });
    Tracking {
        zone: u16::from(choice & 1),
        commit: choice & 2 != 0,
        force: choice & 0x24 == 0x24,
        nat,
        mark: (7, if choice & 2 != 0 { 0xff } else { 0 }),
        helper: match choice & 6 {
            6 => Some(Helper::Ftp),
            2 if choice & 0x20 != 0 => Some(Helper::Tftp),
            _ => None,
        },
        ..Tracking::default()
    }
}

/// A packet through `ct`, as the service does it; its state, and why it ended.
fn attend(tracker: &mut Tracker, frame: &mut Vec<u8>, asked: &Tracking, now: Tick) -> (u8, bool) {
    let mut key = Key::new();
    let mut layout = extract(frame, 1, &mut key);
    let (before, heap) = (frame.len(), Heap::now());
    let packet = Packet { frame: &*frame, layout, key: &key };
    let mut look = packet.look(asked.zone, tracker.seed());
    tracker.expect(&look);
    tracker.approach(&mut look);
    let attended = tracker.attend(&packet, &look, asked, now);
    let judgement = attended.judgement;
    let mut help = None;
    if attended.helped
        && let Some(place) = judgement.place
    {
        let side = usize::from(judgement.state & ct::RPL != 0);
        help = Some(tracker.help(&packet, (place, side), attended.turn.is_some(), now));
    }
    assert_eq!(Heap::now().calls, heap.calls, "nothing is allocated once the tracker is built");
    if let Some(help) = &help {
        help.renumber(frame, layout);
    }
    if let Some(turn) = attended.turn {
        turn.apply(frame, layout, &mut key);
    }
    if let Some(splice) = help.and_then(|help| help.splice) {
        assert!(splice.apply(&mut *frame, &mut layout), "what is replaced lies in the packet");
        assert_eq!(layout, extract(frame, 1, &mut Key::new()));
    }
    assert!(frame.len() <= before + weir_flow::MOST_SPLICED);
    tracker.write(&judgement, asked.zone, &mut key);
    assert_ne!(judgement.state & ct::TRK, 0, "what was tracked says so");
    (judgement.state, attended.drop.is_some())
}

fn holds(tracker: &Tracker) {
    assert!(tracker.connections() <= CONNECTIONS && tracker.half_open() <= tracker.connections());
    assert!(tracker.memory() < HELD, "{} bytes of state", tracker.memory());
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

fn tcp(flags: u8, seq: u32, ack: u32) -> Tcp {
    Tcp { flags, seq, ack, window: 1000, ..Tcp::default() }
}

/// Conversations: TCP opened and closed, UDP, ICMP and its errors, fragments.
pub(super) fn conversations() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (a, b) in [("192.168.1.9:40000", "203.0.113.80:80"), ("[2001:db8::1]:40000", "[2001:db8::2]:80")] {
        let (a, b) = (at(a), at(b));
        let opened = [
            segment(a, b, tcp(SYN, 100, 0), b""),
            segment(b, a, tcp(SYN | ACK, 500, 101), b""),
            segment(a, b, tcp(ACK, 101, 501), b""),
            segment(a, b, tcp(ACK | PSH, 101, 501), b"GET / HTTP/1.0\r\n\r\n"),
            segment(b, a, tcp(ACK | FIN, 501, 119), b"hello"),
            segment(a, b, tcp(ACK | FIN, 119, 507), b""),
            segment(b, a, tcp(ACK, 507, 120), b""),
            segment(a, b, tcp(RST, 120, 0), b""),
        ];
        let one = datagram(a, b, &[7; 80]);
        let others = [
            one.clone(),
            datagram(b, a, b"answer"),
            unreachable(b.ip(), a.ip(), &one, 48),
            echo(a.ip(), b.ip(), false, 3),
            echo(b.ip(), a.ip(), true, 3),
        ];
        for choice in [2_u8, 0x12, 0x1a, 0x92, 0x56] {
            for frames in [&opened[..], &others, &fragments(&one, 7, 32)] {
                let parts = Input::of_parts(frames.iter().map(|frame| (choice, frame.as_slice())));
                seeds.push([&[choice >> 2][..], &parts].concat());
            }
        }
    }
    seeds
}

pub(super) const CONNTRACK: Target = Target {
    name: "conntrack",
    about: "packets through `ct` with commit, translation, helpers, few connections: bounded, nothing allocated",
    budget: BUDGET,
    longest: 4096,
    words: &[],
    seeds: conversations,
    run: conntrack,
    workers: false,
};

fn conntrack(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let checksums = if input.byte().is_multiple_of(2) { Checksums::default() } else { Checksums::All };
    let mut tracker = tracker(checksums);
    let (mut now, mut came) = (Tick(1000), Vec::with_capacity(PACKETS));
    while !input.is_over() && came.len() < PACKETS {
        let asked = asked(input.byte());
        let mut frame = input.part().to_vec();
        now = now.after(frame.last().map_or(0, |last| u32::from(*last) * u32::from(*last)));
        came.push(attend(&mut tracker, &mut frame, &asked, now));
        tracker.sweep_some(now, 4);
        holds(&tracker);
    }
    // In the end all of it is over.
    for later in [1 << 20, 1 << 26, 1 << 30] {
        tracker.sweep(now.after(later), || true);
    }
    assert_eq!((tracker.connections(), tracker.half_open()), (0, 0), "connections outlive their time");
    came.sort_unstable();
    came.dedup();
    Outcome::of(came)
}

pub(super) const HELPERS: Target = Target {
    name: "helpers",
    about: "what is said on control connections of FTP and TFTP, through translation and not, in segments of any size",
    budget: BUDGET,
    longest: 2048,
    words: &[
        "PORT 192,168,1,11,200,13\r\n",
        "EPRT |1|192.168.1.11|51213|\r\n",
        "EPRT |2|2001:db8::1|1|\r\n",
        "227 Entering Passive Mode (203,0,113,80,200,13).\r\n",
        "229 Entering Extended Passive Mode (|||51213|)\r\n",
        "\r\n",
        ",",
        "|",
        "(",
        ")",
        "256",
        "65536",
        "PASV\r\n",
        "EPSV\r\n",
        "227 ",
        "229 ",
        "\0\x01file\0octet\0",
    ],
    seeds: || {
        let talk = [
            (1, &b"220 hello\r\n"[..]),
            (0, b"PORT 192,168,1,11,200,13\r\n"),
            (1, b"200 fine\r\n"),
            (0, b"EPRT |1|192.168.1.11|51213|\r\n"),
            (0, b"PASV\r\n"),
            (1, b"227 Entering Passive Mode (203,0,113,80,200,13).\r\n"),
            (1, b"229 Entering Extended Passive Mode (|||51213|)\r\n"),
            (2, b"data"),
            (3, b"data"),
        ];
        let tftp = [(4, &b"\0\x01file\0octet\0"[..]), (5, b"\0\x03\0\x01data"), (4, b"\0\x02file\0octet\0")];
        [0_u8, 1, 2]
            .iter()
            .flat_map(|nat| {
                [talk.to_vec(), tftp.to_vec()].map(|talk| [&[*nat][..], &Input::of_parts(talk)].concat())
            })
            .collect()
    },
    run: helpers,
    workers: false,
};

/// Both sides of a control connection of FTP say what the input says, and data connections come; and requests of TFTP.
fn helpers(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut tracker = tracker(Checksums::default());
    let mut how = asked([2, 0x12, 0x0a][input.below(3)]);
    how.helper = Some(Helper::Ftp);
    let (client, server) = (at("192.168.1.11:40000"), at("203.0.113.80:21"));
    let translated = how.nat.is_some_and(|nat| nat.range != NatRange::None);
    let seen = if translated { at("203.0.113.1:40000") } else { client };
    let (mut seq, mut came) = ([100_u32, 900], Vec::with_capacity(PACKETS));
    for (from, to, flags) in [(client, server, SYN), (server, seen, SYN | ACK), (client, server, ACK)] {
        let side = usize::from(from == server);
        let mut frame = segment(from, to, tcp(flags, seq[side], seq[1 - side]), b"");
        attend(&mut tracker, &mut frame, &how, Tick(1001));
        seq[side] = seq[side].wrapping_add(u32::from(flags & SYN != 0));
    }
    while !input.is_over() && came.len() < PACKETS {
        let (choice, said) = (input.byte() % 6, input.part());
        let mut asked = how.clone();
        let mut frame = match choice {
            0 => segment(client, server, tcp(ACK | PSH, seq[0], seq[1]), said),
            1 => segment(server, seen, tcp(ACK | PSH, seq[1], seq[0]), said),
            2 => segment(at("203.0.113.80:20"), at("203.0.113.1:51213"), tcp(SYN, 1, 0), said),
            3 => segment(client, at("203.0.113.80:51213"), tcp(SYN, 1, 0), said),
            4 => datagram(at("192.168.1.11:5000"), at("203.0.113.80:69"), said),
            _ => datagram(at("203.0.113.80:7000"), at("203.0.113.1:5000"), said),
        };
        asked.helper = match choice {
            0 | 1 => Some(Helper::Ftp),
            4 => Some(Helper::Tftp),
            _ => None,
        };
        came.push((choice, attend(&mut tracker, &mut frame, &asked, Tick(1002))));
        if choice < 2 {
            seq[usize::from(choice)] = seq[usize::from(choice)].wrapping_add(said.len() as u32);
        }
        holds(&tracker);
    }
    let counted: Vec<(&str, bool)> =
        tracker.counters().all().map(|(name, count)| (name, count > 0)).collect();
    came.sort_unstable();
    came.dedup();
    Outcome::of((counted, came.len()))
}

pub(super) const FRAGMENTS_TARGET: Target = Target {
    name: "fragments",
    about: "pieces of datagrams in any order, overlapping or not, of more datagrams than there is room for",
    budget: BUDGET,
    longest: 1024,
    words: &[],
    seeds: || {
        vec![(0..200).collect(), (0..255).rev().collect(), vec![0, 1, 0, 0, 8, 1, 1, 0, 2, 9, 0, 0, 5, 4, 0]]
    },
    run: pieces,
    workers: false,
};

/// Pieces by four bytes each: which datagram, from where, how long, and whether more follow.
fn pieces(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut tracker = tracker(Checksums::default());
    let (mut came, mut now) = (Vec::with_capacity(PACKETS), Tick(1000));
    while !input.is_over() && came.len() < PACKETS {
        let (which, from, length, more) = (input.byte(), input.byte(), input.byte(), input.byte());
        let (a, b) = if which & 1 == 0 {
            (at("192.168.1.9:4000"), at("203.0.113.80:53"))
        } else {
            (at("[2001:db8::1]:4000"), at("[2001:db8::2]:53"))
        };
        let whole = datagram(a, b, &[which; 600]);
        let mut all = fragments(&whole, u16::from(which >> 1), 8 * (1 + usize::from(length) % 20));
        let place = usize::from(from) % all.len();
        let mut frame = padded(std::mem::take(&mut all[place]));
        if more & 7 == 7 {
            // Where it says that it lies.
            let at = if which & 1 == 0 { 20 } else { 56 };
            frame[at] ^= more;
        }
        let tracking = asked(if more & 8 == 0 { 2 } else { 0x12 });
        came.push(attend(&mut tracker, &mut frame, &tracking, now));
        now = now.after(u32::from(more >> 4));
        holds(&tracker);
    }
    came.sort_unstable();
    came.dedup();
    Outcome::of(came)
}

//! How many TSC cycles the tracker takes a packet, and nanoseconds a new connection.
//!
//! Run it with `cargo bench -p weir-services --bench conntrack`; `-- established` or `-- new` behind it
//! runs that half. Bursts of 32 go through the service as the datapath calls it. Frames and keys are
//! written before the clock starts, as extraction has just read them in a switch, so what is measured
//! is the tracker and the memory of its connections, drawn at random. Rounds alternate between the
//! cases; the table gives the median burst and the range of nine tenths of them. New connections are
//! opened one after the other up to four millions, which takes a GiB.

use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use weir_cpu::Ticks;
use weir_flow::{Key, Layout};
use weir_frames::{ACK, SYN, Tcp, extract, tcp, udp};
use weir_services::{Burst, GroupConfig, Memo, Service, Slot, Verdict, registered};
use weir_units::Nanos;

const BURST: usize = 32;
const ROUNDS: usize = 21;
/// Bursts of a case in a round.
const TURNS: usize = 400;
const NEW: u32 = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

struct Case {
    label: String,
    protocol: Protocol,
    connections: u32,
    service: Box<dyn Service>,
    draw: u64,
    now: Nanos,
    frames: Vec<(Vec<u8>, Key, Layout)>,
    /// Cycles of each burst.
    bursts: Vec<u64>,
}

/// The client of this number, and its server.
fn ends(number: u32) -> [SocketAddr; 2] {
    let port = 1024 + (number % 60_000) as u16;
    let client = Ipv4Addr::from_bits(0x0a00_0000 + number.wrapping_mul(0x9e37_79b1) % 65_536);
    let server = Ipv4Addr::from_bits(0xc0a8_0000 + number / 60_000);
    [SocketAddr::new(client.into(), port), SocketAddr::new(server.into(), 443)]
}

impl Case {
    fn new(label: &str, protocol: Protocol, connections: u32) -> Self {
        let settings = json!({ "connections": connections.max(1000), "half_open": 0 });
        let config = GroupConfig { name: "conntrack", settings: &settings, workers: 1, seed: 5 };
        let group = (registered("conntrack").expect("the kind").build)(&config).expect("good settings");
        Self {
            label: format!("{label}, {connections} connections"),
            protocol,
            connections,
            service: group.instance(0),
            draw: 1,
            now: Nanos(0),
            frames: Vec::new(),
            bursts: Vec::new(),
        }
    }

    /// One whose connections are all open, both ways.
    fn open(label: &str, protocol: Protocol, connections: u32) -> Self {
        let mut case = Self::new(label, protocol, connections);
        for part in 0..3 {
            (0..connections).for_each(|number| case.packet(number, part));
            case.burst();
        }
        case.bursts.clear();
        case
    }

    /// A packet of the connection's opening (0 to 2) or of what follows (3 of the client, 4 of the
    /// server); the burst is judged once it is full.
    fn packet(&mut self, number: u32, part: u32) {
        let [client, server] = ends(number);
        let to_client = part == 1 || part == 4;
        let (from, to) = if to_client { (server, client) } else { (client, server) };
        let flags = [SYN, SYN | ACK, ACK, ACK, ACK][part as usize];
        let (seq, ack) = match part {
            0 => (100, 0),
            1 => (500, 101),
            4 => (501, 101),
            _ => (101, 501),
        };
        let frame = match self.protocol {
            Protocol::Tcp => tcp(from, to, Tcp { flags, seq, ack, window: 9000, ..Tcp::default() }),
            Protocol::Udp => udp(from, to, 18),
        };
        let (key, layout) = extract(&frame);
        self.frames.push((frame, key, layout));
        if self.frames.len() == BURST {
            self.burst();
        }
    }

    fn burst(&mut self) {
        let slots = self.frames.iter_mut().map(|(frame, key, layout)| Slot {
            frame,
            layout: *layout,
            key,
            argument: 1,
            arguments: &[],
            tracking: None,
            metadata: 0,
            memo: Memo::NOWHERE,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        });
        let mut slots: Vec<Slot<'_>> = slots.collect();
        let mut burst = Burst::new(&mut slots, self.now);
        let start = Ticks::now();
        self.service.process(&mut burst);
        let cycles = Ticks::now().since(start);
        assert!(slots.iter().all(|slot| slot.metadata == 1 && slot.coalesce), "all are allowed");
        if slots.len() == BURST {
            self.bursts.push(cycles);
        }
        self.frames.clear();
        self.now.0 += 1000;
    }

    fn round(&mut self) {
        for _ in 0..TURNS * BURST {
            self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = ((self.draw >> 32) * u64::from(self.connections)) >> 32;
            self.packet(number as u32, 3 + (self.draw >> 31 & 1) as u32);
        }
    }

    fn told(&mut self, hz: f64) {
        self.bursts.sort_unstable();
        let part = |part: usize| self.bursts[self.bursts.len() * part / 100] as f64 / BURST as f64;
        let (least, median, most) = (part(5), part(50), part(95));
        let nanos = median / hz * 1e9;
        println!("{:<40} {median:>8.1} ({least:.1}..{most:.1}) {nanos:>8.1}", self.label);
    }
}

fn main() {
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let (start, clock) = (Ticks::now(), Instant::now());
    let mut cases = Vec::new();
    if "established".starts_with(&word) {
        for connections in [1000, 10_000, 100_000, 1_000_000] {
            cases.push(Case::open("established TCP", Protocol::Tcp, connections));
        }
        cases.push(Case::open("established UDP", Protocol::Udp, 10_000));
        for _ in 0..ROUNDS {
            cases.iter_mut().for_each(Case::round);
        }
    }
    if "new".starts_with(&word) {
        let mut case = Case::new("new TCP, up to", Protocol::Tcp, NEW);
        (0..NEW).for_each(|number| case.packet(number, 0));
        cases.push(case);
    }
    let hz = Ticks::now().since(start) as f64 / clock.elapsed().as_secs_f64();
    println!("bursts of {BURST}, TSC {:.2} GHz", hz / 1e9);
    println!("{:<40} {:>22} {:>8}", "", "cycles a packet", "ns");
    cases.iter_mut().for_each(|case| case.told(hz));
}

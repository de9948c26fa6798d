//! The service under load: millions of connections through its registration, in bursts, as the
//! datapath calls it. Prints what it costs and asserts only what does not depend on the machine.
//!
//! Ignored: it takes seconds and a GiB. `WEIR_CONNTRACK_CONNECTIONS` says how many connections.

use crate::support::{ACK, SYN, Tcp, extract, tcp};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use weir_cpu::Ticks;
use weir_flow::Key;
use weir_flow::Layout;
use weir_services::{Burst, GroupConfig, Memo, Service, Slot, Verdict, registered};
use weir_units::Nanos;

const BURST: usize = 32;

struct Load {
    service: Box<dyn Service>,
    now: Nanos,
    frames: Vec<Vec<u8>>,
    keys: Vec<(Key, Layout)>,
    /// Cycles a packet, of each burst.
    cycles: Vec<u64>,
}

/// The client of this number, and its server.
fn ends(number: u32) -> [SocketAddr; 2] {
    let port = 1024 + (number % 60_000) as u16;
    let client = Ipv4Addr::from_bits(0x0a00_0000 + number.wrapping_mul(0x9e37_79b1) % 65_536);
    let server = Ipv4Addr::from_bits(0xc0a8_0000 + number / 60_000);
    [SocketAddr::new(client.into(), port), SocketAddr::new(server.into(), 443)]
}

impl Load {
    fn new(connections: u32) -> Self {
        let settings = json!({ "connections": connections, "half_open": 0 });
        let config = GroupConfig { name: "conntrack", settings: &settings, workers: 1, seed: 5 };
        let group = (registered("conntrack").unwrap().build)(&config).unwrap();
        Self {
            service: group.instance(0),
            now: Nanos(0),
            frames: Vec::new(),
            keys: Vec::new(),
            cycles: Vec::new(),
        }
    }

    /// Judges a packet once a burst is full; all must be allowed.
    fn packet(&mut self, from: SocketAddr, to: SocketAddr, segment: Tcp) {
        let frame = tcp(from, to, segment);
        self.keys.push(extract(&frame));
        self.frames.push(frame);
        if self.frames.len() == BURST {
            self.burst();
        }
    }

    fn burst(&mut self) {
        let mut slots: Vec<Slot<'_>> = self
            .frames
            .iter_mut()
            .zip(&mut self.keys)
            .map(|(frame, (key, layout))| Slot {
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
            })
            .collect();
        let mut burst = Burst::new(&mut slots, self.now);
        let start = Ticks::now();
        self.service.process(&mut burst);
        let cycles = Ticks::now().since(start);
        assert!(slots.iter().all(|slot| slot.metadata == 1 && slot.coalesce));
        self.cycles.push(cycles / slots.len() as u64);
        self.frames.clear();
        self.keys.clear();
        self.now.0 += 1000;
    }

    /// Bursts in which the machine did something else are why the mean is not told.
    fn told(&mut self, what: &str) {
        self.cycles.sort_unstable();
        let at = |part: usize| self.cycles[(self.cycles.len() - 1) * part / 100];
        println!(
            "{what}: cycles a packet: median {}, 10 % of bursts below {}, 90 % below {}",
            at(50),
            at(10),
            at(90)
        );
        self.cycles.clear();
    }

    fn counter(&self, name: &str) -> u64 {
        self.service.counters().iter().find(|(counter, _)| *counter == name).unwrap().1
    }
}

fn established(load: &mut Load, connections: u32, rounds: u32) {
    for number in 0..connections * rounds {
        let number = number.wrapping_mul(0x9e37_79b1) % connections;
        let [client, server] = ends(number);
        load.packet(client, server, Tcp { flags: ACK, seq: 101, ack: 501, window: 9000, ..Tcp::default() });
    }
}

#[test]
#[ignore = "seconds and a GiB of memory"]
fn millions_of_connections_are_made_found_and_expire() {
    let wanted = std::env::var("WEIR_CONNTRACK_CONNECTIONS").ok().and_then(|text| text.parse().ok());
    let wanted: u32 = wanted.unwrap_or(4_000_000) / BURST as u32 * BURST as u32;
    let mut load = Load::new(wanted);
    for quarter in 0..4 {
        for number in quarter * wanted / 4..(quarter + 1) * wanted / 4 {
            let [client, server] = ends(number);
            load.packet(client, server, Tcp { flags: SYN, seq: 100, window: 9000, ..Tcp::default() });
        }
        load.told(&format!("new connections, quarter {}", quarter + 1));
    }
    assert_eq!(load.counter("created") + load.counter("packets-new") - u64::from(wanted), u64::from(wanted));
    for number in 0..wanted {
        let [client, server] = ends(number);
        load.packet(
            server,
            client,
            Tcp { flags: SYN | ACK, seq: 500, ack: 101, window: 9000, ..Tcp::default() },
        );
    }
    load.told("SYN-ACKs");
    established(&mut load, wanted, 1);
    load.told(&format!("established, {wanted} connections"));
    for few in [1000, 32_000] {
        established(&mut load, few, 200_000 / few * 4);
        load.told(&format!("established, {few} connections"));
    }
    println!("memory {} MiB", load.service.memory() >> 20);
    assert_eq!(load.counter("connections"), u64::from(wanted));
    load.now.0 += 500_000 * Nanos::PER_SECOND;
    let (mut ticks, mut times) = (0, Vec::new());
    while load.counter("connections") > 0 {
        let start = Ticks::now();
        load.service.tick(load.now);
        times.push(Ticks::now().since(start));
        ticks += 1;
        assert!(ticks < 10_000_000);
    }
    times.sort_unstable();
    println!(
        "expired in {ticks} ticks; cycles a tick: median {}, the longest {}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    assert_eq!(load.counter("expired"), u64::from(wanted));
}

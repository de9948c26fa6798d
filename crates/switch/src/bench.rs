//! A service by itself: what a packet costs in its cell, on this core, without the datapath around it.
//!
//! Bursts of [`BURST`] packets of many connections are handed to a [`Host`], as the datapath does; the
//! clock is around the host alone, the packets are made outside it. Two kinds of work ([`Work`]): the same
//! packets again and again, or each packet the first of its connection, until there are so many. The
//! result is numbers by round and nothing averaged away: whoever compares takes its own centre.
//!
//! Threads: the caller's, which should be pinned. Memory: the packets, and what the service keeps.

use crate::start::drawn;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::time::Instant;
use weir_cpu::Ticks;
use weir_flow::{Key, Layout, extract};
use weir_services::{ConfigError, GroupConfig, Host, Limits, Memo, SERVICES, Slot, Verdict, registered};
use weir_units::Nanos;
use weir_wire::checksum::pseudo_ipv4;
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, TcpRepr, tcp};

/// Packets handed over at once: what a port gives at most.
pub const BURST: usize = 32;

/// Version of the document.
pub const BENCH_SCHEMA: u32 = 1;

/// Time between two bursts, as the service sees it.
const PACE: Nanos = Nanos(1_000);

/// The TCP payload of the packets, in bytes.
const MOST_PAYLOAD: u16 = 8_900;

/// The most connections: as many pairs of address and port as are made here.
const MOST_CONNECTIONS: u32 = 1 << 28;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The same packets in every round, one of each connection.
    Again,
    /// Each packet opens a connection; a round is a part of them.
    New,
}

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench {
    /// Kind of service.
    pub kind: String,
    /// Its settings.
    pub settings: Value,
    /// What flows would tell it.
    pub argument: u32,
    /// Bytes of TCP payload in each packet.
    pub payload: u16,
    /// Connections; rounded up to whole bursts and rounds.
    pub connections: u32,
    /// What is done.
    pub work: Work,
    /// Rounds.
    pub rounds: u32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Benched {
    /// [`BENCH_SCHEMA`].
    pub schema: u32,
    /// Kind of service.
    pub kind: String,
    /// What was done.
    pub work: Work,
    /// Bytes of TCP payload in each packet.
    pub payload: u16,
    /// Connections.
    pub connections: u32,
    /// Packets of each round.
    pub packets: u64,
    /// Ticks of the time stamp counter a second.
    pub tsc_hz: f64,
    /// Packets of all rounds that the service dropped, or sent another way than on.
    pub dropped: u64,
    /// Cycles a packet of each round, its mean over the round.
    pub cycles: Vec<f64>,
}

/// A measurement that makes no sense.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BenchError {
    /// No such kind.
    #[error("there is no kind of service `{kind}`; the kinds are {known}")]
    Kind {
        /// As asked for.
        kind: String,
        /// Those there are.
        known: String,
    },
    /// Wrong settings.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// A number out of its range.
    #[error("{what} is {value}; it is {least} to {most}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// What it is at least.
        least: u64,
        /// What it is at most.
        most: u64,
    },
}

/// A packet before the service, with what the datapath knows of it.
struct Packet {
    frame: Vec<u8>,
    key: Key,
    layout: Layout,
}

impl Bench {
    /// The settings; a transcoder that was given no key has one that nobody knows, as it is measured only.
    fn settings_with_key(&self) -> serde_json::Value {
        let mut settings = self.settings.clone();
        if let Some(settings) = settings.as_object_mut()
            && self.kind == "transcoder"
            && !settings.contains_key("key")
            && !settings.contains_key("key_file")
        {
            let [high, low] = [drawn(), drawn()];
            settings.insert("key".to_owned(), format!("{high:016x}{low:016x}").into());
        }
        settings
    }

    /// Measures.
    ///
    /// # Errors
    /// A kind that is not there, settings or numbers that make no sense.
    pub fn run(&self) -> Result<Benched, BenchError> {
        self.check()?;
        let known = || SERVICES.iter().map(|service| service.kind).collect::<Vec<_>>().join(", ");
        let kind = || BenchError::Kind { kind: self.kind.clone(), known: known() };
        let registration = registered(&self.kind).ok_or_else(kind)?;
        let settings = self.settings_with_key();
        let config = GroupConfig { name: &self.kind, settings: &settings, workers: 1, seed: 1 };
        let group = (registration.build)(&config)?;
        let mut host = Host::named(&self.kind, group, 0, Limits::default());
        let rounds = self.rounds as usize;
        let bursts = match self.work {
            Work::Again => (self.connections as usize).div_ceil(BURST),
            Work::New => (self.connections as usize).div_ceil(BURST * rounds),
        };
        let mut burst;
        let mut known: Vec<Vec<Packet>> = match self.work {
            Work::Again => (0..bursts).map(|burst| self.packets(burst)).collect(),
            Work::New => Vec::new(),
        };
        let (start, clock) = (Ticks::now(), Instant::now());
        let (mut now, mut dropped) = (Nanos(0), 0);
        let mut cycles = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let mut spent = 0;
            for number in 0..bursts {
                let packets = match known.get_mut(number) {
                    Some(packets) => packets,
                    None => {
                        burst = self.packets(round * bursts + number);
                        &mut burst
                    }
                };
                now.0 += PACE.0;
                let (took, lost) = call(&mut host, packets, self.argument, now);
                spent += took;
                dropped += lost;
            }
            cycles.push(spent as f64 / (bursts * BURST) as f64);
        }
        let packets = (bursts * BURST) as u64;
        Ok(Benched {
            schema: BENCH_SCHEMA,
            kind: self.kind.clone(),
            work: self.work,
            payload: self.payload,
            connections: (packets * if self.work == Work::New { rounds as u64 } else { 1 }) as u32,
            packets,
            tsc_hz: Ticks::now().since(start) as f64 / clock.elapsed().as_secs_f64(),
            dropped,
            cycles,
        })
    }

    fn check(&self) -> Result<(), BenchError> {
        let range = |what, value: u64, least: u64, most: u64| {
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(BenchError::Range { what, value, least, most }) }
        };
        range("payload", self.payload.into(), 0, MOST_PAYLOAD.into())?;
        range("connections", self.connections.into(), 1, MOST_CONNECTIONS.into())?;
        range("rounds", self.rounds.into(), 1, 100_000)
    }

    /// The packets of a burst.
    fn packets(&self, burst: usize) -> Vec<Packet> {
        let flags = if self.work == Work::New { tcp::flags::SYN } else { tcp::flags::ACK };
        let first = (burst * BURST) as u32;
        (first..first + BURST as u32).map(|number| packet(number, flags, self.payload)).collect()
    }
}

/// Hands a burst to the service. Returns the cycles it took and the packets it dropped.
fn call(host: &mut Host, packets: &mut [Packet], argument: u32, now: Nanos) -> (u64, u64) {
    let mut slots: Vec<Slot<'_>> = packets
        .iter_mut()
        .map(|packet| Slot {
            frame: &mut packet.frame,
            layout: packet.layout,
            key: &mut packet.key,
            argument,
            arguments: &[],
            tracking: None,
            metadata: 0,
            memo: Memo::NOWHERE,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        })
        .collect();
    let start = Ticks::now();
    host.process(&mut slots, now);
    let took = Ticks::now().since(start);
    (took, slots.iter().filter(|slot| slot.verdict != Verdict::Pass).count() as u64)
}

/// The packet of a connection: clients are spread over addresses and ports, so that no two connections
/// are neighbours.
fn packet(number: u32, flags: u8, payload: u16) -> Packet {
    let spread = number.wrapping_mul(0x9e37_79b1) & (MOST_CONNECTIONS - 1);
    let (source, destination) =
        (Ipv4Addr::from_bits(0x0a00_0000 | spread >> 14), Ipv4Addr::new(198, 18, 0, 1));
    let segment = TcpRepr::BYTES + usize::from(payload);
    let mut frame = vec![0; EthernetRepr::BYTES + Ipv4Repr::BYTES + segment];
    EthernetRepr {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        ether_type: EtherType::IPV4,
    }
    .emit(&mut frame);
    let (network, transport) = frame[EthernetRepr::BYTES..].split_at_mut(Ipv4Repr::BYTES);
    Ipv4Repr { source, destination, protocol: 6, ttl: 64, payload_len: segment as u16 }.emit(network);
    let repr = TcpRepr {
        source: 1024 + (spread & 0x3fff) as u16,
        destination: 443,
        sequence: 1,
        acknowledgement: 1,
        flags,
        window: 8192,
    };
    for (place, byte) in transport[TcpRepr::BYTES..].iter_mut().enumerate() {
        *byte = place as u8;
    }
    repr.emit(transport, pseudo_ipv4(source, destination, 6, segment as u16));
    frame.resize(frame.len().max(60), 0);
    let mut key = Key::new();
    let layout = extract(&frame, 1, &mut key);
    Packet { frame, key, layout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bench(kind: &str, work: Work) -> Bench {
        let settings = json!({});
        Bench { kind: kind.into(), settings, argument: 1, payload: 100, connections: 320, work, rounds: 5 }
    }

    #[test]
    fn every_round_says_what_a_packet_cost() {
        let again = bench("transcoder", Work::Again).run().unwrap();
        assert_eq!((again.cycles.len(), again.packets, again.connections), (5, 320, 320));
        assert!(again.cycles.iter().all(|cycles| *cycles > 0.0) && again.tsc_hz > 1e6, "{again:?}");
        let new = bench("conntrack", Work::New).run().unwrap();
        assert_eq!((new.cycles.len(), new.packets, new.connections), (5, 64, 320));
    }

    #[test]
    fn a_service_that_drops_is_measured_and_says_how_much_it_dropped() {
        // A balancer without backends has nowhere to send a packet.
        let settings = json!({ "mode": "consistent", "backends": [] });
        let dropping = Bench { settings, ..bench("balancer", Work::Again) }.run().unwrap();
        assert_eq!(dropping.dropped, 320 * 5, "{dropping:?}");
        assert!(dropping.cycles.iter().all(|cycles| *cycles > 0.0));
        assert_eq!(bench("conntrack", Work::New).run().unwrap().dropped, 0);
    }

    #[test]
    fn no_two_connections_are_the_same() {
        let ends = |number| {
            let packet = packet(number, tcp::flags::SYN, 0);
            packet.frame[26..38].to_vec()
        };
        let all: std::collections::HashSet<_> = (0..100_000).map(ends).collect();
        assert_eq!(all.len(), 100_000);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let says = |bench: Bench| bench.run().unwrap_err().to_string();
        assert!(says(bench("teleporter", Work::Again)).contains("conntrack"));
        let none = Bench { rounds: 0, ..bench("noop", Work::Again) };
        assert!(says(none).contains("rounds is 0; it is 1 to"));
        let full = json!({ "connections": 100, "half_open": 100 });
        let wrong = Bench { settings: json!({ "connection": 1 }), ..bench("conntrack", Work::New) };
        assert!(says(wrong).contains("connection"));
        assert!(
            Bench { settings: full, ..bench("conntrack", Work::New) }.run().is_ok(),
            "the oldest make room"
        );
    }
}

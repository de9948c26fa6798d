//! `balancer`: assigns connections to buckets (`least-loaded`) or to backends (`consistent`) and writes
//! the choice to `sf_metadata`, which the tables behind it turn into addresses and ports.
//!
//! A connection is assigned by its first packet and stays where it is: both directions, until it was
//! idle for [`Settings::idle_seconds`]. In mode `consistent` it stays with its backend whatever becomes
//! of the table, as long as that backend is there; when it goes, its connections are assigned anew, and
//! only they. As the choice depends on more than the packet's headers, packets are never coalesced.
//!
//! Each worker remembers its own connections, at most [`Settings::connections`]; ones beyond are placed
//! by their hash alone, packet by packet (counted as `untracked`). What an instance remembers is lost
//! when it is built anew after a panic: in mode `consistent` connections then come to the same backends
//! if the table has not changed since.
//!
//! Commands: `set-backends` with a list of backends as in the configuration replaces them at run time;
//! `backends` shows them; `dump` shows where one worker's connections are; `flush` forgets them.
//!
//! Cost: a hash and one cache line a packet, fetched ahead for the burst; a new connection a second line
//! and, in mode `least-loaded`, a look at all buckets. No allocation on the packet path.

mod connections;
mod consistent;
mod identity;
mod least;
mod maglev;

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, Verdict, one_number, schema};
use connections::{Connections, Second};
use consistent::{Backend, Backends, Consistent};
use identity::fingerprint;
use least::{Least, Loads};
use serde_json::{Value, json};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_flow::Seed;
use weir_packet::DropReason;
use weir_units::Nanos;

/// Packets whose connections are looked for together.
const TOGETHER: usize = 32;

const MOST_BUCKETS: u32 = 4096;
const MOST_CONNECTIONS: u32 = 1 << 26;
const LARGEST_TABLE: u32 = 10_000_019;

/// The kind.
pub(crate) const BALANCER: Registration = Registration {
    kind: "balancer",
    about: "assigns each connection to a bucket or backend, and writes its number to sf_metadata",
    rewrites: &[],
    coalesces: false,
    by_flow: true,
    members: &[],
    arguments: one_number,
    schema: schema::<Settings>,
    build,
};

/// How a place for a new connection is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// The bucket that took the fewest bytes.
    #[default]
    LeastLoaded,
    /// The backend that its hash belongs to.
    Consistent,
}

/// What can be set.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// How a place for a new connection is found.
    mode: Mode,
    /// Buckets, 1 to 4096; mode `least-loaded`.
    #[schemars(range(min = 1, max = MOST_BUCKETS))]
    buckets: u32,
    /// Connections that each worker remembers at most, 1 to 67108864; each takes 32 to 64 bytes.
    #[schemars(range(min = 1, max = MOST_CONNECTIONS))]
    connections: u32,
    /// Seconds without a packet after which a connection is forgotten.
    #[schemars(range(min = 1))]
    idle_seconds: u32,
    /// Slots of the lookup table: a prime number, at least a hundred for each backend; mode
    /// `consistent`.
    #[schemars(range(min = 101, max = LARGEST_TABLE))]
    table: u32,
    /// Where connections go; mode `consistent`.
    backends: Vec<Backend>,
    /// Switches with the same seed and backends choose alike; drawn at each start if not given.
    seed: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::LeastLoaded,
            buckets: 8,
            connections: 65_536,
            idle_seconds: 300,
            table: 65_537,
            backends: Vec::new(),
            seed: None,
        }
    }
}

/// What the instances share.
enum Shared {
    Least(Arc<Loads>),
    Consistent(Arc<Backends>),
}

struct BalancerGroup {
    settings: Settings,
    seed: Seed,
    shared: Shared,
}

fn in_range(
    config: &GroupConfig<'_>,
    name: &str,
    given: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<(), ConfigError> {
    if range.contains(&given) {
        return Ok(());
    }
    Err(config.error(format!("`{name}` must be {} to {}, not {given}", range.start(), range.end())))
}

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    in_range(config, "buckets", settings.buckets, 1..=MOST_BUCKETS)?;
    in_range(config, "connections", settings.connections, 1..=MOST_CONNECTIONS)?;
    in_range(config, "idle_seconds", settings.idle_seconds, 1..=u32::MAX)?;
    in_range(config, "table", settings.table, 101..=LARGEST_TABLE)?;
    let seed = Seed::new(settings.seed.unwrap_or(config.seed));
    let shared = match settings.mode {
        Mode::LeastLoaded if !settings.backends.is_empty() => {
            return Err(config.error(
                "`backends` are for mode \"consistent\"; in mode \"least-loaded\" flow entries behind the \
                 balancer map its buckets to backends",
            ));
        }
        Mode::LeastLoaded => Shared::Least(Arc::new(Loads::new(settings.buckets as usize, config.workers))),
        Mode::Consistent => {
            let backends = Backends::new(settings.table, seed, settings.backends.clone());
            Shared::Consistent(Arc::new(backends.map_err(|reason| config.error(reason))?))
        }
    };
    Ok(Arc::new(BalancerGroup { settings, seed, shared }))
}

impl Group for BalancerGroup {
    fn instance(&self, worker: usize) -> Box<dyn Service> {
        let Settings { connections, idle_seconds, .. } = self.settings;
        let connections = Connections::new(connections as usize, idle_seconds);
        let (seed, counts) = (self.seed, Counts::default());
        match &self.shared {
            Shared::Least(loads) => {
                let choice = Least::new(Arc::clone(loads), worker);
                Box::new(Balancer { connections, seed, counts, choice })
            }
            Shared::Consistent(backends) => {
                let choice = Consistent::new(Arc::clone(backends));
                Box::new(Balancer { connections, seed, counts, choice })
            }
        }
    }

    fn idle_seconds(&self) -> u32 {
        self.settings.idle_seconds
    }

    fn command(&self, command: &str, argument: &Value) -> Option<Result<Value, String>> {
        match (command, &self.shared) {
            ("set-backends", Shared::Consistent(backends)) => Some(set_backends(backends, argument)),
            ("backends", Shared::Consistent(backends)) => Some(Ok(backends.list())),
            ("set-backends" | "backends", Shared::Least(_)) => Some(Err(format!(
                "`{command}` is for mode \"consistent\", and this balancer is in mode \"least-loaded\""
            ))),
            _ => None,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn set_backends(backends: &Backends, argument: &Value) -> Result<Value, String> {
    let example = r#"[{"name": "web1", "weight": 1, "state": "up"}]"#;
    let list = serde_json::from_value(argument.clone())
        .map_err(|error| format!("set-backends: {error}; it wants a list as {example}"))?;
    backends.set(list)?;
    Ok(backends.list())
}

/// A mode: what decides where a connection goes. Places are numbers, written to `sf_metadata`.
trait Choice: Send {
    /// A burst begins.
    fn begin(&mut self);
    /// Whether connections may stay at a place.
    fn lives(&self, home: u32) -> bool;
    /// The place for a new connection.
    fn choose(&mut self, fingerprint: u64) -> Option<u32>;
    /// The place for one that cannot be remembered: always the same while nothing else changes.
    fn steady(&self, fingerprint: u64) -> Option<u32>;
    /// A packet goes to a place.
    fn carry(&mut self, home: u32, bytes: u64);
    /// The places, given how many connections each has.
    fn dump(&self, connections: &dyn Fn(u32) -> u64) -> Value;
}

#[derive(Default)]
struct Counts {
    new: u64,
    moved: u64,
    untracked: u64,
    nowhere: u64,
}

struct Balancer<C> {
    connections: Connections,
    seed: Seed,
    counts: Counts,
    choice: C,
}

impl<C: Choice> Balancer<C> {
    /// Where a packet's connection goes.
    #[inline]
    fn place(&mut self, fingerprint: u64, now: Second) -> Option<u32> {
        if let Some(home) = self.connections.find(fingerprint, now) {
            if !self.choice.lives(*home) {
                *home = self.choice.choose(fingerprint)?;
                self.counts.moved += 1;
            }
            return Some(*home);
        }
        let home = self.choice.choose(fingerprint)?;
        if self.connections.insert(fingerprint, home, now) {
            self.counts.new += 1;
            return Some(home);
        }
        self.counts.untracked += 1;
        self.choice.steady(fingerprint)
    }
}

impl<C: Choice> Service for Balancer<C> {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        self.choice.begin();
        let now = Second::from(burst.now);
        let mut prints = [0; TOGETHER];
        while burst.taken() < burst.len() {
            let waiting = &burst.peek()[burst.taken()..];
            let together = waiting.len().min(TOGETHER);
            for (print, slot) in prints.iter_mut().zip(waiting) {
                *print = fingerprint(slot.key, self.seed);
                self.connections.prefetch(*print);
            }
            for &print in &prints[..together] {
                let Some(slot) = burst.next() else { return };
                slot.coalesce = false;
                match self.place(print, now) {
                    Some(home) => {
                        slot.metadata = home;
                        self.choice.carry(home, slot.frame.len() as u64);
                    }
                    None => {
                        slot.verdict = Verdict::Drop(DropReason::ByService);
                        self.counts.nowhere += 1;
                    }
                }
            }
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.connections.sweep(now.into());
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("connections", self.connections.len() as u64),
            ("new", self.counts.new),
            ("moved", self.counts.moved),
            ("expired", self.connections.expired),
            ("untracked_packets", self.counts.untracked),
            ("without_backend", self.counts.nowhere),
        ]
    }

    fn command(&mut self, command: &str, _argument: &Value) -> Result<Value, String> {
        match command {
            "dump" => {
                let mut homes = BTreeMap::<u32, u64>::new();
                for home in self.connections.homes() {
                    *homes.entry(home).or_default() += 1;
                }
                Ok(self.choice.dump(&|home| homes.get(&home).copied().unwrap_or(0)))
            }
            "flush" => {
                let forgotten = self.connections.len();
                self.connections.clear();
                Ok(json!({ "forgotten": forgotten }))
            }
            _ => Err(format!(
                "a balancer has no command `{command}`; it knows `dump`, `flush`, and in mode \
                 \"consistent\" `backends` and `set-backends`"
            )),
        }
    }

    fn memory(&self) -> usize {
        self.connections.bytes()
    }
}

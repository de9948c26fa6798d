//! `consistent`: a connection goes to a backend by its hash, and stays with it.
//!
//! The table that says which backend a hash belongs to is the group's ([`Backends`]). It is computed on
//! the thread that sets the backends and published by a version number; an instance reads that number
//! once a burst and takes the new table when it has changed: one uncontended lock then, none otherwise.
//!
//! Backends keep their number (`sf_metadata`) by name as long as the switch runs, also while they are
//! gone, so that the tables' rules behind the balancer stay right whatever else comes and goes.

use super::{Choice, maglev};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_flow::Seed;

/// The most backends over the switch's life: numbers are 16 bits wide.
const MOST_BACKENDS: usize = 65_535;

/// The largest weight: the table is filled in as many rounds a slot.
pub(super) const MOST_WEIGHT: u32 = 1000;

/// What a backend may do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Takes connections.
    #[default]
    Up,
    /// Keeps those it has and takes no new ones.
    Draining,
    /// Takes none, and those it had go elsewhere.
    Down,
}

/// A backend, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    /// Its name, which decides its place in the table.
    name: String,
    /// Its share against that of others, 1 to 1000.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_WEIGHT))]
    weight: u32,
    /// What it may do.
    #[serde(default)]
    state: State,
}

const fn one() -> u32 {
    1
}

/// What is published to instances.
struct Table {
    version: u64,
    slots: Vec<u16>,
    /// By number: whether connections may stay there.
    lives: Vec<bool>,
}

struct Known {
    list: Vec<Backend>,
    numbers: BTreeMap<String, u16>,
    table: Arc<Table>,
}

/// The backends of a group.
pub(super) struct Backends {
    size: u32,
    seed: Seed,
    version: AtomicU64,
    known: Mutex<Known>,
}

impl Backends {
    /// Backends over a table of so many slots.
    pub(super) fn new(size: u32, seed: Seed, list: Vec<Backend>) -> Result<Self, String> {
        if !maglev::is_prime(size) {
            let next = (size..).find(|&size| maglev::is_prime(size)).unwrap_or(65_537);
            return Err(format!("`table` must be a prime number, not {size}; the next one is {next}"));
        }
        let table = Arc::new(Table { version: 0, slots: Vec::new(), lives: Vec::new() });
        let known = Mutex::new(Known { list: Vec::new(), numbers: BTreeMap::new(), table });
        let backends = Self { size, seed, version: AtomicU64::new(0), known };
        backends.set(list)?;
        Ok(backends)
    }

    /// A lock that a panic cannot have left with half a change: all changes are made at the end.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the backends, for all instances, from their next burst on.
    pub(super) fn set(&self, list: Vec<Backend>) -> Result<(), String> {
        check(&list, self.size)?;
        let mut known = self.lock();
        if known.list == list && known.table.version > 0 {
            return Ok(());
        }
        let mut numbers = known.numbers.clone();
        for backend in &list {
            let next = numbers.len();
            if !numbers.contains_key(&backend.name) {
                if next >= MOST_BACKENDS {
                    return Err(format!("more than {MOST_BACKENDS} names of backends since the start"));
                }
                numbers.insert(backend.name.clone(), next as u16);
            }
        }
        let mut lives = vec![false; numbers.len()];
        let mut up = Vec::new();
        for backend in &list {
            let number = numbers[&backend.name];
            lives[usize::from(number)] = backend.state != State::Down;
            if backend.state == State::Up {
                up.push((number, backend.name.as_str(), backend.weight));
            }
        }
        let version = known.table.version + 1;
        let slots = maglev::fill(self.size, &up, self.seed);
        *known = Known { table: Arc::new(Table { version, slots, lives }), numbers, list };
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    /// The backends, as they are.
    pub(super) fn list(&self) -> Value {
        let known = self.lock();
        let backends: Vec<Value> = known
            .list
            .iter()
            .map(|backend| {
                let number = known.numbers[&backend.name];
                let slots = known.table.slots.iter().filter(|&&owner| owner == number).count();
                json!({
                    "name": backend.name, "metadata": number, "weight": backend.weight,
                    "state": backend.state, "slots": slots,
                })
            })
            .collect();
        json!({ "backends": backends })
    }

    fn names(&self) -> BTreeMap<String, u16> {
        self.lock().numbers.clone()
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.lock().table)
    }
}

fn check(list: &[Backend], size: u32) -> Result<(), String> {
    if list.len() * 100 > size as usize {
        let count = list.len();
        let least = count * 100;
        return Err(format!(
            "{count} backends need a `table` of at least {least} slots for even shares, not {size}"
        ));
    }
    let mut names = BTreeSet::new();
    for (at, backend) in list.iter().enumerate() {
        let Backend { name, weight, .. } = backend;
        if name.is_empty() {
            return Err(format!("backend {at} has no name; give it one"));
        }
        if !(1..=MOST_WEIGHT).contains(weight) {
            return Err(format!("backend `{name}`: `weight` must be 1 to {MOST_WEIGHT}, not {weight}"));
        }
        if !names.insert(name) {
            return Err(format!("two backends are named `{name}`; names must differ"));
        }
    }
    Ok(())
}

/// One worker's choice.
pub(super) struct Consistent {
    backends: Arc<Backends>,
    table: Arc<Table>,
}

impl Consistent {
    pub(super) fn new(backends: Arc<Backends>) -> Self {
        Self { table: backends.table(), backends }
    }
}

impl Choice for Consistent {
    #[inline]
    fn begin(&mut self) {
        if self.backends.version.load(Ordering::Acquire) != self.table.version {
            self.table = self.backends.table();
        }
    }

    #[inline]
    fn lives(&self, home: u32) -> bool {
        self.table.lives.get(home as usize).is_some_and(|&lives| lives)
    }

    fn choose(&mut self, fingerprint: u64) -> Option<u32> {
        self.steady(fingerprint)
    }

    #[inline]
    fn steady(&self, fingerprint: u64) -> Option<u32> {
        let slots = &self.table.slots;
        let slot = ((u128::from(fingerprint) * slots.len() as u128) >> 64) as usize;
        slots.get(slot).map(|&number| u32::from(number))
    }

    fn carry(&mut self, _home: u32, _bytes: u64) {}

    fn dump(&self, connections: &dyn Fn(u32) -> u64) -> Value {
        let backends: Vec<Value> = self
            .backends
            .names()
            .into_iter()
            .map(|(name, number)| {
                let number = u32::from(number);
                json!({"name": name, "metadata": number, "connections": connections(number)})
            })
            .collect();
        json!({ "backends": backends })
    }
}

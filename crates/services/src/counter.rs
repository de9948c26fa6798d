//! `counter`: counts packets and bytes by its argument, exactly.
//!
//! Every instance counts for itself; the sum over workers is the group's count. Bytes are those of the
//! frame without FCS. Arguments are told apart as long as there is room ([`Settings::arguments`]);
//! packets of further ones are counted together, as `other`, so that the sum stays exact.
//!
//! A second argument is a text, which `dump` shows beside the number's counts: `softflow:counter:7:"web"`. It tells nothing apart; the text
//! shown is that of the packet that was counted last.
//!
//! Commands: `dump` answers with all counts, rising by argument; `clear` answers the same and makes them
//! zero.
//!
//! Cost: an add to a row that is in the cache; packets of one flow have one argument, so that looking up
//! its row is mostly a comparison with the last one.

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, schema};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;
use weir_openflow::Argument;

/// The most arguments that may be asked for.
const MOST_ARGUMENTS: u32 = 1 << 20;

/// The kind.
pub(crate) const COUNTER: Registration = Registration {
    kind: "counter",
    about: "counts packets and bytes by argument",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments,
    schema: schema::<Settings>,
    build,
};

/// What can be set.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Distinct arguments that are counted apart, 1 to 1048576.
    #[schemars(range(min = 1, max = MOST_ARGUMENTS))]
    arguments: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { arguments: 1024 }
    }
}

/// A number, and a text to show beside its counts.
fn arguments(arguments: &[Argument]) -> Result<(), String> {
    match arguments {
        [Argument::Number(_)] | [Argument::Number(_), Argument::Text(_)] => Ok(()),
        _ => Err("a counter takes a number, and a text to show beside its counts".to_owned()),
    }
}

struct Counters(Settings);

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    if !(1..=MOST_ARGUMENTS).contains(&settings.arguments) {
        let given = settings.arguments;
        return Err(config.error(format!("`arguments` must be 1 to {MOST_ARGUMENTS}, not {given}")));
    }
    Ok(Arc::new(Counters(settings)))
}

impl Group for Counters {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        Box::new(Counter::new(self.0.arguments as usize))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One argument's counts; free when `packets` is zero.
#[derive(Clone, Default)]
struct Row {
    argument: u32,
    /// What is shown beside it.
    text: Option<Arc<str>>,
    packets: u64,
    bytes: u64,
}

/// A hash table with open addressing, at most half full, so that a free row ends every search.
struct Counter {
    rows: Vec<Row>,
    used: usize,
    room: usize,
    last: usize,
    other: Row,
}

impl Counter {
    fn new(room: usize) -> Self {
        let rows = vec![Row::default(); (2 * room).next_power_of_two()];
        Self { rows, used: 0, room, last: 0, other: Row::default() }
    }

    /// The row of an argument: its own, a free one, or the one of all others.
    #[inline]
    fn row(&mut self, argument: u32) -> &mut Row {
        let last = &self.rows[self.last];
        if last.argument != argument || last.packets == 0 {
            match self.find(argument) {
                Some(at) => self.last = at,
                None => return &mut self.other,
            }
        }
        &mut self.rows[self.last]
    }

    fn find(&mut self, argument: u32) -> Option<usize> {
        let mask = self.rows.len() - 1;
        // Fibonacci hashing; whoever writes the flows chooses the arguments, so no key is needed.
        let mut at = (u64::from(argument).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let row = &mut self.rows[at];
            if row.packets == 0 {
                if self.used == self.room {
                    return None;
                }
                self.used += 1;
                row.argument = argument;
                return Some(at);
            }
            if row.argument == argument {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn counted(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.packets != 0)
    }

    fn dump(&self) -> Value {
        let mut rows: Vec<&Row> = self.counted().collect();
        rows.sort_unstable_by_key(|row| row.argument);
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                let mut counts =
                    json!({"argument": row.argument, "packets": row.packets, "bytes": row.bytes});
                if let Some(text) = &row.text {
                    counts["text"] = (**text).into();
                }
                counts
            })
            .collect();
        json!({"arguments": rows, "other": {"packets": self.other.packets, "bytes": self.other.bytes}})
    }
}

impl Service for Counter {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        while let Some(slot) = burst.next() {
            let row = self.row(slot.argument);
            row.packets += 1;
            row.bytes += slot.frame.len() as u64;
            if let [_, Argument::Text(text)] = slot.arguments
                && row.text.as_ref().is_none_or(|known| !Arc::ptr_eq(known, text))
            {
                row.text = Some(Arc::clone(text));
            }
            slot.coalesce = true;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: fn(&Row) -> u64| self.counted().map(of).sum::<u64>() + of(&self.other);
        vec![
            ("packets", sum(|row| row.packets)),
            ("bytes", sum(|row| row.bytes)),
            ("arguments", self.used as u64),
            ("other_packets", self.other.packets),
        ]
    }

    fn command(&mut self, command: &str, _argument: &Value) -> Result<Value, String> {
        match command {
            "dump" => Ok(self.dump()),
            "clear" => {
                let counts = self.dump();
                *self = Self::new(self.room);
                Ok(counts)
            }
            _ => Err(format!("a counter has no command `{command}`; it knows `dump` and `clear`")),
        }
    }

    fn memory(&self) -> usize {
        size_of_val(self.rows.as_slice())
    }
}

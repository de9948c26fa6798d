//! What `weir switch --control stdio` answers, as far as the lab reads it.
//!
//! Counts beside `received` and `sent` are kept under the names that the switch gives them, those of an
//! object behind the object's name; lists (a row a worker or port) are its own affair. `states` are what it holds now.

use crate::PortCounts;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Objects in objects that are looked into.
const DEPTH: u8 = 3;

/// Numbers that count nothing since the start.
const NO_COUNTS: [&str; 3] = ["schema", "tsc", "held"];

/// The first line.
#[derive(Debug, Deserialize)]
pub(super) struct Ready {
    pub(super) ready: bool,
    pub(super) tid: Threads,
    pub(super) version: String,
}

/// The workers' threads.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Threads {
    One(u32),
    All(Vec<u32>),
}

impl From<Threads> for Vec<u32> {
    fn from(threads: Threads) -> Self {
        match threads {
            Threads::One(thread) => vec![thread],
            Threads::All(threads) => threads,
        }
    }
}

/// The answer to `stats`.
#[derive(Debug, Deserialize)]
pub(super) struct Stats {
    pub(super) received: u64,
    pub(super) sent: u64,
    #[serde(default)]
    ports: Vec<PortCounts>,
    /// What it holds now.
    #[serde(default)]
    pub(super) states: BTreeMap<String, u64>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl Stats {
    /// By port, in the order of the command line.
    pub(super) fn ports(&self) -> Vec<PortCounts> {
        self.ports.clone()
    }

    /// Every other count, by its name.
    pub(super) fn details(&self) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        self.rest.iter().for_each(|(name, value)| collect(name, value, DEPTH, &mut found));
        found.retain(|name, _| !NO_COUNTS.contains(&name.as_str()));
        found
    }
}

fn collect(name: &str, value: &Value, depth: u8, found: &mut BTreeMap<String, u64>) {
    match value {
        Value::Number(number) => found.extend(number.as_u64().map(|number| (name.to_owned(), number))),
        Value::Object(fields) if depth > 0 => {
            fields
                .iter()
                .for_each(|(field, value)| collect(&format!("{name} {field}"), value, depth - 1, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_or_several_are_read() {
        let threads = |text: &str| Vec::from(serde_json::from_str::<Ready>(text).unwrap().tid);
        assert_eq!(threads(r#"{"ready":true,"tid":7,"version":"weir 1"}"#), [7]);
        assert_eq!(threads(r#"{"ready":true,"tid":[7,8],"version":"weir 1","more":1}"#), [7, 8]);
    }

    #[test]
    fn counts_are_kept_by_name_and_the_rest_is_passed_over() {
        let text = r#"{"schema":1,"tsc":77,"held":0,"received":9,"sent":7,"dropped":2,"caches":{"exact":5,"mega":{"hits":3}},
                       "workers":[{"received":9}],"version":"weir 1","share":0.5,"owed":-1,"states":{"megaflows":258}}"#;
        let stats: Stats = serde_json::from_str(text).unwrap();
        assert_eq!((stats.received, stats.sent), (9, 7));
        let details: Vec<(String, u64)> = stats.details().into_iter().collect();
        let expected = [("caches exact", 5), ("caches mega hits", 3), ("dropped", 2)];
        assert_eq!(details, expected.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(stats.states["megaflows"], 258);
    }
}

//! Which cores a DUT's forwarding processes have.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// What stands before listed cores where they are written as one word: `on:1+2`.
const ON: &str = "on:";

/// The greatest number of a core, and the most of them.
const MOST: u32 = 4_095;

/// Who has which core. As text `own`, `shared`, a number of cores (`3`), or these cores (`on:1+2`); in a plan and in
/// stored runs the last two are a number and a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CoreUse {
    /// Each forwarding process has a core of its own.
    #[default]
    Own,
    /// All forwarding processes take turns on one core.
    Shared,
    /// They have so many cores, dealt out in turn, the host first.
    Count(u32),
    /// They have these cores, dealt out in turn, the host first.
    On(Vec<u32>),
}

/// What says nothing about cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no use of cores; write \"own\", \"shared\", a number of cores (2), or a list of them ([1, 2], as one word \"on:1+2\")"
)]
pub struct CoreUseError(String);

impl CoreUse {
    /// The words that stand for themselves.
    pub const WORDS: [&'static str; 2] = ["own", "shared"];

    /// How many cores there are to be, where that is said.
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Self::Own | Self::Shared => None,
            Self::Count(count) => Some(*count as usize),
            Self::On(cores) => Some(cores.len()),
        }
    }

    /// So many cores.
    fn count(number: u64) -> Result<Self, CoreUseError> {
        let count = u32::try_from(number).ok().filter(|count| (1..=MOST).contains(count));
        count.map(Self::Count).ok_or_else(|| CoreUseError(number.to_string()))
    }

    /// These cores: some, none twice.
    fn on(cores: &[u64]) -> Result<Self, CoreUseError> {
        let wrong = || CoreUseError(format!("{cores:?}"));
        let mut on = Vec::new();
        for core in cores {
            let core = u32::try_from(*core).ok().filter(|core| *core <= MOST && !on.contains(core));
            on.push(core.ok_or_else(wrong)?);
        }
        if on.is_empty() { Err(wrong()) } else { Ok(Self::On(on)) }
    }
}

impl fmt::Display for CoreUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.pad("own"),
            Self::Shared => f.pad("shared"),
            Self::Count(count) => f.pad(&count.to_string()),
            Self::On(cores) => f.pad(&format!("{ON}{}", joined(cores))),
        }
    }
}

/// Cores as they stand in a name: `1+2`.
pub(crate) fn joined(cores: &[u32]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

impl FromStr for CoreUse {
    type Err = CoreUseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || CoreUseError(text.to_owned());
        match (text, text.strip_prefix(ON)) {
            ("own", _) => Ok(Self::Own),
            ("shared", _) => Ok(Self::Shared),
            (_, Some(cores)) => {
                let cores: Result<Vec<u64>, _> = cores.split('+').map(str::parse).collect();
                Self::on(&cores.map_err(|_| wrong())?).map_err(|_| wrong())
            }
            _ => Self::count(text.parse().map_err(|_| wrong())?).map_err(|_| wrong()),
        }
    }
}

impl Serialize for CoreUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Own | Self::Shared => serializer.collect_str(self),
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::On(cores) => cores.serialize(serializer),
        }
    }
}

struct CoreUseVisitor;

impl<'de> Visitor<'de> for CoreUseVisitor {
    type Value = CoreUse;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"own\", \"shared\", a number of cores, or a list of them")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<CoreUse, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<CoreUse, E> {
        CoreUse::count(number).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<CoreUse, E> {
        u64::try_from(number)
            .map_err(|_| CoreUseError(number.to_string()))
            .and_then(CoreUse::count)
            .map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CoreUse, A::Error> {
        let mut cores = Vec::new();
        while let Some(core) = list.next_element::<u64>()? {
            cores.push(core);
        }
        CoreUse::on(&cores).map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for CoreUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CoreUseVisitor)
    }
}

impl JsonSchema for CoreUse {
    fn schema_name() -> Cow<'static, str> {
        "CoreUse".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Who has which core: each forwarding process its own; all of them one; so many; or these, dealt out in turn, the host first.",
            "anyOf": [
                { "enum": Self::WORDS },
                { "type": "integer", "minimum": 1, "maximum": MOST },
                {
                    "type": "array",
                    "items": { "type": "integer", "minimum": 0, "maximum": MOST },
                    "minItems": 1,
                    "uniqueItems": true
                },
                { "type": "string", "pattern": "^(on:[0-9]+(\\+[0-9]+)*|[0-9]+)$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_cores_are_read_and_printed_as_text_and_stored_as_numbers() {
        for (text, json, one) in [
            ("own", "\"own\"", CoreUse::Own),
            ("shared", "\"shared\"", CoreUse::Shared),
            ("3", "3", CoreUse::Count(3)),
            ("on:2", "[2]", CoreUse::On(vec![2])),
            ("on:2+1", "[2,1]", CoreUse::On(vec![2, 1])),
        ] {
            assert_eq!((text.parse().as_ref(), one.to_string().as_str()), (Ok(&one), text));
            assert_eq!(serde_json::to_string(&one).unwrap(), json);
            assert_eq!(serde_json::from_str::<CoreUse>(json).unwrap(), one);
        }
    }

    #[test]
    fn what_is_no_use_of_cores_is_refused_with_what_may_be_written() {
        for text in ["", "0", "-1", "on:", "on:1+1", "on:a", "on:1+", "5000", "on:9999", "mine"] {
            let error = text.parse::<CoreUse>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("[1, 2]"), "{error}");
        }
        for json in ["0", "-1", "[]", "[1, 1]", "[-1]", "1.5", "true", "\"mine\""] {
            assert!(serde_json::from_str::<CoreUse>(json).is_err(), "{json}");
        }
    }
}

//! Offloads of a device's interfaces: work that the kernel leaves to a network card, or does for several packets at
//! once.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// An offload, by the name that `ethtool -K` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Offload {
    /// Checksums of received packets.
    Rx,
    /// Checksums of sent packets.
    Tx,
    /// Packets sent from several pieces of memory.
    Sg,
    /// TCP segments cut by the card.
    Tso,
    /// Packets cut as late as possible, by the kernel.
    Gso,
    /// Received packets of a flow joined to larger ones.
    Gro,
}

impl Offload {
    /// Every offload, those first on which others depend.
    pub const ALL: [Self; 6] = [Self::Rx, Self::Tx, Self::Sg, Self::Tso, Self::Gso, Self::Gro];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
            Self::Sg => "sg",
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
        }
    }
}

/// Which offloads are on and which are off; those that are not named stay as they are. As text `gro=on+tso=off`, or
/// `as-is`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Offloads(BTreeMap<Offload, bool>);

/// The word for none that is named.
const AS_IS: &str = "as-is";

/// What names no offloads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` says nothing of offloads; write {{ gro = true, tso = false }}, as one word \"gro=on+tso=off\", of rx, tx, sg, tso, gso and gro, or \"as-is\""
)]
pub struct OffloadsError(String);

impl Offloads {
    /// Whether all stay as they are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is named, those first on which others depend.
    pub fn iter(&self) -> impl Iterator<Item = (Offload, bool)> + '_ {
        self.0.iter().map(|(offload, on)| (*offload, *on))
    }
}

impl FromIterator<(Offload, bool)> for Offloads {
    fn from_iter<I: IntoIterator<Item = (Offload, bool)>>(offloads: I) -> Self {
        Self(offloads.into_iter().collect())
    }
}

impl fmt::Display for Offloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.pad(AS_IS);
        }
        let word =
            |(offload, on): (Offload, bool)| format!("{}={}", offload.name(), if on { "on" } else { "off" });
        f.pad(&self.iter().map(word).collect::<Vec<_>>().join("+"))
    }
}

impl FromStr for Offloads {
    type Err = OffloadsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == AS_IS {
            return Ok(Self::default());
        }
        let mut offloads = BTreeMap::new();
        for word in text.split('+') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let offload = Offload::ALL.into_iter().find(|one| one.name() == name);
            let on = match value {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            };
            let named = offload.zip(on).filter(|(offload, _)| !offloads.contains_key(offload));
            let (offload, on) = named.ok_or_else(|| OffloadsError(text.to_owned()))?;
            offloads.insert(offload, on);
        }
        Ok(Self(offloads))
    }
}

struct OffloadsVisitor;

impl<'de> Visitor<'de> for OffloadsVisitor {
    type Value = Offloads;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("offloads, as { gro = true, tso = false }, \"gro=on+tso=off\" or \"as-is\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Offloads, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Offloads, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Offloads)
    }
}

impl<'de> Deserialize<'de> for Offloads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OffloadsVisitor)
    }
}

impl JsonSchema for Offloads {
    fn schema_name() -> Cow<'static, str> {
        "Offloads".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let each = Offload::ALL.map(|one| (one.name().to_owned(), serde_json::json!({ "type": "boolean" })));
        json_schema!({
            "description": "Which offloads of interfaces are on and off; those that are not named stay as they are.",
            "anyOf": [
                {
                    "type": "object",
                    "properties": serde_json::Map::from_iter(each),
                    "additionalProperties": false
                },
                { "type": "string", "examples": [AS_IS, "gro=on+tso=off"] }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_are_read_and_printed_and_stored_by_name() {
        let offloads: Offloads = "tso=off+gro=on".parse().unwrap();
        assert_eq!(offloads.iter().collect::<Vec<_>>(), [(Offload::Tso, false), (Offload::Gro, true)]);
        assert_eq!(offloads.to_string(), "tso=off+gro=on");
        let json = serde_json::to_string(&offloads).unwrap();
        assert_eq!(json, r#"{"tso":false,"gro":true}"#);
        assert_eq!(serde_json::from_str::<Offloads>(&json).unwrap(), offloads);
        assert_eq!(serde_json::from_str::<Offloads>("\"tso=off+gro=on\"").unwrap(), offloads);
        assert!(serde_json::from_str::<Offloads>("{\"lro\":true}").unwrap_err().to_string().contains("tso"));
        assert!("as-is".parse::<Offloads>().unwrap().is_empty());
        for text in ["", "tso", "tso=maybe", "lro=on", "tso=on+tso=off", "on"] {
            let error = text.parse::<Offloads>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("gro=on+tso=off"), "{error}");
        }
    }
}

//! Command lines with places in them, such as `{port0}`.
//!
//! A command is split at white space before its places are filled, so that a value is never split; `{eal}` alone
//! stands for several words. There is no shell: who wants one writes `["sh", "-c", "..."]`.

use super::tables::Tables;
use crate::StartRequest;
use crate::eal::{self, Lcores};
use crate::wiring::INTERFACES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A command, as one text or as a list of words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Command {
    /// Split at white space.
    Text(String),
    /// Its words.
    Words(Vec<String>),
}

/// The place of several words: DPDK's options for cores, memory and ports.
const EAL: &str = "{eal}";

impl Command {
    /// Its words, the program first.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Self::Words(words) => words.clone(),
        }
    }

    /// The command with all places filled; the mistake where one is not known, or there is no word.
    pub(super) fn filled(&self, places: &Places) -> Result<Vec<String>, String> {
        let mut filled = Vec::new();
        for word in self.words() {
            if word == EAL {
                filled.extend(places.eal.iter().cloned());
            } else {
                filled.push(places.fill(&word)?);
            }
        }
        if filled.first().is_none_or(String::is_empty) {
            return Err("the command is empty".to_owned());
        }
        Ok(filled)
    }
}

/// What stands for each place.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    named: Vec<(String, Option<String>)>,
    eal: Vec<String>,
}

impl Places {
    /// Every place that a description may use, with empty values: for checking it.
    pub(super) fn known() -> Self {
        let text = |name: &str| (name.to_owned(), Some(String::new()));
        let ports =
            (0..INTERFACES.len()).flat_map(|port| [format!("port{port}"), format!("interface{port}")]);
        let mut named: Vec<_> = ports.map(|name| text(&name)).collect();
        named.extend(NAMES.map(text));
        Self { named, eal: Vec::new() }
    }

    /// Of one start.
    pub(super) fn of(request: &StartRequest<'_>, tables: &Tables) -> Self {
        let text = |name: &str, value: String| (name.to_owned(), Some(value));
        let mut named = Vec::new();
        for (number, port) in request.ports.iter().enumerate() {
            named.push(text(&format!("port{number}"), port.clone()));
        }
        for (number, interface) in INTERFACES.iter().enumerate() {
            let inside = request.namespace.map(|_| (*interface).to_owned());
            named.push((format!("interface{number}"), inside));
        }
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let values = [
            Some(request.core.to_string()),
            Some(request.control_core.to_string()),
            Some(request.nf.kind().name().to_owned()),
            Some(request.nf.entries().unwrap_or_default().to_string()),
            path(&tables.routes),
            path(&tables.rules),
            path(&tables.flows),
            Some(eal::buffers(request).to_string()),
            Some(request.max_frame.bytes().to_string()),
            Some(request.folder.path().display().to_string()),
        ];
        named.extend(NAMES.map(str::to_owned).into_iter().zip(values));
        Self { named, eal: eal::arguments(request, Lcores::MainAndWorker, 0, false) }
    }

    /// Fills the places of a word. Braces around anything but a name are the command's own, as in awk's programs.
    fn fill(&self, word: &str) -> Result<String, String> {
        let (mut filled, mut rest) = (String::new(), word);
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let end = after.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
            let (name, after_name) = after.split_at(end.unwrap_or(after.len()));
            match (name, after_name.strip_prefix('}')) {
                ("", _) => filled.push('{'),
                (name, Some(after)) => {
                    filled.push_str(&self.value(name)?);
                    rest = after;
                    continue;
                }
                (_, None) if after_name.is_empty() => return Err(format!("`{word}`: `{{` without its `}}`")),
                (_, None) => filled.push('{'),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, name: &str) -> Result<String, String> {
        let known =
            || self.named.iter().map(|(name, _)| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
        match self.named.iter().find(|(known, _)| known == name) {
            Some((_, Some(value))) => Ok(value.clone()),
            Some((_, None)) => Err(format!("`{{{name}}}` has no value with this function and wiring")),
            None => Err(format!(
                "`{{{name}}}` is no place; there are {}, and {EAL} as a word of its own",
                known()
            )),
        }
    }
}

/// Places beside ports and interfaces, in the order of the values above.
const NAMES: [&str; 10] = [
    "core",
    "control_core",
    "function",
    "entries",
    "routes",
    "rules",
    "flows",
    "buffers",
    "max_frame",
    "folder",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<Vec<String>, String> {
        let named = [("port0", Some("net_pcap0,a b")), ("core", Some("1")), ("routes", None)];
        let named = named.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).to_vec();
        let eal = vec!["-l".to_owned(), "0,1".to_owned()];
        Command::Text(text.to_owned()).filled(&Places { named, eal })
    }

    #[test]
    fn places_are_filled_and_values_are_not_split() {
        assert_eq!(
            filled("dp {eal} --vdev={port0} -c {core}{core}").unwrap(),
            ["dp", "-l", "0,1", "--vdev=net_pcap0,a b", "-c", "11"]
        );
    }

    #[test]
    fn braces_that_hold_no_name_are_the_commands_own() {
        let words = Command::Words(["awk", "/{core}:/ {print $1} { n++ } {}"].map(str::to_owned).to_vec());
        let named = vec![("core".to_owned(), Some("1".to_owned()))];
        let filled = words.filled(&Places { named, eal: Vec::new() }).unwrap();
        assert_eq!(filled, ["awk", "/1:/ {print $1} { n++ } {}"]);
    }

    #[test]
    fn mistakes_name_the_place() {
        for (text, says) in [
            ("dp {prot0}", "`{prot0}` is no place; there are {port0}, {core}"),
            ("dp {routes}", "`{routes}` has no value with this function"),
            ("dp {core", "`{` without its `}`"),
            ("  ", "the command is empty"),
        ] {
            let error = filled(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn every_place_of_a_start_is_known_when_a_description_is_read() {
        let known = Places::known();
        for name in ["port0", "port1", "interface0", "interface1"].into_iter().chain(NAMES) {
            assert_eq!(known.value(name), Ok(String::new()));
        }
    }
}

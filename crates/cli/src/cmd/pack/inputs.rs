//! The files that a plan names: captures and flow tables, which are no part of a bundle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use toml_edit::{DocumentMut, Item, TableLike, Value};
use weir_traffic::trace::TraceName;
use weir_trial::run::Run;

/// How a function that is a file begins.
const FLOWS: &str = "flows:";
/// Most bytes of a file that goes into a pack.
const MOST_BYTES: u64 = 256 << 20;

/// A file that a plan names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// As the plan names it.
    pub(super) path: String,
    /// Whether it is in the pack, beside the plan.
    pub(super) packed: bool,
    /// Why it is not; empty where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) why: String,
}

/// The paths of a plan's files, each once. A text that is no TOML names none.
fn named(plan: &str) -> Vec<String> {
    let Ok(document) = plan.parse::<DocumentMut>() else { return Vec::new() };
    let mut texts = Vec::new();
    for key in ["nf", "chain", "trace"] {
        document.get(key).into_iter().for_each(|item| strings(item, &mut texts));
    }
    let devices = document.get("device").and_then(Item::as_array_of_tables);
    for device in devices.into_iter().flatten() {
        device.get("nf").into_iter().for_each(|item| strings(item, &mut texts));
    }
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        let flows = text.split('+').filter_map(|nf| nf.strip_prefix(FLOWS));
        // `flows:10000` is a trace.
        let flows = flows.filter(|path| path.parse::<u64>().is_err()).map(str::to_owned);
        let captures = text.split('|').filter(|part| !part.contains(FLOWS)).filter_map(capture);
        for path in flows.chain(captures) {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn capture(text: &str) -> Option<String> {
    match TraceName::parse(text.trim()) {
        Ok(TraceName::Capture(path)) => Some(path.to_string_lossy().into_owned()),
        _ => None,
    }
}

/// Every text in a value: alone, in a list, or as a member's function.
fn strings(item: &Item, found: &mut Vec<String>) {
    match item {
        Item::Value(value) => texts(value, found),
        Item::ArrayOfTables(tables) => tables.iter().for_each(|table| of_member(table, found)),
        _ => {}
    }
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.value().clone()),
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        Value::InlineTable(table) => of_member(table, found),
        _ => {}
    }
}

fn of_member(table: &dyn TableLike, found: &mut Vec<String>) {
    if let Some(Item::Value(value)) = table.get("nf") {
        texts(value, found);
    }
}

/// The files of a run's plan: what is known of each, and the bytes of those that go into the pack. `copies` is the folder
/// with copies of flow tables, by their hashes.
pub(super) fn of(run: &Run, copies: Option<&Path>) -> Vec<(Input, Option<Vec<u8>>)> {
    let folder = run.environment.get("plan.file").map(PathBuf::from);
    let folder = folder.as_deref().and_then(Path::parent);
    let one = |path: String| {
        if !stays_below(Path::new(&path)) {
            let why = "its path does not stay in the plan's folder; put it there before it is measured again";
            return (Input { path, packed: false, why: why.to_owned() }, None);
        }
        let hash = hash(run, &path);
        let is_as_measured =
            |bytes: &Vec<u8>| hash.is_none_or(|hash| weir_trial::FlowFile::hash_of(bytes) == hash);
        let places = [
            folder.map(|folder| folder.join(&path)),
            copies.zip(hash).map(|(folder, hash)| folder.join(hash)),
        ];
        let found = places.into_iter().flatten().filter_map(|path| read(&path)).find(is_as_measured);
        let why = "it is not where the plan was read, or has changed since; ask whoever measured";
        let why = if found.is_some() { String::new() } else { why.to_owned() };
        (Input { path, packed: found.is_some(), why }, found)
    };
    named(&run.plan).into_iter().map(one).collect()
}

/// The hash that a run's facts have of a file of flows; nothing of a capture, whose frames have hashes at the points.
fn hash<'a>(run: &'a Run, path: &str) -> Option<&'a str> {
    let name = Path::new(path).file_name()?.to_string_lossy();
    let facts = run.environment.get("plan.flows")?.split(", ").filter_map(|fact| fact.rsplit_once('@'));
    facts.filter(|(known, _)| *known == name).map(|(_, hash)| hash).find(|hash| stays_below(Path::new(hash)))
}

/// Whether a path leads to something in the folder that it starts from.
pub(super) fn stays_below(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let is_small = path.metadata().is_ok_and(|about| about.is_file() && about.len() <= MOST_BYTES);
    std::fs::read(path).ok().filter(|_| is_small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_and_flow_tables_of_a_plan_are_found_wherever_they_stand() {
        let plan = "nf = [\"l2fwd\", \"flows:site.flows+l3fwd:10\"]\ntrace = [\"tr3i\", \"flows:10000\", \"a.pcap|sub/b.pcapng\"]\n\
                    chain = [\"flows:site.flows\", { nf = \"flows:x/two.flows\", dut = \"nf\" }]\n\
                    [[device]]\nname = \"a\"\nnf = \"flows:three.flows\"\n";
        let mut found = named(plan);
        found.sort();
        assert_eq!(found, ["a.pcap", "site.flows", "sub/b.pcapng", "three.flows", "x/two.flows"]);
        assert!(named("nf = [").is_empty() && named("trace = 5\n").is_empty());
    }

    #[test]
    fn only_paths_below_the_plan_can_be_packed() {
        for (path, below) in [
            ("a.pcap", true),
            ("sub/b.pcap", true),
            ("../a.pcap", false),
            ("/a.pcap", false),
            ("", false),
            ("./a", false),
        ] {
            assert_eq!(stays_below(Path::new(path)), below, "{path}");
        }
    }
}

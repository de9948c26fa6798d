//! The constants of the folders that packets go through, against their page: each stands there with its value, and what is
//! tuned with a row of `weir perf` and a counter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weir_campaign::perf::{Effort, ROWS, Row};
use weir_campaign::plan::HugePages;
use weir_classifier::Table;
use weir_flow::Seed;
use weir_openflow::{FlowMod, Names, parse_flows};
use weir_switch::stats::counters::WORKER;

/// The folders.
const HOT: [&str; 3] =
    ["crates/datapath/src/classify", "crates/datapath/src/worker", "crates/classifier/src"];

/// Constants of these types are numbers to choose.
const TYPES: [&str; 7] = ["usize", "u64", "u32", "u16", "u8", "Nanos", "Duration"];

/// Bounds that no test reaches: none may be added.
const UNTESTED: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sources below a folder of the repository.
fn sources(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).expect("the folder is there") {
        let name = entry.expect("a folder can be read").file_name().into_string().expect("names are text");
        let path = format!("{folder}/{name}");
        if root().join(&path).is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}

/// The numbers that a source names outside its tests, with their values; those for Miri are left out.
fn constants(text: &str) -> Vec<(String, String)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("const ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        let above = code[..at - line.len()].trim_end().rsplit('\n').next().unwrap_or_default();
        let declared = (line.is_empty() || line.starts_with("pub")) && above != "#[cfg(miri)]";
        let Some((head, value)) = code[at + "const ".len()..].split_once('=') else { continue };
        let Some((name, kind)) = head.split_once(": ") else { continue };
        if declared && TYPES.contains(&kind.trim()) {
            let value = value.split(';').next().unwrap_or_default();
            found.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// The cells of a table of the page, below its heading; code without its marks.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let below = page.split(&format!("## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading:?}"));
    let below = below.split("\n## ").next().unwrap_or_default();
    let lines = below.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn bare(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[test]
fn each_constant_of_the_hot_folders_stands_on_the_page_with_its_value() {
    let page = read(&root().join("docs/tuning.md"));
    let mut there = BTreeMap::new();
    for path in HOT.iter().flat_map(|folder| sources(folder)).filter(|path| !path.ends_with("/tests.rs")) {
        let short = path.replacen("crates/", "", 1).replacen("/src/", "/", 1);
        for (name, value) in constants(&read(&root().join(&path))) {
            there.insert(format!("`{short}` `{name}`"), value);
        }
    }
    let mut listed = BTreeMap::new();
    for heading in ["Tuned", "Bounds", "Without a test of their own", "Layouts"] {
        for row in rows(&page, heading) {
            let known = listed.insert(row[0].clone(), bare(&row[1]).to_owned());
            assert_eq!(known, None, "{} stands there twice", row[0]);
        }
    }
    assert!(there.len() > 70, "only {} constants were found", there.len());
    assert_eq!(listed, there, "docs/tuning.md (left) and the sources (right) differ");
}

#[test]
fn what_is_tuned_has_a_row_and_a_counter_and_what_is_a_bound_a_test() {
    let page = read(&root().join("docs/tuning.md"));
    let known: BTreeSet<&str> = ROWS.iter().map(|row| row.id).collect();
    let counters: BTreeSet<&str> = WORKER.iter().map(|counter| counter.name).collect();
    for row in rows(&page, "Tuned") {
        let [constant, _, of, counter, measured] = &row[..] else { panic!("{row:?} has other columns") };
        assert!(known.contains(bare(of)), "{constant}: no row of `weir perf` is called {of}");
        assert!(counters.contains(bare(counter)), "{constant}: nothing counts {counter}");
        assert!(!measured.is_empty(), "{constant}: say where it was measured, or that it was not alone");
    }
    let tests: String = ["crates/datapath", "crates/classifier"]
        .iter()
        .flat_map(|folder| sources(folder))
        .map(|path| read(&root().join(path)))
        .collect();
    for row in rows(&page, "Bounds") {
        assert!(tests.contains(&format!("fn {}()", bare(&row[2]))), "{}: no test {}", row[0], row[2]);
    }
    let untested = rows(&page, "Without a test of their own").len();
    assert_eq!(
        untested, UNTESTED,
        "bounds without a test may only become fewer: correct the number here then"
    );
}

/// The kind of a table's structure, without its figures.
fn kind(structure: &str) -> &'static str {
    ["rule vectors", "merged tuples", "tuples", "prefixes", "linear", "hash"]
        .into_iter()
        .find(|kind| structure.contains(kind))
        .unwrap_or_else(|| panic!("{structure} is of a kind that the page does not know"))
}

/// The structures of the tables of a function, as the switch has them once they have settled.
fn structures(nf: &str) -> BTreeSet<&'static str> {
    let mut names = Names::default();
    for service in ["conntrack", "transcoder", "balancer", "noop"] {
        names.add_service(service);
    }
    let text = weir_dut::flow_entries(nf.parse().unwrap()).unwrap();
    let mut tables: BTreeMap<u8, Table<()>> = BTreeMap::new();
    for change in parse_flows(&text, &names).unwrap() {
        let FlowMod::Add(flow) = change else { panic!("{change:?} adds no entry") };
        let table = tables.entry(flow.table.0).or_insert_with(|| Table::new(Seed::new(1)));
        table.insert(flow.matching, flow.priority, ());
    }
    let settled = |table: &mut Table<()>| {
        table.settle();
        kind(&table.structure())
    };
    tables.values_mut().map(settled).collect()
}

/// The function of a row of `weir perf`, where the row is about tables.
fn function(row: &Row) -> Option<String> {
    let plan = row.plans(Effort::QUICK, HugePages::Off, None).into_iter().next()?;
    let (_, rest) = plan.text.split_once("\nnf = \"")?;
    rest.split('"').next().map(str::to_owned)
}

#[test]
fn each_structure_of_tables_has_rows_and_the_page_names_them() {
    let mut there: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in ROWS.iter().filter(|row| row.id.starts_with("cold") || row.id == "explosion") {
        for structure in structures(&function(row).unwrap()) {
            there.entry(structure).or_default().push(row.id);
        }
    }
    let page = read(&root().join("docs/table-walk.md"));
    let line = |row: Vec<String>| (bare(&row[0]).to_owned(), bare(&row[1]).to_owned());
    let listed: BTreeMap<String, String> =
        rows(&page, "Rows that look tables up").into_iter().map(line).collect();
    let there: BTreeMap<String, String> =
        there.into_iter().map(|(kind, rows)| (kind.to_owned(), rows.join("`, `"))).collect();
    assert_eq!(listed, there, "docs/table-walk.md (left) and the tables of the rows (right) differ");
    assert_eq!(there.len(), 6, "a structure without a row has to get one, or to go: {there:?}");
}

#[test]
fn constants_are_found_where_sources_have_them() {
    let text = "/// One.\nconst A: usize = 1 << 3;\npub(crate) const B: Nanos =\n    Nanos(7);\n\
                    const INNER: u8 = 1;\nconst T: [u8; 2] = [1, 2];\n#[cfg(test)]\nmod tests {\n    const C: u8 = 2;\n}\n";
    let found = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(constants(text), [found("A", "1 << 3"), found("B", "Nanos(7)"), found("INNER", "1")]);
    assert_eq!(constants("fn f() {\n    const D: u8 = 1;\n}\n"), []);
    let twice = "#[cfg(not(miri))]\npub const E: u8 = 1;\n/// Slow.\n#[cfg(miri)]\npub const E: u8 = 9;\n";
    assert_eq!(constants(twice), [found("E", "1")]);
}

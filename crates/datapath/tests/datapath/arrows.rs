//! The parts of the datapath as a test: each folder of `crates/datapath/src` depends only on those below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folders, from the top down.
const ORDER: [&str; 8] =
    ["control", "worker", "classify", "slowpath", "services", "actions", "stats", "model"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The sources below a folder, as paths from `src` with their text.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("it is below src").display().to_string();
            found.push((name, std::fs::read_to_string(&path).expect("a source is text")));
        }
    }
}

/// What is compiled into the datapath: without comments, and without the tests at the end of a file.
fn code(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let tests = text.match_indices("#[cfg(test)]\nmod ").find(|(at, _)| {
        let line = text[*at..].lines().nth(1).unwrap_or_default();
        line.ends_with('{')
    });
    tests.map_or(text.clone(), |(at, _)| text[..at].to_owned())
}

/// Modules of their own file that are there for tests only, as paths from `src` without `.rs`.
fn test_modules(name: &str, text: &str) -> Vec<String> {
    let folder = name.strip_suffix("/mod.rs").or_else(|| name.strip_suffix(".rs")).unwrap_or(name);
    let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let line = rest.lines().next()?;
        Some(line.trim().strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    });
    declared.map(|module| format!("{folder}/{module}")).collect()
}

/// The parts that a file uses, in the order in which it names them.
///
/// # Errors
/// A path that leaves its part without naming another, behind which an arrow could hide.
fn uses(name: &str, code: &str) -> Result<BTreeSet<String>, String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        // Of `weir_crate::` and the like this is no path.
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let part: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !ORDER.contains(&part.as_str()) {
            return Err(format!("src/{name}: write `crate::{part}` by the part where it is declared"));
        }
        used.insert(part);
    }
    let module = name.strip_suffix("/mod.rs").or_else(|| name.strip_suffix(".rs")).unwrap_or(name);
    let most = module.split('/').count() - 1;
    if code.contains(&"super::".repeat(most + 1)) {
        return Err(format!("src/{name}: `super` leaves its part; write `crate::` and the part's name"));
    }
    Ok(used)
}

fn height(part: &str) -> usize {
    ORDER.iter().position(|one| *one == part).unwrap_or_else(|| {
        panic!("src/{part} is not in the order of parts: put its files into one of {ORDER:?}")
    })
}

#[test]
fn every_part_of_the_datapath_depends_only_on_those_below_it() {
    let mut all = Vec::new();
    sources(&root(), &mut all);
    let tests: Vec<String> = all.iter().flat_map(|(name, text)| test_modules(name, text)).collect();
    let is_test = |name: &str| {
        tests.iter().any(|test| name == format!("{test}.rs") || name.starts_with(&format!("{test}/")))
    };
    let (mut up, mut parts, mut arrows) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (name, text) in all.iter().filter(|(name, _)| name != "lib.rs" && !is_test(name)) {
        let (part, _) = name.split_once('/').unwrap_or_else(|| {
            panic!("src/{name} lies flat: put it into the folder of its part, one of {ORDER:?}")
        });
        parts.insert(part.to_owned());
        for used in uses(name, &code(text)).unwrap_or_else(|error| panic!("{error}")) {
            arrows += usize::from(used != part);
            if height(&used) < height(part) {
                up.insert((name.clone(), used));
            }
        }
    }
    assert!(up.is_empty(), "files of src that use a part above their own: {up:?}; the order is {ORDER:?}");
    assert_eq!(parts, ORDER.map(str::to_owned).into(), "the order names parts that have no file");
    assert!(arrows > 50, "only {arrows} arrows were found among {} files", all.len());
}

#[test]
fn an_arrow_is_found_where_code_has_one_and_not_in_comments_or_tests() {
    let text = "//! As [`crate::worker`].\nuse crate::model::pipeline::Pipeline;\n\
                fn f() {\n    // crate::control\n    crate::stats::count();\n}\n\n\
                #[cfg(test)]\nmod tests {\n    use crate::control::datapath;\n}\n";
    let used = uses("actions/edit/mod.rs", &code(text));
    assert_eq!(used, Ok(["model", "stats"].map(str::to_owned).into()));
    assert_eq!(test_modules("classify/hint/mod.rs", "#[cfg(test)]\nmod tests;\n"), ["classify/hint/tests"]);
    for (name, hidden, named) in [
        ("actions/program.rs", "use crate::PollMode;", "`crate::PollMode`"),
        ("actions/program.rs", "use crate::{worker, control};", "by the part"),
        ("actions/program.rs", "use super::super::worker::Worker;", "`super` leaves its part"),
        ("actions/mod.rs", "use super::worker::Worker;", "`super` leaves its part"),
    ] {
        let error = uses(name, hidden).expect_err(hidden);
        assert!(error.contains(named) && error.contains(name), "{error}");
    }
    assert!(uses("actions/edit/mod.rs", "use super::header::HeaderOp;").is_ok());
}

#[test]
fn the_order_of_the_parts_is_in_the_documents() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md is there");
    let order = ORDER.map(|part| format!("`{part}`")).join(", ");
    assert!(page.contains(&order), "ARCHITECTURE.md does not say: {order}");
}

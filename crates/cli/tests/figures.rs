//! The figures of this repository's documents: those that name a run are what it says.

use crate::lab::{told, weir};
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// All documents in which a figure names its run.
fn documents() -> Vec<String> {
    let named = |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\n<!-- weir "));
    let docs = std::fs::read_dir(format!("{ROOT}/docs")).unwrap().map(|entry| entry.unwrap().path());
    let documents = docs.chain([format!("{ROOT}/README.md").into()]).filter(|path| named(path));
    documents.map(|path| path.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn figures_that_name_a_run_are_what_it_says() {
    let documents = documents();
    assert!(!documents.is_empty(), "no document names a run");
    let output = weir().args(["figures", "--check"]).args(&documents).current_dir(ROOT).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn a_figure_that_was_typed_is_found() {
    let document = documents().swap_remove(0);
    let text = std::fs::read_to_string(format!("{ROOT}/{document}")).unwrap();
    let (before, figure) = text.split_at(text.find("\n<!-- weir ").unwrap() + 1);
    let digit = figure
        .find("Mpps")
        .and_then(|unit| figure[..unit].rfind(|letter: char| letter.is_ascii_digit()))
        .unwrap();
    let other = if figure[digit..].starts_with('7') { "8" } else { "7" };
    let typed = format!("{before}{}{other}{}", &figure[..digit], &figure[digit + 1..]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typed.md");
    std::fs::write(&path, typed).unwrap();
    let output = weir().args(["figures", "--check"]).arg(&path).current_dir(ROOT).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("differs from `weir "), "{}", told(&output));
}

//! What this repository's documents lead to: each link to a file that is there and to a heading in it, each path
//! to a file or folder that is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Every document with its text, by its path from the root.
fn documents() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for folder in ["", "docs", "docs/tutorials"] {
        for entry in std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = Path::new(folder).join(path.file_name().unwrap());
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// The targets of a page's links, but for those out of the repository.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// A heading as links name it: lower case, spaces as hyphens, no other marks.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

fn has_heading(text: &str, wanted: &str) -> bool {
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    let mut headings = outside.filter_map(|line| line.strip_prefix('#'));
    headings.any(|heading| anchor(heading.trim_start_matches('#').trim()) == wanted)
}

/// Without `.` and `..`, from the root.
fn settled(path: &Path) -> PathBuf {
    let mut settled = PathBuf::new();
    for part in path.iter() {
        match part.to_str() {
            Some("..") => drop(settled.pop()),
            Some(".") => {}
            _ => settled.push(part),
        }
    }
    settled
}

/// What is wrong with the links of these documents.
fn broken(documents: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, text) in documents {
        for target in targets(text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = name.parent().unwrap_or(Path::new(""));
            let to = if file.is_empty() { name.clone() } else { settled(&folder.join(file)) };
            if !Path::new(ROOT).join(&to).exists() {
                broken.push(format!("{}: {target}: there is no {}", name.display(), to.display()));
            } else if !heading.is_empty()
                && !documents.get(&to).is_some_and(|text| has_heading(text, heading))
            {
                broken.push(format!("{}: {target}: {} has no such heading", name.display(), to.display()));
            }
        }
    }
    broken
}

/// Paths from the root that a page names in its sentences, as far as they name one thing: not `crates/CRATE/...`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let folders = ["crates/", "docs/", "plans/", "schemas/", "scripts/"];
    let outside = text.split("```").step_by(2);
    let spans = outside.flat_map(|part| part.split('`').skip(1).step_by(2));
    let whole = |span: &&str| span.chars().all(|letter| letter.is_alphanumeric() || "/._-".contains(letter));
    let one = |span: &&str| !span.split(['/', '.']).any(|part| part.len() > 1 && part == part.to_uppercase());
    spans
        .map(str::trim)
        .filter(move |span| folders.iter().any(|folder| span.starts_with(folder)))
        .filter(whole)
        .filter(one)
}

/// The paths of these documents that lead nowhere. The change log speaks of files as they were.
fn lost(documents: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let today = documents.iter().filter(|(name, _)| name.as_path() != Path::new("CHANGELOG.md"));
    let mut lost = Vec::new();
    for (name, text) in today {
        // A figure's place says itself that its run is not there yet, and is held to that (`figures`).
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("Not run yet: ")).collect();
        let text = lines.join("\n");
        let gone = paths(&text).filter(|path| !Path::new(ROOT).join(path).exists());
        lost.extend(gone.map(|path| format!("{}: there is no {path}", name.display())));
    }
    lost
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let documents = documents();
    let links = documents.values().flat_map(|text| targets(text)).count();
    assert!(links > 50, "{links} links");
    let broken = broken(&documents);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_link_to_a_file_or_heading_that_is_not_there_is_found() {
    let text = "# Of a page\n[a](LICENSE) [b](#of-a-page) [c](no.md) [d](#other) [e](https://example.org)\n";
    let documents = BTreeMap::from([(PathBuf::from("README.md"), text.to_owned())]);
    let expected =
        ["README.md: no.md: there is no no.md", "README.md: #other: README.md has no such heading"];
    assert_eq!(broken(&documents), expected);
}

#[test]
fn every_path_that_a_document_names_is_there() {
    let documents = documents();
    let named = documents.values().flat_map(|text| paths(text)).count();
    assert!(named > 100, "{named} paths");
    let lost = lost(&documents);
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn a_path_that_leads_nowhere_is_found() {
    let text =
        "`crates/cli/tests/links.rs` `crates/cli/tests/nowhere.rs` `crates/CRATE/tests/` `docs/page.png`";
    let documents = BTreeMap::from([(PathBuf::from("README.md"), text.to_owned())]);
    assert_eq!(lost(&documents), ["README.md: there is no crates/cli/tests/nowhere.rs"]);
}

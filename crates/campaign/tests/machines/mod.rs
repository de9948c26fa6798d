//! Other machines as small trees of `/proc` and `/sys`, one text file each.
//!
//! `path = value` is a file of one line, `path <<` one of the lines up to a lone dot, `path -> target`
//! a symbolic link, `#` a remark; `{a..b}` in a path makes one of each number.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use weir_campaign::environment::{Source, capture_from};

/// The facts of a machine, read from its tree.
pub(crate) fn facts(name: &str) -> BTreeMap<String, String> {
    let file = format!("{}/tests/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    static READ: Mutex<BTreeMap<String, BTreeMap<String, String>>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap();
    let facts = read.entry(name.to_owned()).or_insert_with(|| {
        let folder = tempfile::tempdir().unwrap();
        unfold(&text, folder.path());
        capture_from(&Source::recorded(folder.path()))
    });
    facts.clone()
}

fn unfold(text: &str, root: &Path) {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(path) = line.strip_suffix(" <<") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != ".").collect();
            write(root, path, &(block.join("\n") + "\n"));
        } else if let Some((path, target)) = line.split_once(" -> ") {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        } else {
            let (path, value) = line.split_once(" =").unwrap_or_else(|| panic!("not understood: {line}"));
            write(root, path, &format!("{}\n", value.trim_start()));
        }
    }
}

fn write(root: &Path, path: &str, content: &str) {
    if let Some((before, rest)) = path.split_once('{') {
        let (range, after) = rest.split_once('}').unwrap();
        let (first, last) = range.split_once("..").unwrap();
        for number in first.parse::<u32>().unwrap()..=last.parse().unwrap() {
            write(root, &format!("{before}{number}{after}"), content);
        }
        return;
    }
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

//! `unsafe` has two homes: `crates/dpdk` and `crates/cpu`.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_dpdk_and_cpu_may_allow_unsafe_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates folder");
    let mut files = Vec::new();
    sources(crates, &mut files);
    assert!(files.len() > 50, "the sources are found");
    let allowing: Vec<_> = files
        .iter()
        .filter(|path| {
            !["dpdk", "cpu"].iter().any(|home| path.starts_with(crates.join(home)))
                && !path.ends_with(file!().rsplit('/').next().unwrap_or(""))
        })
        .filter(|path| fs::read_to_string(path).expect("a readable file").contains("allow(unsafe_code"))
        .collect();
    assert!(allowing.is_empty(), "{allowing:?}");
}

//! Checksums of a folder, in the form of sha256sum.

use super::folder::AGAIN;
use super::inputs::stays_below;
use std::collections::BTreeMap;
use std::path::Path;
use weir_store::bundle::sha256;

/// The file with them.
pub(super) const FILE: &str = "SHA256SUMS";
/// Most bytes of it.
const MOST: u64 = 16 << 20;

/// The checksums of these files, as `sha256sum -c` reads them.
pub(super) fn written(files: &BTreeMap<String, Vec<u8>>) -> String {
    files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect()
}

/// What of a folder is not as its checksums say, each in a sentence, and how many files there are. Nothing at all where
/// it has none.
pub(super) fn wrong(folder: &Path) -> Result<(Vec<String>, usize), String> {
    let path = folder.join(FILE);
    let about = path.symlink_metadata().map_err(|error| format!("{FILE}: {error}"))?;
    if !about.is_file() || about.len() > MOST {
        return Err(format!("{FILE} is no plain file of at most {MOST} bytes"));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{FILE}: {error}"))?;
    let mut stated = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let (hash, name) = line
            .split_once("  ")
            .filter(|(hash, name)| hash.len() == 64 && stays_below(Path::new(name)))
            .ok_or_else(|| {
                format!("{FILE}:{}: not the hash and the name of a file of the pack", number + 1)
            })?;
        stated.insert(name.to_owned(), hash.to_owned());
    }
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    walk(folder, "", &mut found).map_err(|error| error.to_string())?;
    for (name, is_plain) in &found {
        match stated.get(name) {
            _ if name == FILE => {}
            _ if !is_plain => wrong.push(format!("{name} is no plain file")),
            None => wrong.push(format!("{name} is not in {FILE}")),
            Some(hash) => match std::fs::read(folder.join(name)) {
                Ok(bytes) if sha256(&bytes) == *hash => {}
                Ok(_) => wrong.push(format!("{name} was changed")),
                Err(error) => wrong.push(format!("{name}: {error}")),
            },
        }
    }
    let is_there = |name: &String| found.iter().any(|(found, _)| found == name);
    wrong.extend(stated.keys().filter(|name| !is_there(name)).map(|name| format!("{name} is missing")));
    Ok((wrong, stated.len()))
}

/// Every file below a folder, and whether it is a plain one. Links are not followed; what the scripts measured is passed
/// over.
fn walk(folder: &Path, below: &str, found: &mut Vec<(String, bool)>) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder.join(below))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        match kind.is_dir() {
            true if name == AGAIN => {}
            true => walk(folder, &name, found)?,
            false => found.push((name, kind.is_file())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_added_taken_away_or_linked_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = ["a", "b", "sub/c", "d"].map(|name| (name.to_owned(), name.as_bytes().to_vec()));
        let files = BTreeMap::from(files);
        std::fs::create_dir_all(path("sub")).unwrap();
        std::fs::create_dir_all(path(AGAIN)).unwrap();
        for (name, bytes) in &files {
            std::fs::write(path(name), bytes).unwrap();
        }
        std::fs::write(path("again/x.db"), "measured").unwrap();
        std::fs::write(path(FILE), written(&files)).unwrap();
        assert_eq!(wrong(folder.path()), Ok((Vec::new(), 4)));
        std::fs::write(path("sub/c"), "hand").unwrap();
        std::fs::write(path("sub/new"), "").unwrap();
        std::fs::remove_file(path("b")).unwrap();
        std::fs::remove_file(path("d")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path("d")).unwrap();
        let (found, _) = wrong(folder.path()).unwrap();
        assert_eq!(
            found,
            ["d is no plain file", "sub/c was changed", "sub/new is not in SHA256SUMS", "b is missing"]
        );
        for bad in ["../a", "/etc/passwd"] {
            std::fs::write(path(FILE), format!("{}  {bad}\n", "0".repeat(64))).unwrap();
            assert!(wrong(folder.path()).unwrap_err().contains("SHA256SUMS:1"), "{bad}");
        }
    }
}

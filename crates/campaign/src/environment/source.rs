//! Where facts are read: `/proc`, `/sys`, `/etc` of this machine, or a recorded tree of another.
//!
//! Readers name paths without the leading slash, so that tests can feed them other machines. What
//! is not there, may not be read or is empty is nothing, never an error.

use std::fs;
use std::path::{Path, PathBuf};

/// A machine to read.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    here: bool,
}

impl Source {
    /// The machine this runs on.
    pub fn here() -> Self {
        Self { root: PathBuf::from("/"), here: true }
    }

    /// A tree of files of another machine. Nothing is sampled and no program is asked.
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), here: false }
    }

    /// Whether the CPU itself and the programs of this machine may be asked too.
    pub(super) fn is_here(&self) -> bool {
        self.here
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A whole file; empty where there is none.
    pub(super) fn text(&self, path: &str) -> String {
        fs::read(self.path(path))
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into())
    }

    /// A file's text without the space around it, if it has any.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = self.text(path);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A file that holds one number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Names in a folder, sorted.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The last part of what a symbolic link points to.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(Path::new(&target).file_name()?.to_str()?.to_owned())
    }

    /// Whether there is a file or folder.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Numbers that follow a prefix in the names of a folder: `cpu0`, `cpu1`, …, rising.
    pub(super) fn numbered(&self, path: &str, prefix: &str) -> Vec<usize> {
        let names = self.list(path);
        let mut numbers: Vec<usize> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The value of `name: value` or `name=value` in a text of such lines.
pub(super) fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The word in brackets of a choice as the kernel prints it: `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

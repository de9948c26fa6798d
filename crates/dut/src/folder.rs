//! A folder for the sockets and files of one DUT.
//!
//! It is removed when it is dropped. A lab that was killed leaves its folder behind; the next one
//! sweeps away every folder whose owner is gone ([`Folder::sweep`]). The owner's process number and
//! start time stand in the folder's name, so a recycled process number protects nothing.

use crate::DutError;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

const PREFIX: &str = "weir-";
/// Ends of the names of files that configure nothing.
const NO_CONFIGURATION: [&str; 5] = [".log", ".pid", ".lock", ".pcap", "~lock~"];
/// Bytes of one file that are kept as configuration: the longest table of rules has about as many.
const MOST_TEXT: u64 = 1 << 20;

/// A private folder, removed when dropped.
#[derive(Debug)]
pub struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    /// Makes one under the system's folder for temporary files, and sweeps the left-over ones first.
    pub fn new() -> Result<Self, DutError> {
        let base = std::env::temp_dir();
        Self::sweep(&base);
        let owner = std::process::id();
        let prefix = format!("{PREFIX}{owner}-{}-", start_time(owner).unwrap_or_default());
        let dir = tempfile::Builder::new().prefix(&prefix).rand_bytes(4).tempdir_in(&base);
        let file = |error: io::Error| DutError::File { path: base.clone(), reason: error.to_string() };
        Ok(Self { dir: dir.map_err(file)? })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, DutError> {
        let path = self.file(name);
        match fs::write(&path, content) {
            Ok(()) => Ok(path),
            Err(error) => Err(DutError::File { path, reason: error.to_string() }),
        }
    }

    /// Copies a file into it, with its permissions.
    pub fn copy(&self, name: &str, from: &Path) -> Result<PathBuf, DutError> {
        let path = self.file(name);
        match fs::copy(from, &path) {
            Ok(_) => Ok(path),
            Err(error) => {
                let reason = format!("it cannot be a copy of {}: {error}", from.display());
                Err(DutError::File { path, reason })
            }
        }
    }

    /// The texts in it, name by name: what configured a DUT. Logs, captures, sockets and process numbers
    /// are no configuration; of a long text the beginning is returned, and how long it is.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let Ok(entries) = fs::read_dir(self.path()) else { return BTreeMap::new() };
        let text = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let told = NO_CONFIGURATION.iter().any(|end| name.ends_with(end));
            if told || !entry.file_type().ok()?.is_file() {
                return None;
            }
            let mut content = Vec::new();
            fs::File::open(entry.path()).ok()?.take(MOST_TEXT + 1).read_to_end(&mut content).ok()?;
            let whole = content.len() as u64 <= MOST_TEXT;
            content.truncate(MOST_TEXT as usize);
            let mut text = match String::from_utf8(content) {
                Ok(text) => text,
                Err(error) if !whole && error.utf8_error().error_len().is_none() => {
                    let end = error.utf8_error().valid_up_to();
                    String::from_utf8_lossy(&error.into_bytes()[..end]).into_owned()
                }
                Err(_) => return None,
            };
            if !whole {
                let length = entry.metadata().map_or(0, |data| data.len());
                text.push_str(&format!("\n[cut: the file has {length} bytes]\n"));
            }
            (!text.contains('\0')).then_some((name, text))
        };
        entries.flatten().filter_map(text).collect()
    }

    /// Removes the folders of labs that are gone. Returns how many.
    pub fn sweep(base: &Path) -> usize {
        let Ok(entries) = fs::read_dir(base) else { return 0 };
        let orphans = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            name.to_str().and_then(owner).is_some_and(|(process, start)| start_time(process) != Some(start))
        });
        orphans.filter(|entry| fs::remove_dir_all(entry.path()).is_ok()).count()
    }
}

/// Process number and start time in a folder's name.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (parts.next().is_some() && parts.next().is_none()).then_some(owner)
}

/// When a process began, in clock ticks since boot: field 22 of `/proc/PID/stat`.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold spaces.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_be_run_as_the_file_may_and_one_of_nothing_says_of_what() {
        let folder = Folder::new().unwrap();
        let copy = folder.copy("program", Path::new("/bin/true")).unwrap();
        assert!(std::process::Command::new(copy).status().unwrap().success());
        let error = folder.copy("program", Path::new("/nowhere/weir")).unwrap_err().to_string();
        assert!(error.contains("program") && error.contains("/nowhere/weir"), "{error}");
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let folder = Folder::new().unwrap();
        let path = folder.write("socket", "x").unwrap();
        assert!(path.exists());
        drop(folder);
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn the_texts_of_a_folder_are_its_configuration_and_nothing_else_is() {
        let folder = Folder::new().unwrap();
        folder.write("flows.txt", "priority=1 actions=drop\n").unwrap();
        folder.write("vswitchd.log", "started\n").unwrap();
        fs::write(folder.file("in.bin"), [0xff, 0xfe, 0]).unwrap();
        let long = "µ".repeat(MOST_TEXT as usize);
        folder.write("long.txt", &long).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.file("link.sock")).unwrap();
        let texts = folder.texts();
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["flows.txt", "long.txt"]);
        assert_eq!(texts["flows.txt"], "priority=1 actions=drop\n");
        let (kept, note) = texts["long.txt"].split_once('\n').unwrap();
        assert_eq!((kept.len() as u64, note), (MOST_TEXT, "[cut: the file has 2097152 bytes]\n"));
    }

    #[test]
    fn folders_of_dead_labs_are_swept_and_others_stay() {
        let base = tempfile::tempdir().unwrap();
        let me = std::process::id();
        let mine = format!("{PREFIX}{me}-{}-abcd", start_time(me).unwrap());
        for name in
            [mine.as_str(), "weir-4294967294-1-abcd", &format!("{PREFIX}{me}-1-abcd"), "weir-notes", "other"]
        {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        assert_eq!(Folder::sweep(base.path()), 2);
        let mut left: Vec<_> = fs::read_dir(base.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["other", mine.as_str(), "weir-notes"]);
    }
}

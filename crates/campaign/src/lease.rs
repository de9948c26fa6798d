//! Leases of cores: two runs that measure on the same core would spoil each other.
//!
//! A lease is the kernel's lock on one file a core, in a folder that all users of the machine share. It
//! ends with the process, however that ends; the file stays and means nothing by itself. What the file
//! holds is for people: the run whose lease it was last.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The variable that names another folder for the leases, for example one that containers share.
pub const FOLDER_VARIABLE: &str = "WEIR_LEASES";

/// Where system-wide locks are kept (Filesystem Hierarchy Standard 3.0, section 5.9).
const LOCKS: &str = "/run/lock";

/// The cores of a run, for as long as it is held.
#[derive(Debug)]
pub struct Lease {
    files: Vec<File>,
}

/// Why cores cannot be leased.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another run measures on one of them.
    #[error(
        "core {core} is leased by {holder}: two runs on one core would spoil each other. Wait for it, or give this run other cores with taskset"
    )]
    Taken {
        /// The core.
        core: usize,
        /// Who holds it, as it said itself.
        holder: String,
    },
    /// The lease's file cannot be made or locked.
    #[error("cannot lease core {core} by {}: {why}; name another folder with {FOLDER_VARIABLE}", path.display())]
    File {
        /// The core.
        core: usize,
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

impl Lease {
    /// Leases cores of this machine, all of them or none.
    pub fn take(cores: &[usize]) -> Result<Self, LeaseError> {
        Self::take_in(&folder(), cores)
    }

    /// Leases cores by files in a folder.
    pub fn take_in(folder: &Path, cores: &[usize]) -> Result<Self, LeaseError> {
        // In one order, so that two runs cannot each hold what the other waits for.
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let mut files = Vec::new();
        for core in cores {
            let path = folder.join(format!("weir-core-{core}.lock"));
            let refused = |why| LeaseError::File { core, path: path.clone(), why };
            let mut file = open(&path).map_err(refused)?;
            match file.try_lock() {
                Ok(()) => files.push(file),
                Err(TryLockError::WouldBlock) => {
                    return Err(LeaseError::Taken { core, holder: holder(&mut file) });
                }
                Err(TryLockError::Error(why)) => return Err(refused(why)),
            }
        }
        Ok(Self { files })
    }

    /// Says whose lease it is, for those who are refused. A file of another user may not be written; then
    /// they are told less.
    pub fn name(&mut self, holder: &str) {
        for file in &mut self.files {
            let _ =
                file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
        }
    }
}

/// The folder of the leases.
fn folder() -> PathBuf {
    let named = std::env::var_os(FOLDER_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| {
        let locks = Path::new(LOCKS);
        if locks.is_dir() { locks.to_owned() } else { std::env::temp_dir() }
    })
}

/// The lease's file, made for all users where it is not there. A lock needs no right to write.
fn open(path: &Path) -> io::Result<File> {
    if let Ok(file) = OpenOptions::new().read(true).write(true).open(path) {
        return Ok(file);
    }
    if path.exists() {
        return File::open(path);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o666).open(path)?;
    // The umask took some of it.
    let _ = file.set_permissions(fs::Permissions::from_mode(0o666));
    Ok(file)
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    let text = text.trim();
    if text.is_empty() { "another run".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_on_a_core_is_refused_by_the_name_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Lease::take_in(folder.path(), &[1, 0]).unwrap();
        first.name("run 2026-11-23-otter (process 42)");
        let error = Lease::take_in(folder.path(), &[3, 1]).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LeaseError::Taken { core: 1, .. }), "{text}");
        assert!(text.contains("run 2026-11-23-otter (process 42)") && text.contains("taskset"), "{text}");
        // Refused as a whole: core 3 stays free, and other cores are nobody's affair.
        drop(Lease::take_in(folder.path(), &[3]).unwrap());
        drop(first);
        assert!(Lease::take_in(folder.path(), &[0, 1, 3]).is_ok(), "it ended with its holder");
    }

    #[test]
    fn the_holder_is_the_last_one_and_not_what_an_earlier_one_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Lease::take_in(folder.path(), &[1]).unwrap();
        first.name("a run with a long name");
        drop(first);
        let mut second = Lease::take_in(folder.path(), &[1]).unwrap();
        second.name("run b");
        let error = Lease::take_in(folder.path(), &[1]).unwrap_err().to_string();
        assert!(error.contains("leased by run b:"), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_is_told_with_the_variable_that_names_another() {
        let error = Lease::take_in(Path::new("/proc/weir"), &[1]).unwrap_err().to_string();
        assert!(error.contains("/proc/weir") && error.contains(FOLDER_VARIABLE), "{error}");
    }
}

//! One lock file a run being measured. The kernel drops the lock with the process, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The lock on a run, held while its campaign lives.
#[derive(Debug)]
pub(crate) struct RunLock {
    path: PathBuf,
    _file: File,
}

fn lock_path(database: &Path, run: i64) -> PathBuf {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(format!("-run-{run}.lock"));
    database.with_file_name(name)
}

impl RunLock {
    /// Takes the lock; nothing when another process holds it.
    pub(crate) fn take(database: &Path, run: i64) -> std::io::Result<Option<Self>> {
        let path = lock_path(database, run);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { path, _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a living process holds the lock of a run.
    pub(crate) fn is_held(database: &Path, run: i64) -> bool {
        File::open(lock_path(database, run))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // A file left behind is harmless: its lock dies with the process.
        let _ = std::fs::remove_file(&self.path);
    }
}

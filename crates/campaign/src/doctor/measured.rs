//! What no file tells: the machine watched for a moment.

use super::stalls::{CoreStalls, watch_cores};
use crate::environment::{Neighbour, neighbours, steal_ticks};
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_dut::{ADAPTERS, DutError};

/// How long other processes are watched before the cores are.
const NEIGHBOURS_FOR: Duration = Duration::from_millis(500);

/// A device under test that is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// What is not there.
    pub why: String,
}

/// Measurements beside the facts. What was not measured is nothing, or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Gaps on the cores of tester and DUT.
    pub stalls: Vec<CoreStalls>,
    /// Share of all CPU time that the hypervisor kept while the cores were watched.
    pub steal: Option<f64>,
    /// Other processes at work, busiest first.
    pub neighbours: Option<Vec<Neighbour>>,
    /// The store's folder, or the nearest that exists, and the bytes free there.
    pub disk: Option<(PathBuf, u64)>,
    /// Devices that are not installed, of those that this build can start and this system has packages for.
    pub missing: Option<Vec<Missing>>,
    /// This program.
    pub program: Option<PathBuf>,
}

impl Measured {
    /// Watches the machine: half a second for other processes, then `seconds` for the cores.
    pub fn here(store: &Path, seconds: Duration) -> Self {
        let missing = ADAPTERS.iter().filter_map(|adapter| match adapter.version() {
            // Whoever wants one that has to be built by hand knows.
            Ok(_) | Err(DutError::Unfound { .. }) => None,
            Err(why) => Some(Missing { name: adapter.name().to_owned(), why: why.to_string() }),
        });
        let missing = missing.collect();
        let neighbours = neighbours(NEIGHBOURS_FOR);
        let cores = super::cores_here().map(|cores| vec![cores.tester, cores.dut]).unwrap_or_default();
        let before = steal_ticks();
        let stalls = watch_cores(&cores, seconds);
        let steal = before.zip(steal_ticks()).map(|((stolen, total), (stolen_now, total_now))| {
            stolen_now.saturating_sub(stolen) as f64 / total_now.saturating_sub(total).max(1) as f64
        });
        Self {
            stalls,
            steal,
            neighbours: Some(neighbours),
            disk: disk(store),
            missing: Some(missing),
            program: std::env::current_exe().ok(),
        }
    }
}

/// Bytes that this user may still write where the store is or will be.
fn disk(store: &Path) -> Option<(PathBuf, u64)> {
    let absolute = std::path::absolute(store).ok()?;
    let folder = absolute.ancestors().skip(1).find(|folder| folder.is_dir())?;
    let stat = statvfs(folder).ok()?;
    Some((folder.to_owned(), stat.blocks_available().saturating_mul(stat.fragment_size())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_looked_for_in_the_nearest_folder_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let (found, free) = disk(&folder.path().join("not/there/weir.db")).unwrap();
        assert_eq!(found, folder.path());
        assert!(free > 0);
    }
}

//! Memory that several processes have in common: one *primary*, which owns it, and *secondaries*, which attach.
//!
//! Why: packets go from process to process without a copy; what goes is a pointer to an mbuf, over a ring. So DPDK's
//! multi-process mode does it: every process has the same huge pages at the same addresses.
//!
//! Design. The primary mounts hugetlbfs in its folder, in a mount namespace of its own, which the secondaries enter: the
//! files, and with them the pages, go with the last of these processes, however it ends. DPDK's own run-time files lie
//! in the folder too. At a socket there ([`lobby`]) a secondary says which ends of rings it takes, gets the number of its
//! worker, and both learn when the other dies. The primary alone has devices. There is one pool, the primary's.
//!
//! - [`Shared`]: this process's part in it.
//! - [`RingEnd`], [`RingSender`], [`RingReceiver`]: two rings between two processes, one for each way.
//!
//! Cost: a ring moves a burst for some 20 cycles, and the other core's fetching of it. Mistakes of one process spoil
//! the memory of all: that is the price of not copying.
//!
//! Threads: whoever creates or joins does so on the main thread, before it starts others: threads inherit the namespace.

mod lobby;
mod ring;

pub use ring::{RingEnd, RingReceiver, RingSender};

use crate::{Eal, EalConfig, EalError, Memory, Pool, PoolError};
use lobby::{Lobby, Member};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use ring::Rings;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use weir_units::FrameSize;

/// Names the files of these processes beneath their folder.
const PREFIX: &str = "weir";
/// The pool of the primary.
const POOL: &std::ffi::CStr = c"weir-shared";
/// Where DPDK makes its run-time folder.
const RUNTIME: &std::ffi::CStr = c"RUNTIME_DIRECTORY";
/// Longest path of the folder, in bytes: DPDK's longest socket beneath it has some 50, and no socket's path has more
/// than 107.
const LONGEST: usize = 57;

/// What memory to share.
#[derive(Clone, Debug)]
pub struct SharedConfig {
    /// A folder of the primary's own.
    pub folder: PathBuf,
    /// Mebibytes of huge pages to take.
    pub megabytes: u32,
    /// Whether PCI devices are probed (for physical ports).
    pub pci: bool,
    /// Pairs of rings, numbered from 0.
    pub links: u16,
    /// Packet buffers of all processes together.
    pub buffers: u32,
    /// The largest frame.
    pub max_frame: FrameSize,
}

/// Memory could not be shared, or joined.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// A namespace or a mount was refused.
    #[error(
        "memory cannot be shared in {folder}: {what}: {reason}; it takes root (CAP_SYS_ADMIN), and huge pages of 2 MiB \
         (sysctl vm.nr_hugepages=1024)", folder = folder.display()
    )]
    Mount {
        /// The folder.
        folder: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        reason: String,
    },
    /// The folder cannot be used.
    #[error("memory cannot be shared in {folder}: {reason}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is no primary.
    #[error(
        "no process shares memory in {folder}: {reason}; start the one that owns it first", folder = folder.display()
    )]
    Nobody {
        /// The folder.
        folder: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The primary said no.
    #[error("the process that shares memory in {folder} refuses: {reason}", folder = folder.display())]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// Its reason.
        reason: String,
    },
    /// DPDK did not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// No memory for packets.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A ring could not be made or found.
    #[error("the rings of link {link} cannot be had: {reason}")]
    Ring {
        /// The pair of rings.
        link: u16,
        /// Why not.
        reason: String,
    },
    /// An end of a ring is not this process's.
    #[error("`{0}` is not this process's to use: it is taken, was not asked for, or there are fewer rings")]
    End(RingEnd),
}

/// How a process starts DPDK.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// For itself.
    Alone,
    /// As the owner of memory that others attach to, beneath this folder.
    Primary(PathBuf),
    /// Attached to it, with the number of its worker.
    Secondary(PathBuf, u32),
}

impl Role {
    /// The number of the process's one worker.
    pub(crate) fn lcore(&self) -> Option<u32> {
        match self {
            Self::Alone => None,
            Self::Primary(_) => Some(lobby::OWN_NUMBER),
            Self::Secondary(_, number) => Some(*number),
        }
    }

    /// EAL arguments about memory and processes.
    pub(crate) fn arguments(&self) -> Option<Vec<String>> {
        let (folder, kind) = match self {
            Self::Alone => return None,
            Self::Primary(folder) => (folder, "primary"),
            Self::Secondary(folder, _) => (folder, "secondary"),
        };
        let pages = pages(folder).to_string_lossy().into_owned();
        let words = ["--proc-type", kind, "--file-prefix", PREFIX, "--huge-dir", &pages];
        Some(words.into_iter().map(str::to_owned).chain(["--single-file-segments".to_owned()]).collect())
    }

    /// What must be so before the EAL starts.
    pub(crate) fn prepare(&self) {
        let (Self::Primary(folder) | Self::Secondary(folder, _)) = self else { return };
        if let Ok(folder) = CString::new(folder.as_os_str().as_bytes()) {
            // SAFETY: both are NUL-terminated; the one thread beside this one waits for it, and reads no environment.
            unsafe { libc::setenv(RUNTIME.as_ptr(), folder.as_ptr(), 1) };
        }
        if matches!(self, Self::Secondary(..)) {
            // SAFETY: the EAL has not started; the list of buses is nobody else's yet.
            unsafe { crate::ffi::weir_leave_devices_alone() };
        }
    }
}

/// Where the huge pages of a folder are mounted.
fn pages(folder: &Path) -> PathBuf {
    folder.join("pages")
}

/// This process's part in memory that several have in common.
#[derive(Debug)]
pub struct Shared {
    eal: &'static Eal,
    pool: Pool,
    rings: Rings,
    seat: Seat,
    folder: PathBuf,
}

#[derive(Debug)]
enum Seat {
    Primary(Lobby),
    Secondary(Member),
}

impl Shared {
    /// Makes the memory, as its owner, with one pool and so many pairs of rings, and lets others attach.
    ///
    /// # Errors
    ///
    /// What the system or DPDK refuses, and what it would take.
    pub fn create(config: &SharedConfig) -> Result<Self, SharedError> {
        let folder = usable(&config.folder)?;
        mount_pages(&folder)?;
        let memory = EalConfig { memory: Memory::Huge, megabytes: config.megabytes, pci: config.pci };
        let eal = Eal::init_as(memory, Role::Primary(folder.clone()))?;
        let room = config.max_frame.bytes().max(Pool::ROOM);
        let pool = Pool::named(eal, POOL, (config.buffers, room))?;
        let rings = Rings::create(eal, config.links)?;
        let lobby = Lobby::open(&folder, config.links)?;
        Ok(Self { eal, pool, rings, seat: Seat::Primary(lobby), folder })
    }

    /// Attaches to the memory that another process shares in a folder, as the one of this name that has these ends.
    ///
    /// # Errors
    ///
    /// Nobody shares memory there; the owner refuses, as when somebody else has such an end; DPDK does.
    pub fn join(folder: &Path, name: &str, ends: &[RingEnd]) -> Result<Self, SharedError> {
        let folder = usable(folder)?;
        let member = Member::ask(&folder, name, ends)?;
        enter_mounts(&folder, member.primary())?;
        let memory = EalConfig { memory: Memory::Huge, megabytes: 0, pci: false };
        let eal = Eal::init_as(memory, Role::Secondary(folder.clone(), member.number()))?;
        let gone = || SharedError::Refused {
            folder: folder.clone(),
            reason: "it has no packet buffers to share".to_owned(),
        };
        let pool = Pool::find(eal, POOL).ok_or_else(gone)?;
        let rings = Rings::find(eal, ends)?;
        Ok(Self { eal, pool, rings, seat: Seat::Secondary(member), folder })
    }

    /// The EAL of the memory.
    pub fn eal(&self) -> &'static Eal {
        self.eal
    }

    /// The pool of all these processes.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether this process owns the memory.
    pub fn is_primary(&self) -> bool {
        matches!(self.seat, Seat::Primary(_))
    }

    /// What to receive from and to send to at one end of a pair of rings.
    ///
    /// # Errors
    ///
    /// Somebody else has this end, or it was taken before.
    pub fn take(&mut self, end: RingEnd) -> Result<(RingReceiver, RingSender), SharedError> {
        if let Seat::Primary(lobby) = &self.seat
            && !lobby.claim(end)
        {
            return Err(SharedError::End(end));
        }
        self.rings.take(end).ok_or(SharedError::End(end))
    }

    /// Who has died: the primary, or a secondary that did not take its leave. What it was to receive stays in its rings,
    /// and what it held is lost; the others cannot go on.
    pub fn lost(&self) -> Option<String> {
        match &self.seat {
            Seat::Primary(lobby) => lobby.lost(),
            Seat::Secondary(member) => member.lost(),
        }
    }

    /// Frees what is left in the rings. Only the owner does, once it is alone and what it took of them is dropped.
    pub fn drain(&mut self) {
        if let Seat::Primary(lobby) = &self.seat {
            lobby.if_alone(|| self.rings.drain());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The owner clears up; whoever survives it does it in its place. What others have mapped stays theirs.
        if self.is_primary() || self.lost().is_some() {
            sweep(&self.folder);
        }
    }
}

/// Removes what DPDK and this module made in the folder. What is not there any more needs no removing.
fn sweep(folder: &Path) {
    let pages = pages(folder);
    let _ = umount2(&pages, MntFlags::MNT_DETACH);
    let _ = fs::remove_dir(&pages);
    let _ = fs::remove_dir_all(folder.join("dpdk"));
    lobby::sweep(folder);
}

/// A folder as an absolute path that sockets beneath it fit in.
fn usable(folder: &Path) -> Result<PathBuf, SharedError> {
    let wrong = |reason: String| SharedError::Folder { folder: folder.to_owned(), reason };
    let whole = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !whole.is_dir() {
        return Err(wrong("it is no folder".to_owned()));
    }
    match whole.as_os_str().len() {
        length if length > LONGEST => {
            Err(wrong(format!("its path has {length} bytes, and sockets beneath it allow {LONGEST}")))
        }
        _ => Ok(whole),
    }
}

/// Mounts huge pages in the folder, where nobody sees them but this process and who enters its namespace.
fn mount_pages(folder: &Path) -> Result<(), SharedError> {
    let refused = |what| {
        move |error: nix::Error| SharedError::Mount {
            folder: folder.to_owned(),
            what,
            reason: error.desc().to_owned(),
        }
    };
    unshare(CloneFlags::CLONE_NEWNS).map_err(refused("a mount namespace"))?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(refused("a mount namespace"))?;
    let pages = pages(folder);
    fs::create_dir_all(&pages)
        .map_err(|error| SharedError::Folder { folder: pages.clone(), reason: error.to_string() })?;
    mount(none, &pages, Some("hugetlbfs"), MsFlags::empty(), Some("pagesize=2M"))
        .map_err(refused("mounting hugetlbfs"))
}

/// Enters the primary's mount namespace, where its pages are; stays in the same folder.
fn enter_mounts(folder: &Path, primary: u32) -> Result<(), SharedError> {
    let refused = |reason: String| SharedError::Mount {
        folder: folder.to_owned(),
        what: "entering the mount namespace of the process that owns it",
        reason,
    };
    let here = std::env::current_dir();
    let namespace =
        File::open(format!("/proc/{primary}/ns/mnt")).map_err(|error| refused(error.to_string()))?;
    // A thread that shares its folder with others cannot change the namespace.
    unshare(CloneFlags::CLONE_FS).map_err(|error| refused(error.desc().to_owned()))?;
    setns(namespace, CloneFlags::CLONE_NEWNS).map_err(|error| refused(error.desc().to_owned()))?;
    if let Ok(here) = here {
        // Paths were read before; one that is not there now is not needed.
        let _ = std::env::set_current_dir(here);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_none_or_too_deep_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = usable(&folder.path().join("nothing")).unwrap_err().to_string();
        assert!(error.contains("nothing") && error.contains("No such file"), "{error}");
        let deep = folder.path().join("d".repeat(LONGEST));
        fs::create_dir(&deep).unwrap();
        let error = usable(&deep).unwrap_err().to_string();
        assert!(error.contains("sockets beneath it allow 57"), "{error}");
        assert!(usable(folder.path()).is_ok());
    }

    #[test]
    fn nobody_is_told_from_a_primary_that_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let error = Shared::join(folder.path(), "x", &[]).unwrap_err().to_string();
        assert!(error.contains("no process shares memory") && error.contains("start the one"), "{error}");
    }
}

//! DPDK's environment abstraction layer (EAL): started once per process, never stopped.
//!
//! Why a helper thread: EAL pins the thread that starts it. Why captured logs: DPDK explains its
//! errors on stderr only; Weir keeps the last of those lines and puts them into its own error messages.

use crate::ffi;
use crate::shared::Role;
#[cfg(not(miri))]
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Where DPDK's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Ordinary 4-KiB pages: works for any user, on any machine; slower once packets leave the CPU's caches.
    Normal,
    /// 2-MiB or 1-GiB huge pages, which the machine must have set aside.
    Huge,
}

/// How to start the EAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EalConfig {
    /// Pages.
    pub memory: Memory,
    /// Mebibytes to take at the start; pools must fit in them.
    pub megabytes: u32,
    /// Whether PCI devices are probed (for physical ports).
    pub pci: bool,
}

/// The EAL did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EalError {
    /// DPDK refused.
    #[error("DPDK would not start with {memory}: {reason}{log}{advice}")]
    Refused {
        /// The pages that were asked for.
        memory: String,
        /// DPDK's error.
        reason: String,
        /// What DPDK logged.
        log: String,
        /// How to mend it.
        advice: String,
    },
    /// A second start with another configuration.
    #[error("DPDK runs in this process already, with {running:?}; it cannot be started again with {asked:?}")]
    Configured {
        /// What it runs with.
        running: EalConfig,
        /// What was asked for.
        asked: EalConfig,
    },
}

/// The running EAL.
#[derive(Debug)]
pub struct Eal {
    config: EalConfig,
    /// The only number that a thread of this process may have among those that share its memory; nothing where it shares
    /// none, and DPDK gives numbers out.
    lcore: Option<u32>,
}

/// An address at which there is no device: the last function of the last bus of the last domain.
const NO_DEVICE: &str = "ffff:ff:1f.7";

static EAL: OnceLock<Result<Eal, EalError>> = OnceLock::new();
static CONTROL: Mutex<()> = Mutex::new(());

impl Eal {
    /// Starts DPDK, or returns the running one when it was started with the same configuration.
    pub fn init(config: EalConfig) -> Result<&'static Self, EalError> {
        Self::init_as(config, Role::Alone)
    }

    /// The same, as one of several processes that share memory.
    pub(crate) fn init_as(config: EalConfig, role: Role) -> Result<&'static Self, EalError> {
        weir_cpu::Tsc::begin();
        let eal = EAL.get_or_init(|| {
            std::thread::Builder::new()
                .name("weir-eal".into())
                .spawn(move || start(config, &role))
                .ok()
                .and_then(|thread| thread.join().ok())
                .unwrap_or_else(|| Err(refused(config, "the start-up thread died".into(), String::new())))
        });
        match eal {
            Ok(eal) if eal.config == config => Ok(eal),
            Ok(eal) => Err(EalError::Configured { running: eal.config, asked: config }),
            Err(error) => Err(error.clone()),
        }
    }

    /// The configuration it was started with.
    pub fn config(&self) -> EalConfig {
        self.config
    }

    /// The number of this process's one worker among those that share its memory.
    pub(crate) fn lcore(&self) -> Option<u32> {
        self.lcore
    }

    /// DPDK's version, as it names itself: `DPDK 22.11.11`.
    pub fn version() -> String {
        // SAFETY: rte_version returns a static NUL-terminated string.
        unsafe { CStr::from_ptr(ffi::weir_version()) }.to_string_lossy().into_owned()
    }

    /// Serialises DPDK's control plane.
    pub(crate) fn control(&self) -> MutexGuard<'static, ()> {
        CONTROL.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Length of DPDK's log so far: pass it to [`Self::log_since`].
    pub(crate) fn log_mark(&self) -> u64 {
        // SAFETY: reads a number, under the log's own lock.
        unsafe { ffi::weir_log_written() }
    }

    /// What DPDK logged since the mark, for an error message: the last of it, if it is long.
    pub(crate) fn log_since(&self, mark: u64) -> String {
        lines(&logged(mark))
    }
}

/// DPDK's own words for an error number (positive or negative).
pub(crate) fn describe(error: c_int) -> String {
    // SAFETY: rte_strerror returns a NUL-terminated string in thread-local or static storage.
    unsafe { CStr::from_ptr(ffi::weir_strerror(error.abs())) }.to_string_lossy().into_owned()
}

/// What DPDK logged since then, as far as it is kept.
fn logged(mark: u64) -> Vec<u8> {
    let mut bytes = vec![0; ffi::LOG];
    // SAFETY: there is room for as much as is ever copied.
    let length = unsafe { ffi::weir_log_read(mark, bytes.as_mut_ptr().cast()) };
    bytes.truncate(length);
    bytes
}

fn lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("\n    dpdk: {line}")).collect()
}

fn refused(config: EalConfig, reason: String, log: String) -> EalError {
    let (memory, advice) = match config.memory {
        Memory::Normal => (
            format!("{} MiB of ordinary memory", config.megabytes),
            "\nFree memory, or ask for less of it.".to_owned(),
        ),
        Memory::Huge => (
            format!("{} MiB of huge pages", config.megabytes),
            format!(
                "\nFree huge pages: {}. Set pages aside (as root: sysctl vm.nr_hugepages={}), or run without huge pages.",
                huge_pages_free(),
                config.megabytes.div_ceil(2)
            ),
        ),
    };
    EalError::Refused { memory, reason, log, advice }
}

fn huge_pages_free() -> String {
    let mut text = String::new();
    let read = File::open("/proc/meminfo").and_then(|mut file| file.read_to_string(&mut text));
    read.ok()
        .and_then(|_| text.lines().find_map(|line| line.strip_prefix("HugePages_Free:")))
        .map_or_else(|| "unknown".to_owned(), |count| count.trim().to_owned())
}

fn arguments(config: EalConfig, role: &Role) -> Vec<String> {
    let core = weir_cpu::allowed_cores().first().copied().unwrap_or(0);
    let mut arguments = vec!["weir".to_owned()];
    if !matches!(role, Role::Secondary { .. }) {
        arguments.extend(["-m".to_owned(), config.megabytes.to_string()]);
    }
    match role.lcore() {
        Some(lcore) => arguments.extend(["--lcores".to_owned(), format!("{lcore}@{core}")]),
        None => arguments.extend(["-l".to_owned(), core.to_string()]),
    }
    arguments.extend(["--no-telemetry", "--log-level=4"].map(str::to_owned));
    if config.pci {
        // Nothing is probed at the start, only what is opened: another process may drive the rest.
        arguments.push(format!("--allow={NO_DEVICE}"));
    } else {
        arguments.push("--no-pci".to_owned());
    }
    if let Some(shared) = role.arguments() {
        arguments.extend(shared);
        return arguments;
    }
    match config.memory {
        // `--no-huge` and `--in-memory` exclude each other in DPDK 22.11.
        Memory::Normal => arguments.extend(["--no-huge", "--no-shconf"].map(str::to_owned)),
        // Without single-file segments virtio-user has more memory regions than vhost-user allows.
        Memory::Huge => arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned)),
    }
    arguments
}

fn start(config: EalConfig, role: &Role) -> Result<Eal, EalError> {
    let mut early = early_log().map_err(|error| refused(config, error.to_string(), String::new()))?;
    // SAFETY: nothing of DPDK runs yet. Where there is no memory for it, DPDK logs to standard error.
    unsafe { ffi::weir_log_keep() };
    // DPDK keeps pointers into its arguments for ever, so they are leaked on purpose.
    role.prepare();
    let argv: Vec<*mut c_char> = arguments(config, role)
        .into_iter()
        .map(|argument| CString::new(argument).expect("EAL arguments hold no NUL").into_raw())
        .collect();
    let argv = Box::leak(argv.into_boxed_slice());
    let argc = c_int::try_from(argv.len()).expect("a handful of arguments");
    let hz = weir_cpu::Tsc::roughly().hz() as u64;
    let restore = StderrSilence::begin(&early);
    // SAFETY: argv holds argc valid, leaked, NUL-terminated strings.
    let error = unsafe { ffi::weir_eal_init(argc, argv.as_mut_ptr(), hz) };
    drop(restore);
    if error == 0 {
        Ok(Eal { config, lcore: role.lcore() })
    } else {
        let mut log = Vec::new();
        // What cannot be read is left out.
        let _ = early.rewind().and_then(|()| early.read_to_end(&mut log));
        log.extend(logged(0));
        Err(refused(config, describe(error), lines(&log)))
    }
}

/// A file without a name.
#[cfg(not(miri))]
fn early_log() -> std::io::Result<File> {
    Ok(File::from(memfd_create(c"weir-dpdk-log", MFdFlags::MFD_CLOEXEC)?))
}

/// The stub logs nothing, and Miri knows no files without a name.
#[cfg(miri)]
fn early_log() -> std::io::Result<File> {
    Ok(File::from(std::os::fd::OwnedFd::from(std::io::pipe()?.0)))
}

/// EAL writes its first lines to stdout and stderr before its log stream is in use; while this
/// lives, both go to this file.
struct StderrSilence([(c_int, c_int); 2]);

impl StderrSilence {
    fn begin(log: &File) -> Self {
        Self([libc::STDOUT_FILENO, libc::STDERR_FILENO].map(|fd| {
            // SAFETY: dup and dup2 on open descriptors touch no memory.
            let saved = unsafe { libc::dup(fd) };
            // SAFETY: as above.
            unsafe { libc::dup2(log.as_raw_fd(), fd) };
            (fd, saved)
        }))
    }
}

impl Drop for StderrSilence {
    fn drop(&mut self) {
        for (fd, saved) in self.0 {
            if saved >= 0 {
                // SAFETY: `saved` came from dup above and is closed exactly once.
                unsafe { libc::dup2(saved, fd) };
                // SAFETY: as above.
                unsafe { libc::close(saved) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Port, PortConfig};
    use std::path::Path;
    use weir_units::FrameSize;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel, in C")]
    fn cores_and_nodes_are_there_for_the_eal_where_the_kernel_shows_them_and_nowhere_else() {
        unsafe extern "C" {
            fn weir_eal_access(path: *const c_char, mode: c_int) -> c_int;
        }
        let agrees = |path: String| {
            let asked = CString::new(path.as_str()).unwrap();
            // SAFETY: the path ends with NUL and outlives the call.
            let is_there = unsafe { weir_eal_access(asked.as_ptr(), libc::F_OK) } == 0;
            assert_eq!(is_there, Path::new(&path).exists(), "{path}");
            is_there
        };
        let cores = (0..1_024).filter(|cpu| {
            for node in 0..32 {
                agrees(format!("/sys/devices/system/node/node{node}/cpu{cpu}"));
            }
            agrees(format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_id"))
        });
        assert!(cores.count() > 0, "the kernel shows the core that this runs on");
        assert!(agrees("/proc/self".to_owned()) && !agrees("/proc/self/nowhere".to_owned()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "the stub has no memory")]
    fn ordinary_memory_begins_where_linux_can_have_its_largest_pages() {
        Eal::init(EalConfig { memory: Memory::Normal, megabytes: 64, pci: false })
            .expect("EAL starts anywhere");
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let memory: Vec<&str> = maps.lines().filter(|map| map.contains("memfd:nohuge")).collect();
        let [memory] = memory[..] else { panic!("one mapping has all memory: {maps}") };
        let begin = u64::from_str_radix(memory.split('-').next().unwrap(), 16).unwrap();
        assert_eq!(begin % (2 << 20), 0, "{memory}");
    }

    #[test]
    fn however_much_drivers_complain_the_last_of_it_is_kept_and_nothing_grows() {
        let config = EalConfig { memory: Memory::Normal, megabytes: 64, pci: false };
        let eal = Eal::init(config).expect("EAL starts anywhere");
        let pool = Pool::new(eal, 64, FrameSize::MIN).expect("memory for a small pool");
        // Each of these makes DPDK's driver complain, with the word.
        let refused = |number: u64| {
            let spec = format!("net_memif0,role=word{number}x");
            Port::open(&spec, PortConfig::default(), &pool).unwrap_err().to_string()
        };
        let (first, mut number) = (refused(0), 0);
        assert!(first.contains("dpdk: "), "{first}");
        while eal.log_mark() < 2 * ffi::LOG as u64 {
            number += 1;
            refused(number);
            assert!(number < 20_000, "it says nothing: {first}");
        }
        let all = eal.log_since(0);
        assert_eq!(logged(0).len(), ffi::LOG);
        assert!(all.contains(&format!("word{number}x")) && !all.contains("word1x"), "the last of it");
        let last = refused(number + 1);
        let said = |text: &str| text.matches("dpdk: ").count();
        assert!(last.contains(&format!("word{}x", number + 1)) && said(&last) == said(&first), "{last}");
        assert!(logged(u64::MAX).is_empty());
    }
}

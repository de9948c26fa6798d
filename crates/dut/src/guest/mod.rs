//! A function in a guest: a virtual machine (QEMU) whose two ports are virtio's, behind sockets of a host dataplane.
//!
//! What boots is Debian's kernel and an image of this machine's own programs (`image.rs`); what runs in it depends on
//! the device (`inside.rs`). The guest's console is what QEMU prints, kept as any program's; a second channel carries
//! the same lines as those that drive `weir nf` and `testpmd` outside of a guest. QEMU is a child that cannot outlive
//! the lab; its memory has no name in any file system.
//!
//! Cores: a guest boots on the control core, as those that forward are busy polling; then each of its processors is
//! kept to a core of its own. Everything else of QEMU stays on the control core.
//!
//! Times in a guest are its own: its taps could not tell how old a stamp of the tester is, so they stay off.

mod cpio;
mod image;
mod inside;
mod kernel;
mod qemu;

pub(crate) use inside::Inside;

use crate::process::Process;
use crate::{Adapter as _, Counters, DutError, RunningDut, StartRequest, cpu, nf, testpmd, weir};
use kernel::Kernel;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use qemu::Boot;
use std::ffi::OsStr;
use std::fs::File;
use std::time::Duration;
use weir_trial::{Accel, Guest};
use weir_units::Nanos;

/// The name in errors of QEMU's process.
const NAME: &str = "the guest";

/// How long a guest may take until it forwards.
const PATIENCE: Duration = Duration::from_secs(60);

/// The device of the kernel's that runs guests.
const KVM: &str = "/dev/kvm";

/// Lines of a console that are told.
const TOLD: usize = 12;

/// What begins the line that says why a kernel or our own script gave up; what follows it is of less use.
const CAUSES: [&str; 3] = ["Kernel panic", "weir-guest: ", "error: "];

/// What a kernel prints that could not unpack itself, by the method it is packed with (lz4, xz, zstd, gzip): it stands still
/// then. What it prints last, that it halted, has no end of line and is not seen.
const HALTED: [&str; 5] =
    ["Decoding failed", "data is corrupt", "data corrupted", "decompression failed", "uncompression error"];

/// A function in its guest.
struct Running {
    process: Process,
    inside: Inside,
    guest: Guest,
    ports: usize,
    /// What it said it is, and in what.
    version: String,
    /// Threads that are the guest's processors.
    processors: Vec<u32>,
}

/// What this machine lacks for a guest, and what it would take; nothing where it can have one.
pub fn lacks(guest: Guest) -> Option<String> {
    if let Err(error) = qemu::version().and_then(|_| Kernel::here()) {
        return Some(error.to_string());
    }
    if guest.accel == Accel::Tcg {
        return None;
    }
    let error = File::options().read(true).write(true).open(KVM).err()?;
    Some(format!(
        "a guest under KVM needs {KVM}: {error}; `accel = \"tcg\"` emulates its processors, and the result says so"
    ))
}

/// Boots a guest in which a device is the function, and waits until it forwards. A core for each of its processors.
pub(crate) fn start(
    device: &str,
    request: &StartRequest<'_>,
    guest: Guest,
    cores: &[usize],
) -> Result<Box<dyn RunningDut>, DutError> {
    let reason = || format!("{device} is not known to run in a guest");
    let unknown = || DutError::Unsupported { dut: NAME, nf: request.nf, reason: reason() };
    let inside = Inside::of(device).ok_or_else(unknown)?;
    let version = qemu::version()?;
    let kernel = Kernel::here()?;
    let image = inside.content()?.image(&kernel)?;
    let script = request.folder.write("guest.sh", &inside.script(request, guest)?)?;
    let boot = Boot { kernel: &kernel.image(), image: &image.path, script: &script };
    let mut arguments: Vec<String> =
        ["-c".to_owned(), request.control_core.to_string(), qemu::PROGRAM.to_owned()].into();
    arguments.extend(qemu::arguments(request, guest, &boot));
    let process = Process::start(NAME, OsStr::new("taskset"), &arguments, request.alarm.clone())?;
    let accel = guest.accel.name().to_uppercase();
    let version = format!("{version} ({accel}), {}, image {}", kernel.version, image.hash);
    let ports = request.ports.len();
    let mut running = Running { process, inside, guest, ports, version, processors: Vec::new() };
    let function = running.wait().map_err(|error| running.told(error))?;
    running.version = format!("{function} in {}", running.version);
    running.settle(cores);
    Ok(Box::new(running))
}

impl Running {
    /// Waits until the function forwards; what it says it is.
    fn wait(&mut self) -> Result<String, DutError> {
        if self.inside == Inside::Testpmd {
            self.process.say(testpmd::ANYBODY)?;
            self.until(testpmd::answered)?;
            self.process.say("start")?;
            return testpmd::Testpmd.version();
        }
        if self.inside == Inside::Weir {
            return self.until(weir::forwards);
        }
        self.until(nf::first::<nf::Ready>).map(|ready| ready.version)
    }

    /// Waits until `find` makes something of what was printed, or the kernel says that it cannot begin.
    fn until<T>(&self, find: impl Fn(&[&str]) -> Option<T>) -> Result<T, DutError> {
        let look = |lines: &[&str]| {
            let halted =
                lines.iter().any(|line| HALTED.iter().any(|what| line.contains(what))).then_some(None);
            halted.or_else(|| find(lines).map(Some))
        };
        let found = self.process.wait_for(0, "forward", PATIENCE, look)?;
        found.ok_or_else(|| self.error("halted before it began"))
    }

    /// Keeps each processor to its core.
    fn settle(&mut self, cores: &[usize]) {
        let pid = self.process.pid();
        self.processors = cpu::threads_named(pid, &["CPU ", "ALL CPUs"]);
        self.processors.sort_unstable(); // as they were made
        for (thread, core) in self.processors.iter().zip(cores) {
            let mut only = CpuSet::new();
            // A core that the lab may not use is none to keep to.
            let _ = only.set(*core).and_then(|()| sched_setaffinity(Pid::from_raw(*thread as i32), &only));
        }
    }

    /// An error of QEMU's process, as one of the guest: with its console.
    fn told(&self, error: DutError) -> DutError {
        let what = match error {
            DutError::Died { status, .. } => format!("ended ({status})"),
            DutError::Silent { what, seconds, .. } => format!("did not {what} within {seconds} s"),
            other => return other,
        };
        self.error(&what)
    }

    /// What became of the guest, with its console.
    fn error(&self, what: &str) -> DutError {
        let hint = match self.guest.accel {
            Accel::Kvm => "; `accel = \"tcg\"` emulates its processors",
            Accel::Tcg => "",
        };
        let console = console(&self.process.lines());
        DutError::Guest { accel: self.guest.accel, what: format!("{what}{hint}"), console }
    }
}

/// The end of a console: from the line on that says why, where there is one.
fn console(lines: &[String]) -> String {
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty() && !line.starts_with('{'))
        .collect();
    let cause = lines.iter().position(|line| CAUSES.iter().any(|cause| line.contains(cause)));
    let last = lines.len().saturating_sub(TOLD);
    let first = cause.map_or(last, |cause| cause.min(last));
    if lines.is_empty() {
        return "; its console stayed empty".to_owned();
    }
    lines[first..].iter().take(TOLD).map(|line| format!("\n    | {line}")).collect()
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let counters = match self.inside {
            Inside::Testpmd => testpmd::ask(&mut self.process, self.ports),
            Inside::Weir => weir::ask(&mut self.process),
            Inside::Nf | Inside::Linux => nf::ask(&mut self.process),
        };
        let counters = counters.map_err(|error| self.told(error))?;
        let used = self.threads().into_iter().filter_map(|(pid, thread)| cpu::thread_cpu(pid, thread));
        // Cycles between two of its polls are also those in which its processor had no core.
        Ok(Counters { cpu: Nanos(used.map(|cpu| cpu.0).sum()), busy: None, ..counters })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.processors.iter().map(|thread| (self.process.pid(), *thread)).collect()
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process]
    }

    fn ended(&mut self) -> Option<DutError> {
        self.process.ended().map(|error| self.told(error))
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        // Nothing in it is to be kept.
        self.process.terminate();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_told_from_its_cause_on_and_without_answers() {
        let mut lines: Vec<String> = (0..20).map(|number| format!("[ 1.{number}] line")).collect();
        lines.insert(3, "[ 1.5] Kernel panic - not syncing: No working init found.".to_owned());
        lines.push(r#"{"schema":1,"received":7}"#.to_owned());
        let told = console(&lines);
        assert!(told.starts_with("\n    | [ 1.5] Kernel panic") && !told.contains("schema"), "{told}");
        assert_eq!(told.lines().count() - 1, TOLD);
        assert!(console(&lines[5..]).contains("1.19"), "without a cause its end");
        assert_eq!(console(&[]), "; its console stayed empty");
    }

    #[test]
    fn what_a_guest_needs_of_the_machine_is_told_with_a_cure() {
        // Whatever is there: an answer names what is missing and what would help.
        if let Some(why) = lacks(Guest::default()) {
            assert!(["apt-get", "./x guest", "tcg"].iter().any(|cure| why.contains(cure)), "{why}");
        }
    }
}

//! Other programs' vhost event threads, woken when they have new sockets to listen at.
//!
//! Why: DPDK's vhost library (22.11) polls all its sockets on one thread, a second at a time, and adds the one at which a port
//! listens without telling that thread; whoever connects waits for the rest of that second. It tells the thread of other news
//! by a byte in a pipe, which is read and forgotten. So does the lab: where such a thread sleeps in `poll`, its list of files
//! is read from its memory, and a byte is written into the pipe that stands there. A program with another vhost, or one whose
//! memory nobody may read, is left alone and waits as before. Nothing here runs while a trial does.
//!
//! Cost: one thread, and a look at a few files every 10 ms, while ports are being opened and for 1.5 s at most.

use crate::process::Process;
use crate::{RunningDut, cpu};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of the thread that DPDK's vhost library starts.
const NAME: &str = "vhost-events";
/// How often they are woken.
const LOOK: Duration = Duration::from_millis(10);
/// After so long they have looked by themselves.
const LONGEST: Duration = Duration::from_millis(1_500);
/// The number of the system call `poll` on x86-64.
const POLL: &str = "7";
/// Most files that such a thread may poll (`MAX_FDS` of the library).
const MOST_FILES: usize = 1_024;
/// Bytes of a `struct pollfd`: a file's number first.
const POLLED: usize = 8;

/// Keeps the vhost event threads of some processes awake until it is dropped.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Begins with those of a device's processes. One without such a thread costs a look.
    pub fn keep(dut: &dyn RunningDut) -> Self {
        let processes: Vec<u32> = dut.processes().into_iter().map(Process::pid).collect();
        Self::keep_those_of(&processes)
    }

    fn keep_those_of(processes: &[u32]) -> Self {
        let threads: Vec<(u32, u32)> =
            processes.iter().filter_map(|process| event_thread(*process)).collect();
        let over = Arc::new(AtomicBool::new(false));
        if threads.is_empty() {
            return Self { over, thread: None };
        }
        let (seen, end) = (Arc::clone(&over), Instant::now() + LONGEST);
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) && Instant::now() < end {
                for (process, thread) in &threads {
                    let _ = wake(*process, *thread);
                }
                std::thread::park_timeout(LOOK);
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The vhost event thread of a process, or of one that it started.
fn event_thread(process: u32) -> Option<(u32, u32)> {
    let own = cpu::threads_named(process, &[NAME]).first().map(|thread| (process, *thread));
    own.or_else(|| cpu::descendant(process, NAME))
}

/// Ends a thread's poll, if it polls a pipe; nothing where it does something else or nobody may look.
fn wake(process: u32, thread: u32) -> Option<()> {
    let call = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).ok()?;
    let (list, files) = polled(&call)?;
    let mut bytes = vec![0; files * POLLED];
    File::open(format!("/proc/{process}/mem")).ok()?.read_exact_at(&mut bytes, list).ok()?;
    let is_pipe = |file: &i32| {
        let link = fs::read_link(format!("/proc/{process}/fd/{file}"));
        link.is_ok_and(|target| target.to_string_lossy().starts_with("pipe:["))
    };
    let pipes: Vec<i32> = numbers(&bytes).filter(is_pipe).collect();
    // The library has one; a thread with several is somebody else's of the same name.
    let [pipe] = pipes[..] else { return None };
    let mut options = OpenOptions::new();
    // By whichever end a pipe is opened so, what is written comes out where it is read. A full one wakes by itself.
    let opened =
        options.write(true).custom_flags(nix::libc::O_NONBLOCK).open(format!("/proc/{process}/fd/{pipe}"));
    opened.ok()?.write_all(b"1").ok()
}

/// Address and length of the list of files that a thread polls, from `/proc/PID/task/TID/syscall`.
fn polled(call: &str) -> Option<(u64, usize)> {
    let mut words = call.split_ascii_whitespace();
    if words.next()? != POLL {
        return None;
    }
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (list, files) = (number()?, usize::try_from(number()?).ok()?);
    (1..=MOST_FILES).contains(&files).then_some((list, files))
}

/// The numbers of the files in a list.
fn numbers(list: &[u8]) -> impl Iterator<Item = i32> {
    let (each, _) = list.as_chunks::<POLLED>();
    each.iter().map(|&[a, b, c, d, ..]| i32::from_ne_bytes([a, b, c, d])).filter(|file| *file >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;

    #[test]
    fn the_list_of_a_poll_is_found_and_other_calls_are_left_alone() {
        let poll = "7 0x7f00aa10 0x3 0x3e8 0x0 0x0 0x0 0x7ffe 0x7fee\n";
        assert_eq!(polled(poll), Some((0x7f00_aa10, 3)));
        for other in [
            "running\n",
            "",
            "-1 0x7ffe 0x7fee\n",
            "0 0x5 0x7ffe 0x10\n",
            "7 0x10 0x0 0x3e8",
            "7 0x10 0xffffff 0x1",
        ] {
            assert_eq!(polled(other), None, "{other:?}");
        }
        let list = [3, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0];
        assert_eq!(numbers(&list).collect::<Vec<_>>(), [3, 256]);
    }

    /// How long a thread of this name polls one end of a pipe, at most 0.6 s, while [`Awake`] is kept.
    fn polls_for(name: &str) -> Duration {
        let began = Instant::now();
        let polling = std::thread::Builder::new().name(name.to_owned()).spawn(|| {
            let (read, _write) = std::io::pipe().unwrap();
            let mut files = [PollFd::new(read.as_fd(), PollFlags::POLLIN)];
            poll(&mut files, PollTimeout::from(600_u16)).unwrap();
        });
        let polling = polling.unwrap();
        std::thread::sleep(Duration::from_millis(50)); // it has its name and is in its poll
        let awake = Awake::keep_those_of(&[std::process::id()]);
        polling.join().unwrap();
        drop(awake);
        began.elapsed()
    }

    #[test]
    fn a_thread_that_polls_is_woken_by_its_pipe_if_it_has_the_librarys_name() {
        let others = polls_for("somebody-else");
        assert!(others >= Duration::from_millis(600), "woken after {others:?}");
        let ours = polls_for(NAME);
        assert!(ours < Duration::from_millis(550), "not woken for {ours:?}");
    }

    #[test]
    fn processes_that_are_not_there_or_have_no_such_thread_cost_nothing() {
        assert!(Awake::keep_those_of(&[u32::MAX, 1]).thread.is_none());
        assert!(Awake::keep_those_of(&[]).thread.is_none());
    }
}

//! The process that starts helpers for the switch.
//!
//! Why: once it forwards, the switch may start no program (its filter of system calls). The keeper is started before that,
//! by the switch, has nothing but a socket to it, and starts one thing: this same program as a helper. It ends when the
//! switch does, and with it the helpers, whose own sockets to the switch end at the same moment.
//!
//! Protocol: a request is one message, the helper's arguments with NULs between them, and three descriptors: the helper's
//! end of a stream, the memory, and the keeper's own end of another stream. On that one the keeper says `pid N`, and, when
//! the helper has ended, `ended HOW`; the helper has no part in it, so that what it says of itself is never taken for what
//! became of it. The switch says nothing; it closes what it is done with.
//!
//! A helper cannot remove its socket: the keeper does, once it has ended.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weir_dpdk::{receive_with, remove_socket, send_with};

/// Bytes of the longest request.
const LONGEST: usize = 16 << 10;
/// How long a helper may take to end that is told to.
const GRACE: Duration = Duration::from_millis(500);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The way to the keeper; a process has one, for its life.
static KEEPER: OnceLock<Mutex<(UnixStream, Child)>> = OnceLock::new();

/// A keeper, seen from the switch.
#[derive(Debug)]
pub struct Keeper;

impl Keeper {
    /// Starts one: the command runs a program that calls [`keep`]. A process that has one keeps it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(mut command: Command) -> io::Result<()> {
        if KEEPER.get().is_some() {
            return Ok(());
        }
        let (ours, theirs) = UnixStream::pair()?;
        // Of a group of its own: Ctrl-C is the switch's affair.
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).process_group(0).spawn()?;
        let _ = KEEPER.set(Mutex::new((ours, child))); // another thread may have been quicker: one is enough
        Ok(())
    }

    /// Asks for a helper with these arguments, which gets the stream and the memory; the keeper gets the last.
    pub(super) fn ask(arguments: &[String], files: [BorrowedFd<'_>; 3]) -> Result<(), String> {
        let keeper = KEEPER.get().ok_or(
            "no process is there that could start a helper for it: a switch has one if an untrusted port is \
             configured when it starts",
        )?;
        let keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let text = arguments.join("\0");
        if text.len() > LONGEST {
            return Err(format!("its description is longer than {LONGEST} bytes"));
        }
        send_with(&keeper.0, text.as_bytes(), &files).map_err(|error| {
            format!(
                "the process that starts helpers does not answer ({error}); the switch has to be started anew"
            )
        })
    }
}

/// Runs a keeper, on standard input, until the switch is gone: `helper` makes the command of a helper.
///
/// # Errors
/// What the system says.
pub fn keep(helper: impl Fn() -> Command) -> io::Result<()> {
    let switch = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut buffer = vec![0; LONGEST];
    let mut watched = Vec::new();
    loop {
        let (got, files) = match receive_with(&switch, &mut buffer) {
            Ok((0, _)) => break,
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let Ok([stream, memory, own]) = <[OwnedFd; 3]>::try_from(files) else { continue };
        let own = UnixStream::from(own);
        let text = String::from_utf8_lossy(&buffer[..got]).into_owned();
        match start(helper(), &text, (stream, memory), &own) {
            Ok(child) => {
                // Where there is no thread to be had, the switch hears of this end, and the helper of the switch's.
                watched.extend(thread::Builder::new().spawn(move || watch(child, &text, &own)).ok());
            }
            // The switch may be gone as well.
            Err(error) => drop(writeln!(&own, "ended before it began: {error}")),
        }
        watched.retain(|thread| !thread.is_finished());
    }
    for thread in watched {
        let _ = thread.join(); // it tells of nothing any more
    }
    Ok(())
}

/// Starts a helper: its stream is standard input, its memory standard output.
fn start(
    mut command: Command,
    text: &str,
    (stream, memory): (OwnedFd, OwnedFd),
    own: &UnixStream,
) -> io::Result<Child> {
    let child = command.args(text.split('\0')).stdin(stream).stdout(memory).spawn()?;
    let _ = writeln!(&mut &*own, "pid {}", child.id()); // the switch may be gone, which is seen soon
    Ok(child)
}

/// Waits for a helper's end, tells of it, and ends one that the switch is done with and that does not end by itself.
fn watch(mut child: Child, text: &str, own: &UnixStream) {
    let mut told: Option<Instant> = None;
    let how = loop {
        if let Some(how) = ended(&mut child) {
            break how;
        }
        if told.is_none() && is_over(own) {
            told = Some(Instant::now());
        }
        if told.is_some_and(|since| since.elapsed() > GRACE) {
            let _ = child.kill(); // it may end at this moment
        }
        thread::sleep(LOOK);
    };
    // The port is the last of the arguments.
    remove_socket(text.rsplit('\0').next().unwrap_or_default());
    let _ = writeln!(&mut &*own, "ended {how}"); // the switch may be gone
    // Last, as nobody waits for it: for as long as its last thread has no core to leave by, Linux spins here
    // (docs/notebook.md, "A helper whose end is not heard").
    let _ = child.wait();
}

/// How a helper ended, if it has; it stays to be waited for.
fn ended(child: &mut Child) -> Option<String> {
    let process = Pid::from_raw(child.id().cast_signed());
    match waitid(Id::Pid(process), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG) {
        Ok(WaitStatus::StillAlive) => None,
        Ok(WaitStatus::Signaled(_, signal, _)) => Some(format!("by {signal}")),
        Ok(WaitStatus::Exited(_, code)) => Some(format!("with exit code {code}")),
        Ok(other) => Some(format!("as nobody expects: {other:?}")),
        // Real-time signals have no name there, and whoever was ended by one is waited for at once.
        Err(_) => match child.try_wait().map(|status| status.map(|status| status.signal())) {
            Ok(None) => None,
            Ok(Some(Some(signal))) => Some(format!("by signal {signal}")),
            Ok(Some(None)) | Err(_) => Some("in a way that nobody saw".to_owned()),
        },
    }
}

/// Whether the switch has closed its side. It says nothing before that.
fn is_over(stream: &UnixStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    !matches!(recv(stream.as_raw_fd(), &mut [0; 1], flags), Ok(1..) | Err(Errno::EAGAIN | Errno::EINTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a shell that runs this ended, and how a keeper tells it.
    fn told(script: &str) -> String {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let told = loop {
            if let Some(how) = ended(&mut child) {
                break how;
            }
            thread::sleep(Duration::from_millis(1));
        };
        child.wait().unwrap();
        told
    }

    #[test]
    fn an_end_is_told_by_its_code_or_its_signal_real_time_ones_too() {
        assert_eq!(told("exit 0"), "with exit code 0");
        assert_eq!(told("exit 7"), "with exit code 7");
        assert_eq!(told("kill -SEGV $$"), "by SIGSEGV");
        assert_eq!(told("kill -35 $$"), "by signal 35");
    }
}

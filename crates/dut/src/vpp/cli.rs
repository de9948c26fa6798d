//! VPP's command line, over its socket, as its own `vppctl` speaks it without a terminal.
//!
//! The server begins with options of telnet (RFC 854) and asks for the kind of terminal. The answer that `vppctl` makes is one
//! without prompts and echo, in which what is read at once is one command, and in which a zero byte ends what it printed.

use crate::DutError;
use crate::process::Process;
use nix::sys::socket::{MsgFlags, recv};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const IAC: u8 = 255;
const SB: u8 = 250;
const SE: u8 = 240;
/// The option of the terminal's kind (RFC 1091).
const TERMINAL: u8 = 24;
/// In it: "is", and "say it".
const IS: u8 = 0;
const SAY: u8 = 1;

/// The server's question for the kind of terminal.
const ASKED: [u8; 6] = [IAC, SB, TERMINAL, SAY, IAC, SE];

/// How often it is looked whether the program has ended, or everything is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// How long a command may take: a long table is read in one.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the server is left alone with the answer about the terminal, which it does not confirm: if it read the first
/// command with it, it would answer twice.
const TAKEN: Duration = Duration::from_millis(50);

/// Longest answer, in bytes.
const LONGEST: usize = 4 << 20;

/// Bytes of an answer that an error shows.
const SHOWN: usize = 160;

/// A connection.
#[derive(Debug)]
pub(super) struct Cli {
    stream: UnixStream,
    /// Bytes that were read and not used.
    rest: Vec<u8>,
    alarm: Arc<AtomicBool>,
}

impl Cli {
    /// Connects as soon as the program listens.
    ///
    /// # Errors
    ///
    /// Where it ends or does not answer in time, or is another program.
    pub(super) fn open(
        path: &Path,
        process: &Process,
        alarm: &Arc<AtomicBool>,
        patience: Duration,
    ) -> Result<Self, DutError> {
        let end = Instant::now() + patience;
        let stream = loop {
            if let Ok(stream) = UnixStream::connect(path) {
                break stream;
            }
            match process.wait_for(0, "listen at its command line's socket", LOOK, |_| None::<()>) {
                Err(DutError::Silent { dut, what, last_words, .. }) if Instant::now() > end => {
                    return Err(DutError::Silent { dut, what, seconds: patience.as_secs(), last_words });
                }
                Err(DutError::Silent { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        };
        let left = end.saturating_duration_since(Instant::now()).max(LOOK);
        Self::begin(stream, alarm, left).map_err(|error| process.reason(0, error))
    }

    /// Connects to a program that already runs.
    ///
    /// # Errors
    ///
    /// Where nobody listens there, or another program.
    pub(super) fn connect(
        path: &Path,
        alarm: &Arc<AtomicBool>,
        patience: Duration,
    ) -> Result<Self, DutError> {
        let stream = UnixStream::connect(path).map_err(|error| DutError::Network {
            what: format!("VPP's command line at {}", path.display()),
            reason: format!("{error}; name the socket of `cli-listen` in its start-up file"),
        })?;
        Self::begin(stream, alarm, patience)
    }

    fn begin(stream: UnixStream, alarm: &Arc<AtomicBool>, patience: Duration) -> Result<Self, DutError> {
        stream.set_read_timeout(Some(LOOK)).map_err(|error| lost(&error.to_string()))?;
        let mut cli = Self { stream, rest: Vec::new(), alarm: Arc::clone(alarm) };
        cli.greeted(patience)?;
        Ok(cli)
    }

    /// How it ended; nothing while it stands.
    pub(super) fn ended(&self) -> Option<DutError> {
        let looks = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let end = recv(self.stream.as_raw_fd(), &mut [0], looks);
        (end == Ok(0)).then(|| lost("it was closed"))
    }

    /// Waits to be asked for the kind of terminal, and says that there is none.
    fn greeted(&mut self, patience: Duration) -> Result<(), DutError> {
        let asked = |bytes: &[u8]| bytes.windows(ASKED.len()).any(|window| window == ASKED);
        let end = Instant::now() + patience;
        while !asked(&self.rest) {
            if self.rest.first().is_some_and(|byte| *byte != IAC) {
                return Err(answer(&self.rest, "VPP's command line"));
            }
            self.fill(end, patience)?;
        }
        let answer = [&[IAC, SB, TERMINAL, IS], &b"vppctl"[..], &[IAC, SE]].concat();
        self.say(&answer)?;
        std::thread::sleep(TAKEN);
        Ok(())
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), DutError> {
        self.stream.write_all(bytes).map_err(|error| lost(&error.to_string()))
    }

    /// Has a command done; what it printed.
    pub(super) fn run(&mut self, command: &str) -> Result<String, DutError> {
        self.say(format!("{command}\n").as_bytes())?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == 0) {
                let printed: Vec<u8> = self.rest.drain(..=end).collect();
                return Ok(text(&printed));
            }
            self.fill(end, PATIENCE)?;
        }
    }

    /// Has a command done that prints what is `expected`; what it printed.
    pub(super) fn set(&mut self, command: &str, expected: fn(&str) -> bool) -> Result<String, DutError> {
        let printed = self.run(command)?;
        if expected(&printed) {
            return Ok(printed);
        }
        let reason = if printed.is_empty() { "it printed nothing".to_owned() } else { printed };
        let command = command.to_owned();
        Err(DutError::Refused { dut: super::NAME, command, reason, last_words: String::new() })
    }

    /// Reads some more, if there is any.
    fn fill(&mut self, end: Instant, patience: Duration) -> Result<(), DutError> {
        if self.rest.len() > LONGEST {
            return Err(answer(&self.rest, "an answer that ends"));
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(lost("it was closed")),
            Ok(read) => {
                self.rest.extend_from_slice(&bytes[..read]);
                return Ok(());
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(lost(&error.to_string())),
        }
        if self.alarm.load(Ordering::Relaxed) {
            return Err(DutError::Interrupted { dut: super::NAME });
        }
        if Instant::now() > end {
            let what = "answer on its command line";
            let seconds = patience.as_secs();
            return Err(DutError::Silent { dut: super::NAME, what, seconds, last_words: String::new() });
        }
        Ok(())
    }
}

/// What is printed, without the options of telnet and what ends it.
fn text(bytes: &[u8]) -> String {
    let (mut printed, mut rest) = (Vec::new(), bytes);
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match (byte, behind.first()) {
            (IAC, Some(&SB)) => {
                let end = behind.windows(2).position(|window| window == [IAC, SE]);
                end.map_or(&[][..], |end| &behind[end + 2..])
            }
            (IAC, Some(_)) => behind.get(2..).unwrap_or_default(),
            (0 | b'\r', _) => behind,
            _ => {
                printed.push(byte);
                behind
            }
        };
    }
    String::from_utf8_lossy(&printed).trim().to_owned()
}

fn lost(reason: &str) -> DutError {
    DutError::Network { what: "VPP's command line".to_owned(), reason: reason.to_owned() }
}

fn answer(bytes: &[u8], expected: &'static str) -> DutError {
    let answer = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    DutError::Answer { dut: super::NAME, answer, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_told_from_the_options_of_telnet() {
        let bytes = [&[IAC, 251, 1, IAC, SB, TERMINAL, SAY, IAC, SE][..], b"up\r\n  down\r\n", &[0]].concat();
        assert_eq!(text(&bytes), "up\n  down");
        for cut in [&[IAC][..], &[IAC, SB, TERMINAL], &[IAC, 251]] {
            assert!(text(cut).chars().count() <= 3, "{cut:?}");
        }
    }
}

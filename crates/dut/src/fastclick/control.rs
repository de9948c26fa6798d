//! Click's control socket: a question a line, answered by a code, and by data of a stated length.
//!
//! The protocol is that of Click's element `ControlSocket`, version 1: `READ HANDLER` is answered by `200 ...`,
//! `DATA N` and N bytes; a code from 500 on refuses. It answers once the configuration runs, which is how the lab knows
//! that it forwards.

use crate::process::Process;
use crate::{DutError, StartRequest};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a server of the protocol that is spoken here introduces itself, up to the minor version.
const GREETING: &str = "Click::ControlSocket/1.";

/// How often it is looked whether the program has ended, or everything is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest data of an answer, in bytes; a counter has twenty.
const LONGEST: usize = 1 << 20;

/// A connection.
#[derive(Debug)]
pub(super) struct Control {
    stream: UnixStream,
    /// Bytes that were read and not used.
    rest: Vec<u8>,
    alarm: Arc<AtomicBool>,
}

impl Control {
    /// Connects as soon as the program listens, and waits until it answers.
    ///
    /// # Errors
    ///
    /// Where it ends or does not answer in time, or speaks another version.
    pub(super) fn open(
        path: &Path,
        process: &Process,
        request: &StartRequest<'_>,
        patience: Duration,
    ) -> Result<Self, DutError> {
        let end = Instant::now() + patience;
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(_) => waited(process, &request.alarm, end, patience)?,
            }
            std::thread::sleep(LOOK);
        };
        let file =
            |error: std::io::Error| DutError::File { path: path.to_owned(), reason: error.to_string() };
        stream.set_read_timeout(Some(LOOK)).map_err(file)?;
        let mut control = Self { stream, rest: Vec::new(), alarm: Arc::clone(&request.alarm) };
        let greeting = loop {
            match control.line() {
                Some(line) => break line,
                None if control.fill().map_err(|error| process.reason(0, error))? => {}
                None => waited(process, &control.alarm, end, patience)?,
            }
        };
        if !greeting.starts_with(GREETING) {
            return Err(answer(&greeting, "Click's control protocol, version 1,"));
        }
        Ok(control)
    }

    /// What a handler says.
    pub(super) fn read(&mut self, handler: &str) -> Result<String, DutError> {
        let question = format!("READ {handler}\n");
        self.stream.write_all(question.as_bytes()).map_err(|error| lost(&error.to_string()))?;
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.wait(end, Self::line)?;
            match (line.get(..3).and_then(|code| code.parse::<u16>().ok()), line.as_bytes().get(3)) {
                (Some(200..300), Some(b' ')) => break,
                (Some(200..300), Some(b'-')) => {} // more lines follow
                (Some(500..600), _) => {
                    return Err(DutError::Refused {
                        dut: super::NAME,
                        command: format!("READ {handler}"),
                        reason: line,
                        last_words: String::new(),
                    });
                }
                _ => return Err(answer(&line, "a code of the control protocol")),
            }
        }
        let line = self.wait(end, Self::line)?;
        let length = line.strip_prefix("DATA ").and_then(|length| length.trim().parse::<usize>().ok());
        let Some(length) = length.filter(|length| *length <= LONGEST) else {
            return Err(answer(&line, "`DATA` and a length"));
        };
        let data = self.wait(end, |control| control.take(length))?;
        Ok(String::from_utf8_lossy(&data).into_owned())
    }

    /// The number that a handler says.
    pub(super) fn count(&mut self, handler: &str) -> Result<u64, DutError> {
        let text = self.read(handler)?;
        text.trim().parse().map_err(|_| answer(&text, "a counter"))
    }

    /// Reads on until `find` makes something of it.
    fn wait<T>(&mut self, end: Instant, find: impl Fn(&mut Self) -> Option<T>) -> Result<T, DutError> {
        loop {
            if let Some(found) = find(self) {
                return Ok(found);
            }
            if self.fill()? {
                continue;
            }
            if self.alarm.load(Ordering::Relaxed) {
                return Err(DutError::Interrupted { dut: super::NAME });
            }
            if Instant::now() > end {
                return Err(DutError::Silent {
                    dut: super::NAME,
                    what: "answer on its control socket",
                    seconds: PATIENCE.as_secs(),
                    last_words: String::new(),
                });
            }
        }
    }

    /// A whole line, without its end.
    fn line(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.rest.len() >= length).then(|| self.rest.drain(..length).collect())
    }

    /// Reads what there is; whether there was any.
    fn fill(&mut self) -> Result<bool, DutError> {
        if self.rest.len() > LONGEST + 256 {
            return Err(answer("a line without end", "the control protocol"));
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(lost("it was closed")),
            Ok(read) => {
                self.rest.extend_from_slice(&bytes[..read]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(lost(&error.to_string())),
        }
    }
}

/// Why it is not waited for any longer; nothing while it is.
fn waited(process: &Process, alarm: &AtomicBool, end: Instant, patience: Duration) -> Result<(), DutError> {
    let over = Instant::now() > end;
    if over || alarm.load(Ordering::Relaxed) || process.ended().is_some() {
        // Says how it ended, with its last words, that it was silent, or that all is to stop.
        let left = if over { Duration::ZERO } else { LOOK };
        let said = process.wait_for(0, "forward", left, |_| None::<()>);
        return said.map_err(|error| match error {
            DutError::Silent { dut, last_words, .. } => DutError::Silent {
                dut,
                what: "forward (its control socket does not answer)",
                seconds: patience.as_secs(),
                last_words,
            },
            error => error,
        });
    }
    Ok(())
}

fn lost(reason: &str) -> DutError {
    DutError::Network { what: "FastClick's control socket".to_owned(), reason: reason.to_owned() }
}

fn answer(answer: &str, expected: &'static str) -> DutError {
    DutError::Answer { dut: super::NAME, answer: answer.trim().to_owned(), expected }
}

//! The other end of the control socket: what `weir switch ctl` and its siblings speak through.

use crate::protocol::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no switch answers at {}: {error}; start one with `weir switch`, or name its socket with --control PATH", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The switch said no.
    #[error("{0}")]
    Refused(String),
    /// The connection broke, or the switch speaks in other words.
    #[error("the switch went away: {0}")]
    Broken(String),
}

/// A connection to a switch.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
}

/// Ends a client's connection.
#[derive(Debug)]
pub struct HangUp(UnixStream);

impl HangUp {
    /// Ends it.
    pub fn now(&self) {
        let _ = self.0.shutdown(Shutdown::Both); // it is over already, then
    }
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|error| ClientError::Connect { path: path.to_owned(), error })?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What the switch says, or that it is gone.
    pub fn ask(&mut self, request: &Request) -> Result<Value, ClientError> {
        let broken = |error: &dyn std::fmt::Display| ClientError::Broken(error.to_string());
        let mut text = serde_json::to_string(request).map_err(|error| broken(&error))?;
        text.push('\n');
        self.reader.get_mut().write_all(text.as_bytes()).map_err(|error| broken(&error))?;
        let mut answer = self.line()?.ok_or_else(|| broken(&"it closed the connection"))?;
        if answer["ok"] == true {
            return Ok(answer["result"].take());
        }
        let error = answer["error"].as_str().unwrap_or("it did not say why");
        Err(ClientError::Refused(error.to_owned()))
    }

    /// Asks, and reads the answer as what it should be.
    ///
    /// # Errors
    /// As [`Self::ask`], or an answer of another form: a switch of another version.
    pub fn ask_for<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let answer = self.ask(request)?;
        serde_json::from_value(answer)
            .map_err(|error| ClientError::Broken(format!("its answer is of another version: {error}")))
    }

    /// Whether more has come than was read.
    pub fn has_more(&self) -> bool {
        !self.reader.buffer().is_empty()
    }

    /// What ends the connection from another thread: whoever waits for an event gets the end of them.
    ///
    /// # Errors
    /// What the system says.
    pub fn hang_up(&self) -> Result<HangUp, ClientError> {
        let stream = self.reader.get_ref().try_clone();
        stream.map(HangUp).map_err(|error| ClientError::Broken(error.to_string()))
    }

    /// The next event after a request that is answered with many; nothing at the end.
    ///
    /// # Errors
    /// The connection broke.
    pub fn event(&mut self) -> Result<Option<Value>, ClientError> {
        match self.line()? {
            Some(mut line) if !line["event"].is_null() => Ok(Some(line["event"].take())),
            _ => Ok(None),
        }
    }

    fn line(&mut self) -> Result<Option<Value>, ClientError> {
        let mut line = String::new();
        let read =
            self.reader.read_line(&mut line).map_err(|error| ClientError::Broken(error.to_string()))?;
        if read == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(|error| ClientError::Broken(error.to_string()))
    }
}

//! A connection with a switch in TLS.
//!
//! One thread reads it while others write. What was read from the socket is opened, and what is to be written sealed, under a
//! lock that nobody holds while the socket waits; so a switch that reads nothing before it has said all it has to say blocks
//! whoever writes, as it does without TLS, and not whoever reads.

use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a switch may take over the handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that are read from the socket at once: a record of TLS and some.
const CHUNK: usize = 18 << 10;

/// One end of the connection.
pub(super) struct Encrypted {
    socket: TcpStream,
    tls: Arc<Mutex<Connection>>,
    /// What was opened and nobody has taken yet.
    plain: Vec<u8>,
    taken: usize,
}

impl Encrypted {
    /// Shakes hands. An error of the kind `InvalidData` is for good: no later attempt will do better.
    pub(super) fn begin(socket: TcpStream, tls: Result<Connection, rustls::Error>) -> io::Result<Self> {
        let mut tls = tls.map_err(invalid)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut through = &socket;
        while tls.is_handshaking() {
            tls.complete_io(&mut through).map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => {
                    io::Error::new(ErrorKind::InvalidData, "nobody answered the TLS handshake")
                }
                _ => io::Error::new(error.kind(), format!("the TLS handshake: {error}")),
            })?;
        }
        socket.set_read_timeout(None)?;
        Ok(Self { socket, tls: Arc::new(Mutex::new(tls)), plain: Vec::new(), taken: 0 })
    }

    /// Another handle of it, for the thread that reads.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let (socket, tls) = (self.socket.try_clone()?, Arc::clone(&self.tls));
        Ok(Self { socket, tls, plain: Vec::new(), taken: 0 })
    }

    /// Ends it, whoever reads from it.
    pub(super) fn shutdown(&self) {
        let mut sealed = Vec::new();
        let mut tls = self.tls();
        tls.send_close_notify();
        let _ = tls.write_tls(&mut sealed); // into memory
        drop(tls);
        // It may be closed already.
        let _ = (&self.socket).write_all(&sealed);
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn tls(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens what came; whether the other side has more to say.
    fn open(&mut self, mut sealed: &[u8]) -> io::Result<bool> {
        self.plain.drain(..self.taken);
        self.taken = 0;
        let mut tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if !sealed.is_empty() {
                tls.read_tls(&mut sealed)?;
            }
            let state = tls.process_new_packets().map_err(invalid)?;
            let start = self.plain.len();
            self.plain.resize(start + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut self.plain[start..])?;
            if sealed.is_empty() {
                return Ok(!state.peer_has_closed());
            }
        }
    }
}

/// What rustls says is wrong.
fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Read for Encrypted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.plain.len() {
            // The handshake may have brought more than itself.
            let mut goes_on = self.open(&[])?;
            let mut chunk = [0; CHUNK];
            while goes_on && self.plain.is_empty() {
                let count = self.socket.read(&mut chunk)?;
                goes_on = count > 0 && self.open(&chunk[..count])?;
            }
        }
        let count = bytes.len().min(self.plain.len() - self.taken);
        bytes[..count].copy_from_slice(&self.plain[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sealed = Vec::new();
        let mut tls = self.tls();
        let count = tls.writer().write(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut sealed)?;
        }
        drop(tls);
        self.socket.write_all(&sealed)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

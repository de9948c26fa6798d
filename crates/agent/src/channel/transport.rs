//! A connection's socket, with or without TLS; it never waits.
//!
//! With TLS a read may write (handshake, alerts) and a write may need nothing of the socket yet: what the
//! poll is to wait for is said by [`Transport::wants_write`].

use nix::poll::PollFlags;
use rustls::Connection;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A socket that does not block.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket, and TLS if it is spoken.
pub(super) struct Transport {
    socket: Arc<Socket>,
    tls: Option<Box<Connection>>,
}

impl Transport {
    pub(super) fn new(socket: Socket, tls: Option<Connection>) -> Self {
        Self { socket: Arc::new(socket), tls: tls.map(Box::new) }
    }

    /// The socket, if what is written there is what the other side reads.
    pub(super) fn plain(&self) -> Option<Arc<Socket>> {
        self.is_plain().then(|| self.socket.clone())
    }

    /// Whether what is read is what came: TLS may keep some of it back.
    pub(super) const fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Bytes of the other side; 0 if it will not send any more.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if there are none now, and what the system or TLS says.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut socket = &*self.socket;
        let Some(tls) = &mut self.tls else { return socket.read(bytes) };
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Cut off without a word: framing tells whether a message was.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let came = tls.read_tls(&mut socket)?;
            if let Err(error) = tls.process_new_packets() {
                // An alert, if the other side still takes it.
                let _ = tls.write_tls(&mut socket);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            if came == 0 && tls.is_handshaking() {
                return Ok(0);
            }
        }
    }

    /// Sends what it can, and says how much that was.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if nothing can be sent now, and what the system says.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_none() {
            return (&*self.socket).write(bytes);
        }
        self.flush()?;
        let written = match &mut self.tls {
            Some(tls) => tls.writer().write(bytes)?,
            None => 0,
        };
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if written == 0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(written),
        }
    }

    /// Sends what TLS has to say by itself.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if not all of it can be sent now, and what the system says.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut &*self.socket)?;
        }
        Ok(())
    }

    /// Whether TLS waits for the socket to take bytes.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says that nothing more will be sent.
    pub(super) fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Who does not take even that will see the socket close.
            let _ = self.flush();
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// What became of a connection that was being made.
    ///
    /// # Errors
    /// Why it was not.
    pub(super) fn connected(&self) -> io::Result<()> {
        let error = match &*self.socket {
            Socket::Tcp(stream) => stream.take_error()?,
            Socket::Unix(stream) => stream.take_error()?,
        };
        error.map_or(Ok(()), Err)
    }

    /// What the poll is to wait for.
    pub(super) fn interest(read: bool, write: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, read);
        flags.set(PollFlags::POLLOUT, write);
        flags
    }
}

impl Socket {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).read(bytes),
            Socket::Unix(stream) => (&*stream).read(bytes),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).write(bytes),
            Socket::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &*self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = self.tls.is_some();
        out.debug_struct("Transport").field("socket", &self.socket).field("tls", &tls).finish()
    }
}

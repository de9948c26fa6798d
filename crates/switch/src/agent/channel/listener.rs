//! Sockets where controllers connect.

use super::endpoint::Listen;
use super::transport::Socket;
use crate::socket::vacate;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// A socket that does not block. Dropping it closes it, and removes its path.
#[derive(Debug)]
pub(super) struct Listener {
    kind: Kind,
    pub(super) tls: bool,
    /// Where it listens.
    pub(super) address: String,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens. A Unix socket is its owner's alone.
    ///
    /// # Errors
    /// What stands in the way, and how to mend it.
    pub(super) fn bind(listen: &Listen) -> Result<Self, String> {
        let kind = match listen {
            Listen::Tcp { address, .. } => {
                let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
                    ErrorKind::AddrInUse => {
                        format!("{error}; another switch or controller listens there: name another port")
                    }
                    ErrorKind::AddrNotAvailable => format!("{error}: it is not one of this machine's"),
                    _ => error.to_string(),
                })?;
                Kind::Tcp(listener)
            }
            Listen::Unix(path) => {
                vacate(path).map_err(|error| error.reason())?;
                let listener = UnixListener::bind(path).map_err(|error| error.to_string())?;
                Kind::Unix(listener, path.clone())
            }
        };
        let address = kind.prepare().map_err(|error| error.to_string())?;
        Ok(Self { kind, tls: listen.tls(), address })
    }

    /// Takes who waits: the socket, and who it is.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if nobody waits, and what the system says.
    pub(super) fn accept(&self) -> io::Result<(Socket, String)> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let method = if self.tls { "ssl" } else { "tcp" };
                Ok((Socket::Tcp(stream), format!("{method}:{peer}")))
            }
            Kind::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Socket::Unix(stream), format!("unix:{}", path.display())))
            }
        }
    }
}

impl Kind {
    /// Makes it not block, and its owner's alone; hands back where it listens.
    fn prepare(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                listener.local_addr().map(|address| address.to_string())
            }
            Self::Unix(listener, path) => {
                fs::set_permissions(path, Permissions::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                Ok(path.display().to_string())
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path) = &self.kind {
            let _ = fs::remove_file(path); // somebody may have been quicker
        }
    }
}

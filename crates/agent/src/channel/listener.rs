//! Sockets where controllers connect.

use super::doorway;
use super::endpoint::Listen;
use super::transport::Socket;
use crate::private::{bind_private, is_ours};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Somebody who connected.
pub(super) struct Visitor {
    pub(super) socket: Socket,
    /// Who it is, for people.
    pub(super) peer: String,
    pub(super) from: Origin,
}

/// Where a connection comes from, as far as its share goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// This machine, by a Unix socket.
    Local,
    /// An address; of IPv6 the first half, as whoever has one address of a network has all.
    Address(IpAddr),
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !(u128::MAX >> 64)).into()),
            address => address,
        })
    }
}

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
                let listener = bind_private(path).map_err(|error| error.reason())?;
                Kind::Unix(listener, path.clone())
            }
        };
        let address = kind.prepare().map_err(|error| error.to_string())?;
        Ok(Self { kind, tls: listen.tls(), address })
    }

    /// Whose slots its connections take.
    pub(super) const fn kind(&self) -> doorway::Kind {
        match &self.kind {
            Kind::Unix(..) => doorway::Kind::Unix,
            Kind::Tcp(_) if self.tls => doorway::Kind::Tls,
            Kind::Tcp(_) => doorway::Kind::Tcp,
        }
    }

    /// Takes who waits.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if nobody waits, [`ErrorKind::PermissionDenied`] if it was another user's process
    /// at a Unix socket, and what the system says.
    pub(super) fn accept(&self) -> io::Result<Visitor> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let method = if self.tls { "ssl" } else { "tcp" };
                let from = Origin::of(peer.ip());
                Ok(Visitor { socket: Socket::Tcp(stream), peer: format!("{method}:{peer}"), from })
            }
            Kind::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                if !is_ours(&stream)? {
                    return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another user"));
                }
                stream.set_nonblocking(true)?;
                let peer = format!("unix:{}", path.display());
                Ok(Visitor { socket: Socket::Unix(stream), peer, from: Origin::Local })
            }
        }
    }
}

impl Kind {
    /// Makes it not block; hands back where it listens.
    fn prepare(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                listener.local_addr().map(|address| address.to_string())
            }
            Self::Unix(listener, path) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_origin_and_mapped_ones_those_of_ipv4() {
        let of = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        assert_ne!(of("192.0.2.7"), of("192.0.2.8"));
    }
}

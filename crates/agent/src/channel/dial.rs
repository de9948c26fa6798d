//! Connecting to a controller, again and again.
//!
//! After a connection that failed or ended at once the next attempt waits a second, then two, four, and at
//! most eight; for ever. Nothing here waits: names are looked up in a thread that ends with that.

use super::endpoint::{Controller, Host};
use super::transport::Socket;
use nix::errno::Errno;
use nix::sys::socket::SockaddrLike;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr, connect, socket};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// The first wait between two attempts.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(8);

/// A controller to be connected to.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) controller: Controller,
    pub(super) state: State,
    backoff: Duration,
    attempts: usize,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The next attempt is due then.
    Waiting(Instant),
    /// Its name is being looked up.
    LookingUp,
    /// There is a connection, made or being made.
    Connected,
}

impl Dial {
    pub(super) const fn new(controller: Controller, now: Instant) -> Self {
        Self { controller, state: State::Waiting(now), backoff: SHORTEST, attempts: 0 }
    }

    /// It failed, or ended. `open` is how long both sides had agreed on a version.
    pub(super) fn ended(&mut self, open: Option<Duration>, now: Instant) {
        if open.is_some_and(|open| open >= self.backoff) {
            self.backoff = SHORTEST;
        }
        self.state = State::Waiting(now + self.backoff);
        self.backoff = (self.backoff * 2).min(LONGEST);
    }

    /// Whether the next attempt is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting(at) if at <= now)
    }

    /// When it is.
    pub(super) const fn retry(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(at) => Some(at),
            _ => None,
        }
    }

    /// One of a host's addresses: each in turn.
    pub(super) fn pick(&mut self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let picked = addresses.get(self.attempts % addresses.len().max(1)).copied();
        self.attempts = self.attempts.wrapping_add(1);
        picked
    }
}

/// Looks a host up, in another thread if that may take time; `done` takes the addresses.
///
/// # Errors
/// No thread is to be had.
pub(super) fn look_up(
    host: &Host,
    port: u16,
    done: impl FnOnce(io::Result<Vec<SocketAddr>>) + Send + 'static,
) -> io::Result<()> {
    match host {
        Host::Address(address) => {
            done(Ok(vec![SocketAddr::new(*address, port)]));
            Ok(())
        }
        Host::Name(name) => {
            let name = name.clone();
            let look = move || done((name.as_str(), port).to_socket_addrs().map(Iterator::collect));
            thread::Builder::new().name("weir-lookup".into()).spawn(look).map(drop)
        }
    }
}

/// Begins to connect.
///
/// # Errors
/// What the system says at once.
pub(super) fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let stream = TcpStream::from(begin(family, &SockaddrStorage::from(address))?);
    stream.set_nodelay(true)?;
    Ok(Socket::Tcp(stream))
}

/// Connects.
///
/// # Errors
/// What the system says, such as that too many wait there already.
pub(super) fn unix(path: &std::path::Path) -> io::Result<Socket> {
    let address = UnixAddr::new(path)?;
    Ok(Socket::Unix(UnixStream::from(begin(AddressFamily::Unix, &address)?)))
}

fn begin(family: AddressFamily, address: &dyn SockaddrLike) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(family, SockType::Stream, flags, None)?;
    match connect(fd.as_raw_fd(), address) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_eight_seconds_and_start_again_after_a_connection_that_lasted() {
        let now = Instant::now();
        let mut dial = Dial::new("tcp:192.0.2.1".parse().unwrap(), now);
        assert!(dial.is_due(now), "the first attempt is made at once");
        let mut wait = |open: Option<u64>| {
            dial.ended(open.map(Duration::from_secs), now);
            dial.retry().unwrap().duration_since(now).as_secs()
        };
        assert_eq!([(); 6].map(|()| wait(None)), [1, 2, 4, 8, 8, 8]);
        assert_eq!(wait(Some(7)), 8, "one that ends at once is no better than none");
        assert_eq!((wait(Some(8)), wait(None)), (1, 2));
    }

    #[test]
    fn a_host_with_several_addresses_is_tried_at_each_in_turn() {
        let mut dial = Dial::new("tcp:example.org".parse().unwrap(), Instant::now());
        let addresses = ["192.0.2.1:1".parse().unwrap(), "192.0.2.2:1".parse().unwrap()];
        let picked = [(); 3].map(|()| dial.pick(&addresses).unwrap());
        assert_eq!(picked, [addresses[0], addresses[1], addresses[0]]);
        assert_eq!(dial.pick(&[]), None);
    }
}

//! Changes of flow entries while a device forwards, as a controller sends them: OpenFlow 1.3 over the device's
//! socket, one change and a barrier at a time, so many a second.
//!
//! The entries are routes that no packet of the lab's traces takes (in 240.0.0.0/4). Each is added, modified and deleted,
//! then the next one. A device that is frozen, or slow, is waited for; what it missed is not made up for, and
//! [`Feed::done`] says how many changes came to their barrier.
//!
//! One thread, on the core that the device does not forward on.

use crate::DutError;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The first network of the lab's idle routes: 240.0.0.0/4 is reserved, so no trace has an address of it.
const FIRST: u32 = 0xf000_0000;
/// The first of those that come and go.
const COMING: u32 = 0xfe00_0000;
/// Their length, which is their priority, as a route's.
const BITS: u8 = 24;
/// So many come and go in turn.
const TURN: u32 = 1000;
/// Most idle routes that stay.
pub(crate) const MOST_IDLE: u32 = (COMING - FIRST) >> (32 - BITS);
/// Most changes a second that can be asked for.
pub(crate) const MOST_CHANGES: u32 = 100_000;
/// Periods by which a change may be late and is still made up for.
const LATE: u32 = 10;

/// OpenFlow 1.3: its version, types of messages, commands, and numbers that mean "any".
const VERSION: u8 = 4;
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const FLOW_MOD: u8 = 14;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;
const COMMANDS: [u8; 3] = [0, 2, 4];
const DELETE_STRICT: u8 = 4;
const ANY: u32 = u32::MAX;
const HEADER: usize = 8;

/// Routes that no packet takes, for a table of routes, as `ovs-ofctl add-flows` reads them.
pub(crate) fn idle_routes(table: u8, count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let network = network(FIRST, number);
        let _ = writeln!(text, "table={table},priority={BITS},ip,nw_dst={network}/{BITS},actions=drop");
    }
    text
}

fn network(first: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(first + (number << (32 - BITS)))
}

/// A controller at work.
pub(crate) struct Feed {
    rate: u32,
    shared: Arc<Shared>,
    socket: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    done: AtomicU64,
    stop: AtomicBool,
    /// Why it ended, where nobody asked it to.
    failed: OnceLock<String>,
}

impl Feed {
    /// Connects to a device, and changes the entries of a table so often from then on.
    pub(crate) fn start(
        dut: &'static str,
        socket: &Path,
        (table, rate): (u8, u32),
        core: usize,
    ) -> Result<Self, DutError> {
        let wrong = |error: std::io::Error| DutError::Answer {
            dut,
            answer: format!("{}: {error}", socket.display()),
            expected: "an OpenFlow switch behind its socket",
        };
        let socket = UnixStream::connect(socket).map_err(wrong)?;
        let own = socket.try_clone().map_err(wrong)?;
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut only = CpuSet::new();
            // A core that this process may not use is none to keep to.
            let _ = only.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
            if let Err(why) = (Controller { socket: own, unread: Vec::new() }).work(table, rate, &its)
                && !its.stop.load(Ordering::Relaxed)
            {
                let _ = its.failed.set(why);
            }
        });
        Ok(Self { rate, shared, socket, thread: Some(thread) })
    }

    /// Changes that came to their barrier since its start; why it ended, where it did.
    pub(crate) fn done(&self) -> Result<u64, &str> {
        match self.shared.failed.get() {
            Some(why) => Err(why),
            None => Ok(self.shared.done.load(Ordering::Relaxed)),
        }
    }

    /// Changes a second that were asked for.
    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Both); // it may be closed already
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it cannot panic on bytes that it only compares
        }
    }
}

/// The controller's end of the connection.
struct Controller {
    socket: UnixStream,
    unread: Vec<u8>,
}

impl Controller {
    /// Changes entries until it is told to stop, or the connection ends.
    fn work(&mut self, table: u8, rate: u32, shared: &Shared) -> Result<(), String> {
        self.send(&message(HELLO, &[]))?;
        let period = Duration::from_secs(1) / rate;
        let mut due = Instant::now();
        for (route, command) in (0..TURN).cycle().flat_map(|route| COMMANDS.map(|command| (route, command))) {
            let change = message(FLOW_MOD, &change(table, command, route));
            self.send(&[change, message(BARRIER_REQUEST, &[])].concat())?;
            self.wait_for_barrier()?;
            shared.done.fetch_add(1, Ordering::Relaxed);
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let now = Instant::now();
            due = (due + period).max(now.checked_sub(period * LATE).unwrap_or(now));
            std::thread::sleep(due.saturating_duration_since(now));
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|error| format!("the connection to it: {error}"))
    }

    fn wait_for_barrier(&mut self) -> Result<(), String> {
        loop {
            let got = self.receive()?;
            match got[1] {
                BARRIER_REPLY => return Ok(()),
                ECHO_REQUEST => self.send(&[&[VERSION, ECHO_REPLY], &got[2..]].concat())?,
                ERROR => {
                    let code = got.get(HEADER..HEADER + 4).unwrap_or_default();
                    return Err(format!("it refused a change: error of type and code {code:02x?}"));
                }
                _ => {}
            }
        }
    }

    /// The next message, whole.
    fn receive(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some(&[_, _, high, low]) = self.unread.first_chunk() {
                let length = usize::from(u16::from_be_bytes([high, low]));
                if length < HEADER {
                    return Err(format!("it sent a message of {length} bytes"));
                }
                if length <= self.unread.len() {
                    let rest = self.unread.split_off(length);
                    return Ok(std::mem::replace(&mut self.unread, rest));
                }
            }
            let mut bytes = [0; 4096];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => self.unread.extend(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the connection to it: {error}")),
            }
        }
    }
}

/// A message: its header and body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u16;
    let mut bytes = vec![VERSION, kind];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// The body of a change of one route: output by port 1, by port 2 once it is modified, then gone.
fn change(table: u8, command: u8, route: u32) -> Vec<u8> {
    let mut body = vec![0; 16]; // cookie and its mask
    body.extend([table, command]);
    body.extend([0; 4]); // no timeouts
    body.extend(u16::from(BITS).to_be_bytes());
    body.extend([ANY; 3].map(u32::to_be_bytes).concat()); // no buffer, any port, any group
    body.extend([0; 4]); // no flags
    // OXM fields: EtherType, and the destination under a mask.
    body.extend([0, 1, 0, 22]);
    body.extend([0x80, 0, 0x0a, 2, 0x08, 0, 0x80, 0, 0x19, 8]);
    body.extend(network(COMING, route).octets());
    body.extend((u32::MAX << (32 - BITS)).to_be_bytes());
    body.extend([0; 2]); // up to a multiple of eight
    if command != DELETE_STRICT {
        let port = u32::from(command) / 2 + 1;
        body.extend([0, 4, 0, 24, 0, 0, 0, 0, 0, 0, 0, 16]); // apply actions: output
        body.extend(port.to_be_bytes());
        body.extend([0xff, 0xff, 0, 0, 0, 0, 0, 0]);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A switch that answers so many barriers as `answer` says, and what it was sent.
    fn switch(answers: usize, answer: u8) -> (tempfile::TempDir, JoinHandle<Vec<Vec<u8>>>) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("of")).unwrap();
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut end = Controller { socket, unread: Vec::new() };
            let mut got = Vec::new();
            while let Ok(message) = end.receive() {
                let barrier = message[1] == BARRIER_REQUEST;
                got.push(message);
                let barriers = got.iter().filter(|message| message[1] == BARRIER_REQUEST).count();
                if barrier {
                    end.send(&super::message(ECHO_REQUEST, b"!")).unwrap();
                    end.send(&super::message(answer, &[0, 5, 0, 1])).unwrap();
                }
                if barriers == answers && got.last().unwrap()[1] == ECHO_REPLY {
                    break;
                }
            }
            got
        });
        (folder, thread)
    }

    fn feed(folder: &tempfile::TempDir, rate: u32) -> Feed {
        Feed::start("test", &folder.path().join("of"), (1, rate), 0).unwrap()
    }

    #[test]
    fn a_route_comes_changes_and_goes_at_the_rate_that_was_asked_for() {
        let (folder, switch) = switch(31, BARRIER_REPLY);
        let begin = Instant::now();
        let feed = feed(&folder, 1000);
        let got = switch.join().unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(30 - u64::from(LATE)), "not faster than asked for");
        drop(feed);
        let changes: Vec<&Vec<u8>> = got.iter().filter(|message| message[1] == FLOW_MOD).collect();
        assert_eq!(changes.len(), 31);
        assert!(got.iter().any(|message| message[1] == ECHO_REPLY && message[HEADER..] == *b"!"));
        let commands: Vec<u8> = changes.iter().map(|change| change[HEADER + 17]).collect();
        assert_eq!(commands[..4], [0, 2, 4, 0]);
        let matching = |change: &[u8]| change[HEADER + 40..HEADER + 64].to_vec();
        assert_eq!(matching(changes[0]), matching(changes[2]), "what is added goes");
        assert_ne!(matching(changes[0]), matching(changes[3]), "then comes the next");
        for change in changes {
            assert_eq!(usize::from(u16::from_be_bytes([change[2], change[3]])), change.len());
            assert_eq!((change[HEADER + 16], change.len() % 8), (1, 0));
        }
    }

    #[test]
    fn a_refused_change_ends_it_and_says_so() {
        let (folder, switch) = switch(1, ERROR);
        let feed = feed(&folder, 1000);
        let told = loop {
            match feed.done() {
                Ok(_) => std::thread::sleep(Duration::from_millis(1)),
                Err(why) => break why.to_owned(),
            }
        };
        assert!(told.contains("[00, 05, 00, 01]"), "{told}");
        drop(feed);
        drop(switch.join());
    }

    #[test]
    fn a_device_that_never_answers_is_left_when_asked_to() {
        let (folder, switch) = switch(1, HELLO);
        let feed = feed(&folder, 1000);
        assert_eq!(feed.done(), Ok(0));
        drop(feed);
        drop(switch.join());
    }

    #[test]
    fn idle_routes_are_all_different_and_of_no_address_that_comes_and_goes() {
        let text = idle_routes(1, 3);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "table=1,priority=24,ip,nw_dst=240.0.2.0/24,actions=drop");
        assert_eq!(lines.len(), 3);
        assert_eq!(network(FIRST, MOST_IDLE - 1), Ipv4Addr::new(253, 255, 255, 0));
        assert_eq!(network(COMING, TURN - 1), Ipv4Addr::new(254, 3, 231, 0));
    }
}

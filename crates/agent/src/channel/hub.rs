//! All connections: a turn polls them, accepts, connects again, and keeps their number.
//!
//! It never waits but for them: what takes time elsewhere (names, the switch) has threads of its own.
//! A turn looks at each connection; there are at most some hundred, so that costs microseconds.
//!
//! Threads: whoever has the watch (`watch`).

use super::backlog::Backlog;
use super::dial::{self, Dial, State};
use super::doorway::{self, Guest, Kind, Verdict};
use super::endpoint::Controller;
use super::line::line;
use super::link::{Begin, End, Link, Turn, Way};
use super::listener::{Listener, Visitor};
use super::status::{Board, Shown};
use super::transport::{Socket, Transport};
use super::waker::{Waker, Woken};
use crate::ConnectionId;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, Instant};
use weir_tls::Tls;

/// How often clocks are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the switch's thread looks again and again after somebody said something, before it sleeps: whoever
/// says one thing after the other, each when the last is answered, is not kept waiting for it to wake up.
const LIVELY: Duration = Duration::from_micros(100);
/// Bytes of one read.
pub(super) const SCRATCH: usize = 16 << 10;
/// Connections that a listener takes in a turn, and half of the slots at most: whoever says hello at once is read
/// before those behind it could take its slot.
const ACCEPTS: usize = 16;

/// What holds for all connections.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) tls: Option<Tls>,
    pub(super) echo: Duration,
    pub(super) max_connections: usize,
}

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Other rules hold.
    Rules(Rules),
    /// Controllers may connect here.
    Listen(u64, Listener),
    /// Connect there.
    Connect(u64, Controller),
    /// These endpoints go, with their connections; answered when they are gone.
    Remove(Vec<u64>, SyncSender<()>),
    /// A controller's addresses.
    Found(u64, io::Result<Vec<SocketAddr>>),
    /// End.
    Stop,
}

/// What a turn works on.
pub(super) struct Hub {
    pub(super) commands: Receiver<Command>,
    /// For threads that look names up.
    pub(super) commander: Sender<Command>,
    pub(super) waker: Waker,
    pub(super) woken: Woken,
    pub(super) backlog: Backlog,
    pub(super) board: Board,
    pub(super) rules: Rules,
    pub(super) keep: Keep,
    /// What is read goes here first.
    pub(super) scratch: Box<[u8]>,
    /// The last poll found that somebody said something.
    pub(super) lively: bool,
    /// It was told to stop.
    pub(super) stopped: bool,
}

/// What is connected and what is to be.
#[derive(Default)]
pub(super) struct Keep {
    listeners: BTreeMap<u64, Doorway>,
    dials: BTreeMap<u64, Dial>,
    links: BTreeMap<ConnectionId, Link>,
    connections: u64,
    in_all: Arc<AtomicUsize>,
}

struct Doorway {
    listener: Listener,
    /// Nobody is accepted until then: the system is short of something.
    closed_until: Option<Instant>,
}

/// What the poll found.
#[derive(Default)]
struct Found {
    woken: bool,
    doors: Vec<u64>,
    links: BTreeMap<ConnectionId, PollFlags>,
}

impl Hub {
    /// Waits, for so long at most if that is said, and deals with what there is then. True if it was told to stop.
    pub(super) fn turn(&mut self, most: Option<Duration>) -> bool {
        if self.stopped {
            return true;
        }
        let found = self.wait(most);
        self.lively = found.links.values().any(|found| found.contains(PollFlags::POLLIN));
        if found.woken {
            self.woken.clear();
        }
        self.stopped = self.obey();
        if !self.stopped {
            let now = Instant::now();
            found.doors.iter().for_each(|door| self.accept(*door, now));
            self.dial(now);
            self.turn_all(&found, now);
        }
        self.stopped
    }

    /// Carries out what it was told. True if it is to end.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Rules(rules) => self.rules = rules,
                Command::Listen(endpoint, listener) => {
                    self.keep.listeners.insert(endpoint, Doorway { listener, closed_until: None });
                }
                Command::Connect(endpoint, controller) => {
                    self.keep.dials.insert(endpoint, Dial::new(controller, Instant::now()));
                }
                Command::Remove(endpoints, done) => {
                    endpoints.iter().for_each(|endpoint| self.remove(*endpoint));
                    let _ = done.send(()); // who asked may be gone
                }
                Command::Found(endpoint, addresses) => self.connect_tcp(endpoint, addresses),
                Command::Stop => return true,
            }
        }
        false
    }

    /// Waits for something to do.
    fn wait(&self, most: Option<Duration>) -> Found {
        let keep = &self.keep;
        let now = Instant::now();
        let mut polled = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        let (mut doors, mut links) = (Vec::new(), Vec::new());
        for (endpoint, door) in &keep.listeners {
            if door.closed_until.is_none_or(|until| until <= now) {
                polled.push(PollFd::new(door.listener.as_fd(), PollFlags::POLLIN));
                doors.push(*endpoint);
            }
        }
        for (id, link) in &keep.links {
            let interest = link.interest(&self.backlog);
            // One of which nothing is wanted is left out: its end would be told on and on.
            if !interest.is_empty() {
                polled.push(PollFd::new(link.as_fd(), interest));
                links.push(*id);
            }
        }
        let busy = keep.links.values().any(|link| link.is_readable(&self.backlog));
        let idle = keep.links.is_empty() && keep.dials.is_empty() && doors.len() == keep.listeners.len();
        let timeout = match (busy, idle) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => most,
            (false, false) => Some(most.map_or(LOOK, |most| most.min(LOOK))),
        };
        let mut poll =
            |timeout: Option<Duration>| ppoll(&mut polled, timeout.map(TimeSpec::from_duration), None);
        let mut count = Ok(0);
        // Only the switch's thread says how long it may take.
        let lively = most.filter(|_| self.lively && !busy).map_or(Duration::ZERO, |most| most.min(LIVELY));
        while count == Ok(0) && now.elapsed() < lively {
            count = poll(Some(Duration::ZERO));
        }
        if count == Ok(0) {
            count = poll(timeout);
        }
        if count.is_err() {
            return Found::default(); // interrupted
        }
        let mut flags = polled.iter().map(|polled| polled.revents().unwrap_or(PollFlags::empty()));
        let woken = flags.next().is_some_and(|found| !found.is_empty());
        doors.retain(|_| flags.next().is_some_and(|found| !found.is_empty()));
        Found { woken, doors, links: links.into_iter().zip(flags).collect() }
    }

    /// Gives each connection its turn.
    fn turn_all(&mut self, found: &Found, now: Instant) {
        let mut ends = Vec::new();
        let mut turn =
            Turn { now, echo: self.rules.echo, backlog: &self.backlog, scratch: &mut self.scratch };
        for (id, link) in &mut self.keep.links {
            let found = found.links.get(id).copied().unwrap_or(PollFlags::empty());
            let was_open = link.version().is_some();
            let turned = link.turn(found, &mut turn);
            if let (false, Some(version)) = (was_open, link.version()) {
                let shown =
                    Shown { peer: link.peer.clone(), version, since: now, counters: link.counters.clone() };
                self.board.change(link.endpoint, |row| {
                    row.connections.insert(*id, shown);
                });
            }
            if let Err(end) = turned {
                ends.push((*id, end));
            }
        }
        ends.into_iter().for_each(|(id, end)| self.end(id, end, now));
    }

    /// A connection is over.
    fn end(&mut self, id: ConnectionId, end: End, now: Instant) {
        let Some(link) = self.keep.links.remove(&id) else { return };
        let (endpoint, open_since) = (link.endpoint, link.open_since());
        // What waited for it goes first, or its requests would wait for that.
        drop(link);
        let open = open_since.map(|since| now.saturating_duration_since(since));
        // Whoever is told of the end finds it in the status too.
        self.failed(endpoint, Some(id), end.why.clone(), open, now);
        if open_since.is_some() {
            self.backlog.over(id, end.why, end.still_told);
        }
    }

    /// A connection is over, or was not made.
    fn failed(
        &mut self,
        endpoint: u64,
        id: Option<ConnectionId>,
        why: String,
        open: Option<Duration>,
        now: Instant,
    ) {
        let dial = self.keep.dials.get_mut(&endpoint);
        let retry = dial.and_then(|dial| {
            dial.ended(open, now);
            dial.retry()
        });
        self.board.change(endpoint, |row| {
            id.map(|id| row.connections.remove(&id));
            row.last_end = Some(why);
            row.retry = retry;
        });
    }

    /// An endpoint goes.
    fn remove(&mut self, endpoint: u64) {
        self.keep.listeners.remove(&endpoint);
        self.keep.dials.remove(&endpoint);
        let of_it = self.keep.links.iter().filter(|(_, link)| link.endpoint == endpoint);
        let of_it: Vec<ConnectionId> = of_it.map(|(id, _)| *id).collect();
        for id in of_it {
            let why = "its endpoint is not configured any more".to_owned();
            self.end(id, End { why, still_told: false }, Instant::now());
        }
        self.board.rows().remove(&endpoint);
    }

    /// Takes who waits at a listener.
    fn accept(&mut self, endpoint: u64, now: Instant) {
        let most = (self.rules.max_connections / 2).clamp(1, ACCEPTS);
        for _ in 0..most {
            let Some(door) = self.keep.listeners.get_mut(&endpoint) else { return };
            let kind = door.listener.kind();
            match door.listener.accept() {
                Ok(visitor) => self.visit(endpoint, kind, visitor, now),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => return,
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted) => {}
                Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied) => {
                    self.board.change(endpoint, |row| {
                        row.connects += 1;
                        row.refused += 1;
                        row.last_end = Some(error.to_string());
                    });
                }
                Err(error) => {
                    // No reason to burn a core until there is more of it.
                    door.closed_until = Some(now + LOOK);
                    self.board.change(endpoint, |row| row.last_end = Some(error.to_string()));
                    return;
                }
            }
        }
    }

    /// Lets somebody in, or not.
    fn visit(&mut self, endpoint: u64, kind: Kind, visitor: Visitor, now: Instant) {
        let Visitor { socket, peer, from } = visitor;
        let guests: Vec<Guest> = self.keep.links.values().filter_map(Link::guest).collect();
        let verdict = doorway::admit(&guests, kind, from, self.rules.max_connections);
        self.board.change(endpoint, |row| {
            row.connects += 1;
            row.refused += u64::from(verdict == Verdict::Refused);
        });
        if let Verdict::InPlaceOf(connection, why) = verdict {
            if let Some(link) = self.keep.links.get(&connection) {
                self.board.change(link.endpoint, |row| row.evicted += 1);
            }
            self.end(connection, End { why: why.to_owned(), still_told: true }, now);
        }
        if verdict != Verdict::Refused {
            self.begin(endpoint, peer, socket, Way::Accepted(kind, from), now);
        }
    }

    /// Connects to whom it is time to.
    fn dial(&mut self, now: Instant) {
        let due = self.keep.dials.iter().filter(|(_, dial)| dial.is_due(now));
        let due: Vec<(u64, Controller)> =
            due.map(|(endpoint, dial)| (*endpoint, dial.controller.clone())).collect();
        for (endpoint, controller) in due {
            self.dialled(endpoint, State::LookingUp);
            let begun = match &controller {
                Controller::Unix(path) => dial::unix(path).map(|socket| {
                    self.begin(endpoint, controller.to_string(), socket, Way::Called { tls: false }, now);
                }),
                Controller::Tcp { host, port, .. } => {
                    let (commander, waker) = (self.commander.clone(), self.waker.clone());
                    dial::look_up(host, *port, move |addresses| {
                        // The channel may have ended meanwhile.
                        let _ = commander.send(Command::Found(endpoint, addresses));
                        waker.wake();
                    })
                }
            };
            if let Err(error) = begun {
                self.failed(endpoint, None, error.to_string(), None, now);
            }
        }
    }

    fn dialled(&mut self, endpoint: u64, state: State) {
        if let Some(dial) = self.keep.dials.get_mut(&endpoint) {
            dial.state = state;
        }
        self.board.change(endpoint, |row| row.retry = None);
    }

    /// A controller's addresses are known, or not.
    fn connect_tcp(&mut self, endpoint: u64, addresses: io::Result<Vec<SocketAddr>>) {
        let now = Instant::now();
        let Some(dial) = self.keep.dials.get_mut(&endpoint) else { return };
        let tls = dial.controller.tls();
        let begun = addresses
            .map_err(|error| error.to_string())
            .and_then(|found| dial.pick(&found).ok_or_else(|| "the name has no address".to_owned()))
            .and_then(|address| {
                let socket = dial::tcp(address).map_err(|error| error.to_string())?;
                Ok((socket, format!("{}:{address}", if tls { "ssl" } else { "tcp" })))
            });
        match begun {
            Ok((socket, peer)) => self.begin(endpoint, peer, socket, Way::Called { tls }, now),
            Err(why) => self.failed(endpoint, None, why, None, now),
        }
    }

    /// A connection begins.
    fn begin(&mut self, endpoint: u64, peer: String, socket: Socket, way: Way, now: Instant) {
        let called = way.called();
        let conversation = match (way.tls(), &self.rules.tls) {
            (false, _) => Ok(None),
            (true, Some(tls)) if called => tls.connect().map(Some),
            (true, Some(tls)) => tls.accept().map(Some),
            (true, None) => Err(rustls::Error::General("there are no certificates".to_owned())),
        };
        let conversation = match conversation {
            Ok(conversation) => conversation,
            Err(error) => return self.failed(endpoint, None, format!("TLS: {error}"), None, now),
        };
        self.keep.connections += 1;
        let connection = ConnectionId(self.keep.connections);
        let transport = Transport::new(socket, conversation);
        let line = line(self.keep.in_all.clone(), self.waker.clone());
        let begin = Begin { connection, endpoint, peer, transport, way };
        self.keep.links.insert(connection, Link::new(begin, line, now));
        if called {
            self.dialled(endpoint, State::Connected);
            self.board.change(endpoint, |row| row.connects += 1);
        }
    }
}

//! One connection: its socket, what was received and is to be sent, and how long it may be silent.
//!
//! A turn reads what is there, writes what waits, and looks at the clock; it never waits. Memory: the
//! beginning of a message, what the backlog and the line hold, and what TLS buffers (64 KiB each way).
//!
//! Threads: the channel's alone.

use super::backlog::{Backlog, Open};
use super::conversation::{Conversation, Received};
use super::doorway::{Guest, Kind};
use super::line::{BEHIND, Line, Outgoing, State};
use super::listener::Origin;
use super::status::Counters;
use super::transport::Transport;
use crate::ConnectionId;
use nix::poll::PollFlags;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_codec::{Version, frame};

/// How long connecting, TLS and hello may take together.
const GREETING: Duration = Duration::from_secs(5);
/// How long a connection that is to end may take to send the rest and to be closed by the other side.
const ENDING: Duration = Duration::from_secs(1);
/// Reads before it is another connection's turn.
const READS: usize = 4;
/// Bytes that one write is given at least, if there are as many.
const WRITE: usize = 64 << 10;
/// Bytes that are written before it is another connection's turn.
const WRITES: usize = 1 << 20;

/// A connection.
pub(super) struct Link {
    pub(super) connection: ConnectionId,
    pub(super) endpoint: u64,
    pub(super) peer: String,
    way: Way,
    pub(super) counters: Arc<Counters>,
    transport: Transport,
    conversation: Conversation,
    line: Line,
    outgoing: Outgoing,
    /// Taken from the queue, and sent up to `sent`.
    staged: Vec<u8>,
    sent: usize,
    stage: Stage,
    /// There may be something to be read that the poll does not tell.
    readable: bool,
    /// Whether bytes came at all.
    was_heard: bool,
    /// When bytes came last.
    heard: Instant,
    /// When the other side was asked whether it is there, if nothing came since.
    asked: Option<Instant>,
    /// When bytes were sent last that were not the last ones.
    drained: Instant,
}

enum Stage {
    /// It is being made, until then.
    Connecting(Instant),
    /// Hello and TLS are to be done until then.
    Greeting(Instant),
    /// A version was agreed on at that time.
    Open(Version, Instant),
    /// It ends for this reason, at that time at the latest.
    Ending { why: String, until: Instant, opened: Option<Instant>, finished: bool },
}

/// Who connects by itself has so many times as long for the answer to an echo request: `ovs-ofctl` answers
/// none while it waits for a barrier or a bundle.
const VISITORS: u32 = 12;

/// How a connection ended.
pub(super) struct End {
    pub(super) why: String,
    /// What came whole is still worth telling.
    pub(super) still_told: bool,
}

/// What a turn needs.
pub(super) struct Turn<'a> {
    pub(super) now: Instant,
    pub(super) echo: Duration,
    pub(super) backlog: &'a Backlog,
    pub(super) scratch: &'a mut [u8],
}

/// A connection that begins.
pub(super) struct Begin {
    pub(super) connection: ConnectionId,
    pub(super) endpoint: u64,
    pub(super) peer: String,
    pub(super) transport: Transport,
    pub(super) way: Way,
}

/// How a connection came about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// The switch connected, because it is one of its controllers.
    Called { tls: bool },
    /// The other side connected.
    Accepted(Kind, Origin),
}

impl Way {
    pub(super) const fn called(self) -> bool {
        matches!(self, Self::Called { .. })
    }

    pub(super) const fn tls(self) -> bool {
        matches!(self, Self::Called { tls: true } | Self::Accepted(Kind::Tls, _))
    }
}

impl Link {
    pub(super) fn new(begin: Begin, (line, outgoing): (Line, Outgoing), now: Instant) -> Self {
        let until = now + GREETING;
        outgoing.say(&Conversation::hello());
        let counters = Arc::<Counters>::default();
        if let Some(socket) = begin.transport.plain() {
            outgoing.connect(socket, counters.clone());
        }
        Self {
            connection: begin.connection,
            endpoint: begin.endpoint,
            peer: begin.peer,
            way: begin.way,
            counters,
            transport: begin.transport,
            conversation: Conversation::default(),
            line,
            outgoing,
            staged: Vec::new(),
            sent: 0,
            stage: if begin.way.called() { Stage::Connecting(until) } else { Stage::Greeting(until) },
            // Who says hello at once is read in the turn in which it was accepted.
            readable: !begin.way.called(),
            was_heard: false,
            heard: now,
            asked: None,
            drained: now,
        }
    }

    /// What the doorway looks at, if it was accepted.
    pub(super) fn guest(&self) -> Option<Guest> {
        let Way::Accepted(kind, from) = self.way else { return None };
        let greeted = matches!(self.stage, Stage::Open(..));
        // One that ends has nothing more to say.
        let heard = self.was_heard && !matches!(self.stage, Stage::Ending { .. });
        Some(Guest { connection: self.connection, kind, from, greeted, heard })
    }

    /// Since when both sides have agreed on a version, if they have.
    pub(super) const fn open_since(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Open(_, since) => Some(*since),
            Stage::Ending { opened, .. } => *opened,
            _ => None,
        }
    }

    /// The version agreed on, if it is open.
    pub(super) const fn version(&self) -> Option<Version> {
        match &self.stage {
            Stage::Open(version, _) => Some(*version),
            _ => None,
        }
    }

    /// What the poll is to wait for.
    pub(super) fn interest(&self, backlog: &Backlog) -> PollFlags {
        if matches!(self.stage, Stage::Connecting(_)) {
            return PollFlags::POLLOUT;
        }
        let write = self.outgoing.look().0 > 0 || self.transport.wants_write();
        Transport::interest(!self.is_paused(backlog), write)
    }

    /// Whether there is something to be read that the poll does not tell.
    pub(super) fn is_readable(&self, backlog: &Backlog) -> bool {
        self.readable && !self.is_paused(backlog)
    }

    /// Whether nothing is to be read of it for now.
    fn is_paused(&self, backlog: &Backlog) -> bool {
        matches!(self.stage, Stage::Open(..))
            && (self.outgoing.look().0 > BEHIND || backlog.is_full(self.connection))
    }

    /// Does what is to be done. `found` is what the poll found.
    ///
    /// # Errors
    /// It is at its end.
    pub(super) fn turn(&mut self, found: PollFlags, turn: &mut Turn<'_>) -> Result<(), End> {
        let over = PollFlags::POLLERR | PollFlags::POLLHUP;
        if let Stage::Connecting(until) = self.stage {
            if found.intersects(PollFlags::POLLOUT | over) {
                self.transport.connected().map_err(|error| ended(&error))?;
                self.stage = Stage::Greeting(until);
            } else {
                return self.look_at_clock(turn);
            }
        }
        self.readable |= found.intersects(PollFlags::POLLIN | over);
        self.read(turn)?;
        self.write(turn)?;
        self.look_at_line(turn.now)?;
        self.look_at_clock(turn)
    }

    fn read(&mut self, turn: &mut Turn<'_>) -> Result<(), End> {
        for _ in 0..READS {
            if !self.is_readable(turn.backlog) {
                break;
            }
            match self.transport.read(turn.scratch) {
                Ok(0) => return Err(self.hung_up()),
                Ok(length) => {
                    // The next poll tells of more; asking here would mostly be in vain.
                    self.readable = length == turn.scratch.len() || !self.transport.is_plain();
                    self.receive(length, turn);
                }
                Err(error) if is_later(&error) => self.readable = false,
                Err(error) => return Err(ended(&error)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, length: usize, turn: &mut Turn<'_>) {
        if matches!(self.stage, Stage::Ending { .. }) {
            return;
        }
        (self.heard, self.asked, self.was_heard) = (turn.now, None, true);
        let Received { replies, requests, opened, messages, refused, end } =
            self.conversation.receive(&turn.scratch[..length]);
        self.counters.came(messages, length);
        self.counters.refused(refused);
        self.outgoing.say(&replies);
        if let Some(version) = opened {
            self.stage = Stage::Open(version, turn.now);
            turn.backlog.open(Open {
                connection: self.connection,
                version,
                peer: self.peer.clone(),
                called: self.way.called(),
                line: self.line.clone(),
                counters: self.counters.clone(),
            });
        }
        if !requests.is_empty() {
            turn.backlog.put(self.connection, requests);
        }
        if let Some(why) = end {
            self.end(why, turn.now);
        }
    }

    /// The other side sends nothing more.
    fn hung_up(&mut self) -> End {
        let why = match &mut self.stage {
            Stage::Ending { why, .. } => std::mem::take(why),
            _ if self.conversation.is_within_message() => "it hung up within a message".to_owned(),
            Stage::Open(..) => "it hung up".to_owned(),
            _ => "it hung up before its hello".to_owned(),
        };
        End { why, still_told: true }
    }

    /// Ends it, after what is queued.
    fn end(&mut self, why: String, now: Instant) {
        let opened = self.open_since();
        self.outgoing.close();
        self.stage = Stage::Ending { why, until: now + ENDING, opened, finished: false };
    }

    fn write(&mut self, turn: &Turn<'_>) -> Result<(), End> {
        let was_behind = self.line.is_behind();
        let written = self.write_some(turn.now).map_err(|error| ended(&error))?;
        if written > 0 && was_behind && !self.line.is_behind() {
            // What it says meanwhile was not read: its silence counts from now.
            (self.heard, self.asked) = (turn.now, None);
            turn.backlog.look_again();
        }
        if let Stage::Ending { finished: finished @ false, .. } = &mut self.stage
            && self.outgoing.look().0 == 0
        {
            *finished = true;
            self.transport.finish();
        }
        Ok(())
    }

    /// Sends until the socket takes no more; hands back how much.
    fn write_some(&mut self, now: Instant) -> io::Result<usize> {
        let mut written = 0;
        let flushed = self.transport.flush();
        if let Err(error) = flushed {
            return if is_later(&error) { Ok(0) } else { Err(error) };
        }
        while written < WRITES && self.refill() {
            match self.transport.write(&self.staged[self.sent..]) {
                Ok(sent) => {
                    self.sent += sent;
                    written += sent;
                    self.outgoing.sent(sent);
                }
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if written > 0 && self.outgoing.look().0 > 0 {
            self.drained = now;
        }
        Ok(written)
    }

    /// Whether there is something to be sent.
    fn refill(&mut self) -> bool {
        if self.sent < self.staged.len() {
            return true;
        }
        self.sent = 0;
        self.staged = self.outgoing.take_rest();
        if !self.staged.is_empty() {
            self.counters.went(0, self.staged.len());
            return true;
        }
        self.staged = self.outgoing.take().unwrap_or_default();
        while self.staged.len() < WRITE
            && let Some(more) = self.outgoing.take()
        {
            self.staged.extend_from_slice(&more);
        }
        self.counters.went(messages(&self.staged), self.staged.len());
        !self.staged.is_empty()
    }

    fn look_at_line(&mut self, now: Instant) -> Result<(), End> {
        let (waiting, state) = self.outgoing.look();
        self.counters.line(self.outgoing.untold(), waiting, self.outgoing.held());
        match (state, &self.stage) {
            (State::Overrun, _) => Err(End {
                why: "it does not read its answers, and too much waits for it".to_owned(),
                still_told: false,
            }),
            (State::Closing, Stage::Open(..)) => {
                self.end("closed by the switch".to_owned(), now);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn look_at_clock(&mut self, turn: &Turn<'_>) -> Result<(), End> {
        let (now, echo) = (turn.now, turn.echo);
        let patience = if self.way.called() { echo } else { echo * VISITORS };
        let late = |why: &str| Err(End { why: why.to_owned(), still_told: false });
        match &mut self.stage {
            Stage::Connecting(until) if now >= *until => late("it does not answer"),
            Stage::Greeting(until) if now >= *until => late("it said no hello in time"),
            Stage::Ending { why, until, .. } if now >= *until => {
                Err(End { why: std::mem::take(why), still_told: true })
            }
            Stage::Open(..) if self.line.is_behind() => {
                if now.saturating_duration_since(self.drained.max(self.heard)) < echo * 2 {
                    return Ok(());
                }
                late("it does not read what it asked for")
            }
            Stage::Open(..) if turn.backlog.is_full(self.connection) => {
                // It is the switch that is slow.
                (self.heard, self.asked) = (now, None);
                Ok(())
            }
            Stage::Open(..) => match self.asked {
                None if now.saturating_duration_since(self.heard) >= echo => {
                    self.outgoing.say(&self.conversation.echo_request());
                    self.asked = Some(now);
                    self.write(turn)
                }
                Some(asked) if now.saturating_duration_since(asked.max(self.drained)) >= patience => {
                    late("it does not answer echo requests")
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

/// Whole messages in bytes that are to be sent.
pub(super) fn messages(mut bytes: &[u8]) -> u64 {
    let mut count = 0;
    while let Ok(Some(message)) = frame(bytes) {
        bytes = &bytes[message.len()..];
        count += 1;
    }
    count
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn ended(error: &io::Error) -> End {
    let why = match error.kind() {
        ErrorKind::InvalidData => format!("TLS: {error}"),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => "it hung up".to_owned(),
        _ => error.to_string(),
    };
    End { why, still_told: true }
}

//! What controllers asked for and the switch's thread has not taken yet.
//!
//! Why so: the switch's thread takes one thing after the other, and whoever tells it something waits while
//! it is busy. The thread that polls the connections must not, or one controller's long request would keep
//! it from answering the echoes of all. So another thread tells: it takes a few messages of each controller
//! in turn, decodes them, and waits for the switch.
//!
//! Of a controller that is behind with its answers ([`Line::is_behind`]) nothing is told. Memory: bytes as
//! they came, [`MOST_HELD`] and what one read brings for each connection.
//!
//! Threads: the channel's puts things here, `weir-requests` takes them.

use super::conversation::encoded;
use super::line::Line;
use super::status::Counters;
use super::waker::Waker;
use crate::agent::{ConnectionId, Heard};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_codec::{Body, Context, Header, Version, decode_with, frame};

/// Bytes of a connection that may wait before nothing more is read of it.
pub(super) const MOST_HELD: usize = 256 << 10;

/// Messages of a controller that are told before it is the next one's turn.
const TURN: usize = 32;

/// The number of an error message in all versions.
const ERROR: u8 = 1;

/// All that waits.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    shelf: Mutex<Shelf>,
    more: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct Shelf {
    feeds: BTreeMap<ConnectionId, Feed>,
    /// Whose turn it was last.
    last: ConnectionId,
    stop: bool,
}

/// What waits of a connection.
#[derive(Debug)]
struct Feed {
    /// What is to be told first.
    opened: Option<Heard>,
    pieces: VecDeque<Piece>,
    held: usize,
    /// Why it ended, to be told last.
    over: Option<String>,
    /// Nothing more of it is told but that.
    in_vain: bool,
    talk: Talk,
}

/// Whole messages.
#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    at: usize,
}

/// What is needed to decode and to refuse.
#[derive(Clone, Debug)]
struct Talk {
    connection: ConnectionId,
    context: Context,
    line: Line,
    counters: Arc<Counters>,
}

/// A connection that has agreed on a version.
pub(super) struct Open {
    pub(super) connection: ConnectionId,
    pub(super) version: Version,
    pub(super) peer: String,
    pub(super) called: bool,
    pub(super) line: Line,
    pub(super) counters: Arc<Counters>,
}

/// What one turn tells.
enum Turn {
    Tell(Heard),
    Requests(Piece, Talk),
}

impl Backlog {
    /// Nothing waits. The waker is used when something does not any more.
    pub(super) fn new(waker: Waker) -> Self {
        let shelf = Shelf { feeds: BTreeMap::new(), last: ConnectionId(0), stop: false };
        Self { shared: Arc::new(Shared { shelf: Mutex::new(shelf), more: Condvar::new(), waker }) }
    }

    /// A connection is open.
    pub(super) fn open(&self, open: Open) {
        let Open { connection, version, peer, called, line, counters } = open;
        let opened = Some(Heard::Opened { connection, version, peer, called, line: line.clone() });
        let talk = Talk { connection, context: Context::default(), line, counters };
        let feed = Feed { opened, pieces: VecDeque::new(), held: 0, over: None, in_vain: false, talk };
        self.shared.shelf().feeds.insert(connection, feed);
        self.shared.more.notify_one();
    }

    /// Whole messages came of an open connection.
    pub(super) fn put(&self, connection: ConnectionId, bytes: Vec<u8>) {
        if let Some(feed) = self.shared.shelf().feeds.get_mut(&connection) {
            feed.held += bytes.len();
            feed.pieces.push_back(Piece { bytes, at: 0 });
        }
        self.shared.more.notify_one();
    }

    /// An open connection is gone. What came of it whole is told still, unless it is not worth it.
    pub(super) fn over(&self, connection: ConnectionId, why: String, still_told: bool) {
        if let Some(feed) = self.shared.shelf().feeds.get_mut(&connection) {
            feed.over = Some(why);
            feed.in_vain = !still_told;
            if feed.in_vain {
                feed.pieces.clear();
            }
        }
        self.shared.more.notify_one();
    }

    /// Whether so much waits of it that nothing more is to be read.
    pub(super) fn is_full(&self, connection: ConnectionId) -> bool {
        self.shared.shelf().feeds.get(&connection).is_some_and(|feed| feed.held > MOST_HELD)
    }

    /// A controller may not be behind any more.
    pub(super) fn look_again(&self) {
        self.shared.more.notify_one();
    }

    /// Nothing more is to be told.
    pub(super) fn stop(&self) {
        self.shared.shelf().stop = true;
        self.shared.more.notify_all();
    }

    /// Tells what comes, until told to stop or nobody listens.
    pub(super) fn tell<T: From<Heard>>(&self, inbox: &SyncSender<T>) {
        while let Some(turn) = self.next() {
            let told = match turn {
                Turn::Tell(heard) => inbox.send(heard.into()).is_ok(),
                Turn::Requests(piece, talk) => self.requests(piece, talk, inbox),
            };
            if !told {
                return;
            }
        }
    }

    /// Waits for the next thing to be told.
    fn next(&self) -> Option<Turn> {
        let mut shelf = self.shared.shelf();
        loop {
            if shelf.stop {
                return None;
            }
            if let Some(turn) = shelf.turn() {
                return Some(turn);
            }
            shelf = self.shared.more.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tells a few messages of a controller, and puts the rest back. False if nobody listens.
    fn requests<T: From<Heard>>(&self, mut piece: Piece, mut talk: Talk, inbox: &SyncSender<T>) -> bool {
        let begin = piece.at;
        for _ in 0..TURN {
            let Ok(Some(message)) = frame(&piece.bytes[piece.at..]) else { break };
            piece.at += message.len();
            if let Some(heard) = talk.decode(message)
                && inbox.send(heard.into()).is_err()
            {
                return false;
            }
            if talk.line.is_behind() {
                break;
            }
        }
        let mut shelf = self.shared.shelf();
        if let Some(feed) = shelf.feeds.get_mut(&talk.connection) {
            let was_full = feed.held > MOST_HELD;
            feed.held = feed.held.saturating_sub(piece.at - begin);
            feed.talk.context = talk.context;
            if piece.at < piece.bytes.len() && !feed.in_vain {
                feed.pieces.push_front(piece);
            }
            if was_full && feed.held <= MOST_HELD {
                self.shared.waker.wake();
            }
        }
        true
    }
}

impl Shared {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// What is next: that of the first connection after the last one's that has something to say.
    fn turn(&mut self) -> Option<Turn> {
        let after = self.feeds.range((Bound::Excluded(self.last), Bound::Unbounded));
        let next = after.chain(self.feeds.range(..=self.last)).find(|(_, feed)| feed.is_ready());
        let connection = *next?.0;
        self.last = connection;
        let feed = self.feeds.get_mut(&connection)?;
        if let Some(opened) = feed.opened.take() {
            return Some(Turn::Tell(opened));
        }
        if let Some(piece) = feed.pieces.pop_front() {
            return Some(Turn::Requests(piece, feed.talk.clone()));
        }
        let why = self.feeds.remove(&connection)?.over?;
        Some(Turn::Tell(Heard::Closed { connection, why }))
    }
}

impl Feed {
    fn is_ready(&self) -> bool {
        let to_tell = !self.pieces.is_empty() && !self.talk.line.is_behind();
        self.opened.is_some() || to_tell || (self.pieces.is_empty() && self.over.is_some())
    }
}

impl Talk {
    /// What is to be told of a message; one that does not decode is refused.
    fn decode(&mut self, message: &[u8]) -> Option<Heard> {
        match decode_with(message, self.context) {
            Ok(message) => {
                if let Body::FlowModTableId(named) = message.body {
                    self.context.flow_mod_table_id = named;
                }
                // Whoever asked is gone: there is nobody to be answered.
                let in_vain = matches!(message.body, Body::MultipartRequest(_)) && self.line.is_over();
                (!in_vain).then_some(Heard::Message { connection: self.connection, message })
            }
            Err(wrong) => {
                self.counters.refused(1);
                let bundle = wrong.bundle;
                let is_error = Header::peek(message).is_some_and(|header| header.kind == ERROR);
                // An error is never answered, or two sides would go on for ever.
                if !is_error {
                    self.line.answer(encoded(&wrong.reply()));
                }
                bundle.map(|bundle| Heard::Spoilt { connection: self.connection, bundle })
            }
        }
    }
}

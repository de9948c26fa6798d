//! What controllers asked for and the switch's thread has not taken yet.
//!
//! Why so: the switch's thread takes one thing after the other, and whoever tells it something waits while
//! it is busy. The thread that polls the connections must not, or one controller's long request would keep
//! it from answering the echoes of all. So another thread tells: it takes a few messages of each controller
//! in turn, decodes them, and waits for the switch. Only while nothing waits at all, and the switch takes it at
//! once, the polling thread tells by itself: a request that somebody waits for wakes one thread less.
//!
//! Of a controller that is behind with its answers ([`Line::is_behind`]) nothing is told. Memory: bytes as
//! they came, [`MOST_HELD`] and what one read brings for each connection.
//!
//! Threads: the channel's puts things here, `weir-requests` takes them.

use super::conversation::encoded;
use super::line::Line;
use super::status::Counters;
use super::waker::Waker;
use crate::{ConnectionId, Heard};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_codec::{Body, Context, DecodeError, Header, Message, Version, decode_with, frame};

/// Bytes of a connection that may wait before nothing more is read of it.
pub(super) const MOST_HELD: usize = 256 << 10;

/// Messages of a controller, changes in a row as one, that are told before it is the next one's turn.
const TURN: usize = 32;

/// Changes that are told together, at most.
const TOGETHER: usize = 128;

/// Bytes of changes that are told together before the next one is told by itself: decoded, they are many times
/// as long at worst.
const TOGETHER_BYTES: usize = 32 << 10;

/// The number of an error message in all versions.
const ERROR: u8 = 1;

/// All that waits.
#[derive(Clone)]
pub(super) struct Backlog {
    shared: Arc<Shared>,
}

/// Tells the switch, if it takes it at once; false if not.
pub(super) type Direct = Box<dyn Fn(Heard) -> bool + Send + Sync>;

struct Shared {
    shelf: Mutex<Shelf>,
    more: Condvar,
    waker: Waker,
    direct: Direct,
}

struct Shelf {
    feeds: BTreeMap<ConnectionId, Feed>,
    /// Whose turn it was last.
    last: ConnectionId,
    /// Something is being told.
    telling: bool,
    stop: bool,
}

/// What waits of a connection.
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
struct Piece {
    bytes: Vec<u8>,
    at: usize,
}

/// What is needed to decode and to refuse.
#[derive(Clone)]
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
    pub(super) fn new(waker: Waker, direct: Direct) -> Self {
        let shelf = Shelf { feeds: BTreeMap::new(), last: ConnectionId(0), telling: false, stop: false };
        Self { shared: Arc::new(Shared { shelf: Mutex::new(shelf), more: Condvar::new(), waker, direct }) }
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
        let mut shelf = self.shared.shelf();
        let idle = !shelf.telling && !shelf.feeds.values().any(Feed::is_ready);
        let Some(feed) = shelf.feeds.get_mut(&connection) else { return };
        let mut piece = Piece { bytes, at: 0 };
        if idle && feed.pieces.is_empty() && !feed.talk.line.is_behind() {
            feed.talk.tell(&mut piece, usize::MAX, &self.shared.direct);
        }
        if piece.at < piece.bytes.len() {
            feed.held += piece.bytes.len() - piece.at;
            feed.pieces.push_back(piece);
            drop(shelf);
            self.shared.more.notify_one();
        }
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
        let take = |heard: Heard| {
            let taken = inbox.send(heard.into()).is_ok();
            // The switch's thread may be polling, and look into its inbox only then.
            self.shared.waker.wake();
            taken
        };
        while let Some(turn) = self.next() {
            let told = match turn {
                Turn::Tell(heard) => take(heard),
                Turn::Requests(piece, talk) => self.requests(piece, talk, &take),
            };
            if !told {
                return;
            }
        }
    }

    /// Waits for the next thing to be told.
    fn next(&self) -> Option<Turn> {
        let mut shelf = self.shared.shelf();
        shelf.telling = false;
        loop {
            if shelf.stop {
                return None;
            }
            if let Some(turn) = shelf.turn() {
                shelf.telling = true;
                return Some(turn);
            }
            shelf = self.shared.more.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tells a few messages of a controller, and puts the rest back. False if nobody listens.
    fn requests(&self, mut piece: Piece, mut talk: Talk, take: &impl Fn(Heard) -> bool) -> bool {
        let begin = piece.at;
        if !talk.tell(&mut piece, TURN, take) {
            return false;
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
    /// Tells messages, so many at most (changes in a row count as one), until the controller is behind. False if something was not taken; that
    /// and what is after it remains.
    fn tell(&mut self, piece: &mut Piece, most: usize, take: impl Fn(Heard) -> bool) -> bool {
        let end = |piece: &Piece, at: usize| {
            frame(&piece.bytes[at..]).ok().flatten().map(|message| at + message.len())
        };
        let (mut at, mut changes, mut turns) = (piece.at, Vec::new(), 0);
        while turns < most {
            let Some(next) = end(piece, at) else { break };
            let (heard, refusal) = match decode_with(&piece.bytes[at..next], self.context) {
                Ok(message) if is_change(&message.body) => {
                    changes.push(message);
                    at = next;
                    if changes.len() < TOGETHER && at - piece.at < TOGETHER_BYTES {
                        continue;
                    }
                    (None, None)
                }
                Ok(message) => (self.heard(message), None),
                Err(wrong) => self.refused(&piece.bytes[at..next], wrong),
            };
            turns += 1;
            // What came before is told before.
            if !self.together(&mut changes, &take) {
                return false;
            }
            piece.at = at;
            if !heard.is_none_or(&take) {
                return false;
            }
            (at, piece.at) = (next.max(at), next.max(at));
            if let Some(refusal) = refusal {
                self.line.answer(refusal);
            }
            if self.line.is_behind() {
                break;
            }
        }
        let taken = self.together(&mut changes, &take);
        if taken {
            piece.at = at;
        }
        taken
    }

    /// Tells changes that came in a row.
    fn together(&self, changes: &mut Vec<Message>, take: impl Fn(Heard) -> bool) -> bool {
        let (connection, mut messages) = (self.connection, std::mem::take(changes));
        match messages.len() {
            0 => true,
            1 => messages.pop().is_none_or(|message| take(Heard::Message { connection, message })),
            _ => take(Heard::Changes { connection, messages }),
        }
    }

    /// What is to be told of a message that is no change.
    fn heard(&mut self, message: Message) -> Option<Heard> {
        if let Body::FlowModTableId(named) = message.body {
            self.context.flow_mod_table_id = named;
        }
        // Whoever asked is gone: there is nobody to be answered.
        let in_vain = matches!(message.body, Body::MultipartRequest(_)) && self.line.is_over();
        (!in_vain).then_some(Heard::Message { connection: self.connection, message })
    }

    /// What is to be told of a message that does not decode, and how it is refused.
    fn refused(&self, message: &[u8], wrong: DecodeError) -> (Option<Heard>, Option<Vec<u8>>) {
        let spoilt = wrong.bundle.map(|bundle| Heard::Spoilt { connection: self.connection, bundle });
        self.counters.refused_for(wrong.to_string());
        let is_error = Header::peek(message).is_some_and(|header| header.kind == ERROR);
        // An error is never answered, or two sides would go on for ever.
        let refusal = if is_error { Vec::new() } else { encoded(&wrong.reply()) };
        (spoilt, Some(refusal))
    }
}

/// Whether it is one of those that come by the thousand and are answered with nothing.
const fn is_change(body: &Body) -> bool {
    matches!(body, Body::FlowMod(_) | Body::GroupMod(_) | Body::MeterMod(_) | Body::BundleAdd(_))
}

#[cfg(test)]
mod tests {
    use super::super::line::{BEHIND, Outgoing, line};
    use super::super::waker::waker;
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::thread;
    use std::time::Duration;
    use weir_codec::{
        BundleControl, BundleFlags, BundleStep, GroupCommand, GroupMod, MultipartRequest, Request,
    };
    use weir_openflow::{Group, GroupId, GroupKind};

    struct Bench {
        backlog: Backlog,
        heard: Receiver<Heard>,
        outgoing: Vec<Outgoing>,
    }

    impl Bench {
        /// Connections that are open, of which nothing is told before the test listens.
        fn new(connections: u64) -> Self {
            let (inbox, heard) = sync_channel::<Heard>(0);
            Self::telling(connections, inbox, heard, Box::new(|_| false))
        }

        fn telling(
            connections: u64,
            inbox: SyncSender<Heard>,
            heard: Receiver<Heard>,
            direct: Direct,
        ) -> Self {
            let (waker, _) = waker().unwrap();
            let backlog = Backlog::new(waker.clone(), direct);
            let mut outgoing = Vec::new();
            for number in 1..=connections {
                let (line, end) = line(Arc::default(), waker.clone());
                outgoing.push(end);
                let (connection, version) = (ConnectionId(number), Version::V13);
                let (peer, counters) = ("somebody".to_owned(), Arc::default());
                backlog.open(Open { connection, version, peer, called: false, line, counters });
            }
            let telling = backlog.clone();
            thread::spawn(move || telling.tell(&inbox));
            Self { backlog, heard, outgoing }
        }

        fn put(&self, connection: u64, count: u32, body: &Body) {
            let messages = (0..count).map(|xid| encoded(&Message::new(Version::V13, xid, body.clone())));
            self.backlog.put(ConnectionId(connection), messages.flatten().collect());
        }

        /// Who is heard next, and with which transaction; none if it came or went.
        fn next(&self) -> Option<(u64, Option<u32>)> {
            Some(match self.heard.recv_timeout(Duration::from_millis(500)).ok()? {
                Heard::Opened { connection, .. } | Heard::Closed { connection, .. } => (connection.0, None),
                Heard::Message { connection, message } => (connection.0, Some(message.xid)),
                Heard::Changes { connection, .. } | Heard::Spoilt { connection, .. } => {
                    panic!("{connection:?}")
                }
            })
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            self.backlog.stop();
        }
    }

    #[test]
    fn connections_take_turns_and_each_is_told_in_order() {
        let bench = Bench::new(3);
        bench.put(1, 1000, &Body::BarrierRequest);
        bench.put(3, 40, &Body::BarrierRequest);
        bench.backlog.over(ConnectionId(3), "it hung up".to_owned(), true);
        let all: Vec<_> = std::iter::from_fn(|| bench.next()).collect();
        assert_eq!(all.len(), 3 + 1000 + 40 + 1);
        let of = |connection| all.iter().filter(move |(of, _)| *of == connection).map(|(_, xid)| *xid);
        let ordered = |count: u32| std::iter::once(None).chain((0..count).map(Some));
        assert!(of(1).eq(ordered(1000)) && of(3).eq(ordered(40).chain([None])));
        let gone = all.iter().rposition(|(of, _)| *of == 3).unwrap();
        let before = all[..gone].iter().filter(|(of, xid)| *of == 1 && xid.is_some()).count();
        assert!(before <= 4 * TURN, "{before} messages of another came before the end of the short one");
    }

    #[test]
    fn changes_in_a_row_are_told_together_and_nothing_overtakes_anything() {
        let bench = Bench::new(1);
        assert_eq!(bench.next(), Some((1, None)));
        let message = |xid, body: Body| encoded(&Message::new(Version::V13, xid, body));
        let group = Group { id: GroupId(1), kind: GroupKind::Indirect, buckets: Vec::new() };
        let change = |xid| {
            let command =
                BundleControl { id: 7, step: BundleStep::OpenRequest, flags: BundleFlags::default() };
            match xid % 1000 {
                0 => message(xid, Body::BarrierRequest),
                500 => message(xid, Body::BundleControl(command)),
                _ => message(
                    xid,
                    Body::GroupMod(GroupMod { command: GroupCommand::Delete, group: group.clone() }),
                ),
            }
        };
        bench.backlog.put(ConnectionId(1), (0..3001).flat_map(change).collect());
        let (mut xids, mut largest) = (Vec::new(), 0);
        while xids.last() != Some(&3000) {
            match bench.heard.recv_timeout(Duration::from_secs(5)).unwrap() {
                Heard::Message { message, .. } => xids.push(message.xid),
                Heard::Changes { messages, .. } => {
                    assert!(messages.iter().all(|message| is_change(&message.body)));
                    largest = largest.max(messages.len());
                    xids.extend(messages.iter().map(|message| message.xid));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(xids.into_iter().eq(0..3001));
        assert_eq!(largest, TOGETHER);
    }

    #[test]
    fn what_the_switch_takes_at_once_is_told_at_once_and_never_out_of_turn() {
        let (inbox, heard) = sync_channel::<Heard>(4);
        let (at_once, direct) = (Arc::new(AtomicU64::new(0)), inbox.clone());
        let counted = at_once.clone();
        let direct: Direct = Box::new(move |heard| {
            let taken = direct.try_send(heard).is_ok();
            counted.fetch_add(u64::from(taken), Ordering::Relaxed);
            taken
        });
        let bench = Bench::telling(2, inbox, heard, direct);
        assert_eq!([bench.next(), bench.next()], [Some((1, None)), Some((2, None))]);
        let mut all = [Vec::new(), Vec::new()];
        for round in 0..50 {
            bench.put(1, 10, &Body::BarrierRequest);
            bench.put(2, if round % 5 == 0 { 100 } else { 1 }, &Body::BarrierRequest);
            let of_round = if round % 5 == 0 { 110 } else { 11 };
            for _ in 0..of_round {
                let (of, xid) = bench.next().unwrap();
                all[of as usize - 1].push(xid.unwrap());
            }
        }
        assert!(all[0].iter().copied().eq((0..50).flat_map(|_| 0..10)), "{:?}", all[0]);
        let second = (0..50).flat_map(|round| 0..if round % 5 == 0 { 100 } else { 1 });
        assert!(all[1].iter().copied().eq(second), "{:?}", all[1]);
        assert!(at_once.load(Ordering::Relaxed) > 0, "some were taken at once");
    }

    #[test]
    fn nothing_is_told_of_one_that_is_behind_until_it_reads() {
        let bench = Bench::new(2);
        assert_eq!([bench.next(), bench.next()], [Some((1, None)), Some((2, None))]);
        bench.outgoing[0].say(&vec![0; BEHIND + 1]);
        bench.put(1, 2, &Body::BarrierRequest);
        bench.put(2, 1, &Body::BarrierRequest);
        assert_eq!((bench.next(), bench.next()), (Some((2, Some(0))), None));
        let taken = bench.outgoing[0].take().unwrap();
        bench.outgoing[0].sent(taken.len());
        bench.backlog.look_again();
        assert_eq!((bench.next(), bench.next()), (Some((1, Some(0))), Some((1, Some(1)))));
    }

    #[test]
    fn of_one_that_is_gone_what_it_changed_is_told_and_what_it_asked_is_not() {
        let mut bench = Bench::new(2);
        let question = Body::MultipartRequest(MultipartRequest { more: false, request: Request::Desc });
        assert_eq!([bench.next(), bench.next()], [Some((1, None)), Some((2, None))]);
        bench.outgoing.clear();
        bench.put(1, 5, &question);
        bench.put(1, 1, &Body::BarrierRequest);
        bench.backlog.over(ConnectionId(1), "it hung up".to_owned(), true);
        assert_eq!([bench.next(), bench.next()], [Some((1, Some(0))), Some((1, None))]);
        bench.put(2, 5, &Body::BarrierRequest);
        bench.backlog.over(ConnectionId(2), "it floods".to_owned(), false);
        let rest: Vec<_> = std::iter::from_fn(|| bench.next()).collect();
        assert!(rest.len() <= 1 + TURN && rest.last() == Some(&(2, None)), "{rest:?}");
    }

    #[test]
    fn a_connection_with_too_much_waiting_is_full_until_the_switch_has_come_to_it() {
        let bench = Bench::new(1);
        let each = u32::try_from(MOST_HELD / 8).unwrap();
        bench.put(1, each, &Body::BarrierRequest);
        assert!(!bench.backlog.is_full(ConnectionId(1)));
        bench.put(1, 1, &Body::BarrierRequest);
        assert!(bench.backlog.is_full(ConnectionId(1)));
        assert_eq!(std::iter::from_fn(|| bench.next()).take(100).count(), 100);
        assert!(!bench.backlog.is_full(ConnectionId(1)));
        assert!(!bench.backlog.is_full(ConnectionId(2)), "there is no such connection");
    }
}

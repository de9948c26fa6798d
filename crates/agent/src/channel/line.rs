//! What is to be said to a controller: a queue with a bound, from the switch's thread to the channel's.
//!
//! Why so: the switch's thread must never wait for a controller that does not read. Answers are owed, so
//! they are queued until there are too many to be true, and the connection ends; what nobody asked for is
//! left out as soon as the controller is behind. All lines of a switch together have a bound as well.
//!
//! An answer for which nothing waits is written to the socket by whoever gives it, if the socket takes it and
//! speaks no TLS: who waits for a barrier does not wait for one more thread to be woken.
//!
//! Cost: a lock that is held for a few instructions, and a system call to write, or to wake the channel's thread
//! if that sleeps. Threads: any number speak; the channel's takes.

use super::link::messages;
use super::status::Counters;
use super::transport::Socket;
use super::waker::Waker;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that may wait before a controller counts as behind: it is told nothing that it did not ask for,
/// and nothing more is read of it.
pub const BEHIND: usize = 1 << 20;

/// Bytes that one controller may make the switch hold: answers that wait for it, messages of its open bundles
/// (`Line::hold`). Its connection ends with an answer above that; a message above it is refused.
/// A bundle of half a million routes takes 78 MiB.
pub const MOST_WAITING: usize = 128 << 20;

/// Bytes that all of them may make it hold; with more, one that is behind and gets an answer ends.
pub const MOST_WAITING_IN_ALL: usize = 256 << 20;

/// Of these, what is kept for controllers that have it hold no more than [`BEHIND`]: a few that fill the rest
/// leave a bundle of some thousand entries to everybody else.
const KEPT_FREE: usize = 64 << 20;

/// Bytes of an answer that is written at once, at most; a longer one takes as long as its reader does.
const AT_ONCE: usize = 64 << 10;

/// Speaks to a controller.
#[derive(Clone)]
pub struct Line {
    shared: Arc<Shared>,
}

/// The other end of a [`Line`]: what is to be sent.
pub(super) struct Outgoing {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    in_all: Arc<AtomicUsize>,
    /// Bytes that are held for the controller beside what waits for it.
    held: AtomicUsize,
    untold: AtomicU64,
    waker: Waker,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Vec<u8>>,
    /// The end of a message that the socket took in part.
    rest: Vec<u8>,
    /// Where answers may be written at once.
    socket: Option<Direct>,
    /// Bytes that were queued and not handed to the connection yet, those taken and unsent included.
    waiting: usize,
    state: State,
}

/// A connection's socket, and what counts its messages.
struct Direct {
    socket: Arc<Socket>,
    counters: Arc<Counters>,
}

/// How far a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It takes what is said.
    #[default]
    Open,
    /// It takes nothing more; what waits is still sent.
    Closing,
    /// More waited than may: the connection is to end.
    Overrun,
    /// The connection is gone.
    Over,
}

/// A line, and what the channel takes from it. `in_all` counts the bytes of all lines of a switch.
pub(super) fn line(in_all: Arc<AtomicUsize>, waker: Waker) -> (Line, Outgoing) {
    let shared = Shared {
        queue: Mutex::default(),
        in_all,
        held: AtomicUsize::new(0),
        untold: AtomicU64::new(0),
        waker,
    };
    let shared = Arc::new(shared);
    (Line { shared: shared.clone() }, Outgoing { shared })
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, queue: &mut Queue, bytes: Vec<u8>) {
        let in_all = self.count(queue, bytes.len());
        queue.chunks.push_back(bytes);
        let behind = queue.waiting > BEHIND;
        let held = self.held.load(Ordering::Relaxed);
        if queue.waiting + held > MOST_WAITING || (behind && in_all > MOST_WAITING_IN_ALL) {
            self.forget(queue, State::Overrun);
        }
    }

    /// Counts bytes that wait; those of all lines.
    fn count(&self, queue: &mut Queue, bytes: usize) -> usize {
        queue.waiting += bytes;
        self.in_all.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Writes an answer to the socket, if nothing is before it; hands it back if none of it was taken.
    fn write(&self, queue: &mut Queue, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let alone = queue.waiting == 0 && bytes.len() <= AT_ONCE;
        let Some(Direct { socket, counters }) = queue.socket.as_ref().filter(|_| alone) else {
            return Some(bytes);
        };
        // What went wrong, the channel will find when it tries.
        let Ok(sent @ 1..) = (&**socket).write(&bytes) else { return Some(bytes) };
        counters.went(messages(&bytes), sent);
        queue.rest = bytes.split_off(sent);
        if queue.rest.is_empty() {
            return None;
        }
        self.count(queue, queue.rest.len());
        self.waker.wake();
        None
    }

    /// Drops what waits.
    fn forget(&self, queue: &mut Queue, state: State) {
        self.in_all.fetch_sub(queue.waiting, Ordering::Relaxed);
        *queue = Queue { state, ..Queue::default() };
    }
}

impl Line {
    /// Gives an answer: one whole message, encoded, or several. Never blocks. A connection for which more
    /// than [`MOST_WAITING`] bytes wait is closed; while more than [`BEHIND`] wait, no further requests are
    /// read of it.
    pub fn answer(&self, bytes: Vec<u8>) {
        let mut queue = self.shared.queue();
        if queue.state == State::Open
            && !bytes.is_empty()
            && let Some(bytes) = self.shared.write(&mut queue, bytes)
        {
            self.shared.push(&mut queue, bytes);
            drop(queue);
            self.shared.waker.wake();
        }
    }

    /// Queues a message that nobody asked for: packet-in, port status, flow removed, an update of a monitor.
    /// False if more than [`BEHIND`] bytes wait: it is not sent, and counted.
    pub fn tell(&self, bytes: Vec<u8>) -> bool {
        let mut queue = self.shared.queue();
        if queue.state != State::Open {
            return false;
        }
        if queue.waiting > BEHIND {
            self.shared.untold.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.shared.push(&mut queue, bytes);
        drop(queue);
        self.shared.waker.wake();
        true
    }

    /// Ends the connection, after what is queued.
    pub fn close(&self) {
        let mut queue = self.shared.queue();
        if queue.state == State::Open {
            queue.state = State::Closing;
            drop(queue);
            self.shared.waker.wake();
        }
    }

    /// Whether so much waits that the controller is not to be read any further.
    pub(super) fn is_behind(&self) -> bool {
        self.shared.queue().waiting > BEHIND
    }

    /// Whether the connection is gone.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.shared.queue().state, State::Over | State::Overrun)
    }
}

/// Bytes that are held for a controller. They count as its own until this is dropped.
pub(crate) struct Held {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Line {
    /// Holds nothing for the controller yet.
    pub(crate) fn hold(&self) -> Held {
        Held { shared: self.shared.clone(), bytes: 0 }
    }
}

impl Held {
    /// Counts more bytes, if they may be held: [`MOST_WAITING`] of one controller with all that waits for it,
    /// [`MOST_WAITING_IN_ALL`] of all controllers. False if not; then nothing is counted.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        let Shared { held, in_all, .. } = &*self.shared;
        let waiting = self.shared.queue().waiting;
        let own = held.fetch_add(bytes, Ordering::Relaxed) + bytes + waiting;
        let all = in_all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let most = if own > BEHIND { MOST_WAITING_IN_ALL - KEPT_FREE } else { MOST_WAITING_IN_ALL };
        let may = own <= MOST_WAITING && all <= most;
        if may {
            self.bytes += bytes;
        } else {
            held.fetch_sub(bytes, Ordering::Relaxed);
            in_all.fetch_sub(bytes, Ordering::Relaxed);
        }
        may
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.shared.in_all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.shared.queue();
        out.debug_struct("Line").field("waiting", &queue.waiting).field("state", &queue.state).finish()
    }
}

impl Outgoing {
    /// Answers may be written to this socket from now on.
    pub(super) fn connect(&self, socket: Arc<Socket>, counters: Arc<Counters>) {
        self.shared.queue().socket = Some(Direct { socket, counters });
    }

    /// Takes the end of a message whose begin was written, which comes before all others. It was counted.
    pub(super) fn take_rest(&self) -> Vec<u8> {
        std::mem::take(&mut self.shared.queue().rest)
    }

    /// Queues what the channel itself says; it is awake already.
    pub(super) fn say(&self, bytes: &[u8]) {
        let mut queue = self.shared.queue();
        if queue.state == State::Open && !bytes.is_empty() {
            self.shared.push(&mut queue, bytes.to_vec());
        }
    }

    /// Takes the next bytes to be sent, whole messages. They wait until [`Outgoing::sent`] says otherwise.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        self.shared.queue().chunks.pop_front()
    }

    /// So many of the bytes that were taken are on their way.
    pub(super) fn sent(&self, bytes: usize) {
        let mut queue = self.shared.queue();
        // After the end there is nothing to be counted.
        let bytes = bytes.min(queue.waiting);
        queue.waiting -= bytes;
        self.shared.in_all.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that are held for the controller beside what waits for it.
    pub(super) fn held(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Bytes that wait, and how far the line is.
    pub(super) fn look(&self) -> (usize, State) {
        let queue = self.shared.queue();
        (queue.waiting, queue.state)
    }

    /// Messages that were not told.
    pub(super) fn untold(&self) -> u64 {
        self.shared.untold.load(Ordering::Relaxed)
    }

    /// Takes nothing more; what waits is still sent.
    pub(super) fn close(&self) {
        let mut queue = self.shared.queue();
        if queue.state == State::Open {
            queue.state = State::Closing;
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.shared.forget(&mut self.shared.queue(), State::Over);
    }
}

#[cfg(test)]
mod tests {
    use super::super::waker::waker;
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    fn lines(count: usize) -> (Arc<AtomicUsize>, Vec<(Line, Outgoing)>) {
        let in_all = Arc::<AtomicUsize>::default();
        let (waker, _) = waker().unwrap();
        let lines = (0..count).map(|_| line(in_all.clone(), waker.clone())).collect();
        (in_all, lines)
    }

    #[test]
    fn a_controller_that_is_behind_is_told_nothing_that_it_did_not_ask_for() {
        let (in_all, lines) = lines(1);
        let (line, outgoing) = &lines[0];
        assert!(line.tell(vec![0; BEHIND]) && line.tell(vec![1; 8]), "not behind until more than that waits");
        assert!(line.is_behind() && !line.tell(vec![2; 8]));
        line.answer(vec![3; 8]);
        assert_eq!((outgoing.untold(), outgoing.look()), (1, (BEHIND + 16, State::Open)));
        assert_eq!(outgoing.take().unwrap().len(), BEHIND);
        assert!(line.is_behind(), "what was taken and is not sent waits on");
        outgoing.sent(BEHIND);
        assert!(!line.is_behind() && line.tell(vec![4; 8]));
        assert_eq!([(); 3].map(|()| outgoing.take().unwrap()[0]), [1, 3, 4]);
        outgoing.sent(24);
        assert_eq!((outgoing.take(), in_all.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn what_is_held_has_the_same_bound_as_what_waits_and_leaves_room_for_those_that_hold_little() {
        let (in_all, lines) = lines(5);
        let mut first = lines[0].0.hold();
        assert!(first.add(MOST_WAITING) && !first.add(1), "one controller has its share");
        drop(first);
        assert_eq!((in_all.load(Ordering::Relaxed), lines[0].1.held()), (0, 0));
        lines[0].0.answer(vec![0; MOST_WAITING - 8]);
        let mut beside = lines[0].0.hold();
        assert!(beside.add(8) && !beside.add(1), "what waits counts too");
        let mut held: Vec<Held> = lines[1..].iter().map(|(line, _)| line.hold()).collect();
        let most = |held: &mut Held| (1..=64).take_while(|_| held.add(1 << 20)).count();
        let taken: Vec<usize> = held.iter_mut().map(most).collect();
        // The first one has half of all there is.
        assert_eq!(taken, [64, 1, 1, 1], "those that come late have a little still");
        assert!(in_all.load(Ordering::Relaxed) <= MOST_WAITING_IN_ALL);
        drop((held, beside));
        lines[0].0.answer(vec![0; 16]);
        assert_eq!(in_all.load(Ordering::Relaxed), 0, "it went with the line");
    }

    #[test]
    fn what_waits_has_a_bound_for_one_controller_and_for_all() {
        let (in_all, lines) = lines(40);
        let (line, outgoing) = &lines[0];
        line.answer(vec![0; MOST_WAITING]);
        assert_eq!(outgoing.look(), (MOST_WAITING, State::Open));
        line.answer(vec![0]);
        assert_eq!((outgoing.look(), line.is_over()), ((0, State::Overrun), true));
        line.answer(vec![0; 8]);
        assert!(!line.tell(vec![0; 8]), "nothing is taken any more");
        assert_eq!((in_all.load(Ordering::Relaxed), outgoing.untold()), (0, 0));
        let share = MOST_WAITING_IN_ALL / 32;
        lines[1..33].iter().for_each(|(line, _)| line.answer(vec![0; share]));
        lines[33].0.answer(vec![0; 8]);
        assert_eq!(lines[33].1.look(), (8, State::Open), "who is not behind is not made to suffer");
        lines[1].0.answer(vec![0; 8]);
        assert_eq!(lines[1].1.look(), (0, State::Overrun));
        lines[2].0.answer(vec![0; 8]);
        assert_eq!(lines[2].1.look(), (share + 8, State::Open), "there is room again");
        drop(lines);
        assert_eq!(in_all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_answer_for_which_nothing_waits_is_written_and_one_that_is_not_taken_whole_is_finished_in_order() {
        let (in_all, mut lines) = lines(1);
        let (line, outgoing) = lines.remove(0);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let counters = Arc::<Counters>::default();
        outgoing.say(&[0; 8]);
        outgoing.connect(Arc::new(Socket::Unix(ours)), counters);
        line.answer(vec![1; 8]);
        assert_eq!(outgoing.look().0, 16, "something is before it");
        assert_eq!([(); 2].map(|()| outgoing.take().unwrap()[0]), [0, 1]);
        outgoing.sent(16);
        line.answer(vec![2; 8]);
        assert_eq!((outgoing.look().0, outgoing.take()), (0, None), "it is written");
        let mut written = 8;
        while outgoing.look().0 == 0 {
            line.answer(vec![3; AT_ONCE]);
            written += AT_ONCE;
        }
        line.answer(vec![4; 8]);
        let mut rest = outgoing.take_rest();
        let first = outgoing.take().unwrap();
        assert!(rest.iter().all(|&byte| byte == 3), "the end of one that was taken in part");
        let last = if first[0] == 3 {
            // The socket took whole ones only.
            rest = first;
            outgoing.take().unwrap()
        } else {
            first
        };
        assert_eq!((outgoing.look().0, last), (rest.len() + 8, vec![4; 8]));
        let mut read = vec![0; written - rest.len()];
        theirs.read_exact(&mut read).unwrap();
        assert!(read[..8] == [2; 8] && read[8..].iter().all(|&byte| byte == 3));
        outgoing.sent(rest.len() + 8);
        drop(outgoing);
        assert_eq!(in_all.load(Ordering::Relaxed), 0);
        assert_eq!(theirs.read(&mut read).unwrap(), 0, "nobody keeps the socket open");
    }

    #[test]
    fn a_line_that_is_closed_still_sends_what_was_queued() {
        let (_, mut lines) = lines(1);
        let (line, outgoing) = lines.remove(0);
        line.answer(vec![7; 8]);
        line.close();
        line.answer(vec![8; 8]);
        outgoing.say(&[9; 8]);
        assert_eq!(outgoing.look(), (8, State::Closing));
        assert_eq!((outgoing.take(), outgoing.take()), (Some(vec![7; 8]), None));
        drop(outgoing);
        assert!(line.is_over() && !line.tell(vec![1; 8]));
    }
}

//! The two ends of a queue whose driver is in a helper, as a worker of the switch holds them.

use super::ring::{Consumer, Lie, Producer, Shape, Told, Way};
use crate::TooLong;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_dpdk::{Burst, Pool, PortStats, SharedWords};

/// What the ends of a port and its supervisor have in common, in the switch's own memory.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) shape: Shape,
    /// Rises with each helper.
    epoch: AtomicU64,
    /// The memory of the helper of an epoch.
    memory: Mutex<(u64, Arc<SharedWords>)>,
    /// Whether there is a helper that may be given packets.
    alive: AtomicBool,
    /// Whether the last helper has ended, so that it passes nothing on any more.
    over: AtomicBool,
    /// The epoch, less one, of the helper that lied last.
    lied: AtomicU64,
    counts: Vec<Counts>,
}

/// What a queue counted. One thread writes each, any may read.
#[derive(Debug)]
struct Counts {
    received: AtomicU64,
    received_bytes: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    /// Packets that helpers had when they ended, of those that the sending end has left behind.
    undelivered: AtomicU64,
    /// How many the sending end has put into the ring that it uses now.
    produced: AtomicU64,
    /// Whose ring that is.
    of: Mutex<(u64, Arc<SharedWords>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(count: &AtomicU64, more: u64) {
    // One writer: no read-modify-write on the bus is needed.
    count.store(count.load(Relaxed) + more, Relaxed);
}

impl Common {
    /// Of so many queues, with the first helper's memory.
    pub(super) fn new(shape: Shape, queues: u16, memory: Arc<SharedWords>) -> Self {
        let counts = |_| Counts {
            received: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            produced: AtomicU64::new(0),
            of: Mutex::new((0, memory.clone())),
        };
        Self {
            shape,
            epoch: AtomicU64::new(0),
            counts: (0..queues).map(counts).collect(),
            memory: Mutex::new((0, memory)),
            alive: AtomicBool::new(true),
            over: AtomicBool::new(false),
            lied: AtomicU64::new(0),
        }
    }

    /// The helper is done for: it is given no more.
    pub(super) fn ended(&self) {
        self.alive.store(false, Release);
    }

    /// It is not there any more: what it has not passed on is not passed on.
    pub(super) fn is_over(&self) {
        self.over.store(true, Release);
    }

    /// Another has come.
    pub(super) fn begun(&self, memory: Arc<SharedWords>) {
        let mut now = lock(&self.memory);
        *now = (now.0 + 1, memory);
        self.epoch.store(now.0, Release);
        // Behind the epoch: whoever does not see it over sees that it is another.
        self.over.store(false, Release);
        self.alive.store(true, Release);
    }

    /// Whether the helper that there is lied.
    pub(super) fn lied(&self) -> bool {
        self.lied.load(Acquire) == self.epoch.load(Acquire) + 1
    }

    /// The helper of an epoch lied.
    fn lies(&self, epoch: u64) {
        // A queue that comes late with the lie of a helper before says nothing of the one that there is.
        self.lied.fetch_max(epoch + 1, Release);
    }

    /// Whether there is a helper, and it says that its link is up.
    pub(super) fn link_up(&self) -> bool {
        self.alive.load(Acquire) && Told::Link.read(&lock(&self.memory).1) == 1
    }

    pub(super) fn mac(&self) -> [u8; 6] {
        let [mac @ .., _, _] = Told::Mac.read(&lock(&self.memory).1).to_le_bytes();
        // One that several may have is nobody's.
        if mac[0] & 1 == 0 { mac } else { [0; 6] }
    }

    /// What the ends counted, and what the helper that there is says to have missed.
    pub(super) fn stats(&self) -> PortStats {
        let sum = |which: fn(&Counts) -> &AtomicU64| {
            self.counts.iter().map(|count| which(count).load(Relaxed)).sum::<u64>()
        };
        PortStats {
            received: sum(|count| &count.received),
            received_bytes: sum(|count| &count.received_bytes),
            sent: sum(|count| &count.sent),
            sent_bytes: sum(|count| &count.sent_bytes),
            ..PortStats::default()
        }
    }

    /// Packets that were sent, and that helpers had not passed on when they ended.
    pub(super) fn undelivered(&self) -> u64 {
        let over = self.over.load(Acquire);
        let now = self.epoch.load(Acquire);
        let of = |(queue, counts): (usize, &Counts)| {
            let of = lock(&counts.of);
            let settled = counts.undelivered.load(Acquire);
            // Else the sending end has not left it behind yet.
            let is_over = over || of.0 != now;
            let left = || Producer::left(&of.1, self.shape, queue, counts.produced.load(Acquire));
            settled + if is_over { left() } else { 0 }
        };
        self.counts.iter().enumerate().map(of).sum()
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct ApartRx {
    common: Arc<Common>,
    queue: usize,
    epoch: u64,
    ring: Consumer,
    /// After its helper's end: the next one's ring, and how much of the first is left.
    next: Option<(Consumer, usize)>,
    /// Whether the helper lied: nothing of its ring is taken any more.
    silenced: bool,
    pool: Pool,
    /// Packets to be filled.
    spare: Burst,
    too_long: TooLong,
}

/// The sending end.
#[derive(Debug)]
pub struct ApartTx {
    common: Arc<Common>,
    queue: usize,
    epoch: u64,
    memory: Arc<SharedWords>,
    ring: Producer,
    silenced: bool,
    too_long: TooLong,
}

/// Both ends of a queue.
pub(super) fn ends(common: &Arc<Common>, queue: usize, pool: &Pool) -> (ApartRx, ApartTx) {
    let ((epoch, memory), shape) = (lock(&common.memory).clone(), common.shape);
    let rx = ApartRx {
        common: common.clone(),
        queue,
        epoch,
        ring: Consumer::new(&memory, shape, queue, Way::In),
        next: None,
        silenced: false,
        pool: pool.clone(),
        spare: Burst::new(),
        too_long: TooLong::default(),
    };
    let ring = Producer::new(&memory, shape, queue, Way::Out);
    let (common, too_long) = (common.clone(), TooLong::default());
    (rx, ApartTx { common, queue, epoch, memory, ring, silenced: false, too_long })
}

impl ApartRx {
    /// Receives packets behind those in the burst, as many as there are and fit.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        if self.common.epoch.load(Acquire) != self.epoch {
            self.notice();
        }
        if self.next.is_some() {
            return self.receive_rest(burst);
        }
        if self.silenced {
            return 0;
        }
        match self.ring.ready() {
            Ok(0) => 0,
            Ok(ready) => self.take(ready.min(burst.room()), burst),
            Err(lie) => self.silence(lie),
        }
    }

    /// What is left of a helper that has ended, and then the next one's ring. Whatever stands there now, no more is taken
    /// than there was when it ended, and the end of it is found.
    #[cold]
    fn receive_rest(&mut self, burst: &mut Burst) -> usize {
        let left = self.next.as_ref().map_or(0, |(_, left)| *left);
        let ready = if self.silenced { 0 } else { self.ring.ready().unwrap_or(0).min(left) };
        if ready > 0 {
            return self.take(ready.min(burst.room()), burst);
        }
        if let Some((ring, _)) = self.next.take() {
            (self.ring, self.silenced) = (ring, false);
        }
        0
    }

    fn take(&mut self, count: usize, burst: &mut Burst) -> usize {
        if !self.pool.fill(&mut self.spare, count) {
            return 0; // they wait in the ring
        }
        let (before, mut done, mut bytes, mut lie) = (burst.len(), 0, 0, None);
        while done < count {
            match self.ring.length(done) {
                Ok(length) if length > usize::from(self.pool.room()) => self.too_long.add(length as u64),
                Ok(length) => {
                    let Some(mut packet) = self.spare.pop() else { break };
                    self.ring.copy(done, packet.set_len(length as u16)); // at most a pool's room
                    bytes += length as u64;
                    drop(burst.push(packet)); // there is room
                }
                Err(found) => {
                    lie = Some(found);
                    break;
                }
            }
            done += 1;
        }
        self.ring.advance(done);
        self.spare.clear();
        if let Some((_, left)) = &mut self.next {
            *left = left.saturating_sub(done);
        }
        let received = burst.len() - before;
        let counts = &self.common.counts[self.queue];
        add(&counts.received, received as u64);
        add(&counts.received_bytes, bytes);
        if let Some(lie) = lie {
            self.silence(lie);
        }
        received
    }

    /// Another helper is there. What the first had put into its ring still counts.
    #[cold]
    fn notice(&mut self) {
        let (epoch, memory) = lock(&self.common.memory).clone();
        self.epoch = epoch;
        let left = if self.silenced { 0 } else { self.ring.ready().unwrap_or(0) };
        self.next = Some((Consumer::new(&memory, self.common.shape, self.queue, Way::In), left));
    }

    #[cold]
    fn silence(&mut self, _: Lie) -> usize {
        self.silenced = true;
        match &mut self.next {
            // It has ended already.
            Some((_, left)) => *left = 0,
            None => self.common.lies(self.epoch),
        }
        0
    }

    /// Packets that were too long, since this was asked last.
    pub fn take_too_long(&mut self) -> TooLong {
        std::mem::take(&mut self.too_long)
    }
}

impl ApartTx {
    /// Transmits from the front of the burst. Returns how many the helper's ring took; what it has no room for stays, and
    /// so does all while no peer is there. What is too long is gone, and counted ([`Self::take_too_long`]).
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        if !self.common.alive.load(Acquire) {
            return 0;
        }
        if self.common.epoch.load(Acquire) != self.epoch {
            self.leave();
        }
        if self.silenced || Told::Link.read(&self.memory) != 1 {
            return 0;
        }
        let Ok(count) = self.ring.free(burst.len()) else {
            self.silenced = true;
            self.common.lies(self.epoch);
            return 0;
        };
        let (mut sent, mut bytes) = (0, 0);
        for packet in burst.iter().take(count) {
            if packet.is_chained() || packet.len() > self.common.shape.longest() || packet.is_empty() {
                self.too_long.add(packet.len() as u64);
                continue;
            }
            self.ring.put(packet.data());
            sent += 1;
            bytes += packet.len() as u64;
        }
        let counts = &self.common.counts[self.queue];
        counts.produced.store(self.ring.number(), Release);
        self.ring.publish();
        burst.drop_front(count);
        add(&counts.sent, sent as u64);
        add(&counts.sent_bytes, bytes);
        sent
    }

    /// Another helper is there. What the first had not passed on is lost.
    #[cold]
    fn leave(&mut self) {
        let (common, counts) = (&self.common, &self.common.counts[self.queue]);
        // Whoever reads what is undelivered sees all of this, or nothing of it.
        let mut of = lock(&counts.of);
        let left = Producer::left(&self.memory, common.shape, self.queue, self.ring.number());
        counts.undelivered.store(counts.undelivered.load(Relaxed) + left, Release);
        counts.produced.store(0, Release);
        (self.epoch, self.memory) = lock(&common.memory).clone();
        *of = (self.epoch, self.memory.clone());
        self.ring = Producer::new(&self.memory, common.shape, self.queue, Way::Out);
        self.silenced = false;
    }

    /// Packets that are longer than the port takes, since this was asked last.
    pub fn take_too_long(&mut self) -> TooLong {
        std::mem::take(&mut self.too_long)
    }
}

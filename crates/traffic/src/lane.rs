//! One thread of the tester: its senders, its receive queues, and its share of a trial.
//!
//! A trial's life here: `prepare → meet the other threads → offer and collect until the time is up → drain
//! → report`. Nothing in the loop allocates, locks, logs or calls the system, but to sleep where the core is shared
//! ([`crate::probing`]).

use crate::pacer::Schedule;
use crate::probing::{Nap, Prober, Probing};
use crate::sample::Sampler;
use crate::sender::{Sender, SenderCourse};
use crate::sink::{Tracker, TrackerSetup};
use crate::stamp::Numbering;
use crate::waits::Waits;
use crate::watch::{Gaps, PassLimit, Watch};
use crate::windows::Grid;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weir_cpu::{Lease, Ticks, Tsc};
use weir_dpdk::{Burst, RxQueue};
use weir_trial::health::{Clocks, CoreHealth};
use weir_trial::{DirectionCounts, TrialSpec};
use weir_units::Nanos;

/// How often a drain that sees nothing come has the ports send what they may have kept.
const FLUSH_EVERY: Nanos = Nanos(50_000);
/// Time between the meeting of all threads and the first packet.
const LEAD: Nanos = Nanos(200_000);
/// How long threads wait for one another before a trial.
const MEETING: Nanos = Nanos(5 * Nanos::PER_SECOND);

/// When a trial's stragglers have had their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Ends when no packet came for this long, or for four times the greatest delay of the trial.
    pub quiet: Nanos,
    /// The longest quiet that is waited out (RFC 2544, section 23, waits two seconds).
    pub patience: Nanos,
    /// Ends at the latest after this, be it that packets still come.
    pub limit: Nanos,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            quiet: Nanos(20_000_000),
            patience: Nanos(2 * Nanos::PER_SECOND),
            limit: Nanos(10 * Nanos::PER_SECOND),
        }
    }
}

/// A sender and its place.
#[derive(Debug)]
pub(crate) struct LaneSender {
    pub(crate) direction: usize,
    pub(crate) stream: usize,
    /// Share of the direction's load that is its own.
    pub(crate) share: f64,
    pub(crate) sender: Sender,
}

/// Receive queues of a port: all of them, or those that are this thread's.
#[derive(Debug)]
pub(crate) struct LaneReceiver {
    pub(crate) port: usize,
    /// Which of its pair of ports it is, 0 or 1.
    pub(crate) side: u8,
    /// The direction whose packets come here.
    pub(crate) direction: usize,
    pub(crate) queues: Vec<RxQueue>,
    /// Takes a sample of each trial, where there is something to compare it with.
    pub(crate) sampler: Option<Sampler>,
}

/// One thread's share of a tester.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) core: usize,
    pub(crate) senders: Vec<LaneSender>,
    pub(crate) receivers: Vec<LaneReceiver>,
}

/// A trial, as all threads of a tester see it.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) trial: u16,
    /// How trial and direction stand in stamps.
    pub(crate) numbering: Numbering,
    pub(crate) spec: TrialSpec,
    pub(crate) tsc: Tsc,
    /// Windows; the start is known when all threads have met.
    pub(crate) grid: Grid,
    pub(crate) schedule: Schedule,
    /// How far behind the schedule packets are still sent, in ticks.
    pub(crate) catch_up: u64,
    /// How long after they were due packets are late, in ticks.
    pub(crate) late_from: u64,
    /// How long a pass of the loop takes by itself, and what longer ones may come to together before they are a pause,
    /// in ticks.
    pub(crate) pass: PassLimit,
    pub(crate) pause: u64,
    pub(crate) drain: Drain,
    /// What the trackers of each direction expect, and how many of them it has.
    pub(crate) setups: Vec<TrackerSetup>,
    pub(crate) receivers: Vec<usize>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) meeting: Meeting,
    /// What is sent beside the schedule, and the number of the first of these.
    pub(crate) probing: Option<(Arc<Probing>, u64)>,
    /// The priority that its threads have, for so long.
    pub(crate) lease: Option<Arc<Lease>>,
}

/// What threads tell one another during a trial.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// Threads still on their way.
    absent: AtomicUsize,
    /// The trial's first tick, once all are there.
    start: AtomicU64,
    /// What the last of them calls before that.
    at_start: AtStart,
    /// Threads that still send.
    sending: AtomicUsize,
    sent: AtomicU64,
    received: AtomicU64,
    /// When a packet came last, in ticks.
    came: AtomicU64,
    /// The greatest delay that a thread saw until it stopped sending, in ticks.
    longest: AtomicU64,
}

impl Meeting {
    pub(crate) fn of(lanes: &[Lane]) -> Self {
        let sending = lanes.iter().filter(|lane| !lane.senders.is_empty()).count();
        Self { absent: lanes.len().into(), sending: sending.into(), ..Self::default() }
    }

    /// Has the last thread that comes call this.
    pub(crate) fn call_at_start(&mut self, call: impl FnOnce() + Send + 'static) {
        self.at_start = AtStart(Mutex::new(Some(Box::new(call))));
    }

    /// Waits for all threads; the trial's first tick. Nothing where one did not come.
    fn wait(&self, course: &Course) -> Option<Ticks> {
        if self.absent.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.at_start.call();
            let start = Ticks::now().0 + course.tsc.ticks(LEAD);
            self.start.store(start, Ordering::Release);
        }
        let called = Ticks::now();
        loop {
            match self.start.load(Ordering::Acquire) {
                0 if course.tsc.nanos(Ticks::now().since(called)) > MEETING => return None,
                0 if course.stop.load(Ordering::Relaxed) => return None,
                0 => std::hint::spin_loop(),
                start => return Some(Ticks(start)),
            }
        }
    }
}

/// What is called once when a trial begins.
#[derive(Default)]
struct AtStart(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl AtStart {
    fn call(&self) {
        let call = self.0.lock().ok().and_then(|mut call| call.take());
        if let Some(call) = call {
            call();
        }
    }
}

impl std::fmt::Debug for AtStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AtStart")
    }
}

/// What one thread has to tell after a trial.
#[derive(Debug)]
pub(crate) struct LaneReport {
    pub(crate) start: Ticks,
    /// When its last packet was offered or given up.
    pub(crate) ended: Ticks,
    /// Direction and counts of each sender, in order.
    pub(crate) counts: Vec<(usize, DirectionCounts)>,
    /// Direction and tracker, one a direction that this thread receives.
    pub(crate) trackers: Vec<(usize, Tracker)>,
    pub(crate) gaps: Gaps,
    /// What it saw of the DUT's threads.
    pub(crate) waits: Waits,
    /// When each packet beside the schedule was sent, in order.
    pub(crate) probes: Vec<u64>,
    pub(crate) health: Option<CoreHealth>,
    pub(crate) clocks: Clocks,
}

impl Lane {
    /// Runs this thread's share of a trial, with an eye on the DUT's threads; nothing where it was stopped.
    pub(crate) fn run(&mut self, course: &Course, mut waits: Waits) -> Option<LaneReport> {
        let mut collector = self.prepare(course);
        let watch = Watch::start(self.core);
        let start = course.meeting.wait(course)?;
        // Looking at the DUT's threads is its own doing, too.
        let empty = course.pass.empty + waits.cost(course.tsc);
        let mut gaps = Gaps::new(start, PassLimit { empty, ..course.pass }, course.pause);
        self.senders.iter_mut().for_each(|one| one.sender.begin_at(start));
        collector.trackers.iter_mut().for_each(|(_, tracker)| tracker.begin_at(start));
        waits.begin(Ticks::now());
        let mut prober = self.prober(course, start);
        let ended = self.offer(course, (start, &mut prober), &mut gaps, &mut waits, &mut collector);
        let probes = prober.map_or(Vec::new(), Prober::into_sent);
        let counts: Vec<_> =
            self.senders.iter_mut().map(|one| (one.direction, one.sender.finish())).collect();
        let sent = counts.iter().map(|(_, count)| count.sent).sum::<u64>() + probes.len() as u64;
        course.meeting.sent.fetch_add(sent, Ordering::AcqRel);
        if !self.senders.is_empty() {
            course.meeting.sending.fetch_sub(1, Ordering::AcqRel);
        }
        if !self.receivers.is_empty() {
            self.drain(course, &mut gaps, &mut collector);
        }
        waits.look(Ticks::now());
        let (health, clocks) = watch.end(course.tsc);
        let stopped = course.stop.load(Ordering::Relaxed);
        let trackers = collector.trackers;
        (!stopped).then_some(LaneReport {
            start,
            ended,
            counts,
            trackers,
            gaps,
            waits,
            probes,
            health,
            clocks,
        })
    }

    /// What sends beside the schedule, on the thread that has the first sender of direction 0.
    fn prober(&self, course: &Course, start: Ticks) -> Option<Prober> {
        let (probing, first) = course.probing.as_ref()?;
        let place = self.senders.iter().position(|one| (one.direction, one.stream) == (0, 0))?;
        Some(Prober::new(probing, place, *first, (start, course.grid.length), course.tsc))
    }

    /// Takes and touches the memory of a trial.
    fn prepare(&mut self, course: &Course) -> Collector {
        for LaneSender { direction, stream, share, sender } in &mut self.senders {
            let schedule = Schedule {
                load: weir_units::Pps(course.schedule.load.0 * *share),
                // Senders of one direction take turns.
                phase: *stream as f64 * *share,
                ..course.schedule
            };
            let trial = course.numbering.number(course.trial, *direction);
            let stream = *stream as u8;
            let grid = course.grid;
            let Course { catch_up, late_from, tsc, .. } = *course;
            sender.begin(SenderCourse { trial, stream, schedule, grid, catch_up, late_from }, tsc);
        }
        let mut trackers: Vec<(usize, Tracker)> = Vec::new();
        let mut places = Vec::new();
        for receiver in &mut self.receivers {
            let place = trackers.iter().position(|(direction, _)| *direction == receiver.direction);
            places.push(place.unwrap_or(trackers.len()));
            if place.is_none() {
                trackers.push((receiver.direction, Tracker::new(course.setups[receiver.direction].clone())));
            }
            if let Some(sampler) = &mut receiver.sampler {
                let packets = course.spec.load.0 * course.spec.duration.seconds();
                let receivers = course.setups.len().max(1) * course.receivers[receiver.direction];
                sampler.begin(course.trial, packets / receivers as f64);
            }
        }
        Collector { trackers, places, burst: Burst::new() }
    }

    /// Offers the load and collects what comes back, until every slot of the trial was offered or
    /// given up. Returns when that was: the last slots fall due at the end, so a little after it.
    fn offer(
        &mut self,
        course: &Course,
        (start, prober): (Ticks, &mut Option<Prober>),
        gaps: &mut Gaps,
        waits: &mut Waits,
        collector: &mut Collector,
    ) -> Ticks {
        let end = Ticks(start.0 + course.grid.length);
        let last = Ticks(end.0.saturating_sub(1));
        let sends = !self.senders.is_empty();
        let mut nap = Nap::of(course.probing.as_ref().map(|(probing, _)| &**probing));
        let mut handled = 0;
        loop {
            let now = Ticks::now();
            gaps.pass(now, handled);
            waits.pass(now);
            let mut due = 0;
            for one in &mut self.senders {
                due += one.sender.offer(now.min(last));
            }
            if let Some(prober) = prober
                && let Some(one) = self.senders.get_mut(prober.place())
            {
                prober.probe(now, &mut one.sender);
            }
            let over = if sends {
                now >= end && (due == 0 || now.since(end) > course.catch_up)
                    || self.senders.iter().all(|one| one.sender.has_ended())
            } else {
                course.meeting.sending.load(Ordering::Relaxed) == 0
            };
            if over || course.stop.load(Ordering::Relaxed) {
                return now;
            }
            let came = collector.collect(&mut self.receivers, gaps.paused());
            handled = due + came;
            nap.after_pass(came, || self.senders.iter().map(|one| one.sender.offered()).sum());
        }
    }

    /// Collects until everything came, or what did not has had its time.
    fn drain(&mut self, course: &Course, gaps: &mut Gaps, collector: &mut Collector) {
        let ticks = |time| course.tsc.ticks(time);
        let Drain { quiet, patience, limit } = course.drain;
        let start = Ticks::now();
        let (meeting, mut flushed, mut told) = (&course.meeting, start, 0);
        let longest = collector.trackers.iter().map(|(_, tracker)| tracker.longest()).max().unwrap_or(0);
        meeting.longest.fetch_max(longest, Ordering::Relaxed);
        meeting.came.fetch_max(start.0, Ordering::Relaxed);
        let (mut came, mut lease) = (0, course.lease.as_ref());
        while !course.stop.load(Ordering::Relaxed) {
            let now = Ticks::now();
            gaps.pass(now, came);
            if let Some(over) = lease.take_if(|lease| lease.is_over(now)) {
                over.leave();
            }
            came = collector.collect(&mut self.receivers, gaps.paused());
            if came > 0 {
                meeting.came.fetch_max(now.0, Ordering::Relaxed);
            } else if now.since(flushed) > ticks(FLUSH_EVERY) {
                self.senders.iter_mut().for_each(|one| one.sender.flush());
                flushed = now;
            }
            let received = collector.received();
            let all = meeting.received.fetch_add(received - told, Ordering::AcqRel) + (received - told);
            told = received;
            let sending = meeting.sending.load(Ordering::Acquire) > 0;
            let everything = !sending && all >= meeting.sent.load(Ordering::Acquire);
            let last = Ticks(meeting.came.load(Ordering::Relaxed));
            // What comes by another thread's queues may come by this one's, as late.
            let longest = meeting.longest.load(Ordering::Relaxed);
            let quiet = ticks(quiet).max(4 * longest).min(ticks(patience).max(ticks(quiet)));
            if everything || !sending && (now.since(last) > quiet || now.since(start) > ticks(limit)) {
                return;
            }
        }
    }
}

/// The receiving half of a thread: trackers, and which of them each receiver has.
struct Collector {
    trackers: Vec<(usize, Tracker)>,
    places: Vec<usize>,
    burst: Burst,
}

impl Collector {
    /// Receives one burst from each queue and judges it. Returns how many packets came.
    #[inline]
    fn collect(&mut self, receivers: &mut [LaneReceiver], paused: Ticks) -> usize {
        let mut came = 0;
        for (receiver, place) in receivers.iter_mut().zip(&self.places) {
            for queue in &mut receiver.queues {
                if queue.receive(&mut self.burst) == 0 {
                    continue;
                }
                let now = Ticks::now();
                let (tracker, port) = (&mut self.trackers[*place].1, receiver.side);
                match &mut receiver.sampler {
                    None => self.burst.iter().for_each(|packet| {
                        tracker.judge(packet.data(), port, now, paused);
                    }),
                    Some(sampler) => self.burst.iter().for_each(|packet| {
                        let known = tracker.judge(packet.data(), port, now, paused);
                        sampler.see(packet.data(), now, known);
                    }),
                }
                came += self.burst.len();
                self.burst.clear();
            }
        }
        came
    }

    fn received(&self) -> u64 {
        self.trackers.iter().map(|(_, tracker)| tracker.received() + tracker.probes().count()).sum()
    }
}

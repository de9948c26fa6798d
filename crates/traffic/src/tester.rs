//! The tester: one pinned thread that sends and receives, so that both see one clock.
//!
//! A trial's life here: `begin → offer and collect until the time is up → drain → count`. Nothing in
//! the loop allocates, locks, logs or calls the system.
//!
//! A tester that cannot keep up sends less, and the missing packets are counted as unsent. A tester
//! whose core is taken away (another process, the hypervisor) is something else: it does nothing for
//! some milliseconds, neither sending nor receiving. Such a pause is cut out: the schedule and the
//! end move by its length, so that the intended load is offered for the intended time, and
//! `elapsed` exceeds the duration by what was cut out. Pauses of more than [`MOST_PAUSED`] of a trial
//! are not cut out any more: what is missed then is unsent.

use crate::check::PassFrames;
use crate::intact::{Integrity, Link};
use crate::pacer::CATCH_UP;
use crate::sample::{SampleJudge, Sampler};
use crate::sender::Sender;
use crate::sink::Tracker;
use crate::stamp::Reading;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_dpdk::{Burst, Eal, Port, RxQueue, Ticks, Tsc, Worker, WorkerError};
use weir_trial::health::{Clocks, CoreHealth, Health, Pauses, ThreadReading, stolen};
use weir_trial::{DirectionCounts, Latency, NfKind, Oracle, PacketCheck, TrialResult, TrialSpec};
use weir_units::{LatencyHistogram, Nanos, Pps};
use weir_wire::EtherType;
use weir_wire::table::{next_hop_mac, port_mac};

/// One direction: who sends, and at which of the tester's ports the packets come back. Direction `i`
/// enters the device by its port `i`.
#[derive(Debug)]
pub struct DirectionSetup {
    /// The sending half.
    pub sender: Sender,
    /// Place of the receiving port in the tester's list.
    pub to: usize,
}

/// How often a drain that sees nothing come has the ports send what they may have kept.
const FLUSH_EVERY: Nanos = Nanos(50_000);

/// Share of a trial's duration that pauses of the tester may be cut out of.
pub const MOST_PAUSED: f64 = 0.25;

/// When a trial's stragglers have had their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Ends when no packet came for this long.
    pub quiet: Nanos,
    /// Ends at the latest after this (RFC 2544, section 23, waits two seconds).
    pub limit: Nanos,
}

impl Default for Drain {
    fn default() -> Self {
        Self { quiet: Nanos(20_000_000), limit: Nanos(2 * Nanos::PER_SECOND) }
    }
}

/// A trial that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum TesterError {
    /// Somebody raised the stop flag: Ctrl-C, or the DUT died.
    #[error("the trial was stopped before its end")]
    Stopped,
    /// The tester's thread failed.
    #[error("the tester's thread failed: {0}")]
    Worker(#[from] WorkerError),
}

/// Generator and sink over the tester's ports.
#[derive(Debug)]
pub struct Tester {
    eal: &'static Eal,
    core: usize,
    drain: Drain,
    /// `None` only while a trial runs on the worker.
    engine: Option<Engine>,
}

#[derive(Debug)]
pub(crate) struct Engine {
    /// Kept so that the ports stay open; the queues below do the work.
    _ports: Vec<Port>,
    pub(crate) receivers: Vec<RxQueue>,
    pub(crate) directions: Vec<DirectionSetup>,
    pub(crate) tsc: Tsc,
    pub(crate) trial: u16,
    /// What every packet of a direction is held to; nothing where it cannot be known.
    integrities: Vec<Option<Integrity>>,
    /// What samples are compared with; without it none are taken.
    oracle: Option<Arc<Oracle>>,
    /// One a receiver where there is an oracle, else none.
    samplers: Vec<Sampler>,
}

impl Tester {
    /// Time between asking for a trial and its first packet: lets the thread start.
    const LEAD: Nanos = Nanos(500_000);

    /// A tester on one core. `receivers[i]` belongs to `ports[i]`.
    pub fn new(
        eal: &'static Eal,
        core: usize,
        ports: Vec<Port>,
        receivers: Vec<RxQueue>,
        directions: Vec<DirectionSetup>,
    ) -> Self {
        let engine = Engine {
            _ports: ports,
            receivers,
            directions,
            tsc: Tsc::get(eal),
            trial: 0,
            integrities: Vec::new(),
            oracle: None,
            samplers: Vec::new(),
        };
        Self { eal, core, drain: Drain::default(), engine: Some(engine) }
    }

    /// From now on compares a sample of every trial's packets with what this function must make of
    /// them ([`TrialResult::packets`]). Sound where each direction enters the device by the port of
    /// the direction's number, and leaves it by the port whose receiver has the same place.
    pub fn compare_with(&mut self, oracle: Arc<Oracle>) {
        if let Some(engine) = &mut self.engine {
            let reading = Reading::behind(oracle.nf());
            engine.samplers = engine.receivers.iter().map(|_| Sampler::new(reading)).collect();
            engine.integrities = engine.directions.iter().map(|one| integrity(one, &oracle)).collect();
            engine.oracle = Some(oracle);
        }
    }

    /// Runs one trial. Raising `stop` ends it early, with an error.
    pub fn run(&mut self, spec: TrialSpec, stop: &Arc<AtomicBool>) -> Result<TrialResult, TesterError> {
        let (stop, core, drain) = (Arc::clone(stop), self.core, self.drain);
        self.work(move |engine| engine.run(spec, (core, drain), &stop))?.ok_or(TesterError::Stopped)
    }

    /// The untimed pass: sends these frames, a list a direction, few at a time, and compares all that
    /// comes out with what the function must make of it. What does not come is sent again before it
    /// is called missing. Raising `stop` ends it early, with an error.
    pub fn verify(
        &mut self,
        oracle: Arc<Oracle>,
        frames: Vec<PassFrames>,
        stop: &Arc<AtomicBool>,
    ) -> Result<PacketCheck, TesterError> {
        let stop = Arc::clone(stop);
        self.work(move |engine| engine.verify(oracle, frames, &stop))?.ok_or(TesterError::Stopped)
    }

    /// Lets the tester's thread do something with the engine.
    fn work<T: Send + 'static>(
        &mut self,
        task: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, TesterError> {
        let Some(mut engine) = self.engine.take() else {
            return Err(TesterError::Worker(WorkerError::Panicked("in an earlier trial".to_owned())));
        };
        let worker = Worker::spawn(self.eal, "weir-tester", self.core, move || {
            let result = task(&mut engine);
            (engine, result)
        })?;
        let (engine, result) = worker.join()?;
        self.engine = Some(engine);
        Ok(result)
    }
}

impl Engine {
    fn run(
        &mut self,
        spec: TrialSpec,
        (core, drain): (usize, Drain),
        stop: &AtomicBool,
    ) -> Option<TrialResult> {
        self.trial = self.trial.wrapping_add(1);
        let watch = Watch::start(core);
        let called = Ticks::now();
        let start = Ticks(called.0 + self.tsc.ticks(Tester::LEAD));
        let end = Ticks(start.0 + self.tsc.ticks(spec.duration));
        let samplers = std::mem::take(&mut self.samplers);
        let reading = self.oracle.as_deref().map_or(Reading::Plain, |oracle| Reading::behind(oracle.nf()));
        let known = (self.integrities.as_slice(), reading);
        let mut sink = Sink::new(&self.directions, known, self.receivers.len(), self.trial, samplers);
        sink.sample(self.trial, spec);
        let share = Pps(spec.load.0 / self.directions.len() as f64);
        for (index, direction) in self.directions.iter_mut().enumerate() {
            direction.sender.begin(stamp_of(self.trial, index), share, start, self.tsc);
        }
        let most_paused = (self.tsc.ticks(spec.duration) as f64 * MOST_PAUSED) as u64;
        let mut pauses = Pauses::default();
        let (ended, end) = self.offer_until(end, (most_paused, &mut pauses), &mut sink, stop);
        let counts: Vec<DirectionCounts> =
            self.directions.iter_mut().map(|direction| direction.sender.finish(end)).collect();
        self.drain(drain, &mut sink, counts.iter().map(|count| count.sent).sum(), stop);
        self.samplers = std::mem::take(&mut sink.samplers);
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let health = watch.end(self.tsc, pauses);
        let packets = self.compare_sample(called);
        let elapsed = self.tsc.nanos(ended.since(start));
        let overhead = self.tsc.nanos(Ticks::now().since(called)).0.saturating_sub(elapsed.0);
        Some(TrialResult {
            health,
            packets,
            ..sink.result(spec, counts, self.tsc, (elapsed, Nanos(overhead)))
        })
    }

    /// What the trial's sample came to; nothing where none was taken.
    fn compare_sample(&self, start: Ticks) -> Option<PacketCheck> {
        let oracle = self.oracle.as_deref()?;
        let recalls = self.directions.iter().map(|direction| direction.sender.recall()).collect();
        Some(SampleJudge { oracle, recalls, trial: self.trial, start }.judge(&self.samplers))
    }

    /// Offers the load and collects what comes back, until every slot of the trial was offered or
    /// given up. Returns when that was (the last slots fall due at the end, so a little after it) and
    /// the end of the schedule, moved by the pauses that were cut out.
    fn offer_until(
        &mut self,
        end: Ticks,
        (most_paused, pauses): (u64, &mut Pauses),
        sink: &mut Sink,
        stop: &AtomicBool,
    ) -> (Ticks, Ticks) {
        let longest = self.tsc.ticks(CATCH_UP);
        let (mut end, mut last, mut may_pause) = (end, Ticks::now(), most_paused);
        loop {
            let now = Ticks::now();
            let pause = now.since(last);
            if pause > longest {
                let lasted = self.tsc.nanos(pause);
                pauses.count += 1;
                pauses.total.0 += lasted.0;
                pauses.longest = pauses.longest.max(lasted);
            }
            if pause > longest && pause <= may_pause {
                may_pause -= pause;
                end.0 += pause;
                self.directions.iter_mut().for_each(|direction| direction.sender.pause(pause));
            }
            last = now;
            let mut due = false;
            for direction in &mut self.directions {
                due |= direction.sender.offer(now.min(Ticks(end.0.saturating_sub(1))));
            }
            let over = now >= end && (!due || now.since(end) > longest)
                || self.directions.iter().all(|direction| direction.sender.has_ended());
            if over || stop.load(Ordering::Relaxed) {
                return (now, end);
            }
            sink.collect(&mut self.receivers);
        }
    }

    fn drain(&mut self, drain: Drain, sink: &mut Sink, sent: u64, stop: &AtomicBool) {
        let start = Ticks::now();
        let (quiet, limit) = (self.tsc.ticks(drain.quiet), self.tsc.ticks(drain.limit));
        let (mut last, mut flushed) = (start, start);
        while sink.received() < sent && !stop.load(Ordering::Relaxed) {
            let now = Ticks::now();
            if sink.collect(&mut self.receivers) > 0 {
                last = now;
            } else if now.since(flushed) > self.tsc.ticks(FLUSH_EVERY) {
                self.directions.iter_mut().for_each(|direction| direction.sender.flush());
                flushed = now;
            }
            if now.since(last) > quiet || now.since(start) > limit {
                return;
            }
        }
    }
}

/// What every packet of a direction must hold to when it comes back.
fn integrity(direction: &DirectionSetup, oracle: &Oracle) -> Option<Integrity> {
    let table = direction.sender.table().filter(|table| table.is_generated())?;
    let sent = table.uniform_link();
    let link = match oracle.nf().kind() {
        // A router writes its own addresses, whatever came.
        NfKind::L3Fwd => sent.filter(is_ipv4).map(|link| {
            let port = direction.to as u8;
            let mut routed = link;
            routed[..6].copy_from_slice(&next_hop_mac(port));
            routed[6..12].copy_from_slice(&port_mac(port));
            routed
        }),
        NfKind::L2Fwd
        | NfKind::Firewall
        | NfKind::Exposed
        | NfKind::L2
        | NfKind::PipelineA
        | NfKind::PipelineB
        | NfKind::PipelineD => sent,
        // The balancer writes the address of a backend.
        NfKind::PipelineC => None,
    };
    Some(Integrity { link })
}

fn is_ipv4(link: &Link) -> bool {
    link[12..] == EtherType::IPV4.0.to_be_bytes()
}

/// Reads the tester's own thread, core and clocks before and after a trial, on its thread.
struct Watch {
    core: u32,
    thread: Option<ThreadReading>,
    stolen: Option<Nanos>,
    at: (Ticks, Instant),
}

impl Watch {
    fn start(core: usize) -> Self {
        let core = core as u32;
        let (thread, stolen) = (ThreadReading::of_self(), stolen(core));
        Self { core, thread, stolen, at: Ticks::with_clock() }
    }

    fn end(self, tsc: Tsc, pauses: Pauses) -> Health {
        let (begin, end) = (self.at, Ticks::with_clock());
        let tsc = tsc.nanos(end.0.since(begin.0));
        let clocks = Clocks { tsc, monotonic: end.1.duration_since(begin.1).into() };
        let threads = self.thread.zip(ThreadReading::of_self());
        let now = stolen(self.core);
        let tester = threads.map(|threads| CoreHealth::between(self.core, threads, (self.stolen, now)));
        Health { tester, pauses, clocks: Some(clocks), ..Health::default() }
    }
}

/// The number in a direction's stamps: trial and, in the lowest bit, direction.
fn stamp_of(trial: u16, direction: usize) -> u16 {
    trial << 1 | (direction as u16 & 1)
}

/// The receiving half: one tracker a direction, and which direction ends at which port.
struct Sink {
    trackers: Vec<Tracker>,
    by_port: Vec<usize>,
    burst: Burst,
    /// One a port, or none at all.
    samplers: Vec<Sampler>,
}

impl Sink {
    fn new(
        directions: &[DirectionSetup],
        (integrities, reading): (&[Option<Integrity>], Reading),
        ports: usize,
        trial: u16,
        samplers: Vec<Sampler>,
    ) -> Self {
        let trackers = directions.iter().enumerate();
        let trackers = trackers
            .map(|(index, one)| {
                let integrity = integrities.get(index).copied().flatten();
                Tracker::new(stamp_of(trial, index), one.sender.stamps_all(), integrity, reading)
            })
            .collect();
        // A port where no direction ends is watched by direction 0, to which its packets are foreign.
        let ends_at = |port| directions.iter().position(|direction| direction.to == port).unwrap_or(0);
        Self { trackers, by_port: (0..ports).map(ends_at).collect(), burst: Burst::new(), samplers }
    }

    /// Makes the samplers ready for a trial.
    fn sample(&mut self, trial: u16, spec: TrialSpec) {
        let packets = spec.load.0 * spec.duration.seconds() / self.trackers.len().max(1) as f64;
        self.samplers.iter_mut().for_each(|sampler| sampler.begin(trial, packets));
    }

    /// Receives one burst from each port and judges it. Returns how many packets came.
    #[inline]
    fn collect(&mut self, receivers: &mut [RxQueue]) -> usize {
        let mut came = 0;
        for (port, receiver) in receivers.iter_mut().enumerate() {
            if receiver.receive(&mut self.burst) == 0 {
                continue;
            }
            let now = Ticks::now();
            let tracker = &mut self.trackers[self.by_port[port]];
            match self.samplers.get_mut(port) {
                None => self.burst.iter().for_each(|packet| {
                    tracker.judge(packet.data(), now);
                }),
                Some(sampler) => self.burst.iter().for_each(|packet| {
                    let known = tracker.judge(packet.data(), now);
                    sampler.see(packet.data(), now, known);
                }),
            }
            came += self.burst.len();
            self.burst.clear();
        }
        came
    }

    fn received(&self) -> u64 {
        self.trackers.iter().map(Tracker::received).sum()
    }

    fn result(
        &self,
        spec: TrialSpec,
        mut directions: Vec<DirectionCounts>,
        tsc: Tsc,
        (elapsed, overhead): (Nanos, Nanos),
    ) -> TrialResult {
        let mut histogram = LatencyHistogram::default();
        for (tracker, counts) in self.trackers.iter().zip(&mut directions) {
            tracker.complete(counts);
            tracker.pour(tsc, &mut histogram);
        }
        TrialResult {
            elapsed,
            overhead,
            directions,
            latency: Latency::of(&histogram),
            ..TrialResult::new(spec)
        }
    }
}

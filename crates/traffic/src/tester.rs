//! The tester: pinned threads that send and receive, so that both see one clock.
//!
//! A trial's life: `Tester::run` starts a thread a core ([`crate::lane`]), waits for all of them, and makes
//! one result of what they have to tell. One core does everything; of several some send and some receive
//! ([`crate::layout`]).
//!
//! A tester that cannot keep up sends less, and the missing packets are counted as unsent. A tester
//! whose core is taken away (another process, the hypervisor) is something else: it does nothing for
//! some time, neither sending nor receiving. Such a pause moves nothing: the schedule goes on, what fell due
//! meanwhile is unsent beyond a bound, and the windows of the pause are left out of what counts
//! ([`weir_trial::windows`]). All rates are over the schedule's own time.

use crate::check::PassFrames;
use crate::connections::Script;
use crate::each;
use crate::histogram::TickHistogram;
use crate::intact::{Integrity, Link};
use crate::lane::{Course, Drain, Lane, LaneReceiver, LaneReport, LaneSender, Meeting};
use crate::layout::{Layout, watcher};
use crate::numbers::{Marks, window_of};
use crate::pacer::{Schedule, Shape};
use crate::probing::{self, Probing};
use crate::sample::{SampleJudge, Sampler};
use crate::sender::Sender;
use crate::sink::TrackerSetup;
use crate::stamp::{Numbering, Reading};
use crate::waits::Waits;
use crate::watch::PassLimit;
use crate::windows::Grid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_cpu::{Lease, Ticks, Tsc};
use weir_dpdk::{Eal, Port, RxQueue, Worker, WorkerError};
use weir_trial::changes::Probe;
use weir_trial::expected::PAIR;
use weir_trial::health::{CoreHealth, Health, Pauses};
use weir_trial::verdict::limits;
use weir_trial::windows::{Window, WindowLog, warm_up};
use weir_trial::{
    ConnectionSpec, DirectionCounts, Nf, NfKind, Oracle, PacketCheck, Planned, TesterAccount, TrialResult,
    TrialSpec,
};
use weir_units::{Nanos, Pps};
use weir_wire::EtherType;
use weir_wire::table::{next_hop_mac, port_mac};

/// One direction: its senders, by which of the tester's ports its packets leave, and by which they come back. These ports
/// have the places of the device's; they stand in pairs, and a direction goes from one of a pair to the other.
#[derive(Debug)]
pub struct DirectionSetup {
    /// The sending half: [`Layout::streams`] of them, each with its share of the trace.
    pub senders: Vec<Sender>,
    /// Place of the sending port in the tester's list.
    pub from: usize,
    /// Place of the receiving port in the tester's list.
    pub to: usize,
}

/// Packets of a direction that are sent late after a gap: a quarter of the ring of 1,024 descriptors that
/// the DUT's ports have, so that the tester's own backlog does not become the DUT's full ring.
const CATCH_UP: u64 = 256;
/// No packet is sent later than this, however low the load, where every packet is stamped and a gap can be
/// told from the rest of the trial.
const LATEST: Nanos = Nanos(500_000);
/// And where it cannot.
const LATEST_UNSTAMPED: Nanos = Nanos(1_000_000);
/// A pass of the tester's loop that finds nothing takes no longer than this by itself, for each pair of its ports.
const EMPTY_PASS: Nanos = Nanos(5_000);
/// And so much longer for each packet that it handles, on a core some four times as slow as today's, beside what it
/// copies, at [`COPIES`] bytes a nanosecond. A longer pass is time in which it did not run; a tester that is slow, in
/// shorter ones, is at its limit, which counts.
const PACKET: f64 = 250.0;
/// No less is a pause: what the smallest ring takes.
const PAUSE: Nanos = Nanos(10_000);
/// Bytes that a core copies in a nanosecond, at least.
const COPIES: f64 = 4.0;
/// Descriptors of a ring between the tester and a device.
const RING: f64 = 1024.0;
/// Time left out on both sides of an absence: a ring of packets at the trial's load, within these bounds.
const MARGIN: (Nanos, Nanos) = (Nanos(200_000), Nanos(2_000_000));

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
    drain: Drain,
    /// The DUT's forwarding threads, by process and thread.
    watched: Vec<(u32, u32)>,
    /// The priority of the next trial.
    lease: Option<Arc<Lease>>,
    /// What they waited for their cores in the last trial, where they were watched.
    waited: Option<Nanos>,
    /// What is sent beside the schedule of trials, and the number of the next one.
    probing: Option<Arc<Probing>>,
    next_probe: u64,
    /// What came of those of the last trial.
    probed: Vec<Probe>,
    /// Number of the next connection.
    next_connection: u64,
    /// `None` only while a trial runs on the workers.
    engine: Option<Engine>,
}

#[derive(Debug)]
pub(crate) struct Engine {
    /// Kept so that the ports stay open; the queues of the lanes do the work.
    ports: Vec<Port>,
    pub(crate) lanes: Vec<Lane>,
    /// Where each direction begins.
    begins: Vec<usize>,
    /// Where each direction ends.
    ends: Vec<usize>,
    /// How many threads receive each direction.
    receivers: Vec<usize>,
    pub(crate) tsc: Tsc,
    pub(crate) trial: u16,
    /// What every packet of a direction is held to; nothing where it cannot be known.
    integrities: Vec<Option<Integrity>>,
    /// What samples are compared with; without it none are taken.
    oracle: Option<Arc<Oracle>>,
}

impl Tester {
    /// A tester whose threads are laid out so. `receivers[i]` are the queues of `ports[i]`, and each
    /// direction has as many senders as the layout has streams.
    pub fn new(
        eal: &'static Eal,
        layout: &Layout,
        ports: Vec<Port>,
        receivers: Vec<Vec<RxQueue>>,
        directions: Vec<DirectionSetup>,
    ) -> Self {
        let (begins, ends): (Vec<usize>, Vec<usize>) =
            directions.iter().map(|direction| (direction.from, direction.to)).unzip();
        let mut receivers: Vec<Vec<Option<RxQueue>>> =
            receivers.into_iter().map(|queues| queues.into_iter().map(Some).collect()).collect();
        let mut senders: Vec<Vec<Option<Sender>>> =
            directions.into_iter().map(|one| one.senders.into_iter().map(Some).collect()).collect();
        let packets: Vec<Vec<f64>> = senders
            .iter()
            .map(|streams| streams.iter().map(|one| one.as_ref().map_or(0.0, Sender::packets)).collect())
            .collect();
        let lanes = layout.lanes.iter().map(|plan| {
            let of_plan = plan.sends.iter().filter_map(|(direction, stream)| {
                let sender = senders.get_mut(*direction)?.get_mut(*stream)?.take()?;
                let share = packets[*direction][*stream] / packets[*direction].iter().sum::<f64>();
                Some(LaneSender { direction: *direction, stream: *stream, share, sender })
            });
            let mut of_ports: Vec<LaneReceiver> = Vec::new();
            for (port, number) in &plan.receives {
                let queue = receivers.get_mut(*port).and_then(|queues| queues.get_mut(*number)?.take());
                match of_ports.iter_mut().find(|one| one.port == *port) {
                    Some(one) => one.queues.extend(queue),
                    None => of_ports.push(LaneReceiver {
                        port: *port,
                        side: side(*port),
                        direction: watcher(&ends, *port),
                        queues: queue.into_iter().collect(),
                        sampler: None,
                    }),
                }
            }
            Lane { core: plan.core, senders: of_plan.collect(), receivers: of_ports }
        });
        let (lanes, tsc) = (lanes.collect(), Tsc::get());
        let receivers = layout.receivers(&ends);
        let (integrities, oracle) = (Vec::new(), None);
        let engine = Engine { ports, lanes, begins, ends, receivers, tsc, trial: 0, integrities, oracle };
        Self {
            eal,
            drain: Drain::default(),
            watched: Vec::new(),
            lease: None,
            waited: None,
            probing: None,
            next_probe: 0,
            probed: Vec::new(),
            next_connection: 0,
            engine: Some(engine),
        }
    }

    /// From now on compares each packet of every trial, and a sample of them byte by byte of all that can be
    /// known, with what this function must make of them ([`TrialResult::packets`]). Sound where each port of the device has the
    /// place of the tester's that it is joined to.
    pub fn compare_with(&mut self, oracle: Arc<Oracle>) {
        if let Some(engine) = &mut self.engine {
            let reading = Reading::behind(oracle.nf());
            for receiver in engine.lanes.iter_mut().flat_map(|lane| &mut lane.receivers) {
                receiver.sampler = Some(Sampler::new(reading));
            }
            let ends = engine.ends.iter().copied().enumerate();
            for one in engine.lanes.iter_mut().flat_map(|lane| &mut lane.senders) {
                one.sender.compare_with(&oracle, side(engine.begins[one.direction]));
            }
            engine.integrities = ends.map(|end| integrity(&engine.lanes, end, &oracle)).collect();
            engine.oracle = Some(oracle);
        }
    }

    /// Has the next trial look at these threads of the DUT, by process and thread: the windows in which one
    /// of them waited for its core are left out, as those are in which the tester did.
    pub fn watch(&mut self, threads: Vec<(u32, u32)>) {
        self.watched = threads;
    }

    /// Has the next trial give back this priority, which the caller has and its threads will have from it, when its time is up:
    /// a drain takes as long as the DUT makes it.
    pub fn lease(&mut self, lease: Option<Arc<Lease>>) {
        self.lease = lease;
    }

    /// Has the trials to come send packets beside their schedule, or none.
    pub fn probe(&mut self, probing: Option<Probing>) {
        self.probing = probing.map(Arc::new);
    }

    /// The packets beside the schedule of the last trial, in the order sent, and by which of the tester's ports each
    /// came back.
    pub fn probed(&self) -> &[Probe] {
        &self.probed
    }

    /// Whether one of its threads has this core.
    pub fn is_on(&self, core: usize) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.lanes.iter().any(|lane| lane.core == core))
    }

    /// What those threads together waited for their cores in the last trial, from its first packet to the end
    /// of its drain; nothing where none was watched.
    pub fn waited(&self) -> Option<Nanos> {
        self.waited
    }

    /// Runs one trial. Raising `stop` ends it early, with an error.
    pub fn run(&mut self, spec: TrialSpec, stop: &Arc<AtomicBool>) -> Result<TrialResult, TesterError> {
        self.run_beside(spec, stop, || {})
    }

    /// The same, and calls `begins` just before the first packet falls due, on a thread of the tester: how long it takes
    /// to make ready depends on the machine.
    pub fn run_beside(
        &mut self,
        spec: TrialSpec,
        stop: &Arc<AtomicBool>,
        begins: impl FnOnce() + Send + 'static,
    ) -> Result<TrialResult, TesterError> {
        let mut engine = self.engine()?;
        let called = Ticks::now();
        let probing = self.probing.clone().map(|probing| (probing, self.next_probe));
        let mut course = engine.course(spec, probing, self.drain, stop);
        course.meeting.call_at_start(begins);
        course.lease = self.lease.take();
        let course = Arc::new(course);
        // One thread looks at the DUT's for all.
        let mut watched = std::mem::take(&mut self.watched);
        let work = std::mem::take(&mut engine.lanes).into_iter().map(|mut lane| {
            let course = Arc::clone(&course);
            let waits = Waits::of(&std::mem::take(&mut watched), course.tsc);
            Worker::spawn(self.eal, "weir-tester", lane.core, move || {
                let report = lane.run(&course, waits);
                (lane, report)
            })
        });
        let workers: Vec<_> = work.collect();
        // All of them, before one that failed is told: the others wait for it in vain, and end.
        let done: Vec<_> = workers.into_iter().map(|worker| worker.and_then(Worker::join)).collect();
        let mut reports = Vec::new();
        for one in done {
            let (lane, report) = one?;
            engine.lanes.push(lane);
            reports.extend(report);
        }
        let complete = reports.len() == engine.lanes.len() && !stop.load(Ordering::Relaxed);
        let result = complete.then(|| engine.result(&course, &reports, called));
        self.engine = Some(engine);
        self.probed = reports
            .iter()
            .find(|report| !report.probes.is_empty())
            .map(|report| {
                let trackers = reports.iter().flat_map(|report| &report.trackers);
                let seen = trackers.map(|(_, tracker)| tracker.probes());
                probing::together(self.next_probe, &report.probes, seen)
            })
            .unwrap_or_default();
        self.next_probe += self.probed.len() as u64;
        let Some((mut result, log)) = result else { return Err(TesterError::Stopped) };
        self.waited = reports.iter().find_map(|report| report.waits.waited());
        // A trial whose packets do not all carry a stamp has no windows, and stays as it is.
        if !log.directions.is_empty() {
            let both = |report: &LaneReport| [report.gaps.absences(), report.waits.absences()].concat();
            result.windows = Some(log.leave_out(&reports.iter().flat_map(both).collect::<Vec<_>>()));
        }
        // A device that held packets for longer than it was waited for will do so again.
        if result.total().late > 0 {
            self.drain.quiet = self.drain.patience;
        }
        Ok(result)
    }

    /// Runs one trial of connections, with both ends on the tester's first thread. Raising `stop` ends it early, with an
    /// error. Their numbers go on from trial to trial, so that none has a five-tuple that a device knows already.
    pub fn connect(
        &mut self,
        script: &Arc<Script>,
        asked: ConnectionSpec,
        stop: &Arc<AtomicBool>,
    ) -> Result<TrialResult, TesterError> {
        let (stop, script, mut engine) = (Arc::clone(stop), Arc::clone(script), self.engine()?);
        let core = engine.lanes.first().map_or(0, |lane| lane.core);
        let (first, lease) = (self.next_connection, self.lease.take());
        self.next_connection += asked.count;
        let worker = Worker::spawn(self.eal, "weir-tester", core, move || {
            let result = engine.connect((&script, first), asked, (lease, &stop));
            (engine, result)
        })?;
        let (engine, result) = worker.join()?;
        self.engine = Some(engine);
        result.ok_or(TesterError::Stopped)
    }

    /// The untimed pass: sends these frames, a list a direction, few at a time, and compares all that
    /// comes out with what the function must make of it. What does not come is sent again before it
    /// is called missing. After `longest` what was not sent yet is left out, and the check's remark says how
    /// many that were; an untimed pass of a point has [`crate::LONGEST_PASS`]. Raising `stop` ends it early, with an
    /// error.
    pub fn verify(
        &mut self,
        oracle: Arc<Oracle>,
        frames: Vec<PassFrames>,
        longest: Nanos,
        stop: &Arc<AtomicBool>,
    ) -> Result<PacketCheck, TesterError> {
        let (stop, mut engine) = (Arc::clone(stop), self.engine()?);
        let core = engine.lanes.first().map_or(0, |lane| lane.core);
        let worker = Worker::spawn(self.eal, "weir-tester", core, move || {
            let result = engine.verify(oracle, frames, longest, &stop);
            (engine, result)
        })?;
        let (engine, result) = worker.join()?;
        self.engine = Some(engine);
        result.ok_or(TesterError::Stopped)
    }

    fn engine(&mut self) -> Result<Engine, TesterError> {
        let lost = || TesterError::Worker(WorkerError::Panicked("in an earlier trial".to_owned()));
        self.engine.take().ok_or_else(lost)
    }
}

impl Engine {
    /// A sender of a direction, whose turn it is.
    pub(crate) fn sender_of(&mut self, direction: usize, turn: usize) -> Option<&mut Sender> {
        let stream = turn % self.senders_of(direction).count().max(1);
        let mut senders = self.lanes.iter_mut().flat_map(|lane| &mut lane.senders);
        senders.find(|one| (one.direction, one.stream) == (direction, stream)).map(|one| &mut one.sender)
    }

    fn senders_of(&self, direction: usize) -> impl Iterator<Item = &Sender> {
        let mut senders: Vec<&LaneSender> = self.lanes.iter().flat_map(|lane| &lane.senders).collect();
        senders.retain(|one| one.direction == direction);
        senders.sort_by_key(|one| one.stream);
        senders.into_iter().map(|one| &one.sender)
    }

    fn course(
        &mut self,
        spec: TrialSpec,
        probing: Option<(Arc<Probing>, u64)>,
        drain: Drain,
        stop: &Arc<AtomicBool>,
    ) -> Course {
        self.trial = self.trial.wrapping_add(1);
        let (tsc, numbering) = (self.tsc, Numbering::of(self.ends.len()));
        let load = Pps(spec.load.0 / self.ends.len().max(1) as f64);
        let grid = Grid::new(Ticks(0), tsc.ticks(spec.duration), tsc);
        let reading = self.oracle.as_deref().map_or(Reading::Plain, |oracle| Reading::behind(oracle.nf()));
        let recorded = self.senders_of(0).any(|sender| sender.shape() == Shape::Recorded);
        let probes = probing.as_ref().map_or(0, |(probing, _)| probing.most(spec.duration));
        // Chance may make it some more.
        let most = (load.0 * spec.duration.seconds() * 1.1) as u64;
        let window = window_of(if recorded { u64::MAX } else { most });
        let shared = |direction: usize| {
            let senders = if self.receivers[direction] > 1 { self.senders_of(direction).count() } else { 0 };
            (0..senders).map(|_| Arc::new(Marks::new(window))).collect()
        };
        let setups: Vec<TrackerSetup> = (0..self.ends.len())
            .map(|direction| TrackerSetup {
                trial: numbering.number(self.trial, direction),
                numbering,
                streams: self.senders_of(direction).map(Sender::each).collect(),
                window,
                shared: shared(direction),
                all_stamped: self.senders_of(direction).all(Sender::stamps_all),
                integrity: self.integrities.get(direction).copied().flatten(),
                reading,
                grid,
                probes,
            })
            .collect();
        let all_stamped = setups.iter().all(|setup| setup.all_stamped);
        let latest = tsc.ticks(if all_stamped { LATEST } else { LATEST_UNSTAMPED });
        let catch_up = ((CATCH_UP as f64 / load.0.max(1.0) * tsc.hz()) as u64).min(latest);
        let bytes = self.senders_of(0).next().map_or(0.0, Sender::mean_frame_bytes);
        // It polls each queue of each pair of ports, and wakes up some time after a sleep is over.
        let receivers = self.lanes.iter().flat_map(|lane| &lane.receivers);
        let polls: usize = receivers.map(|receiver| receiver.queues.len()).sum();
        let pairs = polls.max(self.ports.len()).div_ceil(2).max(1) as u64;
        let nap = probing.as_ref().and_then(|(probing, _)| probing.nap).map_or(0, |nap| 2 * nap.0);
        let pass = PassLimit {
            empty: tsc.ticks(Nanos(pairs * EMPTY_PASS.0 + nap)),
            packet: tsc.ticks(Nanos((PACKET + bytes / COPIES) as u64)),
        };
        Course {
            trial: self.trial,
            numbering,
            spec,
            tsc,
            grid,
            schedule: Schedule {
                shape: self.senders_of(0).next().map(Sender::shape).unwrap_or_default(),
                load,
                duration: spec.duration,
                phase: 0.0,
                seed: 0,
            },
            catch_up,
            late_from: tsc.ticks(limits::late_sent(load)),
            pass,
            pause: catch_up.max(tsc.ticks(PAUSE)),
            drain,
            setups,
            receivers: self.receivers.clone(),
            stop: Arc::clone(stop),
            meeting: Meeting::of(&self.lanes),
            probing,
            lease: None,
        }
    }

    /// One result of what all threads have to tell, and the trial's windows where it has them.
    fn result(&self, course: &Course, reports: &[LaneReport], called: Ticks) -> (TrialResult, WindowLog) {
        let tsc = self.tsc;
        let mut directions = vec![DirectionCounts::default(); self.ends.len()];
        for report in reports {
            report.counts.iter().for_each(|(direction, counts)| directions[*direction] += *counts);
            report.trackers.iter().for_each(|(direction, one)| one.complete(&mut directions[*direction]));
        }
        let trackers = || reports.iter().flat_map(|report| &report.trackers);
        let start = reports.iter().map(|report| report.start).max().unwrap_or_default();
        let ended = reports.iter().map(|report| report.ended).max().unwrap_or_default();
        let elapsed = tsc.nanos(ended.since(start));
        let overhead = Nanos(tsc.nanos(Ticks::now().since(called)).0.saturating_sub(elapsed.0));
        let result = TrialResult {
            elapsed,
            overhead,
            latency: TickHistogram::summary(trackers().map(|(_, tracker)| tracker.delays()), tsc),
            directions,
            health: health(reports, tsc),
            packets: self.compare_sample(called, reports),
            account: Some(self.account(course, reports)),
            ..TrialResult::new(course.spec)
        };
        (result, self.log(course, reports, start))
    }

    /// What the tester says of itself.
    fn account(&self, course: &Course, reports: &[LaneReport]) -> TesterAccount {
        let tsc = self.tsc;
        let trackers = || reports.iter().flat_map(|report| &report.trackers);
        let of_direction = |direction: usize| {
            let own = trackers().filter(|(of, _)| *of == direction).map(|(_, tracker)| tracker.delays());
            TickHistogram::summary(own, tsc)
        };
        let senders = || self.lanes.iter().flat_map(|lane| &lane.senders).map(|one| &one.sender);
        let receiving = self.lanes.iter().zip(reports).filter(|(lane, _)| !lane.receivers.is_empty());
        let (negative_delays, wire_chatter) = trackers()
            .map(|(_, tracker)| tracker.oddities())
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (packets, deviation) =
            (course.spec.load.0 * course.spec.duration.seconds(), course.schedule.shape);
        let planned = (!senders().any(Sender::has_ended)).then(|| deviation.apart(packets)).flatten();
        TesterAccount {
            planned: planned.map(|apart| Planned {
                packets: packets.round() as u64,
                // Each sender rounds to whole packets.
                apart: apart + senders().count() as u64,
            }),
            sent_late: TickHistogram::summary(senders().map(Sender::late), tsc),
            poll_gaps: TickHistogram::summary(receiving.map(|(_, report)| report.gaps.histogram()), tsc),
            delays: (0..self.ends.len()).map(of_direction).collect(),
            paused_delay: TickHistogram::summary(trackers().map(|(_, tracker)| tracker.paused()), tsc),
            negative_delays,
            wire_chatter,
            beside: (
                reports.iter().map(|report| report.probes.len() as u64).sum(),
                trackers().map(|(_, tracker)| tracker.probes().count()).sum(),
            ),
            shares: each::shares(trackers().flat_map(|(direction, tracker)| {
                tracker.each().map(move |(sender, each)| ((*direction, sender), each))
            })),
        }
    }

    /// The trial's windows; none where not every packet carries a stamp.
    fn log(&self, course: &Course, reports: &[LaneReport], start: Ticks) -> WindowLog {
        let tsc = self.tsc;
        let ring = Nanos((RING / course.schedule.load.0.max(1e-3) * 1e9) as u64);
        let mut log = WindowLog {
            start: start.0,
            length: course.grid.length,
            shift: course.grid.shift,
            warm_up: tsc.ticks(warm_up(course.spec.duration)),
            margin: tsc.ticks(ring.clamp(MARGIN.0, MARGIN.1)),
            nanos_per_tick: 1e9 / tsc.hz(),
            directions: Vec::new(),
        };
        if course.setups.is_empty() || !course.setups.iter().all(|setup| setup.all_stamped) {
            return log;
        }
        for direction in 0..self.ends.len() {
            let mut windows: Vec<Window> = Vec::new();
            for sender in self.senders_of(direction) {
                let own = sender.windows().windows();
                windows.resize(windows.len().max(own.len()), Window::default());
                for (sum, one) in windows.iter_mut().zip(own) {
                    sum.sent += one.sent;
                    sum.refused += one.refused;
                    sum.unsent += one.unsent;
                    sum.late += one.late;
                }
            }
            let trackers = reports.iter().flat_map(|report| &report.trackers);
            trackers
                .filter(|(of, _)| *of == direction)
                .for_each(|(_, tracker)| tracker.windows().pour(&mut windows));
            log.directions.push(windows);
        }
        log
    }

    /// What comparing came to, packet by packet and of the trial's sample; nothing where nothing was compared.
    fn compare_sample(&self, start: Ticks, reports: &[LaneReport]) -> Option<PacketCheck> {
        let oracle = self.oracle.as_deref()?;
        let recalls = (0..self.ends.len())
            .map(|direction| self.senders_of(direction).filter_map(Sender::recall).collect())
            .collect();
        let receivers = self.lanes.iter().flat_map(|lane| &lane.receivers);
        let samplers = receivers.filter_map(|receiver| Some((receiver.port, receiver.sampler.as_ref()?)));
        let mut check =
            SampleJudge { oracle, recalls, begins: &self.begins, trial: self.trial, start }.judge(samplers);
        let trackers = reports.iter().flat_map(|report| &report.trackers).map(|(_, one)| one.compared());
        let (compared, changed) = trackers.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        check.compared = check.compared.max(compared);
        let named: u64 = check.wrong.iter().map(|wrong| wrong.count).sum();
        if changed > named {
            check.remark(format!("{changed} packets were not what must come, the first of them are named"));
        }
        Some(check)
    }
}

/// The health of all threads together: of several the sums, the longest pause, and the first's core.
fn health(reports: &[LaneReport], tsc: Tsc) -> Health {
    let mut cores = reports.iter().filter_map(|report| report.health);
    let first = cores.next();
    let tester = first.map(|first| {
        cores.fold(first, |sum, one| CoreHealth {
            core: sum.core,
            stolen: Nanos(sum.stolen.0 + one.stolen.0),
            waited: Nanos(sum.waited.0 + one.waited.0),
            preempted: sum.preempted + one.preempted,
        })
    });
    let pauses =
        reports.iter().map(|report| report.gaps.pauses(tsc)).fold(Pauses::default(), |sum, one| Pauses {
            count: sum.count + one.count,
            total: Nanos(sum.total.0 + one.total.0),
            longest: sum.longest.max(one.longest),
        });
    let clocks = reports.iter().map(|report| report.clocks).max_by_key(|clocks| clocks.apart());
    Health { tester, pauses, clocks, ..Health::default() }
}

/// Which of its pair of ports a port is.
fn side(port: usize) -> u8 {
    (port % usize::from(PAIR)) as u8
}

/// What every packet of a direction must hold to when it comes back.
fn integrity(lanes: &[Lane], (direction, to): (usize, usize), oracle: &Oracle) -> Option<Integrity> {
    let senders = lanes.iter().flat_map(|lane| &lane.senders).filter(|one| one.direction == direction);
    let tables: Option<Vec<_>> =
        senders.map(|one| one.sender.table().filter(|table| table.is_generated())).collect();
    let links: Vec<Option<Link>> = tables?.iter().map(|table| table.uniform_link()).collect();
    let sent = links.first().copied()?.filter(|_| links.iter().all(|link| *link == links[0]));
    let nf = oracle.nf();
    // The balancer writes the address of a backend, and flows whatever they say.
    let unsaid = |nf: &Nf| matches!(nf.kind(), NfKind::PipelineC | NfKind::Nat | NfKind::Flows);
    let link = match nf.kind() {
        _ if nf.members().iter().any(unsaid) => None,
        // A router writes its own addresses, whatever came.
        _ if nf.is_router() => sent.filter(is_ipv4).map(|link| {
            let port = side(to);
            let mut routed = link;
            routed[..6].copy_from_slice(&next_hop_mac(port));
            routed[6..12].copy_from_slice(&port_mac(port));
            routed
        }),
        NfKind::L2Fwd
        | NfKind::L3Fwd
        | NfKind::Chain
        | NfKind::Firewall
        | NfKind::Exposed
        | NfKind::L2
        | NfKind::L2Nfpa
        | NfKind::PipelineA
        | NfKind::PipelineAFew
        | NfKind::PipelineB
        | NfKind::PipelineC
        | NfKind::PipelineD
        | NfKind::Nat
        | NfKind::Flows => sent,
    };
    Some(Integrity { link })
}

fn is_ipv4(link: &Link) -> bool {
    link[12..] == EtherType::IPV4.0.to_be_bytes()
}

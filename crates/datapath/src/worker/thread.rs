//! A worker as its owner sees it: a thread and a command queue.

use crate::actions::egress::Egress;
use crate::actions::execute::Output;
use crate::actions::punts::Punts;
use crate::classify::Tiers;
use crate::model::addresses::Sighting;
use crate::model::clock::Clock;
use crate::model::experiment::{Drawn, Experiment};
use crate::model::pipeline::Pipeline;
use crate::model::poll::PollMode;
use crate::model::requests::{ControlError, told};
use crate::services::Services;
use crate::slowpath::pending::SlowPath;
use crate::stats::counters::Counters;
use crate::worker::Worker;
use crate::worker::command::{Command, CommandQueue, FlushRequests};
use crate::worker::doorbell::Doorbell;
use crate::worker::input::Inputs;
use crate::worker::state::BurstState;
use crate::worker::steer::{Handed, Steering, SteeringTable};
use crate::worker::timing::Time;
use crate::worker::wait::Waiting;
use crossbeam_queue::ArrayQueue;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use weir_cpu::Ticks;
use weir_dpdk::{Eal, Pool};
use weir_flow::Seed;
use weir_services::Watch;

/// Packets that may be on their way to one worker from the others.
const RING: usize = 4096;

/// So long the control thread spins for a worker that has to come to the end of its burst,
const SPIN: Duration = Duration::from_micros(20);

/// and so long it lets others have the core in between,
const YIELD: Duration = Duration::from_millis(1);

/// and from then on it sleeps for so long each time.
const NAP: Duration = Duration::from_micros(100);

/// How long a worker may take to answer before that is an error: it hangs in a service then.
#[cfg(not(miri))]
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Miri takes a thousand times as long over everything.
#[cfg(miri)]
pub(crate) const PATIENCE: Duration = Duration::from_secs(3600);

/// A running worker.
pub(crate) struct Running {
    pub(crate) number: usize,
    pub(crate) core: usize,
    pub(crate) thread: u32,
    commands: Sender<Command>,
    doorbell: Arc<Doorbell>,
    /// Commands that were put into its queue.
    sent: AtomicU64,
    /// Of its services by number: which it is inside of, and since when.
    pub(crate) watches: BTreeMap<u16, Arc<Watch>>,
    running: Option<weir_dpdk::Worker<()>>,
}

/// What all workers start with.
pub(crate) struct Start<'a> {
    pub(crate) eal: &'static Eal,
    pub(crate) pipeline: &'a Arc<Pipeline>,
    pub(crate) pool: &'a Pool,
    /// Bytes, without FCS, of the longest packet that the ports are set up for.
    pub(crate) longest: usize,
    pub(crate) clock: Clock,
    pub(crate) poll: PollMode,
    pub(crate) seed: Seed,
    pub(crate) steering: &'a Arc<SteeringTable>,
    pub(crate) upcalls: u32,
    pub(crate) experiment: Experiment,
    pub(crate) punt: Punts,
    pub(crate) sighting: Punts<Sighting>,
    pub(crate) retire: Sender<Arc<Pipeline>>,
}

impl Start<'_> {
    /// Starts one worker a core.
    pub(crate) fn all(&self, cores: &[usize]) -> Result<Vec<Running>, ControlError> {
        let rings: Vec<Arc<ArrayQueue<Handed>>> =
            cores.iter().map(|_| Arc::new(ArrayQueue::new(RING))).collect();
        cores.iter().enumerate().map(|(number, &core)| self.one(number, core, &rings)).collect()
    }

    fn one(
        &self,
        number: usize,
        core: usize,
        rings: &[Arc<ArrayQueue<Handed>>],
    ) -> Result<Running, ControlError> {
        let (commands, queue) = channel();
        let doorbell = Arc::<Doorbell>::default();
        let parts = Parts {
            number,
            pipeline: self.pipeline.clone(),
            pool: self.pool.clone(),
            longest: self.longest,
            clock: self.clock,
            poll: self.poll,
            seed: self.seed,
            steering: self.steering.clone(),
            upcalls: self.upcalls,
            experiment: self.experiment,
            punts: self.punt.clone(),
            sightings: self.sighting.clone(),
            retired: self.retire.clone(),
            rings: rings.to_vec(),
            queue,
            doorbell: doorbell.clone(),
        };
        let (started, thread) = channel();
        // The worker is built on its own thread, so that its memory is near its core.
        let running = weir_dpdk::Worker::spawn(self.eal, "weir-worker", core, move || {
            let mut worker = parts.build();
            // The owner waits for this; it cannot be gone.
            let _ = started.send(thread_id());
            worker.run();
        })
        .map_err(told)?;
        match thread.recv() {
            Ok(thread) => {
                let (watches, sent, running) = (BTreeMap::new(), AtomicU64::new(0), Some(running));
                Ok(Running { number, core, thread, commands, doorbell, sent, watches, running })
            }
            Err(_) => Err(running.join().map_or_else(told, |()| {
                ControlError(format!("worker {number} on core {core} ended before it began"))
            })),
        }
    }
}

/// What a worker is built from, on its way to its thread.
struct Parts {
    number: usize,
    pipeline: Arc<Pipeline>,
    pool: Pool,
    longest: usize,
    clock: Clock,
    poll: PollMode,
    seed: Seed,
    steering: Arc<SteeringTable>,
    upcalls: u32,
    experiment: Experiment,
    punts: Punts,
    sightings: Punts<Sighting>,
    retired: Sender<Arc<Pipeline>>,
    rings: Vec<Arc<ArrayQueue<Handed>>>,
    queue: Receiver<Command>,
    doorbell: Arc<Doorbell>,
}

impl Parts {
    fn build(self) -> Worker {
        Worker {
            pipeline: self.pipeline,
            input: Inputs { queues: Vec::new(), longest: self.longest, taps: Vec::new() },
            state: BurstState::new(),
            tiers: Tiers::new(self.seed, self.upcalls, &self.experiment),
            experiment: Drawn::of(&self.experiment),
            slow: SlowPath::default(),
            services: Services::default(),
            output: Output {
                egress: Egress::default(),
                spawned: VecDeque::new(),
                punts: self.punts,
                sightings: self.sightings,
                pool: self.pool,
                seed: self.seed,
            },
            steering: Steering { number: self.number, table: self.steering, rings: self.rings },
            commands: CommandQueue {
                queue: self.queue,
                doorbell: self.doorbell,
                retired: self.retired,
                stopping: None,
            },
            counters: Counters::default(),
            flushes: FlushRequests::default(),
            time: Time::new(self.clock, self.poll == PollMode::Yield),
            waiting: Waiting::new(self.poll, self.clock.nanos_per_tick),
        }
    }
}

impl Running {
    /// Puts a command into the worker's queue and rings the doorbell. A worker that has ended takes none any more, which
    /// whoever waits for its answer will find.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.doorbell.ring();
    }

    /// Whether it has carried out all commands.
    fn has_done_all(&self) -> bool {
        self.doorbell.done() == self.sent.load(Ordering::Relaxed)
    }

    /// Waits until it has carried out all commands.
    ///
    /// # Errors
    /// It has ended, or does not answer for so long.
    pub(crate) fn wait_until_done(&self, patience: Duration) -> Result<(), ControlError> {
        self.wait_until(patience, Self::has_done_all)
    }

    /// Waits until it has carried out all commands, or will have before it looks at a packet again.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn wait_until_known(&self, patience: Duration) -> Result<(), ControlError> {
        self.wait_until(patience, |worker| worker.has_done_all() || worker.doorbell.is_asleep())
    }

    /// Its bursts are short, so that it is mostly there after a moment; but it may need this very core.
    fn wait_until(&self, patience: Duration, done: impl Fn(&Self) -> bool) -> Result<(), ControlError> {
        let begin = Instant::now();
        loop {
            // Before `done`, which it may have come to at its very end.
            let ended = self.is_finished();
            if done(self) {
                return Ok(());
            }
            if ended {
                return Err(self.ended());
            }
            match begin.elapsed() {
                waited if waited >= patience => return Err(self.silent()),
                waited if waited >= YIELD => std::thread::sleep(NAP),
                waited if waited >= SPIN => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// How often it came round.
    pub(crate) fn rounds(&self) -> u64 {
        self.doorbell.rounds()
    }

    /// CPU time that its thread has used; nothing where the system does not tell.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        weir_cpu::cpu_time(self.thread)
    }

    /// Whether there are commands that it has not carried out, and it does not sleep.
    pub(crate) fn is_behind(&self) -> bool {
        !self.has_done_all() && !self.doorbell.is_asleep()
    }

    /// Whether the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.running.as_ref().is_none_or(weir_dpdk::Worker::is_finished)
    }

    /// Whether its end was waited for.
    pub(crate) fn is_joined(&self) -> bool {
        self.running.is_none()
    }

    /// Waits for its end.
    pub(crate) fn join(&mut self) -> Result<(), ControlError> {
        self.running.take().map_or(Ok(()), |running| running.join().map_err(told))
    }

    /// The service that it is inside of at this moment, and for how long.
    pub(crate) fn inside(&self, clock: Clock) -> Option<(&str, Duration)> {
        let now = Ticks::now();
        self.watches.values().find_map(|watch| {
            let cycles = now.since(watch.running_since()?);
            Some((watch.name(), Duration::from_nanos((cycles as f64 * clock.nanos_per_tick) as u64)))
        })
    }

    /// What is said when it has ended and is asked something.
    pub(crate) fn ended(&self) -> ControlError {
        let why = if self.is_finished() { "it panicked" } else { "it was told to stop" };
        ControlError(format!("worker {} on core {} has ended: {why}", self.number, self.core))
    }

    /// What is said when it does not answer.
    pub(crate) fn silent(&self) -> ControlError {
        let inside = self.watches.values().find(|watch| watch.running_since().is_some());
        let whereabouts = match inside {
            _ if self.is_finished() => "it has ended".to_owned(),
            Some(watch) => format!(
                "it is inside of service `{}` and does not come back; end the switch, and leave that service out",
                watch.name()
            ),
            None => "it is in no service: its core may be taken away".to_owned(),
        };
        ControlError(format!(
            "worker {} on core {} has not answered for {PATIENCE:?}: {whereabouts}",
            self.number, self.core
        ))
    }
}

/// This thread's number, or 0 where `/proc` is not mounted.
fn thread_id() -> u32 {
    std::fs::read_link("/proc/thread-self")
        .ok()
        .and_then(|path| path.file_name()?.to_str()?.parse().ok())
        .unwrap_or(0)
}

//! A worker as its owner sees it: a thread, a mailbox, a bell.

use crate::admission::Admission;
use crate::bench::Bench;
use crate::cache::Caches;
use crate::control::{ControlError, PacketIn};
use crate::counters::Counters;
use crate::credit::Accounts;
use crate::datapath::{PATIENCE, told};
use crate::direct::Direct;
use crate::egress::Egress;
use crate::hint::Hinted;
use crate::mail::Mail;
use crate::pipeline::Pipeline;
use crate::short_way::Fresh;
use crate::translate::FrozenStore;
use crate::wait::{PollMode, Waiting};
use crate::worker::{Clock, Handed, Worker};
use crossbeam_queue::ArrayQueue;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::time::Duration;
use weir_dpdk::{Eal, Pool, Ticks};
use weir_flow::Seed;
use weir_services::Watch;
use weir_units::Nanos;

/// Packets that may be on their way to one worker from the others.
const RING: usize = 4096;

/// A running worker.
pub(crate) struct Running {
    pub(crate) number: usize,
    pub(crate) core: usize,
    pub(crate) thread: u32,
    mail: Sender<Mail>,
    bell: Arc<AtomicBool>,
    /// Of its services by number: which it is inside of, and since when.
    pub(crate) watches: BTreeMap<u16, Arc<Watch>>,
    running: Option<weir_dpdk::Worker<()>>,
}

/// What all workers start with.
pub(crate) struct Start<'a> {
    pub(crate) eal: &'static Eal,
    pub(crate) pipeline: &'a Arc<Pipeline>,
    pub(crate) pool: &'a Pool,
    pub(crate) clock: Clock,
    pub(crate) poll: PollMode,
    pub(crate) seed: Seed,
    pub(crate) upcalls: u32,
    pub(crate) punt: SyncSender<PacketIn>,
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
        let (mail, mailbox) = channel();
        let bell = Arc::<AtomicBool>::default();
        let parts = Parts {
            number,
            pipeline: self.pipeline.clone(),
            pool: self.pool.clone(),
            clock: self.clock,
            poll: self.poll,
            seed: self.seed,
            upcalls: self.upcalls,
            punts: self.punt.clone(),
            retired: self.retire.clone(),
            rings: rings.to_vec(),
            mail: mailbox,
            bell: bell.clone(),
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
                let watches = BTreeMap::new();
                Ok(Running { number, core, thread, mail, bell, watches, running: Some(running) })
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
    clock: Clock,
    poll: PollMode,
    seed: Seed,
    upcalls: u32,
    punts: SyncSender<PacketIn>,
    retired: Sender<Arc<Pipeline>>,
    rings: Vec<Arc<ArrayQueue<Handed>>>,
    mail: Receiver<Mail>,
    bell: Arc<AtomicBool>,
}

impl Parts {
    fn build(self) -> Worker {
        let number = self.number;
        Worker {
            number,
            pipeline: self.pipeline,
            inputs: Vec::new(),
            egress: Egress::default(),
            caches: Caches::new(self.seed),
            found: weir_classifier::Found::default(),
            services: Vec::new(),
            counters: Counters::default(),
            bench: Bench::new(),
            recordings: Vec::new(),
            direct: Direct::new(),
            admission: Admission::new(self.upcalls),
            fresh: Fresh::default(),
            doomed: Vec::new(),
            spawned: VecDeque::new(),
            frozen: FrozenStore::default(),
            pool: self.pool,
            punts: self.punts,
            taps: Vec::new(),
            hinted: Hinted::default(),
            waiting: Waiting::new(self.poll, self.clock.nanos_per_tick),
            clock: self.clock,
            now: Nanos(0),
            seed: self.seed,
            rings: self.rings,
            mail: self.mail,
            bell: self.bell,
            retired: self.retired,
            accounts: Accounts::default(),
            stopping: None,
            timing: None,
        }
    }
}

impl Running {
    /// Puts mail into the worker's box and rings. A worker that has ended reads nothing any more, which
    /// whoever waits for its answer will find.
    pub(crate) fn send(&self, mail: Mail) {
        let _ = self.mail.send(mail);
        self.bell.store(true, Ordering::Release);
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

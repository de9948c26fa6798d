//! The program: pairs of ports, workers between them, and the means to watch and stop it.
//!
//! A function has one pair. A program that carries packets for others may have more, each with its own counters and taps
//! ([`Meter`]); a worker polls them in turn. A port is a device's, or one end of rings to another process that has
//! the same memory ([`Shared`]). A device's port may have several queues: what comes in by one leaves by the queue of the same
//! number of the other port.
//!
//! Threads: workers, pinned, one a core, which share out the queues by their numbers and have nothing in common but the
//! ports' memory: each has a copy of the function and counters of its own. Whoever holds the [`Program`] keeps the
//! ports, reads the ledger at any time without disturbing the workers, and stops them; dropping the
//! program stops them too.

use crate::fault::{Fault, FaultKind, Saboteur};
use crate::forwarder::{Forwarder, Line};
use crate::ledger::{Counters, Ledger};
use crate::tap::{PortTaps, Taps};
use crate::verdict::{NetworkFunction, PORTS};
use crate::wire::{Ports, Queues, Straight};
use crate::{Firewall, L2Fwd, L3Fwd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weir_dpdk::{
    Pool, PoolError, Port, PortConfig, PortError, RingEnd, Shared, SharedError, Worker, WorkerError,
};
use weir_units::Nanos;

/// What a worker does with packets.
#[derive(Clone, Debug)]
pub enum Function {
    /// [`L2Fwd`].
    L2Fwd(L2Fwd),
    /// [`L3Fwd`].
    L3Fwd(Box<L3Fwd>),
    /// [`Firewall`].
    Firewall(Box<Firewall>),
}

/// Where the program runs.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// Ports 0 and 1, and further pairs where there are any: EAL vdev strings or PCI addresses, or ends of rings
    /// (`ring:0:near`) in memory that is shared.
    pub ports: Vec<String>,
    /// How those of devices are set up. Ends of rings have one queue.
    pub port: PortConfig,
    /// Packet buffers for all; where memory is shared, its owner has made them.
    pub buffers: u32,
    /// Cores of the workers, one at least: the first has the queues 0 of all ports, the next the queues 1, and so on in turn. A
    /// worker without a queue is not started.
    pub cores: Vec<usize>,
    /// Whether a worker gives its core, after each round of its loop, to whoever else is ready there: pollers that
    /// share a core then take turns by bursts, not by the scheduler's milliseconds. A system call a round.
    pub yields: bool,
    /// What it does wrong on purpose; nothing in earnest.
    pub fault: Option<Fault>,
}

/// The program could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No memory for packets.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Ports are in pairs.
    #[error("{0} ports are no pairs")]
    Unpaired(usize),
    /// An end of rings among ports of several queues.
    #[error("`{0}` is an end of rings, which has one queue, and {1} are asked for; ask for one")]
    OneQueue(String, u16),
    /// No core, hence no worker.
    #[error("a program has one worker at least, and a worker a core; name one")]
    NoCore,
    /// An end of rings that is written wrongly.
    #[error("{0}")]
    RingEnd(String),
    /// An end of rings, where no memory is shared.
    #[error("`{0}` is an end of rings, which only processes have that share memory")]
    NothingShared(String),
    /// Memory that is shared.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The worker.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    /// What the ports were asked for by.
    specs: Vec<String>,
    /// Those of devices.
    ports: Vec<Port>,
    pool: Pool,
    meters: Vec<Meter>,
    stop: Arc<AtomicBool>,
    workers: Vec<Worker<()>>,
    threads: Vec<u32>,
    shared: Option<Shared>,
}

/// What is counted of one pair of ports. It outlives the program, so that it is read when that has stopped.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// By queue: each has one writer.
    counters: Vec<Arc<Counters>>,
    taps: Vec<Arc<Taps>>,
}

impl Meter {
    /// What was counted so far, on all queues.
    pub fn ledger(&self) -> Ledger {
        self.counters.iter().map(|counters| counters.read()).sum()
    }

    /// The taps of its edges, by queue.
    pub fn taps(&self) -> impl Iterator<Item = &Taps> {
        self.taps.iter().map(|taps| &**taps)
    }

    /// What these counted so far, by port, of all queues together; nothing where they were never on.
    pub fn tapped(&self) -> Option<[PortTaps; PORTS]> {
        let each: Vec<[PortTaps; PORTS]> = self.taps().map(Taps::read).collect::<Option<_>>()?;
        each.into_iter()
            .reduce(|[near, far], [also_near, also_far]| [near.with(also_near), far.with(also_far)])
    }
}

/// A line before its worker's function is known: what a fault does is part of it.
type Draft = Line<Option<Saboteur>>;

impl Program {
    /// Opens the ports in order and starts forwarding at once, links up or not.
    pub fn start(
        eal: &'static weir_dpdk::Eal,
        function: Function,
        config: &ProgramConfig,
    ) -> Result<Self, ProgramError> {
        let pool = Pool::new(eal, config.buffers, config.port.max_frame)?;
        Self::start_with(function, config, pool, None)
    }

    /// The same in memory that it shares with other processes.
    pub fn start_shared(
        shared: Shared,
        function: Function,
        config: &ProgramConfig,
    ) -> Result<Self, ProgramError> {
        let pool = shared.pool().clone();
        Self::start_with(function, config, pool, Some(shared))
    }

    fn start_with(
        function: Function,
        config: &ProgramConfig,
        pool: Pool,
        mut shared: Option<Shared>,
    ) -> Result<Self, ProgramError> {
        if config.ports.is_empty() || !config.ports.len().is_multiple_of(PORTS) {
            return Err(ProgramError::Unpaired(config.ports.len()));
        }
        let many = config.port.queues.max(1);
        let cores = config.cores.get(..config.cores.len().min(usize::from(many)));
        let cores = cores.filter(|cores| !cores.is_empty()).ok_or(ProgramError::NoCore)?;
        let (mut ports, mut queues) = (Vec::new(), Vec::new());
        for spec in &config.ports {
            queues.push(match RingEnd::is_meant(spec) {
                true if many > 1 => return Err(ProgramError::OneQueue(spec.clone(), many)),
                true => vec![rings(spec, shared.as_mut())?],
                false => {
                    let mut port = Port::open(spec, config.port, &pool)?;
                    let each = std::iter::from_fn(|| port.take_queue());
                    let each = each.map(|(rx, tx)| Queues::Device(rx, tx)).collect();
                    ports.push(port);
                    each
                }
            });
        }
        if config.fault.is_some_and(|fault| fault.kind == FaultKind::Cross) {
            queues.swap(config.ports.len() / 2 - 1, config.ports.len() - 1);
        }
        let (shares, meters) = shared_out(queues, cores.len(), (config, &pool));
        let mut program = Self {
            specs: config.ports.clone(),
            ports,
            pool,
            meters,
            stop: Arc::default(),
            workers: Vec::new(),
            threads: Vec::new(),
            shared,
        };
        for (core, lines) in cores.iter().zip(shares) {
            program.work(function.clone(), lines, (*core, config.yields))?;
        }
        Ok(program)
    }

    /// Starts a worker on these lines.
    fn work(
        &mut self,
        function: Function,
        lines: Vec<Draft>,
        (core, yields): (usize, bool),
    ) -> Result<(), ProgramError> {
        let (started, thread) = mpsc::channel();
        let end = self.stop.clone();
        let worker = Worker::spawn(self.pool.eal(), "weir-nf", core, move || {
            // The receiver waits for this and nothing else; it cannot be gone.
            let _ = started.send(thread_id());
            match function {
                Function::L2Fwd(function) => run(function, lines, yields, &end),
                Function::L3Fwd(function) => run(*function, lines, yields, &end),
                Function::Firewall(function) => run(*function, lines, yields, &end),
            }
        })?;
        match thread.recv() {
            Ok(thread) => {
                self.workers.push(worker);
                self.threads.push(thread);
                Ok(())
            }
            // The worker ended before it began, and knows why.
            Err(_) => Err(worker.join().map_or_else(ProgramError::from, |()| {
                ProgramError::Worker(WorkerError::Panicked("it ended before it began".to_owned()))
            })),
        }
    }

    /// The ports of devices, in order.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// All ports as they were asked for, in order.
    pub fn specs(&self) -> &[String] {
        &self.specs
    }

    /// Whether the port at a place is linked; rings always are.
    pub fn link_up(&self, place: usize) -> bool {
        let spec = self.specs.get(place);
        self.ports.iter().find(|port| Some(port.spec()) == spec.map(String::as_str)).is_none_or(Port::link_up)
    }

    /// The workers' thread numbers, as the system counts threads.
    pub fn threads(&self) -> &[u32] {
        &self.threads
    }

    /// CPU time the workers have used together, where the kernel tells (`/proc/PID/task/TID/schedstat`).
    pub fn cpu_time(&self) -> Option<Nanos> {
        let sum = self.threads.iter().map(|thread| weir_cpu::cpu_time(*thread)).sum::<Option<Duration>>();
        sum.map(Nanos::from)
    }

    /// What counts each pair of ports, in order.
    pub fn meters(&self) -> &[Meter] {
        &self.meters
    }

    /// What was counted of the first pair of ports, which is all that a function has.
    pub fn ledger(&self) -> Ledger {
        self.meters[0].ledger()
    }

    /// The taps of the first pair of ports, at its first queues.
    pub fn taps(&self) -> Arc<Taps> {
        self.meters[0].taps[0].clone()
    }

    /// Why it cannot go on, where it shares memory with others of which one has died.
    pub fn lost(&self) -> Option<String> {
        self.shared.as_ref()?.lost()
    }

    /// Whether all workers still run; they end by themselves only when they panic.
    pub fn is_running(&self) -> bool {
        !self.workers.is_empty() && !self.workers.iter().any(Worker::is_finished)
    }

    /// Stops the workers, closes the ports, and returns the final ledger of the first pair of ports with the number of
    /// packet buffers that are not back in their pool: 0, or a driver or Weir lost some. Of shared memory only its
    /// owner can say.
    pub fn stop(mut self) -> Result<(Ledger, u32), ProgramError> {
        self.end()?;
        self.ports.clear();
        let owns = self.shared.as_mut().is_none_or(|shared| {
            shared.drain();
            shared.is_primary()
        });
        Ok((self.ledger(), if owns { self.pool.in_use() } else { 0 }))
    }

    fn end(&mut self) -> Result<(), WorkerError> {
        self.stop.store(true, Ordering::Relaxed);
        // All of them, before one that failed is told.
        let ends: Vec<_> = self.workers.drain(..).map(Worker::join).collect();
        ends.into_iter().collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A panic of a worker was printed when it happened; `stop` is the way to learn of it here.
        let _ = self.end();
    }
}

/// The rings at an end.
fn rings(spec: &str, shared: Option<&mut Shared>) -> Result<Queues, ProgramError> {
    let end: RingEnd = spec.parse().map_err(ProgramError::RingEnd)?;
    let shared = shared.ok_or_else(|| ProgramError::NothingShared(spec.to_owned()))?;
    let (rx, tx) = shared.take(end)?;
    Ok(Queues::Rings(rx, tx))
}

/// The lines of each of so many workers, and the meter of each pair of ports: of each pair and queue a line, those of a queue
/// with one worker. Queues are by port.
fn shared_out(
    queues: Vec<Vec<Queues>>,
    workers: usize,
    (config, pool): (&ProgramConfig, &Pool),
) -> (Vec<Vec<Draft>>, Vec<Meter>) {
    let mut shares: Vec<Vec<Draft>> = (0..workers).map(|_| Vec::new()).collect();
    let mut meters = Vec::new();
    let mut queues = queues.into_iter();
    while let (Some(near), Some(far)) = (queues.next(), queues.next()) {
        let mut meter = Meter::default();
        for (queue, (near, far)) in near.into_iter().zip(far).enumerate() {
            let (counters, taps) = (Arc::<Counters>::default(), Arc::<Taps>::default());
            shares[queue % workers].push(Line {
                wire: config.fault.map(|fault| Saboteur::new(fault, pool.clone())),
                ports: Ports::new([near, far], taps.clone()),
                counters: counters.clone(),
            });
            meter.counters.push(counters);
            meter.taps.push(taps);
        }
        meters.push(meter);
    }
    (shares, meters)
}

/// The worker's body: one copy a function, so that each is inlined into its loop.
fn run<F: NetworkFunction>(function: F, lines: Vec<Draft>, yields: bool, stop: &AtomicBool) {
    if lines.iter().all(|line| line.wire.is_none()) {
        return Forwarder::new(function, lines.into_iter().map(|line| line.with(Straight)).collect(), yields)
            .run(stop);
    }
    let sabotaged = lines.into_iter().filter_map(|mut line| {
        let wire = line.wire.take()?;
        Some(line.with(wire))
    });
    Forwarder::new(function, sabotaged.collect(), yields).run(stop);
}

/// This thread's number, or 0 where `/proc` is not mounted.
fn thread_id() -> u32 {
    std::fs::read_link("/proc/thread-self")
        .ok()
        .and_then(|path| path.file_name()?.to_str()?.parse().ok())
        .unwrap_or(0)
}

//! The program: two ports, a worker between them, and the means to watch and stop it.
//!
//! Threads: one worker, pinned, which owns the queues. Whoever holds the [`Program`] keeps the
//! ports, reads the ledger at any time without disturbing the worker, and stops it; dropping the
//! program stops it too.

use crate::fault::{Fault, Saboteur};
use crate::forwarder::Forwarder;
use crate::ledger::{Counters, Ledger};
use crate::tap::Taps;
use crate::verdict::{NetworkFunction, PORTS};
use crate::wire::{Ports, Queues, Straight};
use crate::{Firewall, L2Fwd, L3Fwd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use weir_dpdk::{Pool, PoolError, Port, PortConfig, PortError, Worker, WorkerError};
use weir_units::Nanos;

/// What the worker does with packets.
#[derive(Debug)]
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
    /// Ports 0 and 1: EAL vdev strings or PCI addresses.
    pub ports: [String; PORTS],
    /// How both are set up.
    pub port: PortConfig,
    /// Packet buffers for both.
    pub buffers: u32,
    /// Core of the worker.
    pub core: usize,
    /// Whether the worker gives its core, after each round of its loop, to whoever else is ready there: pollers that
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
    /// The worker.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    ports: Vec<Port>,
    pool: Pool,
    counters: Arc<Counters>,
    taps: Arc<Taps>,
    stop: Arc<AtomicBool>,
    worker: Option<Worker<()>>,
    thread: u32,
}

impl Program {
    /// Opens the ports in order and starts forwarding at once, links up or not.
    pub fn start(
        eal: &'static weir_dpdk::Eal,
        function: Function,
        config: &ProgramConfig,
    ) -> Result<Self, ProgramError> {
        let pool = Pool::new(eal, config.buffers, config.port.max_frame)?;
        let mut ports = Vec::with_capacity(PORTS);
        for spec in &config.ports {
            ports.push(Port::open(spec, config.port, &pool)?);
        }
        let queues = [0, 1].map(|port: usize| {
            let (rx, tx) = ports[port].take_queue().expect("a port has a queue when it is opened");
            Queues { rx, tx }
        });
        let (counters, stop) = (Arc::<Counters>::default(), Arc::<AtomicBool>::default());
        let taps = Arc::<Taps>::default();
        let queues = Ports::new(queues, taps.clone());
        let (started, thread) = mpsc::channel();
        let saboteur = config.fault.map(|fault| Saboteur::new(fault, pool.clone()));
        let (inner, end, yields) = (counters.clone(), stop.clone(), config.yields);
        let worker = Worker::spawn(eal, "weir-nf", config.core, move || {
            // The receiver waits for this and nothing else; it cannot be gone.
            let _ = started.send(thread_id());
            match function {
                Function::L2Fwd(function) => run(function, saboteur, queues, inner, yields, &end),
                Function::L3Fwd(function) => run(*function, saboteur, queues, inner, yields, &end),
                Function::Firewall(function) => run(*function, saboteur, queues, inner, yields, &end),
            }
        })?;
        match thread.recv() {
            Ok(thread) => Ok(Self { ports, pool, counters, taps, stop, worker: Some(worker), thread }),
            // The worker ended before it began, and knows why.
            Err(_) => Err(worker.join().map_or_else(ProgramError::from, |()| {
                ProgramError::Worker(WorkerError::Panicked("it ended before it began".to_owned()))
            })),
        }
    }

    /// The ports, in order.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The worker's thread number, as the system counts threads.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// CPU time the worker has used, where the kernel tells (`/proc/PID/task/TID/schedstat`).
    pub fn cpu_time(&self) -> Option<Nanos> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.thread)).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Nanos)
    }

    /// What was counted so far.
    pub fn ledger(&self) -> Ledger {
        self.counters.read()
    }

    /// The taps of its edges: they outlive the program, so that they are read when it has stopped.
    pub fn taps(&self) -> Arc<Taps> {
        self.taps.clone()
    }

    /// Whether the worker still runs; it ends by itself only when it panics.
    pub fn is_running(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| !worker.is_finished())
    }

    /// Stops the worker, closes the ports, and returns the final ledger with the number of packet
    /// buffers that are not back in their pool: 0, or a driver or Weir lost some.
    pub fn stop(mut self) -> Result<(Ledger, u32), ProgramError> {
        self.end()?;
        self.ports.clear();
        Ok((self.counters.read(), self.pool.in_use()))
    }

    fn end(&mut self) -> Result<(), WorkerError> {
        self.stop.store(true, Ordering::Relaxed);
        self.worker.take().map_or(Ok(()), Worker::join)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A panic of the worker was printed when it happened; `stop` is the way to learn of it here.
        let _ = self.end();
    }
}

/// The worker's body: one copy a function, so that each is inlined into its loop.
fn run<F: NetworkFunction>(
    function: F,
    saboteur: Option<Saboteur>,
    ports: Ports,
    counters: Arc<Counters>,
    yields: bool,
    stop: &AtomicBool,
) {
    match saboteur {
        None => Forwarder::new(function, Straight, ports, counters, yields).run(stop),
        Some(saboteur) => Forwarder::new(function, saboteur, ports, counters, yields).run(stop),
    }
}

/// This thread's number, or 0 where `/proc` is not mounted.
fn thread_id() -> u32 {
    std::fs::read_link("/proc/thread-self")
        .ok()
        .and_then(|path| path.file_name()?.to_str()?.parse().ok())
        .unwrap_or(0)
}

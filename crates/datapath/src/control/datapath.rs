//! The datapath from outside: ports, tables and services in, the ledger out.
//!
//! Threads: one owner, who calls; the workers, pinned. The owner writes no memory that workers read per
//! packet: it builds new tables beside the old ones and hands them over by its command queue, which a worker
//! looks into between two bursts. What the owner asks of a worker takes as long as one burst does.

use crate::actions::punts::{Punted, punts};
use crate::classify::hint::{HintSource, Hints, InputHints, Installer, PacketHints, in_front_of};
use crate::control::evict::Queues;
use crate::control::expiry::Expiry;
use crate::control::known::Known;
use crate::control::learning::Learning;
use crate::control::ports::Ports;
use crate::control::vitals::Vital;
use crate::model::addresses::Sighting;
use crate::model::clock::Clock;
use crate::model::entries::Touched;
use crate::model::pipeline::Pipeline;
use crate::model::requests::{CaptureFilter, Captured, Config, ControlError, Event, PortSpec, told};
use crate::stats::capture::Tap;
use crate::stats::report::Report;
use crate::worker::command::{Command, Snapshot};
use crate::worker::input::Input;
use crate::worker::steer::SteeringTable;
use crate::worker::thread::{Running, Start};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use weir_cpu::{Ticks, Tsc};
use weir_dpdk::{Eal, Pool, Shared};
use weir_flow::Seed;
use weir_openflow::{Names, PortNo};
use weir_port::Rx;
use weir_units::Nanos;

/// Bytes of a frame's checksum, which packets come and go without.
const FCS: usize = 4;

/// Packets that may wait for whoever captures.
const CAPTURED: usize = 65_536;

/// Refuses a datapath without a core for a worker.
fn some_core(config: &Config) -> Result<(), ControlError> {
    if config.cores.is_empty() {
        return Err(ControlError("no core is given for a worker; name at least one".to_owned()));
    }
    Ok(())
}

/// A running datapath. Dropping it stops it.
pub struct Datapath {
    pub(crate) config: Config,
    pub(crate) names: Names,
    /// By number.
    pub(crate) services: BTreeMap<u16, Known>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) workers: Vec<Running>,
    /// Before the ports, which its rules keep open.
    pub(crate) installer: Installer,
    pub(crate) ports: Ports,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    pub(crate) steering: Arc<SteeringTable>,
    pub(crate) punts: Punted,
    /// Addresses that workers saw.
    pub(super) sightings: Punted<Sighting>,
    /// What was learned of them.
    pub(super) learning: Learning,
    retired: Receiver<Arc<Pipeline>>,
    pub(crate) taps: Vec<Arc<Tap>>,
    /// Flow entries that go by themselves.
    pub(super) expiry: Expiry,
    /// Those that go to make room for others.
    pub(super) evictions: Queues,
    /// What happened and nobody was told yet.
    pub(super) events: Vec<Event>,
    /// When tables were settled last, and how long that took.
    pub(crate) settled: (Nanos, Nanos),
    /// Services in quarantine that were told of.
    pub(super) quarantined: std::collections::BTreeSet<(usize, u16)>,
    /// What each worker told last.
    pub(crate) last: Vec<Snapshot>,
    /// What was seen of each worker's rounds.
    pub(crate) vitals: Vec<Vital>,
    /// The memory of its packets, where it is another process's. Behind all that is in it.
    pub(super) shared: Option<Shared>,
}

impl Datapath {
    /// Starts the workers, without a port and with empty tables.
    ///
    /// # Errors
    /// Cores that are not there, no memory, a service's configuration.
    pub fn start(eal: &'static Eal, config: Config) -> Result<Self, ControlError> {
        some_core(&config)?;
        let room = config.max_frame.bytes().max(config.room);
        let pool = Pool::with_room(eal, config.buffers, room).map_err(told)?;
        Self::start_with(eal, config, pool, None)
    }

    /// The same in memory that another process owns, by whose rings packets come and go ([`weir_port::open_ring`]); it has made
    /// the packet buffers.
    ///
    /// # Errors
    /// The same; several workers.
    pub fn start_shared(shared: Shared, config: Config) -> Result<Self, ControlError> {
        some_core(&config)?;
        if config.cores.len() > 1 {
            let why = "memory of another process has room for one worker of this one; name one core";
            return Err(ControlError(why.to_owned()));
        }
        let (eal, pool) = (shared.eal(), shared.pool().clone());
        Self::start_with(eal, config, pool, Some(shared))
    }

    fn start_with(
        eal: &'static Eal,
        config: Config,
        pool: Pool,
        shared: Option<Shared>,
    ) -> Result<Self, ControlError> {
        let seed = Seed::new(config.seed);
        let mut pipeline = Pipeline::new(seed, Vec::new(), config.coalescing);
        pipeline.selection = config.selection;
        let pipeline = Arc::new(pipeline);
        let clock = Clock { start: Ticks::now(), nanos_per_tick: 1e9 / Tsc::get().hz() };
        let ((punt, punts), (sighting, sightings)) = (punts(), punts());
        let (retire, retired) = channel();
        let Config { poll, upcalls, experiment, .. } = config;
        let steering = Arc::new(SteeringTable::new(config.cores.len(), seed));
        let start = Start {
            eal,
            pipeline: &pipeline,
            pool: &pool,
            longest: usize::from(config.max_frame.bytes()) - FCS,
            clock,
            poll,
            seed,
            steering: &steering,
            upcalls,
            experiment,
            punt,
            sighting,
            retire,
        };
        let workers = start.all(&config.cores)?;
        let mut datapath = Self {
            names: Names::default(),
            services: BTreeMap::new(),
            pipeline,
            workers,
            installer: Installer::default(),
            ports: Ports::default(),
            pool,
            clock,
            steering,
            punts,
            sightings,
            learning: Learning::new(seed),
            retired,
            taps: Vec::new(),
            expiry: Expiry::default(),
            evictions: Queues::default(),
            events: Vec::new(),
            quarantined: std::collections::BTreeSet::new(),
            last: vec![Snapshot::default(); config.cores.len()],
            vitals: vec![Vital::default(); config.cores.len()],
            settled: (Nanos(0), Nanos(0)),
            config,
            shared,
        };
        datapath.first_services()?;
        Ok(datapath)
    }

    /// What names stand for: ports, services.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The time since the datapath started.
    pub fn now(&self) -> Nanos {
        self.clock.at(Ticks::now())
    }

    /// Packet buffers that are in use: in rings, and in workers' hands. Where they are another process's, only that one
    /// can say, and this says none.
    pub fn buffers_in_use(&self) -> u32 {
        if self.shared.is_some() { 0 } else { self.pool.in_use() }
    }

    /// Adds a port, while packets flow.
    ///
    /// # Errors
    /// A name or number that is taken, or what DPDK says.
    pub fn add_port(&mut self, spec: &PortSpec) -> Result<PortNo, ControlError> {
        self.add_ports(std::slice::from_ref(spec)).map(|numbers| numbers[0])
    }

    /// Adds ports, while packets flow: all or none. None of them is polled before all are open and the
    /// tables know them, so that what comes in by the first can leave by the last.
    ///
    /// # Errors
    /// The first that cannot be added; none is there then.
    pub fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<PortNo>, ControlError> {
        let receive = self.open_ports(specs)?;
        let numbers = receive.iter().map(|(number, _)| *number).collect();
        self.poll(receive);
        Ok(numbers)
    }

    /// Opens ports, all or none. Workers can send to them then, and nobody polls them yet.
    pub(crate) fn open_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<(PortNo, Vec<Rx>)>, ControlError> {
        self.all_answer()?;
        let mut opened = Vec::with_capacity(specs.len());
        for spec in specs {
            match self.ports.open(spec, &self.config, (&self.pool, self.shared.as_mut())) {
                Ok((number, queues)) => {
                    self.names.add_port(&spec.name, number);
                    opened.push((number, queues));
                }
                Err(error) => {
                    for (number, queues) in opened {
                        drop(queues);
                        let name = self.ports.forget(number);
                        name.iter().for_each(|name| self.names.remove_port(name));
                    }
                    return Err(error);
                }
            }
        }
        if opened.is_empty() {
            return Ok(Vec::new());
        }
        let receive = self.ports.give_out(opened, &self.workers);
        if let Err(error) = self.ports_changed() {
            // A worker does not answer; out of sight they are in any case.
            receive.iter().for_each(|(number, _)| drop(self.remove_port(*number)));
            return Err(error);
        }
        Ok(receive)
    }

    /// Has the workers poll what was opened: each all of its queues from the same round on, so that ports that were opened together are
    /// level.
    pub(crate) fn poll(&mut self, receive: Vec<(PortNo, Vec<Rx>)>) {
        let mut shares: Vec<Vec<Input>> = self.workers.iter().map(|_| Vec::new()).collect();
        for (number, queues) in receive {
            let Self { ports, config, installer, clock, .. } = self;
            let marks = ports.get(number).and_then(|held| held.marks.as_ref()).map(Result::is_ok);
            ports.share_out(number, queues, &mut shares, |queue, rx| {
                if config.experiment.hints {
                    let hints = PacketHints::new(config.experiment.offloaded);
                    return (rx, Some(InputHints::Packet(Box::new(hints))));
                }
                let (Some(marks), Some(tcam)) = (marks, &config.tcam) else { return (rx, None) };
                let (rx, table): (Rx, Box<dyn HintSource>) = if marks {
                    (rx, Box::new(installer.table(queue)))
                } else {
                    let (rx, table) = in_front_of(rx, number, (Seed::new(config.seed), tcam), *clock);
                    (Rx::Decorated(Box::new(rx)), Box::new(table))
                };
                let hints = Hints::new(table, tcam, queue.1 as u32 * tcam.entries + 1);
                (rx, Some(InputHints::Table(Box::new(hints))))
            });
        }
        for (worker, share) in self.workers.iter().zip(shares).filter(|(_, share)| !share.is_empty()) {
            worker.send(Command::Poll(share));
        }
    }

    /// Removes a port, while packets flow; what waits to be sent there is counted as dropped.
    ///
    /// # Errors
    /// No such port.
    pub fn remove_port(&mut self, number: PortNo) -> Result<(), ControlError> {
        self.all_answer()?;
        let name = self.ports.hide(number)?;
        self.names.remove_port(&name);
        // First nothing is sent there any more, then the queues go, then the port.
        self.ports_changed()?;
        if let Some(place) = self.ports.place(number) {
            self.installer.forget(place);
        }
        self.ports.close(number, &self.workers)
    }

    /// Tells the tables what ports there are and whether they are up.
    pub(super) fn ports_changed(&mut self) -> Result<(), ControlError> {
        let mut next = (*self.pipeline).clone();
        next.ports = self.ports.infos();
        next.addresses = self.forget_closed_ports();
        next.advance(vec![Touched::All]);
        self.publish(next)
    }

    /// Hands new tables to the workers, and waits until all have them.
    ///
    /// # Errors
    /// A worker does not answer; none was handed anything then, and the tables are what they were.
    pub(super) fn publish(&mut self, mut next: Pipeline) -> Result<(), ControlError> {
        self.free_old_tables();
        self.all_answer()?;
        if !Arc::ptr_eq(&next.groups, &self.pipeline.groups) || next.ports != self.pipeline.ports {
            next.look_who_lives();
        }
        self.pipeline = Arc::new(next);
        for worker in &self.workers {
            worker.send(Command::Tables(self.pipeline.clone()));
        }
        // One that sleeps takes them up before it looks at a packet: nobody has to wait for that. Nor for one that
        // stopped answering at this very moment: it does so too, if it ever comes back.
        let _ = self.wait_for_all(Running::wait_until_known);
        Ok(())
    }

    /// Frees the tables that no worker uses any more. To be called when nobody waits for an answer: it takes as
    /// long as the change that replaced them did.
    pub fn free_old_tables(&mut self) {
        while self.retired.try_recv().is_ok() {}
    }

    /// Sends a packet through the tables, as if it came in by a port.
    pub fn inject(&mut self, in_port: PortNo, frame: Vec<u8>) {
        self.inject_all(in_port, vec![frame]);
    }

    /// Sends packets through the tables, as if they came in by a port together: a burst at a time.
    pub fn inject_all(&mut self, in_port: PortNo, frames: Vec<Vec<u8>>) {
        if let Some(worker) = self.workers.first() {
            worker.send(Command::Inject { in_port, frames });
        }
    }

    /// Has copies of packets sent to a receiver, until the receiver is dropped.
    pub fn capture(&mut self, filter: CaptureFilter) -> Receiver<Captured> {
        let (to, captured) = sync_channel(CAPTURED);
        self.taps.push(Arc::new(Tap::new(filter, to)));
        self.tell_taps();
        captured
    }

    pub(super) fn tell_taps(&mut self) {
        self.taps.retain(|tap| !tap.is_abandoned());
        for worker in &self.workers {
            worker.send(Command::Capture(self.taps.clone()));
        }
    }

    /// Stops the workers, closes the ports, and returns the final ledger with the number of packet
    /// buffers that are not back in their pool: 0, or a driver or Weir lost some.
    ///
    /// # Errors
    /// A worker that panicked, or does not answer.
    pub fn stop(mut self) -> Result<(Report, u32), ControlError> {
        let report = self.end()?;
        self.installer = Installer::default();
        self.ports = Ports::default();
        Ok((report, self.buffers_in_use()))
    }

    fn end(&mut self) -> Result<Report, ControlError> {
        let snapshots = self.ask(Command::Stop)?;
        for worker in &mut self.workers {
            worker.join()?;
        }
        let snapshots: Vec<_> = snapshots.into_iter().map(|snapshot| (snapshot, None)).collect();
        Ok(self.with_tables(&snapshots))
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        if !self.workers.iter().all(Running::is_joined) {
            // A worker that does not end was told of when it was asked something.
            let _ = self.end();
        }
    }
}

//! The datapath from outside: ports, tables and services in, the ledger out.
//!
//! Threads: one owner, who calls; the workers, pinned. The owner writes no memory that workers read per
//! packet: it builds new tables beside the old ones and sends them by mail, and a worker that gets mail
//! reads it between two bursts. What the owner asks of a worker takes as long as one burst does.

use crate::capture::Tap;
use crate::control::{CaptureFilter, Captured, Change, Config, ControlError, Event, PacketIn, PortSpec};
use crate::mail::Mail;
use crate::pipeline::{Pipeline, ServiceInfo, Touched};
use crate::ports::Ports;
use crate::tables::Draft;
use crate::worker::Clock;
use crate::worker_thread::{Running, Start};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;
use weir_dpdk::{Eal, Pool, Ticks, Tsc};
use weir_flow::Seed;
use weir_openflow::{Names, PortNo};
use weir_services::{Group, Limits, ask_group, registered};
use weir_units::Nanos;

/// How long a worker may take to answer before that is an error: it hangs in a service then.
const PATIENCE: Duration = Duration::from_secs(2);

/// Packets that may wait for the controller.
const PACKET_INS: usize = 4096;

/// Packets that may wait for whoever captures.
const CAPTURED: usize = 65_536;

/// Services and the kinds they are of, by number from 1.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) by_flow: bool,
    group: Arc<dyn Group>,
    limits: Limits,
}

impl Known {
    /// What each worker builds its instance from.
    pub(crate) fn parts(&self) -> (String, Arc<dyn Group>, Limits) {
        (self.name.clone(), self.group.clone(), self.limits)
    }
}

/// A running datapath. Dropping it stops it.
pub struct Datapath {
    pub(crate) config: Config,
    pub(crate) names: Names,
    pub(crate) services: Vec<Known>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) workers: Vec<Running>,
    pub(crate) ports: Ports,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    pub(crate) punts: Receiver<PacketIn>,
    retired: Receiver<Arc<Pipeline>>,
    pub(crate) taps: Vec<Arc<Tap>>,
    /// What happened and nobody was told yet.
    pub(crate) events: Vec<Event>,
    /// Services in quarantine that were told of.
    pub(crate) quarantined: std::collections::BTreeSet<(usize, u16)>,
}

impl Datapath {
    /// Starts the workers, without a port and with empty tables.
    ///
    /// # Errors
    /// Cores that are not there, no memory, a service's configuration.
    pub fn start(eal: &'static Eal, config: Config) -> Result<Self, ControlError> {
        if config.cores.is_empty() {
            return Err(ControlError("no core is given for a worker; name at least one".to_owned()));
        }
        let seed = Seed::new(config.seed);
        let pool = Pool::new(eal, config.buffers, config.max_frame).map_err(told)?;
        let (names, known) = services(&config)?;
        let infos: Vec<ServiceInfo> = known
            .iter()
            .filter_map(|known| registered(known.kind))
            .map(|kind| ServiceInfo::new(kind.rewrites, kind.coalesces))
            .collect();
        let pipeline = Arc::new(Pipeline::new(seed, infos, config.coalescing));
        let clock = Clock { start: Ticks::now(), nanos_per_tick: 1e9 / Tsc::get(eal).hz() };
        let (punt, punts) = sync_channel(PACKET_INS);
        let (retire, retired) = channel();
        let start =
            Start { eal, pipeline: &pipeline, pool: &pool, services: &known, clock, seed, punt, retire };
        let workers = start.all(&config.cores)?;
        Ok(Self {
            names,
            services: known,
            pipeline,
            workers,
            ports: Ports::default(),
            pool,
            clock,
            punts,
            retired,
            taps: Vec::new(),
            events: Vec::new(),
            quarantined: std::collections::BTreeSet::new(),
            config,
        })
    }

    /// What names stand for: ports, services.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The time since the datapath started.
    pub fn now(&self) -> Nanos {
        self.clock.at(Ticks::now())
    }

    /// Packet buffers that are in use: in rings, and in workers' hands.
    pub fn buffers_in_use(&self) -> u32 {
        self.pool.in_use()
    }

    /// Adds a port, while packets flow.
    ///
    /// # Errors
    /// A name or number that is taken, or what DPDK says.
    pub fn add_port(&mut self, spec: &PortSpec) -> Result<PortNo, ControlError> {
        let number = self.ports.open(spec, &self.config, &self.pool, &self.workers)?;
        self.names.add_port(&spec.name, number);
        self.ports_changed()?;
        Ok(number)
    }

    /// Removes a port, while packets flow; what waits to be sent there is counted as dropped.
    ///
    /// # Errors
    /// No such port.
    pub fn remove_port(&mut self, number: PortNo) -> Result<(), ControlError> {
        let name = self.ports.hide(number)?;
        self.names.remove_port(&name);
        // First nothing is sent there any more, then the queues go, then the port.
        self.ports_changed()?;
        self.ports.close(number, &self.workers)
    }

    /// Tells the tables what ports there are and whether they are up.
    pub(crate) fn ports_changed(&mut self) -> Result<(), ControlError> {
        let mut next = (*self.pipeline).clone();
        next.ports = self.ports.infos();
        next.advance(vec![Touched::All]);
        self.publish(next)
    }

    /// Changes the tables, as a whole or not at all. When it returns, every worker uses the new
    /// ones.
    ///
    /// # Errors
    /// Which change cannot be done and why; nothing was changed.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        let now = self.now();
        let mut next = (*self.pipeline).clone();
        let mut draft = Draft { pipeline: &mut next, touched: Vec::new(), removed: Vec::new(), now };
        for (at, change) in changes.iter().enumerate() {
            draft.change(change).map_err(|error| match changes.len() {
                1 => error,
                count => {
                    ControlError(format!("change {} of {count}: {}; nothing was changed", at + 1, error.0))
                }
            })?;
        }
        let by_flow = |service: u16| {
            let known = usize::from(service).checked_sub(1).and_then(|at| self.services.get(at));
            known.is_some_and(|known| known.by_flow)
        };
        let uses =
            !draft.pipeline.by_flow && changes.iter().any(|change| crate::tables::calls(change, &by_flow));
        let touched = draft.touched;
        next.by_flow |= uses;
        next.advance(touched);
        self.publish(next)
    }

    /// Hands new tables to the workers, and waits until all have them.
    pub(crate) fn publish(&mut self, next: Pipeline) -> Result<(), ControlError> {
        self.pipeline = Arc::new(next);
        for worker in &self.workers {
            worker.send(Mail::Tables(self.pipeline.clone()));
        }
        self.fence()?;
        while self.retired.try_recv().is_ok() {}
        Ok(())
    }

    /// Waits until every worker has read its mail.
    fn fence(&self) -> Result<(), ControlError> {
        self.ask(Mail::Fence).map(|_| ())
    }

    /// Asks every worker something, and gathers the answers.
    pub(crate) fn ask<T>(&self, mail: impl Fn(Sender<T>) -> Mail) -> Result<Vec<T>, ControlError> {
        let asked: Vec<Receiver<T>> = self
            .workers
            .iter()
            .map(|worker| {
                let (answer, answers) = channel();
                worker.send(mail(answer));
                answers
            })
            .collect();
        let answers = asked.iter().zip(&self.workers).map(|(answers, worker)| {
            answers.recv_timeout(PATIENCE).map_err(|error| match error {
                RecvTimeoutError::Disconnected => ControlError(format!(
                    "worker {} on core {} has ended: {}",
                    worker.number,
                    worker.core,
                    if worker.is_finished() { "it panicked" } else { "it was told to stop" }
                )),
                RecvTimeoutError::Timeout => ControlError(format!(
                    "worker {} on core {} has not answered for {PATIENCE:?}: {}",
                    worker.number,
                    worker.core,
                    worker.whereabouts()
                )),
            })
        });
        answers.collect()
    }

    /// Asks a service something; one answer a worker.
    ///
    /// # Errors
    /// No such service, or what it does not understand.
    pub fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &serde_json::Value,
    ) -> Result<Vec<serde_json::Value>, ControlError> {
        let number = self.service_number(service)?;
        let of_service = |why: String| ControlError(format!("{service}: {why}"));
        // What concerns all instances alike is done once, here.
        let group = &self.services[usize::from(number) - 1].group;
        if let Some(answer) = ask_group(group.as_ref(), command, argument) {
            return answer.map(|answer| vec![answer]).map_err(of_service);
        }
        let answers = self.ask(|answer| Mail::Command {
            service: number,
            command: command.to_owned(),
            argument: argument.clone(),
            answer,
        })?;
        answers
            .into_iter()
            .map(|answer| answer.map_err(|why| ControlError(format!("{service}: {why}"))))
            .collect()
    }

    /// Lets a service out of quarantine, built anew.
    ///
    /// # Errors
    /// No such service.
    pub fn release(&mut self, service: &str) -> Result<(), ControlError> {
        let number = self.service_number(service)?;
        self.quarantined.retain(|(_, other)| *other != number);
        self.workers.iter().for_each(|worker| worker.send(Mail::Release(number)));
        self.fence()
    }

    fn service_number(&self, service: &str) -> Result<u16, ControlError> {
        self.names.service(service).ok_or_else(|| {
            let known: Vec<&str> = self.services.iter().map(|known| known.name.as_str()).collect();
            ControlError(format!("there is no service `{service}`; there are {}", known.join(", ")))
        })
    }

    /// Sends a packet through the tables, as if it came in by a port.
    pub fn inject(&mut self, in_port: PortNo, frame: Vec<u8>) {
        self.inject_all(in_port, vec![frame]);
    }

    /// Sends packets through the tables, as if they came in by a port together: a burst at a time.
    pub fn inject_all(&mut self, in_port: PortNo, frames: Vec<Vec<u8>>) {
        if let Some(worker) = self.workers.first() {
            worker.send(Mail::Inject { in_port, frames });
        }
    }

    /// Has copies of packets sent to a receiver, until the receiver is dropped.
    pub fn capture(&mut self, filter: CaptureFilter) -> Receiver<Captured> {
        let (to, captured) = sync_channel(CAPTURED);
        self.taps.push(Arc::new(Tap::new(filter, to)));
        self.tell_taps();
        captured
    }

    pub(crate) fn tell_taps(&mut self) {
        self.taps.retain(|tap| !tap.is_abandoned());
        for worker in &self.workers {
            worker.send(Mail::Capture(self.taps.clone()));
        }
    }

    /// Stops the workers, closes the ports, and returns the final ledger with the number of packet
    /// buffers that are not back in their pool: 0, or a driver or Weir lost some.
    ///
    /// # Errors
    /// A worker that panicked, or does not answer.
    pub fn stop(mut self) -> Result<(crate::Report, u32), ControlError> {
        let report = self.end()?;
        self.ports = Ports::default();
        Ok((report, self.pool.in_use()))
    }

    fn end(&mut self) -> Result<crate::Report, ControlError> {
        let snapshots = self.ask(Mail::Stop)?;
        for worker in &mut self.workers {
            worker.join()?;
        }
        Ok(self.report_of(&snapshots))
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

pub(crate) fn told(error: impl std::fmt::Display) -> ControlError {
    ControlError(error.to_string())
}

/// The services of a configuration, numbered: those it names, then each kind under its own name.
fn services(config: &Config) -> Result<(Names, Vec<Known>), ControlError> {
    let (mut names, mut known) = (Names::default(), Vec::new());
    let defaults = weir_services::SERVICES.iter().filter(|kind| !config.services.contains_key(kind.kind));
    let defaults = defaults.map(|kind| (kind.kind.to_owned(), crate::ServiceConfig::of_kind(kind.kind)));
    let named = config.services.iter().map(|(name, service)| (name.clone(), service.clone()));
    for (name, service) in named.chain(defaults) {
        let kind = registered(&service.kind).ok_or_else(|| {
            let kinds: Vec<&str> = weir_services::SERVICES.iter().map(|kind| kind.kind).collect();
            ControlError(format!(
                "service `{name}`: there is no kind `{}`; there are {}",
                service.kind,
                kinds.join(", ")
            ))
        })?;
        let settings = weir_services::GroupConfig {
            name: &name,
            settings: &service.settings,
            workers: config.cores.len(),
            seed: config.seed,
        };
        let group = kind.group(&settings).map_err(told)?;
        names.add_service(&name);
        known.push(Known { name, kind: kind.kind, by_flow: kind.by_flow, group, limits: service.limits });
    }
    Ok((names, known))
}

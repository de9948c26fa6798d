//! A running switch: the datapath, what it was configured to be, and the answers to requests.
//!
//! Threads: one, whoever calls [`Switch::run`]; it owns the datapath's control side. Clients, signals
//! and the metrics server send it [`Ask`]s through a bounded queue and wait for the answer in their
//! own threads, so that none of them can hold it up.

use crate::events::{Listeners, describe};
use crate::plane::{Ended, Plane};
use crate::protocol::{PROTOCOL, Request};
use crate::stats::Stats;
use crate::tables::{Tables, Wanted};
use crate::{Settings, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};
use weir_agent::channel::{ChannelError, ChannelStatus, Channels};
use weir_agent::session::{Agent, PACKET_INS_EVERY, SessionSettings};
use weir_agent::{ConnectionId, Heard};
use weir_datapath::{CaptureFilter, Captured, Change, ControlError, Dead, Event, PortSpec, Report};
use weir_openflow::{Names, PortNo};

/// How often the datapath does what is due.
const TICK: Duration = Duration::from_millis(100);

/// How often addresses are learned, where packets are forwarded by them. Until then what is sent to them is flooded.
const LEARN_EVERY: Duration = Duration::from_millis(10);

/// Why a switch did not end as it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A worker died: the process is to end, and to be started anew.
    #[error("{dead}; the switch ends, to be started anew")]
    Dead {
        /// The worker.
        dead: Dead,
        /// The last ledger.
        stats: Box<Stats>,
    },
    /// A worker does not answer at the end.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Reads the configuration again.
pub type Loader = Box<dyn Fn() -> Result<Settings, String> + Send>;

/// A request, and where its answer goes.
#[derive(Debug)]
pub struct Ask {
    /// What is asked.
    pub request: Request,
    /// Takes the one answer; whoever asked may be gone.
    pub reply: SyncSender<Result<Answer, String>>,
}

/// What comes to the switch's thread.
#[derive(Debug)]
pub enum Inbound {
    /// A request of the control socket, or of this process.
    Ask(Ask),
    /// What a controller said, or became of.
    Heard(Heard),
}

impl From<Ask> for Inbound {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}

impl From<Heard> for Inbound {
    fn from(heard: Heard) -> Self {
        Self::Heard(heard)
    }
}

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// All of it.
    Value(Value),
    /// Packets as they come.
    Capture(Receiver<Captured>),
    /// Events as they come.
    Monitor(Receiver<Value>),
}

/// What a switch says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Version of Weir.
    pub weir: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// Ticks of the time stamp counter a second.
    pub tsc_hz: f64,
}

impl About {
    /// What the OpenFlow agent is told.
    fn session(&self, settings: &Settings) -> SessionSettings {
        let openflow = &settings.openflow;
        SessionSettings {
            datapath_id: openflow.datapath_id,
            standalone: openflow.stands_alone(),
            software: format!("weir {}", self.weir),
            hardware: self.dpdk.clone(),
        }
    }

    /// The document of a report.
    pub fn stats(&self, report: &Report) -> Stats {
        Stats::new(report, &format!("weir {}, {}", self.weir, self.dpdk), self.tsc_hz)
    }
}

/// A running switch.
pub struct Switch<P> {
    pub(crate) plane: P,
    pub(crate) settings: Settings,
    loader: Loader,
    /// Ports that are open, by number, as they were asked for.
    pub(crate) ports: BTreeMap<PortNo, PortSpec>,
    pub(crate) tables: Tables,
    events: Listeners,
    pub(crate) agent: Agent,
    pub(crate) channels: Option<Channels>,
    /// What was wrong at the last tick.
    trouble: Option<String>,
    about: About,
}

impl<P: Plane> Switch<P> {
    /// Fills the tables of a datapath that has just been started, then opens its ports: no packet meets
    /// half a configuration.
    ///
    /// # Errors
    /// A flow, group, meter or port that cannot be; the datapath is stopped.
    pub fn new(plane: P, settings: Settings, loader: Loader, about: About) -> Result<Self, String> {
        let (ports, tables, events) = (BTreeMap::new(), Tables::default(), Listeners::default());
        let agent = Agent::new(about.session(&settings));
        let settings_now = settings.clone();
        let mut switch = Self {
            plane,
            settings: settings_now,
            loader,
            ports,
            tables,
            events,
            agent,
            channels: None,
            trouble: None,
            about,
        };
        switch.plane.set_learning(settings.learning).map_err(|error| error.to_string())?;
        let names = switch.names_with(&settings.ports);
        let wanted = Wanted::read(&settings, &names)?;
        let there = switch.there()?;
        let (changes, named) = switch.tables.changes_to(wanted, &there);
        if !changes.is_empty() {
            switch.apply(changes)?;
        }
        switch.tables.configured(named);
        switch.open(&settings.ports)?;
        switch.agent.look_at_ports(&switch.plane);
        Ok(switch)
    }

    /// Lets controllers connect, and connects to those that are configured. What they say comes to the inbox.
    ///
    /// # Errors
    /// Certificates or a listener that cannot be.
    pub fn connect(&mut self, inbox: SyncSender<Inbound>) -> Result<(), ChannelError> {
        self.channels = Some(Channels::start(&self.settings.openflow, inbox)?);
        Ok(())
    }

    /// Answers requests and obeys controllers until a request says stop, or nobody is left to ask; then stops
    /// the datapath.
    ///
    /// # Errors
    /// A worker that died, with the last ledger; or does not answer at the end.
    pub fn run(mut self, inbox: &Receiver<Inbound>) -> Result<Ended, RunError> {
        let mut due = Instant::now();
        let mut look = Instant::now();
        let mut learn = Instant::now();
        loop {
            match self.next(inbox, due) {
                Ok(Inbound::Ask(ask)) => {
                    self.agent.flush(&mut self.plane);
                    let stop = matches!(ask.request, Request::Stop {});
                    // Whoever asked may have gone; the change is made all the same.
                    let _ = ask.reply.send(self.answer(ask.request));
                    if stop {
                        break;
                    }
                }
                Ok(Inbound::Heard(heard)) => self.agent.hear(heard, &mut self.plane),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if self.agent.due().is_some_and(|due| now >= due) {
                self.agent.flush(&mut self.plane);
            }
            if self.agent.is_awake() && now >= look {
                self.agent.take_packet_ins(&mut self.plane);
                look = now + PACKET_INS_EVERY;
            }
            if self.plane.learns() && now >= learn {
                // What could not be is tried again, and told of, at the next tick.
                let _ = self.plane.learn();
                learn = now + LEARN_EVERY;
            }
            if now >= due {
                if let Some(dead) = self.plane.dead() {
                    let stats = Box::new(self.about.stats(&self.plane.last_report()));
                    // Its end would wait for the worker: the process is to end.
                    std::mem::forget(self);
                    return Err(RunError::Dead { dead, stats });
                }
                self.tick(now);
                due = Instant::now() + TICK;
            }
            self.tell_listeners();
            // Answers are on their way.
            self.plane.free_old_tables();
        }
        Ok(self.plane.stop()?)
    }

    /// What comes next; nothing if something is due before.
    fn next(&mut self, inbox: &Receiver<Inbound>, due: Instant) -> Result<Inbound, RecvTimeoutError> {
        match inbox.try_recv() {
            Ok(next) => return Ok(next),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        let until = due.min(self.agent.due().unwrap_or(due)).saturating_duration_since(Instant::now());
        let until = if self.plane.learns() { until.min(LEARN_EVERY) } else { until };
        let awake = self.agent.is_awake();
        let until = if awake { until.min(PACKET_INS_EVERY) } else { until };
        let Some(channels) = &mut self.channels else { return inbox.recv_timeout(until) };
        if awake {
            // What others ask is looked at when that is over: soon, for packets are looked for then.
            channels.attend(until);
            return inbox.recv_timeout(Duration::ZERO);
        }
        channels.leave();
        inbox.recv_timeout(until)
    }

    /// Tells those who listen at the control socket what controllers were told.
    fn tell_listeners(&mut self) {
        for event in std::mem::take(&mut self.agent.seen) {
            self.tell_event(&event);
        }
    }

    fn tell_event(&mut self, event: &Event) {
        self.events.tell(&describe(event, self.plane.names()));
    }

    /// What the configuration says in vain.
    pub(crate) fn warnings(&self) -> &[String] {
        self.tables.warnings()
    }

    /// What is known of it now.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn stats(&mut self) -> Result<Stats, String> {
        let report = self.plane.report().map_err(|error| error.to_string())?;
        Ok(self.about.stats(&report))
    }

    /// The same without its tables, which takes the same time whatever the number of flows.
    fn stats_without_tables(&mut self) -> Result<Stats, String> {
        let report = self.plane.report_without_tables().map_err(|error| error.to_string())?;
        Ok(self.about.stats(&report))
    }

    fn tick(&mut self, now: Instant) {
        self.agent.tick(&mut self.plane, now);
        match self.plane.tick() {
            Ok(events) => {
                self.trouble = None;
                for event in events {
                    self.agent.happened(&event, &mut self.plane);
                    self.tell_event(&event);
                }
            }
            Err(error) => {
                // Told once, not ten times a second.
                let error = error.to_string();
                if self.trouble.as_ref() != Some(&error) {
                    self.events.tell(&json!({ "kind": "trouble", "error": error }));
                }
                self.trouble = Some(error);
            }
        }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// What cannot be done and why; nothing was changed then.
    pub fn answer(&mut self, request: Request) -> Result<Answer, String> {
        if let Request::Capture { port, matching, received, sent, snap, count: _ } = request {
            let names = self.plane.names();
            let port = port.map(|port| self.port(&port)).transpose()?;
            let matching = text::matching(&matching, names)?;
            let both = !received && !sent;
            let (received, sent) = (received || both, sent || both);
            let filter = CaptureFilter { port, matching, received, sent, snap: snap as usize };
            return Ok(Answer::Capture(self.plane.capture(filter)));
        }
        if matches!(request, Request::Monitor {}) {
            return Ok(Answer::Monitor(self.events.listen()));
        }
        self.value(request).map(Answer::Value)
    }

    /// Answers a request whose answer is one value.
    fn value(&mut self, request: Request) -> Result<Value, String> {
        match request {
            Request::Version {} => Ok(json!({
                "weir": self.about.weir, "dpdk": self.about.dpdk, "protocol": PROTOCOL
            })),
            Request::Stats { without_tables: false } => document(&self.stats()?),
            Request::Stats { without_tables: true } => document(&self.stats_without_tables()?),
            Request::Show {} => document(&self.stats_without_tables()?.ports),
            Request::DumpTables {} => document(&self.stats()?.tables),
            Request::AddPort { .. } | Request::DelPort { .. } => self.change_ports(request),
            Request::ShowControllers {} => document(&self.controllers()),
            Request::Services {} => self.services(),
            Request::Service { service, action, argument } => {
                let answers = self.plane.command(&service, &action, &argument);
                answers.map(Value::Array).map_err(|error| error.to_string())
            }
            Request::Release { service } => {
                self.plane.release(&service).map(|()| Value::Null).map_err(|error| error.to_string())
            }
            Request::DumpConntrack { service, selection, limit } => {
                self.dump_connections(service, selection, limit)
            }
            Request::FlushConntrack { service, selection } => self.flush_connections(service, selection),
            Request::DumpFdb {} => self.dump_addresses(),
            Request::FlushFdb { vlan, port } => self.flush_addresses(vlan, port),
            Request::Trace { packet, frame, in_port, metadata } => {
                let (in_port, frame) = self.frame(packet, frame, in_port)?;
                Ok(self.trace(in_port, &frame, &metadata))
            }
            Request::Reload {} => self.reload(),
            Request::Stop {} => Ok(Value::Null),
            other => self.answer_about_tables(other),
        }
    }

    fn change_ports(&mut self, request: Request) -> Result<Value, String> {
        match request {
            Request::AddPort { name, spec, number, queues, descriptors } => {
                crate::config::check_name(&name).map_err(|reason| format!("port `{name}`: {reason}"))?;
                let free = |number: &PortNo| !self.ports.contains_key(number);
                let number = number.map(PortNo).or_else(|| (1..PortNo::MAX.0).map(PortNo).find(free));
                let queues = queues.unwrap_or(0);
                let descriptors = descriptors.unwrap_or(crate::config::DESCRIPTORS);
                let port = PortSpec { name, number, spec, queues, descriptors };
                let numbers = self.open(std::slice::from_ref(&port))?;
                Ok(json!({ "number": numbers.first().map(|number| number.0) }))
            }
            Request::DelPort { port } => {
                let number = self.port(&port)?;
                self.close(number)?;
                Ok(Value::Null)
            }
            _ => Ok(Value::Null), // `value` sends no other
        }
    }

    /// Opens ports, all or none. What comes in by one of them finds all of them open.
    fn open(&mut self, ports: &[PortSpec]) -> Result<Vec<PortNo>, String> {
        let ports = self.checked(ports)?;
        let numbers = self.plane.add_ports(&ports).map_err(|error| error.to_string())?;
        self.opened(&numbers, ports);
        Ok(numbers)
    }

    /// Ports as they are to be opened.
    pub(crate) fn checked(&self, ports: &[PortSpec]) -> Result<Vec<PortSpec>, String> {
        let ports: Vec<PortSpec> = ports.iter().map(|port| self.settings.queues_filled(port)).collect();
        for port in &ports {
            if let Some(number) = port.number
                && (number.0 == 0 || number.is_reserved())
            {
                return Err(format!("port `{}`: number {number} is not 1 to {}", port.name, PortNo::MAX));
            }
        }
        Ok(ports)
    }

    /// Remembers ports that are open.
    pub(crate) fn opened(&mut self, numbers: &[PortNo], ports: Vec<PortSpec>) {
        for (&number, port) in numbers.iter().zip(ports) {
            self.ports.insert(number, PortSpec { number: Some(number), ..port });
        }
    }

    /// Closes a port.
    fn close(&mut self, number: PortNo) -> Result<(), String> {
        self.plane.remove_port(number).map_err(|error| error.to_string())?;
        self.ports.remove(&number);
        Ok(())
    }

    /// The port that is open under this name or number.
    pub(crate) fn port(&self, text: &str) -> Result<PortNo, String> {
        let named = self.ports.iter().find(|(_, port)| port.name == text).map(|(number, _)| *number);
        let numbered = || text.parse().ok().map(PortNo).filter(|number| self.ports.contains_key(number));
        named.or_else(numbered).ok_or_else(|| {
            let names: Vec<&str> = self.ports.values().map(|port| port.name.as_str()).collect();
            if names.is_empty() {
                return format!("there is no port `{text}`; the switch has none");
            }
            let suggestion = weir_diagnostic::suggestion(text, names.iter().copied());
            format!("there is no port `{text}`{suggestion}; the ports are {}", names.join(", "))
        })
    }

    /// What names stand for, with ports that are to come.
    pub(crate) fn names_with(&self, ports: &[PortSpec]) -> Names {
        let mut names = self.plane.names().clone();
        for port in ports {
            if let Some(number) = port.number {
                names.add_port(&port.name, number);
            }
        }
        names
    }

    /// Applies changes of the tables.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) -> Result<(), String> {
        self.plane.apply(changes).map_err(|error| error.to_string())
    }

    /// Endpoints and connections, and what controllers may do.
    pub(crate) fn controllers(&self) -> Vec<ChannelStatus> {
        let mut status = self.channels.as_ref().map_or_else(Vec::new, Channels::status);
        for connection in status.iter_mut().flat_map(|endpoint| &mut endpoint.connections) {
            connection.role = self.agent.role(ConnectionId(connection.connection)).map(str::to_owned);
        }
        status
    }

    fn services(&mut self) -> Result<Value, String> {
        let stats = self.stats_without_tables()?;
        let services = stats.services.iter().map(|service| {
            let sum = |count: fn(&crate::stats::InstanceStats) -> u64| -> u64 {
                service.instances.iter().map(count).sum()
            };
            let quarantine = service.instances.iter().find_map(|instance| instance.quarantine.as_deref());
            json!({
                "name": service.name,
                "kind": service.kind,
                "about": weir_services::registered(&service.kind).map(|kind| kind.about),
                "packets": sum(|instance| instance.packets),
                "dropped": sum(|instance| instance.dropped),
                "panics": sum(|instance| instance.panics),
                "overruns": sum(|instance| instance.overruns),
                "memory": sum(|instance| instance.memory),
                "quarantine": quarantine,
            })
        });
        Ok(services.collect())
    }

    /// Reads the configuration again and applies what changed.
    fn reload(&mut self) -> Result<Value, String> {
        let settings = (self.loader)()?;
        self.reconfigure(settings)
    }
}

fn document(part: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(part).map_err(|error| error.to_string())
}

//! A rig: one DUT, wired up and running, that answers a method's trials.
//!
//! `wire` wires it up. Taking down is dropping: lab ports first, then the DUT, then the folder,
//! so that nothing is left behind whether the campaign ends, fails or is interrupted.

mod audit;
mod connected;
mod controlled;
mod expectations;
mod fed;
mod gate;
mod hold;
mod rest;
mod sink;
mod speed;
mod tune;
mod wire;

pub(crate) use audit::audit;
use fed::FedDut;
use rest::Rests;
pub(crate) use tune::Choice;

use crate::clock::Clock;
use crate::cores::{Cores, Seats};
use crate::nodes;
use crate::traffic::Traffic;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_cpu::{BpfLink, RealTime, Tsc};
use weir_dpdk::{Eal, PoolError, Port, PortError};
use weir_dut::folder::Folder;
use weir_dut::namespace::Namespace;
use weir_dut::process::Process;
use weir_dut::server;
use weir_dut::wiring::{External, Memif, Nic, Side, Veth, VethPairs, Vhost, WiringKind};
use weir_dut::{Adapter, Counters, DutError, Kind, RunningDut};
use weir_traffic::check::PassFrames;
use weir_traffic::{LONGEST_PASS, Script, Shape, Tester, TesterError};
use weir_trial::health::{Conduct, CoreHealth, Health, ThreadReading, ran_elsewhere, stolen};
use weir_trial::simulated::{SimulatedDut, Simulation};
use weir_trial::{
    ConnectionSpec, Control, DutReading, Frequency, Nf, Oracle, PacketCheck, Placement, Server, TrialResult,
    TrialSpec,
};
use weir_units::Nanos;

/// Packet buffers of the lab: both rings of both ports, caches and bursts, twice over.
const LAB_BUFFERS: u32 = 16_384;
/// What each further pair of ports takes, or queue of a pair: their rings, twice over.
const PAIR_BUFFERS: u32 = 8_192;

/// Packet buffers of the lab where the tester has so many pairs of ports, those of several queues once for each.
pub(crate) fn lab_buffers(pairs: u32) -> u32 {
    LAB_BUFFERS + PAIR_BUFFERS * (pairs.max(1) - 1)
}

/// How long the other side of a link may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(10);

/// Everything that tells one rig from another.
pub struct RigSetup<'a> {
    /// The DUT's adapter.
    pub adapter: &'static dyn Adapter,
    /// The device as the plan names it; several of them, where a chain's functions differ.
    pub device: &'a str,
    /// The variant of the device; empty for the usual one.
    pub variant: &'a str,
    /// What a search found before, and `variant` is from.
    pub(crate) choice: Option<&'a Choice>,
    /// The network function.
    pub nf: Nf,
    /// Where its parts run.
    pub placement: &'a Placement,
    /// How the DUT is reached.
    pub wiring: WiringKind,
    /// What the plan says about each wiring.
    pub wirings: &'a Wirings,
    /// What is sent, a trace a direction.
    pub traffic: &'a Traffic,
    /// How packets are spread over time.
    pub shape: Shape,
    /// Every how many packets one is stamped.
    pub stamp_every: NonZeroU32,
    /// Whether both sides use huge pages.
    pub huge_pages: bool,
    /// Who runs where.
    pub cores: Cores,
    /// The tester's cores.
    pub testers: &'a [usize],
    /// Both sides' cores; that of each forwarding process of the DUT, the host's first.
    pub seats: &'a Seats,
    /// Where the device runs on another machine over ssh: its core there, and that of all else.
    pub(crate) there: Option<(usize, usize)>,
    /// Over `fed`: how long the device is measured from its first packet on, before anything else; not
    /// at all when left out.
    pub from_start: Option<Nanos>,
}

impl<'a> RigSetup<'a> {
    /// The machine on which the device runs, over ssh.
    pub(crate) fn far(&self) -> Option<&'a Server> {
        self.placement.server.as_ref().filter(|server| matches!(server, Server::Ssh(_)))
    }
}

impl RigSetup<'_> {
    /// What the plan says of the device, where somebody else started it.
    pub(crate) fn external(&self) -> Option<&External> {
        (self.adapter.kind() == Kind::OnTheWire).then_some(&self.wirings.external)
    }

    /// What has to be connected to the lab's ends, in words, where somebody else started the device.
    pub(crate) fn to_connect(&self) -> Option<String> {
        let external = self.external()?;
        let ports = external.told(self.wiring, self.wirings.vhost, self.wirings.memif);
        Some(match self.adapter.to_connect(self.variant) {
            Some(more) => format!("{ports}; {more}"),
            None => ports,
        })
    }

    /// Queues of each port between the tester and the device.
    pub(crate) fn queues(&self) -> u16 {
        self.placement.queues.max(1) as u16 // MOST_QUEUES at most
    }

    /// The sides of `vhost` towards the tester: as the plan says, but that a host which wants to connect does, and so does a
    /// device of a graph.
    fn outer_vhost(&self) -> Vhost {
        let outer = match &self.placement.graph {
            Some(graph) => graph.outer(),
            None => self.placement.host.as_deref().into_iter().collect(),
        };
        let mut sides = outer.into_iter().filter_map(weir_dut::adapter).map(Adapter::hosts);
        match sides.find(|side| *side == Some(Side::Lab)).flatten() {
            Some(Side::Lab) if self.wirings.vhost.backend == Side::Dut => {
                Vhost { server: Side::Lab, ..self.wirings.vhost }
            }
            _ => self.wirings.vhost,
        }
    }
}

/// What a plan says about each wiring, in the words of the adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wirings {
    /// Sides of `vhost`.
    pub vhost: Vhost,
    /// Sides of `memif`.
    pub memif: Memif,
    /// The lab's ends of `veth`.
    pub veth: Veth,
    /// Ports of `nic`.
    pub nic: Nic,
    /// A device that somebody else started.
    pub external: External,
}

/// A rig that could not be wired up, or a trial that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The DUT.
    #[error(transparent)]
    Dut(#[from] DutError),
    /// A port of the lab.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Memory of the lab.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The tester.
    #[error(transparent)]
    Tester(#[from] TesterError),
    /// The trace.
    #[error(transparent)]
    Traffic(#[from] crate::traffic::TrafficError),
    /// The lab's sink of an audit could not be made.
    #[error(
        "the sink of an audit: {0}; free space in the folder for temporary files, or name another with TMPDIR"
    )]
    Sink(String),
    /// The DUT's cores could not be made as fast as its plan asks.
    #[error("`frequency`: {0}")]
    Frequency(String),
    /// A device that somebody else was to start did not come.
    #[error("no device came within {waited:?}: {told}")]
    Absent {
        /// What has to be connected to the lab, in words.
        told: String,
        /// Time waited.
        waited: Duration,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl RigError {
    /// Whether the whole campaign is to stop, not only this point.
    pub fn is_interrupt(&self) -> bool {
        match self {
            Self::Dut(error) => error.is_interrupt(),
            error => matches!(error, Self::Interrupted),
        }
    }
}

/// A DUT, wired up.
pub enum Rig {
    /// A process under real packets.
    Wired(Box<Wired>),
    /// A process that feeds itself.
    Fed(Box<FedDut>),
    /// Arithmetic.
    Simulated(Box<Simulation>),
}

/// Where a DUT lives; it must go first.
struct Home {
    folder: Folder,
    pairs: Option<Arc<VethPairs>>,
    /// That of another machine, where a namespace stands for it and its ports are there already.
    namespace: Option<Arc<Namespace>>,
    /// Held for as long as the lab's ends are to be polled.
    _polled: Vec<BpfLink>,
    /// Offloads that were set there, in words.
    offloads: Option<String>,
}

/// What both kinds of process have in common. Fields drop in order: the DUT before its home.
struct Device {
    dut: Box<dyn RunningDut>,
    /// How it started.
    start: String,
    home: Home,
    /// Raised when a trial must end at once: Ctrl-C, or the DUT died.
    stop: Arc<AtomicBool>,
    /// Raised by Ctrl-C alone.
    interrupted: Arc<AtomicBool>,
    /// Where the DUT forwards.
    core: u32,
    /// Whether several processes of it do.
    shares_core: bool,
    /// Who sits where, in words.
    seated: String,
    /// What the machine is on which it runs, in that machine's words, where it is another.
    server: Option<String>,
    /// How flows are spread over the queues of its ports, in words, where these have several.
    queues: Option<String>,
    /// On which nodes both sides and its memory are, in words, where its plan says.
    node: Option<String>,
    /// How fast its cores are, where its plan says.
    frequency: Option<Frequency>,
    /// Their clock, where that is set; it goes after the DUT.
    clock: Option<Arc<Clock>>,
    tsc: Tsc,
    rests: Rests,
}

/// A reading of a DUT's threads and conduct; what cannot be read is left out.
struct Watch {
    threads: Option<ThreadReading>,
    stolen: Option<Nanos>,
    conduct: Conduct,
}

/// A rig whose ports are linked to the DUT's: every wiring but `fed`.
pub struct Wired {
    tester: Tester,
    device: Device,
    nf: Nf,
    /// What connections through it say, once one was asked for.
    script: Option<Arc<Script>>,
    /// Whether the DUT must not see the lab's ports go while it forwards: memif's driver takes the
    /// memory away under a poller.
    dut_stops_first: bool,
}

/// The flags that end a trial early.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// A trial must end: raised by Ctrl-C and by a DUT that dies.
    pub stop: Arc<AtomicBool>,
    /// Ctrl-C was pressed.
    pub interrupted: Arc<AtomicBool>,
    /// [`Self::stop`] of a second device, measured in turns with the first.
    rival_stop: Arc<AtomicBool>,
}

impl Flags {
    /// Ctrl-C was pressed: whatever runs must end.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        self.rival_stop.store(true, Ordering::SeqCst);
    }

    /// The flags of the second of two devices measured in turns: the death of one leaves the other.
    pub(crate) fn of_rival(&self) -> Self {
        Self { stop: Arc::clone(&self.rival_stop), ..self.clone() }
    }

    /// Forgets that a device died, but never that Ctrl-C was pressed, be it at this very moment.
    pub(crate) fn rearm(&self) {
        self.stop.store(false, Ordering::SeqCst);
        if self.interrupted.load(Ordering::SeqCst) {
            self.stop.store(true, Ordering::SeqCst);
        }
    }
}

impl Rig {
    /// The simulated device: nothing to wire up.
    pub fn simulated(numbers: SimulatedDut) -> Self {
        Self::Simulated(Box::new(numbers.start()))
    }

    /// Wires up a DUT and starts it. `number` tells the ports of successive rigs apart.
    pub fn wire_up(
        eal: &'static Eal,
        setup: &RigSetup<'_>,
        number: u32,
        flags: &Flags,
    ) -> Result<Self, RigError> {
        flags.rearm();
        match setup.wiring {
            WiringKind::Fed => {
                let mut fed = wire::fed(setup, flags, &[])?;
                match setup.from_start {
                    Some(duration) => fed.begin(duration)?,
                    None => fed.settle()?,
                }
                Ok(Self::Fed(Box::new(fed)))
            }
            _ => Ok(Self::Wired(Box::new(wire::linked(eal, setup, number, flags)?))),
        }
    }

    /// Version and command line of the DUT.
    pub fn description(&self) -> String {
        match self {
            Self::Wired(rig) => rig.device.dut.description(),
            Self::Fed(rig) => match &rig.choice {
                Some(choice) => format!("{}; {}", rig.device.dut.description(), choice.says),
                None => rig.device.dut.description(),
            },
            Self::Simulated(_) => "arithmetic, no packets".to_owned(),
        }
    }

    /// The settings that a search found for the DUT.
    pub(crate) fn choice(&self) -> Option<&Choice> {
        match self {
            Self::Fed(rig) => rig.choice.as_ref(),
            Self::Wired(_) | Self::Simulated(_) => None,
        }
    }

    /// What configured the DUT: the name of each file that it was given, and its text; and under `start` how long
    /// that took, and its memory then.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        let device = match self {
            Self::Wired(rig) => &rig.device,
            Self::Fed(rig) => &rig.device,
            Self::Simulated(_) => return BTreeMap::new(),
        };
        let mut texts = device.home.folder.texts();
        texts.extend(device.dut.texts());
        texts.insert("start".to_owned(), device.start.clone());
        texts.insert("cores".to_owned(), device.seated.clone());
        texts.extend(device.home.offloads.clone().map(|says| ("offloads".to_owned(), says)));
        texts.extend(device.server.clone().map(|says| ("server".to_owned(), says)));
        texts.extend(device.queues.clone().map(|says| ("queues".to_owned(), says)));
        texts.extend(device.node.clone().map(|says| ("node".to_owned(), says)));
        texts.extend(device.fast().map(|says| ("frequency".to_owned(), says)));
        texts
    }

    /// How fast the DUT's cores are, in words; nothing where its plan does not say.
    pub(crate) fn fast(&self) -> Option<String> {
        match self {
            Self::Wired(rig) => rig.device.fast(),
            Self::Fed(rig) => rig.device.fast(),
            Self::Simulated(_) => None,
        }
    }

    /// Freezes the DUT, so that another one has its core; a simulated one needs none.
    pub(crate) fn pause(&self) {
        self.processes().into_iter().for_each(Process::pause);
    }

    /// Lets a frozen DUT go on.
    pub(crate) fn resume(&self) {
        self.processes().into_iter().for_each(Process::resume);
    }

    /// Waits until a device that feeds itself, frozen until now, is settled again; others have nothing to learn
    /// while they are idle.
    pub(crate) fn settle_again(&mut self) -> Result<(), RigError> {
        match self {
            Self::Fed(rig) => rig.settle_again(),
            Self::Wired(_) | Self::Simulated(_) => Ok(()),
        }
    }

    /// Whether another trial would be the same one: the device was measured as it started.
    pub(crate) fn is_measured_once(&self) -> bool {
        matches!(self, Self::Fed(rig) if rig.is_measured_once())
    }

    fn processes(&self) -> Vec<&Process> {
        match self {
            Self::Wired(rig) => rig.device.dut.processes(),
            Self::Fed(rig) => rig.device.dut.processes(),
            Self::Simulated(_) => Vec::new(),
        }
    }

    /// Takes everything down, in order.
    pub fn take_down(self) -> Result<(), RigError> {
        match self {
            Self::Wired(rig) => {
                let Wired { tester, device, dut_stops_first, .. } = *rig;
                if dut_stops_first {
                    device.dut.stop()?;
                    drop(tester);
                } else {
                    drop(tester);
                    device.dut.stop()?;
                }
            }
            Self::Fed(rig) => rig.device.dut.stop()?,
            Self::Simulated(_) => {}
        }
        Ok(())
    }
}

/// The longest trial at real-time priority. Of each second the kernel gives ordinary threads that wait 50 ms of
/// a core (its fair server): a shorter trial ends before, a longer one would lose a twentieth of its time.
const MOST_REAL_TIME: Nanos = Nanos(900_000_000);

/// Cores in words.
fn listed(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How a device started: `ready after 0.61 s, with 84 MiB of resident memory`.
fn started(took: Duration, resident: Option<u64>) -> String {
    let memory = resident.map_or_else(String::new, |bytes| {
        format!(", with {} MiB of resident memory (without huge pages)", bytes >> 20)
    });
    format!("ready after {:.2} s{memory}", took.as_secs_f64())
}

impl Device {
    fn new(
        (dut, took): (Box<dyn RunningDut>, Duration),
        setup: &RigSetup<'_>,
        home: Home,
        flags: &Flags,
    ) -> Result<Self, RigError> {
        let Flags { stop, interrupted, .. } = flags.clone();
        let resident = dut.processes().into_iter().filter_map(Process::resident).reduce(|sum, one| sum + one);
        let start = started(took, resident);
        let frequency = setup.placement.frequency;
        let node = setup.placement.node.map(|_| {
            let processes: Vec<u32> = dut.processes().into_iter().map(Process::pid).collect();
            nodes::says(Path::new("/"), setup.seats, &processes)
        });
        let clock = speed::clock(dut.as_ref(), setup)?;
        Ok(Self {
            dut,
            start,
            home,
            stop,
            interrupted,
            core: setup.cores.dut as u32,
            shares_core: setup.seats.shares(),
            seated: match (setup.there, setup.far()) {
                (Some((core, rest)), Some(server)) => {
                    let testers = listed(setup.testers);
                    format!("tester on {testers}; at {server}: forwarding on {core}, all else on {rest}")
                }
                _ => setup.seats.says(),
            },
            server: setup.placement.server.as_ref().map(|server| match server::facts(server) {
                Ok(facts) => format!("{server}\n{}", facts.text),
                Err(error) => error,
            }),
            queues: None,
            node,
            frequency,
            clock,
            tsc: Tsc::get(),
            rests: Rests::new(),
        })
    }

    /// Waits for all links; ends early when the DUT dies or Ctrl-C is pressed.
    fn wait_links(&mut self, ports: &[Port], patience: Duration) -> Result<(), RigError> {
        let end = Instant::now() + patience;
        for port in ports {
            while let Err(error) = port.wait_link(Duration::from_millis(100)) {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(self.reason());
                }
                if Instant::now() > end {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Asleep most of the time, so that the DUT's core is not disturbed; ends early when the DUT
    /// dies or Ctrl-C is pressed.
    fn sleep_until(&mut self, end: Instant) -> Result<(), RigError> {
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.reason());
            }
            std::thread::sleep(left.min(Duration::from_millis(250)));
        }
        Ok(())
    }

    /// Why a stop flag was raised.
    fn reason(&mut self) -> RigError {
        if self.interrupted.load(Ordering::Relaxed) {
            return RigError::Interrupted;
        }
        self.dut.ended().map_or(RigError::Tester(TesterError::Stopped), RigError::Dut)
    }

    /// Real-time priority for this thread, for those that it starts, the tester's among them, and for the
    /// DUT's forwarding threads alike; nothing where the system does not allow it, or a side would not
    /// have it, and where the trial is so long that the kernel would take the cores back in its midst.
    fn real_time(&self, duration: Nanos) -> Option<RealTime> {
        if duration > MOST_REAL_TIME {
            return None;
        }
        // Packets that pass through the kernel may be carried by its ordinary threads, which would wait.
        let through_kernel = self.home.pairs.is_some();
        let threads: Vec<u32> = self.dut.threads().into_iter().map(|(_, thread)| thread).collect();
        // Of several at real-time priority on one core, the first would keep it.
        if through_kernel || threads.is_empty() || self.shares_core {
            return None;
        }
        RealTime::raise(&threads).ok()
    }

    /// Lets ordinary threads have their time of the cores before a trial of this length.
    fn rest(&mut self, duration: Nanos) {
        let rest = self.rests.before(Instant::now(), duration.duration());
        if !rest.is_zero() {
            std::thread::sleep(rest);
            self.rests.before(Instant::now(), duration.duration());
        }
    }

    /// The threads whose core is theirs: of several processes on one core each waits for the others, which is no
    /// disturbance.
    fn watched_threads(&self) -> Vec<(u32, u32)> {
        if self.shares_core { Vec::new() } else { self.dut.threads() }
    }

    /// Reads what became of the DUT's threads so far.
    fn watch(&self) -> Watch {
        let threads = self.watched_threads();
        let read = |sum: ThreadReading, (process, thread): &(u32, u32)| {
            ThreadReading::of(*process, *thread).map(|reading| sum + reading)
        };
        let sum = threads.iter().try_fold(ThreadReading::default(), read);
        Watch {
            threads: sum.filter(|_| !threads.is_empty()),
            stolen: stolen(self.core),
            conduct: Conduct { elsewhere: ran_elsewhere(&threads), ..self.dut.conduct() },
        }
    }

    /// What became of them since an earlier [`Self::watch`].
    fn watched(&self, before: Watch, health: &mut Health) {
        let after = self.watch();
        let threads = before.threads.zip(after.threads);
        health.dut =
            threads.map(|threads| CoreHealth::between(self.core, threads, (before.stolen, after.stolen)));
        health.conduct = Conduct {
            lines: after.conduct.lines.saturating_sub(before.conduct.lines),
            children: after.conduct.children,
            elsewhere: Nanos(after.conduct.elsewhere.0.saturating_sub(before.conduct.elsewhere.0)),
        };
    }

    /// What the DUT did between two readings. The CPU time of a forwarder that polls says something
    /// about its packets only while it is never idle.
    fn reading(&self, before: Counters, after: Counters, saturated: bool) -> DutReading {
        let received = after.received.saturating_sub(before.received);
        let cpu = Nanos(after.cpu.0.saturating_sub(before.cpu.0));
        let cycles = self.tsc.hz() * cpu.seconds() / received as f64;
        DutReading {
            received,
            sent: after.sent.saturating_sub(before.sent),
            elapsed: after.at.duration_since(before.at).into(),
            cpu,
            cycles_per_packet: (saturated && received > 0 && cpu.0 > 0).then_some(cycles),
            details: after.details_since(&before),
        }
    }
}

impl Rig {
    /// Runs one trial.
    pub(crate) fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, RigError> {
        self.measure_under(spec, None)
    }

    /// The same, with a controller connected to the device where one is asked for and the device has flow entries.
    pub(crate) fn measure_under(
        &mut self,
        spec: TrialSpec,
        control: Option<Control>,
    ) -> Result<TrialResult, RigError> {
        match self {
            Self::Wired(rig) => {
                let mut result = match control {
                    None => rig.measure(spec, || {})?,
                    Some(control) => rig.measure_controlled(spec, control)?,
                };
                if !rig.device.dut.has_counters() {
                    result.dut = None;
                }
                Ok(result)
            }
            Self::Fed(rig) => rig.measure(spec),
            Self::Simulated(simulation) => Ok(simulation.run(spec)),
        }
    }

    /// Runs a trial of connections; as packets, where there is no wire.
    pub(crate) fn measure_connections(&mut self, asked: ConnectionSpec) -> Result<TrialResult, RigError> {
        match self {
            Self::Wired(rig) => {
                let mut result = rig.measure_connections(asked)?;
                if !rig.device.dut.has_counters() {
                    result.dut = None;
                }
                Ok(result)
            }
            Self::Fed(_) | Self::Simulated(_) => self.measure(asked.trial()),
        }
    }

    /// Sends nothing for so long, that the device may empty its buffers.
    pub(crate) fn rest(&mut self, time: Nanos) -> Result<(), RigError> {
        match self {
            Self::Wired(rig) => rig.device.sleep_until(Instant::now() + time.duration()),
            Self::Fed(rig) => rig.device.sleep_until(Instant::now() + time.duration()),
            Self::Simulated(_) => Ok(()),
        }
    }
}

impl Wired {
    /// Has a sample of every trial to come compared.
    pub(crate) fn compare_with(&mut self, oracle: Arc<Oracle>) {
        self.tester.compare_with(oracle);
    }

    /// Runs the untimed pass, and has a sample of every trial to come compared.
    pub(crate) fn verify(
        &mut self,
        oracle: Arc<Oracle>,
        frames: Vec<PassFrames>,
    ) -> Result<PacketCheck, RigError> {
        self.tester.compare_with(Arc::clone(&oracle));
        match self.tester.verify(oracle, frames, LONGEST_PASS, &self.device.stop) {
            Err(TesterError::Stopped) => Err(self.device.reason()),
            checked => Ok(checked?),
        }
    }

    /// Runs one trial, and says so when it begins.
    fn measure(&mut self, spec: TrialSpec, begins: impl FnOnce()) -> Result<TrialResult, RigError> {
        self.measure_by(spec, begins, |tester, stop| tester.run(spec, stop))
    }

    /// The same with a trial that the tester runs so.
    fn measure_by(
        &mut self,
        spec: TrialSpec,
        begins: impl FnOnce(),
        run: impl FnOnce(&mut Tester, &Arc<AtomicBool>) -> Result<TrialResult, TesterError>,
    ) -> Result<TrialResult, RigError> {
        let began = Instant::now();
        let device = &mut self.device;
        device.rest(spec.duration);
        let before = device.dut.counters().map_err(|error| device.dut.ended().unwrap_or(error))?;
        let real_time = device.real_time(spec.duration);
        let began_trial = Instant::now();
        let mut hold = device.hold_back()?;
        let watch = device.watch();
        self.tester.watch(device.excused_threads());
        begins();
        let ran = run(&mut self.tester, &device.stop).map(|mut result| {
            result.health.real_time = real_time.is_some();
            device.watched(watch, &mut result.health);
            Device::held(hold.take(), &mut result.health);
            result
        });
        drop(hold);
        // Of a DUT that is held back nobody looks at each of its waits.
        let waited = self.tester.waited().filter(|_| !device.is_held_back());
        if real_time.is_some() {
            drop(real_time);
            device.rests.trial(began_trial.elapsed(), Instant::now());
        }
        let mut result = match ran {
            Ok(result) => result,
            Err(TesterError::Stopped) => return Err(device.reason()),
            Err(error) => return Err(error.into()),
        };
        // What they waited before its first packet is not of the trial.
        if let (Some(dut), Some(waited)) = (&mut result.health.dut, waited) {
            dut.waited = waited;
        }
        let after = device.dut.counters().map_err(|error| device.dut.ended().unwrap_or(error))?;
        result.stages = after.stages_since(&before);
        result.dut = Some(device.reading(before, after, false));
        result.overhead = Nanos(Nanos::from(began.elapsed()).0.saturating_sub(result.elapsed.0));
        Ok(result)
    }
}

//! A rig: one DUT, wired up and running, that answers a method's trials.
//!
//! `wire` wires it up. Taking down is dropping: lab ports first, then the DUT, then the folder,
//! so that nothing is left behind whether the campaign ends, fails or is interrupted.

mod audit;
mod connected;
mod controlled;
mod device;
mod fed;
mod gate;
mod hold;
mod open;
mod rest;
mod speed;
mod tune;
mod wire;
mod wired;

pub(crate) use audit::audit;
use device::{Device, Home};
use fed::FedDut;
pub(crate) use tune::Choice;
pub(crate) use wired::Wired;

use crate::cores::{Cores, Seats};
use crate::traffic::Traffic;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_dpdk::{Eal, PoolError, PortError};
use weir_dut::process::Process;
use weir_dut::wiring::{External, Memif, Nic, Side, Veth, Vhost, WiringKind};
use weir_dut::{Adapter, DutError, Kind};
use weir_simulated::{SimulatedDut, Simulation};
use weir_traffic::{Shape, TesterError};
use weir_trial::{ConnectionSpec, Control, Nf, Placement, Server, TrialResult, TrialSpec};
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
                if let Some(duration) = setup.from_start {
                    fed.begin(duration)?;
                }
                Ok(Self::Fed(Box::new(fed)))
            }
            _ => Ok(Self::Wired(Box::new(wire::linked(eal, setup, number, flags)?))),
        }
    }

    /// Waits until a device that feeds itself may be measured, where it is not measured from its first packet on;
    /// `told` hears why it may not yet.
    pub(crate) fn settle(&mut self, told: &mut dyn FnMut(&str)) -> Result<(), RigError> {
        match self {
            Self::Fed(rig) if !rig.is_measured_once() => rig.settle(told),
            Self::Fed(_) | Self::Wired(_) | Self::Simulated(_) => Ok(()),
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
                    None => rig.measure(spec)?,
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

    /// Takes everything down, in order.
    pub fn take_down(self) -> Result<(), RigError> {
        match self {
            Self::Wired(rig) => {
                let Wired { tester, mut device, dut_stops_first, .. } = *rig;
                // The tester's ports would wait without end for one that hangs.
                let mut hangs = || device.dut.counters().is_err();
                if dut_stops_first || hangs() {
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

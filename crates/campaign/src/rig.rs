//! A rig: one DUT, wired up and running, that answers a method's trials.
//!
//! Wiring up takes this order: folder, captures (for `fed`), whichever side has the vhost back end,
//! the other side, links. Taking down is dropping: lab ports first, then the DUT, then the folder,
//! so that nothing is left behind whether the campaign ends, fails or is interrupted.

use crate::cores::Cores;
use crate::knock::Knocker;
use crate::traffic::Traffic;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_dpdk::{Eal, Pool, PoolError, Port, PortConfig, PortError, Tsc};
use weir_dut::folder::Folder;
use weir_dut::wiring::{Fed, Side, Vhost, WiringKind};
use weir_dut::{Adapter, Counters, DutError, RunningDut, StartRequest};
use weir_traffic::{DirectionSetup, Sender, Shape, Tester, TesterError};
use weir_trial::simulated::{SimulatedDut, Simulation};
use weir_trial::{DutReading, Measurer, Nf, TrialResult, TrialSpec};
use weir_units::Nanos;

/// Packet buffers of the lab: both rings of both ports, caches and bursts, twice over.
pub(crate) const LAB_BUFFERS: u32 = 16_384;

/// How long the other side of a link may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(10);

/// Everything that tells one rig from another.
pub struct RigSetup<'a> {
    /// The DUT's adapter.
    pub adapter: &'static dyn Adapter,
    /// The network function.
    pub nf: Nf,
    /// How the DUT is reached.
    pub wiring: WiringKind,
    /// Sides of the `vhost` wiring.
    pub vhost: Vhost,
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
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl RigError {
    /// Whether the whole campaign is to stop, not only this point.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Dut(DutError::Interrupted { .. }))
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

/// What both kinds of process have in common. Fields drop in order: the DUT before its folder.
struct Device {
    dut: Box<dyn RunningDut>,
    _folder: Folder,
    /// Raised when a trial must end at once: Ctrl-C, or the DUT died.
    stop: Arc<AtomicBool>,
    /// Raised by Ctrl-C alone.
    interrupted: Arc<AtomicBool>,
    tsc: Tsc,
}

/// The `vhost` rig.
pub struct Wired {
    tester: Tester,
    device: Device,
}

/// The `fed` rig.
pub struct FedDut {
    device: Device,
}

/// The flags that end a trial early.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// A trial must end: raised by Ctrl-C and by a DUT that dies.
    pub stop: Arc<AtomicBool>,
    /// Ctrl-C was pressed.
    pub interrupted: Arc<AtomicBool>,
}

impl Flags {
    /// Forgets that a device died, but never that Ctrl-C was pressed, be it at this very moment.
    fn rearm(&self) {
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
            WiringKind::Vhost => Ok(Self::Wired(Box::new(wire_vhost(eal, setup, number, flags)?))),
            WiringKind::Fed => Ok(Self::Fed(Box::new(wire_fed(eal, setup, flags)?))),
        }
    }

    /// Version and command line of the DUT.
    pub fn description(&self) -> String {
        match self {
            Self::Wired(rig) => rig.device.dut.description(),
            Self::Fed(rig) => rig.device.dut.description(),
            Self::Simulated(_) => "arithmetic, no packets".to_owned(),
        }
    }

    /// Takes everything down, in order.
    pub fn take_down(self) -> Result<(), RigError> {
        match self {
            Self::Wired(rig) => {
                let Wired { tester, device } = *rig;
                drop(tester);
                device.dut.stop()?;
            }
            Self::Fed(rig) => rig.device.dut.stop()?,
            Self::Simulated(_) => {}
        }
        Ok(())
    }
}

fn request<'a>(
    setup: &RigSetup<'a>,
    ports: &'a [String],
    buffers: u32,
    folder: &'a Folder,
    flags: &Flags,
) -> StartRequest<'a> {
    StartRequest {
        nf: setup.nf,
        ports,
        core: setup.cores.dut,
        control_core: setup.cores.control,
        huge_pages: setup.huge_pages,
        buffers,
        max_frame: setup.traffic.max_frame(),
        folder,
        alarm: Arc::clone(&flags.stop),
    }
}

fn wire_vhost(
    eal: &'static Eal,
    setup: &RigSetup<'_>,
    number: u32,
    flags: &Flags,
) -> Result<Wired, RigError> {
    let folder = Folder::new()?;
    let pool = Pool::new(eal, LAB_BUFFERS, setup.traffic.max_frame())?;
    let lab_specs = setup.vhost.ports(Side::Lab, &folder, number);
    let dut_specs = setup.vhost.ports(Side::Dut, &folder, 0);
    let config = PortConfig { max_frame: setup.traffic.max_frame(), ..PortConfig::default() };
    // A port that waits for its peer to connect may take a second: Ctrl-C counts between them.
    let open_one = |spec: &String| match flags.interrupted.load(Ordering::Relaxed) {
        true => Err(RigError::Interrupted),
        false => Port::open(spec, config, &pool).map_err(RigError::Port),
    };
    let open = || lab_specs.iter().map(open_one).collect::<Result<Vec<_>, _>>();
    let request = request(setup, &dut_specs, 0, &folder, flags);
    let (mut ports, dut) = if setup.vhost.dut_first() {
        let mut dut = setup.adapter.start(&request)?;
        let lab_listens = setup.vhost.server == Side::Lab;
        let sockets = if lab_listens { setup.vhost.sockets(&folder).to_vec() } else { Vec::new() };
        let knocker = Knocker::start(sockets, Arc::clone(&flags.stop), LINK_PATIENCE);
        let opened = open();
        let knocked = knocker.end();
        (opened.map_err(|error| unopened(error, knocked, dut.as_mut(), flags))?, dut)
    } else {
        let ports = open()?;
        (ports, setup.adapter.start(&request)?)
    };
    let mut device = Device::new(eal, dut, folder, flags);
    device.wait_links(&ports)?;
    let (mut receivers, mut senders) = (Vec::new(), Vec::new());
    for (receiver, sender) in ports.iter_mut().filter_map(Port::take_queue) {
        receivers.push(receiver);
        senders.push(sender);
    }
    let mut directions = Vec::new();
    for ((from, tx), source) in senders.into_iter().enumerate().zip(setup.traffic.sources()?) {
        let sender = Sender::new(source, tx, &pool, setup.shape, setup.stamp_every, setup.traffic.seed());
        directions.push(DirectionSetup { sender, to: 1 - from });
    }
    Ok(Wired { tester: Tester::new(eal, setup.cores.tester, ports, receivers, directions), device })
}

/// Why the lab could not open its ports to a DUT that was there before: the cause, not its effect.
fn unopened(error: RigError, knocked: bool, dut: &mut dyn RunningDut, flags: &Flags) -> RigError {
    if flags.interrupted.load(Ordering::Relaxed) {
        return RigError::Interrupted;
    }
    match (dut.ended(), error) {
        (Some(ended), _) => RigError::Dut(ended),
        (None, RigError::Port(PortError::Attach { port, .. })) if knocked => {
            RigError::Port(PortError::NoLink { port, waited: LINK_PATIENCE })
        }
        (None, error) => error,
    }
}

fn wire_fed(eal: &'static Eal, setup: &RigSetup<'_>, flags: &Flags) -> Result<FedDut, RigError> {
    let folder = Folder::new()?;
    let (captures, packets) = setup.traffic.write_captures(&folder)?;
    let fed = Fed::new(captures, packets)?;
    let ports = fed.ports();
    let dut = setup.adapter.start(&request(setup, &ports, fed.buffers(), &folder, flags))?;
    Ok(FedDut { device: Device::new(eal, dut, folder, flags) })
}

impl Device {
    fn new(eal: &'static Eal, dut: Box<dyn RunningDut>, folder: Folder, flags: &Flags) -> Self {
        let Flags { stop, interrupted } = flags.clone();
        Self { dut, _folder: folder, stop, interrupted, tsc: Tsc::get(eal) }
    }

    /// Waits for all links; ends early when the DUT dies or Ctrl-C is pressed.
    fn wait_links(&mut self, ports: &[Port]) -> Result<(), RigError> {
        let end = Instant::now() + LINK_PATIENCE;
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
            details: Default::default(),
        }
    }
}

impl Measurer for Rig {
    type Error = RigError;

    fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, RigError> {
        match self {
            Self::Wired(rig) => rig.measure(spec),
            Self::Fed(rig) => rig.measure(spec),
            Self::Simulated(simulation) => Ok(simulation.run(spec)),
        }
    }

    fn rest(&mut self, time: Nanos) -> Result<(), RigError> {
        match self {
            Self::Wired(rig) => rig.device.sleep_until(Instant::now() + time.duration()),
            Self::Fed(rig) => rig.device.sleep_until(Instant::now() + time.duration()),
            Self::Simulated(_) => Ok(()),
        }
    }
}

impl Wired {
    fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, RigError> {
        let began = Instant::now();
        let device = &mut self.device;
        let before = device.dut.counters().map_err(|error| device.dut.ended().unwrap_or(error))?;
        let mut result = match self.tester.run(spec, &device.stop) {
            Ok(result) => result,
            Err(TesterError::Stopped) => return Err(device.reason()),
            Err(error) => return Err(error.into()),
        };
        let after = device.dut.counters()?;
        result.dut = Some(device.reading(before, after, false));
        result.overhead = Nanos(Nanos::from(began.elapsed()).0.saturating_sub(result.elapsed.0));
        Ok(result)
    }
}

impl FedDut {
    fn measure(&mut self, spec: TrialSpec) -> Result<TrialResult, RigError> {
        let began = Instant::now();
        let device = &mut self.device;
        let before = device.dut.counters()?;
        device.sleep_until(before.at + spec.duration.duration())?;
        let after = device.dut.counters()?;
        let reading = device.reading(before, after, true);
        Ok(TrialResult {
            elapsed: reading.elapsed,
            overhead: Nanos(Nanos::from(began.elapsed()).0.saturating_sub(reading.elapsed.0)),
            dut: Some(reading),
            ..TrialResult::new(spec)
        })
    }
}

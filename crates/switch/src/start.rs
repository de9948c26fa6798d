//! Starting a switch: DPDK, the datapath, its tables and ports, and the ways to reach it.

use crate::http::{MetricsAt, MetricsServer};
use crate::plane::Ended;
use crate::socket::ControlSocket;
use crate::switch::{About, Inbound, Loader, RunError, Switch};
use crate::{ConfineError, Confinement, Kept, Settings, Stats};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_agent::channel::ChannelError;
use weir_agent::private::SocketError;
use weir_cpu::Tsc;
use weir_datapath::{ControlError, Datapath};
use weir_dpdk::{Eal, EalError, RingEnd, Shared, SharedError};

/// Requests that wait for the switch at most; who asks when so many wait, waits too.
const WAITING: usize = 64;

/// Why a switch did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// DPDK.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// The memory of another process.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// Rights that could not be given up.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The datapath.
    #[error("the datapath did not start: {0}")]
    Datapath(#[from] ControlError),
    /// Flows, groups, meters or ports.
    #[error("{0}")]
    Configuration(String),
    /// Connections with controllers.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The metrics endpoint.
    #[error(transparent)]
    Metrics(#[from] std::io::Error),
}

/// A switch that runs, and the ways to reach it.
pub struct Running {
    switch: Switch<Datapath>,
    inbox: Receiver<Inbound>,
    asks: SyncSender<Inbound>,
    control: Option<ControlSocket>,
    metrics: Option<MetricsServer>,
    about: About,
}

/// How a switch ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The last ledger.
    pub stats: Stats,
    /// Packet buffers that did not come back. Anything but 0 is a fault.
    pub buffers_missing: u32,
}

/// Starts a switch. `loader` reads the configuration again when it is to be reloaded; `weir` is the
/// program's version.
///
/// # Errors
/// What is wrong, before a packet was received.
pub fn start(settings: Settings, loader: Loader, weir: &str) -> Result<Running, StartError> {
    let (control, metrics) = (settings.control.clone(), settings.metrics.clone());
    let memory = Memory::of(&settings)?;
    let (asks, inbox) = sync_channel(WAITING);
    // Whoever finds the address taken should not first have to wait for ports.
    let control = control.map(|path| ControlSocket::listen(&path, asks.clone())).transpose()?;
    let metrics = metrics.map(|at| MetricsServer::listen(&at, asks.clone())).transpose()?;
    let about = About { weir: weir.to_owned(), dpdk: Eal::version(), tsc_hz: Tsc::get().hz() };
    let config = settings.datapath(drawn());
    let datapath = match memory {
        Memory::Own(eal) => Datapath::start(eal, config)?,
        Memory::Others(shared) => Datapath::start_shared(*shared, config)?,
    };
    let mut switch =
        Switch::new(datapath, settings, loader, about.clone()).map_err(StartError::Configuration)?;
    // A controller finds the tables as they were configured.
    switch.connect(asks.clone())?;
    Ok(Running { switch, inbox, asks, control, metrics, about })
}

/// Where packets are kept.
enum Memory {
    Own(&'static Eal),
    Others(Box<Shared>),
}

impl Memory {
    /// Starts DPDK. Before other threads start, which are to see the same files as this one.
    fn of(settings: &Settings) -> Result<Self, StartError> {
        let Some(folder) = &settings.attach else { return Ok(Self::Own(Eal::init(settings.eal())?)) };
        let end = |spec: &str| {
            spec.parse::<RingEnd>().map_err(|_| {
                StartError::Configuration(format!(
                    "port `{spec}` is no end of rings, and devices are of the process that owns the memory; write \
                     ring:N:near or ring:N:far"
                ))
            })
        };
        let ends = settings.ports.iter().map(|port| end(&port.spec)).collect::<Result<Vec<_>, _>>()?;
        let shared = Shared::join(folder, "weir switch", &ends)?;
        Confinement::joined(settings)?;
        Ok(Self::Others(Box::new(shared)))
    }
}

/// A seed that nobody can guess.
pub(crate) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Running {
    /// Where requests are to be sent.
    pub fn asks(&self) -> SyncSender<Inbound> {
        self.asks.clone()
    }

    /// The ledger.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn stats(&mut self) -> Result<Stats, String> {
        self.switch.stats()
    }

    /// Gives up what only the start needed: the rest of the process's life is for packets and requests.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn confine(&mut self, confinement: Confinement) -> Result<Kept, ConfineError> {
        let plane = &self.switch.plane;
        confinement.finish(|act| plane.on_each_worker(act).map_err(|error| error.to_string()))
    }

    /// What the configuration says in vain.
    pub fn warnings(&self) -> &[String] {
        self.switch.warnings()
    }

    /// The control socket.
    pub fn control(&self) -> Option<&std::path::Path> {
        self.control.as_ref().map(ControlSocket::path)
    }

    /// Where controllers may connect.
    pub fn openflow(&self) -> Vec<String> {
        self.switch.controllers().into_iter().filter_map(|endpoint| endpoint.address).collect()
    }

    /// Where metrics are.
    pub fn metrics(&self) -> Option<&MetricsAt> {
        self.metrics.as_ref().map(MetricsServer::at)
    }

    /// Serves until told to stop.
    ///
    /// # Errors
    /// A worker that died, or does not answer at the end.
    pub fn run(self) -> Result<Finished, RunError> {
        // Without a sender of its own, the switch also ends when nobody is left who could ask.
        let Self { switch, inbox, asks, control, metrics, about } = self;
        drop(asks);
        let ended = switch.run(&inbox);
        drop(inbox);
        drop((control, metrics));
        let Ended { report, buffers_missing } = ended?;
        Ok(Finished { stats: about.stats(&report), buffers_missing })
    }
}

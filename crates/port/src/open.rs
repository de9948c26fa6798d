//! Opening a port, of whatever kind, by its spec.
//!
//! Opening and closing take milliseconds to a second and DPDK's process-wide lock: off the packet path.

use crate::af_packet::{self, SocketSpec, Watch};
use crate::apart::{self, ApartSpec, Supervisor};
use crate::fault::{self, FaultSpec, Faults};
use crate::spec::{Spec, TraceSpec};
use crate::trace::{Count, Replay, Sink};
use crate::{Rx, TraceRx, TraceTx, Tx};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use weir_cpu::Tsc;
use weir_dpdk::{
    Headers, MarkError, MarkRule, Pool, Port, PortConfig, PortStats, RingEnd, Shared, SocketError,
};

/// A port that could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PortError {
    /// A spec that makes no sense.
    #[error("port `{port}`: {reason}")]
    Spec {
        /// As asked for.
        port: String,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// A capture that cannot be replayed or written.
    #[error("trace port: {}: {reason}", file.display())]
    Trace {
        /// The capture.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An interface whose sockets cannot be opened.
    #[error("af_packet port: {0}")]
    Socket(#[from] SocketError),
    /// A port of an untrusted peer, of which the helper says why not.
    #[error("untrusted port `{port}`: {reason}")]
    Apart {
        /// DPDK's string of it.
        port: String,
        /// What is wrong.
        reason: String,
    },
    /// What DPDK says.
    #[error(transparent)]
    Dpdk(#[from] weir_dpdk::PortError),
}

/// An open port. It is closed when it and all its queues are dropped.
#[derive(Debug)]
pub struct OpenPort {
    spec: String,
    device: Device,
    queues: Vec<(Rx, Tx)>,
    count: u16,
}

#[derive(Debug)]
enum Device {
    Dpdk(Port),
    Socket(Watch),
    Apart(Supervisor),
    Ring,
    Null,
    Trace { received: Vec<Arc<Count>>, sent: Vec<Arc<Count>>, sink: Option<Sink> },
    Fault { inner: Box<OpenPort>, faults: Vec<Arc<Faults>> },
}

/// Opens a port that receives into `pool`.
///
/// The spec is an EAL vdev string (`net_vhost0,iface=PATH`), a PCI address, `af_packet:INTERFACE`, `null`,
/// `trace:[RX][,tx=TX.pcap][,loop][,rate=RATE]` (RX is a capture or a lap), `untrusted:[core=N:]SPEC`, whose driver runs in a process of its
/// own, or `fault:FAULTS:SPEC`, which is another of them that does wrong on purpose; an end of rings is opened by
/// [`open_ring`]. Where a driver has fewer queues than
/// asked for, the port gets as many as it has: [`OpenPort::queues`] says how many.
///
/// # Errors
/// A spec or capture that makes no sense, or what DPDK says.
pub fn open(spec: &str, config: PortConfig, pool: &Pool) -> Result<OpenPort, PortError> {
    let config = PortConfig { queues: config.queues.max(1), ..config };
    let (device, queues) = match Spec::parse(spec)? {
        Spec::Null => (Device::Null, (0..config.queues).map(|_| (Rx::Null, Tx::Null)).collect()),
        Spec::Trace(trace) => open_trace(&trace, config, pool)?,
        Spec::Dpdk => open_dpdk(spec, config, pool)?,
        Spec::Socket(socket) => open_socket(&socket, config, pool)?,
        Spec::Apart(port) => open_apart(&port, config, pool)?,
        Spec::Ring(_) => {
            let reason = "an end of rings is of memory that another process shares (`weir switch --attach`)";
            return Err(PortError::Spec { port: spec.to_owned(), reason: reason.to_owned() });
        }
        Spec::Fault(faults, inner) => open_fault(&faults, &inner, config, pool)?,
    };
    let count = queues.len() as u16; // at most config.queues
    Ok(OpenPort { spec: spec.to_owned(), device, queues, count })
}

/// Opens an end of rings (`ring:N:near`, `ring:N:far`) of memory that this process has in common with others. It has one
/// queue.
///
/// # Errors
/// No such end, or one that is not this process's or was opened before.
pub fn open_ring(spec: &str, shared: &mut Shared) -> Result<OpenPort, PortError> {
    let wrong = |reason: String| PortError::Spec { port: spec.to_owned(), reason };
    let end: RingEnd = spec.parse().map_err(wrong)?;
    let (receiver, sender) = shared.take(end).map_err(|error| wrong(error.to_string()))?;
    let queues = vec![(Rx::Ring(receiver), Tx::Ring(sender))];
    Ok(OpenPort { spec: spec.to_owned(), device: Device::Ring, queues, count: 1 })
}

fn open_fault(
    spec: &FaultSpec,
    inner: &str,
    config: PortConfig,
    pool: &Pool,
) -> Result<(Device, Vec<(Rx, Tx)>), PortError> {
    let mut inner = open(inner, config, pool)?;
    let hz = Tsc::get().hz();
    let queues = std::iter::from_fn(|| inner.take_queue());
    let (mut queues, faults): (Vec<(Rx, Tx)>, Vec<Arc<Faults>>) =
        queues.zip(0..).map(|(queue, number)| fault::wrap(queue, spec, number, pool, hz)).unzip();
    queues.reverse();
    Ok((Device::Fault { inner: Box::new(inner), faults }, queues))
}

fn open_socket(
    spec: &SocketSpec,
    config: PortConfig,
    pool: &Pool,
) -> Result<(Device, Vec<(Rx, Tx)>), PortError> {
    let (watch, queues) = af_packet::open(spec, config, pool)?;
    let ends = queues.into_iter().rev().map(|(rx, tx)| (Rx::Socket(Box::new(rx)), Tx::Socket(tx)));
    Ok((Device::Socket(watch), ends.collect()))
}

fn open_apart(
    spec: &ApartSpec,
    config: PortConfig,
    pool: &Pool,
) -> Result<(Device, Vec<(Rx, Tx)>), PortError> {
    let (supervisor, queues) = apart::open(spec, config, pool)?;
    let ends = queues.into_iter().rev().map(|(rx, tx)| (Rx::Apart(Box::new(rx)), Tx::Apart(Box::new(tx))));
    Ok((Device::Apart(supervisor), ends.collect()))
}

fn open_dpdk(
    spec: &str,
    mut config: PortConfig,
    pool: &Pool,
) -> Result<(Device, Vec<(Rx, Tx)>), weir_dpdk::PortError> {
    let mut port = loop {
        match Port::open(spec, config, pool) {
            // The driver has fewer queues, or the trouble is another and will be said again.
            Err(weir_dpdk::PortError::Configure { .. }) if config.queues > 1 => config.queues -= 1,
            opened => break opened?,
        }
    };
    let mut queues: Vec<(Rx, Tx)> =
        std::iter::from_fn(|| port.take_queue()).map(|(rx, tx)| (Rx::Dpdk(rx), Tx::Dpdk(tx))).collect();
    queues.reverse();
    Ok((Device::Dpdk(port), queues))
}

fn open_trace(
    trace: &TraceSpec,
    config: PortConfig,
    pool: &Pool,
) -> Result<(Device, Vec<(Rx, Tx)>), PortError> {
    let parts = match &trace.rx {
        Some(path) => Replay::read(path, config.queues, pool.room())?,
        None => (0..config.queues).map(|_| Replay::default()).collect(),
    };
    let sink = trace.tx.as_deref().map(Sink::create).transpose()?;
    // The rate is the port's, whichever queues its packets come in at.
    let total: usize = parts.iter().map(Replay::len).sum();
    let packets_per_tick = |part: &Replay| {
        let share = part.len() as f64 / total as f64;
        trace.rate.map(|rate| rate.0 * share / Tsc::get().hz())
    };
    let (mut received, mut sent, mut queues) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let pace = packets_per_tick(&part);
        let (rx, tx) = (TraceRx::new(part, pool.clone(), trace.looped, pace), TraceTx::new(sink.clone()));
        received.push(rx.count());
        sent.push(tx.count());
        queues.push((Rx::Trace(Box::new(rx)), Tx::Trace(tx)));
    }
    queues.reverse();
    Ok((Device::Trace { received, sent, sink }, queues))
}

impl OpenPort {
    /// The spec it was opened by.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Queues that it has, taken or not.
    pub fn queues(&self) -> u16 {
        self.count
    }

    /// Takes the next queue, from 0 up; nothing when all are taken. Whoever has it is the only one
    /// that polls it.
    pub fn take_queue(&mut self) -> Option<(Rx, Tx)> {
        self.queues.pop()
    }

    /// Whether the link is up, as the driver says without waiting. A trace port's goes down when its
    /// file cannot be written any more.
    pub fn link_up(&self) -> bool {
        match &self.device {
            Device::Dpdk(port) => port.link_up(),
            Device::Socket(watch) => watch.link().0,
            Device::Apart(helper) => helper.link_up(),
            Device::Ring | Device::Null => true,
            Device::Trace { .. } => self.trouble().is_none(),
            Device::Fault { inner, .. } => inner.link_up(),
        }
    }

    /// What keeps the port from working, where it knows.
    pub fn trouble(&self) -> Option<String> {
        match &self.device {
            Device::Trace { sink: Some(sink), .. } => sink.error(),
            Device::Apart(helper) => helper.trouble(),
            Device::Fault { inner, .. } => inner.trouble(),
            _ => None,
        }
    }

    /// Whether it marks packets by rules of its own; the reason where it does not.
    ///
    /// # Errors
    /// Not a NIC, or what the driver says.
    pub fn offers_marks(&self) -> Result<(), MarkError> {
        match &self.device {
            Device::Dpdk(port) => port.offers_marks(),
            Device::Fault { inner, .. } => inner.offers_marks(),
            Device::Socket(_) | Device::Apart(_) | Device::Ring | Device::Null | Device::Trace { .. } => {
                Err(self.no_nic())
            }
        }
    }

    /// Writes a rule that marks packets.
    ///
    /// # Errors
    /// The same; its table is full, or cannot compare such headers.
    pub fn mark_rule(&self, spec: &Headers, mask: &Headers, mark: u32) -> Result<MarkRule, MarkError> {
        match &self.device {
            Device::Dpdk(port) => port.mark_rule(spec, mask, mark),
            Device::Fault { inner, .. } => inner.mark_rule(spec, mask, mark),
            Device::Socket(_) | Device::Apart(_) | Device::Ring | Device::Null | Device::Trace { .. } => {
                Err(self.no_nic())
            }
        }
    }

    fn no_nic(&self) -> MarkError {
        MarkError { port: self.spec.clone(), reason: "it is no NIC".to_owned() }
    }

    /// Its MAC address; all zero for ports that have none.
    pub fn mac(&self) -> [u8; 6] {
        match &self.device {
            Device::Dpdk(port) => port.mac(),
            Device::Socket(watch) => watch.link().1,
            Device::Apart(helper) => helper.mac(),
            Device::Ring | Device::Null | Device::Trace { .. } => [0; 6],
            Device::Fault { inner, .. } => inner.mac(),
        }
    }

    /// The driver's counters. Some drivers keep none and answer zeros; so does the null port.
    pub fn stats(&self) -> PortStats {
        match &self.device {
            Device::Dpdk(port) => port.stats(),
            Device::Socket(watch) => watch.stats(),
            Device::Apart(helper) => helper.stats(),
            Device::Ring | Device::Null => PortStats::default(),
            Device::Fault { inner, .. } => inner.stats(),
            Device::Trace { received, sent, .. } => {
                let sum = |counts: &[Arc<Count>]| {
                    counts
                        .iter()
                        .map(|count| count.read())
                        .fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
                };
                let ((received, received_bytes, _), (sent, sent_bytes, send_errors)) =
                    (sum(received), sum(sent));
                PortStats { received, received_bytes, sent, sent_bytes, send_errors, ..PortStats::default() }
            }
        }
    }

    /// What a fault port did on purpose, or went wrong with the helpers of an untrusted one, by name; empty for others.
    /// `received + duplicated`, of the port behind a fault port, is `lost + waiting` and what was received by this one.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        match &self.device {
            Device::Apart(helper) => sums = helper.faults(),
            Device::Fault { inner, faults } => {
                sums = inner.faults();
                for (name, count) in faults.iter().flat_map(|faults| faults.read()) {
                    *sums.entry(name).or_default() += count;
                }
            }
            _ => {}
        }
        sums
    }
}

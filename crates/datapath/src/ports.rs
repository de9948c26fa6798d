//! The datapath's ports: opened, shared out among the workers, closed.

use crate::control::{Config, ControlError, PortSpec};
use crate::egress::Queue;
use crate::mail::Mail;
use crate::pipeline::PortInfo;
use crate::worker_thread::Running;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_dpdk::{InterruptsHeld, Pool, PortConfig};
use weir_openflow::PortNo;
use weir_port::{OpenPort, Rx, Tx};

/// How long workers may take to let go of a port.
const PATIENCE: Duration = Duration::from_secs(2);

/// A port.
pub(crate) struct Held {
    pub(crate) spec: PortSpec,
    pub(crate) open: OpenPort,
    pub(crate) place: u16,
    pub(crate) up: bool,
    /// Whether the tables may use it.
    visible: bool,
    _memory: Option<InterruptsHeld>,
}

/// All ports, by number.
#[derive(Default)]
pub(crate) struct Ports(BTreeMap<PortNo, Held>);

impl Ports {
    /// Opens a port and gives its queues to the workers.
    pub(crate) fn open(
        &mut self,
        spec: &PortSpec,
        config: &Config,
        pool: &Pool,
        workers: &[Running],
    ) -> Result<PortNo, ControlError> {
        let number = self.number_for(spec)?;
        let setup = PortConfig { queues: spec.queues, descriptors: spec.descriptors, max_frame: config.max_frame };
        let mut open = weir_port::open(&spec.spec, setup, pool)
            .map_err(|error| ControlError(format!("port `{}`: {error}", spec.name)))?;
        let place = (0..).find(|place| self.0.values().all(|held| held.place != *place)).unwrap_or(0);
        let queues: Vec<(Rx, Tx)> = std::iter::from_fn(|| open.take_queue()).collect();
        share_out(queues, workers, place, number);
        let memory = open.hold_memory();
        let up = open.link_up();
        let spec = PortSpec { number: Some(number), ..spec.clone() };
        self.0.insert(number, Held { spec, open, place, up, visible: true, _memory: memory });
        Ok(number)
    }

    fn number_for(&self, spec: &PortSpec) -> Result<PortNo, ControlError> {
        if let Some(other) = self.0.values().find(|held| held.spec.name == spec.name) {
            return Err(ControlError(format!(
                "a port named `{}` exists (`{}`); give this one another name",
                spec.name, other.spec.spec
            )));
        }
        let wrong = |number: PortNo| number.0 == 0 || number.is_reserved() && number != PortNo::LOCAL;
        match spec.number {
            Some(number) if wrong(number) => Err(ControlError(format!(
                "port `{}`: {number} is no port number; take one from 1 to {}",
                spec.name,
                PortNo::MAX
            ))),
            Some(number) if self.0.contains_key(&number) => {
                Err(ControlError(format!("port `{}`: number {number} is taken; choose another", spec.name)))
            }
            Some(number) => Ok(number),
            None => (1..).map(PortNo).find(|number| !self.0.contains_key(number)).ok_or_else(|| {
                ControlError("no port number is free".to_owned())
            }),
        }
    }

    /// Takes a port out of the tables' sight; returns its name.
    pub(crate) fn hide(&mut self, number: PortNo) -> Result<String, ControlError> {
        let held = self.0.get_mut(&number).ok_or_else(|| ControlError(format!("there is no port {number}")))?;
        held.visible = false;
        Ok(held.spec.name.clone())
    }

    /// Closes a port once the workers have let go of it.
    pub(crate) fn close(&mut self, number: PortNo, workers: &[Running]) -> Result<(), ControlError> {
        let Some(held) = self.0.get(&number) else { return Ok(()) };
        let (done, all_done) = channel();
        for worker in workers {
            worker.send(Mail::Close { place: held.place, done: done.clone() });
        }
        for _ in workers {
            all_done.recv_timeout(PATIENCE).map_err(|_| {
                ControlError(format!("port {number}: a worker does not let go of it; it stays open"))
            })?;
        }
        self.0.remove(&number);
        Ok(())
    }

    /// What the tables may know.
    pub(crate) fn infos(&self) -> BTreeMap<PortNo, PortInfo> {
        let visible = self.0.iter().filter(|(_, held)| held.visible);
        visible
            .map(|(&number, held)| (number, PortInfo { number, index: held.place, up: held.up }))
            .collect()
    }

    /// Reads the links; returns what changed.
    pub(crate) fn look(&mut self) -> Vec<(PortNo, bool)> {
        let mut changed = Vec::new();
        for (&number, held) in &mut self.0 {
            let up = held.open.link_up();
            if up != held.up {
                held.up = up;
                changed.push((number, up));
            }
        }
        changed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortNo, &Held)> {
        self.0.iter().filter(|(_, held)| held.visible).map(|(number, held)| (*number, held))
    }
}

/// Gives receive queues to the workers in turn, beginning with another for each port, and each worker a
/// transmit queue: its own where there are enough, or one that it shares.
fn share_out(queues: Vec<(Rx, Tx)>, workers: &[Running], place: u16, number: PortNo) {
    let (receive, transmit): (Vec<Rx>, Vec<Tx>) = queues.into_iter().unzip();
    let mut inputs: Vec<Vec<Rx>> = workers.iter().map(|_| Vec::new()).collect();
    for (queue, rx) in receive.into_iter().enumerate() {
        inputs[(usize::from(place) + queue) % workers.len()].push(rx);
    }
    let outputs: Vec<Queue> = if transmit.len() >= workers.len() {
        transmit.into_iter().map(Queue::Own).take(workers.len()).collect()
    } else {
        let shared: Vec<Arc<Mutex<Tx>>> = transmit.into_iter().map(|tx| Arc::new(Mutex::new(tx))).collect();
        (0..workers.len()).map(|worker| Queue::Shared(shared[worker % shared.len()].clone())).collect()
    };
    for ((worker, rx), tx) in workers.iter().zip(inputs).zip(outputs) {
        worker.send(Mail::Open { place, number, rx, tx });
    }
}

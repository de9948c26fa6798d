//! The datapath's ports: opened, shared out among the workers, closed.

use crate::actions::egress::Queue;
use crate::classify::hint::InputHints;
use crate::model::entries::PortInfo;
use crate::model::requests::{Config, ControlError, PortFlags, PortSpec};
use crate::worker::command::Command;
use crate::worker::input::Input;
use crate::worker::thread::{PATIENCE, Running};
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use weir_cpu::Ticks;
use weir_dpdk::{MarkError, Pool, PortConfig, Shared};
use weir_openflow::PortNo;
use weir_port::{OpenPort, Rx, Tx};

/// A port.
pub(crate) struct Held {
    pub(super) spec: PortSpec,
    pub(super) open: OpenPort,
    pub(super) place: u16,
    pub(super) up: bool,
    /// What it was told.
    pub(super) flags: PortFlags,
    /// When it was opened.
    pub(super) since: Ticks,
    /// Where its hints come from, if it was asked for any: its own table, or why that is emulated.
    pub(super) marks: Option<Result<(), MarkError>>,
    /// Whether the tables may use it.
    visible: bool,
}

impl Held {
    fn info(&self, number: PortNo) -> PortInfo {
        PortInfo { number, index: self.place, up: self.up, flags: self.flags }
    }
}

/// All ports, by number.
#[derive(Default)]
pub(crate) struct Ports(BTreeMap<PortNo, Held>);

impl Ports {
    /// Opens a port; its queues are not polled yet.
    pub(super) fn open(
        &mut self,
        spec: &PortSpec,
        config: &Config,
        (pool, shared): (&Pool, Option<&mut Shared>),
    ) -> Result<(PortNo, Queues), ControlError> {
        let number = self.number_for(spec)?;
        let setup =
            PortConfig { queues: spec.queues, descriptors: spec.descriptors, max_frame: config.max_frame };
        let opened = match shared {
            Some(shared) if weir_port::is_ring(&spec.spec) => weir_port::open_ring(&spec.spec, shared),
            _ => weir_port::open(&spec.spec, setup, pool),
        };
        let mut open = opened.map_err(|error| ControlError(format!("port `{}`: {error}", spec.name)))?;
        let place = (0..).find(|place| self.0.values().all(|held| held.place != *place)).unwrap_or(0);
        let queues: Queues = std::iter::from_fn(|| open.take_queue()).collect();
        let marks = config.tcam.map(|_| open.offers_marks());
        let up = open.link_up();
        let spec = PortSpec { number: Some(number), ..spec.clone() };
        let (flags, since) = (PortFlags::default(), Ticks::now());
        let held = Held { spec, open, place, up, flags, since, marks, visible: true };
        self.0.insert(number, held);
        Ok((number, queues))
    }

    /// Gives each worker what it may send to, and returns what is to be polled.
    pub(super) fn give_out(
        &self,
        opened: Vec<(PortNo, Queues)>,
        workers: &[Running],
    ) -> Vec<(PortNo, Vec<Rx>)> {
        let mut receive = Vec::with_capacity(opened.len());
        for (number, queues) in opened {
            let Some(held) = self.0.get(&number) else { continue };
            let (rx, tx): (Vec<Rx>, Vec<Tx>) = queues.into_iter().unzip();
            for (worker, tx) in workers.iter().zip(outputs(tx, workers.len())) {
                worker.send(Command::Open { place: held.place, number, tx });
            }
            receive.push((number, rx));
        }
        receive
    }

    /// Shares a port's queues out among the workers, in turn. Where each has one, it is that of its own number, so
    /// that what cards put into queues of one number meets; else ports begin with different workers. `front` puts in
    /// front of a queue what is to be there.
    pub(super) fn share_out(
        &self,
        number: PortNo,
        queues: Vec<Rx>,
        shares: &mut [Vec<Input>],
        mut front: impl FnMut((u16, usize), Rx) -> (Rx, Option<InputHints>),
    ) {
        let Some(place) = self.0.get(&number).map(|held| held.place) else { return };
        let is_shared_out = queues.len() == shares.len();
        let first = if is_shared_out { 0 } else { usize::from(place) };
        for (queue, rx) in queues.into_iter().enumerate() {
            let worker = (first + queue) % shares.len();
            let (rx, hints) = front((place, queue), rx);
            shares[worker].push(Input { place, number, rx, is_shared_out, hints });
        }
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
            None => (1..)
                .map(PortNo)
                .find(|number| !self.0.contains_key(number))
                .ok_or_else(|| ControlError("no port number is free".to_owned())),
        }
    }

    /// A port, also one out of sight.
    pub(crate) fn get(&self, number: PortNo) -> Option<&Held> {
        self.0.get(&number)
    }

    /// Closes a port that no worker knows of yet; returns its name.
    pub(super) fn forget(&mut self, number: PortNo) -> Option<String> {
        self.0.remove(&number).map(|held| held.spec.name)
    }

    /// Takes a port out of the tables' sight; returns its name.
    pub(super) fn hide(&mut self, number: PortNo) -> Result<String, ControlError> {
        let held =
            self.0.get_mut(&number).ok_or_else(|| ControlError(format!("there is no port {number}")))?;
        held.visible = false;
        Ok(held.spec.name.clone())
    }

    /// Closes a port once the workers have let go of it.
    pub(super) fn close(&mut self, number: PortNo, workers: &[Running]) -> Result<(), ControlError> {
        let Some(held) = self.0.get(&number) else { return Ok(()) };
        let (done, all_done) = channel();
        for worker in workers {
            worker.send(Command::Close { place: held.place, done: done.clone() });
        }
        for _ in workers {
            all_done.recv_timeout(PATIENCE).map_err(|_| {
                ControlError(format!("port {number}: a worker does not let go of it; it stays open"))
            })?;
        }
        self.0.remove(&number);
        Ok(())
    }

    /// A port's place.
    pub(super) fn place(&self, number: PortNo) -> Option<u16> {
        self.0.get(&number).map(|held| held.place)
    }

    /// A port by its place.
    pub(super) fn at(&self, place: u16) -> Option<&Held> {
        self.0.values().find(|held| held.place == place)
    }

    /// What the tables may know.
    pub(super) fn infos(&self) -> BTreeMap<PortNo, PortInfo> {
        let visible = self.0.iter().filter(|(_, held)| held.visible);
        visible.map(|(&number, held)| (number, held.info(number))).collect()
    }

    /// Tells a port what it is told; what it was told before, if it is there.
    pub(super) fn tell(&mut self, number: PortNo, flags: PortFlags) -> Option<PortFlags> {
        let held = self.0.get_mut(&number).filter(|held| held.visible)?;
        Some(std::mem::replace(&mut held.flags, flags))
    }

    /// Reads the links; returns what changed.
    pub(super) fn look(&mut self) -> Vec<(PortNo, bool)> {
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

/// A port's queues, in order.
pub(super) type Queues = Vec<(Rx, Tx)>;

/// A transmit queue for each worker: its own where there are enough, or one that it shares.
fn outputs(queues: Vec<Tx>, workers: usize) -> Vec<Queue> {
    if queues.len() >= workers {
        return queues.into_iter().map(Queue::Own).take(workers).collect();
    }
    let shared: Vec<Arc<Mutex<Tx>>> = queues.into_iter().map(|tx| Arc::new(Mutex::new(tx))).collect();
    (0..workers).map(|worker| Queue::Shared(shared[worker % shared.len()].clone())).collect()
}

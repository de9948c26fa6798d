//! What the control thread tells a worker, between two bursts, and what it answers.

use crate::actions::egress::Queue;
use crate::model::pipeline::Pipeline;
use crate::model::requests::PacketOut;
use crate::stats::capture::Tap;
use crate::stats::counters::Counters;
use crate::worker::doorbell::Doorbell;
use crate::worker::input::Input;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use weir_openflow::PortNo;
use weir_services::{Host, HostReport};

/// A worker's end of what the control thread tells it.
pub(super) struct CommandQueue {
    pub(super) queue: Receiver<Command>,
    pub(super) doorbell: Arc<Doorbell>,
    /// Where old tables go to be freed.
    pub(super) retired: Sender<Arc<Pipeline>>,
    /// Who told it to stop, and gets the last word.
    pub(super) stopping: Option<Sender<Snapshot>>,
}

/// What a worker is told to do.
pub(crate) enum Command {
    /// New tables.
    Tables(Arc<Pipeline>),
    /// A port to send to.
    Open { place: u16, number: PortNo, tx: Queue },
    /// Queues of it and of others to poll, all from the same round on.
    Poll(Vec<Input>),
    /// A port to forget; the answer comes when it is forgotten.
    Close { place: u16, done: Sender<()> },
    /// Flush what was counted, and tell.
    Sync(Sender<Snapshot>),
    /// Tell at once.
    Tell(Sender<Snapshot>),
    /// Ask a service.
    AskService {
        service: u16,
        command: String,
        argument: serde_json::Value,
        answer: Sender<Result<serde_json::Value, String>>,
    },
    /// Let a service out of quarantine.
    Release(u16),
    /// A service comes in the place of a number, or goes; what was there is given back.
    Service { number: u16, host: Option<Box<Host>>, old: Sender<Option<Box<Host>>> },
    /// Who watches from now on.
    Capture(Vec<Arc<Tap>>),
    /// Packets through the tables, as if they came in by a port, a burst at a time.
    Inject { in_port: PortNo, frames: Vec<Vec<u8>> },
    /// A packet, and what is to be done with it.
    PacketOut(Box<PacketOut>),
    /// Do something to the thread itself, such as give up what it may do.
    Thread { act: fn() -> Result<(), String>, answer: Sender<Result<(), String>> },
    /// Answer, by reading this.
    Ping,
    /// Tests have it do what no worker does.
    #[cfg(test)]
    Harm(Box<dyn FnOnce(&mut crate::worker::Worker) + Send>),
    /// End, and tell the last of the ledger.
    Stop(Sender<Snapshot>),
}

/// A worker's counters at a burst boundary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) counters: Counters,
    /// By service number, from 1; nothing where a service has gone.
    pub(crate) services: Vec<Option<HostReport>>,
}

/// Who asked for a snapshot behind a stats flush, and waits for it.
#[derive(Default)]
pub(super) struct FlushRequests {
    /// Those whose question came since the round at hand began.
    pub(super) asked: Vec<Sender<Snapshot>>,
    /// Those who get their answer at its end.
    pub(super) waiting: Vec<Sender<Snapshot>>,
}

impl FlushRequests {
    /// Somebody wants to know.
    pub(super) fn ask(&mut self, answer: Sender<Snapshot>) {
        self.asked.push(answer);
    }
}

//! What the datapath's owner asks of all its workers, and waits for.
//!
//! A worker answers between two bursts. One that hangs in a service is waited for once, for [`PATIENCE`].
//!
//! Threads: the owner's. Cost: as long as a burst of the slowest worker takes.

use crate::control::datapath::Datapath;
use crate::model::requests::ControlError;
use crate::worker::command::Command;
use crate::worker::thread::PATIENCE;
use crate::worker::thread::Running;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A worker that is inside of a service for longer may not come back from it.
const PROMPT: Duration = Duration::from_millis(1);

impl Datapath {
    /// Has every worker do something to its own thread, between two bursts.
    ///
    /// # Errors
    /// What one of them was told, or a worker that does not answer.
    pub fn on_each_worker(&self, act: fn() -> Result<(), String>) -> Result<(), ControlError> {
        let answers = self.ask(|answer| Command::Thread { act, answer })?;
        answers.into_iter().collect::<Result<(), String>>().map_err(ControlError)
    }

    /// Waits until every worker has carried out its commands.
    pub(crate) fn fence(&self) -> Result<(), ControlError> {
        self.wait_for_all(Running::wait_until_done)
    }

    /// Makes sure that every worker answers, before anything is changed: a change that is reported as failed is one
    /// that none of them has been told of. Who answered a moment ago is not asked.
    pub(super) fn all_answer(&self) -> Result<(), ControlError> {
        for (worker, vital) in self.workers.iter().zip(&self.vitals) {
            if worker.is_finished() {
                return Err(worker.ended());
            }
            if self.hangs(worker) {
                return Err(worker.silent());
            }
            let in_service = worker.inside(self.clock).is_some_and(|(_, time)| time > PROMPT);
            if in_service || worker.is_behind() || vital.stands_still() {
                worker.send(Command::Ping);
                worker.wait_until_known(PATIENCE)?;
            }
        }
        Ok(())
    }

    /// Waits for each worker. One that was seen to hang is not waited for again.
    pub(super) fn wait_for_all(
        &self,
        wait: impl Fn(&Running, Duration) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        self.workers.iter().try_for_each(|worker| {
            let patience = if self.hangs(worker) { Duration::ZERO } else { PATIENCE };
            wait(worker, patience)
        })
    }

    /// Asks every worker something, and gathers the answers.
    pub(crate) fn ask<T>(&self, command: impl Fn(Sender<T>) -> Command) -> Result<Vec<T>, ControlError> {
        let asked: Vec<Receiver<T>> = self
            .workers
            .iter()
            .map(|worker| {
                let (answer, answers) = channel();
                worker.send(command(answer));
                answers
            })
            .collect();
        self.gather(&asked)
    }

    /// Waits for the answers of all workers; as above.
    pub(super) fn gather<T>(&self, asked: &[Receiver<T>]) -> Result<Vec<T>, ControlError> {
        let answers = asked.iter().zip(&self.workers).map(|(answers, worker)| {
            let patience = if self.hangs(worker) { Duration::ZERO } else { PATIENCE };
            answers.recv_timeout(patience).map_err(|error| match error {
                RecvTimeoutError::Disconnected => worker.ended(),
                RecvTimeoutError::Timeout => worker.silent(),
            })
        });
        answers.collect()
    }

    /// Whether a worker has been inside of one call of a service for longer than it may take to answer.
    pub(super) fn hangs(&self, worker: &Running) -> bool {
        worker.inside(self.clock).is_some_and(|(_, time)| time > PATIENCE)
    }
}

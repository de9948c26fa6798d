//! The lab's ports and the DUT, in the order in which the sockets between them need them.
//!
//! DPDK's vhost back end (22.11) tries its peer's socket once when it is opened, and then once a second. A virtio-user port
//! that listens blocks where it is opened until somebody has come. Where the two meet, neither side is first: the lab opens
//! its ports on a thread of their own while the DUT starts, and as a back end each one when there is a socket to try.

use super::wire::{Links, start, wait_for_somebody_else};
use super::{Flags, LINK_PATIENCE, RigError, RigSetup};
use crate::knock::Knocker;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use weir_dpdk::{Pool, Port, PortConfig, PortError};
use weir_dut::vhost_events::Awake;
use weir_dut::wiring::VethPairs;
use weir_dut::{DutError, RunningDut, StartRequest};

/// How often a socket that is not there is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// How long a process may take to be gone that has closed its sockets: its memory is given back first.
const GOING: Duration = Duration::from_secs(1);

/// Who is there first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The DUT: the lab's ports are opened when it is ready.
    Dut,
    /// The lab's ports.
    Lab,
    /// Neither: the lab's ports are opened while the DUT starts.
    Neither,
}

/// What opens the lab's ports.
pub(super) struct Opener<'a> {
    pub(super) links: &'a Links,
    /// Where they are opened, if not here.
    pub(super) pairs: Option<&'a VethPairs>,
    pub(super) pool: &'a Pool,
    pub(super) config: PortConfig,
    pub(super) flags: &'a Flags,
    /// How long the other side may take to come.
    pub(super) patience: Duration,
}

/// Since when the DUT is there, once that is known; nothing in it where it did not start.
type Begun = OnceLock<Option<Instant>>;

/// The lab's ports, the DUT, and how long that took to start.
type Met = (Vec<Port>, (Box<dyn RunningDut>, Duration));

impl Opener<'_> {
    /// Opens the ports and starts the DUT.
    ///
    /// # Errors
    ///
    /// What keeps either from it: the cause, not its effect.
    pub(super) fn meet(&self, setup: &RigSetup<'_>, request: &StartRequest<'_>) -> Result<Met, RigError> {
        let begun = OnceLock::new();
        match self.links.first {
            First::Lab => Ok((self.open(&begun)?, start(setup, request)?)),
            First::Dut => {
                let dut = start(setup, request)?;
                wait_for_somebody_else(setup, self.flags)?;
                self.with(dut, || self.open(&begun))
            }
            First::Neither => std::thread::scope(|scope| {
                let opening = scope.spawn(|| {
                    let opened = self.open(&begun);
                    let is_first = begun.get().is_none();
                    (opened, is_first)
                });
                let started = start(setup, request);
                let _ = begun.set(started.is_ok().then(Instant::now)); // nobody else sets it
                match started {
                    Ok(dut) => self.with(dut, || {
                        opening.join().map_or(Err(RigError::Interrupted), |(opened, _)| opened)
                    }),
                    Err(error) => {
                        // Nobody comes any more.
                        let knocker = self.knocker(Arc::new(AtomicBool::new(true)));
                        let opened = opening.join();
                        knocker.end();
                        self.tidy();
                        match opened {
                            // It waited for a port that could not be opened.
                            Ok((Err(RigError::Port(cause)), true)) if is_silence(&error) => {
                                Err(RigError::Port(cause))
                            }
                            _ => Err(error),
                        }
                    }
                }
            }),
        }
    }

    /// Has the ports opened to a DUT that is there, which is not waited for for ever.
    fn with(
        &self,
        (mut dut, took): (Box<dyn RunningDut>, Duration),
        open: impl FnOnce() -> Result<Vec<Port>, RigError>,
    ) -> Result<Met, RigError> {
        let knocker = self.knocker(Arc::clone(&self.flags.stop));
        let awake = Awake::keep(dut.as_ref());
        let opened = open();
        drop(awake);
        let knocked = knocker.end();
        match opened {
            Ok(ports) => Ok((ports, (dut, took))),
            Err(error) => {
                self.tidy();
                Err(unopened(error, knocked, dut.as_mut(), self.flags))
            }
        }
    }

    fn knocker(&self, stop: Arc<AtomicBool>) -> Knocker {
        Knocker::start(self.links.listening.clone(), stop, self.patience)
    }

    /// The driver leaves what it listened at where nobody came.
    fn tidy(&self) {
        self.links.listening.iter().for_each(|socket| drop(std::fs::remove_file(socket)));
    }

    /// Opens the ports, one after the other.
    fn open(&self, begun: &Begun) -> Result<Vec<Port>, RigError> {
        let mut sockets = self.links.calling.iter();
        self.links
            .lab
            .iter()
            .map(|spec| self.open_one(spec, sockets.next().map(PathBuf::as_path), begun))
            .collect()
    }

    /// Opens a port, which may have to connect to a socket. A port that waits for its peer may take a second: Ctrl-C counts
    /// between them.
    fn open_one(&self, spec: &str, socket: Option<&Path>, begun: &Begun) -> Result<Port, RigError> {
        if let Some(socket) = socket {
            self.wait_for(socket, spec, begun)?;
        }
        if self.flags.interrupted.load(Ordering::Relaxed) {
            return Err(RigError::Interrupted);
        }
        let port = match self.pairs {
            None => Port::open(spec, self.config, self.pool),
            Some(pairs) => Port::open_in(pairs.lab.handle(), spec, self.config, self.pool),
        };
        port.map_err(RigError::Port)
    }

    /// Waits for the socket that a port is to connect to.
    fn wait_for(&self, socket: &Path, spec: &str, begun: &Begun) -> Result<(), RigError> {
        while !socket.exists() {
            if self.flags.stop.load(Ordering::Relaxed) || begun.get() == Some(&None) {
                return Err(RigError::Interrupted);
            }
            if begun.get().is_some_and(|at| at.is_some_and(|at| at.elapsed() > self.patience)) {
                return Err(RigError::Port(PortError::NoLink {
                    port: spec.to_owned(),
                    waited: self.patience,
                }));
            }
            std::thread::sleep(LOOK);
        }
        // Whoever made it listens a moment later.
        std::thread::sleep(LOOK);
        Ok(())
    }
}

/// Whether a DUT did not start because it waited for something.
fn is_silence(error: &RigError) -> bool {
    match error {
        RigError::Dut(DutError::Stage { error, .. }) => matches!(**error, DutError::Silent { .. }),
        RigError::Dut(error) => matches!(error, DutError::Silent { .. }),
        _ => false,
    }
}

/// Why the lab could not open its ports to a DUT that was there before: the cause, not its effect.
fn unopened(error: RigError, knocked: bool, dut: &mut dyn RunningDut, flags: &Flags) -> RigError {
    if flags.interrupted.load(Ordering::Relaxed) {
        return RigError::Interrupted;
    }
    match (ended_by_now(dut, &error), error) {
        (Some(ended), _) => RigError::Dut(ended),
        (None, RigError::Port(PortError::Attach { port, .. })) if knocked => {
            RigError::Port(PortError::NoLink { port, waited: LINK_PATIENCE })
        }
        (None, error) => error,
    }
}

/// How a DUT ended. One that is killed closes its sockets some time before it is gone: one that could not be talked to is
/// given [`GOING`].
fn ended_by_now(dut: &mut dyn RunningDut, error: &RigError) -> Option<DutError> {
    let was_there = matches!(error, RigError::Port(PortError::Attach { .. }));
    let end = Instant::now() + if was_there { GOING } else { Duration::ZERO };
    loop {
        match dut.ended() {
            None if Instant::now() < end => std::thread::sleep(LOOK),
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_waited_in_vain_is_told_from_one_that_failed_by_itself() {
        let silent = DutError::Silent { dut: "nf", what: "say ready", seconds: 9, last_words: String::new() };
        let of_chain = DutError::Stage { stage: "nf 1".to_owned(), error: Box::new(silent.clone()) };
        assert!(is_silence(&RigError::Dut(silent)) && is_silence(&RigError::Dut(of_chain)));
        assert!(!is_silence(&RigError::Interrupted));
        assert!(!is_silence(&RigError::Dut(DutError::Interrupted { dut: "nf" })));
    }
}

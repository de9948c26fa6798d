//! `external`: a device that somebody else started.
//!
//! Whoever set it up says what it is (`[external] description`) and that it does what the plan's
//! network functions say. The lab makes its ends of the wiring and waits for it ([`External`]). It has
//! no CPU time here, and counters only where the plan names a command that prints them; else what is
//! known of it is what comes back.

use crate::outside::{by_port, counted, printed};
use crate::process::Process;
use crate::wiring::{External, WiringKind};
use crate::{Adapter, Counters, DutError, Kind, RunningDut, StartRequest};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_trial::Nf;
use weir_units::Nanos;

/// Its name.
pub(crate) const NAME: &str = "external";

/// Ports of a device.
const PORTS: usize = 2;

/// How often `ready` is tried.
const LOOK: Duration = Duration::from_millis(200);

/// The wirings by which a device that somebody else started is reached.
pub(crate) const WIRINGS: &[WiringKind] =
    &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Veth, WiringKind::Nic];

/// The adapter.
pub(crate) struct SomebodyElses;

struct OnTheWire {
    description: String,
    counters: Option<Vec<OsString>>,
}

impl Adapter for SomebodyElses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "a device that somebody else started; the plan says what it is and where it meets the lab"
    }

    fn kind(&self) -> Kind {
        Kind::OnTheWire
    }

    fn wirings(&self) -> &'static [WiringKind] {
        WIRINGS
    }

    fn supports(&self, _nf: Nf) -> Result<(), String> {
        Ok(())
    }

    fn version(&self) -> Result<String, DutError> {
        Ok("as described".to_owned())
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let External { description, counters, ready, wait, .. } = request.external;
        let words = |words: &Vec<String>| words.iter().map(OsString::from).collect::<Vec<_>>();
        if let Some(ready) = ready {
            wait_until_ready(&words(ready), *wait, &request.alarm)?;
        }
        let counters = counters.as_ref().map(words);
        Ok(Box::new(OnTheWire { description: description.clone(), counters }))
    }
}

/// Runs the command until it succeeds; an error with what it said last where it does not in time.
fn wait_until_ready(command: &[OsString], wait: Duration, stop: &AtomicBool) -> Result<(), DutError> {
    let end = Instant::now() + wait;
    loop {
        match printed(NAME, command) {
            Ok(_) => return Ok(()),
            Err(_) if stop.load(Ordering::Relaxed) => return Err(DutError::Interrupted { dut: NAME }),
            Err(DutError::Refused { dut, command, reason, last_words }) if Instant::now() > end => {
                let reason = format!("{reason}; `ready` did not succeed within {} s", wait.as_secs());
                return Err(DutError::Refused { dut, command, reason, last_words });
            }
            Err(DutError::Refused { .. }) => std::thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    }
}

impl RunningDut for OnTheWire {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn has_counters(&self) -> bool {
        self.counters.is_some()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let Some(command) = &self.counters else { return Ok(Counters::new(0, 0, Nanos(0), Instant::now())) };
        let asked = Instant::now();
        let text = printed(NAME, command)?;
        let at = asked + asked.elapsed() / 2;
        Ok(counted(by_port(NAME, &text, PORTS)?, &[], at))
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    fn processes(&self) -> Vec<&Process> {
        Vec::new()
    }

    fn ended(&mut self) -> Option<DutError> {
        None
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_never_succeeds_is_told_with_what_it_said_last() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let never = words(&["sh", "-c", "echo port 1 is down >&2; exit 4"]);
        let (wait, stop) = (Duration::from_millis(300), AtomicBool::new(false));
        let said = wait_until_ready(&never, wait, &stop).unwrap_err().to_string();
        assert!(said.contains("did not succeed within 0 s") && said.contains("port 1 is down"), "{said}");
        wait_until_ready(&words(&["true"]), wait, &stop).unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(wait_until_ready(&never, wait, &stop).unwrap_err().is_interrupt());
    }
}

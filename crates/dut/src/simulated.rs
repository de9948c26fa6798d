//! The `simulated` device: no process, no packets, only arithmetic of known answer.
//!
//! It is the oracle of the methods and the tutorial of the lab. Nothing reaches it by a wiring and nobody starts
//! it ([`Kind::Arithmetic`]): the campaign asks `weir_simulated::Simulation` for its trials. The variant
//! `parts` is one that is the oracle of advice: it has functions, hosts, cores and a clock.

use crate::wiring::WiringKind;
use crate::{Adapter, DutError, Kind, RunningDut, StartRequest};
use weir_trial::Nf;

/// The name people type.
const SIMULATED: &str = "simulated";

/// The variant whose capacity follows from function and placement (`weir_simulated::SimulatedParts`).
const PARTS: &str = "parts";

/// Whether a device is the simulated one that is made of parts.
pub fn is_made_of_parts(device: &str) -> bool {
    crate::split(device) == (SIMULATED, PARTS)
}

/// The adapter.
pub(crate) struct Simulated;

impl Adapter for Simulated {
    fn name(&self) -> &'static str {
        SIMULATED
    }

    fn about(&self) -> &'static str {
        "arithmetic of known capacity, queue, noise and loss; no packets"
    }

    fn kind(&self) -> Kind {
        Kind::Arithmetic
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[]
    }

    fn supports(&self, _nf: Nf) -> Result<(), String> {
        Ok(())
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        match variant {
            "" | PARTS => Ok(()),
            other => Err(format!(
                "{SIMULATED} has no variant `{other}`; it has {PARTS}, whose capacity follows from function and placement"
            )),
        }
    }

    fn version(&self) -> Result<String, DutError> {
        Ok(format!("weir {}", env!("CARGO_PKG_VERSION")))
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let reason = "it has no ports: its trials are computed, not sent".to_owned();
        Err(DutError::Unsupported { dut: SIMULATED, nf: request.nf, reason })
    }
}

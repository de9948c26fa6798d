//! The `simulated` device: no process, no packets, only arithmetic of known answer.
//!
//! It is the oracle of the methods and the tutorial of the lab. Nothing reaches it by a wiring and nobody starts
//! it ([`Kind::Arithmetic`]): the campaign asks [`weir_trial::simulated::Simulation`] for its trials.

use crate::wiring::WiringKind;
use crate::{Adapter, DutError, Kind, RunningDut, StartRequest};
use weir_trial::Nf;

/// The name people type.
const SIMULATED: &str = "simulated";

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

    fn version(&self) -> Result<String, DutError> {
        Ok(format!("weir {}", env!("CARGO_PKG_VERSION")))
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let reason = "it has no ports: its trials are computed, not sent".to_owned();
        Err(DutError::Unsupported { dut: SIMULATED, nf: request.nf, reason })
    }
}

//! `external`: a box on the wire that nobody starts.
//!
//! Whoever set it up says what it is (`[external] description`) and that it does what the plan's
//! network functions say. It has no counters here and no CPU time; what is known of it is what
//! comes back.

use crate::process::Process;
use crate::wiring::WiringKind;
use crate::{Adapter, Counters, DutError, Kind, RunningDut, StartRequest};
use std::time::Instant;
use weir_trial::Nf;
use weir_units::Nanos;

/// The adapter.
pub(crate) struct External;

struct OnTheWire {
    description: String,
}

impl Adapter for External {
    fn name(&self) -> &'static str {
        "external"
    }

    fn about(&self) -> &'static str {
        "a box on the wire that nobody starts; the plan says what it is"
    }

    fn kind(&self) -> Kind {
        Kind::OnTheWire
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Nic]
    }

    fn supports(&self, _nf: Nf) -> Result<(), String> {
        Ok(())
    }

    fn version(&self) -> Result<String, DutError> {
        Ok("as described".to_owned())
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        Ok(Box::new(OnTheWire { description: request.description.to_owned() }))
    }
}

impl RunningDut for OnTheWire {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn has_counters(&self) -> bool {
        false
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        Ok(Counters::new(0, 0, Nanos(0), Instant::now()))
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

//! A trial of connections: the tester plays both ends of each.

use super::{RigError, Wired};
use std::sync::Arc;
use weir_traffic::Script;
use weir_trial::{ConnectionSpec, TrialResult};

impl Wired {
    /// Runs a trial of connections; as packets, where the device's function tracks none.
    pub(super) fn measure_connections(&mut self, asked: ConnectionSpec) -> Result<TrialResult, RigError> {
        let script = match &self.script {
            Some(script) => Arc::clone(script),
            // What a device is remains the same, and asking the oracle takes some milliseconds.
            None => match Script::of(self.nf, SEED) {
                Ok(script) => Arc::clone(self.script.insert(Arc::new(script))),
                Err(_) => return self.measure(asked.trial()),
            },
        };
        self.measure_by(asked.trial(), |tester, stop| tester.connect(&script, asked, stop))
    }
}

/// Of the ends of connections: all runs have the same.
const SEED: u64 = 1;

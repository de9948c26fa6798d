//! The `simulated` device: no process, no packets, only arithmetic of known answer.
//!
//! It is the oracle of the methods and the tutorial of the lab. It has no adapter because it has no
//! ports: the campaign asks [`weir_trial::simulated::Simulation`] for its trials directly.

/// The name people type.
pub const SIMULATED: &str = "simulated";

//! What the machine did to a trial: time that its threads did not get, and clocks that disagree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Nanos;

/// What became of the cores and the clocks while a trial ran. What could not be read is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Health {
    /// The tester's thread and core.
    pub tester: Option<CoreHealth>,
    /// The DUT's forwarding threads and their core.
    pub dut: Option<CoreHealth>,
    /// Pauses of the tester: times in which it neither sent nor received.
    pub pauses: Pauses,
    /// The trial's length by two clocks.
    pub clocks: Option<Clocks>,
}

/// What the kernel and the hypervisor took from one side's threads during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreHealth {
    /// The core, numbered as the kernel does.
    pub core: u32,
    /// Time the hypervisor gave to others, from `/proc/stat` (in steps of 10 ms).
    pub stolen: Nanos,
    /// Time the threads could have run but waited for their core, from `schedstat`.
    pub waited: Nanos,
    /// Times the kernel took the core away (involuntary context switches).
    pub preempted: u64,
}

/// Pauses of more than a millisecond in the tester's loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pauses {
    /// How many.
    pub count: u32,
    /// Their sum.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// One stretch of time by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clocks {
    /// By the time stamp counter, which paces the load and stamps the packets.
    pub tsc: Nanos,
    /// By the kernel's raw monotonic clock.
    pub monotonic: Nanos,
}

impl Clocks {
    /// How far the two are apart.
    pub fn apart(self) -> Nanos {
        Nanos(self.tsc.0.abs_diff(self.monotonic.0))
    }
}

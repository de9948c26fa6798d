//! What a worker receives from.

use crate::classify::hint::InputHints;
use crate::stats::capture::Tap;
use std::sync::Arc;
use weir_openflow::PortNo;
use weir_port::Rx;

/// A port's queue that this worker polls.
pub(crate) struct Input {
    pub(crate) place: u16,
    pub(crate) number: PortNo,
    pub(crate) rx: Rx,
    /// Whether its port has a queue for every worker.
    pub(crate) is_shared_out: bool,
    /// Where its port gives hints, or is taken to.
    pub(crate) hints: Option<InputHints>,
}

/// What a worker receives from.
pub(super) struct Inputs {
    pub(super) queues: Vec<Input>,
    /// Bytes, without FCS, of the longest packet that the ports were set up for.
    pub(super) longest: usize,
    /// Those who watch.
    pub(super) taps: Vec<Arc<Tap>>,
}

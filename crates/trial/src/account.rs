//! The tester's account of its own doings in a trial: when it sent, how often it looked, what it saw
//! beside the packets that it counts.

use crate::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the tester says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TesterAccount {
    /// Packets that load times duration comes to; nothing where the trace's own gaps, or its end, decide.
    pub planned: Option<Planned>,
    /// Time between when a packet was due and when it was sent. Packets of a burst that fell due one
    /// after the other count in four groups, each by its oldest: at most so late.
    pub sent_late: Option<Latency>,
    /// Time between two polls of a receive ring.
    pub poll_gaps: Option<Latency>,
    /// One-way delay by direction, of the packets in [`crate::TrialResult::latency`].
    pub delays: Vec<Option<Latency>>,
    /// One-way delay of packets that were on their way while the tester paused: not in
    /// [`crate::TrialResult::latency`], because the tester's pause is in it.
    pub paused_delay: Option<Latency>,
    /// Packets that came before the time in their stamp; in no histogram.
    pub negative_delays: u64,
    /// Frames that neighbours on a wire send by themselves (LLDP, spanning tree, ARP, neighbour
    /// discovery), which are no packets of the trial.
    pub wire_chatter: u64,
}

/// The size of a trial, from its load and duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Packets over all directions.
    pub packets: u64,
    /// How far chance, or rounding to whole packets, may take the schedule from that.
    pub apart: u64,
}

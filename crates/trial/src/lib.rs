//! The lab's vocabulary: what is measured, how one trial is asked for, and what it returns.
//!
//! - [`Nf`]: a network function, described once; each adapter translates it to its dataplane.
//! - [`TrialSpec`] and [`TrialResult`]: one load for one duration, and what came of it.
//! - [`Measurer`]: the one question a method may ask. Methods know no clock and no I/O.
//! - [`expected`] and [`compare`]: what a function must make of a packet, and what is wrong where it did not;
//! - [`Health`], [`PacketCheck`], [`Verdict`], [`SelfCheck`]: whether a trial's numbers may be believed.
//! - [`TesterAccount`] and [`windows`]: the tester's account of its own time, and what of a trial counts
//!   when the machine took a core away.
//! - [`changes`]: what a controller changed meanwhile, and whether it was in force.
//! - [`run`]: a run as it is stored, reported and exported.
//! - [`environment`]: what differs between the environments of two runs, and what that can explain.
//!
//! Loads and counts are **totals over all directions** of a trial; per-direction counts stand in
//! [`TrialResult::directions`].

mod account;
mod bundles;
pub mod changes;
pub mod compare;
mod connections;
pub mod core_use;
pub mod environment;
pub mod expected;
pub mod frequency;
pub mod health;
mod nf;
pub mod node;
pub mod offloads;
mod packets;
pub mod placement;
mod result;
pub mod run;
mod self_check;
mod server;
mod stages;
pub mod verdict;
pub mod windows;

pub use account::{Planned, PointAccount, Shares, TesterAccount};
pub use bundles::{BundleCounts, BundleRate, BundleRates, fairness};
pub use changes::{ChangesMade, Control};
pub use connections::{ConnectionSpec, ConnectionsMade};
pub use core_use::{CoreUse, CoreUseError};
pub use expected::{Expected, Oracle};
pub use frequency::{Frequency, FrequencyError, Held};
pub use health::{Clocks, Conduct, CoreHealth, Health, Pauses};
pub use nf::{
    BACKENDS, Backend, CLIENT_PORTS, Chain, ChainError, DENIED_BITS, DENIED_DESTINATION_PORT, DENIED_SOURCE,
    DENIED_SOURCE_PORT, FIRST_FREE_PORT, FlowEntry, FlowFile, FlowFileError, NAT_NETWORK, NAT_OCTET, Network,
    Nf, NfKind, ParseNfError, Station, TESTER_MACS, nfpa_mac,
};
pub use node::NodeUse;
pub use offloads::{Offload, Offloads, OffloadsError};
pub use packets::{Audit, Fault, PacketCheck, WrongPackets, grouped};
pub use placement::{
    Accel, Deployment, Graph, GraphDevice, GraphEnd, GraphLink, GraphMistake, GraphPart, Guest, Hop, Join,
    Placement, Split,
};
pub use result::{DirectionCounts, DutReading, Latency, TrialResult};
pub use self_check::{Floor, Limit, Limiter, SelfCheck};
pub use server::{Server, ServerError};
pub use stages::{Handed, Passed, StageLoss, StageReading, StageTaps, Waterfall};
pub use verdict::{Verdict, judge};
pub use windows::{Absence, Side, Windows};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Pps};

/// One trial, as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSpec {
    /// Intended load over all directions (RFC 2285, section 3.5.1).
    pub load: Pps,
    /// How long the load is offered.
    pub duration: Nanos,
}

/// A trial that was run and kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptTrial {
    /// The number under which its point keeps it ([`run::StoredTrial::sequence`]).
    pub sequence: u32,
    /// What came of it.
    pub result: TrialResult,
}

/// Something that can run a trial and keep it: the real tester with its store, or a simulated device.
pub trait Measurer {
    /// Why a trial could not be run at all (the DUT died, the port went away, Ctrl-C).
    type Error;

    /// Runs one trial for a purpose, keeps it, and returns its counts and its number.
    fn measure(&mut self, purpose: run::Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error>;

    /// The same with a controller connected to the device. A device without one is measured as ever, and the trial
    /// says nothing of changes ([`TrialResult::changes`]).
    fn measure_under(
        &mut self,
        purpose: run::Purpose,
        spec: TrialSpec,
        _control: Control,
    ) -> Result<KeptTrial, Self::Error> {
        self.measure(purpose, spec)
    }

    /// Runs a trial of connections instead of one of packets. A device that tracks none, or a measurer that has no wire,
    /// is measured as ever, and the trial says nothing of connections ([`TrialResult::connections`]).
    fn measure_connections(
        &mut self,
        purpose: run::Purpose,
        asked: ConnectionSpec,
    ) -> Result<KeptTrial, Self::Error> {
        self.measure(purpose, asked.trial())
    }

    /// Sends nothing for so long, that the device may empty its buffers. Who measures in no time
    /// has nothing to wait for.
    fn rest(&mut self, _time: Nanos) -> Result<(), Self::Error> {
        Ok(())
    }
}

//! What is told of a campaign: to who watches it, of a point's end, of the whole, and why it could not go on.

use crate::cores::TooFewCores;
use crate::rig::RigError;
use weir_dpdk::EalError;
use weir_methods::{GoalBounds, Next};
use weir_store::StoreError;
use weir_trial::run::{PointKey, PointResult, Purpose};
use weir_trial::{SelfCheck, TrialResult};

/// Somebody who watches a campaign. No call comes while a trial runs.
pub trait Watcher {
    /// A point begins; `number` of `total` counts from 1.
    fn point(&mut self, number: u32, total: u32, key: &PointKey);

    /// What the tester can do over a wiring was measured, before the first point over it.
    fn self_check(&mut self, check: &SelfCheck);

    /// A device that somebody else started is waited for, where it is not there: what has to be connected.
    fn waits(&mut self, wiring: &str, told: &str);

    /// A device that feeds itself is not settled yet: why. A few times a second, for minutes with some.
    fn settles(&mut self, why: &str);

    /// A trial is about to run.
    fn next(&mut self, next: &Next);

    /// A trial is over, and kept under that number of its point.
    fn trial(&mut self, sequence: u32, purpose: Purpose, result: &TrialResult);

    /// A goal's bounds have changed.
    fn bounds(&mut self, bounds: &GoalBounds<'_>);

    /// A point is over.
    fn done(&mut self, key: &PointKey, outcome: &PointOutcome);
}

/// How a point ended.
#[derive(Clone, Debug, PartialEq)]
pub enum PointOutcome {
    /// With these verdicts, and what a reader of them must be told.
    Measured {
        /// Verdicts of the methods.
        results: Vec<PointResult>,
        /// Remarks, for example loads that could not be offered.
        remarks: Vec<String>,
    },
    /// The DUT cannot be this; nothing was measured.
    Unsupported(String),
    /// It failed.
    Failed(String),
}

/// What a run came to, with what was measured of it before it was resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Points measured.
    pub measured: u32,
    /// Points that their DUT does not support.
    pub unsupported: u32,
    /// Points that failed.
    pub failed: u32,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
    /// Points left for a process with other memory ([`super::Campaign::run`]).
    pub left: u32,
}

/// Why a campaign ended, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The rig; within a point it becomes the point's error.
    #[error(transparent)]
    Rig(RigError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// DPDK.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// Not enough cores.
    #[error(transparent)]
    Cores(#[from] TooFewCores),
    /// The plan's search cannot be run at this point.
    #[error(transparent)]
    Search(#[from] weir_methods::mlrsearch::SearchError),
    /// The plan asks for something this point cannot have.
    #[error("{0}")]
    Point(String),
    /// The device does something else than its network function.
    #[error("the packets are wrong, so no rate of this point is measured: {0}")]
    WrongPackets(String),
}

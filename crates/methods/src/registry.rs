//! The methods, by what may be asked of their stored results: derived again, compared. Each method's file has
//! its part; here is the list.

use crate::compare::Found;
use crate::mlrsearch::SearchConfig;
use crate::verify::{Derived, Named};
use weir_trial::run::{
    BackToBackResult, ConnectionsResult, CurveResult, FlowModsResult, FrameLossResult, LatencyResult, Method,
    MrrResult, Point, PointResult, SoakResult, ThroughputResult,
};

/// What this crate knows of a stored result.
pub(crate) trait Stored {
    /// Derives the results of a point again from their trials, where they share them.
    fn together(_point: &Point, _search: Option<&SearchConfig>) -> Vec<Derived>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Holds a result to the trials that it names; false where it names none and is derived together with others.
    fn holds(&self, trials: &mut Named<'_>) -> bool;

    /// Takes in the numbers of a point by which two sides are compared; none for a method that is not ranked.
    fn compared(_point: &Point, _found: &mut Found)
    where
        Self: Sized,
    {
    }
}

/// What this crate does with a point's results of one method.
pub(crate) struct Entry {
    /// [`Stored::together`].
    pub(crate) together: fn(&Point, Option<&SearchConfig>) -> Vec<Derived>,
    /// [`Stored::compared`].
    pub(crate) compared: fn(&Point, &mut Found),
}

impl Entry {
    const fn of<R: Stored>() -> Self {
        Self { together: R::together, compared: R::compared }
    }
}

/// A method's entry.
pub(crate) const fn entry(method: Method) -> Entry {
    match method {
        Method::Throughput => Entry::of::<ThroughputResult>(),
        Method::Mrr => Entry::of::<MrrResult>(),
        Method::Latency => Entry::of::<LatencyResult>(),
        Method::LatencyCurve => Entry::of::<CurveResult>(),
        Method::FrameLoss => Entry::of::<FrameLossResult>(),
        Method::BackToBack => Entry::of::<BackToBackResult>(),
        Method::FlowMods => Entry::of::<FlowModsResult>(),
        Method::Connections => Entry::of::<ConnectionsResult>(),
        Method::Soak => Entry::of::<SoakResult>(),
    }
}

/// A result as this crate knows it.
pub(crate) fn stored(result: &PointResult) -> &dyn Stored {
    match result {
        PointResult::Throughput(result) => result,
        PointResult::Mrr(result) => result,
        PointResult::Latency(result) => result,
        PointResult::LatencyCurve(result) => result,
        PointResult::FrameLoss(result) => result,
        PointResult::BackToBack(result) => result,
        PointResult::FlowMods(result) => result,
        PointResult::Connections(result) => result,
        PointResult::Soak(result) => result,
    }
}

//! Verdicts as people read them: a cell in the tables that `weir bench` and `weir show` print, and the loads in
//! detail below. A method's file has both; here is the list, and words that they share.

mod back_to_back;
mod connections;
mod curve;
mod flow_mods;
mod frame_loss;
mod latency;
mod mrr;
mod soak;
mod throughput;

use weir_trial::Latency;
use weir_trial::run::{Point, PointKey, PointResult, StoredTrial};
use weir_units::{Nanos, Ratio};

/// A result as people read it.
pub(crate) trait Cell {
    /// A line.
    fn cell(&self, key: &PointKey, latency: Delays<'_, '_>) -> String;

    /// Its loads, one by one: what they are, and their text. Nothing where the line says all.
    fn details(&self, _point: &Point) -> Option<(&'static str, String)> {
        None
    }
}

/// The delays of a trial by its number.
pub(crate) type Delays<'d, 'a> = &'d dyn Fn(u32) -> Option<&'a Latency>;

/// A result of whichever method.
pub(crate) fn of(result: &PointResult) -> &dyn Cell {
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

/// A verdict in a line. `latency` gives the delays of a trial by its number.
pub(crate) fn cell(key: &PointKey, result: &PointResult, latency: Delays<'_, '_>) -> String {
    of(result).cell(key, latency)
}

/// `invalid: …` for a trial that is not as it should be.
fn remark(trial: &StoredTrial) -> Option<String> {
    Some(format!("invalid: {}", trial.spoilt_by()?.says))
}

/// A share of the line without needless decimals.
pub(crate) fn percent(share: Ratio) -> String {
    format!("{} %", (share.0 * 1e4).round() / 100.0)
}

/// A length of time as people say it: `45 s`, `12 min`, `3 h 20 min`.
pub(crate) fn length(time: Nanos) -> String {
    let seconds = time.seconds();
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 120.0 => time.to_string(),
        0..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// `1 trial`, `2 trials`.
pub(crate) fn count(trials: usize) -> String {
    format!("{trials} trial{}", if trials == 1 { "" } else { "s" })
}

/// A point's size: bytes where it is a number.
pub(crate) fn size(key: &PointKey) -> String {
    key.frame()
}

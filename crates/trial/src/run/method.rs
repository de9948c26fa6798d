//! The methods, by what is stored of them: the registry's lowest layer.
//!
//! A method is a variant of [`Method`], and a file here: its result, and what everybody may ask of it
//! ([`MethodResult`]). Every other layer has one file a method, too, behind a `match` over [`Method`] or
//! [`PointResult`], so that a layer that forgets a method does not compile. `ARCHITECTURE.md` has the layers.
//!
//! Results name their trials by [`StoredTrial::sequence`]: counts and histograms stand there, once.

mod back_to_back;
mod connections;
mod curve;
mod flow_mods;
mod frame_loss;
mod latency;
mod mrr;
mod soak;
mod throughput;

pub use back_to_back::{BackToBackResult, BurstSending, Bursts};
pub use connections::{ConnectionsResult, HeldSearch, RateSearch};
pub use curve::{CurveResult, CurveStep, Saturation};
pub use flow_mods::{ChangePair, FlowModsResult};
pub use frame_loss::{FrameLossResult, LossStep};
pub use latency::LatencyResult;
pub use mrr::MrrResult;
pub use soak::{Drift, SoakResult, Soaked};
pub use throughput::{Estimate, ThroughputResult};

use super::{Point, StoredTrial, Unit};
use crate::{Limit, TrialSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Pps;

/// A method of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Throughput by MLRsearch.
    Throughput,
    /// Forwarded rate at the greatest load.
    Mrr,
    /// Latency at given loads.
    Latency,
    /// Latency and loss against load.
    LatencyCurve,
    /// Loss against load, from the line rate down.
    FrameLoss,
    /// The longest burst that comes through whole.
    BackToBack,
    /// Changes of flow entries a second, under load.
    FlowMods,
    /// Connections a second, and at a time.
    Connections,
    /// One load over a long time.
    Soak,
}

impl Method {
    /// Every method, in the order in which a point is measured: throughput and forwarded rate first, for loads
    /// may be shares of what they find; the soak last.
    pub const ALL: [Self; 9] = [
        Self::Throughput,
        Self::Mrr,
        Self::Latency,
        Self::LatencyCurve,
        Self::FrameLoss,
        Self::BackToBack,
        Self::FlowMods,
        Self::Connections,
        Self::Soak,
    ];

    /// Its table in a plan.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Mrr => "mrr",
            Self::Latency => "latency",
            Self::LatencyCurve => "latency_curve",
            Self::FrameLoss => "frame_loss",
            Self::BackToBack => "back_to_back",
            Self::FlowMods => "flow_mods",
            Self::Connections => "connections",
            Self::Soak => "soak",
        }
    }
}

/// One verdict of a method about a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PointResult {
    /// A throughput search's answer to one goal.
    Throughput(ThroughputResult),
    /// Forwarded rate at the greatest load, over several trials.
    Mrr(MrrResult),
    /// Latency at one load. The trial's histogram stands in the trial.
    Latency(LatencyResult),
    /// Latency and loss from the least load to beyond saturation.
    LatencyCurve(CurveResult),
    /// Loss against load, from the line rate down (RFC 2544, section 26.3).
    FrameLoss(FrameLossResult),
    /// The longest burst at the line rate that comes through whole (RFC 9004).
    BackToBack(BackToBackResult),
    /// Changes of flow entries a second under a load, and what they cost.
    FlowMods(FlowModsResult),
    /// Connections a second, and at a time (RFC 3511, sections 5.2 and 5.3).
    Connections(ConnectionsResult),
    /// One load over a long time.
    Soak(SoakResult),
}

impl PointResult {
    /// What may be asked of every result.
    pub fn of_method(&self) -> &dyn MethodResult {
        match self {
            Self::Throughput(result) => result,
            Self::Mrr(result) => result,
            Self::Latency(result) => result,
            Self::LatencyCurve(result) => result,
            Self::FrameLoss(result) => result,
            Self::BackToBack(result) => result,
            Self::FlowMods(result) => result,
            Self::Connections(result) => result,
            Self::Soak(result) => result,
        }
    }

    /// Who limits it, where that is known.
    pub fn limit(&self) -> Option<&Limit> {
        self.of_method().limit()
    }

    /// What it is called in a table: the goal's name, else the method's.
    pub fn name(&self) -> &str {
        self.of_method().name()
    }
}

/// What may be asked of a result, whichever method's it is.
pub trait MethodResult {
    /// The method.
    fn method(&self) -> Method;

    /// What it is called in a table.
    fn name(&self) -> &str;

    /// Who limits it, where that is known.
    fn limit(&self) -> Option<&Limit>;

    /// The trials that carry its number. Repeats of a measurement share those found by their load or purpose.
    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial>;

    /// The rate that it says the device forwards, where it says one.
    fn forwards(&self) -> Option<Pps> {
        None
    }

    /// The greatest rate that a page draws of it; nothing for shares of the line rate, which may lie far above
    /// what any device does.
    fn greatest(&self) -> Option<Pps> {
        None
    }

    /// The number that repeats share, with its name.
    fn number(&self) -> Option<(&str, Unit, f64)> {
        None
    }

    /// Why it is not valid, where it says so itself.
    fn says_invalid(&self) -> Option<&str> {
        None
    }

    /// Whether it leaves its invalid trials out by itself, so that some of them do not spoil it.
    fn leaves_invalid_out(&self) -> bool {
        false
    }

    /// The loads whose losses are told beside those of other methods; none where it has a section of its own.
    fn told_losses<'a>(&self, _point: &'a Point) -> Vec<At<'a>> {
        Vec::new()
    }
}

/// The trials of a point at one load.
#[derive(Clone, Debug)]
pub struct At<'a> {
    /// What was measured there.
    pub what: String,
    /// The load.
    pub load: Pps,
    /// The trials.
    pub trials: Vec<&'a StoredTrial>,
    /// Whether they are those of all repeats, so that each repeat's result names the same ones.
    pub of_repeats: bool,
}

/// What a trial was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Discarded: fills caches and tables.
    WarmUp,
    /// Asked for by a throughput search.
    Search,
    /// Latency at a given load.
    Latency,
    /// Greatest load.
    Mrr,
    /// Frame loss at a share of the line rate (RFC 2544, section 26.3).
    FrameLoss,
    /// A burst at the line rate (RFC 9004).
    BackToBack,
    /// A load while a controller changes flow entries, or the same load without.
    FlowMods,
    /// New connections, at a rate or so many at a time.
    Connections,
    /// One load over a long time.
    Soak,
}

/// What is known of a purpose.
struct About {
    name: &'static str,
    /// How often a trial is run when the machine or the tester spoils it.
    attempts: u32,
    /// Whether loss is news: it is what a search looks for.
    loss_is_news: bool,
    doing: fn(&TrialSpec) -> String,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 9] = [
        Self::WarmUp,
        Self::Search,
        Self::Latency,
        Self::Mrr,
        Self::FrameLoss,
        Self::BackToBack,
        Self::FlowMods,
        Self::Connections,
        Self::Soak,
    ];

    const fn about(self) -> About {
        let (name, attempts, loss_is_news, doing): (_, _, _, fn(&TrialSpec) -> String) = match self {
            Self::WarmUp => ("warm-up", 1, false, |_| "warm-up".to_owned()),
            // A search is told of each attempt: it leaves out what proves nothing, and decides itself which load
            // is worth more of its time.
            Self::Search => ("search", 1, false, |spec| format!("search at {}", spec.load)),
            Self::Latency => ("latency", 3, true, |spec| format!("latency at {}", spec.load)),
            Self::Mrr => ("mrr", 3, false, |_| "forwarded rate".to_owned()),
            Self::FrameLoss => ("frame-loss", 3, false, |spec| format!("frame loss at {}", spec.load)),
            // Sent again by the method, which rests before each.
            Self::BackToBack => ("back-to-back", 1, false, |spec| format!("burst of {}", spec.duration)),
            Self::FlowMods => {
                ("flow-mods", 3, false, |spec| format!("changes of flow entries at {}", spec.load))
            }
            // Its method tries a rate up to three times, and the majority decides.
            Self::Connections => {
                ("connections", 1, false, |spec| format!("connections, {} of packets", spec.load))
            }
            // A soak's time goes on.
            Self::Soak => ("soak", 1, true, |spec| format!("soak at {}", spec.load)),
        };
        About { name, attempts, loss_is_news, doing }
    }

    /// Its name, as stored and printed.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// How often a trial is run when the machine or the tester spoils it.
    pub const fn attempts(self) -> u32 {
        self.about().attempts
    }

    /// Whether people are told of loss in a valid trial: it is what a search looks for; at a load that was chosen
    /// it is news.
    pub const fn loss_is_news(self) -> bool {
        self.about().loss_is_news
    }

    /// What is being done, for somebody who waits for it.
    pub fn doing(self, spec: &TrialSpec) -> String {
        (self.about().doing)(spec)
    }
}

/// Loads of one search differ by more than this when they differ at all.
const SAME_LOAD: f64 = 1e-6;

/// Whether a trial offered this load.
fn at_load(load: Pps, trial: &StoredTrial) -> bool {
    (trial.result.spec.load.0 - load.0).abs() <= load.0.abs() * SAME_LOAD
}

/// The trials that decide something.
fn deciding(point: &Point) -> impl Iterator<Item = &StoredTrial> {
    point.trials.iter().filter(|trial| !trial.superseded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler holds every `match` to all methods; this holds the list to them.
    #[test]
    fn the_list_of_methods_has_every_kind_of_result_once() {
        let schema = schemars::schema_for!(PointResult).to_value();
        let kinds = schema["oneOf"].as_array().unwrap().iter();
        let kinds: Vec<String> = kinds
            .map(|kind| kind["properties"]["kind"]["const"].as_str().unwrap().replace('-', "_"))
            .collect();
        assert_eq!(kinds, Method::ALL.map(Method::table));
    }

    #[test]
    fn purposes_are_called_as_they_are_stored() {
        for purpose in Purpose::ALL {
            assert_eq!(serde_json::to_value(purpose).unwrap(), purpose.name());
        }
        let schema = schemars::schema_for!(Purpose).to_value();
        assert_eq!(schema["oneOf"].as_array().unwrap().len(), Purpose::ALL.len());
    }
}

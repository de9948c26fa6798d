//! The forwarded rate at the greatest load.

use super::{At, Method, MethodResult, Purpose, Unit, deciding};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Pps;

/// Forwarded rate at the greatest load, over several trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct MrrResult {
    /// Load that was offered; nothing for `fed`, where the source is in the DUT.
    pub load: Option<Pps>,
    /// Forwarded rate of each trial.
    pub rates: Vec<Pps>,
    /// Mean of the rates.
    pub mean: Pps,
    /// Sample standard deviation of the rates.
    pub deviation: Pps,
    /// TSC cycles per packet of the DUT's forwarding threads, median of the trials.
    pub cycles_per_packet: Option<f64>,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
}

impl MethodResult for MrrResult {
    fn method(&self) -> Method {
        Method::Mrr
    }

    fn name(&self) -> &str {
        "mrr"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// Repeats share their trials.
    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        deciding(point).filter(|trial| trial.purpose == Purpose::Mrr).collect()
    }

    fn forwards(&self) -> Option<Pps> {
        Some(self.mean)
    }

    fn greatest(&self) -> Option<Pps> {
        Some(self.mean)
    }

    fn number(&self) -> Option<(&str, Unit, f64)> {
        Some(("mrr", Unit::PacketsPerSecond, self.mean.0))
    }

    fn told_losses<'a>(&self, point: &'a Point) -> Vec<At<'a>> {
        let at = |load| At { what: "MRR".to_owned(), load, trials: self.rests_on(point), of_repeats: true };
        self.load.map(at).into_iter().collect()
    }
}

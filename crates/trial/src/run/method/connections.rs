//! Connections a second, and connections at a time.

use super::{Method, MethodResult, Unit};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Spread};

/// The greatest rate of new TCP connections that a device lets through with every packet right and none lost (RFC 3511,
/// section 5.3; RFC 9411, section 7.2), and how many it tracks at a time (RFC 3511, section 5.2; RFC 9411, section 7.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ConnectionsResult {
    /// Packets of a connection in the trials of the rate.
    pub packets: u32,
    /// Length of these trials.
    pub duration: Nanos,
    /// Every complete search for the rate.
    pub searches: Vec<RateSearch>,
    /// The rates found, in connections a second, and their interval; nothing where no search found one.
    pub rate: Option<Spread>,
    /// Connections at a time; nothing where that was not asked for, or nothing could be opened.
    pub held: Option<HeldSearch>,
    /// Who limits it; nothing where that is not known.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// A search for the greatest rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RateSearch {
    /// The greatest rate that passed, in connections a second as asked for.
    pub passed: Option<f64>,
    /// The least rate above it that failed; nothing where the greatest rate asked for passed.
    pub failed: Option<f64>,
    /// Its trials, in order.
    pub trials: Vec<u32>,
}

/// A search for the greatest number of connections at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct HeldSearch {
    /// The most of which every one was opened, proved by an answer once all were open, and broken off.
    pub passed: Option<u64>,
    /// The least number above it of which one at least was not; nothing where the most asked for were held.
    pub failed: Option<u64>,
    /// Connections that a second began while they were opened.
    pub opened_at: f64,
    /// Its trials, in order.
    pub trials: Vec<u32>,
}

impl ConnectionsResult {
    /// The rates found, each the greatest that passed.
    pub fn rates(searches: &[RateSearch]) -> Option<Spread> {
        Spread::of(&searches.iter().filter_map(|search| search.passed).collect::<Vec<_>>())
    }

    /// All trials, in order.
    pub fn trials(&self) -> Vec<u32> {
        let searches = self.searches.iter().flat_map(|search| &search.trials);
        searches.chain(self.held.iter().flat_map(|held| &held.trials)).copied().collect()
    }
}

impl MethodResult for ConnectionsResult {
    fn method(&self) -> Method {
        Method::Connections
    }

    fn name(&self) -> &str {
        "connections"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(&self.trials())
    }

    fn number(&self) -> Option<(&str, Unit, f64)> {
        Some(("connections", Unit::ConnectionsPerSecond, self.rate?.mean))
    }

    fn says_invalid(&self) -> Option<&str> {
        self.rate.is_none().then_some("no rate of connections passed")
    }

    /// A trial that the machine spoilt fails at most one of three attempts at its rate.
    fn leaves_invalid_out(&self) -> bool {
        true
    }
}

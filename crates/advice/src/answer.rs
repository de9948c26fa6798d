//! What is answered, and what would answer the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::PointKey;
use weir_trial::run::advice::{Prediction, Question};

/// An answer to a question about points that differ in what is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The question.
    pub question: Question,
    /// About what: function, device, wiring, trace and size.
    pub about: String,
    /// What is said.
    #[serde(flatten)]
    pub says: Says,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Says {
    /// A recommendation.
    Advice(Box<Advice>),
    /// The points do not tell.
    Unanswered {
        /// Why.
        why: String,
        /// What would be measured to know.
        needed: Option<Needed>,
    },
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// In words.
    pub says: String,
    /// Whether the model expects that what was asked for is met, by the unfavourable end of every interval; nothing where no load was
    /// asked for.
    pub meets: Option<bool>,
    /// The point that it starts from.
    pub point: u32,
    /// The point that it advises: what a check measures.
    pub key: PointKey,
    /// What is expected there.
    pub predictions: Vec<Prediction>,
    /// The model with its numbers.
    pub model: String,
    /// Points that it was made from.
    pub derived_from: Vec<u32>,
    /// What was extrapolated; nothing where the model stayed between its points.
    pub extrapolated: Vec<String>,
    /// What else a reader must know.
    pub notes: Vec<String>,
}

/// What a plan would have to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Needed {
    /// The point whose plan it starts from.
    pub point: u32,
    /// Axes in place of the point's own: key and values, as TOML has them.
    pub axes: Vec<(String, String)>,
    /// Tables of methods, as TOML has them; nothing where the plan's own will do.
    pub methods: Option<String>,
}

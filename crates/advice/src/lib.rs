//! Advice: what measured points say about settings that were not measured.
//!
//! - [`advise`]: the answers to every question ([`Question`](weir_trial::run::advice::Question)) that a run's points can answer, each
//!   with a 95 % prediction interval, the points it was made from and what was extrapolated; what they cannot
//!   answer comes with the axis of a plan that would.
//! - [`fit`]: least squares with coefficients that are not negative, and the interval of what is to be measured;
//! - [`evidence`]: what a run's points say, and which of them say nothing;
//! - [`delay`]: delay against load, its knee, and the greatest load below a delay;
//! - [`check`]: a prediction beside what was measured.
//!
//! The model in words, with its formulas, is `docs/advice.md`. Everything is arithmetic over stored runs: no clock, no
//! packets, no chance. Cost: some microseconds a point.

pub mod answer;
pub mod check;
pub mod delay;
pub mod evidence;
pub mod fit;
mod questions;

pub use answer::{Advice, Answer, Needed, Says};
pub use questions::{Wanted, advise};

//! A run as a document, JSON.
//!
//! Whoever reads a run or writes one does it by these functions: what `serde` makes of the hundred types of a run is compiled
//! here once, and not again in each crate above.

use super::Run;

impl Run {
    /// Reads a run's document.
    ///
    /// # Errors
    ///
    /// Where it is no run: what, at which line and column.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Its document, on lines for people, without one at the end.
    ///
    /// # Errors
    ///
    /// Where it cannot be one.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Its document in a single line.
    ///
    /// # Errors
    ///
    /// Where it cannot be one.
    pub fn to_json_line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

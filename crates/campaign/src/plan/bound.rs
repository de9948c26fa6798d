//! How many points a plan may have.

use super::{AXES, Plan};
use weir_diagnostic::Diagnostic;

/// Combinations of a plan's axes, at most: as many points as a bundle can hold, so that what was measured can be handed on.
/// A file of a few kilobytes can name more than there is memory for.
pub(super) const MOST_COMBINATIONS: usize = weir_store::bundle::MOST_POINTS as usize;

impl Plan {
    /// The mistake that its axes have too many combinations.
    pub(super) fn too_many(&self) -> Option<Diagnostic> {
        let lengths: Vec<usize> = self.order.iter().map(|axis| self.length(*axis)).collect();
        debug_assert_eq!(lengths.len(), AXES, "every axis has a place in the order");
        let combinations = lengths.iter().try_fold(1_usize, |all, length| all.checked_mul(*length));
        let said = match combinations {
            Some(combinations) if combinations <= MOST_COMBINATIONS => return None,
            Some(combinations) => combinations.to_string(),
            None => "more than can be counted".to_owned(),
        };
        let longest = lengths.iter().max().copied().unwrap_or(0);
        Some(Diagnostic {
            label: format!("leave values out, the longest list has {longest}, or make several plans of it"),
            ..Diagnostic::new(
                0..0,
                format!("the plan's lists have {said} combinations; a plan may have {MOST_COMBINATIONS}"),
            )
        })
    }
}

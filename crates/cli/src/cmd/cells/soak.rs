//! A soak.

use super::{Cell, Delays, length};
use crate::cmd::layout::table;
use crate::cmd::stored::clock;
use weir_trial::run::{Point, PointKey, SoakResult};
use weir_units::Nanos;

/// Lossy slices that are listed before the rest is counted.
const LOSSES_LISTED: usize = 20;

impl Cell for SoakResult {
    fn cell(&self, _key: &PointKey, _latency: Delays<'_, '_>) -> String {
        line(self)
    }

    fn details(&self, point: &Point) -> Option<(&'static str, String)> {
        let found = &self.found;
        let mut text = format!(
            "{} of the time under load; between slices the tester drains and counts\nlongest time without loss: {}\n",
            found.under_load,
            length(found.longest_clean)
        );
        if let Some(drift) = found.drift {
            text.push_str(&format!(
                "first quarter: p50 {}, p99 {}; last quarter: p50 {}, p99 {}\n",
                drift.p50_first, drift.p99_first, drift.p50_last, drift.p99_last
            ));
        }
        let first = found.trials.first().and_then(|trial| point.trial(*trial));
        let row = |sequence: &u32| {
            let trial = point.trial(*sequence)?;
            let into = trial.started_ms.saturating_sub(first?.started_ms).max(0).unsigned_abs();
            let total = trial.result.total();
            Some(vec![
                clock(trial.started_ms),
                length(Nanos(into.saturating_mul(1_000_000))),
                total.lost().to_string(),
                total.intended.to_string(),
            ])
        };
        let rows: Vec<_> = found.lossy.iter().take(LOSSES_LISTED).filter_map(row).collect();
        if !rows.is_empty() {
            text.push_str(&table(&["slice began", "into the soak", "lost", "to send"], &[1, 2, 3], &rows));
        }
        if found.lossy.len() > LOSSES_LISTED {
            text.push_str(&format!("and {} slices more with loss\n", found.lossy.len() - LOSSES_LISTED));
        }
        if !found.invalid.is_empty() {
            text.push_str(&format!("{} slices were invalid and count nowhere\n", found.invalid.len()));
        }
        Some(("soak", text))
    }
}

fn line(soak: &SoakResult) -> String {
    let SoakResult { label, load, slice, found, .. } = soak;
    let slices = found.trials.len();
    let loss = if found.intended == 0 {
        "no slice is valid".to_owned()
    } else if found.lost == 0 {
        "no loss".to_owned()
    } else {
        let ratio = found.lost as f64 / found.intended.max(1) as f64;
        let slices = if found.lossy.len() == 1 { "slice" } else { "slices" };
        format!("{} lost ({ratio:.1e}) in {} {slices}", found.lost, found.lossy.len())
    };
    let clean = format!("longest without {}", length(found.longest_clean));
    let invalid =
        if found.invalid.is_empty() { String::new() } else { format!(" · {} invalid", found.invalid.len()) };
    format!("soak     {loss} · {clean} · {slices} × {slice} at {label} ({load}){invalid}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::Soaked;
    use weir_units::{Pps, Ratio};

    #[test]
    fn a_soak_without_a_valid_slice_does_not_claim_to_have_lost_nothing() {
        let found = |intended, lost: u64, invalid: usize| Soaked {
            trials: vec![0, 1],
            invalid: vec![0; invalid],
            lossy: vec![1; usize::from(lost > 0)],
            intended,
            lost,
            longest_clean: Nanos(0),
            under_load: Ratio(1.0),
            drift: None,
        };
        let said = |found| {
            let (label, slice) = ("1Mpps".to_owned(), Nanos(Nanos::PER_SECOND));
            line(&SoakResult { label, load: Pps(1e6), slice, found, limit: None })
        };
        assert!(
            said(found(0, 0, 2)).contains("no slice is valid") && said(found(0, 0, 2)).contains("2 invalid")
        );
        assert!(said(found(1_000_000, 0, 1)).contains("no loss"));
        assert!(said(found(1_000_000, 5, 0)).contains("5 lost (5.0e-6) in 1 slice ·"));
    }
}

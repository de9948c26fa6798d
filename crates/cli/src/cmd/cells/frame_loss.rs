//! Loss against load.

use super::{Cell, Delays, count, percent, remark};
use crate::cmd::layout::table;
use weir_trial::run::{FrameLossResult, LossStep, Point, PointKey};

impl Cell for FrameLossResult {
    fn cell(&self, _key: &PointKey, _latency: Delays<'_, '_>) -> String {
        let greatest = self
            .steps
            .first()
            .map_or_else(String::new, |step| format!("{} lost at {}", step.loss_ratio, percent(step.share)));
        let ends = self.zero_loss.map_or_else(
            || "no two trials without loss".to_owned(),
            |share| format!("nothing from {} of the line down", percent(share)),
        );
        format!("loss     {greatest} · {ends} · {}", count(self.steps.len()))
    }

    fn details(&self, point: &Point) -> Option<(&'static str, String)> {
        let row = |step: &LossStep| {
            let trial = point.trial(step.trial)?;
            let total = trial.result.total();
            Some(vec![
                percent(step.share),
                step.load.to_string(),
                step.loss_ratio.to_string(),
                total.intended.to_string(),
                total.lost().to_string(),
                total.unsent.to_string(),
                remark(trial).unwrap_or_default(),
            ])
        };
        let rows: Vec<_> = self.steps.iter().filter_map(row).collect();
        let headings = ["line", "load", "loss", "to send", "lost", "unsent", ""];
        Some(("frame loss, RFC 2544 section 26.3", table(&headings, &[0, 1, 2, 3, 4, 5], &rows)))
    }
}

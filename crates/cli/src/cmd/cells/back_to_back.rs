//! Bursts.

use super::{Cell, Delays};
use weir_trial::run::{BackToBackResult, BurstSending, Point, PointKey};

impl Cell for BackToBackResult {
    fn cell(&self, _key: &PointKey, _latency: Delays<'_, '_>) -> String {
        let length = self.bursts.as_ref().map(|bursts| {
            let searches = bursts.frames.len();
            format!("{:.1} frames ± {:.1} of {searches} searches", bursts.mean, bursts.deviation)
        });
        let buffer = self.implied.map(|implied| match (self.corrected, self.uncorrected()) {
            (Some(corrected), _) => format!("buffer of {corrected} (implied {implied})"),
            (None, why) => format!("implied buffer of {implied}, {}", why.unwrap_or_default()),
        });
        let invalid = self.invalid.as_ref().map(|why| format!("not valid: {why}"));
        let estimate =
            self.sending.as_ref().filter(|_| self.invalid.is_none()).and_then(|sent| sent.estimate());
        let estimate = estimate.map(|why| format!("an estimate, limited by the tester: {why}"));
        let parts: Vec<String> = [length, buffer, estimate, invalid].into_iter().flatten().collect();
        format!("bursts   {}", parts.join(" · "))
    }

    fn details(&self, _point: &Point) -> Option<(&'static str, String)> {
        let (bursts, step, ceiling) = (self.bursts.as_ref()?, self.step, self.ceiling);
        let frames: Vec<String> = bursts.frames.iter().map(u64::to_string).collect();
        let (frames, min, max) = (frames.join(", "), bursts.min, bursts.max);
        let sent = self.sending.as_ref().map_or(String::new(), sent);
        let text = format!(
            "longest bursts: {frames} frames; {min} to {max}, in steps of {step}, ceiling {ceiling}\n{sent}"
        );
        Some(("back-to-back, RFC 9004", text))
    }
}

/// How the bursts were sent.
fn sent(sending: &BurstSending) -> String {
    let BurstSending { decided, repeated, late, tolerated, .. } = sending;
    let late = late.map_or("nobody kept account of when its frames left".to_owned(), |late| {
        format!("no frame more than {late} frames late ({tolerated} are tolerated)")
    });
    format!("{} bursts decided, {repeated} were sent again; {late}\n", decided.len())
}

//! How bursts were sent, by the tester's account of its own time.

use super::TOLERATED;
use weir_trial::run::{BackToBackResult, BurstSending, StoredTrial};
use weir_trial::verdict::{Code, Weight};
use weir_trial::{TrialResult, judge};

/// How a burst was sent; the less, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sent {
    /// Frames that the tester did not offer.
    unsent: u64,
    /// See [`is_spoilt`].
    spoilt: bool,
    /// The most that a frame was late, in frames at the line rate; nothing where nobody kept account, as a simulated
    /// device does not, which is late with none.
    pub(super) late: Option<u64>,
}

impl Sent {
    pub(super) fn of(result: &TrialResult) -> Self {
        let late = result.account.as_ref().and_then(|account| account.sent_late.as_ref());
        let late = late.map(|late| (late.max.seconds() * result.spec.load.0).ceil() as u64);
        Self { unsent: result.total().unsent, spoilt: is_spoilt(result), late }
    }

    pub(super) fn is_back_to_back(&self) -> bool {
        self.unsent == 0 && !self.spoilt && self.late.is_none_or(|late| late <= TOLERATED)
    }
}

/// Whether the machine took a core away, or counts or clocks are not to be believed. How late frames were is told by
/// the frame, and a burst of some microseconds takes longer than that by the last look at the ports.
fn is_spoilt(result: &TrialResult) -> bool {
    let by_the_frame = [Code::Unsent, Code::LateSent, Code::Stretched];
    let verdict = judge(result);
    let mut invalid = verdict.findings.iter().filter(|finding| finding.weight == Weight::Invalid);
    invalid.any(|finding| !by_the_frame.contains(&finding.code))
}

/// How what was stored of the bursts differs from what their trials say.
pub(super) fn differences(
    result: &BackToBackResult,
    stored: &BurstSending,
    decided: &[&StoredTrial],
) -> Vec<String> {
    let mut differs = Vec::new();
    let sent: Vec<Sent> = decided.iter().map(|trial| Sent::of(&trial.result)).collect();
    let apart = sent.iter().filter(|sent| !sent.is_back_to_back()).count() as u32;
    if apart != stored.apart {
        differs.push(format!("bursts not back to back: {apart} by the trials, {} stored", stored.apart));
    }
    let late = sent.iter().filter_map(|sent| sent.late).max();
    if late != stored.late {
        let said = |late: Option<u64>| late.map_or("none".to_owned(), |late| format!("{late} frames"));
        differs.push(format!("latest frame: {} by the trials, {} stored", said(late), said(stored.late)));
    }
    for length in result.bursts.iter().flat_map(|bursts| &bursts.frames).filter(|length| **length > 0) {
        let whole = |trial: &&StoredTrial| {
            let total = trial.result.total();
            total.lost() == 0 && total.intended == *length
        };
        if !decided.iter().any(whole) {
            differs.push(format!("no burst of {length} frames that decided came through whole"));
        }
    }
    differs
}

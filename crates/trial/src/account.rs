//! The tester's account of its own doings in a trial: when it sent, how often it looked, what it saw
//! beside the packets that it counts.

use crate::run::{Point, Purpose};
use crate::{Latency, Windows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{LatencyHistogram, Nanos};

/// What the tester says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TesterAccount {
    /// Packets that load times duration comes to; nothing where the trace's own gaps, or its end, decide.
    pub planned: Option<Planned>,
    /// Time between when a packet was due and when it was sent. Packets of a burst that fell due one
    /// after the other count in four groups, each by its oldest: at most so late.
    pub sent_late: Option<Latency>,
    /// Time between two polls of a receive ring.
    pub poll_gaps: Option<Latency>,
    /// One-way delay by direction, of the packets in [`crate::TrialResult::latency`].
    pub delays: Vec<Option<Latency>>,
    /// One-way delay of packets that were on their way while the tester paused: not in
    /// [`crate::TrialResult::latency`], because the tester's pause is in it.
    pub paused_delay: Option<Latency>,
    /// Packets that came before the time in their stamp; in no histogram.
    pub negative_delays: u64,
    /// How what came back is shared among the frames of the trace; nothing where packets are not held against
    /// them one by one.
    pub shares: Option<Shares>,
    /// Packets that were sent beside the schedule, and those of them that came back: they look for an entry that a
    /// controller changes ([`crate::changes`]), and are none of the trial's.
    pub beside: (u64, u64),
    /// Frames that neighbours on a wire send by themselves (LLDP, spanning tree, ARP, neighbour
    /// discovery), which are no packets of the trial.
    pub wire_chatter: u64,
}

/// How often the distinct frames of a trace came back in a trial, as they must.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    /// Frames that must come out.
    pub frames: u64,
    /// How often one of them came for each time that it stands in a lap, in the median.
    pub median: u64,
    /// Frames that came less than half as often, and less often by more than chance makes likely.
    pub starved: u64,
    /// One of these, in words; empty where there is none.
    pub example: String,
}

/// The size of a trial, from its load and duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Packets over all directions.
    pub packets: u64,
    /// How far chance, or rounding to whole packets, may take the schedule from that.
    pub apart: u64,
}

/// The accounts of a point's trials together, of those that decided something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointAccount {
    /// Sent minus due.
    pub sent_late: Option<Latency>,
    /// Time between two polls of a receive ring.
    pub poll_gaps: Option<Latency>,
    /// One-way delay by direction; empty where there is one direction.
    pub delays: Vec<Option<Latency>>,
    /// Delay of packets that were on their way during a pause of the tester.
    pub paused_delay: Option<Latency>,
    /// Windows of all trials, and of these those left out.
    pub windows: u64,
    /// See [`Self::windows`].
    pub left_out: u64,
    /// Time that was proved to be taken from the tester, and from the DUT.
    pub taken: (Nanos, Nanos),
}

impl PointAccount {
    /// Of a point; nothing where the tester did not send.
    pub fn of(point: &Point) -> Option<Self> {
        let decided = |one: &&crate::run::StoredTrial| !one.superseded && one.purpose != Purpose::WarmUp;
        let results = point.trials.iter().filter(decided).map(|trial| &trial.result);
        let (accounts, windows): (Vec<_>, Vec<_>) =
            results.filter_map(|result| Some((result.account.as_ref()?, result.windows.as_ref()))).unzip();
        let directions = accounts.iter().map(|account| account.delays.len()).max()?;
        let sum = |of: fn(&Windows) -> u64| windows.iter().copied().flatten().map(of).sum();
        Some(Self {
            sent_late: together(accounts.iter().map(|account| account.sent_late.as_ref())),
            poll_gaps: together(accounts.iter().map(|account| account.poll_gaps.as_ref())),
            delays: (0..if directions > 1 { directions } else { 0 })
                .map(|of| together(accounts.iter().map(|account| account.delays.get(of)?.as_ref())))
                .collect(),
            paused_delay: together(accounts.iter().map(|account| account.paused_delay.as_ref())),
            windows: sum(|one| one.count.into()),
            left_out: sum(|one| one.left_out.into()),
            taken: (Nanos(sum(|one| one.tester.total.0)), Nanos(sum(|one| one.dut.total.0))),
        })
    }
}

/// Several distributions as one; a damaged histogram is left out, as is one that is not there.
fn together<'a>(parts: impl Iterator<Item = Option<&'a Latency>>) -> Option<Latency> {
    let mut sum = LatencyHistogram::default();
    for part in parts.flatten() {
        if let Ok(histogram) = LatencyHistogram::from_base64(&part.histogram) {
            sum.merge(&histogram);
        }
    }
    Latency::of(&sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{PointKey, StoredTrial};
    use crate::windows::Absences;
    use crate::{TrialResult, TrialSpec};
    use weir_units::{LineRate, Pps};

    fn times(time: u64, count: u64) -> Option<Latency> {
        let mut histogram = LatencyHistogram::default();
        histogram.record_many(Nanos(time), count);
        Latency::of(&histogram)
    }

    fn trial(sequence: u32, purpose: Purpose, late: u64) -> StoredTrial {
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(1_000) };
        let account = TesterAccount {
            sent_late: times(late, 10),
            delays: vec![times(1_000, 5), times(9_000, 5)],
            ..TesterAccount::default()
        };
        let tester = Absences { count: 1, total: Nanos(7), longest: Nanos(7) };
        let windows = Windows { count: 10, left_out: 2, tester, ..Windows::default() };
        let result = TrialResult { account: Some(account), windows: Some(windows), ..TrialResult::new(spec) };
        StoredTrial::new(sequence, purpose, 0, result)
    }

    #[test]
    fn a_points_account_is_that_of_the_trials_that_decided() {
        let mut point = Point {
            index: 0,
            key: PointKey {
                nf: crate::Nf::L2Fwd,
                dut: "nf".into(),
                wiring: "vhost".into(),
                trace: "tr3i".into(),
                size: "64".into(),
                mean_frame_bytes: 64.0,
                directions: 2,
                placement: crate::Placement::default(),
                huge_pages: false,
                line_rate: LineRate(weir_units::Bps(1e10)),
            },
            dut_version: None,
            trace_hashes: Vec::new(),
            seed: 0,
            packets: None,
            configuration: Default::default(),
            error: None,
            finished: true,
            results: Vec::new(),
            trials: Vec::new(),
        };
        assert_eq!(PointAccount::of(&point), None);
        point.trials =
            vec![trial(0, Purpose::WarmUp, 5_000), trial(1, Purpose::Mrr, 100), trial(2, Purpose::Mrr, 900)];
        let account = PointAccount::of(&point).unwrap();
        let late = account.sent_late.unwrap();
        assert_eq!((late.count, late.min, late.max.0 / 100), (20, Nanos(100), 9));
        assert_eq!((account.windows, account.left_out, account.taken), (20, 4, (Nanos(14), Nanos(0))));
        let medians: Vec<u64> =
            account.delays.iter().map(|one| one.as_ref().unwrap().percentiles[0].0 / 1_000).collect();
        assert_eq!(medians, [1, 9]);
        assert_eq!(account.poll_gaps, None);
    }
}

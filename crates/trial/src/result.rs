//! What one trial returns.

use crate::verdict::limits;
use crate::windows::WindowCounts;
use crate::{
    ChangesMade, ConnectionsMade, Health, PacketCheck, StageReading, TesterAccount, TrialSpec, Windows,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::{LatencyHistogram, Nanos, PERCENTILES, Pps, Ratio};

/// Packets of one direction of a trial.
///
/// `intended = sent + refused + unsent`, and `lost = sent - received` where no packet came twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionCounts {
    /// Packets the schedule called for.
    pub intended: u64,
    /// Packets the port took.
    pub sent: u64,
    /// Packets offered in time that the port did not take: the DUT's receive ring was full.
    pub refused: u64,
    /// Packets the tester itself was too late to offer.
    pub unsent: u64,
    /// This trial's packets that came back, each counted once.
    pub received: u64,
    /// Packets of this trial that came once more (not in `received`).
    pub duplicated: u64,
    /// Of the received, those overtaken by a later one (RFC 4737, section 3).
    pub reordered: u64,
    /// Packets of an earlier trial that came during this one (not in `received`).
    pub late: u64,
    /// Packets the tester never sent (not in `received`).
    pub foreign: u64,
    /// Packets that came damaged or changed: a checksum does not hold, or they are not what must become of the
    /// packet that their stamp names (not in `received`: a damaged packet is a lost one).
    #[serde(default)]
    pub damaged: u64,
    /// Of the sent, those that carried a sequence number and time stamp.
    pub stamped: u64,
}

impl DirectionCounts {
    /// Packets that the schedule called for and that never came back.
    pub fn lost(&self) -> u64 {
        self.intended.saturating_sub(self.received)
    }
}

impl std::ops::AddAssign for DirectionCounts {
    fn add_assign(&mut self, other: Self) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.refused += other.refused;
        self.unsent += other.unsent;
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.late += other.late;
        self.foreign += other.foreign;
        self.damaged += other.damaged;
        self.stamped += other.stamped;
    }
}

/// What the DUT's own counters and its forwarding threads' CPU clocks said over the trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DutReading {
    /// Packets the DUT says it received.
    pub received: u64,
    /// Packets the DUT says it sent.
    pub sent: u64,
    /// Time between the two readings.
    pub elapsed: Nanos,
    /// CPU time of the forwarding threads between the two readings.
    pub cpu: Nanos,
    /// TSC cycles of that CPU time per packet received; nothing when no packet came.
    pub cycles_per_packet: Option<f64>,
    /// The DUT's own further counters over that time, by their names there: cache hits, upcalls.
    #[serde(default)]
    pub details: BTreeMap<String, u64>,
}

/// A distribution of times, in nanoseconds: the one-way delay of the stamped packets of a trial, or what
/// the tester says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// How many times: stamped packets received, where it is a delay.
    pub count: u64,
    /// Least.
    pub min: Nanos,
    /// Mean.
    pub mean: f64,
    /// The percentiles of [`PERCENTILES`]: 50, 90, 99, 99.9, 99.99.
    pub percentiles: [Nanos; PERCENTILES.len()],
    /// Greatest.
    pub max: Nanos,
    /// The whole histogram, HdrHistogram V2 compressed, base64.
    pub histogram: String,
}

impl Latency {
    /// The summary of a histogram; nothing when it is empty.
    pub fn of(histogram: &LatencyHistogram) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            min: histogram.min()?,
            mean: histogram.mean()?,
            percentiles: PERCENTILES.map(|percent| histogram.percentile(percent).unwrap_or_default()),
            max: histogram.max()?,
            histogram: histogram.to_base64(),
        })
    }
}

impl Latency {
    /// Whether so many packets were timed that the percentile at a place of [`PERCENTILES`] is more
    /// than the greatest of them: a 99th percentile takes a hundred.
    pub fn tells(&self, place: usize) -> bool {
        self.count as f64 * (100.0 - PERCENTILES[place]) >= 100.0 - 1e-6
    }
}

/// What came of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialResult {
    /// As asked for.
    pub spec: TrialSpec,
    /// How long it took from first packet to the end of sending, as measured.
    pub elapsed: Nanos,
    /// Set-up, drain and accounting time beside `elapsed`; searches count it as cost.
    pub overhead: Nanos,
    /// Counts, one per direction. Empty for the `fed` wiring, which has no tester at the wire.
    pub directions: Vec<DirectionCounts>,
    /// One-way delay over all directions, where packets were stamped.
    pub latency: Option<Latency>,
    /// The DUT's own reading, where its adapter offers one.
    pub dut: Option<DutReading>,
    /// What the machine did to it.
    #[serde(default)]
    pub health: Health,
    /// Whether a sample of what came out was right; nothing where none was taken.
    #[serde(default)]
    pub packets: Option<PacketCheck>,
    /// The tester's account of its own time; nothing where it did not send.
    #[serde(default)]
    pub account: Option<TesterAccount>,
    /// What of it counts; nothing where packets cannot be told apart by their stamps: all counts then.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// What the stages of a chain counted, from its port 0 on; none of a device that is no chain of processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageReading>,
    /// What a controller changed meanwhile; nothing where there was none.
    #[serde(default)]
    pub changes: Option<ChangesMade>,
    /// What came of its connections; nothing where its packets were of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionsMade>,
}

impl TrialResult {
    /// A trial that moved nothing yet: no counts, no readings, and as long as asked for.
    pub fn new(spec: TrialSpec) -> Self {
        Self {
            spec,
            elapsed: spec.duration,
            overhead: Nanos(0),
            directions: Vec::new(),
            latency: None,
            dut: None,
            health: Health::default(),
            packets: None,
            account: None,
            windows: None,
            stages: Vec::new(),
            changes: None,
            connections: None,
        }
    }

    /// Time that the trial took, set-up and drain included.
    pub fn cost(&self) -> Nanos {
        Nanos(self.elapsed.max(self.spec.duration).0.saturating_add(self.overhead.0))
    }

    /// Sum over the directions.
    pub fn total(&self) -> DirectionCounts {
        let mut total = DirectionCounts::default();
        self.directions.iter().for_each(|direction| total += *direction);
        total
    }

    /// Counts that decide: over the windows that are kept ([`Windows`]), else the whole trial's.
    pub fn counted(&self) -> WindowCounts {
        let kept = self.windows.as_ref().map(Windows::total).filter(|kept| kept.intended() > 0);
        kept.unwrap_or_else(|| {
            let DirectionCounts { intended, sent, refused, received, .. } = self.total();
            let unsent = intended.saturating_sub(sent + refused);
            WindowCounts { sent, refused, unsent, late: None, received }
        })
    }

    /// The time of [`Self::counted`].
    pub fn counted_time(&self) -> Nanos {
        match &self.windows {
            Some(windows) if windows.total().intended() > 0 => windows.kept,
            _ => self.spec.duration,
        }
    }

    /// Packets forwarded: received by the tester, or for `fed` sent by the DUT.
    pub fn forwarded(&self) -> u64 {
        match (self.directions.is_empty(), &self.dut) {
            (true, Some(dut)) => dut.sent,
            _ => self.total().received,
        }
    }

    /// Forwarded packets per second of the time they were offered in, where it counts.
    pub fn forwarded_rate(&self) -> Pps {
        let (packets, seconds) = match (self.directions.is_empty(), &self.dut) {
            (true, Some(dut)) => (dut.sent, dut.elapsed.seconds()),
            _ => (self.counted().received, self.counted_time().seconds()),
        };
        if seconds > 0.0 { Pps(packets as f64 / seconds) } else { Pps(0.0) }
    }

    /// Lost packets over intended packets, where they count. Unsent and refused packets count as lost
    /// (MLRsearch, draft 15): a tester that cannot send must not make a DUT look good. Unsent packets that
    /// are forgiven ([`limits::UNSENT`]) were neither offered nor lost.
    pub fn loss_ratio(&self) -> Ratio {
        let counted = self.counted();
        let forgiven = if limits::forgives(&counted) { counted.unsent } else { 0 };
        match counted.intended() - forgiven {
            0 => Ratio(0.0),
            offered => Ratio((counted.lost().saturating_sub(forgiven)) as f64 / offered as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_takes_as_many_packets_as_its_tail_has_one_of() {
        let latency = |count: u64| {
            let mut histogram = LatencyHistogram::default();
            histogram.record_many(Nanos(5_000), count);
            Latency::of(&histogram).unwrap()
        };
        assert!(latency(100).tells(2) && !latency(99).tells(2));
        assert!(latency(1000).tells(3) && !latency(999).tells(3));
    }

    #[test]
    fn unsent_and_refused_packets_are_lost_packets() {
        let counts = DirectionCounts {
            intended: 1000,
            sent: 900,
            refused: 60,
            unsent: 40,
            received: 890,
            ..DirectionCounts::default()
        };
        let spec = TrialSpec { load: Pps(1000.0), duration: Nanos(Nanos::PER_SECOND) };
        let result = TrialResult { directions: vec![counts, counts], ..TrialResult::new(spec) };
        assert_eq!(result.loss_ratio(), Ratio(220.0 / 2000.0));
        assert_eq!(result.forwarded_rate(), Pps(1780.0));
    }

    #[test]
    fn a_thousandth_that_was_not_sent_is_not_lost_and_one_packet_more_is() {
        let with = |unsent| {
            let sent = 1_000_000 - unsent;
            let counts =
                DirectionCounts { intended: 1_000_000, sent, unsent, received: sent, ..Default::default() };
            let spec = TrialSpec { load: Pps(1e6), duration: Nanos(Nanos::PER_SECOND) };
            TrialResult { directions: vec![counts], ..TrialResult::new(spec) }
        };
        assert_eq!(with(1_000).loss_ratio(), Ratio(0.0));
        assert_eq!(with(1_001).loss_ratio(), Ratio(0.001_001));
        // What was sent and did not come is lost whatever else was not sent.
        let mut result = with(1_000);
        result.directions[0].received -= 999;
        assert_eq!(result.loss_ratio(), Ratio(0.001));
    }

    #[test]
    fn where_windows_are_left_out_the_others_decide_and_the_raw_counts_stay() {
        let counts = DirectionCounts {
            intended: 1000,
            sent: 900,
            unsent: 100,
            received: 800,
            ..DirectionCounts::default()
        };
        let kept = WindowCounts { sent: 500, received: 495, ..WindowCounts::default() };
        let windows = Windows { kept: Nanos(500_000_000), counts: vec![kept], ..Windows::default() };
        let spec = TrialSpec { load: Pps(1000.0), duration: Nanos(Nanos::PER_SECOND) };
        let mut result =
            TrialResult { directions: vec![counts], windows: Some(windows), ..TrialResult::new(spec) };
        assert_eq!((result.loss_ratio(), result.total().lost()), (Ratio(0.01), 200));
        assert_eq!((result.forwarded_rate(), result.counted_time()), (Pps(990.0), Nanos(500_000_000)));
        // Nothing that counts is no proof of anything.
        result.windows = Some(Windows { counts: vec![WindowCounts::default()], ..Windows::default() });
        assert_eq!((result.loss_ratio(), result.counted_time()), (Ratio(0.2), spec.duration));
    }
}

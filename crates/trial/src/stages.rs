//! Stages of a chain: what each counted, and where its packets went.
//!
//! Every packet that does not come back is lost at one place: it found the queue before a stage full, was dropped by
//! the stage itself, or vanished between two of them. A full queue is the fault of who is to empty it, not of who
//! wanted to fill it; so each loss is laid at a process, and who has most of it limits the chain. Where a host splits
//! packets among copies of a chain, each copy has stages of its own, and what the host handed to each is counted. Bundles
//! beside one another are a row of stages each, and share the processes that carry packets for all.

mod bundles;
mod paths;
mod times;

use crate::TrialResult;
use paths::Paths;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Nanos;

/// What one stage of a chain counted: a function, or the host between two of them. Both directions of the chain,
/// the first from its port 0 to its port 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageReading {
    /// What it is: `nf 2 l3fwd:10`, or `weir` for the host.
    pub name: String,
    /// Which of the chain's processes it is: a host has several stages.
    pub process: u32,
    /// Packets that came in, by direction.
    pub received: [u64; 2],
    /// Packets that left, by direction.
    pub sent: [u64; 2],
    /// Of those that did not leave: what found the next queue full. Nothing where the dataplane does not say.
    pub refused: Option<u64>,
    /// CPU time of the process, all its stages together.
    pub cpu: Nanos,
    /// TSC cycles that its thread spent on rounds which found packets, all its stages together; nothing of a process
    /// that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<u64>,
    /// What its taps say; nothing of a process without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taps: Option<StageTaps>,
    /// Which of several copies of the chain it stands in, from 1; 0 outside of them.
    #[serde(default, skip_serializing_if = "is_outside")]
    pub copy: u32,
    /// Which of several bundles it stands in, from 1; 0 where there is one.
    #[serde(default, skip_serializing_if = "is_outside")]
    pub bundle: u32,
    /// Of a stage at the edge of a copy: what the splitter handed to it, by direction.
    #[serde(default, skip_serializing_if = "is_not_handed")]
    pub handed: [Option<Handed>; 2],
}

/// What a splitter handed to one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handed {
    /// Packets that went into the copy's queue.
    pub sent: u64,
    /// Packets that found it full; nothing where the dataplane does not say.
    pub refused: Option<u64>,
}

impl Handed {
    /// What was handed since an earlier reading.
    fn since(self, before: Self) -> Self {
        let refused = self.refused.zip(before.refused).map(|(now, then)| now.saturating_sub(then));
        Self { sent: self.sent.saturating_sub(before.sent), refused }
    }
}

/// Whether a stage is part of no copy, or of no bundle: then it is not stored.
fn is_outside(number: &u32) -> bool {
    *number == 0
}

/// Whether nothing was handed to it by a splitter.
fn is_not_handed(handed: &[Option<Handed>; 2]) -> bool {
    handed.iter().all(Option::is_none)
}

/// Stamped packets at both edges of a stage, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTaps {
    /// Where they come in.
    pub came: [Passed; 2],
    /// Where they leave.
    pub left: [Passed; 2],
}

/// Stamped packets that passed an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Passed {
    /// How many.
    pub packets: u64,
    /// Sum of their delays since the tester sent them.
    pub delay: Nanos,
}

impl Passed {
    /// What passed since an earlier reading.
    fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            delay: Nanos(self.delay.0.saturating_sub(before.delay.0)),
        }
    }

    /// With what passed another edge.
    fn with(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, delay: Nanos(self.delay.0 + other.delay.0) }
    }

    /// Mean delay since the tester sent them, in nanoseconds; nothing where none passed.
    fn mean(self) -> Option<f64> {
        (self.packets > 0).then(|| self.delay.0 as f64 / self.packets as f64)
    }
}

impl StageTaps {
    /// With what passed the edges of another pair of ports.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let of = |one: [Passed; 2], other: [Passed; 2]| [one[0].with(other[0]), one[1].with(other[1])];
        Self { came: of(self.came, other.came), left: of(self.left, other.left) }
    }

    fn since(self, before: Self) -> Self {
        let of = |now: [Passed; 2], then: [Passed; 2]| [now[0].since(then[0]), now[1].since(then[1])];
        Self { came: of(self.came, before.came), left: of(self.left, before.left) }
    }
}

impl StageReading {
    /// What it did since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        let grown =
            |now: [u64; 2], then: [u64; 2]| [0, 1].map(|way: usize| now[way].saturating_sub(then[way]));
        Self {
            received: grown(self.received, before.received),
            sent: grown(self.sent, before.sent),
            refused: self.refused.zip(before.refused).map(|(now, then)| now.saturating_sub(then)),
            cpu: Nanos(self.cpu.0.saturating_sub(before.cpu.0)),
            busy: self.busy.zip(before.busy).map(|(now, then)| now.saturating_sub(then)),
            taps: self.taps.zip(before.taps).map(|(now, then)| now.since(then)),
            handed: [0, 1].map(|way: usize| {
                self.handed[way].zip(before.handed[way]).map(|(now, then)| now.since(then))
            }),
            ..self.clone()
        }
    }

    /// Packets that came in and did not leave, by direction.
    fn kept(&self) -> [u64; 2] {
        [0, 1].map(|way: usize| self.received[way].saturating_sub(self.sent[way]))
    }

    /// Packets that found the next queue full, by direction, of which those of some directions are `known`. A
    /// dataplane that counts both directions together drops for other reasons in equal shares of what it kept; one that
    /// does not say is taken to drop for no other.
    fn refused_by_direction(&self, known: [Option<u64>; 2]) -> [u64; 2] {
        let kept = self.kept();
        let all = kept[0] + kept[1];
        let refused = self.refused.unwrap_or(all).min(all);
        match known {
            [Some(forth), Some(back)] => [forth.min(kept[0]), back.min(kept[1])],
            [Some(forth), None] => [forth.min(kept[0]), refused.saturating_sub(forth).min(kept[1])],
            [None, Some(back)] => [refused.saturating_sub(back).min(kept[0]), back.min(kept[1])],
            [None, None] => {
                let forth = u128::from(kept[0]) * u128::from(refused);
                let forth = forth.checked_div(u128::from(all)).unwrap_or(0) as u64;
                [forth, refused - forth]
            }
        }
    }
}

/// Who lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Culprit {
    /// A process of the chain.
    Process(u32),
    /// The tester, which did not take what came back.
    Tester,
    /// Nobody counted it: it left one stage and came to none. The link between two places, counted from 1; 0 and the
    /// one behind the last are the tester.
    Between(usize, usize),
    /// The same where copies join, at the stage of a place: nobody knows of which copy it was.
    Joining(usize),
}

/// What a stage has lost, in packets of both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageLoss {
    /// The stage.
    pub name: String,
    /// Packets that came in.
    pub received: u64,
    /// Packets that found its queue full: they were to come to it, and did not.
    pub waited_in_vain: u64,
    /// Packets that it dropped itself.
    pub dropped: u64,
    /// Packets that left the stage before it and never came.
    pub vanished: u64,
    /// Mean time of a packet from the edge before to the one behind it, in nanoseconds, over both directions: from
    /// tap to tap through a host, from the tap before to its own last one through a function. Nothing without taps.
    #[serde(default)]
    pub time: Option<f64>,
    /// Of that, the time inside the process, from its own first tap to its last, in nanoseconds. Nothing without taps.
    #[serde(default)]
    pub inside: Option<f64>,
    /// Packets that wait in its queues on average, of both directions, by Little's law: packets a second times the
    /// time from the edge before to its own first tap. Of a host without taps, what is in it and in the queues around it.
    /// Nothing where neither edge has taps.
    #[serde(default)]
    pub queued: Option<f64>,
    /// TSC cycles of its thread a packet that came into its process. Nothing where it does not say.
    #[serde(default)]
    pub cycles: Option<f64>,
    /// Of a stage in one of several copies: the share of the packets that came to all copies there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

impl StageLoss {
    /// A stage that so many packets came to, and nothing else is known of.
    fn new(name: &str, received: u64) -> Self {
        Self {
            name: name.to_owned(),
            received,
            waited_in_vain: 0,
            dropped: 0,
            vanished: 0,
            time: None,
            inside: None,
            queued: None,
            cycles: None,
            share: None,
        }
    }
}

/// Where the packets of a trial were lost, and who limits the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waterfall {
    /// By stage, from the chain's port 0 on; the tester's own receiver last.
    pub stages: Vec<StageLoss>,
    /// The process that most packets were lost for, and its share of all that were lost; nothing where none was.
    pub limit: Option<(String, f64)>,
    /// The stage that packets are longest inside of, and the mean time there in nanoseconds; nothing without taps.
    #[serde(default)]
    pub longest: Option<(String, f64)>,
}

impl Waterfall {
    /// Of a trial over a chain of processes; nothing of any other.
    pub fn of(result: &TrialResult) -> Option<Self> {
        let (mut rows, mut lost, mut tester) = (Vec::new(), Lost::new(), Vec::new());
        for bundle in bundles::split(result) {
            let (mut own, culprits) = losses(&bundle)?;
            tester.extend(own.pop());
            rows.extend(own);
            for (culprit, packets) in culprits {
                let name = name(&bundle.stages, culprit)?;
                *lost.entry((culprit, name)).or_insert(0) += packets;
            }
        }
        for (row, stage) in rows.iter_mut().zip(&result.stages) {
            row.cycles = cycles(&result.stages, stage.process);
        }
        rows.push(bundles::together(tester)?);
        let inside = rows.iter().filter_map(|row| Some((row.name.clone(), row.inside?)));
        let longest = inside.max_by(|a, b| a.1.total_cmp(&b.1));
        Some(Self { limit: limit(lost), longest, stages: rows })
    }
}

/// Packets lost, by who lost them and his name.
type Lost = std::collections::BTreeMap<(Culprit, String), u64>;
/// What one bundle's stages and the tester lost, and packets by who lost them.
type Losses = (Vec<StageLoss>, Vec<(Culprit, u64)>);

/// Of one bundle: a row a stage, the tester's last, and packets by who lost them.
fn losses(result: &TrialResult) -> Option<Losses> {
    let stages = &result.stages;
    let last = stages.len().checked_sub(1)?;
    let mut sums = Sums { rows: rows(result), lost: Vec::new(), paths: Paths::of(stages), stages };
    // Into the chain, from both sides: what the tester's ports did not take.
    for (direction, first) in result.directions.iter().zip([0, last]) {
        sums.rows[first].waited_in_vain += direction.refused;
        sums.lost.push((Culprit::Process(stages[first].process), direction.refused));
    }
    for place in 0..stages.len() {
        sums.keep(place);
        (0..2).for_each(|way| sums.arrive(way, place, result));
    }
    (0..2).for_each(|way| sums.come_back(way, result));
    let Sums { mut rows, lost, .. } = sums;
    let seconds = result.elapsed.max(result.spec.duration).seconds().max(1e-9);
    for (row, times) in rows.iter_mut().zip(times::times(result)) {
        (row.time, row.inside) = (times.whole.mean(), times.inside.mean());
        row.queued = times.queue.mean().map(|_| (times.queue.sum * 1e-9 / seconds).max(0.0));
    }
    Some((rows, lost))
}

/// A row a stage, the tester's receiver last, with what came in.
fn rows(result: &TrialResult) -> Vec<StageLoss> {
    let each = result.stages.iter().zip(paths::shares(&result.stages));
    let row = |(stage, share): (&StageReading, Option<f64>)| StageLoss {
        share,
        ..StageLoss::new(&bundles::named(stage), stage.received[0] + stage.received[1])
    };
    let back = result.directions.iter().map(|direction| direction.received).sum();
    each.map(row).chain([StageLoss::new("tester", back)]).collect()
}

/// TSC cycles of a process a packet that came into any of its stages.
fn cycles(stages: &[StageReading], process: u32) -> Option<f64> {
    let own = || stages.iter().filter(|stage| stage.process == process);
    let packets: u64 = own().map(|stage| stage.received[0] + stage.received[1]).sum();
    let busy = own().find_map(|stage| stage.busy)?;
    (packets > 0).then(|| busy as f64 / packets as f64)
}

/// Losses that are being laid at those who lost.
struct Sums<'s> {
    stages: &'s [StageReading],
    paths: Paths,
    rows: Vec<StageLoss>,
    lost: Vec<(Culprit, u64)>,
}

impl Sums<'_> {
    /// What came into a stage and did not leave it.
    fn keep(&mut self, place: usize) {
        let stage = &self.stages[place];
        let refused = [0, 1].map(|way| {
            let next = self.paths.next(way, place);
            let each = next.iter().map(|next| self.stages[*next].handed[way]?.refused);
            each.collect::<Option<Vec<u64>>>().filter(|each| each.len() > 1)
        });
        let known = refused.each_ref().map(|each| each.as_ref().map(|each| each.iter().sum()));
        let (kept, sums) = (stage.kept(), stage.refused_by_direction(known));
        for way in 0..2 {
            let own = kept[way] - sums[way];
            self.rows[place].dropped += own;
            self.lost.push((Culprit::Process(stage.process), own));
            let next = self.paths.next(way, place).to_vec();
            let Some(count) = u64::try_from(next.len()).ok().filter(|count| *count > 0) else {
                self.wait((self.stages.len(), Culprit::Tester), sums[way]);
                continue;
            };
            // A splitter says which copy's queue was full; one that does not is taken to find all alike.
            let mut left = sums[way];
            for (at, next) in (0..).zip(next) {
                let share = match &refused[way] {
                    Some(each) => each[at].min(left),
                    None => left / (count - at as u64),
                };
                left -= share;
                self.wait((next, Culprit::Process(self.stages[next].process)), share);
            }
        }
    }

    /// Packets that found a queue full.
    fn wait(&mut self, (place, culprit): (usize, Culprit), packets: u64) {
        self.rows[place].waited_in_vain += packets;
        self.lost.push((culprit, packets));
    }

    /// What was sent to a stage and never came there.
    fn arrive(&mut self, way: usize, place: usize, result: &TrialResult) {
        let before = self.paths.before(way, place);
        let sent = match self.stages[place].handed[way] {
            Some(handed) => handed.sent,
            None if before.is_empty() => result.directions.get(way).map_or(0, |counts| counts.sent),
            None => before.iter().map(|before| self.stages[*before].sent[way]).sum(),
        };
        let here = place + 1;
        let culprit = match before {
            [] if way == 0 => Culprit::Between(0, here),
            [] => Culprit::Between(here, here + 1),
            [before] => Culprit::Between(here.min(before + 1), here.max(before + 1)),
            _ => Culprit::Joining(place),
        };
        let vanished = sent.saturating_sub(self.stages[place].received[way]);
        self.rows[place].vanished += vanished;
        self.lost.push((culprit, vanished));
    }

    /// What left the chain and never came to the tester. A packet that comes twice or damaged has left it all the same.
    fn come_back(&mut self, way: usize, result: &TrialResult) {
        let count = self.stages.len();
        let (end, link) = if way == 0 { (count - 1, (count, count + 1)) } else { (0, (0, 1)) };
        let came = result.directions.get(way).map_or(0, |counts| {
            counts.received + counts.duplicated + counts.damaged + counts.late + counts.foreign
        });
        let vanished = self.stages[end].sent[way].saturating_sub(came);
        self.rows[count].vanished += vanished;
        self.lost.push((Culprit::Between(link.0, link.1), vanished));
    }
}

/// Who has lost most, by name, and which share of all.
fn limit(lost: Lost) -> Option<(String, f64)> {
    let all: u64 = lost.values().sum();
    let ((_, name), most) =
        lost.into_iter().max_by_key(|(_, packets)| *packets).filter(|(_, most)| *most > 0)?;
    Some((name, most as f64 / all as f64))
}

/// What one who lost packets is called.
fn name(stages: &[StageReading], culprit: Culprit) -> Option<String> {
    Some(match culprit {
        Culprit::Tester => "the tester".to_owned(),
        Culprit::Process(process) => stages.iter().find(|stage| stage.process == process)?.name.clone(),
        Culprit::Between(near, far) => {
            let stage = |place: usize| stages.get(place.checked_sub(1)?);
            let name = |place| stage(place).map_or_else(|| "the tester".to_owned(), bundles::named);
            format!("the link between {} and {}", name(near), name(far))
        }
        Culprit::Joining(place) => {
            format!("the links between the copies and {}", bundles::named(stages.get(place)?))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DirectionCounts, Latency, TrialSpec};
    use weir_units::{LatencyHistogram, Pps};

    fn stage(
        name: &str,
        process: u32,
        received: [u64; 2],
        sent: [u64; 2],
        refused: Option<u64>,
    ) -> StageReading {
        StageReading { name: name.to_owned(), process, received, sent, refused, ..StageReading::default() }
    }

    /// A host, a function, the host again.
    fn trial(stages: [StageReading; 3], [forth, back]: [(u64, u64, u64); 2]) -> TrialResult {
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(1_000_000) };
        let counts = |(sent, refused, received)| DirectionCounts {
            intended: sent + refused,
            sent,
            refused,
            received,
            ..Default::default()
        };
        TrialResult {
            stages: stages.into(),
            directions: vec![counts(forth), counts(back)],
            ..TrialResult::new(spec)
        }
    }

    #[test]
    fn a_full_queue_is_laid_at_who_is_to_empty_it() {
        // The function is slow: the host finds its queue full from both sides.
        let slow = trial(
            [
                stage("host", 0, [100, 60], [60, 60], Some(40)),
                stage("nf 1", 1, [60, 60], [60, 60], Some(0)),
                stage("host", 0, [60, 100], [60, 60], Some(40)),
            ],
            [(100, 0, 60), (100, 0, 60)],
        );
        let waterfall = Waterfall::of(&slow).unwrap();
        assert_eq!(waterfall.limit, Some(("nf 1".to_owned(), 1.0)));
        let in_vain: Vec<u64> = waterfall.stages.iter().map(|stage| stage.waited_in_vain).collect();
        assert_eq!(in_vain, [0, 80, 0, 0]);
        // The host is slow: the tester finds its queue full.
        let busy = trial(
            [
                stage("host", 0, [60, 60], [60, 60], None),
                stage("nf 1", 1, [60, 60], [60, 60], Some(0)),
                stage("host", 0, [60, 60], [60, 50], None),
            ],
            [(60, 30, 60), (60, 30, 60)],
        );
        let waterfall = Waterfall::of(&busy).unwrap();
        let (name, share) = waterfall.limit.unwrap();
        assert_eq!((name.as_str(), (share * 70.0).round()), ("host", 60.0), "10 waited for the function");
    }

    #[test]
    fn what_a_stage_drops_itself_is_its_own_and_what_nobody_counts_is_the_links() {
        let faulty = trial(
            [
                stage("host", 0, [100, 100], [100, 100], Some(0)),
                stage("nf 1", 1, [100, 100], [99, 100], Some(0)),
                stage("host", 0, [99, 100], [99, 100], Some(0)),
            ],
            [(100, 0, 99), (100, 0, 100)],
        );
        let waterfall = Waterfall::of(&faulty).unwrap();
        assert_eq!(waterfall.limit, Some(("nf 1".to_owned(), 1.0)));
        assert_eq!(waterfall.stages[1].dropped, 1);
        let leaky = trial(
            [
                stage("host", 0, [100, 100], [100, 100], Some(0)),
                stage("nf 1", 1, [97, 100], [97, 100], Some(0)),
                stage("host", 0, [97, 100], [97, 100], Some(0)),
            ],
            [(100, 0, 97), (100, 0, 100)],
        );
        let waterfall = Waterfall::of(&leaky).unwrap();
        assert_eq!(waterfall.limit, Some(("the link between host and nf 1".to_owned(), 1.0)));
        assert_eq!(waterfall.stages[1].vanished, 3);
    }

    #[test]
    fn every_lost_packet_is_lost_once_and_none_of_a_device_alone() {
        let mixed = trial(
            [
                stage("host", 0, [90, 70], [80, 65], Some(15)),
                stage("nf 1", 1, [80, 80], [75, 70], Some(12)),
                stage("host", 0, [75, 85], [70, 80], None),
            ],
            [(90, 10, 69), (85, 5, 65)],
        );
        let waterfall = Waterfall::of(&mixed).unwrap();
        let sum: u64 =
            waterfall.stages.iter().map(|stage| stage.waited_in_vain + stage.dropped + stage.vanished).sum();
        assert_eq!(sum, (100 - 69) + (90 - 65), "{waterfall:?}");
        let alone = TrialResult::new(TrialSpec { load: Pps(1.0), duration: Nanos(1) });
        assert_eq!(Waterfall::of(&alone), None);
        let whole = trial(
            [
                stage("h", 0, [9, 9], [9, 9], None),
                stage("n", 1, [9, 9], [9, 9], None),
                stage("h", 0, [9, 9], [9, 9], None),
            ],
            [(9, 0, 9), (9, 0, 9)],
        );
        assert_eq!(Waterfall::of(&whole).unwrap().limit, None);
    }

    /// The host, two copies of a function, the host.
    fn copies(
        first: StageReading,
        second: StageReading,
        ends: [StageReading; 2],
        counts: [(u64, u64, u64); 2],
    ) -> TrialResult {
        let [near, far] = ends;
        let whole = trial([near.clone(), first, far.clone()], counts);
        let [near, first, far] = <[StageReading; 3]>::try_from(whole.stages.clone()).unwrap();
        let stages = vec![near, StageReading { copy: 1, ..first }, StageReading { copy: 2, ..second }, far];
        TrialResult { stages, ..whole }
    }

    fn handed(stage: StageReading, [forth, back]: [(u64, u64); 2]) -> StageReading {
        let handed = |(sent, refused)| Some(Handed { sent, refused: Some(refused) });
        StageReading { handed: [handed(forth), handed(back)], ..stage }
    }

    #[test]
    fn a_full_queue_before_one_of_several_copies_is_laid_at_that_copy() {
        // The second copy is slow: of 50 packets that were to come to it from either side 20 found its queue full.
        let slow = copies(
            handed(stage("nf 1, copy 1", 1, [50, 50], [50, 50], Some(0)), [(50, 0), (50, 0)]),
            handed(stage("nf 1, copy 2", 2, [30, 30], [30, 30], Some(0)), [(30, 20), (30, 20)]),
            [
                stage("host", 0, [100, 80], [80, 80], Some(20)),
                stage("host", 0, [80, 100], [80, 80], Some(20)),
            ],
            [(100, 0, 80), (100, 0, 80)],
        );
        let waterfall = Waterfall::of(&slow).unwrap();
        assert_eq!(waterfall.limit, Some(("nf 1, copy 2".to_owned(), 1.0)));
        let in_vain: Vec<u64> = waterfall.stages.iter().map(|stage| stage.waited_in_vain).collect();
        assert_eq!(in_vain, [0, 0, 40, 0, 0]);
        let shares: Vec<Option<f64>> = waterfall.stages.iter().map(|stage| stage.share).collect();
        assert_eq!(shares, [None, Some(0.625), Some(0.375), None, None]);
    }

    #[test]
    fn every_packet_lost_among_copies_is_lost_once_and_a_splitter_that_says_nothing_is_taken_to_find_all_alike()
     {
        let mixed = |said: bool| {
            let handed = |stage, counts| {
                let stage = handed(stage, counts);
                let silent =
                    stage.handed.map(|handed| handed.map(|handed| Handed { refused: None, ..handed }));
                if said { stage } else { StageReading { handed: silent, ..stage } }
            };
            copies(
                // Two vanish before it, it drops one and finds the host's queue full for one.
                handed(stage("nf 1, copy 1", 1, [48, 45], [47, 44], Some(1)), [(50, 10), (45, 5)]),
                handed(stage("nf 1, copy 2", 2, [40, 50], [40, 50], Some(0)), [(40, 0), (50, 0)]),
                [
                    // It drops two by itself, and the tester takes one of them in vain.
                    stage("host", 0, [102, 94], [90, 93], Some(11)),
                    stage("host", 0, [86, 101], [85, 95], Some(6)),
                ],
                [(104, 6, 85), (101, 9, 90)],
            )
        };
        for said in [true, false] {
            let waterfall = Waterfall::of(&mixed(said)).unwrap();
            let lost = |of: fn(&StageLoss) -> u64| waterfall.stages.iter().map(of).collect::<Vec<_>>();
            let sum: u64 = lost(|stage| stage.waited_in_vain + stage.dropped + stage.vanished).iter().sum();
            assert_eq!(sum, (110 - 85) + (110 - 90), "{waterfall:?}");
            assert_eq!(lost(|stage| stage.vanished)[1], 2, "{waterfall:?}");
            let in_vain = lost(|stage| stage.waited_in_vain);
            assert_eq!(in_vain[1] + in_vain[2], 15 + u64::from(!said), "{waterfall:?}");
            assert_eq!(in_vain[2] > 0, !said, "{waterfall:?}");
        }
        let mut joined = mixed(true);
        joined.stages[3].received[0] = 7;
        let (name, _) = Waterfall::of(&joined).unwrap().limit.unwrap();
        assert_eq!(name, "the links between the copies and host");
    }

    /// Taps of a function that packets reach after so long and leave so long after that, by direction.
    fn tapped(stage: StageReading, came: [u64; 2], inside: [u64; 2]) -> StageReading {
        let edge = |delays: [u64; 2]| delays.map(|delay| Passed { packets: 10, delay: Nanos(10 * delay) });
        let left = [came[0] + inside[0], came[1] + inside[1]];
        StageReading { taps: Some(StageTaps { came: edge(came), left: edge(left) }), ..stage }
    }

    #[test]
    fn times_are_what_lies_between_the_taps_and_add_up() {
        let host = || stage("host", 0, [10, 10], [10, 10], None);
        let function = |name, process| stage(name, process, [10, 10], [10, 10], None);
        // Forth: host 1000, nf 1 100, host 500, nf 2 300, host 600; back the other way round, 200 less at first.
        let stages = vec![
            host(),
            tapped(function("nf 1", 1), [1000, 1900], [100, 100]),
            host(),
            tapped(function("nf 2", 2), [1600, 800], [300, 600]),
            host(),
        ];
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(1_000_000) };
        let counts = DirectionCounts { intended: 10, sent: 10, received: 10, ..Default::default() };
        let mut whole = LatencyHistogram::default();
        (0..20).for_each(|_| whole.record(Nanos(2500)));
        let latency = Latency::of(&whole);
        let mut trial =
            TrialResult { stages, latency, directions: vec![counts, counts], ..TrialResult::new(spec) };
        let times = |trial: &TrialResult| {
            let stages = Waterfall::of(trial).unwrap().stages;
            stages.iter().map(|stage| stage.time.map(|time| time.round() as i64)).collect::<Vec<_>>()
        };
        let told = times(&trial);
        assert_eq!(told[1..4], [Some(100), Some(500), Some(450)], "{told:?}");
        // The histogram has three figures.
        assert!((told[0].unwrap() - 750).abs() < 5, "{told:?}");
        let sum: i64 = told.iter().flatten().sum();
        assert!((sum - 2500).abs() < 30, "{told:?}");
        // Without hosts a function's own queue is its own.
        trial.stages.retain(|stage| stage.name != "host");
        let told = times(&trial);
        assert_eq!(told[..2], [Some(850), Some(1100)], "1100 and 600, 800 and 1400: {told:?}");
        trial.stages.iter_mut().for_each(|stage| stage.taps = None);
        assert_eq!(times(&trial), [None, None, None]);
    }

    #[test]
    fn times_of_copies_are_their_own_and_the_hosts_are_of_all_packets() {
        let function = |name, process, came, inside| {
            tapped(stage(name, process, [10, 10], [10, 10], None), came, inside)
        };
        // Half of the packets wait 1000 for the first copy and take 100 in it, half 3000 and 500; the host takes 400 more.
        let ends = || stage("host", 0, [20, 20], [20, 20], None);
        let first = function("nf 1, copy 1", 1, [1000, 1000], [100, 100]);
        let second = function("nf 1, copy 2", 2, [3000, 3000], [500, 500]);
        let mut whole = LatencyHistogram::default();
        (0..40).for_each(|_| whole.record(Nanos(2700)));
        let trial = copies(first, second, [ends(), ends()], [(20, 0, 20), (20, 0, 20)]);
        let trial = TrialResult { latency: Latency::of(&whole), ..trial };
        let stages = Waterfall::of(&trial).unwrap().stages;
        let times: Vec<i64> =
            stages.iter().map(|stage| stage.time.map_or(-1, |time| time.round() as i64)).collect();
        // Forth 2000 before and 400 behind the copies, back the other way round.
        assert_eq!(times[1..3], [100, 500], "{times:?}");
        assert!((times[0] - 1200).abs() < 5 && (times[3] - 1200).abs() < 5 && times[4] == -1, "{times:?}");
    }

    #[test]
    fn packets_in_a_queue_are_their_rate_times_their_wait_and_work_is_told_from_waiting() {
        // 10 packets each way in a millisecond: 10,000 a second. Forth they wait 1000 ns for nf 1, which has them for
        // 100 ns, and 400 ns for nf 2, which has them for 300 ns; back the other way round.
        let one = tapped(stage("nf 1", 1, [10, 10], [10, 10], None), [1_000, 1_700], [100, 100]);
        let two = tapped(stage("nf 2", 2, [10, 10], [10, 10], None), [1_500, 1_000], [300, 300]);
        let stages = vec![StageReading { busy: Some(4_000), ..one }, two];
        let spec = TrialSpec { load: Pps(2e4), duration: Nanos(1_000_000) };
        let counts = DirectionCounts { intended: 10, sent: 10, received: 10, ..Default::default() };
        let trial = TrialResult { stages, directions: vec![counts, counts], ..TrialResult::new(spec) };
        let waterfall = Waterfall::of(&trial).unwrap();
        let [first, second, tester] = waterfall.stages.as_slice() else { panic!("{waterfall:?}") };
        assert_eq!((first.inside, second.inside, tester.inside), (Some(100.0), Some(300.0), None));
        let queued = |stage: &StageLoss| stage.queued.map(|queued| (queued * 1e6).round());
        assert_eq!(queued(first), Some(14_000.0), "10 packets 1000 ns and 10 packets 400 ns, in 1 ms");
        assert_eq!(queued(second), Some(14_000.0));
        assert_eq!(queued(tester), None, "no packet came back with its time");
        assert_eq!((first.cycles, second.cycles), (Some(200.0), None));
        assert_eq!(waterfall.longest, Some(("nf 2".to_owned(), 300.0)));
    }
}

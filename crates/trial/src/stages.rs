//! Stages of a chain: what each counted, and where its packets went.
//!
//! Every packet that does not come back is lost at one place: it found the queue before a stage full, was dropped by
//! the stage itself, or vanished between two of them. A full queue is the fault of who is to empty it, not of who
//! wanted to fill it; so each loss is laid at a process, and who has most of it limits the chain.

use crate::TrialResult;
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
            ..self.clone()
        }
    }

    /// Packets that came in and did not leave, by direction.
    fn kept(&self) -> [u64; 2] {
        [0, 1].map(|way: usize| self.received[way].saturating_sub(self.sent[way]))
    }

    /// Packets that found the next queue full, by direction. A dataplane that counts both directions together
    /// drops for other reasons in equal shares of what it kept; one that does not say is taken to drop for no other.
    fn refused_by_direction(&self) -> [u64; 2] {
        let kept = self.kept();
        let all = kept[0] + kept[1];
        let refused = self.refused.unwrap_or(all).min(all);
        let forth =
            (u128::from(kept[0]) * u128::from(refused)).checked_div(u128::from(all)).unwrap_or(0) as u64;
        [forth, refused - forth]
    }
}

/// Who lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Culprit {
    /// A process of the chain.
    Process(u32),
    /// The tester, which did not take what came back.
    Tester,
    /// Nobody counted it: it left one stage and came to none.
    Between(usize),
}

/// What a stage has lost, in packets of both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}

/// Where the packets of a trial were lost, and who limits the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waterfall {
    /// By stage, from the chain's port 0 on; the tester's own receiver last.
    pub stages: Vec<StageLoss>,
    /// The process that most packets were lost for, and its share of all that were lost; nothing where none was.
    pub limit: Option<(String, f64)>,
}

impl Waterfall {
    /// Of a trial over a chain of processes; nothing of any other.
    pub fn of(result: &TrialResult) -> Option<Self> {
        let stages = &result.stages;
        let last = stages.len().checked_sub(1)?;
        let mut rows: Vec<StageLoss> = stages
            .iter()
            .map(|stage| StageLoss {
                name: stage.name.clone(),
                received: stage.received[0] + stage.received[1],
                waited_in_vain: 0,
                dropped: 0,
                vanished: 0,
            })
            .collect();
        rows.push(StageLoss {
            name: "tester".to_owned(),
            received: result.directions.iter().map(|direction| direction.received).sum(),
            waited_in_vain: 0,
            dropped: 0,
            vanished: 0,
        });
        let mut lost: Vec<(Culprit, u64)> = Vec::new();
        // Into the chain, from both sides: what the tester's ports did not take, and what they took in vain.
        for (way, (direction, first)) in result.directions.iter().zip([0, last]).enumerate() {
            rows[first].waited_in_vain += direction.refused;
            lost.push((Culprit::Process(stages[first].process), direction.refused));
            let vanished = direction.sent.saturating_sub(stages[first].received[way]);
            rows[first].vanished += vanished;
            lost.push((Culprit::Between(first), vanished));
        }
        for (place, stage) in stages.iter().enumerate() {
            let (kept, refused) = (stage.kept(), stage.refused_by_direction());
            for (way, next) in [place.checked_add(1).filter(|next| *next <= last), place.checked_sub(1)]
                .into_iter()
                .enumerate()
            {
                let own = kept[way] - refused[way];
                rows[place].dropped += own;
                lost.push((Culprit::Process(stage.process), own));
                rows[next.unwrap_or(last + 1)].waited_in_vain += refused[way];
                lost.push((
                    next.map_or(Culprit::Tester, |next| Culprit::Process(stages[next].process)),
                    refused[way],
                ));
                let came = match next {
                    Some(next) => stages[next].received[way],
                    // A packet that comes twice or damaged has left the chain all the same.
                    None => result.directions.get(way).map_or(0, |counts| {
                        counts.received + counts.duplicated + counts.damaged + counts.late + counts.foreign
                    }),
                };
                let vanished = stage.sent[way].saturating_sub(came);
                rows[next.unwrap_or(last + 1)].vanished += vanished;
                lost.push((Culprit::Between(next.unwrap_or(last + 1)), vanished));
            }
        }
        Some(Self { limit: limit(stages, &lost), stages: rows })
    }
}

/// Who has lost most, by name, and which share of all.
fn limit(stages: &[StageReading], lost: &[(Culprit, u64)]) -> Option<(String, f64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (culprit, packets) in lost {
        *sums.entry(*culprit).or_insert(0_u64) += packets;
    }
    let all: u64 = sums.values().sum();
    let (culprit, most) =
        sums.into_iter().max_by_key(|(_, packets)| *packets).filter(|(_, most)| *most > 0)?;
    let name = match culprit {
        Culprit::Tester => "the tester".to_owned(),
        Culprit::Process(process) => stages.iter().find(|stage| stage.process == process)?.name.clone(),
        Culprit::Between(place) => {
            let name = |stage: Option<&StageReading>| {
                stage.map_or("the tester", |stage| stage.name.as_str()).to_owned()
            };
            let before = place.checked_sub(1).and_then(|before| stages.get(before));
            format!("the link between {} and {}", name(before), name(stages.get(place)))
        }
    };
    Some((name, most as f64 / all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DirectionCounts, TrialSpec};
    use weir_units::Pps;

    fn stage(
        name: &str,
        process: u32,
        received: [u64; 2],
        sent: [u64; 2],
        refused: Option<u64>,
    ) -> StageReading {
        StageReading { name: name.to_owned(), process, received, sent, refused, cpu: Nanos(0) }
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
}

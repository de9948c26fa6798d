//! Two points measured in turns: the campaign's side of [`crate::against`].

use super::{Campaign, CampaignError, PointOutcome, Watcher, build_traffic, check_shape};
use crate::against::{self, Blocks, Lane, Pair};
use crate::enough::Enough;
use crate::limit;
use crate::packets::Extent;
use crate::plan::PointSpec;
use crate::rig::Rig;
use crate::traffic::Traffic;
use std::time::Instant;
use weir_dpdk::Eal;
use weir_store::Outcome;
use weir_trial::SelfCheck;
use weir_trial::run::{PointKey, PointResult};

/// Results and remarks of a device over all repeats, or why it could not be measured to its end.
type Whole = Result<(Vec<PointResult>, Vec<String>), CampaignError>;

/// What both of a pair share, and what each has.
struct Both<'a> {
    specs: [&'a PointSpec; 2],
    keys: [&'a PointKey; 2],
    traffic: &'a Traffic,
    huge_pages: bool,
}

impl Campaign<'_> {
    /// Measures points one after the other; nothing when Ctrl-C ended it.
    pub(super) fn alone(
        &mut self,
        eal: &'static Eal,
        specs: &[&PointSpec],
        whole: (u32, bool),
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Vec<PointOutcome>>, CampaignError> {
        specs.iter().map(|spec| self.point(eal, spec, whole, watcher)).collect()
    }

    /// Measures two points in turns and keeps what came of each; nothing when Ctrl-C ended it.
    pub(super) fn pair(
        &mut self,
        eal: &'static Eal,
        specs: [&PointSpec; 2],
        (total, huge_pages): (u32, bool),
        watcher: &mut dyn Watcher,
    ) -> Result<Option<[PointOutcome; 2]>, CampaignError> {
        // The traffic is the same, as only the devices differ; a mistake in it is each point's own.
        let Ok(traffic) = build_traffic(self.plan, specs[0]) else {
            let outcomes = self.alone(eal, &specs, (total, huge_pages), watcher)?;
            return Ok(outcomes.and_then(|outcomes| outcomes.try_into().ok()));
        };
        let [a, b] = specs.map(|spec| self.key(spec, Some(&traffic), huge_pages));
        watcher.point(specs[0].index + 1, total, &a);
        let points = [
            self.store.add_point(self.run, specs[0].index, &a)?,
            self.store.add_point(self.run, specs[1].index, &b)?,
        ];
        let both = Both { specs, keys: [&a, &b], traffic: &traffic, huge_pages };
        let mut versions = [None, None];
        let mut lanes = [0, 1].map(|place| Lane {
            spec: specs[place],
            key: both.keys[place],
            point: points[place],
            sequence: points[place].next_sequence,
            trials: Vec::new(),
        });
        let wholes = match self.in_turns(eal, &both, &mut lanes, &mut versions, watcher) {
            Err(CampaignError::Rig(error)) if error.is_interrupt() => return Ok(None),
            wholes => wholes?,
        };
        let mut outcomes = Vec::new();
        for ((lane, whole), version) in lanes.into_iter().zip(wholes).zip(&versions) {
            let outcome = match whole {
                Ok((results, remarks)) => PointOutcome::Measured { results, remarks },
                Err(error) => PointOutcome::Failed(error.to_string()),
            };
            let (results, error) = match &outcome {
                PointOutcome::Measured { results, .. } => (results.as_slice(), None),
                PointOutcome::Unsupported(why) | PointOutcome::Failed(why) => (&[][..], Some(why.as_str())),
            };
            self.store
                .finish_point(lane.point, Outcome { dut_version: version.as_deref(), error, results })?;
            watcher.point(lane.spec.index + 1, total, lane.key);
            lane.trials
                .iter()
                .for_each(|(purpose, kept)| watcher.trial(kept.sequence, *purpose, &kept.result));
            watcher.done(lane.key, &outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes.try_into().ok())
    }

    /// All repeats of both. A device that could not be wired up or ended leaves the other one alone.
    fn in_turns(
        &mut self,
        eal: &'static Eal,
        both: &Both<'_>,
        lanes: &mut [Lane<'_>; 2],
        versions: &mut [Option<String>; 2],
        watcher: &mut dyn Watcher,
    ) -> Result<[Whole; 2], CampaignError> {
        for lane in lanes.iter() {
            self.keep_traffic(lane.point, both.traffic)?;
        }
        check_shape(self.plan, both.traffic)?;
        let mut checks: [Option<SelfCheck>; 2] = [None, None];
        for (place, check) in checks.iter_mut().enumerate() {
            let key = (both.keys[place], both.huge_pages);
            *check = self.self_check(eal, both.specs[place], both.traffic, key, watcher)?;
        }
        let mut wholes: [Whole; 2] = [Ok(Default::default()), Ok(Default::default())];
        let mut pair = Pair::default();
        let mut tried = [Vec::new(), Vec::new()];
        let seed = self.plan.seed ^ (u64::from(both.specs[0].index) << 32);
        // Who is started first is drawn, too.
        let mut first = Blocks::new(!seed);
        let mut enough = Enough::new(self.plan.repeats, self.plan.until);
        let (began, mut repeat) = (Instant::now(), 0);
        while match wholes.iter().all(Result::is_ok) {
            true => enough.goes_on(repeat, began.elapsed()),
            false => repeat < self.plan.repeats.max(1), // one goes on alone: there is no effect to see
        } {
            let extent = Extent::of_repeat(repeat, self.plan.check);
            repeat += 1;
            let before = lanes.each_ref().map(|lane| lane.trials.len());
            let mut blocks = Blocks::new(seed.wrapping_add(u64::from(repeat)));
            for place in first.order() {
                let old = pair.take(place);
                if wholes[place].is_err() {
                    continue; // and its rig, if it has one still, goes
                }
                let flags = if place == 0 { self.flags.clone() } else { self.flags.of_rival() };
                let traffic = (both.traffic, both.huge_pages);
                match self.rig(eal, both.specs[place], traffic, (&flags, extent), old, watcher) {
                    Ok((rig, checked)) => {
                        self.store.set_configuration(lanes[place].point, &rig.configuration())?;
                        let fast = rig.fast();
                        pair.put(place, rig);
                        let told = self.keep_check(lanes[place].point, checked)?;
                        if let Ok((_, remarks)) = &mut wholes[place] {
                            remarks.extend(fast.filter(|_| repeat == 1));
                            remarks.extend(told);
                        }
                    }
                    Err(CampaignError::Rig(error)) if error.is_interrupt() => return Err(error.into()),
                    Err(error) => wholes[place] = Err(error),
                }
                versions[place] = pair.description(place).or(versions[place].take());
            }
            let measured = against::measure(self.plan, lanes, &mut pair, &mut blocks, (self.store, watcher))?;
            enough.note([0, 1].map(|place| &lanes[place].trials[before[place]..]));
            for (place, (measured, mut notes)) in measured.into_iter().enumerate() {
                let Ok((results, remarks)) = &mut wholes[place] else { continue };
                match measured {
                    Err(error) => wholes[place] = Err(error),
                    Ok((new, said)) => {
                        tried[place].push((results.len()..results.len() + new.len(), notes.take_tried()));
                        results.extend(new);
                        remarks.extend(said.into_iter().chain(notes.remarks()));
                    }
                }
            }
        }
        if let Some(why) = enough.why_it_ended(repeat) {
            wholes.iter_mut().flatten().for_each(|(_, remarks)| remarks.push(why.clone()));
        }
        for (place, whole) in wholes.iter_mut().enumerate() {
            let ended = pair.take(place).map_or(Ok(()), Rig::take_down);
            if let (Ok(_), Err(error)) = (&whole, ended) {
                *whole = Err(error.into());
            }
        }
        for (place, whole) in wholes.iter_mut().enumerate() {
            let Ok((results, _)) = whole else { continue };
            let (spec, key) = (both.specs[place], both.keys[place]);
            let known = (checks[place].take(), results.as_slice());
            let check = self.check_again(eal, spec, both.traffic, (key, both.huge_pages), known, watcher)?;
            for (part, trials) in tried[place].drain(..) {
                limit::assign(&mut results[part], self.evidence(spec, key, check.as_ref(), &trials));
            }
        }
        Ok(wholes)
    }
}

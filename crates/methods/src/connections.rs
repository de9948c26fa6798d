//! Connections a second, and connections at a time, through a device that tracks them.
//!
//! **Rate.** A trial begins so many new connections a second; it passes if every packet of every one came as it must
//! ([`weir_trial::ConnectionsMade::passed`]). A rate passes if two of at most three trials do, for a machine takes a core
//! away now and then; so one trial that passes or fails by chance decides nothing. A trial that failed while the machine had
//! a core of the tester's or the device's says nothing, and is run again, up to six times in all. A search doubles from its first rate
//! until one fails, or halves until one passes, and then halves the span in logarithms down to a width; further searches
//! begin beside what the first found. The greatest rate that passed is a search's answer, and the interval is over the
//! searches.
//!
//! **At a time.** A trial opens so many connections, and once all are open has the server of each answer: a packet that
//! the function lets through only because it tracks its connection. Numbers double from a thousand until one fails, and
//! the span is halved down to a width. They are opened at a share of the rate found, so that the rate does not fail them.
//!
//! Whom a failure is blamed on: the tester where it began connections late or found full bursts, as the trials at the
//! least rate that failed say; else the device.

use crate::ask::Asker;
use crate::compare::numbers::Quantity;
use crate::compare::validity::{Objection, of_result};
use crate::compare::{Better, Found, Unit};
use crate::observe::{Observer, Remaining};
use crate::registry::Stored;
use crate::verify::{Named, SAME};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{ConnectionsResult, HeldSearch, Point, PointResult, Purpose, RateSearch, StoredTrial};
use weir_trial::{ConnectionSpec, ConnectionsMade, KeptTrial, Limit, Limiter, Measurer, Verdict, judge};
use weir_units::{Nanos, Ratio, Spread};

/// Trials at a rate, at most, and how many that say the same decide.
const ATTEMPTS: usize = 6;
const DECIDE: usize = 2;
/// Connections of the first trial that holds some.
const FIRST_HELD: u64 = 1_000;
/// How far from the first search's answer the others begin, as a factor.
const BESIDE: f64 = 1.1;
/// The least rate that is tried: below that a device tracks nothing.
const LEAST_RATE: f64 = 10.0;

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Complete searches for the rate; at least 1.
    pub searches: u32,
    /// Length of each of their trials.
    pub duration: Nanos,
    /// First and greatest rate, in connections a second.
    pub rates: (f64, f64),
    /// Width of an answer, of the rate or of the number.
    pub width: Ratio,
    /// Most connections at a time that are asked for; 0 leaves that out.
    pub most_held: u64,
    /// Share of the rate found at which they are opened.
    pub opened_at: Ratio,
}

/// What came of the searches.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionsOutcome {
    duration: Nanos,
    searches: Vec<RateSearch>,
    held: Option<HeldSearch>,
    limit: Option<Limit>,
    /// Whether no trial said anything of connections.
    untracked: bool,
}

/// A rate or a number that was tried.
struct Tried {
    passed: bool,
    /// Of the trials that failed, what the last one says.
    failed: Option<ConnectionsMade>,
}

/// A search at work.
struct Search<'a, 'b, M, O> {
    asker: &'a mut Asker<'b, M, O>,
    trials: Vec<u32>,
    left: Remaining,
    /// Of the least rate, or number, that failed.
    failed: Option<ConnectionsMade>,
    untracked: bool,
}

impl<M: Measurer, O: Observer> Search<'_, '_, M, O> {
    /// Asks for a trial up to three times; the majority decides.
    fn try_out(&mut self, asked: ConnectionSpec) -> Result<Tried, M::Error> {
        let (mut passed, mut failed, mut last) = (0, 0, None);
        for _ in 0..ATTEMPTS {
            let KeptTrial { sequence, result } = self.asker.ask_connections(asked, self.left)?;
            self.left.trials = self.left.trials.saturating_sub(1).max(1);
            self.trials.push(sequence);
            let verdict = judge(&result);
            let Some(made) = result.connections else {
                self.untracked = true;
                return Ok(Tried { passed: false, failed: None });
            };
            match says(&made, &verdict) {
                Some(true) => passed += 1,
                Some(false) => (failed, last) = (failed + 1, Some(made)),
                None => last = last.or(Some(made)),
            }
            if passed == DECIDE || failed == DECIDE {
                break;
            }
        }
        Ok(Tried { passed: passed > failed, failed: last })
    }

    /// Between something that passed and something that failed, up to `most`: steps of a factor until both are known,
    /// then halves of the span in logarithms down to the width. `make` rounds, and makes a trial of it.
    fn between(
        &mut self,
        (first, step): (f64, f64),
        (least, most): (f64, f64),
        width: Ratio,
        make: impl Fn(f64) -> ConnectionSpec,
    ) -> Result<(Option<f64>, Option<f64>), M::Error> {
        let (mut passed, mut failed): (Option<f64>, Option<f64>) = (None, None);
        let (mut next, mut step) = (first.clamp(least, most), step);
        loop {
            let tried = self.try_out(make(next))?;
            if self.untracked {
                return Ok((None, None));
            }
            if tried.passed {
                passed = Some(next);
            } else {
                failed = Some(next);
                self.failed = tried.failed;
            }
            next = match (passed, failed) {
                (Some(low), Some(high)) if high / low <= 1.0 + width.0 => return Ok((passed, failed)),
                (Some(low), Some(high)) => (low * high).sqrt(),
                (Some(low), None) if low >= most => return Ok((passed, None)),
                (Some(low), None) => (low * step).min(most),
                (None, Some(high)) if high <= least => return Ok((None, failed)),
                (None, Some(high)) => (high / step).max(least),
                (None, None) => return Ok((None, None)),
            };
            // What lies beside is found in a few steps, what lies far away in longer ones.
            step = (step * step).min(4.0).max(step);
        }
    }
}

impl Connections {
    /// Trials of all searches and their time under load, as it usually comes to.
    pub fn usual(&self) -> Remaining {
        let halves = (1.0 / self.width.0.max(1e-4)).log2().ceil().max(1.0) as u32;
        let trials = DECIDE as u32 * (8 + halves + self.searches.saturating_sub(1) * (2 + halves.min(4)));
        let held = if self.most_held > 0 { DECIDE as u32 * (6 + halves) } else { 0 };
        let time = self.duration.0.saturating_mul(u64::from(trials));
        Remaining { trials: trials + held, time: Nanos(time + u64::from(held) * 2 * Nanos::PER_SECOND) }
    }

    /// Runs every search.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<ConnectionsOutcome, M::Error> {
        let mut asker = Asker::new(measurer, observer, Purpose::Connections);
        let mut outcome = ConnectionsOutcome {
            duration: self.duration,
            searches: Vec::new(),
            held: None,
            limit: None,
            untracked: false,
        };
        let (first, greatest) = self.rates;
        let mut begin = (first, 2.0);
        let mut failed = None;
        for _ in 0..self.searches.max(1) {
            let mut search = Search {
                asker: &mut asker,
                trials: Vec::new(),
                left: self.usual(),
                failed: None,
                untracked: false,
            };
            let make = |rate| ConnectionSpec::of(rate, self.duration);
            let bounds = (LEAST_RATE.min(greatest), greatest);
            let (passed, upper) = search.between(begin, bounds, self.width, make)?;
            outcome.untracked |= search.untracked;
            failed = search.failed.or(failed);
            let found = passed;
            outcome.searches.push(RateSearch { passed, failed: upper, trials: search.trials });
            match found {
                Some(rate) => begin = (rate * BESIDE, BESIDE),
                // The least rate fails as well another time.
                None => break,
            }
        }
        outcome.limit = self.limit(&outcome, failed.as_ref());
        let rate = ConnectionsResult::rates(&outcome.searches);
        if let Some(rate) = rate.filter(|_| self.most_held > 0) {
            outcome.held = Some(self.hold(rate.mean * self.opened_at.0, &mut asker)?);
        }
        Ok(outcome)
    }

    /// Searches for the most connections at a time.
    fn hold<M: Measurer, O: Observer>(
        &self,
        rate: f64,
        asker: &mut Asker<'_, M, O>,
    ) -> Result<HeldSearch, M::Error> {
        let mut search =
            Search { asker, trials: Vec::new(), left: self.usual(), failed: None, untracked: false };
        let make = |count: f64| ConnectionSpec { rate, count: (count.round() as u64).max(1), held: true };
        let most = self.most_held as f64;
        let first = FIRST_HELD.min(self.most_held) as f64;
        let (passed, failed) = search.between((first, 4.0), (1.0, most), self.width, make)?;
        let whole = |number: Option<f64>| number.map(|number| make(number).count);
        Ok(HeldSearch {
            passed: whole(passed),
            failed: whole(failed),
            opened_at: rate,
            trials: search.trials,
        })
    }

    /// Who limits the rate, by a trial at the least rate that failed.
    fn limit(&self, outcome: &ConnectionsOutcome, failed: Option<&ConnectionsMade>) -> Option<Limit> {
        if outcome.searches.last()?.failed.is_none() {
            let (by, why) =
                (Limiter::Line, format!("{}/s, the greatest rate asked for, passed", self.rates.1));
            return Some(Limit { by, why });
        }
        let ConnectionsMade { asked, whole, behind, full, .. } = failed?;
        let (count, rate) = (asked.count, asked.rate.round());
        let by = if failed?.blames_tester() { Limiter::Tester } else { Limiter::Dut };
        Some(Limit {
            by,
            why: format!(
                "at {rate} a second {whole} of {count} connections were whole; the tester was {behind} behind at most, and \
                 {full} of its looks found a full burst"
            ),
        })
    }
}

impl ConnectionsOutcome {
    /// Whether the device, or what measured it, said nothing of connections.
    pub fn is_untracked(&self) -> bool {
        self.untracked
    }

    /// The outcome in the form it is stored in.
    pub fn point_result(&self) -> PointResult {
        PointResult::Connections(ConnectionsResult {
            packets: ConnectionSpec::PACKETS,
            duration: self.duration,
            rate: ConnectionsResult::rates(&self.searches),
            searches: self.searches.clone(),
            held: self.held.clone(),
            limit: self.limit.clone(),
        })
    }
}

/// Whether a trial passed; nothing where it failed, and the machine may have been why.
fn says(made: &ConnectionsMade, verdict: &Verdict) -> Option<bool> {
    match (made.passed() && made.in_time(), verdict.is_disturbed()) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    }
}

/// The trials of a search by what they asked for: passed by the majority, or not.
fn decided(trials: &[&StoredTrial], number: impl Fn(&ConnectionSpec) -> f64) -> (Vec<f64>, Vec<f64>) {
    let mut groups: Vec<(f64, usize, usize)> = Vec::new();
    for trial in trials {
        let Some(made) = trial.result.connections.as_ref() else { continue };
        let (asked, said) = (number(&made.asked), says(made, &trial.verdict));
        let place = groups.iter().position(|(known, ..)| (known - asked).abs() <= SAME * asked);
        let place = place.unwrap_or(groups.len());
        if place == groups.len() {
            groups.push((asked, 0, 0));
        }
        groups[place].1 += usize::from(said == Some(true));
        groups[place].2 += usize::from(said == Some(false));
    }
    let which = |wanted: bool| {
        let of = groups.iter().filter(|(_, pass, fail)| (pass > fail) == wanted);
        of.map(|(asked, ..)| *asked).collect()
    };
    (which(true), which(false))
}

/// How bounds that were stored differ from what the trials of their search say.
fn differs(
    what: &str,
    trials: &[&StoredTrial],
    (passed, failed): (Option<f64>, Option<f64>),
    number: impl Fn(&ConnectionSpec) -> f64,
) -> Vec<String> {
    let (pass, fail) = decided(trials, number);
    let mut found = Vec::new();
    let same = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= SAME * other.abs().max(1.0),
        (one, other) => one == other,
    };
    let now = (pass.into_iter().reduce(f64::max), fail.into_iter().reduce(f64::min));
    for (which, now, stored) in [("passed", now.0, passed), ("failed", now.1, failed)] {
        if !same(now, stored) {
            let said = |number: Option<f64>| number.map_or("none".to_owned(), |number| number.to_string());
            found.push(format!("{what} that {which}: {} by the trials, {} stored", said(now), said(stored)));
        }
    }
    found
}

impl Stored for ConnectionsResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        for search in &self.searches {
            let of: Option<Vec<_>> = search.trials.iter().map(|trial| trials.trial(*trial, None)).collect();
            let Some(of) = of else { return true };
            let bounds = (search.passed, search.failed);
            trials.differs.extend(differs("rate", &of, bounds, |asked| asked.rate));
        }
        if let Some(held) = &self.held {
            let of: Option<Vec<_>> = held.trials.iter().map(|trial| trials.trial(*trial, None)).collect();
            let Some(of) = of else { return true };
            let bounds = (held.passed.map(|count| count as f64), held.failed.map(|count| count as f64));
            trials.differs.extend(differs("number", &of, bounds, |asked| asked.count as f64));
        }
        let now = Self::rates(&self.searches).map(|rate| rate.mean);
        if now != self.rate.map(|rate: Spread| rate.mean) {
            trials.differs.push(format!("mean rate: {now:?} by the searches, {:?} stored", self.rate));
        }
        true
    }

    /// Each search is a number.
    fn compared(point: &Point, found: &mut Found) {
        for result in &point.results {
            let PointResult::Connections(result) = result else { continue };
            let name = "connections".to_owned();
            let numbers =
                found.numbers(Quantity { name, unit: Unit::ConnectionsPerSecond, better: Better::Higher });
            if let Some(Objection::NotThis(why)) = of_result(result.limit.as_ref(), &[], &[]) {
                numbers.not_this.get_or_insert(why);
            }
            for search in &result.searches {
                let first = search.trials.first().and_then(|trial| point.trial(*trial));
                numbers.take(search.passed, first.map_or(0, |trial| trial.started_ms), None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_trial::{TrialResult, TrialSpec};

    /// A device that tracks so many connections a second and so many at a time; every so many trials it loses one by
    /// chance, and the tester is late from a rate on.
    struct Tracking {
        rate: f64,
        held: u64,
        chance: u32,
        late: f64,
        trials: Vec<StoredTrial>,
    }

    impl Measurer for Tracking {
        type Error = std::convert::Infallible;

        fn measure(&mut self, _: Purpose, _: TrialSpec) -> Result<KeptTrial, Self::Error> {
            panic!("connections are asked for")
        }

        fn measure_connections(
            &mut self,
            purpose: Purpose,
            asked: ConnectionSpec,
        ) -> Result<KeptTrial, Self::Error> {
            let sequence = self.trials.len() as u32;
            let unlucky = self.chance > 0 && sequence % self.chance == self.chance - 1;
            let right = match asked.held {
                true => asked.count.min(self.held),
                false if asked.rate > self.rate => asked.count - 1,
                false => asked.count - u64::from(unlucky),
            };
            let made = ConnectionsMade {
                asked,
                begun: asked.count,
                opened: asked.count,
                proved: if asked.held { right } else { 0 },
                whole: right,
                broken: asked.count - right,
                reset: 0,
                took: Nanos(asked.begins().0 * if asked.rate > self.late { 2 } else { 1 }),
                behind: Nanos(100),
                full: Ratio(0.0),
                setup: None,
            };
            let result = TrialResult { connections: Some(made), ..TrialResult::new(asked.trial()) };
            self.trials.push(StoredTrial::new(sequence, purpose, 0, result.clone()));
            Ok(KeptTrial { sequence, result })
        }
    }

    fn device(rate: f64, held: u64) -> Tracking {
        Tracking { rate, held, chance: 0, late: f64::INFINITY, trials: Vec::new() }
    }

    fn method() -> Connections {
        Connections {
            searches: 5,
            duration: Nanos(800_000_000),
            rates: (1_000.0, 1e6),
            width: Ratio(0.02),
            most_held: 1_000_000,
            opened_at: Ratio(0.5),
        }
    }

    fn result(device: &mut Tracking) -> ConnectionsResult {
        let outcome = method().run(device, &mut Silent).unwrap();
        let PointResult::Connections(result) = outcome.point_result() else { panic!() };
        result
    }

    #[test]
    fn the_searches_find_the_rate_and_the_number_of_a_known_device() {
        for (rate, held) in [(43_210.0, 77_777), (150.0, 5), (987_654.0, 600_000)] {
            let found = result(&mut device(rate, held));
            let spread = found.rate.unwrap();
            assert_eq!(found.searches.len(), 5);
            assert!(spread.min <= rate && spread.min >= rate / 1.02, "{rate}: {spread:?}");
            assert!(spread.interval.unwrap().high / spread.interval.unwrap().low < 1.03, "{spread:?}");
            let number = found.held.clone().unwrap();
            assert!(number.passed.unwrap() <= held && number.failed.unwrap() > held, "{number:?}");
            assert!((number.opened_at / spread.mean - 0.5).abs() < 1e-9);
            assert_eq!(found.limit.unwrap().by, Limiter::Dut);
        }
    }

    #[test]
    fn a_connection_that_chance_takes_now_and_then_does_not_lower_the_rate() {
        let found = result(&mut Tracking { chance: 4, ..device(50_000.0, 1 << 20) });
        let spread = found.rate.unwrap();
        assert!(spread.min <= 50_000.0 && spread.min >= 50_000.0 / 1.02, "{spread:?}");
        assert_eq!((found.held.clone().unwrap().passed, found.held.unwrap().failed), (Some(1_000_000), None));
    }

    #[test]
    fn a_tester_that_is_late_limits_the_rate_and_says_so() {
        let found = result(&mut Tracking { late: 20_000.0, ..device(50_000.0, 100) });
        let spread = found.rate.unwrap();
        assert!(spread.max <= 20_000.0 && spread.min >= 20_000.0 / 1.02, "{spread:?}");
        assert_eq!(found.limit.unwrap().by, Limiter::Tester);
    }

    #[test]
    fn a_device_that_tracks_nothing_has_no_rate_and_is_not_asked_for_ever() {
        let mut nothing = device(0.0, 0);
        let found = result(&mut nothing);
        assert_eq!((found.rate, found.held, found.searches.len()), (None, None, 1));
        assert!(nothing.trials.len() < 20);
        let mut packets = weir_simulated::SimulatedDut::default().start();
        let outcome = method().run(&mut packets, &mut Silent).unwrap();
        assert!(outcome.is_untracked());
    }

    #[test]
    fn the_greatest_rate_asked_for_may_pass() {
        let found = result(&mut device(1e9, 1 << 30));
        assert_eq!(found.rate.unwrap().mean, 1e6);
        assert_eq!(found.limit.unwrap().by, Limiter::Line);
    }

    #[test]
    fn what_was_stored_otherwise_than_its_trials_say_is_told() {
        let mut device = Tracking { chance: 4, ..device(50_000.0, 3_000) };
        let found = result(&mut device);
        let of = |numbers: &[u32]| -> Vec<&StoredTrial> {
            numbers.iter().map(|number| &device.trials[*number as usize]).collect()
        };
        for search in &found.searches {
            let bounds = (search.passed, search.failed);
            let told = differs("rate", &of(&search.trials), bounds, |asked| asked.rate);
            assert_eq!(told, Vec::<String>::new());
            let raised = (search.passed.map(|rate| rate * 1.5), search.failed);
            assert_eq!(differs("rate", &of(&search.trials), raised, |asked| asked.rate).len(), 1);
        }
        let held = found.held.unwrap();
        let bounds = (held.passed.map(|n| n as f64), held.failed.map(|n| n as f64));
        assert!(differs("number", &of(&held.trials), bounds, |asked| asked.count as f64).is_empty());
    }
}

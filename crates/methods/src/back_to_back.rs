//! Back-to-back frames (RFC 9004): the longest burst at the line rate that comes through whole, and
//! the buffer that it speaks of.
//!
//! A burst of n frames is a trial at the line rate for as long as n frames take. Each complete search doubles
//! from 64 frames until a burst loses a frame, then halves the span down to the step: a binary search
//! whose upper end is found first, so that small buffers need no bursts of 30 seconds. A burst as long
//! as the ceiling that comes through ends a search, and is no measure of a buffer. Before every burst
//! nothing is sent for [`BackToBack::rest`] (the RFC asks for 2 s) beyond the tester's own drain.
//!
//! A burst counts only if the tester's account says that it was sent back to back: no frame left more than
//! [`TOLERATED`] frames behind its time ([`weir_trial::TesterAccount::sent_late`]), for a tester that falls behind
//! leaves the device time to empty its buffer and then sends a lump. Another one is sent again, after a rest, up to
//! [`ATTEMPTS`] times. Where none is back to back the least late decides, and the lengths are an estimate that the tester
//! limits.
//!
//! The device forwards while the burst comes in, so the burst is longer than its buffer. The correction
//! (RFC 9004, section 6) takes away what left meanwhile, by the throughput at the same size:
//! `implied = mean burst / line`, `corrected = implied × (1 − throughput / line)`. Where the
//! throughput reaches the line rate no burst is too long, and the size is skipped. Where the search found no throughput
//! the length is reported without a correction. A search ends at a burst that the tester cannot send at the line rate: the
//! longest whole one before it is a lower bound, and no measure of a buffer. Where it cannot send the first, no length is
//! reported.

mod sent;

use crate::ask::Asker;
use crate::observe::{Observer, Remaining};
use crate::registry::Stored;
use crate::repeat::Spread;
use crate::verify::Named;
use schemars::JsonSchema;
use sent::{Sent, differences};
use serde::{Deserialize, Serialize};
use weir_trial::run::{BackToBackResult, BurstSending, Bursts, PointResult, Purpose};
use weir_trial::{KeptTrial, Limit, Limiter, Measurer, TrialResult, TrialSpec};
use weir_units::{Nanos, Pps};

/// First burst of a search, in frames.
const FIRST: u64 = 64;

/// From this share of the line rate on, a throughput reaches it.
const REACHED: f64 = 0.9999;

/// Frames at the line rate that a frame of a burst may be sent late: the tester hands frames over in bursts of 32, and
/// looks at what comes back between two of them.
pub const TOLERATED: u64 = 64;

/// How often a burst is sent until one is back to back, and how often where the tester could not once before.
pub const ATTEMPTS: (u32, u32) = (4, 2);

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBack {
    /// The throughput goal whose answer corrects the burst.
    pub goal: String,
    /// Complete searches; at least 1.
    pub searches: u32,
    /// Frames to which a search goes; at least 1.
    pub step: u64,
    /// Time that the longest burst may take.
    pub ceiling: Nanos,
    /// Time without traffic before each burst.
    pub rest: Nanos,
}

/// What a point tells the method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineAndThroughput {
    /// The line rate over all directions.
    pub line: Pps,
    /// The goal's throughput; nothing where the search found none.
    pub throughput: Option<Pps>,
}

/// The bursts of every search.
#[derive(Clone, Debug, PartialEq)]
pub struct BackToBackOutcome {
    goal: String,
    step: u64,
    ceiling: u64,
    at: LineAndThroughput,
    /// Longest whole burst of each complete search, in frames.
    pub frames: Vec<u64>,
    /// Why the lengths are not valid, or none was measured.
    pub invalid: Option<String>,
    /// Whether a search ended where the tester did.
    unsent: bool,
    /// Numbers of the trials, in order.
    pub trials: Vec<u32>,
    /// How the bursts were sent.
    pub sending: BurstSending,
}

/// How one search ended.
enum Ended {
    /// With the longest whole burst.
    Length(u64),
    /// With the ceiling.
    Ceiling(u64),
    /// With the longest whole burst before one that was no burst at the line rate; why.
    Unsent(u64, String),
    /// The first burst was no burst at the line rate; why.
    NoBurst(String),
}

impl BackToBack {
    /// Time without traffic that RFC 9004 asks for before a burst.
    pub const RFC9004_REST: Nanos = Nanos(2 * Nanos::PER_SECOND);
    /// Search ceiling that RFC 9004 wants to be possible.
    pub const RFC9004_CEILING: Nanos = Nanos(30 * Nanos::PER_SECOND);

    /// What a reader of the results must be told.
    pub fn warnings(&self) -> Vec<String> {
        let rest = (self.rest < Self::RFC9004_REST).then(|| {
            format!(
                "back-to-back: {} of rest before a burst are less than RFC 9004's {}",
                self.rest,
                Self::RFC9004_REST
            )
        });
        rest.into_iter().collect()
    }

    /// Trials of all searches and their time, rests included, where buffers hold about a thousand frames.
    pub fn usual(&self) -> Remaining {
        let doublings = 6 + (1024 / self.step.max(1)).max(1).ilog2();
        let trials = self.searches.saturating_mul(doublings);
        Remaining { trials, time: Nanos(self.rest.0.saturating_mul(u64::from(trials))) }
    }

    /// Runs every search, or none where the point has nothing to search for.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        at: LineAndThroughput,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<BackToBackOutcome, M::Error> {
        let ceiling = ((at.line.0 * self.ceiling.seconds()) as u64).max(FIRST);
        let mut outcome = BackToBackOutcome {
            goal: self.goal.clone(),
            step: self.step.max(1),
            ceiling,
            at,
            frames: Vec::new(),
            invalid: self.pointless(at),
            unsent: false,
            trials: Vec::new(),
            sending: BurstSending { tolerated: TOLERATED, ..BurstSending::default() },
        };
        if outcome.invalid.is_some() {
            return Ok(outcome);
        }
        let mut asker = Asker::new(measurer, observer, Purpose::BackToBack);
        self.searches(&mut outcome, &mut asker)?;
        outcome.trials = asker.into_sequences();
        Ok(outcome)
    }

    /// Every search, until one finds that there are no bursts at the line rate.
    fn searches<M: Measurer, O: Observer>(
        &self,
        outcome: &mut BackToBackOutcome,
        asker: &mut Asker<'_, M, O>,
    ) -> Result<(), M::Error> {
        let (line, ceiling) = (outcome.at.line, outcome.ceiling);
        let (mut reached, mut unsent) = (0, Vec::new());
        for search in 0..self.searches.max(1) {
            let left = Self { searches: self.searches.max(1) - search, ..self.clone() }.usual();
            match self.search((line, ceiling), left, &mut outcome.sending, asker)? {
                Ended::Length(frames) => outcome.frames.push(frames),
                Ended::Ceiling(frames) => {
                    reached += 1;
                    outcome.frames.push(frames);
                }
                Ended::Unsent(frames, why) => {
                    outcome.frames.push(frames);
                    unsent.push((frames, why));
                }
                Ended::NoBurst(why) => {
                    outcome.frames.clear();
                    outcome.invalid = Some(why);
                    return Ok(());
                }
            }
        }
        let of = self.searches.max(1);
        if let Some((least, why)) = unsent.iter().min_by_key(|(frames, _)| *frames) {
            outcome.unsent = true;
            outcome.invalid = Some(format!(
                "{} of {of} searches ended at a burst that could not be sent, so the longest is {least} frames at least: {why}",
                unsent.len()
            ));
        } else if reached > 0 {
            outcome.invalid = Some(format!(
                "{reached} of {of} searches came to the ceiling of {ceiling} frames: the burst is at least so long"
            ));
        }
        Ok(())
    }

    /// Why a search would tell nothing.
    fn pointless(&self, at: LineAndThroughput) -> Option<String> {
        let goal = &self.goal;
        at.throughput.filter(|throughput| throughput.0 >= at.line.0 * REACHED).map(|_| {
            format!("skipped: {goal} reaches the line rate, so that no burst is too long (RFC 9004)")
        })
    }

    fn search<M: Measurer, O: Observer>(
        &self,
        (line, ceiling): (Pps, u64),
        mut left: Remaining,
        sending: &mut BurstSending,
        asker: &mut Asker<'_, M, O>,
    ) -> Result<Ended, M::Error> {
        let step = self.step.max(1);
        let (mut whole, mut broken, mut length) = (0, None, 0);
        loop {
            let frames = match broken {
                Some(broken) if broken - whole <= step => return Ok(Ended::Length(length)),
                Some(broken) => whole + (broken - whole) / 2,
                None if whole >= ceiling => return Ok(Ended::Ceiling(length)),
                None => (whole * 2).clamp(FIRST.min(ceiling), ceiling),
            };
            let result = self.burst(burst(line, frames), left, sending, asker)?;
            left.trials = left.trials.saturating_sub(1).max(1);
            left.time = Nanos(left.time.0.saturating_sub(self.rest.0));
            if let Some(why) = not_at_the_line_rate(&result, line) {
                return Ok(if length > 0 { Ended::Unsent(length, why) } else { Ended::NoBurst(why) });
            }
            let total = result.total();
            if total.lost() == 0 {
                (whole, length) = (frames, total.intended);
            } else {
                broken = Some(frames);
            }
        }
    }

    /// Sends a burst, again while it was not back to back; the attempt that decides.
    fn burst<M: Measurer, O: Observer>(
        &self,
        spec: TrialSpec,
        left: Remaining,
        sending: &mut BurstSending,
        asker: &mut Asker<'_, M, O>,
    ) -> Result<TrialResult, M::Error> {
        let attempts = if sending.apart == 0 { ATTEMPTS.0 } else { ATTEMPTS.1 };
        let mut best: Option<(Sent, KeptTrial)> = None;
        for attempt in 1..=attempts {
            asker.rest(self.rest)?;
            let kept = asker.ask(spec, left)?;
            let sent = Sent::of(&kept.result);
            if best.as_ref().is_none_or(|(best, _)| sent < *best) {
                best = Some((sent, kept));
            }
            if best.as_ref().is_some_and(|(best, _)| best.is_back_to_back()) {
                break;
            }
            sending.repeated += u32::from(attempt < attempts);
        }
        let (sent, KeptTrial { sequence, result }) = best.expect("there is one attempt at least");
        sending.decided.push(sequence);
        sending.apart += u32::from(!sent.is_back_to_back());
        sending.late = sending.late.max(sent.late);
        Ok(result)
    }
}

/// The trial that sends so many frames at the line rate.
fn burst(line: Pps, frames: u64) -> TrialSpec {
    TrialSpec { load: line, duration: Nanos((frames as f64 / line.0 * 1e9).ceil() as u64) }
}

/// Why a trial was no burst at the line rate; nothing where it was one.
fn not_at_the_line_rate(result: &TrialResult, line: Pps) -> Option<String> {
    let total = result.total();
    (total.unsent > 0).then(|| {
        format!(
            "the tester did not reach the line rate of {line} over this wiring: it was too late for {} of a burst \
             of {} frames; larger frames or a lower line_rate take fewer a second",
            total.unsent, total.intended
        )
    })
}

impl BackToBackOutcome {
    fn valid(&self) -> bool {
        self.invalid.is_none() && !self.frames.is_empty()
    }

    /// Spread of the lengths.
    fn spread(&self) -> Option<Spread> {
        Spread::of(&self.frames.iter().map(|frames| *frames as f64).collect::<Vec<_>>())
    }

    /// Time that the mean burst takes at the line rate; nothing where there is no valid length.
    pub fn implied(&self) -> Option<Nanos> {
        let mean = self.spread().filter(|_| self.valid())?.mean;
        Some(Nanos((mean / self.at.line.0 * 1e9).round() as u64))
    }

    /// The implied time without what the device forwarded meanwhile.
    pub fn corrected(&self) -> Option<Nanos> {
        let gone = self.at.throughput?.0 / self.at.line.0;
        Some(Nanos((self.implied()?.0 as f64 * (1.0 - gone)).round() as u64))
    }

    /// The tester, where bursts were not back to back, or no bursts at all.
    fn limit(&self) -> Option<Limit> {
        let is_ended = self.unsent || self.sending.apart > 0 && self.frames.is_empty();
        let no_burst = self.invalid.clone().filter(|_| is_ended);
        let why = no_burst.or_else(|| self.sending.estimate())?;
        Some(Limit { by: Limiter::Tester, why })
    }

    /// The outcome in the form it is stored in.
    pub fn point_result(&self) -> PointResult {
        let bursts = self.spread().map(|spread| Bursts {
            frames: self.frames.clone(),
            mean: spread.mean,
            min: spread.min as u64,
            max: spread.max as u64,
            deviation: spread.deviation.unwrap_or(0.0),
        });
        PointResult::BackToBack(BackToBackResult {
            line: self.at.line,
            throughput: self.at.throughput,
            goal: self.goal.clone(),
            bursts,
            implied: self.implied(),
            corrected: self.corrected(),
            step: self.step,
            ceiling: self.ceiling,
            invalid: self.invalid.clone(),
            trials: self.trials.clone(),
            limit: self.limit(),
            sending: (!self.trials.is_empty()).then(|| self.sending.clone()),
        })
    }
}

impl Stored for BackToBackResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        for trial in &self.trials {
            trials.trial(*trial, None);
        }
        if let Some(stored) = &self.sending {
            let decided: Option<Vec<_>> =
                stored.decided.iter().map(|trial| trials.trial(*trial, Some(self.line))).collect();
            let Some(decided) = decided else { return true };
            trials.differs.extend(differences(self, stored, &decided));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_simulated::{SimulatedDut, Simulation};
    use weir_trial::DirectionCounts;
    use weir_units::Ratio;

    const LINE: Pps = Pps(10e6);

    fn method() -> BackToBack {
        BackToBack {
            goal: "ndr".into(),
            searches: 5,
            step: 1,
            ceiling: BackToBack::RFC9004_CEILING,
            rest: BackToBack::RFC9004_REST,
        }
    }

    fn at(throughput: f64) -> LineAndThroughput {
        LineAndThroughput { line: LINE, throughput: Some(Pps(throughput)) }
    }

    /// A simulated device whose rests are counted.
    struct Rested(Simulation, u32, u32);

    impl Measurer for Rested {
        type Error = std::convert::Infallible;

        fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
            self.2 += 1;
            self.0.measure(purpose, spec)
        }

        fn rest(&mut self, time: Nanos) -> Result<(), Self::Error> {
            assert_eq!(time, BackToBack::RFC9004_REST);
            self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn the_correction_finds_the_queue_of_a_known_device() {
        for (capacity, queue) in [(5e6, 1024), (9e6, 256), (1e6, 4096)] {
            let dut = SimulatedDut { capacity: Pps(capacity), queue, ..Default::default() };
            let mut device = Rested(dut.start(), 0, 0);
            let outcome = method().run(at(capacity), &mut device, &mut Silent).unwrap();
            // What comes in at the line rate and leaves at the capacity fills the queue.
            let longest = queue as f64 / (1.0 - capacity / LINE.0);
            assert_eq!(outcome.frames.len(), 5);
            assert!(outcome.frames.iter().all(|n| (*n as f64 - longest).abs() <= 2.0), "{outcome:?}");
            let corrected = outcome.corrected().unwrap().seconds() * LINE.0;
            assert!((corrected / queue as f64 - 1.0).abs() < 0.01, "{corrected} of {queue}");
            assert_eq!(device.1, device.2, "a rest before every burst");
            assert_eq!(outcome.trials, (0..device.2).collect::<Vec<_>>(), "every trial by its number");
        }
    }

    #[test]
    fn a_coarse_step_ends_the_search_early_and_never_too_high() {
        let dut = SimulatedDut { capacity: Pps(5e6), queue: 1000, ..Default::default() };
        let coarse = BackToBack { step: 100, searches: 1, ..method() };
        let outcome = coarse.run(at(5e6), &mut dut.start(), &mut Silent).unwrap();
        assert!((1900..=2001).contains(&outcome.frames[0]), "{outcome:?}");
    }

    #[test]
    fn noise_shows_as_spread() {
        let dut = SimulatedDut { capacity: Pps(5e6), noise: Ratio(0.05), ..Default::default() };
        let outcome = method().run(at(5e6), &mut dut.start(), &mut Silent).unwrap();
        let PointResult::BackToBack(BackToBackResult { bursts: Some(bursts), .. }) = outcome.point_result()
        else {
            panic!()
        };
        assert!(bursts.deviation > 0.0 && bursts.min < bursts.max);
        assert!((bursts.min as f64..=bursts.max as f64).contains(&bursts.mean));
    }

    #[test]
    fn a_throughput_at_the_line_rate_is_skipped() {
        struct Never;
        impl Measurer for Never {
            type Error = std::convert::Infallible;
            fn measure(&mut self, _: Purpose, _: TrialSpec) -> Result<KeptTrial, Self::Error> {
                panic!("no trial is needed")
            }
        }
        let outcome = method().run(at(LINE.0), &mut Never, &mut Silent).unwrap();
        assert!(outcome.invalid.as_ref().unwrap().contains("reaches the line rate"));
        assert_eq!((outcome.implied(), outcome.corrected()), (None, None));
    }

    #[test]
    fn without_a_throughput_the_length_stands_without_a_correction() {
        let dut = SimulatedDut { capacity: Pps(5e6), queue: 1000, ..Default::default() };
        let none = LineAndThroughput { line: LINE, throughput: None };
        let outcome = method().run(none, &mut dut.start(), &mut Silent).unwrap();
        assert!(outcome.frames.iter().all(|frames| (1990..=2001).contains(frames)), "{outcome:?}");
        assert_eq!((outcome.invalid.as_ref(), outcome.corrected()), (None, None));
        assert!((199_000..=200_100).contains(&outcome.implied().unwrap().0), "{outcome:?}");
        let PointResult::BackToBack(result) = outcome.point_result() else { panic!() };
        let why = "not corrected: the search found no throughput for ndr";
        assert_eq!(result.uncorrected().as_deref(), Some(why));
    }

    #[test]
    fn a_burst_as_long_as_the_ceiling_is_no_measure_of_a_buffer() {
        let dut = SimulatedDut { capacity: Pps(50e6), ..Default::default() };
        let short = BackToBack { ceiling: Nanos(1_000_000), ..method() };
        let outcome = short.run(at(5e6), &mut dut.start(), &mut Silent).unwrap();
        assert!(outcome.frames.iter().all(|n| *n == 10_000), "{outcome:?}");
        assert!(outcome.invalid.as_ref().unwrap().contains("ceiling of 10000 frames"));
        assert_eq!(outcome.implied(), None);
    }

    /// A device behind a tester that sends the attempts of each burst so many frames late, by turns.
    struct Late(Simulation, u32, &'static [u64], u32);

    impl Measurer for Late {
        type Error = std::convert::Infallible;

        fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
            let mut kept = self.0.measure(purpose, spec)?;
            let late = self.2[self.1 as usize % self.2.len()];
            self.1 += 1;
            let mut histogram = weir_units::LatencyHistogram::default();
            histogram.record_many(Nanos((late as f64 / LINE.0 * 1e9) as u64), 1);
            let account = weir_trial::TesterAccount {
                sent_late: weir_trial::Latency::of(&histogram),
                ..weir_trial::TesterAccount::default()
            };
            kept.result.account = Some(account);
            // A tester that stands still lets the device empty its buffer: a late burst loses nothing.
            if late > TOLERATED {
                let sent = kept.result.directions[0].sent;
                kept.result.directions[0].received = sent;
            }
            Ok(kept)
        }

        fn rest(&mut self, _time: Nanos) -> Result<(), Self::Error> {
            self.3 += 1;
            Ok(())
        }
    }

    fn late(by: &'static [u64]) -> (BackToBackOutcome, BackToBackResult, u32) {
        let dut = SimulatedDut { capacity: Pps(5e6), queue: 1024, ..Default::default() };
        let method = BackToBack { searches: 2, ceiling: Nanos(10_000_000), ..method() };
        let mut measurer = Late(dut.start(), 0, by, 0);
        let outcome = method.run(at(5e6), &mut measurer, &mut Silent).unwrap();
        let PointResult::BackToBack(result) = outcome.point_result() else { panic!() };
        (outcome, result, measurer.3)
    }

    #[test]
    fn a_burst_that_was_not_sent_back_to_back_is_sent_again_after_a_rest() {
        let (outcome, result, rests) = late(&[200, 20]);
        let sending = result.sending.as_ref().unwrap();
        assert!(outcome.frames.iter().all(|frames| (1900..=2100).contains(frames)), "{outcome:?}");
        assert_eq!((sending.apart, sending.estimate(), result.limit.clone()), (0, None, None));
        assert!((19..=21).contains(&sending.late.unwrap()), "{sending:?}");
        assert_eq!(sending.repeated as usize, sending.decided.len(), "the first attempt of each was late");
        assert_eq!(rests as usize, result.trials.len(), "a rest before each attempt");
    }

    #[test]
    fn bursts_that_are_never_back_to_back_are_an_estimate_that_the_tester_limits() {
        let (_, result, rests) = late(&[200]);
        let sending = result.sending.as_ref().unwrap();
        assert_eq!(sending.apart as usize, sending.decided.len());
        let limit = result.limit.clone().unwrap();
        assert_eq!(limit.by, Limiter::Tester);
        assert!(limit.why.contains("never sent back to back, a frame up to 2"), "{limit:?}");
        let attempts = sending.decided.len() as u32 * ATTEMPTS.1 + ATTEMPTS.0 - ATTEMPTS.1;
        assert_eq!((rests, sending.repeated), (attempts, attempts - sending.decided.len() as u32));
    }

    #[test]
    fn what_was_stored_of_the_bursts_otherwise_than_their_trials_say_is_told() {
        use weir_trial::run::StoredTrial;
        let (_, mut result, _) = late(&[200, 20]);
        let stored = result.sending.clone().unwrap();
        let dut = SimulatedDut { capacity: Pps(5e6), queue: 1024, ..Default::default() };
        let mut again = Late(dut.start(), 0, &[200, 20], 0);
        let method = BackToBack { searches: 2, ceiling: Nanos(10_000_000), ..method() };
        struct Keeping<'a>(&'a mut Late, Vec<StoredTrial>);
        impl Measurer for Keeping<'_> {
            type Error = std::convert::Infallible;
            fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
                let kept = self.0.measure(purpose, spec)?;
                self.1.push(StoredTrial::new(kept.sequence, purpose, 0, kept.result.clone()));
                Ok(kept)
            }
        }
        let mut keeping = Keeping(&mut again, Vec::new());
        method.run(at(5e6), &mut keeping, &mut Silent).unwrap();
        let trials: Vec<&StoredTrial> = stored
            .decided
            .iter()
            .map(|number| keeping.1.iter().find(|trial| trial.sequence == *number).unwrap())
            .collect();
        assert_eq!(differences(&result, &stored, &trials), Vec::<String>::new());
        result.bursts.as_mut().unwrap().frames[0] += 1;
        let changed = BurstSending { apart: 1, late: Some(1), ..stored };
        let told = differences(&result, &changed, &trials).join("; ");
        for part in ["not back to back: 0 by the trials, 1 stored", "latest frame: 2", "no burst of "] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn a_tester_below_the_line_rate_reports_no_burst() {
        struct Slow;
        impl Measurer for Slow {
            type Error = std::convert::Infallible;
            fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
                let intended = (spec.load.0 * spec.duration.seconds()) as u64;
                let sent = intended.min(50);
                let counts = DirectionCounts {
                    intended,
                    sent,
                    unsent: intended - sent,
                    received: sent,
                    ..Default::default()
                };
                let result = TrialResult { directions: vec![counts], ..TrialResult::new(spec) };
                Ok(KeptTrial { sequence: 0, result })
            }
        }
        let outcome = method().run(at(5e6), &mut Slow, &mut Silent).unwrap();
        let PointResult::BackToBack(BackToBackResult { bursts, invalid, implied, .. }) =
            outcome.point_result()
        else {
            panic!()
        };
        assert_eq!((bursts, implied), (None, None));
        let why = invalid.unwrap();
        assert!(
            why.contains("did not reach the line rate of 10.00 Mpps")
                && why.contains("14 of a burst of 64 frames"),
            "{why}"
        );
    }
    #[test]
    fn a_search_that_ends_where_the_tester_does_tells_a_lower_bound() {
        /// It sends at most 1,500 frames of a burst in time; the device behind it holds more.
        struct Short(Simulation);
        impl Measurer for Short {
            type Error = std::convert::Infallible;
            fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
                let mut kept = self.0.measure(purpose, spec)?;
                let counts = &mut kept.result.directions[0];
                counts.unsent = counts.intended.saturating_sub(1_500);
                counts.sent = counts.intended - counts.unsent;
                counts.received = counts.received.min(counts.sent);
                Ok(kept)
            }
        }
        let dut = SimulatedDut { capacity: Pps(5e6), queue: 4096, ..Default::default() };
        let outcome = method().run(at(5e6), &mut Short(dut.start()), &mut Silent).unwrap();
        assert_eq!(outcome.frames, [1024; 5]);
        let PointResult::BackToBack(result) = outcome.point_result() else { panic!() };
        let why = result.invalid.unwrap();
        assert!(why.starts_with("5 of 5 searches") && why.contains("1024 frames at least"), "{why}");
        assert!(why.contains("548 of a burst of 2048 frames"), "{why}");
        assert_eq!((result.implied, result.corrected), (None, None));
        assert_eq!(result.limit.unwrap().by, Limiter::Tester);
    }
}

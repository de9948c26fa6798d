//! Two devices measured in turns, trial by trial, so that a machine that drifts hits both.
//!
//! Both rigs are wired up at once. Two DUTs that poll would share one core, so the one whose turn it
//! is not is frozen (SIGSTOP to its process group) and let go on before its trial; the lab sends it
//! nothing meanwhile, and sockets and shared memory stay. Turns come in blocks of four, A B B A or B A A B,
//! drawn by the plan's seed ([`Blocks`]): within each a steady drift falls on both alike, and nothing that
//! comes round with the turns can favour one of them. Within a block a device is woken once less.
//!
//! Methods know nothing of turns: each device's methods run in a thread of their own, asleep but
//! while it decides, and ask for trials through a channel. The caller's thread owns rigs and store
//! and serves the two in turns; when one has ended, the other goes on alone.

use crate::methods::Methods;
use crate::plan::{Plan, PointSpec};
use crate::record::{Recorder, Relay, TrialNotes};
use crate::rig::{Rig, RigError};
use crate::runner::{CampaignError, Watcher};
use crate::traffic::mixed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use weir_methods::{GoalBounds, Next, Observer};
use weir_store::{OpenPoint, Store};
use weir_trial::run::{PointKey, PointResult, Purpose};
use weir_trial::{KeptTrial, Measurer, TrialSpec};
use weir_units::{Nanos, Pps};

/// How long a device that was let go on runs before its trial: some thousand times what its loop
/// needs to be back in the caches.
const SETTLE: Duration = Duration::from_millis(100);

/// Results of a device's methods, and what a reader of them must be told.
pub(crate) type Measured = Result<(Vec<PointResult>, Vec<String>), CampaignError>;

/// What a method's thread tells; an [`Told::Ask`] waits for its answer.
enum Told {
    Next(Next),
    Trial(Purpose, Box<KeptTrial>),
    Bounds { goal: String, lower: Option<Pps>, upper: Option<Pps>, stages: (u32, u32) },
    Ask(Purpose, TrialSpec),
}

/// The answer to a trial asked for.
type Answer = Result<KeptTrial, CampaignError>;

/// A measurer at the other end of a channel.
struct Distant {
    told: Sender<Told>,
    answers: Receiver<Answer>,
}

impl Measurer for Distant {
    type Error = CampaignError;

    fn measure(&mut self, purpose: Purpose, spec: TrialSpec) -> Result<KeptTrial, CampaignError> {
        // Nobody at the other end: the campaign ended while this method was deciding.
        let gone = || CampaignError::Rig(RigError::Interrupted);
        self.told.send(Told::Ask(purpose, spec)).map_err(|_| gone())?;
        self.answers.recv().map_err(|_| gone())?
    }

    /// In the method's own thread: the device idles, and nobody else's turn comes.
    fn rest(&mut self, time: Nanos) -> Result<(), CampaignError> {
        std::thread::sleep(time.duration());
        Ok(())
    }
}

/// An observer at the other end of a channel.
struct Teller(Sender<Told>);

impl Teller {
    fn tell(&self, told: Told) {
        let _ = self.0.send(told); // if nobody listens any more, the next trial will say so
    }
}

impl Observer for Teller {
    fn next(&mut self, next: &Next) {
        self.tell(Told::Next(*next));
    }

    fn trial(&mut self, purpose: Purpose, kept: &KeptTrial) {
        self.tell(Told::Trial(purpose, Box::new(kept.clone())));
    }

    fn bounds(&mut self, bounds: &GoalBounds<'_>) {
        let GoalBounds { goal, lower, upper, stage, stages } = *bounds;
        self.tell(Told::Bounds { goal: goal.to_owned(), lower, upper, stages: (stage, stages) });
    }
}

/// The orders of rounds: blocks of two, the second the first one's mirror image, the first drawn by a seed.
#[derive(Debug)]
pub(crate) struct Blocks {
    seed: u64,
    rounds: u64,
}

impl Blocks {
    /// The blocks of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, rounds: 0 }
    }

    /// The order of the next round.
    pub(crate) fn order(&mut self) -> [usize; 2] {
        let (block, second) = (self.rounds / 2, self.rounds % 2);
        self.rounds += 1;
        let first = (mixed(mixed(self.seed).wrapping_add(block)) & 1) ^ second;
        [first as usize, 1 - first as usize]
    }
}

/// One device of the two.
pub(crate) struct Lane<'a> {
    pub(crate) spec: &'a PointSpec,
    pub(crate) key: &'a PointKey,
    pub(crate) point: OpenPoint,
    /// Sequence number of the point's next trial.
    pub(crate) sequence: u32,
    /// Trials told to the watcher once the point is over.
    pub(crate) trials: Vec<(Purpose, KeptTrial)>,
}

/// The rigs of both; none for a device that could not be wired up or is gone. Dropping lets both go
/// on: a frozen DUT does not answer a port being closed.
#[derive(Default)]
pub(crate) struct Pair([Option<Rig>; 2]);

impl Pair {
    /// Takes a rig in, frozen: the other one may be wired up next.
    pub(crate) fn put(&mut self, place: usize, rig: Rig) {
        rig.pause();
        self.0[place] = Some(rig);
    }

    /// Gives a rig back, at work, and freezes the other one: what is started in its place may be measured as it
    /// starts.
    pub(crate) fn take(&mut self, place: usize) -> Option<Rig> {
        self.0[1 - place].iter().for_each(Rig::pause);
        let rig = self.0[place].take();
        rig.iter().for_each(Rig::resume);
        rig
    }

    /// Version and command line of a DUT.
    pub(crate) fn description(&self, place: usize) -> Option<String> {
        self.0[place].as_ref().map(Rig::description)
    }

    /// Makes it one device's turn, and waits until it works as it did before it was frozen.
    fn turn(&mut self, place: usize) -> Result<(), RigError> {
        self.0[1 - place].iter().for_each(Rig::pause);
        let Some(rig) = &mut self.0[place] else { return Ok(()) };
        rig.resume();
        if !matches!(rig, Rig::Simulated(_)) {
            std::thread::sleep(SETTLE);
        }
        rig.settle_again()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(Rig::resume);
    }
}

/// Runs the methods of both devices, as far as they are wired up, once, in turns. An error of the campaign itself (Ctrl-C, a store
/// that cannot write) ends it; one of a device is that device's.
pub(crate) fn measure(
    plan: &Plan,
    lanes: &mut [Lane<'_>; 2],
    pair: &mut Pair,
    blocks: &mut Blocks,
    (store, watcher): (&mut Store, &mut dyn Watcher),
) -> Result<[(Measured, TrialNotes); 2], CampaignError> {
    let mut notes = [TrialNotes::default(), TrialNotes::default()];
    let parts = [(lanes[0].spec, lanes[0].key), (lanes[1].spec, lanes[1].key)];
    let measured = std::thread::scope(|scope| {
        let mut told = Vec::new();
        let mut answers = Vec::new();
        let threads = parts.map(|(spec, key)| {
            let ((tell, hear), (answer, answered)) = (channel(), channel());
            let is_there = pair.0[told.len()].is_some();
            told.push(hear);
            answers.push(answer);
            is_there.then(|| scope.spawn(move || methods(plan, (spec, key), tell, answered)))
        });
        let mut turn = None;
        take_turns(&told, blocks, |place, told| {
            let lane = &mut lanes[place];
            let Told::Ask(purpose, spec) = told else {
                pass_on(told, lane, watcher);
                return Ok::<_, CampaignError>(false);
            };
            let thawed = if turn.replace(place) == Some(place) { Ok(()) } else { pair.turn(place) };
            let Some(rig) = &mut pair.0[place] else { return Ok(true) };
            let answer = match thawed {
                Ok(()) => trial((purpose, spec), lane, rig, (store, &mut notes[place]))?,
                Err(error) if error.is_interrupt() => return Err(error.into()),
                Err(error) => Err(error.into()),
            };
            let _ = answers[place].send(answer); // a method that does not listen has ended
            Ok(true)
        })?;
        drop(answers);
        let failed = |why: &str| Err(CampaignError::Point(why.to_owned()));
        Ok::<_, CampaignError>(threads.map(|thread| match thread {
            Some(thread) => thread.join().unwrap_or_else(|_| failed("its method panicked")),
            None => failed("it is not wired up"),
        }))
    })?;
    let [a, b] = measured;
    let [of_a, of_b] = notes;
    Ok([(a, of_a), (b, of_b)])
}

/// A device's methods, in their own thread.
fn methods(
    plan: &Plan,
    (spec, key): (&PointSpec, &PointKey),
    told: Sender<Told>,
    answers: Receiver<Answer>,
) -> Measured {
    let (mut results, mut remarks) = (Vec::new(), Vec::new());
    let mut methods =
        Methods { plan, spec, key, purse: None, ceiling: None, results: &mut results, remarks: &mut remarks };
    let mut distant = Distant { told: told.clone(), answers };
    methods.run(&mut distant, &mut Teller(told))?;
    Ok((results, remarks))
}

/// Serves two in turns, in the order of the blocks, each until `serve` says that its turn is over. One that
/// has ended is passed over.
fn take_turns<T, E>(
    told: &[Receiver<T>],
    blocks: &mut Blocks,
    mut serve: impl FnMut(usize, T) -> Result<bool, E>,
) -> Result<(), E> {
    let mut at_work = [true, true];
    while at_work.contains(&true) {
        for place in blocks.order() {
            while at_work[place] {
                match told[place].recv() {
                    Ok(message) => {
                        if serve(place, message)? {
                            break;
                        }
                    }
                    Err(_) => at_work[place] = false,
                }
            }
        }
    }
    Ok(())
}

/// Runs one trial of one device and keeps it.
fn trial(
    (purpose, spec): (Purpose, TrialSpec),
    lane: &mut Lane<'_>,
    rig: &mut Rig,
    (store, notes): (&mut Store, &mut TrialNotes),
) -> Result<Answer, CampaignError> {
    let (point, sequence) = (lane.point, &mut lane.sequence);
    let mut recorder = Recorder { rig, store, point, sequence, notes };
    match recorder.measure(purpose, spec) {
        Ok(kept) => Ok(Ok(kept)),
        Err(CampaignError::Rig(error)) if error.is_interrupt() => Err(error.into()),
        Err(error @ CampaignError::Store(_)) => Err(error),
        Err(error) => Ok(Err(error)),
    }
}

/// Tells the watcher what concerns the trial at hand; trials are told when their point is over.
fn pass_on(told: Told, lane: &mut Lane<'_>, watcher: &mut dyn Watcher) {
    let mut relay = Relay(watcher);
    match told {
        Told::Next(next) => relay.next(&next),
        Told::Trial(purpose, kept) => lane.trials.push((purpose, *kept)),
        Told::Bounds { goal, lower, upper, stages: (stage, stages) } => {
            relay.bounds(&GoalBounds { goal: &goal, lower, upper, stage, stages });
        }
        Told::Ask(..) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places in the order they are served, for methods of so many trials each.
    fn order(seed: u64, trials: [usize; 2]) -> Vec<usize> {
        let mut told = Vec::new();
        for count in trials {
            let (tell, hear) = channel();
            (0..count).for_each(|_| tell.send(()).unwrap());
            told.push(hear);
        }
        let mut order = Vec::new();
        let served = take_turns(&told, &mut Blocks::new(seed), |place, ()| {
            order.push(place);
            Ok::<_, ()>(true)
        });
        served.unwrap();
        order
    }

    #[test]
    fn turns_come_in_mirrored_blocks_and_the_longer_one_goes_on_alone() {
        for seed in 0..20 {
            let slots = order(seed, [8, 8]);
            assert!(
                slots
                    .chunks(4)
                    .all(|block| [[0, 1, 1, 0], [1, 0, 0, 1]].contains(&block.try_into().unwrap()))
            );
            assert_eq!(slots, order(seed, [8, 8]), "a seed has one order");
            let uneven = order(seed, [5, 2]);
            assert_eq!(uneven[4..], [0, 0, 0], "{uneven:?}");
        }
        assert_eq!(order(1, [0, 2]), [1, 1]);
    }

    #[test]
    fn a_steady_drift_falls_on_both_alike_whatever_the_seed() {
        for seed in 0..20 {
            let slots = order(seed, [10, 10]);
            let sum = |wanted: usize| -> usize {
                slots.iter().enumerate().filter(|(_, place)| **place == wanted).map(|(slot, _)| slot).sum()
            };
            assert_eq!(sum(0), sum(1), "the mean slot of both is the same");
        }
    }

    #[test]
    fn seeds_let_each_begin_about_half_the_blocks() {
        let first = (0..1000).filter(|seed| Blocks::new(*seed).order() == [0, 1]).count();
        assert!((450..=550).contains(&first), "{first} of 1000");
        let mut blocks = Blocks::new(7);
        let first = (0..1000)
            .filter(|_| {
                let order = blocks.order();
                blocks.order();
                order == [0, 1]
            })
            .count();
        assert!((450..=550).contains(&first), "{first} of 1000 blocks of one seed");
    }
}

//! As many changes of flow entries as a device takes, during a trial.
//!
//! Entries ([`super::entries`]) are added, modified and deleted in batches, each with a barrier behind it; two batches
//! are on their way at a time, so that the device need not wait for the controller. From time to time ([`CHECK`])
//! nothing else is on its way, and the last change of a batch turns the entry for the tester's probes to the other
//! port: when the reply came says from when on they must come out there. The last batch is such a one, and comes
//! when four fifths of the trial are over; in the rest of it the probes go on.
//!
//! One thread, on the core that the device does not forward on, begun before the trial and ended after it.

use super::controller::{Controller, message};
use super::entries::Place;
use crate::cpu::keep_to;
use crate::{DutError, openflow::entries};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_codec::{Body, FlowCommand};
use weir_cpu::Ticks;
use weir_trial::changes::Confirmed;
use weir_trial::{Control, Nf};
use weir_units::Nanos;

/// Batches on their way.
const DEPTH: u64 = 2;
/// Time between two changes that probes look for.
const CHECK: Duration = Duration::from_millis(80);
/// How long a device may leave a barrier unanswered.
const PATIENCE: Duration = Duration::from_secs(10);
/// Share of a trial after which the last change is made, in fifths.
const LAST: u32 = 4;

/// Where and how the flow entries of a running device are changed.
#[derive(Clone, Debug)]
pub struct FlowChannel {
    dut: &'static str,
    socket: PathBuf,
    place: Place,
    core: usize,
}

/// A controller that is connected, and waits for a trial to begin.
#[derive(Debug)]
pub struct Churn {
    dut: &'static str,
    /// Says how long the trial is; gone, it says that it is over.
    begin: Option<Sender<Duration>>,
    socket: UnixStream,
    thread: Option<JoinHandle<Result<Changed, String>>>,
}

/// What was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Changes that came to their barrier.
    pub made: u64,
    /// From the first one sent to the last barrier's reply.
    pub elapsed: Nanos,
    /// The changes that probes look for.
    pub confirmed: Vec<Confirmed>,
}

impl FlowChannel {
    pub(crate) fn new(dut: &'static str, socket: PathBuf, nf: Nf, core: usize) -> Self {
        Self { dut, socket, place: Place::of(nf), core }
    }

    /// The core that the controller is on.
    pub fn core(&self) -> usize {
        self.core
    }

    /// The frame that is sent by port 0 to see whether a change is in force.
    pub fn probe(&self) -> Vec<u8> {
        entries::probe()
    }

    /// Connects to the device, and has the probes come out by port 1.
    pub fn connect(&self, control: Control) -> Result<Churn, DutError> {
        let expected = "an OpenFlow switch behind its socket";
        let wrong = |answer| DutError::Answer { dut: self.dut, answer, expected };
        let open = || -> std::io::Result<_> {
            let controller = Controller::connect(&self.socket, Some(PATIENCE))?;
            let handle = controller.handle()?;
            Ok((controller, handle))
        };
        let (mut controller, socket) =
            open().map_err(|error| wrong(format!("{}: {error}", self.socket.display())))?;
        let mut first = || {
            controller.hello()?;
            ask(&mut controller, &[&self.place.send_probes_to(1, FlowCommand::Add)])
        };
        first().map_err(wrong)?;
        let (begin, begun) = channel();
        let (place, core) = (self.place, self.core);
        let thread = std::thread::spawn(move || {
            keep_to(core);
            work(&mut controller, place, control, &begun)
        });
        Ok(Churn { dut: self.dut, begin: Some(begin), socket, thread: Some(thread) })
    }
}

impl Churn {
    /// Says that the trial begins, which takes so long; from any thread.
    pub fn starter(&self, trial: Duration) -> impl FnOnce() + Send + 'static {
        let begin = self.begin.clone();
        // A controller whose thread ended before has said why.
        move || {
            let _ = begin.map(|begin| begin.send(trial));
        }
    }

    /// The trial is over: what came is taken away, and what was done is told.
    pub fn end(mut self) -> Result<Changed, DutError> {
        drop(self.begin.take());
        let done = self.thread.take().map(JoinHandle::join);
        let done = done.and_then(Result::ok).unwrap_or_else(|| Err("its controller failed".to_owned()));
        let expected = "that it takes each change of its flow entries";
        done.map_err(|answer| DutError::Answer { dut: self.dut, answer, expected })
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        drop(self.begin.take());
        let _ = self.socket.shutdown(Shutdown::Both); // it may be closed already
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // what it would say, nobody asked for
        }
    }
}

/// Sends these and waits until they are done.
fn ask(controller: &mut Controller, changes: &[&[u8]]) -> Result<(), String> {
    controller.send(&[&changes.concat()[..], &message(Body::BarrierRequest)].concat())?;
    controller.wait_for_barrier()
}

/// The life of the controller's thread.
fn work(
    controller: &mut Controller,
    place: Place,
    control: Control,
    begun: &Receiver<Duration>,
) -> Result<Changed, String> {
    let mut changed = Changed::default();
    let turn = place.turn();
    if let (Ok(trial), Control::Changes { batch }) = (begun.recv(), control) {
        let mut course = Course {
            controller,
            place,
            batch: batch.max(1) as usize,
            turn: &turn,
            next: 0,
            on_way: 0,
            changed,
        };
        course.run(trial)?;
        changed = course.changed;
    }
    let _ = begun.recv(); // an error says that the trial is over, and nothing else is said
    ask(controller, &[&place.clear()])?;
    Ok(changed)
}

/// One trial's changes.
struct Course<'a> {
    controller: &'a mut Controller,
    place: Place,
    batch: usize,
    turn: &'a [Vec<u8>],
    /// The change that comes next.
    next: usize,
    /// Batches whose barrier was not answered yet.
    on_way: u64,
    changed: Changed,
}

impl Course<'_> {
    fn run(&mut self, trial: Duration) -> Result<(), String> {
        let began = Instant::now();
        let (end, mut next_check) = (began + trial * LAST / 5, began + CHECK);
        loop {
            let now = Instant::now();
            if now >= next_check || now >= end {
                self.confirm()?;
                next_check = now + CHECK;
            } else {
                let bytes = self.some(self.batch);
                self.send(bytes)?;
                self.wait(DEPTH - 1)?;
            }
            if now >= end {
                self.changed.elapsed = began.elapsed().into();
                return Ok(());
            }
        }
    }

    /// A batch whose last change is one that probes look for, with nothing else on its way.
    fn confirm(&mut self) -> Result<(), String> {
        self.wait(0)?;
        let mut bytes = self.some(self.batch - 1);
        let confirmed = &mut self.changed.confirmed;
        let (port, command) = if confirmed.len().is_multiple_of(2) {
            (0, FlowCommand::ModifyStrict)
        } else {
            (1, FlowCommand::Add)
        };
        bytes.extend(self.place.send_probes_to(port, command));
        if let Some(last) = confirmed.last_mut() {
            last.until = Ticks::now().0;
        }
        self.send(bytes)?;
        self.wait(0)?;
        self.changed.confirmed.push(Confirmed { port, at: Ticks::now().0, until: u64::MAX });
        Ok(())
    }

    /// So many changes in turn.
    fn some(&mut self, count: usize) -> Vec<u8> {
        let from = self.next;
        self.next = (from + count) % self.turn.len();
        (from..from + count).flat_map(|place| &self.turn[place % self.turn.len()]).copied().collect()
    }

    /// Sends a batch with its barrier.
    fn send(&mut self, mut bytes: Vec<u8>) -> Result<(), String> {
        bytes.extend(message(Body::BarrierRequest));
        self.on_way += 1;
        self.controller.send(&bytes)
    }

    /// Waits until so many batches are on their way at most.
    fn wait(&mut self, most: u64) -> Result<(), String> {
        while self.on_way > most {
            self.controller.wait_for_barrier()?;
            self.on_way -= 1;
            self.changed.made += self.batch as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::controller::tests::switch;
    use super::*;
    use weir_codec::{Code, ErrorMessage, Message, Version};

    fn channel(folder: &tempfile::TempDir) -> FlowChannel {
        FlowChannel::new("test", folder.path().join("of"), "l3fwd".parse().unwrap(), 0)
    }

    /// A short trial against a switch that answers so.
    fn trial(control: Control, answer: Body) -> (Result<Changed, DutError>, Vec<Message>) {
        trial_of(Duration::from_millis(250), control, answer)
    }

    /// A trial of this length against a switch that answers so.
    fn trial_of(
        length: Duration,
        control: Control,
        answer: Body,
    ) -> (Result<Changed, DutError>, Vec<Message>) {
        let (folder, switch) = switch(answer, |_| false);
        let churn = match channel(&folder).connect(control) {
            Ok(churn) => churn,
            Err(error) => return (Err(error), switch.join().unwrap()),
        };
        churn.starter(length)();
        std::thread::sleep(Duration::from_millis(20));
        let changed = churn.end();
        (changed, switch.join().unwrap())
    }

    /// Changes before each barrier, of each port that probes are sent to the places.
    fn batches(got: &[Message]) -> Vec<usize> {
        let mut sizes = vec![0];
        for message in got {
            match &message.body {
                Body::FlowMod(_) => *sizes.last_mut().unwrap() += 1,
                Body::BarrierRequest => sizes.push(0),
                _ => {}
            }
        }
        sizes
    }

    #[test]
    fn all_batches_are_of_one_size_and_all_that_came_to_a_barrier_are_counted() {
        let (changed, got) = trial(Control::Changes { batch: 7 }, Body::BarrierReply);
        let changed = changed.unwrap();
        let sizes = batches(&got);
        // The first entry, the batches, what takes all away.
        assert_eq!((sizes[0], sizes[sizes.len() - 2], sizes[sizes.len() - 1]), (1, 1, 0));
        let of_trial = &sizes[1..sizes.len() - 2];
        assert!(of_trial.iter().all(|size| *size == 7), "{of_trial:?}");
        assert_eq!(changed.made, of_trial.iter().sum::<usize>() as u64);
        assert!(changed.elapsed >= Nanos(200_000_000) && changed.elapsed < Nanos(2_000_000_000));
    }

    #[test]
    fn the_entry_that_probes_look_for_goes_to_and_fro_and_is_the_last_one_changed() {
        // On a machine that gives this test no core for a while, a short trial has too few of them.
        let of_millis = |millis| {
            trial_of(Duration::from_millis(millis), Control::Changes { batch: 7 }, Body::BarrierReply)
        };
        let (confirmed, got) = [250, 1000, 4000]
            .into_iter()
            .map(of_millis)
            .map(|(changed, got)| (changed.unwrap().confirmed, got))
            .find(|(confirmed, _)| confirmed.len() >= 3)
            .expect("three changes that probes look for");
        let ports = confirmed.iter().map(|change| usize::from(change.port));
        assert!(ports.eq((0..confirmed.len()).map(|place| place % 2)), "{confirmed:?}");
        assert!(confirmed.windows(2).all(|two| two[0].at < two[0].until && two[0].until <= two[1].at));
        let turned_to = confirmed.last().map(|last| (last.until, last.port)).unwrap();
        assert_eq!(turned_to.0, u64::MAX);
        let changes: Vec<_> = got.iter().filter(|message| matches!(message.body, Body::FlowMod(_))).collect();
        let last = &changes[changes.len() - 2].body;
        let command = if turned_to.1 == 0 { FlowCommand::ModifyStrict } else { FlowCommand::Add };
        let turned = Place::of("l3fwd".parse().unwrap()).send_probes_to(turned_to.1, command);
        assert_eq!(last, &weir_codec::decode(&turned).unwrap().body);
    }

    #[test]
    fn an_idle_controller_sets_the_entry_and_takes_it_away() {
        let (changed, got) = trial(Control::Idle, Body::BarrierReply);
        assert_eq!(changed.unwrap(), Changed::default());
        assert_eq!(batches(&got), [1, 1, 0]);
    }

    #[test]
    fn a_refused_change_is_told() {
        let number = Code::FlowTableFull.number(Version::V13);
        let (changed, _) =
            trial(Control::Changes { batch: 1 }, Body::Error(ErrorMessage { number, data: Vec::new() }));
        let told = changed.unwrap_err().to_string();
        assert!(told.contains("refused a change"), "{told}");
    }
}

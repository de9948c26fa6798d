//! Whether workers live: which thread has ended, and which goes round no more.
//!
//! What: a worker counts the rounds in which it does what is due, about a thousand a second. One that has ended
//! without being told to, or has used [`SILENT`] of CPU time without another round and outside of any service, is
//! dead: a fault of the switch's own, after which it forwards nothing. Whoever runs the switch ends the process
//! then, so that a supervisor starts it anew.
//!
//! Why CPU time: a worker whose core is taken away, or whose process is stopped, uses none, and is not dead
//! however long that takes. A service that does not come back is another matter: it is named, and the switch
//! stays (`asking.rs`).
//!
//! Threads: the control thread, which looks a few times a second. Cost: a store in each round of a worker's, and a
//! file of `/proc` read for each worker whose count stands still.

use crate::control::datapath::Datapath;
use crate::model::requests::ControlError;
use crate::stats::report::Report;
use std::fmt;
use std::time::Duration;
use weir_dpdk::Shared;

/// CPU time after which a worker is dead that has not come round.
pub const SILENT: Duration = Duration::from_secs(5);

/// One call of a service that takes longer than this is the service's fault, and not the worker's.
const IN_SERVICE: Duration = Duration::from_millis(500);

/// What was seen of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vital {
    rounds: u64,
    /// Its CPU time when the count was first seen to stand still; nothing while it goes on.
    still_since: Option<Duration>,
}

/// A worker that is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Its number.
    pub worker: usize,
    /// Its core.
    pub core: usize,
    /// What became of it.
    pub why: String,
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} on core {} {}", self.worker, self.core, self.why)
    }
}

impl Vital {
    /// Whether a worker with so many rounds has gone round no more for [`SILENT`] of its CPU time. `busy_in_service`
    /// says that it is inside of a service's long call; the CPU time is asked for where it matters.
    fn is_silent(
        &mut self,
        rounds: u64,
        busy_in_service: bool,
        cpu: impl FnOnce() -> Option<Duration>,
    ) -> bool {
        if rounds != self.rounds || busy_in_service {
            *self = Self { rounds, still_since: None };
            return false;
        }
        // Where the system does not tell, nobody is held dead.
        let Some(cpu) = cpu() else { return false };
        let since = *self.still_since.get_or_insert(cpu);
        cpu.saturating_sub(since) >= SILENT
    }

    /// Whether it had not come round since it was looked at before.
    pub(super) const fn stands_still(&self) -> bool {
        self.still_since.is_some()
    }
}

impl Datapath {
    /// A worker that is dead, if there is one. To be asked a few times a second.
    pub fn dead(&mut self) -> Option<Dead> {
        let clock = self.clock;
        let (lost, first) = (self.shared.as_ref().and_then(Shared::lost), self.workers.first());
        if let Some((why, first)) = lost.zip(first) {
            let (worker, core) = (first.number, first.core);
            return Some(Dead { worker, core, why: format!("cannot go on: {why}") });
        }
        for (worker, vital) in self.workers.iter_mut().zip(&mut self.vitals) {
            let (number, core) = (worker.number, worker.core);
            let dead = |why| Some(Dead { worker: number, core, why });
            if worker.is_finished() {
                let why = worker
                    .join()
                    .err()
                    .map_or_else(|| "nobody told it to".to_owned(), |ControlError(why)| why);
                return dead(format!("has ended: {why}"));
            }
            let in_service = worker.inside(clock).is_some_and(|(_, time)| time > IN_SERVICE);
            if vital.is_silent(worker.rounds(), in_service, || worker.cpu_time()) {
                return dead(format!(
                    "has used {SILENT:?} of CPU time without coming round, in no service: it is in an endless loop"
                ));
            }
        }
        None
    }

    /// The ledger without asking a worker anything: what each told last, a tenth of a second ago or so.
    pub fn last_report(&self) -> Report {
        let told: Vec<_> = self.last.iter().map(|last| (last.clone(), None)).collect();
        self.report_of(&told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::requests::{Change, Config, Plan, PortSpec};
    use crate::worker::Worker;
    use crate::worker::command::Command;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;
    use weir_dpdk::{Eal, EalConfig, Memory};
    use weir_openflow::parse_flows;
    use weir_units::FrameSize;

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn only_its_own_cpu_time_counts_against_a_worker_and_none_of_a_service() {
        let mut vital = Vital::default();
        assert!(!vital.is_silent(1, false, || seconds(100)), "it came round");
        assert!(!vital.is_silent(1, false, || seconds(100)));
        assert!(!vital.is_silent(1, false, || seconds(104)), "four seconds");
        // Stopped, or without its core: time passes, and its own does not.
        (0..1000).for_each(|_| assert!(!vital.is_silent(1, false, || seconds(104))));
        assert!(vital.is_silent(1, false, || seconds(105)), "five seconds");
        assert!(!vital.is_silent(1, true, || seconds(110)), "in a service's long call");
        assert!(!vital.is_silent(1, false, || seconds(110)) && vital.is_silent(1, false, || seconds(115)));
        assert!(!vital.is_silent(2, false, || seconds(120)), "it came round after all");
        assert!(!vital.is_silent(2, false, || None), "nobody can tell");
    }

    fn datapath(workers: usize) -> Datapath {
        let cores = weir_cpu::allowed_cores();
        let config = Config {
            cores: cores.into_iter().cycle().take(workers).collect(),
            buffers: 2048,
            max_frame: FrameSize::new(1522).unwrap(),
            services: BTreeMap::new(),
            coalescing: true,
            selection: crate::model::selection::Selection::Flow,
            poll: crate::PollMode::Busy,
            tcam: None,
            room: Config::ROOM,
            experiment: crate::model::experiment::Experiment::default(),
            upcalls: Config::UPCALLS,
            seed: 7,
        };
        let eal = EalConfig { memory: Memory::Normal, megabytes: 512, pci: false };
        Datapath::start(Eal::init(eal).expect("EAL starts anywhere"), config).unwrap()
    }

    /// Has a worker do something that no worker does.
    fn harm(datapath: &Datapath, worker: usize, how: impl FnOnce(&mut Worker) + Send + 'static) {
        datapath.workers[worker].send(Command::Harm(Box::new(how)));
    }

    fn wait_for_death(datapath: &mut Datapath) -> Dead {
        let begin = Instant::now();
        loop {
            if let Some(dead) = datapath.dead() {
                return dead;
            }
            assert!(begin.elapsed() < Duration::from_secs(120), "nobody found it dead");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_worker_that_panicked_is_dead_and_says_why() {
        let mut datapath = datapath(2);
        assert_eq!(datapath.dead(), None);
        harm(&datapath, 1, |_| panic!("a fault of the switch"));
        let dead = wait_for_death(&mut datapath);
        assert_eq!((dead.worker, dead.core), (1, datapath.workers[1].core));
        assert!(
            dead.to_string().contains("has ended: ") && dead.why.contains("a fault of the switch"),
            "{dead}"
        );
        // The ledger can be had all the same.
        let report = datapath.last_report();
        assert_eq!(report.workers.len(), 2);
    }

    #[test]
    fn a_worker_in_an_endless_loop_is_dead_and_one_that_sleeps_is_not() {
        static ENOUGH: AtomicBool = AtomicBool::new(false);
        let mut datapath = datapath(2);
        harm(&datapath, 0, |_| {
            while !ENOUGH.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        // It has no CPU time: its core is somebody else's, as far as anybody can see.
        harm(&datapath, 1, |_| {
            while !ENOUGH.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let dead = wait_for_death(&mut datapath);
        assert_eq!(dead.worker, 0);
        assert!(dead.to_string().contains("in an endless loop"), "{dead}");
        ENOUGH.store(true, Ordering::Relaxed);
    }

    #[test]
    fn a_change_that_fails_for_a_worker_that_does_not_answer_was_done_by_none() {
        let mut datapath = datapath(2);
        let change = |text: &str| -> Vec<Change> {
            parse_flows(text, &weir_openflow::Names::default())
                .unwrap()
                .into_iter()
                .map(Change::Flow)
                .collect()
        };
        datapath.apply(&change("priority=1,actions=drop")).unwrap();
        let enough = Arc::new(AtomicBool::new(false));
        let theirs = enough.clone();
        harm(&datapath, 1, move |_| {
            while !theirs.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let before = datapath.pipeline.generation;
        let error = datapath.apply(&change("priority=2,actions=drop")).unwrap_err().to_string();
        assert!(error.contains("worker 1") && error.contains("has not answered"), "{error}");
        let port = PortSpec {
            name: "new".to_owned(),
            number: None,
            spec: "null".to_owned(),
            queues: 1,
            descriptors: 64,
        };
        datapath.add_port(&port).unwrap_err();
        let plan = Plan { changes: change("priority=3,actions=drop"), ..Plan::default() };
        datapath.carry_out(&plan).unwrap_err();
        enough.store(true, Ordering::Relaxed);
        // What each worker forwards by, as it says itself.
        let (tell, told) = std::sync::mpsc::channel();
        for worker in 0..2 {
            let tell = tell.clone();
            harm(&datapath, worker, move |worker| {
                tell.send((worker.pipeline.generation, worker.pipeline.ports.len())).unwrap();
            });
        }
        for _ in 0..2 {
            assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok((before, 0)), "as before the changes");
        }
        assert_eq!((datapath.pipeline.generation, datapath.pipeline.entries), (before, 1));
        datapath.apply(&change("priority=2,actions=drop")).unwrap();
        assert_eq!(datapath.flows().unwrap().len(), 2);
    }
}

//! The process of a rig, whether packets come to it or it feeds itself: where it lives, how it started, and what became of its
//! threads during a trial.

use super::rest::Rests;
use super::{Flags, RigError, RigSetup, speed};
use crate::clock::Clock;
use crate::nodes;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_cpu::{BpfLink, Lease, RealTime, Ticks, Tsc};
use weir_dpdk::Port;
use weir_dut::folder::Folder;
use weir_dut::namespace::Namespace;
use weir_dut::process::Process;
use weir_dut::wiring::VethPairs;
use weir_dut::{Counters, RunningDut, server};
use weir_traffic::TesterError;
use weir_trial::health::{Conduct, CoreHealth, Health, ThreadReading, ran_elsewhere, stolen};
use weir_trial::{DutReading, Frequency};
use weir_units::Nanos;

/// Where a DUT lives; it must go first.
pub(super) struct Home {
    pub(super) folder: Folder,
    pub(super) pairs: Option<Arc<VethPairs>>,
    /// That of another machine, where a namespace stands for it and its ports are there already.
    pub(super) namespace: Option<Arc<Namespace>>,
    /// Held for as long as the lab's ends are to be polled.
    pub(super) _polled: Vec<BpfLink>,
    /// Offloads that were set there, in words.
    pub(super) offloads: Option<String>,
}

/// What both kinds of process have in common. Fields drop in order: the DUT before its home.
pub(super) struct Device {
    pub(super) dut: Box<dyn RunningDut>,
    /// How it started.
    pub(super) start: String,
    pub(super) home: Home,
    /// Raised when a trial must end at once: Ctrl-C, or the DUT died.
    pub(super) stop: Arc<AtomicBool>,
    /// Raised by Ctrl-C alone.
    pub(super) interrupted: Arc<AtomicBool>,
    /// Where the DUT forwards.
    pub(super) core: u32,
    /// Whether several processes of it do.
    pub(super) shares_core: bool,
    /// Who sits where, in words.
    pub(super) seated: String,
    /// What the machine is on which it runs, in that machine's words, where it is another.
    pub(super) server: Option<String>,
    /// How flows are spread over the queues of its ports, in words, where these have several.
    pub(super) queues: Option<String>,
    /// On which nodes both sides and its memory are, in words, where its plan says.
    pub(super) node: Option<String>,
    /// How fast its cores are, where its plan says.
    pub(super) frequency: Option<Frequency>,
    /// Their clock, where that is set; it goes after the DUT.
    pub(super) clock: Option<Arc<Clock>>,
    pub(super) tsc: Tsc,
    pub(super) rests: Rests,
}

/// A reading of a DUT's threads and conduct; what cannot be read is left out.
pub(super) struct Watch {
    pub(super) threads: Option<ThreadReading>,
    pub(super) stolen: Option<Nanos>,
    pub(super) conduct: Conduct,
}

/// The longest trial at real-time priority. Of each second the kernel gives ordinary threads that wait 50 ms of
/// a core (its fair server): a shorter trial ends before, a longer one would lose a twentieth of its time.
const MOST_REAL_TIME: Nanos = Nanos(900_000_000);

/// Cores in words.
fn listed(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How a device started: `ready after 0.61 s, with 84 MiB of resident memory`.
fn started(took: Duration, resident: Option<u64>) -> String {
    let memory = resident.map_or_else(String::new, |bytes| {
        format!(", with {} MiB of resident memory (without huge pages)", bytes >> 20)
    });
    format!("ready after {:.2} s{memory}", took.as_secs_f64())
}

impl Device {
    pub(super) fn new(
        (dut, took): (Box<dyn RunningDut>, Duration),
        setup: &RigSetup<'_>,
        home: Home,
        flags: &Flags,
    ) -> Result<Self, RigError> {
        let Flags { stop, interrupted, .. } = flags.clone();
        let resident = dut.processes().into_iter().filter_map(Process::resident).reduce(|sum, one| sum + one);
        let start = started(took, resident);
        let frequency = setup.placement.frequency;
        let node = setup.placement.node.map(|_| {
            let processes: Vec<u32> = dut.processes().into_iter().map(Process::pid).collect();
            nodes::says(Path::new("/"), setup.seats, &processes)
        });
        let clock = speed::clock(dut.as_ref(), setup)?;
        Ok(Self {
            dut,
            start,
            home,
            stop,
            interrupted,
            core: setup.cores.dut as u32,
            shares_core: setup.seats.shares(),
            seated: match (setup.there, setup.far()) {
                (Some((core, rest)), Some(server)) => {
                    let testers = listed(setup.testers);
                    format!("tester on {testers}; at {server}: forwarding on {core}, all else on {rest}")
                }
                _ => setup.seats.says(),
            },
            server: setup.placement.server.as_ref().map(|server| match server::facts(server) {
                Ok(facts) => format!("{server}\n{}", facts.text),
                Err(error) => error,
            }),
            queues: None,
            node,
            frequency,
            clock,
            tsc: Tsc::get(),
            rests: Rests::new(),
        })
    }

    /// Waits for all links; ends early when the DUT dies or Ctrl-C is pressed.
    pub(super) fn wait_links(&mut self, ports: &[Port], patience: Duration) -> Result<(), RigError> {
        let end = Instant::now() + patience;
        for port in ports {
            while let Err(error) = port.wait_link(Duration::from_millis(100)) {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(self.reason());
                }
                if Instant::now() > end {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Asleep most of the time, so that the DUT's core is not disturbed; ends early when the DUT
    /// dies or Ctrl-C is pressed.
    pub(super) fn sleep_until(&mut self, end: Instant) -> Result<(), RigError> {
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.reason());
            }
            std::thread::sleep(left.min(Duration::from_millis(250)));
        }
        Ok(())
    }

    /// Why a stop flag was raised.
    pub(super) fn reason(&mut self) -> RigError {
        if self.interrupted.load(Ordering::Relaxed) {
            return RigError::Interrupted;
        }
        self.dut.ended().map_or(RigError::Tester(TesterError::Stopped), RigError::Dut)
    }

    /// Real-time priority for this thread, for those that it starts, the tester's among them, and for the
    /// DUT's forwarding threads alike; nothing where the system does not allow it, or a side would not
    /// have it, and where the trial is so long that the kernel would take the cores back in its midst.
    pub(super) fn real_time(&self, duration: Nanos) -> Option<RealTime> {
        if duration > MOST_REAL_TIME {
            return None;
        }
        // Packets that pass through the kernel may be carried by its ordinary threads, which would wait.
        let through_kernel = self.home.pairs.is_some();
        let threads: Vec<u32> = self.dut.threads().into_iter().map(|(_, thread)| thread).collect();
        // Of several at real-time priority on one core, the first would keep it.
        if through_kernel || threads.is_empty() || self.shares_core {
            return None;
        }
        RealTime::raise(&threads).ok()
    }

    /// The same, for no longer than the kernel leaves it: a trial ends when the DUT has given all that it was sent.
    pub(super) fn lease(&self, duration: Nanos) -> Option<Arc<Lease>> {
        let raised = self.real_time(duration)?;
        let left = self.rests.left(MOST_REAL_TIME.duration()).max(duration.duration());
        let until = Ticks::now().0 + self.tsc.ticks(left.into());
        Some(Arc::new(Lease::new(raised, Ticks(until))))
    }

    /// Lets ordinary threads have their time of the cores before a trial of this length.
    pub(super) fn rest(&mut self, duration: Nanos) {
        let rest = self.rests.before(Instant::now(), duration.duration());
        if !rest.is_zero() {
            std::thread::sleep(rest);
            self.rests.before(Instant::now(), duration.duration());
        }
    }

    /// The threads whose core is theirs: of several processes on one core each waits for the others, which is no
    /// disturbance.
    pub(super) fn watched_threads(&self) -> Vec<(u32, u32)> {
        if self.shares_core { Vec::new() } else { self.dut.threads() }
    }

    /// Reads what became of the DUT's threads so far.
    pub(super) fn watch(&self) -> Watch {
        let threads = self.watched_threads();
        let read = |sum: ThreadReading, (process, thread): &(u32, u32)| {
            ThreadReading::of(*process, *thread).map(|reading| sum + reading)
        };
        let sum = threads.iter().try_fold(ThreadReading::default(), read);
        Watch {
            threads: sum.filter(|_| !threads.is_empty()),
            stolen: stolen(self.core),
            conduct: Conduct { elsewhere: ran_elsewhere(&threads), ..self.dut.conduct() },
        }
    }

    /// What became of them since an earlier [`Self::watch`].
    pub(super) fn watched(&self, before: Watch, health: &mut Health) {
        let after = self.watch();
        let threads = before.threads.zip(after.threads);
        health.dut =
            threads.map(|threads| CoreHealth::between(self.core, threads, (before.stolen, after.stolen)));
        health.conduct = Conduct {
            lines: after.conduct.lines.saturating_sub(before.conduct.lines),
            children: after.conduct.children,
            elsewhere: Nanos(after.conduct.elsewhere.0.saturating_sub(before.conduct.elsewhere.0)),
        };
    }

    /// What the DUT did between two readings. The CPU time of a forwarder that polls says something
    /// about its packets only while it is never idle.
    pub(super) fn reading(&self, before: Counters, after: Counters, saturated: bool) -> DutReading {
        let received = after.received.saturating_sub(before.received);
        let cpu = Nanos(after.cpu.0.saturating_sub(before.cpu.0));
        let cycles = self.tsc.hz() * cpu.seconds() / received as f64;
        DutReading {
            received,
            sent: after.sent.saturating_sub(before.sent),
            elapsed: after.at.duration_since(before.at).into(),
            cpu,
            cycles_per_packet: (saturated && received > 0 && cpu.0 > 0).then_some(cycles),
            details: after.details_since(&before),
        }
    }
}

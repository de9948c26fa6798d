//! A DUT held back to a share of its cores: what stands for a lower clock frequency where there is none.
//!
//! On each core of the DUT a thread of the lab takes turns with the DUT's forwarding threads. It has a higher
//! real-time priority than they, so it gets the core the moment its sleep ends; then it reads what they ran so far
//! (`schedstat`), keeps the core until that is their share of the time, and sleeps for a [`TURN`] of theirs. The
//! kernel's own quota (`cpu.max`) looks at a thread every tick, 4 ms at 250 Hz, and holds it back for as many as 17 ms:
//! a queue lasts for a tenth of a millisecond. And it binds no real-time thread, which this does.
//!
//! What a DUT does not run of its turn by itself it is not owed later, so that it never runs ahead of its share.
//! The threads end with the lab, however that ends. Threads: one a core, busy while it keeps the core.

use super::RigError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_cpu::RealTime;
use weir_trial::Held;
use weir_units::Nanos;

/// How long the DUT has its core at a time. To begin such a turn costs it some 7 µs of it.
const TURN: Duration = Duration::from_micros(150);

/// A DUT that is held back; dropping lets it go.
pub(super) struct Hold {
    stop: Arc<AtomicBool>,
    keepers: Vec<JoinHandle<Held>>,
}

impl Hold {
    /// Holds forwarding threads, given by process and thread, to so many percent of their cores. Returns when each
    /// core is held.
    ///
    /// # Errors
    ///
    /// Where a thread has more than one core, or this process no right to real-time priority.
    pub(super) fn start(percent: u8, threads: &[(u32, u32)]) -> Result<Self, RigError> {
        let mut cores: BTreeMap<usize, Vec<File>> = BTreeMap::new();
        for (process, thread) in threads {
            let core = weir_dut::core_of(*thread).ok_or_else(|| {
                RigError::Frequency(format!(
                    "thread {thread} of the device may run on several cores, so that it can be held back on none"
                ))
            })?;
            let path = format!("/proc/{process}/task/{thread}/schedstat");
            let file = File::open(&path).map_err(|error| RigError::Frequency(format!("{path}: {error}")))?;
            cores.entry(core).or_default().push(file);
        }
        if cores.is_empty() {
            return Err(RigError::Frequency("the device names no forwarding thread to hold back".to_owned()));
        }
        let mut hold = Self { stop: Arc::default(), keepers: Vec::new() };
        let (tell, told) = channel();
        for (core, threads) in cores {
            let keeper = Keeper { core, percent, threads, stop: Arc::clone(&hold.stop) };
            let tell = tell.clone();
            let thread = std::thread::Builder::new().name("weir-hold".to_owned());
            let thread = thread.spawn(move || keeper.work(&tell));
            hold.keepers.push(thread.map_err(refused)?);
            told.recv().map_err(io::Error::other).and_then(|ready| ready).map_err(refused)?;
        }
        Ok(hold)
    }

    /// Lets the DUT go; what it had meanwhile, over all its cores.
    pub(super) fn end(mut self) -> Held {
        self.release().into_iter().reduce(|sum, one| sum + one).unwrap_or_default()
    }

    fn release(&mut self) -> Vec<Held> {
        self.stop.store(true, Ordering::Relaxed);
        self.keepers.drain(..).filter_map(|keeper| keeper.join().ok()).collect()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// How a DUT is held back, in words.
pub(super) fn says(percent: u8) -> String {
    if percent == 100 {
        return "100 % of its cores: not held back".to_owned();
    }
    let clock = if crate::clock::is_there(Path::new("/")) {
        "cpufreq was not asked for"
    } else {
        "there is no cpufreq here"
    };
    format!(
        "{percent} % of its cores' time, in trials: a thread of the lab keeps each core for the rest, turns of {} µs ({clock})",
        TURN.as_micros()
    )
}

fn refused(error: io::Error) -> RigError {
    RigError::Frequency(format!(
        "the device cannot be held back: {error}; that takes real-time priority (root, CAP_SYS_NICE or `ulimit -r 2`)"
    ))
}

/// Who keeps one core.
struct Keeper {
    core: usize,
    percent: u8,
    threads: Vec<File>,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    fn work(&self, tell: &Sender<io::Result<()>>) -> Held {
        // The priority first: on a core that a real-time thread polls on, an ordinary one would wait for ever.
        let real_time = RealTime::raise(&[]).and_then(|raised| weir_cpu::pin(self.core).map(|()| raised));
        let ready =
            real_time.as_ref().map(|_| ()).map_err(|error| io::Error::new(error.kind(), error.to_string()));
        let failed = ready.is_err();
        let _ = tell.send(ready); // whoever does not listen any more does not wait either
        if failed { Held::default() } else { self.take_turns() }
    }

    fn take_turns(&self) -> Held {
        let share = f64::from(self.percent) / 100.0;
        let (begin, before) = (Instant::now(), self.ran());
        // From when on it is to have its share.
        let mut since = (begin, before);
        let mut kept = Kept::new();
        loop {
            let (now, ran) = (Instant::now(), self.ran());
            kept.woke();
            if self.stop.load(Ordering::Relaxed) {
                let (had, of) = (Nanos(ran.saturating_sub(before)), (now - begin).into());
                return Held { percent: self.percent, ran: had, kept: kept.sum, of };
            }
            let due = since.0 + Duration::from_secs_f64(ran.saturating_sub(since.1) as f64 / 1e9 / share);
            if now > due {
                since = (now, ran);
            } else {
                while Instant::now() < due && !self.stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
            kept.sleeps(now.elapsed());
            std::thread::sleep(TURN);
        }
    }

    /// Time that the threads ran since they began, in ns. They do not run while this does.
    fn ran(&self) -> u64 {
        self.threads.iter().filter_map(ran).sum()
    }
}

/// For how long a thread kept its core, turn for turn.
///
/// The kernel does not count as run what the hypervisor took meanwhile, though it does count it as waited by the thread
/// that is kept waiting. The clock says that; the kernel alone says how long the way in and out of a turn was. Of each
/// turn the longer one counts.
struct Kept {
    sum: Nanos,
    own: Option<File>,
    /// What the kernel had counted when the thread woke last, and for how long it was awake since then by the clock.
    last: Option<(u64, Duration)>,
}

impl Kept {
    /// Of the calling thread.
    fn new() -> Self {
        Self { sum: Nanos(0), own: File::open("/proc/thread-self/schedstat").ok(), last: None }
    }

    /// It woke: the turn before has ended.
    fn woke(&mut self) {
        let Some(counted) = self.own.as_ref().and_then(ran) else { return };
        if let Some((before, awake)) = self.last.replace((counted, Duration::ZERO)) {
            self.add(counted.saturating_sub(before), awake);
        }
    }

    /// It sleeps now, so long after it woke.
    fn sleeps(&mut self, awake: Duration) {
        if let Some(last) = &mut self.last {
            last.1 = awake;
        }
    }

    /// A turn in which the kernel counted so many nanoseconds, and the clock so long.
    fn add(&mut self, counted: u64, awake: Duration) {
        self.sum.0 += counted.max(Nanos::from(awake).0);
    }
}

/// The first word of a thread's `schedstat`; nothing of a thread that is gone.
fn ran(file: &File) -> Option<u64> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::health::ThreadReading;

    /// A thread that polls on the last core, its number, and what ends it.
    fn poller() -> (u32, Arc<AtomicBool>, JoinHandle<()>) {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            weir_cpu::pin(*weir_cpu::allowed_cores().last().unwrap()).unwrap();
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(own.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        (told.recv().unwrap(), stop, thread)
    }

    #[test]
    fn a_thread_that_polls_has_the_share_that_is_asked_for_and_all_of_it_afterwards() {
        if !weir_testkit::needs!(weir_testkit::Need::Root) {
            return;
        }
        let (thread, stop, handle) = poller();
        let process = std::process::id();
        for (percent, real_time) in [(50, true), (25, true), (25, false)] {
            let raised = real_time.then(|| RealTime::raise(&[thread]).unwrap());
            let hold = Hold::start(percent, &[(process, thread)]).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let held = hold.end();
            drop(raised);
            let (share, asked) = (held.share().0, f64::from(percent) / 100.0);
            // Less where others wanted the core as well; never more.
            assert!(share < asked * 1.05, "{held:?}");
            // Ordinary threads of others may have had the core meanwhile, but where this one is a real-time thread.
            if real_time {
                let both = held.kept.seconds() + held.ran.seconds();
                assert!(held.ran.seconds() > asked * both * 0.5, "{held:?}");
                assert!(held.kept.seconds() > (1.0 - asked) * both * 0.8, "{held:?}");
            }
        }
        let raised = RealTime::raise(&[thread]).unwrap();
        let before = ThreadReading::of(process, thread).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let after = ThreadReading::of(process, thread).unwrap().since(before);
        drop(raised);
        stop.store(true, Ordering::Relaxed);
        handle.join().unwrap();
        assert!(after.ran.0 > 20_000_000, "it is let go: {after:?}");
    }

    #[test]
    fn what_the_hypervisor_takes_in_a_turn_is_kept_as_well() {
        let mut kept = Kept::new();
        kept.woke();
        assert_eq!(kept.sum, Nanos(0), "no turn has ended");
        // As the kernel counts without anybody's taking: the way in and out beside the turn.
        kept.add(137_000, Duration::from_micros(130));
        // The hypervisor had the core for 3 ms of the turn.
        kept.add(139_000, Duration::from_micros(3_130));
        assert_eq!(kept.sum, Nanos(137_000 + 3_130_000));
        kept.sleeps(Duration::from_secs(2));
        kept.woke();
        assert!(kept.sum >= Nanos(2_003_267_000), "what the clock says of a turn: {}", kept.sum);
    }

    #[test]
    fn a_thread_without_a_core_of_its_own_is_told_and_so_is_none() {
        let error = Hold::start(50, &[]).err().unwrap().to_string();
        assert!(error.contains("no forwarding thread"), "{error}");
        if weir_cpu::allowed_cores().len() > 1 {
            let process = std::process::id();
            let error = Hold::start(50, &[(process, process)]).err().unwrap().to_string();
            assert!(error.contains("several cores"), "{error}");
        }
    }
}

//! Who starts a port's helper, and starts it again.
//!
//! A helper that has ended, that hangs in its driver or that lied is replaced, the first time at once, then after twice as
//! long each time, until one has lived for a while.
//!
//! What is believed: the keeper, of whether a helper has ended. Of the helper nothing: what it says while it starts is shown
//! as its own words, it has nothing to say after that, and what it counts is bounded ([`AllTold`]).

use super::ApartSpec;
use super::ends::{ApartRx, ApartTx, Common, ends};
use super::keeper::Keeper;
use super::lines::{Heard, Lines};
use super::ring::{Shape, Told};
use super::tally::AllTold;
use crate::PortError;
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_dpdk::{Pool, PortConfig, PortStats, SharedWords};

/// How long a helper may take until it polls: DPDK starts in a fraction of a second, on a core that may be busy.
const BEGIN: Duration = Duration::from_secs(20);
/// How long it may take to end: the keeper is less patient.
const END: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Waits before another is started: the first, and the longest.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(5);
/// Who has lived so long is not held against the next.
const WELL: Duration = Duration::from_secs(10);
/// CPU time in which a helper has to come round, and, where the system does not tell, time.
const ROUND: Duration = Duration::from_secs(2);
const ROUND_AT_MOST: Duration = Duration::from_secs(30);

/// A port's helpers, seen from the switch. Dropping it ends the one that there is.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    common: Arc<Common>,
    stop: AtomicBool,
    restarts: AtomicU64,
    lies: AtomicU64,
    told: Mutex<AllTold>,
    trouble: Mutex<Option<String>>,
}

/// What a helper is started with.
#[derive(Clone, Debug)]
struct Start {
    arguments: Vec<String>,
    shape: Shape,
}

/// A helper that runs.
#[derive(Debug)]
struct Running {
    /// The helper's words.
    helper: Lines,
    /// The keeper's.
    keeper: Lines,
    memory: Arc<SharedWords>,
    pid: Option<u32>,
    since: Instant,
    /// The rounds that it had made, and when, by its CPU time and by the clock.
    seen: (u64, Option<Duration>, Instant),
}

/// Opens a port in a helper, and takes its ends.
pub(crate) fn open(
    spec: &ApartSpec,
    config: PortConfig,
    pool: &Pool,
) -> Result<(Supervisor, Vec<(ApartRx, ApartTx)>), PortError> {
    let wrong = |reason: String| PortError::Apart { port: spec.port.clone(), reason };
    let shape = Shape::new(config.queues, config.descriptors, config.max_frame.bytes());
    let mut arguments: Vec<String> = [
        ("--queues", config.queues.to_string()),
        ("--descriptors", config.descriptors.to_string()),
        ("--max-frame", config.max_frame.bytes().to_string()),
    ]
    .into_iter()
    .flat_map(|(key, value)| [key.to_owned(), value])
    .collect();
    if let Some(core) = spec.core {
        arguments.extend(["--core".to_owned(), core.to_string()]);
    }
    arguments.extend(["--".to_owned(), spec.port.clone()]);
    let start = Start { arguments, shape };
    let (running, queues) = start.begin(&AtomicBool::new(false)).map_err(wrong)?;
    let queues = queues.min(config.queues);
    let common = Arc::new(Common::new(shape, queues, running.memory.clone()));
    let taken = (0..usize::from(queues)).map(|queue| ends(&common, queue, pool)).collect();
    let shared = Arc::new(Shared {
        common,
        stop: AtomicBool::new(false),
        restarts: AtomicU64::new(0),
        lies: AtomicU64::new(0),
        told: Mutex::new(AllTold::of(running.memory.clone())),
        trouble: Mutex::new(None),
    });
    let inner = shared.clone();
    let thread = thread::Builder::new()
        .name("weir-apart".into())
        .spawn(move || inner.look_after(running, &start))
        .map_err(|error| wrong(error.to_string()))?;
    Ok((Supervisor { shared, thread: Some(thread) }, taken))
}

impl Start {
    /// Starts a helper and waits until it polls, or the port is closed. Returns the queues that its driver has.
    fn begin(&self, stop: &AtomicBool) -> Result<(Running, u16), String> {
        let mut running = self.ask().map_err(|error| format!("its helper cannot be started: {error}"))?;
        while running.since.elapsed() < BEGIN && !stop.load(Acquire) {
            if let Heard::Line(line) = running.helper.hear() {
                match line.split_once(' ').unwrap_or((&line, "")) {
                    ("ready", queues) => return Ok((running, queues.parse().unwrap_or(1).max(1))),
                    ("failed", why) => {
                        let why = why.to_owned();
                        running.end();
                        return Err(why);
                    }
                    _ => {}
                }
            }
            match running.look() {
                Some(Heard::Line(how)) => {
                    // It may have said why just before.
                    let Heard::Line(line) = running.helper.hear() else {
                        return Err(format!("its helper ended {how}, before it was ready"));
                    };
                    return Err(line.strip_prefix("failed ").unwrap_or(&line).to_owned());
                }
                Some(_) => return Err("the process that starts helpers is gone".to_owned()),
                None => {}
            }
        }
        running.end();
        Err(format!("its helper is not ready after {BEGIN:?}"))
    }

    fn ask(&self) -> Result<Running, String> {
        let told = |error: std::io::Error| error.to_string();
        let (memory, file) = SharedWords::create(self.shape.words()).map_err(told)?;
        let (helper, theirs) = UnixStream::pair().map_err(told)?;
        let (keeper, its) = UnixStream::pair().map_err(told)?;
        helper.set_nonblocking(true).map_err(told)?;
        keeper.set_read_timeout(Some(LOOK)).map_err(told)?;
        Keeper::ask(&self.arguments, [theirs.as_fd(), file.as_fd(), its.as_fd()])?;
        let since = Instant::now();
        Ok(Running {
            helper: Lines::new(helper),
            keeper: Lines::new(keeper),
            memory: Arc::new(memory),
            pid: None,
            since,
            seen: (0, None, since),
        })
    }
}

impl Running {
    /// Waits a while for the keeper's word of its end: how it ended, or that the keeper is gone.
    fn look(&mut self) -> Option<Heard> {
        match self.keeper.hear() {
            Heard::Line(line) => {
                if let Some(pid) = line.strip_prefix("pid ") {
                    self.pid = pid.parse().ok();
                }
                line.strip_prefix("ended ").map(|how| Heard::Line(how.to_owned()))
            }
            Heard::Nothing => None,
            Heard::End => Some(Heard::End),
        }
    }

    /// Whether it goes round no more, although it had the time.
    fn hangs(&mut self) -> bool {
        let rounds = Told::Rounds.read(&self.memory);
        if rounds != self.seen.0 {
            self.seen = (rounds, None, Instant::now());
            return false;
        }
        let spent = self.pid.and_then(weir_cpu::cpu_time_of);
        let (_, spent_then, then) = self.seen;
        self.seen.1 = spent_then.or(spent);
        let worked = spent.zip(spent_then).is_some_and(|(now, then)| now.saturating_sub(then) > ROUND);
        worked || then.elapsed() > ROUND_AT_MOST
    }

    /// Ends it, and waits until it has ended, so that what it held can be had again. Returns how it ended, if anybody knows.
    fn end(&mut self) -> Option<String> {
        for stream in [self.helper.stream(), self.keeper.stream()] {
            let _ = stream.shutdown(Shutdown::Write); // it may have ended
        }
        let begin = Instant::now();
        while begin.elapsed() < END {
            match self.look() {
                Some(Heard::Line(how)) => return Some(how),
                Some(_) => break,
                None => {}
            }
        }
        None
    }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, AllTold> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self, what: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    /// Until the port is closed: waits for the end of a helper, and starts another.
    fn look_after(&self, first: Running, start: &Start) {
        let (mut helper, mut wait) = (Some(first), FIRST);
        while let Some(running) = helper.take() {
            let since = running.since;
            if !self.until_it_ends(running) {
                return;
            }
            if since.elapsed() > WELL {
                wait = FIRST;
            }
            while helper.is_none() {
                if !self.sleep(wait) {
                    return;
                }
                wait = (wait * 2).min(LONGEST);
                self.restarts.fetch_add(1, Relaxed);
                match start.begin(&self.stop) {
                    Ok((running, _)) => {
                        self.told().begin(running.memory.clone());
                        self.common.begun(running.memory.clone());
                        helper = Some(running);
                    }
                    Err(why) => self.trouble(why),
                }
            }
        }
    }

    /// Waits for a helper's end, and brings it about where it has to be. False when the port is closed.
    fn until_it_ends(&self, mut running: Running) -> bool {
        let (mut how, why) = loop {
            match running.look() {
                Some(Heard::Line(how)) => break (Some(how), None),
                Some(_) => break (None, Some("the process that starts helpers is gone".to_owned())),
                None => {}
            }
            // Once it serves its port it has nothing to say, and stays.
            match running.helper.hear() {
                Heard::Line(said) => {
                    break (None, Some(format!("its helper says: {}", said.trim_start_matches("failed "))));
                }
                Heard::End => break (None, None),
                Heard::Nothing if self.stop.load(Acquire) => break (None, None),
                Heard::Nothing => {}
            }
            if let Some(why) = self.is_amiss(&mut running) {
                break (None, Some(why));
            }
        };
        self.common.ended();
        how = how.or_else(|| running.end());
        self.common.is_over();
        self.told().settle();
        if self.stop.load(Acquire) {
            return false;
        }
        let ended = || format!("its helper ended {}", how.as_deref().unwrap_or("in a way that nobody saw"));
        self.trouble(why.unwrap_or_else(ended));
        true
    }

    /// Why a helper that runs has to be ended; nothing if it has not.
    fn is_amiss(&self, running: &mut Running) -> Option<String> {
        if self.common.lied() {
            self.lies.fetch_add(1, Relaxed);
            return Some("its helper wrote what cannot be into the memory".to_owned());
        }
        running.hangs().then(|| "its helper hung in its driver".to_owned())
    }

    /// False when the port was closed meanwhile.
    fn sleep(&self, time: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < time && !self.stop.load(Acquire) {
            thread::sleep(LOOK.min(time));
        }
        !self.stop.load(Acquire)
    }
}

impl Supervisor {
    pub(crate) fn link_up(&self) -> bool {
        self.shared.common.link_up()
    }

    pub(crate) fn mac(&self) -> [u8; 6] {
        self.shared.common.mac()
    }

    /// Why there was another helper last, or is none.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn stats(&self) -> PortStats {
        let [missed, _] = self.shared.told().look();
        PortStats { missed, ..self.shared.common.stats() }
    }

    /// What went wrong with helpers, by name.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        let [_, unsent] = self.shared.told().look();
        BTreeMap::from([
            ("restarts", self.shared.restarts.load(Relaxed)),
            ("lies", self.shared.lies.load(Relaxed)),
            ("undelivered", self.shared.common.undelivered()),
            ("unsent", unsent),
        ])
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there was printed when it happened
        }
    }
}

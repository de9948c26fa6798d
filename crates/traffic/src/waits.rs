//! When the DUT's forwarding threads waited for their core, seen by the tester's thread while a trial runs.
//!
//! The kernel adds the time that a thread waited to its `schedstat` at the moment it runs again. Read
//! twice a millisecond, that says when the wait was to within the time between two readings: of a wait of
//! `d` found at `t`, last looked for at `s`, no part lies before `s - d` or behind `t`.
//!
//! Cost: a system call of one to three microseconds a thread, twice a millisecond, beside the loop's budget
//! of a burst. What the hypervisor takes is not seen: the kernel does not know of it either.

use std::fs::File;
use std::os::unix::fs::FileExt;
use weir_cpu::{Ticks, Tsc};
use weir_trial::{Absence, Side};
use weir_units::Nanos;

/// Time between two readings.
const EVERY: Nanos = Nanos(500_000);
/// What a reading takes at most.
const READING: Nanos = Nanos(3_000);
/// A wait shorter than this is what every system call of the kernel costs, and no ring runs over.
const SHORTEST: Nanos = Nanos(20_000);
/// Waits of one trial that are kept one by one; beyond that the last grows over those behind it.
const MOST: usize = 1 << 14;

/// Some threads of another process, looked at.
#[derive(Debug)]
pub(crate) struct Waits {
    threads: Vec<Thread>,
    every: u64,
    shortest: u64,
    ticks_per_nano: f64,
    /// When they were looked at last.
    looked: Ticks,
    /// Nanoseconds that all of them waited since the trial began.
    sum: u64,
    absences: Vec<Absence>,
}

#[derive(Debug)]
struct Thread {
    schedstat: File,
    /// Nanoseconds it had waited when it was looked at last.
    waited: u64,
}

impl Waits {
    /// Watches these threads, by process and thread; one that cannot be read is left out.
    pub(crate) fn of(threads: &[(u32, u32)], tsc: Tsc) -> Self {
        let open = |(process, thread): &(u32, u32)| {
            let schedstat = File::open(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
            let waited = waited(&schedstat)?;
            Some(Thread { schedstat, waited })
        };
        let threads: Vec<Thread> = threads.iter().filter_map(open).collect();
        // Nobody to look at: never.
        let every = if threads.is_empty() { u64::MAX } else { tsc.ticks(EVERY) };
        Self {
            threads,
            every,
            shortest: SHORTEST.0,
            ticks_per_nano: tsc.hz() / 1e9,
            looked: Ticks(0),
            sum: 0,
            absences: Vec::with_capacity(if every == u64::MAX { 0 } else { MOST }),
        }
    }

    /// The trial begins: what they waited before is not counted.
    pub(crate) fn begin(&mut self, now: Ticks) {
        self.threads.iter_mut().for_each(|thread| thread.waited = thread.now());
        (self.looked, self.sum) = (now, 0);
        self.absences.clear();
    }

    /// Ticks that looking at them takes at most.
    pub(crate) fn cost(&self, tsc: Tsc) -> u64 {
        tsc.ticks(READING) * self.threads.len() as u64
    }

    /// Looks at them if it is time to.
    #[inline]
    pub(crate) fn pass(&mut self, now: Ticks) {
        if now.since(self.looked) >= self.every {
            self.look(now);
        }
    }

    /// Looks at them now.
    #[cold]
    pub(crate) fn look(&mut self, now: Ticks) {
        let before = std::mem::replace(&mut self.looked, now);
        for place in 0..self.threads.len() {
            let thread = &mut self.threads[place];
            let waited = thread.now();
            let waited = waited - std::mem::replace(&mut thread.waited, waited);
            self.sum += waited;
            if waited >= self.shortest {
                self.add(waited, before, now);
            }
        }
    }

    fn add(&mut self, waited: u64, before: Ticks, now: Ticks) {
        let ticks = (waited as f64 * self.ticks_per_nano) as u64;
        let absence = Absence { side: Side::Dut, from: before.0.saturating_sub(ticks), to: now.0 };
        let is_full = self.absences.len() == MOST;
        match self.absences.last_mut().filter(|_| is_full) {
            Some(last) => last.to = now.0,
            None => self.absences.push(absence),
        }
    }

    /// What all of them together waited since the trial began; nothing where nobody is watched.
    pub(crate) fn waited(&self) -> Option<Nanos> {
        (!self.threads.is_empty()).then_some(Nanos(self.sum))
    }

    /// The times in which one of them did not run, though it could have.
    pub(crate) fn absences(&self) -> &[Absence] {
        &self.absences
    }
}

impl Thread {
    /// What it has waited until now; of one that is gone what it had when it was seen last.
    fn now(&self) -> u64 {
        waited(&self.schedstat).map_or(self.waited, |waited| waited.max(self.waited))
    }
}

/// The second number of a thread's `schedstat` (proc(5)): nanoseconds it waited for a core.
fn waited(schedstat: &File) -> Option<u64> {
    let mut text = [0; 96];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    use weir_dpdk::{Eal, EalConfig, Memory, Worker};

    fn eal() -> &'static Eal {
        Eal::init(EalConfig { memory: Memory::Normal, megabytes: 64, pci: false })
            .expect("EAL starts anywhere")
    }

    #[test]
    fn a_thread_that_shares_its_core_is_absent_while_it_waits_and_one_that_sleeps_is_not() {
        let (eal, core) = (eal(), weir_cpu::allowed_cores()[0]);
        let end = Arc::new(AtomicBool::new(false));
        let numbers = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
        let workers: Vec<_> = numbers
            .iter()
            .enumerate()
            .map(|(place, number)| {
                let (end, number) = (Arc::clone(&end), Arc::clone(number));
                let spin = move || {
                    let own = std::fs::read_link("/proc/thread-self").unwrap();
                    let own = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
                    number.store(own, Ordering::SeqCst);
                    while !end.load(Ordering::Relaxed) {
                        // The last of the three sleeps.
                        if place == 2 {
                            std::thread::sleep(Duration::from_millis(5))
                        } else {
                            std::hint::spin_loop()
                        }
                    }
                };
                Worker::spawn(eal, "weir-waits", core, spin).unwrap()
            })
            .collect();
        while numbers.iter().any(|number| number.load(Ordering::SeqCst) == 0) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tsc = Tsc::get();
        let number = |place: usize| (std::process::id(), numbers[place].load(Ordering::SeqCst));
        let mut waits = Waits::of(&[number(0), (std::process::id(), u32::MAX)], tsc);
        assert_eq!(waits.threads.len(), 1, "one that is not there is left out");
        let begin = Ticks::now();
        waits.begin(begin);
        let before = waited(&waits.threads[0].schedstat).unwrap();
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            waits.pass(Ticks::now());
        }
        waits.look(Ticks::now());
        let waited = waited(&waits.threads[0].schedstat).unwrap() - before;
        end.store(true, Ordering::SeqCst);
        for worker in workers {
            worker.join().unwrap();
        }
        let absent: u64 = waits.absences().iter().map(|one| tsc.nanos(one.to - one.from).0).sum();
        assert_eq!(waits.waited(), Some(Nanos(waited)));
        assert!(waited > 10_000_000, "two that spin on one core: {waited} ns waited");
        assert!(absent as f64 > 0.9 * waited as f64, "{absent} of {waited} ns are proved");
        assert!(waits.absences().iter().all(|one| one.side == Side::Dut && one.to > begin.0));
        let nobody = Waits::of(&[], tsc);
        assert_eq!((nobody.every, nobody.waited(), nobody.absences().len()), (u64::MAX, None, 0));
    }
}

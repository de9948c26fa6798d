//! Real-time priority for some threads, for a while.
//!
//! Why: whatever else wants a core takes it from a thread that polls, some milliseconds at a time, and a
//! ring of packets lasts for less than one. Under `SCHED_FIFO` an ordinary process waits instead. It
//! does not wait for ever: the kernel keeps 50 ms of each second for ordinary processes that it starves
//! (the fair server, or `sched_rt_runtime_us` before Linux 6.12), so a stretch of less than 0.9 s is
//! disturbed by none of them.
//! Needs root, `CAP_SYS_NICE` or a limit of real-time priority (`ulimit -r`) of at least 2.
//! Threads: any; the threads that are raised may be those of other processes.

use crate::Ticks;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Has the calling thread, and those that it starts, take what others of their core leave.
///
/// # Errors
/// The system's reason.
pub fn give_way() -> io::Result<()> {
    // SAFETY: sets a number of this thread, which 0 stands for; no memory is touched.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LAST) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The lowest of ordinary priorities (`nice`).
const LAST: i32 = 19;

/// The least real-time priority: above all that is ordinary, below all that the kernel or an
/// administrator made real-time.
const PRIORITY: i32 = 1;

/// The caller's: it must never wait behind a thread that it raised, which may poll for ever.
const OF_CALLER: i32 = 2;

/// Threads at real-time priority; dropping gives each back what it had.
#[derive(Debug)]
pub struct RealTime {
    raised: Vec<Raised>,
    /// Whether the caller was, and with it what it starts meanwhile.
    with_caller: bool,
}

/// A thread, and what it had before.
#[derive(Debug)]
struct Raised {
    thread: libc::pid_t,
    policy: libc::c_int,
}

impl RealTime {
    /// Raises the calling thread and then these (by the numbers that the kernel gives them): all of
    /// them, or none and the system's reason. The caller goes first and one step higher, so that no
    /// thread that it raised keeps it from its core. Threads that the caller starts meanwhile are raised
    /// as it is, and stay so. A thread that is real-time already is left as it is.
    pub fn raise(threads: &[u32]) -> io::Result<Self> {
        let mut real_time = Self { raised: Vec::new(), with_caller: false };
        // SAFETY: takes nothing and gives a number.
        let caller = unsafe { libc::gettid() };
        let others = threads.iter().map(|thread| libc::pid_t::try_from(*thread).map_err(io::Error::other));
        for thread in std::iter::once(Ok(caller)).chain(others) {
            let thread = thread?;
            let policy = policy_of(thread)?;
            if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
                continue;
            }
            let priority = if thread == caller { OF_CALLER } else { PRIORITY };
            schedule(thread, libc::SCHED_FIFO, priority)?;
            real_time.raised.push(Raised { thread, policy });
            real_time.with_caller |= thread == caller;
        }
        Ok(real_time)
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // The caller last, so that it keeps its core until all others are as they were.
        for Raised { thread, policy } in self.raised.drain(..).rev() {
            let _ = schedule(thread, policy, 0); // a thread that is gone needs nothing back
        }
    }
}

/// Real-time priority that is given back at a set moment, be the work over or not. A polling thread asks on its way; no
/// thread waits for the moment, which would take the core of one that polls.
#[derive(Debug)]
pub struct Lease {
    until: Ticks,
    is_inherited: bool,
    /// The priority until it is given back, and when that was.
    held: Mutex<(Option<RealTime>, Ticks)>,
}

impl Lease {
    /// A lease of this priority, which ends at `until`.
    pub fn new(real_time: RealTime, until: Ticks) -> Self {
        Self { until, is_inherited: real_time.with_caller, held: Mutex::new((Some(real_time), until)) }
    }

    /// Whether its time is up: each thread that was started under it is then to call [`Lease::leave`].
    #[inline]
    pub fn is_over(&self, now: Ticks) -> bool {
        now >= self.until
    }

    /// Takes the priority from all that were raised, and from the calling thread where it has it from the one that started it.
    pub fn leave(&self) {
        self.end();
        if self.is_inherited {
            // 0 is the calling thread; to be less is allowed to anybody.
            let _ = schedule(0, libc::SCHED_OTHER, 0);
        }
    }

    /// Gives back what was raised, unless that has happened. When it was.
    pub fn end(&self) -> Ticks {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raised) = held.0.take() {
            drop(raised);
            held.1 = Ticks::now();
        }
        held.1
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

fn policy_of(thread: libc::pid_t) -> io::Result<libc::c_int> {
    // SAFETY: takes and gives numbers.
    match unsafe { libc::sched_getscheduler(thread) } {
        policy if policy >= 0 => Ok(policy),
        _ => Err(io::Error::last_os_error()),
    }
}

fn schedule(thread: libc::pid_t, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter outlives the call, which only reads it.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn own_policy() -> libc::c_int {
        policy_of(0).unwrap()
    }

    /// A thread that waits, and its number.
    fn waiting() -> (u32, mpsc::Sender<()>, std::thread::JoinHandle<()>) {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: takes nothing and gives a number.
            tell.send(unsafe { libc::gettid() }).unwrap();
            let _ = ended.recv();
        });
        (u32::try_from(told.recv().unwrap()).unwrap(), end, thread)
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn all_are_raised_and_get_back_what_they_had_or_none_is() {
        let (other, end, thread) = waiting();
        let policy = || policy_of(libc::pid_t::try_from(other).unwrap()).unwrap();
        match RealTime::raise(&[other]) {
            Ok(raised) => {
                assert_eq!((own_policy(), policy()), (libc::SCHED_FIFO, libc::SCHED_FIFO));
                drop(raised);
            }
            // Whoever may not is told so, and nothing has changed.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
        assert_eq!((own_policy(), policy()), (libc::SCHED_OTHER, libc::SCHED_OTHER));
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_lease_is_given_back_while_a_thread_that_it_started_works_on() {
        let (other, end, thread) = waiting();
        let policy = || policy_of(libc::pid_t::try_from(other).unwrap()).unwrap();
        let Ok(raised) = RealTime::raise(&[other]) else {
            return drop((end, thread)); // who may not have it has nothing to give back
        };
        let lease = Lease::new(raised, Ticks(1000));
        let given = std::thread::scope(|scope| {
            let works = scope.spawn(|| {
                assert_eq!(own_policy(), libc::SCHED_FIFO);
                assert!(!lease.is_over(Ticks(999)));
                assert_eq!((own_policy(), policy()), (libc::SCHED_FIFO, libc::SCHED_FIFO));
                assert!(lease.is_over(Ticks(1000)));
                lease.leave();
                let given = Ticks::now();
                assert_eq!((own_policy(), policy()), (libc::SCHED_OTHER, libc::SCHED_OTHER));
                given
            });
            works.join().unwrap()
        });
        assert_eq!(own_policy(), libc::SCHED_OTHER);
        // It ends once.
        assert!(lease.end() <= given);
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_thread_that_is_not_there_leaves_the_others_as_they_were() {
        assert!(RealTime::raise(&[u32::try_from(libc::pid_t::MAX).unwrap()]).is_err());
        assert!(RealTime::raise(&[u32::MAX]).is_err());
        assert_eq!(own_policy(), libc::SCHED_OTHER);
    }
}

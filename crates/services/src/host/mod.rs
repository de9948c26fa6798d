//! A service instance in its cell: panics contained, cycles and memory watched, repeat offenders in
//! quarantine.
//!
//! **Panics.** A panic loses the packet at hand ([`Burst::next`]) or, of a service that takes many at
//! once, those it had taken ([`Burst::rest`]): [`DropReason::ServicePanic`]. Packets judged before it
//! keep their verdict. The instance is dropped, a new one is built, and it goes on with the packets that
//! are left, in the same call. What the worker stands still for that is what building takes:
//! microseconds for a small table, [`HostReport::worst_build_cycles`] for the one at hand; services
//! that need longer keep what is costly in their group. What an instance knew is lost with it.
//!
//! **Cycles.** Each burst is timed by the TSC; bursts over budget are counted, and too many of them
//! lead to quarantine. A call that never ends cannot be ended: it holds the worker, as there is one
//! stack. It can be seen from any other thread, by name and time: [`Host::watch`].
//!
//! **Memory.** What the instance takes from the heap is counted around each call
//! ([`weir_cpu::Heap`]); over its limit it is dropped, which frees its memory, and put in quarantine.
//! This is looked at after each call. So a service that allocates without end inside *one* call, or
//! asks for more at once than the system has, is not caught: the system's refusal ends the process.
//! Threads that a service starts are not counted, nor is what its group allocates.
//!
//! Not contained either: a panic in a destructor while another panic unwinds, a stack that overflows,
//! and `std::process::exit`. They end the process. `unsafe` is denied in services, so memory of others
//! is out of their reach.
//!
//! Each of the first panics is a line on standard error, then every one whose number is a power of two:
//! a service that panics over every packet does not fill a disk.
//!
//! Cost while all is well: two readings of the TSC, of thread-local counts and some plain stores a
//! burst, some 100 cycles together; one or two a packet for counting verdicts (`benches/services.rs`
//! measures it: the case `noop`). No lock, no allocation.
//!
//! Threads: a host belongs to its worker; only the [`Watch`] is shared.

mod limits;
mod panics;
mod watch;

pub use limits::{HostReport, Limits, MOST_OFFENCES, Policy, Quarantine};
pub use watch::Watch;

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, Slot, Verdict};
use limits::Offences;
use serde_json::Value;
use std::sync::Arc;
use weir_cpu::{Heap, Ticks};
use weir_flow::Splice;
use weir_packet::DropReason;
use weir_units::Nanos;

/// Panics of an instance that are printed one by one; of further ones, those whose number is a power
/// of two.
const PRINTED: u64 = 10;

/// A service's instance on one worker.
pub struct Host {
    name: String,
    group: Arc<dyn Group>,
    /// Of a member of the group, its place among them.
    member: Option<usize>,
    worker: usize,
    limits: Limits,
    /// Not there in quarantine, and when it could not be built.
    service: Option<Box<dyn Service>>,
    panics: Offences,
    overruns: Offences,
    /// Bytes the instance holds beyond what it had when it was built.
    heap: i64,
    /// The last time that is known.
    now: Nanos,
    watch: Arc<Watch>,
    counts: HostReport,
}

impl Host {
    /// Builds the instance of a worker. A panic in the building is contained like any other.
    pub fn new(group: Arc<dyn Group>, worker: usize, limits: Limits) -> Self {
        Self::named("without a name", group, worker, limits)
    }

    /// The same, under the name that panics and the [`Watch`] show.
    pub fn named(name: &str, group: Arc<dyn Group>, worker: usize, limits: Limits) -> Self {
        Self::of_member(name, (group, None), worker, limits)
    }

    /// The same of a member of the group, by its place among them; of the group's own service where there is none.
    pub fn of_member(
        name: &str,
        (group, member): (Arc<dyn Group>, Option<usize>),
        worker: usize,
        limits: Limits,
    ) -> Self {
        panics::keep_quiet();
        let mut host = Self {
            name: name.to_owned(),
            group,
            member,
            worker,
            limits,
            service: None,
            panics: Offences::new(limits.panics, limits.window_seconds),
            overruns: Offences::new(limits.overruns, limits.window_seconds),
            heap: 0,
            now: Nanos(0),
            watch: Arc::new(Watch::new(name, worker)),
            counts: HostReport::default(),
        };
        host.build();
        host
    }

    /// Has the service judge the packets. Never panics: what the service loses is dropped with
    /// its reason in the slot's verdict.
    pub fn process(&mut self, slots: &mut [Slot<'_>], now: Nanos) {
        if slots.is_empty() {
            return;
        }
        self.now = now;
        if self.service.is_none() {
            self.build_unless_in_quarantine();
        }
        let (start, panics) = (Ticks::now(), self.counts.panics);
        let called = self.service.is_some();
        let mut judged = 0;
        while judged < slots.len() {
            let left = &mut slots[judged..];
            judged += if self.service.is_some() { self.call(left, start) } else { self.refuse(left) };
        }
        self.count_verdicts(slots);
        if called {
            let cycles = Ticks::now().since(start);
            self.counts.cycles += cycles;
            if panics == self.counts.panics {
                self.check_budget(cycles, slots.len() as u64);
            }
        }
    }

    /// What the service has replaced in a packet of the last burst ([`Slot::splice`]).
    pub fn splice(&self, number: u8) -> Option<Splice> {
        let service = self.service.as_ref()?;
        panics::contained(|| service.splice(number).cloned()).ok().flatten()
    }

    /// Lets the service do what is due, contained.
    pub fn tick(&mut self, now: Nanos) {
        self.now = now;
        match self.contained(Ticks::now(), |service| service.tick(now)) {
            Some(Err(said)) => self.panicked(said),
            _ => self.check_memory(),
        }
    }

    /// Asks the service something, contained: its group first ([`Group::command`]), then the instance.
    ///
    /// # Errors
    /// What the service does not understand, that it panicked over it, or that it is in quarantine.
    pub fn command(&mut self, command: &str, argument: &Value) -> Result<Value, String> {
        if let Some(answer) = ask_group(self.group.as_ref(), command, argument) {
            return answer;
        }
        match self.contained(Ticks::now(), |service| service.command(command, argument)) {
            None => Err(match self.counts.quarantine {
                Some(reason) => format!("it is in quarantine, as {reason}; release it first"),
                None => "its instance could not be built, as building it panicked".to_owned(),
            }),
            Some(Err(said)) => {
                let answer = format!("it panicked over `{command}`: {said}");
                self.panicked(said);
                Err(answer)
            }
            Some(Ok(answer)) => {
                let answer = answer.map(|value| self.disown(value));
                self.check_memory();
                answer
            }
        }
    }

    /// Lets a service out of quarantine, built anew.
    pub fn release(&mut self) {
        if self.counts.quarantine.take().is_some() {
            self.panics.clear();
            self.overruns.clear();
            self.build();
        }
    }

    /// When the call that is going on began; `None` between calls. To be asked from another thread,
    /// take the [`Self::watch`].
    pub fn running_since(&self) -> Option<Ticks> {
        self.watch.running_since()
    }

    /// What another thread holds to see whether the service hangs.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// What is known of it.
    pub fn report(&self) -> HostReport {
        let mut report = self.counts.clone();
        report.heap = u64::try_from(self.heap).unwrap_or(0);
        let Some(service) = &self.service else { return report };
        let asked = panics::contained(|| (service.memory() as u64, service.counters(), service.shares()));
        match asked {
            Ok((memory, counters, shares)) => {
                (report.memory, report.shares) = (memory, shares);
                report.counters =
                    counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
            }
            Err(said) => report.last_panic = Some(format!("when asked for its counters: {said}")),
        }
        report
    }

    /// Calls the service for packets, and says how many of them are dealt with thereafter.
    #[inline]
    fn call(&mut self, slots: &mut [Slot<'_>], start: Ticks) -> usize {
        let mut burst = Burst::new(slots, self.now);
        let outcome = self.contained(start, |service| service.process(&mut burst));
        let lost = burst.lost();
        let Some(Err(said)) = outcome else {
            self.check_memory();
            return slots.len();
        };
        let end = lost.end;
        for slot in &mut slots[lost] {
            (slot.verdict, slot.coalesce) = (Verdict::Drop(DropReason::ServicePanic), false);
        }
        // What was to be replaced is lost with the instance.
        for slot in slots[..end].iter_mut().filter(|slot| slot.splice.is_some()) {
            (slot.verdict, slot.splice) = (Verdict::Drop(DropReason::ServicePanic), None);
        }
        self.panicked(said);
        end
    }

    /// Deals with packets without the service.
    #[cold]
    fn refuse(&self, slots: &mut [Slot<'_>]) -> usize {
        let verdict = match (self.counts.quarantine, self.limits.policy) {
            (Some(_), Policy::Pass) => Verdict::Pass,
            (Some(_), Policy::Drop) => Verdict::Drop(DropReason::Quarantine),
            (None, _) => Verdict::Drop(DropReason::ServicePanic),
        };
        for slot in &mut *slots {
            (slot.verdict, slot.coalesce) = (verdict, false);
        }
        slots.len()
    }

    /// Calls into the instance, watched; `None` when there is none.
    #[inline]
    fn contained<R>(
        &mut self,
        start: Ticks,
        body: impl FnOnce(&mut dyn Service) -> R,
    ) -> Option<Result<R, String>> {
        let service = self.service.as_mut()?;
        self.watch.enter(start);
        let before = Heap::now();
        let result = panics::contained(|| body(service.as_mut()));
        self.heap += Heap::now().grown_since(before);
        self.watch.leave();
        Some(result)
    }

    #[inline]
    fn check_memory(&mut self) {
        if self.heap > self.limits.bytes() && self.service.is_some() {
            self.put_in_quarantine(Quarantine::Memory);
        }
    }

    /// Copies what the service returned, and takes the original off the instance's account.
    fn disown(&mut self, answer: Value) -> Value {
        let copy = answer.clone();
        let before = Heap::now();
        drop(answer);
        self.heap += Heap::now().grown_since(before);
        copy
    }

    #[inline]
    fn count_verdicts(&mut self, slots: &[Slot<'_>]) {
        let (mut dropped, mut coalesced) = (0, 0);
        for slot in slots {
            let passed = slot.verdict == Verdict::Pass;
            dropped += u64::from(!passed);
            coalesced += u64::from(passed & slot.coalesce);
        }
        self.counts.bursts += 1;
        self.counts.packets += slots.len() as u64;
        self.counts.dropped += dropped;
        self.counts.coalesced += coalesced;
    }

    #[inline]
    fn check_budget(&mut self, cycles: u64, packets: u64) {
        if cycles > self.counts.worst_cycles.saturating_mul(packets) {
            self.counts.worst_cycles = cycles / packets;
        }
        if self.limits.cycles != 0 && cycles > self.limits.cycles.saturating_mul(packets) {
            self.counts.overruns += 1;
            if self.overruns.add(self.now) && self.service.is_some() {
                self.put_in_quarantine(Quarantine::Cycles);
            }
        }
    }

    /// Counts a panic, and builds the instance anew or puts it in quarantine.
    #[cold]
    fn panicked(&mut self, said: String) {
        self.dispose();
        if !self.count_panic(said) {
            self.build();
        }
    }

    /// Counts a panic; whether it was one too many, and the service is in quarantine now.
    fn count_panic(&mut self, said: String) -> bool {
        self.counts.panics += 1;
        let count = self.counts.panics;
        if count <= PRINTED || count.is_power_of_two() {
            eprintln!("weir: service `{}` on worker {} panicked: {said}", self.name, self.worker);
        }
        self.counts.last_panic = Some(said);
        let too_many = self.panics.add(self.now);
        if too_many {
            self.put_in_quarantine(Quarantine::Panics);
        }
        too_many
    }

    #[cold]
    fn put_in_quarantine(&mut self, reason: Quarantine) {
        self.counts.quarantine = Some(reason);
        eprintln!("weir: service `{}` on worker {} is in quarantine: {reason}", self.name, self.worker);
        self.dispose();
    }

    #[cold]
    fn build_unless_in_quarantine(&mut self) {
        if self.counts.quarantine.is_none() {
            self.build();
        }
    }

    /// Builds an instance. Where building panics there is none until the next call.
    fn build(&mut self) {
        let start = Ticks::now();
        self.watch.enter(start);
        let built = panics::contained(|| match self.member {
            None => self.group.instance(self.worker),
            Some(which) => self.group.member(which, self.worker),
        });
        self.watch.leave();
        self.heap = 0;
        self.counts.builds += 1;
        self.counts.worst_build_cycles = self.counts.worst_build_cycles.max(Ticks::now().since(start));
        match built {
            Ok(service) => self.service = Some(service),
            Err(said) => {
                self.count_panic(format!("while being built: {said}"));
            }
        }
    }

    /// Drops the instance, whose destructor may panic.
    fn dispose(&mut self) {
        let Some(service) = self.service.take() else { return };
        self.heap = 0;
        if let Err(said) = panics::contained(|| drop(service)) {
            eprintln!(
                "weir: service `{}` on worker {} panicked while being dropped: {said}",
                self.name, self.worker
            );
        }
    }
}

/// Asks a group something, contained ([`Group::command`]): on a control thread, so that what takes long
/// holds no worker. `None`: the instances are to be asked.
pub fn ask_group(group: &dyn Group, command: &str, argument: &Value) -> Option<Result<Value, String>> {
    panics::keep_quiet();
    panics::contained(|| group.command(command, argument))
        .unwrap_or_else(|said| Some(Err(format!("its group panicked over `{command}`: {said}"))))
}

impl Registration {
    /// Builds a group, contained: a panic in it is an error.
    ///
    /// # Errors
    /// What is wrong with the settings, and how to mend it.
    pub fn group(&self, config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
        panics::keep_quiet();
        panics::contained(|| (self.build)(config))
            .unwrap_or_else(|said| Err(config.error(format!("building it panicked: {said}"))))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.dispose();
    }
}

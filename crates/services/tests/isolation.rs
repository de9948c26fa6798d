//! Faults on purpose: services that panic, allocate without end, take too long or cannot be built.

mod common;

use common::{Packets, packet, seconds};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use weir_cpu::{CountingAllocator, Heap, Ticks};
use weir_packet::DropReason;
use weir_services::{
    Burst, Group, GroupConfig, Host, Limits, Policy, Quarantine, Registration, Service, Verdict, one_number,
};
use weir_units::Nanos;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What a packet's argument asks of the faulty service.
mod ask {
    pub(crate) const FINE: u32 = 0;
    pub(crate) const PANIC: u32 = 1;
    pub(crate) const ALLOCATE: u32 = 2;
    pub(crate) const LINGER: u32 = 3;
    pub(crate) const PANIC_AT_A_PEEK: u32 = 4;
    pub(crate) const PANIC_OVER_ALL: u32 = 5;
    pub(crate) const HANG: u32 = 6;
}

/// Cycles that lingering over a packet takes at least.
const LINGER: u64 = 200_000;
const MIB: usize = 1 << 20;

/// What its instances share: switches for the test, and what survives them.
#[derive(Default)]
struct Faulty {
    build_panics: AtomicU32,
    drop_panics: AtomicBool,
    go_on: AtomicBool,
    built: AtomicU32,
}

/// The shared part as a group of its own.
struct FaultyGroup(Arc<Faulty>);

struct FaultyInstance {
    shared: Arc<Faulty>,
    hoard: Vec<Vec<u8>>,
    judged: u32,
}

impl Group for FaultyGroup {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        self.0.built.fetch_add(1, Ordering::Relaxed);
        let left = self.0.build_panics.load(Ordering::Relaxed);
        if left > 0 {
            self.0.build_panics.store(left - 1, Ordering::Relaxed);
            panic!("no instance today");
        }
        Box::new(FaultyInstance { shared: Arc::clone(&self.0), hoard: Vec::new(), judged: 0 })
    }

    fn command(&self, command: &str, _argument: &Value) -> Option<Result<Value, String>> {
        assert!(command != "panic-in-the-group", "no group today");
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FaultyInstance {
    fn do_as_asked(&mut self, argument: u32) {
        match argument {
            ask::PANIC => panic!("asked to"),
            ask::ALLOCATE => self.hoard.push(vec![0; MIB]),
            ask::LINGER => {
                let start = Ticks::now();
                while Ticks::now().since(start) < LINGER {}
            }
            ask::HANG => {
                while !self.shared.go_on.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            }
            _ => {}
        }
    }
}

impl Service for FaultyInstance {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        assert!(burst.peek()[0].argument != ask::PANIC_AT_A_PEEK, "seen from afar");
        while let Some(slot) = burst.next() {
            self.do_as_asked(slot.argument);
            self.judged += 1;
            slot.metadata = self.judged;
            slot.coalesce = true;
            if slot.argument == ask::PANIC_OVER_ALL {
                let rest = burst.rest().len();
                panic!("{rest} at once");
            }
        }
    }

    fn tick(&mut self, now: Nanos) {
        assert!(now != seconds(666), "a bad time");
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        assert!(self.judged != 7, "seven");
        vec![("judged", self.judged.into())]
    }

    fn command(&mut self, command: &str, argument: &Value) -> Result<Value, String> {
        match command {
            "panic" => panic!("by command"),
            "echo" => Ok(argument.clone()),
            "big" => Ok(Value::String("x".repeat(10 * MIB))),
            "hoard" => {
                self.hoard.push(vec![0; 10 * MIB]);
                Ok(Value::Null)
            }
            _ => Err("unheard of".to_owned()),
        }
    }
}

impl Drop for FaultyInstance {
    fn drop(&mut self) {
        if self.shared.drop_panics.load(Ordering::Relaxed) && !std::thread::panicking() {
            panic!("not willingly");
        }
    }
}

fn host(limits: Limits) -> (Host, Arc<Faulty>) {
    let shared = Arc::new(Faulty::default());
    (Host::named("faulty", Arc::new(FaultyGroup(Arc::clone(&shared))), 0, limits), shared)
}

fn asking(arguments: &[u32]) -> Packets {
    Packets::new((0..arguments.len() as u64).map(|number| packet(number, b"payload")))
        .with_arguments(|at| arguments[at])
}

fn send(host: &mut Host, arguments: &[u32], now: Nanos) -> Packets {
    let mut packets = asking(arguments);
    packets.through(|slots| host.process(slots, now));
    packets
}

const LOST: Verdict = Verdict::Drop(DropReason::ServicePanic);

#[test]
fn a_panic_loses_its_packet_and_the_rest_of_the_burst_meets_a_new_instance() {
    let (mut host, _) = host(Limits { panics: 0, ..Limits::default() });
    let said = send(&mut host, &[ask::FINE, ask::FINE, ask::PANIC, ask::FINE, ask::PANIC], seconds(0)).said;
    // The third packet is judged first by the second instance; the third instance sees none.
    assert_eq!(
        said,
        [
            (1, true, Verdict::Pass),
            (2, true, Verdict::Pass),
            (0, false, LOST),
            (1, true, Verdict::Pass),
            (0, false, LOST)
        ]
    );
    let report = host.report();
    assert_eq!((report.packets, report.dropped, report.coalesced), (5, 2, 3));
    assert_eq!((report.panics, report.builds, report.quarantine), (2, 3, None));
    assert_eq!(report.counters, [("judged".to_owned(), 0)]);
    assert!(report.last_panic.unwrap_or_default().starts_with("asked to, at "));
    assert!(report.worst_build_cycles > 0);
    assert_eq!(send(&mut host, &[ask::FINE], seconds(0)).said, [(1, true, Verdict::Pass)]);
}

#[test]
fn of_a_service_that_took_all_packets_all_are_lost() {
    let (mut host, _) = host(Limits { panics: 0, ..Limits::default() });
    let burst = [ask::FINE, ask::PANIC_OVER_ALL, ask::FINE, ask::FINE];
    let packets = send(&mut host, &burst, seconds(0));
    assert_eq!(packets.dropped(DropReason::ServicePanic), [2, 3]);
    assert_eq!(packets.metadata()[..2], [1, 2]);
    assert!(host.report().last_panic.unwrap_or_default().starts_with("2 at once"));
}

#[test]
fn a_panic_before_any_packet_was_taken_loses_one_and_not_the_worker() {
    let (mut host, _) = host(Limits { panics: 0, ..Limits::default() });
    let burst = [ask::PANIC_AT_A_PEEK, ask::PANIC_AT_A_PEEK, ask::FINE, ask::PANIC_AT_A_PEEK];
    let packets = send(&mut host, &burst, seconds(0));
    assert_eq!(packets.dropped(DropReason::ServicePanic), [0, 1]);
    assert_eq!(host.report().panics, 2);
}

#[test]
fn repeated_panics_lead_to_quarantine_by_policy_until_it_is_released() {
    for policy in [Policy::Drop, Policy::Pass] {
        let (mut host, shared) = host(Limits { panics: 3, window_seconds: 10, policy, ..Limits::default() });
        send(&mut host, &[ask::PANIC, ask::PANIC], seconds(0));
        // The window of the first two is over.
        send(&mut host, &[ask::PANIC], seconds(11));
        assert_eq!(host.report().quarantine, None);
        let burst = [ask::FINE, ask::PANIC, ask::PANIC, ask::FINE, ask::FINE];
        let said = send(&mut host, &burst, seconds(12)).said;
        assert_eq!(host.report().quarantine, Some(Quarantine::Panics));
        let verdict = match policy {
            Policy::Drop => Verdict::Drop(DropReason::Quarantine),
            Policy::Pass => Verdict::Pass,
        };
        assert_eq!(said[1..], [(0, false, LOST), (0, false, LOST), (0, false, verdict), (0, false, verdict)]);
        let built = shared.built.load(Ordering::Relaxed);
        assert_eq!(send(&mut host, &[ask::PANIC; 2], seconds(999)).said, [(0, false, verdict); 2]);
        host.tick(seconds(666));
        let refusal = host.command("echo", &json!(1)).unwrap_err();
        assert!(refusal.contains("quarantine") && refusal.contains("release"), "{refusal}");
        assert_eq!(shared.built.load(Ordering::Relaxed), built, "nothing is built in quarantine");
        assert_eq!(host.report().panics, 5);
        host.release();
        assert_eq!(host.report().quarantine, None);
        // The slate is clean: two more panics are within the limit again.
        let said = send(&mut host, &[ask::PANIC, ask::PANIC, ask::FINE], seconds(999)).said;
        assert_eq!(said[2], (1, true, Verdict::Pass));
    }
}

#[test]
fn building_may_panic_and_is_tried_again() {
    let (mut host, shared) = host(Limits { panics: 4, ..Limits::default() });
    shared.build_panics.store(1, Ordering::Relaxed);
    // The new instance cannot be built; the rest of this burst is lost, the next is not.
    let packets = send(&mut host, &[ask::FINE, ask::PANIC, ask::FINE, ask::FINE], seconds(0));
    assert_eq!(packets.dropped(DropReason::ServicePanic), [1, 2, 3]);
    assert!(host.report().last_panic.unwrap_or_default().starts_with("while being built: no instance"));
    assert_eq!(send(&mut host, &[ask::FINE], seconds(0)).metadata(), [1]);
    // One that can never be built ends in quarantine.
    shared.build_panics.store(u32::MAX, Ordering::Relaxed);
    let packets = send(&mut host, &[ask::PANIC, ask::FINE], seconds(0));
    assert_eq!(packets.dropped(DropReason::ServicePanic), [0]);
    assert_eq!(packets.dropped(DropReason::Quarantine), [1]);
    assert_eq!((host.report().panics, host.report().quarantine), (4, Some(Quarantine::Panics)));
    host.release();
    assert!(host.command("echo", &json!(1)).unwrap_err().contains("could not be built"));
    shared.build_panics.store(0, Ordering::Relaxed);
    assert_eq!(send(&mut host, &[ask::FINE], seconds(1)).metadata(), [1]);
}

#[test]
fn a_service_that_cannot_be_built_at_all_does_not_stop_the_switch_from_starting() {
    let shared = Arc::new(Faulty::default());
    shared.build_panics.store(1, Ordering::Relaxed);
    let mut host = Host::new(Arc::new(FaultyGroup(Arc::clone(&shared))), 0, Limits::default());
    assert_eq!(host.report().panics, 1);
    assert_eq!(send(&mut host, &[ask::FINE], seconds(0)).metadata(), [1]);
}

#[test]
fn a_group_whose_building_panics_is_an_error_of_its_configuration() {
    let registration = Registration {
        kind: "faulty",
        about: "panics",
        rewrites: &[],
        coalesces: false,
        by_flow: false,
        members: &[],
        arguments: one_number,
        schema: || json!({}),
        build: |config| panic!("not with {} workers", config.workers),
    };
    let config = GroupConfig { name: "mine", settings: &json!({}), workers: 3, seed: 1 };
    let error = registration.group(&config).err().expect("an error").to_string();
    assert!(error.starts_with("service `mine`: building it panicked: not with 3 workers, at "), "{error}");
}

#[test]
fn runaway_allocation_ends_in_quarantine_and_its_memory_is_freed() {
    assert!(Heap::is_counted());
    let before = Heap::now();
    let (mut host, _) = host(Limits { megabytes: 20, ..Limits::default() });
    send(&mut host, &[ask::ALLOCATE; 15], seconds(0));
    let report = host.report();
    assert!(report.quarantine.is_none() && report.heap >= 15 * MIB as u64, "{report:?}");
    let said = send(&mut host, &[ask::ALLOCATE; 15], seconds(0)).said;
    assert!(said.iter().all(|said| said.2 == Verdict::Pass), "what it judged before stands");
    let report = host.report();
    assert_eq!((report.quarantine, report.heap, report.panics), (Some(Quarantine::Memory), 0, 0));
    assert!(Heap::now().grown_since(before) < MIB as i64, "its 30 MiB are back");
    assert_eq!(send(&mut host, &[ask::FINE], seconds(0)).said[0].2, Verdict::Drop(DropReason::Quarantine));
    host.release();
    assert_eq!(send(&mut host, &[ask::FINE], seconds(0)).metadata(), [1]);
}

#[test]
fn a_panic_gives_the_memory_back_and_starts_a_new_account() {
    let (mut host, _) = host(Limits { megabytes: 20, panics: 0, ..Limits::default() });
    for _ in 0..5 {
        let mut burst = vec![ask::ALLOCATE; 15];
        burst.push(ask::PANIC);
        send(&mut host, &burst, seconds(0));
    }
    assert_eq!((host.report().quarantine, host.report().heap), (None, 0));
}

#[test]
fn what_a_command_returns_is_not_the_services_memory_and_what_it_keeps_is() {
    let (mut host, _) = host(Limits { megabytes: 20, ..Limits::default() });
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(host.command("big", &Value::Null).expect("an answer"));
    }
    assert_eq!(host.report().heap, 0);
    host.command("hoard", &Value::Null).expect("an answer");
    assert!(host.report().heap >= 10 * MIB as u64 && host.report().quarantine.is_none());
    host.command("hoard", &Value::Null).expect("an answer");
    host.command("hoard", &Value::Null).expect_err("it is over its limit by its second hoard's header");
    assert_eq!(host.report().quarantine, Some(Quarantine::Memory));
}

#[test]
fn bursts_over_budget_are_counted_and_too_many_end_in_quarantine() {
    let limits = Limits { cycles: LINGER / 2, overruns: 0, ..Limits::default() };
    let (mut named, _) = host(limits);
    let (mut ended, _) = host(Limits { overruns: 3, window_seconds: 10, ..limits });
    for second in 0..5 {
        send(&mut named, &[ask::LINGER; 3], seconds(second));
        send(&mut ended, &[ask::LINGER; 3], seconds(second));
    }
    let report = named.report();
    assert_eq!((report.overruns, report.quarantine), (5, None));
    assert!(report.worst_cycles >= LINGER && report.cycles >= 15 * LINGER, "{report:?}");
    let report = ended.report();
    assert_eq!((report.overruns, report.quarantine, report.dropped), (3, Some(Quarantine::Cycles), 6));
}

#[test]
fn panics_in_ticks_commands_counters_and_destructors_are_contained() {
    let (mut host, shared) = host(Limits { panics: 0, ..Limits::default() });
    host.tick(seconds(666));
    assert_eq!(host.report().panics, 1);
    let answer = host.command("panic", &Value::Null).unwrap_err();
    assert!(answer.contains("panicked over `panic`: by command"), "{answer}");
    assert_eq!(host.command("echo", &json!([1, {"a": 2}])), Ok(json!([1, {"a": 2}])));
    let answer = host.command("panic-in-the-group", &Value::Null).unwrap_err();
    assert!(answer.contains("its group panicked over `panic-in-the-group`: no group today"), "{answer}");
    assert_eq!(host.command("nonsense", &Value::Null), Err("unheard of".to_owned()));
    assert_eq!(host.report().panics, 2);
    send(&mut host, &[ask::FINE; 7], seconds(0));
    let report = host.report();
    assert!(report.counters.is_empty());
    assert!(report.last_panic.unwrap_or_default().contains("counters: seven"));
    shared.drop_panics.store(true, Ordering::Relaxed);
    assert_eq!(send(&mut host, &[ask::PANIC, ask::FINE], seconds(0)).metadata(), [0, 1]);
    drop(host);
}

#[test]
fn a_service_that_hangs_is_seen_from_outside_by_name_and_time() {
    let (mut host, shared) = host(Limits::default());
    let watch = host.watch();
    assert_eq!((watch.name(), watch.worker(), watch.running_since()), ("faulty", 0, None));
    std::thread::scope(|scope| {
        scope.spawn(|| send(&mut host, &[ask::HANG], seconds(0)));
        let before = Ticks::now();
        while watch.hangs(Ticks::now(), LINGER).is_none() {
            std::thread::yield_now();
        }
        let since = watch.running_since().expect("it hangs");
        assert!(Ticks::now().since(since) > LINGER && Ticks::now().since(before) > 0);
        shared.go_on.store(true, Ordering::Relaxed);
    });
    assert_eq!((watch.running_since(), host.running_since()), (None, None));
    assert_eq!(host.report().packets, 1);
}

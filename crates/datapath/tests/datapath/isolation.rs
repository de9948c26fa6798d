//! Services that do wrong, in a switch that goes on: panics, time, memory, and an endless call.

use crate::rig::{Rig, config, udp};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_datapath::{Event, Report};
use weir_services::{Burst, Group, GroupConfig, Limits, Policy, Registration, Service, one_number};

#[global_allocator]
static ALLOCATOR: weir_cpu::CountingAllocator = weir_cpu::CountingAllocator;

/// What the service does wrong, by its argument: 1 panics, 2 takes its time, 3 keeps memory, 4 never comes
/// back until it is told to; anything else passes.
struct Faulty {
    kept: Vec<Vec<u8>>,
}

/// Whether endless calls are to end.
static ENOUGH: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl Service for Faulty {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        while let Some(slot) = burst.next() {
            slot.coalesce = true;
            match slot.argument {
                1 => panic!("a packet of {} B", slot.frame.len()),
                2 => std::thread::sleep(Duration::from_micros(300)),
                3 => self.kept.push(vec![1; 100_000]),
                4 => {
                    while !ENOUGH.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
                _ => {}
            }
        }
    }
}

struct FaultyGroup;

impl Group for FaultyGroup {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        Box::new(Faulty { kept: Vec::new() })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const FAULTY: Registration = Registration {
    kind: "faulty",
    about: "does wrong",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments: one_number,
    schema: || json!({}),
    build: |_: &GroupConfig<'_>| Ok(Arc::new(FaultyGroup)),
};

/// 20 flows; those from .0 to .4 meet the service with this argument, others with 0.
fn rig(argument: u32, limits: Limits) -> Rig {
    let mut rig = Rig::new(config(1));
    rig.datapath.add_service_of("faulty", &FAULTY, &Value::Null, limits).unwrap();
    rig.flows(&format!(
        "priority=9,sf_stage=0,ip,nw_src=198.18.0.0/30 actions=softflow:faulty:{argument}\n\
         priority=8,sf_stage=0 actions=softflow:faulty:0\nsf_stage=1,sf_action=faulty actions=output:2"
    ));
    rig.sink(2);
    rig
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|at| udp(0xc612_0000 + at as u32 % 20, 0xc613_0001, (1000, 80))).collect()
}

fn faulty(report: &Report) -> weir_services::HostReport {
    let service = report.services.iter().find(|service| service.name == "faulty").unwrap();
    service.instances[0].clone()
}

#[test]
fn a_packet_that_makes_a_service_panic_is_lost_with_its_reason_and_no_other() {
    let mut rig = rig(1, Limits { panics: 0, ..Limits::default() });
    rig.source(1, &frames(1000), "");
    rig.wait(1000);
    let end = rig.end();
    assert_eq!((end.dropped("service-panic"), end.sent(2).len()), (200, 800));
    let faulty = faulty(&end.report);
    assert_eq!((faulty.panics, faulty.quarantine), (200, None));
    assert!(faulty.last_panic.unwrap().contains("a packet of 60 B"));
}

#[test]
fn a_service_that_panics_again_and_again_is_put_in_quarantine_and_let_out_by_hand() {
    for (policy, passed) in [(Policy::Drop, 0), (Policy::Pass, 990)] {
        let mut rig = rig(1, Limits { panics: 3, policy, ..Limits::default() });
        rig.source(1, &frames(1000), "");
        rig.wait(1000);
        let told = rig.datapath.tick().unwrap();
        assert!(told.iter().any(|event| matches!(event, Event::Quarantined(name, _) if name == "faulty")));
        rig.datapath.release("faulty").unwrap();
        let report = rig.datapath.report().unwrap();
        assert_eq!(faulty(&report).quarantine, None, "it is out");
        let end = rig.end();
        assert_eq!(end.dropped("service-panic"), 3);
        assert_eq!(end.dropped("quarantine") + end.sent(2).len() as u64, 997);
        assert!(end.sent(2).len() >= passed, "{policy:?}: {}", end.sent(2).len());
    }
}

#[test]
fn a_service_over_its_cycle_budget_is_named_and_put_in_quarantine() {
    let mut rig = rig(2, Limits { cycles: 100_000, overruns: 5, ..Limits::default() });
    rig.source(1, &frames(2000), "");
    rig.wait(2000);
    let report = rig.datapath.report().unwrap();
    let faulty = faulty(&report);
    assert!(faulty.overruns >= 5 && faulty.worst_cycles > 100_000, "{faulty:?}");
    assert_eq!(faulty.quarantine, Some(weir_services::Quarantine::Cycles));
    assert!(rig.end().dropped("quarantine") > 0);
}

#[test]
fn a_service_that_keeps_too_much_memory_is_put_in_quarantine_and_its_memory_is_given_back() {
    let mut rig = rig(3, Limits { megabytes: 4, ..Limits::default() });
    rig.source(1, &frames(5000), "");
    rig.wait(5000);
    let report = rig.datapath.report().unwrap();
    let faulty = faulty(&report);
    assert_eq!(faulty.quarantine, Some(weir_services::Quarantine::Memory), "{faulty:?}");
    assert!(faulty.heap < 1_000_000, "{faulty:?}");
    assert!(rig.end().dropped("quarantine") > 0);
}

#[test]
fn a_service_that_never_comes_back_is_named() {
    let mut rig = rig(4, Limits::default());
    rig.source(1, &frames(100), "");
    let begin = Instant::now();
    let stuck = loop {
        match rig.datapath.report().unwrap().workers.remove(0).stuck {
            Some(stuck) => break stuck,
            None => assert!(begin.elapsed() < Duration::from_secs(30), "it never hung"),
        }
    };
    assert!(stuck.service.as_deref() == Some("faulty") && stuck.ns > 1_000_000_000, "{stuck:?}");
    // It may have been asked before it began to hang: two seconds from then on, everybody is told.
    let error = loop {
        match rig.datapath.tick() {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(begin.elapsed() < Duration::from_secs(40), "a tick does not notice it"),
        }
    };
    assert!(error.contains("worker 0") && error.contains("service `faulty`"), "{error}");
    let again = Instant::now();
    let report = rig.datapath.report().unwrap();
    assert!(report.workers[0].stuck.as_ref().is_some_and(|later| later.ns > stuck.ns), "{report:?}");
    assert!(again.elapsed() < Duration::from_secs(1), "what is known to hang is not waited for again");
    crate::rig::check_sum(&report);
    ENOUGH.store(true, std::sync::atomic::Ordering::Relaxed);
    rig.wait(100);
    assert_eq!(rig.end().sent(2).len(), 100, "it came back, and nothing was lost");
}

#[test]
fn services_come_and_go_while_packets_flow() {
    let mut rig = Rig::new(config(1));
    rig.flows("actions=output:2");
    rig.port(2, "null");
    rig.source(1, &frames(200), ",loop,rate=100kpps");
    for round in 0..20 {
        rig.datapath.add_service_of("guest", &FAULTY, &Value::Null, Limits::default()).unwrap();
        rig.flows("actions=softflow:guest:0\npriority=40000,sf_stage=1,sf_action=guest actions=output:2");
        std::thread::sleep(Duration::from_millis(10));
        let used = rig.datapath.remove_service("guest").unwrap_err().to_string();
        assert!(used.contains("called by flows"), "{used}");
        rig.flows("actions=output:2\ndelete sf_stage=1");
        rig.datapath.remove_service("guest").unwrap();
        let report = rig.datapath.report().unwrap();
        crate::rig::check_sum(&report);
        assert!(report.services.iter().all(|service| service.name != "guest"), "round {round}");
    }
    let end = rig.end();
    let worker = &end.report.workers[0];
    assert_eq!(worker.received, worker.sent + end.dropped("no-match"), "{worker:?}");
    assert_eq!(end.dropped("no-match"), 0, "{worker:?}");
}

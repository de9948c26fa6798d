//! Bundles: what they do as a whole, whoever else changes tables meanwhile.

use crate::controller::{Controller, flow_mod, packet, packet_out};
use crate::rig::Rig;
use std::time::{Duration, Instant};
use weir_codec::{
    Body, BundleAdd, BundleControl, BundleFlags, BundleStep, Code, FlowCommand, FlowMod, FlowQuery,
    GroupCommand, GroupMod, Message, Reply, Request, Version,
};
use weir_openflow::{Action, Group, GroupId, GroupKind, Names, PortNo};
use weir_switch::{MOST_WAITING, MOST_WAITING_IN_ALL};

const FLAGS: BundleFlags = BundleFlags { atomic: true, ordered: true };

fn control(id: u32, step: BundleStep) -> Body {
    Body::BundleControl(BundleControl { id, step, flags: FLAGS })
}

/// Adds a message to a bundle.
fn add(controller: &mut Controller, id: u32, body: Body) {
    // The message inside has the transaction of the one that adds it.
    let message = Box::new(Message::new(controller.version, controller.next_xid(), body));
    controller.say(Body::BundleAdd(BundleAdd { id, flags: FLAGS, message }));
}

/// Asks for a step of a bundle, which is done.
fn done(controller: &mut Controller, id: u32, step: BundleStep, then: BundleStep) {
    let answer = controller.ask(control(id, step));
    assert!(matches!(answer, Body::BundleControl(said) if said.step == then), "{answer:?}");
}

fn commit(controller: &mut Controller, id: u32) {
    done(controller, id, BundleStep::CommitRequest, BundleStep::CommitReply);
}

/// Flow entries: priority, their actions as text, and how long they have been there.
fn flows(controller: &mut Controller) -> Vec<(u16, String, Duration)> {
    let Reply::Flow(_, flows) = controller.multipart(Request::Flow(FlowQuery::default())) else { panic!() };
    let about = |flow: weir_codec::FlowStats| {
        (flow.flow.priority, format!("{:?}", flow.flow.instructions.apply), flow.duration)
    };
    let mut flows: Vec<_> = flows.into_iter().map(about).collect();
    flows.sort();
    flows
}

fn priorities(controller: &mut Controller) -> Vec<u16> {
    flows(controller).into_iter().map(|(priority, ..)| priority).collect()
}

#[test]
fn a_bundle_takes_effect_as_a_whole_and_in_its_order() {
    let rig = Rig::new();
    for version in [Version::V13, Version::V14] {
        let mut controller = Controller::new(&rig, version);
        done(&mut controller, 3, BundleStep::OpenRequest, BundleStep::OpenReply);
        let group = Group::parse("group_id=4,type=indirect,bucket=output:2", &Names::default()).unwrap();
        add(&mut controller, 3, Body::GroupMod(GroupMod { command: GroupCommand::Add, group }));
        add(&mut controller, 3, flow_mod("in_port=1,actions=group:4"));
        assert_eq!(controller.until_done(), []);
        assert_eq!(flows(&mut controller), [], "nothing is done before the bundle is committed");
        done(&mut controller, 3, BundleStep::CloseRequest, BundleStep::CloseReply);
        commit(&mut controller, 3);
        assert_eq!(flows(&mut controller).len(), 1);
        controller.refuses(control(3, BundleStep::CommitRequest), Code::BundleUnknown);
        done(&mut controller, 3, BundleStep::OpenRequest, BundleStep::OpenReply);
        controller.refuses(control(3, BundleStep::OpenRequest), Code::BundleExists);
        let all = Group { id: GroupId(0xffff_fffc), kind: GroupKind::All, buckets: Vec::new() };
        controller.say(Body::GroupMod(GroupMod { command: GroupCommand::Delete, group: all }));
        assert_eq!(controller.until_done(), []);
        assert_eq!(flows(&mut controller), [], "a flow goes with its group");
    }
}

#[test]
fn a_bundle_meets_the_tables_of_its_commit() {
    let rig = Rig::new();
    let mut controllers = [(); 2].map(|()| Controller::new(&rig, Version::V14));
    let [one, other] = &mut controllers;
    one.add("priority=1,in_port=1,actions=output:2");
    add(one, 1, flow_mod("priority=2,in_port=1,actions=output:2"));
    let Body::FlowMod(all) = flow_mod("actions=output:3") else { unreachable!() };
    add(one, 1, Body::FlowMod(FlowMod { command: FlowCommand::Modify, ..all }));
    assert_eq!(one.until_done(), []);
    // Another bundle, and an entry by itself, come in between.
    add(other, 1, flow_mod("priority=3,in_port=1,actions=output:2"));
    assert_eq!(other.until_done(), []);
    commit(other, 1);
    other.add("priority=4,in_port=1,actions=output:2");
    commit(one, 1);
    let there = flows(one);
    assert_eq!(there.iter().map(|flow| flow.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(there.iter().all(|flow| flow.1 == there[0].1 && flow.1.contains('3')), "{there:?}");
}

#[test]
fn entries_of_a_bundle_are_as_old_as_its_commit() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V14);
    let begun = Instant::now();
    add(&mut controller, 1, flow_mod("priority=1,in_port=1,hard_timeout=1,actions=output:2"));
    add(&mut controller, 1, flow_mod("priority=2,in_port=1,actions=output:2"));
    assert_eq!(controller.until_done(), []);
    std::thread::sleep(Duration::from_millis(1500));
    let committed = Instant::now();
    commit(&mut controller, 1);
    let there = flows(&mut controller);
    let (late, waited) = (committed.elapsed(), committed - begun);
    for (priority, _, age) in &there {
        assert!(*age <= late && *age < waited, "{priority} is {age:?} old, {late:?} after the commit");
    }
    assert!(there.len() == 2 || late > Duration::from_secs(1), "{there:?} {late:?} after the commit");
    let patience = Instant::now() + Duration::from_secs(20);
    while priorities(&mut controller) != [2] {
        assert!(Instant::now() < patience, "the hard timeout is over: {:?}", flows(&mut controller));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_bundle_with_one_bad_message_names_it_and_changes_nothing() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V14);
    controller.add("priority=1,in_port=1,actions=output:2");
    for bad in [1, 5] {
        let mut culprit = 0;
        for number in 0..6 {
            let text = format!(
                "priority={},in_port=1,actions={}",
                10 + number,
                ["output:2", "group:9"][usize::from(number == bad)]
            );
            if number == bad {
                culprit = controller.next_xid();
            }
            add(&mut controller, 1, flow_mod(&text));
        }
        let asked = controller.say(control(1, BundleStep::CommitRequest));
        let heard: Vec<(u32, weir_codec::ErrorNumber)> = controller
            .until_done()
            .into_iter()
            .map(|message| match message.body {
                Body::Error(error) => (message.xid, error.number),
                other => panic!("{other:?}"),
            })
            .collect();
        let named = |code: Code| code.number(Version::V14);
        assert_eq!(heard, [(culprit, named(Code::ActionGroup)), (asked, named(Code::BundleFailed))]);
        assert_eq!(priorities(&mut controller), [1]);
    }
    // One that is discarded, and one whose controller goes, are forgotten.
    add(&mut controller, 2, flow_mod("priority=2,in_port=1,actions=output:2"));
    done(&mut controller, 2, BundleStep::DiscardRequest, BundleStep::DiscardReply);
    let mut leaves = Controller::new(&rig, Version::V14);
    add(&mut leaves, 2, flow_mod("priority=3,in_port=1,actions=output:2"));
    assert_eq!(leaves.until_done(), []);
    drop(leaves);
    add(&mut controller, 2, flow_mod("priority=4,in_port=1,actions=output:2"));
    commit(&mut controller, 2);
    assert_eq!(priorities(&mut controller), [1, 4]);
}

/// A packet-out of sixty thousand bytes.
fn large() -> Body {
    packet_out(1, vec![Action::Output(PortNo(2))], packet(60_000))
}

#[test]
fn a_bundle_of_more_bytes_than_a_controller_may_have_kept_is_refused_and_gives_them_back() {
    let rig = Rig::new();
    let mut one = Controller::new(&rig, Version::V14);
    let mut other = Controller::new(&rig, Version::V14);
    let most = MOST_WAITING / 60_000;
    for _ in 0..most {
        add(&mut one, 1, large());
    }
    let kept = one.until_done();
    let refused = kept.len();
    assert!(refused <= 1 + most / 500, "headers apart, all of them are kept: {refused}");
    for _ in 0..40 {
        add(&mut one, 1, large());
    }
    let told = one.until_done();
    let many = Code::BundleTooMany.number(Version::V14);
    let is = |message: &Message| matches!(&message.body, Body::Error(error) if error.number == many);
    assert!(told.len() > 30 && told.iter().all(is), "{} are refused", told.len());
    // It lacks some of its messages.
    one.refuses(control(1, BundleStep::CommitRequest), Code::BundleFailed);
    // What it held is free again, and nobody else was kept from anything meanwhile.
    for (controller, id) in [(&mut one, 2), (&mut other, 2)] {
        add(controller, id, flow_mod("in_port=1,actions=output:2"));
        add(controller, id, large());
        assert_eq!(controller.until_done(), []);
        commit(controller, id);
        assert_eq!(priorities(controller).len(), 1);
    }
}

#[test]
fn five_controllers_with_open_bundles_take_no_more_than_all_may_and_leave_room_for_a_small_one() {
    let rig = Rig::new();
    let before = resident();
    let mut controllers = [(); 5].map(|()| Controller::new(&rig, Version::V14));
    let (mut refused, together) = (0, 50);
    // More than the share of each, in turns, so that no bundle is left alone for long.
    for _ in 0..(MOST_WAITING / 60_000 / together + 1) {
        for controller in &mut controllers {
            for _ in 0..together {
                add(controller, 1, large());
            }
            refused += controller.until_done().len();
        }
    }
    let most = MOST_WAITING_IN_ALL / 60_000;
    assert!(refused > 5 * MOST_WAITING / 60_000 - most, "not all is kept: {refused} refused");
    let mut late = Controller::new(&rig, Version::V14);
    add(&mut late, 1, flow_mod("in_port=1,actions=output:2"));
    assert_eq!(late.until_done(), []);
    commit(&mut late, 1);
    let grown = resident().saturating_sub(before);
    println!("memory grew by {} MiB", grown >> 20);
    assert!(grown < MOST_WAITING_IN_ALL + (64 << 20), "{} MiB", grown >> 20);
}

/// Memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

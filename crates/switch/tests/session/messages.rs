//! What messages mean, by hand: errors, roles, asynchronous messages, buffers.

use crate::controller::{Controller, flow_mod, packet, packet_out};
use crate::rig::Rig;
use crate::standalone::called;
use std::time::Duration;
use weir_codec::{
    AsyncConfig, AsyncKind, Body, Code, Config, FlowCommand, FlowMod, GroupCommand, GroupMod, Message,
    MeterCommand, MeterMod, PacketIn, PacketInForm, PortMod, Reply, Request, Role, RoleMessage, Version,
};
use weir_flow::Field;
use weir_openflow::{Action, Group, Meter, MeterId, MeterUnit, Names, PortNo, TableId, ToController};

fn role(role: Role, generation: u64) -> Body {
    Body::RoleRequest(RoleMessage { role, generation: Some(generation) })
}

fn group(text: &str) -> Group {
    Group::parse(text, &Names::default()).unwrap()
}

#[test]
fn what_cannot_be_done_is_refused_with_openflows_own_error() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V13);
    controller.refuses(flow_mod("in_port=1,actions=group:7"), Code::ActionGroup);
    let Body::FlowMod(mut metered) = flow_mod("in_port=1,actions=output:2") else { unreachable!() };
    metered.instructions.meter = Some(MeterId(5));
    controller.refuses(Body::FlowMod(metered), Code::ActionMeter);
    let Body::FlowMod(everywhere) = flow_mod("in_port=1,actions=output:2") else { unreachable!() };
    controller.refuses(Body::FlowMod(FlowMod { table: None, ..everywhere }), Code::FlowTable);
    controller.add("priority=5,tcp,actions=output:2");
    controller
        .refuses(flow_mod("priority=5,check_overlap,tcp,tp_dst=80,actions=output:3"), Code::FlowOverlap);
    let change = |command, text: &str| Body::GroupMod(GroupMod { command, group: group(text) });
    controller.say(change(GroupCommand::Add, "group_id=1,type=all,bucket=output:1"));
    assert_eq!(controller.until_done(), []);
    let mut weighed = group("group_id=5,type=all,bucket=output:1");
    weighed.buckets[0].weight = 2;
    let weighed = Body::GroupMod(GroupMod { command: GroupCommand::Add, group: weighed });
    controller.refuses(weighed, Code::GroupInvalid);
    controller.refuses(change(GroupCommand::Add, "group_id=1,type=all"), Code::GroupExists);
    controller.refuses(change(GroupCommand::Modify, "group_id=2,type=all"), Code::GroupUnknown);
    controller.refuses(change(GroupCommand::Modify, "group_id=1,type=all,bucket=group:1"), Code::GroupLoop);
    let meter = |command, id| {
        let unit = MeterUnit::PacketsPerSecond;
        let meter = Meter { id: MeterId(id), unit, burst: false, stats: false, bands: Vec::new() };
        Body::MeterMod(MeterMod { command, meter })
    };
    controller.refuses(meter(MeterCommand::Modify, 3), Code::MeterUnknown);
    controller.refuses(meter(MeterCommand::Add, 0), Code::MeterInvalid);
    let port = PortMod { number: PortNo(9), address: [0; 6], config: 0, mask: 0, advertise: None };
    controller.refuses(Body::PortMod(port), Code::PortBad);
    let strange = PortMod { number: PortNo(1), address: [9; 6], ..port };
    controller.refuses(Body::PortMod(strange), Code::PortAddress);
    controller.refuses(Body::SetConfig(Config { flags: 1, miss_send_len: 0 }), Code::ConfigFlags);
    controller.refuses(packet_out(1, vec![], vec![1, 2, 3]), Code::BadPacket);
    controller.refuses(packet_out(0, vec![], packet(60)), Code::BadPort);
    controller.refuses(Body::QueueConfigRequest(PortNo(9)), Code::QueuePort);
    controller.refuses(Body::FlowMonitorCancel(4), Code::MonitorUnknown);
}

#[test]
fn a_controller_is_told_which_number_is_which_service() {
    let rig = Rig::new();
    for version in [Version::V10, Version::V13, Version::V15] {
        let mut controller = Controller::new(&rig, version);
        let mut from = |first| match controller.ask(Body::ServicesRequest(first)) {
            Body::ServicesReply(list) => list,
            other => panic!("{other:?}"),
        };
        let all = from(0);
        assert_eq!((all.next, all.services.first().map(|service| service.number)), (0, Some(1)));
        let of = |name: &str| all.services.iter().find(|service| service.name == name).unwrap().clone();
        assert_eq!(of("conntrack").kind, "conntrack");
        let (counts, asks) = (of("quota"), of("quota.left"));
        assert_eq!(
            (counts.number + 1, asks.kind.as_str()),
            (asks.number, "quota"),
            "two services of one group"
        );
        assert_eq!(from(asks.number).services, all.services[usize::from(asks.number) - 1..]);
    }
}

#[test]
fn each_of_many_changes_in_a_row_is_refused_by_itself() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V13);
    let mut wrong = Vec::new();
    for number in 0..500 {
        let bad = number % 7 == 3;
        let to = if bad { "group:9" } else { "output:2" };
        let xid = controller.say(flow_mod(&format!("priority={number},in_port=1,actions={to}")));
        wrong.extend(bad.then_some(xid));
    }
    let refused: Vec<u32> = controller.until_done().iter().map(|message| message.xid).collect();
    assert_eq!(refused, wrong);
    let Reply::Aggregate(_, sum) = controller.multipart(Request::Aggregate(Default::default())) else {
        panic!()
    };
    assert_eq!(sum.flows as usize, 500 - wrong.len());
}

#[test]
fn the_newest_election_makes_the_primary_and_a_secondary_may_only_read() {
    let rig = Rig::new();
    let (mut one, mut other) = (Controller::new(&rig, Version::V13), Controller::new(&rig, Version::V14));
    let Body::RoleReply(first) = one.ask(role(Role::NoChange, 0)) else { panic!() };
    assert_eq!((first.role, first.generation), (Role::Equal, Some(u64::MAX)));
    assert!(matches!(one.ask(role(Role::Primary, 5)), Body::RoleReply(has) if has.role == Role::Primary));
    assert!(
        matches!(other.ask(role(Role::Secondary, 5)), Body::RoleReply(has) if has.role == Role::Secondary)
    );
    other.refuses(flow_mod("in_port=1,actions=output:2"), Code::IsSecondary);
    other.refuses(packet_out(1, vec![], packet(60)), Code::IsSecondary);
    assert!(matches!(other.ask(Body::FeaturesRequest), Body::FeaturesReply(_)));
    other.refuses(role(Role::Primary, 4), Code::RoleStale);
    assert!(matches!(other.ask(role(Role::Primary, 6)), Body::RoleReply(has) if has.generation == Some(6)));
    one.refuses(flow_mod("in_port=1,actions=output:2"), Code::IsSecondary);
    other.add("in_port=1,actions=output:2");
    assert!(matches!(one.ask(role(Role::Primary, 7)), Body::RoleReply(_)));
    // OpenFlow 1.4 tells who is not primary any more.
    assert!(matches!(other.hear().body, Body::RoleStatus(status) if status.role == Role::Secondary));
}

fn packet_ins(messages: Vec<Message>) -> Vec<PacketIn> {
    messages
        .into_iter()
        .filter_map(|message| match message.body {
            Body::PacketIn(packet) => Some(packet),
            _ => None,
        })
        .collect()
}

/// The next packet for the controller.
fn next_packet(controller: &mut Controller) -> PacketIn {
    loop {
        if let Body::PacketIn(packet) = controller.hear().body {
            return packet;
        }
    }
}

#[test]
fn a_long_packet_is_kept_and_sent_on_when_its_number_is_named() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V13);
    let Body::FlowMod(mut miss) = flow_mod("priority=0,cookie=0x77,actions=drop") else { unreachable!() };
    let to = ToController { max_len: 100, ..ToController::default() };
    miss.instructions.apply = vec![Action::Controller(to)];
    controller.say(Body::FlowMod(miss));
    controller.send(1, packet(300));
    let first = next_packet(&mut controller);
    assert_eq!((first.data.len(), first.total_len, first.reason), (100, 300, 0), "of a table-miss entry");
    assert_eq!((first.cookie, first.table), (0x77, TableId(0)));
    let buffer = first.buffer.expect("the packet is kept");
    let fetch = |actions| {
        let Body::PacketOut(packet) = packet_out(1, actions, Vec::new()) else { unreachable!() };
        Body::PacketOut(weir_codec::PacketOut { buffer: Some(buffer), ..packet })
    };
    controller.say(fetch(vec![Action::Output(PortNo(3))]));
    assert_eq!(controller.until_done(), []);
    let Reply::Port(ports) = controller.multipart(Request::Port(PortNo(3))) else { panic!() };
    assert_eq!((ports[0].tx_packets, ports[0].tx_bytes), (1, 300));
    controller.refuses(fetch(Vec::new()), Code::BufferEmpty);
    // A packet that fits is not kept.
    controller.send(1, packet(90));
    let short = next_packet(&mut controller);
    assert_eq!((short.buffer, short.data.len()), (None, 90));
    // A flow-mod that names one sends it through the tables as they are then.
    controller.send(2, packet(200));
    let waiting = next_packet(&mut controller);
    let Body::FlowMod(flow) = flow_mod("priority=9,in_port=2,actions=output:4") else { unreachable!() };
    controller.say(Body::FlowMod(FlowMod { buffer: waiting.buffer, ..flow }));
    assert!(packet_ins(controller.until_done()).is_empty());
    let Reply::Port(ports) = controller.multipart(Request::Port(PortNo(4))) else { panic!() };
    assert_eq!((ports[0].tx_packets, ports[0].tx_bytes), (1, 200));
}

#[test]
fn a_controller_hears_what_it_asked_for_and_nothing_else() {
    let rig = Rig::new();
    let (mut one, mut other) = (Controller::new(&rig, Version::V13), Controller::new(&rig, Version::V13));
    let mut nothing = AsyncConfig([Some(0); 12]);
    nothing.0[6..].fill(None);
    other.say(Body::SetAsync(nothing));
    assert_eq!(other.until_done(), []);
    one.add("in_port=1,send_flow_rem,actions=controller");
    one.send(1, packet(60));
    assert_eq!(next_packet(&mut one).reason, 1);
    let delete = FlowMod { command: FlowCommand::Delete, table: None, ..FlowMod::default() };
    one.say(Body::FlowMod(delete));
    let heard = one.until_done();
    assert!(
        matches!(&heard[..], [Message { body: Body::FlowRemoved(gone), .. }] if gone.packets == 1 && gone.reason == 2),
        "the flow's end is told before the barrier: {heard:?}"
    );
    assert_eq!(other.until_done(), [], "who asked for nothing hears nothing");
    let Body::GetAsyncReply(config) = other.ask(Body::GetAsyncRequest) else { panic!() };
    assert_eq!(config.mask(AsyncKind::PacketIn, false), Some(0));
}

#[test]
fn without_an_entry_packets_go_to_controllers_of_openflow_1_0_that_said_how_much_they_take() {
    let rig = Rig::new();
    let mut old = Controller::new(&rig, Version::V10);
    let mut new = Controller::new(&rig, Version::V13);
    old.say(Body::SetConfig(Config { flags: 0, miss_send_len: 64 }));
    assert_eq!(old.until_done(), []);
    old.send(1, packet(200));
    let missed = next_packet(&mut old);
    assert_eq!((missed.reason, missed.data.len(), missed.total_len), (0, 64, 200));
    assert!(packet_ins(new.until_done()).is_empty(), "in OpenFlow 1.3 a table-miss entry says so");
}

#[test]
fn a_controller_of_openflow_1_0_that_the_switch_called_hears_of_packets_without_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let rig = Rig::with(|openflow| {
        openflow.controllers = vec![format!("unix:{}", path.display()).parse().unwrap()];
        openflow.echo = Duration::from_secs(3600);
    });
    let (_listener, mut called) = called(&path, Version::V10);
    let mut visitor = Controller::new(&rig, Version::V10);
    visitor.send(1, packet(200));
    let missed = next_packet(&mut called);
    assert_eq!((missed.reason, missed.data.len(), missed.total_len), (0, 128, 200));
    assert!(packet_ins(visitor.until_done()).is_empty(), "a visitor has to ask for them");
}

#[test]
fn an_entry_that_is_added_again_keeps_its_counters_but_in_openflow_1_0() {
    let rig = Rig::new();
    for (version, count) in [(Version::V13, 1), (Version::V10, 0)] {
        let mut controller = Controller::new(&rig, version);
        let text = format!("priority={count},in_port=1,actions=output:2");
        controller.add(&text);
        let to_table = packet_out(1, vec![Action::Output(PortNo::TABLE)], packet(60));
        controller.say(to_table);
        assert_eq!(controller.until_done(), []);
        controller.add(&text);
        let Reply::Flow(_, flows) = controller.multipart(Request::Flow(Default::default())) else { panic!() };
        assert_eq!(flows.len(), 1);
        assert_eq!((flows[0].packets, flows[0].flow.flags), (count, Default::default()), "{version:?}");
        controller.say(Body::FlowMod(FlowMod {
            command: FlowCommand::Delete,
            table: None,
            ..FlowMod::default()
        }));
        assert_eq!(controller.until_done(), []);
    }
}

/// A datagram of a host to a name server.
fn datagram(host: u8) -> Vec<u8> {
    weir_frames::of_flow(0x0a00_0000 | u32::from(host), 0x0a00_0002, (1000, 53), &[0; 18])
}

#[test]
fn a_packet_of_a_tracked_connection_comes_with_its_original_tuple() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V13);
    controller.say(Body::SetPacketInFormat(PacketInForm::Nicira2));
    controller.add("priority=9,udp,actions=ct(commit,table=1)");
    controller.add("table=1,actions=controller");
    controller.send(1, datagram(1));
    let told = next_packet(&mut controller).fields;
    for (field, value) in [
        (Field::EthType, 0x0800),
        (Field::CtNwSrc, 0x0a00_0001),
        (Field::CtNwDst, 0x0a00_0002),
        (Field::CtNwProto, 17),
        (Field::CtTpSrc, 1000),
        (Field::CtTpDst, 53),
    ] {
        assert_eq!(told.field(field).0, value, "{field:?} of {told:?}");
    }
    assert_ne!(told.field(Field::CtState).0, 0);
}

#[test]
fn a_packet_is_looked_up_again_by_the_original_tuple_of_its_connection() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V13);
    controller.add("priority=9,udp,actions=ct(commit,zone=1,nat(src=10.9.9.9),table=1)");
    controller.add("table=1,ct_state=+trk+new,udp,actions=resubmit(,2,ct)");
    controller.add("table=2,priority=5,udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=53,actions=output:3");
    controller.add("table=2,priority=1,actions=output:4");
    // Of packets that belong to no connection it would mean nothing.
    controller.refuses(flow_mod("table=3,udp,actions=resubmit(,2,ct)"), Code::ActionType);
    for (host, port) in [(1, 3), (7, 4)] {
        controller.send(1, datagram(host));
        assert_eq!(controller.until_done(), []);
        let Reply::Port(ports) = controller.multipart(Request::Port(PortNo(port))) else { panic!() };
        assert_eq!(ports[0].tx_packets, 1, "of host {host} by port {port}");
    }
}

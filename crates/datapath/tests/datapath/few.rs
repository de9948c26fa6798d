//! A few packets through everything: what is small enough for Miri, which follows each step of a whole datapath
//! (`./x miri`; DPDK is a stub there, that sees whoever reads beyond a packet, after it, or what nobody wrote).

use crate::random::{Draw, keys, mangled};
use crate::rig::{Rig, check_sum, config, service, udp};
use serde_json::json;
use weir_datapath::{Change, Event, Report};
use weir_flow::samples::Sampler;
use weir_flow::{Field, Key, extract};
use weir_openflow::{Meter, PortNo};
use weir_testkit::draws;

fn field(frame: &[u8], field: Field) -> u128 {
    let mut key = Key::new();
    extract(frame, 1, &mut key);
    field.get(&key)
}

/// Longer and shorter at the front, rewritten, copied, metered, told to the controller, dropped; and cut short.
#[test]
fn each_kind_of_action_has_a_packet_or_two() {
    let mut rig = Rig::new(config(1));
    rig.groups(
        "group_id=1,type=all,bucket=output:2,bucket=push_vlan:0x8100,set_field:4101->vlan_vid,output:3",
    );
    rig.meter("meter=1,pktps,bands=type=drop,rate=1000000");
    rig.flows(
        "table=0,udp,tp_dst=1 actions=group:1\n\
         table=0,udp,tp_dst=2 actions=meter:1,dec_ttl,mod_nw_src:10.0.0.9,goto_table:1\n\
         table=0,udp,tp_dst=3 actions=controller\n\
         table=0,udp,tp_dst=4 actions=push_mpls:0x8847,set_field:7->mpls_label,output:2\n\
         table=0,priority=0 actions=drop\n\
         table=1,actions=output:3",
    );
    (2..=3).for_each(|port| rig.sink(port));
    let mut frames: Vec<Vec<u8>> = (0..12).map(|at| udp(7, 8, (9, at % 6))).collect();
    frames.extend([0, 13, 14, 20, 41].map(|len| udp(7, 8, (9, 2))[..len].to_vec()));
    rig.source(1, &frames, "");
    rig.wait(frames.len() as u64);
    let told =
        rig.datapath.tick().into_iter().flatten().filter(|event| matches!(event, Event::PacketIn(_))).count();
    let end = rig.end();
    let (straight, others) = (end.sent(2), end.sent(3));
    assert_eq!((straight.len(), others.len(), told), (4, 4, 2), "{:#?}", end.report.workers);
    assert_eq!(straight.iter().filter(|frame| field(frame, Field::MplsLabel) == 7).count(), 2);
    assert_eq!(others.iter().filter(|frame| field(frame, Field::VlanVid) == 4101).count(), 2);
    let routed =
        |frame: &&Vec<u8>| field(frame, Field::NwSrc) == 0x0a00_0009 && field(frame, Field::NwTtl) == 63;
    assert_eq!(others.iter().filter(routed).count(), 2);
}

/// Answers come to the other worker's port and have to be handed over, or not.
#[test]
#[cfg_attr(miri, ignore = "takes more than ten minutes under Miri")]
fn two_workers_translate_a_few_connections() {
    let mut settings = config(2);
    let small = service("conntrack", json!({"connections": 64, "fragments": 8}));
    settings.services = [("conntrack".to_owned(), small)].into();
    let mut rig = Rig::new(settings);
    (2..=4).step_by(2).for_each(|port| rig.sink(port));
    rig.flows(
        "table=0,ip,actions=ct(table=1,zone=3,nat)\n\
         table=1,priority=2,ct_state=+new,ip,in_port=1,actions=ct(commit,zone=3,nat(src=203.0.113.1)),output:2\n\
         table=1,priority=1,ct_state=+est,ip,in_port=1,actions=output:2\n\
         table=1,priority=1,ct_state=+est+rpl,ip,in_port=3,actions=output:4",
    );
    let (host, wan, flows) = (|flow: u16| 0x0a00_0001 + u32::from(flow % 3), 0xcb00_7101, 3_u16);
    let server = |flow: u16| 0xc000_0201 + u32::from(flow);
    let out: Vec<_> =
        (0..2 * flows).map(|at| at % flows).map(|at| udp(host(at), server(at), (7000 + at, 53))).collect();
    let back: Vec<_> = (0..flows).map(|at| udp(server(at), wan, (53, 7000 + at))).collect();
    rig.source(1, &out, "");
    let sent = |count: usize| {
        move |report: &Report| report.workers.iter().map(|worker| worker.sent).sum::<u64>() >= count as u64
    };
    rig.wait_until(sent(out.len()));
    rig.source(3, &back, "");
    rig.wait_until(sent(out.len() + back.len()));
    let end = rig.end();
    let mut hosts: Vec<u128> = end.sent(4).iter().map(|frame| field(frame, Field::NwDst)).collect();
    hosts.sort_unstable();
    let mut wanted: Vec<u128> = (0..flows).map(|flow| host(flow).into()).collect();
    wanted.sort_unstable();
    assert_eq!(hosts, wanted);
    assert!(end.sent(2).iter().all(|frame| field(frame, Field::NwSrc) == wan.into()));
}

/// Megaflows, plans and whole tables are freed while a worker uses them.
#[test]
#[cfg_attr(miri, ignore = "takes more than ten minutes under Miri")]
fn tables_change_and_a_port_goes_while_packets_come() {
    let mut rig = Rig::new(config(1));
    rig.flows("ip actions=output:2");
    (2..=3).for_each(|port| rig.sink(port));
    let frames: Vec<Vec<u8>> = (0..4).map(|at| udp(at, 1, (1, 2))).collect();
    rig.source(1, &frames, ",loop");
    let mut seen = 0;
    for round in 0..4_u32 {
        rig.flows(&format!("ip,nw_src=0.0.0.{} actions=output:{}", round % 2, 2 + round % 2));
        if round == 2 {
            rig.datapath.remove_port(PortNo(3)).unwrap();
        }
        seen = rig.wait(seen + 8).workers[0].received;
    }
    rig.datapath.remove_port(PortNo(1)).unwrap();
    let end = rig.end();
    assert!(end.report.workers[0].sent > 0 && end.sent(2).iter().all(|frame| frames.contains(frame)));
}

/// Frames that nobody should send, under tables that nobody would write, by two workers.
#[test]
fn a_few_malformed_frames_end_once_under_random_tables() {
    const SERVICES: [&str; 4] = ["noop", "tally", "sticky", "tracker"];
    let mut settings = config(2);
    let of = [
        ("tally", "counter", json!({"arguments": 16})),
        (
            "sticky",
            "balancer",
            json!({"mode": "consistent", "table": 211, "backends": [{"name": "a"}, {"name": "b"}]}),
        ),
        ("tracker", "conntrack", json!({"connections": 64, "fragments": 8, "checksums": "all"})),
    ];
    settings.services = of.map(|(name, kind, with)| (name.to_owned(), service(kind, with))).into();
    let mut rig = Rig::new(settings);
    (2..=4).for_each(|port| rig.port(port, "null"));
    let mut random = Sampler::new(weir_testkit::seed(77));
    let meters = [
        "meter=1,kbps,burst,bands=type=drop,rate=200000,burst_size=20000",
        "meter=2,pktps,bands=type=drop,rate=9",
    ];
    meters.iter().for_each(|meter| rig.meter(meter));
    let (mut seen, count) = (0, draws(20_000));
    for _ in 0..3 {
        let frames: Vec<Vec<u8>> = (0..count).map(|_| mangled(&mut random)).collect();
        let like = keys(&frames);
        let names = rig.datapath.names();
        let spine = [random.pick(&SERVICES)];
        let (random, services) = (&mut random, &SERVICES[..]);
        let mut draw = Draw { random, names, like: &like, services, spine: &spine, copies: false, meters: 2 };
        let mut changes = vec![
            Change::Flow(weir_openflow::FlowMod::Delete(weir_openflow::Select::default())),
            Change::DeleteGroup(None),
        ];
        changes.extend(meters.map(|meter| Change::SetMeter(Meter::parse(meter).unwrap())));
        changes.extend(draw.changes());
        rig.datapath.apply(&changes).unwrap();
        let (some, others) = frames.split_at(frames.len() / 2);
        rig.source(1, some, "");
        rig.source(5, others, "");
        seen += frames.len() as u64;
        check_sum(&rig.wait(seen));
        rig.datapath.tick().unwrap();
        [1, 5].iter().for_each(|&port| rig.datapath.remove_port(PortNo(port)).unwrap());
    }
    rig.end();
}

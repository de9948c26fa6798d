//! `NORMAL`, beside Open vSwitch: the same packets in the same order, each after the one before was learned from; alone
//! and among other actions, in clones, groups and other tables, with tags and without.

use crate::frames::Sample;
use crate::ours::Ours;
use crate::ovs::{self, At, Ovs, PORTS};
use crate::{Pair, hex, leaves};
use std::collections::BTreeMap;
use weir_flow::samples::Sampler;

/// Rounds where `WEIR_ROUNDS` does not say how many.
const ROUNDS: u64 = 10;

/// Packets of a round.
const PACKETS: usize = 160;

/// Stations, which send and are sent to.
const STATIONS: u8 = 6;

fn station(number: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, 0, number]
}

/// Where a packet may go: mostly to a station.
fn destination(random: &mut Sampler) -> [u8; 6] {
    const OTHERS: [[u8; 6]; 9] = [
        [0xff; 6],
        [0x01, 0x00, 0x5e, 0, 0, 5],
        [0x33, 0x33, 0, 0, 0, 1],
        [0x01, 0x80, 0xc2, 0, 0, 0x00],
        [0x01, 0x80, 0xc2, 0, 0, 0x0e],
        [0x01, 0x80, 0xc2, 0, 0, 0x10],
        [0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc],
        [0x00, 0xe0, 0x2b, 0, 0, 0x04],
        [0x00, 0xe0, 0x2b, 0, 0, 0x05],
    ];
    if random.one_in(4) { random.pick(&OTHERS) } else { station(random.below(usize::from(STATIONS)) as u8) }
}

/// A packet between stations, some with a tag, an ARP or a source that is a group.
fn frame(random: &mut Sampler) -> Vec<u8> {
    let mut source = station(random.below(usize::from(STATIONS)) as u8);
    if random.one_in(20) {
        source[0] |= 1;
    }
    let mut frame = [destination(random), source].concat();
    if random.one_in(2) {
        // Without a VLAN, with one of two, and with a priority.
        let tci = random.pick(&[0x0000_u16, 0x6000, 0x0005, 0x2005, 0x0006]);
        frame.extend([0x81, 0x00]);
        frame.extend(tci.to_be_bytes());
    }
    if random.one_in(4) {
        let operation = random.below(2) as u8 + 1;
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend([source.as_slice(), &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 1]].concat());
    } else {
        frame.extend([0x88, 0xb6]);
    }
    frame.resize(80, 0x77);
    frame
}

/// Flows that do something beside `NORMAL`, with one that does nothing else.
fn flows(random: &mut Sampler) -> Vec<String> {
    let actions = [
        "NORMAL",
        "set_field:02:00:00:00:00:01->eth_src,NORMAL",
        "set_field:02:00:00:00:00:02->eth_dst,NORMAL",
        "clone(set_field:02:00:00:00:00:03->eth_src,NORMAL),output:2",
        "output:3,NORMAL",
        "load:3->NXM_OF_IN_PORT[],NORMAL",
        "load:77->NXM_OF_IN_PORT[],NORMAL",
        "resubmit(2,1)",
        "resubmit(,1),output:1",
        "group:1",
        "group:2",
        "write_actions(output:NORMAL),goto_table:2",
        "drop",
    ];
    let mut flows = vec![
        "table=0,priority=0 actions=NORMAL".to_owned(),
        "table=1,priority=0 actions=NORMAL".to_owned(),
        "table=2,priority=0 actions=set_field:02:00:00:00:00:04->eth_src".to_owned(),
    ];
    for priority in 1..=random.below(5) {
        let station = random.below(usize::from(STATIONS));
        let matching = match random.below(5) {
            0 => format!("in_port={}", 1 + random.below(4)),
            1 => format!("dl_src=02:00:00:00:00:0{station}"),
            2 => format!("dl_dst=02:00:00:00:00:0{station}"),
            3 => format!("dl_vlan={}", 5 + random.below(2)),
            _ => format!("in_port={},dl_src=02:00:00:00:00:0{station}", 1 + random.below(4)),
        };
        // What takes a tag away, or changes it, is for packets that have one: `ovs-ofctl` pushes one otherwise.
        let tagged = ["strip_vlan,NORMAL", "mod_vlan_vid:6,NORMAL", "NORMAL,mod_vlan_pcp:3,output:4"];
        // And a tag goes in front of none: of two Open vSwitch takes the inner one away, too, if that says nothing.
        let pushes = "push_vlan:0x8100,set_field:4101->vlan_vid,set_field:0->vlan_pcp,NORMAL";
        let is_of_tag = matching.starts_with("dl_vlan");
        let (matching, actions) = match random.below(3) {
            0 if is_of_tag => (matching, random.pick(&tagged)),
            0 => (format!("{matching},vlan_tci=0x0000"), pushes),
            _ => (matching, random.pick(&actions)),
        };
        flows.push(format!("table=0,priority={priority},{matching} actions={actions}"));
    }
    flows
}

/// What one switch does with a packet, in order of port and bytes.
fn ends(out: &[At]) -> Vec<At> {
    leaves(out).into_values().flatten().collect()
}

#[test]
fn open_vswitch_learns_the_same_of_the_same_packets() {
    if !ovs::installed() {
        return;
    }
    let rounds = weir_testkit::asked("WEIR_ROUNDS", ROUNDS) as u32;
    let mut random = Sampler::new(weir_testkit::asked("WEIR_OVS_SEED", 0x40));
    let mut pair = Pair { ovs: Ovs::start(), ours: Ours::start(true), differences: BTreeMap::new(), left: 0 };
    let groups = [
        "group_id=2,type=all,bucket=actions=set_field:02:00:00:00:00:05->eth_dst,NORMAL,bucket=actions=output:1",
        "group_id=1,type=indirect,bucket=actions=NORMAL",
    ]
    .map(str::to_owned);
    let (mut floods, mut known, mut number) = (0, 0, 0);
    for round in 0..rounds {
        let flows = flows(&mut random);
        pair.load(&groups, &flows).unwrap_or_else(|error| panic!("{error}\n{}", flows.join("\n")));
        pair.ovs.ask(&["fdb/flush", "br"]);
        pair.ours.forget_learned();
        let quiet = round % 3 == 2;
        pair.ovs.ofctl(&["mod-port", "p3", if quiet { "no-flood" } else { "flood" }]);
        pair.ours.flood(3, !quiet);
        for packet in 0..PACKETS {
            let in_port = random.pick(&PORTS);
            let at = (in_port, Sample::new(in_port, frame(&mut random)).numbered(number));
            number += 1;
            let theirs = ends(&pair.ovs.forward(std::slice::from_ref(&at)));
            pair.ovs.ask(&["revalidator/purge"]);
            let mine = ends(&pair.ours.forward(std::slice::from_ref(&at)));
            let story = if theirs == mine { String::new() } else { pair.ours.explain(&at) };
            pair.ours.learn();
            if theirs != mine {
                for (name, leaves) in [("Open vSwitch", &theirs), ("Weir", &mine)] {
                    leaves.iter().for_each(|(port, frame)| println!("{name}: port {port} {}", hex(frame)));
                }
                let (flows, fdb) = (flows.join("\n"), pair.ovs.ask(&["fdb/show", "br"]));
                panic!(
                    "round {round}, packet {packet}: port {in_port} {}\n{flows}\n{fdb}\n{story}",
                    hex(&at.1)
                );
            }
            floods += u32::from(mine.len() > 1);
            known += u32::from(mine.len() == 1);
        }
    }
    pair.ours.stop();
    println!(
        "{} packets in {rounds} rounds: {floods} left by several ports, {known} by one",
        rounds * PACKETS as u32
    );
    assert!(floods > number / 10 && known > number / 10, "{floods} floods, {known} known of {number}");
}

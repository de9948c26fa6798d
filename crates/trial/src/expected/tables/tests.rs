//! The reference against what the standards say, case by case, and its hashes against the plain walk.

use super::*;
use crate::nf::FlowFile;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::net::Ipv4Addr;
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, Ipv4View, MacAddress, UdpRepr, checksum, ipv4};

fn tables(text: &str) -> Tables {
    Tables::new(
        FlowFile::of("test", "test", text.to_owned()).unwrap_or_else(|error| panic!("{error}")).entries(),
    )
}

/// A UDP datagram with both checksums right.
fn datagram(source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut frame = vec![7; 60];
    let (head, payload) = (EthernetRepr::BYTES + Ipv4Repr::BYTES, 18);
    EthernetRepr {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        ether_type: EtherType::IPV4,
    }
    .emit(&mut frame);
    let ip = Ipv4Repr {
        source: Ipv4Addr::from(source),
        destination: Ipv4Addr::from(destination),
        protocol: ipv4::UDP,
        ttl: 64,
        payload_len: UdpRepr::BYTES as u16 + payload,
    };
    ip.emit(&mut frame[EthernetRepr::BYTES..]);
    UdpRepr { source: ports.0, destination: ports.1, payload_len: payload }.emit(&mut frame[head..]);
    frame[head + 6..head + 8].fill(0);
    let sum = checksum::udp_nonzero(checksum::finish(ip.pseudo() + checksum::sum(&frame[head..])));
    frame[head + 6..head + 8].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn plain() -> Vec<u8> {
    datagram([10, 0, 0, 1], [10, 1, 0, 2], (1024, 53))
}

/// What comes out by the second port of a packet that came in by the first.
fn out(text: &str, frame: &[u8]) -> Vec<u8> {
    match tables(text).passed(0, frame) {
        Ok(Expected::Forward { port: 1, frame }) => frame,
        other => panic!("{text}: {other:?}"),
    }
}

/// Whether all checksums of a UDP datagram behind `link` bytes hold.
fn checksums_hold(frame: &[u8], link: usize) -> bool {
    let header = Ipv4View::checked(&frame[link..]).unwrap();
    let pseudo =
        checksum::pseudo_ipv4(header.source(), header.destination(), 17, header.payload().len() as u16);
    header.checksum_is_right() && checksum::finish(pseudo + checksum::sum(header.payload())) == 0
}

#[test]
fn the_greatest_priority_decides_and_what_nothing_matches_is_dropped() {
    let text = "priority=10,udp,tp_dst=53,actions=drop\npriority=9,ip,nw_src=10.0.0.0/8,actions=output:2\n\
                priority=8,arp,actions=output:1\n";
    let tables = tables(text);
    assert_eq!(tables.passed(0, &plain()), Ok(Expected::Drop(Reason::Entry(1))));
    let other = datagram([10, 0, 0, 1], [10, 1, 0, 2], (1024, 54));
    assert_eq!(tables.passed(0, &other), Ok(Expected::Forward { port: 1, frame: other.clone() }));
    // Never out by the port it came in by, unless that is said.
    assert_eq!(tables.passed(1, &other), Ok(Expected::Drop(Reason::Entry(2))));
    let elsewhere = datagram([11, 0, 0, 1], [10, 1, 0, 2], (1024, 54));
    assert_eq!(tables.passed(0, &elsewhere), Ok(Expected::Drop(Reason::NoEntry)));
}

#[test]
fn an_entry_that_stands_twice_is_its_last_and_two_of_one_priority_leave_it_open() {
    let twice = "udp,actions=output:1\nudp,actions=output:2\n";
    assert_eq!(out(twice, &plain()), plain());
    let both = "priority=5,udp,actions=drop\npriority=5,ip,actions=output:2\n";
    assert_eq!(
        tables(both).passed(0, &plain()),
        Err("entries of one priority match it and do different things")
    );
    let alike = "priority=5,udp,actions=output:2\npriority=5,ip,actions=output:2\n";
    assert_eq!(out(alike, &plain()), plain());
    assert!(tables("actions=output:2,in_port").passed(0, &plain()).is_err(), "two copies");
}

#[test]
fn addresses_ports_and_times_to_live_are_written_with_their_checksums() {
    let frame = plain();
    assert!(checksums_hold(&frame, 14));
    let edited = out(
        "udp,actions=mod_dl_src:02:00:00:00:01:01,mod_nw_dst:192.0.2.9,mod_tp_src:4000,mod_nw_tos:8,dec_ttl,output:2",
        &frame,
    );
    assert_eq!(edited[6..12], [2, 0, 0, 0, 1, 1]);
    assert_eq!(
        (edited[15], edited[22], &edited[30..34], &edited[34..36]),
        (8, 63, &[192, 0, 2, 9][..], &[15, 160][..])
    );
    assert_eq!(edited[38..40], frame[38..40]);
    assert!(checksums_hold(&edited, 14));
    // Without a UDP checksum there is none afterwards.
    let mut without = frame.clone();
    without[40..42].fill(0);
    assert_eq!(out("udp,actions=mod_nw_src:1.2.3.4,output:2", &without)[40..42], [0, 0]);
    // A header checksum that is wrong stays as wrong.
    let mut wrong = frame;
    wrong[24] ^= 1;
    assert!(!checksums_hold(&out("ip,actions=dec_ttl,output:2", &wrong), 14));
}

#[test]
fn a_packet_whose_time_is_used_up_goes_no_further() {
    let mut frame = plain();
    frame[22] = 1;
    assert_eq!(tables("ip,actions=dec_ttl,output:2").passed(0, &frame), Ok(Expected::Drop(Reason::Entry(1))));
    assert_eq!(out("ip,actions=output:2,dec_ttl", &frame), frame);
}

#[test]
fn tags_come_and_go() {
    let tagged = out("actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:2", &plain());
    assert_eq!((tagged.len(), &tagged[12..18]), (64, &[0x81, 0, 0, 100, 8, 0][..]));
    assert!(checksums_hold(&tagged, 18));
    assert_eq!(out("dl_vlan=100,actions=strip_vlan,output:2", &tagged), plain());
    let prioritised = out("dl_vlan=100,actions=mod_vlan_pcp:5,output:2", &tagged);
    assert_eq!(prioritised[14..16], [0xa0, 100]);
    assert_eq!(out("actions=mod_vlan_vid:7,output:2", &plain())[12..16], [0x81, 0, 0, 7]);
    let matched = "vlan_tci=0x0000,actions=drop\npriority=1,dl_vlan=100,dl_vlan_pcp=0,udp,actions=output:2\n";
    assert_eq!(out(matched, &tagged), tagged);
    assert_eq!(tables(matched).passed(0, &plain()), Ok(Expected::Drop(Reason::Entry(1))));
    let twice = [&tagged[..12], &[0x88, 0xa8, 0, 1], &tagged[12..]].concat();
    assert_eq!(tables(matched).passed(0, &twice), Err("it has two tags"));
}

#[test]
fn registers_metadata_and_further_tables_carry_what_was_found() {
    let text = "table=0,udp,actions=move:NXM_OF_UDP_DST[0..7]->NXM_NX_REG3[8..15],load:2->NXM_NX_REG0[],\
                resubmit(,4),output:NXM_NX_REG0[]\ntable=4,reg3=0x3500,actions=load:1->NXM_NX_REG0[],\
                resubmit(7,5)\ntable=4,priority=1,actions=drop\ntable=5,in_port=7,actions=load:2->NXM_NX_REG0[]\n";
    assert_eq!(out(text, &plain()), plain());
    let going = "table=0,actions=write_metadata:0x12/0xff,goto_table:1\n\
                 table=1,metadata=0x12,actions=write_actions(output:2),goto_table:2\n\
                 table=2,udp,tp_dst=54,actions=clear_actions\n";
    assert_eq!(out(going, &plain()), plain());
    let cleared = datagram([10, 0, 0, 1], [10, 1, 0, 2], (1024, 54));
    assert_eq!(tables(going).passed(0, &cleared), Ok(Expected::Drop(Reason::Entry(3))));
    let circle = "table=0,actions=resubmit(,0)";
    assert_eq!(tables(circle).passed(0, &plain()), Err("it goes round in circles among the tables"));
    let cloned = "actions=clone(mod_nw_src:9.9.9.9,load:0->NXM_NX_REG1[]),exit,output:1\n";
    assert_eq!(tables(cloned).passed(0, &plain()), Ok(Expected::Drop(Reason::Entry(1))));
}

#[test]
fn fragments_have_no_ports_and_a_cut_header_is_not_judged() {
    let mut later = plain();
    later[20..22].copy_from_slice(&[0, 3]);
    let text =
        "priority=9,udp,ip_frag=later,tp_dst=0,actions=drop\npriority=8,udp,tp_dst=53,actions=output:2\n";
    assert_eq!(tables(text).passed(0, &later), Ok(Expected::Drop(Reason::Entry(1))));
    assert_eq!(out(text, &plain()), plain());
    assert!(tables("udp,actions=mod_nw_src:1.1.1.1,output:2").passed(0, &later).is_err());
    let cut = &plain()[..30];
    assert!(tables(text).passed(0, cut).unwrap_err().contains("cut off"));
}

/// Entries over few values, so that they lie over one another.
fn drawn(random: &mut ChaCha8Rng) -> String {
    let mut text = String::new();
    for _ in 0..60 {
        let mut draw = |below: u32| random.next_u32() % below;
        let (length, port) = (8 * draw(5), 50 + draw(8));
        let source = Ipv4Addr::from_bits(0x0a00_0000 | draw(4) << 16 | draw(4));
        let ports = match draw(3) {
            0 => String::new(),
            1 => format!(",tp_dst={port}"),
            _ => format!(",tp_dst={:#x}/0xfffe", port & !1),
        };
        let address = if length == 0 { String::new() } else { format!(",nw_src={source}/{length}") };
        let (priority, action) = (draw(12), ["output:2", "drop", "mod_nw_tos:4,output:2"][draw(3) as usize]);
        text.push_str(&format!("priority={priority},udp{address}{ports},actions={action}\n"));
    }
    text
}

#[test]
fn hashes_find_what_the_plain_walk_finds() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let (mut found, mut open) = (0, 0);
    for _ in 0..50 {
        let tables = tables(&drawn(&mut random));
        let table = &tables.0[&0];
        for _ in 0..200 {
            let mut draw = |below: u32| random.next_u32() % below;
            let source = (0x0a00_0000 | draw(5) << 16 | draw(5)).to_be_bytes();
            let packet =
                Packet::new(&datagram(source, [10, 1, 0, 2], (1024, 50 + draw(9) as u16)), 1).unwrap();
            let lines = |entries: Vec<&Entry>| {
                let mut lines: Vec<u32> = entries.iter().map(|entry| entry.line).collect();
                lines.sort_unstable();
                lines
            };
            let (fast, slow) = (lines(table.find(&packet)), lines(table.first(&packet)));
            assert_eq!(fast, slow);
            found += u32::from(!slow.is_empty());
            open += u32::from(slow.len() > 1);
        }
    }
    assert!(found > 5_000 && open > 500, "{found} packets matched, {open} several entries");
}

//! Lines of the kinds that public pipelines have, with addresses of our own: of neutron's firewall, typed after "Open
//! vSwitch Firewall Driver" of its contributor's guide, and of antrea's agent, whose tables are as "Antrea OVS Pipeline"
//! begins to describe them and whose lines are of the kinds known of it, not copied. All that is not refused goes in at
//! once; what is refused is refused by name.

use crate::rig::{Rig, config, udp};
use weir_openflow::{FlowMod, Names, PortNo};

/// Tables 60 to 94 of neutron's firewall for two ports of one network, with a remote group by conjunctions.
const NEUTRON: &str = "\
table=0,priority=0 actions=resubmit(,60)
table=60,priority=100,in_port=1 actions=load:0x1->NXM_NX_REG5[],load:0x5->NXM_NX_REG6[],resubmit(,71)
table=60,priority=100,in_port=2 actions=load:0x2->NXM_NX_REG5[],load:0x5->NXM_NX_REG6[],resubmit(,71)
table=60,priority=90,dl_vlan=0x5,dl_dst=02:00:00:00:00:11 actions=load:0x1->NXM_NX_REG5[],load:0x5->NXM_NX_REG6[],resubmit(,81)
table=60,priority=0 actions=NORMAL
table=71,priority=110,ct_state=+trk actions=ct_clear,resubmit(,71)
table=71,priority=95,icmp6,reg5=0x1,in_port=1,dl_src=02:00:00:00:00:11,ipv6_src=fe80::11,icmp_type=135 actions=resubmit(,94)
table=71,priority=95,arp,reg5=0x1,in_port=1,dl_src=02:00:00:00:00:11,arp_spa=10.0.0.1 actions=resubmit(,94)
table=71,priority=80,udp,reg5=0x1,in_port=1,tp_src=68,tp_dst=67 actions=resubmit(,73)
table=71,priority=70,udp6,reg5=0x1,in_port=1,tp_src=547,tp_dst=546 actions=resubmit(,93)
table=71,priority=65,ip,reg5=0x1,in_port=1,dl_src=02:00:00:00:00:11,nw_src=10.0.0.1 actions=ct(table=72,zone=NXM_NX_REG6[0..15])
table=71,priority=10,reg5=0x1,in_port=1 actions=resubmit(,93)
table=71,priority=0 actions=drop
table=72,priority=75,ct_state=+new-est,udp,reg5=0x1 actions=resubmit(,73)
table=72,priority=50,ct_state=+inv+trk actions=resubmit(,93)
table=72,priority=50,ct_mark=0x1,reg5=0x1 actions=resubmit(,93)
table=72,priority=50,ct_state=+est-rel+rpl,ct_zone=5,ct_mark=0,reg5=0x1 actions=resubmit(,94)
table=72,priority=40,ct_state=+est,ip,reg5=0x1 actions=ct(commit,zone=NXM_NX_REG6[0..15],exec(load:0x1->NXM_NX_CT_MARK[]))
table=72,priority=0 actions=drop
table=73,priority=100,reg6=0x5,dl_dst=02:00:00:00:00:12 actions=load:0x2->NXM_NX_REG5[],resubmit(,81)
table=73,priority=90,ct_state=+new-est,ip,reg5=0x1 actions=ct(commit,zone=NXM_NX_REG6[0..15]),resubmit(,91)
table=73,priority=80,reg5=0x1 actions=resubmit(,94)
table=73,priority=0 actions=drop
table=81,priority=100,arp,reg5=0x2 actions=strip_vlan,output:2
table=81,priority=95,udp,reg5=0x2,tp_src=67,tp_dst=68 actions=strip_vlan,output:2
table=81,priority=90,ct_state=-trk,ip,reg5=0x2 actions=ct(table=82,zone=NXM_NX_REG6[0..15])
table=81,priority=80,ct_state=+trk,reg5=0x2 actions=resubmit(,82)
table=81,priority=0 actions=drop
table=82,priority=71,ct_state=+new-est,ip,reg6=0x5,nw_src=10.0.0.1 actions=conjunction(19,1/2)
table=82,priority=71,ct_state=+new-est,ip,reg6=0x5,nw_src=10.0.0.9 actions=conjunction(19,1/2)
table=82,priority=71,ct_state=+new-est,udp,reg5=0x2 actions=conjunction(19,2/2)
table=82,priority=73,ct_state=+new-est,tcp,reg5=0x2,tp_dst=0x40/0xfff0 actions=conjunction(23,2/2)
table=82,priority=73,ct_state=+new-est,tcp,reg5=0x2,tp_dst=80 actions=conjunction(23,2/2),conjunction(15,2/2)
table=82,priority=71,conj_id=19,ct_state=+new-est,ip,reg5=0x2 actions=ct(commit,zone=NXM_NX_REG6[0..15]),strip_vlan,output:2,resubmit(,92)
table=82,priority=0 actions=drop
table=91,priority=1 actions=resubmit(,94)
table=92,priority=0 actions=drop
table=93,priority=0 actions=drop
table=94,priority=10,reg6=0x5,dl_src=02:00:00:00:00:11,dl_dst=00:00:00:00:00:00/01:00:00:00:00:00 actions=push_vlan:0x8100,set_field:0x1->vlan_vid,output:3
table=94,priority=1 actions=NORMAL";

/// Kinds of lines of antrea's tables, from classification to output.
const ANTREA: &str = "\
table=100,priority=210,ip,in_port=4,nw_src=10.10.0.1 actions=set_field:0x2/0xf->reg0,goto_table:101
table=100,priority=200,in_port=3 actions=set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,goto_table:103
table=101,priority=200,arp,in_port=5,arp_spa=10.10.0.24,arp_sha=02:00:00:00:01:24 actions=goto_table:102
table=102,priority=200,arp,arp_tpa=10.10.1.1,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:02:00:00:00:ff:ff->eth_src,set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:02:00:00:00:ff:ff->arp_sha,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:10.10.1.1->arp_spa,IN_PORT
table=102,priority=190,arp actions=NORMAL
table=103,priority=200,ip actions=ct(table=104,zone=65520,nat)
table=104,priority=200,ct_state=-new+trk,ct_mark=0/0x10,ip actions=goto_table:106
table=104,priority=190,ct_state=+inv+trk,ip actions=drop
table=105,priority=200,tcp,reg4=0x10000/0x70000,nw_dst=10.96.0.10,tp_dst=53 actions=set_field:0x200/0x200->reg0,set_field:0x20000/0x70000->reg4,group:9
table=105,priority=200,tcp,reg3=0xa0a0018,reg4=0x20050/0x7ffff actions=ct(commit,table=106,zone=65520,nat(dst=10.10.0.24:80),exec(set_field:0x10/0x10->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))
table=106,priority=14600,ip,nw_src=10.10.0.26 actions=conjunction(7,1/3)
table=106,priority=14600,ip,nw_dst=10.10.0.25 actions=conjunction(7,2/3)
table=106,priority=14600,ip,reg1=0x19 actions=conjunction(7,2/3),conjunction(5,2/3)
table=106,priority=14600,tcp,tp_dst=3306 actions=conjunction(7,3/3)
table=106,priority=14600,conj_id=7,ip actions=set_field:0x7->reg3,set_field:0x400/0x400->reg0,ct(commit,table=107,zone=65520,exec(set_field:0x700000000/0xffffffff00000000->ct_label))
table=107,priority=200,ip,reg0=0x200/0x200,nw_dst=10.10.0.24 actions=set_field:02:00:00:00:ff:01->eth_src,set_field:02:00:00:00:01:24->eth_dst,dec_ttl,goto_table:108
table=108,priority=200,dl_dst=02:00:00:00:01:24 actions=set_field:0x24->reg1,set_field:0x200000/0x600000->reg0,goto_table:109
table=109,priority=200,ct_state=+new+trk,ct_mark=0/0x10,ip actions=ct(commit,table=110,zone=65520,exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))
table=110,priority=210,reg0=0x200001/0x60000f,nw_dst=10.10.0.24,ip actions=output:NXM_NX_REG1[]
table=110,priority=200,reg0=0x400000/0x600000,ip actions=controller(id=7,reason=no_match,userdata=01.01)";

/// Lines of these pipelines that are refused, with what is said.
const REFUSED: [(&str, &str); 3] = [
    // The document of neutron's has it so; what its agent sends names IP, as Open vSwitch asks for, too.
    (
        "table=73,priority=90,ct_state=+new-est,reg5=0x1 actions=ct(commit,zone=NXM_NX_REG6[0..15])",
        "need not be IP",
    ),
    (
        "table=105,priority=190,tcp,reg4=0x30000/0x70000,nw_dst=10.96.0.10 actions=learn(table=120,idle_timeout=300,priority=200),goto_table:106",
        "`learn` is not supported",
    ),
    ("table=110,priority=200,ip actions=controller(pause,userdata=01)", "not supported"),
];

#[test]
fn lines_of_public_pipelines_are_accepted_in_one_change_but_for_words_that_are_named() {
    let mut rig = Rig::new(config(1));
    rig.groups("group_id=9,type=select,bucket=weight:1,actions=set_field:0xa0a0018->reg3,set_field:0x20050/0x7ffff->reg4,output:4");
    rig.flows(&format!("{NEUTRON}\n{ANTREA}"));
    let lines = NEUTRON.lines().count() + ANTREA.lines().count();
    assert_eq!(rig.datapath.flows().unwrap().len(), lines);
    for (line, said) in REFUSED {
        let error = FlowMod::parse(line, &Names::default()).unwrap_err().to_string();
        assert!(error.contains(said), "{line}: {error}");
    }
    // A packet of the first port to the second meets both firewalls, the second by a conjunction.
    (1..=5).for_each(|number| rig.port(number, "null"));
    let mut frame = udp(0x0a00_0001, 0x0a00_0002, (1000, 2000));
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x12, 2, 0, 0, 0, 0, 0x11]);
    let sent = rig.datapath.capture(weir_datapath::CaptureFilter { sent: true, ..Default::default() });
    for _ in 0..3 {
        rig.datapath.inject(PortNo(1), frame.clone());
        rig.datapath.report().unwrap();
    }
    let ports: Vec<u32> = sent.try_iter().map(|packet| packet.port.0).collect();
    assert_eq!(ports, [2, 2, 2]);
    // From an address that is not the port's own it goes nowhere.
    frame[26..30].copy_from_slice(&[10, 0, 0, 2]);
    rig.datapath.inject(PortNo(1), frame);
    rig.datapath.report().unwrap();
    assert_eq!(sent.try_iter().count(), 0);
    rig.end();
}

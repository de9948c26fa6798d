//! Lines of the kinds that public pipelines have, with addresses of our own. Two whole pipelines are files of docs/examples,
//! typed after their documents; `tests/against_ovs/pipelines.rs` sends packets through them. Here they go in at once with
//! lines of the kinds that newer versions of antrea's agent are known to send, and what is refused is refused by name.

use crate::rig::{Rig, config};
use weir_openflow::{FlowMod, Names};

/// Neutron's firewall, which has table 60 and those behind it.
const NEUTRON: &str = include_str!("../../../../docs/examples/neutron-firewall.flows");

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
    let lines = [NEUTRON, ANTREA].map(|text| text.lines().filter(|line| line.starts_with("table=")).count());
    assert_eq!(rig.datapath.flows().unwrap().len(), lines[0] + lines[1]);
    for (line, said) in REFUSED {
        let error = FlowMod::parse(line, &Names::default()).unwrap_err().to_string();
        assert!(error.contains(said), "{line}: {error}");
    }
    rig.end();
}

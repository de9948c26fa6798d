//! Lines written by hand: what they mean, how they are printed, and what is said of those that are wrong.

use weir_flow::{Field, Match};
use weir_openflow::{
    Action, Flow, FlowCommand, FlowMod, Group, Meter, Names, PortNo, Select, TableId, UNSUPPORTED,
    Unsupported, match_text, parse_flow_file, parse_flows, parse_match,
};

fn names() -> Names {
    let mut names = Names::default();
    names.add_port("uplink", PortNo(1));
    names.add_port("vm 2", PortNo(2));
    names.add_table("acl", TableId(3));
    names.add_service("conntrack");
    names.add_service("noop");
    names
}

/// A field, its value and its mask.
type Demand = (Field, u128, u128);

fn matching(demands: &[Demand]) -> Match {
    let mut out = Match::any();
    for (field, value, mask) in demands {
        out.demand(*field, *value, *mask);
    }
    out
}

/// Matches as they are written, and as they are printed.
const MATCHES: &[(&str, &str)] = &[
    ("", ""),
    ("ip", "ip"),
    ("dl_type=0x0800,nw_proto=6", "tcp"),
    ("nw_proto=6,ip6", "tcp6"),
    ("eth_type=0x86dd,ip_proto=58", "icmp6"),
    ("ip,nw_proto=47", "ip,nw_proto=47"),
    ("dl_type=0x88cc", "dl_type=0x88cc"),
    ("dl_type=5", "dl_type=0x0005"),
    ("rarp,nw_src=1.2.3.4", "rarp,arp_spa=1.2.3.4"),
    ("nw_proto=2,arp", "arp,arp_op=2"),
    ("ip,nw_src=10.1.2.3/8,nw_dst=010.1.2.3/255.0.255.0", "ip,nw_src=10.0.0.0/8,nw_dst=10.0.2.0/255.0.255.0"),
    ("ip,nw_src=1.2.3.4/0", "ip"),
    ("ip,nw_src=*", "ip"),
    ("ipv6,ipv6_src=2001:DB8::1/32", "ipv6,ipv6_src=2001:db8::/32"),
    ("ipv6,ipv6_label=0x1", "ipv6,ipv6_label=0x00001"),
    ("dl_vlan=0xffff", "vlan_tci=0x0000"),
    ("dl_vlan=7", "dl_vlan=7"),
    ("dl_vlan_pcp=3", "dl_vlan_pcp=3"),
    ("dl_vlan=7,vlan_pcp=0", "dl_vlan=7,dl_vlan_pcp=0"),
    ("vlan_vid=0x1000/0x1000", "vlan_tci=0x1000/0x1000"),
    ("vlan_vid=0", "vlan_tci=0x0000/0x1fff"),
    ("vlan_vid=0x1003/0x1003", "vlan_tci=0x1003/0x1003"),
    ("vlan_tci=0xf123/0x1fff", "dl_vlan=291"),
    ("dl_src=01:00:00:00:00:00/01:00:00:00:00:00", "dl_src=01:00:00:00:00:00/01:00:00:00:00:00"),
    ("eth_dst=A:b:0:0:0:1", "dl_dst=0a:0b:00:00:00:01"),
    ("ip,nw_tos=252,ip_ecn=1", "ip,nw_tos=252,nw_ecn=1"),
    ("ip,ip_dscp=63", "ip,nw_tos=252"),
    ("ip,ip_frag=NOT_LATER", "ip,nw_frag=not_later"),
    ("tcp,tp_src=80,tcp_dst=0x50/0xfff0", "tcp,tp_src=80,tp_dst=0x50/0xfff0"),
    ("udp6,tp_dst=010", "udp6,tp_dst=8"),
    ("tcp,tcp_flags=+syn-ack", "tcp,tcp_flags=+syn-ack"),
    ("tcp,tcp_flags=0x012/0x0ff", "tcp,tcp_flags=-fin+syn-rst-psh+ack-urg-ece-cwr"),
    ("tcp,tcp_flags=syn|ack", "tcp,tcp_flags=syn|ack"),
    ("icmp,icmp_type=8,icmp_code=0", "icmp,icmp_type=8,icmp_code=0"),
    ("icmp,tp_src=8", "icmp,icmp_type=8"),
    (
        "icmp6,icmpv6_type=136,nd_target=::1,nd_tll=00:00:00:00:00:02",
        "icmp6,icmp_type=136,nd_target=::1,nd_tll=00:00:00:00:00:02",
    ),
    ("ct_state=+trk+est-new", "ct_state=-new+est+trk"),
    ("ct_state=0x21/0x23,ct_zone=0x10,ct_mark=1/0xf", "ct_state=+new-est+trk,ct_zone=16,ct_mark=0x1/0xf"),
    ("ct_label=0x1/0x3", "ct_label=0x1/0x3"),
    ("reg0=0/7,reg1=7", "reg0=0/0x7,reg1=0x7"),
    ("xreg0=0x100000002", "reg0=0x1,reg1=0x2"),
    ("reg0[0..3]=5,reg0[8]=1", "reg0=0x105/0x10f"),
    ("tunnel_id=5,metadata=0x10/0xf0", "tun_id=0x5,metadata=0x10/0xf0"),
    ("in_port=LOCAL", "in_port=LOCAL"),
    ("in_port=65534", "in_port=LOCAL"),
    ("in_port=4294967294", "in_port=LOCAL"),
    ("in_port=1", "in_port=uplink"),
    ("in_port=\"vm 2\"", "in_port=\"vm 2\""),
    ("in_port=9", "in_port=9"),
    ("mpls,mpls_label=5,mpls_bos=1", "mpls,mpls_label=5,mpls_bos=1"),
    ("dl_type=0x88e7,pbb_isid=0x10/0xff", "dl_type=0x88e7,pbb_isid=0x10/0xff"),
    ("ipv6,ipv6_exthdr=0x1/0x1", "ipv6,ipv6_exthdr=0x1/0x1"),
    ("sf_stage=1,sf_action=noop,sf_metadata=1/0xff", "sf_stage=1,sf_action=noop,sf_metadata=0x1/0xff"),
    ("sf_action=2", "sf_action=noop"),
    ("eth,reg3=1", "reg3=0x1"),
    ("tcp\ttp_dst=1 , , in_port=3", "tcp,in_port=3,tp_dst=1"),
];

#[test]
fn matches_are_printed_in_the_order_and_the_words_of_ovs() {
    for (text, printed) in MATCHES {
        let read = parse_match(text, &names()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(&match_text(&read, &names()), printed, "{text}");
        assert_eq!(parse_match(printed, &names()).as_ref(), Ok(&read), "{printed}");
    }
}

#[test]
fn a_match_demands_the_bits_its_words_say() {
    let exact = u128::MAX;
    let cases: &[(&str, &[Demand])] = &[
        ("dl_vlan=0xffff", &[(Field::VlanTci, 0, exact)]),
        ("dl_vlan=5", &[(Field::VlanTci, 0x1005, 0x1fff)]),
        ("ip,ip_dscp=3", &[(Field::EthType, 0x800, exact), (Field::NwTos, 3, exact)]),
        ("ip,nw_tos=12", &[(Field::EthType, 0x800, exact), (Field::NwTos, 3, exact)]),
        ("arp,nw_proto=2", &[(Field::EthType, 0x806, exact), (Field::ArpOp, 2, exact)]),
        (
            "icmp,icmp_type=8",
            &[(Field::EthType, 0x800, exact), (Field::NwProto, 1, exact), (Field::IcmpType, 8, exact)],
        ),
        (
            "udp,tp_src=53",
            &[(Field::EthType, 0x800, exact), (Field::NwProto, 17, exact), (Field::UdpSrc, 53, exact)],
        ),
        // What is said last counts.
        ("reg0=1/1,reg0=2/2", &[(Field::Reg0, 2, 2)]),
        ("in_port=1,in_port=2", &[(Field::InPort, 2, exact)]),
        ("sf_stage=1/3", &[(Field::SfStage, 1, 3)]),
    ];
    for (text, demands) in cases {
        assert_eq!(parse_match(text, &names()), Ok(matching(demands)), "{text}");
    }
}

/// Actions as they are written behind a match, and as they are printed.
const ACTIONS: &[(&str, &str, &str)] = &[
    ("", "drop", "drop"),
    ("", "", "drop"),
    ("", "1,2,9", "output:uplink,output:\"vm 2\",output:9"),
    ("", "uplink,output:\"vm 2\"", "output:uplink,output:\"vm 2\""),
    ("", "in_port,ALL,Flood,normal,local", "IN_PORT,ALL,FLOOD,NORMAL,LOCAL"),
    ("", "controller,controller:128,output:controller", "CONTROLLER:65535,CONTROLLER:128,CONTROLLER:65535"),
    (
        "",
        "controller(max_len=9,reason=no_match,id=7,userdata=0a0b)",
        "controller(reason=no_match,max_len=9,id=7,userdata=0a.0b)",
    ),
    ("", "controller(max_len=9)", "CONTROLLER:9"),
    ("", "output:reg0[0..15],output:NXM_NX_REG0[]", "output:NXM_NX_REG0[0..15],output:NXM_NX_REG0[]"),
    ("", "group:7,meter:3", "group:7,meter:3"),
    ("", "conjunction( 7 , 1/2 ),conjunction(0x10,64/64)", "conjunction(7,1/2),conjunction(16,64/64)"),
    ("", "conjunction(7,2/2),note:01", "conjunction(7,2/2),note:01"),
    ("", "meter:3,1", "meter:3,output:uplink"),
    ("tcp", "mod_tp_src:80,mod_tp_dst:81", "set_field:80->tcp_src,set_field:81->tcp_dst"),
    ("udp6", "mod_tp_src:80", "set_field:80->udp_src"),
    ("", "mod_tp_src:80", "mod_tp_src:80"),
    (
        "ip",
        "mod_nw_src:1.2.3.4,mod_nw_tos:8,mod_nw_ecn:1,mod_nw_ttl:3",
        "set_field:1.2.3.4->ip_src,set_field:2->ip_dscp,set_field:1->nw_ecn,mod_nw_ttl:3",
    ),
    ("", "mod_nw_src:1.2.3.4,mod_nw_tos:8", "mod_nw_src:1.2.3.4,mod_nw_tos:8"),
    ("ip", "set_field:8->nw_tos", "set_field:2->ip_dscp"),
    ("", "mod_dl_src:0:0:0:0:0:1", "set_field:00:00:00:00:00:01->eth_src"),
    ("", "set_field:5/0xf->reg0,set_field:0x15/0xf->reg0", "set_field:0x5/0xf->reg0,set_field:0x5/0xf->reg0"),
    (
        "",
        "mod_vlan_vid:5,mod_vlan_pcp:1,set_field:0x1006->vlan_vid",
        "mod_vlan_vid:5,mod_vlan_pcp:1,set_field:4102->vlan_vid",
    ),
    ("", "set_field:5->dl_vlan", "mod_vlan_vid:5"),
    ("dl_vlan=1", "set_vlan_vid:5,strip_vlan", "set_field:4101->vlan_vid,pop_vlan"),
    ("", "strip_vlan,push_vlan:0x8100", "pop_vlan,push_vlan:0x8100"),
    (
        "",
        "push_mpls:0x8847,set_mpls_label:3,set_mpls_ttl:2,dec_mpls_ttl,pop_mpls:0x0800,dec_ttl",
        "push_mpls:0x8847,set_field:3->mpls_label,set_mpls_ttl(2),dec_mpls_ttl,pop_mpls:0x0800,dec_ttl",
    ),
    ("", "push_pbb:0x88e7,set_field:5->pbb_isid,pop_pbb", "push_pbb:0x88e7,set_field:0x5->pbb_isid,pop_pbb"),
    ("ip", "dec_ttl(1,2),copy_ttl_out,copy_ttl_in", "dec_ttl(1,2),copy_ttl_out,copy_ttl_in"),
    (
        "",
        "load:5->NXM_NX_REG0[4..7],load:0x1->reg1,load:0->xreg0[]",
        "load:0x5->NXM_NX_REG0[4..7],load:0x1->NXM_NX_REG1[],load:0->OXM_OF_PKT_REG0[]",
    ),
    ("", "load:0->NXM_OF_IN_PORT[]", "load:0->OXM_OF_IN_PORT[]"),
    (
        "",
        "move:NXM_OF_ETH_SRC[]->eth_dst,move:reg0[0..3]->NXM_NX_REG1[4..7]",
        "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],move:NXM_NX_REG0[0..3]->NXM_NX_REG1[4..7]",
    ),
    (
        "",
        "move:NXM_OF_IN_PORT[]->reg0[0..15],move:in_port_oxm[]->reg1[]",
        "move:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15],move:OXM_OF_IN_PORT[]->NXM_NX_REG1[]",
    ),
    (
        "",
        "resubmit:5,resubmit(,3),resubmit(in_port,7),resubmit(1,2)",
        "resubmit:5,resubmit(,acl),resubmit(,7),resubmit(uplink,2)",
    ),
    (
        "",
        "clone(1,set_field:2->reg0),exit,note:01.02",
        "clone(output:uplink,set_field:0x2->reg0),exit,note:01.02",
    ),
    ("", "clone()", "clone(drop)"),
    ("ip", "ct(commit,nat(src=0.0.0.0))", "ct(commit,nat(src))"),
    ("", "set_tunnel:5,set_tunnel64:0x100000000", "set_field:0x5->tun_id,set_field:0x100000000->tun_id"),
    (
        "",
        "softflow:conntrack:0x10,softflow:noop:3,softflow:noop",
        "softflow:conntrack:16,softflow:noop:3,softflow:noop:0",
    ),
    (
        "",
        r#"softflow:noop:7:0x10:"a:b, \"c\" \\",softflow:noop:"web",softflow:2:1:2"#,
        r#"softflow:noop:7:16:"a:b, \"c\" \\",softflow:noop:"web",softflow:noop:1:2"#,
    ),
    (
        "",
        "1,clear_actions,write_actions(2,set_field:1->reg0),write_metadata:5/0xf,goto_table:acl",
        "output:uplink,clear_actions,write_actions(output:\"vm 2\",set_field:0x1->reg0),write_metadata:0x5/0xf,goto_table:acl",
    ),
    ("", "GOTO_TABLE:200", "goto_table:200"),
];

#[test]
fn actions_are_printed_as_open_flow_1_3_has_them() {
    for (matching, text, printed) in ACTIONS {
        let line = format!("{matching} actions={text}");
        let flow = Flow::parse(&line, &names()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(&flow.instructions.text(&flow.matching, &names()), printed, "{line}");
        assert_eq!(Flow::parse(&flow.text(&names()), &names()).as_ref(), Ok(&flow), "{printed}");
    }
}

/// Lines that are wrong, and what is said of them.
const WRONG: &[(&str, &str)] = &[
    ("tcp", "column 1: `tcp`: there are no actions; end with actions=…, or actions=drop"),
    ("tcp_srd=5 actions=drop", "column 1: `tcp_srd`: no field has this name; did you mean `tcp_src`?"),
    ("tcpp actions=drop", "column 1: `tcpp`: this word means nothing here; did you mean `tcp`?"),
    ("tun_ttl=5 actions=drop", "column 1: `tun_ttl`: Weir has not got this field of Open vSwitch"),
    ("in_port=9,reg0 actions=drop", "column 11: `reg0`: `reg0` has no value; write reg0=VALUE"),
    (
        "ip,nw_tos=7,actions=drop",
        "column 11: `7`: the two low bits of nw_tos must be zero; they are `nw_ecn`; or write `ip_dscp` with the value divided by 4",
    ),
    (
        "ip,nw_src=1.2.3 actions=drop",
        "column 11: `1.2.3`: this is no IPv4 address; write it like 198.18.0.1, with a mask like 198.18.0.0/16",
    ),
    ("ip,nw_src=1.2.3.4/33 actions=drop", "column 19: `33`: a prefix cannot have this length"),
    (
        "dl_vlan=4096 actions=drop",
        "column 9: `4096`: this does not fit into 12 bits; the greatest is 4095 (0xfff)",
    ),
    (
        "priority=65536 actions=drop",
        "column 10: `65536`: this does not fit into 16 bits; the greatest is 65535 (0xffff)",
    ),
    (
        "ip,nw_proto=6/7 actions=drop",
        "column 13: `6/7`: `nw_proto` cannot be matched or set in part; write the value without a mask",
    ),
    (
        "in_port=uplnk actions=drop",
        "column 9: `uplnk`: no port has this name or number; did you mean `uplink`?",
    ),
    ("tcp,tcp_flags=+sin actions=drop", "column 16: `sin`: no flag has this name; did you mean `syn`?"),
    ("table=300 actions=drop", "column 7: `300`: there is no such table; tables are 0 to 254"),
    (
        "table=3 actions=goto_table:3",
        "column 28: `3`: this table does not come after table 3; goto_table only goes on; `resubmit` may go back",
    ),
    ("cookie=1/2 actions=drop", "column 8: `1/2`: a flow that is added has one cookie; leave the mask out"),
    ("out_port=1 actions=drop", "column 1: `out_port=1`: `out_port` has no place in `add`; leave it out"),
    (
        "actions=learn(table=1)",
        "column 9: `learn(table=1)`: action `learn` is not supported: packets make no entries; keep state by ct or a service (softflow:NAME), learn addresses by fail_mode = \"standalone\", or have a controller add entries for packets that it is sent",
    ),
    (
        "actions=1,ct(commit)",
        "column 11: `ct(commit)`: packets of this flow need not be IP; match ip or ipv6 beside it",
    ),
    ("ip,actions=ct(force)", "column 12: `ct(force)`: `force` needs `commit`; write ct(commit,force)"),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.9-10.0.0.1))",
        "column 30: `10.0.0.9-10.0.0.1`: this is no range to translate to; \
         write ADDRESS[-ADDRESS][:PORT[-PORT]], IPv6 with ports as [ADDRESS]:PORT",
    ),
    (
        "ip,actions=ct(commit,nat(src=0.0.0.0:5-6))",
        "column 30: `0.0.0.0:5-6`: the address that is all zero stands for the connection's own; \
         write it alone, without another address or ports; or a range of addresses",
    ),
    (
        "ip,actions=ct(commit,exec(output:1))",
        "column 27: `output:1`: this cannot be done to a connection; \
         within ct(exec(...)) there are set_field, load, move and nat",
    ),
    ("actions=outptu:1", "column 9: `outptu:1`: no action and no port has this name; did you mean `output`?"),
    (
        "actions=output(port=1,max_len=100)",
        "column 9: `output(port=1,max_len=100)`: action `output with max_len` is not supported: packets are not cut; have a controller see their beginning: controller(max_len=N)",
    ),
    ("actions=resubmit(,3,cd)", "column 21: `cd`: action `resubmit` with `cd` is not supported"),
    (
        "actions=controller(pause)",
        "column 20: `pause`: action `controller with pause` is not supported: a packet is not taken up where it stopped; let the controller send it out",
    ),
    ("actions=drop,1", "column 9: `drop`: `drop` must stand alone; leave it or the other actions out"),
    (
        "actions=set_field:1.2.3.4->ip_src",
        "column 9: `set_field:1.2.3.4->ip_src`: packets of this flow need not have `nw_src`; match ip beside it",
    ),
    (
        "ip actions=set_field:80->tcp_src",
        "column 12: `set_field:80->tcp_src`: packets of this flow need not have `tcp_src`; match tcp or tcp6 beside it",
    ),
    ("ip actions=set_field:1->nw_frag", "column 25: `nw_frag`: `nw_frag` cannot be written"),
    (
        "actions=set_field:1->ct_mark",
        "column 22: `ct_mark`: `ct_mark` is only written where connections are tracked; write ct(commit,exec(set_field:VALUE->FIELD))",
    ),
    ("actions=set_field:1", "column 9: `set_field:1`: the arrow is missing; write set_field:VALUE->FIELD"),
    (
        "actions=load:16->reg0[0..3]",
        "column 14: `16`: this does not fit into 4 bits; the greatest is 15 (0xf)",
    ),
    ("actions=load:1->reg0[0..32]", "column 22: `0..32`: `reg0` has no bit 32; its bits are 0 to 31"),
    (
        "actions=move:reg0[]->reg1[0]",
        "column 9: `move:reg0[]->reg1[0]`: 32 bits are moved to 1; name as many bits on either side: FIELD[FIRST..LAST]",
    ),
    ("actions=push_vlan:0x8000", "column 19: `0x8000`: no VLAN tag begins like this; write 0x8100 or 0x88a8"),
    (
        "dl_vlan=1 actions=push_vlan:0x8100,push_vlan:0x8100",
        "column 36: `push_vlan:0x8100`: the packet has two tags here, and can have no third",
    ),
    (
        "actions=goto_table:1,2",
        "column 22: `2`: `2` comes too late or twice; the order is meter, actions, clear_actions, write_actions, write_metadata, goto_table",
    ),
    (
        "actions=write_actions(goto_table:1)",
        "column 23: `goto_table:1`: an instruction cannot be among these actions",
    ),
    ("actions=apply_actions(1)", "column 9: `apply_actions(1)`: this needs no word; write the actions alone"),
    (
        "actions=softflow:contrack:1",
        "column 18: `contrack`: no service has this name; did you mean `conntrack`?",
    ),
    (
        "actions=softflow:noop:1:web",
        "column 25: `web`: this is not a number; arguments of a service are numbers, and texts in quotes: softflow:NAME:7:\"web\"",
    ),
    (
        "actions=softflow:noop:1:2:3:4:5:6:7:8:9",
        "column 9: `softflow:noop:1:2:3:4:5:6:7:8:9`: a service takes 8 arguments at most",
    ),
    ("sf_action=nop actions=drop", "column 11: `nop`: no service has this name; did you mean `noop`?"),
    (
        "actions=conjunction(1,1/2),output:1",
        "column 9: `conjunction(1,1/2),output:1`: `conjunction` can stand beside `note`, but beside no other action or instruction; give what is to be done to an entry that matches conj_id",
    ),
    (
        "actions=conjunction(1,3/2)",
        "column 9: `conjunction(1,3/2)`: clause index must be less than or equal to number of clauses; write conjunction(ID,K/N)",
    ),
    (
        "actions=conjunction(1,1/1)",
        "column 9: `conjunction(1,1/1)`: conjunction must have at least 2 clauses; write conjunction(ID,K/N)",
    ),
    (
        "actions=conjunction(7)",
        "column 9: `conjunction(7)`: `conjunction` needs a number, and which dimension it is of how many; write conjunction(ID,K/N)",
    ),
    ("actions=meter:0", "column 15: `0`: no meter can have this number; meters are 1 to 4294901760"),
    ("actions=note:0", "column 14: `0`: these are no bytes; write two hexadecimal digits a byte: 01.02.ff"),
];

#[test]
fn each_mistake_is_named_with_its_place_and_its_cure() {
    for (line, expected) in WRONG {
        let error = Flow::parse(line, &names()).map(|flow| flow.text(&names())).expect_err(line);
        assert_eq!(error.to_string(), *expected, "{line}");
    }
}

/// What `ovs-ofctl -O OpenFlow15 dump-flows` and `dump-flows --no-stats` printed of one switch.
const DUMP: &str = " cookie=0x0, duration=0.041s, table=0, n_packets=0, n_bytes=0, idle_age=0, icmp6,icmp_type=135,nd_target=::1 actions=write_metadata:0x5/0x7,goto_table:4
 cookie=0x0, duration=0.204s, table=0, n_packets=0, n_bytes=0, idle_age=0, priority=0 actions=NORMAL
 cookie=0x0, duration=0.044s, table=1, n_packets=0, n_bytes=0, idle_age=0, ip,nw_frag=no actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:1
 cookie=0x12, duration=0.048s, table=3, n_packets=0, n_bytes=0, idle_timeout=5, hard_timeout=6, send_flow_rem check_overlap reset_counts no_packet_counts no_byte_counts importance=3, idle_age=0, priority=5,tcp,tp_dst=80 actions=set_field:1.2.3.4->ip_src,output:2";
const WITHOUT_COUNTS: &str = "icmp6,icmp_type=135,nd_target=::1 actions=write_metadata:0x5/0x7,goto_table:4
priority=0 actions=NORMAL
table=1, ip,nw_frag=no actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:1
cookie=0x12, table=3, idle_timeout=5, hard_timeout=6, send_flow_rem check_overlap reset_counts no_packet_counts no_byte_counts importance=3, priority=5,tcp,tp_dst=80 actions=set_field:1.2.3.4->ip_src,output:2";

#[test]
fn a_dump_loads_again_and_is_printed_as_ovs_dumps_it() {
    let changes = parse_flows(DUMP, &Names::default()).expect("a dump is a file of flows");
    let printed: Vec<String> = changes
        .iter()
        .map(|change| match change {
            FlowMod::Add(flow) => flow.text(&Names::default()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(printed.join("\n"), WITHOUT_COUNTS);
}

#[test]
fn a_file_adds_modifies_and_deletes_and_its_comments_say_nothing() {
    let text = "# flows\n\nadd tcp actions=1 # one\n  modify cookie=1/-1,ip actions=2\nmodify_strict priority=7 actions=drop\n\
                delete table=acl,out_port=uplink,out_group=5\ndelete\ndelete_strict,cookie=0x10/0xf0,priority=9,arp\n";
    let file = parse_flow_file(text, &names()).expect("every line is right");
    let texts: Vec<String> = file.changes.iter().map(|change| change.text(&names())).collect();
    let expected = [
        "add tcp actions=output:uplink",
        "modify cookie=0x1/0xffffffffffffffff, ip actions=output:\"vm 2\"",
        "modify_strict priority=7 actions=drop",
        "delete table=acl,out_port=uplink,out_group=5",
        "delete",
        "delete_strict cookie=0x10/0xf0,priority=9,arp",
    ];
    assert_eq!(texts, expected);
    let FlowMod::Modify { select, or_add, .. } = &file.changes[1] else { panic!("{:?}", file.changes[1]) };
    assert!(!or_add && select.strict.is_none() && select.table.is_none());
    let FlowMod::Modify { select, or_add, .. } = &file.changes[2] else { panic!("{:?}", file.changes[2]) };
    assert!(*or_add && select.strict == Some(7));
    assert_eq!(file.changes[4], FlowMod::Delete(Select::default()));
    assert!(file.warnings.is_empty());
}

#[test]
fn all_mistakes_of_a_file_are_told_with_their_lines() {
    let errors = parse_flow_file("ip actions=1\nipp actions=1\n\ndelete actions=1\n", &names())
        .expect_err("two are wrong");
    let expected = "line 2, column 1: `ipp`: this word means nothing here; did you mean `ip`?\n\
                    line 4, column 16: `1`: a deletion takes no actions; leave `actions=` out";
    assert_eq!(errors.to_string(), expected);
}

#[test]
fn what_lacks_its_prerequisite_is_left_out_as_ovs_does_and_warned_of() {
    let file = parse_flow_file("in_port=1 actions=2\ntcp_dst=80,nw_src=1.2.3.4 actions=drop\n", &names());
    let file = file.expect("OVS takes them");
    let FlowMod::Add(flow) = &file.changes[1] else { panic!("{:?}", file.changes[1]) };
    assert_eq!(flow.matching, Match::any());
    let warnings: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "line 2: `ip_src` is left out of the match: it needs ip or arp beside it",
        "line 2: `tcp_dst` is left out of the match: it needs tcp, udp, sctp or icmp beside it",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn commands_read_what_their_like_of_ovs_ofctl_take() {
    let change = FlowMod::parse_as(FlowCommand::DeleteStrict, "tcp,priority=3", &names()).expect("right");
    assert_eq!(change.text(&names()), "delete_strict priority=3,tcp");
    let change = FlowMod::parse_as(FlowCommand::Modify, "cookie=5,tcp actions=1", &names()).expect("right");
    let FlowMod::Modify { flow, cookie, select, or_add } = change else { panic!("it modifies") };
    assert_eq!((flow.cookie, cookie, select.cookie, or_add), (5, Some(5), (0, 0), true));
    for (text, given, select, or_add) in [
        ("tcp actions=1", None, (0, 0), true),
        ("cookie=0,tcp actions=1", Some(0), (0, 0), true),
        ("cookie=0x5/0xf,tcp actions=1", None, (5, 15), false),
        ("cookie=5/15,cookie=7,tcp actions=1", Some(7), (5, 15), false),
    ] {
        let change = FlowMod::parse_as(FlowCommand::Modify, text, &names()).expect("right");
        assert_eq!(FlowMod::parse(&change.text(&names()), &names()).as_ref(), Ok(&change));
        let FlowMod::Modify { cookie, select: whose, or_add: added, .. } = change else { panic!("{text}") };
        assert_eq!((cookie, whose.cookie, added), (given, select, or_add), "{text}");
    }
    assert_eq!(flow.instructions.apply, [Action::Output(PortNo(1))]);
    let error = FlowMod::parse_as(FlowCommand::Delete, "cookie=5", &names()).expect_err("it gives a cookie");
    assert_eq!(error.mend, "to select by cookie write cookie=5/-1");
    let select = Select::parse("table=0,cookie=1/1,out_port=local", &names()).expect("right");
    assert_eq!(select.text(&names()), "cookie=0x1/0x1,table=0,out_port=LOCAL");
}

#[test]
fn mistakes_in_groups_and_meters_are_told_too() {
    let cases = [
        ("type=all", "column 1: `type=all`: the group has no number; write group_id=NUMBER"),
        (
            "group_id=1",
            "column 1: `group_id=1`: the group has no type; write type=all, select, indirect or ff",
        ),
        (
            "group_id=1,type=selekt",
            "column 17: `selekt`: no kind of group has this name; did you mean `select`?",
        ),
        (
            "group_id=1,type=select,selection_method=hash",
            "column 24: `selection_method=hash`: group property `selection_method` is not supported; select groups go by the flow's hash and the weights",
        ),
        (
            "group_id=1,type=all,bucket=weight:5,actions=1",
            "column 28: `weight:5`: only select groups have weights; leave it out",
        ),
        (
            "group_id=1,type=ff,bucket=actions=1",
            "column 27: `actions=1`: nothing says whether this bucket is alive; add watch_port:PORT or watch_group:GROUP",
        ),
        (
            "group_id=1,type=indirect,bucket=1,bucket=2",
            "column 1: `group_id=1,type=indirect,bucket=1,bucket=2`: an indirect group has one bucket; write type=all or select",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Group::parse(text, &names()).expect_err(text).to_string(), expected);
    }
    let cases = [
        (
            "meter=1 kbps",
            "column 1: `meter=1 kbps`: the meter has no bands; end with bands=type=drop rate=RATE",
        ),
        ("meter=1 kbps bands=type=drop", "column 20: `type=drop`: the band has no rate; add rate=RATE"),
    ];
    for (text, expected) in cases {
        assert_eq!(Meter::parse(text).expect_err(text).to_string(), expected);
    }
}

#[test]
fn buckets_without_numbers_get_those_that_are_free() {
    let text = "group_id=1,type=select,bucket=bucket_id:0,weight:100,watch_port:1,actions=output:1,bucket=output:2,bucket=bucket_id=1,drop";
    let group = Group::parse(text, &names()).expect("right");
    let expected = "group_id=1,type=select,bucket=bucket_id:0,weight:100,watch_port:uplink,actions=output:uplink,\
                    bucket=bucket_id:2,actions=output:\"vm 2\",bucket=bucket_id:1,actions=drop";
    assert_eq!(group.text(&names()), expected);
}

#[test]
fn every_action_that_is_refused_stands_in_the_documentation_with_its_reason() {
    let page = std::fs::read_to_string("../../docs/openflow.md").expect("the page is in the repository");
    for Unsupported { word, why, instead } in UNSUPPORTED {
        let row = format!("| `{word}` | {why} | {instead} |");
        assert!(page.contains(&row), "docs/openflow.md lacks: {row}");
    }
}

//! Random lines of flows, in every spelling that `ovs-ofctl` reads.

pub(crate) use weir_testkit::Dice;

/// A value of so many bits, often a small one.
fn drawn(dice: &mut Dice, bits: u32) -> u128 {
    let wide = u128::from(dice.next()) << 64 | u128::from(dice.next());
    let value = if dice.percent(30) { wide & 7 } else { wide };
    if bits == 128 { value } else { value & ((1 << bits) - 1) }
}

/// A line and how it may be checked.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Open vSwitch takes it only in OpenFlow 1.0.
    pub(crate) old: bool,
    /// It has fields whose prerequisites are not there.
    pub(crate) stray: bool,
}

/// What a line matches, so that its actions can fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Ip,
    Ipv6,
    Arp,
    Mpls,
    Other,
}

struct Context {
    kind: Kind,
    protocol: u8,
    tagged: bool,
    icmp_type: Option<u8>,
    /// In an action set or a clone.
    nested: bool,
    /// The state of the connection is matched.
    stateful: bool,
}

fn mac(dice: &mut Dice) -> String {
    let [_, _, a, b, c, d, e, f] = dice.next().to_be_bytes();
    if dice.percent(80) {
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    } else {
        format!("{a:X}:{b:x}:{c:02X}:{d:x}:{e:x}:0")
    }
}

fn ipv4(dice: &mut Dice) -> String {
    std::net::Ipv4Addr::from_bits(dice.next() as u32).to_string()
}

fn ipv6(dice: &mut Dice) -> String {
    let value = drawn(dice, 128);
    let value = if dice.percent(40) { value & 0xffff_0000_ffff_u128 << 64 } else { value };
    std::net::Ipv6Addr::from_bits(value).to_string()
}

fn number(dice: &mut Dice, bits: u32) -> String {
    let value = drawn(dice, bits);
    if bits > 64 || dice.percent(50) {
        if dice.percent(20) { format!("0X{value:X}") } else { format!("{value:#x}") }
    } else {
        value.to_string()
    }
}

fn masked(dice: &mut Dice, one: impl Fn(&mut Dice) -> String) -> String {
    let value = one(dice);
    if dice.percent(40) { format!("{value}/{}", one(dice)) } else { value }
}

fn ipv4_masked(dice: &mut Dice) -> String {
    let value = ipv4(dice);
    match dice.below(3) {
        0 => format!("{value}/{}", dice.below(33)),
        _ if dice.percent(30) => format!("{value}/{}", ipv4(dice)),
        _ => value,
    }
}

fn ipv6_masked(dice: &mut Dice) -> String {
    let value = ipv6(dice);
    match dice.below(3) {
        0 => format!("{value}/{}", dice.below(129)),
        // Open vSwitch takes the first digits of a mask for a prefix, and then stumbles.
        _ if dice.percent(30) => {
            let mask = drawn(dice, 128) | 0xf000 << 112;
            format!("{value}/{}", std::net::Ipv6Addr::from_bits(mask))
        }
        _ => value,
    }
}

fn flags(dice: &mut Dice, names: &[&str], bits: u32) -> String {
    match dice.below(4) {
        0 => format!("{:#x}/{:#x}", drawn(dice, bits), drawn(dice, bits)),
        1 => {
            let chosen: Vec<&str> = names.iter().copied().filter(|_| dice.percent(30)).collect();
            if chosen.is_empty() { "0".to_owned() } else { chosen.join("|") }
        }
        _ => {
            let mut out = String::new();
            for name in names.iter().filter(|_| dice.percent(30)).collect::<Vec<_>>() {
                out.push_str(if dice.percent(50) { "+" } else { "-" });
                out.push_str(name);
            }
            if out.is_empty() { format!("+{}", names[0]) } else { out }
        }
    }
}

fn port(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => dice.pick(&["local", "LOCAL", "controller"]).to_owned(),
        _ => dice.below(0xff00).to_string(),
    }
}

fn general_field(dice: &mut Dice) -> String {
    match dice.below(22) {
        0 => format!("in_port={}", port(dice)),
        1 => format!("metadata={}", masked(dice, |d| number(d, 64))),
        2 => format!("{}={}", dice.pick(&["tun_id", "tunnel_id"]), masked(dice, |d| number(d, 64))),
        3 => format!("tun_src={}", ipv4_masked(dice)),
        4 => format!("tun_dst={}", ipv4_masked(dice)),
        5 => format!("pkt_mark={}", masked(dice, |d| number(d, 32))),
        6 => format!("conj_id={}", number(dice, 32)),
        7 => format!("reg{}={}", dice.below(16), masked(dice, |d| number(d, 32))),
        8 => format!("xreg{}={}", dice.below(8), masked(dice, |d| number(d, 64))),
        9 => format!("xxreg{}={}", dice.below(4), masked(dice, |d| number(d, 128))),
        10 => format!("{}={}", dice.pick(&["dl_src", "eth_src"]), masked(dice, mac)),
        11 => format!("{}={}", dice.pick(&["dl_dst", "eth_dst"]), masked(dice, mac)),
        12 => {
            let names = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
            format!("ct_state={}", flags(dice, &names, 8))
        }
        13 => format!("ct_zone={}", number(dice, 16)),
        14 => format!("ct_mark={}", masked(dice, |d| number(d, 32))),
        15 => format!("ct_label={}", masked(dice, |d| number(d, 128))),
        16 => format!("ct_nw_src={},ct_nw_proto={}", ipv4_masked(dice), number(dice, 8)),
        17 => format!("ct_nw_proto=6,ct_tp_src={}", masked(dice, |d| number(d, 16))),
        18 => format!("ct_ipv6_dst={}", ipv6_masked(dice)),
        19 => format!("reg{}[{}..{}]={}", dice.below(16), dice.below(4), 4 + dice.below(28), dice.below(2)),
        20 => format!("actset_output={}", dice.below(0xff00)),
        _ => format!("in_port_oxm={}", port(dice)),
    }
}

fn tag(dice: &mut Dice) -> (String, bool) {
    match dice.below(9) {
        0 => ("dl_vlan=0xffff".to_owned(), false),
        1 => (format!("dl_vlan={}", dice.below(4096)), true),
        2 => (format!("dl_vlan={},dl_vlan_pcp={}", dice.below(4096), dice.below(8)), true),
        3 => (format!("vlan_pcp={}", dice.below(8)), true),
        4 => ("vlan_vid=0x1000/0x1000".to_owned(), true),
        5 => (format!("vlan_vid={}", 0x1000 + dice.below(4096)), true),
        6 => (format!("vlan_vid={:#x}/{:#x}", 0x1000 + dice.below(4096), 0x1000 + dice.below(4096)), true),
        7 => (format!("vlan_tci={:#x}/{:#x}", 0x1000 | dice.below(65536), 0x1000 | dice.below(65536)), true),
        _ => ("vlan_tci=0".to_owned(), false),
    }
}

/// The words of a protocol and those fields it makes possible.
fn protocol(dice: &mut Dice, words: &mut Vec<String>) -> Context {
    let mut context = Context {
        kind: Kind::Any,
        protocol: 0,
        tagged: false,
        icmp_type: None,
        nested: false,
        stateful: false,
    };
    let choice = dice.below(16);
    let (kind, protocol, spellings): (Kind, u8, &[&str]) = match choice {
        0 | 1 => (Kind::Any, 0, &[]),
        2 => (Kind::Ip, 0, &["ip", "ipv4", "dl_type=0x800", "eth_type=2048"]),
        3 | 4 => (Kind::Ip, 6, &["tcp", "ip,nw_proto=6", "ip_proto=6,ip", "dl_type=0x0800,nw_proto=0x6"]),
        5 => (Kind::Ip, 17, &["udp", "ip,nw_proto=17"]),
        6 => (Kind::Ip, 132, &["sctp", "ip,nw_proto=132"]),
        7 => (Kind::Ip, 1, &["icmp", "ip,ip_proto=1"]),
        8 => (Kind::Ip, 47, &["ip,nw_proto=47"]),
        9 => (Kind::Ipv6, 0, &["ipv6", "ip6", "dl_type=0x86dd"]),
        10 => (Kind::Ipv6, 6, &["tcp6", "ipv6,nw_proto=6"]),
        11 => (Kind::Ipv6, 17, &["udp6"]),
        12 => (Kind::Ipv6, 58, &["icmp6", "ipv6,nw_proto=58"]),
        13 => (Kind::Arp, 0, &["arp", "rarp", "dl_type=0x806"]),
        14 => (Kind::Mpls, 0, &["mpls", "mplsm", "dl_type=0x8847"]),
        _ => (Kind::Other, 0, &["dl_type=0x1234", "dl_type=0x88cc"]),
    };
    (context.kind, context.protocol) = (kind, protocol);
    if !spellings.is_empty() {
        words.extend(dice.pick(spellings).split(',').map(str::to_owned));
    }
    match kind {
        Kind::Ip => {
            if dice.percent(40) {
                words.push(format!("{}={}", dice.pick(&["nw_src", "ip_src"]), ipv4_masked(dice)));
            }
            if dice.percent(40) {
                words.push(format!("{}={}", dice.pick(&["nw_dst", "ip_dst"]), ipv4_masked(dice)));
            }
        }
        Kind::Ipv6 => {
            if dice.percent(40) {
                words.push(format!("ipv6_src={}", ipv6_masked(dice)));
            }
            if dice.percent(40) {
                words.push(format!("ipv6_dst={}", ipv6_masked(dice)));
            }
            if dice.percent(20) {
                words.push(format!("ipv6_label={}", masked(dice, |d| number(d, 20))));
            }
        }
        Kind::Arp => arp_fields(dice, words),
        Kind::Mpls => {
            let fields = [("mpls_label", 20), ("mpls_tc", 3), ("mpls_bos", 1), ("mpls_ttl", 8)];
            for (field, bits) in fields.into_iter().filter(|_| dice.percent(50)).collect::<Vec<_>>() {
                words.push(format!("{field}={}", number(dice, bits)));
            }
        }
        Kind::Any | Kind::Other => {}
    }
    if matches!(kind, Kind::Ip | Kind::Ipv6) {
        ip_fields(dice, words, &mut context);
    }
    context
}

fn arp_fields(dice: &mut Dice, words: &mut Vec<String>) {
    if dice.percent(50) {
        words.push(format!("{}={}", dice.pick(&["arp_op", "nw_proto"]), dice.below(256)));
    }
    if dice.percent(50) {
        words.push(format!("{}={}", dice.pick(&["arp_spa", "nw_src"]), ipv4_masked(dice)));
    }
    if dice.percent(30) {
        words.push(format!("arp_tpa={}", ipv4_masked(dice)));
    }
    if dice.percent(30) {
        words.push(format!("arp_sha={}", masked(dice, mac)));
    }
    if dice.percent(30) {
        words.push(format!("arp_tha={}", masked(dice, mac)));
    }
}

fn ip_fields(dice: &mut Dice, words: &mut Vec<String>, context: &mut Context) {
    if dice.percent(20) {
        words.push(match dice.below(2) {
            0 => format!("nw_tos={}", dice.below(64) * 4),
            _ => format!("ip_dscp={}", number(dice, 6)),
        });
    }
    if dice.percent(20) {
        words.push(format!("{}={}", dice.pick(&["nw_ecn", "ip_ecn"]), dice.below(4)));
    }
    if dice.percent(20) {
        words.push(format!("nw_ttl={}", number(dice, 8)));
    }
    let mut later = false;
    if dice.percent(20) {
        let word = dice.pick(&["no", "yes", "first", "later", "not_later", "NO"]);
        later = word == "later";
        words.push(format!("{}={word}", dice.pick(&["nw_frag", "ip_frag"])));
    }
    let name = match (context.kind, context.protocol) {
        (_, 6) => ["tcp", "tp"],
        (_, 17) => ["udp", "tp"],
        (_, 132) => ["sctp", "tp"],
        (Kind::Ip, 1) | (Kind::Ipv6, 58) => return icmp_fields(dice, words, context),
        _ => return,
    };
    for side in ["src", "dst"] {
        if dice.percent(50) {
            words.push(format!("{}_{side}={}", dice.pick(&name), masked(dice, |d| number(d, 16))));
        }
    }
    if context.protocol == 6 && dice.percent(30) {
        let names = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];
        words.push(format!("tcp_flags={}", flags(dice, &names, 12)));
    }
    if later {
        context.protocol = 0;
    }
}

fn icmp_fields(dice: &mut Dice, words: &mut Vec<String>, context: &mut Context) {
    let six = context.kind == Kind::Ipv6;
    let name = if six { ["icmpv6_type", "icmp_type"] } else { ["icmp_type", "tp_src"] };
    if dice.percent(70) {
        let kind = if six && dice.percent(60) { 135 + dice.below(2) } else { dice.below(256) };
        words.push(format!("{}={kind}", dice.pick(&name)));
        context.icmp_type = Some(kind as u8);
    }
    if dice.percent(30) {
        words.push(format!("{}=0", if six { "icmpv6_code" } else { "icmp_code" }));
    }
    if six && matches!(context.icmp_type, Some(135 | 136)) {
        if dice.percent(50) {
            words.push(format!("nd_target={}", ipv6_masked(dice)));
        }
        if dice.percent(50) {
            let name = if context.icmp_type == Some(135) { "nd_sll" } else { "nd_tll" };
            words.push(format!("{name}={}", masked(dice, mac)));
        }
    }
}

fn subfield(dice: &mut Dice, bits: u64) -> String {
    let name = dice.below(16);
    let name = dice.pick(&["NXM_NX_REG", "reg"]).to_owned() + &name.to_string();
    let first = dice.below(33 - bits);
    match bits {
        32 if dice.percent(60) => format!("{name}[]"),
        1 => format!("{name}[{first}]"),
        _ => format!("{name}[{first}..{}]", first + bits - 1),
    }
}

/// An action that any packet allows.
fn plain_action(dice: &mut Dice, context: &Context) -> String {
    match dice.below(32) {
        0 => format!("output:{}", port(dice)),
        1 => dice.below(0xff00).to_string(),
        2 => dice.pick(&["in_port", "ALL", "flood", "normal", "LOCAL", "controller", "TABLE"]).to_owned(),
        3 => format!("controller:{}", dice.below(65536)),
        4 => format!(
            "controller(max_len={},reason={},id={})",
            dice.below(65536),
            dice.pick(&["no_match", "action", "invalid_ttl"]),
            dice.below(65536)
        ),
        5 => format!("controller(userdata=0{}.ff.{:02x})", dice.below(10), dice.below(256)),
        6 => {
            let bits = 1 + dice.below(32);
            format!("output:{}", subfield(dice, bits))
        }
        7 => format!("group:{}", number(dice, 31)),
        8 => format!("set_field:{}->reg{}", masked_inside(dice, 32), dice.below(16)),
        9 => format!("set_field:{}->xreg{}", masked_inside(dice, 64), dice.below(8)),
        10 => format!("set_field:{}->metadata", masked_inside(dice, 64)),
        11 => format!("set_field:{}->{}", mac(dice), dice.pick(&["eth_src", "eth_dst", "dl_src", "dl_dst"])),
        12 => format!("{}:{}", dice.pick(&["mod_dl_src", "mod_dl_dst"]), mac(dice)),
        13 => format!("set_field:{}->tun_id", number(dice, 64)),
        14 => {
            let bits = 1 + dice.below(32);
            let value = number(dice, bits as u32);
            format!("load:{value}->{}", subfield(dice, bits))
        }
        15 => {
            let bits = 1 + dice.below(32);
            format!("move:{}->{}", subfield(dice, bits), subfield(dice, bits))
        }
        16 => format!("move:NXM_OF_ETH_SRC[]->{}", dice.pick(&["NXM_OF_ETH_DST[]", "eth_dst[]", "dl_dst"])),
        17 => format!("load:{}->{}", number(dice, 48), dice.pick(&["NXM_OF_ETH_DST[]", "OXM_OF_ETH_SRC[]"])),
        18 => format!("resubmit:{}", dice.below(0xff00)),
        19 => format!("resubmit({},{})", dice.pick(&["", "1", "in_port", "local"]), dice.below(254)),
        20 => format!("note:{:02x}.{:02x}.00.01.02.03", dice.below(256), dice.below(256)),
        21 => format!("set_field:{}->tun_dst", ipv4(dice)),
        22 => format!("load:{}->NXM_NX_TUN_ID[]", number(dice, 64)),
        23 => "move:in_port[]->NXM_NX_REG3[0..15]".to_owned(),
        24 if !context.nested => {
            let inside = Context { nested: true, ..*context };
            format!("clone({})", list(dice, &inside, 3))
        }
        25 => format!("move:OXM_OF_METADATA[0..31]->xxreg1[{}..{}]", 32, 63),
        26 => format!("set_field:{}->pkt_mark", masked_inside(dice, 32)),
        27 => "move:NXM_NX_CT_STATE[0..7]->reg5[8..15]".to_owned(),
        28 => format!("set_field:{}->xxreg{}", masked_inside(dice, 128), dice.below(4)),
        29 => "ct_clear".to_owned(),
        30 | 31 if matches!(context.kind, Kind::Ip | Kind::Ipv6) => ct(dice, context),
        _ => format!("output:{}", dice.below(64)),
    }
}

/// Connection tracking, in the order in which `ovs-ofctl` prints it or in another.
fn ct(dice: &mut Dice, context: &Context) -> String {
    let mut words = Vec::new();
    let commit = !context.stateful && dice.percent(60);
    if commit {
        words.push("commit".to_owned());
        let ports = |dice: &mut Dice| {
            let low = 1 + dice.below(60_000);
            if dice.percent(50) { format!("{low}-{}", low + dice.below(5000)) } else { low.to_string() }
        };
        let (low, high) = (1 + dice.below(100), 100 + dice.below(100));
        let range = match (context.kind == Kind::Ip, dice.below(3)) {
            (true, 0) => format!("10.0.0.{low}"),
            (true, 1) => format!("10.0.0.{low}-10.0.0.{high}"),
            (true, _) => format!("10.0.0.{low}-10.0.0.{high}:{}", ports(dice)),
            (false, 0) => format!("2001:db8::{low}"),
            (false, 1) => format!("2001:db8::{low}-2001:db8::{high}"),
            (false, _) => format!("[2001:db8::{low}]-[2001:db8::{high}]:{}", ports(dice)),
        };
        let how = dice.pick(&["", ",random", ",hash", ",persistent", ",hash,persistent"]);
        match dice.below(4) {
            0 => words.push(format!("nat(src={range}{how})")),
            1 => words.push(format!("nat(dst={range}{how})")),
            2 => words.push(dice.pick(&["nat(src)", "nat(dst)", "nat", "force"]).to_owned()),
            _ => {}
        }
        if dice.percent(40) {
            let sets = [
                "set_field:5->ct_mark",
                "set_field:0x10/0xf0->ct_label,load:7->NXM_NX_CT_MARK[0..7]",
                "move:NXM_NX_REG0[]->NXM_NX_CT_MARK[]",
                "",
            ];
            words.push(format!("exec({})", dice.pick(&sets)));
        }
        if context.protocol == 6 && dice.percent(30) {
            words.push("alg=ftp".to_owned());
        }
    } else if dice.percent(40) {
        words.push("nat".to_owned());
    }
    if dice.percent(50) {
        words.push(format!("table={}", dice.below(255)));
    }
    match dice.below(4) {
        0 => words.push(format!("zone={}", dice.below(65_536))),
        1 => words.push("zone=NXM_NX_REG3[0..15]".to_owned()),
        2 => words.push("zone=reg1[16..31]".to_owned()),
        _ => {}
    }
    if words.len() > 1 && dice.percent(50) {
        words.rotate_left(1);
    }
    format!("ct({})", words.join(","))
}

/// A value within its mask, as a switch demands it.
fn masked_inside(dice: &mut Dice, bits: u32) -> String {
    let (value, mask) = (drawn(dice, bits), drawn(dice, bits));
    if dice.percent(40) && mask != 0 {
        format!("{:#x}/{mask:#x}", value & mask)
    } else {
        format!("{value:#x}")
    }
}

/// An action that only some packets allow, those of this context.
fn fitting_action(dice: &mut Dice, context: &Context) -> Option<String> {
    let ip = matches!(context.kind, Kind::Ip | Kind::Ipv6);
    let name = match context.protocol {
        _ if !ip => "",
        6 => "tcp",
        17 => "udp",
        132 => "sctp",
        _ => "",
    };
    Some(match dice.below(17) {
        0 if context.kind == Kind::Ip => {
            format!("set_field:{}->{}", ipv4(dice), dice.pick(&["ip_src", "nw_dst"]))
        }
        1 if context.kind == Kind::Ip => {
            format!("{}:{}", dice.pick(&["mod_nw_src", "mod_nw_dst"]), ipv4(dice))
        }
        2 if ip => format!("mod_nw_tos:{}", dice.below(64) * 4),
        3 if ip => format!("{}:{}", dice.pick(&["mod_nw_ecn", "mod_nw_ttl", "set_nw_ttl"]), dice.below(4)),
        4 if ip => dice.pick(&["dec_ttl", "dec_ttl(1,2)", "dec_ttl(65535)"]).to_owned(),
        5 if ip => format!("set_field:{}->ip_dscp", dice.below(64)),
        6 if ip => "move:NXM_NX_IP_TTL[]->NXM_NX_REG2[8..15]".to_owned(),
        7 if context.kind == Kind::Ipv6 => format!("set_field:{}->ipv6_src", ipv6(dice)),
        8 if !name.is_empty() => format!("set_field:{}->{name}_dst", number(dice, 16)),
        9 if !name.is_empty() => format!("{}:{}", dice.pick(&["mod_tp_src", "mod_tp_dst"]), number(dice, 16)),
        10 if name == "tcp" => "move:NXM_OF_TCP_SRC[]->OXM_OF_TCP_DST[]".to_owned(),
        11 if context.kind == Kind::Arp => format!("set_field:{}->arp_spa", ipv4(dice)),
        12 if context.kind == Kind::Arp => "load:2->NXM_OF_ARP_OP[]".to_owned(),
        13 if context.kind == Kind::Mpls => format!("set_field:{}->mpls_label", number(dice, 20)),
        14 if context.kind == Kind::Mpls => {
            let action = dice.pick(&["set_mpls_label", "set_mpls_tc", "set_mpls_ttl", "dec_mpls_ttl"]);
            format!("{action}({})", dice.below(8))
        }
        15 if context.tagged => format!("set_field:{}->vlan_vid", 4096 + dice.below(4096)),
        16 if context.tagged => format!("set_field:{}->vlan_pcp", dice.below(8)),
        _ => return None,
    })
}

fn list(dice: &mut Dice, context: &Context, most: u64) -> String {
    let mut out = Vec::new();
    for _ in 0..1 + dice.below(most) {
        let fitting = if dice.percent(50) { fitting_action(dice, context) } else { None };
        out.push(fitting.unwrap_or_else(|| plain_action(dice, context)));
    }
    out.join(",")
}

/// Actions at the end that change what the packet is.
fn reshaping(dice: &mut Dice, context: &Context) -> Option<String> {
    Some(match dice.below(6) {
        0 => "push_vlan:0x8100,set_field:4100->vlan_vid".to_owned(),
        1 if context.tagged => dice.pick(&["strip_vlan", "pop_vlan", "pop_vlan,push_vlan:0x88a8"]).to_owned(),
        2 if context.tagged => format!("mod_vlan_vid:{},mod_vlan_pcp:{}", dice.below(4096), dice.below(8)),
        3 => "push_mpls:0x8847,set_field:5->mpls_label".to_owned(),
        4 if context.kind == Kind::Mpls => "pop_mpls:0x0800".to_owned(),
        5 if context.kind == Kind::Mpls => "pop_mpls:0x800,dec_ttl".to_owned(),
        _ => return None,
    })
}

fn instructions(dice: &mut Dice, context: &Context, table: u64) -> String {
    let (mut out, mut reshaped) = (Vec::new(), false);
    if dice.percent(10) {
        out.push(format!("meter:{}", 1 + dice.below(1000)));
    }
    if dice.percent(85) {
        out.push(list(dice, context, 5));
        let last = if dice.percent(30) { reshaping(dice, context) } else { None };
        reshaped = last.is_some();
        out.extend(last);
    }
    if dice.percent(8) {
        out.push("clear_actions".to_owned());
    }
    if dice.percent(15) {
        let kind = if reshaped { Kind::Any } else { context.kind };
        let tagged = context.tagged && !reshaped;
        let inside = Context { nested: true, kind, tagged, ..*context };
        out.push(format!("write_actions({})", list(dice, &inside, 3)));
    }
    if dice.percent(10) {
        out.push(format!("write_metadata:{}", masked_inside(dice, 64)));
    }
    if dice.percent(20) && table < 253 {
        out.push(format!("goto_table:{}", table + 1 + dice.below(254 - table)));
    }
    if out.is_empty() { "drop".to_owned() } else { out.join(",") }
}

/// Words that OpenFlow 1.0 lets pass without their prerequisites.
fn old_actions(dice: &mut Dice) -> String {
    let all =
        ["strip_vlan", "mod_nw_src:1.2.3.4", "mod_nw_tos:8", "mod_tp_src:80", "dec_ttl", "mod_nw_ttl:3"];
    let mut out = vec![dice.pick(&all).to_owned()];
    if dice.percent(50) {
        out.push(dice.pick(&all).to_owned());
    }
    out.push(format!("output:{}", dice.below(100)));
    out.join(",")
}

/// A field that has nothing to do here.
fn stray_field(dice: &mut Dice) -> String {
    let all = ["nw_src=1.2.3.4", "tp_src=80", "ipv6_dst=::1", "nw_ttl=3", "mpls_label=5", "nd_target=::1"];
    dice.pick(&all).to_owned()
}

/// A line of this priority.
pub(crate) fn line(dice: &mut Dice, priority: u64) -> Line {
    let mut words = Vec::new();
    let mut context = protocol(dice, &mut words);
    for _ in 0..dice.below(3) {
        words.push(general_field(dice));
    }
    context.stateful = words.iter().any(|word| word.starts_with("ct_state"));
    if dice.percent(25) {
        let (word, tagged) = tag(dice);
        words.push(word);
        context.tagged = tagged;
    }
    let stray = dice.percent(5);
    if stray {
        words.push(stray_field(dice));
    }
    let old = !stray && context.kind == Kind::Any && !context.tagged && dice.percent(30);
    let table = if !old && dice.percent(40) { dice.below(254) } else { 0 };
    words.push(format!("priority={priority}"));
    if table > 0 {
        words.push(format!("table={table}"));
    }
    for (word, bits) in [("cookie", 64), ("idle_timeout", 16), ("hard_timeout", 16)] {
        if dice.percent(15) {
            words.push(format!("{word}={}", number(dice, bits)));
        }
    }
    for flag in ["send_flow_rem", "check_overlap"] {
        if dice.percent(8) {
            words.push(flag.to_owned());
        }
    }
    for at in (1..words.len()).rev() {
        words.swap(at, dice.below(at as u64 + 1) as usize);
    }
    let gap = dice.pick(&[",", ", ", " ", ",,"]);
    let actions = if old { old_actions(dice) } else { instructions(dice, &context, table) };
    let word = dice.pick(&["actions=", "action="]);
    Line { text: format!("{}{}{word}{actions}", words.join(gap), dice.pick(&[",", " "])), old, stray }
}

//! What is printed is read back as what it was, and no text makes the readers panic.
//!
//! `WEIR_LINES` says how many of each kind are tried, `WEIR_SEED` which; without, 2000 and others each time.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_flow::samples::needed;
use weir_flow::{Field, Form, Match, Subfield, ones};
use weir_openflow::{
    Action, Argument, Arguments, Band, BandKind, Bucket, Conjunction, Flow, FlowFlags, FlowMod, Group,
    GroupId, GroupKind, Instructions, Meter, MeterId, MeterUnit, Names, PortNo, Select, TableId,
    ToController, match_text, parse_flow_file, parse_match,
};

fn names() -> Names {
    let mut names = Names::default();
    for (number, name) in
        ["eth0", "drop", "LOCAL", "a b", "5", "quote\"d,\\", "gr\u{fc}n", "p=1"].iter().enumerate()
    {
        names.add_port(name, PortNo(number as u32 + 1));
    }
    names.add_table("acl", TableId(3));
    names.add_table("7", TableId(4));
    for name in ["noop", "conntrack", "my service", "memory:2"] {
        names.add_service(name);
    }
    names
}

/// Numbers that a text can name: not those of OpenFlow 1.0's reserved ports, nor the ones that stand for
/// nothing.
fn port() -> impl Strategy<Value = PortNo> {
    prop_oneof![1..12_u32, 0..0xff00_u32, 0x1_0000..0xffff_ff00_u32].prop_map(PortNo)
}

fn reserved() -> impl Strategy<Value = PortNo> {
    prop::sample::select(vec![PortNo::IN_PORT, PortNo::ALL, PortNo::FLOOD, PortNo::NORMAL, PortNo::LOCAL])
}

/// What packets of a flow are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Any,
    Ip(u8),
    Ipv6(u8),
    Neighbour(u8),
    Arp,
    Mpls,
    Pbb,
}

fn kind() -> impl Strategy<Value = Kind> {
    let protocol = || prop::sample::select(vec![0, 1, 6, 17, 58, 132, 47]);
    prop_oneof![
        Just(Kind::Any),
        protocol().prop_map(Kind::Ip),
        protocol().prop_map(Kind::Ipv6),
        (135..137_u8).prop_map(Kind::Neighbour),
        Just(Kind::Arp),
        Just(Kind::Mpls),
        Just(Kind::Pbb),
    ]
}

/// Fields that every packet has.
const GENERAL: &[Field] = &[
    Field::InPort,
    Field::Metadata,
    Field::TunId,
    Field::TunSrc,
    Field::TunDst,
    Field::PktMark,
    Field::RecircId,
    Field::ConjId,
    Field::ActsetOutput,
    Field::SfStage,
    Field::SfAction,
    Field::SfMetadata,
    Field::Reg0,
    Field::Reg7,
    Field::Reg15,
    Field::Xreg2,
    Field::Xxreg3,
    Field::EthDst,
    Field::EthSrc,
    Field::VlanTci,
    Field::VlanVid,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtNwProto,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
];

/// What a kind demands, and the fields it makes possible.
fn possible(kind: Kind) -> (Vec<(Field, u128)>, Vec<Field>) {
    let ip = [Field::NwTos, Field::NwEcn, Field::NwTtl, Field::NwFrag];
    let ports = |protocol| match protocol {
        6 => vec![Field::TcpSrc, Field::TcpDst, Field::TcpFlags],
        17 => vec![Field::UdpSrc, Field::UdpDst],
        132 => vec![Field::SctpSrc, Field::SctpDst],
        _ => Vec::new(),
    };
    let mut demands = Vec::new();
    let mut fields = Vec::new();
    let (ether_type, protocol) = match kind {
        Kind::Any => return (demands, fields),
        Kind::Ip(protocol) => {
            fields.extend([Field::NwSrc, Field::NwDst]);
            fields.extend(if protocol == 1 {
                vec![Field::IcmpType, Field::IcmpCode]
            } else {
                ports(protocol)
            });
            fields.extend(ip);
            (0x0800, protocol)
        }
        Kind::Ipv6(protocol) => {
            fields.extend([Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::Ipv6Exthdr]);
            fields.extend(if protocol == 58 { vec![Field::Icmpv6Code] } else { ports(protocol) });
            fields.extend(ip);
            (0x86dd, protocol)
        }
        Kind::Neighbour(kind) => {
            demands.push((Field::Icmpv6Type, u128::from(kind)));
            fields.extend([Field::NdTarget, if kind == 135 { Field::NdSll } else { Field::NdTll }]);
            (0x86dd, 58)
        }
        Kind::Arp => {
            fields.extend([Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha]);
            (0x0806, 0)
        }
        Kind::Mpls => {
            fields.extend([Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl]);
            (0x8847, 0)
        }
        Kind::Pbb => {
            fields.push(Field::PbbIsid);
            (0x88e7, 0)
        }
    };
    demands.push((Field::EthType, ether_type));
    if protocol != 0 {
        demands.push((Field::NwProto, u128::from(protocol)));
    }
    (demands, fields)
}

/// Puts one field into a match, as far as text can say it.
fn demand(matching: &mut Match, field: Field, value: u128, mask: u128) {
    let about = field.about();
    let mask = if about.maskable && mask & 1 != 0 { mask & ones(field.bits()) } else { ones(field.bits()) };
    let value = match about.form {
        Form::Port => [0xffff_fffe, 3, 77, 0x1_0000][value as usize & 3],
        _ => value & mask,
    };
    // Other masks are words for these.
    let fragments = [(0, 3), (1, 3), (3, 3), (1, 1), (0, 2)];
    let (value, mask) = if field == Field::NwFrag { fragments[(value % 5) as usize] } else { (value, mask) };
    if field == Field::VlanVid || matching.field(field).1 == 0 {
        matching.demand(field, value, mask);
    }
}

fn matching(kind: Kind) -> impl Strategy<Value = Match> {
    let (demands, fields) = possible(kind);
    let general = vec((prop::sample::select(GENERAL), any::<u128>(), any::<u128>()), 0..4);
    let own = vec((any::<prop::sample::Index>(), any::<u128>(), any::<u128>()), 0..4);
    (general, own).prop_map(move |(general, own)| {
        let mut matching = Match::any();
        for (field, value) in &demands {
            matching.demand(*field, *value, u128::MAX);
        }
        for (field, value, mask) in general {
            demand(&mut matching, field, value, mask);
        }
        for (place, value, mask) in own.into_iter().filter(|_| !fields.is_empty()) {
            demand(&mut matching, fields[place.index(fields.len())], value, mask);
        }
        matching
    })
}

/// Fields that actions may set of every packet.
const FREE: &[Field] = &[
    Field::Metadata,
    Field::TunId,
    Field::TunSrc,
    Field::PktMark,
    Field::SfMetadata,
    Field::Reg0,
    Field::Reg9,
    Field::Xreg7,
    Field::Xxreg1,
    Field::EthDst,
    Field::EthSrc,
];

fn subfields() -> impl Strategy<Value = (Subfield, Subfield)> {
    let field = || prop::sample::select(FREE);
    (field(), field(), any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(a, b, from_a, from_b, bits)| {
        let most = a.about().bits.min(b.about().bits);
        let bits = bits % most + 1;
        let part = |field: Field, from: u8| {
            let from = from % (field.about().bits - bits + 1);
            Subfield { field, from, bits }
        };
        (part(a, from_a), part(b, from_b))
    })
}

fn controller() -> impl Strategy<Value = Action> {
    (any::<u16>(), 0..3_u16, 0..9_u8, vec(any::<u8>(), 0..4)).prop_map(|(max_len, id, reason, userdata)| {
        Action::Controller(ToController { max_len, id, reason, userdata })
    })
}

/// Fields that older words set where packets need not have them.
fn old_word() -> impl Strategy<Value = Action> {
    let fields = [
        Field::NwSrc,
        Field::NwDst,
        Field::NwTos,
        Field::NwEcn,
        Field::MplsLabel,
        Field::MplsTc,
        Field::VlanPcp,
    ];
    (prop::sample::select(fields.to_vec()), any::<u128>()).prop_map(|(field, value)| {
        let mask = ones(field.bits());
        Action::SetField { field, value: value & mask, mask }
    })
}

fn argument() -> impl Strategy<Value = Argument> {
    let text = "[ -~é]{0,32}".prop_map(|text| Argument::Text(text.into()));
    prop_oneof![any::<u32>().prop_map(Argument::Number), text]
}

fn plain() -> impl Strategy<Value = Action> {
    let set = (prop::sample::select(FREE), any::<u128>(), any::<u128>()).prop_map(|(field, value, mask)| {
        let mask = mask & ones(field.bits()) | 1;
        Action::SetField { field, value: value & mask, mask }
    });
    let load = (subfields(), any::<u128>())
        .prop_map(|((_, to), value)| Action::Load { value: value & ones(u32::from(to.bits)), to });
    let resubmit =
        (option::of(port()), option::of(0..255_u8)).prop_map(|(port, table)| match (port, table) {
            (None, None) => Action::Resubmit { port: Some(PortNo::LOCAL), table: None },
            (port, table) => Action::Resubmit { port, table: table.map(TableId) },
        });
    prop_oneof![
        port().prop_map(Action::Output),
        reserved().prop_map(Action::Output),
        subfields().prop_map(|(part, _)| Action::OutputReg(part)),
        controller(),
        (0..=0xffff_ff00_u32).prop_map(|id| Action::Group(GroupId(id))),
        set,
        load,
        old_word(),
        subfields().prop_map(|(from, to)| Action::Move { from, to }),
        any::<u8>().prop_map(Action::SetMplsTtl),
        any::<u8>().prop_map(Action::SetNwTtl),
        vec(any::<u16>(), 0..3).prop_map(Action::DecTtl),
        prop::sample::select(vec![Action::DecMplsTtl, Action::CopyTtlIn, Action::CopyTtlOut, Action::Exit]),
        resubmit,
        (0..7_u16, any::<u32>()).prop_map(|(service, argument)| Action::Service { service, argument }),
        (0..7_u16, vec(argument(), 0..=Arguments::MOST)).prop_map(|(service, arguments)| Arguments::new(
            arguments
        )
        .unwrap()
        .call(service)),
        vec(any::<u8>(), 0..9).prop_map(Action::Note),
    ]
}

/// Actions that change what a packet is; each list has at most one of them, at its end.
fn reshaping() -> impl Strategy<Value = Action> {
    prop_oneof![
        prop::sample::select(vec![0x8100, 0x88a8]).prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        (0..4096_u16).prop_map(Action::SetVlanVid),
        (0..8_u8).prop_map(Action::SetVlanPcp),
        prop::sample::select(vec![0x8847, 0x8848]).prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        Just(Action::PushPbb(0x88e7)),
        Just(Action::PopPbb),
    ]
}

fn list() -> impl Strategy<Value = Vec<Action>> {
    let meters = (1..=0xffff_0000_u32).prop_map(|id| Action::Meter(MeterId(id)));
    let inner = vec(prop_oneof![4 => plain(), 1 => meters], 0..4).prop_map(Action::Clone);
    (vec(prop_oneof![6 => plain(), 1 => inner], 0..6), option::of(reshaping())).prop_map(
        |(mut list, last)| {
            list.extend(last);
            list
        },
    )
}

fn instructions(table: u8) -> impl Strategy<Value = Instructions> {
    let meter = option::of((1..=0xffff_0000_u32).prop_map(MeterId));
    let goto =
        option::of((table..255).prop_map(TableId)).prop_map(move |next| next.filter(|next| next.0 > table));
    (meter, list(), any::<bool>(), vec(plain(), 0..3), option::of(any::<(u64, u64)>()), goto).prop_map(
        |(meter, apply, clear, write, metadata, goto)| Instructions {
            meter,
            apply,
            clear,
            write,
            metadata,
            goto,
        },
    )
}

/// What only entries of conjunctions have.
fn conjunctions() -> impl Strategy<Value = Instructions> {
    let conjunction = (any::<u32>(), 2..=64_u8, any::<u8>()).prop_map(|(id, dimensions, place)| {
        Action::Conjunction(Conjunction { id, dimension: 1 + place % dimensions, dimensions })
    });
    let note = vec(any::<u8>(), 0..9).prop_map(Action::Note);
    vec(prop_oneof![4 => conjunction, 1 => note], 1..5)
        .prop_map(|apply| Instructions { apply, ..Instructions::default() })
}

fn flow() -> impl Strategy<Value = Flow> {
    let flags = any::<(bool, bool, bool, bool, bool)>().prop_map(|it| FlowFlags {
        send_flow_rem: it.0,
        check_overlap: it.1,
        reset_counts: it.2,
        no_packet_counts: it.3,
        no_byte_counts: it.4,
    });
    let table = 0..254_u8;
    (
        kind().prop_flat_map(matching),
        table.prop_flat_map(|table| {
            (Just(table), prop_oneof![8 => instructions(table).boxed(), 1 => conjunctions().boxed()])
        }),
        flags,
        any::<(u16, u64)>(),
        any::<(u16, u16, u16)>(),
    )
        .prop_map(|(matching, (table, instructions), flags, (priority, cookie), numbers)| Flow {
            table: TableId(table),
            priority,
            matching,
            instructions,
            cookie,
            idle_timeout: numbers.0,
            hard_timeout: numbers.1,
            importance: numbers.2,
            flags,
        })
}

fn select(flow: Flow) -> impl Strategy<Value = Select> {
    (any::<[bool; 2]>(), any::<(u64, u64)>(), option::of(port()), option::of(any::<u16>())).prop_map(
        move |([table, strict], (value, mask), out_port, group)| Select {
            table: table.then_some(flow.table),
            matching: flow.matching.clone(),
            strict: strict.then_some(flow.priority),
            cookie: (value & mask, mask),
            out_port,
            out_group: group.map(|id| GroupId(u32::from(id))),
        },
    )
}

fn group() -> impl Strategy<Value = Group> {
    let kinds = vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let bucket = (any::<u16>(), option::of(port()), option::of(any::<u16>()), list());
    (any::<u16>(), prop::sample::select(kinds), vec(bucket, 0..4)).prop_map(|(id, kind, buckets)| {
        let bucket = |(number, (weight, port, watched, actions)): (u32, Parts)| Bucket {
            id: number,
            weight: if kind == GroupKind::Select { weight } else { 0 },
            watch_port: port.or((kind == GroupKind::FastFailover).then_some(PortNo(1))),
            watch_group: watched.map(|id| GroupId(u32::from(id))),
            actions,
        };
        let most = if kind == GroupKind::Indirect { 1 } else { 4 };
        let buckets = (7_u32..).zip(buckets).map(bucket).take(most).collect();
        Group { id: GroupId(u32::from(id)), kind, buckets }
    })
}

fn meter() -> impl Strategy<Value = Meter> {
    let band = (1..=u32::MAX, 1..=u32::MAX, any::<u8>());
    (1..=0xffff_0000_u32, any::<[bool; 3]>(), vec(band, 1..4)).prop_map(
        |(id, [packets, burst, stats], bands)| {
            let kind = |level| if level == 0 { BandKind::Drop } else { BandKind::DscpRemark(level) };
            Meter {
                id: MeterId(id),
                unit: if packets { MeterUnit::PacketsPerSecond } else { MeterUnit::KilobitsPerSecond },
                burst,
                stats,
                bands: bands
                    .into_iter()
                    .map(|(rate, size, level)| Band {
                        kind: kind(level),
                        rate,
                        burst: if burst { size } else { 0 },
                    })
                    .collect(),
            }
        },
    )
}

/// The parts of a random bucket.
type Parts = (u16, Option<PortNo>, Option<u16>, Vec<Action>);

/// Text that is made of the right words in the wrong way.
fn words() -> impl Strategy<Value = String> {
    let pieces = vec![
        "tcp",
        ",",
        "=",
        "actions=",
        "actions",
        "reg0",
        "[",
        "]",
        "..",
        "->",
        "(",
        ")",
        "\"",
        "\\",
        "/",
        "0x",
        "-1",
        "set_field:",
        "load:",
        "move:",
        "clone(",
        "write_actions(",
        "nw_src=1.2.3.4/",
        "ct_state=+",
        "-",
        "+",
        "|",
        "tcp_flags=",
        "dl_vlan=",
        "resubmit(",
        "group_id=",
        "bucket=",
        "type=",
        "meter=",
        "bands=",
        "softflow:",
        ":",
        "é",
        "#",
        " ",
        "\n",
        "18446744073709551616",
        "controller(",
        "userdata=",
        "note:",
        "drop",
        "delete",
        "cookie=1/2",
        "out_port=",
        "in_port",
        "*",
        "nw_frag=",
        "9",
    ];
    vec(prop::sample::select(pieces), 0..16).prop_map(|pieces| pieces.concat())
}

fn read_everything(text: &str) {
    let names = names();
    let _ = Flow::parse(text, &names).map(|flow| flow.text(&names));
    let _ = FlowMod::parse(text, &names).map(|change| change.text(&names));
    let _ = Select::parse(text, &names).map(|select| select.text(&names));
    let _ = parse_flow_file(text, &names);
    let _ = parse_match(text, &names);
    let _ = Group::parse(text, &names).map(|group| group.text(&names));
    let _ = Meter::parse(text).map(|meter| meter.text());
}

/// How many texts are tried, and which.
fn config() -> ProptestConfig {
    let asked = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
    };
    let cases = asked("WEIR_LINES").map_or(2000, |lines| u32::try_from(lines).unwrap_or(u32::MAX));
    let rng_seed = asked("WEIR_SEED").map_or(RngSeed::Random, RngSeed::Fixed);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_flow_is_read_back_from_its_text(flow in flow()) {
        for names in [Names::default(), names()] {
            let text = flow.text(&names);
            let read = Flow::parse(&text, &names);
            prop_assert!(read.is_ok(), "{}\n{}", read.unwrap_err(), text);
            prop_assert_eq!(read.as_ref(), Ok(&flow), "{}", text);
        }
    }

    #[test]
    fn a_change_is_read_back_from_its_text((flow, select) in flow().prop_flat_map(|flow| (Just(flow.clone()), select(flow)))) {
        let names = names();
        let mut modified = flow.clone();
        modified.importance = 0;
        modified.table = select.table.unwrap_or_default();
        modified.instructions.goto = None;
        let mut whose = select.clone();
        (whose.out_port, whose.out_group) = (None, None);
        let cookie = (modified.cookie % 3 != 0).then_some(modified.cookie);
        modified.cookie = cookie.unwrap_or(0);
        let or_add = whose.cookie.1 == 0;
        let changes = [FlowMod::Add(flow), FlowMod::Delete(select), FlowMod::Modify { flow: modified, cookie, select: whose, or_add }];
        for change in changes {
            let text = change.text(&names);
            let read = FlowMod::parse(&text, &names);
            prop_assert!(read.is_ok(), "{}\n{}", read.unwrap_err(), text);
            prop_assert_eq!(read.as_ref(), Ok(&change), "{}", text);
        }
    }

    #[test]
    fn a_group_and_a_meter_are_read_back_from_their_text(group in group(), meter in meter()) {
        let names = names();
        let text = group.text(&names);
        prop_assert_eq!(Group::parse(&text, &names), Ok(group), "{}", text);
        prop_assert_eq!(Meter::parse(&meter.text()), Ok(meter));
    }

    #[test]
    fn no_text_makes_a_reader_panic(random in any::<String>(), words in words(), flow in flow(), at in any::<prop::sample::Index>(), letter in any::<char>()) {
        read_everything(&random);
        read_everything(&words);
        let mut text: Vec<char> = flow.text(&Names::default()).chars().collect();
        let at = at.index(text.len());
        text[at] = letter;
        read_everything(&text.into_iter().collect::<String>());
    }
}

#[test]
fn every_field_of_a_match_is_printed_and_read_back() {
    let names = names();
    for &field in Field::ALL {
        let value = match field {
            Field::VlanTci | Field::VlanVid => 0x1005,
            Field::NwFrag => 1,
            Field::InPort | Field::ActsetOutput => 77,
            _ => 5 & ones(field.bits()),
        };
        let mut matching = Match::any();
        for (field, value) in needed(field.about().needs).into_iter().chain([(field, value)]) {
            matching.demand(field, value, u128::MAX);
        }
        let text = match_text(&matching, &names);
        let read =
            parse_match(&text, &names).unwrap_or_else(|error| panic!("{}: `{text}`: {error}", field.name()));
        assert_eq!(read, matching, "{} in `{text}`", field.name());
    }
}

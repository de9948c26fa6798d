//! Whatever an entry matches and does, `ovs-ofctl` prints it in each version, or at least all others: one that
//! it cannot read must not hide those behind it.

use crate::support::{Session, ofctl};
use std::time::Duration;
use weir_codec::*;
use weir_flow::{Field, Match, Needs, ones};
use weir_openflow::{Action, Argument, Arguments, Conjunction, Flow, Instructions, PortNo, TableId};

/// The priority of entries that are there to be hidden or not.
const PLAIN: u16 = 7;

fn matching(terms: &[(Field, u128)]) -> Match {
    let mut out = Match::any();
    for (field, value) in terms {
        out.demand(*field, *value, u128::MAX);
    }
    out
}

/// A match that has what a field needs.
fn before(needs: Needs) -> Match {
    use Field as F;
    let ip = (F::EthType, 0x0800);
    let v6 = (F::EthType, 0x86dd);
    matching(match needs {
        Needs::Nothing => &[],
        Needs::Vlan => &[(F::VlanVid, 0x1005)],
        Needs::Mpls => &[(F::EthType, 0x8847)],
        Needs::Pbb => &[(F::EthType, 0x88e7)],
        Needs::Arp => &[(F::EthType, 0x0806)],
        Needs::Ipv4 | Needs::Ip => std::slice::from_ref(const { &(F::EthType, 0x0800) }),
        Needs::Ipv6 => std::slice::from_ref(const { &(F::EthType, 0x86dd) }),
        Needs::Tcp => return matching(&[ip, (F::NwProto, 6)]),
        Needs::Udp => return matching(&[ip, (F::NwProto, 17)]),
        Needs::Sctp => return matching(&[ip, (F::NwProto, 132)]),
        Needs::Icmp => return matching(&[ip, (F::NwProto, 1)]),
        Needs::Icmpv6 => return matching(&[v6, (F::NwProto, 58)]),
        Needs::Nd | Needs::NdSolicit => {
            return matching(&[v6, (F::NwProto, 58), (F::Icmpv6Type, 135), (F::Icmpv6Code, 0)]);
        }
        Needs::NdAdvert => {
            return matching(&[v6, (F::NwProto, 58), (F::Icmpv6Type, 136), (F::Icmpv6Code, 0)]);
        }
    })
}

fn entry(matching: Match, apply: Vec<Action>) -> Flow {
    let instructions = Instructions { apply, ..Instructions::default() };
    Flow { matching, instructions, ..Flow::default() }
}

/// A value that fields of any width and mask can have.
fn some(field: Field) -> u128 {
    match field {
        Field::VlanTci | Field::VlanVid => 0x1001,
        Field::PbbIsid | Field::EthType => 0x0800,
        _ => 1,
    }
}

/// Entries that match each field, whole and in part.
fn matches() -> Vec<Flow> {
    let mut out = Vec::new();
    for &field in Field::ALL {
        let name = field.name();
        let mut needs = before(field.about().needs);
        if name.starts_with("ct_nw") || name.starts_with("ct_tp") || name.starts_with("ct_ipv6") {
            // An entry without is one that Open vSwitch's tools do not know.
            out.push(entry(matching(&[(field, 1)]), Vec::new()));
            if name.starts_with("ct_tp") {
                needs = matching(&[(Field::EthType, 0x0800), (Field::CtNwProto, 6)]);
            }
            needs.demand(Field::CtState, 0x22, 0x22);
        }
        let mut whole = needs.clone();
        whole.demand(field, some(field), u128::MAX);
        out.push(entry(whole, Vec::new()));
        if field.about().maskable && !matches!(field, Field::VlanTci | Field::VlanVid) {
            let mut part = needs;
            part.demand(field, 1, 1);
            out.push(entry(part, Vec::new()));
        }
    }
    out
}

/// Entries that write each field that actions may write, in each way.
fn writes() -> Vec<Flow> {
    let mut out = Vec::new();
    for &field in Field::ALL.iter().filter(|field| field.about().writable) {
        let matching = || before(field.about().needs);
        let value = some(field);
        let set = |mask| Action::SetField { field, value: value & mask, mask };
        let mut ways = vec![set(ones(field.bits()))];
        if field.about().maskable {
            ways.push(set(1));
        }
        ways.push(Action::Load { value: 1, to: weir_flow::Subfield { field, from: 0, bits: 1 } });
        let from = weir_flow::Subfield { field: Field::Reg3, from: 0, bits: 1 };
        ways.push(Action::Move { from, to: weir_flow::Subfield { field, from: 0, bits: 1 } });
        let tracked = matches!(field, Field::CtMark | Field::CtLabel);
        for way in ways {
            let action = if tracked {
                let text = "ip,actions=ct(commit,exec(set_field:1->ct_mark))";
                let flow = Flow::parse(text, &weir_openflow::Names::default()).expect("it is right");
                let Some(Action::Ct(mut ct)) = flow.instructions.apply.into_iter().next() else { panic!() };
                ct.steps = vec![weir_openflow::CtStep::Set(way)];
                Action::Ct(ct)
            } else {
                way
            };
            let matching = if tracked { before(Needs::Ip) } else { matching() };
            out.push(entry(matching, vec![action]));
        }
    }
    out
}

/// Entries with every other action, and with instructions.
fn others() -> Vec<Flow> {
    use Action as A;
    let ip = || before(Needs::Ip);
    let mpls = || before(Needs::Mpls);
    let mut out: Vec<Flow> = [
        A::Service { service: 2, argument: 7 },
        A::Note(b"words".to_vec()),
        A::PushVlan(0x8100),
        A::PushVlan(0x88a8),
        A::PushMpls(0x8847),
        A::PushPbb(0x88e7),
        A::OutputReg(Field::SfMetadata.whole()),
        Arguments::new(vec![Argument::Number(7), Argument::Text("web".into())]).unwrap().call(2),
        A::Clone(vec![A::Service { service: 1, argument: 1 }]),
        A::CtClear,
        A::Conjunction(Conjunction { id: 7, dimension: 2, dimensions: 3 }),
        A::Exit,
        A::Resubmit { port: None, table: Some(TableId(3)) },
        A::Resubmit { port: Some(PortNo(4)), table: None },
        A::Move { from: Field::SfMetadata.whole(), to: Field::Reg1.whole() },
    ]
    .into_iter()
    .map(|action| entry(Match::any(), vec![action]))
    .collect();
    for action in [A::CopyTtlIn, A::CopyTtlOut, A::SetNwTtl(3), A::DecTtl(Vec::new()), A::DecTtl(vec![1])] {
        out.push(entry(ip(), vec![action]));
    }
    for action in [A::SetMplsTtl(3), A::DecMplsTtl, A::CopyTtlIn, A::PopMpls(0x0800)] {
        out.push(entry(mpls(), vec![action]));
    }
    out.push(entry(before(Needs::Pbb), vec![A::PopPbb]));
    let mut tracked = ip();
    tracked.demand(Field::CtState, 0x22, 0x22);
    out.push(entry(tracked, vec![A::ResubmitTracked { port: None, table: Some(TableId(3)) }]));
    let with = |change: fn(&mut Instructions)| {
        let mut flow = entry(ip(), Vec::new());
        change(&mut flow.instructions);
        flow
    };
    out.push(with(|it| it.meter = Some(weir_openflow::MeterId(3))));
    out.push(with(|it| it.clear = true));
    out.push(with(|it| it.write = vec![A::Output(PortNo(1))]));
    out.push(with(|it| it.metadata = Some((5, 7))));
    out.push(with(|it| it.goto = Some(TableId(9))));
    out
}

fn counted(flow: Flow) -> FlowStats {
    FlowStats {
        flow,
        duration: Duration::from_secs(7),
        idle_age: None,
        hard_age: None,
        packets: 11,
        bytes: 1100,
    }
}

fn dump(version: Version, flows: &[Flow]) -> Session {
    let stats: Vec<FlowStats> = flows.iter().cloned().map(counted).collect();
    ofctl(version, &["--no-names", "dump-flows", "@"], move |request| match request {
        Request::Flow(query) => Some(Reply::Flow(query.form, stats.clone())),
        _ => None,
    })
}

/// Whether Open vSwitch 3.1 knows neither the match nor the action, which are OpenFlow's own, or does not let it
/// be written, or misses what it takes for a prerequisite.
fn is_unknown(text: &str) -> bool {
    let unknown = [
        "1/0x1->vlan_vid",
        "VLAN_VID[0]",
        "pbb",
        "exthdr",
        "copy_ttl",
        "->eth_type",
        "ETH_TYPE",
        "MPLS_BOS",
        "->mpls_bos",
        "->nw_proto",
        "IP_PROTO",
    ];
    let tuple = ["ct_nw", "ct_tp", "ct_ipv6"].iter().any(|field| text.contains(field));
    unknown.iter().any(|word| text.to_lowercase().contains(&word.to_lowercase()))
        || tuple && !text.contains("ct_state")
}

#[test]
fn every_entry_is_printed_in_every_version() {
    let odd: Vec<Flow> = [matches(), writes(), others()].concat();
    let plain = || Flow { priority: PLAIN, ..Flow::default() };
    let is_printed = |version, odd: &[Flow]| {
        let flows = [&[plain()], odd, &[plain()]].concat();
        let session = dump(version, &flows);
        let all = session.stdout.matches("actions=").count() == flows.len();
        if all && !session.stdout.contains("error") { Ok(()) } else { Err(session) }
    };
    let names = weir_openflow::Names::default();
    let (unknown, known): (Vec<Flow>, Vec<Flow>) =
        odd.into_iter().partition(|flow| is_unknown(&flow.text(&names)));
    let mut wrong = String::new();
    for &version in Version::ALL {
        if is_printed(version, &known).is_ok() {
            continue;
        }
        for odd in &known {
            if let Err(session) = is_printed(version, std::slice::from_ref(odd)) {
                wrong += &format!("{version:?}: {}\n{}\n", odd.text(&names), session.stdout);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // What it does not know hides nothing else, wherever it stands among the others.
    for &version in Version::ALL {
        let mixed: Vec<Flow> = unknown.iter().flat_map(|odd| [odd.clone(), plain()]).collect();
        let session = dump(version, &mixed);
        let plain = session.stdout.matches(&format!("priority={PLAIN} actions=")).count();
        assert_eq!(plain, unknown.len(), "{version:?}: {}", session.stdout);
    }
}

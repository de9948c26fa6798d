//! A network function as OpenFlow flows, in the text that `ovs-ofctl add-flows` reads, for both devices
//! that have OpenFlow tables. What needs services or connection tracking is in [`gateway`], changes while a device
//! forwards in [`feed`] (so many a second) and [`churn`] (as many as it takes).
//!
//! OpenFlow ports count from 1: our port 0 is its port 1. What no flow matches is dropped. A packet that leaves by the port it came in by needs its input port forgotten
//! first ([`FORGET_INPUT`]), which costs nothing in the datapath.

mod chain;
pub(crate) mod churn;
mod controller;
pub(crate) mod entries;
pub(crate) mod feed;
mod gateway;
mod nat;

use crate::chain::HostPaths;
use std::fmt::Write as _;
use weir_trial::Nf;
use weir_wire::table::{Action, Ipv4Prefix, PORT_BITS, Ports, Route, Rule, next_hop_mac, pieces, port_mac};

use crate::l3fwd::mac;

/// Ports of a network function.
const PORTS: u8 = 2;

/// OpenFlow forbids a packet to leave by its input port, unless that is forgotten.
const FORGET_INPUT: &str = "load:0->NXM_OF_IN_PORT[]";

/// IP protocols whose ports OpenFlow can match: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// Who reads the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Has `ct`, and no services.
    OpenVSwitch,
    /// Has services, SoftFlow's fields, and no `ct`.
    Weir,
}

/// The flows of a network function; the reason where OpenFlow cannot say it.
pub(crate) fn flows(nf: Nf, dialect: Dialect) -> Result<String, String> {
    match nf {
        Nf::L2Fwd => Ok(forward("")),
        Nf::L3Fwd { .. } => Ok(nf.routes().iter().map(route).collect()),
        Nf::Firewall { .. } | Nf::Exposed { .. } => firewall(&nf.rules()),
        Nf::L2 { .. } | Nf::L2Nfpa { .. } => Ok(gateway::l2(&nf.stations())),
        Nf::PipelineA { .. } | Nf::PipelineAFew { .. } | Nf::PipelineB { .. } | Nf::PipelineC { .. } => {
            gateway::pipeline(nf, dialect)
        }
        Nf::PipelineD { noops } => gateway::noops(noops, dialect),
        Nf::Nat { .. } => Ok(nat::flows(nf)),
        Nf::Chain(members) => chain::flows(members.members(), dialect),
        Nf::Flows(file) => file.text().map(str::to_owned).ok_or_else(|| "its file was not read".to_owned()),
    }
}

/// The flows of a host: between ports 1 and 2, 3 and 4, and so on.
pub(crate) fn crossed(ports: usize) -> String {
    (0..ports).map(|port| format!("in_port={},actions=output:{}\n", port + 1, (port ^ 1) + 1)).collect()
}

/// What Open vSwitch's select groups hash: the end of a flow on the side of port 0, which is the source of what comes
/// in there and the destination of what comes back. Its default, a hash of both ends (`dp_hash`), leaves UDP's ports out and
/// joins the addresses by exclusive or: flows between the first hosts of both networks, the second ones and so on, as the lab's traces are,
/// would all go through one bucket.
const ENDS: [&str; 2] =
    ["ip_src,ipv6_src,tcp_src,udp_src,sctp_src", "ip_dst,ipv6_dst,tcp_dst,udp_dst,sctp_dst"];

/// The groups and flows of a host that splits packets: a select group for each side, whose packets go to several ports. Its
/// buckets lie in the order of the copies on both, so that a hash that both directions of a flow have in common names the same
/// copy.
pub(crate) fn split(paths: &HostPaths, dialect: Dialect) -> (String, String) {
    let (mut groups, mut flows) = (String::new(), String::new());
    for (port, to) in (1..).zip(&paths.to) {
        let out = match to.as_slice() {
            [one] => format!("output:{}", one + 1),
            several => {
                // The side of port 0 lies before its copies, the other one behind them.
                let fields = ENDS[usize::from(several.iter().all(|to| *to < port - 1))];
                let method = match dialect {
                    Dialect::OpenVSwitch => format!(",selection_method=hash,fields({fields})"),
                    Dialect::Weir => String::new(),
                };
                let buckets: String = several.iter().map(|to| format!(",bucket=output:{}", to + 1)).collect();
                let _ = writeln!(groups, "group_id={port},type=select{method}{buckets}");
                format!("group:{port}")
            }
        };
        let _ = writeln!(flows, "in_port={port},actions={out}");
    }
    (groups, flows)
}

/// The table of a network function that its routes are in; the reason where it has none.
pub(crate) fn routes(nf: Nf) -> Result<u8, String> {
    match nf {
        Nf::L3Fwd { .. } => Ok(0),
        _ if nf.pipeline_entries().is_some() => Ok(gateway::NETWORKS),
        _ => Err(format!(
            "`idle=N` and `changes=N` are about a table of routes, which {} has not",
            nf.kind().name()
        )),
    }
}

/// A flow a port, to the other, under a further condition.
fn forward(condition: &str) -> String {
    (0..PORTS).map(|port| format!("{condition}in_port={},actions={}\n", of(port), pass(port))).collect()
}

/// OpenFlow's number of a port.
fn of(port: u8) -> u16 {
    u16::from(port) + 1
}

/// Out of the port opposite.
fn pass(port: u8) -> String {
    format!("output:{}", of(PORTS - 1 - port))
}

/// Longer prefixes come first by priority.
fn route(route: &Route) -> String {
    let (prefix, port) = (route.prefix, route.port);
    format!(
        "priority={},ip,nw_dst={prefix},actions=dec_ttl,mod_dl_src:{},mod_dl_dst:{},{FORGET_INPUT},output:{}\n",
        prefix.bits(),
        mac(port_mac(port)),
        mac(next_hop_mac(port)),
        of(port)
    )
}

/// Rules in order have falling priorities. Neighbours of the same action share one, since it does not
/// matter which of them matches; so 16 bits of priority are enough for any list that people write.
/// Priority 0 is left to what comes after the last rule.
fn prioritised(rules: &[Rule], first: u16) -> Result<Vec<(u16, &Rule)>, String> {
    let mut priority = first;
    let mut found = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        if index > 0 && rule.action != rules[index - 1].action {
            priority = priority
                .checked_sub(1)
                .filter(|priority| *priority > 0)
                .ok_or("its rules change between allow and deny more often than OpenFlow has priorities")?;
        }
        found.push((priority, rule));
    }
    Ok(found)
}

fn firewall(rules: &[Rule]) -> Result<String, String> {
    let mut text = String::new();
    for (priority, rule) in prioritised(rules, u16::MAX)? {
        for condition in conditions(rule)? {
            match rule.action {
                Action::Deny => {
                    let _ = writeln!(text, "priority={priority},{condition},actions=drop");
                }
                Action::Allow => (0..PORTS).for_each(|port| {
                    let _ = writeln!(
                        text,
                        "priority={priority},in_port={},{condition},actions={}",
                        of(port),
                        pass(port)
                    );
                }),
            }
        }
    }
    Ok(text)
}

/// A rule's conditions: one match for each protocol and each masked piece of its port ranges.
fn conditions(rule: &Rule) -> Result<Vec<String>, String> {
    let looks_at_ports = rule.source_ports != Ports::Any || rule.destination_ports != Ports::Any;
    let protocols: Vec<Option<u8>> = match (rule.protocol, looks_at_ports) {
        (None, true) => WITH_PORTS.map(Some).to_vec(),
        (Some(protocol), true) if !WITH_PORTS.contains(&protocol) => {
            return Err(format!(
                "OpenFlow cannot match the ports of IP protocol {protocol}, as `{rule}` asks"
            ));
        }
        (protocol, _) => vec![protocol],
    };
    let prefix = |name: &str, prefix: Ipv4Prefix| match prefix {
        Ipv4Prefix::ANY => String::new(),
        prefix => format!(",{name}={prefix}"),
    };
    let addresses = prefix("nw_src", rule.source) + &prefix("nw_dst", rule.destination);
    // A later fragment has no ports; OpenFlow takes them for 0.
    let fragments = if looks_at_ports { ",ip_frag=not_later" } else { "" };
    let mut found = Vec::new();
    for protocol in protocols {
        for source in masked("tp_src", rule.source_ports) {
            for destination in masked("tp_dst", rule.destination_ports) {
                found.push(format!("{}{fragments}{addresses}{source}{destination}", name(protocol)));
            }
        }
    }
    Ok(found)
}

/// A protocol as a match.
fn name(protocol: Option<u8>) -> String {
    match protocol {
        None => "ip".to_owned(),
        Some(1) => "icmp".to_owned(),
        Some(6) => "tcp".to_owned(),
        Some(17) => "udp".to_owned(),
        Some(132) => "sctp".to_owned(),
        Some(number) => format!("ip,nw_proto={number}"),
    }
}

/// A condition on ports as matches under a mask.
fn masked(field: &str, ports: Ports) -> Vec<String> {
    let Ports::Range { first, last } = ports else { return vec![String::new()] };
    let piece = |(value, bits): (u16, u32)| match bits {
        0 => String::new(),
        PORT_BITS => format!(",{field}={value}"),
        bits => format!(",{field}={value:#06x}/{:#06x}", u16::MAX << (PORT_BITS - bits)),
    };
    pieces(first, last).into_iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn l2fwd_is_a_flow_a_port() {
        assert_eq!(
            flows(Nf::L2Fwd, Dialect::OpenVSwitch).unwrap(),
            "in_port=1,actions=output:2\nin_port=2,actions=output:1\n"
        );
    }

    #[test]
    fn a_splitter_has_a_group_for_each_side_with_the_copies_in_the_same_order() {
        let to = vec![vec![1, 3], vec![0], vec![5], vec![0], vec![5], vec![2, 4]];
        let paths = HostPaths { to, split: weir_trial::Split::Flow };
        let (groups, flows) = split(&paths, Dialect::Weir);
        assert_eq!(
            groups,
            "group_id=1,type=select,bucket=output:2,bucket=output:4\n\
             group_id=6,type=select,bucket=output:3,bucket=output:5\n"
        );
        assert_eq!(
            flows,
            "in_port=1,actions=group:1\nin_port=2,actions=output:1\nin_port=3,actions=output:6\n\
             in_port=4,actions=output:1\nin_port=5,actions=output:6\nin_port=6,actions=group:6\n"
        );
        let (theirs, same) = split(&paths, Dialect::OpenVSwitch);
        assert_eq!(same, flows);
        assert!(
            theirs.starts_with("group_id=1,type=select,selection_method=hash,fields(ip_src,ipv6_src,"),
            "{theirs}"
        );
        assert!(
            theirs.contains("\ngroup_id=6,type=select,selection_method=hash,fields(ip_dst,ipv6_dst,"),
            "{theirs}"
        );
    }

    #[test]
    fn a_route_lowers_the_ttl_rewrites_both_addresses_and_may_lead_back() {
        let flows = flows(Nf::L3Fwd { routes: 3 }, Dialect::Weir).unwrap();
        assert_eq!(
            flows.lines().nth(1).unwrap(),
            "priority=17,ip,nw_dst=198.19.0.0/17,actions=dec_ttl,mod_dl_src:02:00:00:00:01:01,\
             mod_dl_dst:02:00:00:00:02:01,load:0->NXM_OF_IN_PORT[],output:2"
        );
        assert_eq!(flows.lines().count(), 3);
    }

    #[test]
    fn a_rule_becomes_a_match_for_each_piece_of_its_ranges() {
        let found = conditions(&rule("deny udp 198.18.31.144/28 32768-49151 any 161-162")).unwrap();
        assert_eq!(
            found,
            [
                "udp,ip_frag=not_later,nw_src=198.18.31.144/28,tp_src=0x8000/0xc000,tp_dst=161",
                "udp,ip_frag=not_later,nw_src=198.18.31.144/28,tp_src=0x8000/0xc000,tp_dst=162",
            ]
        );
        assert_eq!(conditions(&rule("deny 47 any any any any")).unwrap(), ["ip,nw_proto=47"]);
        assert_eq!(conditions(&rule("deny any any any any 53")).unwrap().len(), 3, "TCP, UDP and SCTP");
        assert!(conditions(&rule("deny 33 any any any 53")).unwrap_err().contains("protocol 33"));
    }

    #[test]
    fn the_first_rule_that_matches_has_the_highest_priority() {
        let rules = [
            "deny tcp any any any 22",
            "deny tcp any any any 23",
            "allow tcp any any any any",
            "deny any any any any any",
        ];
        let flows = firewall(&rules.map(rule)).unwrap();
        let expected = [
            "priority=65535,tcp,ip_frag=not_later,tp_dst=22,actions=drop",
            "priority=65535,tcp,ip_frag=not_later,tp_dst=23,actions=drop",
            "priority=65534,in_port=1,tcp,actions=output:2",
            "priority=65534,in_port=2,tcp,actions=output:1",
            "priority=65533,ip,actions=drop",
        ];
        assert_eq!(flows.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_firewall_of_the_lab_is_two_priorities_and_ends_with_what_passes() {
        let flows = flows(Nf::Firewall { rules: 1000 }, Dialect::OpenVSwitch).unwrap();
        let priorities: std::collections::HashSet<&str> =
            flows.lines().map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(priorities.len(), 2);
        assert!(flows.ends_with("priority=65534,in_port=2,ip,actions=output:1\n"), "{flows}");
    }
}

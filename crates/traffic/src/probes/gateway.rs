//! Probes of functions with stations: every MAC address, and for pipelines A, B and C every network and
//! every rule, sizes, and answers that nobody asked for.
//!
//! What opens a connection does so from [`CLIENT_PORTS`], and what answers one comes more than a chunk
//! of the pass later. Whatever the oracle could take for the answer to a packet that is never sent is
//! left out: only the device knows what it has seen.

use super::{LONG_FLOW, Macs, Probe, SIZES, beside, into_rule};
use crate::trace::synthetic::Flow;
use crate::trace::{TraceName, TraceSpec, gateway};
use weir_trial::{CLIENT_PORTS, Nf, Oracle};
use weir_wire::table::{Action, FiveTuple, Ports, Rule};
use weir_wire::{MacAddress, ipv4};

/// Conversations that sizes, strays and the long flow are made of.
const CONVERSATIONS: u32 = 48;
/// A client's port from which nothing was opened.
const STRAY_PORT: u16 = *CLIENT_PORTS.end() + 1;
/// The source port of what is sent into a rule that leaves it open.
const CLIENT_PORT: u16 = 40_000;

/// The frames of each station behind either port, and of strangers; `plain` is a packet that passes but
/// for its destination MAC address. Each has a client's port of its own, on the client's side, which is
/// the source in direction 0: devices need not keep the order of packets to different stations.
pub(super) fn stations(nf: Nf, plain: Probe, direction: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (number, station) in (0_u16..=u16::MAX).cycle().zip(nf.stations()) {
        let client = CLIENT_PORTS.start() + number % CLIENT_PORTS.len() as u16;
        let (source, destination) = plain.ports;
        let ports = if direction == 0 { (client, destination) } else { (source, client) };
        let mut stranger = station.mac;
        // Of numbered addresses, one beside a station's is another's.
        stranger[1] ^= 0x80;
        frames.extend(
            [station.mac, stranger].map(|mac| Probe { macs: to(mac, plain.macs), ports, ..plain }.frame()),
        );
    }
    frames
}

/// The probes of pipelines A, B and C, a list a direction.
pub(super) fn pipeline(nf: Nf, directions: usize) -> Vec<Vec<Vec<u8>>> {
    let book = Book { oracle: Oracle::new(nf) };
    let flows = conversations(nf);
    let mut lists = vec![Vec::new(); directions];
    let Some(first) = flows.first() else { return lists };
    for (direction, list) in lists.iter_mut().enumerate() {
        let here = |flow: &Flow| if direction == 0 { *flow } else { flow.mirrored() };
        let plain = of(&here(first));
        // These come first, so that what direction 1 answers has been sent by then.
        list.extend(stations_after_opening(nf, plain, direction));
        list.extend(book.kept(rules(nf, plain, direction, directions)));
        list.extend(book.kept(networks(nf, plain)));
        list.extend(book.kept(flows.iter().map(|flow| stray(&here(flow), direction))));
        for (number, flow) in flows.iter().enumerate() {
            let size = SIZES[number % SIZES.len()];
            let ttl = [1, 2, 64, 128, 255][number % 5];
            let probe = Probe { size, ttl, checksummed: number % 16 >= SIZES.len(), ..of(&here(flow)) };
            list.push(probe.frame());
        }
        list.extend(std::iter::repeat_n(plain.frame(), usize::from(LONG_FLOW)));
    }
    lists
}

/// Every station. In direction 1 these are answers to `plain`, so a chunk of strangers goes before them.
fn stations_after_opening(nf: Nf, plain: Probe, direction: usize) -> Vec<Vec<u8>> {
    let mut all = stations(nf, plain, direction);
    if direction == 1 {
        let stranger = Probe { macs: [2; 12], ..plain }.frame();
        all.splice(0..0, std::iter::repeat_n(stranger, gateway::TRAIL as usize));
    } else {
        all.insert(0, plain.frame());
    }
    all
}

/// A packet into each rule over UDP or TCP, and one beside it, the rules by turns over the directions.
fn rules(nf: Nf, plain: Probe, direction: usize, directions: usize) -> Vec<Probe> {
    let mut probes = Vec::new();
    for (number, rule) in nf.rules().iter().enumerate() {
        let has_ports = rule.protocol.is_none_or(|protocol| matches!(protocol, ipv4::TCP | ipv4::UDP));
        if number % directions != direction || !has_ports {
            continue;
        }
        let client = Probe { ports: (CLIENT_PORT, plain.ports.1), opens: true, ..plain };
        let mut inside = into_rule(client, rule, number / directions);
        if let Ports::Range { first: 1024, .. } = rule.source_ports {
            inside.ports.0 = CLIENT_PORT;
        }
        probes.extend([inside, beside(inside, rule, number)]);
    }
    probes
}

/// The first and the last address of each network, from somebody who may open a connection to anywhere.
fn networks(nf: Nf, plain: Probe) -> Vec<Probe> {
    let rules = nf.rules();
    let anywhere = |rule: &&Rule| {
        rule.action == Action::Allow
            && rule.destination.bits() == 0
            && rule.protocol.is_none_or(|protocol| protocol == ipv4::UDP)
            && rule.source_ports == Ports::Any
    };
    let Some(rule) = rules.iter().find(anywhere) else { return Vec::new() };
    let port = match rule.destination_ports {
        Ports::Any => 9_000,
        Ports::Range { first, .. } => first,
    };
    let networks = nf.networks();
    let ends = networks.iter().flat_map(|network| [network.prefix.address(), network.prefix.last()]);
    let source = rule.source.last();
    ends.map(|destination| Probe { source, destination, ports: (CLIENT_PORT, port), ..plain }).collect()
}

/// An answer to a port that asked nothing, or the question of one that is never answered.
fn stray(flow: &Flow, direction: usize) -> Probe {
    let plain = of(flow);
    if direction == 1 { Probe { ports: (plain.ports.0, STRAY_PORT), ..plain } } else { plain }
}

/// Whether probes may be sent.
struct Book {
    oracle: Oracle,
}

impl Book {
    fn kept(&self, probes: impl IntoIterator<Item = Probe>) -> Vec<Vec<u8>> {
        probes.into_iter().filter(|probe| self.is_sure(probe)).map(Probe::frame).collect()
    }

    /// Whether what must become of it does not depend on what was sent before, and nothing later will
    /// depend on it.
    fn is_sure(&self, probe: &Probe) -> bool {
        let (source_port, destination_port) = probe.ports;
        if source_port == 0 || destination_port == 0 {
            return false;
        }
        let tuple = FiveTuple {
            protocol: probe.protocol,
            source: probe.source,
            destination: probe.destination,
            ports: Some(probe.ports),
        };
        let mirrored = FiveTuple {
            source: probe.destination,
            destination: probe.source,
            ports: Some((destination_port, source_port)),
            ..tuple
        };
        if self.oracle.admits(&tuple) {
            return CLIENT_PORTS.contains(&source_port);
        }
        !(CLIENT_PORTS.contains(&destination_port) && self.oracle.admits(&mirrored))
    }
}

/// Some conversations that pass; nothing where the tables hold none.
fn conversations(nf: Nf) -> Vec<Flow> {
    let Some(tables) = nf.pipeline_tables() else { return Vec::new() };
    let entries = tables.entries().unwrap_or(Nf::PIPELINE_ENTRIES);
    let few = matches!(tables, Nf::PipelineAFew { .. });
    let name = TraceName::Conversations { count: CONVERSATIONS, burst: 1, entries, few };
    TraceSpec::of(name).flows().ok().flatten().unwrap_or_default()
}

/// A flow's packet.
fn of(flow: &Flow) -> Probe {
    let (MacAddress(destination), MacAddress(source)) = (flow.destination_mac, flow.source_mac);
    let macs: [u8; 12] = std::array::from_fn(|i| if i < 6 { destination[i] } else { source[i - 6] });
    Probe {
        source: flow.source,
        destination: flow.destination,
        ports: (flow.source_port, flow.destination_port),
        ..Probe::of(0, macs)
    }
}

/// The same MAC addresses, but to this one.
fn to(mac: [u8; 6], mut macs: Macs) -> Macs {
    macs[..6].copy_from_slice(&mac);
    macs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::probes;
    use std::collections::HashSet;
    use weir_trial::expected::{Expected, Reason};

    fn dispositions(nf: &str) -> Vec<Vec<Expected>> {
        let nf: Nf = nf.parse().unwrap();
        let oracle = Oracle::new(nf);
        let lists = probes(nf, &[[2; 12], [6; 12]]);
        let dispositions = |(direction, list): (usize, &Vec<Vec<u8>>)| {
            list.iter().map(|frame| oracle.expected(direction as u8, frame)).collect()
        };
        lists.iter().enumerate().map(dispositions).collect()
    }

    #[test]
    fn probes_of_a_pipeline_pass_and_are_dropped_for_every_reason_in_both_directions() {
        for nf in ["pipeline-a", "pipeline-a:64", "pipeline-b", "pipeline-c"] {
            for dispositions in dispositions(nf) {
                let count = |of: fn(&Expected) -> bool| {
                    dispositions.iter().filter(|disposition| of(disposition)).count()
                };
                let passed = count(|f| matches!(f, Expected::Forward { .. } | Expected::OneOf { .. }));
                assert!(passed > 300, "{nf}: {passed} of {} pass", dispositions.len());
                assert!(count(|f| *f == Expected::Drop(Reason::UnknownStation)) > 60, "{nf}");
                assert!(count(|f| *f == Expected::Drop(Reason::NoRoute)) > 5, "{nf}");
                assert!(count(|f| matches!(f, Expected::Drop(Reason::Denied(_)))) > 5, "{nf}");
                assert_eq!(count(|f| *f == Expected::Open), 0, "{nf}");
            }
        }
    }

    #[test]
    fn rules_deny_by_name_and_strays_are_among_what_is_denied() {
        let nf: Nf = "pipeline-a".parse().unwrap();
        let dispositions = dispositions("pipeline-a").concat();
        let denying: HashSet<String> = dispositions
            .iter()
            .filter_map(|disposition| match disposition {
                Expected::Drop(Reason::Denied(Some(rule))) => Some(rule.to_string()),
                _ => None,
            })
            .collect();
        let deny = nf.rules().iter().filter(|rule| rule.action == Action::Deny).count();
        assert!(denying.len() * 4 > deny, "{} of {deny} deny rules are seen to deny", denying.len());
        let strays =
            probes(nf, &[[2; 12]; 2])[1].iter().filter(|f| f[36..38] == STRAY_PORT.to_be_bytes()).count();
        assert!(strays > 20, "{strays}");
    }

    #[test]
    fn no_probe_opens_from_elsewhere_or_could_answer_what_is_never_asked() {
        let nf: Nf = "pipeline-a".parse().unwrap();
        let oracle = Oracle::new(nf);
        let lists = probes(nf, &[[2; 12]; 2]);
        let asked: HashSet<FiveTuple> =
            lists.concat().iter().filter_map(|frame| weir_trial::expected::flow(frame)).collect();
        for tuple in &asked {
            let (source_port, destination_port) = tuple.ports.unwrap();
            let mirrored = FiveTuple {
                source: tuple.destination,
                destination: tuple.source,
                ports: Some((destination_port, source_port)),
                ..*tuple
            };
            let answers = !oracle.admits(tuple) && oracle.admits(&mirrored);
            if answers && CLIENT_PORTS.contains(&destination_port) {
                assert!(asked.contains(&mirrored), "{tuple:?}");
            }
        }
    }

    #[test]
    fn every_station_of_l2_is_reached_from_the_far_side_only_and_strangers_never() {
        let dispositions = dispositions("l2:100");
        for (in_port, dispositions) in dispositions.iter().enumerate() {
            let reached = dispositions
                .iter()
                .filter(|f| matches!(f, Expected::Forward { port, .. } if usize::from(*port) != in_port));
            assert_eq!(reached.count(), 50);
            assert_eq!(dispositions.iter().filter(|f| **f == Expected::Drop(Reason::SamePort)).count(), 50);
        }
    }
}

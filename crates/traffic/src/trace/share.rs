//! A table dealt out by flow, for several threads that send one direction.

use super::table::{FrameTable, TableBuilder};
use rustc_hash::FxHashMap;
use weir_trial::expected::flow;
use weir_wire::EtherType;
use weir_wire::lap::PortTurns;
use weir_wire::table::FiveTuple;

/// What keeps packets in order with one another: the Ethernet header and, of IPv4, the five-tuple; of
/// other packets nothing more, and of IPv6 its addresses and what stands where the ports are.
#[derive(PartialEq, Eq, Hash)]
struct Flow {
    link: Vec<u8>,
    ipv4: Option<FiveTuple>,
}

impl Flow {
    fn of(frame: &[u8]) -> Self {
        let link = frame.get(..14).unwrap_or(frame);
        let is_ipv6 = link.ends_with(&EtherType::IPV6.0.to_be_bytes());
        let addresses = frame.get(22..58).filter(|_| is_ipv6).unwrap_or_default();
        Self { link: [link, addresses].concat(), ipv4: flow(frame) }
    }
}

/// Tables for so many senders at most: flows go round by their first appearance, so that each sender has as
/// many as the others, and of each flow all packets stay together in their order.
pub(super) fn by_flow(table: &FrameTable, senders: usize) -> Vec<FrameTable> {
    let new = || match table.is_generated() {
        true => TableBuilder::with_pattern(table.distinct() / senders + 1),
        false => TableBuilder::with_own_bytes(),
    };
    let mut parts: Vec<(TableBuilder, Vec<u32>)> = (0..senders).map(|_| (new(), Vec::new())).collect();
    let mut flows: FxHashMap<Flow, usize> = FxHashMap::default();
    let mut trails = vec![0_u32; senders];
    // Of each distinct frame: its sender, and its number there.
    let mut dealt: Vec<Option<(usize, u32)>> = vec![None; table.distinct()];
    for place in 0..table.len() {
        let index = table.index(place);
        let (part, number) = *dealt[index].get_or_insert_with(|| {
            let frame = table.frame(place).to_vec();
            let next = flows.len() % senders;
            let part = *flows.entry(Flow::of(&frame)).or_insert(next);
            let builder = &mut parts[part].0;
            let number = match table.is_generated() {
                true => builder.push_head(table.heads()[index], table.lens()[index], table.slot(place)),
                false => builder.push_frame(&frame),
            };
            (part, number)
        });
        parts[part].1.push(number);
        // The answers that a lap begins with are a part's first packets, as many as fell to it.
        if let Some(trail) = trails.get_mut(part) {
            *trail += u32::from(table.turns().is_some_and(|turns| place < turns.trail as usize));
        }
    }
    for ((builder, _), trail) in parts.iter_mut().zip(&trails) {
        if let Some(turns) = table.turns() {
            builder.turn_ports(PortTurns { trail: *trail, ..*turns });
        }
    }
    let in_storage_order =
        |order: &[u32]| order.iter().enumerate().all(|(place, number)| place == *number as usize);
    let built = parts.into_iter().filter_map(|(builder, order)| match in_storage_order(&order) {
        true => builder.build(),
        false => builder.build_in_order(order),
    });
    built.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{FrameSource, Sizes, TraceSpec};
    use super::*;
    use std::collections::HashMap;

    fn source(name: &str, size: &str) -> FrameSource {
        let spec = TraceSpec::parse(name).unwrap();
        let spec = if size == "own" { spec } else { spec.sizes(size.parse::<Sizes>().unwrap()) };
        spec.build().unwrap()
    }

    fn frames(source: &FrameSource) -> Vec<Vec<u8>> {
        let table = source.table().unwrap();
        (0..table.len()).map(|place| table.frame(place).to_vec()).collect()
    }

    #[test]
    fn every_packet_goes_to_one_sender_and_each_flow_keeps_its_order() {
        let traces = [
            ("flows:100", "64", 2),
            ("flows:1001", "imix", 4),
            ("conversations:60", "own", 3),
            ("l2flows:50", "64", 2),
        ];
        for (name, size, senders) in traces {
            let whole = frames(&source(name, size));
            let shares = source(name, size).shares(senders);
            assert_eq!(shares.len(), senders, "{name}");
            let mut of_flow: HashMap<Flow, (usize, Vec<Vec<u8>>)> = HashMap::new();
            for (sender, share) in shares.iter().enumerate() {
                assert!(frames(share).len() * senders > whole.len() / 2, "{name}: {sender} has too little");
                for frame in frames(share) {
                    let entry = of_flow.entry(Flow::of(&frame)).or_insert((sender, Vec::new()));
                    assert_eq!(entry.0, sender, "{name}: a flow is with one sender");
                    entry.1.push(frame);
                }
            }
            let mut expected: HashMap<Flow, Vec<Vec<u8>>> = HashMap::new();
            for frame in whole {
                expected.entry(Flow::of(&frame)).or_default().push(frame);
            }
            assert_eq!(expected.len(), of_flow.len());
            for (flow, frames) in expected {
                assert!(of_flow[&flow].1 == frames, "{name}: packets of a flow are all there, in order");
            }
        }
    }

    #[test]
    fn one_flow_stays_whole_with_one_sender() {
        assert_eq!(source("flows:1", "64").shares(4).len(), 1);
        assert_eq!(source("flows:3", "64").shares(4).len(), 3);
        assert_eq!(source("flows:3", "64").shares(1).len(), 1);
    }
}

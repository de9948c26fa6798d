//! First-match classification over firewall rules: a decision tree with short lists at its leaves.
//!
//! Why a tree: a list costs every packet every rule; bit vectors per field grow with the square of
//! the rules; hashing per combination of prefix lengths costs every packet every combination. A
//! tree in the manner of HiCuts (Gupta and McKeown, IEEE Micro 20(1), 2000) asks only what tells
//! rules apart: each inner node compares one field with one threshold. Its known weakness is rules
//! that are wide in many fields, which have to stand in many leaves; so copies are budgeted
//! (`build`), and where the budget ends a leaf has a longer list: slower there, never wrong, and
//! memory stays in proportion to the rules.
//!
//! A packet is a point in five dimensions, a rule is a box, a node is the box of what reaches it.
//! Ports take one value more than 16 bits hold, [`NO_PORT`], for packets that have none; a rule
//! for any port includes it. A rule that covers its node's box ends the list, so that every list
//! ends with a certain match and its last entry needs no test; a list that could run out is ended
//! by a rule that denies everything.
//!
//! Packets go down the tree eight abreast, without a branch that depends on any one of them: alone,
//! each step waits for the last one's loads, and each way's end is a branch mispredicted.
//!
//! Cost, measured on a Zen 4 core at 2.6 GHz, the whole firewall over 10,000 flows, beyond L2
//! forwarding: about 20 cycles a packet, for 10 as for 10,000 rules, where no rule comes near the
//! packets (the lab's traces); 57, 106 and 144 for 10, 1000 and 10,000 rules where all packets go to
//! the ports that the rules close. Built once and then read only: any number of threads may share
//! it. Building takes 0.1 s for 10,000 rules and 0.8 s for 100,000.

mod build;

use std::net::Ipv4Addr;
use weir_wire::table::{Action, Ports, Rule};

/// Dimensions of a packet, in the order of [`Point`].
const FIELDS: usize = 5;
/// The port of a packet that has none.
const NO_PORT: u32 = 1 << 16;
/// Packets that go down the tree together: enough to hide the latency of a step.
const ABREAST: usize = 8;
/// The greatest value of each field.
const MAXIMA: [u32; FIELDS] = [u32::MAX, u32::MAX, 0xff, NO_PORT, NO_PORT];

/// A packet as the tree sees it: source, destination, protocol, source port, destination port.
/// Eight places, so that a field's number is a valid index without a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point([u32; 8]);

/// A rule, or the packets that reach a node: bounds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    first: [u32; FIELDS],
    last: [u32; FIELDS],
}

/// A rule, as it is tested.
#[derive(Clone, Copy, Debug)]
struct Test {
    bounds: Bounds,
    action: Action,
}

/// One step down the tree: points whose field is below the threshold go to node `low`, others to the
/// one after it. A leaf is a step onto itself, so that packets which arrive early wait for the others.
#[derive(Clone, Copy, Debug)]
struct Step {
    field: u32,
    threshold: u32,
    low: u32,
}

/// What a leaf says: tests to make in turn; when none holds, the last action does.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    first: u32,
    count: u32,
    last: Action,
}

/// A decision tree. Nodes are numbered from 0, the root.
#[derive(Clone, Debug, Default)]
struct Tree {
    /// A step a node.
    steps: Vec<Step>,
    /// A leaf a node; meaningless for nodes that are none.
    leaves: Vec<Leaf>,
    /// The leaves' tests.
    tests: Vec<Test>,
}

/// The classifier.
#[derive(Clone, Debug)]
pub(crate) struct Acl {
    tree: Tree,
}

/// Rules that make no classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} rules are more than the {max} that a firewall takes", max = Acl::MAX_RULES)]
pub struct AclError(usize);

impl Point {
    /// No packet at all, in the place of one that is not to be classified.
    pub(crate) const NOWHERE: Self = Self([0; 8]);

    /// A packet. `ports` is nothing where the packet has none.
    #[inline]
    pub(crate) const fn new(source: u32, destination: u32, protocol: u8, ports: Option<(u16, u16)>) -> Self {
        let (from, to) = match ports {
            Some((from, to)) => (from as u32, to as u32),
            None => (NO_PORT, NO_PORT),
        };
        Self([source, destination, protocol as u32, from, to, 0, 0, 0])
    }
}

impl Bounds {
    /// Everything.
    const ALL: Self = Self { first: [0; FIELDS], last: MAXIMA };

    fn of(rule: &Rule) -> Self {
        let ports = |ports: Ports| match ports {
            Ports::Any => (0, NO_PORT),
            Ports::Range { first, last } => (u32::from(first), u32::from(last)),
        };
        let addresses =
            [rule.source, rule.destination].map(|p| [p.address(), p.last()].map(Ipv4Addr::to_bits));
        let (protocol, last_protocol) = rule.protocol.map_or((0, 0xff), |p| (u32::from(p), u32::from(p)));
        let (from, to) = (ports(rule.source_ports), ports(rule.destination_ports));
        Self {
            first: [addresses[0][0], addresses[1][0], protocol, from.0, to.0],
            last: [addresses[0][1], addresses[1][1], last_protocol, from.1, to.1],
        }
    }

    /// Whether the point lies within. No branch: a miss in one field is not known to be likelier
    /// than in another.
    #[inline]
    fn holds(&self, point: &Point) -> bool {
        let mut outside = false;
        for field in 0..FIELDS {
            outside |= (point.0[field] < self.first[field]) | (point.0[field] > self.last[field]);
        }
        !outside
    }

    /// Whether all of the other lies within.
    fn covers(&self, other: &Self) -> bool {
        (0..FIELDS)
            .all(|field| self.first[field] <= other.first[field] && self.last[field] >= other.last[field])
    }
}

impl Acl {
    /// The most rules.
    pub(crate) const MAX_RULES: usize = 1_000_000;

    /// Builds the classifier. What no rule matches is denied.
    pub(crate) fn new(rules: &[Rule]) -> Result<Self, AclError> {
        if rules.len() > Self::MAX_RULES {
            return Err(AclError(rules.len()));
        }
        let mut tests: Vec<Test> =
            rules.iter().map(|rule| Test { bounds: Bounds::of(rule), action: rule.action }).collect();
        tests.push(Test { bounds: Bounds::ALL, action: Action::Deny });
        Ok(Self { tree: build::tree(&tests) })
    }

    /// What the first matching rule says about each packet, in order.
    #[inline]
    pub(crate) fn classify(&self, points: &[Point], actions: &mut [Action]) {
        for (points, actions) in points.chunks(ABREAST).zip(actions.chunks_mut(ABREAST)) {
            let nodes = self.tree.descend(points);
            for ((action, point), node) in actions.iter_mut().zip(points).zip(nodes) {
                *action = self.tree.conclude(node, point);
            }
        }
    }
}

impl Step {
    /// A leaf's step: whatever the point, it leads to `node` itself.
    const fn stay(node: u32) -> Self {
        Self { field: 0, threshold: 0, low: node.wrapping_sub(1) }
    }

    #[inline]
    fn next(&self, point: &Point) -> u32 {
        self.low.wrapping_add(u32::from(point.0[(self.field & 7) as usize] >= self.threshold))
    }
}

impl Tree {
    /// The leaf that each of up to [`ABREAST`] packets reaches.
    #[inline]
    fn descend(&self, points: &[Point]) -> [u32; ABREAST] {
        let mut nodes = [0; ABREAST];
        loop {
            let mut moved = 0;
            for (node, point) in nodes.iter_mut().zip(points) {
                let next = self.steps[*node as usize].next(point);
                moved |= next ^ *node;
                *node = next;
            }
            if moved == 0 {
                return nodes;
            }
        }
    }

    /// What a leaf says about a packet.
    #[inline]
    fn conclude(&self, node: u32, point: &Point) -> Action {
        let leaf = &self.leaves[node as usize];
        let tests = &self.tests[leaf.first as usize..][..leaf.count as usize];
        tests.iter().find(|test| test.bounds.holds(point)).map_or(leaf.last, |test| test.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::table::{FiveTuple, Ipv4Prefix, first_match};

    fn prefix() -> impl Strategy<Value = Ipv4Prefix> {
        (any::<u32>(), prop_oneof![Just(0_u8), 0_u8..=32])
            .prop_map(|(address, len)| Ipv4Prefix::covering(Ipv4Addr::from_bits(address & 0xf000_000f), len))
    }

    fn ports() -> impl Strategy<Value = Ports> {
        prop_oneof![
            Just(Ports::Any),
            (0_u16..20, 0_u16..20).prop_map(|(a, b)| Ports::Range { first: a.min(b), last: a.max(b) }),
            (0_u16..20).prop_map(|port| Ports::Range { first: port, last: u16::MAX }),
        ]
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let protocol = prop_oneof![Just(None), Just(Some(6)), Just(Some(17)), Just(Some(255))];
        (any::<bool>(), protocol, prefix(), ports(), prefix(), ports()).prop_map(
            |(deny, protocol, source, source_ports, destination, destination_ports)| Rule {
                action: if deny { Action::Deny } else { Action::Allow },
                protocol,
                source,
                source_ports,
                destination,
                destination_ports,
            },
        )
    }

    fn packet() -> impl Strategy<Value = FiveTuple> {
        let protocol = prop_oneof![Just(6_u8), Just(17), Just(1), Just(255)];
        let ports = prop::option::of((0_u16..22, prop_oneof![0_u16..22, Just(u16::MAX)]));
        (protocol, any::<u32>(), any::<u32>(), ports).prop_map(|(protocol, source, destination, ports)| {
            FiveTuple {
                protocol,
                source: Ipv4Addr::from_bits(source & 0xf000_000f),
                destination: Ipv4Addr::from_bits(destination & 0xf000_000f),
                ports,
            }
        })
    }

    fn action(acl: &Acl, packet: &FiveTuple) -> Action {
        actions(acl, &[*packet])[0]
    }

    fn actions(acl: &Acl, packets: &[FiveTuple]) -> Vec<Action> {
        let point = |packet: &FiveTuple| {
            Point::new(packet.source.to_bits(), packet.destination.to_bits(), packet.protocol, packet.ports)
        };
        let points: Vec<Point> = packets.iter().map(point).collect();
        let mut actions = vec![Action::Allow; packets.len()];
        acl.classify(&points, &mut actions);
        actions
    }

    proptest! {
        #[test]
        fn the_tree_says_what_the_list_says(
            rules in prop::collection::vec(rule(), 0..80),
            packets in prop::collection::vec(packet(), 0..200),
        ) {
            let acl = Acl::new(&rules).unwrap();
            for (packet, action) in packets.iter().zip(actions(&acl, &packets)) {
                let plain = first_match(&rules, packet).map_or(Action::Deny, |rule| rule.action);
                prop_assert_eq!(action, plain, "{:?}", packet);
            }
        }
    }

    #[test]
    fn an_empty_list_denies_everything() {
        let acl = Acl::new(&[]).unwrap();
        let (source, destination) = (Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
        let packet = FiveTuple { protocol: 17, source, destination, ports: None };
        assert_eq!(action(&acl, &packet), Action::Deny);
    }

    /// Hosts behind /24s, a service each: rules that are easy to tell apart.
    fn distinct(count: u32) -> Vec<Rule> {
        (0..count)
            .map(|n| {
                let [_, _, high, low] = n.to_be_bytes();
                format!("deny udp 198.18.{high}.0/24 any 198.19.{low}.{high} {}", n % 1024).parse().unwrap()
            })
            .chain([Rule::ALLOW_ALL])
            .collect()
    }

    #[test]
    fn a_thousand_distinct_rules_cost_a_packet_few_tests() {
        let acl = Acl::new(&distinct(1000)).unwrap();
        let longest = acl.tree.leaves.iter().map(|leaf| leaf.count);
        assert!(longest.max().unwrap() <= 4);
    }

    #[test]
    fn rules_that_cannot_be_told_apart_stay_a_list_within_the_budget() {
        // Each wide in all fields but one, and each pair overlapping: the worst for a tree.
        let wide: Vec<Rule> = (0..1000_u32)
            .map(|n| match n % 2 {
                0 => format!("deny any any {}-65535 any any", n + 1).parse().unwrap(),
                _ => format!("allow any any any any {}-65535", n + 1).parse().unwrap(),
            })
            .collect();
        let acl = Acl::new(&wide).unwrap();
        assert!(acl.tree.tests.len() <= build::budget(1001), "{} tests", acl.tree.tests.len());
        for (from, to) in [(0, 0), (1, 0), (2000, 3), (3, 2000), (999, 998), (65_535, 65_535)] {
            let packet = FiveTuple {
                protocol: 6,
                source: Ipv4Addr::LOCALHOST,
                destination: Ipv4Addr::LOCALHOST,
                ports: Some((from, to)),
            };
            let plain = first_match(&wide, &packet).map_or(Action::Deny, |rule| rule.action);
            assert_eq!(action(&acl, &packet), plain, "{packet:?}");
        }
    }
}

//! What is wrong with a graph, each mistake with the part of it that it is about and how to mend it.
//!
//! Names come first, then ports, then ways: a graph whose names are wrong is not followed.

use super::{Graph, GraphDevice, GraphEnd};
use crate::{Chain, Placement};
use std::collections::BTreeSet;

/// The part of a graph that a mistake is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphPart {
    /// A device, by its place.
    Device(usize),
    /// A link, by its place.
    Link(usize),
    /// All of it.
    Whole,
}

/// Something that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphMistake {
    /// Where.
    pub part: GraphPart,
    /// What, and how to mend it.
    pub why: String,
}

fn mistake(part: GraphPart, why: impl Into<String>) -> GraphMistake {
    GraphMistake { part, why: why.into() }
}

/// The next even number, of a number that may be absurd.
fn even(ports: u32) -> u32 {
    ports.div_ceil(2).saturating_mul(2)
}

impl Graph {
    /// All that is wrong with it; nothing where packets from each of the tester's ports come out at its neighbour, by functions.
    pub fn mistakes(&self) -> Vec<GraphMistake> {
        let steps = [Self::wrong_names, Self::wrong_ends, Self::wrong_ports, Self::wrong_ways];
        steps.iter().map(|step| step(self)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn wrong_names(&self) -> Vec<GraphMistake> {
        let mut found = Vec::new();
        if self.devices.len() > Self::MOST_DEVICES {
            let count = self.devices.len();
            let most = Self::MOST_DEVICES;
            found.push(mistake(
                GraphPart::Whole,
                format!("a graph of {count} devices is too large; it has {most} at most"),
            ));
        }
        for (place, GraphDevice { name, .. }) in self.devices.iter().enumerate() {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if name.is_empty() || !plain || name == Self::TESTER {
                let why = format!(
                    "`{name}` is no name of a device; write letters, digits and `_`, and not `{}`",
                    Self::TESTER
                );
                found.push(mistake(GraphPart::Device(place), why));
            } else if self.device(name).is_some_and(|(first, _)| first < place) {
                let why = format!("two devices are called `{name}`; give each a name of its own");
                found.push(mistake(GraphPart::Device(place), why));
            }
        }
        found
    }

    fn wrong_ends(&self) -> Vec<GraphMistake> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for (place, link) in self.links.iter().enumerate() {
            let at = GraphPart::Link(place);
            for end in &link.between {
                if !end.is_testers() && self.device(&end.device).is_none() {
                    let names: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
                    let why = format!(
                        "{end}: there is no device `{}`; there are {}, and tester",
                        end.device,
                        names.join(", ")
                    );
                    found.push(mistake(at, why));
                } else if !seen.insert(end) {
                    let why = format!("{end} has a link already, and a port has one; take another port");
                    found.push(mistake(at, why));
                }
            }
            let [one, other] = &link.between;
            if one.device == other.device {
                let why = match one.is_testers() {
                    true => {
                        format!("{one} and {other} are both the tester's; a device must stand between them")
                    }
                    false => format!("{one} and {other} are of the same device; a link joins two"),
                };
                found.push(mistake(at, why));
            }
        }
        found
    }

    fn wrong_ports(&self) -> Vec<GraphMistake> {
        let mut found = Vec::new();
        for (place, device) in self.devices.iter().enumerate() {
            let (name, ports, at) = (&device.name, self.ports(&device.name), GraphPart::Device(place));
            match device.nf {
                Some(nf) if ports > 2 => {
                    let last = GraphEnd { device: name.clone(), port: ports - 1 };
                    let link = self.beyond(&last).map_or(at, |(link, _)| GraphPart::Link(link));
                    let why = format!(
                        "{last}: {name} is {nf}, which has ports 0 and 1; leave `nf` out of what carries for others"
                    );
                    found.push(mistake(link, why));
                }
                Some(_) => found.extend(self.unlinked(at, name, 2)),
                None => found.extend(self.unlinked(at, name, even(ports).max(2))),
            }
        }
        let ports = self.ports(Self::TESTER);
        match ports {
            0 => found.push(mistake(
                GraphPart::Whole,
                "no link is the tester's, which sends into port 0 and awaits packets at port 1; link tester.0 and tester.1",
            )),
            _ if ports as usize > 2 * Placement::MOST_BUNDLES as usize => {
                let most = 2 * Placement::MOST_BUNDLES;
                found.push(mistake(GraphPart::Whole, format!("{ports} ports of the tester are too many; it has {most} at most")));
            }
            _ => found.extend(self.unlinked(GraphPart::Whole, Self::TESTER, even(ports))),
        }
        found
    }

    /// The ports below a number that have no link.
    fn unlinked(&self, part: GraphPart, name: &str, ports: u32) -> Option<GraphMistake> {
        let free = |port: &u32| self.beyond(&GraphEnd { device: name.to_owned(), port: *port }).is_none();
        // A number may be absurd: the first few are enough to tell.
        let missing: Vec<u32> = (0..ports).filter(free).take(4).collect();
        let (first, named) = (missing.first()?, missing.iter().map(|port| format!("{name}.{port}")));
        let why = format!(
            "{} not linked: what comes in by {name}.{first} leaves by {name}.{} and the other way; link both",
            named.collect::<Vec<_>>().join(", ") + if missing.len() > 1 { " are" } else { " is" },
            first ^ 1
        );
        Some(mistake(part, why))
    }

    fn wrong_ways(&self) -> Vec<GraphMistake> {
        let (mut found, mut passed) = (Vec::new(), BTreeSet::new());
        for (pair, (hops, out)) in (0..).zip(self.ways()) {
            let (from, to) = (2 * pair, 2 * pair + 1);
            passed.extend(hops.iter().map(|hop| (hop.device, hop.near / 2)));
            if let Some(out) = out.filter(|out| *out != to) {
                let why = format!(
                    "what comes in by tester.{from} comes out at tester.{out}, and must at tester.{to}: the tester's ports are in pairs"
                );
                found.push(mistake(GraphPart::Whole, why));
                continue;
            }
            for hop in hops.iter().filter(|hop| hop.near == 1 && self.devices[hop.device].nf.is_some()) {
                let name = &self.devices[hop.device].name;
                let why = format!(
                    "{name}.1 is on the side of tester.{from}, where a function has its port 0; write {name}.0 and {name}.1 the other way"
                );
                found.push(mistake(GraphPart::Device(hop.device), why));
            }
            match self.functions(&hops).as_slice() {
                [] => {
                    let why = format!(
                        "no function stands between tester.{from} and tester.{to}; give a device an `nf`, l2fwd if nothing else"
                    );
                    found.push(mistake(GraphPart::Whole, why));
                }
                functions => {
                    let error = Chain::of(functions).err();
                    found.extend(error.map(|error| mistake(GraphPart::Whole, error.to_string())));
                }
            }
        }
        if found.is_empty() { self.circles(&passed).into_iter().collect() } else { found }
    }

    /// What no packet of the tester reaches, though all its ports are linked: it goes in a circle.
    fn circles(&self, passed: &BTreeSet<(usize, u32)>) -> Option<GraphMistake> {
        let pairs =
            |place: usize| (0..self.ports(&self.devices[place].name) / 2).map(move |pair| (place, pair));
        let all = (0..self.devices.len()).flat_map(pairs);
        let never: Vec<(usize, u32)> = all.filter(|pair| !passed.contains(pair)).collect();
        let (first, _) = never.first()?;
        let named = |(place, pair): &(usize, u32)| {
            let name = &self.devices[*place].name;
            format!("{name}.{}-{name}.{}", 2 * pair, 2 * pair + 1)
        };
        let why = format!(
            "{}: a cycle, which no port of the tester leads into; link the tester to it, or leave it out",
            never.iter().map(named).collect::<Vec<_>>().join(", ")
        );
        Some(mistake(GraphPart::Device(*first), why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;

    /// What is wrong with a graph: the parts and the reasons, in one text.
    fn wrong(devices: &str, links: &str) -> String {
        let found = graph(devices, links).mistakes();
        found.iter().map(|one| format!("{:?}: {}\n", one.part, one.why)).collect()
    }

    #[test]
    fn each_bad_graph_is_told_with_its_part_and_how_to_mend_it() {
        let row = "tester.0-a.0 a.1-b.0 b.1-tester.1";
        for (devices, links, says) in [
            ("a=nf=l2fwd a=nf=l2fwd", row, "Device(1): two devices are called `a`"),
            ("tester=nf=l2fwd", row, "Device(0): `tester` is no name of a device"),
            ("a-b=nf=l2fwd", row, "`a-b` is no name"),
            ("a=nf=l2fwd", row, "Link(1): b.0: there is no device `b`; there are a, and tester"),
            ("a=nf=l2fwd b=nf=l2fwd", "tester.0-a.0 a.1-b.0 b.0-tester.1", "Link(2): b.0 has a link already"),
            ("a=nf=l2fwd", "tester.0-a.0 a.0-a.0 a.1-tester.1", "Link(1): a.0 has a link already"),
            ("a=weir", "tester.0-a.0 a.1-a.2 a.3-tester.1", "Link(1): a.1 and a.2 are of the same device"),
            ("a=nf=l2fwd", "tester.0-tester.1", "a device must stand between them"),
            ("a=nf=l2fwd b=nf=l2fwd", "tester.0-a.0 a.1-tester.1", "Device(1): b.0, b.1 are not linked"),
            ("a=nf=l2fwd b=nf=l2fwd", "tester.0-a.0 a.1-b.0", "Device(1): b.1 is not linked"),
            ("a=nf=l2fwd", "tester.0-a.0 a.3-tester.1", "Link(1): a.3: a is l2fwd, which has ports 0 and 1"),
            ("a=weir", "tester.0-a.0 a.1-tester.3", "Whole: tester.1, tester.2 are not linked"),
            ("a=weir b=nf=l2fwd", "a.0-b.0 a.1-b.1", "no link is the tester's"),
            ("a=weir", "tester.0-a.0 a.1-tester.1", "no function stands between tester.0 and tester.1"),
            ("a=nf=l2fwd", "tester.0-a.1 a.0-tester.1", "Device(0): a.1 is on the side of tester.0"),
            (
                "a=nf=l2fwd b=nf=l2fwd",
                "tester.0-a.0 a.1-tester.2 tester.1-b.0 b.1-tester.3",
                "tester.0 comes out at tester.2, and must at tester.1",
            ),
            (
                "a=nf=l2fwd b=weir c=weir",
                "tester.0-a.0 a.1-tester.1 b.0-c.0 b.1-c.1",
                "Device(1): b.0-b.1, c.0-c.1: a cycle, which no port of the tester leads into",
            ),
            ("a=nf=nat", "tester.0-a.0 a.1-tester.1", "nat:1 cannot be in a chain"),
            ("a=nf=nat b=nf=l2fwd", row, "nat:1 cannot be in a chain"),
            ("a=weir", "tester.0-a.4294967294 a.1-tester.1", "a.0, a.2, a.3, a.4 are not linked"),
            ("a=nf=l2fwd", "tester.0-a.0 a.1-tester.99", "100 ports of the tester are too many"),
        ] {
            let found = wrong(devices, links);
            assert!(found.contains(says), "{devices} {links}: {found}");
        }
    }
}

//! A graph of devices: what stands between the tester's ports, where it is more than one chain of one device.
//!
//! A device has ports, numbered from 0, and is either a network function, which forwards between its ports 0 and 1, or carries
//! packets for others: between its ports 0 and 1, 2 and 3, and so on. A link joins two ports, of devices or of the tester
//! (`tester.0`), and each port has one. The tester's ports are in pairs: what it sends into port 0 must come out at port 1, by
//! devices in a row, the *path* of that pair; a device that carries packets may stand in several paths, and in one several times.
//!
//! Reading is forgiving and [`Graph::mistakes`] strict, so that all mistakes of a graph are told at once. Cost: none at run time;
//! paths are followed when a device is started and when its counters are read.

mod mistakes;

pub use mistakes::{GraphMistake, GraphPart};

use crate::{Chain, Nf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Devices, and links between their ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// In the order of the plan.
    pub devices: Vec<GraphDevice>,
    /// In the order of the plan.
    pub links: Vec<GraphLink>,
}

/// One device of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct GraphDevice {
    /// What links and results call it.
    pub name: String,
    /// The dataplane that it runs on, `NAME` or `NAME:VARIANT`.
    pub dut: String,
    /// Its network function, between its ports 0 and 1; nothing of one that carries packets between pairs of ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nf: Option<Nf>,
}

/// A link between two ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct GraphLink {
    /// The two ports.
    pub between: [GraphEnd; 2],
    /// What it is made of. Of a link of the tester's, the wiring of the point says that.
    pub by: Join,
}

/// What a link between two devices is made of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Join {
    /// virtio-user and vhost-user over a Unix socket; the device that carries packets for others has the back end, which copies.
    #[default]
    Vhost,
    /// Shared memory: the sender copies into the receiver's queue.
    Memif,
}

impl Join {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Vhost, Self::Memif];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::Memif => "memif",
        }
    }
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Join {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` joins no two devices; write vhost or memif"))
    }
}

/// A port of a device or of the tester, written `DEVICE.PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct GraphEnd {
    /// The device, or [`Graph::TESTER`].
    pub device: String,
    /// Its port, from 0.
    pub port: u32,
}

impl GraphEnd {
    /// Whether it is the tester's.
    pub fn is_testers(&self) -> bool {
        self.device == Graph::TESTER
    }
}

impl fmt::Display for GraphEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.device, self.port)
    }
}

impl FromStr for GraphEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('.').filter(|(device, _)| !device.is_empty());
        let end = parts.and_then(|(device, port)| {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            Some(Self { device: device.to_owned(), port: port.parse().ok().filter(|_| digits)? })
        });
        end.ok_or_else(|| {
            format!("`{text}` is no port; write DEVICE.PORT, ports counted from 0, such as \"fw.0\" or \"tester.1\"")
        })
    }
}

impl From<GraphEnd> for String {
    fn from(end: GraphEnd) -> Self {
        end.to_string()
    }
}

impl TryFrom<String> for GraphEnd {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// A device on a path: where packets from the path's first port come in, and where they leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Its place among the devices.
    pub device: usize,
    /// Towards the first port of the tester's pair.
    pub near: u32,
    /// Towards the second.
    pub far: u32,
}

impl Graph {
    /// What the tester is called in links.
    pub const TESTER: &'static str = "tester";
    /// Most devices.
    pub const MOST_DEVICES: usize = 32;

    /// The device of a name, and its place.
    pub fn device(&self, name: &str) -> Option<(usize, &GraphDevice)> {
        self.devices.iter().enumerate().find(|(_, device)| device.name == name)
    }

    /// The link of a port, by its place, and the port at its other end.
    pub fn beyond(&self, end: &GraphEnd) -> Option<(usize, &GraphEnd)> {
        self.links.iter().enumerate().find_map(|(place, link)| match &link.between {
            [one, other] if one == end => Some((place, other)),
            [other, one] if one == end => Some((place, other)),
            _ => None,
        })
    }

    /// Ports of a device: one more than the greatest of its links.
    pub fn ports(&self, name: &str) -> u32 {
        let ends = self.links.iter().flat_map(|link| &link.between).filter(|end| end.device == name);
        ends.map(|end| end.port.saturating_add(1)).max().unwrap_or(0)
    }

    /// Pairs of the tester's ports.
    pub fn pairs(&self) -> u32 {
        self.ports(Self::TESTER).div_ceil(2)
    }

    /// From each pair's first port on: the devices that a packet passes, and the port of the tester at which it comes out.
    /// Nothing of that where the way ends at a port without a link.
    fn ways(&self) -> Vec<(Vec<Hop>, Option<u32>)> {
        (0..self.pairs()).map(|pair| self.way(2 * pair)).collect()
    }

    fn way(&self, from: u32) -> (Vec<Hop>, Option<u32>) {
        let mut hops = Vec::new();
        let mut end = GraphEnd { device: Self::TESTER.to_owned(), port: from };
        // Each link is passed once at most, else it is a circle of a graph with mistakes.
        for _ in 0..=self.links.len() {
            let Some((_, next)) = self.beyond(&end) else { return (hops, None) };
            if next.is_testers() {
                return (hops, Some(next.port));
            }
            let Some((device, _)) = self.device(&next.device) else { return (hops, None) };
            let far = next.port ^ 1;
            hops.push(Hop { device, near: next.port, far });
            end = GraphEnd { device: next.device.clone(), port: far };
        }
        (hops, None)
    }

    /// The path of each of the tester's pairs of ports.
    pub fn paths(&self) -> Vec<Vec<Hop>> {
        self.ways().into_iter().map(|(hops, _)| hops).collect()
    }

    /// The functions of a path, in order.
    fn functions(&self, path: &[Hop]) -> Vec<Nf> {
        path.iter().filter_map(|hop| self.devices.get(hop.device)?.nf).collect()
    }

    /// The functions that packets of the first pair pass, as one.
    pub fn nf(&self) -> Option<Nf> {
        let functions = self.functions(self.paths().first()?);
        (!functions.is_empty()).then(|| Chain::of(&functions).ok())?
    }

    /// Why no lab can judge it; nothing where it can.
    pub fn unjudged(&self) -> Option<String> {
        let each: Vec<Vec<Nf>> = self.paths().iter().map(|path| self.functions(path)).collect();
        let (other, functions) = each.iter().enumerate().find(|(_, one)| **one != each[0])?;
        let named = |nfs: &[Nf]| nfs.iter().map(Nf::to_string).collect::<Vec<_>>().join("+");
        Some(format!(
            "behind tester.0 stands {}, behind tester.{} {}, and the tester judges all of its pairs by the same functions; give \
             both the same, or measure them in two plans",
            named(&each[0]),
            2 * other,
            named(functions)
        ))
    }

    /// The dataplanes of the devices that face the tester.
    pub fn outer(&self) -> Vec<&str> {
        let facing = |link: &GraphLink| link.between.iter().any(GraphEnd::is_testers);
        let ends = self.links.iter().filter(|link| facing(link)).flat_map(|link| &link.between);
        ends.filter_map(|end| Some(self.device(&end.device)?.1.dut.as_str())).collect()
    }

    /// Its devices in the order in which they are started: those that carry packets, then functions from each path's first on.
    pub fn in_order(&self) -> Vec<usize> {
        let carriers = self.devices.iter().enumerate().filter(|(_, device)| device.nf.is_none());
        let mut order: Vec<usize> = carriers.map(|(place, _)| place).collect();
        for hop in self.paths().into_iter().flatten() {
            if !order.contains(&hop.device) {
                order.push(hop.device);
            }
        }
        order
    }

    /// The dataplanes of the functions of its first path, as those of a chain are named.
    pub fn duts(&self) -> String {
        let paths = self.paths();
        let hops = paths.first().into_iter().flatten();
        let functions = hops.filter_map(|hop| self.devices.get(hop.device)).filter(|one| one.nf.is_some());
        let mut duts: Vec<&str> = functions.map(|one| one.dut.as_str()).collect();
        if duts.iter().all(|dut| *dut == duts[0]) {
            duts.truncate(1);
        }
        duts.join("|")
    }
}

/// The names on each path, as `sw-fw-sw-r-sw`.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |hop: &Hop| self.devices.get(hop.device).map_or("?", |device| &device.name).to_owned();
        let path = |path: Vec<Hop>| path.iter().map(name).collect::<Vec<_>>().join("-");
        f.pad(&self.paths().into_iter().map(path).collect::<Vec<_>>().join(" and "))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A graph of devices `NAME=DUT[=NF]` and links `A.0-B.1[ by memif]`.
    pub(crate) fn graph(devices: &str, links: &str) -> Graph {
        let device = |text: &str| {
            let mut parts = text.splitn(3, '=').map(str::to_owned);
            let (name, dut) = (parts.next().unwrap(), parts.next().unwrap());
            GraphDevice { name, dut, nf: parts.next().map(|nf| nf.parse().unwrap()) }
        };
        let link = |text: &str| {
            let (text, by) = text.split_once('/').unwrap_or((text, "vhost"));
            let (one, other) = text.split_once('-').unwrap();
            GraphLink { between: [one, other].map(|end| end.parse().unwrap()), by: by.parse().unwrap() }
        };
        Graph {
            devices: devices.split_whitespace().map(device).collect(),
            links: links.split_whitespace().map(link).collect(),
        }
    }

    /// Two functions behind one carrier.
    pub(crate) fn hosted() -> Graph {
        graph(
            "fw=nf=firewall:10 sw=weir r=testpmd=l2fwd",
            "tester.0-sw.0 sw.1-fw.0 fw.1-sw.2 sw.3-r.0 r.1-sw.5 sw.4-tester.1",
        )
    }

    #[test]
    fn packets_are_followed_from_the_testers_first_port_to_its_second() {
        let graph = hosted();
        assert_eq!(graph.mistakes(), []);
        let hop = |device, near, far| Hop { device, near, far };
        assert_eq!(
            graph.paths(),
            [vec![hop(1, 0, 1), hop(0, 0, 1), hop(1, 2, 3), hop(2, 0, 1), hop(1, 5, 4)]]
        );
        assert_eq!(graph.to_string(), "sw-fw-sw-r-sw");
        assert_eq!(
            (graph.nf().unwrap().to_string(), graph.duts()),
            ("firewall:10+l2fwd".into(), "nf|testpmd".into())
        );
        assert_eq!((graph.in_order(), graph.pairs(), graph.ports("sw")), (vec![1, 0, 2], 1, 6));
        assert_eq!((graph.unjudged(), graph.outer()), (None, vec!["weir", "weir"]));
    }

    #[test]
    fn several_pairs_have_a_path_each_and_one_judge() {
        let devices = "sw=weir a=nf=l2fwd b=testpmd=l2fwd";
        let links = "tester.0-sw.0 sw.1-a.0 a.1-sw.2 sw.3-tester.1 tester.2-b.0/memif b.1-tester.3";
        let both = graph(devices, links);
        assert_eq!((both.mistakes(), both.pairs(), both.unjudged()), (vec![], 2, None));
        assert_eq!((both.to_string(), both.duts()), ("sw-a-sw and b".to_owned(), "nf".to_owned()));
        let other = graph(&devices.replace("testpmd=l2fwd", "nf=l3fwd:10"), links);
        let why = other.unjudged().unwrap();
        assert!(why.contains("tester.0 stands l2fwd, behind tester.2 l3fwd:10"), "{why}");
    }

    #[test]
    fn a_graph_is_stored_with_its_ports_as_text_and_read_again() {
        let graph = hosted();
        let text = serde_json::to_string(&graph).unwrap();
        assert!(text.contains(r#""between":["tester.0","sw.0"],"by":"vhost""#), "{text}");
        assert_eq!(serde_json::from_str::<Graph>(&text).unwrap(), graph);
        for wrong in ["fw", "fw.", ".0", "fw.x", "fw.+1", "fw.4294967296", ""] {
            assert!(wrong.parse::<GraphEnd>().is_err(), "{wrong}");
        }
        let circle = Graph { links: graph.links[1..].to_vec(), ..graph };
        assert!(circle.nf().is_none() && circle.paths()[0].is_empty(), "what is broken is walked to its end");
    }
}

//! A graph of devices, started, counted and stopped as one.
//!
//! Each device is a process of its own adapter, in a folder of its own, with the ports that its links give it. Those that carry
//! packets for others come first, then the functions from each path's first on; of a link's two ends the one that is started
//! first waits for the other: it has the vhost-user back end, or listens for memif. Whoever cannot make vhost-user sockets that
//! count (`ovs-dpdk`) connects to the other end's. A device has a stage for each time that a path passes it.

use super::running::{Member, Rows, Running};
use super::stages::{Counted, stage};
use super::{ChainRequest, MOST_PORTS};
use crate::folder::Folder;
use crate::vhost_events::Awake;
use crate::wiring::{Memif, Side, Vhost, WiringKind};
use crate::{Adapter, Counters, DutError, Kind, PortCounts, RunningDut, StartRequest};
use weir_trial::{Graph, GraphDevice, GraphEnd, Join, Nf, StageReading, StageTaps};

/// Names of ports between devices begin with this number, those towards the tester below it.
const FIRST_INSIDE: usize = 100;

/// The wiring that a link is like.
fn wiring(by: Join) -> WiringKind {
    match by {
        Join::Vhost => WiringKind::Vhost,
        Join::Memif => WiringKind::Memif,
    }
}

/// Why the devices of a graph cannot be what it asks for, reached by the tester over a wiring; nothing where they can.
pub fn unsupported(graph: &Graph, outer: WiringKind) -> Option<String> {
    if !matches!(outer, WiringKind::Vhost | WiringKind::Memif) {
        return Some(format!(
            "a graph meets the tester over `vhost` or `memif`, not over `{outer}`; take one of them"
        ));
    }
    graph.devices.iter().find_map(|device| {
        let reason = unfit(graph, device, outer)?;
        Some(format!("{}: {reason}", device.name))
    })
}

/// Why a device cannot be what it is to be.
fn unfit(graph: &Graph, device: &GraphDevice, outer: WiringKind) -> Option<String> {
    let dut = crate::adapter(&device.dut)?;
    if dut.kind() != Kind::Started {
        return Some(format!("{} is no device that the lab starts; a graph has no others", dut.name()));
    }
    match device.nf {
        Some(nf) => {
            if let Err(reason) = dut.supports(nf) {
                return Some(format!("{} cannot be {nf}: {reason}", dut.name()));
            }
        }
        None if dut.hosts().is_none() => {
            let hosts = crate::ADAPTERS.iter().filter(|adapter| adapter.hosts().is_some());
            let names: Vec<&str> = hosts.map(|adapter| adapter.name()).collect();
            return Some(format!(
                "{} carries no packets for others; {} do; or give it an `nf`",
                dut.name(),
                names.join(", ")
            ));
        }
        None => {}
    }
    let ports = graph.ports(&device.name) as usize;
    if ports > MOST_PORTS {
        return Some(format!("{ports} ports are too many; DPDK as it is built has {MOST_PORTS}"));
    }
    (0..ports as u32).find_map(|port| {
        let own = GraphEnd { device: device.name.clone(), port };
        let (link, other) = graph.beyond(&own)?;
        let by = if other.is_testers() { outer } else { wiring(graph.links.get(link)?.by) };
        (!dut.wirings().contains(&by)).then(|| {
            format!("{} cannot be reached by `{by}`, of which its link to {other} is made", dut.name())
        })
    })
}

/// How the ends of a graph's links become ports.
struct Ports<'a> {
    request: &'a ChainRequest<'a>,
    graph: &'a Graph,
    /// The devices in the order of their start.
    order: &'a [usize],
}

impl Ports<'_> {
    /// Those of a device, as EAL `--vdev` strings.
    fn of(&self, device: &GraphDevice) -> Vec<String> {
        let ports = 0..self.graph.ports(&device.name);
        ports.filter_map(|port| self.port(&GraphEnd { device: device.name.clone(), port })).collect()
    }

    fn port(&self, own: &GraphEnd) -> Option<String> {
        let (link, other) = self.graph.beyond(own)?;
        if other.is_testers() {
            return self.request.start.ports.get(other.port as usize).cloned();
        }
        let first = self.rank(own)? < self.rank(other)?;
        let side = if first { Side::Dut } else { Side::Lab };
        let socket = self.request.start.folder.file(&format!("link-{link}.sock"));
        Some(match self.graph.links.get(link)?.by {
            Join::Memif => {
                let frame = self.request.start.max_frame;
                Memif { server: Side::Dut }.port_at(side, (FIRST_INSIDE + link, 0), &socket, frame)
            }
            Join::Vhost => {
                let (_, backend) = self.graph.device(&if first { own } else { other }.device)?;
                let server = crate::adapter(&backend.dut)?.hosts().unwrap_or(Side::Dut);
                Vhost { backend: Side::Dut, server }.port_at(side, FIRST_INSIDE + link, &socket)
            }
        })
    }

    /// When a device is started.
    fn rank(&self, end: &GraphEnd) -> Option<usize> {
        let (place, _) = self.graph.device(&end.device)?;
        self.order.iter().position(|one| *one == place)
    }

    /// Whether a device can go on while others end: it polls no memory that a neighbour takes away, as memif's driver does.
    fn answers(&self, device: &GraphDevice) -> bool {
        self.of(device).iter().all(|port| !port.starts_with("net_memif"))
    }
}

/// A device on a path: which of the processes it is, and by which of its ports packets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) process: usize,
    pub(super) near: usize,
    pub(super) far: usize,
}

/// Starts all devices of a graph.
pub(super) fn start(request: &ChainRequest<'_>, graph: &Graph) -> Result<Box<dyn RunningDut>, DutError> {
    let order = graph.in_order();
    let ports = Ports { request, graph, order: &order };
    let passage = |hop: weir_trial::Hop| {
        let process = order.iter().position(|one| *one == hop.device)?;
        Some(Passage { process, near: hop.near as usize, far: hop.far as usize })
    };
    let rows = graph.paths().into_iter().map(|path| path.into_iter().filter_map(passage).collect());
    let mut running = Running::new(Rows::Graph(rows.collect()), false);
    // Each connects to ports of those before it.
    let mut awake = Vec::new();
    for (place, device) in order.iter().filter_map(|place| graph.devices.get(*place)).enumerate() {
        let name = named(device);
        let core = request.cores.get(place).copied().unwrap_or(request.start.core);
        let own = Own { device, ports: &ports.of(device), cores: &[core] };
        let (dut, folder) = own.start(request).map_err(|error| running.cause(error.within(name.clone())))?;
        awake.push(Awake::keep(dut.as_ref()));
        let answers = ports.answers(device);
        running.members.push(Member {
            dut,
            name,
            is_host: device.nf.is_none(),
            answers,
            folder: Some(folder),
        });
    }
    Ok(running.described())
}

/// What a device is called among the stages: `fw: testpmd l2fwd`, `sw: weir`.
fn named(device: &GraphDevice) -> String {
    let dut = crate::split(&device.dut).0;
    device.nf.map_or_else(|| format!("{}: {dut}", device.name), |nf| format!("{}: {dut} {nf}", device.name))
}

/// What a device is started with.
struct Own<'a> {
    device: &'a GraphDevice,
    ports: &'a [String],
    cores: &'a [usize],
}

impl Own<'_> {
    fn start(&self, request: &ChainRequest<'_>) -> Result<(Box<dyn RunningDut>, Folder), DutError> {
        let nf = self.device.nf.unwrap_or(Nf::L2Fwd);
        let reason = format!("`{}` is no device", self.device.dut);
        let unknown = || DutError::Unsupported { dut: "graph", nf, reason };
        let dut: &dyn Adapter = crate::adapter(&self.device.dut).ok_or_else(unknown)?;
        let folder = Folder::new()?;
        let further = (self.ports.len() as u32 / 2).saturating_sub(1);
        let own = StartRequest {
            nf,
            variant: crate::split(&self.device.dut).1,
            ports: self.ports,
            buffers: further * crate::eal::SPARE_BUFFERS,
            folder: &folder,
            ..super::on(request, self.cores)
        };
        let dut = if self.device.nf.is_some() { dut.start(&own) } else { dut.start_host(&own) }?;
        Ok((dut, folder))
    }
}

/// What the devices of a graph counted, by stage, path by path.
pub(super) fn stages(processes: &[Counted<'_>], rows: &[Vec<Passage>]) -> Vec<StageReading> {
    let mut all = Vec::new();
    for (bundle, row) in (1..).zip(rows) {
        let bundle = if rows.len() > 1 { bundle } else { 0 };
        let readings = row.iter().filter_map(|passage| Some((passage, processes.get(passage.process)?)));
        all.extend(readings.map(|(passage, process)| StageReading { bundle, ..reading(process, passage) }));
    }
    all
}

/// What a device counted where a path passes it.
fn reading(process: &Counted<'_>, passage: &Passage) -> StageReading {
    let counters: &Counters = process.counters;
    let port = |number: usize| counters.ports.get(number).copied().unwrap_or_default();
    let pair: [PortCounts; 2] = [port(passage.near), port(passage.far)];
    let refused = match process.is_host {
        true => pair[0].refused.zip(pair[1].refused).map(|(one, other)| one + other),
        false => counters.refused,
    };
    let reading = stage((process.name, passage.process as u32), pair, (refused, counters.cpu));
    // Its taps are by pairs, from the even port on.
    let turned = |taps: StageTaps| match passage.near % 2 {
        0 => taps,
        _ => StageTaps { came: [taps.came[1], taps.came[0]], left: [taps.left[1], taps.left[0]] },
    };
    let taps = counters.taps.get(passage.near / 2).copied().map(turned);
    StageReading { taps, busy: counters.busy, ..reading }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use std::time::Instant;
    use weir_trial::{Deployment, GraphLink, Passed, Placement};
    use weir_units::Nanos;

    fn graph(devices: &[(&str, &str, Option<&str>)], links: &[(&str, &str, Join)]) -> Graph {
        let device = |(name, dut, nf): &(&str, &str, Option<&str>)| GraphDevice {
            name: (*name).to_owned(),
            dut: (*dut).to_owned(),
            nf: nf.map(|nf| nf.parse().unwrap()),
        };
        let link = |(one, other, by): &(&str, &str, Join)| GraphLink {
            between: [one, other].map(|end| end.parse().unwrap()),
            by: *by,
        };
        Graph { devices: devices.iter().map(device).collect(), links: links.iter().map(link).collect() }
    }

    /// A carrier of `dut`, a firewall behind it, and behind that by memif a router.
    fn mixed(dut: &str) -> Graph {
        use Join::{Memif, Vhost};
        graph(
            &[("r", "weir", Some("l3fwd:10")), ("fw", "nf", Some("firewall:10")), ("sw", dut, None)],
            &[
                ("tester.0", "sw.1", Vhost),
                ("sw.0", "fw.0", Vhost),
                ("fw.1", "r.0", Memif),
                ("r.1", "sw.2", Vhost),
                ("sw.3", "tester.1", Vhost),
            ],
        )
    }

    /// The ports of each device, in the order of the plan.
    fn ports(graph: &Graph) -> Vec<Vec<String>> {
        let folder = Folder::new().unwrap();
        let outer = ["net_vhost0,iface=/t/0".to_owned(), "net_vhost1,iface=/t/1".to_owned()];
        let start = request(graph.nf().unwrap(), &outer, &folder);
        let placement = Placement { deployment: Deployment::Graph, ..Placement::default() };
        let request = ChainRequest { start, devices: &[], placement: &placement, cores: &[1] };
        let order = graph.in_order();
        let ports = Ports { request: &request, graph, order: &order };
        let at = folder.path().display().to_string();
        let short = |port: String| port.replace(&at, "F").split(",queue").next().unwrap().to_owned();
        graph.devices.iter().map(|device| ports.of(device).into_iter().map(short).collect()).collect()
    }

    #[test]
    fn each_link_has_one_back_end_or_server_and_the_same_socket_at_both_ends() {
        let ports = ports(&mixed("weir"));
        let memif = |role: &str| format!("net_memif102,role={role},id=0,socket=F/link-2.sock,");
        assert!(
            ports[1][1].starts_with(&memif("server")) && ports[0][0].starts_with(&memif("client")),
            "{ports:?}"
        );
        assert_eq!(ports[1][0], "net_virtio_user101,path=F/link-1.sock");
        assert_eq!(ports[0][1], "net_virtio_user103,path=F/link-3.sock");
        assert_eq!(ports[2][0], "net_vhost101,iface=F/link-1.sock");
        assert_eq!(
            (ports[2][1].as_str(), ports[2][3].as_str()),
            ("net_vhost0,iface=/t/0", "net_vhost1,iface=/t/1")
        );
    }

    #[test]
    fn a_carrier_that_wants_to_connect_is_given_sockets_to_connect_to() {
        let folder = Folder::new().unwrap();
        let graph = mixed("ovs-dpdk");
        let outer = vec!["a".to_owned(), "b".to_owned()];
        let start = request(graph.nf().unwrap(), &outer, &folder);
        let placement = Placement::default();
        let request = ChainRequest { start, devices: &[], placement: &placement, cores: &[] };
        let order = graph.in_order();
        let ports = Ports { request: &request, graph: &graph, order: &order };
        assert!(ports.of(&graph.devices[2])[0].ends_with("client=1"));
        assert!(ports.of(&graph.devices[1])[0].ends_with(",server=1"));
        let answers: Vec<bool> = graph.devices.iter().map(|device| ports.answers(device)).collect();
        assert_eq!(
            answers,
            [false, false, true],
            "who polls a neighbour's memory stands still while that ends"
        );
    }

    #[test]
    fn devices_that_cannot_be_what_they_are_to_be_are_named_with_the_reason() {
        assert_eq!(unsupported(&mixed("weir"), WiringKind::Vhost), None);
        for (graph, outer, says) in [
            (
                mixed("weir"),
                WiringKind::Veth,
                "a graph meets the tester over `vhost` or `memif`, not over `veth`",
            ),
            (
                mixed("l3fwd"),
                WiringKind::Vhost,
                "sw: l3fwd carries no packets for others; nf, weir, testpmd, ovs-dpdk",
            ),
            (mixed("simulated"), WiringKind::Vhost, "sw: simulated is no device that the lab starts"),
            (
                mixed("ovs-dpdk"),
                WiringKind::Memif,
                "sw: ovs-dpdk cannot be reached by `memif`, of which its link to tester.0",
            ),
            (
                graph(
                    &[("a", "testpmd", Some("firewall:10"))],
                    &[("tester.0", "a.0", Join::Vhost), ("a.1", "tester.1", Join::Vhost)],
                ),
                WiringKind::Vhost,
                "a: testpmd cannot be firewall:10: testpmd has no filter",
            ),
        ] {
            let why = unsupported(&graph, outer).unwrap_or_default();
            assert!(why.starts_with(says), "{why}");
        }
    }

    #[test]
    fn a_stage_has_the_ports_that_its_path_passes_and_taps_turn_with_them() {
        let ports: Vec<PortCounts> = (0..4)
            .map(|port| PortCounts { received: 10 * port, sent: 10 * port + 1, refused: Some(port) })
            .collect();
        let passed = |packets| Passed { packets, delay: Nanos(1) };
        let taps = |first| StageTaps {
            came: [passed(first), passed(first + 1)],
            left: [passed(first + 2), passed(first + 3)],
        };
        let blank = || Counters::new(0, 0, Nanos(1), Instant::now());
        let carrier = Counters { ports, taps: vec![taps(10), taps(20)], busy: Some(7), ..blank() };
        let two = vec![PortCounts { received: 5, sent: 4, refused: None }; 2];
        let function = Counters { ports: two, refused: Some(3), ..blank() };
        let processes = [
            Counted { name: "sw: weir", is_host: true, counters: &carrier },
            Counted { name: "fw: nf l2fwd", is_host: false, counters: &function },
        ];
        let at = |process, near, far| Passage { process, near, far };
        let row = vec![at(0, 1, 0), at(1, 0, 1), at(0, 2, 3)];
        let one = stages(&processes, std::slice::from_ref(&row));
        let names: Vec<&str> = one.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["sw: weir", "fw: nf l2fwd", "sw: weir"]);
        assert_eq!((one[0].received, one[0].sent, one[0].refused), ([10, 0], [1, 11], Some(1)));
        assert_eq!((one[1].received, one[1].refused, one[1].process), ([5, 5], Some(3), 1));
        assert_eq!((one[2].received, one[2].sent), ([20, 30], [31, 21]));
        let came = |stage: &StageReading| stage.taps.unwrap().came.map(|passed| passed.packets);
        assert_eq!((came(&one[0]), came(&one[2])), ([11, 10], [20, 21]));
        assert!(one.iter().all(|stage| stage.bundle == 0));
        let both = stages(&processes, &[row.clone(), row]);
        assert_eq!(both.iter().map(|stage| stage.bundle).collect::<Vec<_>>(), [1, 1, 1, 2, 2, 2]);
    }
}

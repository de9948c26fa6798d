//! The links inside a chain: sockets and ports of its processes.

use super::ChainRequest;
use super::paths::Places;
use crate::folder::Folder;
use crate::wiring::{Memif, Side, Vhost, WiringKind, with_queues};
use weir_trial::Deployment;

/// Names of ports inside a chain begin with this number, so that no process has two of the same name.
const FIRST_INSIDE: usize = 100;

/// What joins the functions of a deployment; nothing where they have their memory in common.
pub(super) fn wiring(deployment: Deployment) -> Option<WiringKind> {
    match deployment {
        Deployment::Vale => Some(WiringKind::Memif),
        Deployment::Inline | Deployment::Vhost | Deployment::Container | Deployment::Vm => {
            Some(WiringKind::Vhost)
        }
        // Of a graph each link says it.
        Deployment::Shared | Deployment::Graph => None,
    }
}

/// The ports of a chain's processes, as EAL `--vdev` strings.
pub(super) struct Links {
    /// The host's, or those of the process that owns the memory; crossed in pairs, they make the chain. None without.
    pub(super) host: Vec<String>,
    /// Each function's, towards the chain's port 0 and towards its port 1.
    pub(super) functions: Vec<Vec<String>>,
}

impl Links {
    /// Of all bundles; `sockets` is the side that makes them, the host's being [`Side::Dut`].
    pub(super) fn of(request: &ChainRequest<'_>, places: Places, sockets: Option<Side>) -> Self {
        let functions = request.start.nf.members().len();
        let mut all = Self { host: Vec::new(), functions: Vec::new() };
        for (number, outer) in request.start.ports.chunks(2).enumerate() {
            let bundle = Bundle { request, outer, functions, places, number };
            let links = match sockets {
                _ if request.placement.deployment == Deployment::Shared => bundle.attached(),
                Some(sockets) => bundle.hosted(sockets),
                None => bundle.in_a_row(),
            };
            all.host.extend(links.host);
            all.functions.extend(links.functions);
        }
        all
    }
}

/// One bundle: the chain, or its copies, between two ports towards the tester.
struct Bundle<'a> {
    request: &'a ChainRequest<'a>,
    /// These ports.
    outer: &'a [String],
    /// How many functions the chain has.
    functions: usize,
    places: Places,
    /// Its own, from 0.
    number: usize,
}

impl Bundle<'_> {
    /// Functions behind a host: its first and its last port face the tester, and between them two ports for each function.
    fn hosted(&self, sockets: Side) -> Links {
        let (folder, queues) = (self.request.start.folder, self.request.start.queues);
        let vhost = Vhost { backend: Side::Dut, server: sockets };
        let lanes = self.places.lanes();
        // The two ports of a function in a lane, on one side; its own number tells it from others of that process.
        let link = |lane: usize, function: usize, (side, own): (Side, usize)| {
            let place = (self.number * lanes + lane) * self.functions + function;
            [0, 1].map(|link| {
                let number = 2 * (FIRST_INSIDE + if side == Side::Dut { place } else { own }) + link;
                with_queues(&vhost.port_at(side, number, &inside(folder, place, link)), queues)
            })
        };
        let mut host: Vec<String> = self.outer.first().into_iter().cloned().collect();
        for lane in 0..lanes {
            host.extend((0..self.functions).flat_map(|function| link(lane, function, (Side::Dut, 0))));
        }
        host.extend(self.outer.get(1).cloned());
        let of = |copy: usize, function: usize| {
            let own = self.places.lanes_of(copy).enumerate();
            own.flat_map(|(own, lane)| link(lane, function, (Side::Lab, own))).collect()
        };
        let copies = 0..self.places.copies;
        let functions = copies.flat_map(|copy| (0..self.functions).map(move |function| (copy, function)));
        Links { host, functions: functions.map(|(copy, function)| of(copy, function)).collect() }
    }

    /// Functions one after the other, without a host: each makes the socket that the next one connects to.
    fn in_a_row(&self) -> Links {
        let (start, functions) = (&self.request.start, self.functions);
        // The link before the function at a place; the function before that makes its socket.
        let between = |place: usize, side: Side| {
            let place = self.number * functions + place;
            let socket = inside(start.folder, place, 0);
            Memif { server: Side::Dut }.port_at(side, (FIRST_INSIDE + place, 0), &socket, start.max_frame)
        };
        let ports = |place: usize| {
            let near = match place {
                0 => self.outer.first().cloned(),
                _ => Some(between(place, Side::Lab)),
            };
            let far = match place + 1 {
                next if next == functions => self.outer.get(1).cloned(),
                next => Some(between(next, Side::Dut)),
            };
            near.into_iter().chain(far).collect()
        };
        Links { host: Vec::new(), functions: (0..functions).map(ports).collect() }
    }

    /// Functions one after the other over rings, between two ports of the process that owns the memory.
    fn attached(&self) -> Links {
        let functions = self.functions;
        // One ring more than functions, in either direction.
        let end = |link: usize, side: &str| format!("ring:{}:{side}", self.number * (functions + 1) + link);
        let outer = |place: usize| self.outer.get(place).cloned();
        let host = [outer(0), Some(end(0, "near")), Some(end(functions, "far")), outer(1)];
        Links {
            host: host.into_iter().flatten().collect(),
            functions: (0..functions).map(|place| vec![end(place, "far"), end(place + 1, "near")]).collect(),
        }
    }
}

fn inside(folder: &Folder, function: usize, link: usize) -> std::path::PathBuf {
    folder.file(&format!("inside{function}-{link}.sock"))
}

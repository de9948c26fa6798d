//! The links inside a chain: sockets and ports of its processes.

use super::ChainRequest;
use crate::folder::Folder;
use crate::wiring::{Memif, Side, Vhost, WiringKind};
use weir_trial::Deployment;

/// Names of ports inside a chain begin with this number, so that no process has two of the same name.
const FIRST_INSIDE: u32 = 100;

/// What joins the functions of a deployment; nothing where they have their memory in common.
pub(super) fn wiring(deployment: Deployment) -> Option<WiringKind> {
    match deployment {
        Deployment::Vale => Some(WiringKind::Memif),
        Deployment::Inline | Deployment::Vhost | Deployment::Container | Deployment::Vm => {
            Some(WiringKind::Vhost)
        }
        Deployment::Shared => None,
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
    /// Of so many functions; `sockets` is the side that makes them, the host's being [`Side::Dut`].
    pub(super) fn of(request: &ChainRequest<'_>, functions: usize, sockets: Option<Side>) -> Self {
        match sockets {
            _ if request.placement.deployment == Deployment::Shared => attached(request, functions),
            Some(sockets) => hosted(request, functions, sockets),
            None => in_a_row(request, functions),
        }
    }
}

/// Functions behind a host: its first and its last port face the tester, and between them two ports for each function.
pub(super) fn hosted(request: &ChainRequest<'_>, functions: usize, sockets: Side) -> Links {
    let folder = request.start.folder;
    let vhost = Vhost { backend: Side::Dut, server: sockets };
    let link = |function: usize, side: Side| -> Vec<String> {
        let number = FIRST_INSIDE + if side == Side::Dut { function as u32 } else { 0 };
        vhost.ports_at(side, number, |link| inside(folder, function, link)).into()
    };
    let mut host: Vec<String> = request.start.ports.first().into_iter().cloned().collect();
    host.extend((0..functions).flat_map(|function| link(function, Side::Dut)));
    host.extend(request.start.ports.get(1).cloned());
    Links { host, functions: (0..functions).map(|function| link(function, Side::Lab)).collect() }
}

/// Functions one after the other, without a host: each makes the socket that the next one connects to.
pub(super) fn in_a_row(request: &ChainRequest<'_>, functions: usize) -> Links {
    let start = &request.start;
    // The link before the function at a place; the function before that makes its socket.
    let between = |place: usize, side: Side| {
        let socket = inside(start.folder, place, 0);
        Memif { server: Side::Dut }.port_at(
            side,
            (FIRST_INSIDE as usize + place, 0),
            &socket,
            start.max_frame,
        )
    };
    let ports = |place: usize| {
        let near = match place {
            0 => start.ports.first().cloned(),
            _ => Some(between(place, Side::Lab)),
        };
        let far = match place + 1 {
            next if next == functions => start.ports.get(1).cloned(),
            next => Some(between(next, Side::Dut)),
        };
        near.into_iter().chain(far).collect()
    };
    Links { host: Vec::new(), functions: (0..functions).map(ports).collect() }
}

/// Functions one after the other over rings, between two ports of the process that owns the memory.
fn attached(request: &ChainRequest<'_>, functions: usize) -> Links {
    let end = |link: usize, side: &str| format!("ring:{link}:{side}");
    let outer = |place: usize| request.start.ports.get(place).cloned();
    let host = [outer(0), Some(end(0, "near")), Some(end(functions, "far")), outer(1)];
    Links {
        host: host.into_iter().flatten().collect(),
        functions: (0..functions).map(|place| vec![end(place, "far"), end(place + 1, "near")]).collect(),
    }
}

fn inside(folder: &Folder, function: usize, link: usize) -> std::path::PathBuf {
    folder.file(&format!("inside{function}-{link}.sock"))
}

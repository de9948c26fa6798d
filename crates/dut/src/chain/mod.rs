//! A chain of functions, each a process: started, counted and stopped as one device.
//!
//! Packets come in by the chain's first port and leave by its second, or the other way. How the processes are
//! joined depends on the [`Deployment`]: behind the ports of a host dataplane (`links.rs`), or in a row
//! (the same file). A host has one *stage* between two functions, a function is one stage; every stage counts
//! what came in and what left, so that a packet that is lost is lost somewhere that has a name (`stages.rs`). Several
//! copies of a chain stand side by side behind a host that splits packets among them (`paths.rs`). Several bundles, each
//! with two ports towards the tester, share the host and nothing else. Where memory is shared,
//! its owner (`PRIMARY`) has two stages: towards the tester at both ends.
//!
//! A graph of devices of several kinds (`graph.rs`) is started, counted and stopped by the same code.
//!
//! Threads: none of our own beside those of each process.

mod graph;
mod links;
mod paths;
mod running;
mod stages;

pub use graph::unsupported as graph_unsupported;
pub use paths::HostPaths;

use crate::folder::Folder;
use crate::vhost_events::Awake;
use crate::wiring::WiringKind;
use crate::{Adapter, DutError, RunningDut, Sharing, StartRequest, guest};
use links::Links;
use paths::Places;
use running::{Member, Rows, Running};
use weir_trial::{Deployment, Nf, Placement};

/// What puts a process into namespaces of its own: mounts, network, processes. It goes when the lab goes.
pub(crate) const CONTAINER: &str = "unshare";
pub(crate) const CONTAIN: [&str; 6] = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// What the owner of shared memory is called among the stages.
const PRIMARY: &str = "primary";

/// Ports of a process (DPDK's `RTE_MAX_ETHPORTS`).
const MOST_PORTS: usize = 32;

/// What a chain is started with.
pub struct ChainRequest<'a> {
    /// The chain as a whole: its function, the ports that face the tester, and everything that all processes share.
    pub start: StartRequest<'a>,
    /// What each function runs on, in order; one device, if it is the same for all.
    pub devices: &'a [&'a str],
    /// Where.
    pub placement: &'a Placement,
    /// The core of each thread that forwards, the host's first (a process has one, a guest one for each processor); those
    /// on one core take turns there.
    pub cores: &'a [usize],
}

/// The device of the function at a place, from 0.
fn device<'d>(devices: &[&'d str], place: usize) -> &'d str {
    if let [same] = devices { same } else { devices.get(place).copied().unwrap_or_default() }
}

/// Why devices cannot be what a placement asks for; nothing where they can.
pub fn unsupported(devices: &[&str], nf: Nf, placement: &Placement) -> Option<String> {
    let members = nf.members();
    if devices.len() != 1 && devices.len() != members.len() {
        return Some(format!(
            "{} devices for {} functions; name one, or as many",
            devices.len(),
            members.len()
        ));
    }
    if let Some(host) = host(placement)
        && host.hosts().is_none()
    {
        let hosts = crate::ADAPTERS.iter().filter(|adapter| adapter.hosts().is_some());
        let names: Vec<&str> = hosts.map(|adapter| adapter.name()).collect();
        return Some(format!("{} hosts no other processes; {} do", host.name(), names.join(", ")));
    }
    if let Some(reason) = unsplit(placement).or_else(|| crowded(members.len(), placement)) {
        return Some(reason);
    }
    let each = members.into_iter().enumerate();
    each.filter_map(|(place, member)| Some((crate::adapter(device(devices, place))?, member)))
        .find_map(|(dut, member)| unplaceable(dut, member, placement))
}

/// Why packets cannot be split among the copies of a placement, or the virtual ports of its functions; nothing where they can, or
/// there is one way.
pub fn unsplit(placement: &Placement) -> Option<String> {
    if placement.lanes() < 2 {
        return None;
    }
    let Some(host) = host(placement) else {
        return Some(format!(
            "`{}` has no host that could split packets among copies or virtual ports",
            placement.deployment
        ));
    };
    host.splits(placement.split).err()
}

/// Why a host has no room for so many functions in each copy; nothing where it has, or there is none.
fn crowded(functions: usize, placement: &Placement) -> Option<String> {
    host(placement)?;
    let instances = functions * placement.copies.max(1) as usize;
    let bundles = placement.bundles.max(1) as usize;
    let pairs = placement.pairs() as usize;
    let (ports, instances) = (bundles * (2 + 2 * instances * pairs), bundles * instances);
    (ports > MOST_PORTS).then(|| {
        format!(
            "{instances} functions behind a host take {ports} of its ports, and DPDK as it is built has {MOST_PORTS}; take \
             fewer copies, bundles or virtual ports, or a shorter chain"
        )
    })
}

/// Why a device cannot be one function of a chain.
fn unplaceable(dut: &dyn Adapter, nf: Nf, placement: &Placement) -> Option<String> {
    let is_ours = dut.name() == "nf" || dut.name() == "faulty";
    if placement.deployment == Deployment::Shared && !is_ours && dut.name() != "weir" {
        return Some(format!("{} does not attach to another process's memory; nf and weir do", dut.name()));
    }
    let in_guest = placement.deployment == Deployment::Vm;
    if placement.pairs() > 1 && (in_guest || !(is_ours || dut.name() == "testpmd")) {
        let who = if in_guest { "a guest" } else { dut.name() };
        return Some(format!(
            "{who} has two virtual ports as a function, and not {}; nf and testpmd forward between more, as processes",
            placement.vnics
        ));
    }
    if in_guest && guest::Inside::of(dut.name()).is_none() {
        return Some(format!(
            "{} is not known to run in a guest; nf, weir, linux and testpmd are",
            dut.name()
        ));
    }
    let inner = links::wiring(placement.deployment).filter(|_| !in_guest);
    if let Some(inner) = inner.filter(|inner| !dut.wirings().contains(inner)) {
        return Some(format!(
            "{} cannot be reached by {inner}, which `{}` needs",
            dut.name(),
            placement.deployment
        ));
    }
    if inner == Some(WiringKind::Vhost)
        && let Err(reason) = dut.drives_vhost()
    {
        return Some(format!("{} is no function behind a host: {reason}", dut.name()));
    }
    if placement.deployment == Deployment::Container && !is_ours {
        return Some(format!("{} is not known to run in namespaces of its own; nf is", dut.name()));
    }
    let reason = dut.supports(nf).err()?;
    Some(format!("{} cannot be {nf}: {reason}", dut.name()))
}

/// The host of a placement; of shared memory its owner, which a plan does not choose.
fn first(placement: &Placement) -> Option<(&'static dyn Adapter, &'static str)> {
    if placement.deployment == Deployment::Shared {
        return Some((crate::adapter("nf")?, PRIMARY));
    }
    host(placement).map(|host| (host, host.name()))
}

/// The host of a placement.
fn host(placement: &Placement) -> Option<&'static dyn Adapter> {
    placement.host.as_deref().and_then(crate::adapter)
}

/// Starts all processes of a chain, those first that others connect to.
///
/// # Errors
///
/// What keeps one of them from starting, named with its place; those that run already are stopped.
pub fn start(request: &ChainRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
    let functions = request.start.nf.members();
    let placement = request.placement;
    if let Some(graph) = &placement.graph {
        return graph::start(request, graph);
    }
    let shares = placement.deployment == Deployment::Shared;
    let [copies, bundles, pairs] =
        [placement.copies, placement.bundles, placement.pairs()].map(|count| count.max(1) as usize);
    // Functions on shared memory stand between its owner's ports as one.
    let places = Places { functions: if shares { 1 } else { functions.len() }, copies, pairs, bundles };
    let inside = functions.len() * copies * pairs;
    let mut running = Running::new(Rows::Chain(places), placement.deployment == Deployment::Container);
    // Each connects to ports of those before it.
    let mut awake = Vec::new();
    let host = first(placement);
    let sockets = host.and_then(|(host, _)| host.hosts());
    let links = Links::of(request, places, sockets);
    let mut seats = Seats { request, next: 0 };
    let sharing = |links| shares.then(|| Sharing { folder: request.start.folder.path(), links });
    if let Some((host, name)) = host {
        let cores = seats.take(placement.threads());
        let own = StartRequest {
            variant: placement.host.as_deref().map_or("", |host| crate::split(host).1),
            ports: &links.host,
            // What every pair of ports beyond the first needs.
            buffers: (bundles * (inside + 1) - 1) as u32 * crate::eal::SPARE_BUFFERS,
            sharing: sharing(Some(bundles * (functions.len() + 1))),
            ..on(request, &cores)
        };
        let dut = match places.lanes() {
            1 => host.start_host(&own),
            _ => host.start_splitter(&own, &places.paths(placement.split)),
        };
        let dut = dut.map_err(|error| error.within(name.to_owned()))?;
        awake.push(Awake::keep(dut.as_ref()));
        running.members.push(Member {
            dut,
            name: name.to_owned(),
            is_host: true,
            answers: true,
            folder: None,
        });
    }
    let copies_of = |bundle| (1..=copies).map(move |copy| (bundle, copy));
    let rows = (1..=bundles).flat_map(copies_of);
    let each = rows.flat_map(|row| functions.iter().enumerate().map(move |one| (row, one)));
    for (((bundle, copy), (place, &nf)), ports) in each.zip(&links.functions) {
        let device = device(request.devices, place);
        let reason = format!("`{device}` is no device");
        let unknown = || DutError::Unsupported { dut: "chain", nf, reason };
        let dut = crate::adapter(device).ok_or_else(unknown)?;
        let of = |count: usize, what: String| if count > 1 { what } else { String::new() };
        let which = of(bundles, format!(", bundle {bundle}")) + &of(copies, format!(", copy {copy}"));
        let name = format!("{} {} {nf}{which}", dut.name(), place + 1);
        let folder = Folder::new()?;
        // A guest has a core for each of its processors, and forwards on the last.
        let cores = seats.take(placement.guest.map_or(placement.threads(), |guest| guest.vcpus as usize));
        let forwarding = match placement.guest {
            Some(_) => &cores[cores.len().saturating_sub(1)..],
            None => &cores,
        };
        let own = StartRequest {
            nf,
            variant: crate::split(device).1,
            ports,
            folder: &folder,
            namespace: request.start.namespace.filter(|_| host.is_none()),
            contained: running.wrapped,
            sharing: sharing(None),
            buffers: (pairs - 1) as u32 * crate::eal::SPARE_BUFFERS,
            ..on(request, forwarding)
        };
        let dut = match placement.guest {
            Some(guest) => guest::start(device, &own, guest, &cores),
            None => dut.start(&own),
        };
        let dut = dut.map_err(|error| running.cause(error.within(name.clone())))?;
        awake.push(Awake::keep(dut.as_ref()));
        running.members.push(Member { dut, name, is_host: false, answers: false, folder: Some(folder) });
    }
    Ok(running.described())
}

/// Deals out the cores of a chain's forwarding threads, process by process.
struct Seats<'a> {
    request: &'a ChainRequest<'a>,
    next: usize,
}

impl Seats<'_> {
    fn take(&mut self, count: usize) -> Vec<usize> {
        let ChainRequest { cores, start, .. } = self.request;
        let places = self.next..self.next + count;
        self.next = places.end;
        places.map(|place| cores.get(place).copied().unwrap_or(start.core)).collect()
    }
}

/// What a process is started with that forwards on these cores.
fn on<'s>(request: &'s ChainRequest<'_>, cores: &'s [usize]) -> StartRequest<'s> {
    let taken = |core: &usize| request.cores.iter().filter(|one| *one == core).count() > 1;
    StartRequest {
        core: cores.first().copied().unwrap_or(request.start.core),
        further: cores.get(1..).unwrap_or_default(),
        shared_core: cores.iter().any(taken),
        ..request.start.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_a_function_behind_a_host_is_refused_before_anything_starts() {
        let behind = |host: &str| Placement {
            deployment: Deployment::Vhost,
            host: Some(host.to_owned()),
            ..Placement::default()
        };
        for (devices, host) in [(&["bess"][..], "weir"), (&["nf", "bess"], "bess")] {
            let nf: Nf = if devices.len() == 1 { "l2fwd" } else { "l2fwd+l2fwd" }.parse().unwrap();
            let why = unsupported(devices, nf, &behind(host)).unwrap_or_default();
            assert!(why.starts_with("bess is no function behind a host: its packet buffers"), "{why}");
        }
        assert_eq!(unsupported(&["nf"], Nf::L2Fwd, &behind("bess")), None);
        let vale = Placement { deployment: Deployment::Vale, ..Placement::default() };
        assert_eq!(unsupported(&["bess"], Nf::L2Fwd, &vale), None);
    }
}

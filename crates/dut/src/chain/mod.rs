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
//! Threads: none of our own beside those of each process.

mod links;
mod paths;
mod stages;

pub use paths::HostPaths;

use crate::folder::Folder;
use crate::process::Process;
use crate::{Adapter, Counters, DutError, RunningDut, Sharing, StartRequest, guest};
use links::Links;
use paths::Places;
use stages::Counted;
use weir_trial::{Conduct, Deployment, Nf, Placement};
use weir_units::Nanos;

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
    if placement.deployment == Deployment::Shared && !is_ours {
        return Some(format!("{} does not attach to another process's memory; nf does", dut.name()));
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
        return Some(format!("{} is not known to run in a guest; nf, linux and testpmd are", dut.name()));
    }
    let inner = links::wiring(placement.deployment).filter(|_| !in_guest);
    if let Some(inner) = inner.filter(|inner| !dut.wirings().contains(inner)) {
        return Some(format!(
            "{} cannot be reached by {inner}, which `{}` needs",
            dut.name(),
            placement.deployment
        ));
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

/// One process of a chain.
struct Member {
    dut: Box<dyn RunningDut>,
    /// `nf 2 l3fwd:10`, or the host's name.
    name: String,
    is_host: bool,
    /// Where its files lie; it goes after the process.
    folder: Option<Folder>,
}

struct Running {
    /// The host first, then the functions from the chain's port 0 on, copy by copy.
    members: Vec<Member>,
    places: Places,
    /// Processes that stand around the functions: nobody's children.
    wrapped: bool,
    description: String,
}

/// Starts all processes of a chain, those first that others connect to.
///
/// # Errors
///
/// What keeps one of them from starting, named with its place; those that run already are stopped.
pub fn start(request: &ChainRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
    let functions = request.start.nf.members();
    let placement = request.placement;
    let shares = placement.deployment == Deployment::Shared;
    let [copies, bundles, pairs] =
        [placement.copies, placement.bundles, placement.pairs()].map(|count| count.max(1) as usize);
    // Functions on shared memory stand between its owner's ports as one.
    let places = Places { functions: if shares { 1 } else { functions.len() }, copies, pairs, bundles };
    let inside = functions.len() * copies * pairs;
    let mut running = Running {
        members: Vec::new(),
        places,
        wrapped: placement.deployment == Deployment::Container,
        description: String::new(),
    };
    let host = first(placement);
    let sockets = host.and_then(|(host, _)| host.hosts());
    let links = Links::of(request, places, sockets);
    let mut cores = request.cores.iter().copied();
    let mut core = || cores.next().unwrap_or(request.start.core);
    let shared = |core| request.cores.iter().filter(|one| **one == core).count() > 1;
    let start = |core| StartRequest { core, shared_core: shared(core), ..request.start.clone() };
    let sharing = |links| shares.then(|| Sharing { folder: request.start.folder.path(), links });
    if let Some((host, name)) = host {
        let own = StartRequest {
            variant: placement.host.as_deref().map_or("", |host| crate::split(host).1),
            ports: &links.host,
            // What every pair of ports beyond the first needs.
            buffers: (bundles * (inside + 1) - 1) as u32 * crate::eal::SPARE_BUFFERS,
            sharing: sharing(Some(bundles * (functions.len() + 1))),
            ..start(core())
        };
        let dut = match places.lanes() {
            1 => host.start_host(&own),
            _ => host.start_splitter(&own, &places.paths(placement.split)),
        };
        let dut = dut.map_err(|error| error.within(name.to_owned()))?;
        running.members.push(Member { dut, name: name.to_owned(), is_host: true, folder: None });
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
        // A guest has a core for each of its processors.
        let cores: Vec<usize> = (0..placement.guest.map_or(1, |guest| guest.vcpus)).map(|_| core()).collect();
        let own = StartRequest {
            nf,
            variant: crate::split(device).1,
            ports,
            folder: &folder,
            namespace: request.start.namespace.filter(|_| host.is_none()),
            contained: running.wrapped,
            sharing: sharing(None),
            buffers: (pairs - 1) as u32 * crate::eal::SPARE_BUFFERS,
            ..start(cores.last().copied().unwrap_or(request.start.core))
        };
        let dut = match placement.guest {
            Some(guest) => guest::start(device, &own, guest, &cores),
            None => dut.start(&own),
        };
        let dut = dut.map_err(|error| running.cause(error.within(name.clone())))?;
        running.members.push(Member { dut, name, is_host: false, folder: Some(folder) });
    }
    let each = running.members.iter().map(|one| format!("{}: {}", one.name, one.dut.description()));
    running.description = each.collect::<Vec<_>>().join(" | ");
    Ok(Box::new(running))
}

impl Running {
    /// Why something failed: where a wait for one process was given up, or it ended with an error, and another had
    /// ended before, that one's end. A process that was killed is its own cause.
    fn cause(&mut self, error: DutError) -> DutError {
        if error.is_kill() { error } else { self.ended().unwrap_or(error) }
    }
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let read =
            |member: &mut Member| member.dut.counters().map_err(|error| error.within(member.name.clone()));
        let counters: Result<Vec<Counters>, _> = self.members.iter_mut().map(read).collect();
        let counters = counters.map_err(|error| self.cause(error))?;
        let counted: Vec<Counted<'_>> = self
            .members
            .iter()
            .zip(&counters)
            .map(|(member, counters)| Counted { name: &member.name, is_host: member.is_host, counters })
            .collect();
        let stages = stages::stages(&counted, self.places);
        let Some(reading) = counters.first() else {
            return Err(DutError::Interrupted { dut: "chain" });
        };
        let (mut received, mut sent) = (0, 0);
        for bundle in stages.chunk_by(|one, next| one.bundle == next.bundle) {
            let (Some(first), Some(last)) = (bundle.first(), bundle.last()) else { continue };
            received += first.received[0] + last.received[1];
            sent += last.sent[0] + first.sent[1];
        }
        let cpu = Nanos(counters.iter().map(|one| one.cpu.0).sum());
        let mut whole = Counters::new(received, sent, cpu, reading.at);
        for (member, one) in self.members.iter().zip(&counters) {
            let named = one.details.iter().map(|(name, count)| (format!("{}: {name}", member.name), *count));
            whole.details.extend(named);
        }
        Ok(Counters { stages, ..whole })
    }

    fn tap(&mut self, key: &str) -> Result<bool, DutError> {
        let mut tapped = false;
        for member in &mut self.members {
            match member.dut.tap(key).map_err(|error| error.within(member.name.clone())) {
                Ok(one) => tapped |= one,
                Err(error) => return Err(self.cause(error)),
            }
        }
        Ok(tapped)
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.members.iter().flat_map(|member| member.dut.threads()).collect()
    }

    fn conduct(&self) -> Conduct {
        let all = self.members.iter().map(|member| member.dut.conduct());
        let sum = all.reduce(|sum, one| sum + one).unwrap_or_default();
        let wrapped =
            if self.wrapped { self.members.iter().filter(|one| !one.is_host).count() as u32 } else { 0 };
        Conduct { children: sum.children.saturating_sub(wrapped), ..sum }
    }

    fn processes(&self) -> Vec<&Process> {
        self.members.iter().flat_map(|member| member.dut.processes()).collect()
    }

    fn texts(&self) -> Vec<(String, String)> {
        let of = |member: &Member| {
            let texts = member.folder.as_ref().map(Folder::texts).unwrap_or_default();
            let name = member.name.clone();
            texts.into_iter().map(move |(file, text)| (format!("{name}: {file}"), text))
        };
        self.members.iter().flat_map(of).collect()
    }

    fn ended(&mut self) -> Option<DutError> {
        // One that dies takes others along: the first to end is the cause.
        let end = |member: &Member| member.dut.processes().into_iter().filter_map(Process::ended_at).min();
        let (_, first) =
            self.members.iter().enumerate().filter_map(|(place, one)| Some((end(one)?, place))).min()?;
        let member = &mut self.members[first];
        Some(member.dut.ended()?.within(member.name.clone()))
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        // Nobody is to poll what its neighbour takes away; but a function takes leave of its host's ports, which answers.
        self.processes().into_iter().for_each(Process::pause);
        let hosts = self.members.iter().filter(|member| member.is_host);
        hosts.flat_map(|host| host.dut.processes()).for_each(Process::resume);
        let mut ends = Ok(());
        while let Some(member) = self.members.pop() {
            let stopped = member.dut.stop();
            ends = ends.and(stopped);
        }
        ends
    }
}

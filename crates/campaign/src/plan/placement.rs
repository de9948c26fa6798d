//! Where the functions of a plan's points run: the axes `chain`, `length`, `deployment`, `host`, `cores` and `frequency`.
//! What guests are: `guests.rs`; copies side by side: `copies.rs`; bundles beside one another: `bundles.rs`; queues of ports:
//! `queues.rs`; another machine: `servers.rs`. What a chain's functions are: `members.rs`; a graph of devices: `graph.rs`.

mod bundles;
mod copies;
mod queues;
mod servers;

use super::check::{Checker, Placed, Span};
use super::guests::{GuestAxes, Guests};
use super::text::{HugePages, List};
use super::{AXES, Axis, PointSpec};
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_dut::Kind;
use weir_dut::chain;
use weir_dut::wiring::WiringKind;
use weir_trial::{CoreUse, Deployment, Frequency, Graph, NodeUse, Offloads, Placement, Server, Split};

/// What hosts a chain unless the plan says.
const HOST: &str = "weir";

/// Why memory cannot be shared.
const NOT_SHARED: &str = "`shared` cannot be without huge pages: processes share memory that is in files of hugetlbfs, and \
                          DPDK's ordinary pages are each process's own; leave `huge_pages` out, or take `vale`";

/// The axes of placement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placements {
    pub(super) deployments: Vec<Deployment>,
    pub(super) hosts: Vec<String>,
    pub(super) cores: Vec<CoreUse>,
    /// What guests are, in deployment `vm`.
    pub(super) guests: Guests,
    pub(super) copies: Vec<u32>,
    pub(super) vnics: Vec<u32>,
    pub(super) bundles: Vec<u32>,
    pub(super) queues: Vec<u32>,
    pub(super) splits: Vec<Split>,
    pub(super) frequencies: Vec<Option<Frequency>>,
    pub(super) offloads: Vec<Offloads>,
    pub(super) nodes: Vec<Option<NodeUse>>,
    pub(super) servers: Vec<Option<Server>>,
    /// What stands between the tester's ports, in deployment `graph`.
    pub(super) graph: Option<Graph>,
}

/// The axes of placement as a file has them.
pub(super) struct PlacementAxes {
    pub(super) deployment: Option<Spanned<List<String>>>,
    pub(super) host: Option<Spanned<List<String>>>,
    pub(super) cores: Option<Spanned<List<CoreUse>>>,
    pub(super) frequency: Option<Spanned<List<String>>>,
    pub(super) offloads: Option<Spanned<List<Offloads>>>,
    pub(super) node: Option<Spanned<List<String>>>,
    pub(super) guests: GuestAxes,
}

impl Placements {
    /// The placement at these places of the axes; nothing where it is the same as one before.
    pub(super) fn at(&self, place: &[usize; AXES]) -> Option<Placement> {
        let at = |axis: Axis| place[axis as usize];
        let (host, split) = (at(Axis::Host), at(Axis::Split));
        let deployment = self.deployments[at(Axis::Deployment)];
        let (copies, bundles) = (self.copies[at(Axis::Copies)], self.bundles[at(Axis::Bundles)]);
        let vnics = self.vnics[at(Axis::Vnics)];
        let undivided = copies == 1 && vnics == 2;
        let guest = self.guests.at(place, deployment == Deployment::Vm)?;
        let of = |cores: &CoreUse| {
            Placement {
                deployment,
                host: deployment.has_host().then(|| self.hosts[host].clone()),
                cores: cores.clone(),
                guest,
                copies,
                vnics,
                bundles,
                queues: self.queues[at(Axis::Queues)],
                split: if undivided { Split::default() } else { self.splits[split] },
                frequency: self.frequencies[at(Axis::Frequency)],
                offloads: self.offloads[at(Axis::Offloads)].clone(),
                node: self.nodes[at(Axis::Node)],
                server: self.servers[at(Axis::Server)].clone(),
                graph: self.graph.clone(),
            }
            .plainest()
        };
        let cores = at(Axis::Cores);
        let placement = of(&self.cores[cores]);
        // Without a host there are no copies, and one device has two ports.
        let again = (!deployment.has_host() && (host > 0 || !undivided))
            || (deployment == Deployment::Inline && bundles > 1)
            || (undivided && split > 0)
            || self.cores[..cores].iter().any(|earlier| of(earlier) == placement);
        (!again).then_some(placement)
    }

    /// Whether a device is held back at some of them.
    pub(super) fn are_held(&self) -> bool {
        self.frequencies.iter().flatten().any(|frequency| frequency.held().is_some())
    }
}

impl Checker<'_> {
    /// The axes of placement.
    pub(super) fn placements(&mut self, axes: PlacementAxes) -> Placements {
        let PlacementAxes { deployment: deployments, host: hosts, cores, frequency, offloads, node, guests } =
            axes;
        let hosts_span = hosts.as_ref().map(Spanned::span);
        let deployments =
            self.words("deployment", deployments, &Deployment::ALL.map(Deployment::name), Deployment::Inline);
        let cores = cores.map(|list| self.axis("cores", list)).unwrap_or_default();
        let mut cores: Vec<CoreUse> = cores.into_iter().map(|(_, cores)| cores).collect();
        if cores.is_empty() {
            cores.push(CoreUse::Own);
        }
        let hosts = hosts.map_or_else(|| vec![HOST.to_owned()], |list| self.hosts(list));
        if let Some(span) = hosts_span.filter(|_| !deployments.iter().any(|one| one.has_host())) {
            let why = "carries packets between functions of deployments `vhost`, `container` and `vm`; add one of them";
            self.refuse(&span, format!("`host` {why}, or leave it out"));
        }
        let guests = self.guests(guests, deployments.contains(&Deployment::Vm));
        let frequencies = self.frequencies(frequency);
        let offloads = offloads.map(|list| self.axis("offloads", list)).unwrap_or_default();
        let mut offloads: Vec<Offloads> = offloads.into_iter().map(|(_, offloads)| offloads).collect();
        if offloads.is_empty() {
            offloads.push(Offloads::default());
        }
        let nodes = match node {
            None => vec![None],
            Some(list) => {
                let words = self.words("node", Some(list), &NodeUse::ALL.map(NodeUse::name), NodeUse::Same);
                words.into_iter().map(Some).collect()
            }
        };
        Placements {
            deployments,
            hosts,
            cores,
            guests,
            copies: vec![1],
            vnics: vec![2],
            bundles: vec![1],
            queues: vec![1],
            splits: vec![Split::default()],
            frequencies,
            offloads,
            nodes,
            servers: vec![None],
            graph: None,
        }
    }

    fn frequencies(&mut self, list: Option<Spanned<List<String>>>) -> Vec<Option<Frequency>> {
        let Some(list) = list else { return vec![None] };
        let mut found = Vec::new();
        for (span, text) in self.axis("frequency", list) {
            match text.parse::<Frequency>() {
                Ok(frequency) if found.contains(&Some(frequency)) => {
                    self.refuse(&span, format!("`frequency`: {frequency} stands there twice"));
                }
                Ok(frequency) => found.push(Some(frequency)),
                Err(error) => self.refuse(&span, format!("`frequency`: {error}")),
            }
        }
        if found.is_empty() { vec![None] } else { found }
    }

    /// Refuses to share memory that no other process could have.
    pub(super) fn pages_to_share(&mut self, placements: &Placements, pages: &[Placed<HugePages>]) {
        let off = !pages.is_empty() && pages.iter().all(|(_, pages)| *pages == HugePages::Off);
        if let Some((span, _)) = pages.first().filter(|_| off)
            && placements.deployments.contains(&Deployment::Shared)
        {
            self.refuse(span, NOT_SHARED);
        }
    }

    /// An axis of words.
    pub(super) fn words<T: std::str::FromStr>(
        &mut self,
        key: &str,
        list: Option<Spanned<List<String>>>,
        known: &[&str],
        default: T,
    ) -> Vec<T> {
        let Some(list) = list else { return vec![default] };
        let mut found = Vec::new();
        for (span, word) in self.axis(key, list) {
            match word.parse() {
                Ok(value) => found.push(value),
                Err(_) => self.found.push(Diagnostic::unknown(span, key, &word, known)),
            }
        }
        if found.is_empty() { vec![default] } else { found }
    }

    fn hosts(&mut self, list: Spanned<List<String>>) -> Vec<String> {
        let axis = self.axis("host", list);
        for (span, host) in &axis {
            let hosts = weir_dut::ADAPTERS.iter().filter(|adapter| adapter.hosts().is_some());
            let names: Vec<&str> = hosts.map(|adapter| adapter.name()).collect();
            if !names.contains(&weir_dut::split(host).0) {
                self.found.push(Diagnostic::unknown(span.clone(), "host", host, &names));
            } else if let Err(why) = weir_dut::check_variant(host) {
                self.refuse(span, format!("`host`: {why}"));
            }
        }
        axis.into_iter().map(|(_, host)| host).collect()
    }
}

impl PointSpec {
    /// Why its offloads cannot be set; nothing where they can, or none is named.
    pub(crate) fn unoffloaded(&self) -> Option<String> {
        let (offloads, wiring) = (&self.placement.offloads, &self.wiring);
        let has_some = wiring == WiringKind::Veth.name() && weir_dut::kind(&self.dut) != Kind::Arithmetic;
        (!offloads.is_empty() && !has_some).then(|| {
            format!("{offloads}: offloads are of the kernel's interfaces, and {} over `{wiring}` has none that the lab could set; take `veth`", self.dut)
        })
    }

    /// Forwarding threads of the device.
    pub(crate) fn processes(&self) -> usize {
        self.placement.forwarding(self.nf.members().len())
    }

    /// Why its processes cannot have as many cores as they are to have; nothing where they can.
    pub(crate) fn too_many_cores(&self) -> Option<String> {
        let (placement, processes) = (&self.placement, self.processes());
        let cores = placement.cores.fixed()?;
        (cores > processes).then(|| {
            let who = placement.of(&self.dut);
            let more = match placement.is_inline() {
                true => "name as many or fewer, or as many `queues`, each of which a thread can have",
                false => "name as many or fewer",
            };
            format!(
                "{who}: {cores} cores for {processes} forwarding process(es), each of which has one; {more}"
            )
        })
    }

    /// Why a placement cannot be at all, on any machine; nothing where it can.
    pub(crate) fn unplaceable(&self, wiring: WiringKind) -> Option<String> {
        let (placement, devices) = (&self.placement, weir_dut::devices(&self.dut));
        if let Some(graph) = &placement.graph {
            return graph.unjudged().or_else(|| chain::graph_unsupported(graph, wiring));
        }
        if wiring == WiringKind::Fed {
            return Some(format!(
                "a chain in `{}` is measured with a tester at the wire; take another wiring than `fed`",
                placement.deployment
            ));
        }
        if placement.deployment == Deployment::Shared && self.huge_pages == HugePages::Off {
            return Some(NOT_SHARED.to_owned());
        }
        // Who faces the tester: the host, or the first and the last function.
        let outer = match placement.host.as_deref() {
            Some(host) => vec![host],
            None if placement.deployment == Deployment::Shared => vec!["nf"],
            None => devices.first().into_iter().chain(devices.last()).copied().collect(),
        };
        let deaf =
            outer.into_iter().filter_map(weir_dut::adapter).find(|one| !one.wirings().contains(&wiring));
        if let Some(deaf) = deaf {
            return Some(format!("{} cannot be reached by the `{wiring}` wiring", deaf.name()));
        }
        if let Some(reason) = self.unserved(wiring) {
            return Some(reason);
        }
        if let Some(reason) = self.unbundled(wiring).or_else(|| self.unqueued(wiring)) {
            return Some(reason);
        }
        let reason = chain::unsupported(&devices, self.nf, placement)?;
        Some(format!("{} cannot be {}: {reason}", placement.of(&self.dut), self.nf))
    }
}

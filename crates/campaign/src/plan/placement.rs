//! Where the functions of a plan's points run: the axes `chain`, `length`, `deployment`, `host` and `cores`, and what a
//! machine lacks for them. What guests are: `guests.rs`; copies side by side: `copies.rs`.

mod copies;

use super::check::{Checker, Placed, Span};
use super::guests::{GuestAxes, Guests};
use super::text::{HugePages, List};
use super::{AXES, Axis, Plan, PointSpec};
use crate::cores::Seats;
use crate::environment::free_huge_pages;
use crate::runner::ENOUGH_HUGE_PAGES;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_dut::chain;
use weir_dut::wiring::WiringKind;
use weir_trial::{Chain, CoreUse, Deployment, Nf, Placement, Split};

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
    pub(super) splits: Vec<Split>,
}

impl Placements {
    /// The placement at these places of the axes; nothing where it is the same as one before.
    pub(super) fn at(&self, place: &[usize; AXES]) -> Option<Placement> {
        let at = |axis: Axis| place[axis as usize];
        let (host, cores, split) = (at(Axis::Host), at(Axis::Cores), at(Axis::Split));
        let deployment = self.deployments[at(Axis::Deployment)];
        let is_inline = deployment == Deployment::Inline;
        let copies = self.copies[at(Axis::Copies)];
        // Without a host nothing stands side by side.
        let again = (!deployment.has_host() && (host > 0 || copies > 1))
            || (is_inline && cores > 0)
            || (copies == 1 && split > 0);
        let guest = self.guests.at(place, deployment == Deployment::Vm)?;
        (!again).then(|| Placement {
            deployment,
            host: deployment.has_host().then(|| self.hosts[host].clone()),
            cores: if is_inline { CoreUse::Own } else { self.cores[cores] },
            guest,
            copies,
            split: if copies == 1 { Split::default() } else { self.splits[split] },
        })
    }
}

impl Checker<'_> {
    /// The axes of placement.
    pub(super) fn placements(
        &mut self,
        deployments: Option<Spanned<List<String>>>,
        hosts: Option<Spanned<List<String>>>,
        cores: Option<Spanned<List<String>>>,
        guests: GuestAxes,
    ) -> Placements {
        let hosts_span = hosts.as_ref().map(Spanned::span);
        let deployments =
            self.words("deployment", deployments, &Deployment::ALL.map(Deployment::name), Deployment::Inline);
        let cores = self.words("cores", cores, &CoreUse::ALL.map(CoreUse::name), CoreUse::Own);
        let hosts = hosts.map_or_else(|| vec![HOST.to_owned()], |list| self.hosts(list));
        if let Some(span) = hosts_span.filter(|_| !deployments.iter().any(|one| one.has_host())) {
            let why = "carries packets between functions of deployments `vhost`, `container` and `vm`; add one of them";
            self.refuse(&span, format!("`host` {why}, or leave it out"));
        }
        let guests = self.guests(guests, deployments.contains(&Deployment::Vm));
        Placements { deployments, hosts, cores, guests, copies: vec![1], splits: vec![Split::default()] }
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

    /// The functions of a chain, cut to each length.
    pub(super) fn chain(
        &mut self,
        chain: &Spanned<Vec<String>>,
        lengths: Option<Spanned<List<u32>>>,
    ) -> Vec<Nf> {
        let span = chain.span();
        let before = self.found.len();
        let members = chain.as_ref().iter().map(|text| (span.clone(), text.clone())).collect();
        let members = self.functions("chain", members);
        if chain.as_ref().is_empty() {
            self.refuse(&span, "`chain` is an empty list; give it at least one function");
        }
        if self.found.len() > before {
            return Vec::new();
        }
        let all: Vec<Placed<u32>> = match lengths {
            Some(list) => self.axis("length", list),
            None => vec![(span.clone(), members.len() as u32)],
        };
        let mut chains = Vec::new();
        for (place, length) in all {
            match members.get(..length as usize).filter(|cut| !cut.is_empty()).map(Chain::of) {
                Some(Ok(nf)) => chains.push(nf),
                Some(Err(error)) => self.refuse(&span, format!("`chain`: {error}")),
                None => self.refuse(
                    &place,
                    format!("`length`: {length} is not possible; the chain has {} functions", members.len()),
                ),
            }
        }
        chains
    }

    /// What a plan says its functions are: `nf`, or `chain`.
    pub(super) fn either(
        &mut self,
        nf: Option<Spanned<List<String>>>,
        chain: Option<Spanned<Vec<String>>>,
        lengths: Option<Spanned<List<u32>>>,
    ) -> (Span, Vec<Nf>) {
        match (nf, chain) {
            (Some(nf), Some(chain)) => {
                let why = "`nf` and `chain` both say what stands between the ports; write one of them";
                self.refuse(&chain.span(), why);
                (nf.span(), Vec::new())
            }
            (Some(nf), None) => {
                if let Some(lengths) = lengths {
                    self.refuse(
                        &lengths.span(),
                        "`length` cuts a `chain`, and there is none; write one, or leave it out",
                    );
                }
                let span = nf.span();
                let axis = self.axis("nf", nf);
                (span, self.functions("nf", axis))
            }
            (None, Some(chain)) => (chain.span(), self.chain(&chain, lengths)),
            (None, None) => {
                self.refuse(
                    &(0..0),
                    "the plan names no network function; add `nf = \"l2fwd\"`, or a `chain`",
                );
                (0..0, Vec::new())
            }
        }
    }
}

impl PointSpec {
    /// Forwarding threads of the device that have a core of their own.
    pub(crate) fn seated(&self) -> usize {
        match self.placement.cores {
            CoreUse::Own => self.placement.forwarding(self.nf.members().len()),
            CoreUse::Shared => 1,
        }
    }

    /// What the machine lacks for this point, and what it would take; nothing where it can be measured here.
    pub fn lacks(&self, allowed: &[usize]) -> Option<String> {
        let (processes, testers) = (self.seated(), self.tester_cores.max(1) as usize);
        if Seats::of(allowed, self.tester_cores, processes).is_ok() {
            let guest = || self.placement.guest.and_then(weir_dut::guest_lacks);
            return contained(&self.placement).or_else(|| shareless(&self.placement)).or_else(guest);
        }
        let (needed, here) = (testers + processes, allowed.len());
        let share = match self.placement.is_inline() {
            true => "",
            false => "; `cores = \"shared\"` lets its processes take turns on one, and the result says so",
        };
        let copies = match self.placement.copies {
            0 | 1 => String::new(),
            copies => format!(", {copies} copies,"),
        };
        Some(format!(
            "{} in `{}`{copies} needs {needed} cores ({testers} for the tester, {processes} for the device); {here} may be used here{share}",
            self.nf, self.placement.deployment
        ))
    }

    /// Why a placement cannot be at all, on any machine; nothing where it can.
    pub(crate) fn unplaceable(&self, wiring: WiringKind) -> Option<String> {
        let (placement, devices) = (&self.placement, weir_dut::devices(&self.dut));
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
        let reason = chain::unsupported(&devices, self.nf, placement)?;
        Some(format!("{} cannot be {}: {reason}", placement.of(&self.dut), self.nf))
    }
}

/// Why this user can have no containers; nothing where he can, or needs none.
fn contained(placement: &Placement) -> Option<String> {
    let needs = placement.deployment == Deployment::Container && !nix::unistd::geteuid().is_root();
    needs
        .then(|| "`container` makes namespaces, which needs root; run it as root, or take `vhost`".to_owned())
}

/// Why this machine, or this user, can have no shared memory; nothing where it can, or needs none.
fn shareless(placement: &Placement) -> Option<String> {
    if placement.deployment != Deployment::Shared {
        return None;
    }
    if !nix::unistd::geteuid().is_root() {
        return Some(
            "`shared` mounts hugetlbfs, which needs root; run it as root, or take `vale`".to_owned(),
        );
    }
    let free = free_huge_pages();
    (free < ENOUGH_HUGE_PAGES).then(|| {
        format!(
            "`shared` has its packets in huge pages: {free} are free and {ENOUGH_HUGE_PAGES} are needed (sysctl \
             vm.nr_hugepages=1024)"
        )
    })
}

impl Plan {
    /// What this machine lacks for some of the points, each reason once, with how many points it is about.
    pub fn lacks(&self, allowed: &[usize]) -> Vec<(String, usize)> {
        counted(self.expand().iter().filter_map(|point| point.lacks(allowed)))
    }

    /// Why some of the points cannot be on any machine and are refused by name when they come, each reason once, with how many
    /// points it is about.
    pub fn refused(&self) -> Vec<(String, usize)> {
        counted(self.expand().iter().filter_map(PointSpec::refused))
    }
}

/// Each reason once, with how often it is there.
fn counted(reasons: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for why in reasons {
        match found.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => found.push((why, 1)),
        }
    }
    found
}

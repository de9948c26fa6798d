//! What a machine has for the points of a plan, and what it lacks.

use super::{Plan, PointSpec};
use crate::clock;
use crate::cores::{NoSeats, Seats};
use crate::environment::free_huge_pages;
use crate::nodes;
use crate::runner::ENOUGH_HUGE_PAGES;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weir_cpu::RealTime;
use weir_dut::Kind;
use weir_trial::{Deployment, Frequency};

/// A machine that points are to be measured on, this or (for tests) another.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The cores that may be used, rising.
    pub cores: Vec<usize>,
    /// Below which folder the kernel's files are.
    pub root: PathBuf,
    /// Whether threads may have real-time priority.
    pub real_time: bool,
    /// Whether this user may make namespaces, and mount.
    pub namespaces: bool,
    /// Huge pages of 2 MiB that are free.
    pub huge_pages: u64,
}

impl Machine {
    /// This machine, with the cores of the calling thread.
    pub fn here() -> Self {
        Self {
            cores: weir_cpu::allowed_cores(),
            root: PathBuf::from("/"),
            real_time: RealTime::raise(&[]).is_ok(),
            namespaces: nix::unistd::geteuid().is_root(),
            huge_pages: free_huge_pages(),
        }
    }

    /// A machine of so many cores, whose files are below a folder, for one who may do everything.
    pub fn below(root: &Path, cores: usize) -> Self {
        Self {
            cores: (0..cores).collect(),
            root: root.to_owned(),
            real_time: true,
            namespaces: true,
            huge_pages: ENOUGH_HUGE_PAGES,
        }
    }
}

impl PointSpec {
    /// What a machine lacks for this point, and what it would take; nothing where it can be measured there.
    pub fn lacks(&self, machine: &Machine) -> Option<String> {
        if weir_dut::kind(&self.dut) == Kind::Arithmetic {
            return None;
        }
        match self.seats(machine) {
            Ok(seats) => self
                .not_contained(machine)
                .or_else(|| self.not_shared(machine))
                .or_else(|| self.lacks_there(machine))
                .or_else(|| self.placement.guest.and_then(weir_dut::guest_lacks))
                .or_else(|| self.not_as_fast(machine, &seats)),
            Err(NoSeats::TooFew { needed, here }) => Some(self.too_few(needed, here)),
            Err(why) => Some(format!("{} in `{}`: {why}", self.nf, self.placement.deployment)),
        }
    }

    /// Who sits where on a machine.
    pub(crate) fn seats(&self, machine: &Machine) -> Result<Seats, NoSeats> {
        let Machine { cores: allowed, root, .. } = machine;
        let device = (&self.placement.cores, self.processes());
        match self.placement.node {
            None => Seats::placed(allowed, self.tester_cores, device),
            Some(node) => nodes::seats(node, (root, allowed), self.tester_cores, device),
        }
    }

    fn too_few(&self, needed: usize, here: usize) -> String {
        let testers = self.tester_cores.max(1) as usize;
        let share = match self.placement.is_inline() {
            true if self.placement.queues > 1 => {
                "; each queue has a forwarding thread unless `cores` says fewer: `cores = \"shared\"` has one serve all of them"
            }
            true => "",
            false => "; `cores = \"shared\"` lets its processes take turns on one, and the result says so",
        };
        let copies = match self.placement.copies {
            0 | 1 => String::new(),
            copies => format!(", {copies} copies,"),
        };
        let bundles = match self.placement.bundles {
            0 | 1 => String::new(),
            bundles => format!("{} {bundles} bundles,", if copies.is_empty() { "," } else { "" }),
        };
        let queues = match self.placement.queues {
            0 | 1 => String::new(),
            queues => format!(", {queues} queues,"),
        };
        format!(
            "{} in `{}`{copies}{bundles}{queues} needs {needed} cores ({testers} for the tester, {} for the device); {here} may be used here{share}",
            self.nf,
            self.placement.deployment,
            needed - testers
        )
    }

    /// Why this user can have no containers; nothing where he can, or needs none.
    fn not_contained(&self, machine: &Machine) -> Option<String> {
        let needs = self.placement.deployment == Deployment::Container && !machine.namespaces;
        needs.then(|| {
            "`container` makes namespaces, which needs root; run it as root, or take `vhost`".to_owned()
        })
    }

    /// Why this machine, or this user, can have no shared memory; nothing where it can, or needs none.
    fn not_shared(&self, machine: &Machine) -> Option<String> {
        if self.placement.deployment != Deployment::Shared {
            return None;
        }
        if !machine.namespaces {
            return Some(
                "`shared` mounts hugetlbfs, which needs root; run it as root, or take `vale`".to_owned(),
            );
        }
        let free = machine.huge_pages;
        (free < ENOUGH_HUGE_PAGES).then(|| {
            format!(
                "`shared` has its packets in huge pages: {free} are free and {ENOUGH_HUGE_PAGES} are needed (sysctl \
                 vm.nr_hugepages=1024)"
            )
        })
    }

    /// The program of a device or of its host that has to be built by hand, and is not here; nothing where none is missing.
    fn unbuilt(&self) -> Option<String> {
        self.programs().into_iter().find_map(|device| {
            Some(weir_dut::adapter(device)?.unbuilt(weir_dut::split(device).1)?.to_string())
        })
    }

    /// Why the device's cores cannot be as fast as is asked for.
    fn not_as_fast(&self, machine: &Machine, seats: &Seats) -> Option<String> {
        match self.placement.frequency? {
            Frequency::Clock(megahertz) => {
                seats.forwarding.iter().find_map(|core| clock::lacks(&machine.root, *core, megahertz))
            }
            Frequency::Share(_) if machine.real_time => None,
            Frequency::Share(percent) => Frequency::Share(percent).held().map(|percent| {
                format!(
                    "a device is held back to {percent}% by a thread with real-time priority; run it as root, with CAP_SYS_NICE, or with `ulimit -r 2`"
                )
            }),
        }
    }

    /// Why a device cannot be made as fast as is asked for on any machine; nothing where it can.
    pub(crate) fn unheld(&self) -> Option<String> {
        let frequency = self.placement.frequency?;
        self.programs().into_iter().filter_map(weir_dut::adapter).find_map(|device| {
            let name = device.name();
            match device.kind() {
                Kind::OnTheWire => Some(format!("{name} is a box of its own, and {frequency} is of this machine's cores")),
                Kind::Arithmetic if weir_dut::is_made_of_parts(&self.dut) => None,
                Kind::Arithmetic => Some(format!("{name} computes its trials on no core, so that {frequency} means nothing")),
                Kind::Started if device.forwards_in_kernel() => frequency.held().map(|percent| {
                    format!(
                        "{name} forwards in interrupts, which no thread can keep from a core: it cannot be held back to {percent}%; a clock (\"1.5GHz\") can be set where the machine has cpufreq"
                    )
                }),
                Kind::Started => None,
            }
        })
    }
}

impl Plan {
    /// The cores on which its points are measured, of those of a machine.
    pub fn cores_of(&self, machine: &Machine) -> BTreeSet<usize> {
        let seats = self.expand().into_iter().filter_map(|point| point.seats(machine).ok());
        seats.flat_map(|seats| seats.testers.into_iter().chain(seats.forwarding)).collect()
    }

    /// What a machine lacks for some of the points, each reason once, with how many points it is about.
    pub fn lacks(&self, machine: &Machine) -> Vec<(String, usize)> {
        counted(self.expand().iter().filter_map(|point| point.lacks(machine).or_else(|| point.unbuilt())))
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

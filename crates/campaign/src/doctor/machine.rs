//! A machine as the rules see it: its facts, typed, and what was measured on it.

use super::Measured;
use crate::Cores;
use crate::environment::core_list;
use std::collections::BTreeMap;

/// A machine to judge.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Its environment ([`crate::environment::capture`]).
    pub facts: &'a BTreeMap<String, String>,
    /// What was measured on it.
    pub measured: &'a Measured,
}

impl<'a> Machine<'a> {
    pub(super) fn fact(&self, name: &str) -> Option<&'a str> {
        self.facts.get(name).map(String::as_str)
    }

    /// The leading number of a fact: `24684084 kB`, `1.50 cores`.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.fact(name)?.split_whitespace().next()?.parse().ok()
    }

    /// The cores of a fact that is a list of them.
    pub(super) fn list(&self, name: &str) -> Vec<usize> {
        self.fact(name).map(core_list::parse).unwrap_or_default()
    }

    /// The cores that a campaign may use.
    pub(super) fn allowed(&self) -> Vec<usize> {
        self.list("cpu.allowed")
    }

    /// Who would run where.
    pub(super) fn roles(&self) -> Option<Cores> {
        Cores::assign(&self.allowed()).ok()
    }

    /// All cores of the machine.
    pub(super) fn all_cores(&self) -> Vec<usize> {
        (0..self.number("cpu.cores").unwrap_or(0.0) as usize).collect()
    }

    /// Hyper-threads of one physical core, the core itself among them.
    pub(super) fn siblings(&self, core: usize) -> Vec<usize> {
        let groups = self.fact("cpu.siblings").unwrap_or_default();
        let group = groups.split(' ').map(core_list::parse).find(|group| group.contains(&core));
        group.unwrap_or_else(|| vec![core])
    }

    /// The NUMA node of a core.
    pub(super) fn node(&self, core: usize) -> Option<usize> {
        let nodes = core_list::parse(self.fact("numa.nodes")?);
        nodes.into_iter().find(|node| self.list(&format!("numa.node.{node}.cores")).contains(&core))
    }

    pub(super) fn in_container(&self) -> bool {
        self.facts.contains_key("virtual.container")
    }

    pub(super) fn in_guest(&self) -> bool {
        self.facts.contains_key("virtual.hypervisor")
    }

    /// A command that changes the kernel or its devices: a container must leave it to its host.
    pub(super) fn as_host(&self, command: impl AsRef<str>) -> String {
        let command = command.as_ref();
        if self.in_container() {
            return format!("on the container's host, as root: {command}");
        }
        match self.fact("user.privileges") {
            Some("root") | None => command.to_owned(),
            Some(_) if command.contains('>') => format!("sudo sh -c '{command}'"),
            Some(_) => format!("sudo {command}"),
        }
    }

    /// Two isolated cores for tester and DUT, on one node and with no physical core in common, and a
    /// core for all else below them, as [`Cores::assign`] hands them out by number.
    pub(super) fn isolated_cores(&self) -> Option<[usize; 3]> {
        let isolated = self.list("cpu.isolated");
        let pair = isolated.iter().enumerate().rev().find_map(|(place, &dut)| {
            let fits = |tester: &&usize| {
                !self.siblings(dut).contains(tester) && self.node(**tester) == self.node(dut)
            };
            Some((isolated[..place].iter().rev().find(fits).copied()?, dut))
        });
        let (tester, dut) = pair?;
        let control = self.all_cores().into_iter().find(|core| !isolated.contains(core))?;
        (control < tester).then_some([control, tester, dut])
    }

    /// Three cores that get in nobody's way: on one node, with no physical core in common, and not
    /// the first, which serves interrupts, unless there are no others. Control, tester, DUT.
    pub(super) fn better_cores(&self) -> Option<[usize; 3]> {
        let isolated = self.list("cpu.isolated");
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for core in self.all_cores() {
            let first_of_its = self.siblings(core).first() == Some(&core);
            if first_of_its && !isolated.contains(&core) {
                by_node.entry(self.node(core).unwrap_or(0)).or_default().push(core);
            }
        }
        let largest = by_node.into_values().max_by_key(Vec::len)?;
        match largest.as_slice() {
            [control, .., tester, dut] => Some([*control, *tester, *dut]),
            _ => None,
        }
    }
}

/// A share as people read it: `2.3 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 10.0 {
        format!("{percent:.0} %")
    } else if percent >= 0.095 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.3} %")
    }
}

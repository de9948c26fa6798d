//! Who runs on which core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::{CoreUse, NodeUse};

/// The cores of a rig.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cores {
    /// Generator and sink.
    pub tester: usize,
    /// The DUT's forwarding thread.
    pub dut: usize,
    /// Everything else: the DUT's control thread, the campaign itself.
    pub control: usize,
}

/// A machine too small to measure on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "only cores {allowed:?} may be used; the tester needs {testers} and the DUT one. Give the lab {} cores (check taskset, cgroup or container limits){}",
    testers + 1,
    if *testers > 1 { ", or write a smaller `tester_cores` into the plan" } else { "" }
)]
pub struct TooFewCores {
    allowed: Vec<usize>,
    testers: usize,
}

/// Cores that a tester may have: one that sends and one that receives for each of eight queues of two directions.
pub(crate) const MOST_TESTERS: u32 = 32;

impl Cores {
    /// Hands out the cores this process may use: the last to the DUT, as the first often serves
    /// interrupts; the tester the one before; control shares the first.
    pub fn assign(allowed: &[usize]) -> Result<Self, TooFewCores> {
        match allowed {
            [first, .., tester, dut] => Ok(Self { tester: *tester, dut: *dut, control: *first }),
            [tester, dut] => Ok(Self { tester: *tester, dut: *dut, control: *tester }),
            few => Err(TooFewCores { allowed: few.to_vec(), testers: 1 }),
        }
    }

    /// The tester's cores, where a plan gives it several: [`Self::tester`] and those before it.
    pub fn testers(allowed: &[usize], count: u32) -> Result<Vec<usize>, TooFewCores> {
        let testers = count.max(1) as usize;
        let first = allowed.len().checked_sub(testers + 1);
        let chosen = first.and_then(|first| allowed.get(first..allowed.len() - 1));
        chosen.map(<[usize]>::to_vec).ok_or_else(|| TooFewCores { allowed: allowed.to_vec(), testers })
    }
}

/// Who sits where at one point: the cores of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seats {
    /// The roles; of several forwarding processes the first one's.
    pub cores: Cores,
    /// The tester's.
    pub testers: Vec<usize>,
    /// The core of each forwarding process of the DUT, the host's first; some may be the same.
    pub forwarding: Vec<usize>,
}

/// Why there are no seats for a point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSeats {
    /// The cores are too few.
    #[error("{needed} cores are needed, and {here} may be used here")]
    TooFew {
        /// Cores that are needed.
        needed: usize,
        /// Cores that may be used.
        here: usize,
    },
    /// A core that is named is none of those that may be used.
    #[error("core {core} may not be used here; {} may", super::environment::core_list::format(.allowed))]
    NotHere {
        /// The core.
        core: usize,
        /// Those that may be used.
        allowed: Vec<usize>,
    },
    /// Cores are named, and a node as well.
    #[error("`cores` names the cores already; leave out the list, or `node`")]
    Named,
    /// No node, or no two nodes, have cores enough.
    #[error(
        "`node = \"{node}\"` wants {testers} core(s) for the tester and {own} for the device on {}; the cores that may be used here are on {} node(s): {}",
        if *node == NodeUse::Same { "one node" } else { "another node" },
        here.len(),
        here.iter().map(|cores| super::environment::core_list::format(cores)).collect::<Vec<_>>().join("; ")
    )]
    Nodes {
        /// Which is asked for.
        node: NodeUse,
        /// Cores of the tester.
        testers: usize,
        /// Cores of the device.
        own: usize,
        /// The cores of each node.
        here: Vec<Vec<usize>>,
    },
    /// The named cores leave too few for the tester.
    #[error(
        "`cores = {on:?}` leaves {left} of the cores that may be used here ({}) to the tester, which wants {testers}",
        super::environment::core_list::format(.allowed)
    )]
    NoneLeft {
        /// The device's.
        on: Vec<u32>,
        /// What is left.
        left: usize,
        /// What the tester wants.
        testers: usize,
        /// Those that may be used.
        allowed: Vec<usize>,
    },
}

impl Seats {
    /// Seats for a tester of so many cores and a DUT of so many forwarding processes, each with a core of its own:
    /// the last ones, and the tester's before them.
    ///
    /// # Errors
    ///
    /// Where the cores are too few.
    pub fn of(allowed: &[usize], testers: u32, processes: usize) -> Result<Self, TooFewCores> {
        // The DUT's first core, and what lies before it: seats as if it had that one alone.
        let end = allowed.len().saturating_sub(processes.saturating_sub(1));
        let (before, others) = allowed.split_at(end);
        let few = |_| TooFewCores { allowed: allowed.to_vec(), testers: testers.max(1) as usize };
        let cores = Cores::assign(before).map_err(few)?;
        let testers = Cores::testers(before, testers).map_err(few)?;
        Ok(Self { cores, testers, forwarding: std::iter::once(cores.dut).chain(others.to_vec()).collect() })
    }

    /// Seats for a tester of so many cores and a DUT of so many forwarding processes on the cores that it is to have.
    pub(crate) fn placed(
        allowed: &[usize],
        testers: u32,
        (cores, processes): (&CoreUse, usize),
    ) -> Result<Self, NoSeats> {
        let own = match cores {
            CoreUse::Own => processes,
            CoreUse::Shared => 1,
            CoreUse::Count(count) => *count as usize,
            CoreUse::On(on) => return Self::on(allowed, testers, (on, processes)),
        };
        let needed = own + testers.max(1) as usize;
        let seats = Self::of(allowed, testers, own);
        let seats = seats.map_err(|_| NoSeats::TooFew { needed, here: allowed.len() })?;
        Ok(seats.dealt(processes))
    }

    /// Seats for a DUT on these cores, and a tester on the last of the others.
    fn on(allowed: &[usize], testers: u32, (on, processes): (&[u32], usize)) -> Result<Self, NoSeats> {
        let forwarding: Vec<usize> = on.iter().map(|core| *core as usize).collect();
        if let Some(core) = forwarding.iter().find(|core| !allowed.contains(core)) {
            return Err(NoSeats::NotHere { core: *core, allowed: allowed.to_vec() });
        }
        let others: Vec<usize> = allowed.iter().copied().filter(|core| !forwarding.contains(core)).collect();
        let wanted = testers.max(1) as usize;
        let first = others.len().checked_sub(wanted);
        let (Some(testers), Some(control)) = (first.and_then(|first| others.get(first..)), others.first())
        else {
            let (left, allowed) = (others.len(), allowed.to_vec());
            return Err(NoSeats::NoneLeft { on: on.to_vec(), left, testers: wanted, allowed });
        };
        let tester = testers.last().copied().unwrap_or(*control);
        let cores = Cores { tester, dut: forwarding[0], control: *control };
        Ok(Self { cores, testers: testers.to_vec(), forwarding }.dealt(processes))
    }

    /// The cores of the DUT dealt out to so many processes.
    fn dealt(self, processes: usize) -> Self {
        let forwarding = self.forwarding.iter().copied().cycle().take(processes.max(1)).collect();
        Self { forwarding, ..self }
    }

    /// Whether forwarding processes take turns on a core.
    pub(crate) fn shares(&self) -> bool {
        let own: std::collections::BTreeSet<&usize> = self.forwarding.iter().collect();
        own.len() < self.forwarding.len()
    }

    /// Who sits where, in words: for the result.
    pub(crate) fn says(&self) -> String {
        let list = |cores: &[usize]| cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let turns = if self.shares() { "; those on one core take turns" } else { "" };
        format!(
            "tester on {}, forwarding processes on {}, all else on {}{turns}",
            list(&self.testers),
            list(&self.forwarding),
            self.cores.control
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tester_and_dut_never_share_a_core() {
        assert_eq!(Cores::assign(&[0, 1]), Ok(Cores { tester: 0, dut: 1, control: 0 }));
        assert_eq!(Cores::assign(&[2, 3, 5, 7]), Ok(Cores { tester: 5, dut: 7, control: 2 }));
        assert!(Cores::assign(&[4]).unwrap_err().to_string().contains("[4]"));
    }

    #[test]
    fn a_tester_of_several_cores_has_those_before_the_duts_and_says_how_many_are_missing() {
        let allowed = [2, 3, 5, 7];
        for (count, cores) in [(1, vec![5]), (2, vec![3, 5]), (3, vec![2, 3, 5])] {
            assert_eq!(Cores::testers(&allowed, count), Ok(cores));
        }
        assert_eq!(Cores::testers(&allowed, 1).unwrap(), [Cores::assign(&allowed).unwrap().tester]);
        let error = Cores::testers(&allowed, 4).unwrap_err().to_string();
        assert!(error.contains("[2, 3, 5, 7]") && error.contains("Give the lab 5 cores"), "{error}");
        assert!(error.contains("`tester_cores`"), "{error}");
        assert!(!Cores::testers(&[0], 1).unwrap_err().to_string().contains("tester_cores"));
    }

    #[test]
    fn processes_have_the_cores_that_a_plan_says_and_the_tester_others() {
        let allowed = [0, 1, 2, 3, 4, 5];
        let seats = |cores: &CoreUse, processes| Seats::placed(&allowed, 1, (cores, processes)).unwrap();
        assert_eq!(seats(&CoreUse::Own, 3), Seats::of(&allowed, 1, 3).unwrap());
        assert_eq!(seats(&CoreUse::Shared, 3).forwarding, [5, 5, 5]);
        let two = seats(&CoreUse::Count(2), 3);
        assert_eq!((two.forwarding.as_slice(), two.cores.tester, two.shares()), (&[4, 5, 4][..], 3, true));
        let on = seats(&CoreUse::On(vec![5, 1]), 2);
        assert_eq!(
            (on.forwarding.as_slice(), on.cores),
            (&[5, 1][..], Cores { tester: 4, dut: 5, control: 0 })
        );
        assert_eq!(on.says(), "tester on 4, forwarding processes on 5, 1, all else on 0");
        assert!(two.says().ends_with("take turns") && !on.shares());
        let first = Seats::placed(&[0, 1], 1, (&CoreUse::On(vec![0]), 1)).unwrap();
        assert_eq!(first.cores, Cores { tester: 1, dut: 0, control: 1 });
    }

    #[test]
    fn cores_that_are_not_there_and_none_for_the_tester_are_named() {
        let says = |allowed: &[usize], testers, cores: &CoreUse, processes| {
            Seats::placed(allowed, testers, (cores, processes)).unwrap_err().to_string()
        };
        assert_eq!(says(&[0, 1], 1, &CoreUse::Own, 4), "5 cores are needed, and 2 may be used here");
        assert_eq!(says(&[0, 1], 1, &CoreUse::On(vec![1, 7]), 2), "core 7 may not be used here; 0-1 may");
        let none = says(&[0, 1], 1, &CoreUse::On(vec![1, 0]), 2);
        assert!(none.contains("`cores = [1, 0]` leaves 0") && none.contains("wants 1"), "{none}");
        assert!(says(&[0, 1, 2], 3, &CoreUse::On(vec![1]), 2).contains("leaves 2"));
    }

    #[test]
    fn each_process_of_a_chain_has_a_core_and_the_tester_those_before() {
        let seats = Seats::of(&[0, 1, 2, 3, 4, 5], 1, 4).unwrap();
        assert_eq!(seats.cores, Cores { tester: 1, dut: 2, control: 0 });
        assert_eq!((seats.testers, seats.forwarding), (vec![1], vec![2, 3, 4, 5]));
        let alone = Seats::of(&[0, 1], 1, 1).unwrap();
        assert_eq!((alone.cores, alone.forwarding), (Cores::assign(&[0, 1]).unwrap(), vec![1]));
        for (allowed, testers, processes) in [(2, 1, 2), (4, 1, 4), (4, 2, 3), (1, 1, 1), (2, 1, 9)] {
            let allowed: Vec<usize> = (0..allowed).collect();
            assert!(Seats::of(&allowed, testers, processes).is_err(), "{allowed:?} {testers} {processes}");
        }
    }
}

//! Who runs on which core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Cores that a tester may have: one that sends and one that receives a direction.
pub(crate) const MOST_TESTERS: u32 = 4;

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
    /// A core for each forwarding process of the DUT.
    pub forwarding: Vec<usize>,
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

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
}

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
    "only core {0:?} may be used; the tester and the DUT need one each. Give the lab two cores (check taskset, cgroup or container limits)"
)]
pub struct TooFewCores(Vec<usize>);

impl Cores {
    /// Hands out the cores this process may use: the last to the DUT, as the first often serves
    /// interrupts; the tester the one before; control shares the first.
    pub fn assign(allowed: &[usize]) -> Result<Self, TooFewCores> {
        match allowed {
            [first, .., tester, dut] => Ok(Self { tester: *tester, dut: *dut, control: *first }),
            [tester, dut] => Ok(Self { tester: *tester, dut: *dut, control: *tester }),
            few => Err(TooFewCores(few.to_vec())),
        }
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
}

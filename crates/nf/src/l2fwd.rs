//! Layer 2 forwarding: from each port to the other, nothing read, nothing changed.
//!
//! The floor under the other functions: what it costs is the ports' own work.

use crate::verdict::{NetworkFunction, Verdict, Verdicts, other_port};

/// The function.
#[derive(Clone, Copy, Debug, Default)]
pub struct L2Fwd;

impl NetworkFunction for L2Fwd {
    const TRANSPARENT: bool = true;

    #[inline]
    fn process<'a>(&self, port: u8, frames: impl Iterator<Item = &'a mut [u8]>, verdicts: &mut Verdicts) {
        frames.zip(verdicts).for_each(|(_, verdict)| *verdict = Verdict::forward(other_port(port)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::DropReason;
    use weir_dpdk::BURST;

    #[test]
    fn every_packet_leaves_by_the_port_opposite_unchanged() {
        let mut verdicts = [Verdict::drop(DropReason::Denied); BURST];
        let mut frames = vec![vec![1, 2, 3], Vec::new()];
        for port in [0, 1] {
            L2Fwd.process(port, frames.iter_mut().map(Vec::as_mut_slice), &mut verdicts);
            assert_eq!(verdicts[..2], [Verdict::forward(1 - port); 2]);
            assert_eq!(
                verdicts[2],
                Verdict::drop(DropReason::Denied),
                "places behind the burst are left alone"
            );
        }
        assert_eq!(frames, [vec![1, 2, 3], Vec::new()]);
    }
}

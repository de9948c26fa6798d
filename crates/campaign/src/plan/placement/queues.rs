//! Queues of each port between the tester and the device, and of each function of a chain: the axis `queues`, and which devices,
//! deployments and wirings can have several.

use super::Placements;
use crate::plan::PointSpec;
use crate::plan::check::Checker;
use crate::plan::text::List;
use toml::Spanned;
use weir_dut::wiring::{WiringKind, carries_queues};
use weir_dut::{Adapter, Kind};
use weir_trial::{Deployment, Placement};

impl Checker<'_> {
    /// The axes of placement, with that of queues.
    pub(in crate::plan) fn queues(
        &mut self,
        queues: Option<Spanned<List<u32>>>,
        placements: Placements,
    ) -> Placements {
        let axis = queues.map_or_else(Vec::new, |list| self.axis("queues", list));
        for (span, queues) in &axis {
            if !(1..=Placement::MOST_QUEUES).contains(queues) {
                let most = Placement::MOST_QUEUES;
                self.refuse(span, format!("`queues`: {queues} is not possible; write 1 to {most}"));
            }
        }
        let queues: Vec<u32> = axis.into_iter().map(|(_, queues)| queues).collect();
        Placements { queues: if queues.is_empty() { vec![1] } else { queues }, ..placements }
    }
}

impl PointSpec {
    /// Why its ports cannot have so many queues on any machine; nothing where they can, or have one.
    pub(crate) fn unqueued(&self, wiring: WiringKind) -> Option<String> {
        let Placement { queues, deployment, .. } = &self.placement;
        let adapter = weir_dut::adapter(&self.dut).filter(|_| *queues > 1)?;
        let reason = if adapter.kind() == Kind::Arithmetic {
            format!("{} computes its trials and has no ports", adapter.name())
        } else if !matches!(deployment, Deployment::Inline | Deployment::Vhost | Deployment::Vale) {
            format!(
                "ports of `{deployment}` have one queue each; take `vnics` or `copies` for several ways, or deployment `vhost`, `vale` \
                 or `inline`"
            )
        } else {
            let all = self.programs().into_iter().filter_map(weir_dut::adapter);
            let unserved = || all.map(Adapter::serves_queues).find_map(Result::err);
            carries_queues(wiring).err().or_else(unserved)?
        };
        Some(format!("`queues = {queues}`: {reason}"))
    }
}

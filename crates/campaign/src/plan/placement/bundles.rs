//! Bundles beside one another, each a chain between a pair of the tester's ports of its own: the axis `bundles`, and which
//! deployments and wirings can have several.

use super::Placements;
use crate::plan::PointSpec;
use crate::plan::check::Checker;
use crate::plan::text::List;
use toml::Spanned;
use weir_dut::wiring::WiringKind;
use weir_trial::{Deployment, Placement};

impl Checker<'_> {
    /// The axes of placement, with that of bundles.
    pub(in crate::plan) fn bundles(
        &mut self,
        bundles: Option<Spanned<List<u32>>>,
        placements: Placements,
    ) -> Placements {
        let axis = bundles.map_or_else(Vec::new, |list| self.axis("bundles", list));
        for (span, bundles) in &axis {
            if !(1..=Placement::MOST_BUNDLES).contains(bundles) {
                let most = Placement::MOST_BUNDLES;
                self.refuse(span, format!("`bundles`: {bundles} is not possible; write 1 to {most}"));
            }
        }
        let inline = placements.deployments.contains(&Deployment::Inline);
        let alone = placements.deployments.iter().all(|one| *one == Deployment::Inline);
        if let Some((span, _)) = axis.iter().find(|(_, bundles)| *bundles > 1 && self.whole) {
            let why = "`bundles` are processes side by side, each with two ports, and `inline` is one device with two";
            if alone {
                let mend = "take a `deployment` such as vhost, vale or shared";
                self.refuse(span, format!("{why}; {mend}"));
            } else if inline && !axis.iter().any(|(_, bundles)| *bundles == 1) {
                let mend = "add 1 to `bundles`, or leave that deployment out";
                self.refuse(span, format!("{why}; {mend}"));
            }
        }
        let bundles: Vec<u32> = axis.into_iter().map(|(_, bundles)| bundles).collect();
        Placements { bundles: if bundles.is_empty() { vec![1] } else { bundles }, ..placements }
    }
}

impl PointSpec {
    /// Why a wiring cannot give each of its bundles ports of its own; nothing where it can, or there is one.
    pub(super) fn unbundled(&self, wiring: WiringKind) -> Option<String> {
        let can = matches!(wiring, WiringKind::Vhost | WiringKind::Memif);
        (self.placement.bundles > 1 && !can).then(|| {
            format!(
                "{} bundles take {} ports of the tester, and the `{wiring}` wiring has two; take `vhost` or `memif`",
                self.placement.bundles,
                self.placement.ports()
            )
        })
    }
}

//! Copies of a chain side by side behind a host: the axes `copies` and `split`, and whether a host of the plan can do them.

use super::Placements;
use crate::plan::PointSpec;
use crate::plan::check::Checker;
use crate::plan::text::List;
use toml::Spanned;
use weir_dut::chain;
use weir_dut::wiring::WiringKind;
use weir_trial::{Placement, Split};

impl Checker<'_> {
    /// The axes of placement, with those of copies.
    pub(in crate::plan) fn copies(
        &mut self,
        copies: Option<Spanned<List<u32>>>,
        split: Option<Spanned<List<String>>>,
        placements: Placements,
    ) -> Placements {
        let split_span = split.as_ref().map(Spanned::span);
        let copies_span = copies.as_ref().map(Spanned::span);
        let axis = copies.map_or_else(Vec::new, |list| self.axis("copies", list));
        for (span, copies) in &axis {
            if !(1..=Placement::MOST_COPIES).contains(copies) {
                let most = Placement::MOST_COPIES;
                self.refuse(span, format!("`copies`: {copies} is not possible; write 1 to {most}"));
            }
        }
        let splits = self.words("split", split, &Split::ALL.map(Split::name), Split::default());
        let copies: Vec<u32> = axis.iter().map(|(_, copies)| *copies).collect();
        let copies = if copies.is_empty() { vec![1] } else { copies };
        let several = copies.iter().any(|copies| *copies > 1);
        if let Some(span) = split_span.as_ref().filter(|_| !several && self.whole) {
            let why = "says how a host splits packets among copies, and there is one";
            self.refuse(span, format!("`split` {why}; add `copies = 2`, or leave it out"));
        }
        let placements = Placements { copies, splits, ..placements };
        if let Some(span) = copies_span.filter(|_| several && self.whole) {
            let span = axis.iter().find(|(_, copies)| *copies > 1).map_or(span, |(span, _)| span.clone());
            self.hosted_copies((span.clone(), split_span.unwrap_or(span)), &placements);
        }
        placements
    }

    /// Whether the deployments have a host for copies, and each way of splitting has a host that can. The places are those of
    /// copies and of splits.
    fn hosted_copies(&mut self, places: (super::Span, super::Span), placements: &Placements) {
        let without = placements.deployments.iter().find(|deployment| !deployment.has_host());
        let hosted = placements.deployments.iter().find(|deployment| deployment.has_host());
        match (without, hosted) {
            (Some(without), None) => {
                let why = "stand behind a host that splits packets among them";
                let mend = "add a deployment that has one, vhost or container";
                self.refuse(&places.0, format!("`copies` {why}, and `{without}` has none; {mend}"));
            }
            (Some(without), Some(_)) if !placements.copies.contains(&1) => {
                let mend = "add 1 to `copies`, or leave that deployment out";
                self.refuse(&places.0, format!("`copies`: `{without}` has no host and stands alone; {mend}"));
            }
            _ => {}
        }
        let Some(deployment) = hosted else { return };
        for split in &placements.splits {
            let reason = |host: &String| {
                chain::unsplit(&Placement {
                    deployment: *deployment,
                    host: Some(host.clone()),
                    copies: 2,
                    split: *split,
                    ..Placement::default()
                })
            };
            let reasons: Vec<Option<String>> = placements.hosts.iter().map(reason).collect();
            if let Some(reasons) = reasons.into_iter().collect::<Option<Vec<String>>>() {
                self.refuse(&places.1, format!("`split`: {}", reasons.join("; ")));
            }
        }
    }
}

impl PointSpec {
    /// Why its functions cannot be placed so on any machine; nothing where they can, or stand in no chain of processes.
    pub fn refused(&self) -> Option<String> {
        let wiring: WiringKind = self.wiring.parse().ok()?;
        if self.placement.is_inline() { None } else { self.unplaceable(wiring) }
    }
}

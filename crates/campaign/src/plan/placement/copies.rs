//! What a host splits packets among, copies of a chain side by side and virtual ports of each function: the axes `copies`, `vnics` and
//! `split`, and whether a host of the plan can do them.

use super::Placements;
use crate::plan::PointSpec;
use crate::plan::check::Checker;
use crate::plan::text::List;
use toml::Spanned;
use weir_dut::chain;
use weir_dut::wiring::WiringKind;
use weir_trial::{Placement, Split};

impl Checker<'_> {
    /// The axes of placement, with those of copies and virtual ports.
    pub(in crate::plan) fn copies(
        &mut self,
        [copies, vnics]: [Option<Spanned<List<u32>>>; 2],
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
        let ports = vnics.map_or_else(Vec::new, |list| self.axis("vnics", list));
        for (span, vnics) in &ports {
            if !vnics.is_multiple_of(2) || !(2..=Placement::MOST_VNICS).contains(vnics) {
                let why = "a function forwards between pairs of virtual ports";
                self.refuse(span, format!("`vnics`: {vnics} is not possible, as {why}; write 2, 4, 6 or 8"));
            }
        }
        let splits = self.words("split", split, &Split::ALL.map(Split::name), Split::default());
        let copies: Vec<u32> = axis.iter().map(|(_, copies)| *copies).collect();
        let copies = if copies.is_empty() { vec![1] } else { copies };
        let vnics: Vec<u32> = ports.iter().map(|(_, vnics)| *vnics).collect();
        let vnics = if vnics.is_empty() { vec![2] } else { vnics };
        let several = copies.iter().any(|copies| *copies > 1);
        let more = ports.iter().find(|(_, vnics)| *vnics > 2).map(|(span, _)| span.clone());
        if let Some(span) = split_span.as_ref().filter(|_| !several && more.is_none() && self.whole) {
            let why = "says how a host splits packets among copies, and there is one";
            self.refuse(span, format!("`split` {why}; add `copies = 2` or `vnics = 4`, or leave it out"));
        }
        let placements = Placements { copies, vnics, splits, ..placements };
        if let Some(span) = copies_span.filter(|_| several && self.whole) {
            let span = axis.iter().find(|(_, copies)| *copies > 1).map_or(span, |(span, _)| span.clone());
            let fewest = placements.copies.iter().copied().min().unwrap_or(1);
            self.hosted(
                "copies",
                (span.clone(), split_span.clone().unwrap_or(span)),
                (&placements, fewest == 1),
            );
        }
        if let Some(span) = more.filter(|_| self.whole) {
            let fewest = placements.vnics.iter().copied().min().unwrap_or(2);
            self.hosted("vnics", (span.clone(), split_span.unwrap_or(span)), (&placements, fewest == 2));
        }
        placements
    }

    /// Whether the deployments have a host that splits packets, as a key asks for, and each way of splitting has a host that can. The
    /// places are those of the key and of splits; some of its values may ask for nothing.
    fn hosted(
        &mut self,
        key: &str,
        places: (super::Span, super::Span),
        (placements, has_one): (&Placements, bool),
    ) {
        let least = if key == "copies" { 1 } else { 2 };

        let without = placements.deployments.iter().find(|deployment| !deployment.has_host());
        let hosted = placements.deployments.iter().find(|deployment| deployment.has_host());
        match (without, hosted) {
            (Some(without), None) => {
                let why = "stand behind a host that splits packets among them";
                let mend = "add a deployment that has one, vhost or container";
                self.refuse(&places.0, format!("`{key}` {why}, and `{without}` has none; {mend}"));
            }
            (Some(without), Some(_)) if !has_one => {
                let mend = format!("add {least} to `{key}`, or leave that deployment out");
                self.refuse(&places.0, format!("`{key}`: `{without}` has no host and stands alone; {mend}"));
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
    /// Why its functions cannot be placed so on any machine, or its ports not have so many queues; nothing where they can.
    pub fn refused(&self) -> Option<String> {
        let wiring: WiringKind = self.wiring.parse().ok()?;
        if weir_dut::is_made_of_parts(&self.dut) {
            return None;
        }
        if self.placement.is_inline() {
            let alone = self.unserved(wiring).or_else(|| self.unqueued(wiring));
            return alone.or_else(|| self.many_devices()).or_else(|| self.unjoined());
        }
        self.unplaceable(wiring)
    }

    /// Why one device cannot be the whole chain by itself; nothing where it can, or there is no chain.
    fn unjoined(&self) -> Option<String> {
        let adapter = weir_dut::adapter(&self.dut).filter(|_| self.nf.members().len() > 1)?;
        let reason = adapter.supports(self.nf).err()?;
        Some(format!("{} cannot be {}: {reason}", self.dut, self.nf))
    }
}

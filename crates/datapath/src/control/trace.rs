//! The path of a described packet through tables, stages and services, as the workers would take it.
//!
//! The tables are those in use; services are not run, because they have state that a question must not
//! change. Where one is met, the trace goes on as if it passed the packet and left it as it is, with the
//! `sf_metadata` that is asked for, and says so.

use crate::actions::program::Op;
use crate::control::datapath::Datapath;
use crate::services::stage::next_stage;
use crate::slowpath::explain::{Story, described, masked};
use crate::slowpath::translate::{Begin, FrozenStore, Origins, Subject, Watch, translate};
use std::fmt::Write as _;
use weir_flow::{Field, Key, Mask, extract};
use weir_openflow::{PortNo, match_text};

/// Stages that a trace follows.
const STAGES: usize = 64;

impl Datapath {
    /// Says what becomes of a frame, step by step, without sending it. `metadata` is what each service
    /// in turn is taken to write into `sf_metadata`; after the last, 1.
    pub fn explain(&self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> String {
        let mut key = Key::new();
        let mut layout = extract(frame, in_port.0, &mut key);
        let mut frame = frame.to_vec();
        let mut store = FrozenStore::default();
        let (mut origins, mut mask) = (Origins::default(), Mask::new());
        let mut first = key.clone(); // as it came to the caches
        let mut out = format!("packet: {}\n", match_text(&described(&key), &self.names));
        let mut frozen = None;
        let mut reasons = String::new(); // of the megaflow at hand, a line each
        for stage in 0..STAGES {
            let mut story = Story::default();
            let begin = Begin::at(frozen.as_deref());
            let subject = Subject { key: &key, layout, frame: &frame, origins: &origins, begin };
            let outcome = translate(&self.pipeline, &subject, &mut store, Watch::Story(&mut story));
            let _ = writeln!(out, "stage {stage}:");
            out.push_str(&story.text(&self.names));
            for reason in story.reasons().lines() {
                if !reasons.lines().any(|known| known == reason) {
                    let _ = writeln!(reasons, "{reason}");
                }
            }
            mask.union(&outcome.examined);
            origins = outcome.origins;
            for op in &outcome.segment.ops {
                self.tell(&mut out, op);
                let _ = crate::actions::execute::on_bytes(op, &mut frame, &mut layout, &mut key);
            }
            match outcome.segment.ops.last() {
                Some(Op::Service(number, argument)) => {
                    let Some(info) = self.pipeline.service(*number) else { break };
                    let name = self.names.service_name(*number).unwrap_or("?");
                    let written = metadata.get(stage).copied().unwrap_or(1);
                    let coalesces = info.coalesces && self.pipeline.coalescing;
                    let _ = writeln!(
                        out,
                        "  service {name}, argument {argument}: taken to pass the packet and to write sf_metadata={written}; {}",
                        if coalesces {
                            "the next stage is coalesced"
                        } else {
                            "the packet is classified again"
                        }
                    );
                    Field::SfMetadata.set(&mut key, u128::from(written));
                    next_stage(&mut key, *number);
                    origins = origins.next_stage(&info.rewrites);
                    if !coalesces {
                        self.tell_megaflow(&mut out, &first, &mask, &mut reasons);
                        (origins, mask) = (Origins::default(), Mask::new());
                        first = key.clone();
                    }
                }
                Some(Op::Track(call)) => {
                    let _ = writeln!(
                        out,
                        "  connection tracker: taken to find ct_state=+new+trk; the tables go on with the same megaflow"
                    );
                    // OVS's numbers: new is 1, tracked 0x20.
                    if !call.tracking.forgets {
                        Field::CtState.set(&mut key, 0x21);
                        Field::CtZone.set(&mut key, u128::from(call.tracking.zone));
                    }
                    Field::RecircId.set(&mut key, u128::from(call.next.id));
                    origins = call.behind(&origins);
                    frozen = Some(call.next.clone());
                    continue;
                }
                Some(Op::Recirculate(left)) => {
                    self.tell_megaflow(&mut out, &first, &mask, &mut reasons);
                    Field::RecircId.set(&mut key, u128::from(left.id));
                    frozen = Some(left.clone());
                    (origins, mask) = (Origins::default(), Mask::new());
                    first = key.clone();
                    continue;
                }
                _ => break,
            }
            frozen = None;
        }
        self.tell_megaflow(&mut out, &first, &mask, &mut reasons);
        out
    }

    fn tell(&self, out: &mut String, op: &Op) {
        let port = |place: &u16| {
            let found = self.ports.iter().find(|(_, held)| held.place == *place);
            found.map_or_else(|| "?".to_owned(), |(number, held)| format!("{} ({number})", held.spec.name))
        };
        let _ = match op {
            Op::Copy(place) => writeln!(out, "  => a copy leaves by {}", port(place)),
            Op::Forward(place) => writeln!(out, "  => leaves by {}", port(place)),
            Op::Drop(reason) => writeln!(out, "  => dropped, {}: {}", reason.name(), reason.about()),
            Op::Controller(_) => writeln!(out, "  => a copy goes to the controller"),
            Op::Punt(_) => writeln!(out, "  => goes to the controller"),
            Op::Meter(entry) => writeln!(out, "  => meter {}", entry.meter.id),
            Op::Clone(_) => writeln!(out, "  => actions on a copy"),
            Op::Select(select) | Op::SelectCopy(select) => {
                let how = if select.turn.is_some() { "in turns" } else { "by the flow's hash" };
                writeln!(out, "  => one of {} buckets, {how}", select.choices.len())
            }
            _ => Ok(()),
        };
    }

    fn tell_megaflow(&self, out: &mut String, key: &Key, mask: &Mask, reasons: &mut String) {
        let matching = match_text(&masked(key, mask), &self.names);
        let _ = writeln!(out, "megaflow: {matching}");
        if self.config.tcam.is_some() {
            // What a port has seen is a packet before any service, and before it goes round again.
            let first = Field::SfStage.get(key) == 0 && Field::RecircId.get(key) == 0;
            let word = if first {
                "of the first stage: the port's table may name it"
            } else {
                "behind the first stage: no port's table knows it"
            };
            let _ = writeln!(out, "hints: {word}");
        }
        let _ = writeln!(out, "bits that matter, and why:");
        out.push_str(&std::mem::take(reasons));
    }
}

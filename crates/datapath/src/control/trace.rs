//! The path of a described packet through tables, stages and services, as the workers would take it.
//!
//! The tables are those in use; services are not run, because they have state that a question must not
//! change. Where one is met, the trace goes on as if it passed the packet and left it as it is, with the
//! `sf_metadata` that is asked for, and says so. What they take is what workers measured of them.

use crate::actions::program::Op;
use crate::control::datapath::Datapath;
use crate::control::traced::{Telling, Traced};
use crate::services::stage::next_stage;
use crate::slowpath::explain::{Story, described, masked};
use crate::slowpath::laps::measure;
use crate::slowpath::translate::{Begin, Frozen, FrozenStore, Origins, Subject, Watch, translate};
use crate::stats::report::Report;
use std::sync::Arc;
use weir_flow::{Field, Key, Layout, Mask, extract};
use weir_openflow::{Argument, PortNo, match_text};

/// Stages that a trace follows.
const STAGES: usize = 64;

/// What is asked: of a frame, and what each service in turn is taken to write into `sf_metadata`.
struct Question<'a> {
    in_port: PortNo,
    frame: &'a [u8],
    metadata: &'a [u32],
}

/// A packet on its way.
struct Walker {
    key: Key,
    layout: Layout,
    frame: Vec<u8>,
    origins: Origins,
    /// What its megaflow matches so far, of the packet as it came to the caches.
    mask: Mask,
    first: Key,
    frozen: Option<Arc<Frozen>>,
}

impl Walker {
    /// It comes to the caches anew.
    fn comes_anew(&mut self) {
        (self.origins, self.mask) = (Origins::default(), Mask::new());
        self.first = self.key.clone();
    }
}

impl Datapath {
    /// Says what becomes of a frame, step by step, without sending it. `metadata` is what each service
    /// in turn is taken to write into `sf_metadata`; after the last, 1. Nothing is measured: the same words each time.
    pub fn explain(&self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> String {
        self.told_of(&Question { in_port, frame, metadata }, None).steps
    }

    /// The same with the cycles of each table and action, measured here by walking again and again, and of services
    /// and steps, as workers measured them so far.
    pub fn trace(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> Traced {
        // Of workers that have ended there is nothing to tell; the walk is as before.
        let report = self.report_without_tables().unwrap_or_default();
        self.told_of(&Question { in_port, frame, metadata }, Some(&report))
    }

    fn told_of(&self, question: &Question<'_>, report: Option<&Report>) -> Traced {
        let mut key = Key::new();
        let layout = extract(question.frame, question.in_port.0, &mut key);
        let mut walker = Walker {
            first: key.clone(),
            key,
            layout,
            frame: question.frame.to_vec(),
            origins: Origins::default(),
            mask: Mask::new(),
            frozen: None,
        };
        let mut telling = Telling::new(&self.names, report);
        telling.say(&format!("packet: {}", match_text(&described(&walker.key), &self.names)));
        telling.begin(1e9 / self.clock.nanos_per_tick);
        let mut store = FrozenStore::default();
        for stage in 0..STAGES {
            let last = self.walk(&mut walker, &mut store, &mut telling);
            let written = question.metadata.get(stage).copied().unwrap_or(1);
            if !self.goes_on(last, written, &store, (&mut walker, &mut telling)) {
                break;
            }
        }
        self.tell_megaflow(&mut telling, &walker);
        telling.end()
    }

    /// One stage; its last operation.
    fn walk(&self, walker: &mut Walker, store: &mut FrozenStore, telling: &mut Telling<'_>) -> Option<Op> {
        let Walker { key, layout, frame, origins, frozen, .. } = &*walker;
        let begin = Begin::at(frozen.as_deref());
        let subject = Subject { key, layout: *layout, frame, origins, begin };
        let measured = telling.report.map(|_| {
            measure(|laps| {
                // One of its own, so that each walk has to freeze what it freezes.
                let mut store = FrozenStore::default();
                (translate(&self.pipeline, &subject, &mut store, Watch::Laps(laps)), store)
            })
        });
        let mut story = Story::default();
        let outcome = translate(&self.pipeline, &subject, store, Watch::Story(&mut story));
        telling.stage(&story, measured);
        walker.mask.union(&outcome.examined);
        walker.origins = outcome.origins;
        for op in &outcome.segment.ops {
            self.tell(telling, op);
            let Walker { key, layout, frame, .. } = walker;
            let _ = crate::actions::execute::on_bytes(op, frame, layout, key);
        }
        let mut ops = outcome.segment.ops;
        ops.pop()
    }

    /// What follows a stage; whether another one does.
    fn goes_on(
        &self,
        last: Option<Op>,
        written: u32,
        store: &FrozenStore,
        of: (&mut Walker, &mut Telling<'_>),
    ) -> bool {
        let (walker, telling) = of;
        match last {
            Some(Op::Service(number, argument)) => {
                return self.behind_service(
                    number,
                    &[Argument::Number(argument)],
                    written,
                    (walker, telling),
                );
            }
            Some(Op::Tell(told)) => {
                return self.behind_service(told.service, told.arguments.list(), written, (walker, telling));
            }
            Some(Op::Track(call)) => {
                let name = self.names.service_name(call.service).unwrap_or("?");
                let words = "  connection tracker: taken to find ct_state=+new+trk; the tables go on with the same megaflow";
                telling.service(name, words);
                // OVS's numbers: new is 1, tracked 0x20.
                if !call.tracking.forgets {
                    Field::CtState.set(&mut walker.key, 0x21);
                    Field::CtZone.set(&mut walker.key, u128::from(call.tracking.zone));
                }
                Field::RecircId.set(&mut walker.key, u128::from(call.next.0));
                walker.origins = walker.origins.behind(&call);
                walker.frozen = store.get(call.next.0);
            }
            Some(Op::Recirculate(id)) => {
                self.tell_megaflow(telling, walker);
                Field::RecircId.set(&mut walker.key, u128::from(id.0));
                walker.comes_anew();
                walker.frozen = store.get(id.0);
            }
            _ => return false,
        }
        true
    }

    /// What follows a service that was told this; whether another stage does.
    fn behind_service(
        &self,
        number: u16,
        arguments: &[Argument],
        written: u32,
        of: (&mut Walker, &mut Telling<'_>),
    ) -> bool {
        let (walker, telling) = of;
        let Some(info) = self.pipeline.service(number) else { return false };
        let name = self.names.service_name(number).unwrap_or("?");
        let coalesces = info.coalesces && self.pipeline.coalescing;
        let then = if coalesces { "the next stage is coalesced" } else { "the packet is classified again" };
        let told: Vec<String> = arguments.iter().map(Argument::to_string).collect();
        let s = if told.len() > 1 { "s" } else { "" };
        let told = told.join(", ");
        let words = format!(
            "  service {name}, argument{s} {told}: taken to pass the packet and to write sf_metadata={written}; {then}"
        );
        telling.service(name, &words);
        Field::SfMetadata.set(&mut walker.key, u128::from(written));
        next_stage(&mut walker.key, number);
        walker.origins = walker.origins.next_stage(&info.rewrites);
        if !coalesces {
            self.tell_megaflow(telling, walker);
            walker.comes_anew();
        }
        walker.frozen = None;
        true
    }

    fn tell(&self, telling: &mut Telling<'_>, op: &Op) {
        let port = |place: &u16| {
            let found = self.ports.iter().find(|(_, held)| held.place == *place);
            found.map_or_else(|| "?".to_owned(), |(number, held)| format!("{} ({number})", held.spec.name))
        };
        let words = match op {
            Op::Copy(place) => format!("a copy leaves by {}", port(place)),
            Op::Forward(place) => format!("leaves by {}", port(place)),
            Op::Drop(reason) => format!("dropped, {}: {}", reason.name(), reason.about()),
            Op::Controller(_) => "a copy goes to the controller".to_owned(),
            Op::Punt(_) => "goes to the controller".to_owned(),
            Op::Meter(entry) => format!("meter {}", entry.meter.id),
            Op::Clone(_) => "actions on a copy".to_owned(),
            Op::Select(select) | Op::SelectCopy(select) => {
                let how = if select.turn.is_some() { "in turns" } else { "by the flow's hash" };
                format!("one of {} buckets, {how}", select.choices.len())
            }
            _ => return,
        };
        telling.say(&format!("  => {words}"));
    }

    fn tell_megaflow(&self, telling: &mut Telling<'_>, walker: &Walker) {
        let Walker { first, mask, .. } = walker;
        telling.say(&format!("megaflow: {}", match_text(&masked(first, mask), &self.names)));
        if self.config.tcam.is_some() {
            // What a port has seen is a packet before any service, and before it goes round again.
            let is_first = Field::SfStage.get(first) == 0 && Field::RecircId.get(first) == 0;
            let word = if is_first {
                "of the first stage: the port's table may name it"
            } else {
                "behind the first stage: no port's table knows it"
            };
            telling.say(&format!("hints: {word}"));
        }
        telling.megaflow();
    }
}

//! Packets that no megaflow answers for: the slow path, and how what it makes becomes a megaflow.
//!
//! A recording is a megaflow in the making. It begins with the stage at hand; while services let the
//! packet be coalesced, each further stage is translated and appended (SoftFlow, section 5.2); when the
//! packet is done, it is put into the cache. Until then the packet goes through the burst like the
//! others, so that services see packets in the order they came.

use crate::explain::Explain;
use crate::program::{Program, Segment, Short};
use crate::serve::STAGE_LOCAL;
use crate::translate::{Outcome, Subject, translate};
use crate::worker::{Packets, Source, Worker};
use weir_dpdk::Burst;
use weir_flow::{Field, Key, Mask, places};

/// A megaflow in the making.
pub(crate) struct Recording {
    /// The packet as it came to the caches.
    key: Key,
    mask: Mask,
    fixed: Mask,
    segments: Vec<Segment>,
    tables: [u64; 4],
}

impl Recording {
    /// One segment, if it is made yet.
    pub(crate) fn segment(&mut self, number: usize) -> Option<&mut Segment> {
        self.segments.get_mut(number)
    }

    fn append(&mut self, outcome: Outcome) {
        self.mask.union(&outcome.examined);
        self.fixed = outcome.fixed;
        self.segments.push(outcome.segment);
        for (tables, more) in self.tables.iter_mut().zip(outcome.tables) {
            *tables |= more;
        }
    }
}

impl Worker {
    /// Finds each packet's megaflow. Returns those that have none that is right.
    #[inline]
    pub(crate) fn classify(&mut self, wanted: Packets) -> Packets {
        let Self { caches, bench, counters, found, .. } = self;
        let hits = caches.lookup(&bench.keys, wanted, found, &mut counters.caches);
        let mut misses = wanted & !hits;
        for at in places(hits) {
            if self.caches.is_current(self.found.handles[at], &self.pipeline) {
                self.bench.sources[at] = Source::Megaflow(self.found.handles[at]);
            } else {
                self.counters.caches.revalidated += 1;
                self.doomed.push(self.found.handles[at]);
                misses |= 1 << at;
            }
        }
        misses
    }

    /// Sends packets to the slow path, each with a recording of its own.
    pub(crate) fn upcall(&mut self, burst: &mut Burst, misses: Packets) {
        for at in places(misses) {
            let Some(packet) = burst.get_mut(at) else { continue };
            self.counters.caches.upcalls += 1;
            let key = &self.bench.keys[at];
            // Whatever gave the packet the number still refers to it: a megaflow, or a recording of
            // this burst.
            let frozen = self.frozen.get(Field::RecircId.get(key) as u32);
            let nothing = Mask::new();
            let subject = Subject {
                key,
                layout: self.bench.layouts[at],
                frame: packet.data(),
                fixed: &nothing,
                guarded: &nothing,
                frozen: frozen.as_deref(),
            };
            let outcome = translate(&self.pipeline, &subject, &mut self.frozen, Explain::SILENT);
            let mut recording = Recording {
                key: key.clone(),
                mask: Mask::new(),
                fixed: Mask::new(),
                segments: Vec::with_capacity(2),
                tables: [0; 4],
            };
            recording.append(outcome);
            self.bench.sources[at] = Source::Recording(self.recordings.len());
            self.recordings.push(recording);
        }
    }

    /// The next stage of a packet whose megaflow is in the making, and whose service lets it go on.
    pub(crate) fn extend_recording(&mut self, burst: &mut Burst, at: usize, number: usize, service: u16) {
        let info = self.pipeline.service(service).filter(|info| info.coalesces && self.pipeline.coalescing);
        let (Some(info), Some(packet)) = (info, burst.get_mut(at)) else { return };
        let recording = &mut self.recordings[number];
        if usize::from(self.bench.segments[at]) != recording.segments.len() {
            return;
        }
        let fixed = stage_start(&recording.fixed, &info.rewrites);
        let subject = Subject {
            key: &self.bench.keys[at],
            layout: self.bench.layouts[at],
            frame: packet.data(),
            fixed: &fixed,
            guarded: &info.rewrites,
            frozen: None,
        };
        let outcome = translate(&self.pipeline, &subject, &mut self.frozen, Explain::SILENT);
        recording.append(outcome);
    }

    /// Recordings become megaflows, and what was found out of date goes.
    #[inline]
    pub(crate) fn settle_recordings(&mut self) {
        if !self.doomed.is_empty() {
            for handle in self.doomed.drain(..) {
                self.caches.remove(handle, &self.pipeline);
            }
        }
        if !self.recordings.is_empty() {
            self.keep_recordings();
        }
    }

    fn keep_recordings(&mut self) {
        for recording in self.recordings.drain(..) {
            let rewritten = recording.fixed.iter().fold(0, |set, (place, _)| set | 1 << place);
            let program = Program {
                segments: recording.segments,
                tables: recording.tables,
                rewritten,
                generation: self.pipeline.generation,
                used: self.now,
                dirty: true,
                short: Short::Unknown,
            };
            self.caches.insert(&recording.key, &recording.mask, program, &self.pipeline);
        }
    }
}

/// The bits that are the same for all packets of a megaflow when a stage behind a service begins: those
/// before, all that starts anew with a stage, and none that the service may have changed.
pub(crate) fn stage_start(before: &Mask, rewrites: &Mask) -> Mask {
    let mut fixed = before.clone();
    for field in [Field::SfStage, Field::SfAction, Field::RecircId] {
        field.examine(&mut fixed, u128::MAX);
    }
    for place in STAGE_LOCAL {
        fixed.add(place, u64::MAX);
    }
    for (place, bits) in rewrites.iter() {
        fixed.remove(place, bits);
    }
    fixed
}

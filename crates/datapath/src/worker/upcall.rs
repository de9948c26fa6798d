//! The lookup of a burst, and what becomes of packets that no megaflow answers for: they walk the tables, or the slow
//! path makes a megaflow of them (`slowpath/pending.rs`). `classify/mod.rs` has the order of the tiers.

use crate::actions::execute::Disposition;
use crate::classify::Tiers;
use crate::classify::cache::Made;
use crate::classify::table_walk;
use crate::model::Packets;
use crate::slowpath::pending::PendingMegaflow;
use crate::slowpath::translate::{Begin, Origins, Outcome, Subject, Watch, translate};
use crate::worker::Worker;
use crate::worker::state::{BurstState, Source};
use weir_classifier::quantise;
use weir_dpdk::Burst;
use weir_flow::{Field, Mask, places};

impl Worker {
    /// Finds each packet's megaflow by its whole key. Returns those that have none that is right.
    #[inline]
    pub(super) fn classify(&mut self, wanted: Packets) -> Packets {
        let Self { tiers: Tiers { caches, .. }, state, counters, .. } = self;
        let BurstState { keys, found, hinted, .. } = state;
        let named = hinted.take();
        let others = caches.lookup(keys, wanted & !named, found, &mut counters.caches);
        let misses = wanted & !named & !others;
        hinted.others(others, misses == 0, &found.handles);
        misses | self.take(named | others)
    }

    /// The same by masks, for those that the exact-match cache does not know: those that have none, and those
    /// whose megaflow is out of date.
    fn classify_masked(&mut self, wanted: Packets) -> (Packets, Packets) {
        let Self { tiers: Tiers { caches, .. }, state, counters, .. } = self;
        let BurstState { keys, found, hinted, .. } = state;
        let hits = caches.lookup_masked(keys, wanted, found, &mut counters.caches);
        hinted.others(hits, true, &found.handles);
        (wanted & !hits, self.take(hits))
    }

    /// Takes the megaflows that were found. Returns the packets whose megaflow is out of date.
    #[inline]
    fn take(&mut self, hits: Packets) -> Packets {
        let (mut stale, mut current) = (0, None);
        for at in places(hits) {
            let handle = self.state.found.handles[at];
            let report = &mut self.counters.caches;
            if current == Some(handle) || self.tiers.caches.is_current(handle, &self.pipeline, report) {
                self.state.sources[at] = Source::Megaflow(handle);
                current = Some(handle);
            } else {
                // It is found once more by its mask, and by other packets of the burst.
                if !self.slow.doomed.contains(&handle) {
                    self.counters.caches.revalidated += 1;
                    self.slow.doomed.push(handle);
                }
                stale |= 1 << at;
            }
        }
        stale
    }

    /// Packets whose way through the tables is in the graph of the table walk: they need no megaflow. Returns them.
    #[inline]
    pub(super) fn walk_tables(&mut self, burst: &mut Burst, packets: Packets) -> Packets {
        self.tiers.table_walk.keep_up(&self.pipeline, self.time.now);
        let mut found: Packets = 0;
        for at in places(packets) {
            let Some(packet) = burst.get_mut(at) else { continue };
            let (key, layout) = (&self.state.keys[at], self.state.layouts[at]);
            let packet = table_walk::Packet { key, layout, frame: packet.data() };
            if let Some(end) = self.tiers.table_walk.find(&self.pipeline, &packet, &mut self.slow.frozen) {
                self.state.sources[at] = Source::Walk(end);
                found |= 1 << at;
            }
        }
        self.counters.caches.direct += u64::from(found.count_ones());
        found
    }

    /// Finds what the stage behind a service makes of packets: of those that walked the tables the
    /// same way if they can, else as of any packet that comes in.
    pub(super) fn next_stage_of(&mut self, burst: &mut Burst, packets: Packets, straight: Packets) {
        let found = if straight == 0 { 0 } else { self.walk_tables(burst, straight) };
        let misses = self.classify(packets & !found);
        if misses != 0 {
            self.upcall(burst, misses);
        }
        for at in places(packets) {
            self.state.segments[at] = 0;
        }
    }

    /// Packets that the exact-match cache does not know. Those of flows that the new-flow filter does not know walk the
    /// tables; the others, and those that cannot, are looked up among the megaflows, and for those that miss there a
    /// megaflow is made, within the upcall budget of their port.
    pub(super) fn upcall(&mut self, burst: &mut Burst, misses: Packets) {
        let mut known = 0;
        for at in places(misses) {
            known |= u64::from(self.tiers.new_flows.was_here(self.state.found.hashes[at])) << at;
        }
        self.counters.caches.newcomers += u64::from((misses & !known).count_ones());
        let walked = self.walk_tables(burst, misses & !known);
        let left = misses & !walked;
        if left == 0 {
            return;
        }
        let mut refused = 0;
        // Revalidated megaflows are exempt from the upcall budget, so that table changes cannot starve established
        // flows.
        let (misses, stale) = self.classify_masked(left);
        for at in places(misses) {
            let port = Field::InPort.get(&self.state.keys[at]) as u32;
            refused |= u64::from(!self.tiers.upcall_budget.admit(port, self.time.now)) << at;
        }
        self.counters.caches.refused += u64::from(refused.count_ones());
        let walked = self.walk_tables(burst, refused & known);
        for at in places(refused & !walked) {
            self.state.sources[at] = Source::Refused;
        }
        self.translate_misses(burst, (misses & !refused) | stale, false);
    }

    /// Packets that an experiment takes for misses, whatever the caches know of them: the slow path says what becomes of each, and makes no
    /// megaflow of it.
    #[cold]
    pub(super) fn miss(&mut self, burst: &mut Burst, packets: Packets) {
        self.translate_misses(burst, packets, true);
    }

    /// Sends packets to the slow path, each with a pending megaflow of its own; for this packet alone, if only `once`.
    fn translate_misses(&mut self, burst: &mut Burst, packets: Packets, once: bool) {
        for at in places(packets) {
            let Some(packet) = burst.get_mut(at) else { continue };
            self.counters.caches.upcalls += 1;
            let key = &self.state.keys[at];
            // Whatever gave the packet the number still refers to it: a megaflow, or a pending megaflow of
            // this burst.
            let frozen = self.slow.frozen.get(Field::RecircId.get(key) as u32);
            let as_it_came = Origins::default();
            let subject = Subject {
                key,
                layout: self.state.layouts[at],
                frame: packet.data(),
                origins: &as_it_came,
                begin: Begin::at(frozen.as_deref()),
            };
            let mut outcome = translate(&self.pipeline, &subject, &mut self.slow.frozen, Watch::Nobody);
            let key = key.clone();
            let told = self.tell_sightings(&mut outcome);
            let mut pending = PendingMegaflow {
                key,
                mask: Mask::new(),
                origins: Origins::default(),
                segments: Vec::with_capacity(2),
                tables: [0; 4],
                rewritten: 0,
                once: once || !told,
            };
            pending.append(outcome);
            self.state.sources[at] = Source::Pending(self.slow.pending.len());
            self.slow.pending.push(pending);
        }
    }

    /// Tells of addresses that are to be learned; whether there was room for all of them. If not, a later packet must
    /// come here to tell: the outcome is to become no megaflow.
    fn tell_sightings(&self, outcome: &mut Outcome) -> bool {
        let seen = std::mem::take(&mut outcome.sightings);
        seen.into_iter().all(|sighting| self.output.sightings.send(sighting.port, || sighting))
    }

    /// Has a packet do what an outcome says, which is for this packet alone.
    pub(super) fn translate_once(&mut self, at: usize, mut outcome: Outcome) {
        self.tell_sightings(&mut outcome);
        let (key, mask, origins) = (self.state.keys[at].clone(), Mask::new(), Origins::default());
        let mut pending = PendingMegaflow {
            key,
            mask,
            origins,
            segments: Vec::with_capacity(1),
            tables: [0; 4],
            rewritten: 0,
            once: true,
        };
        pending.append(outcome);
        self.state.sources[at] = Source::Pending(self.slow.pending.len());
        self.slow.pending.push(pending);
    }

    /// The next stage of a packet whose megaflow is in the making, and whose service lets it go on.
    pub(super) fn extend_pending(
        &mut self,
        burst: &mut Burst,
        at: usize,
        number: usize,
        (service, disposition): (u16, Disposition),
    ) {
        let info = self.pipeline.service(service).filter(|info| info.coalesces && self.pipeline.coalescing);
        let (Some(info), Some(packet)) = (info, burst.get_mut(at)) else { return };
        let pending = &self.slow.pending[number];
        if usize::from(self.state.segments[at]) != pending.segments.len() {
            return;
        }
        let call = if let Disposition::Track(_, call) = disposition {
            self.slow.frozen.call(call).cloned()
        } else {
            None
        };
        let frozen = call.as_ref().and_then(|call| self.slow.frozen.get(call.next.0));
        let origins = match &call {
            Some(call) => pending.origins.behind(call),
            None => pending.origins.next_stage(&info.rewrites),
        };
        let subject = Subject {
            key: &self.state.keys[at],
            layout: self.state.layouts[at],
            frame: packet.data(),
            origins: &origins,
            begin: Begin::at(frozen.as_deref()),
        };
        let mut outcome = translate(&self.pipeline, &subject, &mut self.slow.frozen, Watch::Nobody);
        let told = self.tell_sightings(&mut outcome);
        let pending = &mut self.slow.pending[number];
        pending.once |= !told;
        pending.append(outcome);
    }

    /// Pending megaflows become megaflows, and what was found out of date goes.
    #[inline]
    pub(super) fn settle_pending(&mut self) {
        if !self.slow.doomed.is_empty() {
            for handle in self.slow.doomed.drain(..) {
                self.tiers.caches.remove(handle, &self.pipeline);
            }
        }
        if !self.slow.pending.is_empty() {
            self.install_pending();
        }
    }

    fn install_pending(&mut self) {
        for mut pending in self.slow.pending.drain(..) {
            if pending.once {
                let counts = &self.pipeline.table_counts;
                pending.segments.iter_mut().for_each(|segment| segment.credit(counts, self.time.now));
                continue;
            }
            quantise(&mut pending.mask);
            let made = Made {
                segments: pending.segments,
                tables: pending.tables,
                rewritten: pending.origins.rewritten() | pending.rewritten,
                used: self.time.now,
            };
            let from = self.tiers.caches.insert(&pending.key, &pending.mask, made, &self.pipeline);
            if let Some(port) = from {
                self.counters.caches.evicted += 1;
                let place = self.pipeline.ports.get(&port).map(|info| usize::from(info.index));
                if let Some(counts) = place.and_then(|place| self.counters.ports.get_mut(place)) {
                    counts.evicted += 1;
                }
            }
        }
    }
}

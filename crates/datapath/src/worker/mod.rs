//! A worker: one thread, one core, run to completion. It owns its queues, its caches, its service
//! instances and its ledger; nothing that it writes per packet is anybody else's.
//!
//! The loop is [`Worker::run`]; a burst's life is [`Worker::forward`]. What the control thread has to say
//! comes as mail between bursts (`post.rs`); what misses the caches, and what has to be looked at again
//! because tables changed, goes to the slow path on the same core (`upcall.rs`); packets that meet a
//! service wait for the others of their burst, so that services see bursts whatever flows they are of
//! (`serve.rs`). Packets of whom little is to be known take a short way before all that
//! (`short_way.rs`).

pub(super) mod bench;
pub(super) mod credit;
pub(super) mod letterbox;
pub(super) mod mail;
pub(super) mod post;
pub(super) mod serve;
pub(super) mod short_way;
pub(super) mod steer;
pub(super) mod thread;
pub(super) mod timing;
pub(super) mod upcall;
pub(super) mod wait;

use crate::actions::egress::Egress;
use crate::actions::execute::{Context, Fate, Spawned, Subject, execute};
use crate::actions::punts::Punts;
use crate::classify::admission::Admission;
use crate::classify::cache::Caches;
use crate::classify::direct::Direct;
use crate::classify::hint::{Hinted, Hints};
use crate::model::pipeline::Pipeline;
use crate::slowpath::translate::FrozenStore;
use crate::stats::capture::Tap;
use crate::stats::counters::{Counters, Step};
use crate::worker::bench::{Bench, Packets, Source, each, train};
use crate::worker::credit::Accounts;
use crate::worker::letterbox::Letterbox;
use crate::worker::mail::{Mail, Snapshot};
use crate::worker::short_way::{self, Fresh};
use crate::worker::steer::Claims;
use crate::worker::timing::Clock;
use crate::worker::upcall::Recording;
use crate::worker::wait::Waiting;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use weir_classifier::{Found, Handle};
use weir_dpdk::{BURST, Burst, Mbuf, Pool, Ticks};
use weir_flow::{Seed, extract, places};
use weir_openflow::PortNo;
use weir_port::{DropReason, Rx, TooLong};
use weir_services::{Host, Memo, conntrack};
use weir_units::Nanos;

/// Times that one packet may be looked up: stages, recirculations. More is taken for a loop.
pub(crate) const PASSES: u8 = 64;

/// Polls between two rounds of what is due, while nothing comes.
const ROUND: u32 = 1024;

/// A packet on its way from one worker to another.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) mbuf: Mbuf,
    pub(crate) in_port: u32,
}

/// A port's queue that this worker polls.
pub(crate) struct Input {
    pub(crate) place: u16,
    pub(crate) number: PortNo,
    pub(crate) rx: Rx,
    /// Whether its port has a queue for every worker.
    pub(crate) is_shared_out: bool,
    /// Where its port gives hints, or is taken to.
    pub(crate) hints: Option<Box<Hints>>,
}

/// The worker.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) egress: Egress,
    pub(crate) caches: Caches,
    /// What the last lookup found.
    pub(crate) found: Found,
    /// By service number, from 1; nothing where a service has gone.
    pub(crate) services: Vec<Option<Box<Host>>>,
    pub(crate) counters: Counters,
    pub(crate) bench: Bench,
    pub(crate) recordings: Vec<Recording>,
    pub(crate) direct: Direct,
    pub(crate) admission: Admission,
    pub(crate) fresh: Fresh,
    /// Megaflows that are no longer right.
    pub(crate) doomed: Vec<Handle>,
    pub(crate) spawned: VecDeque<Spawned>,
    pub(crate) frozen: FrozenStore,
    pub(crate) pool: Pool,
    /// Bytes, without FCS, of the longest packet that the ports were set up for.
    pub(crate) longest: usize,
    pub(crate) punts: Punts,
    /// Those who watch.
    pub(crate) taps: Vec<Arc<Tap>>,
    pub(crate) clock: Clock,
    pub(crate) now: Nanos,
    pub(crate) seed: Seed,
    /// Whose flows are whose.
    pub(crate) claims: Arc<Claims>,
    /// Rings into every worker; this one's own is at its number.
    pub(crate) rings: Vec<Arc<ArrayQueue<Handed>>>,
    pub(crate) mail: Receiver<Mail>,
    pub(crate) letterbox: Arc<Letterbox>,
    /// Where old tables go to be freed.
    pub(crate) retired: Sender<Arc<Pipeline>>,
    /// Who asked for what was counted.
    pub(crate) accounts: Accounts,
    /// Who told it to stop, and gets the last word.
    pub(crate) stopping: Option<Sender<Snapshot>>,
    pub(crate) waiting: Waiting,
    pub(crate) hinted: Hinted,
    /// When the steps of the burst at hand are timed, the last reading.
    pub(crate) timing: Option<Ticks>,
    /// Since when it has been busy, as far as that is not counted yet.
    pub(crate) busy_since: Option<Ticks>,
    /// When the next round of what is due is to be, however many packets come.
    pub(crate) due: Nanos,
}

impl Worker {
    /// Forwards until it is told to stop.
    pub(crate) fn run(&mut self) {
        let mut burst = Burst::new();
        let mut round = 0;
        while self.stopping.is_none() {
            self.read_mail();
            let mut busy = false;
            for at in 0..self.inputs.len() {
                busy |= self.poll(at, &mut burst);
            }
            busy |= self.take_over(&mut burst);
            busy |= self.credit();
            self.clock_in(busy);
            round += self.wait(busy);
            // A poll that finds packets reads the clock: what is due does not wait for one that finds none.
            if round >= ROUND || self.now >= self.due {
                round = 0;
                self.what_is_due();
            }
        }
        self.hang_up();
    }

    /// Receives from one queue and forwards what came.
    #[inline]
    fn poll(&mut self, at: usize, burst: &mut Burst) -> bool {
        self.begin_timing();
        let Some(input) = self.inputs.get_mut(at) else { return false };
        let mut count = input.rx.receive(burst);
        let too_long = input.rx.take_too_long();
        if count == 0 && too_long.packets == 0 {
            return false;
        }
        let (place, number) = (usize::from(input.place), input.number);
        self.now = self.clock.at(Ticks::now());
        self.lap(Step::Receive, count);
        let lengths = burst.iter().map(|packet| packet.len());
        let (mut bytes, longest) = lengths.fold((0, 0), |(sum, most), len| (sum + len as u64, most.max(len)));
        if longest > self.longest || too_long.packets > 0 {
            bytes -= self.drop_too_long(place, too_long, burst);
            count = burst.len();
            if count == 0 {
                return true;
            }
        }
        self.counters.received += count as u64;
        self.counters.bursts += 1;
        self.counters.ports[place].received += count as u64;
        self.counters.ports[place].received_bytes += bytes;
        let left = if self.has_hints(at) {
            short_way::all(count)
        } else {
            self.take_shortcuts(burst, number, bytes)
        };
        if left != 0 {
            let wanted = self.extract(burst, left, |_| number.0);
            let wanted = self.keep_own(at, burst, wanted);
            self.lap(Step::Extract, count);
            self.resolve_hints(at, burst, wanted);
            self.forward(burst, wanted);
            self.propose_hint(at);
            self.drain_spawned(burst);
        }
        true
    }

    /// Counts what the port had no buffer for, and drops what else is longer than the ports were set up for.
    /// Returns the bytes of the latter.
    #[cold]
    fn drop_too_long(&mut self, place: usize, ended: TooLong, burst: &mut Burst) -> u64 {
        let (packets, bytes) = burst.drop_longer(self.longest);
        let all = packets as u64 + ended.packets;
        self.counters.received += all;
        self.counters.ports[place].received += all;
        self.counters.ports[place].received_bytes += bytes + ended.bytes;
        self.counters.drop(DropReason::TooLong, all);
        bytes
    }

    /// Reads headers of these packets into keys; returns those that can be looked up.
    #[inline]
    pub(crate) fn extract(
        &mut self,
        burst: &mut Burst,
        packets: Packets,
        in_port: impl Fn(usize) -> u32,
    ) -> Packets {
        let bench = &mut self.bench;
        bench.begin();
        let mut wanted = 0;
        for packet in burst.iter() {
            packet.prefetch();
        }
        let places = bench.keys.iter_mut().zip(&mut bench.layouts).zip(&mut bench.fates);
        for (at, (packet, ((key, layout), fate))) in burst.iter().zip(places).enumerate() {
            if packets >> at & 1 == 0 {
                continue;
            }
            let frame = packet.data();
            *layout = extract(frame, in_port(at), key);
            if frame.len() < 14 || packet.is_chained() {
                let long = packet.is_chained();
                *fate = Fate::Drop(if long { DropReason::Chained } else { DropReason::TooShort });
            } else {
                wanted |= 1 << at;
            }
            for tap in &self.taps {
                tap.offer_received(PortNo(in_port(at)), key, frame);
            }
        }
        wanted
    }

    /// Where flows have owners, the packets of others are on their way to them.
    #[inline]
    fn keep_own(&mut self, input: usize, burst: &Burst, wanted: Packets) -> Packets {
        if !self.pipeline.by_flow || self.rings.len() == 1 {
            return wanted;
        }
        let first = self.inputs[input].is_shared_out.then_some(self.number);
        let age = self.pipeline.kept.at(self.now);
        let Bench { keys, layouts, fates, others, .. } = &mut self.bench;
        let (mut hashes, mut owners) = ([None; BURST], [self.number; BURST]);
        for (hash, (packet, (key, layout))) in
            hashes.iter_mut().zip(burst.iter().zip(keys.iter().zip(&*layouts)))
        {
            *hash = self.claims.expect(key, *layout, packet.data());
        }
        if let Some(translated) = self.pipeline.owners.as_deref() {
            for (at, packet) in burst.iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
                let (frame, layout, key) = (packet.data(), layouts[at], &keys[at]);
                let known = translated.of(&conntrack::Packet { frame, layout, key });
                owners[at] = known.unwrap_or_else(|| self.claims.owner(hashes[at], first, &age));
            }
        } else {
            for (owner, hash) in owners.iter_mut().zip(&hashes).take(burst.len()) {
                *owner = self.claims.owner(*hash, first, &age);
            }
        }
        let strange = places(wanted).filter(|&at| owners[at] != self.number);
        *others = strange.fold(0, |set, at| set | 1 << at);
        for at in places(*others) {
            fates[at] = Fate::HandOver(owners[at] as u16);
        }
        wanted & !*others
    }

    /// Takes packets that other workers handed over, and forwards them.
    #[inline]
    fn take_over(&mut self, burst: &mut Burst) -> bool {
        if self.rings.len() == 1 || self.rings[self.number].is_empty() {
            return false;
        }
        let mut in_ports = [0; BURST];
        while burst.room() > 0 {
            let Some(handed) = self.rings[self.number].pop() else { break };
            in_ports[burst.len()] = handed.in_port;
            if burst.push(handed.mbuf).is_err() {
                break;
            }
        }
        self.now = self.clock.at(Ticks::now());
        self.counters.taken_over += burst.len() as u64;
        self.fresh = Fresh::default();
        let wanted = self.extract(burst, Packets::MAX, |at| in_ports[at]);
        self.forward(burst, wanted);
        self.drain_spawned(burst);
        true
    }

    /// A burst's life: classified, executed, served, until nothing has to be looked up again.
    #[inline]
    pub(crate) fn forward(&mut self, burst: &mut Burst, wanted: Packets) {
        let count = burst.len();
        let (mut wanted, mut straight) = (wanted, 0);
        while wanted != 0 {
            // Whose last stage took no megaflow finds none for this one either, mostly.
            let found = if straight == 0 { 0 } else { self.go_directly(burst, straight) };
            let misses = self.classify(wanted & !found);
            self.lap(Step::Lookup, count);
            if misses != 0 {
                self.upcall(burst, misses);
                self.lap(Step::Upcall, count);
            }
            let waiting = self.execute(burst, wanted);
            self.lap(Step::Execute, count);
            if waiting != 0 {
                self.serve(burst, waiting);
                self.lap(Step::Services, count);
            }
            wanted = self.bench.again(wanted);
            straight = self.bench.direct(wanted);
        }
        self.settle_recordings();
        self.transmit(burst);
        self.lap(Step::Transmit, count);
        self.timing = None;
    }

    /// Does what the packets' first segments say. Returns those that wait for a service.
    #[inline]
    pub(crate) fn execute(&mut self, burst: &mut Burst, wanted: Packets) -> Packets {
        self.teach(burst, wanted);
        if self.found.trains {
            self.execute_trains::<true>(burst, wanted)
        } else {
            self.execute_trains::<false>(burst, wanted)
        }
    }

    /// The same, made for packets that come in trains, or alone.
    #[inline(always)]
    fn execute_trains<const TRAINS: bool>(&mut self, burst: &mut Burst, wanted: Packets) -> Packets {
        let (mut waiting, now) = (0, self.now);
        let mut context = Context {
            pool: &self.pool,
            egress: &mut self.egress,
            counters: &mut self.counters,
            spawned: &mut self.spawned,
            punts: &self.punts,
            now,
            seed: self.seed,
            passes: 0,
            root: 0,
            copies: &mut self.bench.copies,
        };
        let mut left = wanted;
        while let Some(first) = places(left).next() {
            let (source, mut memo) = (self.bench.sources[first], Memo::NOWHERE);
            let together = train::<TRAINS>(left, first, |at| self.bench.sources[at] == source);
            left &= !together;
            let step = match source {
                Source::Megaflow(handle) => self.caches.program(handle, now).and_then(|program| {
                    memo = program.memo;
                    program.step(0)
                }),
                Source::Recording(number) => self.recordings[number].step(0),
                Source::Direct(end) => self.direct.end(end),
                Source::Refused => {
                    places(together)
                        .for_each(|at| self.bench.fates[at] = Fate::Drop(DropReason::UpcallLimit));
                    continue;
                }
            };
            // The handle was found in this burst, and nothing is removed before its end.
            let Some(step) = step else { continue };
            each::<TRAINS>(together, |at| {
                let Some(packet) = burst.get_mut(at) else { return };
                step.counted.add(packet.len());
                context.passes = self.bench.passes[at];
                context.root = self.bench.roots[at];
                let (layout, key) = (&mut self.bench.layouts[at], &mut self.bench.keys[at]);
                let fate = execute(step.ops, &mut Subject { packet, layout, key }, &mut context);
                self.bench.fates[at] = fate;
                self.bench.segments[at] = 1;
                self.bench.memos[at] = memo;
                waiting |= u64::from(fate.service().is_some()) << at;
            });
        }
        waiting
    }

    /// Packets leave, each as its fate says; the burst is empty then.
    #[inline]
    pub(crate) fn transmit(&mut self, burst: &mut Burst) {
        let others = std::mem::take(&mut self.bench.others) != 0;
        if others || self.egress.keeps() || !self.spawned.is_empty() {
            self.transmit_behind_copies(burst);
            return;
        }
        let (fates, counters) = (&self.bench.fates, &mut self.counters);
        let ports = self.egress.bursts.len();
        burst.distribute(&mut self.egress.bursts, |at, _| match fates[at] {
            Fate::Forward(port) if usize::from(port) < ports => Some(usize::from(port)),
            other => {
                end(other, counters);
                None
            }
        });
        self.egress.flush_all(&mut self.counters);
    }

    /// The same where copies were made, or some packets go to other workers. What leaves waits for copies that have
    /// to be looked up first.
    #[inline(never)]
    fn transmit_behind_copies(&mut self, burst: &mut Burst) {
        let Self { bench, egress, counters, rings, spawned, .. } = self;
        let behind = egress.keeps() || !spawned.is_empty();
        burst.drain(|at, mbuf| match bench.fates[at] {
            Fate::Forward(port) if behind => egress.keep(port, bench.roots[at], mbuf, counters),
            Fate::Forward(port) => egress.send(port, mbuf, counters),
            Fate::HandOver(worker) => {
                let in_port = weir_flow::Field::InPort.get(&bench.keys[at]) as u32;
                match rings[usize::from(worker)].push(Handed { mbuf, in_port }) {
                    Ok(()) => counters.handed_over += 1,
                    Err(_) => counters.drop(DropReason::HandOver, 1),
                }
            }
            other => end(other, counters),
        });
        if spawned.is_empty() {
            egress.release(counters);
        }
    }

    /// Copies that need a lookup of their own, a burst at a time.
    pub(crate) fn drain_spawned(&mut self, burst: &mut Burst) {
        while !self.spawned.is_empty() {
            let count = self.spawned.len().min(BURST);
            let mut wanted = 0;
            for (at, spawned) in self.spawned.drain(..count).enumerate() {
                self.bench.keys[at] = spawned.key;
                self.bench.layouts[at] = spawned.layout;
                self.bench.passes[at] = spawned.passes.saturating_add(1);
                self.bench.roots[at] = spawned.root;
                if spawned.passes >= PASSES {
                    self.bench.fates[at] = Fate::Drop(DropReason::TooDeep);
                } else {
                    wanted |= 1 << at;
                }
                // The burst was emptied when the last was transmitted.
                let _ = burst.push(spawned.mbuf);
            }
            self.forward(burst, wanted);
        }
    }
}

/// Counts a packet that ends here.
#[inline]
fn end(fate: Fate, counters: &mut Counters) {
    match fate {
        Fate::Drop(reason) => counters.drop(reason, 1),
        Fate::Gone => {}
        Fate::Forward(_) => counters.drop(DropReason::NoPort, 1),
        // Everything else was resolved before packets leave.
        Fate::Service(..) | Fate::Track(..) | Fate::Again | Fate::HandOver(_) => {
            counters.drop(DropReason::TooDeep, 1);
        }
    }
}

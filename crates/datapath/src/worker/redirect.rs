//! Packets that change workers: those whose flow another one owns (`steer.rs`) go to it, and it takes them over.

use crate::actions::execute::Disposition;
use crate::model::Packets;
use crate::worker::Worker;
use crate::worker::state::{BurstState, Fresh};
use weir_dpdk::{BURST, Burst};
use weir_flow::places;

impl Worker {
    /// Where flows have owners, the packets of others are on their way to them.
    #[inline]
    pub(super) fn keep_own(&mut self, input: usize, burst: &Burst, wanted: Packets) -> Packets {
        if !self.pipeline.by_flow || self.steering.rings.len() == 1 {
            return wanted;
        }
        let first = self.input.queues[input].is_shared_out.then_some(self.steering.number);
        let age = self.pipeline.kept.at(self.time.now);
        let BurstState { keys, layouts, dispositions, others, .. } = &mut self.state;
        let (mut hashes, mut owners) = ([None; BURST], [self.steering.number; BURST]);
        for (hash, (packet, (key, layout))) in
            hashes.iter_mut().zip(burst.iter().zip(keys.iter().zip(&*layouts)))
        {
            *hash = self.steering.table.expect(key, *layout, packet.data());
        }
        if let Some(translated) = self.pipeline.owners.as_deref() {
            for (at, packet) in burst.iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
                let known = translated.of(packet.data(), layouts[at], &keys[at]);
                owners[at] = known.unwrap_or_else(|| self.steering.table.owner(hashes[at], first, &age));
            }
        } else {
            for (owner, hash) in owners.iter_mut().zip(&hashes).take(burst.len()) {
                *owner = self.steering.table.owner(*hash, first, &age);
            }
        }
        let strange = places(wanted).filter(|&at| owners[at] != self.steering.number);
        *others = strange.fold(0, |set, at| set | 1 << at);
        for at in places(*others) {
            dispositions[at] = Disposition::HandOver(owners[at] as u16);
        }
        wanted & !*others
    }

    /// Takes packets that other workers handed over, and forwards them.
    #[inline]
    pub(super) fn take_over(&mut self, burst: &mut Burst) -> bool {
        if self.steering.rings.len() == 1 || self.steering.rings[self.steering.number].is_empty() {
            return false;
        }
        let mut in_ports = [0; BURST];
        while burst.room() > 0 {
            let Some(handed) = self.steering.rings[self.steering.number].pop() else { break };
            in_ports[burst.len()] = handed.in_port;
            if burst.push(handed.mbuf).is_err() {
                break;
            }
        }
        self.time.look();
        self.counters.taken_over += burst.len() as u64;
        self.state.fresh = Fresh::default();
        let wanted = self.extract(burst, Packets::MAX, |at| in_ports[at]);
        self.forward(burst, wanted);
        self.drain_spawned(burst);
        true
    }
}

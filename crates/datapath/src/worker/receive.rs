//! Packets come in: from a port's queue, from which keys are extracted and other workers' packets handed on.

use crate::actions::execute::Disposition;
use crate::model::Packets;
use crate::stats::counters::Step;
use crate::worker::hints::set_apart;
use crate::worker::{Worker, fast_path};
use weir_dpdk::Burst;
use weir_flow::extract;
use weir_openflow::PortNo;
use weir_packet::DropReason;
use weir_port::TooLong;

impl Worker {
    /// Receives from one queue and forwards what came.
    #[inline]
    pub(super) fn poll(&mut self, at: usize, burst: &mut Burst) -> bool {
        self.time.begin_burst(self.counters.bursts);
        let Some(input) = self.input.queues.get_mut(at) else { return false };
        let mut count = input.rx.receive(burst);
        let too_long = input.rx.take_too_long();
        if count == 0 && too_long.packets == 0 {
            return false;
        }
        let (place, number) = (usize::from(input.place), input.number);
        set_apart(&mut input.rx, &mut self.time, &mut self.counters);
        self.time.look();
        self.time.lap(Step::Receive, count, &mut self.counters);
        let lengths = burst.iter().map(|packet| packet.len());
        let (mut bytes, longest) = lengths.fold((0, 0), |(sum, most), len| (sum + len as u64, most.max(len)));
        if longest > self.input.longest || too_long.packets > 0 {
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
            fast_path::all(count)
        } else {
            self.take_fast_path(burst, number, bytes)
        };
        if left != 0 {
            let wanted = self.extract(burst, left, |_| number.0);
            let wanted = self.keep_own(at, burst, wanted);
            self.time.lap(Step::Extract, count, &mut self.counters);
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
        let (packets, bytes) = burst.drop_longer(self.input.longest);
        let all = packets as u64 + ended.packets;
        self.counters.received += all;
        self.counters.ports[place].received += all;
        self.counters.ports[place].received_bytes += bytes + ended.bytes;
        self.counters.drop(DropReason::TooLong, all);
        bytes
    }

    /// Reads headers of these packets into keys; returns those that can be looked up.
    #[inline]
    pub(super) fn extract(
        &mut self,
        burst: &mut Burst,
        packets: Packets,
        in_port: impl Fn(usize) -> u32,
    ) -> Packets {
        let state = &mut self.state;
        state.begin();
        let mut wanted = 0;
        for packet in burst.iter() {
            packet.prefetch();
        }
        let places = state.keys.iter_mut().zip(&mut state.layouts).zip(&mut state.dispositions);
        for (at, (packet, ((key, layout), disposition))) in burst.iter().zip(places).enumerate() {
            if packets >> at & 1 == 0 {
                continue;
            }
            let frame = packet.data();
            *layout = extract(frame, in_port(at), key);
            if frame.len() < 14 || packet.is_chained() {
                let long = packet.is_chained();
                *disposition =
                    Disposition::Drop(if long { DropReason::Chained } else { DropReason::TooShort });
            } else {
                wanted |= 1 << at;
            }
            for tap in &self.input.taps {
                tap.offer_received(PortNo(in_port(at)), key, frame);
            }
        }
        wanted
    }
}

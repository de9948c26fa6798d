//! What a worker does between bursts: commands, what is due, and the end.

use crate::worker::Worker;
use crate::worker::command::Command;
use std::time::Duration;
use weir_cpu::Ticks;
use weir_dpdk::{BURST, Burst};
use weir_openflow::PortNo;
use weir_packet::DropReason;
use weir_units::Nanos;

/// Time between two rounds of what is due while packets come without a break.
const DUE_EVERY: Nanos = Nanos(1_000_000);

impl Worker {
    /// Carries out the control thread's commands, if the doorbell rang.
    #[inline]
    pub(super) fn take_commands(&mut self) {
        if self.commands.doorbell.has_rung() {
            while let Ok(command) = self.commands.queue.try_recv() {
                self.carry_out(command);
                self.commands.doorbell.one_done();
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Tables(pipeline) => {
                let old = std::mem::replace(&mut self.pipeline, pipeline);
                self.tiers.caches.keep_up(&self.pipeline, old.generation, self.time.now);
                // If nobody takes them any more, the datapath is ending, and they are freed here.
                let _ = self.commands.retired.send(old);
            }
            Command::Open { place, number, tx } => {
                self.output.egress.open(place, number, tx, &mut self.counters)
            }
            Command::Poll(inputs) => self.input.queues.extend(inputs),
            Command::Close { place, done } => {
                self.input.queues.retain(|input| input.place != place);
                self.output.egress.close(place);
                let _ = done.send(());
            }
            Command::Sync(answer) => self.flushes.ask(answer),
            Command::Tell(answer) => {
                // Who does not wait any more is not told.
                let _ = answer.send(self.snapshot());
            }
            Command::AskService { service, command, argument, answer } => {
                let said = self.services.get(service).map_or_else(
                    || Err("no such service".to_owned()),
                    |host| host.command(&command, &argument),
                );
                let _ = answer.send(said);
            }
            Command::Release(service) => {
                if let Some(host) = self.services.get(service) {
                    host.release();
                }
            }
            Command::Service { number, host, old } => {
                // What has gone is freed by whoever asked, not here.
                let _ = old.send(self.services.replace(number, host));
            }
            Command::Capture(taps) => {
                self.output.egress.taps.clone_from(&taps);
                self.input.taps = taps;
            }
            Command::Inject { in_port, frames } => {
                frames.chunks(BURST).for_each(|frames| self.inject(in_port, frames));
            }
            Command::PacketOut(packet) => self.send_out(*packet),
            Command::Thread { act, answer } => drop(answer.send(act())),
            // That it was read is all that is asked.
            Command::Ping => {}
            #[cfg(test)]
            Command::Harm(how) => how(self),
            Command::Stop(answer) => self.commands.stopping = Some(answer),
        }
    }

    /// Packets from elsewhere than a port, no more than a burst.
    fn inject(&mut self, in_port: PortNo, frames: &[Vec<u8>]) {
        self.counters.injected += frames.len() as u64;
        let mut burst = Burst::new();
        for frame in frames {
            match self.output.pool.packet(frame) {
                // A burst has room for as many.
                Some(mbuf) => drop(burst.push(mbuf)),
                None => self.counters.drop(DropReason::NoBuffer, 1),
            }
        }
        self.time.look();
        let bytes = burst.iter().map(|packet| packet.len() as u64).sum();
        if burst.is_empty() {
            return;
        }
        let left = self.take_fast_path(&mut burst, in_port, bytes);
        if left != 0 {
            let wanted = self.extract(&mut burst, left, |_| in_port.0);
            self.forward(&mut burst, wanted);
            self.drain_spawned(&mut burst);
        }
    }

    /// A little of what is due now and then: services' timeouts, idle megaflows.
    #[inline(never)]
    pub(super) fn what_is_due(&mut self) {
        self.commands.doorbell.came_round();
        let clock = self.time.clock;
        self.time.look();
        self.time.due = Nanos(self.time.now.0 + DUE_EVERY.0);
        self.services.tick(self.time.now);
        self.tiers.caches.sweep(|| clock.at(Ticks::now()), &self.pipeline);
    }

    /// Nothing is lost in silence at the end: what other workers handed over last is counted.
    pub(super) fn hang_up(&mut self) {
        // Others stop at about the same time, and hand nothing over after that.
        std::thread::sleep(Duration::from_millis(5));
        while self.steering.rings[self.steering.number].pop().is_some() {
            self.counters.taken_over += 1;
            self.counters.drop(DropReason::Stopping, 1);
        }
        let last = self.last_flush();
        if let Some(answer) = self.commands.stopping.take() {
            let _ = answer.send(last);
        }
    }
}

//! A packet-out: a controller's packet, and what is to be done with it.

use crate::model::requests::PacketOut;
use crate::slowpath::translate::{Begin, Origins, Subject, Watch, translate};
use crate::worker::Worker;
use crate::worker::state::Fresh;
use weir_dpdk::Burst;
use weir_flow::{Key, Match};
use weir_packet::DropReason;

impl Worker {
    /// Does a packet-out.
    pub(super) fn send_out(&mut self, packet: PacketOut) {
        self.counters.injected += 1;
        let mut burst = Burst::new();
        match self.output.pool.packet(&packet.frame) {
            // A burst that is empty has room.
            Some(mbuf) => drop(burst.push(mbuf)),
            None => {
                self.counters.drop(DropReason::NoBuffer, 1);
                return;
            }
        }
        self.time.look();
        self.state.fresh = Fresh::default();
        let wanted = self.extract(&mut burst, 1, |_| packet.in_port.0);
        if wanted == 0 {
            self.transmit(&mut burst);
            return;
        }
        let key = &mut self.state.keys[0];
        set_fields(key, &packet.fields);
        let as_it_came = Origins::default();
        let subject = Subject {
            key,
            layout: self.state.layouts[0],
            frame: &packet.frame,
            origins: &as_it_came,
            begin: Begin::Actions(packet.actions.into()),
        };
        let outcome = translate(&self.pipeline, &subject, &mut self.slow.frozen, Watch::Nobody);
        self.translate_once(0, outcome);
        let waiting = self.execute(&mut burst, wanted);
        if waiting != 0 {
            self.serve(&mut burst, waiting);
        }
        let again = self.state.again(wanted);
        self.forward(&mut burst, again);
        self.drain_spawned(&mut burst);
    }
}

/// Sets fields that a packet-out names.
fn set_fields(key: &mut Key, fields: &Match) {
    for term in fields.terms() {
        key.set_bits(usize::from(term.place), term.value, term.mask);
    }
}

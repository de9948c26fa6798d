//! What only controllers ask of a datapath: packets out and in, ports told what to do, what they want to have.
//!
//! Costs and threads: the owner's thread; a packet-out is translated by the worker that sends it, once, and
//! leaves nothing behind.

use crate::control::datapath::Datapath;
use crate::control::tables::check_actions;
use crate::model::entries::Touched;
use crate::model::pipeline::called;
use crate::model::requests::{
    ControlError, Event, PacketIn, PacketOut, PortAbout, PortFlags, Refusal, Refused, Wants,
};
use crate::worker::command::Command;
use std::time::Duration;
use weir_cpu::Ticks;
use weir_flow::{Key, extract};
use weir_openflow::PortNo;

/// Packets for controllers that are taken in one go.
const PACKET_INS: usize = 256;

impl Datapath {
    /// Does actions to a packet. It is on its way when this returns, and gone after [`Datapath::settled`].
    ///
    /// # Errors
    /// What cannot be done with it.
    pub fn packet_out(&mut self, packet: PacketOut) -> Result<(), Refused> {
        check_actions(&self.pipeline, &packet.actions, false)?;
        let tracker = self.pipeline.tracker;
        let called = packet.actions.iter().filter_map(|action| called(action, tracker)).collect();
        self.wake_services(&called)
            .map_err(|error| Refused { why: Refusal::NoService, text: error.to_string() })?;
        let mut key = Key::new();
        let layout = extract(&packet.frame, packet.in_port.0, &mut key);
        let age = self.pipeline.kept.at(self.clock.at(Ticks::now()));
        let owner = self.steering.owner(self.steering.expect(&key, layout, &packet.frame), None, &age);
        if let Some(worker) = self.workers.get(owner) {
            worker.send(Command::PacketOut(Box::new(packet)));
        }
        Ok(())
    }

    /// Waits until all packets are gone that were to be sent out.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn settled(&self) -> Result<(), ControlError> {
        self.fence()
    }

    /// Packets for controllers that came since the last call, as many as one is to deal with at once; the
    /// rest stays for the next call, or for [`Datapath::tick`].
    pub fn packet_ins(&mut self) -> Vec<PacketIn> {
        self.punts.take(PACKET_INS).collect()
    }

    /// What happened since the last call but for packets, if it is to be told before the next
    /// [`Datapath::tick`].
    pub fn happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The ports.
    pub fn ports(&self) -> Vec<PortAbout> {
        let now = Ticks::now();
        let of = |(number, held): (PortNo, &crate::control::ports::Held)| PortAbout {
            number,
            name: held.spec.name.clone(),
            mac: held.open.mac(),
            link_up: held.up,
            flags: held.flags,
            age: Duration::from_nanos(self.clock.at(now).0.saturating_sub(self.clock.at(held.since).0)),
        };
        self.ports.iter().map(of).collect()
    }

    /// Tells a port what to do.
    ///
    /// # Errors
    /// No such port.
    pub fn configure_port(&mut self, number: PortNo, flags: PortFlags) -> Result<(), ControlError> {
        let Some(before) = self.ports.tell(number, flags) else {
            return Err(ControlError(format!("there is no port {number}")));
        };
        let changed = self.ports_changed();
        if changed.is_err() {
            self.ports.tell(number, before);
        }
        changed
    }

    /// What controllers want beside what actions send them.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn set_wants(&mut self, wants: Wants) -> Result<(), ControlError> {
        if self.pipeline.wants == wants {
            return Ok(());
        }
        let mut next = (*self.pipeline).clone();
        next.wants = wants;
        next.advance(vec![Touched::All]);
        self.publish(next)
    }
}

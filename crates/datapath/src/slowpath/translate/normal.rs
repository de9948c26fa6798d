//! `NORMAL`: the packet goes where its destination was learned to be, as from a switch without OpenFlow (OpenFlow
//! 1.3.5, section 4.5; `ovs-actions(7)`, "The normal action").
//!
//! What is the packet's VLAN is in its outer tag, or 0; all ports carry all VLANs. What was learned is a snapshot
//! (`model/addresses.rs`). The translation notes that it looked there, as in a table, so that a change of either
//! address has the megaflow made again; and that the source is to be learned, which the worker tells. The
//! megaflow's packets are credited to the source's entry, which is how that stays young.

use super::{List, Task, Translation};
use crate::actions::program::Credit;
use crate::model::addresses::{Name, Sighting, TABLE};
use std::sync::Arc;
use weir_flow::Field;
use weir_openflow::{Action, PortNo};
use weir_packet::DropReason;

/// The bit of addresses of groups, which no station has.
const GROUP: u64 = 1 << 40;

/// Addresses of IEEE 802.1Q, table 8-1: their last four bits differ.
const BRIDGES: u64 = 0x0180_c200_0000;

/// Other addresses that Open vSwitch does not forward by `NORMAL`: protocols of Extreme's and Cisco's bridges.
const OTHERS: [u64; 15] = [
    0x00e0_2b00_0000,
    0x00e0_2b00_0004,
    0x00e0_2b00_0006,
    0x0100_0c00_0000,
    0x0100_0ccc_cccc,
    0x0100_0ccc_cccd,
    0x0100_0ccd_cdcd,
    0x0100_0ccc_ccc0,
    0x0100_0ccc_ccc1,
    0x0100_0ccc_ccc2,
    0x0100_0ccc_ccc3,
    0x0100_0ccc_ccc4,
    0x0100_0ccc_ccc5,
    0x0100_0ccc_ccc6,
    0x0100_0ccc_ccc7,
];

/// Whether bridges keep packets to this address to themselves.
fn is_reserved(address: u64) -> bool {
    address & !0xf == BRIDGES || OTHERS.contains(&address)
}

impl Translation<'_> {
    /// Forwards by what was learned.
    pub(super) fn normal(&mut self, in_port: PortNo) {
        if self.state.opaque {
            // Which tag it has is seen when its headers are.
            let again: Arc<[Action]> = [Action::Output(PortNo::NORMAL)].as_slice().into();
            self.freeze(Task::Actions(List::Actions(again), 0));
            return;
        }
        if let Some(trail) = &mut self.trail {
            // The table walk knows of no addresses.
            trail.leave();
        }
        self.rewritten |= self.state.origins.rewritten();
        self.tables[usize::from(TABLE.0 / 64)] |= 1 << (TABLE.0 % 64);
        self.explain.why(&"normal");
        let destination = self.examine_field(Field::EthDst) as u64;
        let source = self.examine_field(Field::EthSrc) as u64;
        let (vlan, priority_alone) = self.vlan_of_tag();
        let is_port = self.pipeline.ports.contains_key(&in_port);
        if !is_port && !matches!(in_port, PortNo::CONTROLLER | PortNo::ANY) {
            self.refuse(DropReason::NoPort);
            return;
        }
        if is_reserved(destination) {
            self.explain.say(|| "normal: bridges do not forward what is sent to this address".to_owned());
            return;
        }
        if is_port && source & GROUP == 0 {
            self.see(Sighting { name: Name { vlan, address: source }, port: in_port });
        }
        let mut ports = self.ports_to(Name { vlan, address: destination }, source, in_port);
        if priority_alone {
            // Neither a VLAN nor a priority is left to be said: the tag goes.
            let outputs = ports.drain(..).map(Action::Output);
            let actions: Arc<[Action]> = std::iter::once(Action::PopVlan).chain(outputs).collect();
            self.stack.push(Task::Copy(List::Actions(actions)));
        }
        ports.into_iter().for_each(|port| self.copy_to(port));
    }

    /// The VLAN, and whether there is a tag that says nothing: no VLAN, and the least priority.
    fn vlan_of_tag(&mut self) -> (u16, bool) {
        let tagged = self.has_tag();
        let mut examine = |bits: u128| {
            for (place, _, bits) in Field::VlanTci.spread(0, bits) {
                self.examine_bits(place, bits);
            }
            (Field::VlanTci.get(&self.state.key) & bits) as u16
        };
        let vlan = examine(0x0fff);
        (vlan, tagged && vlan == 0 && examine(0xe000) == 0)
    }

    /// The source is where the packet came in: known, or to be learned.
    fn see(&mut self, sighting: Sighting) {
        match self.pipeline.addresses.find(sighting.name) {
            Some(learned) if learned.port == sighting.port => {
                self.credits.push(Credit::Counts(learned.counts.clone()));
            }
            known => {
                let before = known.map(|learned| learned.port);
                self.explain.say(|| match before {
                    Some(port) => format!("normal: the source is learned; it moved here from port {port}"),
                    None => "normal: the source is learned".to_owned(),
                });
                self.sightings.push(sighting);
            }
        }
    }

    /// Where packets to an address go, but for the port that they came in by.
    fn ports_to(&mut self, to: Name, source: u64, in_port: PortNo) -> Vec<PortNo> {
        // What is sent to itself is learned before it is looked for.
        let known = match self.pipeline.addresses.find(to) {
            _ if to.address == source
                && source & GROUP == 0
                && self.pipeline.ports.contains_key(&in_port) =>
            {
                Some(in_port)
            }
            known => known.map(|learned| learned.port),
        };
        match known {
            Some(port) if port == in_port => {
                self.refuse(DropReason::InPort);
                Vec::new()
            }
            Some(port) => {
                self.explain.say(|| format!("normal: the destination is at port {port}"));
                vec![port]
            }
            None => {
                self.explain.say(|| "normal: floods, for nobody knows the destination".to_owned());
                let others = self.pipeline.ports.values().filter(|info| !info.flags.no_flood);
                others.map(|info| info.number).filter(|port| *port != in_port).collect()
            }
        }
    }
}

//! Ports: what controllers know of them, how they change, and how they are told what to do.

use super::{Agent, describe};
use weir_codec::{AsyncKind, Body, Code, Port, PortMod, PortStatus, Version};
use weir_openflow::{PortAbout, PortFlags, Tables};

/// A port came: the reason of a port status.
const CAME: u8 = 0;
/// It went.
const WENT: u8 = 1;
/// It changed.
const CHANGED: u8 = 2;

/// Bits of a configuration that a port can do.
const CAN: u32 = Port::DOWN | Port::NO_RECEIVE | Port::NO_FORWARD | Port::NO_PACKET_IN;

/// A port as a controller is told of it.
pub(super) fn described(port: &PortAbout) -> Port {
    Port {
        number: port.number,
        address: port.mac,
        name: port.name.clone(),
        config: bits(port.flags),
        state: if port.link_up { Port::LIVE } else { Port::LINK_DOWN },
        current: 0,
        advertised: 0,
        supported: 0,
        peer: 0,
        current_speed: 0,
        greatest_speed: 0,
    }
}

fn bits(flags: PortFlags) -> u32 {
    let PortFlags { down, no_receive, no_forward, no_packet_in, no_flood } = flags;
    [
        (down, Port::DOWN),
        (no_receive, Port::NO_RECEIVE),
        (no_forward, Port::NO_FORWARD),
        (no_packet_in, Port::NO_PACKET_IN),
        (no_flood, Port::NO_FLOOD),
    ]
    .into_iter()
    .filter(|(is, _)| *is)
    .fold(0, |all, (_, bit)| all | bit)
}

fn flags(bits: u32) -> PortFlags {
    PortFlags {
        down: bits & Port::DOWN != 0,
        no_receive: bits & Port::NO_RECEIVE != 0,
        no_forward: bits & Port::NO_FORWARD != 0,
        no_packet_in: bits & Port::NO_PACKET_IN != 0,
        no_flood: bits & Port::NO_FLOOD != 0,
    }
}

impl Agent {
    /// Tells controllers which ports came, went or changed since the last look.
    pub fn look_at_ports(&mut self, plane: &impl Tables) {
        let now = plane.ports();
        let was = std::mem::replace(&mut self.ports, now);
        let same = |a: &&PortAbout, b: &PortAbout| a.number == b.number && a.name == b.name && a.mac == b.mac;
        for port in was.iter().filter(|port| !self.ports.iter().any(|other| same(port, other))) {
            self.port_status(WENT, port);
        }
        for port in &self.ports {
            match was.iter().find(|other| same(other, port)) {
                None => self.port_status(CAME, port),
                Some(other) if (other.link_up, other.flags) != (port.link_up, port.flags) => {
                    self.port_status(CHANGED, port);
                }
                Some(_) => {}
            }
        }
    }

    fn port_status(&self, reason: u8, port: &PortAbout) {
        for peer in self.peers.values().filter(|peer| peer.hears(AsyncKind::PortStatus, reason)) {
            let port = described(port);
            peer.tell(Body::PortStatus(PortStatus { reason, port }));
        }
    }

    /// A port is told what to do.
    pub(super) fn port_mod(&mut self, change: &PortMod, plane: &mut impl Tables) -> Result<(), Code> {
        let flags = self.port_flags(change)?;
        plane.configure_port(change.number, flags).map_err(|_| Code::PortBad)?;
        self.look_at_ports(plane);
        Ok(())
    }

    /// What a port is to do from now on.
    pub(super) fn port_flags(&self, change: &PortMod) -> Result<PortFlags, Code> {
        let port = self.ports.iter().find(|port| port.number == change.number).ok_or(Code::PortBad)?;
        if port.mac != change.address {
            return Err(Code::PortAddress);
        }
        // Floods are OpenFlow 1.0's; what later versions call by that bit has no meaning there.
        if change.mask & !(CAN | Port::NO_FLOOD) != 0 {
            return Err(Code::PortConfig);
        }
        if change.advertise.is_some_and(|wanted| wanted != 0) {
            return Err(Code::PortAdvertise);
        }
        Ok(flags(bits(port.flags) & !change.mask | change.config & change.mask))
    }

    /// The ports as a controller is told of them.
    pub(super) fn described_ports(&self) -> Vec<Port> {
        self.ports.iter().map(described).collect()
    }

    /// What the switch can do.
    pub(super) fn features(&mut self, version: Version) -> weir_codec::Features {
        // It stays what it is when that port goes.
        let drawn = || describe::drawn_datapath_id(&self.ports);
        let number = *self.datapath_id.get_or_insert_with(drawn);
        describe::features(number, version, self.described_ports())
    }
}

//! Flow entries that no packet of the lab's traces meets, to be changed while a device forwards.
//!
//! They match destinations in 240.0.0.0/4, which is reserved, so that no trace has an address of it. In a table of
//! routes they are routes like the others; elsewhere they stand in front of all that the function has.

use super::controller::change;
use super::{FORGET_INPUT, of};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use weir_codec::FlowCommand;
use weir_trial::Nf;

/// The first network of the lab's idle routes.
const FIRST: u32 = 0xf000_0000;
/// The first of those that come and go.
const COMING: u32 = 0xfe00_0000;
/// Their length, which as routes is their priority.
const BITS: u8 = 24;
/// So many come and go in turn.
const TURN: u32 = 1000;
/// The network that packets are sent to.
const PROBED: u32 = 0xfeff_ff00;
/// Most idle routes that stay.
pub(crate) const MOST_IDLE: u32 = (COMING - FIRST) >> (32 - BITS);

/// Where entries that come and go stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    table: u8,
    priority: u16,
}

impl Place {
    /// Among the routes of a table.
    pub(crate) const fn route(table: u8) -> Self {
        Self { table, priority: BITS as u16 }
    }

    /// In a function's own table of routes where that comes first, else in front of all.
    pub(crate) const fn of(nf: Nf) -> Self {
        match nf {
            Nf::L3Fwd { .. } => Self::route(0),
            _ => Self { table: 0, priority: u16::MAX },
        }
    }

    fn entry(self, network: u32, actions: &str) -> String {
        let Self { table, priority } = self;
        format!("table={table},priority={priority},ip,nw_dst={}/{BITS},actions={actions}", address(network))
    }

    /// Changes in turn, as messages: each network is added, modified and deleted, then the next.
    pub(crate) fn turn(self) -> Vec<Vec<u8>> {
        let of_network = |number| {
            let entry = |actions: &str| self.entry(COMING + (number << (32 - BITS)), actions);
            [
                change(FlowCommand::Add, &entry("output:1")),
                change(FlowCommand::ModifyStrict, &entry("output:2")),
                change(FlowCommand::DeleteStrict, &entry("drop")),
            ]
        };
        (0..TURN).flat_map(of_network).collect()
    }

    /// Sends packets of the probed network, which come in by port 0, out by this port.
    pub(crate) fn send_probes_to(self, port: u8, command: FlowCommand) -> Vec<u8> {
        let out = format!("output:{}", of(port));
        let actions = if port == 0 { format!("{FORGET_INPUT},{out}") } else { out };
        change(command, &self.entry(PROBED, &actions))
    }

    /// Takes away all that came.
    pub(crate) fn clear(self) -> Vec<u8> {
        let entry = format!("table={},ip,nw_dst={}/8,actions=drop", self.table, address(COMING));
        change(FlowCommand::Delete, &entry)
    }
}

/// Routes that no packet takes, for a table of routes, as `ovs-ofctl add-flows` reads them.
pub(crate) fn idle_routes(table: u8, count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let _ = writeln!(text, "{}", Place::route(table).entry(FIRST + (number << (32 - BITS)), "drop"));
    }
    text
}

/// A packet of the probed network with room for a stamp at its end: the least frame with UDP, without a checksum.
pub(crate) fn probe() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&weir_wire::table::port_mac(0));
    frame[6..12].copy_from_slice(&weir_wire::table::next_hop_mac(0));
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let (length, address) = (46_u16.to_be_bytes(), (PROBED + 1).to_be_bytes());
    frame[14..34].copy_from_slice(&[
        0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, address[0], address[1],
        address[2], address[3],
    ]);
    let sum = weir_wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..42].copy_from_slice(&[0xc0, 0, 0xc0, 1, 0, 26, 0, 0]);
    frame
}

fn address(network: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_codec::{Body, decode};

    fn read(bytes: &[u8]) -> weir_codec::FlowMod {
        match decode(bytes).unwrap().body {
            Body::FlowMod(change) => change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_network_comes_changes_and_goes_and_then_the_next() {
        let turn = Place::of("l3fwd".parse().unwrap()).turn();
        assert_eq!(turn.len(), 3 * TURN as usize);
        let changes: Vec<_> = turn[..4].iter().map(|bytes| read(bytes)).collect();
        let commands: Vec<_> = changes.iter().map(|change| change.command).collect();
        assert_eq!(
            commands,
            [FlowCommand::Add, FlowCommand::ModifyStrict, FlowCommand::DeleteStrict, FlowCommand::Add]
        );
        assert_eq!(changes[0].matching, changes[2].matching, "what is added goes");
        assert_ne!(changes[0].instructions, changes[1].instructions, "what is modified changes");
        assert_ne!(changes[0].matching, changes[3].matching, "then comes the next");
        assert!(changes.iter().all(|change| (change.priority, change.table.unwrap().0) == (24, 0)));
        assert_eq!(read(&Place::of("firewall".parse().unwrap()).turn()[0]).priority, u16::MAX);
    }

    #[test]
    fn idle_routes_are_all_different_and_of_no_address_that_comes_and_goes() {
        let text = idle_routes(1, 3);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "table=1,priority=24,ip,nw_dst=240.0.2.0/24,actions=drop");
        assert_eq!(lines.len(), 3);
        assert_eq!(address(FIRST + ((MOST_IDLE - 1) << 8)), Ipv4Addr::new(253, 255, 255, 0));
        assert_eq!(address(COMING + ((TURN - 1) << 8)), Ipv4Addr::new(254, 3, 231, 0));
        const { assert!(COMING + (TURN << 8) <= PROBED) };
    }

    #[test]
    fn a_probe_is_a_whole_packet_of_its_network_with_room_for_a_stamp() {
        let frame = probe();
        assert_eq!(weir_wire::checksum::checksum(&frame[14..34]), 0);
        assert_eq!(&frame[30..34], &[254, 255, 255, 1]);
        assert_eq!((frame.len() - 42, &frame[38..42]), (18, &[0, 26, 0, 0][..]), "18 bytes of payload");
        let place = Place::of("l2fwd".parse().unwrap());
        let [out, back] = [1, 0].map(|port| read(&place.send_probes_to(port, FlowCommand::Add)));
        assert_eq!(out.matching, back.matching);
        assert_eq!((out.instructions.apply.len(), back.instructions.apply.len()), (1, 2));
        assert!(read(&place.clear()).matching.covers(&out.matching));
    }
}

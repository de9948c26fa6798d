//! Packets for the controller: the queue to it is shared by the ports they came in by.

use crate::rig::{Rig, config, udp};
use weir_openflow::PortNo;

#[test]
fn a_flood_at_one_port_keeps_no_packet_of_another_from_the_controller() {
    let mut rig = Rig::new(config(1));
    rig.flows("actions=controller");
    let flood: Vec<Vec<u8>> = (0..20_000).map(|host| udp(host, 7, (1, 2))).collect();
    let few: Vec<Vec<u8>> = (0..100).map(|host| udp(host, 9, (1, 2))).collect();
    rig.source(1, &flood, "");
    // Nobody takes what waits, and the other port's packets come when the flood has filled what it may.
    rig.wait(20_000);
    rig.source(2, &few, "");
    rig.wait(20_100);
    let mut taken = Vec::new();
    loop {
        let packets = rig.datapath.packet_ins();
        if packets.is_empty() {
            break;
        }
        taken.extend(packets);
    }
    let of = |port| taken.iter().filter(|packet| packet.in_port == PortNo(port)).count() as u64;
    assert_eq!((of(1), of(2)), (2048, 100));
    let end = rig.end();
    assert_eq!(end.dropped("controller"), 20_000 - 2048, "what finds no room is counted");
}

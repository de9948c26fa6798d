//! Ports of several queues: which wirings have them, and how a port is told.
//!
//! What the lab sends into its transmit queue of a number comes in by the device's receive queue of the same number, and the
//! other way: the links have no hash of their own, so that whoever sends says which flow takes which queue. A memif port has as
//! many queues as it is set up with; one of virtio or vhost is told when it is made. virtio needs its control queue to say how
//! many are in use.

use super::WiringKind;

/// Whether ports of a wiring can have several queues; the reason where not.
pub fn carries_queues(wiring: WiringKind) -> Result<(), String> {
    match wiring {
        WiringKind::Vhost | WiringKind::Memif => Ok(()),
        WiringKind::Veth => Err("the `veth` wiring has one queue a port; take `vhost` or `memif`".to_owned()),
        WiringKind::Nic => Err(
            "over `nic` the cards choose the queue of a packet by a hash of their own, which the lab does not set; take `vhost` \
             or `memif`"
                .to_owned(),
        ),
        WiringKind::Fed => Err(
            "over `fed` a device has a queue for each worker that it is named with (`weir:workers=2`); take `vhost` or `memif` \
             for `queues`"
                .to_owned(),
        ),
    }
}

/// A port, as an EAL `--vdev` string, with so many queues.
#[must_use]
pub fn with_queues(port: &str, queues: u16) -> String {
    const ONE: &str = ",queues=1,";
    match (queues, port.starts_with("net_virtio_user")) {
        (0 | 1, _) => port.to_owned(),
        (queues, true) => port.replacen(ONE, &format!(",queues={queues},cq=1,"), 1),
        (queues, false) => port.replacen(ONE, &format!(",queues={queues},"), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::wiring::{Memif, Side, Vhost};
    use weir_units::FrameSize;

    #[test]
    fn both_ends_of_a_link_are_told_how_many_queues_it_has() {
        let folder = Folder::new().unwrap();
        let vhost = Vhost::default();
        let ends = [Side::Lab, Side::Dut].map(|side| with_queues(&vhost.ports(side, &folder, 0, 2)[0], 4));
        assert!(ends[0].contains(",queues=4,cq=1,queue_size="), "{}", ends[0]);
        assert!(ends[1].contains(",queues=4,client=") && !ends[1].contains("cq="), "{}", ends[1]);
        let one = vhost.ports(Side::Lab, &folder, 0, 2);
        assert_eq!(with_queues(&one[0], 1), one[0]);
        let memif = Memif::default().ports(Side::Lab, &folder, (0, 2), FrameSize::new(64).unwrap());
        assert_eq!(with_queues(&memif[0], 4), memif[0], "it has as many as it is set up with");
    }

    #[test]
    fn wirings_without_several_queues_say_why() {
        for wiring in WiringKind::ALL {
            match carries_queues(wiring) {
                Ok(()) => assert!(matches!(wiring, WiringKind::Vhost | WiringKind::Memif)),
                Err(why) => {
                    assert!(why.contains(&format!("`{wiring}`")) && why.contains("take `vhost`"), "{why}")
                }
            }
        }
    }
}

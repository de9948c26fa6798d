//! What the switch says of itself.

use super::SessionSettings;
use super::buffers::BUFFERS;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use weir_codec::{Desc, Features, GroupFeatures, MeterFeatures, Port, Version};
use weir_openflow::{MOST_GROUPS, MOST_METERS, PortAbout, TableId};

/// The bits of a datapath's number that hold an address (OpenFlow 1.3.5, section 7.3.1).
const ADDRESS: u64 = (1 << 48) - 1;

/// Actions of OpenFlow 1.3 that can be done, one bit each.
pub(super) const ACTIONS: u32 = bits(&[0, 11, 12, 15, 16, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27]);
/// Actions of OpenFlow 1.0: all but those with queues.
const ACTIONS10: u32 = 0x07ff;
/// Kinds of groups: all, select, indirect, fast failover.
const GROUP_KINDS: u32 = 0b1111;
/// Weights, liveness, chaining, and chains are checked for loops.
const GROUP_CAPABILITIES: u32 = 0b1111;
/// Bands: drop and remark, by their numbers.
const BANDS: u32 = bits(&[1, 2]);
/// Kilobits, packets, burst sizes, statistics.
const METER_CAPABILITIES: u32 = 0b1111;

const fn bits(places: &[u32]) -> u32 {
    let (mut all, mut at) = (0, 0);
    while at < places.len() {
        all |= 1 << places[at];
        at += 1;
    }
    all
}

/// A number for a switch that was given none: the address of a port, or one that nobody else has.
pub(super) fn drawn_datapath_id(ports: &[PortAbout]) -> u64 {
    let address = ports.iter().map(|port| port.mac).find(|mac| *mac != [0; 6]);
    match address {
        Some(mac) => mac.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
        None => RandomState::new().build_hasher().finish() & ADDRESS,
    }
}

pub(super) fn features(datapath_id: u64, version: Version, ports: Vec<Port>) -> Features {
    let mut capabilities = Features::FLOW_STATS | Features::TABLE_STATS | Features::PORT_STATS;
    if version == Version::V10 {
        capabilities |= Features::ARP_MATCH_IP;
    } else {
        capabilities |= Features::GROUP_STATS;
    }
    if version >= Version::V14 {
        capabilities |= Features::BUNDLES | Features::FLOW_MONITORING;
    }
    Features {
        datapath_id,
        n_buffers: BUFFERS,
        n_tables: TableId::LAST.0 + 1,
        auxiliary_id: 0,
        capabilities,
        actions: ACTIONS10,
        ports,
    }
}

pub(super) fn desc(settings: &SessionSettings) -> Desc {
    Desc {
        manufacturer: "Weir".to_owned(),
        hardware: settings.hardware.clone(),
        software: settings.software.clone(),
        serial: "None".to_owned(),
        datapath: "None".to_owned(),
    }
}

pub(super) fn group_features(version: Version) -> GroupFeatures {
    let actions = if version == Version::V10 { ACTIONS10 } else { ACTIONS };
    GroupFeatures {
        kinds: GROUP_KINDS,
        capabilities: GROUP_CAPABILITIES,
        most: [MOST_GROUPS as u32; 4],
        actions: [actions; 4],
    }
}

pub(super) const fn meter_features() -> MeterFeatures {
    MeterFeatures {
        most: MOST_METERS as u32,
        bands: BANDS,
        capabilities: METER_CAPABILITIES,
        most_bands: u8::MAX,
        most_colours: 0,
        features: 0,
    }
}

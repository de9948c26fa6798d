//! What tables can do (OpenFlow 1.3.5, section 7.3.5.5): each the same, but for the tables behind it.

use super::describe::ACTIONS;
use weir_codec::{FeatureId, NICIRA, OxmId, TableFeatures, TableProperty, Version, WEIR};
use weir_flow::Field;
use weir_openflow::{MOST_FLOWS, TableId};

/// The number of an experimenter's action.
const EXPERIMENTER: u16 = 0xffff;
/// `goto_table`, `write_metadata`, `write_actions`, `apply_actions`, `clear_actions`.
const INSTRUCTIONS: [u16; 5] = [1, 2, 3, 4, 5];
/// `meter`, which OpenFlow 1.5 has as an action.
const METER_INSTRUCTION: u16 = 6;
/// `copy_field` and `meter` of OpenFlow 1.5.
const ACTIONS15: [u16; 2] = [28, 29];

/// What each table can do.
pub(super) fn tables(version: Version) -> Vec<TableFeatures> {
    let common = common(version);
    let of = |table: u8| {
        let next = (table + 1..=TableId::LAST.0).map(TableId).collect();
        let mut properties = common.clone();
        properties.insert(1, TableProperty::NextTables { miss: false, tables: next });
        TableFeatures {
            table: TableId(table),
            command: 0,
            features: 1,
            name: name(table),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: 0,
            most: MOST_FLOWS as u32,
            properties,
        }
    };
    (0..=TableId::LAST.0).map(of).collect()
}

/// A table's name.
pub(super) fn name(table: u8) -> String {
    format!("table{table}")
}

fn common(version: Version) -> Vec<TableProperty> {
    use TableProperty as P;
    let (miss, standard) = (false, |kind: u16| FeatureId { kind, experimenter: None });
    let mut instructions: Vec<FeatureId> = INSTRUCTIONS.map(standard).to_vec();
    let mut ids: Vec<FeatureId> =
        (0..32).filter(|kind| ACTIONS >> kind & 1 == 1).map(|kind| standard(kind as u16)).collect();
    if version == Version::V15 {
        ids.extend(ACTIONS15.map(standard));
    } else {
        instructions.push(standard(METER_INSTRUCTION));
    }
    ids.extend([NICIRA, WEIR].map(|id| FeatureId { kind: EXPERIMENTER, experimenter: Some(id) }));
    let all = || Field::ALL.iter().copied().filter(|field| is_own(*field));
    let plain = |field: Field| {
        let id = OxmId::of(field, version);
        OxmId { header: without_mask(id.header), ..id }
    };
    let matched = all().map(|field| OxmId::of(field, version)).collect();
    // Fields that may be left out altogether have no mask there.
    let wildcards = all().map(plain).collect();
    let set: Vec<OxmId> = all().filter(|field| field.about().writable).map(plain).collect();
    vec![
        P::Instructions { miss, ids: instructions },
        P::WriteActions { miss, ids: ids.clone() },
        P::ApplyActions { miss, ids },
        P::Match(matched),
        P::Wildcards(wildcards),
        P::WriteSetField { miss, ids: set.clone() },
        P::ApplySetField { miss, ids: set },
    ]
}

/// A header without the bit for masks, and with the length of the value alone.
const fn without_mask(header: u32) -> u32 {
    const MASK: u32 = 1 << 8;
    const CLASS: u32 = 16;
    /// Bytes of an experimenter's number, which count in the length.
    const NUMBER: u32 = 4;
    if header & MASK == 0 {
        return header;
    }
    let extra = if header >> CLASS == 0xffff { NUMBER } else { 0 };
    let length = (header & 0xff) - extra;
    header & !(MASK | 0xff) | (length / 2 + extra)
}

/// Whether a field is one by itself, and means something to a controller: not another name for registers, and
/// not the datapath's own.
fn is_own(field: Field) -> bool {
    let name = field.name();
    !name.starts_with("xxreg") && !matches!(field, Field::RecircId | Field::ConjId | Field::VlanTci)
}

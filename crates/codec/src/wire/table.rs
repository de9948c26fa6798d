//! Tables.

use super::{Encoded, some_table, table_number};
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Fault, Put, text};
use crate::field::EXPERIMENTER;
use crate::{
    Code, FeatureId, OxmId, TableConfig, TableDesc, TableFeatures, TableMod, TableProperty, TableStats,
    Vacancy, Version,
};
use weir_openflow::TableId;

/// Bytes of a name.
const NAME: usize = 32;

const EVICTION: u16 = 2;
const VACANCY: u16 = 3;

fn read_config(mut body: Cursor<'_>, version: Version) -> Decoded<TableConfig> {
    let mut out = TableConfig { flags: body.u32()?, ..TableConfig::default() };
    if version < Version::V14 {
        return Ok(out);
    }
    let mut properties = body.with(Code::PropertyLength);
    while !properties.is_empty() {
        let (kind, mut value) = properties.property()?;
        match kind {
            EVICTION => out.eviction = Some(value.u32()?),
            VACANCY => {
                out.vacancy = Some(Vacancy { down: value.u8()?, up: value.u8()?, now: value.u8()? });
            }
            _ => return Err(Fault::new(Code::PropertyType, "tables have no such property")),
        }
    }
    Ok(out)
}

fn put_config(out: &mut Vec<u8>, config: &TableConfig, version: Version) {
    out.u32(config.flags);
    if version < Version::V14 {
        return;
    }
    if let Some(eviction) = config.eviction {
        let start = out.open(EVICTION);
        out.u32(eviction);
        out.close(start);
    }
    if let Some(Vacancy { down, up, now }) = config.vacancy {
        let start = out.open(VACANCY);
        out.extend_from_slice(&[down, up, now, 0]);
        out.close(start);
    }
}

pub(crate) fn read_mod(mut body: Cursor<'_>, version: Version) -> Decoded<TableMod> {
    let table = some_table(body.u8()?);
    body.skip(3)?;
    Ok(TableMod { table, config: read_config(body, version)? })
}

pub(crate) fn put_mod(out: &mut Vec<u8>, change: &TableMod, version: Version) {
    out.u8(table_number(change.table));
    out.zeros(3);
    put_config(out, &change.config, version);
}

pub(crate) fn read_desc(body: &mut Cursor<'_>, version: Version) -> Decoded<TableDesc> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("a table is shorter than its header"))?;
    let mut body = body.part(inside)?;
    let table = TableId(body.u8()?);
    body.skip(1)?;
    Ok(TableDesc { table, config: read_config(body, version)? })
}

pub(crate) fn put_desc(out: &mut Vec<u8>, desc: &TableDesc, version: Version) {
    let start = out.len();
    out.zeros(2);
    out.u8(desc.table.0);
    out.zeros(1);
    put_config(out, &desc.config, version);
    out.length(start, start);
}

pub(crate) fn read_stats(body: &mut Cursor<'_>, version: Version) -> Decoded<TableStats> {
    let table = TableId(body.u8()?);
    body.skip(3)?;
    let (mut name, mut wildcards, mut most) = (String::new(), 0, 0);
    if version == Version::V10 {
        name = text(body.bytes(NAME)?);
        (wildcards, most) = (body.u32()?, body.u32()?);
    }
    let (active, lookups, matched) = (body.u32()?, body.u64()?, body.u64()?);
    Ok(TableStats { table, name, wildcards, most, active, lookups, matched })
}

pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &TableStats, version: Version) {
    out.u8(stats.table.0);
    out.zeros(3);
    if version == Version::V10 {
        out.text(&stats.name, NAME);
        out.u32(stats.wildcards);
        out.u32(stats.most);
    }
    out.u32(stats.active);
    out.u64(stats.lookups);
    out.u64(stats.matched);
}

pub(crate) fn read_features(body: &mut Cursor<'_>, version: Version) -> Decoded<TableFeatures> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("features are shorter than their header"))?;
    let mut body = body.part(inside)?;
    let table = TableId(body.u8()?);
    let (command, features) = (body.u8()?, body.u32()?);
    let v15 = version == Version::V15;
    let mut out = TableFeatures {
        table,
        command: if v15 { command } else { 0 },
        features: if v15 { features } else { 0 },
        name: text(body.bytes(NAME)?),
        metadata_match: body.u64()?,
        metadata_write: body.u64()?,
        config: body.u32()?,
        most: body.u32()?,
        properties: Vec::new(),
    };
    let mut properties = body.with(Code::PropertyLength);
    while !properties.is_empty() {
        let (kind, value) = properties.property()?;
        out.properties.push(read_property(kind, value)?);
    }
    Ok(out)
}

fn read_property(kind: u16, mut value: Cursor<'_>) -> Decoded<TableProperty> {
    use TableProperty as P;
    let miss = kind & 1 != 0;
    Ok(match kind {
        0 | 1 => P::Instructions { miss, ids: read_ids(value)? },
        2 | 3 => P::NextTables { miss, tables: read_tables(value) },
        4 | 5 => P::WriteActions { miss, ids: read_ids(value)? },
        6 | 7 => P::ApplyActions { miss, ids: read_ids(value)? },
        8 => P::Match(read_fields(value)?),
        10 => P::Wildcards(read_fields(value)?),
        12 | 13 => P::WriteSetField { miss, ids: read_fields(value)? },
        14 | 15 => P::ApplySetField { miss, ids: read_fields(value)? },
        16 => P::SyncFrom(read_tables(value)),
        18 | 19 => P::WriteCopyField { miss, ids: read_fields(value)? },
        20 | 21 => P::ApplyCopyField { miss, ids: read_fields(value)? },
        22 | 0xfffe | 0xffff => P::Other { kind, contents: value.all().to_vec() },
        _ => return Err(Fault::new(Code::PropertyType, "tables have no such property")),
    })
}

fn read_tables(mut value: Cursor<'_>) -> Vec<TableId> {
    value.all().iter().map(|number| TableId(*number)).collect()
}

fn read_ids(mut value: Cursor<'_>) -> Decoded<Vec<FeatureId>> {
    let mut out = Vec::with_capacity(value.len() / 4);
    while !value.is_empty() {
        let (kind, length) = (value.u16()?, value.u16()?);
        let experimenter = match (kind, length) {
            (EXPERIMENTER, 8) => Some(value.u32()?),
            (EXPERIMENTER, _) => return Err(value.fault("an experimenter's number is missing")),
            // Some senders count what the action itself would have.
            (_, 4..) => {
                value.skip(usize::from(length) - 4)?;
                None
            }
            _ => return Err(value.fault("a length is too small")),
        };
        out.push(FeatureId { kind, experimenter });
    }
    Ok(out)
}

fn read_fields(mut value: Cursor<'_>) -> Decoded<Vec<OxmId>> {
    let mut out = Vec::with_capacity(value.len() / 4);
    while !value.is_empty() {
        let header = value.u32()?;
        let experimenter = if header >> 16 == u32::from(EXPERIMENTER) { Some(value.u32()?) } else { None };
        out.push(OxmId { header, experimenter });
    }
    Ok(out)
}

pub(crate) fn put_features(out: &mut Vec<u8>, features: &TableFeatures, version: Version) -> Encoded {
    let start = out.len();
    out.zeros(2);
    out.u8(features.table.0);
    let v15 = version == Version::V15;
    out.u8(if v15 { features.command } else { 0 });
    out.u32(if v15 { features.features } else { 0 });
    out.text(&features.name, NAME);
    out.u64(features.metadata_match);
    out.u64(features.metadata_write);
    out.u32(features.config);
    out.u32(features.most);
    for property in &features.properties {
        put_property(out, property);
    }
    if out.len() - start > usize::from(u16::MAX) {
        return Err(Unsayable("features of a table, of more than 65535 bytes,"));
    }
    out.length(start, start);
    Ok(())
}

fn put_property(out: &mut Vec<u8>, property: &TableProperty) {
    use TableProperty as P;
    let number = |even: u16, miss: bool| even | u16::from(miss);
    let start;
    match property {
        P::Instructions { miss, ids } => start = put_ids(out, number(0, *miss), ids),
        P::NextTables { miss, tables } => start = put_tables(out, number(2, *miss), tables),
        P::WriteActions { miss, ids } => start = put_ids(out, number(4, *miss), ids),
        P::ApplyActions { miss, ids } => start = put_ids(out, number(6, *miss), ids),
        P::Match(ids) => start = put_fields(out, 8, ids),
        P::Wildcards(ids) => start = put_fields(out, 10, ids),
        P::WriteSetField { miss, ids } => start = put_fields(out, number(12, *miss), ids),
        P::ApplySetField { miss, ids } => start = put_fields(out, number(14, *miss), ids),
        P::SyncFrom(tables) => start = put_tables(out, 16, tables),
        P::WriteCopyField { miss, ids } => start = put_fields(out, number(18, *miss), ids),
        P::ApplyCopyField { miss, ids } => start = put_fields(out, number(20, *miss), ids),
        P::Other { kind, contents } => {
            start = out.open(*kind);
            out.extend_from_slice(contents);
        }
    }
    out.close(start);
    out.pad(start);
}

fn put_tables(out: &mut Vec<u8>, kind: u16, tables: &[TableId]) -> usize {
    let start = out.open(kind);
    out.extend(tables.iter().map(|table| table.0));
    start
}

fn put_ids(out: &mut Vec<u8>, kind: u16, ids: &[FeatureId]) -> usize {
    let start = out.open(kind);
    for id in ids {
        out.u16(id.kind);
        out.u16(if id.experimenter.is_some() { 8 } else { 4 });
        out.extend(id.experimenter.iter().flat_map(|number| number.to_be_bytes()));
    }
    start
}

fn put_fields(out: &mut Vec<u8>, kind: u16, ids: &[OxmId]) -> usize {
    let start = out.open(kind);
    for id in ids {
        out.u32(id.header);
        out.extend(id.experimenter.iter().flat_map(|number| number.to_be_bytes()));
    }
    start
}

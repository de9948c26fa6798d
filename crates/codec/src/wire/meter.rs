//! Meters.

use super::group::{counts, put_counts};
use super::{duration, put_duration};
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::{Code, MeterCommand, MeterFeatures, MeterMod, MeterStats, Version};
use weir_openflow::{Band, BandKind, Meter, MeterId, MeterUnit};

const KILOBITS: u16 = 1 << 0;
const PACKETS: u16 = 1 << 1;
const BURST: u16 = 1 << 2;
const STATS: u16 = 1 << 3;

const DROP: u16 = 1;
const REMARK: u16 = 2;

/// Flags of a meter. Neither unit said means kilobits.
fn read_flags(bits: u16, id: MeterId) -> Decoded<Meter> {
    if bits & !(KILOBITS | PACKETS | BURST | STATS) != 0 || bits & (KILOBITS | PACKETS) == KILOBITS | PACKETS
    {
        return Err(Fault::new(Code::MeterFlags, "flags of a meter are unknown or exclude each other"));
    }
    let unit = if bits & PACKETS != 0 { MeterUnit::PacketsPerSecond } else { MeterUnit::KilobitsPerSecond };
    Ok(Meter { id, unit, burst: bits & BURST != 0, stats: bits & STATS != 0, bands: Vec::new() })
}

fn flag_bits(meter: &Meter) -> u16 {
    let unit = if meter.unit == MeterUnit::PacketsPerSecond { PACKETS } else { KILOBITS };
    unit | if meter.burst { BURST } else { 0 } | if meter.stats { STATS } else { 0 }
}

fn read_bands(body: Cursor<'_>) -> Decoded<Vec<Band>> {
    let mut body = body.with(Code::MeterBand);
    let mut out = Vec::with_capacity(body.len() / 16);
    while !body.is_empty() {
        let (kind, length) = (body.u16()?, usize::from(body.u16()?));
        if length != 16 {
            return Err(Fault::new(Code::MeterBand, "there is no band of this length"));
        }
        let (rate, burst, level) = (body.u32()?, body.u32()?, body.u8()?);
        body.skip(3)?;
        let kind = match kind {
            DROP => BandKind::Drop,
            REMARK => BandKind::DscpRemark(level),
            _ => return Err(Fault::new(Code::MeterBand, "there is no such band")),
        };
        out.push(Band { kind, rate, burst });
    }
    Ok(out)
}

fn put_bands(out: &mut Vec<u8>, bands: &[Band]) {
    for band in bands {
        let (kind, level) = match band.kind {
            BandKind::Drop => (DROP, 0),
            BandKind::DscpRemark(level) => (REMARK, level),
        };
        out.u16(kind);
        out.u16(16);
        out.u32(band.rate);
        out.u32(band.burst);
        out.u8(level);
        out.zeros(3);
    }
}

pub(crate) fn read_mod(mut body: Cursor<'_>) -> Decoded<MeterMod> {
    let command = match body.u16()? {
        0 => MeterCommand::Add,
        1 => MeterCommand::Modify,
        2 => MeterCommand::Delete,
        _ => return Err(Fault::new(Code::MeterCommand, "there is no such command")),
    };
    let bits = body.u16()?;
    let id = MeterId(body.u32()?);
    let mut meter = read_flags(bits, id)?;
    meter.bands = read_bands(body)?;
    Ok(MeterMod { command, meter })
}

pub(crate) fn put_mod(out: &mut Vec<u8>, change: &MeterMod) {
    out.u16(change.command as u16);
    // Of a meter that goes, only the number is said.
    let goes = change.command == MeterCommand::Delete && change.meter.bands.is_empty();
    out.u16(if goes { flag_bits(&change.meter) & !KILOBITS } else { flag_bits(&change.meter) });
    out.u32(change.meter.id.0);
    put_bands(out, &change.meter.bands);
}

pub(crate) fn read_query(body: &mut Cursor<'_>) -> Decoded<MeterId> {
    let id = MeterId(body.u32()?);
    body.skip(4)?;
    Ok(id)
}

pub(crate) fn put_query(out: &mut Vec<u8>, id: MeterId) {
    out.u32(id.0);
    out.zeros(4);
}

pub(crate) fn read_config(body: &mut Cursor<'_>) -> Decoded<Meter> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("a meter is shorter than its header"))?;
    let mut body = body.part(inside)?;
    let bits = body.u16()?;
    let id = MeterId(body.u32()?);
    let mut meter = read_flags(bits, id)?;
    meter.bands = read_bands(body)?;
    Ok(meter)
}

pub(crate) fn put_config(out: &mut Vec<u8>, meter: &Meter) {
    let start = out.len();
    out.zeros(2);
    out.u16(flag_bits(meter));
    out.u32(meter.id.0);
    put_bands(out, &meter.bands);
    out.length(start, start);
}

pub(crate) fn read_stats(body: &mut Cursor<'_>) -> Decoded<MeterStats> {
    let meter = MeterId(body.u32()?);
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(6).ok_or(body.fault("counters are shorter than their header"))?;
    let mut body = body.part(inside)?;
    body.skip(6)?;
    let (flows, packets, bytes) = (body.u32()?, body.u64()?, body.u64()?);
    let duration = duration(&mut body)?;
    Ok(MeterStats { meter, flows, packets, bytes, duration, bands: counts(body)? })
}

pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &MeterStats) {
    let start = out.len();
    out.u32(stats.meter.0);
    out.zeros(8);
    out.u32(stats.flows);
    out.u64(stats.packets);
    out.u64(stats.bytes);
    put_duration(out, stats.duration);
    put_counts(out, &stats.bands);
    out.length(start + 4, start);
}

pub(crate) fn read_features(mut body: Cursor<'_>, version: Version) -> Decoded<MeterFeatures> {
    let (most, bands, capabilities) = (body.u32()?, body.u32()?, body.u32()?);
    let (most_bands, most_colours) = (body.u8()?, body.u8()?);
    body.skip(2)?;
    let features = if version == Version::V15 && !body.is_empty() { body.u32()? } else { 0 };
    Ok(MeterFeatures { most, bands, capabilities, most_bands, most_colours, features })
}

/// Further features are only sent where there are some: many readers of OpenFlow 1.5 expect none.
pub(crate) fn put_features(out: &mut Vec<u8>, features: &MeterFeatures, version: Version) {
    out.u32(features.most);
    out.u32(features.bands);
    out.u32(features.capabilities);
    out.u8(features.most_bands);
    out.u8(features.most_colours);
    out.zeros(2);
    if version == Version::V15 && features.features != 0 {
        out.u32(features.features);
        out.zeros(4);
    }
}

//! Ports.

use super::{perhaps_duration, port, port_of, port16, put_perhaps_duration, put_port16};
use crate::cursor::{Cursor, Decoded, Put, text};
use crate::{Code, Port, PortMod, PortStats, PortStatus, Version};
use weir_openflow::PortNo;

/// Bytes of a name.
const NAME: usize = 16;
/// The property of Ethernet ports.
const ETHERNET: u16 = 0;

/// Features of OpenFlow 1.0 as later versions number them: those from bit 7 on moved by 4.
const fn features_from10(bits: u32) -> u32 {
    bits & 0x7f | (bits & 0xf80) << 4
}

const fn features_to10(bits: u32) -> u32 {
    bits & 0x7f | bits >> 4 & 0xf80
}

/// State bits that OpenFlow 1.0 has not.
const STATE13: u32 = Port::BLOCKED | Port::LIVE;

fn read_one(body: &mut Cursor<'_>, version: Version) -> Decoded<Port> {
    let number = port_of(body, version)?;
    let mut length = 0;
    if version >= Version::V14 {
        length = usize::from(body.u16()?);
        body.skip(2)?;
    } else if version == Version::V13 {
        body.skip(4)?;
    }
    let address = body.array()?;
    if version > Version::V10 {
        body.skip(2)?;
    }
    let name = text(body.bytes(NAME)?);
    let (config, mut state) = (body.u32()?, body.u32()?);
    if version == Version::V10 {
        state &= !STATE13;
    }
    let mut out = Port {
        number,
        address,
        name,
        config,
        state,
        current: 0,
        advertised: 0,
        supported: 0,
        peer: 0,
        current_speed: 0,
        greatest_speed: 0,
    };
    let mut more = *body;
    if version >= Version::V14 {
        let inside = length.checked_sub(40).ok_or(body.fault("a port is shorter than its header"))?;
        let mut properties = body.part(inside)?.with(Code::PropertyLength);
        loop {
            if properties.is_empty() {
                return Ok(out);
            }
            let (kind, mut value) = properties.property()?;
            if kind == ETHERNET {
                value.skip(4)?;
                more = value;
                break;
            }
        }
    }
    let all = [&mut out.current, &mut out.advertised, &mut out.supported, &mut out.peer];
    for place in all {
        *place = more.u32()?;
        if version == Version::V10 {
            *place = features_from10(*place);
        }
    }
    if version > Version::V10 {
        (out.current_speed, out.greatest_speed) = (more.u32()?, more.u32()?);
    }
    if version < Version::V14 {
        *body = more;
    }
    Ok(out)
}

fn put_one(out: &mut Vec<u8>, port: &Port, version: Version) {
    let start = out.len();
    match version {
        Version::V10 => put_port16(out, port.number),
        _ => {
            out.u32(port.number.0);
            out.zeros(4);
        }
    }
    out.extend_from_slice(&port.address);
    out.zeros(if version == Version::V10 { 0 } else { 2 });
    out.text(&port.name, NAME);
    out.u32(port.config);
    out.u32(if version == Version::V10 { port.state & !STATE13 } else { port.state });
    let property = (version >= Version::V14).then(|| {
        let start = out.open(ETHERNET);
        out.zeros(4);
        start
    });
    for features in [port.current, port.advertised, port.supported, port.peer] {
        out.u32(if version == Version::V10 { features_to10(features) } else { features });
    }
    if version > Version::V10 {
        out.u32(port.current_speed);
        out.u32(port.greatest_speed);
    }
    if let Some(property) = property {
        out.close(property);
        out.length(start + 4, start);
    }
}

pub(crate) fn read_ports(mut body: Cursor<'_>, version: Version) -> Decoded<Vec<Port>> {
    let mut out = Vec::new();
    while !body.is_empty() {
        out.push(read_one(&mut body, version)?);
    }
    Ok(out)
}

pub(crate) fn put_ports(out: &mut Vec<u8>, ports: &[Port], version: Version) {
    for port in ports {
        put_one(out, port, version);
    }
}

pub(crate) fn put_port(out: &mut Vec<u8>, port: &Port, version: Version) {
    put_one(out, port, version);
}

pub(crate) fn read_status(mut body: Cursor<'_>, version: Version) -> Decoded<PortStatus> {
    let reason = body.u8()?;
    body.skip(7)?;
    Ok(PortStatus { reason, port: read_one(&mut body, version)? })
}

pub(crate) fn put_status(out: &mut Vec<u8>, status: &PortStatus, version: Version) {
    out.u8(status.reason);
    out.zeros(7);
    put_one(out, &status.port, version);
}

pub(crate) fn read_mod(mut body: Cursor<'_>, version: Version) -> Decoded<PortMod> {
    if version == Version::V10 {
        return Ok(PortMod {
            number: port16(&mut body)?,
            address: body.array()?,
            config: body.u32()?,
            mask: body.u32()?,
            advertise: Some(features_from10(body.u32()?)),
        });
    }
    let number = port(&mut body)?;
    body.skip(4)?;
    let address = body.array()?;
    body.skip(2)?;
    let (config, mask) = (body.u32()?, body.u32()?);
    let mut advertise = None;
    if version == Version::V13 {
        advertise = Some(body.u32()?);
    } else {
        let mut properties = body.with(Code::PropertyLength);
        while !properties.is_empty() {
            let (kind, mut value) = properties.property()?;
            if kind == ETHERNET {
                advertise = Some(value.u32()?);
            } else {
                return Err(crate::Fault::new(Code::PropertyType, "ports have no such property"));
            }
        }
    }
    Ok(PortMod { number, address, config, mask, advertise })
}

pub(crate) fn put_mod(out: &mut Vec<u8>, change: &PortMod, version: Version) {
    let advertise = change.advertise.unwrap_or_default();
    if version == Version::V10 {
        put_port16(out, change.number);
        out.extend_from_slice(&change.address);
        out.u32(change.config);
        out.u32(change.mask);
        out.u32(features_to10(advertise));
        out.zeros(4);
        return;
    }
    out.u32(change.number.0);
    out.zeros(4);
    out.extend_from_slice(&change.address);
    out.zeros(2);
    out.u32(change.config);
    out.u32(change.mask);
    if version == Version::V13 {
        out.u32(advertise);
        out.zeros(4);
    } else if change.advertise.is_some() {
        let start = out.open(ETHERNET);
        out.u32(advertise);
        out.close(start);
    }
}

pub(crate) fn read_query(body: &mut Cursor<'_>, version: Version) -> Decoded<PortNo> {
    let number = port_of(body, version)?;
    body.skip(if version == Version::V10 { 6 } else { 4 })?;
    Ok(number)
}

pub(crate) fn put_query(out: &mut Vec<u8>, port: PortNo, version: Version) {
    if version == Version::V10 {
        put_port16(out, port);
        out.zeros(6);
    } else {
        out.u32(port.0);
        out.zeros(4);
    }
}

pub(crate) fn read_stats(body: &mut Cursor<'_>, version: Version) -> Decoded<PortStats> {
    let mut counts = [u64::MAX; 12];
    let (number, duration);
    if version >= Version::V14 {
        let length = usize::from(body.u16()?);
        let inside = length.checked_sub(2).ok_or(body.fault("counters are shorter than their header"))?;
        let mut body = body.part(inside)?;
        body.skip(2)?;
        (number, duration) = (port(&mut body)?, perhaps_duration(&mut body)?);
        for count in &mut counts[..8] {
            *count = body.u64()?;
        }
        let mut properties = body.with(Code::PropertyLength);
        while !properties.is_empty() {
            let (kind, mut value) = properties.property()?;
            if kind == ETHERNET {
                value.skip(4)?;
                for count in &mut counts[8..] {
                    *count = value.u64()?;
                }
            }
        }
    } else {
        number = read_query(body, version)?;
        for count in &mut counts {
            *count = body.u64()?;
        }
        duration = if version == Version::V10 { None } else { perhaps_duration(body)? };
    }
    let [rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, ..] = counts;
    let [.., rx_errors, tx_errors, rx_frame_err, rx_over_err, rx_crc_err, collisions] = counts;
    Ok(PortStats {
        number,
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        rx_dropped,
        tx_dropped,
        rx_errors,
        tx_errors,
        rx_frame_err,
        rx_over_err,
        rx_crc_err,
        collisions,
        duration,
    })
}

pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &PortStats, version: Version) {
    let common = [
        stats.rx_packets,
        stats.tx_packets,
        stats.rx_bytes,
        stats.tx_bytes,
        stats.rx_dropped,
        stats.tx_dropped,
        stats.rx_errors,
        stats.tx_errors,
    ];
    let ethernet = [stats.rx_frame_err, stats.rx_over_err, stats.rx_crc_err, stats.collisions];
    let counts = |out: &mut Vec<u8>, counts: &[u64]| counts.iter().for_each(|count| out.u64(*count));
    if version < Version::V14 {
        put_query(out, stats.number, version);
        counts(out, &common);
        counts(out, &ethernet);
        if version == Version::V13 {
            put_perhaps_duration(out, stats.duration);
        }
        return;
    }
    let start = out.len();
    out.zeros(4);
    out.u32(stats.number.0);
    put_perhaps_duration(out, stats.duration);
    counts(out, &common);
    let property = out.open(ETHERNET);
    out.zeros(4);
    counts(out, &ethernet);
    out.close(property);
    out.length(start, start);
}

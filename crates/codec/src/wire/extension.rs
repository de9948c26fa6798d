//! Messages of experimenters: Nicira's, ONF's and Weir's.

use super::{Encoded, bundle, flow_mod, flow_removed, group, packet, switch};
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::{
    Body, Code, Context, CtFlush, CtTuple, FlowForm, NICIRA, ONF, PacketInForm, ServiceAbout, ServiceList,
    Version, WEIR,
};

/// The number of a message of an experimenter.
pub(crate) const EXPERIMENTER: u8 = 4;

/// Flow formats of Nicira's: OpenFlow 1.0's own, and NXM.
const FORMAT_NXM: u32 = 2;

/// ONF's numbers of bundles.
const BUNDLE_CONTROL: u32 = 2300;
const BUNDLE_ADD: u32 = 2301;

/// Weir's numbers: which services are there, and these.
const SERVICES_REQUEST: u32 = 1;
const SERVICES_REPLY: u32 = 2;

/// Whether this is a message that puts another into a bundle.
pub(crate) fn is_bundle_add(mut body: Cursor<'_>, version: Version) -> bool {
    version == Version::V13
        && body.u32().is_ok_and(|whose| whose == ONF)
        && body.u32().is_ok_and(|kind| kind == BUNDLE_ADD)
}

pub(crate) fn read(mut body: Cursor<'_>, version: Version, xid: u32, context: Context) -> Decoded<Body> {
    let whose = body.u32()?;
    if !matches!(whose, NICIRA | ONF | WEIR) {
        return Err(Fault::new(Code::BadExperimenter, "this experimenter is not known"));
    }
    let kind = body.u32()?;
    let wrong = |what| Err(Fault::new(Code::BadExperimenterType, what));
    match (whose, kind) {
        (NICIRA, kind) => read_nicira(kind, body, version, context),
        (WEIR, SERVICES_REQUEST) => zeros_and_number(&mut body).map(Body::ServicesRequest),
        (WEIR, SERVICES_REPLY) => read_services(body).map(Body::ServicesReply),
        (WEIR, _) => wrong("Weir has no such message"),
        _ if version != Version::V13 => wrong("there is no such message in this version"),
        (_, BUNDLE_CONTROL) => bundle::read_control(body).map(Body::BundleControl),
        (_, BUNDLE_ADD) => bundle::read_add(body, version, xid, context).map(Body::BundleAdd),
        (_, 1870) => Ok(Body::FlowMonitorCancel(body.u32()?)),
        (_, 1871) => Ok(Body::FlowMonitorPaused),
        (_, 1872) => Ok(Body::FlowMonitorResumed),
        (_, 1911) => switch::read_role_status(body).map(Body::RoleStatus),
        _ => wrong("there is no such message"),
    }
}

fn read_nicira(kind: u32, mut body: Cursor<'_>, version: Version, context: Context) -> Decoded<Body> {
    let value = |what| Err(Fault::new(Code::BadExperimenterType, what));
    Ok(match kind {
        10 => Body::RoleRequest(switch::read_nicira_role(body)?),
        11 => Body::RoleReply(switch::read_nicira_role(body)?),
        12 => Body::SetFlowFormat(match body.u32()? {
            0 => FlowForm::Standard,
            FORMAT_NXM => FlowForm::Nxm,
            _ => return Err(Fault::new(Code::NotPermitted, "there is no such form of flows")),
        }),
        13 => Body::FlowMod(flow_mod::read_nicira(body, context)?),
        14 => Body::FlowRemoved(flow_removed::read_nicira(body)?),
        15 => {
            let flag = body.u8()?;
            body.skip(7)?;
            Body::FlowModTableId(flag != 0)
        }
        16 => Body::SetPacketInFormat(match body.u32()? {
            0 => PacketInForm::Standard,
            1 => PacketInForm::Nicira,
            2 => PacketInForm::Nicira2,
            _ => return Err(Fault::new(Code::NotPermitted, "there is no such form of packet-ins")),
        }),
        17 => Body::PacketIn(packet::read_nicira(body)?),
        18 => Body::FlowAge,
        19 => Body::SetAsync(switch::read_async(body, Version::V13)?),
        20 => Body::SetControllerId(zeros_and_number(&mut body)?),
        21 if version == Version::V10 => Body::FlowMonitorCancel(body.u32()?),
        22 if version == Version::V10 => Body::FlowMonitorPaused,
        23 if version == Version::V10 => Body::FlowMonitorResumed,
        27 => Body::SetAsync(switch::read_async(body, Version::V14)?),
        28 => return Err(Fault::new(Code::ResumeUnsupported, "packets are not paused")),
        29 => Body::CtFlushZone(zeros_and_number(&mut body)?),
        30 => Body::PacketIn(packet::read_nicira2(body)?),
        31 if version == Version::V10 => Body::GroupMod(group::read_mod(body, version)?),
        32 => Body::CtFlush(read_flush(body)?),
        24..=26 => return value("fields of tunnels' metadata are not supported"),
        _ => return value("there is no such message"),
    })
}

/// Six zeros and a number.
fn zeros_and_number(body: &mut Cursor<'_>) -> Decoded<u16> {
    if body.bytes(6)?.iter().any(|byte| *byte != 0) {
        return Err(Fault::new(Code::MustBeZero, "bytes that must be zero are not"));
    }
    body.u16()
}

fn read_services(mut body: Cursor<'_>) -> Decoded<ServiceList> {
    let mut list = ServiceList { next: zeros_and_number(&mut body)?, ..ServiceList::default() };
    while !body.is_empty() {
        let (number, name, kind) = (body.u16()?, body.u16()?, body.u16()?);
        let mut text =
            |len: u16| body.bytes(len.into()).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        list.services.push(ServiceAbout { number, name: text(name)?, kind: text(kind)? });
    }
    Ok(list)
}

fn put_services(out: &mut Vec<u8>, list: &ServiceList) {
    out.u64(u64::from(list.next));
    for ServiceAbout { number, name, kind } in &list.services {
        let texts = [name, kind].map(|text| &text.as_bytes()[..text.len().min(usize::from(u16::MAX))]);
        out.u16(*number);
        texts.iter().for_each(|text| out.u16(text.len() as u16));
        texts.iter().for_each(|text| out.extend_from_slice(text));
    }
}

fn read_flush(mut body: Cursor<'_>) -> Decoded<CtFlush> {
    let mut out = CtFlush { protocol: body.u8()?, ..CtFlush::default() };
    if body.bytes(7)?.iter().any(|byte| *byte != 0) {
        return Err(Fault::new(Code::MustBeZero, "bytes that must be zero are not"));
    }
    let mut body = body.with(Code::PropertyLength);
    while !body.is_empty() {
        let (kind, mut value) = body.property()?;
        match kind {
            0 => out.original = Some(read_tuple(value)?),
            1 => out.reply = Some(read_tuple(value)?),
            2 => out.zone = Some(value.u16()?),
            _ => return Err(Fault::new(Code::PropertyType, "connections have no such property")),
        }
    }
    Ok(out)
}

fn read_tuple(mut body: Cursor<'_>) -> Decoded<CtTuple> {
    let mut out = CtTuple::default();
    // The tuple begins behind the header of its property, and is aligned as if from there.
    body.skip(4)?;
    while !body.is_empty() {
        let (kind, mut value) = body.property()?;
        match kind {
            0 => out.source = Some(value.array()?.into()),
            1 => out.destination = Some(value.array()?.into()),
            2 => out.source_port = Some(value.u16()?),
            3 => out.destination_port = Some(value.u16()?),
            4 => out.icmp_id = Some(value.u16()?),
            5 => out.icmp_type = Some(value.u8()?),
            6 => out.icmp_code = Some(value.u8()?),
            _ => return Err(Fault::new(Code::PropertyType, "tuples have no such property")),
        }
    }
    Ok(out)
}

fn property(out: &mut Vec<u8>, kind: u16, value: Option<&[u8]>) {
    if let Some(value) = value {
        out.property(kind, value);
    }
}

fn put_tuple(out: &mut Vec<u8>, kind: u16, tuple: &CtTuple) {
    let start = out.open(kind);
    out.zeros(4);
    property(out, 0, tuple.source.map(|it| it.octets()).as_ref().map(|it| &it[..]));
    property(out, 1, tuple.destination.map(|it| it.octets()).as_ref().map(|it| &it[..]));
    property(out, 2, tuple.source_port.map(u16::to_be_bytes).as_ref().map(|it| &it[..]));
    property(out, 3, tuple.destination_port.map(u16::to_be_bytes).as_ref().map(|it| &it[..]));
    property(out, 4, tuple.icmp_id.map(u16::to_be_bytes).as_ref().map(|it| &it[..]));
    property(out, 5, tuple.icmp_type.as_ref().map(std::slice::from_ref));
    property(out, 6, tuple.icmp_code.as_ref().map(std::slice::from_ref));
    out.close(start);
    out.pad(start);
}

fn put_flush(out: &mut Vec<u8>, flush: &CtFlush) {
    out.u8(flush.protocol);
    out.zeros(7);
    if let Some(tuple) = &flush.original {
        put_tuple(out, 0, tuple);
    }
    if let Some(tuple) = &flush.reply {
        put_tuple(out, 1, tuple);
    }
    property(out, 2, flush.zone.map(u16::to_be_bytes).as_ref().map(|it| &it[..]));
}

/// Writes a message that only an experimenter has, or has in this version.
pub(crate) fn put(out: &mut Vec<u8>, body: &Body, version: Version, context: Context) -> Encoded {
    let onf = version == Version::V13;
    let (whose, kind) = match body {
        Body::RoleRequest(_) => (NICIRA, 10),
        Body::RoleReply(_) => (NICIRA, 11),
        Body::SetFlowFormat(_) => (NICIRA, 12),
        Body::FlowMod(_) => (NICIRA, 13),
        Body::FlowRemoved(_) => (NICIRA, 14),
        Body::FlowModTableId(_) => (NICIRA, 15),
        Body::SetPacketInFormat(_) => (NICIRA, 16),
        Body::PacketIn(packet) if packet.form == PacketInForm::Nicira => (NICIRA, 17),
        Body::PacketIn(_) => (NICIRA, 30),
        Body::FlowAge => (NICIRA, 18),
        Body::SetAsync(_) => (NICIRA, 19),
        Body::SetControllerId(_) => (NICIRA, 20),
        Body::FlowMonitorCancel(_) if onf => (ONF, 1870),
        Body::FlowMonitorPaused if onf => (ONF, 1871),
        Body::FlowMonitorResumed if onf => (ONF, 1872),
        Body::FlowMonitorCancel(_) if version == Version::V10 => (NICIRA, 21),
        Body::FlowMonitorPaused if version == Version::V10 => (NICIRA, 22),
        Body::FlowMonitorResumed if version == Version::V10 => (NICIRA, 23),
        Body::CtFlushZone(_) => (NICIRA, 29),
        Body::GroupMod(_) if version == Version::V10 => (NICIRA, 31),
        Body::CtFlush(_) => (NICIRA, 32),
        Body::ServicesRequest(_) => (WEIR, SERVICES_REQUEST),
        Body::ServicesReply(_) => (WEIR, SERVICES_REPLY),
        Body::BundleControl(_) if onf => (ONF, BUNDLE_CONTROL),
        Body::BundleAdd(_) if onf => (ONF, BUNDLE_ADD),
        Body::RoleStatus(_) if onf => (ONF, 1911),
        _ => return Err(Unsayable("this message")),
    };
    out.u32(whose);
    out.u32(kind);
    match body {
        Body::RoleRequest(role) | Body::RoleReply(role) => return switch::put_nicira_role(out, role),
        Body::SetFlowFormat(form) => out.u32(if *form == FlowForm::Nxm { FORMAT_NXM } else { 0 }),
        Body::FlowMod(flow) => return flow_mod::put_nicira(out, flow, context),
        Body::FlowRemoved(gone) => return flow_removed::put_nicira(out, gone),
        Body::FlowModTableId(on) => out.u64(u64::from(*on) << 56),
        Body::SetPacketInFormat(form) => out.u32(*form as u32),
        Body::PacketIn(packet) if packet.form == PacketInForm::Nicira => {
            packet::put_nicira(out, packet, version);
        }
        Body::PacketIn(packet) => packet::put_nicira2(out, packet, version),
        Body::SetAsync(config) => return switch::put_async(out, config, Version::V13),
        Body::SetControllerId(number) | Body::CtFlushZone(number) | Body::ServicesRequest(number) => {
            out.u64(u64::from(*number));
        }
        Body::ServicesReply(list) => put_services(out, list),
        Body::FlowMonitorCancel(id) => out.u32(*id),
        Body::GroupMod(change) => return group::put_mod(out, change, version),
        Body::CtFlush(flush) => put_flush(out, flush),
        Body::BundleControl(control) => bundle::put_control(out, control),
        Body::BundleAdd(add) => return bundle::put_add(out, add, context),
        Body::RoleStatus(status) => switch::put_role_status(out, status),
        _ => {}
    }
    Ok(())
}

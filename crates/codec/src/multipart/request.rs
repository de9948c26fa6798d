//! Requests of multiparts, from and to the wire.

use super::monitor;
use super::number::{Extension, Number, put_number};
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::field::{put_match, put_nxm, read_match, read_nxm};
use crate::wire::match10::{put_match10, read_match10};
use crate::wire::{
    Encoded, meter, port, port16, put_port16, queue, some_port, some_table, table, table_number,
};
use crate::*;
use weir_openflow::{GroupId, PortNo};

pub(crate) fn read(mut body: Cursor<'_>, version: Version) -> Decoded<MultipartRequest> {
    let (number, more) = Number::read(&mut body, version)?;
    let request = read_one(number, body, version)?;
    Ok(MultipartRequest { more, request })
}

fn group_query(body: &mut Cursor<'_>) -> Decoded<GroupId> {
    let id = GroupId(body.u32()?);
    body.skip(4)?;
    Ok(id)
}

fn read_one(number: Number, mut body: Cursor<'_>, version: Version) -> Decoded<Request> {
    use Extension as X;
    use Number as N;
    let late = version > Version::V10;
    let v14 = version >= Version::V14;
    let v15 = version == Version::V15;
    Ok(match number {
        N::Own(0) => Request::Desc,
        N::Own(1) => Request::Flow(read_query(body, version)?),
        N::Own(2) => Request::Aggregate(read_query(body, version)?),
        N::Own(3) => Request::Table,
        N::Own(4) => Request::Port(port::read_query(&mut body, version)?),
        N::Own(5) => Request::Queue(queue::read_query(&mut body, version)?),
        N::Own(6) if late => Request::Group(group_query(&mut body)?),
        N::Own(7) if late => Request::GroupDesc(if v15 { group_query(&mut body)? } else { ALL_GROUPS }),
        N::Own(8) if late => Request::GroupFeatures,
        N::Own(9) if late => Request::Meter(meter::read_query(&mut body)?),
        N::Own(10) if late => Request::MeterConfig(meter::read_query(&mut body)?),
        N::Own(11) if late => Request::MeterFeatures,
        N::Own(12) if late => {
            let mut tables = Vec::new();
            while !body.is_empty() {
                tables.push(table::read_features(&mut body, version)?);
            }
            Request::TableFeatures(tables)
        }
        // OpenFlow 1.0 has no such question; Open vSwitch asks it all the same.
        N::Own(13) => {
            Request::PortDesc(if v15 { port::read_query(&mut body, version)? } else { PortNo::ANY })
        }
        N::Own(14) if v14 => Request::TableDesc,
        N::Own(15) if v14 => Request::QueueDesc(queue::read_query(&mut body, version)?),
        N::Own(16) if v14 => Request::Monitor(monitor::read_requests(body, version)?),
        N::Own(17) if v15 => Request::FlowStats(read_query(body, version)?),
        N::Extension(X::Flow) => Request::Flow(read_nicira_query(body)?),
        N::Extension(X::Aggregate) => Request::Aggregate(read_nicira_query(body)?),
        N::Extension(X::Monitor) => Request::Monitor(monitor::read_requests(body, version)?),
        N::Extension(X::Group) => Request::Group(group_query(&mut body)?),
        N::Extension(X::GroupDesc) => Request::GroupDesc(group_query(&mut body)?),
        N::Extension(X::GroupFeatures) => Request::GroupFeatures,
        N::Own(_) => return Err(Fault::new(Code::BadMultipart, "there is no such multipart")),
    })
}

fn read_query(mut body: Cursor<'_>, version: Version) -> Decoded<FlowQuery> {
    if version == Version::V10 {
        let matching = read_match10(&mut body)?;
        let table = some_table(body.u8()?);
        body.skip(1)?;
        let out_port = some_port(port16(&mut body)?);
        return Ok(FlowQuery { table, out_port, matching, ..FlowQuery::default() });
    }
    let table = some_table(body.u8()?);
    body.skip(3)?;
    let out_port = some_port(crate::wire::port(&mut body)?);
    let out_group = Some(GroupId(body.u32()?)).filter(|group| *group != ANY_GROUP);
    body.skip(4)?;
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let matching = read_match(&mut body)?;
    Ok(FlowQuery { form: FlowForm::Standard, table, out_port, out_group, cookie, cookie_mask, matching })
}

fn read_nicira_query(mut body: Cursor<'_>) -> Decoded<FlowQuery> {
    let out_port = some_port(port16(&mut body)?);
    let (length, table) = (body.u16()?, some_table(body.u8()?));
    body.skip(3)?;
    let (matching, cookie) = read_nxm(&mut body, length.into(), false)?;
    let (cookie, cookie_mask) = cookie.unwrap_or_default();
    Ok(FlowQuery { form: FlowForm::Nxm, table, out_port, out_group: None, cookie, cookie_mask, matching })
}

fn put_query(out: &mut Vec<u8>, query: &FlowQuery, version: Version) {
    let port = query.out_port.unwrap_or(PortNo::ANY);
    if query.form == FlowForm::Nxm && version == Version::V10 {
        put_port16(out, port);
        let at = out.len();
        out.zeros(2);
        out.u8(table_number(query.table));
        out.zeros(3);
        let length = put_nxm(out, &query.matching, (query.cookie, query.cookie_mask));
        out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        return;
    }
    if version == Version::V10 {
        put_match10(out, &query.matching);
        out.u8(table_number(query.table));
        out.zeros(1);
        put_port16(out, port);
        return;
    }
    out.u8(table_number(query.table));
    out.zeros(3);
    out.u32(port.0);
    out.u32(query.out_group.unwrap_or(ANY_GROUP).0);
    out.zeros(4);
    out.u64(query.cookie);
    out.u64(query.cookie_mask);
    put_match(out, version, &query.matching);
}

/// The number of a question in a version.
fn number(request: &Request, version: Version) -> Option<Number> {
    use Extension as X;
    use Number as N;
    let v10 = version == Version::V10;
    let nxm = |query: &FlowQuery| v10 && query.form == FlowForm::Nxm;
    Some(match request {
        Request::Desc => N::Own(0),
        Request::Flow(query) if nxm(query) => N::Extension(X::Flow),
        Request::Flow(_) => N::Own(1),
        Request::Aggregate(query) if nxm(query) => N::Extension(X::Aggregate),
        Request::Aggregate(_) => N::Own(2),
        Request::Table => N::Own(3),
        Request::Port(_) => N::Own(4),
        Request::Queue(_) => N::Own(5),
        Request::Group(_) => {
            if v10 {
                N::Extension(X::Group)
            } else {
                N::Own(6)
            }
        }
        Request::GroupDesc(_) => {
            if v10 {
                N::Extension(X::GroupDesc)
            } else {
                N::Own(7)
            }
        }
        Request::GroupFeatures => {
            if v10 {
                N::Extension(X::GroupFeatures)
            } else {
                N::Own(8)
            }
        }
        Request::Meter(_) if !v10 => N::Own(9),
        Request::MeterConfig(_) if !v10 => N::Own(10),
        Request::MeterFeatures if !v10 => N::Own(11),
        Request::TableFeatures(_) if !v10 => N::Own(12),
        Request::PortDesc(_) => N::Own(13),
        Request::TableDesc if version >= Version::V14 => N::Own(14),
        Request::QueueDesc(_) if version >= Version::V14 => N::Own(15),
        Request::Monitor(_) => {
            if version >= Version::V14 {
                N::Own(16)
            } else {
                N::Extension(X::Monitor)
            }
        }
        Request::FlowStats(_) if version == Version::V15 => N::Own(17),
        _ => return None,
    })
}

pub(crate) fn put(out: &mut Vec<u8>, message: &MultipartRequest, version: Version) -> Encoded {
    let number = number(&message.request, version).ok_or(crate::action::Unsayable("this multipart"))?;
    put_number(out, number, message.more, version);
    let group = |out: &mut Vec<u8>, id: GroupId| {
        out.u32(id.0);
        out.zeros(4);
    };
    let desc = matches!(version, Version::V10 | Version::V15);
    match &message.request {
        Request::Flow(query) | Request::FlowStats(query) | Request::Aggregate(query) => {
            put_query(out, query, version);
        }
        Request::Port(port) => port::put_query(out, *port, version),
        Request::PortDesc(port) if version == Version::V15 => port::put_query(out, *port, version),
        Request::Queue(query) | Request::QueueDesc(query) => queue::put_query(out, *query, version),
        Request::Group(id) => group(out, *id),
        Request::GroupDesc(id) if desc => group(out, *id),
        Request::Meter(id) | Request::MeterConfig(id) => meter::put_query(out, *id),
        Request::TableFeatures(tables) => {
            for features in tables {
                table::put_features(out, features, version)?;
            }
        }
        Request::Monitor(monitors) => {
            for request in monitors {
                monitor::put_request(out, request, version)?;
            }
        }
        _ => {}
    }
    Ok(())
}

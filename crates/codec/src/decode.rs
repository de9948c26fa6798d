//! From bytes to a message: the header, the number of the message, and who reads it.

use crate::cursor::{Cursor, Decoded, Fault};
use crate::wire::{
    bundle, error, extension, flow_mod, flow_removed, group, meter, packet, port, queue, switch, table,
};
use crate::*;

/// Reads a message as [`frame()`] hands it over.
///
/// # Errors
///
/// What is wrong, and how to answer.
pub fn decode(message: &[u8]) -> Result<Message, DecodeError> {
    decode_with(message, Context::default())
}

/// The same, on a connection that agreed on extensions.
///
/// # Errors
///
/// What is wrong, and how to answer.
pub fn decode_with(message: &[u8], context: Context) -> Result<Message, DecodeError> {
    let refused = |version, xid, bundle, fault| {
        let data = message[..message.len().min(ERROR_DATA)].to_vec();
        DecodeError { fault, version, xid, bundle, data }
    };
    let Some(header) = Header::peek(message) else {
        let fault = Fault::new(Code::BadLength, "it is shorter than a header");
        return Err(refused(Version::V10, 0, None, fault));
    };
    let version = Version::near(header.version);
    if usize::from(header.length) != message.len() {
        let fault = Fault::new(Code::BadLength, "its length is not the one in its header");
        return Err(refused(version, header.xid, None, fault));
    }
    let body = Cursor::new(&message[HEADER..], Code::BadLength);
    let read = if header.kind == 0 {
        Hello::decode(header.version, body).map(Body::Hello)
    } else if version.number() != header.version {
        Err(Fault::new(Code::BadVersion, "this version is not spoken"))
    } else {
        read(header.kind, body, version, header.xid, context)
    };
    match read {
        Ok(body) => Ok(Message { version, xid: header.xid, body }),
        Err(fault) => Err(refused(version, header.xid, bundle_of(header, body, version), fault)),
    }
}

/// The bundle that a message which is refused was to become part of.
fn bundle_of(header: Header, body: Cursor<'_>, version: Version) -> Option<u32> {
    match header.kind {
        34 if version >= Version::V14 => bundle::bundle_of(body),
        extension::EXPERIMENTER if extension::is_bundle_add(body, version) => {
            let mut inside = body;
            inside.skip(8).ok()?;
            bundle::bundle_of(inside)
        }
        _ => None,
    }
}

/// The body of a message within another, which has a header and the same version.
pub(crate) fn read_inside(message: &[u8], version: Version, context: Context) -> Decoded<Body> {
    let Some(header) = Header::peek(message) else {
        return Err(Fault::new(Code::BundleLength, "the message inside is shorter than a header"));
    };
    // A bundle within a bundle would nest without end.
    if header.kind == extension::EXPERIMENTER || header.kind >= 30 || header.kind == 0 {
        let nicira = header.kind == extension::EXPERIMENTER
            && Cursor::new(&message[HEADER..], Code::BadLength).u32().is_ok_and(|whose| whose == NICIRA);
        if !nicira {
            return Err(Fault::new(Code::BundleUnsupported, "the message inside cannot be part of a bundle"));
        }
    }
    read(header.kind, Cursor::new(&message[HEADER..], Code::BadLength), version, header.xid, context)
}

/// Reads the body of any message but a hello.
fn read(kind: u8, mut body: Cursor<'_>, version: Version, xid: u32, context: Context) -> Decoded<Body> {
    let empty = matches!((kind, version), (5 | 7, _) | (18 | 19, Version::V10))
        || version > Version::V10 && matches!(kind, 20 | 21 | 26);
    if empty && !body.is_empty() {
        return Err(Fault::new(Code::BadLength, "it is longer than its kind"));
    }
    match kind {
        1 => return error::read(body, version).map(Body::Error),
        2 => return Ok(Body::EchoRequest(body.all().to_vec())),
        3 => return Ok(Body::EchoReply(body.all().to_vec())),
        extension::EXPERIMENTER => return extension::read(body, version, xid, context),
        5 => return Ok(Body::FeaturesRequest),
        6 => return switch::read_features(body, version).map(Body::FeaturesReply),
        7 => return Ok(Body::GetConfigRequest),
        8 => return switch::read_config(body).map(Body::GetConfigReply),
        9 => return switch::read_config(body).map(Body::SetConfig),
        10 => return packet::read_in(body, version).map(Body::PacketIn),
        11 => return flow_removed::read(body, version).map(Body::FlowRemoved),
        12 => return port::read_status(body, version).map(Body::PortStatus),
        13 => return packet::read_out(body, version).map(Body::PacketOut),
        14 => return flow_mod::read(body, version, context).map(Body::FlowMod),
        _ => {}
    }
    if version == Version::V10 { read10(kind, body) } else { read13(kind, body, version, xid, context) }
}

const fn unknown() -> Fault {
    Fault::new(Code::BadType, "there is no such message")
}

/// Messages whose numbers are OpenFlow 1.0's.
fn read10(kind: u8, body: Cursor<'_>) -> Decoded<Body> {
    let version = Version::V10;
    match kind {
        15 => port::read_mod(body, version).map(Body::PortMod),
        16 => multipart::request::read(body, version).map(Body::MultipartRequest),
        17 => multipart::reply::read(body, version).map(Body::MultipartReply),
        18 => Ok(Body::BarrierRequest),
        19 => Ok(Body::BarrierReply),
        20 => queue::read_config_request(body, version).map(Body::QueueConfigRequest),
        21 => queue::read_config(body, version).map(Body::QueueConfigReply),
        _ => Err(unknown()),
    }
}

/// Messages whose numbers are later versions'.
fn read13(kind: u8, body: Cursor<'_>, version: Version, xid: u32, context: Context) -> Decoded<Body> {
    match kind {
        15 => group::read_mod(body, version).map(Body::GroupMod),
        16 => port::read_mod(body, version).map(Body::PortMod),
        17 => table::read_mod(body, version).map(Body::TableMod),
        18 => multipart::request::read(body, version).map(Body::MultipartRequest),
        19 => multipart::reply::read(body, version).map(Body::MultipartReply),
        20 => Ok(Body::BarrierRequest),
        21 => Ok(Body::BarrierReply),
        22 if version == Version::V13 => {
            queue::read_config_request(body, version).map(Body::QueueConfigRequest)
        }
        23 if version == Version::V13 => queue::read_config(body, version).map(Body::QueueConfigReply),
        24 => switch::read_role(body).map(Body::RoleRequest),
        25 => switch::read_role(body).map(Body::RoleReply),
        26 => Ok(Body::GetAsyncRequest),
        27 => switch::read_async(body, version).map(Body::GetAsyncReply),
        28 => switch::read_async(body, version).map(Body::SetAsync),
        29 => meter::read_mod(body).map(Body::MeterMod),
        30 if version >= Version::V14 => switch::read_role_status(body).map(Body::RoleStatus),
        33 if version >= Version::V14 => bundle::read_control(body).map(Body::BundleControl),
        34 if version >= Version::V14 => bundle::read_add(body, version, xid, context).map(Body::BundleAdd),
        _ => Err(unknown()),
    }
}

//! From a message to bytes.

use crate::action::Unsayable;
use crate::wire::{
    Encoded, bundle, error, extension, flow_mod, flow_removed, group, meter, packet, port, queue, switch,
    table,
};
use crate::*;

/// A message that cannot be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The version has no such message, action or field.
    #[error("{what} cannot be said in OpenFlow {version:?}; agree on a newer version, or leave it out")]
    Unsayable {
        /// What.
        what: &'static str,
        /// The version.
        version: Version,
    },
    /// It does not fit into 65,535 bytes, and cannot be split.
    #[error("a message would be {0} bytes long, and none can have more than 65535; make it smaller")]
    TooLong(usize),
}

/// Appends a message. A multipart reply that is too long for one message becomes several, all but the last
/// of which say that more follow.
///
/// # Errors
///
/// What cannot be said; then nothing is appended.
pub fn encode(message: &Message, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode_with(message, Context::default(), out)
}

/// The same, on a connection that agreed on extensions.
///
/// # Errors
///
/// What cannot be said; then nothing is appended.
pub fn encode_with(message: &Message, context: Context, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    if let Err(Unsayable(what)) = put_message(out, message, context) {
        out.truncate(start);
        return Err(EncodeError::Unsayable { what, version: message.version });
    }
    let length = out.len() - start;
    if matches!(message.body, Body::MultipartReply(_)) {
        return Ok(());
    }
    let Ok(short) = u16::try_from(length) else {
        out.truncate(start);
        return Err(EncodeError::TooLong(length));
    };
    out[start + 2..start + 4].copy_from_slice(&short.to_be_bytes());
    Ok(())
}

/// Writes a message, but for its length; of a multipart reply, with the length of each part.
pub(crate) fn put_message(out: &mut Vec<u8>, message: &Message, context: Context) -> Encoded {
    let Message { version, xid, body } = message;
    let start = out.len();
    let kind = number(body, *version);
    let header = Header { version: version.number(), kind, length: 0, xid: *xid };
    header.put(out);
    if kind == extension::EXPERIMENTER {
        return extension::put(out, body, *version, context);
    }
    if let Body::Hello(hello) = body {
        out[start] = hello.greatest;
    }
    if let Body::MultipartReply(reply) = body {
        return multipart::reply::put(out, start, reply, *version);
    }
    put_body(out, body, *version, context)
}

/// The number of a message in a version; that of an experimenter's if the version has no own.
fn number(body: &Body, version: Version) -> u8 {
    let v10 = version == Version::V10;
    let v13 = version == Version::V13;
    let v14 = version >= Version::V14;
    match body {
        Body::Hello(_) => 0,
        Body::Error(_) => 1,
        Body::EchoRequest(_) => 2,
        Body::EchoReply(_) => 3,
        Body::FeaturesRequest => 5,
        Body::FeaturesReply(_) => 6,
        Body::GetConfigRequest => 7,
        Body::GetConfigReply(_) => 8,
        Body::SetConfig(_) => 9,
        Body::PacketIn(packet) if packet.form == PacketInForm::Standard => 10,
        Body::FlowRemoved(gone) if gone.form == FlowForm::Standard => 11,
        Body::PortStatus(_) => 12,
        Body::PacketOut(_) => 13,
        Body::FlowMod(flow) if flow.form == FlowForm::Standard => 14,
        Body::PortMod(_) if v10 => 15,
        Body::MultipartRequest(_) if v10 => 16,
        Body::MultipartReply(_) if v10 => 17,
        Body::BarrierRequest if v10 => 18,
        Body::BarrierReply if v10 => 19,
        Body::QueueConfigRequest(_) if v10 => 20,
        Body::QueueConfigReply(_) if v10 => 21,
        _ if v10 => extension::EXPERIMENTER,
        Body::GroupMod(_) => 15,
        Body::PortMod(_) => 16,
        Body::TableMod(_) => 17,
        Body::MultipartRequest(_) => 18,
        Body::MultipartReply(_) => 19,
        Body::BarrierRequest => 20,
        Body::BarrierReply => 21,
        Body::QueueConfigRequest(_) if v13 => 22,
        Body::QueueConfigReply(_) if v13 => 23,
        Body::RoleRequest(role) if role.generation.is_some() => 24,
        Body::RoleReply(role) if role.generation.is_some() => 25,
        Body::GetAsyncRequest => 26,
        Body::GetAsyncReply(_) => 27,
        Body::SetAsync(_) => 28,
        Body::MeterMod(_) => 29,
        Body::RoleStatus(_) if v14 => 30,
        Body::BundleControl(_) if v14 => 33,
        Body::BundleAdd(_) if v14 => 34,
        _ => extension::EXPERIMENTER,
    }
}

fn put_body(out: &mut Vec<u8>, body: &Body, version: Version, context: Context) -> Encoded {
    match body {
        Body::Hello(hello) => hello.encode(out),
        Body::Error(error) => error::put(out, error),
        Body::EchoRequest(data) | Body::EchoReply(data) => out.extend_from_slice(data),
        Body::FeaturesReply(features) => switch::put_features(out, features, version),
        Body::GetConfigReply(config) | Body::SetConfig(config) => switch::put_config(out, config),
        Body::PacketIn(packet) => packet::put_in(out, packet, version),
        Body::FlowRemoved(gone) => return flow_removed::put(out, gone, version),
        Body::PortStatus(status) => port::put_status(out, status, version),
        Body::PacketOut(packet) => return packet::put_out(out, packet, version),
        Body::FlowMod(flow) => return flow_mod::put(out, flow, version, context),
        Body::GroupMod(change) => return group::put_mod(out, change, version),
        Body::PortMod(change) => port::put_mod(out, change, version),
        Body::TableMod(change) => table::put_mod(out, change, version),
        Body::MeterMod(change) => meter::put_mod(out, change),
        Body::MultipartRequest(request) => return multipart::request::put(out, request, version),
        Body::QueueConfigRequest(port) => queue::put_config_request(out, *port, version),
        Body::QueueConfigReply(config) => queue::put_config(out, config, version),
        Body::RoleRequest(role) | Body::RoleReply(role) => switch::put_role(out, role),
        Body::RoleStatus(status) => switch::put_role_status(out, status),
        Body::GetAsyncReply(config) | Body::SetAsync(config) => {
            return switch::put_async(out, config, version);
        }
        Body::BundleControl(control) => bundle::put_control(out, control),
        Body::BundleAdd(add) => return bundle::put_add(out, add, context),
        _ => {}
    }
    Ok(())
}

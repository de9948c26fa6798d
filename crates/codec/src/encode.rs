//! From a message to bytes.

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
pub fn encode_with(message: &Message, _context: Context, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let Message { version, xid, body } = message;
    let v10 = *version == Version::V10;
    let start = out.len();
    let kind = match body {
        Body::Hello(_) => 0,
        Body::EchoRequest(_) => 2,
        Body::EchoReply(_) => 3,
        Body::FeaturesRequest => 5,
        Body::GetConfigRequest => 7,
        Body::BarrierRequest => {
            if v10 {
                18
            } else {
                20
            }
        }
        Body::BarrierReply => {
            if v10 {
                19
            } else {
                21
            }
        }
        _ => return Err(EncodeError::Unsayable { what: "this message", version: *version }),
    };
    Header { version: version.number(), kind, length: 0, xid: *xid }.put(out);
    match body {
        Body::Hello(hello) => {
            out[start] = hello.greatest;
            hello.encode(out);
        }
        Body::EchoRequest(data) | Body::EchoReply(data) => out.extend_from_slice(data),
        _ => {}
    }
    let length = out.len() - start;
    let Ok(short) = u16::try_from(length) else {
        out.truncate(start);
        return Err(EncodeError::TooLong(length));
    };
    out[start + 2..start + 4].copy_from_slice(&short.to_be_bytes());
    Ok(())
}

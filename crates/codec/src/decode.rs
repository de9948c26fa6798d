//! From bytes to a message: the header, the number of the message, and who reads it.

use crate::cursor::{Cursor, Decoded, Fault};
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
    let refused = |version, xid, fault| {
        let data = message[..message.len().min(ERROR_DATA)].to_vec();
        DecodeError { fault, version, xid, bundle: None, data }
    };
    let Some(header) = Header::peek(message) else {
        return Err(refused(Version::V10, 0, Fault::new(Code::BadLength, "it is shorter than a header")));
    };
    let version = Version::near(header.version);
    if usize::from(header.length) != message.len() {
        let fault = Fault::new(Code::BadLength, "its length is not the one in its header");
        return Err(refused(version, header.xid, fault));
    }
    let reader = Reader { version, kind: header.kind, number: header.version, context };
    match reader.body(Cursor::new(&message[HEADER..], Code::BadLength)) {
        Ok(body) => Ok(Message { version, xid: header.xid, body }),
        Err(fault) => Err(refused(version, header.xid, fault)),
    }
}

/// What a message is read with.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) version: Version,
    /// The number of the message.
    kind: u8,
    /// The version as the header has it.
    number: u8,
    pub(crate) context: Context,
}

impl Reader {
    fn body(self, mut body: Cursor<'_>) -> Decoded<Body> {
        if self.kind == 0 {
            return Hello::decode(self.number, body).map(Body::Hello);
        }
        if self.version.number() != self.number {
            return Err(Fault::new(Code::BadVersion, "this version is not spoken"));
        }
        Ok(match (self.kind, self.version) {
            (2, _) => Body::EchoRequest(body.all().to_vec()),
            (3, _) => Body::EchoReply(body.all().to_vec()),
            (5, _) => Body::FeaturesRequest,
            (7, _) => Body::GetConfigRequest,
            (18, Version::V10) => Body::BarrierRequest,
            (19, Version::V10) => Body::BarrierReply,
            (20, _) if self.version > Version::V10 => Body::BarrierRequest,
            (21, _) if self.version > Version::V10 => Body::BarrierReply,
            _ => return Err(Fault::new(Code::BadType, "there is no such message")),
        })
    }
}

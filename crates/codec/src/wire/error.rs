//! Errors.

use crate::cursor::{Cursor, Decoded, Put};
use crate::{ErrorMessage, ErrorNumber, Version};

/// The type of experimenters' errors.
const EXPERIMENTER: u16 = 0xffff;
/// The type that Nicira uses in OpenFlow 1.0.
const VENDOR: u16 = 0xb0c2;

pub(crate) fn read(mut body: Cursor<'_>, version: Version) -> Decoded<ErrorMessage> {
    let (kind, code) = (body.u16()?, body.u16()?);
    let number = match (kind, code) {
        (EXPERIMENTER, kind) if version > Version::V10 => ErrorNumber::Experimenter { id: body.u32()?, kind },
        (VENDOR, 0) if version == Version::V10 => {
            ErrorNumber::Vendor { id: body.u32()?, kind: body.u16()?, code: body.u16()? }
        }
        (kind, code) => ErrorNumber::Standard { kind, code },
    };
    Ok(ErrorMessage { number, data: body.all().to_vec() })
}

pub(crate) fn put(out: &mut Vec<u8>, error: &ErrorMessage) {
    match error.number {
        ErrorNumber::Standard { kind, code } => {
            out.u16(kind);
            out.u16(code);
        }
        ErrorNumber::Experimenter { id, kind } => {
            out.u16(EXPERIMENTER);
            out.u16(kind);
            out.u32(id);
        }
        ErrorNumber::Vendor { id, kind, code } => {
            out.u16(VENDOR);
            out.u16(0);
            out.u32(id);
            out.u16(kind);
            out.u16(code);
        }
    }
    out.extend_from_slice(&error.data);
}

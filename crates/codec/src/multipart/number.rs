//! The number of a multipart: OpenFlow's own, or an experimenter's.

use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::{Code, NICIRA, ONF, Version};

/// The number of experimenters' multiparts.
const EXPERIMENTER: u16 = 0xffff;

/// The bit that says that another message continues it.
const MORE: u16 = 1;

/// Multiparts of Nicira's in OpenFlow 1.0, and ONF's in 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    Flow,
    Aggregate,
    Monitor,
    Group,
    GroupDesc,
    GroupFeatures,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Own(u16),
    Extension(Extension),
}

impl Number {
    /// Reads what every multipart begins with, and whether another message continues it.
    pub(super) fn read(body: &mut Cursor<'_>, version: Version) -> Decoded<(Self, bool)> {
        use Extension as X;
        let (number, flags) = (body.u16()?, body.u16()?);
        let v10 = version == Version::V10;
        if !v10 {
            body.skip(4)?;
        }
        let more = flags & MORE != 0;
        if number != EXPERIMENTER {
            return Ok((Self::Own(number), more));
        }
        let whose = body.u32()?;
        if !matches!(whose, NICIRA | ONF) {
            return Err(Fault::new(Code::BadExperimenter, "this experimenter is not known"));
        }
        let kind = body.u32()?;
        if v10 {
            body.skip(4)?;
        }
        let found = match (whose, kind, version) {
            (NICIRA, 0, Version::V10) => X::Flow,
            (NICIRA, 1, Version::V10) => X::Aggregate,
            (NICIRA, 2, Version::V10) | (ONF, 1870, Version::V13) => X::Monitor,
            (NICIRA, 7, Version::V10) => X::Group,
            (NICIRA, 8, Version::V10) => X::GroupDesc,
            (NICIRA, 9, Version::V10) => X::GroupFeatures,
            _ => return Err(Fault::new(Code::BadExperimenterType, "there is no such multipart")),
        };
        Ok((Self::Extension(found), more))
    }
}

/// Writes what every multipart begins with.
pub(super) fn put_number(out: &mut Vec<u8>, number: Number, more: bool, version: Version) {
    use Extension as X;
    let v10 = version == Version::V10;
    out.u16(match number {
        Number::Own(number) => number,
        Number::Extension(_) => EXPERIMENTER,
    });
    out.u16(if more { MORE } else { 0 });
    out.zeros(if v10 { 0 } else { 4 });
    let Number::Extension(extension) = number else { return };
    let (whose, kind) = match extension {
        X::Flow => (NICIRA, 0),
        X::Aggregate => (NICIRA, 1),
        X::Monitor if v10 => (NICIRA, 2),
        X::Monitor => (ONF, 1870),
        X::Group => (NICIRA, 7),
        X::GroupDesc => (NICIRA, 8),
        X::GroupFeatures => (NICIRA, 9),
    };
    out.u32(whose);
    out.u32(kind);
    out.zeros(if v10 { 4 } else { 0 });
}

/// Sets the bit that says that another message continues it, in a message that begins at `start`.
pub(super) fn set_more(out: &mut [u8], start: usize) {
    out[start + crate::HEADER + 3] |= MORE as u8;
}

//! Bundles: the same bytes in OpenFlow 1.4 and in ONF's extension to 1.3.

use super::Encoded;
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::encode::put_message;
use crate::{
    Body, BundleAdd, BundleControl, BundleFlags, BundleStep, Code, Context, HEADER, Header, Message, Version,
};

fn read_flags(bits: u16) -> Decoded<BundleFlags> {
    if bits & !3 != 0 {
        return Err(Fault::new(Code::BundleFlags, "flags of a bundle are unknown"));
    }
    Ok(BundleFlags { atomic: bits & 1 != 0, ordered: bits & 2 != 0 })
}

fn flag_bits(flags: BundleFlags) -> u16 {
    u16::from(flags.atomic) | u16::from(flags.ordered) << 1
}

pub(crate) fn read_control(mut body: Cursor<'_>) -> Decoded<BundleControl> {
    use BundleStep as S;
    let (id, step) = (body.u32()?, body.u16()?);
    let all = [
        S::OpenRequest,
        S::OpenReply,
        S::CloseRequest,
        S::CloseReply,
        S::CommitRequest,
        S::CommitReply,
        S::DiscardRequest,
        S::DiscardReply,
    ];
    let step = all.get(usize::from(step)).copied();
    let step = step.ok_or(Fault::new(Code::BundleType, "there is no such step of a bundle"))?;
    Ok(BundleControl { id, step, flags: read_flags(body.u16()?)? })
}

pub(crate) fn put_control(out: &mut Vec<u8>, control: &BundleControl) {
    out.u32(control.id);
    out.u16(control.step as u16);
    out.u16(flag_bits(control.flags));
}

/// Whether a message may be part of a bundle (OpenFlow 1.4.1, section 7.3.9.5): what changes tables,
/// groups, ports and meters, and packets that are sent with them.
fn may_be_inside(body: &Body) -> bool {
    matches!(
        body,
        Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::PortMod(_)
            | Body::MeterMod(_)
            | Body::TableMod(_)
            | Body::PacketOut(_)
    )
}

/// The bundle that a message was to become part of.
pub(crate) fn bundle_of(mut body: Cursor<'_>) -> Option<u32> {
    body.u32().ok()
}

/// Reads a message with the message that is in it, whose transaction must be the same.
pub(crate) fn read_add(
    mut body: Cursor<'_>,
    version: Version,
    xid: u32,
    context: Context,
) -> Decoded<BundleAdd> {
    let id = body.u32()?;
    body.skip(2)?;
    let flags = read_flags(body.u16()?)?;
    let all = body.all();
    let wrong = |code, what| Err(Fault::new(code, what));
    let Some(header) = Header::peek(all) else {
        return wrong(Code::BundleLength, "the message inside is shorter than a header");
    };
    let length = usize::from(header.length);
    // Properties may follow; none are defined but experimenters'.
    let Some(inside) = all.get(..length).filter(|_| length >= HEADER) else {
        return wrong(Code::BundleLength, "the message inside has a wrong length");
    };
    if header.xid != xid {
        return wrong(Code::BundleXid, "the message inside has another transaction");
    }
    if header.version != version.number() {
        return wrong(Code::BundleVersion, "the message inside has another version");
    }
    let body = crate::decode::read_inside(inside, version, context)?;
    if !may_be_inside(&body) {
        return wrong(Code::BundleUnsupported, "the message inside cannot be part of a bundle");
    }
    Ok(BundleAdd { id, flags, message: Box::new(Message { version, xid, body }) })
}

pub(crate) fn put_add(out: &mut Vec<u8>, add: &BundleAdd, context: Context) -> Encoded {
    if !may_be_inside(&add.message.body) {
        return Err(Unsayable("this message in a bundle"));
    }
    out.u32(add.id);
    out.zeros(2);
    out.u16(flag_bits(add.flags));
    let start = out.len();
    put_message(out, &add.message, context)?;
    let length = out.len() - start;
    if length > usize::from(u16::MAX) {
        return Err(Unsayable("a message of more than 65535 bytes"));
    }
    out.length(start + 2, start);
    Ok(())
}

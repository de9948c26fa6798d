//! Actions of OpenFlow 1.3 and later, to the wire.

use super::write_nicira::{
    put_clone, put_conjunction, put_controller, put_dec_ttl, put_exit, put_load, put_move, put_nicira,
    put_note, put_output_reg, put_resubmit, put_resubmit_tracked, put_service, put_set_masked,
};
use super::{ct, write10};
use crate::Version;
use crate::cursor::Put;
use crate::field::{put_header, put_value, row_for};
use weir_flow::{Field, Subfield, ones};
use weir_openflow::{Action, PortNo, ToController};

/// What a version has no way to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsayable(pub(crate) &'static str);

/// An action with an argument of up to four bytes.
pub(super) fn put_short(out: &mut Vec<u8>, kind: u16, argument: [u8; 4]) {
    out.u16(kind);
    out.u16(8);
    out.extend_from_slice(&argument);
}

/// Two bytes and padding.
pub(super) const fn two(value: u16) -> [u8; 4] {
    let [high, low] = value.to_be_bytes();
    [high, low, 0, 0]
}

/// A list of actions. `tagged` says that packets that meet it have an 802.1Q tag: where OpenFlow 1.0's
/// actions push one if there is none, later versions have to say it.
pub(crate) fn put_actions(
    out: &mut Vec<u8>,
    version: Version,
    actions: &[Action],
    mut tagged: bool,
) -> Result<(), Unsayable> {
    for action in actions {
        if version == Version::V10 {
            write10::put(out, action)?;
            continue;
        }
        match action {
            Action::SetVlanVid(_) | Action::SetVlanPcp(_) => {
                if !tagged {
                    put_short(out, 17, two(0x8100));
                }
                tagged = true;
            }
            Action::PushVlan(_) => tagged = true,
            Action::PopVlan => tagged = false,
            _ => {}
        }
        put(out, version, action, tagged)?;
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, version: Version, action: &Action, tagged: bool) -> Result<(), Unsayable> {
    match action {
        Action::Output(port) => put_output(out, *port, 0),
        Action::OutputWith(port, max_len) => put_output(out, *port, *max_len),
        Action::Controller(to) if is_plain(to) => put_output(out, PortNo::CONTROLLER, to.max_len),
        Action::SetField { field, value, mask } => put_set_field(out, version, *field, *value, *mask),
        Action::SetVlanVid(vid) => {
            put_set_field(out, version, Field::VlanVid, u128::from(*vid) | 0x1000, ones(13));
        }
        Action::SetVlanPcp(priority) => {
            put_set_field(out, version, Field::VlanPcp, u128::from(*priority), ones(3));
        }
        Action::Load { value, to } if version == Version::V15 => {
            let (value, mask) = (value << to.from, to.mask());
            put_set_field(out, version, to.field, value, mask);
        }
        Action::Move { from, to } if version == Version::V15 => put_copy_field(out, version, *from, *to),
        Action::CopyTtlOut => put_short(out, 11, [0; 4]),
        Action::CopyTtlIn => put_short(out, 12, [0; 4]),
        Action::SetMplsTtl(ttl) => put_short(out, 15, [*ttl, 0, 0, 0]),
        Action::DecMplsTtl => put_short(out, 16, [0; 4]),
        Action::PushVlan(tpid) => put_short(out, 17, two(*tpid)),
        Action::PopVlan => put_short(out, 18, [0; 4]),
        Action::PushMpls(ether_type) => put_short(out, 19, two(*ether_type)),
        Action::PopMpls(ether_type) => put_short(out, 20, two(*ether_type)),
        Action::Group(id) => put_short(out, 22, id.0.to_be_bytes()),
        Action::SetNwTtl(ttl) => put_short(out, 23, [*ttl, 0, 0, 0]),
        Action::DecTtl(ids) if ids.is_empty() => put_short(out, 24, [0; 4]),
        Action::PushPbb(ether_type) => put_short(out, 26, two(*ether_type)),
        Action::PopPbb => put_short(out, 27, [0; 4]),
        Action::Meter(id) if version == Version::V15 => put_short(out, 29, id.0.to_be_bytes()),
        _ => return put_extension(out, version, action, tagged),
    }
    Ok(())
}

/// Actions of Nicira's and Weir's, which every version has.
pub(super) fn put_extension(
    out: &mut Vec<u8>,
    version: Version,
    action: &Action,
    tagged: bool,
) -> Result<(), Unsayable> {
    match action {
        Action::OutputReg(part) => put_output_reg(out, *part),
        Action::Controller(to) => put_controller(out, to),
        Action::SetField { field, value, mask } => put_set_masked(out, *field, *value, *mask),
        Action::Move { from, to } => put_move(out, version, *from, *to),
        Action::Load { value, to } => put_load(out, *value, *to),
        Action::DecTtl(ids) => put_dec_ttl(out, ids),
        Action::Resubmit { port, table } => put_resubmit(out, *port, *table),
        Action::ResubmitTracked { port, table } => put_resubmit_tracked(out, *port, *table),
        Action::Clone(actions) => return put_clone(out, version, actions, tagged),
        Action::Ct(ct) => return ct::put(ct, version, out),
        Action::CtClear => put_nicira(out, 43, &[]),
        Action::Conjunction(what) => put_conjunction(out, *what),
        Action::Exit => put_exit(out),
        Action::Note(words) => put_note(out, words),
        Action::Service { .. } | Action::ServiceWith { .. } => put_service(out, action),
        // An empty list says it.
        Action::Drop => {}
        Action::Meter(_) => return Err(Unsayable("`meter` as an action among others")),
        Action::CopyTtlOut | Action::CopyTtlIn => return Err(Unsayable("copying a time to live")),
        Action::PushPbb(_) | Action::PopPbb => return Err(Unsayable("a backbone tag")),
        _ => return Err(Unsayable("this action")),
    }
    Ok(())
}

/// Whether a packet for a controller can be said as an output.
pub(super) fn is_plain(to: &ToController) -> bool {
    to.id == 0 && to.reason == 1 && to.userdata.is_empty()
}

fn put_output(out: &mut Vec<u8>, port: PortNo, max_len: u16) {
    out.u16(0);
    out.u16(16);
    out.u32(port.0);
    out.u16(max_len);
    out.zeros(6);
}

fn put_set_field(out: &mut Vec<u8>, version: Version, field: Field, value: u128, mask: u128) {
    if mask != ones(field.bits()) && version < Version::V15 {
        put_set_masked(out, field, value, mask);
        return;
    }
    let start = out.open(25);
    // The port where a packet came in is known to clients of Open vSwitch by its older name alone.
    let version = if field == Field::InPort { Version::V10 } else { version };
    put_value(out, row_for(field, version), value, mask);
    out.pad(start);
    out.close(start);
}

fn put_copy_field(out: &mut Vec<u8>, version: Version, from: Subfield, to: Subfield) {
    let start = out.open(28);
    out.u16(from.bits.into());
    out.u16(from.from.into());
    out.u16(to.from.into());
    out.zeros(2);
    put_header(out, row_for(from.field, version), false);
    put_header(out, row_for(to.field, version), false);
    out.pad(start);
    out.close(start);
}

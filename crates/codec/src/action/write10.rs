//! Actions of OpenFlow 1.0, to the wire.

use super::write::{Unsayable, is_plain, put_extension, put_short, two};
use super::write_nicira::{put_long, put_nicira};
use crate::Version;
use crate::cursor::{Put, to_port16};
use weir_flow::{Field, ones};
use weir_openflow::{Action, PortNo};

pub(super) fn put(out: &mut Vec<u8>, action: &Action) -> Result<(), Unsayable> {
    match action {
        Action::Output(port) => put_output(out, *port, 0)?,
        Action::OutputWith(port, max_len) => put_output(out, *port, *max_len)?,
        Action::Controller(to) if is_plain(to) => put_output(out, PortNo::CONTROLLER, to.max_len)?,
        Action::SetVlanVid(vid) => put_short(out, 1, two(*vid)),
        Action::SetVlanPcp(priority) => put_short(out, 2, [*priority, 0, 0, 0]),
        Action::PopVlan => put_short(out, 3, [0; 4]),
        // Its actions that set a tag push one where there is none.
        Action::PushVlan(0x8100) => {}
        Action::PushVlan(_) => return Err(Unsayable("a tag other than 0x8100")),
        Action::SetField { field, value, mask } if *mask == ones(field.bits()) => {
            return put_field(out, *field, *value);
        }
        Action::Load { value, to } if *to == Field::TcpSrc.whole() => put_short(out, 9, two(*value as u16)),
        Action::Load { value, to } if *to == Field::TcpDst.whole() => put_short(out, 10, two(*value as u16)),
        Action::PushMpls(ether_type) => put_nicira(out, 23, &ether_type.to_be_bytes()),
        Action::PopMpls(ether_type) => put_nicira(out, 24, &ether_type.to_be_bytes()),
        Action::SetMplsTtl(ttl) => put_nicira(out, 25, &[*ttl]),
        Action::DecMplsTtl => put_nicira(out, 26, &[]),
        Action::DecTtl(ids) if ids.is_empty() => put_nicira(out, 18, &[]),
        Action::SetNwTtl(ttl) => {
            super::write_nicira::put_load(out, u128::from(*ttl), Field::NwTtl.whole());
        }
        Action::Group(id) => put_long(out, 40, id.0),
        _ => return put_extension(out, Version::V10, action, false),
    }
    Ok(())
}

/// Sends to a port. Later versions have more of them than this one has numbers: there is nothing to send to that would
/// stand for one of those, and nobody could read such an action.
fn put_output(out: &mut Vec<u8>, port: PortNo, max_len: u16) -> Result<(), Unsayable> {
    let number = to_port16(port.0);
    if number == u16::MAX {
        return Err(Unsayable("a port that has no number in 16 bits"));
    }
    out.u16(0);
    out.u16(8);
    out.u16(number);
    out.u16(max_len);
    Ok(())
}

/// A whole field, by its own action if it has one.
fn put_field(out: &mut Vec<u8>, field: Field, value: u128) -> Result<(), Unsayable> {
    let address = |out: &mut Vec<u8>, kind| {
        out.u16(kind);
        out.u16(16);
        out.number(value, 6);
        out.zeros(6);
    };
    match field {
        Field::EthSrc => address(out, 4),
        Field::EthDst => address(out, 5),
        Field::NwSrc => put_short(out, 6, (value as u32).to_be_bytes()),
        Field::NwDst => put_short(out, 7, (value as u32).to_be_bytes()),
        Field::NwTos => put_short(out, 8, [(value as u8) << 2, 0, 0, 0]),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => put_short(out, 9, two(value as u16)),
        Field::TcpDst | Field::UdpDst | Field::SctpDst => put_short(out, 10, two(value as u16)),
        Field::MplsLabel => put_long(out, 30, value as u32),
        Field::MplsTc => put_nicira(out, 31, &[value as u8]),
        Field::TunId => {
            if let Ok(short) = u32::try_from(value) {
                put_long(out, 2, short);
            } else {
                super::write_nicira::put_tunnel(out, value as u64);
            }
        }
        Field::VlanVid if value & 0x1000 != 0 => put_short(out, 1, two(value as u16 & 0x0fff)),
        Field::VlanPcp => put_short(out, 2, [value as u8, 0, 0, 0]),
        _ => {
            let action = Action::SetField { field, value, mask: ones(field.bits()) };
            return put_extension(out, Version::V10, &action, false);
        }
    }
    Ok(())
}

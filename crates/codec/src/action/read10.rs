//! Actions of OpenFlow 1.0 (OpenFlow 1.0.1, section 5.2.4).

use super::EXPERIMENTER;
use super::read::{Known, bare, exactly, experimenter, output};
use crate::cursor::{Cursor, Decoded, Fault, from_port16};
use crate::{Code, Version};
use weir_flow::{Field, ones};
use weir_openflow::{Action, PortNo};

/// A field as a whole.
fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: ones(field.bits()) }
}

/// A port of the protocol that is matched; if none is, whatever lies where ports do.
fn set_port(value: u16, source: bool, known: Known) -> Action {
    let field = match (known.protocol, source) {
        (Some(6), true) => Field::TcpSrc,
        (Some(6), false) => Field::TcpDst,
        (Some(17), true) => Field::UdpSrc,
        (Some(17), false) => Field::UdpDst,
        (Some(132), true) => Field::SctpSrc,
        (Some(132), false) => Field::SctpDst,
        (_, true) => return Action::Load { value: value.into(), to: Field::TcpSrc.whole() },
        (_, false) => return Action::Load { value: value.into(), to: Field::TcpDst.whole() },
    };
    set(field, value.into())
}

pub(super) fn action(kind: u16, mut body: Cursor<'_>, known: Known) -> Decoded<Action> {
    exactly_of(kind, &body)?;
    match kind {
        0 => {
            let (port, max_len) = (from_port16(body.u16()?), body.u16()?);
            output(PortNo(port), max_len)
        }
        1 => match body.u16()? {
            vid @ ..=0x0fff => Ok(Action::SetVlanVid(vid)),
            _ => Err(Fault::new(Code::ActionArgument, "a VLAN has 12 bits")),
        },
        2 => match body.u8()? {
            priority @ ..=7 => Ok(Action::SetVlanPcp(priority)),
            _ => Err(Fault::new(Code::ActionArgument, "a VLAN's priority has 3 bits")),
        },
        3 => bare(&body, Action::PopVlan),
        4 => Ok(set(Field::EthSrc, body.number(6)?)),
        5 => Ok(set(Field::EthDst, body.number(6)?)),
        6 => Ok(set(Field::NwSrc, body.number(4)?)),
        7 => Ok(set(Field::NwDst, body.number(4)?)),
        8 => match body.u8()? {
            tos if tos & 3 == 0 => Ok(set(Field::NwTos, u128::from(tos >> 2))),
            _ => {
                Err(Fault::new(Code::ActionArgument, "the two low bits of the type of service are not zero"))
            }
        },
        9 => Ok(set_port(body.u16()?, true, known)),
        10 => Ok(set_port(body.u16()?, false, known)),
        11 => Err(Fault::new(Code::ActionQueue, "there are no queues")),
        EXPERIMENTER => experimenter(body, Version::V10, known),
        _ => Err(Fault::new(Code::ActionType, "there is no such action")),
    }
}

/// Checks the length of an action that has only one.
fn exactly_of(kind: u16, body: &Cursor<'_>) -> Decoded<()> {
    match kind {
        4 | 5 | 11 => exactly(body, 12),
        0..=10 => exactly(body, 4),
        _ => Ok(()),
    }
}

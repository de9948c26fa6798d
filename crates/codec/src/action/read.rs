//! Actions of OpenFlow 1.3 and later, and what all versions share.

use super::{
    DEPTH, EXPERIMENTER, LAST_GROUP, ONF_COPY_FIELD, SERVICE, SERVICE_WITH, nicira, read10, service,
};
use crate::cursor::{Cursor, Decoded, Fault};
use crate::field::{How, Row, read_header, read_value};
use crate::{Code, NICIRA, ONF, Version, WEIR};
use weir_flow::{Field, Match, Subfield, ones};
use weir_openflow::{Action, GroupId, MeterId, PortNo, ToController};

/// What is known of the packets that a list of actions meets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Their IP protocol.
    pub(crate) protocol: Option<u8>,
    /// Lists around this one.
    depth: u32,
    /// Whether the list is executed where connections are tracked, and may set their mark.
    pub(crate) tracked: bool,
}

impl Known {
    /// Packets that match this.
    pub(crate) fn of(matching: &Match) -> Self {
        let (value, mask) = matching.field(Field::NwProto);
        Self { protocol: (mask == ones(8)).then_some(value as u8), depth: 0, tracked: false }
    }

    pub(super) fn inside(mut self) -> Decoded<Self> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Fault::new(Code::ActionTooMany, "lists of actions are nested too deep"));
        }
        Ok(self)
    }
}

/// `conjunction` stands beside other actions or instructions.
pub(crate) const MIXED: Fault =
    Fault::new(Code::ActionConjunction, "`conjunction` can stand beside `note`, but beside nothing else");

/// A list of actions.
pub(crate) fn read_actions(bytes: Cursor<'_>, version: Version, known: Known) -> Decoded<Vec<Action>> {
    let mut bytes = bytes.with(Code::ActionLength);
    let mut actions = Vec::new();
    while !bytes.is_empty() {
        let (kind, body) = item(&mut bytes)?;
        actions.push(if version == Version::V10 {
            read10::action(kind, body, known)?
        } else {
            action(kind, body, version, known)?
        });
    }
    if Action::beside_conjunction(&actions).is_some() {
        return Err(MIXED);
    }
    Ok(actions)
}

/// The next action: its number and what follows its header.
pub(super) fn item<'a>(bytes: &mut Cursor<'a>) -> Decoded<(u16, Cursor<'a>)> {
    let (kind, length) = (bytes.u16()?, usize::from(bytes.u16()?));
    if length < 8 || !length.is_multiple_of(8) {
        return Err(bytes.fault("the length of an action is no multiple of 8"));
    }
    Ok((kind, bytes.part(length - 4)?))
}

/// Checks that an action has just so many bytes behind its header.
pub(super) fn exactly(body: &Cursor<'_>, bytes: usize) -> Decoded<()> {
    if body.len() == bytes { Ok(()) } else { Err(body.fault("an action has another length")) }
}

/// An action without an argument.
pub(super) fn bare(body: &Cursor<'_>, action: Action) -> Decoded<Action> {
    exactly(body, 4).map(|()| action)
}

fn action(kind: u16, mut body: Cursor<'_>, version: Version, known: Known) -> Decoded<Action> {
    // Those that have an argument of at most four bytes.
    if matches!(kind, 15 | 17 | 19 | 20 | 21..=23 | 26 | 29) {
        exactly(&body, 4)?;
    }
    match kind {
        0 => {
            exactly(&body, 12)?;
            let (port, max_len) = (PortNo(body.u32()?), body.u16()?);
            output(port, max_len)
        }
        11 => bare(&body, Action::CopyTtlOut),
        12 => bare(&body, Action::CopyTtlIn),
        15 => Ok(Action::SetMplsTtl(body.u8()?)),
        16 => bare(&body, Action::DecMplsTtl),
        17 => push_vlan(body.u16()?),
        18 => bare(&body, Action::PopVlan),
        19 => push_mpls(body.u16()?),
        20 => Ok(Action::PopMpls(body.u16()?)),
        21 => Err(Fault::new(Code::ActionQueue, "there are no queues")),
        22 => group(body.u32()?),
        23 => Ok(Action::SetNwTtl(body.u8()?)),
        24 => bare(&body, Action::DecTtl(Vec::new())),
        25 => set_field(body, version == Version::V15, known),
        26 => match body.u16()? {
            0x88e7 => Ok(Action::PushPbb(0x88e7)),
            _ => Err(Fault::new(Code::ActionArgument, "no backbone tag begins like this")),
        },
        27 => bare(&body, Action::PopPbb),
        28 if version == Version::V15 => copy_field(body, known),
        29 if version == Version::V15 => Ok(Action::Meter(MeterId(body.u32()?))),
        EXPERIMENTER => experimenter(body, version, known),
        _ => Err(Fault::new(Code::ActionType, "there is no such action")),
    }
}

/// An experimenter's action, in any version.
pub(super) fn experimenter(mut body: Cursor<'_>, version: Version, known: Known) -> Decoded<Action> {
    let whose = body.u32()?;
    let kind = body.u16().map_err(|fault| Fault { code: Code::ActionLength, ..fault });
    match whose {
        NICIRA => nicira::action(kind?, body, version, known),
        ONF if kind? == ONF_COPY_FIELD => {
            body.skip(2)?;
            copy_field(body, known)
        }
        WEIR if matches!(kind?, SERVICE | SERVICE_WITH) => service::read(kind?, body, false),
        ONF | WEIR => Err(Fault::new(Code::ActionExperimenterType, "there is no such action")),
        _ => Err(Fault::new(Code::ActionExperimenter, "this experimenter is not known")),
    }
}

/// Reserved ports that can be sent to, the controller's aside.
const REACHED: [PortNo; 6] =
    [PortNo::IN_PORT, PortNo::TABLE, PortNo::NORMAL, PortNo::FLOOD, PortNo::ALL, PortNo::LOCAL];

/// Sends to a port, if it is one that can be sent to.
pub(super) fn output(port: PortNo, max_len: u16) -> Decoded<Action> {
    match port {
        PortNo::CONTROLLER => Ok(Action::Controller(ToController { max_len, ..ToController::default() })),
        port if port >= PortNo::MAX && !REACHED.contains(&port) => {
            Err(Fault::new(Code::ActionPort, "nothing can be sent to this port"))
        }
        port if max_len == 0 => Ok(Action::Output(port)),
        port => Ok(Action::OutputWith(port, max_len)),
    }
}

pub(super) fn push_vlan(tpid: u16) -> Decoded<Action> {
    match tpid {
        0x8100 | 0x88a8 => Ok(Action::PushVlan(tpid)),
        _ => Err(Fault::new(Code::ActionArgument, "no VLAN tag begins like this")),
    }
}

pub(super) fn push_mpls(ether_type: u16) -> Decoded<Action> {
    match ether_type {
        0x8847 | 0x8848 => Ok(Action::PushMpls(ether_type)),
        _ => Err(Fault::new(Code::ActionArgument, "this is not MPLS")),
    }
}

pub(super) fn group(id: u32) -> Decoded<Action> {
    if id > LAST_GROUP {
        return Err(Fault::new(Code::ActionGroup, "no group can have this number"));
    }
    Ok(Action::Group(GroupId(id)))
}

/// Whether actions may write a field here.
pub(super) fn writable(field: Field, known: Known) -> Decoded<()> {
    let mark = matches!(field, Field::CtMark | Field::CtLabel);
    if !field.about().writable || mark != known.tracked && (mark || known.tracked) {
        return Err(Fault::new(Code::ActionFieldValue, "this field cannot be written here"));
    }
    Ok(())
}

pub(super) fn set_field(mut body: Cursor<'_>, may_mask: bool, known: Known) -> Decoded<Action> {
    let (field, value, mask) = read_value(&mut body, may_mask)?;
    zeros(&mut body)?;
    writable(field, known)?;
    Ok(Action::SetField { field, value, mask })
}

/// What is left must be padding: fewer than 8 bytes, all zero.
pub(super) fn zeros(body: &mut Cursor<'_>) -> Decoded<()> {
    let rest = body.all();
    if rest.len() >= 8 {
        return Err(body.fault("an action is too long"));
    }
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Fault::new(Code::ActionMustBeZero, "the padding of an action is not zero"));
    }
    Ok(())
}

fn copy_field(mut body: Cursor<'_>, known: Known) -> Decoded<Action> {
    let (bits, from, to) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(2)?;
    copy(body, (bits, from, to), known)
}

/// The end of an action that copies bits: both fields.
pub(super) fn copy(mut body: Cursor<'_>, (bits, from, to): (u16, u16, u16), known: Known) -> Decoded<Action> {
    let (source, target) = (read_header(&mut body)?, read_header(&mut body)?);
    zeros(&mut body)?;
    writable(target.field, known)?;
    let (from, to) = (part(source, from, bits)?, part(target, to, bits)?);
    if from.bits != to.bits {
        return Err(Fault::new(Code::ActionFieldLength, "the two fields have not as many bits there"));
    }
    Ok(Action::Move { from, to })
}

/// Some bits of a field as the wire numbers them.
pub(super) fn part(row: &Row, from: u16, bits: u16) -> Decoded<Subfield> {
    let wrong = |what| Err(Fault::new(Code::ActionFieldLength, what));
    let end = u32::from(from) + u32::from(bits);
    if bits == 0 || end > row.bits() {
        return wrong("a field has not got these bits");
    }
    let (mut from, mut end) = (u32::from(from), end);
    if row.how == How::Tos {
        if end <= 2 {
            return wrong("the two low bits of the type of service are not its own");
        }
        (from, end) = (from.saturating_sub(2), end - 2);
    }
    if end > row.field.bits() {
        return wrong("a field has fewer bits");
    }
    Ok(Subfield { field: row.field, from: from as u8, bits: (end - from) as u8 })
}

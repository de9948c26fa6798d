//! Flow entries that not every client can read.
//!
//! `ovs-ofctl` stops at the first entry of a message that it cannot decode, so one such entry would hide those
//! behind it.

use weir_flow::{Field, Match};
use weir_openflow::{Action, Flow, Instructions, Names};

/// Bytes of a note at most.
const NOTE: usize = 1024;

/// Fields of OpenFlow's own that Open vSwitch 3.1 does not know.
const MATCHED: &[Field] = &[Field::Ipv6Exthdr, Field::PbbIsid];

/// Fields that it knows only of packets that belong to a connection.
const TUPLE: &[Field] = &[
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtNwProto,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
];

/// The bit of a VLAN that says that there is a tag.
const TAG: u128 = 0x1000;

/// Bits of `ct_state` that say so: new, established, related, reply, translated.
const CONNECTED: u128 = 0xcf;

/// Whether an entry matches or does something of OpenFlow's own that Open vSwitch 3.1 does not know, or does not
/// write.
pub(super) fn is_foreign(flow: &Flow) -> bool {
    let any = |fields: &[Field]| fields.iter().any(|field| flow.matching.field(*field).1 != 0);
    let matched = !flow.matching.terms().is_empty()
        && (any(MATCHED) || any(TUPLE) && flow.matching.field(Field::CtState).0 & CONNECTED == 0);
    matched || flow.instructions.any(&is_foreign_action)
}

fn is_foreign_action(action: &Action) -> bool {
    match action {
        Action::CopyTtlIn | Action::CopyTtlOut | Action::PushPbb(_) | Action::PopPbb => true,
        // In OpenFlow 1.5 a VLAN that is written has to say that there is a tag.
        Action::SetField { field: Field::VlanVid, value, .. } => value & TAG == 0,
        Action::Load { value, to } if to.field == Field::VlanVid => (value << to.from) & TAG == 0,
        Action::SetField { field, .. } => is_read_only(*field),
        Action::Load { to, .. } | Action::Move { to, .. } => is_read_only(to.field),
        _ => false,
    }
}

/// Whether Open vSwitch has a field read-only that Weir's actions write.
const fn is_read_only(field: Field) -> bool {
    matches!(field, Field::EthType | Field::NwProto | Field::MplsBos | Field::PbbIsid)
}

/// Instructions that only say, for people, which ones they stand for: those of an entry that a version cannot say.
pub(super) fn noted(instructions: &Instructions, matching: &Match) -> Instructions {
    let mut words = instructions.text(matching, &Names::default()).into_bytes();
    words.truncate(NOTE);
    Instructions { apply: vec![Action::Note(words)], ..Instructions::default() }
}

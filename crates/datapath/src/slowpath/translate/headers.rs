//! Headers that are pushed and popped, TTLs that are copied between them, and fields that say what follows.

use super::Translation;
use super::state::State;
use crate::actions::header::HeaderOp;
use crate::actions::program::Op;
use weir_flow::protocol::NO_ETHER_TYPE;
use weir_flow::span::{ETH_TYPE, HIDDEN, MPLS, TCI};
use weir_flow::{Field, Layer, Mask, Needs};

/// What tags and labels say: it moves when one is pushed or popped.
fn moved() -> Mask {
    let mut mask = Mask::new();
    for span in [ETH_TYPE, TCI, MPLS, Field::PbbIsid.span()] {
        span.examine(&mut mask);
    }
    for hidden in HIDDEN.iter().filter(|hidden| hidden.layer == Layer::Link) {
        hidden.span.examine(&mut mask);
    }
    mask
}

impl Translation<'_> {
    /// A header is pushed or popped. All that was known of tags and labels is looked at first, because
    /// it moves.
    pub(super) fn header(&mut self, op: HeaderOp) {
        self.explain.why(&format_args!("{op:?}"));
        self.flush(false);
        let mask = moved();
        self.examine_mask(&mask);
        if !self.has_for(op) {
            return;
        }
        let ttl = matches!(op, HeaderOp::PushMpls(_) | HeaderOp::CopyTtlOut | HeaderOp::CopyTtlIn);
        let pushes_mpls = matches!(op, HeaderOp::PushMpls(_));
        if ttl {
            self.examine_field(Field::NwTtl);
        }
        let hidden = self.hides_more();
        let State { frame, layout, key, .. } = &mut self.state;
        let done = op.apply(frame, layout, key);
        self.state.in_step.clone_from(&self.state.key);
        self.ops.push(Op::Header(op));
        for (place, bits) in mask.iter() {
            self.state.origins.fix(place, bits);
        }
        if ttl && !pushes_mpls {
            self.fix(Field::NwTtl, u128::MAX);
        }
        if matches!(op, HeaderOp::SetProtocol(_)) {
            self.fix(Field::NwProto, u128::MAX);
        }
        // What comes to light, comes from below the outermost label, or is read as something else, no key has.
        self.state.opaque = match op {
            HeaderOp::PushVlan(_) | HeaderOp::PushMpls(_) | HeaderOp::PushPbb(_) => false,
            HeaderOp::PopVlan => hidden,
            HeaderOp::PopMpls(_) | HeaderOp::PopPbb | HeaderOp::CopyTtlOut | HeaderOp::CopyTtlIn => true,
            HeaderOp::SetEtherType(_) | HeaderOp::SetBottom(_) | HeaderOp::SetProtocol(_) => true,
        };
        if done.is_err() {
            // The packet is cut short behind what its key has. It ends where the operation is done;
            // packets that are whole come back to be followed further.
            self.state.opaque = true;
            self.freeze_rest();
        }
    }

    /// The operation that sets a field which says what follows it; nothing for other fields.
    pub(super) fn says_what_follows(&mut self, field: Field, value: u128, mask: u128) -> Option<HeaderOp> {
        if !field.about().leads {
            return None;
        }
        let value = self.examine_field(field) & !mask | value & mask;
        Some(match field {
            Field::EthType => HeaderOp::SetEtherType(value as u16),
            Field::MplsBos => HeaderOp::SetBottom(value & 1 != 0),
            _ => HeaderOp::SetProtocol(value as u8),
        })
    }

    /// Whether there are more tags than the key has, and so headers that it does not have.
    pub(super) fn hides_more(&self) -> bool {
        matches!(Field::EthType.get(&self.state.key), 0x8100 | 0x88a8)
    }

    /// Whether the packet has what an operation changes. Without, it is left as it is, as Open vSwitch
    /// leaves it.
    pub(super) fn has_for(&mut self, op: HeaderOp) -> bool {
        match op {
            HeaderOp::PushVlan(_) | HeaderOp::PushMpls(_) | HeaderOp::PushPbb(_) => true,
            HeaderOp::PopVlan => self.has_tag(),
            HeaderOp::PopMpls(_) | HeaderOp::CopyTtlOut | HeaderOp::CopyTtlIn => self.is_there(Needs::Mpls),
            HeaderOp::PopPbb => self.is_there(Needs::Pbb),
            HeaderOp::SetEtherType(_) => Field::EthType.get(&self.state.key) != u128::from(NO_ETHER_TYPE),
            HeaderOp::SetBottom(_) => self.is_there(Needs::Mpls),
            HeaderOp::SetProtocol(_) => {
                self.is_there(Needs::Ip) && self.examine_field(Field::Ipv6Exthdr) == 0
            }
        }
    }
}

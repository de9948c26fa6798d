//! Operations on headers: tags and labels pushed and popped, and fields that say what follows.

use super::edit;
use weir_flow::{Key, Layout};
use weir_packet::{DropReason, Frame};

/// Operations on headers, without further words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderOp {
    PushVlan(u16),
    PopVlan,
    PushMpls(u16),
    PopMpls(u16),
    PushPbb(u16),
    PopPbb,
    CopyTtlOut,
    CopyTtlIn,
    SetEtherType(u16),
    SetBottom(bool),
    SetProtocol(u8),
}

impl HeaderOp {
    /// Does it.
    pub(crate) fn apply<F: Frame + ?Sized>(
        self,
        frame: &mut F,
        layout: &mut Layout,
        key: &mut Key,
    ) -> Result<(), DropReason> {
        match self {
            Self::PushVlan(tpid) => edit::push_vlan(frame, layout, key, tpid),
            Self::PopVlan => edit::pop_vlan(frame, layout, key),
            Self::PushMpls(ethertype) => edit::push_mpls(frame, layout, key, ethertype),
            Self::PopMpls(ethertype) => edit::pop_mpls(frame, layout, key, ethertype),
            Self::PushPbb(tpid) => edit::push_pbb(frame, layout, key, tpid),
            Self::PopPbb => edit::pop_pbb(frame, layout, key),
            Self::CopyTtlOut => edit::copy_ttl_out(frame, layout, key),
            Self::CopyTtlIn => edit::copy_ttl_in(frame, layout, key),
            Self::SetEtherType(ethertype) => edit::set_ether_type(frame, layout, key, ethertype),
            Self::SetBottom(bottom) => edit::set_bottom(frame, layout, key, bottom),
            Self::SetProtocol(protocol) => edit::set_protocol(frame, layout, key, protocol),
        }
    }
}

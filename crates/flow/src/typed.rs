//! What is read of keys most often, as what it is.

use crate::field::span::{ADDRESSES, CUT, ETH_TYPE, PORTS, PROTOCOL, TCI, TOS, TTL};
use crate::field::{Field, Span};
use crate::key::Key;

const IN_PORT: Span = Field::InPort.span();
const FRAGMENT: Span = Field::NwFrag.span();
const CT_STATE: Span = Field::CtState.span();

impl Key {
    /// The port that the packet came in by.
    #[inline]
    pub fn in_port(&self) -> u32 {
        IN_PORT.get(self) as u32
    }

    /// The EtherType.
    #[inline]
    pub fn ether_type(&self) -> u16 {
        ETH_TYPE.get(self) as u16
    }

    /// The outermost tag, with [`crate::protocol::TAG_PRESENT`]; 0 without one.
    #[inline]
    pub fn tci(&self) -> u16 {
        TCI.get(self) as u16
    }

    /// Both addresses of IPv4 or ARP, as they lie in an IPv4 header.
    #[inline]
    pub fn addresses(&self) -> u64 {
        ADDRESSES.get(self)
    }

    /// IP's protocol.
    #[inline]
    pub fn protocol(&self) -> u8 {
        PROTOCOL.get(self) as u8
    }

    /// IP's type of service, ECN included.
    #[inline]
    pub fn tos(&self) -> u8 {
        TOS.get(self) as u8
    }

    /// IP's time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        TTL.get(self) as u8
    }

    /// Both ports, the source in the upper half; or ICMP's type and code in the same places.
    #[inline]
    pub fn ports(&self) -> u32 {
        PORTS.get(self) as u32
    }

    /// Bits of `nw_frag`: [`crate::protocol::FRAGMENT_ANY`], [`crate::protocol::FRAGMENT_LATER`].
    #[inline]
    pub fn fragment(&self) -> u8 {
        FRAGMENT.get(self) as u8
    }

    /// Bits of `ct_state`.
    #[inline]
    pub fn ct_state(&self) -> u8 {
        CT_STATE.get(self) as u8
    }

    /// Whether the packet is too short for its transport header.
    #[inline]
    pub fn is_cut(&self) -> bool {
        CUT.get(self) != 0
    }
}

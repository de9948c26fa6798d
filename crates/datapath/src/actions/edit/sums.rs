//! Checksums that follow what is changed (RFC 1624, equation 3), without reading the packet.

use super::{Version, at};
use weir_flow::Layout;
use weir_flow::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use weir_packet::DropReason;
use weir_wire::checksum::{finish, udp_nonzero};
use weir_wire::crc32c;

/// By what the sum over some 16-bit words changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change(u32);

impl Change {
    /// Four words change.
    #[inline]
    pub(super) fn of(self, old: u64, new: u64) -> Self {
        if old == new {
            return self;
        }
        let words = |value: u64| {
            let pairs = (value & 0x0000_ffff_0000_ffff) + ((value >> 16) & 0x0000_ffff_0000_ffff);
            (pairs as u32) + (pairs >> 32) as u32
        };
        Self(self.0 + words(!old) + words(new))
    }

    /// Eight words change.
    pub(super) fn of_wide(self, old: u128, new: u128) -> Self {
        self.of((old >> 64) as u64, (new >> 64) as u64).of(old as u64, new as u64)
    }

    /// One word changes.
    #[inline]
    pub(super) fn of_word(self, old: u16, new: u16) -> Self {
        if old == new { self } else { Self(self.0 + u32::from(!old) + u32::from(new)) }
    }

    /// The checksum field after the change.
    #[inline]
    pub(super) fn applied(self, field: u16) -> u16 {
        if self.0 == 0 { field } else { finish(u32::from(!field) + self.0) }
    }

    /// Changes the field at an offset.
    #[inline]
    pub(super) fn apply(self, bytes: &mut [u8], offset: usize) -> Result<(), DropReason> {
        let field = at::<2>(bytes, offset)?;
        *field = self.applied(u16::from_be_bytes(*field)).to_be_bytes();
        Ok(())
    }
}

/// What changes for a transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transport {
    pub(super) version: Version,
    pub(super) protocol: u8,
    /// The addresses of its pseudo-header.
    pub(super) addresses: Change,
    /// Ports before and after, source in the upper half; or type and code, in the same places.
    pub(super) ports: (u32, u32),
}

impl Transport {
    /// Writes ports, or type and code, and the checksum. The layout has a transport header.
    #[inline]
    pub(super) fn apply(self, bytes: &mut [u8], layout: &Layout) -> Result<(), DropReason> {
        let offset = usize::from(layout.transport);
        match self.protocol {
            TCP => {
                self.write_ports(bytes, offset)?;
                self.pseudo_and_ports().apply(bytes, offset + 16)
            }
            UDP => {
                self.write_ports(bytes, offset)?;
                let field = at::<2>(bytes, offset + 6)?;
                let (old, change) = (u16::from_be_bytes(*field), self.pseudo_and_ports());
                if old != 0 && change != Change::default() {
                    *field = udp_nonzero(change.applied(old)).to_be_bytes();
                }
                Ok(())
            }
            _ => self.others(bytes, layout),
        }
    }

    #[inline]
    fn pseudo_and_ports(self) -> Change {
        self.addresses.of(u64::from(self.ports.0), u64::from(self.ports.1))
    }

    #[inline]
    fn write_ports(self, bytes: &mut [u8], offset: usize) -> Result<(), DropReason> {
        if self.ports.0 != self.ports.1 {
            *at::<4>(bytes, offset)? = self.ports.1.to_be_bytes();
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn others(self, bytes: &mut [u8], layout: &Layout) -> Result<(), DropReason> {
        let offset = usize::from(layout.transport);
        match (self.protocol, self.version) {
            (SCTP, _) => {
                self.write_ports(bytes, offset)?;
                let change = (self.ports.0 ^ self.ports.1).to_be_bytes();
                let behind = u32::from(layout.end.saturating_sub(layout.transport)).saturating_sub(4);
                let field = at::<4>(bytes, offset + 8)?;
                *field = (u32::from_le_bytes(*field) ^ crc32c::effect(&change, behind)).to_le_bytes();
                Ok(())
            }
            (ICMP, Version::Four) | (ICMPV6, Version::Six) => {
                let word = |ports: u32| (ports >> 8) as u16 & 0xff00 | ports as u16 & 0xff;
                let (old, new) = (word(self.ports.0), word(self.ports.1));
                *at::<2>(bytes, offset)? = new.to_be_bytes();
                let pseudo = if self.protocol == ICMPV6 { self.addresses } else { Change::default() };
                pseudo.of_word(old, new).apply(bytes, offset + 2)
            }
            _ => Ok(()),
        }
    }
}

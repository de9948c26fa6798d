//! TCP, UDP, SCTP, ICMP, ICMPv6 and neighbour discovery.

use super::{TCP_FLAGS, Walk, be16, be32, mac, offset};
use crate::field::Field;
use crate::field::span::{CUT, PORTS};
use crate::neighbour::Neighbour;
use crate::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};

impl Walk<'_> {
    /// The transport header, if it is one that has fields; one that is not whole is noted.
    pub(super) fn transport(&mut self, at: usize, protocol: u8) {
        let header = match protocol {
            TCP => self.tcp(at),
            UDP => self.ports::<8>(at),
            SCTP => self.ports::<12>(at),
            ICMP | ICMPV6 => self.icmp(at, protocol),
            _ => return,
        };
        match header {
            Some(header) => {
                self.layout.transport = offset(at);
                self.layout.payload = offset(at + header);
            }
            None => CUT.set(self.key, 1),
        }
    }

    fn set_ports(&mut self, ports: u32) {
        PORTS.set(self.key, u64::from(ports));
    }

    /// A header of `N` bytes that starts with source and destination port: UDP's has 8, SCTP's common
    /// header 12 (RFC 9260, section 3.1).
    fn ports<const N: usize>(&mut self, at: usize) -> Option<usize> {
        self.set_ports(be32(self.bytes::<N>(at)?, 0));
        Some(N)
    }

    fn tcp(&mut self, at: usize) -> Option<usize> {
        let header = self.bytes::<20>(at)?;
        let len = usize::from(header[12] >> 4) * 4;
        if len < header.len() || self.frame.len() < at + len {
            return None;
        }
        self.set_ports(be32(header, 0));
        TCP_FLAGS.set(self.key, u64::from(be16(header, 12)));
        Some(len)
    }

    fn icmp(&mut self, at: usize, protocol: u8) -> Option<usize> {
        let header = self.bytes::<8>(at)?;
        let (kind, code) = (header[0], header[1]);
        self.set_ports(u32::from(kind) << 16 | u32::from(code));
        if protocol == ICMPV6 && Neighbour::is(kind, code) {
            self.neighbour(at);
        }
        Some(header.len())
    }

    /// Target and link-layer addresses of neighbour discovery.
    fn neighbour(&mut self, at: usize) {
        let found = Neighbour::find(&self.frame[at..]);
        if let Some(target) = found.target.and_then(|target| self.bytes::<16>(at + target)) {
            Field::NdTarget.set(self.key, u128::from_be_bytes(*target));
        }
        for (field, address) in [(Field::NdSll, found.source), (Field::NdTll, found.destination)] {
            if let Some(address) = address.and_then(|address| self.bytes::<6>(at + address)) {
                field.span().set(self.key, mac(*address));
            }
        }
    }
}

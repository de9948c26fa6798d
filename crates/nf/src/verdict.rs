//! What a network function says about a packet.

use weir_dpdk::BURST;

/// Ports of the program: what comes in by one normally leaves by the other.
pub const PORTS: usize = 2;

/// The port opposite.
pub const fn other_port(port: u8) -> u8 {
    port ^ 1
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Too short for the headers that the function must read.
    TooShort,
    /// Not IPv4 (EtherType other than 0x0800): no route or rule speaks of it.
    NotIpv4,
    /// IPv4 header with a wrong version, header length or total length (RFC 1812, section 5.2.2).
    BadHeader,
    /// IPv4 header checksum wrong (RFC 1812, section 5.2.2).
    BadChecksum,
    /// Time to live used up (RFC 1812, section 5.3.1).
    TtlExpired,
    /// No route to the destination.
    NoRoute,
    /// A rule denies it, or none allows it.
    Denied,
    /// The port it was to leave by did not take it: its transmit ring was full.
    TransmitFull,
    /// Lost on purpose ([`crate::Fault`]).
    Injected,
}

impl DropReason {
    /// Every reason, in the order they are counted and printed.
    pub const ALL: [Self; 9] = [
        Self::TooShort,
        Self::NotIpv4,
        Self::BadHeader,
        Self::BadChecksum,
        Self::TtlExpired,
        Self::NoRoute,
        Self::Denied,
        Self::TransmitFull,
        Self::Injected,
    ];

    /// Name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too-short",
            Self::NotIpv4 => "not-ipv4",
            Self::BadHeader => "bad-header",
            Self::BadChecksum => "bad-checksum",
            Self::TtlExpired => "ttl-expired",
            Self::NoRoute => "no-route",
            Self::Denied => "denied",
            Self::TransmitFull => "transmit-full",
            Self::Injected => "injected",
        }
    }
}

/// What becomes of a packet, in one byte, so that the verdicts of a burst are compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(u8);

/// A [`Verdict`], to be matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet leaves by this port.
    Forward(u8),
    /// It ends here.
    Drop(DropReason),
}

impl Verdict {
    /// The packet leaves by this port, of [`PORTS`].
    #[inline]
    pub const fn forward(port: u8) -> Self {
        Self(port % PORTS as u8)
    }

    /// The packet ends here.
    #[inline]
    pub const fn drop(reason: DropReason) -> Self {
        Self(PORTS as u8 + reason as u8)
    }

    /// What it says.
    #[inline]
    pub const fn outcome(self) -> Outcome {
        match self.0 {
            port if port < PORTS as u8 => Outcome::Forward(port),
            reason => Outcome::Drop(DropReason::ALL[(reason - PORTS as u8) as usize]),
        }
    }
}

/// The verdicts of a burst, one a packet, in order.
pub type Verdicts = [Verdict; BURST];

/// A network function: judges packets, and rewrites those it forwards.
pub trait NetworkFunction {
    /// Whether [`Self::process`] forwards every packet to the port opposite, unread and unchanged.
    /// The worker then hands bursts over whole, and does not call it.
    const TRANSPARENT: bool = false;

    /// Judges the frames (Ethernet, without FCS) that came in by `port`, at most
    /// [`weir_dpdk::BURST`] of them, into the first places of `verdicts`.
    fn process<'a>(&self, port: u8, frames: impl Iterator<Item = &'a mut [u8]>, verdicts: &mut Verdicts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_say_what_they_were_made_of() {
        assert_eq!([0, 1].map(|port| Verdict::forward(port).outcome()), [0, 1].map(Outcome::Forward));
        for reason in DropReason::ALL {
            assert_eq!(Verdict::drop(reason).outcome(), Outcome::Drop(reason));
        }
    }

    #[test]
    fn reasons_are_listed_by_number_under_distinct_names() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(DropReason::ALL[..index].iter().all(|other| other.name() != reason.name()));
        }
    }
}

//! Why a packet was dropped: one closed list for the whole switch.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $reason:ident $name:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])* $reason,)*
        }

        impl DropReason {
            /// Every reason, in the order they are counted and printed.
            pub const ALL: &'static [Self] = &[$(Self::$reason),*];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Name in tables, JSON and metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// What it means, in one line.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$reason => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

reasons! {
    /// Shorter than an Ethernet header.
    TooShort "too-short";
    /// In several buffers: larger than the ports were set up for.
    Chained "chained";
    /// Longer than the ports were set up for, or than the interface it was to leave by takes.
    TooLong "too-long";
    /// No flow entry matches, and there is no table-miss entry.
    NoMatch "no-match";
    /// A flow entry says so: an empty action list, or `drop`.
    ByFlow "by-flow";
    /// IPv4 header with a wrong version, header length or total length, where an action had to change it.
    BadHeader "bad-header";
    /// Time to live used up.
    TtlExpired "ttl-expired";
    /// An action asks for a header that the packet does not have.
    NoSuchHeader "no-such-header";
    /// No room in the buffer for a header that an action pushes.
    NoRoom "no-room";
    /// The port it came in by was told to receive nothing.
    PortDown "port-down";
    /// The port it was to leave by does not exist, or is down.
    NoPort "no-port";
    /// It was to leave by the port it came in by, without `in_port` being named.
    InPort "in-port";
    /// The group it was sent to does not exist.
    NoGroup "no-group";
    /// No bucket of the group is alive.
    NoBucket "no-bucket";
    /// A meter's band.
    Meter "meter";
    /// The transmit ring of the port was full.
    TransmitFull "transmit-full";
    /// The queue to the controller was full, or nobody listens.
    Controller "controller";
    /// Too many resubmissions, stages, recirculations, nested copies or actions: a loop, or too much work.
    TooDeep "too-deep";
    /// No packet buffer was free for a copy.
    NoBuffer "no-buffer";
    /// More copies of one received packet than there may be.
    CopyLimit "copy-limit";
    /// The ring to the worker that owns its flow was full.
    HandOver "hand-over";
    /// More new flows than the slow path may serve at this moment.
    UpcallLimit "upcall-limit";
    /// A service says so.
    ByService "by-service";
    /// The service does not exist.
    NoService "no-service";
    /// A service panicked over it.
    ServicePanic "service-panic";
    /// The service is in quarantine, and its policy is to drop.
    Quarantine "quarantine";
    /// Connection tracking: the packet fits no connection and may not open one.
    ConntrackInvalid "conntrack-invalid";
    /// Connection tracking: a limit of connections, or of fragments, is reached.
    ConntrackLimit "conntrack-limit";
    /// Address translation: every address and port that it may have is taken.
    NatExhausted "nat-exhausted";
    /// Lost on purpose.
    Injected "injected";
    /// The switch was stopping, or the port was removed.
    Stopping "stopping";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_by_number_under_distinct_names() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(DropReason::ALL[..index].iter().all(|other| other.name() != reason.name()));
            assert!(reason.about().ends_with('.'), "{}", reason.about());
        }
    }
}

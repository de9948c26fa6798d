//! Why a packet is not allowed, and what the tracker counts.

macro_rules! names {
    ($(#[$of:meta])* $kind:ident { $($(#[doc = $doc:literal])* $variant:ident $name:literal;)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $kind {
            $($(#[doc = $doc])* $variant,)*
        }

        impl $kind {
            /// Every one, in the order they are counted and printed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name in tables, JSON and metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

names! {
    /// Why a packet is not allowed.
    Reason {
        /// It belongs to no connection, and the flow entry does not let it open one.
        NotCommitted "not-committed";
        /// It belongs to no connection and cannot open one: TCP without SYN, an ICMP reply.
        NotOpening "invalid-not-opening";
        /// A header is cut off, or its lengths contradict each other.
        Truncated "invalid-truncated";
        /// TCP flags that no host sends together.
        TcpFlags "invalid-tcp-flags";
        /// TCP: does not fit the handshake under way.
        Handshake "invalid-handshake";
        /// TCP: data beyond the receiver's window, or behind a FIN (van Rooij's rule I).
        SeqAbove "invalid-seq-above";
        /// TCP: data older than a window (rule II).
        SeqBelow "invalid-seq-below";
        /// TCP: acknowledges what was never sent (rule III).
        AckAbove "invalid-ack-above";
        /// TCP: acknowledges what is older than a window (rule IV).
        AckBelow "invalid-ack-below";
        /// TCP: a reset outside the window (RFC 5961).
        Reset "invalid-reset";
        /// A checksum is wrong.
        Checksum "invalid-checksum";
        /// An ICMP type that neither asks, answers nor reports.
        IcmpType "invalid-icmp-type";
        /// An ICMP error about no connection that is known, or about what cannot be.
        IcmpError "invalid-icmp-error";
        /// Neighbour discovery or multicast listener discovery that came through a router.
        Discovery "invalid-discovery";
        /// A later fragment without its first, or one that overlaps headers.
        Fragment "invalid-fragment";
        /// There is no room for another connection, and none that could make room.
        LimitConnections "limit-connections";
        /// The zone has as many connections as it may, none of them half-open.
        LimitZone "limit-zone";
        /// No room for another fragmented packet, or for another hole in one.
        LimitFragments "limit-fragments";
        /// As many connections have a helper, or are related to one that has, as there can be.
        LimitHelper "limit-helper";
        /// Every address and port to translate to is taken.
        NatExhausted "nat-exhausted";
    }
}

impl Reason {
    /// Whether it is a limit and not the packet's fault.
    pub const fn is_limit(self) -> bool {
        use Reason as R;
        matches!(
            self,
            R::LimitConnections | R::LimitZone | R::LimitFragments | R::LimitHelper | R::NatExhausted
        )
    }

    /// Whether `ct_state` says `inv`.
    pub const fn is_invalid(self) -> bool {
        !self.is_limit() && !matches!(self, Self::NotCommitted)
    }

    /// The switch's reason, for those that drop by themselves.
    pub const fn drop_reason(self) -> weir_packet::DropReason {
        if matches!(self, Self::NatExhausted) {
            weir_packet::DropReason::NatExhausted
        } else if self.is_limit() {
            weir_packet::DropReason::ConntrackLimit
        } else {
            weir_packet::DropReason::ConntrackInvalid
        }
    }
}

names! {
    /// What the tracker counts beside the reasons.
    Event {
        /// Packets allowed as the first of a connection, or before its answer.
        New "packets-new";
        /// Packets allowed as part of an answered connection.
        Established "packets-established";
        /// Packets allowed as related to a connection: ICMP errors, and connections that a helper expected.
        Related "packets-related";
        /// Packets passed without being tracked: ARP, neighbour and listener discovery, what is not IP.
        Untracked "packets-untracked";
        /// Later fragments that followed their first.
        Fragments "packets-fragments";
        /// TCP: resets and SYNs that pass without effect, to be challenged by who receives them.
        Challenged "packets-challenged";
        /// Connections made.
        Created "created";
        /// Connections that timed out.
        Expired "expired";
        /// Connections that gave way to a new one with the same tuple.
        Reopened "reopened";
        /// Half-open connections that gave way to younger ones.
        Evicted "evicted";
        /// Settled connections, idle for the longest time, that gave way to new ones.
        EvictedSettled "evicted-settled";
        /// Connections removed by command.
        Flushed "flushed";
        /// Connections whose addresses are translated.
        Translated "translated";
        /// Data connections that helpers read an announcement of.
        HelperExpected "helper-expected";
        /// Connections that were expected, and made.
        HelperRelated "helper-related";
        /// Announcements that are not believed: of another host, or of a port below 1024; or too many at once.
        HelperIgnored "helper-ignored";
        /// Fragmented packets remembered.
        FragmentRecords "fragment-records";
        /// Fragmented packets of which all fragments came.
        FragmentsWhole "fragments-whole";
        /// Fragmented packets that were forgotten before all of them came, as there was no room.
        FragmentsEvicted "fragments-evicted";
    }
}

/// How often each happened.
#[derive(Clone, Debug)]
pub struct Counters {
    reasons: [u64; Reason::ALL.len()],
    events: [u64; Event::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self { reasons: [0; Reason::ALL.len()], events: [0; Event::ALL.len()] }
    }
}

impl Counters {
    #[inline]
    pub(super) fn refuse(&mut self, reason: Reason) {
        self.reasons[reason as usize] += 1;
    }

    #[inline]
    pub(super) fn count(&mut self, event: Event) {
        self.events[event as usize] += 1;
    }

    /// How many packets this happened to.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// How often this happened.
    #[inline]
    pub fn of(&self, event: Event) -> u64 {
        self.events[event as usize]
    }

    /// All, by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let events = Event::ALL.iter().map(|&event| (event.name(), self.of(event)));
        events.chain(Reason::ALL.iter().map(|&reason| (reason.name(), self.refused(reason))))
    }
}

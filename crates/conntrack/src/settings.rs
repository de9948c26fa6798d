//! What a `conntrack` service can be told.

use super::entry::State;
use super::wheel::Tick;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most connections an instance can be told to hold.
const MOST_CONNECTIONS: u32 = 1 << 28;

/// The longest timeout, in seconds (100 days): ticks wrap around after 834 days.
const LONGEST: u32 = 100 * 86_400;

/// The most fragmented packets remembered.
const MOST_FRAGMENTS: u32 = 1 << 20;

/// Settings of the `conntrack` service. Limits hold for each worker, as each has a table of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Connections that a worker holds at most. When it is reached, the oldest half-open connection
    /// makes room; if there is none, new ones are refused. Address space for as many (about 300 B
    /// each) is reserved at the start; memory is taken as they come.
    pub connections: u32,
    /// Connections at most that are half-open: TCP before its handshake is complete, anything else
    /// before an answer. When it is reached, the oldest makes room. 0: as many as `connections`.
    pub half_open: u32,
    /// Connections that a zone has at most; 0: as many as there are.
    pub zone_connections: u32,
    /// The same for single zones, by number.
    pub zones: BTreeMap<u16, u32>,
    /// Whether TCP connections may be met in their middle: an ACK that the flow entry lets open a
    /// connection does so, and windows are taken as wide as the widest scaling. On, as with Linux
    /// (`nf_conntrack_tcp_loose`) and OVS: connections outlive a restart. Off: they begin with a SYN.
    pub loose: bool,
    /// Which checksums are verified.
    pub checksums: Checksums,
    /// What becomes of fragments that arrive before their packet's first one.
    pub early_fragments: EarlyFragments,
    /// Fragmented packets remembered at once; their later fragments follow the first one's verdict.
    pub fragments: u32,
    /// Whether packets and bytes of each connection are counted, as `dump` shows them. Off: it costs a
    /// cache line a packet.
    pub accounting: bool,
    /// Whether the memory of all connections is taken at the start. Off: it is taken as they come, in
    /// huge pages where the kernel grants them; each, once in about 30,000 connections, costs some
    /// hundred microseconds.
    pub prefault: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
}

/// Which transport checksums are verified; a packet with a wrong one is invalid. Fragments have none
/// that could be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Checksums {
    /// None.
    None,
    /// Of packets that begin or end something, as they are what a forger would have the tracker
    /// believe but not the host: TCP with SYN, FIN or RST, and ICMP. Costs nothing for data.
    #[default]
    State,
    /// Of every TCP, UDP and ICMP packet, as Linux does (`nf_conntrack_checksum`). Reads all of each
    /// packet: about a cycle for each 4 bytes, more where they are not in a cache.
    All,
}

/// What becomes of fragments that arrive before the first one, which has the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EarlyFragments {
    /// They are invalid. Hosts send the first one first; what overtakes it on the way is lost.
    #[default]
    Drop,
    /// They pass untracked: nothing can be made of them without the first, but they reach the host.
    Pass,
}

/// Timeouts in seconds, of the packets' own clock. Those of TCP, UDP and ICMP are Linux's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// TCP: a SYN, unanswered.
    pub tcp_syn_sent: u32,
    /// TCP: answered, the handshake not complete.
    pub tcp_syn_received: u32,
    /// TCP: established, nothing on its way.
    pub tcp_established: u32,
    /// TCP: established, and something waits for its acknowledgement.
    pub tcp_unacknowledged: u32,
    /// TCP: a FIN, not acknowledged.
    pub tcp_fin_wait: u32,
    /// TCP: a FIN, acknowledged; the other side may still send.
    pub tcp_close_wait: u32,
    /// TCP: FINs of both sides, not both acknowledged.
    pub tcp_last_ack: u32,
    /// TCP: closed by both.
    pub tcp_time_wait: u32,
    /// TCP: reset.
    pub tcp_closed: u32,
    /// UDP, no answer yet.
    pub udp_single: u32,
    /// UDP, both ways.
    pub udp_multiple: u32,
    /// ICMP requests.
    pub icmp: u32,
    /// Other protocols.
    pub other: u32,
    /// Fragmented packets.
    pub fragment: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 1 << 22,
            half_open: 1 << 20,
            zone_connections: 0,
            zones: BTreeMap::new(),
            loose: true,
            checksums: Checksums::default(),
            early_fragments: EarlyFragments::default(),
            fragments: 4096,
            accounting: false,
            prefault: false,
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_syn_sent: 120,
            tcp_syn_received: 60,
            tcp_established: 432_000,
            tcp_unacknowledged: 300,
            tcp_fin_wait: 120,
            tcp_close_wait: 60,
            tcp_last_ack: 30,
            tcp_time_wait: 120,
            tcp_closed: 10,
            udp_single: 30,
            udp_multiple: 120,
            icmp: 30,
            other: 600,
            fragment: 30,
        }
    }
}

impl Settings {
    /// The settings in a JSON object.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn read(value: &serde_json::Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err(format!("its settings must be a table of names and values, not {value}"));
        }
        let settings: Self = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("`{name}` is {value}; it must be from {least} to {most}"))
        };
        within("connections", self.connections, 1, MOST_CONNECTIONS)?;
        within("half_open", self.half_open, 0, MOST_CONNECTIONS)?;
        within("fragments", self.fragments, 0, MOST_FRAGMENTS)?;
        for (name, value) in self.timeouts.named() {
            within(&format!("timeouts.{name}"), value, 1, LONGEST)?;
        }
        Ok(())
    }

    /// Half-open connections at most.
    pub(super) const fn most_half_open(&self) -> u32 {
        if self.half_open == 0 || self.half_open > self.connections {
            self.connections
        } else {
            self.half_open
        }
    }

    /// Connections that this zone has at most.
    pub(super) fn most_in_zone(&self, zone: u16) -> u32 {
        match self.zones.get(&zone).copied().unwrap_or(self.zone_connections) {
            0 => u32::MAX,
            most => most,
        }
    }
}

impl Timeouts {
    fn named(&self) -> [(&'static str, u32); 14] {
        [
            ("tcp_syn_sent", self.tcp_syn_sent),
            ("tcp_syn_received", self.tcp_syn_received),
            ("tcp_established", self.tcp_established),
            ("tcp_unacknowledged", self.tcp_unacknowledged),
            ("tcp_fin_wait", self.tcp_fin_wait),
            ("tcp_close_wait", self.tcp_close_wait),
            ("tcp_last_ack", self.tcp_last_ack),
            ("tcp_time_wait", self.tcp_time_wait),
            ("tcp_closed", self.tcp_closed),
            ("udp_single", self.udp_single),
            ("udp_multiple", self.udp_multiple),
            ("icmp", self.icmp),
            ("other", self.other),
            ("fragment", self.fragment),
        ]
    }

    /// The timeout of each state, in ticks, by its number.
    pub(super) fn ticks(&self) -> [u32; State::ALL.len()] {
        State::ALL.map(|state| {
            Tick::seconds(match state {
                State::SynSent => self.tcp_syn_sent,
                State::SynReceived => self.tcp_syn_received,
                State::Established => self.tcp_established,
                State::FinWait => self.tcp_fin_wait,
                State::CloseWait => self.tcp_close_wait,
                State::LastAck => self.tcp_last_ack,
                State::TimeWait => self.tcp_time_wait,
                State::Closed => self.tcp_closed,
                State::UdpSingle => self.udp_single,
                State::UdpMultiple => self.udp_multiple,
                State::Icmp => self.icmp,
                State::OtherSingle | State::OtherMultiple => self.other,
            })
        })
    }
}

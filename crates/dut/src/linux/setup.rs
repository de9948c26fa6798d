//! What makes a kernel a network function, step by step: the same in a namespace here and in a guest.

use super::ruleset;
use crate::wiring::INTERFACES;
use std::fmt::Write as _;
use weir_trial::Nf;
use weir_wire::table::{next_hop_mac, port_mac};

/// Settings below `/proc/sys`; those that a kernel does not have are passed over.
pub(crate) type Settings = &'static [(&'static str, &'static str)];

/// How a kernel becomes a network function.
pub(crate) struct Setup {
    /// In words.
    pub(crate) what: String,
    pub(crate) steps: Vec<Step>,
}

/// One of its steps.
pub(crate) enum Step {
    Settings(Settings),
    /// What `ip -batch` reads.
    Ip(String),
    /// What `nft -f` reads.
    Nft(String),
}

/// Where the kernel has br_netfilter, bridged packets would visit the IP layer's hooks as well.
const BRIDGE: Settings = &[
    ("net/bridge/bridge-nf-call-iptables", "0"),
    ("net/bridge/bridge-nf-call-ip6tables", "0"),
    ("net/bridge/bridge-nf-call-arptables", "0"),
];

const ROUTER: Settings = &[
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/port0/rp_filter", "0"),
    ("net/ipv4/conf/port1/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/port0/send_redirects", "0"),
    ("net/ipv4/conf/port1/send_redirects", "0"),
    // A router need not look whether one of its own sockets waits for a packet.
    ("net/ipv4/ip_early_demux", "0"),
];

/// What has ended is forgotten after a second, not after 120: else the connections of a search fill the tracker
/// (`nf_conntrack_max`, 262,144 unless the machine was told otherwise), and it takes no more for two minutes.
const TRACKER: Settings = &[
    ("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "1"),
    ("net/netfilter/nf_conntrack_tcp_timeout_close", "1"),
];

impl Setup {
    /// Of a function; why not, where the kernel cannot be it.
    pub(crate) fn of(nf: Nf) -> Result<Self, String> {
        let bridge = || vec![Step::Ip(bridge()), Step::Settings(BRIDGE)];
        match nf {
            Nf::L2Fwd => Ok(Self { what: "bridge".to_owned(), steps: bridge() }),
            Nf::Firewall { .. } => {
                let rules = nf.rules();
                let what = format!("bridge, nftables chain of {} rules", rules.len());
                let steps = bridge().into_iter().chain([Step::Nft(ruleset::firewall(&rules))]);
                Ok(Self { what, steps: steps.collect() })
            }
            Nf::L3Fwd { .. } => Ok(Self {
                what: format!("{} routes in the main table", nf.routes().len()),
                steps: router(nf).into(),
            }),
            Nf::Nat { addresses } => {
                let tracked = [Step::Nft(ruleset::nat(nf)), Step::Settings(TRACKER)];
                let steps = router(nf).into_iter().chain(tracked);
                Ok(Self {
                    what: format!(
                        "routes, nftables snat to {addresses} addresses, ended connections forgotten after 1 s"
                    ),
                    steps: steps.collect(),
                })
            }
            nf => Err(crate::wants_tables(super::NAME, nf)),
        }
    }
}

/// A router with the function's routes.
fn router(nf: Nf) -> [Step; 4] {
    [
        Step::Settings(ROUTER),
        Step::Ip(routes(nf)),
        Step::Nft(ruleset::ROUTER.to_owned()),
        Step::Settings(&[("net/ipv4/ip_forward", "1")]),
    ]
}

/// A bridge of both ports.
fn bridge() -> String {
    let mut script = "link add weir type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n".to_owned();
    for (name, mac) in addressed() {
        let _ = writeln!(script, "link set {name} address {mac}");
        let _ =
            writeln!(script, "link set {name} master weir\nlink set {name} type bridge_slave learning off");
    }
    script + "link set weir up\n"
}

/// Its neighbours and routes.
fn routes(nf: Nf) -> String {
    // With the loopback up there is a table of local addresses, without which no gateway is accepted.
    let mut script = "link set lo up\n".to_owned();
    for ((port, mac), number) in addressed().zip(0..) {
        let (hop, neighbour) = (next_hop(number), text(next_hop_mac(number)));
        let _ = writeln!(script, "link set {port} address {mac}");
        let _ = writeln!(script, "neigh replace {hop} dev {port} lladdr {neighbour} nud permanent");
    }
    for route in &nf.routes() {
        let port = INTERFACES[usize::from(route.port)];
        let _ = writeln!(script, "route add {} via {} dev {port} onlink", route.prefix, next_hop(route.port));
    }
    // What no route leads anywhere is dropped in silence, as other devices do.
    script + "route add blackhole default\n"
}

/// The ports with the MAC addresses that a device's ports have.
fn addressed() -> impl Iterator<Item = (&'static str, String)> {
    INTERFACES.into_iter().zip((0..).map(port_mac).map(text))
}

/// A MAC address as people write it.
pub(crate) fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Address of the neighbour on a port: link-local (RFC 3927), so that no route of the test network
/// leads there.
fn next_hop(port: u8) -> String {
    format!("169.254.{port}.2")
}

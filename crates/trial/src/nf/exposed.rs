//! The rule list of [`super::Nf::Exposed`]: what tuple-space explosion needs, and no more.
//!
//! A list of a few rules, each about one field alone, explodes a cache of megaflows: a packet that none of
//! them denies must differ from each in some bit, and a cache that remembers which bit has a mask for
//! each combination of them (Csikor, Divakaran, Kang, Kőrösi, Sonkoly, Haja, Pezaros, Schmid and Rétvári,
//! "Tuple Space Explosion", CoNEXT 2019). Theirs allows three values and denies the rest, which comes to the
//! same; here the rest passes, so that what a trial loses is the device's loss.

use std::net::Ipv4Addr;
use weir_wire::ipv4;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule};

/// The destination port that is denied.
pub const DENIED_DESTINATION_PORT: u16 = 80;
/// The source address that is denied.
pub const DENIED_SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The source port that is denied.
pub const DENIED_SOURCE_PORT: u16 = 53;

/// Bits of the denied values: destination port, source address, source port. Each combination of bits of the fields
/// in the list is a mask.
pub const DENIED_BITS: [u32; 3] = [16, 32, 16];

/// A rule for each of the first `fields` of destination port, source address and source port, and one that
/// lets everything else pass.
pub(super) fn list(fields: u32) -> Vec<Rule> {
    let any = Rule { action: Action::Deny, protocol: Some(ipv4::UDP), ..Rule::ALLOW_ALL };
    let port = |port| Ports::Range { first: port, last: port };
    let denied = [
        Rule { destination_ports: port(DENIED_DESTINATION_PORT), ..any },
        Rule { source: Ipv4Prefix::covering(DENIED_SOURCE, 32), ..any },
        Rule { source_ports: port(DENIED_SOURCE_PORT), ..any },
    ];
    denied.into_iter().take(fields as usize).chain([Rule::ALLOW_ALL]).collect()
}

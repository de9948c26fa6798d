//! Source NAT as flows: both devices have `ct` and its `nat`.
//!
//! | table | matches | on a match |
//! |---|---|---|
//! | 0 | from inside, to a host outside | `ct(commit, nat(src=...))`, table 1 |
//! | 0 | from outside, to a public address | `ct(nat)`, table 2 |
//! | 1 | what is not invalid | routed out of port 1 |
//! | 2 | what belongs to a connection | routed out of port 0 |

use super::{mac, of};
use std::fmt::Write as _;
use weir_trial::{NAT_NETWORK, Nf};
use weir_wire::table::{next_hop_mac, port_mac};

const OUTWARD: u8 = 1;
const INWARD: u8 = 2;

/// The flows of a function that translates; none of any other.
pub(super) fn flows(nf: Nf) -> String {
    let Some((first, last)) = nf.translates() else { return String::new() };
    let [a, b, c, _] = NAT_NETWORK;
    let mut text = String::new();
    for route in nf.routes().iter().filter(|route| route.port == 1) {
        let _ = writeln!(
            text,
            "table=0,in_port={},ip,nw_src=198.18.0.0/16,nw_dst={},actions=ct(commit,nat(src={first}-{last}),table={OUTWARD})",
            of(0),
            route.prefix
        );
    }
    let _ =
        writeln!(text, "table=0,in_port={},ip,nw_dst={a}.{b}.{c}.0/24,actions=ct(nat,table={INWARD})", of(1));
    let _ = writeln!(text, "table={OUTWARD},ct_state=+trk-inv,ip,actions={}", routed(1));
    let _ = writeln!(text, "table={INWARD},ct_state=+trk+est-inv,ip,actions={}", routed(0));
    text
}

/// Out of a port as a router does.
fn routed(port: u8) -> String {
    let (source, destination) = (mac(port_mac(port)), mac(next_hop_mac(port)));
    format!("dec_ttl,mod_dl_src:{source},mod_dl_dst:{destination},output:{}", of(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_public_addresses_are_a_range_and_only_answers_come_in() {
        let text = flows(Nf::Nat { addresses: 4 });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].ends_with("ct(commit,nat(src=203.0.113.1-203.0.113.4),table=1)"), "{text}");
        assert_eq!(lines[1], "table=0,in_port=2,ip,nw_dst=203.0.113.0/24,actions=ct(nat,table=2)");
        assert!(lines[3].starts_with("table=2,ct_state=+trk+est-inv,ip,actions=dec_ttl,"), "{text}");
        assert_eq!(flows(Nf::L2Fwd), "");
    }
}

//! The rules of a firewall, and what a router needs beside its routes, in nftables' language.

use std::fmt::Write as _;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule};

/// The names of the ports stand in [`crate::wiring::INTERFACES`].
pub(super) const ROUTER: &str = "\
table netdev weir {
    chain ingress {
        type filter hook ingress devices = { port0, port1 } priority 0; policy accept;
        meta pkttype set host
    }
}
table ip weir {
    chain output {
        type filter hook output priority 0; policy drop;
    }
}
";

/// Source NAT from port 0 to port 1, and only what belongs to a connection the other way.
pub(super) fn nat(nf: weir_trial::Nf) -> String {
    let Some((first, last)) = nf.translates() else { return String::new() };
    format!(
        "table ip weir-nat {{
    chain forward {{
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        ct state new iifname port0 oifname port1 accept
    }}
    chain postrouting {{
        type nat hook postrouting priority 100; policy accept;
        oifname port1 snat to {first}-{last}
    }}
}}
"
    )
}

/// A chain in the bridge's forward hook: each rule one of the list, in its order; what none allows,
/// and what is not IPv4, is dropped.
pub(super) fn firewall(rules: &[Rule]) -> String {
    let mut text = "table bridge weir {\n    chain forward {\n        \
                    type filter hook forward priority 0; policy drop;\n"
        .to_owned();
    for rule in rules {
        let _ = writeln!(text, "        {}", line(rule));
    }
    text + "    }\n}\n"
}

fn line(rule: &Rule) -> String {
    let mut text = String::new();
    let mut address = |side: &str, prefix: Ipv4Prefix| {
        if prefix != Ipv4Prefix::ANY {
            let _ = write!(text, "ip {side} {prefix} ");
        }
    };
    address("saddr", rule.source);
    address("daddr", rule.destination);
    let has_ports = [rule.source_ports, rule.destination_ports] != [Ports::Any; 2];
    let header = match rule.protocol {
        Some(6) => "tcp",
        Some(17) => "udp",
        _ => "th",
    };
    match rule.protocol {
        // The port conditions imply the protocol.
        Some(6 | 17) if has_ports => {}
        Some(number) => {
            let _ = write!(text, "ip protocol {number} ");
        }
        None if has_ports => text += "ip protocol { 6, 17, 33, 132, 136 } ",
        None => {}
    }
    let mut ports = |side: &str, ports: Ports| {
        if ports != Ports::Any {
            let _ = write!(text, "{header} {side} {ports} ");
        }
    };
    ports("sport", rule.source_ports);
    ports("dport", rule.destination_ports);
    if text.is_empty() {
        text += "ether type ip ";
    }
    text + match rule.action {
        Action::Allow => "accept",
        Action::Deny => "drop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_becomes_one_line_with_its_conditions() {
        for (rule, nft) in [
            (
                "deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53",
                "ip saddr 198.18.4.0/24 ip daddr 198.19.0.0/20 udp sport 1024-65535 udp dport 53 drop",
            ),
            ("deny tcp any any 198.19.7.7/32 any", "ip daddr 198.19.7.7/32 ip protocol 6 drop"),
            ("allow any any any any any", "ether type ip accept"),
            ("allow any any any any 80", "ip protocol { 6, 17, 33, 132, 136 } th dport 80 accept"),
            ("deny 132 any 9 any any", "ip protocol 132 th sport 9 drop"),
        ] {
            assert_eq!(line(&rule.parse().unwrap()), nft);
        }
    }

    #[test]
    fn nat_lets_in_what_belongs_to_a_connection_and_nothing_else() {
        let text = nat(weir_trial::Nf::Nat { addresses: 3 });
        assert!(text.contains("oifname port1 snat to 203.0.113.1-203.0.113.3"), "{text}");
        assert!(text.contains("hook forward priority 0; policy drop;"), "{text}");
        assert_eq!(nat(weir_trial::Nf::L2Fwd), "");
    }

    #[test]
    fn the_chain_drops_what_no_rule_allows() {
        let text = firewall(&[Rule::ALLOW_ALL]);
        assert!(text.contains("hook forward priority 0; policy drop;"), "{text}");
        assert!(text.contains("        ether type ip accept\n    }\n}\n"), "{text}");
    }
}

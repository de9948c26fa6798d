//! A network function as a Click configuration.
//!
//! Each function is a compound element with two inputs and two outputs, one a port; those of a chain are joined in a row, so
//! that a chain is one configuration, run to completion. `l2fwd` is a wire, `l3fwd:N` Click's IP router (Kohler et al.,
//! "The Click Modular Router", ACM TOCS 18(3), 2000, figure 8) without ARP and ICMP, and `firewall:N` an `IPFilter`. What
//! is no IPv4 is dropped by the latter two.

use crate::eal::{self, RING, Vdev, is_virtual};
use crate::l3fwd::mac;
use crate::{DutError, StartRequest};
use std::fmt::Write as _;
use std::path::Path;
use weir_trial::Nf;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule, next_hop_mac, port_mac};

/// TCP and UDP: the protocols whose ports an `IPFilter` knows.
const PORTED: [(u8, &str); 2] = [(6, "tcp"), (17, "udp")];

/// How a router looks up its routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lookup {
    /// `RadixIPLookup`.
    #[default]
    Radix,
    /// `DirectIPLookup`: one access of memory up to /24, two beyond.
    Direct,
}

impl Lookup {
    /// By the variant's name; the names there are where it is none.
    pub(super) fn of(variant: &str) -> Result<Self, String> {
        match variant {
            "" => Ok(Self::Radix),
            "direct" => Ok(Self::Direct),
            _ => Err("fastclick routes by RadixIPLookup, and fastclick:direct by DirectIPLookup".to_owned()),
        }
    }

    const fn element(self) -> &'static str {
        match self {
            Self::Radix => "RadixIPLookup",
            Self::Direct => "DirectIPLookup",
        }
    }
}

/// The configuration: ports, control socket, and a copy of the function for each pair of ports.
pub(super) fn text(request: &StartRequest<'_>, control: &Path) -> Result<String, DutError> {
    let unsupported = |reason| DutError::Unsupported { dut: super::NAME, nf: request.nf, reason };
    let lookup = Lookup::of(request.variant).map_err(unsupported)?;
    // A pool is best of a power of two less one.
    let mut text = format!("// {}\nDPDKInfo(NB_MBUF {});\n", request.nf, eal::buffers(request) - 1);
    let _ = writeln!(text, "ControlSocket(UNIX, {});", quoted(&control.display().to_string()));
    for (number, port) in request.ports.iter().enumerate() {
        text += &ports(number, port);
    }
    for pair in 0..request.ports.len() / 2 {
        text += &pair_of(pair, &request.nf.members(), lookup).map_err(unsupported)?;
    }
    Ok(text)
}

/// Both ends of a port; thread 1 is the one of the forwarding core.
fn ports(number: usize, port: &str) -> String {
    let (name, promiscuous) = if is_virtual(port) { (Vdev::new(port).name(), false) } else { (port, true) };
    format!(
        "in{number} :: FromDPDKDevice({name}, MODE none, PROMISC {promiscuous}, N_QUEUES 1, NDESC {RING}, NUMA false, \
         MAXTHREADS 1, THREADOFFSET 1);\nout{number} :: ToDPDKDevice({name}, N_QUEUES 1, NDESC {RING});\n"
    )
}

/// The functions between two ports, in a row.
fn pair_of(pair: usize, members: &[Nf], lookup: Lookup) -> Result<String, String> {
    let (first, second) = (2 * pair, 2 * pair + 1);
    let name = |place: usize| format!("nf{pair}_{place}");
    let mut text = String::new();
    for (place, member) in members.iter().enumerate() {
        text += &format!("{} :: {{\n{}}};\n", name(place), function(*member, lookup)?);
    }
    let last = members.len() - 1;
    let _ = writeln!(text, "in{first} -> [0]{}; in{second} -> [1]{};", name(0), name(last));
    for place in 0..last {
        let (here, next) = (name(place), name(place + 1));
        let _ = writeln!(text, "{here}[1] -> [0]{next}; {next}[0] -> [1]{here};");
    }
    let _ = writeln!(text, "{}[0] -> out{first}; {}[1] -> out{second};", name(0), name(last));
    Ok(text)
}

/// The inside of a function.
fn function(nf: Nf, lookup: Lookup) -> Result<String, String> {
    match nf {
        Nf::L2Fwd => Ok("  input[0] -> [1]output; input[1] -> [0]output;\n".to_owned()),
        Nf::L3Fwd { .. } => Ok(router(nf, lookup)),
        Nf::Firewall { .. } => filter(&nf.rules()),
        _ => Err(crate::wants_tables(super::NAME, nf)),
    }
}

fn router(nf: Nf, lookup: Lookup) -> String {
    let routes = nf.routes().into_iter().map(|route| format!("{} {}", route.prefix, route.port));
    let routes: Vec<String> = routes.chain(["0.0.0.0/0 2".to_owned()]).collect();
    let mut text = format!("  routes :: {}({});\n", lookup.element(), routes.join(", "));
    text += "  input[0] -> ip :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> routes;\n";
    text += "  input[1] -> ip; ip[1] -> Discard; routes[2] -> Discard;\n";
    for port in 0..2 {
        let (from, to) = (mac(port_mac(port)), mac(next_hop_mac(port)));
        let _ = writeln!(
            text,
            "  routes[{port}] -> DecIPTTL -> EtherEncap(0x0800, {from}, {to}) -> [{port}]output;"
        );
    }
    text
}

fn filter(rules: &[Rule]) -> Result<String, String> {
    let rules: Vec<String> = rules.iter().map(pattern).collect::<Result<_, _>>()?;
    let rules = rules.join(",\n    ");
    let way = |from: usize, to: usize| {
        format!(
            "  input[{from}] -> ip{from} :: Classifier(12/0800, -) -> MarkIPHeader(14) -> IPFilter({rules}) -> [{to}]output;\n  \
             ip{from}[1] -> Discard;\n"
        )
    };
    Ok(way(0, 1) + &way(1, 0))
}

/// A rule, as `IPFilter` reads it.
fn pattern(rule: &Rule) -> Result<String, String> {
    let ported = PORTED.into_iter().find(|(number, _)| rule.protocol == Some(*number));
    let mut conditions = Vec::new();
    if let Some(protocol) = rule.protocol {
        conditions.push(format!("ip proto {protocol}"));
    }
    let sides = [("src", rule.source, rule.source_ports), ("dst", rule.destination, rule.destination_ports)];
    for (side, prefix, ports) in sides {
        if prefix != Ipv4Prefix::ANY {
            conditions.push(format!("{side} net {prefix}"));
        }
        let Ports::Range { first, last } = ports else { continue };
        let Some((_, protocol)) = ported else {
            return Err(format!("IPFilter knows ports of TCP and UDP alone, and not those of `{rule}`"));
        };
        if first == last {
            conditions.push(format!("{side} {protocol} port {first}"));
        } else {
            conditions.push(format!("{side} {protocol} port >= {first} && {side} {protocol} port <= {last}"));
        }
    }
    let conditions = if conditions.is_empty() { "all".to_owned() } else { conditions.join(" && ") };
    let action = match rule.action {
        Action::Allow => "allow",
        Action::Deny => "deny",
    };
    Ok(format!("{action} {conditions}"))
}

/// A text between quotation marks.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;

    fn text_of(nf: &str, variant: &str) -> String {
        let folder = Folder::new().unwrap();
        let ports = ["net_vhost0,iface=/t/link0.sock,queues=1,client=0".to_owned(), "net_null1".to_owned()];
        let request = StartRequest { variant, ..request(nf.parse().unwrap(), &ports, &folder) };
        text(&request, "/t/control.sock".as_ref()).unwrap()
    }

    #[test]
    fn forwarding_is_a_wire_between_two_ports_polled_by_the_forwarding_thread() {
        assert_eq!(
            text_of("l2fwd", ""),
            "// l2fwd\nDPDKInfo(NB_MBUF 16383);\nControlSocket(UNIX, \"/t/control.sock\");\n\
             in0 :: FromDPDKDevice(net_vhost0, MODE none, PROMISC false, N_QUEUES 1, NDESC 1024, NUMA false, MAXTHREADS 1, THREADOFFSET 1);\n\
             out0 :: ToDPDKDevice(net_vhost0, N_QUEUES 1, NDESC 1024);\n\
             in1 :: FromDPDKDevice(net_null1, MODE none, PROMISC false, N_QUEUES 1, NDESC 1024, NUMA false, MAXTHREADS 1, THREADOFFSET 1);\n\
             out1 :: ToDPDKDevice(net_null1, N_QUEUES 1, NDESC 1024);\n\
             nf0_0 :: {\n  input[0] -> [1]output; input[1] -> [0]output;\n};\n\
             in0 -> [0]nf0_0; in1 -> [1]nf0_0;\n\
             nf0_0[0] -> out0; nf0_0[1] -> out1;\n"
        );
    }

    #[test]
    fn a_router_drops_what_has_no_route_and_writes_the_test_networks_addresses() {
        let text = text_of("l3fwd:2", "");
        for line in [
            "routes :: RadixIPLookup(198.18.0.0/16 0, 198.19.0.0/16 1, 0.0.0.0/0 2);",
            "routes[2] -> Discard;",
            "routes[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:01) -> [1]output;",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text_of("l3fwd:2", "direct").contains("DirectIPLookup(198.18.0.0/16 0,"));
        assert!(Lookup::of("trie").unwrap_err().contains("fastclick:direct"));
    }

    #[test]
    fn rules_are_patterns_and_those_of_unknown_ports_are_refused() {
        let of = |text: &str| pattern(&text.parse().unwrap());
        for (rule, filter) in [
            ("allow any any any any any", "allow all"),
            (
                "deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53",
                "deny ip proto 17 && src net 198.18.4.0/24 && src udp port >= 1024 && src udp port <= 65535 && dst net \
                 198.19.0.0/20 && dst udp port 53",
            ),
            ("deny 47 1.2.3.4 any any any", "deny ip proto 47 && src net 1.2.3.4/32"),
        ] {
            assert_eq!(of(rule).unwrap(), filter);
        }
        for rule in ["deny 132 any any any 7", "deny any any 80 any any"] {
            assert!(of(rule).unwrap_err().contains("TCP and UDP alone"), "{rule}");
        }
        assert_eq!(text_of("firewall:3", "").matches("IPFilter(deny").count(), 2, "one a direction");
    }

    #[test]
    fn a_chain_is_a_row_of_functions_in_one_configuration() {
        let text = text_of("firewall:2+l3fwd:2+l2fwd", "");
        for line in [
            "in0 -> [0]nf0_0; in1 -> [1]nf0_2;\n",
            "nf0_0[1] -> [0]nf0_1; nf0_1[0] -> [1]nf0_0;\n",
            "nf0_1[1] -> [0]nf0_2; nf0_2[0] -> [1]nf0_1;\n",
            "nf0_0[0] -> out0; nf0_2[1] -> out1;\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_path_may_hold_anything() {
        assert_eq!(quoted("/t/a \"b\\"), "\"/t/a \\\"b\\\\\"");
    }
}

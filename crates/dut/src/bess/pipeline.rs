//! A network function as modules of BESS.
//!
//! `l2fwd` joins two ports; a chain's has a `Bypass` each way. `l3fwd:N` checks the header's checksum, looks the longest prefix
//! up, lowers the TTL and writes both addresses. `firewall:N` is a `BPF` module each way, a filter a rule, since BESS's `ACL`
//! knows neither protocols nor ranges of ports. What no gate leads on is dropped by BESS.

use super::messages::{
    Any, BpfArg, BpfFilter, ConnectModulesRequest, CreateModuleRequest, EmptyRequest, IpChecksumArg,
    IpLookupArg, IpLookupCommandAddArg, PortArg, UpdateArg, UpdateField,
};
use crate::lpm;
use std::collections::HashSet;
use weir_trial::Nf;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule, next_hop_mac, port_mac};

/// What the name of everything begins with that the lab makes in a `bessd`.
pub(super) const OURS: &str = "weir_";

/// Most routes that a table is made for.
pub(super) const MOST_ROUTES: u32 = 1 << 20;

/// Prefix length up to which a route needs no table of its /24 network, and tables that there are at least.
const DIRECT_BITS: u8 = 24;
const LEAST_LONG_TABLES: usize = 128;

/// Where an `Update` writes the MAC addresses: offset and size in bytes.
const MAC_BYTES: u64 = 6;

/// What is made, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pipeline {
    /// Modules.
    pub(super) modules: Vec<CreateModuleRequest>,
    /// Entries of tables: the module, its command, and what is added.
    pub(super) entries: Vec<(String, &'static str, Any)>,
    /// What leads where.
    pub(super) links: Vec<ConnectModulesRequest>,
}

/// A module and one of its gates.
type Gate = (String, u64);

/// A function between two ports: what comes in by each, and what leaves by each.
struct Ends {
    inputs: [Gate; 2],
    outputs: [Gate; 2],
}

/// The name of a port.
pub(super) fn port(number: usize) -> String {
    format!("{OURS}port{number}")
}

/// The modules of a function between ports in pairs; `reads` says of each port whether packets come in by it.
pub(super) fn of(nf: Nf, reads: &[bool]) -> Result<Pipeline, String> {
    let mut pipeline = Pipeline::default();
    let members = nf.members();
    for (pair, reads) in reads.chunks_exact(2).enumerate() {
        let numbers = [2 * pair, 2 * pair + 1];
        let outputs = numbers.map(|number| {
            let arg = Any::of("PortOutArg", &PortArg { port: port(number) });
            pipeline.module(format!("{OURS}out{number}"), "PortOut", arg)
        });
        let inputs = [0, 1].map(|side| {
            let (name, arg) = (format!("{OURS}in{}", numbers[side]), PortArg { port: port(numbers[side]) });
            reads[side].then(|| (pipeline.module(name, "PortInc", Any::of("PortIncArg", &arg)), 0))
        });
        if let [Nf::L2Fwd] = members[..] {
            pipeline.link(inputs[0].as_ref(), &(outputs[1].clone(), 0));
            pipeline.link(inputs[1].as_ref(), &(outputs[0].clone(), 0));
            continue;
        }
        let mut ends = Vec::new();
        for (place, member) in members.iter().enumerate() {
            ends.push(pipeline.function(*member, &format!("{OURS}nf{pair}_{place}"))?);
        }
        let last = ends.len() - 1;
        pipeline.link(inputs[0].as_ref(), &ends[0].inputs[0]);
        pipeline.link(inputs[1].as_ref(), &ends[last].inputs[1]);
        for (here, next) in ends.iter().zip(&ends[1..]) {
            pipeline.link(Some(&here.outputs[1]), &next.inputs[0]);
            pipeline.link(Some(&next.outputs[0]), &here.inputs[1]);
        }
        pipeline.link(Some(&ends[0].outputs[0]), &(outputs[0].clone(), 0));
        pipeline.link(Some(&ends[last].outputs[1]), &(outputs[1].clone(), 0));
    }
    Ok(pipeline)
}

/// Whether a function can be made of modules; the reason where not.
pub(super) fn supports(nf: Nf) -> Result<(), String> {
    match nf {
        Nf::L2Fwd => Ok(()),
        // It may have more networks of longer routes, but DPDK 19.11 looks them up by eight bits of their number.
        Nf::L3Fwd { .. } => lpm::fits(&nf.routes(), MOST_ROUTES),
        Nf::Firewall { .. } => filters(&nf.rules()).map(drop),
        Nf::Chain(chain) => chain.members().iter().try_for_each(|member| supports(*member)),
        _ => Err(crate::wants_tables(super::NAME, nf)),
    }
}

impl Pipeline {
    /// Makes a module; its name.
    fn module(&mut self, name: String, class: &str, arg: Any) -> String {
        self.modules.push(CreateModuleRequest {
            name: name.clone(),
            mclass: class.to_owned(),
            arg: Some(arg),
        });
        name
    }

    /// Leads what leaves by a gate, where there is one, into another.
    fn link(&mut self, from: Option<&Gate>, to: &Gate) {
        let Some((m1, ogate)) = from.cloned() else { return };
        let (m2, igate) = to.clone();
        self.links.push(ConnectModulesRequest { m1, m2, ogate, igate });
    }

    fn function(&mut self, nf: Nf, name: &str) -> Result<Ends, String> {
        supports(nf)?;
        match nf {
            Nf::L3Fwd { .. } => Ok(self.router(nf, name)),
            Nf::Firewall { .. } => {
                let arg = Any::of("BPFArg", &BpfArg { filters: filters(&nf.rules())? });
                Ok(self.ways(name, "BPF", &arg))
            }
            _ => Ok(self.ways(name, "Bypass", &Any::of("BypassArg", &EmptyRequest {}))),
        }
    }

    /// The same module each way, of whose gates the first leads on.
    fn ways(&mut self, name: &str, class: &str, arg: &Any) -> Ends {
        let [there, back] =
            ["there", "back"].map(|way| self.module(format!("{name}_{way}"), class, arg.clone()));
        let gate = |name: &String| (name.clone(), 0);
        Ends { inputs: [gate(&there), gate(&back)], outputs: [gate(&back), gate(&there)] }
    }

    fn router(&mut self, nf: Nf, name: &str) -> Ends {
        let routes = nf.routes();
        let verify = Any::of("IPChecksumArg", &IpChecksumArg { verify: true });
        let sum = self.module(format!("{name}_sum"), "IPChecksum", verify);
        let long = routes.iter().filter(|route| route.prefix.bits() > DIRECT_BITS);
        let long: HashSet<Ipv4Prefix> =
            long.map(|route| Ipv4Prefix::covering(route.prefix.address(), DIRECT_BITS)).collect();
        let table = IpLookupArg {
            max_rules: routes.len().max(2) as u32,
            max_tbl8s: long.len().max(LEAST_LONG_TABLES) as u32,
        };
        let table = self.module(format!("{name}_routes"), "IPLookup", Any::of("IPLookupArg", &table));
        self.link(Some(&(sum.clone(), 0)), &(table.clone(), 0));
        for route in routes {
            let entry = IpLookupCommandAddArg {
                prefix: route.prefix.address().to_string(),
                prefix_len: route.prefix.bits().into(),
                gate: route.port.into(),
            };
            self.entries.push((table.clone(), "add", Any::of("IPLookupCommandAddArg", &entry)));
        }
        let outputs = [0, 1].map(|port: u8| {
            let ttl =
                self.module(format!("{name}_ttl{port}"), "UpdateTTL", Any::of("EmptyArg", &EmptyRequest {}));
            let macs = Any::of("UpdateArg", &addresses(port));
            let macs = self.module(format!("{name}_macs{port}"), "Update", macs);
            self.link(Some(&(table.clone(), port.into())), &(ttl.clone(), 0));
            self.link(Some(&(ttl, 0)), &(macs.clone(), 0));
            (macs, 0)
        });
        Ends { inputs: [(sum.clone(), 0), (sum, 0)], outputs }
    }
}

/// Destination and source of what leaves by a port.
fn addresses(port: u8) -> UpdateArg {
    let field = |(place, mac): (i64, [u8; 6])| {
        let value = mac.into_iter().fold(0, |value, byte| value << 8 | u64::from(byte));
        UpdateField { offset: place * MAC_BYTES as i64, size: MAC_BYTES, value }
    };
    UpdateArg { fields: [(0, next_hop_mac(port)), (1, port_mac(port))].map(field).to_vec() }
}

/// A list as filters, the first of the highest priority: what one matches leaves by gate 0 where its rule allows it, and
/// else by gate 1, which leads nowhere. What none matches leaves by gate 0.
fn filters(rules: &[Rule]) -> Result<Vec<BpfFilter>, String> {
    let Some((&Rule::ALLOW_ALL, rules)) = rules.split_last() else {
        return Err("BESS's BPF lets pass what no filter matches; the list must end so too".to_owned());
    };
    let filter = |(place, rule): (usize, &Rule)| BpfFilter {
        priority: (rules.len() - place) as i64,
        filter: expression(rule),
        gate: i64::from(rule.action == Action::Deny),
    };
    Ok(rules.iter().enumerate().map(filter).collect())
}

/// A rule's conditions, as libpcap reads them (pcap-filter(7)).
fn expression(rule: &Rule) -> String {
    let mut conditions = vec![match rule.protocol {
        None => "ip".to_owned(),
        Some(protocol) => format!("ip proto {protocol}"),
    }];
    let sides = [("src", rule.source, rule.source_ports), ("dst", rule.destination, rule.destination_ports)];
    for (side, prefix, ports) in sides {
        if prefix != Ipv4Prefix::ANY {
            conditions.push(format!("{side} net {prefix}"));
        }
        match ports {
            Ports::Any => {}
            Ports::Range { first, last } if first == last => conditions.push(format!("{side} port {first}")),
            Ports::Range { first, last } => conditions.push(format!("{side} portrange {first}-{last}")),
        }
    }
    conditions.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    fn drawn(nf: &str) -> (Vec<String>, Vec<String>) {
        let pipeline = of(nf.parse().unwrap(), &[true, true]).unwrap();
        let module = |module: &CreateModuleRequest| format!("{} {}", module.name, module.mclass);
        let link = |link: &ConnectModulesRequest| {
            format!("{}:{} -> {}:{}", link.m1, link.ogate, link.igate, link.m2)
        };
        (pipeline.modules.iter().map(module).collect(), pipeline.links.iter().map(link).collect())
    }

    #[test]
    fn forwarding_joins_two_ports_and_one_without_packets_is_not_read() {
        let (modules, links) = drawn("l2fwd");
        assert_eq!(
            modules,
            ["weir_out0 PortOut", "weir_out1 PortOut", "weir_in0 PortInc", "weir_in1 PortInc"]
        );
        assert_eq!(links, ["weir_in0:0 -> 0:weir_out1", "weir_in1:0 -> 0:weir_out0"]);
        let one = of(Nf::L2Fwd, &[true, false]).unwrap();
        assert_eq!((one.modules.len(), one.links.len()), (3, 1));
        assert_eq!(of(Nf::L2Fwd, &[true; 4]).unwrap().links.len(), 4, "pairs stand beside one another");
    }

    #[test]
    fn a_router_is_a_table_whose_gates_are_ports() {
        let (modules, links) = drawn("l3fwd:2");
        for module in ["weir_nf0_0_sum IPChecksum", "weir_nf0_0_routes IPLookup", "weir_nf0_0_ttl1 UpdateTTL"]
        {
            assert!(modules.iter().any(|found| found == module), "{module}: {modules:?}");
        }
        for link in [
            "weir_in1:0 -> 0:weir_nf0_0_sum",
            "weir_nf0_0_sum:0 -> 0:weir_nf0_0_routes",
            "weir_nf0_0_routes:1 -> 0:weir_nf0_0_ttl1",
            "weir_nf0_0_macs1:0 -> 0:weir_out1",
        ] {
            assert!(links.iter().any(|found| found == link), "{link}: {links:?}");
        }
        let [to, from] = &addresses(1).fields[..] else { panic!() };
        assert_eq!((to.offset, to.size, to.value), (0, 6, 0x0200_0000_0201));
        assert_eq!((from.offset, from.value), (6, 0x0200_0000_0101));
        assert_eq!(of(Nf::L3Fwd { routes: 10 }, &[true; 2]).unwrap().entries.len(), 10);
        // Of 768 routes those longer than /24 lie in 256 networks of that length.
        let many = of(Nf::L3Fwd { routes: 768 }, &[true; 2]).unwrap();
        let table = many.modules.iter().find(|module| module.mclass == "IPLookup").unwrap();
        let table = IpLookupArg::decode(&table.arg.as_ref().unwrap().value[..]).unwrap();
        assert_eq!((table.max_rules, table.max_tbl8s), (768, 256));
    }

    #[test]
    fn rules_are_filters_of_falling_priority() {
        let rules = |text: &str| text.lines().map(|line| line.parse().unwrap()).collect::<Vec<Rule>>();
        let list = rules(
            "deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53\nallow any 1.2.3.4 any any any\nallow any any any any any",
        );
        let filters = filters(&list).unwrap();
        assert_eq!(
            filters[0],
            BpfFilter {
                priority: 2,
                filter: "ip proto 17 and src net 198.18.4.0/24 and src portrange 1024-65535 and dst net 198.19.0.0/20 \
                         and dst port 53"
                    .to_owned(),
                gate: 1
            }
        );
        assert_eq!(
            (filters[1].filter.as_str(), filters[1].gate, filters.len()),
            ("ip and src net 1.2.3.4/32", 0, 2)
        );
        assert!(super::filters(&list[..1]).unwrap_err().contains("must end so"));
    }

    #[test]
    fn a_chain_is_a_row_and_what_is_not_of_modules_is_refused() {
        let (modules, links) = drawn("firewall:2+l3fwd:2+l2fwd");
        assert!(modules.iter().any(|module| module == "weir_nf0_2_there Bypass"), "{modules:?}");
        for link in [
            "weir_nf0_0_there:0 -> 0:weir_nf0_1_sum",
            "weir_nf0_1_macs0:0 -> 0:weir_nf0_0_back",
            "weir_nf0_1_macs1:0 -> 0:weir_nf0_2_there",
            "weir_in1:0 -> 0:weir_nf0_2_back",
        ] {
            assert!(links.iter().any(|found| found == link), "{link}: {links:?}");
        }
        assert!(supports(Nf::Nat { addresses: 1 }).is_err());
        assert!(supports("l2fwd+l3fwd:1000".parse().unwrap()).unwrap_err().contains("/24"));
    }
}

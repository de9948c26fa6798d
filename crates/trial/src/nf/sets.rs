//! Rule sets in ClassBench's form and routing tables, as flows.
//!
//! A file is one of the two by its first line that says anything, and read as flows else:
//!
//! - `@198.18.0.0/16 0.0.0.0/0 0 : 65535 53 : 53 0x11/0xFF 0x0000/0x0200`: a filter set, as ClassBench's generator
//!   writes it (Taylor and Turner, IEEE/ACM Transactions on Networking 15(3), 2007): source and destination prefix,
//!   ranges of source and destination ports, protocol and mask, and perhaps TCP's flags and mask. The first
//!   filter that matches decides. ClassBench's filters have no actions: each here lets its packets through to the
//!   other side, but every fourth, which drops them ([`DROPS`]), so that a wrong answer shows.
//! - `198.18.0.0/15 2`: a routing table, a prefix and a next hop a line. A next hop is a number or an address;
//!   odd ones lead out by port 1, even ones by port 2, and TTL is lowered. The longest prefix decides.
//!
//! OpenFlow matches no ranges: a range of ports becomes the fewest aligned powers of two, a flow each. Priorities
//! have 16 bits: filters have falling ones, so that a set is of 65,535 filters at most. A range on ports of a
//! protocol without any matches nothing, and one of any protocol matches TCP, UDP and SCTP.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use weir_wire::table::{Ipv4Prefix, PORT_BITS, pieces};

/// Every so many filters one drops.
const DROPS: usize = 4;
/// Filters that have a priority each.
const MOST_FILTERS: usize = u16::MAX as usize;
/// IP protocols with ports, and what flows call them.
const WITH_PORTS: [(u8, &str); 3] = [(6, "tcp"), (17, "udp"), (132, "sctp")];

/// What is wrong with a line: its number, and the mistake.
type Mistake = (u32, String);
/// Flows, each with the line it came from.
type Flows = Vec<(u32, String)>;

/// The flows that a file's text stands for, each with the line it came from; nothing where the text is of flows
/// itself.
pub(super) fn flows(text: &str) -> Option<Result<Flows, Vec<String>>> {
    let first = said(text).next()?.1;
    let found = if first.starts_with('@') {
        filters(text)
    } else if first
        .split_once(char::is_whitespace)
        .is_some_and(|(prefix, _)| prefix.parse::<Ipv4Prefix>().is_ok())
    {
        routes(text)
    } else {
        return None;
    };
    Some(found.map_err(|all| all.into_iter().map(|(line, what)| format!("line {line}: {what}")).collect()))
}

/// Lines that say anything, with their numbers.
fn said(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let lines = (1_u32..).zip(text.lines());
    lines
        .map(|(number, line)| (number, line.split('#').next().unwrap_or(line).trim()))
        .filter(|(_, l)| !l.is_empty())
}

fn routes(text: &str) -> Result<Flows, Vec<Mistake>> {
    let (mut flows, mut mistakes) = (Vec::new(), Vec::new());
    for (number, line) in said(text) {
        match route(line) {
            Ok((prefix, port)) => {
                let at = if prefix.bits() == 0 { String::new() } else { format!(",nw_dst={prefix}") };
                let priority = prefix.bits() + 1;
                flows.push((
                    number,
                    format!(
                        "priority={priority},ip{at},actions=dec_ttl,load:0->NXM_OF_IN_PORT[],output:{port}"
                    ),
                ));
            }
            Err(what) => mistakes.push((number, what)),
        }
    }
    if mistakes.is_empty() { Ok(flows) } else { Err(mistakes) }
}

/// A prefix, and the port that its next hop is behind.
fn route(line: &str) -> Result<(Ipv4Prefix, u32), String> {
    let form = "write `PREFIX NEXT-HOP`, such as `198.18.0.0/15 2` or `10.0.0.0/8 192.0.2.1`";
    let words: Vec<&str> = line.split_whitespace().collect();
    let [prefix, hop] = words[..] else { return Err(format!("`{line}` is no route; {form}")) };
    let prefix = prefix.parse().map_err(|error| format!("`{prefix}`: {error}; {form}"))?;
    let hop = hop.parse::<u32>().or_else(|_| hop.parse::<Ipv4Addr>().map(u32::from));
    let hop = hop.map_err(|_| format!("`{}` is no next hop; {form}", words[1]))?;
    Ok((prefix, 2 - hop % 2))
}

fn filters(text: &str) -> Result<Flows, Vec<Mistake>> {
    let (mut flows, mut mistakes) = (Vec::new(), Vec::new());
    for (place, (number, line)) in said(text).enumerate() {
        if place >= MOST_FILTERS {
            mistakes.push((number, format!("more filters than OpenFlow has priorities, {MOST_FILTERS}")));
            break;
        }
        let matches = match Filter::parse(line).and_then(|filter| filter.matches()) {
            Ok(matches) => matches,
            Err(what) => {
                mistakes.push((number, what));
                continue;
            }
        };
        let priority = MOST_FILTERS - place;
        for one in matches {
            if place % DROPS == DROPS - 1 {
                flows.push((number, format!("priority={priority},{one},actions=drop")));
                continue;
            }
            for (from, to) in [(1, 2), (2, 1)] {
                flows.push((number, format!("priority={priority},in_port={from},{one},actions=output:{to}")));
            }
        }
    }
    if mistakes.is_empty() { Ok(flows) } else { Err(mistakes) }
}

/// One filter of a set.
#[derive(Debug)]
struct Filter {
    source: Ipv4Prefix,
    destination: Ipv4Prefix,
    source_ports: (u16, u16),
    destination_ports: (u16, u16),
    /// None for any.
    protocol: Option<u8>,
    /// TCP's flags and mask; a mask of 0 for any.
    flags: (u16, u16),
}

impl Filter {
    fn parse(line: &str) -> Result<Self, String> {
        let form = "write `@SOURCE/LEN DESTINATION/LEN LOW : HIGH LOW : HIGH PROTOCOL/MASK [FLAGS/MASK]`";
        let spaced = line.replace(':', " : ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let wrong = |word: &str| format!("`{word}` is wrong in `{line}`; {form}");
        let (source, destination, ports, protocol, flags) = match words[..] {
            [source, destination, a, ":", b, c, ":", d, protocol] => {
                (source, destination, [a, b, c, d], protocol, "0/0")
            }
            [source, destination, a, ":", b, c, ":", d, protocol, flags] => {
                (source, destination, [a, b, c, d], protocol, flags)
            }
            _ => return Err(format!("`{line}` is no filter; {form}")),
        };
        let source = source.strip_prefix('@').ok_or_else(|| wrong(source))?;
        let prefix =
            |word: &str| word.parse::<Ipv4Prefix>().map_err(|error| format!("`{word}`: {error}; {form}"));
        let port = |word: &str| word.parse::<u16>().map_err(|_| wrong(word));
        let range = |low: &str, high: &str| match (port(low)?, port(high)?) {
            (first, last) if first <= last => Ok((first, last)),
            _ => Err(wrong(&format!("{low} : {high}"))),
        };
        let masked = |word: &str| {
            let (value, mask) = word.split_once('/').ok_or_else(|| wrong(word))?;
            Ok::<_, String>((
                number(value).ok_or_else(|| wrong(word))?,
                number(mask).ok_or_else(|| wrong(word))?,
            ))
        };
        let protocol = match masked(protocol)? {
            (_, 0) => None,
            (value, 0xff) => Some(u8::try_from(value).map_err(|_| wrong(protocol))?),
            _ => return Err(format!("{}: the mask is 0x00 or 0xFF", wrong(protocol))),
        };
        Ok(Self {
            source: prefix(source)?,
            destination: prefix(destination)?,
            source_ports: range(ports[0], ports[1])?,
            destination_ports: range(ports[2], ports[3])?,
            protocol,
            flags: masked(flags)?,
        })
    }

    /// What flows match in its place.
    fn matches(&self) -> Result<Vec<String>, String> {
        let any = (0, u16::MAX);
        let with_ports = (self.source_ports, self.destination_ports) != (any, any);
        let named =
            |protocol: u8| WITH_PORTS.iter().find(|(number, _)| *number == protocol).map(|(_, name)| *name);
        let protocols: Vec<String> = match (self.protocol, with_ports) {
            (None, false) => vec!["ip".to_owned()],
            (None, true) => WITH_PORTS.iter().map(|(_, name)| (*name).to_owned()).collect(),
            (Some(protocol), true) => named(protocol).into_iter().map(str::to_owned).collect(),
            (Some(protocol), false) => {
                vec![named(protocol).map_or_else(|| format!("ip,nw_proto={protocol}"), str::to_owned)]
            }
        };
        let address = |name: &str, prefix: Ipv4Prefix| match prefix.bits() {
            0 => String::new(),
            _ => format!(",{name}={prefix}"),
        };
        let mut rest = address("nw_src", self.source) + &address("nw_dst", self.destination);
        // A later fragment has no ports; OpenFlow takes them for 0.
        if with_ports {
            rest.push_str(",ip_frag=not_later");
        }
        let (flags, mask) = (self.flags.0 & 0xfff, self.flags.1 & 0xfff);
        if mask != 0 && self.protocol == Some(WITH_PORTS[0].0) {
            let _ = write!(rest, ",tcp_flags={:#x}/{mask:#x}", flags & mask);
        }
        let mut found = Vec::new();
        for protocol in protocols {
            for source in masked("tp_src", self.source_ports) {
                for destination in masked("tp_dst", self.destination_ports) {
                    found.push(format!("{protocol}{rest}{source}{destination}"));
                }
            }
        }
        Ok(found)
    }
}

/// A number, in decimal or behind `0x`.
fn number(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    digits.map_or_else(|| text.parse(), |digits| u16::from_str_radix(digits, 16)).ok()
}

/// A range of ports as conditions under a mask.
fn masked(field: &str, (first, last): (u16, u16)) -> Vec<String> {
    let condition = |(value, bits): (u16, u32)| match bits {
        0 => String::new(),
        PORT_BITS => format!(",{field}={value}"),
        bits => format!(",{field}={value:#06x}/{:#06x}", u16::MAX << (PORT_BITS - bits)),
    };
    pieces(first, last).into_iter().map(condition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        flows(text).unwrap().unwrap().into_iter().map(|(_, flow)| flow).collect()
    }

    #[test]
    fn a_filter_becomes_a_flow_for_each_piece_of_its_ranges_and_side() {
        let set = "# a set\n@198.18.0.0/16\t0.0.0.0/0\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\t\n\
                   @0.0.0.0/0 10.0.0.0/8 0 : 65535 1024 : 65535 0x06/0xFF 0x1000/0x1000\n\
                   @0.0.0.0/0 0.0.0.0/0 0:65535 0:65535 0x00/0x00\n@1.2.3.4/32 5.6.7.8/32 1 : 2 0 : 65535 0x00/0x00";
        let flows = lines(set);
        assert_eq!(
            flows[..2],
            [
                "priority=65535,in_port=1,udp,nw_src=198.18.0.0/16,ip_frag=not_later,tp_dst=53,actions=output:2",
                "priority=65535,in_port=2,udp,nw_src=198.18.0.0/16,ip_frag=not_later,tp_dst=53,actions=output:1",
            ]
        );
        let tcp: Vec<&String> =
            flows.iter().filter(|flow| flow.starts_with("priority=65534,in_port=1,")).collect();
        assert_eq!(tcp.len(), 6, "1024 to 65535 is six powers of two");
        assert_eq!(
            tcp[0],
            "priority=65534,in_port=1,tcp,nw_dst=10.0.0.0/8,ip_frag=not_later,tp_dst=0x0400/0xfc00,actions=output:2"
        );
        assert!(flows.contains(&"priority=65533,in_port=2,ip,actions=output:1".to_owned()));
        let last: Vec<&String> = flows.iter().filter(|flow| flow.starts_with("priority=65532,")).collect();
        assert_eq!(last.len(), 6, "TCP, UDP and SCTP, two ports each, dropped");
        assert!(last.iter().all(|flow| flow.ends_with("actions=drop")), "{last:?}");
    }

    #[test]
    fn a_route_is_a_flow_by_its_length() {
        let flows = lines("0.0.0.0/0 192.0.2.1\n198.18.0.0/15 2\n");
        assert_eq!(
            flows,
            [
                "priority=1,ip,actions=dec_ttl,load:0->NXM_OF_IN_PORT[],output:1",
                "priority=16,ip,nw_dst=198.18.0.0/15,actions=dec_ttl,load:0->NXM_OF_IN_PORT[],output:2",
            ]
        );
    }

    #[test]
    fn mistakes_are_named_by_their_lines_and_flows_are_left_to_their_reader() {
        assert!(flows("in_port=1,actions=output:2\n").is_none() && flows("# nothing\n").is_none());
        let good = "@1.0.0.0/8 2.0.0.0/8 0 : 65535 80 : 80 0x06/0xFF\n";
        for (line, word) in [
            ("@1.0.0.0/33 2.0.0.0/8 0 : 65535 80 : 80 0x06/0xFF", "1.0.0.0/33"),
            ("@1.0.0.0/8 2.0.0.0/8 0 : 65535 90 : 80 0x06/0xFF", "90 : 80"),
            ("@1.0.0.0/8 2.0.0.0/8 0 : 65535 80 : 80 0x06/0x0F", "0x06/0x0F"),
            ("@1.0.0.0/8 2.0.0.0/8 0 : 70000 80 : 80 0x06/0xFF", "70000"),
            ("1.0.0.0/8 2.0.0.0/8", "is no filter"),
        ] {
            let errors = flows(&format!("{good}{line}\n")).unwrap().unwrap_err();
            assert!(errors[0].starts_with("line 2: ") && errors[0].contains(word), "{errors:?}");
        }
        let errors = flows("10.0.0.0/8 1\n10.0.0.0/8 x\n").unwrap().unwrap_err();
        assert!(errors[0].starts_with("line 2: `x` is no next hop"), "{errors:?}");
        let many = good.repeat(MOST_FILTERS + 1);
        assert!(flows(&many).unwrap().unwrap_err()[0].contains("more filters than"));
    }
}

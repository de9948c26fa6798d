//! Firewall rules over the IPv4 five-tuple; the first that matches decides.
//!
//! `deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53`: action, protocol, source prefix, source
//! ports, destination prefix, destination ports. `any` stands for no condition.

use super::{Entry, EntryError, Ipv4Prefix};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Forward it.
    Allow,
    /// Drop it.
    Deny,
}

/// A condition on a transport port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ports {
    /// None; packets without ports match as well.
    Any,
    /// The packet has ports, and this one lies within, both ends included.
    Range {
        /// Least.
        first: u16,
        /// Greatest.
        last: u16,
    },
}

/// A firewall rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What to do with what matches.
    pub action: Action,
    /// IP protocol number, or any.
    pub protocol: Option<u8>,
    /// Source addresses.
    pub source: Ipv4Prefix,
    /// Source ports.
    pub source_ports: Ports,
    /// Destination addresses.
    pub destination: Ipv4Prefix,
    /// Destination ports.
    pub destination_ports: Ports,
}

/// What rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// IP protocol number.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Source and destination port. Protocols without ports have none, nor have fragments but the first.
    pub ports: Option<(u16, u16)>,
}

/// Whether packets of this IP protocol begin with a source and a destination port: TCP (6), UDP
/// (17), DCCP (33), SCTP (132), UDP-Lite (136).
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

/// The first rule that matches, found by looking at one after the other: the meaning of a list,
/// not a way to filter.
pub fn first_match<'a>(rules: &'a [Rule], packet: &FiveTuple) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.matches(packet))
}

impl Ports {
    fn matches(self, port: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Range { first, last } => port.is_some_and(|port| (first..=last).contains(&port)),
        }
    }
}

impl Rule {
    /// The rule that lets everything pass.
    pub const ALLOW_ALL: Self = Self {
        action: Action::Allow,
        protocol: None,
        source: Ipv4Prefix::ANY,
        source_ports: Ports::Any,
        destination: Ipv4Prefix::ANY,
        destination_ports: Ports::Any,
    };

    /// Whether all its conditions hold.
    pub fn matches(&self, packet: &FiveTuple) -> bool {
        self.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && self.source.contains(packet.source)
            && self.destination.contains(packet.destination)
            && self.source_ports.matches(packet.ports.map(|(source, _)| source))
            && self.destination_ports.matches(packet.ports.map(|(_, destination)| destination))
    }
}

impl Entry for Rule {
    const NAME: &'static str = "rule";
    const FORM: &'static str = "ACTION PROTOCOL SOURCE PORTS DESTINATION PORTS, such as \
         `deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53` or `allow any any any any any`";
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Range { first, last } if first == last => write!(f, "{first}"),
            Self::Range { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for Ports {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Self, EntryError> {
        if text == "any" {
            return Ok(Self::Any);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self::Range { first, last }),
            _ => {
                Err(EntryError(format!("ports `{text}` are not `any`, a port (53) or a range (1024-65535)")))
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            Action::Allow => "allow ",
            Action::Deny => "deny ",
        })?;
        match self.protocol {
            None => f.write_str("any")?,
            Some(1) => f.write_str("icmp")?,
            Some(6) => f.write_str("tcp")?,
            Some(17) => f.write_str("udp")?,
            Some(number) => write!(f, "{number}")?,
        }
        let prefix = |prefix: Ipv4Prefix| match prefix {
            Ipv4Prefix::ANY => "any".to_owned(),
            prefix => prefix.to_string(),
        };
        write!(
            f,
            " {} {} {} {}",
            prefix(self.source),
            self.source_ports,
            prefix(self.destination),
            self.destination_ports
        )
    }
}

impl FromStr for Rule {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Self, EntryError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [action, protocol, source, source_ports, destination, destination_ports] = words[..] else {
            return Err(EntryError(format!("a rule has six words, not {}", words.len())));
        };
        let action = match action {
            "allow" => Action::Allow,
            "deny" => Action::Deny,
            _ => return Err(EntryError(format!("action `{action}` is not allow or deny"))),
        };
        let protocol = match protocol {
            "any" => None,
            "icmp" => Some(1),
            "tcp" => Some(6),
            "udp" => Some(17),
            number => Some(number.parse().map_err(|_| {
                EntryError(format!("protocol `{number}` is not any, icmp, tcp, udp or a number 0 to 255"))
            })?),
        };
        Ok(Self {
            action,
            protocol,
            source: source.parse()?,
            source_ports: source_ports.parse()?,
            destination: destination.parse()?,
            destination_ports: destination_ports.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_printed() {
        for text in [
            "deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53",
            "deny tcp 198.18.4.1/32 any any 0-1023",
            "deny 47 any any any any",
            "allow icmp any any any any",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!("allow any any any any any".parse(), Ok(Rule::ALLOW_ALL));
    }

    #[test]
    fn wrong_words_are_named() {
        for (text, word) in [
            ("drop udp any any any any", "`drop`"),
            ("deny foo any any any any", "`foo`"),
            ("deny udp any 9-8 any any", "`9-8`"),
            ("deny udp any any any 65536", "`65536`"),
            ("deny udp any any", "not 4"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_first_match_decides_and_packets_without_ports_pass_by_port_conditions() {
        let rules: Vec<Rule> = ["deny udp any any 198.19.0.0/16 53", "allow any any any any any"]
            .map(|t| t.parse().unwrap())
            .into();
        let packet = |ports| FiveTuple {
            protocol: 17,
            source: Ipv4Addr::new(198, 18, 0, 1),
            destination: Ipv4Addr::new(198, 19, 0, 1),
            ports,
        };
        let action = |ports| first_match(&rules, &packet(ports)).unwrap().action;
        assert_eq!(action(Some((2000, 53))), Action::Deny);
        assert_eq!(action(Some((2000, 54))), Action::Allow);
        assert_eq!(action(None), Action::Allow);
        assert_eq!(first_match(&rules[..1], &packet(None)), None);
    }
}

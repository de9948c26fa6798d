//! What VPP counts: packets by interface, and everything else by node and reason.

use crate::PortCounts;
use std::collections::BTreeMap;

/// What `show interface` says of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Interface {
    received: u64,
    /// Packets handed to its transmit function, which may find no place for them.
    handed: u64,
}

/// The counters of `show interface`, of these interfaces and in their order, with what `show errors` says of their transmit functions;
/// nothing where one is not there. What was never counted is not printed.
pub(super) fn ports(
    text: &str,
    interfaces: &[String],
    reasons: &BTreeMap<String, u64>,
) -> Option<Vec<PortCounts>> {
    let mut found: Vec<Option<Interface>> = vec![None; interfaces.len()];
    let mut here = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(char::is_whitespace) {
            here = interfaces.iter().position(|name| words.first() == Some(&name.as_str()));
            if let Some(place) = here {
                found[place] = Some(Interface::default());
            }
        }
        let (Some(counts), [.., way, "packets", count]) =
            (here.and_then(|place: usize| found[place].as_mut()), &words[..])
        else {
            continue;
        };
        let Ok(count) = count.parse() else { continue };
        match *way {
            "rx" => counts.received = count,
            "tx" => counts.handed = count,
            _ => {}
        }
    }
    let counts = |(found, name): (Option<Interface>, &String)| {
        let found = found?;
        let node = format!("{name}-tx: ");
        let lost = reasons.iter().filter(|(reason, _)| reason.starts_with(&node));
        let refused: u64 = lost.map(|(_, count)| count).sum();
        let sent = found.handed.saturating_sub(refused);
        Some(PortCounts { received: found.received, sent, refused: Some(refused) })
    };
    found.into_iter().zip(interfaces).map(counts).collect()
}

/// What `show errors` says, as `node: reason`; among it are the packets that were dropped, by their reasons.
pub(super) fn reasons(text: &str) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for line in text.lines() {
        // Count, node, reason, and how bad it is.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [count, node, reason @ .., _] = &words[..] else { continue };
        let (Ok(count), false) = (count.parse::<u64>(), reason.is_empty()) else { continue };
        // A line a thread.
        *reasons.entry(format!("{node}: {}", reason.join(" "))).or_default() += count;
    }
    reasons
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const INTERFACES: &str =
        "              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count     \r
VirtualEthernet0/0/0              1      up          9000/0/0/0     rx packets                    12\r
                                                                    rx bytes                     720\r
                                                                    tx packets                     9\r
                                                                    drops                          3\r
VirtualEthernet0/0/1              2      up          9000/0/0/0     tx packets                    12\r
                                                                    tx-error                       1\r
local0                            0     down          0/0/0/0       drops                          5\r
";

    pub(crate) const ERRORS: &str =
        "   Count                   Node                              Reason               Severity \r
         2           VirtualEthernet0/0/0-tx       tx packet drops (no available descriptors)  error   \r
         3             acl-plugin-in-ip4-l2                  ACL deny packets                 error   \r
         1             acl-plugin-in-ip4-l2                  ACL deny packets                 error   \r
";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_a_transmit_function_found_no_place_for_was_not_sent() {
        let reasons = reasons(ERRORS);
        assert_eq!(reasons["acl-plugin-in-ip4-l2: ACL deny packets"], 4, "of all threads");
        let both = names(&["VirtualEthernet0/0/1", "VirtualEthernet0/0/0"]);
        assert_eq!(
            ports(INTERFACES, &both, &reasons).unwrap(),
            [
                PortCounts { received: 0, sent: 12, refused: Some(0) },
                PortCounts { received: 12, sent: 7, refused: Some(2) }
            ]
        );
    }

    #[test]
    fn counters_of_an_interface_that_is_not_there_are_none() {
        let none = BTreeMap::new();
        assert!(ports(INTERFACES, &names(&["memif1/0"]), &none).is_none());
        assert!(ports("", &names(&["local0"]), &none).is_none());
        let local = PortCounts { refused: Some(0), ..PortCounts::default() };
        assert_eq!(ports(INTERFACES, &names(&["local0"]), &none).unwrap(), [local]);
        assert!(reasons("no counters here\n\n12 nodes\n").is_empty());
    }
}

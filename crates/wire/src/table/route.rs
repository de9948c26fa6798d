//! Routes: `198.19.0.0/16 1` sends what is destined there out of port 1.

use super::{Entry, EntryError, Ipv4Prefix};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A route: destinations and the port they leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Destinations.
    pub prefix: Ipv4Prefix,
    /// Port, from 0. The next hop is the one neighbour on that port, [`next_hop_mac`].
    pub port: u8,
}

/// MAC address of the NF's own port: the source of what leaves by it. Locally administered
/// (IEEE 802, section 8.4), so it belongs to no vendor: `02:00:00:00:01:PP`.
pub const fn port_mac(port: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, 0x01, port]
}

/// MAC address of the neighbour on a port: the destination of what leaves by it,
/// `02:00:00:00:02:PP`.
pub const fn next_hop_mac(port: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, 0x02, port]
}

/// The route of an address by longest prefix (RFC 1812, section 5.2.4.3), found by looking at
/// every route: the meaning of a table, not a way to forward.
pub fn longest_match(routes: &[Route], address: Ipv4Addr) -> Option<&Route> {
    routes.iter().filter(|route| route.prefix.contains(address)).max_by_key(|route| route.prefix.bits())
}

impl Entry for Route {
    const NAME: &'static str = "route";
    const FORM: &'static str = "PREFIX PORT, such as `198.19.0.0/16 1`";
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.prefix, self.port)
    }
}

impl FromStr for Route {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Self, EntryError> {
        let mut words = text.split_whitespace();
        let (Some(prefix), Some(port), None) = (words.next(), words.next(), words.next()) else {
            return Err(EntryError("a route has two words".to_owned()));
        };
        let port = port.parse().map_err(|_| EntryError(format!("`{port}` is no port number")))?;
        Ok(Self { prefix: prefix.parse()?, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut routes: Vec<Route> =
            ["0.0.0.0/0 0", "198.18.0.0/15 1", "198.19.7.0/24 2"].map(|text| text.parse().unwrap()).into();
        for _ in 0..2 {
            let port = |text: &str| longest_match(&routes, text.parse().unwrap()).unwrap().port;
            assert_eq!([port("198.19.7.9"), port("198.18.0.1"), port("8.8.8.8")], [2, 1, 0]);
            routes.reverse();
        }
        assert_eq!(longest_match(&routes[1..], Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn routes_with_missing_words_or_wrong_ports_are_refused() {
        for (text, reason) in
            [("198.18.0.0/15", "two words"), ("198.18.0.0/15 1 2", "two words"), ("any 256", "`256`")]
        {
            let error = text.parse::<Route>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}

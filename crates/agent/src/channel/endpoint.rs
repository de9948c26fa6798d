//! Where connections come from or go to, written as Open vSwitch writes them (`ovsdb(7)`, "Connection
//! Methods"; `vconn` in its manuals).
//!
//! Pure: names are kept as they are written, and looked up only when one connects (`dial`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The port of OpenFlow (IANA).
pub const OPENFLOW_PORT: u16 = 6653;

/// Where controllers may connect: `ptcp:[PORT][:HOST]`, `pssl:[PORT][:HOST]` or `punix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp {
        /// Address and port; port 0 for one that is free.
        address: SocketAddr,
        /// Whether TLS is spoken.
        tls: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// A controller to be connected to: `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// TCP.
    Tcp {
        /// The host.
        host: Host,
        /// Its port.
        port: u16,
        /// Whether TLS is spoken.
        tls: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// A host, by address or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// By address.
    Address(IpAddr),
    /// By a name, which is looked up each time one connects.
    Name(String),
}

impl Listen {
    /// Whether it takes certificates.
    pub const fn tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl Controller {
    /// Whether it takes certificates.
    pub const fn tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (method, rest) = text.split_once(':').unwrap_or((text, ""));
        match method {
            "ptcp" | "pssl" => {
                let (port, host) = match rest.split_once(':') {
                    Some((port, host)) => (port, host),
                    None => (rest, ""),
                };
                let port = if port.is_empty() { OPENFLOW_PORT } else { number(port, text)? };
                let host = if host.is_empty() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { address(host)? };
                Ok(Self::Tcp { address: SocketAddr::new(host, port), tls: method == "pssl" })
            }
            "punix" => path(rest, text).map(Self::Unix),
            "tcp" | "ssl" | "unix" => Err(format!(
                "`{text}` connects to a controller; write it under `controllers`, or p{method}: to listen"
            )),
            _ => Err(format!("`{text}` is not ptcp:[PORT][:ADDRESS], pssl:[PORT][:ADDRESS] or punix:PATH")),
        }
    }
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (method, rest) = text.split_once(':').unwrap_or((text, ""));
        match method {
            "tcp" | "ssl" => {
                let (host, port) = host_and_port(rest, text)?;
                Ok(Self::Tcp { host, port, tls: method == "ssl" })
            }
            "unix" => path(rest, text).map(Self::Unix),
            "ptcp" | "pssl" | "punix" => Err(format!(
                "`{text}` waits for controllers; write it under `listen`, or {}: to connect",
                &method[1..]
            )),
            _ => Err(format!("`{text}` is not tcp:HOST[:PORT], ssl:HOST[:PORT] or unix:PATH")),
        }
    }
}

/// `HOST[:PORT]`, an IPv6 address in brackets if a port follows.
fn host_and_port(rest: &str, text: &str) -> Result<(Host, u16), String> {
    if let Ok(bare) = rest.parse::<IpAddr>() {
        return Ok((Host::Address(bare), OPENFLOW_PORT));
    }
    let (host, behind) = match rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        Some((inside, behind)) => (Host::Address(address(inside)?), behind),
        None => {
            let (host, behind) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
            (host.parse().map_or_else(|_| name(host, text), |address| Ok(Host::Address(address)))?, behind)
        }
    };
    let port = match behind.strip_prefix(':') {
        Some(port) => number(port, text)?,
        None if behind.is_empty() => OPENFLOW_PORT,
        None => return Err(format!("`{text}`: what follows `]` is :PORT, and not `{behind}`")),
    };
    if port == 0 {
        return Err(format!("`{text}`: port 0 cannot be connected to; OpenFlow's is {OPENFLOW_PORT}"));
    }
    Ok((host, port))
}

fn name(host: &str, text: &str) -> Result<Host, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || !host.chars().all(plain) {
        return Err(format!(
            "`{text}`: `{host}` is neither a name nor an address; IPv6 addresses stand in brackets"
        ));
    }
    Ok(Host::Name(host.to_owned()))
}

fn number(port: &str, text: &str) -> Result<u16, String> {
    port.parse().map_err(|_| format!("`{text}`: `{port}` is no port; ports are numbers up to {}", u16::MAX))
}

/// An address, in brackets or not.
fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| format!("`{text}` is no address, such as 127.0.0.1 or [::1]"))
}

fn path(path: &str, text: &str) -> Result<PathBuf, String> {
    if path.is_empty() { Err(format!("`{text}`: a path follows")) } else { Ok(PathBuf::from(path)) }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { address, tls } => {
                let method = if *tls { "pssl" } else { "ptcp" };
                write!(out, "{method}:{}:{}", address.port(), bracketed(address.ip()))
            }
            Self::Unix(path) => write!(out, "punix:{}", path.display()),
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, tls } => {
                let method = if *tls { "ssl" } else { "tcp" };
                write!(out, "{method}:{host}:{port}")
            }
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => out.write_str(&bracketed(*address)),
            Self::Name(name) => out.write_str(name),
        }
    }
}

fn bracketed(address: IpAddr) -> String {
    if address.is_ipv6() { format!("[{address}]") } else { address.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> String {
        text.parse::<Listen>().map_or_else(|error| error, |listen| listen.to_string())
    }

    fn controller(text: &str) -> String {
        text.parse::<Controller>().map_or_else(|error| error, |controller| controller.to_string())
    }

    #[test]
    fn what_is_left_out_of_an_endpoint_is_filled_in() {
        for (text, means) in [
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:6633", "ptcp:6633:0.0.0.0"),
            ("ptcp:0:127.0.0.1", "ptcp:0:127.0.0.1"),
            ("ptcp::127.0.0.1", "ptcp:6653:127.0.0.1"),
            ("pssl:6653:[::1]", "pssl:6653:[::1]"),
            ("pssl:6653:::1", "pssl:6653:[::1]"),
            ("punix:/run/weir/of.sock", "punix:/run/weir/of.sock"),
        ] {
            assert_eq!(listen(text), means);
            assert_eq!(listen(means), means, "what is shown can be written");
        }
        for (text, means) in [
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("tcp:10.0.0.1:6633", "tcp:10.0.0.1:6633"),
            ("ssl:controller.example.org:6653", "ssl:controller.example.org:6653"),
            ("ssl:[2001:db8::1]:6633", "ssl:[2001:db8::1]:6633"),
            ("tcp:[2001:db8::1]", "tcp:[2001:db8::1]:6653"),
            ("tcp:2001:db8::1", "tcp:[2001:db8::1]:6653"),
            ("unix:of.sock", "unix:of.sock"),
        ] {
            assert_eq!(controller(text), means);
            assert_eq!(controller(means), means, "what is shown can be written");
        }
    }

    #[test]
    fn an_endpoint_that_cannot_be_says_what_may_be_written() {
        for (text, said) in [
            ("tcp:6653", "`tcp:6653` connects to a controller; write it under `controllers`, or ptcp:"),
            ("udp:6653", "`udp:6653` is not ptcp:[PORT][:ADDRESS], pssl:"),
            ("", "is not ptcp:"),
            ("ptcp:70000", "`70000` is no port"),
            ("ptcp:6653:somewhere", "`somewhere` is no address, such as 127.0.0.1"),
            ("punix:", "a path follows"),
        ] {
            assert!(listen(text).contains(said), "{text}: {}", listen(text));
        }
        for (text, said) in [
            ("ptcp:6653", "`ptcp:6653` waits for controllers; write it under `listen`, or tcp: to connect"),
            ("10.0.0.1", "is not tcp:HOST[:PORT]"),
            ("tcp:", "`` is neither a name nor an address"),
            ("tcp:a b", "`a b` is neither a name nor an address"),
            ("tcp:host:port", "`port` is no port"),
            ("tcp:host:0", "port 0 cannot be connected to"),
            ("tcp:[::1]6653", "what follows `]` is :PORT"),
            ("tcp:[::x]:6653", "`::x` is no address"),
            ("tcp:[::1", "neither a name nor an address"),
            ("tcp:fe80::1::6653", "`:1::6653` is no port"),
            ("unix:", "a path follows"),
        ] {
            assert!(controller(text).contains(said), "{text}: {}", controller(text));
        }
    }
}

//! Another machine, on which a device runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a device runs that is not started beside the lab.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Server {
    /// A machine that is reached over ssh, `ssh://[USER@]HOST[:PORT]`: what stands behind the slashes.
    Ssh(String),
    /// A network namespace of this machine, by its name of `ip netns`, which stands for one: `netns:NAME`.
    Namespace(String),
}

/// A text that names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no server; write ssh://[USER@]HOST[:PORT], netns:NAME (a namespace that `ip netns` lists), or here"
)]
pub struct ServerError(String);

impl Server {
    /// What says on an axis that a device runs beside the lab.
    pub const HERE: &'static str = "here";

    /// Longest name, in bytes.
    const LONGEST: usize = 255;

    /// What `ssh` is told: the port, where one is named, and who and where.
    pub fn destination(place: &str) -> (Option<&str>, &str) {
        match place.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => (Some(port), host),
            _ => (None, place),
        }
    }
}

/// Whether a name can be nothing but a name: no option of a program, no word of a shell.
fn is_name(text: &str, also: &[char]) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || also.contains(&c);
    !text.is_empty()
        && text.len() <= Server::LONGEST
        && !text.starts_with(['-', '.'])
        && text.chars().all(plain)
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(place) => f.pad(&format!("ssh://{place}")),
            Self::Namespace(name) => f.pad(&format!("netns:{name}")),
        }
    }
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ServerError(text.to_owned());
        if let Some(place) = text.strip_prefix("ssh://") {
            let (port, rest) = Self::destination(place);
            let host =
                rest.rsplit_once('@').map_or(Some(rest), |(user, host)| is_name(user, &[]).then_some(host));
            let right = host.is_some_and(|host| is_name(host, &[])) && port != Some("0");
            return if right { Ok(Self::Ssh(place.to_owned())) } else { Err(wrong()) };
        }
        let name = text.strip_prefix("netns:").filter(|name| is_name(name, &[]));
        name.map(|name| Self::Namespace(name.to_owned())).ok_or_else(wrong)
    }
}

impl From<Server> for String {
    fn from(server: Server) -> Self {
        server.to_string()
    }
}

impl TryFrom<String> for Server {
    type Error = ServerError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_printed() {
        for text in [
            "ssh://lab2",
            "ssh://root@10.0.0.2:2222",
            "ssh://me@lab-2.example.org",
            "netns:far",
            "netns:a_b.1",
        ] {
            assert_eq!(text.parse::<Server>().unwrap().to_string(), text);
        }
        assert_eq!(Server::destination("root@lab:22"), (Some("22"), "root@lab"));
        assert_eq!(Server::destination("lab"), (None, "lab"));
    }

    #[test]
    fn what_a_shell_or_a_program_would_take_for_more_than_a_name_is_refused() {
        for text in [
            "lab2",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://a;b",
            "ssh://$x",
            "ssh://u@",
            "ssh://@h",
            "ssh://h:0",
            "ssh://h:70000",
            "netns:",
            "netns:../x",
            "netns:a/b",
            "netns:-x",
            "ssh://a'b",
            "here",
        ] {
            let error = text.parse::<Server>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("netns:NAME"), "{error}");
        }
    }
}

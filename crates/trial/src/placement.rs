//! Where the functions of a chain run: the *deployment*, the *host* that carries packets between them, and whether
//! they have cores of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How network functions are placed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// All in the device itself, as its own tables: run to completion.
    #[default]
    Inline,
    /// Each a process behind virtio ports of a host dataplane, which copies packets in and out (as Open vSwitch and
    /// BESS do for virtual machines).
    Vhost,
    /// Each a process, in a row: the sender copies into the receiver's queue, and no switch is between them (as VALE
    /// does for ClickOS). Over memif.
    Vale,
    /// As [`Self::Vhost`], each process in mount, network and process namespaces of its own.
    Container,
    /// Each a process on the same huge pages, in a row: what goes from one to the next is a pointer over a ring, and no
    /// packet is copied (as NetVM and IVSHMEM do). One more process owns the memory and the ports towards the tester.
    Shared,
}

impl Deployment {
    /// Every deployment.
    pub const ALL: [Self; 5] = [Self::Inline, Self::Vhost, Self::Vale, Self::Container, Self::Shared];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Vhost => "vhost",
            Self::Vale => "vale",
            Self::Container => "container",
            Self::Shared => "shared",
        }
    }

    /// Whether a host dataplane carries packets between the functions.
    pub const fn has_host(self) -> bool {
        matches!(self, Self::Vhost | Self::Container)
    }

    /// Forwarding processes of a chain of so many functions.
    pub const fn processes(self, functions: usize) -> usize {
        match self {
            Self::Inline => 1,
            Self::Vale => functions,
            Self::Vhost | Self::Container | Self::Shared => functions + 1,
        }
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Deployment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` is no deployment Weir knows; it knows {}", known()))
    }
}

/// Who has which core.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CoreUse {
    /// Each forwarding process has a core of its own.
    #[default]
    Own,
    /// All forwarding processes take turns on one core.
    Shared,
}

impl CoreUse {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::Own, Self::Shared];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}

impl fmt::Display for CoreUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CoreUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` is no use of cores; write own or shared"))
    }
}

/// Where the functions of a point run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Placement {
    /// How they are placed.
    pub deployment: Deployment,
    /// The dataplane that carries packets between them, where the deployment has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Who has which core.
    pub cores: CoreUse,
}

impl Placement {
    /// Whether the device is the function by itself.
    pub fn is_inline(&self) -> bool {
        self.deployment == Deployment::Inline
    }

    /// Of a device: `nf`, where it is alone, or `nf in vhost on weir, one core`.
    pub fn of(&self, device: &str) -> String {
        if self.is_inline() {
            return device.to_owned();
        }
        let host = self.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
        let cores = if self.cores == CoreUse::Shared { ", one core" } else { "" };
        format!("{device} in {}{host}{cores}", self.deployment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for deployment in Deployment::ALL {
            assert_eq!(deployment.to_string().parse(), Ok(deployment));
        }
        let error = "vm".parse::<Deployment>().unwrap_err();
        assert!(
            error.contains("`vm`") && error.contains("inline, vhost, vale, container, shared"),
            "{error}"
        );
        assert_eq!("shared".parse(), Ok(CoreUse::Shared));
        assert!("2".parse::<CoreUse>().unwrap_err().contains("own or shared"));
    }

    #[test]
    fn a_device_is_named_with_where_it_runs() {
        let mut placement = Placement::default();
        assert_eq!(placement.of("weir"), "weir");
        placement.deployment = Deployment::Vhost;
        placement.host = Some("ovs-dpdk".to_owned());
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk");
        placement.cores = CoreUse::Shared;
        assert_eq!(placement.of("nf"), "nf in vhost on ovs-dpdk, one core");
    }

    #[test]
    fn a_stored_point_without_a_placement_is_inline() {
        let read: Placement = serde_json::from_str("{}").unwrap();
        assert!(read.is_inline() && read == Placement::default());
    }
}

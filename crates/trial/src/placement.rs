//! Where the functions of a chain run: the *deployment*, the *host* that carries packets between them, whether
//! they have cores of their own, and what guests they run in.

pub mod guest;

pub use guest::{Accel, Guest};

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
    /// Each in a guest (a virtual machine, QEMU) behind virtio ports of a host dataplane.
    Vm,
}

impl Deployment {
    /// Every deployment.
    pub const ALL: [Self; 6] =
        [Self::Inline, Self::Vhost, Self::Vale, Self::Container, Self::Shared, Self::Vm];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Vhost => "vhost",
            Self::Vale => "vale",
            Self::Container => "container",
            Self::Shared => "shared",
            Self::Vm => "vm",
        }
    }

    /// Whether a host dataplane carries packets between the functions.
    pub const fn has_host(self) -> bool {
        matches!(self, Self::Vhost | Self::Container | Self::Vm)
    }

    /// Forwarding processes of a chain of so many functions.
    pub const fn processes(self, functions: usize) -> usize {
        match self {
            Self::Inline => 1,
            Self::Vale => functions,
            Self::Vhost | Self::Container | Self::Shared | Self::Vm => functions + 1,
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
    /// What each function's guest is, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
}

impl Placement {
    /// Whether the device is the function by itself.
    pub fn is_inline(&self) -> bool {
        self.deployment == Deployment::Inline
    }

    /// Threads of a chain of so many functions that forward, hence cores where each has its own: a process has one, a
    /// guest one for each of its processors.
    pub fn forwarding(&self, functions: usize) -> usize {
        let processes = self.deployment.processes(functions);
        processes + self.guest.map_or(0, |guest| functions * (guest.vcpus.max(1) as usize - 1))
    }

    /// Whether the processors of its functions are emulated: what they do may be judged, how fast they do it may not.
    pub fn is_emulated(&self) -> bool {
        self.guest.is_some_and(|guest| guest.accel == Accel::Tcg)
    }

    /// Of a device: `nf`, where it is alone, or `nf in vhost on weir, one core`.
    pub fn of(&self, device: &str) -> String {
        if self.is_inline() {
            return device.to_owned();
        }
        let host = self.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
        let cores = if self.cores == CoreUse::Shared { ", one core" } else { "" };
        let guest = self.guest.map_or_else(String::new, |guest| format!(" ({guest})"));
        format!("{device} in {}{guest}{host}{cores}", self.deployment)
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
        let error = "pod".parse::<Deployment>().unwrap_err();
        assert!(
            error.contains("`pod`") && error.contains("inline, vhost, vale, container, shared, vm"),
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
    fn guests_are_named_with_what_they_are_and_each_processor_wants_a_core() {
        let guest = Guest { vcpus: 2, memory: 1024, accel: Accel::Tcg };
        let placement = Placement {
            deployment: Deployment::Vm,
            host: Some("weir".to_owned()),
            guest: Some(guest),
            ..Placement::default()
        };
        assert_eq!(placement.of("nf"), "nf in vm (2 vCPUs, 1024 MiB, TCG) on weir");
        assert_eq!(
            (placement.forwarding(3), Placement { guest: None, ..placement.clone() }.forwarding(3)),
            (7, 4)
        );
        assert!(placement.is_emulated() && !Placement::default().is_emulated());
        let stored = serde_json::to_string(&placement).unwrap();
        assert_eq!(serde_json::from_str::<Placement>(&stored).unwrap(), placement);
        let before = r#"{"deployment":"vhost","host":"weir","cores":"own"}"#;
        assert_eq!(serde_json::from_str::<Placement>(before).unwrap().guest, None);
    }

    #[test]
    fn a_stored_point_without_a_placement_is_inline() {
        let read: Placement = serde_json::from_str("{}").unwrap();
        assert!(read.is_inline() && read == Placement::default());
    }
}

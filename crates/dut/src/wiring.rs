//! Wirings: how the lab's ports reach the DUT's.

mod external;
mod fed;
mod memif;
mod nic;
mod offloads;
mod polled;
mod queues;
mod veth;
mod vhost;

pub use external::External;
pub use fed::Fed;
pub use memif::Memif;
pub use nic::Nic;
pub use queues::{carries_queues, with_queues};
pub use veth::{INTERFACES, Veth, VethDriver, VethPairs};
pub use vhost::{Side, Vhost};

use std::fmt;
use std::str::FromStr;

/// Most links of a wiring, hence ports on each side: the ports of successive rigs in one process are numbered so far apart.
pub const MOST_LINKS: usize = 2 * weir_trial::Placement::MOST_BUNDLES as usize;

/// A wiring by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WiringKind {
    /// virtio-user and vhost-user over Unix sockets, between two processes.
    Vhost,
    /// Shared memory between two processes.
    Memif,
    /// veth pairs of the kernel, between two network namespaces.
    Veth,
    /// Physical ports.
    Nic,
    /// The DUT's own source replays the trace and its sink discards.
    Fed,
}

impl WiringKind {
    /// Every wiring.
    pub const ALL: [Self; 5] = [Self::Vhost, Self::Memif, Self::Veth, Self::Nic, Self::Fed];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::Memif => "memif",
            Self::Veth => "veth",
            Self::Nic => "nic",
            Self::Fed => "fed",
        }
    }
}

impl fmt::Display for WiringKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for WiringKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("`{text}` is no wiring Weir knows; it knows {}", known()))
    }
}

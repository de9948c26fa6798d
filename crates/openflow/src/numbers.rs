//! OpenFlow's numbers, each a type of its own.

use std::fmt;

/// A port (OpenFlow 1.3.5, section 4.5): 1 to [`PortNo::MAX`], or a reserved one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNo(pub u32);

impl PortNo {
    /// The greatest number of a real port.
    pub const MAX: Self = Self(0xffff_ff00);
    /// Out by the port it came in by.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// Through the tables, from the first (packet-out only).
    pub const TABLE: Self = Self(0xffff_fff9);
    /// As a learning switch would.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports but those that do not flood, and the one it came in by.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports but the one it came in by.
    pub const ALL: Self = Self(0xffff_fffc);
    /// A controller.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The switch's own port.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// None.
    pub const ANY: Self = Self(0xffff_ffff);

    /// Whether it stands for something other than a port.
    pub const fn is_reserved(self) -> bool {
        self.0 > Self::MAX.0
    }
}

/// A table: 0 to [`TableId::LAST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u8);

impl TableId {
    /// The greatest table; 255 stands for all of them.
    pub const LAST: Self = Self(254);
}

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

/// A meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeterId(pub u32);

macro_rules! display {
    ($($name:ident)*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        })*
    };
}

display!(PortNo TableId GroupId MeterId);

//! What a function's guest is: processors, memory, and who makes its processors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Who makes the processors of a guest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// The machine's own, by the kernel (KVM).
    #[default]
    Kvm,
    /// QEMU, in software (TCG): tens of times slower. To see that a chain works, not how fast it is.
    Tcg,
}

impl Accel {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Kvm, Self::Tcg];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Accel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` makes no processors; write kvm or tcg"))
    }
}

/// A guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Guest {
    /// Processors.
    pub vcpus: u32,
    /// Memory, in MiB.
    pub memory: u32,
    /// Who makes its processors.
    pub accel: Accel,
}

impl Guest {
    /// Processors unless a plan says.
    pub const VCPUS: u32 = 1;
    /// Memory unless a plan says, in MiB.
    pub const MEMORY: u32 = 512;
}

impl Default for Guest {
    fn default() -> Self {
        Self { vcpus: Self::VCPUS, memory: Self::MEMORY, accel: Accel::Kvm }
    }
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = if self.vcpus == 1 { "" } else { "s" };
        let accel = self.accel.name().to_uppercase();
        write!(f, "{} vCPU{many}, {} MiB, {accel}", self.vcpus, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_of_processors_are_read_and_printed() {
        for accel in Accel::ALL {
            assert_eq!(accel.to_string().parse(), Ok(accel));
        }
        assert!("xen".parse::<Accel>().unwrap_err().contains("kvm or tcg"));
    }
}

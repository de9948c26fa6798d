//! The `nic` wiring: physical ports, by PCI address, cabled to the DUT's or to a box of its own.
//!
//! The lab's ports, and a DPDK dataplane's, must be bound to a driver that hands a device to user
//! space; what the kernel holds is refused with the command that binds it. Nothing is bound or
//! given back by Weir. Instead of an address an EAL `--vdev` string may stand, for a box that is
//! reached through a port the kernel keeps (`net_af_packet0,iface=eth1`).

use crate::DutError;
use std::fs;
use std::path::Path;

/// Kernel drivers that hand a device to user space.
const USER_SPACE: [&str; 4] = ["vfio-pci", "uio_pci_generic", "igb_uio", "uio_hv_generic"];

/// Drivers under which DPDK and the kernel share a device, so that nothing is to be bound.
const SHARED: [&str; 3] = ["mlx4_core", "mlx5_core", "mana"];

/// Where the kernel lists PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";

/// The ports of a `nic` wiring: PCI addresses or EAL `--vdev` strings, port 0 and port 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// The lab's.
    pub lab: Vec<String>,
    /// The DUT's; empty for a box that has its own.
    pub dut: Vec<String>,
}

impl Nic {
    /// Whether a port is an EAL `--vdev` string, not a PCI address.
    pub fn is_vdev(port: &str) -> bool {
        port.starts_with("net_")
    }

    /// Whether a port is a PCI address, with its domain, as the kernel lists devices.
    pub fn is_pci(port: &str) -> bool {
        let hex = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
        let parts: Vec<&str> = port.split([':', '.']).collect();
        let shape = port.len() == 12 && port.as_bytes()[10] == b'.';
        shape && matches!(parts[..], [a, b, c, d] if hex(a, 4) && hex(b, 2) && hex(c, 2) && hex(d, 1))
    }

    /// Whether any of the lab's ports is a PCI device.
    pub fn lab_has_pci(&self) -> bool {
        self.lab.iter().any(|port| !Self::is_vdev(port))
    }

    /// Refuses ports that are not there, that the kernel holds, or that stand twice.
    pub fn check(&self) -> Result<(), DutError> {
        self.check_in(Path::new(DEVICES))
    }

    fn check_in(&self, devices: &Path) -> Result<(), DutError> {
        let mut seen: Vec<&str> = Vec::new();
        for port in self.lab.iter().chain(&self.dut) {
            let port = port.as_str();
            if Self::is_vdev(port) {
                continue;
            }
            let refuse = |reason: String| Err(DutError::Network { what: format!("port {port}"), reason });
            if seen.contains(&port) {
                return refuse("stands twice in [nic]; each device has one place".to_owned());
            }
            seen.push(port);
            let device = devices.join(port);
            if !device.exists() {
                return refuse(format!("there is no PCI device of that address ({})", known(devices)));
            }
            match driver(&device) {
                Some(name) if USER_SPACE.contains(&name.as_str()) || SHARED.contains(&name.as_str()) => {}
                Some(name) => {
                    return refuse(format!(
                        "is held by the kernel's driver {name}; as root: modprobe vfio-pci && \
                         dpdk-devbind.py --bind=vfio-pci {port}"
                    ));
                }
                None => {
                    return refuse(format!(
                        "has no driver; as root: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {port}"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn driver(device: &Path) -> Option<String> {
    let target = fs::read_link(device.join("driver")).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// The network devices (PCI class 02) that are there.
fn known(devices: &Path) -> String {
    let is_network = |path: &Path| {
        fs::read_to_string(path.join("class")).is_ok_and(|class| class.trim().starts_with("0x02"))
    };
    let mut names: Vec<String> = fs::read_dir(devices)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_network(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    if names.is_empty() {
        "this machine shows no network device on PCI".to_owned()
    } else {
        format!("network devices: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (address, driver) in
            [("0000:01:00.0", Some("vfio-pci")), ("0000:01:00.1", Some("e1000e")), ("0000:02:00.0", None)]
        {
            let device = folder.path().join(address);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("class"), "0x020000\n").unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver")).unwrap();
            }
        }
        folder
    }

    fn refused(lab: &[&str]) -> String {
        let lab = lab.iter().map(|port| (*port).to_owned()).collect();
        let nic = Nic { lab, dut: Vec::new() };
        nic.check_in(machine().path()).map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_device_in_user_space_and_a_vdev_are_taken() {
        assert_eq!(refused(&["0000:01:00.0", "net_af_packet0,iface=eth1"]), "fine");
    }

    #[test]
    fn a_device_that_is_missing_held_unbound_or_twice_is_named_with_what_mends_it() {
        for (port, words) in [
            ("0000:09:00.0", ["no PCI device", "0000:01:00.0, 0000:01:00.1, 0000:02:00.0"]),
            ("0000:01:00.1", ["driver e1000e", "--bind=vfio-pci 0000:01:00.1"]),
            ("0000:02:00.0", ["no driver", "--bind=vfio-pci 0000:02:00.0"]),
            ("0000:01:00.0", ["port 0000:01:00.0", "stands twice"]),
        ] {
            let error = refused(&["0000:01:00.0", port]);
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}

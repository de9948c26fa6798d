//! Names of DPDK's devices, looked at before DPDK is: a name that no driver has is refused in our words.

use std::path::Path;

/// Drivers of virtual ports that are linked (`crates/dpdk/build.rs`), by how their devices' names begin.
const DRIVERS: &[&str] = &[
    "net_vhost",
    "net_virtio_user",
    "net_memif",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_tun",
    "net_pcap",
    "net_null",
    "net_ring",
];

/// Older names that DPDK takes for the same.
const OLDER: &str = "eth_";
const VIRTIO_USER: &str = "virtio_user";

/// Where the kernel has its interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Whether a device of this name can be.
///
/// # Errors
/// What is wrong with it, and what was probably meant.
pub(crate) fn check(name: &str) -> Result<(), String> {
    check_among(name, Path::new(INTERFACES))
}

fn check_among(name: &str, interfaces: &Path) -> Result<(), String> {
    let newer = match name.strip_prefix(OLDER) {
        Some(rest) => format!("net_{rest}"),
        None if name.starts_with(VIRTIO_USER) => format!("net_{name}"),
        None => name.to_owned(),
    };
    if crate::spec::is_pci_name(name) || DRIVERS.iter().any(|driver| newer.starts_with(driver)) {
        return Ok(());
    }
    // A name with a slash is no interface, and leads elsewhere.
    if !name.is_empty() && !name.contains(['/', '.']) && interfaces.join(name).exists() {
        return Err(format!(
            "that is an interface of the kernel's: write af_packet:{name}, or, where XDP is to be had, \
             net_af_xdp0,iface={name}"
        ));
    }
    let stem = newer.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let number = if stem.len() < newer.len() { &newer[stem.len()..] } else { "0" };
    let near = DRIVERS.iter().map(|driver| (strsim::damerau_levenshtein(stem, driver), driver));
    let meant = near.min().filter(|(distance, _)| *distance <= 1 + stem.chars().count() / 3);
    let meant = meant.map_or(".".to_owned(), |(_, driver)| format!("; did you mean `{driver}{number}`?"));
    Err(format!(
        "no driver has devices of that name{meant} A port is a virtual one ({}, ... with a number behind), a PCI \
         address (0000:01:00.0), `null`, af_packet:INTERFACE, trace:FILE or fault:FAULTS:PORT",
        DRIVERS[..5].join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str) -> String {
        check_among(name, Path::new("/nowhere")).err().unwrap_or_default()
    }

    #[test]
    fn names_that_a_driver_has_are_taken() {
        for name in [
            "net_vhost0",
            "eth_vhost12",
            "net_virtio_user0",
            "virtio_user0",
            "net_memif_left",
            "net_af_packet0",
            "net_af_xdp1",
            "net_tap0",
            "net_pcap0",
            "net_null0",
            "0000:01:00.0",
            "01:00.0",
        ] {
            assert_eq!(said(name), "", "{name}");
        }
    }

    #[test]
    fn a_name_that_is_misspelt_or_an_interface_of_the_kernels_is_told_what_was_meant() {
        for (name, meant) in [
            ("net_vhos0", "did you mean `net_vhost0`?"),
            ("net_virtiouser3", "did you mean `net_virtio_user3`?"),
            ("net_afpacket", "did you mean `net_af_packet0`?"),
            ("eth_vohst0", "did you mean `net_vhost0`?"),
            ("nul", "`null`"),
            ("eth0", "no driver has devices of that name"),
            ("", "no driver has devices of that name"),
            ("../../etc", "no driver has devices of that name"),
        ] {
            assert!(said(name).contains(meant), "{name}: {}", said(name));
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("eth0")).unwrap();
        let said = check_among("eth0", folder.path()).unwrap_err();
        assert!(said.contains("write af_packet:eth0"), "{said}");
    }
}

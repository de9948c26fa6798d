//! Network cards by PCI address, and the IOMMU between them and memory.

use super::facts::Facts;
use super::source::{Source, field};
use std::process::Command;

const DEVICES: &str = "sys/bus/pci/devices";
/// First byte of the class code of network controllers (PCI Code and ID Assignment, class 02h).
const NETWORK_CLASS: &str = "0x02";

pub(super) fn read(source: &Source, facts: &mut Facts) {
    for address in source.list(DEVICES) {
        let class = source.read(&format!("{DEVICES}/{address}/class"));
        if class.is_some_and(|class| class.starts_with(NETWORK_CLASS)) {
            card(source, &address, facts);
        }
    }
    let units = source.list("sys/class/iommu");
    let groups = source.list("sys/kernel/iommu_groups").len();
    let state = match (groups, units.len()) {
        (0, _) => "none in use".to_owned(),
        (groups, 0) => format!("{groups} groups"),
        (groups, _) => format!("{groups} groups behind {}", units.join(" ")),
    };
    facts.put("iommu.state", source.exists("sys/class/iommu").then_some(state));
}

fn card(source: &Source, address: &str, facts: &mut Facts) {
    let folder = format!("{DEVICES}/{address}");
    let read = |name: &str| source.read(&format!("{folder}/{name}"));
    let mut put = |name: &str, value: Option<String>| facts.put(&format!("nic.{address}.{name}"), value);
    let code = |name: &str| read(name).map(|code| code.trim_start_matches("0x").to_owned());
    put("device", code("vendor").zip(code("device")).map(|(vendor, device)| format!("{vendor}:{device}")));
    put("driver", source.link(&format!("{folder}/driver")).or_else(|| Some("none".to_owned())));
    put("numa-node", read("numa_node").filter(|node| node != "-1"));
    let bus = read("current_link_speed").zip(read("current_link_width"));
    put("pci-link", bus.map(|(speed, width)| format!("{speed} x{width}")));
    let port = port(source, &folder);
    if let Some(port) = &port {
        let of = |name: &str| source.read(&format!("sys/class/net/{port}/{name}"));
        let speed = of("speed").and_then(|speed| speed.parse::<i64>().ok()).filter(|speed| *speed > 0);
        put(
            "link",
            of("operstate").map(|state| match speed {
                Some(speed) => format!("{state}, {speed} Mb/s"),
                None => state,
            }),
        );
    }
    put("firmware", firmware(source, &folder, port.as_deref()));
    put("port", port);
}

/// The kernel's port on a card: virtio has it one folder further down.
fn port(source: &Source, folder: &str) -> Option<String> {
    let direct = source.list(&format!("{folder}/net")).into_iter().next();
    direct.or_else(|| {
        let inner = source
            .list(folder)
            .into_iter()
            .find(|name| name.strip_prefix("virtio").is_some_and(|number| number.parse::<u32>().is_ok()))?;
        source.list(&format!("{folder}/{inner}/net")).into_iter().next()
    })
}

/// Firmware from sysfs (mlx4, mlx5), else as `ethtool -i` prints it.
fn firmware(source: &Source, folder: &str, port: Option<&str>) -> Option<String> {
    let verbs = source.list(&format!("{folder}/infiniband")).into_iter().next();
    let from_verbs = verbs.and_then(|verbs| source.read(&format!("{folder}/infiniband/{verbs}/fw_ver")));
    from_verbs.or_else(|| {
        let port = port.filter(|_| source.is_here())?;
        let output = Command::new("ethtool").args(["-i", port]).output().ok()?;
        field(&String::from_utf8_lossy(&output.stdout), "firmware-version", ':')
            .filter(|version| version != "N/A")
    })
}

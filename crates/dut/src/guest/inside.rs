//! What runs in a guest: the device that is the function there, what its image holds, and the script that starts it.
//!
//! Each script ends in a program that forwards and obeys lines from the channel; what it prints beside that is on the
//! console. `weir nf`, `weir switch` and `testpmd` have their ports by PCI address, through `uio_pci_generic`, with memory in the
//! guest's huge pages; the kernel has them as `port0` and `port1`.

use super::image::{Content, find};
use crate::linux::{Setup, Step};
use crate::wiring::INTERFACES;
use crate::{DutError, StartRequest, eal, nf, testpmd, weir};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weir_trial::Guest;

/// Where a guest's ports are on its PCI bus.
pub(super) const ADDRESSES: [&str; 2] = ["0000:00:10.0", "0000:00:11.0"];

/// The end of the channel in a guest.
const CHANNEL: &str = "/dev/vport0p1";

/// Modules of every guest: the channel, and what hands the script over.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_console", "qemu_fw_cfg"];

/// The frame that Ethernet's usual packet of 1500 bytes makes, and the bytes of it around the packet.
const LEAST_FRAME: u16 = 1518;
const AROUND: u16 = 18;

/// What is the function in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// `weir nf`, with a fault or without.
    Nf,
    /// `weir switch`.
    Weir,
    /// The guest's own kernel.
    Linux,
    /// DPDK's forwarder.
    Testpmd,
}

/// What testpmd loads when it starts.
const TESTPMD_LOADS: [&str; 4] =
    ["librte_bus_pci.so", "librte_bus_vdev.so", "librte_mempool_ring.so", "librte_net_virtio.so"];

impl Inside {
    /// Of a device; nothing of one that is not known to run in a guest.
    pub(crate) fn of(device: &str) -> Option<Self> {
        match crate::split(device).0 {
            "nf" | "faulty" => Some(Self::Nf),
            "weir" => Some(Self::Weir),
            "linux" => Some(Self::Linux),
            "testpmd" => Some(Self::Testpmd),
            _ => None,
        }
    }

    /// What its image holds.
    pub(super) fn content(self) -> Result<Content<'static>, DutError> {
        let program = |name: &'static str, package| {
            let missing = DutError::MissingForGuests { program: name, package };
            Ok::<_, DutError>((find(name).ok_or(missing)?, name))
        };
        Ok(match self {
            // One program is both.
            Self::Nf | Self::Weir => Content {
                kind: "nf",
                modules: &[MODULES[0], MODULES[1], MODULES[2], "uio_pci_generic"],
                programs: vec![(nf::program()?, "weir")],
                loaded: Vec::new(),
            },
            Self::Linux => Content {
                kind: "linux",
                // Without nft_meta_bridge the kernel refuses rules of a bridge that look at a packet's protocol.
                modules: &[
                    MODULES[0],
                    MODULES[1],
                    MODULES[2],
                    "virtio_net",
                    "bridge",
                    "nf_tables",
                    "nft_meta_bridge",
                ],
                programs: vec![program("ip", "iproute2")?, program("nft", "nftables")?],
                loaded: Vec::new(),
            },
            Self::Testpmd => {
                let (path, name) = program(testpmd::PROGRAM, "dpdk-dev")?;
                Content {
                    kind: "testpmd",
                    modules: &[MODULES[0], MODULES[1], MODULES[2], "uio_pci_generic"],
                    loaded: drivers()?,
                    programs: vec![(path, name)],
                }
            }
        })
    }

    /// The script that starts it.
    pub(super) fn script(self, request: &StartRequest<'_>, guest: Guest) -> Result<String, DutError> {
        let ports = ADDRESSES.map(str::to_owned);
        // There its processors count from 0, and the last one forwards.
        let there = StartRequest {
            ports: &ports,
            core: guest.vcpus.max(1) as usize - 1,
            control_core: 0,
            huge_pages: true,
            shared_core: false,
            contained: false,
            namespace: None,
            sharing: None,
            ..request.clone()
        };
        let megabytes = eal::megabytes(&there, 0);
        match self {
            Self::Nf => {
                let mut words = vec!["weir".to_owned()];
                words.extend(nf::arguments(&there));
                words.extend(["--memory".to_owned(), megabytes.to_string()]);
                Ok(format!("{}{} <>{CHANNEL} >&0\n", taken(megabytes), quoted(&words)))
            }
            Self::Weir => {
                let weir::InGuest { files, words: arguments } = weir::in_guest(&there, Path::new("/tmp"))?;
                let mut script = taken(megabytes) + OVERCOMMIT;
                for (path, text) in files {
                    let _ = write!(script, "cat >{} <<'END'\n{text}END\n", path.display());
                }
                let memory = ["--memory".to_owned(), megabytes.to_string()];
                let words = [vec!["weir".to_owned()], arguments, memory.to_vec()].concat();
                Ok(format!("{script}{} <>{CHANNEL} >&0\n", quoted(&words)))
            }
            Self::Testpmd => {
                let mut words = vec![testpmd::PROGRAM.to_owned()];
                words.extend(testpmd::arguments(&there));
                // Its two threads are two of the EAL's cores also where there is one processor.
                if let Some(at) = words.iter().position(|word| word == "-l") {
                    words[at] = "--lcores".to_owned();
                    words[at + 1] = format!("0@0,1@{}", there.core);
                }
                if let Some(at) = words.iter().position(|word| word == "--main-lcore") {
                    words[at + 1] = "0".to_owned();
                }
                Ok(format!("{}{} <>{CHANNEL} >&0\n", taken(megabytes), quoted(&words)))
            }
            Self::Linux => kernel(request),
        }
    }
}

/// The drivers that testpmd loads, among those of this machine.
fn drivers() -> Result<Vec<PathBuf>, DutError> {
    let base = PathBuf::from("/usr/lib/x86_64-linux-gnu/dpdk");
    let none = |reason: String| DutError::File { path: base.clone(), reason };
    let entries = std::fs::read_dir(&base).map_err(|error| none(error.to_string()))?;
    let folder = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).max();
    let folder = folder.ok_or_else(|| none("it has no drivers; apt-get install dpdk-dev".to_owned()))?;
    let found = std::fs::read_dir(&folder).map_err(|error| none(error.to_string()))?;
    let mut drivers: Vec<PathBuf> = found
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Of the three names of each the one that the loader asks for: `librte_net_virtio.so.23`.
            TESTPMD_LOADS
                .iter()
                .any(|driver| name.strip_prefix(driver).is_some_and(|rest| rest.matches('.').count() == 1))
        })
        .collect();
    drivers.sort();
    Ok(drivers)
}

/// Huge pages for DPDK, and the ports in the hands of a driver that lets programs have them.
fn taken(megabytes: u64) -> String {
    let pages = megabytes.div_ceil(2);
    let mut script = format!(
        "echo {pages} >/proc/sys/vm/nr_hugepages\n\
         got=$(cat /proc/sys/vm/nr_hugepages)\n\
         if [ \"$got\" -lt {pages} ]; then\n    \
             echo \"weir-guest: $got of {pages} huge pages of 2 MiB: the guest has too little memory\"\n    \
             exit 1\n\
         fi\n"
    );
    for address in ADDRESSES {
        let device = format!("/sys/bus/pci/devices/{address}");
        let _ = write!(
            script,
            "[ ! -e {device}/driver ] || echo {address} >{device}/driver/unbind\n\
             echo uio_pci_generic >{device}/driver_override\n\
             echo {address} >/sys/bus/pci/drivers_probe\n"
        );
    }
    script
}

/// Tables of connections are reserved for their largest size, which is more than a guest has, and filled as needed.
const OVERCOMMIT: &str = "echo 1 >/proc/sys/vm/overcommit_memory\n";

/// iproute2 by its path: busybox's shell may take its own applet for a name alone, which reads no batches.
const IP: &str = "/bin/ip";

/// The guest's kernel as the function, and a loop that tells its counters.
fn kernel(request: &StartRequest<'_>) -> Result<String, DutError> {
    let nf = request.nf;
    // Ethernet's header and check sum are not of the kernel's largest packet.
    let mtu = request.max_frame.bytes().max(LEAST_FRAME) - AROUND;
    let setup = Setup::of(nf).map_err(|reason| DutError::Unsupported { dut: "linux", nf, reason })?;
    let mut script = "set -e\n".to_owned();
    for (port, address) in INTERFACES.into_iter().zip(ADDRESSES) {
        let _ =
            writeln!(script, "{IP} link set $(ls /sys/bus/pci/devices/{address}/virtio*/net) name {port}");
        let _ = writeln!(script, "{IP} link set {port} mtu {mtu} up");
    }
    for step in &setup.steps {
        match step {
            Step::Settings(settings) => {
                for (name, value) in *settings {
                    let _ = writeln!(script, "[ ! -e /proc/sys/{name} ] || echo {value} >/proc/sys/{name}");
                }
            }
            Step::Ip(text) => {
                let _ = write!(script, "{IP} -batch - <<'END'\n{text}END\n");
            }
            Step::Nft(text) => {
                let _ = write!(script, "nft -f - <<'END'\n{text}END\n");
            }
        }
    }
    let _ = writeln!(script, "what='{}'\nchannel={CHANNEL}", setup.what);
    Ok(script + include_str!("kernel.sh"))
}

/// Words as a shell reads them.
fn quoted(words: &[String]) -> String {
    let word = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;
    use weir_trial::Nf;

    fn script(device: &str, nf: Nf, vcpus: u32) -> String {
        let folder = Folder::new().unwrap();
        let ports = ["net_virtio_user0,path=/a".to_owned(), "net_virtio_user1,path=/b".to_owned()];
        let request = StartRequest { variant: crate::split(device).1, ..request(nf, &ports, &folder) };
        let guest = Guest { vcpus, ..Guest::default() };
        Inside::of(device).unwrap().script(&request, guest).unwrap()
    }

    #[test]
    fn our_program_has_its_ports_by_address_and_forwards_on_the_last_processor() {
        let text = script("faulty:drop:1e-3", Nf::Firewall { rules: 7 }, 2);
        assert!(text.contains("'weir' 'nf' 'firewall' '--entries' '7' '--port' '0000:00:10.0'"), "{text}");
        assert!(text.contains("'--core' '1'") && text.contains("'--huge-pages'"), "{text}");
        assert!(text.contains("'--fault' 'drop:1e-3'") && text.ends_with(" <>/dev/vport0p1 >&0\n"), "{text}");
        assert!(!text.contains("net_virtio_user"), "{text}");
    }

    #[test]
    fn our_switch_has_its_flows_in_a_file_of_the_guest_and_no_controller() {
        let text = script("weir:nocoalesce", "pipeline-b:16".parse().unwrap(), 1);
        assert!(text.contains("cat >/tmp/flows.txt <<'END'\n") && text.contains("\nEND\n"), "{text}");
        assert!(text.contains("cat >/tmp/services.toml <<'END'\n[service.transcoder]"), "{text}");
        let line = text.lines().last().unwrap();
        assert!(
            line.starts_with("'weir' 'switch' '--config' '/tmp/services.toml' '--flows' '/tmp/flows.txt'")
        );
        assert!(line.contains("'--port' 'p1=0000:00:10.0'") && line.contains("'--no-coalescing'"), "{line}");
        assert!(!line.contains("--listen") && line.ends_with(" <>/dev/vport0p1 >&0"), "{line}");
        let folder = Folder::new().unwrap();
        let request = StartRequest { variant: "idle=7", ..request(Nf::L2Fwd, &[], &folder) };
        let refused = Inside::Weir.script(&request, Guest::default()).unwrap_err().to_string();
        assert!(refused.contains("this one is in a guest"), "{refused}");
    }

    #[test]
    fn testpmd_has_two_cores_of_the_eal_on_one_processor() {
        let text = script("testpmd", Nf::L2Fwd, 1);
        assert!(text.contains("'--lcores' '0@0,1@0' '--main-lcore' '0'"), "{text}");
        assert!(text.contains("'-a' '0000:00:11.0'") && !text.contains("--no-pci"), "{text}");
    }

    #[test]
    fn the_kernel_is_set_up_as_the_one_of_this_machine_is() {
        let bridge = script("linux", Nf::Firewall { rules: 3 }, 1);
        assert!(bridge.contains("\n/bin/ip link set port1 mtu 1500 up\n"), "{bridge}");
        assert!(
            bridge.contains("link add weir type bridge") && bridge.contains("table bridge weir"),
            "{bridge}"
        );
        let router = script("linux", Nf::L3Fwd { routes: 5 }, 1);
        assert!(router.contains("route add blackhole default") && router.contains("ip_forward"), "{router}");
    }

    #[test]
    fn devices_that_no_guest_is_known_to_run_are_told() {
        assert_eq!(Inside::of("faulty:drop"), Some(Inside::Nf));
        assert_eq!(Inside::of("ovs-dpdk"), None);
    }
}

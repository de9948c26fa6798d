//! The command line of a guest's QEMU.

use super::inside::ADDRESSES;
use crate::eal::Vdev;
use crate::linux;
use crate::{DutError, StartRequest};
use std::path::Path;
use std::process::Command;
use weir_trial::{Accel, Guest};
use weir_wire::table::port_mac;

pub(super) const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";

/// Descriptors in each ring of a guest's ports: the most that QEMU gives them.
const RING: u16 = 1024;

/// What a kernel is told: where it speaks, from its first line on, to say only what is wrong, to end when it dies, to send
/// nothing of its own accord, to unpack the image where it may take more than half of the memory, and not to try each of its
/// ciphers first, a tenth of an emulated guest's boot.
const KERNEL: &str =
    "console=ttyS0 earlyprintk=ttyS0 quiet panic=-1 ipv6.disable=1 rootfstype=ramfs cryptomgr.notests";

/// The version of QEMU that is here.
pub(super) fn version() -> Result<String, DutError> {
    let missing = |_| DutError::MissingForGuests { program: PROGRAM, package: PACKAGE };
    let output = Command::new(PROGRAM).arg("--version").output().map_err(missing)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().nth(3).unwrap_or("of unknown version");
    Ok(format!("QEMU {version}"))
}

/// What boots in a guest.
pub(super) struct Boot<'a> {
    pub(super) kernel: &'a Path,
    pub(super) image: &'a Path,
    /// What the first process runs, a script.
    pub(super) script: &'a Path,
}

/// The arguments: memory that the host's process may map, a console on standard error, a channel on standard input
/// and output, and the function's ports.
pub(super) fn arguments(request: &StartRequest<'_>, guest: Guest, boot: &Boot<'_>) -> Vec<String> {
    let (accel, cpu) = match guest.accel {
        Accel::Kvm => ("kvm", "host"),
        // QEMU 7.2 emulates VAES wrongly: what is encrypted with it cannot be decrypted elsewhere.
        Accel::Tcg => ("tcg", "max,vaes=off"),
    };
    // QEMU 7.2 dies of the first masked message interrupt of a vhost-user port that no KVM delivers.
    let interrupts = if guest.accel == Accel::Tcg { "vectors=0," } else { "" };
    let pages = if request.huge_pages { ",hugetlb=on,hugetlbsize=2M,prealloc=on" } else { "" };
    let mut words: Vec<String> = Vec::new();
    let mut say = |option: &str, value: String| words.extend([format!("-{option}"), value]);
    // Threads have names by which the processors' are found.
    say("name", "weir-guest,debug-threads=on".to_owned());
    say("machine", format!("q35,accel={accel},memory-backend=memory"));
    say("object", format!("memory-backend-memfd,id=memory,size={}M,share=on{pages}", guest.memory));
    say("cpu", cpu.to_owned());
    say("smp", guest.vcpus.to_string());
    say("m", guest.memory.to_string());
    say("kernel", boot.kernel.display().to_string());
    say("initrd", boot.image.display().to_string());
    say("append", KERNEL.to_owned());
    say("fw_cfg", format!("name=opt/weir/run,file={}", boot.script.display()));
    say("serial", "file:/dev/stderr".to_owned());
    say("device", "virtio-serial-pci,max_ports=2".to_owned());
    say("chardev", "stdio,id=channel".to_owned());
    say("device", "virtserialport,chardev=channel,nr=1".to_owned());
    for ((number, port), address) in (0_u8..).zip(request.ports).zip(ADDRESSES) {
        let port = Vdev::new(port);
        let (path, serves) = (port.option("path").unwrap_or_default(), port.option("server") == Some("1"));
        let server = if serves { ",server=on,wait=off" } else { "" };
        say("chardev", format!("socket,id=link{number},path={path}{server}"));
        say("netdev", format!("vhost-user,id=net{number},chardev=link{number}"));
        let mac = linux::text(port_mac(number));
        let slot = address.trim_start_matches("0000:00:").trim_end_matches(".0");
        say(
            "device",
            format!(
                "virtio-net-pci,netdev=net{number},mac={mac},addr=0x{slot},rx_queue_size={RING},tx_queue_size={RING},{interrupts}{}",
                OFFLOADS.map(|name| format!("{name}=off")).join(",")
            ),
        );
    }
    words.extend(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"].map(str::to_owned));
    words
}

/// What a port could leave to the other side, which forwards frames as they are.
const OFFLOADS: [&str; 11] = [
    "csum",
    "gso",
    "guest_csum",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;
    use weir_trial::Nf;

    #[test]
    fn a_guest_has_memory_to_share_its_ports_and_the_processors_asked_for() {
        let folder = Folder::new().unwrap();
        let ports = [
            "net_virtio_user200,path=/t/a.sock,queues=1,queue_size=1024".to_owned(),
            "net_virtio_user201,path=/t/b.sock,queues=1,queue_size=1024,server=1".to_owned(),
        ];
        let request = request(Nf::L2Fwd, &ports, &folder);
        let guest = Guest { vcpus: 2, memory: 384, accel: Accel::Tcg };
        let boot = Boot { kernel: Path::new("/k"), image: Path::new("/i"), script: Path::new("/s") };
        let line = arguments(&request, guest, &boot).join(" ");
        for said in [
            "accel=tcg",
            "-cpu max,vaes=off -smp 2 -m 384",
            "tx_queue_size=1024,vectors=0,csum=off",
            "memory-backend-memfd,id=memory,size=384M,share=on -cpu",
            "socket,id=link0,path=/t/a.sock -netdev",
            "socket,id=link1,path=/t/b.sock,server=on,wait=off",
            "mac=02:00:00:00:01:01,addr=0x11,",
        ] {
            assert!(line.contains(said), "{said}: {line}");
        }
        let huge = StartRequest { huge_pages: true, ..request };
        let line = arguments(&huge, Guest { accel: Accel::Kvm, ..guest }, &boot).join(" ");
        assert!(!line.contains("vectors=0"), "{line}");
        assert!(
            line.contains("hugetlb=on,hugetlbsize=2M,prealloc=on") && line.contains("-cpu host"),
            "{line}"
        );
    }
}

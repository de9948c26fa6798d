//! What every DPDK program is started with: cores, memory, ports.
//!
//! One home for the arguments of DPDK's environment abstraction layer (EAL), so that the programs
//! measured differ in what they do and not in how they were started. Nothing here runs while a
//! trial does.

use crate::StartRequest;
use std::time::Duration;

/// How long a program may take to open its ports, or to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Packet buffers beside those that hold a fed trace, of a pair of ports: their rings, caches, bursts.
pub const SPARE_BUFFERS: u32 = 16_384;

/// Descriptors in each ring of the DUT's ports.
pub(crate) const RING: u16 = 1024;

/// Bytes before a frame in its packet buffer (`RTE_PKTMBUF_HEADROOM`).
pub(crate) const HEADROOM: u64 = 128;

/// Least room for a frame in a packet buffer, in bytes: what DPDK's drivers take for granted
/// (`RTE_MBUF_DEFAULT_DATAROOM`).
const LEAST_ROOM: u16 = 2048;

/// Bytes of a packet buffer beside its room: its own header and the pool's.
const HEADERS: u64 = 256;

/// Bytes that a packet buffer costs elsewhere: its places in rings, and what the allocator keeps.
const PLACES: u64 = 64;

/// Bytes of an ordinary page. Without huge pages no packet buffer lies across two of them, if it fits in one.
const PAGE: u64 = 4096;

/// What the EAL and the drivers want for themselves, in MiB.
const OWN_MEGABYTES: u64 = 128;

/// Packet buffers that each further queue of a pair of ports takes: its rings, twice over.
pub(crate) const QUEUE_BUFFERS: u32 = 8 * RING as u32;

/// Packet buffers that a program must have.
pub(crate) fn buffers(request: &StartRequest<'_>) -> u32 {
    let pairs = (request.ports.len() as u32).div_ceil(2);
    request.buffers + SPARE_BUFFERS + pairs * QUEUE_BUFFERS * further_queues(request)
}

/// Queues of each port beyond the first.
pub(crate) fn further_queues(request: &StartRequest<'_>) -> u32 {
    u32::from(request.queues.max(1)) - 1
}

/// Bytes of a packet buffer that the largest frame fits in, its headroom included.
pub(crate) fn room(request: &StartRequest<'_>) -> u64 {
    u64::from(request.max_frame.bytes().max(LEAST_ROOM)) + HEADROOM
}

/// What a pool of packet buffers takes, each of `size` bytes with its headers, in MiB.
pub(crate) fn pool_megabytes(request: &StartRequest<'_>, buffers: u64, size: u64) -> u64 {
    let spread = match PAGE / size {
        _ if request.huge_pages => size,
        0 => size.next_multiple_of(PAGE),
        a_page => PAGE / a_page,
    };
    (buffers * (spread + PLACES)).div_ceil(1 << 20)
}

/// What a program takes, in MiB: its packet buffers, what the EAL wants, and its tables.
pub(crate) fn megabytes(request: &StartRequest<'_>, tables: u64) -> u64 {
    let pool = pool_megabytes(request, u64::from(buffers(request)), room(request) + HEADERS);
    pool + OWN_MEGABYTES + tables
}

/// How a program uses its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lcores {
    /// Its main thread does everything else and sits on the control core.
    MainAndWorker,
    /// It forwards on its main thread and has no other.
    MainForwards,
}

/// The arguments before `--`. `tables` is what the program wants beside its packet buffers, in MiB;
/// `telemetry` whether it is to be asked for its counters (see [`crate::telemetry`]).
pub(crate) fn arguments(
    request: &StartRequest<'_>,
    lcores: Lcores,
    tables: u64,
    telemetry: bool,
) -> Vec<String> {
    let megabytes = megabytes(request, tables);
    let (control, forward) = (request.control_core, request.core);
    let (list, main) = match lcores {
        Lcores::MainAndWorker => {
            let workers: Vec<String> = request.workers().iter().map(ToString::to_string).collect();
            (format!("{control},{}", workers.join(",")), control)
        }
        Lcores::MainForwards => (forward.to_string(), forward),
    };
    let mut arguments: Vec<String> =
        vec!["-l".into(), list, "--main-lcore".into(), main.to_string(), "-m".into(), megabytes.to_string()];
    arguments.extend(pages(request.huge_pages).map(str::to_owned));
    if !telemetry {
        arguments.push("--no-telemetry".into());
    }
    if request.ports.iter().all(|port| is_virtual(port)) {
        arguments.push("--no-pci".into());
    }
    for port in request.ports {
        let option = if is_virtual(port) { "--vdev" } else { "-a" };
        arguments.extend([option.to_owned(), port.clone()]);
    }
    arguments
}

/// Where the memory comes from. A single file for all huge pages keeps a vhost-user peer's memory
/// table short.
fn pages(huge: bool) -> [&'static str; 2] {
    if huge { ["--in-memory", "--single-file-segments"] } else { ["--no-huge", "--no-shconf"] }
}

/// The version of DPDK, out of what a program prints that was started with `-v`.
pub(crate) fn version(text: &str) -> Option<&str> {
    let (_, version) = text.lines().find_map(|line| line.split_once("RTE Version: 'DPDK "))?;
    version.split('\'').next()
}

/// Whether a port is an EAL `--vdev` string; otherwise it is a PCI address.
pub(crate) fn is_virtual(port: &str) -> bool {
    port.starts_with("net_")
}

/// Whether the ports are to take packets for any address. Virtual ports take them anyway, and some refuse
/// to be told.
pub(crate) fn promiscuous(request: &StartRequest<'_>) -> bool {
    !request.ports.iter().all(|port| is_virtual(port))
}

/// An EAL `--vdev` string, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vdev<'a>(&'a str);

impl<'a> Vdev<'a> {
    /// Of this string.
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The device's name: driver and number, such as `net_pcap0`.
    pub(crate) fn name(self) -> &'a str {
        self.0.split(',').next().unwrap_or(self.0)
    }

    /// The driver, such as `net_pcap`.
    pub(crate) fn driver(self) -> &'a str {
        self.name().trim_end_matches(|c: char| c.is_ascii_digit())
    }

    /// The value of an option.
    pub(crate) fn option(self, key: &str) -> Option<&'a str> {
        self.0.split(',').skip(1).find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::wiring::External;
    use std::sync::{Arc, LazyLock};
    use weir_trial::Nf;
    use weir_units::FrameSize;

    static EXTERNAL: LazyLock<External> = LazyLock::new(External::default);

    /// A request without huge pages: core 3 forwards, core 2 controls.
    pub(crate) fn request<'a>(nf: Nf, ports: &'a [String], folder: &'a Folder) -> StartRequest<'a> {
        StartRequest {
            nf,
            variant: "",
            ports,
            core: 3,
            queues: 1,
            further: &[],
            control_core: 2,
            huge_pages: false,
            buffers: 0,
            max_frame: FrameSize::new(64).unwrap(),
            folder,
            namespace: None,
            external: &EXTERNAL,
            shared_core: false,
            contained: false,
            sharing: None,
            far: None,
            alarm: Arc::default(),
        }
    }

    #[test]
    fn cores_memory_and_ports_are_stated_and_pci_is_left_alone_for_virtual_ports() {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1,no-rx=1".to_owned()];
        let mut request = request(Nf::L2Fwd, &ports, &folder);
        let line = |request: &StartRequest<'_>, lcores| arguments(request, lcores, 0, false).join(" ");
        assert_eq!(
            line(&request, Lcores::MainAndWorker),
            "-l 2,3 --main-lcore 2 -m 193 --no-huge --no-shconf --no-telemetry --no-pci \
             --vdev net_null0 --vdev net_null1,no-rx=1"
        );
        request.huge_pages = true;
        let huge = line(&request, Lcores::MainForwards);
        assert!(huge.starts_with("-l 3 --main-lcore 3 ") && huge.contains("--in-memory"), "{huge}");
        let ports = ["0000:01:00.0".to_owned(), "0000:01:00.1".to_owned()];
        request.ports = &ports;
        let pci = line(&request, Lcores::MainAndWorker);
        assert!(pci.ends_with("-a 0000:01:00.0 -a 0000:01:00.1") && !pci.contains("--no-pci"), "{pci}");
    }

    #[test]
    fn memory_grows_with_the_fed_trace_the_frames_and_the_tables() {
        let folder = Folder::new().unwrap();
        let mut request = request(Nf::L2Fwd, &[], &folder);
        let megabytes = |request: &StartRequest<'_>, tables| -> u64 {
            let arguments = arguments(request, Lcores::MainAndWorker, tables, false);
            arguments[1 + arguments.iter().position(|word| word == "-m").unwrap()].parse().unwrap()
        };
        let small = megabytes(&request, 0);
        assert_eq!(megabytes(&request, 64), small + 64);
        request.buffers = 100_000;
        let trace = megabytes(&request, 0);
        assert!(trace > small + 390, "a buffer takes a page: {trace}");
        request.huge_pages = true;
        let huge = megabytes(&request, 0);
        assert!((small + 200..trace - 100).contains(&huge), "{huge}");
        request.max_frame = FrameSize::MAX;
        assert!(megabytes(&request, 0) > 2 * huge);
    }

    #[test]
    fn the_version_is_found_among_other_lines() {
        let text = "EAL: Detected NUMA nodes: 1\nEAL: RTE Version: 'DPDK 22.11.11'\nusage";
        assert_eq!((version(text), version("EAL: Detected")), (Some("22.11.11"), None));
    }

    #[test]
    fn a_vdev_string_is_taken_apart() {
        let vdev = Vdev::new("net_vhost10,iface=/t/link0.sock,queues=1,client=1");
        assert_eq!((vdev.name(), vdev.driver()), ("net_vhost10", "net_vhost"));
        assert_eq!([vdev.option("iface"), vdev.option("client")], [Some("/t/link0.sock"), Some("1")]);
        assert_eq!([vdev.option("i"), vdev.option("server")], [None, None]);
    }
}

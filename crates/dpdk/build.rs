//! Compiles the C shim and links DPDK statically, with the poll-mode drivers that Weir uses and no others.
//!
//! `pkg-config --static` would drag in over a hundred drivers and libraries that Debian does not
//! ship as archives, so the archives are named here. Drivers register themselves by constructors
//! and must be linked whole.

/// Drivers and the mempool handler: constructors register them, so the linker must keep all of each.
const WHOLE: &[&str] = &[
    "mempool_ring",
    "bus_vdev",
    "bus_pci",
    "net_null",
    "net_ring",
    "net_virtio",
    "net_vhost",
    "net_memif",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_pcap",
    "net_e1000",
];

/// Libraries that the drivers and the shim call.
const LIBRARIES: &[&str] = &[
    "vhost",
    "dmadev",
    "security",
    "cryptodev",
    "hash",
    "rcu",
    "timer",
    "pci",
    "ethdev",
    "meter",
    "net",
    "mbuf",
    "mempool",
    "gso",
    "ip_frag",
    "ring",
    "eal",
    "telemetry",
    "kvargs",
];

/// Shared libraries that the archives need.
const SYSTEM: &[&str] = &["numa", "xdp", "bpf", "pcap", "bsd"];

const ADVICE: &str = "DPDK's headers and archives are missing. Run `./x setup`, or on Debian 12: \
                      apt-get install --no-install-recommends libdpdk-dev pkg-config";

fn main() {
    println!("cargo:rerun-if-changed=csrc/shim.c");
    let dpdk = pkg_config::Config::new()
        .cargo_metadata(false)
        .atleast_version("22.11")
        .probe("libdpdk")
        .unwrap_or_else(|error| panic!("{ADVICE}\n\n{error}"));

    let mut shim = cc::Build::new();
    shim.file("csrc/shim.c")
        .opt_level(3)
        .flag("-include")
        .flag("rte_config.h")
        .flag("-march=x86-64-v2")
        .flag("-Wno-deprecated-declarations")
        .define("ALLOW_EXPERIMENTAL_API", None);
    dpdk.include_paths.iter().for_each(|path| {
        shim.include(path);
    });
    shim.compile("weir_dpdk_shim");

    let folder = pkg_config::get_variable("libdpdk", "libdir").expect("libdpdk.pc names its library folder");
    println!("cargo:rustc-link-search=native={folder}");
    for name in WHOLE {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
    }
    for name in LIBRARIES {
        println!("cargo:rustc-link-lib=static:-bundle=rte_{name}");
    }
    for name in SYSTEM {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
}

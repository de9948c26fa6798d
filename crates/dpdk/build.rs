//! Compiles the C shim and links DPDK statically, with the poll-mode drivers that Weir uses and no others.
//!
//! `pkg-config --static` would drag in over a hundred drivers and libraries that Debian does not
//! ship as archives, so the archives are named here. Drivers register themselves by constructors
//! and must be linked whole. The memif driver is linked from a copy in which it registers its callbacks with
//! `csrc/memif.c`, which says why.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Drivers and the mempool handlers: constructors register them, so the linker must keep all of each.
const WHOLE: &[&str] = &[
    "mempool_ring",
    "mempool_stack",
    "bus_vdev",
    "bus_pci",
    "net_null",
    "net_ring",
    "net_virtio",
    "net_vhost",
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
    "stack",
    "ring",
    "eal",
    "telemetry",
    "kvargs",
];

/// Shared libraries that the archives need.
const SYSTEM: &[&str] = &["numa", "xdp", "bpf", "pcap", "bsd"];

/// The memif driver's copy.
const MEMIF: &str = "weir_net_memif";

/// DPDK's functions that the memif driver calls `weir_memif_...` in the copy.
const RENAMED: &[&str] = &["callback_register", "callback_unregister", "callback_unregister_pending"];

const ADVICE: &str = "DPDK's headers and archives are missing. Run `./x setup`, or on Debian 12: \
                      apt-get install --no-install-recommends libdpdk-dev pkg-config";

fn main() {
    println!("cargo:rerun-if-changed=csrc");
    let dpdk = pkg_config::Config::new()
        .cargo_metadata(false)
        .atleast_version("22.11")
        .probe("libdpdk")
        .unwrap_or_else(|error| panic!("{ADVICE}\n\n{error}"));

    let mut shim = cc::Build::new();
    shim.files(["csrc/shim.c", "csrc/memif.c", "csrc/af_packet.c"])
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
    let ours = memif(Path::new(&folder));
    println!("cargo:rustc-link-search=native={}", ours.display());
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static:+whole-archive,-bundle={MEMIF}");
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

/// Copies the memif driver with its calls renamed; returns the copy's folder.
fn memif(folder: &Path) -> PathBuf {
    let archive = folder.join("librte_net_memif.a");
    println!("cargo:rerun-if-changed={}", archive.display());
    let ours = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder for what is built"));
    let status = Command::new("objcopy")
        .args(RENAMED.iter().map(|name| format!("--redefine-sym=rte_intr_{name}=weir_memif_{name}")))
        .args([archive, ours.join(format!("lib{MEMIF}.a"))])
        .status()
        .expect("objcopy runs: it is in binutils, which the C compiler needs too");
    assert!(status.success(), "objcopy cannot copy DPDK's memif driver: {status}; {ADVICE}");
    ours
}

//! Compiles the C shim and links DPDK statically, with the poll-mode drivers that Weir uses and no others.
//!
//! `pkg-config --static` would drag in over a hundred drivers and libraries that Debian does not
//! ship as archives, so the archives are named here. Drivers register themselves by constructors
//! and must be linked whole. Two archives are linked from copies in which they call functions of ours in place of others:
//! the memif driver registers its callbacks with `csrc/memif.c`, and the EAL looks for cores by `csrc/eal.c`, which say why.

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

/// Functions that the memif driver calls, by their names in DPDK and here.
const OF_MEMIF: &[(&str, &str)] = &[
    ("rte_intr_callback_register", "weir_memif_callback_register"),
    ("rte_intr_callback_unregister", "weir_memif_callback_unregister"),
    ("rte_intr_callback_unregister_pending", "weir_memif_callback_unregister_pending"),
];

/// The same of the EAL.
const OF_EAL: &[(&str, &str)] = &[("access", "weir_eal_access"), ("mmap64", "weir_eal_mmap")];

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
    shim.files(["csrc/shim.c", "csrc/eal.c", "csrc/memif.c", "csrc/af_packet.c"])
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
    let ours = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder for what is built"));
    copy(Path::new(&folder), &ours, "net_memif", OF_MEMIF);
    copy(Path::new(&folder), &ours, "eal", OF_EAL);
    println!("cargo:rustc-link-search=native={}", ours.display());
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=weir_net_memif");
    for name in WHOLE {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
    }
    for name in LIBRARIES {
        let whose = if *name == "eal" { "weir" } else { "rte" };
        println!("cargo:rustc-link-lib=static:-bundle={whose}_{name}");
    }
    for name in SYSTEM {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
}

/// Copies one of DPDK's archives, `librte_NAME.a`, to `libweir_NAME.a` among `ours`, with its calls of these functions renamed.
fn copy(folder: &Path, ours: &Path, name: &str, calls: &[(&str, &str)]) {
    let archive = folder.join(format!("librte_{name}.a"));
    println!("cargo:rerun-if-changed={}", archive.display());
    let status = Command::new("objcopy")
        .args(calls.iter().map(|(theirs, here)| format!("--redefine-sym={theirs}={here}")))
        .args([&archive, &ours.join(format!("libweir_{name}.a"))])
        .status()
        .expect("objcopy runs: it is in binutils, which the C compiler needs too");
    assert!(status.success(), "objcopy cannot copy {}: {status}; {ADVICE}", archive.display());
}

//! Puts into the program how it was built: compiler, target, flags.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let tell = |name: &str, value: &str| println!("cargo:rustc-env={name}={value}");
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into());
    tell("WEIR_RUSTC", rustc.trim());
    tell("WEIR_TARGET", &variable("TARGET"));
    tell("WEIR_PROFILE", &variable("PROFILE"));
    tell("WEIR_OPT_LEVEL", &variable("OPT_LEVEL"));
    tell("WEIR_TARGET_FEATURES", &variable("CARGO_CFG_TARGET_FEATURE"));
    // Flags stand apart by the unit separator.
    let flags = variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    let cpu = flags.split("target-cpu=").nth(1).and_then(|rest| rest.split_whitespace().next());
    tell("WEIR_TARGET_CPU", cpu.unwrap_or("x86-64 (the target's default)"));
    tell("WEIR_RUST_FLAGS", &flags);
}

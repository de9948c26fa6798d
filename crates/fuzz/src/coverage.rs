//! The fuzz targets under libFuzzer: `WEIR_FUZZ=NAME weir-fuzz-coverage [libFuzzer's options] CORPUS`. `./x fuzz` builds
//! it, with the counters that libFuzzer goes by.

#![no_main]

use std::sync::OnceLock;
use weir_cpu::CountingAllocator;
use weir_fuzz::{Target, one, target};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The target of this process.
fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("WEIR_FUZZ").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            eprintln!("WEIR_FUZZ is `{name}`, which is no target; `weir-fuzz list` has them");
            std::process::exit(2)
        })
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = chosen();
    if input.len() <= target.longest
        && let Err(failure) = one(target, input)
    {
        eprintln!("{failure}");
        std::process::abort();
    }
});

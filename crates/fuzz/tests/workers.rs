//! The fuzz targets that start workers: apart, as these take cores that tests beside them may count on.

use std::time::Duration;
use weir_cpu::CountingAllocator;
use weir_fuzz::{Effort, TARGETS, go};
use weir_testkit::asked;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn bursts_of_any_frames_end_once_with_two_workers() {
    let effort = Effort {
        seed: asked("WEIR_FUZZ_SEED", 32),
        inputs: asked("WEIR_FUZZ_INPUTS", 20_000),
        time: Duration::from_millis(asked("WEIR_FUZZ_MILLIS", 2500)),
    };
    for target in TARGETS.iter().filter(|target| target.workers) {
        let account = go(target, effort).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{}: {account}", target.name);
        assert!(account.outcomes > 3, "{account}");
    }
}

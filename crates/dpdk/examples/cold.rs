//! What a machine forgets of a core that only waits: the time of a walk over [`LINES`] cache lines in [`PAGES`] pages,
//! each of which says where the next one is, after the core has polled for a while and touched nothing else. About as
//! much as a packet needs on its way through two processes.
//!
//! On a machine that is one's own the walk takes the same time after 10 ms as after 1 µs. Where neighbours share the
//! caches, or the hypervisor moves cores about, it does not, and packets that come seldom are slow for that reason.
//!
//! Run: `cargo run --release -p weir-dpdk --example cold -- [CORE]` (the last core this process may use).

use std::process::ExitCode;
use std::time::Duration;
use weir_cpu::{Ticks, Tsc, allowed_cores};
use weir_dpdk::{Eal, EalConfig, Memory, Worker};

/// Cache lines of a walk.
const LINES: usize = 200;

/// Pages that they lie in.
const PAGES: usize = 64;

/// 32-bit words of a page, and of a cache line.
const PAGE: usize = 1024;
const LINE: usize = 16;

/// How long the core waits before a walk, and how many walks there are.
const WAITS: [(Duration, usize); 6] = [
    (Duration::from_micros(1), 2000),
    (Duration::from_micros(10), 2000),
    (Duration::from_micros(100), 2000),
    (Duration::from_millis(1), 500),
    (Duration::from_millis(3), 300),
    (Duration::from_millis(10), 200),
];

/// Words that each say where the next one is, all around.
fn circle() -> Vec<u32> {
    let mut memory = vec![0; PAGES * PAGE];
    // Lines of all pages in an order that no prefetcher guesses: a step that has no factor in common with their number.
    let all = PAGES * PAGE / LINE;
    let places: Vec<usize> = (0..LINES).map(|at| at * 1789 % all * LINE).collect();
    for (at, &place) in places.iter().enumerate() {
        memory[place] = places[(at + 1) % LINES] as u32;
    }
    memory
}

/// One walk; its time in ticks.
fn walk(memory: &[u32]) -> u64 {
    let start = Ticks::now();
    let mut at = 0;
    for _ in 0..LINES {
        at = memory[at as usize];
    }
    std::hint::black_box(at);
    Ticks::now().since(start)
}

fn measure(tsc: Tsc) {
    let memory = circle();
    println!("{:>8}  {:>9}  {:>9}  {:>9}", "waited", "median", "p90", "max");
    for (wait, walks) in WAITS {
        let ticks = tsc.ticks(wait.into());
        let mut times: Vec<u64> = (0..walks)
            .map(|_| {
                let start = Ticks::now();
                while Ticks::now().since(start) < ticks {
                    std::hint::spin_loop();
                }
                walk(&memory)
            })
            .collect();
        times.sort_unstable();
        let shown = |at: usize| format!("{:.2} µs", tsc.nanos(times[at]).0 as f64 / 1e3);
        let waited = format!("{wait:?}");
        println!(
            "{waited:>8}  {:>9}  {:>9}  {:>9}",
            shown(walks / 2),
            shown(walks * 9 / 10),
            shown(walks - 1)
        );
    }
}

fn main() -> ExitCode {
    let cores = allowed_cores();
    let core = match std::env::args().nth(1).map(|word| word.parse()) {
        Some(Ok(core)) => core,
        Some(Err(error)) => {
            eprintln!("cold: the core is a number: {error}");
            return ExitCode::from(2);
        }
        None => cores.last().copied().unwrap_or(0),
    };
    let done = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 64, pci: false })
        .map_err(|error| error.to_string())
        .and_then(|eal| {
            let tsc = Tsc::get();
            println!("core {core}, {LINES} cache lines in {PAGES} pages");
            let worker = Worker::spawn(eal, "cold", core, move || measure(tsc));
            worker.and_then(Worker::join).map_err(|error| error.to_string())
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cold: {error}");
            ExitCode::FAILURE
        }
    }
}

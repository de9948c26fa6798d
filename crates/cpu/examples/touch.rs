//! How many touches of memory that nobody touched for a while take long: the table in docs/notebook.md, "Memory that a
//! hypervisor puts away". `cargo run --release -p weir-cpu --example touch`
//!
//! Of pages of 4 KiB, where the kernel gives no larger ones unasked (transparent huge pages: `madvise` or `never`).

use std::time::{Duration, Instant};

const BYTES: usize = 64 << 20;
const PAGE: usize = 4096;
const LONG: Duration = Duration::from_micros(8);

fn main() {
    let mut memory = vec![1; BYTES];
    println!("untouched for  touches over {LONG:?} of {}  all touches", BYTES / PAGE);
    for milliseconds in [0, 50, 100, 200, 400, 800, 1600, 3200] {
        touch(&mut memory);
        std::thread::sleep(Duration::from_millis(milliseconds));
        let begin = Instant::now();
        let long = touch(&mut memory);
        println!("{milliseconds:10} ms  {long:30}  {:8.2} ms", begin.elapsed().as_secs_f64() * 1e3);
    }
}

/// Writes a byte of each page; how many of these took long.
fn touch(memory: &mut [u8]) -> usize {
    let mut long = 0;
    for page in memory.chunks_mut(PAGE) {
        let begin = Instant::now();
        page[0] = std::hint::black_box(page[0].wrapping_add(1));
        long += usize::from(begin.elapsed() > LONG);
    }
    long
}

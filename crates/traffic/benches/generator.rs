//! How many packets a second the generator makes on one core.
//!
//! Run it with `./x generator`. Each case makes stamped frames of a trace and hands them to a port
//! that takes everything: DPDK's null port, which frees them, and a ring that this core empties
//! itself. Rounds alternate between the cases, so that a machine whose speed drifts hits all of
//! them; the table gives the median round and the range.

use std::num::NonZeroU32;
use std::time::Duration;
use weir_dpdk::{BURST, Burst, Eal, EalConfig, Memory, Pool, Port, PortConfig, RxQueue, Ticks, Tsc, Worker};
use weir_traffic::trace::{Sizes, TraceSpec};
use weir_traffic::{Sender, Shape};
use weir_units::{FrameSize, Pps};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(100);

struct Case {
    label: String,
    sender: Sender,
    ring: Option<RxQueue>,
    rates: Vec<f64>,
    _port: Port,
}

fn main() {
    let memory = if huge_pages_free() >= 128 { Memory::Huge } else { Memory::Normal };
    let eal = match Eal::init(EalConfig { memory, megabytes: 256, pci: false }) {
        Ok(eal) => eal,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    };
    let core = *weir_dpdk::allowed_cores().last().expect("a process runs somewhere");
    println!("generator on core {core}, {memory:?} pages, {}, rounds of {ROUND:?}", Eal::version());
    let worker = Worker::spawn(eal, "generator", core, move || measure(eal)).and_then(Worker::join);
    match worker {
        Ok(cases) => print(eal, &cases),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

fn measure(eal: &'static Eal) -> Vec<Case> {
    let pool =
        Pool::new(eal, 16_384, FrameSize::new(1522).expect("a legal size")).expect("256 MiB hold the pool");
    let mut cases = Vec::new();
    for (sink, name) in [("null", "net_null"), ("ring", "net_ring")] {
        for (trace, size) in
            [("flows:10k", 64), ("flows:1", 64), ("flows:1m", 64), ("flows:10k", 512), ("flows:10k", 1500)]
        {
            let number = cases.len();
            let spec = TraceSpec::parse(trace).expect("a trace by name");
            let spec = spec.sizes(Sizes::Fixed(FrameSize::new(size).expect("a legal size")));
            let mut port =
                Port::open(&format!("{name}{number}"), PortConfig::default(), &pool).expect("a virtual port");
            let (rx, tx) = port.take_queue().expect("its queue");
            let source = spec.build().expect("a synthetic trace");
            let sender = Sender::new(source, tx, &pool, Shape::Constant, NonZeroU32::MIN, 1);
            let ring = (sink == "ring").then_some(rx);
            let label = format!("{sink:<5} {trace:>10} {size:>5} B");
            cases.push(Case { label, sender, ring, rates: Vec::new(), _port: port });
        }
    }
    for round in 0..=ROUNDS {
        for case in &mut cases {
            let rate = case.round(Tsc::get(eal));
            if round > 0 {
                case.rates.push(rate); // the first round warms up
            }
        }
    }
    cases
}

impl Case {
    /// Packets a second over one round.
    fn round(&mut self, tsc: Tsc) -> f64 {
        let (start, sent) = (Ticks::now(), self.sender.sent());
        let mut taken = Burst::new();
        while tsc.nanos(Ticks::now().since(start)).duration() < ROUND {
            for _ in 0..16 {
                self.sender.offer_now(BURST);
                if let Some(ring) = &mut self.ring {
                    ring.receive(&mut taken);
                    taken.clear();
                }
            }
        }
        (self.sender.sent() - sent) as f64 / tsc.nanos(Ticks::now().since(start)).seconds()
    }
}

fn print(eal: &'static Eal, cases: &[Case]) {
    println!(
        "{:<5} {:>10} {:>7}   {:>12} {:>25} {:>14}",
        "sink", "trace", "size", "median", "range", "cycles/packet"
    );
    for case in cases {
        let mut rates = case.rates.clone();
        rates.sort_by(f64::total_cmp);
        let (least, median, most) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
        let range = format!("{} to {}", Pps(least), Pps(most));
        println!("{}   {:>12} {range:>25} {:>14.1}", case.label, Pps(median), Tsc::get(eal).hz() / median);
    }
}

fn huge_pages_free() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

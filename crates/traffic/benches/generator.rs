//! How many packets a second the generator makes, on one core or on several.
//!
//! Run it with `./x generator`, or `./x generator --threads 2`. Each case makes stamped frames of a trace
//! and hands them to a port that takes everything: DPDK's null port, which frees them, and a ring that
//! the sending core empties itself. Several threads have a share of the trace's flows and a transmit queue
//! each. Rounds alternate between the cases, so that a machine whose speed drifts hits all of them; the
//! table gives the median round and the range. With several threads each round is taken with one thread
//! just before, and the last column is the median of their ratios.
//!
//! `./x generator --receive` measures the receiver instead: cycles a packet for a lap that came back, held to its
//! stamps alone, to its checksums, and to the frames that its stamps name.

use std::num::NonZeroU32;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use weir_cpu::{Ticks, Tsc};
use weir_dpdk::{BURST, Burst, Eal, EalConfig, Memory, Pool, Port, PortConfig, RxQueue, Worker, WorkerError};
use weir_traffic::trace::{Sizes, TraceSpec};
use weir_traffic::{HeldTo, Receiver, Sender, Shape};
use weir_trial::Oracle;
use weir_units::{FrameSize, Pps};

const ROUNDS: usize = 15;
const LAPS: usize = 101;
const ROUND: Duration = Duration::from_millis(100);

/// One thread's share of a case.
struct Lane {
    core: usize,
    sender: Sender,
    ring: Option<RxQueue>,
}

/// A trace, a size and a sink, sent by some threads.
struct Case {
    lanes: Vec<Lane>,
    rates: Vec<f64>,
    _port: Port,
}

/// A case with one thread, and with all of them.
struct Row {
    label: String,
    alone: Case,
    together: Option<Case>,
}

fn main() {
    let memory = if huge_pages_free() >= 128 { Memory::Huge } else { Memory::Normal };
    let cores = weir_cpu::allowed_cores();
    if std::env::args().any(|argument| argument == "--receive") {
        return receive();
    }
    let done = threads(cores.len()).and_then(|threads| {
        let config = EalConfig { memory, megabytes: 256, pci: false };
        let eal = Eal::init(config).map_err(|error| error.to_string())?;
        // The last cores: the first often serves interrupts.
        let cores = &cores[cores.len() - threads..];
        println!("generator on cores {cores:?}, {memory:?} pages, {}, rounds of {ROUND:?}", Eal::version());
        let rows = measure(eal, cores).map_err(|error| error.to_string())?;
        print(&rows);
        Ok(())
    });
    if let Err(error) = done {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

/// Cycles a packet of the receiver.
fn receive() {
    let hz = Tsc::get().hz();
    println!("receiver, on any core, {}, median of {LAPS} laps, TSC {:.3} GHz", Eal::version(), hz / 1e9);
    println!("{:<10} {:>8} {:>7}  {:>18} {:>14}", "function", "flows", "size", "held to", "cycles/packet");
    for (nf, flows, size) in [
        ("l2fwd", "10k", 64),
        ("l3fwd:10", "10k", 64),
        ("l3fwd:10", "100k", 64),
        ("l2fwd", "10k", 512),
        ("l2fwd", "10k", 1500),
    ] {
        let oracle = Oracle::new(nf.parse().expect("a function"));
        let spec = TraceSpec::parse(&format!("flows:{flows}")).expect("a trace by name");
        let spec = spec.sizes(Sizes::Fixed(FrameSize::new(size).expect("a legal size")));
        let built = spec.build().expect("a synthetic trace");
        let table = built.table().expect("a trace in memory");
        let kinds = [HeldTo::Stamps, HeldTo::Checksums, HeldTo::Frames];
        let mut cases = kinds.map(|kind| (kind, Receiver::new(table, &oracle, kind), Vec::new()));
        for _ in 0..LAPS {
            for (_, receiver, laps) in &mut cases {
                receiver.begin();
                let start = Ticks::now();
                let right = receiver.judge();
                assert_eq!(right, table.len() as u64, "every packet is right");
                laps.push(Ticks::now().since(start) as f64 / right as f64);
            }
        }
        for (kind, _, laps) in &cases {
            let held = format!("{kind:?}").to_lowercase();
            println!("{nf:<10} {flows:>8} {size:>5} B  {held:>18} {:>14.1}", median(laps));
        }
    }
}

/// The number behind `--threads`; other arguments are the test harness's.
fn threads(cores: usize) -> Result<usize, String> {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(place) = arguments.iter().position(|argument| argument == "--threads") else { return Ok(1) };
    let text = arguments.get(place + 1).map_or("", String::as_str);
    match text.parse() {
        Ok(threads) if (1..=cores).contains(&threads) => Ok(threads),
        _ => Err(format!(
            "--threads takes a number from 1 to {cores}, the cores that may be used, not `{text}`"
        )),
    }
}

fn measure(eal: &'static Eal, cores: &[usize]) -> Result<Vec<Row>, WorkerError> {
    let pool =
        Pool::new(eal, 16_384, FrameSize::new(1522).expect("a legal size")).expect("256 MiB hold the pool");
    let mut rows = Vec::new();
    for sink in ["null", "ring"] {
        for (trace, size) in
            [("flows:10k", 64), ("flows:1", 64), ("flows:1m", 64), ("flows:10k", 512), ("flows:10k", 1500)]
        {
            let name = |threads| format!("net_{sink}{}_{threads}", rows.len());
            let alone = Case::new(&name(1), (trace, size), &cores[cores.len() - 1..], &pool);
            let together = (cores.len() > 1 && trace != "flows:1")
                .then(|| Case::new(&name(cores.len()), (trace, size), cores, &pool));
            rows.push(Row { label: format!("{sink:<5} {trace:>10} {size:>5} B"), alone, together });
        }
    }
    for round in 0..=ROUNDS {
        for row in &mut rows {
            for case in [Some(&mut row.alone), row.together.as_mut()].into_iter().flatten() {
                let rate = case.round(eal)?;
                if round > 0 {
                    case.rates.push(rate); // the first round warms up
                }
            }
        }
    }
    Ok(rows)
}

impl Case {
    fn new(port: &str, (trace, size): (&str, u32), cores: &[usize], pool: &Pool) -> Self {
        let config = PortConfig { queues: cores.len() as u16, ..PortConfig::default() };
        let mut port = Port::open(port, config, pool).expect("a virtual port");
        let spec = TraceSpec::parse(trace).expect("a trace by name");
        let spec = spec.sizes(Sizes::Fixed(FrameSize::new(size).expect("a legal size")));
        let shares = spec.build().expect("a synthetic trace").shares(cores.len());
        assert_eq!(shares.len(), cores.len(), "a flow for each thread");
        let lanes = shares.into_iter().zip(cores).map(|(share, core)| {
            let (rx, tx) = port.take_queue().expect("a queue for each thread");
            let sender = Sender::new(share, tx, pool, Shape::Constant, NonZeroU32::MIN, 1);
            Lane { core: *core, sender, ring: port.spec().starts_with("net_ring").then_some(rx) }
        });
        Self { lanes: lanes.collect(), rates: Vec::new(), _port: port }
    }

    /// Packets a second of all threads together over one round.
    fn round(&mut self, eal: &'static Eal) -> Result<f64, WorkerError> {
        let barrier = Arc::new(Barrier::new(self.lanes.len()));
        let work = std::mem::take(&mut self.lanes).into_iter().map(|mut lane| {
            let barrier = Arc::clone(&barrier);
            Worker::spawn(eal, "generator", lane.core, move || {
                barrier.wait();
                let rate = lane.round(Tsc::get());
                (lane, rate)
            })
        });
        let workers = work.collect::<Result<Vec<_>, _>>()?;
        let mut sum = 0.0;
        for worker in workers {
            let (lane, rate) = worker.join()?;
            self.lanes.push(lane);
            sum += rate;
        }
        Ok(sum)
    }

    fn median(&self) -> f64 {
        median(&self.rates)
    }
}

impl Lane {
    /// Packets a second of this thread.
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

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(rows: &[Row]) {
    println!(
        "{:<5} {:>10} {:>7}  {:>7}   {:>12} {:>25} {:>14}  {:>9}",
        "sink", "trace", "size", "threads", "median", "range", "cycles/packet", "times one"
    );
    for row in rows {
        for case in [Some(&row.alone), row.together.as_ref()].into_iter().flatten() {
            let least = case.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = case.rates.iter().copied().fold(0.0, f64::max);
            let range = format!("{} to {}", Pps(least), Pps(most));
            let threads = case.lanes.len();
            let ratios: Vec<f64> =
                case.rates.iter().zip(&row.alone.rates).map(|(all, one)| all / one).collect();
            let times = if threads > 1 { format!("{:>9.2}", median(&ratios)) } else { String::new() };
            println!(
                "{}  {threads:>7}   {:>12} {range:>25} {:>14.1}  {times}",
                row.label,
                Pps(case.median()),
                Tsc::get().hz() * threads as f64 / case.median()
            );
        }
    }
}

fn huge_pages_free() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

//! What a packet costs one worker, all in: TSC cycles, by flows and a source of packets.
//!
//! `cargo run --release -p weir-datapath --example forward -- CORE FLOWS PORT PORT...` forwards for a
//! second, once the flows are learnt, by the flow entries of a file, as `ovs-ofctl add-flows` reads it; ports are as for
//! `weir switch --port`, for example `net_pcap0,rx_pcap=64B.pcap,infinite_rx=1 net_null1,no-rx=1`; `service:NAME=KIND`
//! among them is a service that the flow entries call. It
//! prints cycles a packet, who answered lookups, and each step's cycles.
//! With several cores (`2,3`), each is a worker: the rate is that of all together.

use std::time::Duration;
use weir_cpu::Ticks;
use weir_datapath::{Change, Config, Datapath, PortSpec, Report, ServiceConfig};
use weir_dpdk::{Eal, EalConfig, Memory, Pool};
use weir_openflow::parse_flows;
use weir_units::FrameSize;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cores, flows, rest @ ..] = &arguments[..] else {
        return Err("usage: forward CORE[,CORE...] FLOWS [service:NAME=KIND...] PORT...".into());
    };
    let services = rest.iter().filter_map(|word| word.strip_prefix("service:")?.split_once('='));
    let services = services.map(|(name, kind)| (name.to_owned(), ServiceConfig::of_kind(kind))).collect();
    let ports: Vec<&String> = rest.iter().filter(|word| !word.starts_with("service:")).collect();
    let cores: Vec<usize> = cores.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let queues = u16::try_from(cores.len())?;
    // A source keeps what it replays in buffers; a million of the usual size are more than 2 GiB.
    let buffers = 45_000 + ports.iter().map(|port| packets(port)).sum::<u32>();
    let room = if buffers > 500_000 { 256 } else { Config::ROOM };
    let megabytes = u32::try_from(Pool::megabytes(buffers, room))? + 128;
    let memory = EalConfig { memory: Memory::Huge, megabytes, pci: false };
    let config = Config {
        cores,
        buffers,
        max_frame: FrameSize::MIN,
        room,
        services,
        coalescing: true,
        selection: weir_datapath::Selection::Flow,
        poll: weir_datapath::PollMode::Busy,
        tcam: None,
        experiment: weir_datapath::Experiment::default(),
        upcalls: Config::UPCALLS,
        seed: 7,
    };
    let mut datapath = Datapath::start(Eal::init(memory)?, config)?;
    let specs: Vec<PortSpec> = (1..)
        .zip(&ports)
        .map(|(number, spec)| PortSpec {
            name: format!("p{number}"),
            number: None,
            spec: (*spec).clone(),
            queues,
            descriptors: 1024,
        })
        .collect();
    let changes = parse_flows(&std::fs::read_to_string(flows)?, datapath.names())?;
    datapath.add_ports(&specs)?;
    datapath.apply(&changes.into_iter().map(Change::Flow).collect::<Vec<_>>())?;
    settle(&mut datapath)?;
    let (before, start) = (datapath.report()?, Ticks::now());
    std::thread::sleep(Duration::from_secs(1));
    let (after, cycles) = (datapath.report()?, Ticks::now().since(start));
    print(&before, &after, cycles as f64);
    Ok(())
}

/// Waits until next to no packet takes anything but the caches, for ten seconds at most.
fn settle(datapath: &mut Datapath) -> Result<(), Box<dyn std::error::Error>> {
    let (mut packets, mut others) = (0, 0);
    for _ in 0..33 {
        std::thread::sleep(Duration::from_millis(300));
        let workers = datapath.report()?.workers;
        let of = |what: fn(&weir_datapath::WorkerReport) -> u64| workers.iter().map(what).sum::<u64>();
        let now = (of(|worker| worker.received), of(|worker| worker.caches.direct + worker.caches.upcalls));
        let (came, took) = (now.0 - packets, now.1 - others);
        if took * 1000 < came {
            break;
        }
        (packets, others) = now;
    }
    Ok(())
}

/// Packets of a port's captures, at most: each takes 16 bytes there beside its own 60 or more.
fn packets(port: &str) -> u32 {
    let bytes = |path: &str| std::fs::metadata(path).map_or(0, |file| file.len());
    port.split(',')
        .filter_map(|word| word.strip_prefix("rx_pcap="))
        .map(|path| (bytes(path) / 76) as u32)
        .sum()
}

fn print(before: &Report, after: &Report, cycles: f64) {
    let received = |report: &Report| report.workers.iter().map(|worker| worker.received).sum::<u64>();
    println!("cycles a packet  {:8.1}", cycles / (received(after) - received(before)) as f64);
    for (old, new) in before.workers.iter().zip(&after.workers) {
        let (old_caches, caches, packets) = (&old.caches, &new.caches, (new.received - old.received) as f64);
        for (by, old, new) in [
            ("fast path", old_caches.shortcut_hits, caches.shortcut_hits),
            ("exact match", old_caches.exact_hits, caches.exact_hits),
            ("megaflows", old_caches.megaflow_hits, caches.megaflow_hits),
            ("upcalls", old_caches.upcalls, caches.upcalls),
        ] {
            println!("{by:<16} {:8.1} %", 100.0 * (new - old) as f64 / packets);
        }
        for (old, new) in old.steps.iter().zip(&new.steps).filter(|(old, new)| new.packets > old.packets) {
            let each = (new.cycles - old.cycles) as f64 / (new.packets - old.packets) as f64;
            println!("{:<16} {each:8.1}", new.step);
        }
    }
}

//! What changes of flow entries cost: the switch's thread, and the packets.
//!
//! `cargo run --release -p weir-datapath --example changes -- CORE ENTRIES` starts a worker on a core that
//! forwards a thousand flows as fast as it can, and changes the table that it forwards by: so many entries as
//! one, then one entry at a time, of which no packet is concerned (also where it may overlap no other, and where
//! it goes by a match that is not strict), then one that all packets are concerned by.
//! For each it prints changes a second and the packets forwarded a second meanwhile. No packet may be dropped.

use std::fs;
use std::time::{Duration, Instant};
use weir_datapath::{Change, Config, Datapath, PortSpec};
use weir_dpdk::{Eal, EalConfig, Memory};
use weir_openflow::{PortNo, parse_flows};
use weir_units::{FrameSize, Nanos};
use weir_wire::pcap::{CaptureWriter, Format};

/// How long each kind of change goes on.
const TIME: Duration = Duration::from_secs(2);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A packet of a flow to 198.18.0.0/16.
fn frame(flow: u32) -> Vec<u8> {
    weir_frames::of_flow(0xc613_0001, 0xc612_0000 + flow, (1000, 80), &[0; 18])
}

fn entry(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!("priority=10,udp,nw_dst=10.{a}.{b}.{c},tp_dst={} actions=output:2\n", number % 60_000 + 1)
}

struct Bench {
    datapath: Datapath,
}

impl Bench {
    fn changes(&self, text: &str) -> Outcome<Vec<Change>> {
        Ok(parse_flows(text, self.datapath.names())?.into_iter().map(Change::Flow).collect())
    }

    fn sent(&mut self) -> Outcome<u64> {
        let report = self.datapath.report()?;
        let dropped: u64 = report.workers.iter().flat_map(|worker| worker.dropped.values()).sum();
        if dropped > 0 {
            return Err(format!("{dropped} packets were dropped: {:?}", report.workers[0].dropped).into());
        }
        Ok(report.workers.iter().map(|worker| worker.sent).sum())
    }

    /// Does something over and over, and prints how often and what was forwarded meanwhile.
    fn during(
        &mut self,
        what: &str,
        mut change: impl FnMut(&mut Datapath, u32) -> Outcome<()>,
    ) -> Outcome<()> {
        let (before, begin, mut done) = (self.sent()?, Instant::now(), 0);
        let mut longest = Duration::ZERO;
        while begin.elapsed() < TIME {
            let each = Instant::now();
            change(&mut self.datapath, done)?;
            longest = longest.max(each.elapsed());
            done += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let rate = (self.sent()? - before) as f64 / seconds;
        println!(
            "{what:<44} {:>9.0} a second, the longest took {longest:>9.1?}; {:.2} Mpps",
            f64::from(done) / seconds,
            rate / 1e6
        );
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [core, entries] = &arguments[..] else { return Err("usage: changes CORE ENTRIES".into()) };
    let entries: u32 = entries.parse()?;
    let folder = tempfile::tempdir()?;
    let capture = folder.path().join("in.pcap");
    let mut writer = CaptureWriter::new(fs::File::create(&capture)?, Format::Pcap)?;
    (0..1000).try_for_each(|flow| writer.write(Nanos(0), &frame(flow)))?;
    writer.finish()?;
    let memory = EalConfig { memory: Memory::Normal, megabytes: 256, pci: false };
    let config = Config {
        cores: vec![core.parse()?],
        buffers: 8192,
        max_frame: FrameSize::new(1522)?,
        room: Config::ROOM,
        services: std::collections::BTreeMap::new(),
        coalescing: true,
        selection: weir_datapath::Selection::Flow,
        poll: weir_datapath::PollMode::Busy,
        tcam: None,
        experiment: weir_datapath::Experiment::default(),
        upcalls: Config::UPCALLS,
        seed: 7,
    };
    let mut bench = Bench { datapath: Datapath::start(Eal::init(memory)?, config)? };
    let first =
        bench.changes("priority=1,in_port=1 actions=output:2\npriority=10,udp,tp_dst=9 actions=drop")?;
    bench.datapath.apply(&first)?;
    let specs = [(1, format!("trace:{},loop", capture.display())), (2, "null".to_owned())];
    let specs = specs.map(|(number, spec)| {
        let (name, number) = (format!("p{number}"), Some(PortNo(number)));
        PortSpec { name, number, spec, queues: 1, descriptors: 1024 }
    });
    bench.datapath.add_ports(&specs)?;
    bench.during("no change", |_, _| {
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    })?;
    let all = bench.changes(&(0..entries).map(entry).collect::<String>())?;
    let removed = bench.changes("delete udp,nw_dst=10.0.0.0/8")?;
    bench.during(&format!("{entries} entries come as one, and go"), |datapath, _| {
        datapath.apply(&all)?;
        datapath.apply(&removed)?;
        Ok(())
    })?;
    bench.datapath.apply(&all)?;
    let mut one = |what: String, (comes, goes): (&str, &str)| -> Outcome<()> {
        let (comes, goes) = (bench.changes(comes)?, bench.changes(goes)?);
        bench.during(&what, |datapath, round| {
            Ok(datapath.apply(if round % 2 == 0 { &comes } else { &goes })?)
        })?;
        bench.datapath.apply(&goes)?;
        Ok(())
    };
    let elsewhere = entry(entries);
    let (matching, _) = elsewhere.split_once(" actions").unwrap_or_default();
    let strict = format!("delete_strict {matching}");
    let (_, matching) = matching.split_once(',').unwrap_or_default();
    let (part, _) = matching.rsplit_once(',').unwrap_or_default();
    one(format!("one of {entries} comes or goes, elsewhere"), (&elsewhere, &strict))?;
    one("  it may overlap no other".to_owned(), (&format!("check_overlap,{elsewhere}"), &strict))?;
    one("  it goes by a match that is not strict".to_owned(), (&elsewhere, &format!("delete {matching}")))?;
    one("  it goes by a part of its match".to_owned(), (&elsewhere, &format!("delete {part}")))?;
    one(
        format!("one of {entries} comes or goes, for all"),
        (
            "priority=9,udp,nw_dst=198.18.0.0/16 actions=output:2",
            "delete_strict priority=9,udp,nw_dst=198.18.0.0/16",
        ),
    )?;
    bench.datapath.stop()?;
    Ok(())
}

//! A datapath between captures: frames in by some ports, frames out by others, and the ledger.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_datapath::{Change, Config, ControlError, Datapath, PortSpec, Report, ServiceConfig, WorkerReport};
use weir_dpdk::{Eal, EalConfig, Memory};
use weir_openflow::{Group, Meter, Names, PortNo, parse_flows};
use weir_units::{FrameSize, Nanos};
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};

pub(crate) struct Rig {
    pub(crate) datapath: Datapath,
    folder: tempfile::TempDir,
}

/// What came of it.
pub(crate) struct End {
    pub(crate) report: Report,
    folder: tempfile::TempDir,
}

pub(crate) fn config(workers: usize) -> Config {
    let cores = weir_cpu::allowed_cores();
    Config {
        cores: cores.into_iter().cycle().take(workers).collect(),
        buffers: 8192,
        max_frame: FrameSize::new(1522).unwrap(),
        services: BTreeMap::new(),
        coalescing: true,
        selection: weir_datapath::Selection::Flow,
        // Workers sleep where nothing comes: others are at work on their cores. `waiting.rs` has the other ways.
        poll: "adaptive:200us".parse().unwrap(),
        tcam: None,
        room: Config::ROOM,
        experiment: weir_datapath::Experiment::default(),
        upcalls: Config::UPCALLS,
        seed: 7,
    }
}

pub(crate) fn service(kind: &str, settings: serde_json::Value) -> ServiceConfig {
    ServiceConfig { settings, ..ServiceConfig::of_kind(kind) }
}

/// A UDP packet of a flow.
pub(crate) fn udp(source: u32, destination: u32, ports: (u16, u16)) -> Vec<u8> {
    weir_frames::of_flow(source, destination, ports, &[0x77; 18])
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        let eal = EalConfig { memory: Memory::Normal, megabytes: 512, pci: false };
        let datapath = Datapath::start(Eal::init(eal).expect("EAL starts anywhere"), config).unwrap();
        Self { datapath, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn flows(&mut self, text: &str) {
        self.try_flows(text).unwrap();
    }

    pub(crate) fn try_flows(&mut self, text: &str) -> Result<(), ControlError> {
        let changes = parse_flows(text, self.datapath.names()).unwrap();
        self.datapath.apply(&changes.into_iter().map(Change::Flow).collect::<Vec<_>>())
    }

    pub(crate) fn groups(&mut self, text: &str) {
        let names = Names::default();
        let groups = text.lines().map(|line| Change::SetGroup(Group::parse(line.trim(), &names).unwrap()));
        self.datapath.apply(&groups.collect::<Vec<_>>()).unwrap();
    }

    pub(crate) fn meter(&mut self, text: &str) {
        self.datapath.apply(&[Change::SetMeter(Meter::parse(text).unwrap())]).unwrap();
    }

    /// A port where these frames come in once; what leaves there is kept.
    pub(crate) fn source(&mut self, number: u32, frames: &[Vec<u8>], more: &str) {
        let trace = self.trace(number, frames, more);
        self.port(number, &trace);
    }

    /// The same behind a port with faults.
    pub(crate) fn faulty_source(&mut self, number: u32, frames: &[Vec<u8>], more: &str, faults: &str) {
        let trace = self.trace(number, frames, more);
        self.port(number, &format!("fault:{faults}:{trace}"));
    }

    fn trace(&self, number: u32, frames: &[Vec<u8>], more: &str) -> String {
        let capture = self.path(&format!("in{number}.pcap"));
        let mut writer =
            CaptureWriter::new(BufWriter::new(fs::File::create(&capture).unwrap()), Format::Pcap).unwrap();
        frames.iter().for_each(|frame| writer.write(Nanos(0), frame).unwrap());
        writer.finish().unwrap();
        let out = self.path(&format!("out{number}.pcap"));
        format!("trace:{},tx={}{more}", capture.display(), out.display())
    }

    /// A port where nothing comes in; what leaves there is kept.
    pub(crate) fn sink(&mut self, number: u32) {
        let out = self.path(&format!("out{number}.pcap"));
        self.port(number, &format!("trace:,tx={}", out.display()));
    }

    /// The same behind a port with faults.
    pub(crate) fn faulty_sink(&mut self, number: u32, faults: &str) {
        let out = self.path(&format!("out{number}.pcap"));
        self.port(number, &format!("fault:{faults}:trace:,tx={}", out.display()));
    }

    pub(crate) fn port(&mut self, number: u32, spec: &str) {
        let spec = PortSpec {
            name: format!("p{number}"),
            number: Some(PortNo(number)),
            spec: spec.to_owned(),
            queues: 1,
            descriptors: 512,
        };
        self.datapath.add_port(&spec).unwrap();
    }

    /// Waits until so many packets came in, and none is on its way to another worker: one that has no
    /// core for a while would be stopped before it took them.
    pub(crate) fn wait(&mut self, received: u64) -> Report {
        self.wait_until(|report| {
            let sum = |of: fn(&WorkerReport) -> u64| report.workers.iter().map(of).sum::<u64>();
            let all_taken = sum(|worker| worker.handed_over) == sum(|worker| worker.taken_over);
            sum(|worker| worker.received) >= received && all_taken
        })
    }

    /// Waits until it is so, for a minute at most. Under Miri, where a report takes seconds, and workers
    /// stand meanwhile, it looks rarely, for an hour at most.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn(&Report) -> bool) -> Report {
        let (pause, patience) = if cfg!(miri) {
            (Duration::from_secs(10), Duration::from_secs(3600))
        } else {
            (Duration::from_millis(2), Duration::from_secs(60))
        };
        let begin = Instant::now();
        loop {
            let report = self.datapath.report().unwrap();
            check_sum(&report);
            if is_so(&report) {
                return report;
            }
            assert!(begin.elapsed() < patience, "{report:#?}");
            std::thread::sleep(pause);
        }
    }

    /// Stops it; no packet buffer is missing.
    pub(crate) fn end(self) -> End {
        let (report, missing) = self.datapath.stop().unwrap();
        check_sum(&report);
        assert_eq!(missing, 0, "packet buffers");
        End { report, folder: self.folder }
    }
}

impl End {
    /// Frames that left by a port.
    pub(crate) fn sent(&self, number: u32) -> Vec<Vec<u8>> {
        let file = fs::File::open(self.folder.path().join(format!("out{number}.pcap"))).unwrap();
        let mut reader = CaptureReader::new(file).unwrap();
        let mut frames = Vec::new();
        while let Some(packet) = reader.next_packet().unwrap() {
            frames.push(packet.data.to_vec());
        }
        frames
    }

    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        self.report.workers.iter().filter_map(|worker| worker.dropped.get(reason)).sum()
    }
}

/// Every packet ends exactly once: worker by worker.
pub(crate) fn check_sum(report: &Report) {
    for worker in &report.workers {
        let came = worker.received + worker.injected + worker.copied + worker.taken_over;
        let dropped: u64 = worker.dropped.values().sum();
        let went = worker.sent + dropped + worker.to_controller + worker.handed_over + worker.held;
        assert_eq!(came, went, "{worker:#?}");
    }
}

/// Asks again while a worker does not answer because other programs have its core.
pub(crate) fn patiently<T>(mut ask: impl FnMut() -> Result<T, ControlError>) -> T {
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) if begin.elapsed() < Duration::from_secs(60) => {
                assert!(error.0.contains("has not answered"), "{error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

//! Weir's datapath, fed and watched like the other.

use crate::frames::number;
use crate::ovs::{At, PATIENCE, PORTS};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Instant;
use weir_datapath::{CaptureFilter, Captured, Change, Config, ControlError, Datapath, PortFlags, PortSpec};
use weir_dpdk::{Eal, EalConfig, Memory};
use weir_openflow::{FlowMod, Group, Names, PortNo, Select, parse_flows};
use weir_units::{FrameSize, Nanos};

/// The datapath between null ports, and what leaves by them.
pub(crate) struct Ours {
    datapath: Datapath,
    sent: Receiver<Captured>,
}

impl Ours {
    pub(crate) fn start(coalescing: bool) -> Self {
        let eal = EalConfig { memory: Memory::Normal, megabytes: 256, pci: false };
        let config = Config {
            cores: weir_cpu::allowed_cores().into_iter().take(1).collect(),
            buffers: 8192,
            max_frame: FrameSize::new(1522).unwrap(),
            services: BTreeMap::new(),
            coalescing,
            selection: weir_datapath::Selection::Flow,
            // Both sides sleep while the other, or the test, is at work.
            poll: weir_datapath::PollMode::Adaptive { within: Nanos(1_000_000) },
            tcam: None,
            room: Config::ROOM,
            experiment: weir_datapath::Experiment::default(),
            upcalls: Config::UPCALLS,
            seed: 7,
        };
        let mut datapath = Datapath::start(Eal::init(eal).expect("EAL starts anywhere"), config).unwrap();
        for port in PORTS.into_iter().chain([9]) {
            let spec = PortSpec {
                name: format!("p{port}"),
                number: Some(PortNo(port)),
                spec: "null".to_owned(),
                queues: 1,
                descriptors: 512,
            };
            datapath.add_port(&spec).unwrap();
        }
        let sent = datapath.capture(CaptureFilter { sent: true, ..CaptureFilter::default() });
        Self { datapath, sent }
    }

    /// Replaces all groups and flows, at once.
    pub(crate) fn load(&mut self, groups: &[String], flows: &[String]) -> Result<(), String> {
        let names = Names::default();
        let mut changes = vec![Change::Flow(FlowMod::Delete(Select::default())), Change::DeleteGroup(None)];
        for group in groups {
            changes.push(Change::SetGroup(Group::parse(group, &names).map_err(|error| error.to_string())?));
        }
        let flows = parse_flows(&flows.join("\n"), &names).map_err(|error| error.to_string())?;
        changes.extend(flows.into_iter().map(Change::Flow));
        patiently(|| self.datapath.apply(&changes)).map_err(|error| error.to_string())
    }

    /// Lets frames in, those of a port together in bursts, and returns what leaves in its order.
    pub(crate) fn forward(&mut self, frames: &[At]) -> Vec<At> {
        for together in frames.chunk_by(|a, b| a.0 == b.0) {
            let (port, _) = together[0];
            self.datapath.inject_all(PortNo(port), together.iter().map(|(_, frame)| frame.clone()).collect());
        }
        self.settle();
        let sent = self.sent.try_iter().map(|captured| (captured.port.0, unpadded(captured.bytes)));
        sent.filter(|(port, _)| PORTS.contains(port)).collect()
    }

    /// Whether it ends a frame because a header that is to be changed is malformed or missing.
    pub(crate) fn refuses(&mut self, frame: &At) -> bool {
        let count = |ours: &mut Self| {
            let report = patiently(|| ours.datapath.report()).unwrap();
            let dropped = &report.workers[0].dropped;
            ["no-such-header", "bad-header"].map(|reason| dropped.get(reason).copied().unwrap_or(0))
        };
        let before = count(self);
        self.forward(std::slice::from_ref(frame));
        before != count(self)
    }

    /// Learns addresses of the packets that came.
    pub(crate) fn learn(&mut self) {
        while patiently(|| self.datapath.learn()).unwrap() > 0 {}
    }

    /// Forgets all addresses.
    pub(crate) fn forget_learned(&mut self) {
        patiently(|| self.datapath.forget_learned(None, None)).unwrap();
    }

    /// Says whether a port is flooded to.
    pub(crate) fn flood(&mut self, port: u32, floods: bool) {
        let flags = PortFlags { no_flood: !floods, ..PortFlags::default() };
        patiently(|| self.datapath.configure_port(PortNo(port), flags)).unwrap();
    }

    /// The connections that it knows, as Open vSwitch prints them.
    pub(crate) fn connections(&mut self) -> Vec<String> {
        let (mut all, mut from) = (Vec::new(), serde_json::json!(0));
        while !from.is_null() {
            let step = serde_json::json!({ "from": from });
            let parts = patiently(|| self.datapath.command("conntrack", "dump", &step)).unwrap();
            all.extend(parts[0]["connections"].as_array().unwrap().iter().cloned());
            from = parts[0]["next"].clone();
        }
        all.iter().map(|connection| connection["text"].as_str().unwrap().to_owned()).collect()
    }

    /// What it makes of a frame, step by step.
    pub(crate) fn explain(&self, (port, frame): &At) -> String {
        self.datapath.explain(PortNo(*port), frame, &[])
    }

    /// Waits until all is forwarded; each packet has ended once.
    fn settle(&mut self) {
        let report = patiently(|| self.datapath.report()).unwrap();
        let worker = &report.workers[0];
        let dropped: u64 = worker.dropped.values().sum();
        let went = worker.sent + dropped + worker.to_controller;
        assert_eq!((worker.injected + worker.copied, worker.held), (went, 0), "{worker:#?}");
    }

    /// Ends it; no packet buffer is missing. Returns how many lookups the caches answered.
    pub(crate) fn stop(self) -> u64 {
        let (report, missing) = self.datapath.stop().unwrap();
        assert_eq!(missing, 0, "packet buffers");
        let caches = &report.workers[0].caches;
        caches.shortcut_hits + caches.exact_hits + caches.megaflow_hits
    }
}

/// Asks again while the worker does not answer: on a machine that is full, it may not run for long.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, ControlError>) -> Result<T, ControlError> {
    let begin = Instant::now();
    loop {
        match ask() {
            Err(error) if error.0.contains("has not answered") && begin.elapsed() < PATIENCE => {}
            answer => return answer,
        }
    }
}

/// A frame without the zeros behind its number, which Weir has where a popped header would leave it shorter than
/// Ethernet's frames are, and Open vSwitch has not. Headers that are pushed after that make it longer.
fn unpadded(mut frame: Vec<u8>) -> Vec<u8> {
    let zeros = frame.iter().rev().take_while(|byte| **byte == 0).count();
    if frame.len() >= 60 && number(&frame).is_none() {
        let whole = frame.len();
        let end = (whole - zeros..whole).find(|end| number(&frame[..*end]).is_some());
        frame.truncate(end.unwrap_or(whole));
    }
    frame
}

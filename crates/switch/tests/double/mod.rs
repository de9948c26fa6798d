//! A datapath that forwards nothing and remembers everything: what the control side is tried on without
//! DPDK. What the real one does with the same requests is seen to by `crates/cli/tests/switch.rs`.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use weir_datapath::{
    Applied, ApplyError, CaptureFilter, Captured, Change, ControlError, Dead, Event, FlowStats, FlowSum,
    GroupStats, LearnedAddress, LearningConfig, LearningCounts, MeterStats, PacketIn, PacketOut, Plan,
    PortAbout, PortFlags, PortReport, PortSpec, Refused, Report, ServiceReport, TableReport, Traced, Wants,
    WorkerReport,
};
use weir_openflow::{
    Ahead, FlowMod, Group, GroupId, Meter, MeterId, Names, PortCounts, PortNo, Select, TableSum, Tables,
};
use weir_services::HostReport;
use weir_switch::{
    About, ChannelSettings, Client, ControlSocket, Ended, Inbound, Plane, RunError, Settings, Switch,
};

/// A configuration in which each part of the file has a place.
pub(crate) const CONFIGURATION: &str = r#"[switch]
cores = [1, 3]
huge_pages = true
memory_mib = 512
buffers = 65536
max_frame = 9018
coalescing = false
seed = 7
control = "run/weir.sock"
metrics = "127.0.0.1:9464"

[port.zulu]
spec = "net_vhost0,iface=/tmp/a"
queues = 2
[port.alpha]
spec = "trace:in.pcap,tx=out.pcap,loop,rate=2Mpps"
[port.mike]
spec = "0000:01:00.0"
number = 1
descriptors = 512

[service.firewall]
kind = "conntrack"
settings = { timeouts = { udp_single = 30 } }
limits = { panics = 5, policy = "pass" }
[service.counter]

[tables]
flows = """
table=0,ip,nw_dst=10.0.0.0/8 actions=softflow:firewall:1
sf_stage=1,sf_metadata=1 actions=output:alpha
"""
"#;

/// What a test sees and does behind the switch's back.
#[derive(Default)]
pub(crate) struct Behind {
    /// Each list of changes that was applied.
    pub(crate) applied: Vec<Vec<Change>>,
    /// What will be told at the next tick.
    pub(crate) events: Vec<Event>,
    /// A worker that died.
    pub(crate) dead: Option<Dead>,
    /// What is wrong with the workers.
    pub(crate) trouble: Option<String>,
    /// Captures that run.
    pub(crate) captures: Vec<(CaptureFilter, Sender<Captured>)>,
    /// Commands to services.
    pub(crate) commands: Vec<(String, String, Value)>,
    /// Plans that were carried out.
    pub(crate) plans: Vec<Plan>,
    /// Frames to be traced.
    pub(crate) traced: Vec<(PortNo, Vec<u8>)>,
}

pub(crate) struct Double {
    names: Names,
    ports: BTreeMap<PortNo, PortSpec>,
    flows: Vec<FlowStats>,
    groups: BTreeMap<GroupId, Group>,
    meters: BTreeMap<MeterId, Meter>,
    learning: LearningConfig,
    forgot: bool,
    pub(crate) behind: Arc<Mutex<Behind>>,
}

impl Double {
    pub(crate) fn new() -> Self {
        let mut names = Names::default();
        names.add_service("conntrack");
        Self {
            names,
            ports: BTreeMap::new(),
            flows: Vec::new(),
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            learning: LearningConfig::default(),
            forgot: false,
            behind: Arc::default(),
        }
    }
}

fn same(stats: &FlowStats, flow: &weir_openflow::Flow) -> bool {
    stats.flow.table == flow.table
        && stats.flow.priority == flow.priority
        && stats.flow.matching == flow.matching
}

impl Double {
    fn add_port(&mut self, spec: &PortSpec) -> Result<PortNo, ControlError> {
        let number = spec.number.expect("the switch numbers ports");
        if spec.spec == "bad" || self.ports.contains_key(&number) {
            return Err(ControlError(format!(
                "port `{}`: `{}` cannot be opened as {number}",
                spec.name, spec.spec
            )));
        }
        self.names.add_port(&spec.name, number);
        self.ports.insert(number, spec.clone());
        Ok(number)
    }
}

impl Plane for Double {
    fn names(&self) -> &Names {
        &self.names
    }

    fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<PortNo>, ControlError> {
        specs.iter().map(|spec| self.add_port(spec)).collect()
    }

    fn remove_port(&mut self, number: PortNo) -> Result<(), ControlError> {
        let port = self.ports.remove(&number).ok_or_else(|| ControlError(format!("no port {number}")))?;
        self.names.remove_port(&port.name);
        Ok(())
    }

    fn free_old_tables(&mut self) {}

    /// Refuses what `apply` or `add_ports` would, before anything is done.
    fn carry_out(&mut self, plan: &Plan) -> Result<Vec<PortNo>, ControlError> {
        if let Some(port) = plan.open_ports.iter().find(|port| port.spec == "bad") {
            return Err(ControlError(format!(
                "opening ports: port `{}`; all is as it was before",
                port.name
            )));
        }
        if !plan.changes.is_empty() {
            self.apply(plan.changes.clone())?;
        }
        plan.add_services.iter().for_each(|(name, _)| {
            self.names.add_service(name);
        });
        plan.close_ports.iter().try_for_each(|number| self.remove_port(*number))?;
        let numbers = self.add_ports(&plan.open_ports)?;
        plan.remove_services.iter().for_each(|name| self.names.remove_service(name));
        self.behind.lock().unwrap().plans.push(plan.clone());
        Ok(numbers)
    }

    fn report_without_tables(&mut self) -> Result<Report, ControlError> {
        self.report().map(|report| Report { tables: Vec::new(), ..report })
    }

    fn report(&mut self) -> Result<Report, ControlError> {
        let worker = WorkerReport {
            received: 10,
            sent: 8,
            dropped: BTreeMap::from([("no-match".into(), 2)]),
            ..WorkerReport::default()
        };
        let port = |(number, spec): (&PortNo, &PortSpec)| PortReport {
            number: number.0,
            name: spec.name.clone(),
            spec: spec.spec.clone(),
            link_up: true,
            ..PortReport::default()
        };
        let service = ServiceReport {
            name: "conntrack".to_owned(),
            kind: "conntrack",
            instances: vec![HostReport { packets: 3, ..HostReport::default() }],
        };
        Ok(Report {
            workers: vec![worker],
            ports: self.ports.iter().map(port).collect(),
            services: vec![service],
            ..Report::default()
        })
    }

    fn dead(&mut self) -> Option<Dead> {
        self.behind.lock().unwrap().dead.clone()
    }

    fn last_report(&self) -> Report {
        Report { uptime_ns: 77, ..Report::default() }
    }

    fn tick(&mut self) -> Result<Vec<Event>, ControlError> {
        let mut behind = self.behind.lock().unwrap();
        match &behind.trouble {
            Some(trouble) => Err(ControlError(trouble.clone())),
            None => Ok(std::mem::take(&mut behind.events)),
        }
    }

    fn capture(&mut self, filter: CaptureFilter) -> Receiver<Captured> {
        let (sender, receiver) = channel();
        self.behind.lock().unwrap().captures.push((filter, sender));
        receiver
    }

    fn release(&mut self, service: &str) -> Result<(), ControlError> {
        self.command(service, "release", &Value::Null).map(drop)
    }

    fn trace(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> Traced {
        self.behind.lock().unwrap().traced.push((in_port, frame.to_vec()));
        let steps = format!("{} bytes at port {in_port} {metadata:?}", frame.len());
        Traced { steps, ..Traced::default() }
    }

    fn learns(&self) -> bool {
        false
    }

    fn learn(&mut self) -> Result<usize, ControlError> {
        Ok(0)
    }

    /// One, until it is forgotten.
    fn learned(&mut self) -> Result<Vec<LearnedAddress>, ControlError> {
        let age = Duration::from_millis(3700);
        let one = LearnedAddress { vlan: 5, address: [2, 0, 0, 0, 0, 0xa], port: PortNo(1), age };
        Ok(if self.forgot { Vec::new() } else { vec![one] })
    }

    fn learning(&self) -> (LearningConfig, LearningCounts) {
        (self.learning, LearningCounts { learned: 4, moved: 3, expired: 2, evicted: 1 })
    }

    fn set_learning(&mut self, config: LearningConfig) -> Result<(), ControlError> {
        self.learning = config;
        Ok(())
    }

    fn forget_learned(&mut self, vlan: Option<u16>, port: Option<PortNo>) -> Result<usize, ControlError> {
        let is_meant = vlan.is_none_or(|vlan| vlan == 5) && port.is_none_or(|port| port == PortNo(1));
        let forgets = is_meant && !self.forgot;
        self.forgot |= forgets;
        Ok(usize::from(forgets))
    }

    fn stop(mut self) -> Result<Ended, ControlError> {
        Ok(Ended { report: self.report()?, buffers_missing: 0 })
    }
}

impl Tables for Double {
    fn apply(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        if let Some(Change::Flow(FlowMod::Add(flow))) = changes
            .iter()
            .find(|change| matches!(change, Change::Flow(FlowMod::Add(flow)) if flow.priority == 666))
        {
            return Err(ControlError(format!("the table is full at priority {}", flow.priority)));
        }
        for change in &changes {
            match change {
                Change::Flow(FlowMod::Add(flow)) => {
                    self.flows.retain(|stats| !same(stats, flow));
                    let (packets, bytes) = (7, 420);
                    let (age, idle) = (Duration::from_millis(1500), Duration::from_secs(1));
                    self.flows.push(FlowStats { flow: flow.clone(), packets, bytes, age, idle });
                }
                Change::Flow(FlowMod::Delete(select)) => self.flows.retain(|stats| {
                    let meant = match select.strict {
                        None => select.matching.covers(&stats.flow.matching),
                        Some(priority) => {
                            priority == stats.flow.priority && select.matching == stats.flow.matching
                        }
                    };
                    !meant
                }),
                Change::SetGroup(group) | Change::AddGroup(group) | Change::ModifyGroup(group) => {
                    drop(self.groups.insert(group.id, group.clone()))
                }
                Change::DeleteGroup(id) => self.groups.retain(|other, _| id.is_some_and(|id| id != *other)),
                Change::SetMeter(meter) | Change::AddMeter(meter) | Change::ModifyMeter(meter) => {
                    drop(self.meters.insert(meter.id, meter.clone()))
                }
                Change::DeleteMeter(id) => self.meters.retain(|other, _| id.is_some_and(|id| id != *other)),
                Change::Flow(FlowMod::Modify { .. })
                | Change::InsertBuckets(..)
                | Change::RemoveBuckets(..)
                | Change::SetEviction(..) => {}
            }
        }
        self.behind.lock().unwrap().applied.push(changes);
        Ok(())
    }

    fn apply_all(&mut self, changes: Vec<Change>, _: bool) -> Result<Applied, ApplyError> {
        self.apply(changes)?;
        Ok(Applied::default())
    }

    fn apply_each(&mut self, changes: Vec<Change>, _: bool) -> Result<Applied, ControlError> {
        self.apply(changes).map(|()| Applied::default())
    }

    fn ahead(&self) -> Option<Box<dyn Ahead>> {
        None
    }

    fn apply_ahead(&mut self, _: Box<dyn Ahead>) -> Result<bool, ControlError> {
        Ok(false)
    }

    fn flows_of(&mut self, select: &Select) -> Result<Vec<FlowStats>, ControlError> {
        Ok(self.flows.iter().filter(|stats| select.is_meant(&stats.flow)).cloned().collect())
    }

    fn sum_of(&mut self, select: &Select) -> Result<FlowSum, ControlError> {
        let meant = self.flows_of(select)?;
        let (packets, bytes) = (meant.iter().map(|one| one.packets), meant.iter().map(|one| one.bytes));
        Ok(FlowSum { flows: meant.len(), packets: packets.sum(), bytes: bytes.sum() })
    }

    fn ports(&self) -> Vec<PortAbout> {
        let of = |(number, spec): (&PortNo, &PortSpec)| PortAbout {
            number: *number,
            name: spec.name.clone(),
            mac: [2, 0, 0, 0, 0, number.0 as u8],
            link_up: true,
            flags: PortFlags::default(),
            age: Duration::ZERO,
        };
        self.ports.iter().map(of).collect()
    }

    fn configure_port(&mut self, _: PortNo, _: PortFlags) -> Result<(), ControlError> {
        Ok(())
    }

    fn set_wants(&mut self, _: Wants) -> Result<(), ControlError> {
        Ok(())
    }

    fn packet_out(&mut self, _: PacketOut) -> Result<(), Refused> {
        Ok(())
    }

    fn settled(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    fn packet_ins(&mut self) -> Vec<PacketIn> {
        Vec::new()
    }

    fn happened(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn groups(&mut self) -> Result<Vec<GroupStats>, ControlError> {
        let of = |group: &Group| GroupStats {
            group: group.clone(),
            packets: 3,
            bytes: 180,
            buckets: group.buckets.iter().map(|_| (3, 180)).collect(),
            age: Duration::from_millis(2500),
            flows: 1,
        };
        Ok(self.groups.values().map(of).collect())
    }

    fn meters(&mut self) -> Vec<MeterStats> {
        let of = |meter: &Meter| MeterStats {
            meter: meter.clone(),
            packets: 9,
            bytes: 540,
            bands: meter.bands.iter().map(|_| (2, 120)).collect(),
            age: Duration::from_millis(2500),
            flows: 2,
        };
        self.meters.values().map(of).collect()
    }

    fn flows(&mut self) -> Result<Vec<FlowStats>, ControlError> {
        Ok(self.flows.clone())
    }

    fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &Value,
    ) -> Result<Vec<Value>, ControlError> {
        if service != "conntrack" {
            return Err(ControlError(format!("there is no service `{service}`")));
        }
        let asked = (service.to_owned(), command.to_owned(), argument.clone());
        self.behind.lock().unwrap().commands.push(asked);
        // Two workers, of 300 and 700 connections, which they keep at places of their own.
        // Each goes on at its own place of `from`; one that said no `next` is done.
        let from = |worker: u64| match &argument["from"] {
            Value::Array(places) => places[worker as usize].as_u64(),
            place => Some(place.as_u64().unwrap_or(0)),
        };
        let limit = argument["limit"].as_u64().unwrap_or(u64::MAX);
        let part = |worker: u64, connections: u64, step: u64| {
            let from = from(worker).unwrap_or(u64::MAX);
            let all = (0..connections).filter(|number| number * step >= from);
            let found: Vec<Value> =
                all.clone().take(limit as usize).map(|number| json!([worker, number])).collect();
            let next = all.map(|number| number * step).nth(limit as usize);
            let what = if command == "flush" { json!(found.len()) } else { Value::Null };
            json!({ "connections": found, "flushed": what, "next": next })
        };
        Ok(vec![part(0, 300, 3), part(1, 700, 2)])
    }

    fn port_counts(&mut self) -> Result<Vec<PortCounts>, ControlError> {
        Ok(self.report()?.ports.iter().map(PortReport::counts).collect())
    }

    fn table_counts(&mut self) -> Result<Vec<TableSum>, ControlError> {
        Ok(self.report()?.tables.iter().map(TableReport::sum).collect())
    }
}

/// A switch over the double, with its socket.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) behind: Arc<Mutex<Behind>>,
    pub(crate) asks: SyncSender<Inbound>,
    socket: Option<ControlSocket>,
    thread: Option<JoinHandle<Result<Ended, RunError>>>,
    pub(crate) configuration: Arc<Mutex<Settings>>,
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let double = Double::new();
        let behind = double.behind.clone();
        let configuration = Arc::new(Mutex::new(settings.clone()));
        let read = configuration.clone();
        let loader = Box::new(move || Ok(read.lock().unwrap().clone()));
        let about = About { weir: "1".to_owned(), dpdk: "DPDK".to_owned(), tsc_hz: 1e9 };
        let (asks, inbox) = sync_channel(8);
        let channels = settings.openflow != ChannelSettings::default();
        let mut switch =
            Switch::new(double, settings, loader, about).unwrap_or_else(|error| panic!("{error}"));
        if channels {
            switch.connect(asks.clone()).unwrap();
        }
        let socket = ControlSocket::listen(&folder.path().join("control"), asks.clone()).unwrap();
        let thread = Some(std::thread::spawn(move || switch.run(&inbox)));
        Self { folder, behind, asks, socket: Some(socket), thread, configuration }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.path()).unwrap()
    }

    /// Waits for the switch, which ends by itself; how.
    pub(crate) fn failed(mut self) -> RunError {
        self.thread.take().unwrap().join().unwrap().expect_err("it does not end well")
    }

    /// Waits for the switch, which was told to stop.
    pub(crate) fn ended(mut self) -> Ended {
        let ended = self.thread.take().unwrap().join().unwrap().unwrap();
        self.socket = None;
        assert!(!self.path().exists(), "the socket goes with the switch");
        ended
    }
}

/// Settings without a control socket of their own, from TOML.
pub(crate) fn settings(text: &str) -> Settings {
    let known = weir_switch::Known { kinds: vec!["conntrack", "counter"] };
    Settings::parse(text, std::path::Path::new("switch.toml"), &known)
        .unwrap_or_else(|error| panic!("{error}"))
}

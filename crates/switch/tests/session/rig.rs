//! A switch with a real datapath, and `ovs-ofctl` at its Unix socket.

use std::process::{Command, Output};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use weir_datapath::{Datapath, PollMode};
use weir_dpdk::{Eal, EalConfig, Memory};
use weir_openflow::PortNo;
use weir_switch::{
    About, ChannelSettings, Ended, Inbound, PortSpec, Request, RunError, Settings, Switch, ask,
};
use weir_units::Nanos;

/// Ports of the switch: 1 to 4.
const PORTS: u32 = 4;

pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) asks: SyncSender<Inbound>,
    thread: Option<JoinHandle<Result<Ended, RunError>>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ChannelSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let eal = EalConfig { memory: Memory::Normal, megabytes: 512, pci: false };
        let eal = Eal::init(eal).expect("EAL starts anywhere");
        let path = folder.path().join("of");
        let mut openflow = ChannelSettings {
            listen: vec![format!("punix:{}", path.display()).parse().unwrap()],
            ..ChannelSettings::default()
        };
        change(&mut openflow);
        let ports = (1..=PORTS).map(|number| PortSpec {
            name: format!("p{number}"),
            number: Some(PortNo(number)),
            spec: "null".to_owned(),
            queues: 1,
            descriptors: 64,
        });
        let settings = Settings {
            buffers: 8192,
            seed: Some(7),
            control: None,
            poll: PollMode::Adaptive { within: Nanos(1_000_000) }, // while clients are at work, it sleeps
            ports: ports.collect(),
            openflow,
            ..Settings::default()
        };
        let loader_settings = settings.clone();
        let datapath = Datapath::start(eal, settings.datapath(7)).unwrap();
        let about = About { weir: "1".to_owned(), dpdk: "DPDK".to_owned(), tsc_hz: 1e9 };
        let loader = Box::new(move || Ok(loader_settings.clone()));
        let mut switch =
            Switch::new(datapath, settings, loader, about).unwrap_or_else(|error| panic!("{error}"));
        let (asks, inbox) = sync_channel(64);
        switch.connect(asks.clone()).unwrap();
        let thread = std::thread::spawn(move || switch.run(&inbox));
        Self { folder, asks, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("of")
    }

    /// Runs `ovs-ofctl` in a version of OpenFlow; the switch's address is put behind the command.
    pub(crate) fn run(&self, version: &str, arguments: &[&str]) -> Output {
        let words = arguments.iter().position(|word| !word.starts_with('-')).unwrap() + 1;
        let mut command = Command::new("timeout");
        command.args(["60", "ovs-ofctl", "-O", version]).args(&arguments[..words]);
        command.arg(format!("unix:{}", self.socket().display())).args(&arguments[words..]);
        command.current_dir(self.folder.path()).output().unwrap()
    }

    /// What a command prints when all is well.
    pub(crate) fn said(&self, version: &str, arguments: &[&str]) -> String {
        let output = self.run(version, arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{version} {arguments:?}: {told}");
        assert!(!told.contains("OFPT_ERROR"), "{version} {arguments:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command is refused with.
    pub(crate) fn refused(&self, version: &str, arguments: &[&str]) -> String {
        let output = self.run(version, arguments);
        let told =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("OFPT_ERROR") || told.contains("Error OFP"), "{version} {arguments:?}: {told}");
        told
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        name.to_owned()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = ask(&self.asks, Request::Stop {});
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().expect("the switch does not panic").unwrap();
            assert_eq!(ended.buffers_missing, 0);
        }
    }
}

/// Waits for something to be told.
pub(crate) fn wait_for(what: &str, told: &dyn Fn() -> String, is: impl Fn(&str) -> bool) {
    for _ in 0..500 {
        if is(&told()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} is not told: {}", told());
}

/// Whether `ovs-ofctl` is there.
pub(crate) fn has_ofctl() -> bool {
    weir_testkit::needs!(weir_testkit::Need::Program("ovs-ofctl", "openvswitch-switch"))
}

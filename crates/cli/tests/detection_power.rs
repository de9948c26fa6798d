//! How rare a fault may be and still be found: one-second trials of devices that do wrong with a share of their
//! packets, drawn by chance. `docs/truth.md` has the table.
//!
//! ```text
//! cargo test --release -p weir --test cli detection_power -- --ignored --nocapture
//! ```
//!
//! `WEIR_TRIALS` (100), `WEIR_WIRINGS` (`vhost memif`) and `WEIR_FAULTS` (`no-ttl:1e-5 ...`) change what is run.

use std::io::{BufRead as _, BufReader};
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weir_dpdk::{Eal, EalConfig, Memory, Pool, Port, PortConfig};
use weir_dut::folder::Folder;
use weir_dut::wiring::{Memif, Side, Vhost};
use weir_traffic::trace::{Sizes, TraceSpec};
use weir_traffic::{DirectionSetup, Layout, Sender, Shape, Tester};
use weir_trial::verdict::Code;
use weir_trial::{Nf, Oracle, TrialSpec, judge};
use weir_units::{FrameSize, Nanos, Pps};

/// A load that any machine carries, and the length of a trial.
const SPEC: TrialSpec = TrialSpec { load: Pps(500_000.0), duration: Nanos(Nanos::PER_SECOND) };

/// Every fault that is found packet by packet: function, kind, frame size, and by which finding.
const FAULTS: [(&str, &str, u32, Code); 10] = [
    ("l3fwd:10", "no-ttl", 64, Code::WrongPackets),
    ("l3fwd:10", "bad-checksum", 64, Code::WrongPackets),
    ("l2fwd", "corrupt", 64, Code::WrongPackets),
    ("l2fwd", "swap", 64, Code::WrongPackets),
    ("l2fwd", "no-checksum", 128, Code::WrongPackets),
    ("l2fwd", "young", 64, Code::WrongPackets),
    ("l2fwd", "duplicate", 64, Code::Duplicated),
    ("l2fwd", "replay", 64, Code::Duplicated),
    ("l2fwd", "reorder", 64, Code::Reordered),
    ("l2fwd", "delay", 64, Code::Reordered),
];

/// A device with a tester at its ports. The tester goes first, or memif's memory would go under the device's feet.
struct Rig {
    tester: Option<Tester>,
    device: Child,
    _folder: Folder,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.device.kill();
        let _ = self.device.wait();
        self.tester = None;
    }
}

impl Rig {
    fn new(number: u32, wiring: &str, nf: &str, fault: Option<&str>, size: u32) -> Self {
        let config = EalConfig { memory: Memory::Normal, megabytes: 256, pci: false };
        let eal = Eal::init(config).expect("EAL starts anywhere");
        let (folder, frame) = (Folder::new().unwrap(), FrameSize::new(1522).unwrap());
        let ports = |side, number| match wiring {
            "vhost" => Vhost::default().ports(side, &folder, number, 2),
            "memif" => Memif::default().ports(side, &folder, (number, 2), frame),
            other => panic!("WEIR_WIRINGS: `{other}` is neither vhost nor memif"),
        };
        let cores = weir_cpu::allowed_cores();
        let [.., tester, dut] = cores[..] else { panic!("two cores are needed, one is there") };
        let open = || {
            let pool = Pool::new(eal, 16_384, frame).unwrap();
            let ports = ports(Side::Lab, number);
            let ports: Vec<Port> =
                ports.iter().map(|spec| Port::open(spec, PortConfig::default(), &pool).unwrap()).collect();
            (pool, ports)
        };
        let start = || {
            let (kind, entries) = nf.split_once(':').unwrap_or((nf, ""));
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            command.args(["nf", kind, "--control", "stdio", "--core", &dut.to_string()]);
            for port in ports(Side::Dut, 0) {
                command.args(["--port", &port]);
            }
            command.args(fault.map_or(vec![], |fault| vec!["--fault", fault]));
            command.args(if entries.is_empty() { vec![] } else { vec!["--entries", entries] });
            let mut device = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut ready = String::new();
            BufReader::new(device.stdout.take().unwrap()).read_line(&mut ready).unwrap();
            assert!(ready.contains("\"ready\":true"), "{ready}");
            device
        };
        let dut_first =
            if wiring == "vhost" { Vhost::default().dut_first() } else { Memif::default().dut_first() };
        let (device, (pool, mut ports)) = if dut_first {
            let device = start();
            (device, open())
        } else {
            let opened = open();
            (start(), opened)
        };
        ports.iter().for_each(|port| port.wait_link(Duration::from_secs(10)).unwrap());
        let (receivers, mut senders): (Vec<_>, Vec<_>) =
            ports.iter_mut().filter_map(Port::take_queue).map(|(rx, tx)| (vec![rx], tx)).unzip();
        let spec = TraceSpec::parse("flows:1000").unwrap();
        let source = spec.sizes(Sizes::Fixed(FrameSize::new(size).unwrap())).build().unwrap();
        let sender = Sender::new(source, senders.remove(0), &pool, Shape::Constant, NonZeroU32::MIN, 1);
        let layout = Layout::of(&[tester], 2, &[1], 1);
        let directions = vec![DirectionSetup { senders: vec![sender], from: 0, to: 1 }];
        let mut tester = Tester::new(eal, &layout, ports, receivers, directions);
        tester.compare_with(Arc::new(Oracle::new(nf.parse::<Nf>().unwrap())));
        Self { tester: Some(tester), device, _folder: folder }
    }

    /// Of so many trials, those in which this was found; the packets that came in all.
    fn found(&mut self, trials: u32, code: Code) -> (u32, u64, Vec<String>) {
        let tester = self.tester.as_mut().unwrap();
        let (mut found, mut packets, mut others) = (0, 0, Vec::new());
        for _ in 0..trials {
            let result = tester.run(SPEC, &Arc::default()).unwrap();
            let verdict = judge(&result);
            found += u32::from(verdict.has(code));
            packets += result.total().received;
            let wrong =
                verdict.findings.iter().filter(|one| one.weight == weir_trial::verdict::Weight::Wrong);
            others.extend(wrong.map(|one| format!("{}: {}", one.code.name(), one.says)));
        }
        (found, packets, others)
    }
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

#[test]
#[ignore = "a hundred seconds for each fault and wiring: 40 minutes"]
fn the_rarest_fault_that_is_found_in_99_of_100_trials() {
    let trials: u32 = setting("WEIR_TRIALS", "100").parse().expect("WEIR_TRIALS is a number");
    let every: Vec<String> = FAULTS.iter().map(|(_, kind, ..)| format!("{kind}:1e-5")).collect();
    let faults = setting("WEIR_FAULTS", &every.join(" "));
    let mut number = 0;
    println!("| wiring | fault | found | packets a trial |\n|---|---|---|---|");
    for wiring in setting("WEIR_WIRINGS", "vhost memif").split_whitespace() {
        for fault in faults.split_whitespace() {
            let (kind, share) = fault.split_once(':').expect("KIND:SHARE");
            let (nf, _, size, code) = FAULTS
                .into_iter()
                .find(|row| row.1 == kind)
                .unwrap_or_else(|| panic!("{kind} is none of {FAULTS:?}"));
            number += 1;
            let (found, packets, _) = Rig::new(number, wiring, nf, Some(fault), size).found(trials, code);
            println!("| {wiring} | {fault} | {found} of {trials} | {} |", packets / u64::from(trials));
            let met = packets as f64 / f64::from(trials) * share.parse::<f64>().unwrap();
            // Of a Poisson number of faults: none with a chance of exp(-met). Each that comes is found.
            let expected = f64::from(trials) * (1.0 - (-met).exp());
            let spread = (expected * (-met).exp()).sqrt().max(0.5);
            assert!(f64::from(found) > expected - 4.0 * spread, "{expected:.1} were to be found");
        }
        // And nothing is found where nothing is wrong.
        for nf in ["l2fwd", "l3fwd:10"] {
            number += 1;
            let (_, packets, wrong) =
                Rig::new(number, wiring, nf, None, 64).found(trials.min(20), Code::WrongPackets);
            println!(
                "| {wiring} | none ({nf}) | {} of {} | {} |",
                wrong.len(),
                trials.min(20),
                packets / u64::from(trials.min(20))
            );
            assert!(wrong.is_empty(), "{wrong:?}");
        }
    }
}
